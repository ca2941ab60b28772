-- Records that outlive runs.

-- A record, by what is searched: `version` is its newest version, `ends` the moment from which it is gone, and `defines` the
-- schema of which it is the definition.
CREATE TABLE breadcrumbs (
    breadcrumb  INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    owner       TEXT    NOT NULL,
    project     TEXT    NOT NULL,
    visibility  TEXT    NOT NULL,
    sensitivity TEXT    NOT NULL,
    schema_name TEXT,
    defines     TEXT,
    version     INTEGER NOT NULL,
    read_count  INTEGER NOT NULL,
    ends        INTEGER,
    updated     INTEGER NOT NULL,
    checksum    INTEGER NOT NULL
) STRICT;

CREATE INDEX breadcrumbs_by_update ON breadcrumbs (updated);
CREATE INDEX breadcrumbs_by_schema ON breadcrumbs (schema_name, updated);
CREATE INDEX ending ON breadcrumbs (ends) WHERE ends IS NOT NULL;
CREATE INDEX defining ON breadcrumbs (defines) WHERE defines IS NOT NULL;

-- Every version of a record, as JSON. Has row ids: a tree keyed by the record would keep large texts in its inner pages.
CREATE TABLE breadcrumb_versions (
    row        INTEGER PRIMARY KEY,
    breadcrumb INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    record     TEXT    NOT NULL,
    checksum   INTEGER NOT NULL,
    UNIQUE (breadcrumb, version)
) STRICT;

-- The tags of newest versions.
CREATE TABLE breadcrumb_tags (
    tag        TEXT    NOT NULL,
    breadcrumb INTEGER NOT NULL,
    PRIMARY KEY (tag, breadcrumb)
) STRICT, WITHOUT ROWID;

-- The version that the write with an idempotency key made, and a hash of that write.
CREATE TABLE breadcrumb_keys (
    key        TEXT    NOT NULL,
    breadcrumb INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    request    BLOB    NOT NULL,
    checksum   INTEGER NOT NULL,
    PRIMARY KEY (key)
) STRICT, WITHOUT ROWID;

CREATE INDEX keyed ON breadcrumb_keys (breadcrumb);

-- One row: how many records, versions and keys there are.
CREATE TABLE breadcrumb_totals (
    total       INTEGER PRIMARY KEY,
    breadcrumbs INTEGER NOT NULL,
    versions    INTEGER NOT NULL,
    keys        INTEGER NOT NULL,
    checksum    INTEGER NOT NULL
) STRICT;

-- The words of newest versions; the texts themselves are in the versions.
CREATE VIRTUAL TABLE breadcrumb_words USING fts5 (
    title, description, tags, context,
    content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2'
);

-- Schedules: the moment up to which their ticks are settled, which means published or left out.
CREATE TABLE breadcrumb_ticks (
    breadcrumb INTEGER PRIMARY KEY,
    settled    INTEGER NOT NULL,
    checksum   INTEGER NOT NULL
) STRICT;

-- Vectors of newest versions, for searches by meaning: numbers of 32 bits, little-endian. Only vectors of the same `model` and number of
-- `dimensions` can be compared.
CREATE TABLE breadcrumb_vectors (
    breadcrumb INTEGER PRIMARY KEY,
    version    INTEGER NOT NULL,
    model      TEXT    NOT NULL,
    dimensions INTEGER NOT NULL,
    checksum   INTEGER NOT NULL,
    vector     BLOB    NOT NULL
) STRICT;

-- Triggers: versions of records that have to be handled once. `waits` is 1 until a trigger is settled,
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
