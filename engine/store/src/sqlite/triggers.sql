-- Triggers: versions of records that have to be handled once. The table was added with format 13. `waits` is 1 until a trigger is settled,
-- `queue` names triggers that are handled one after another, and `run` the run that handles it.
CREATE TABLE breadcrumb_triggers (
    trigger  INTEGER PRIMARY KEY,
    project  TEXT    NOT NULL,
    waits    INTEGER NOT NULL,
    queue    TEXT,
    run      TEXT,
    body     TEXT    NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;

CREATE INDEX triggers_that_wait ON breadcrumb_triggers (project, trigger) WHERE waits = 1;
CREATE INDEX triggers_by_queue ON breadcrumb_triggers (queue, trigger) WHERE queue IS NOT NULL;
CREATE UNIQUE INDEX triggers_by_run ON breadcrumb_triggers (run) WHERE run IS NOT NULL;
