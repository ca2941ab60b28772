-- Moments are microseconds since 1970; texts of entries, commands and inputs are JSON.

-- A run may begin with the first `past_seq` entries of an older run: they are read where they are.
CREATE TABLE runs (
    run      INTEGER PRIMARY KEY,
    id       TEXT    NOT NULL UNIQUE,
    job      TEXT    NOT NULL,
    status   TEXT    NOT NULL,
    created  INTEGER NOT NULL,
    updated  INTEGER NOT NULL,
    last_seq INTEGER NOT NULL DEFAULT 0,
    epoch    INTEGER NOT NULL DEFAULT 0,
    owner    TEXT,
    past     INTEGER REFERENCES runs (run),
    past_seq INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Entries, in the order they were committed: `entries` is `[[moment, entry], ...]`, numbered from `first`.
CREATE TABLE batches (
    batch    INTEGER PRIMARY KEY,
    run      INTEGER NOT NULL,
    first    INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    entries  TEXT    NOT NULL
) STRICT;

-- Where a run's batches are, each by its last entry: all of them under task 0, and those of one task under that task's key.
CREATE TABLE places (
    run   INTEGER NOT NULL,
    task  INTEGER NOT NULL,
    last  INTEGER NOT NULL,
    batch INTEGER NOT NULL,
    PRIMARY KEY (run, task, last)
) STRICT, WITHOUT ROWID;

-- Contents by their BLAKE3 hash, each stored once whatever names it. Has row ids: a tree keyed by the hash would keep large
-- contents in its inner pages.
CREATE TABLE contents (
    content INTEGER PRIMARY KEY,
    hash    BLOB NOT NULL UNIQUE,
    bytes   BLOB NOT NULL
) STRICT;

-- Calls of tools that only log their input, in the order they were committed.
CREATE TABLE logged (
    logged INTEGER PRIMARY KEY,
    run    INTEGER NOT NULL REFERENCES runs (run),
    agent  TEXT    NOT NULL,
    tool   TEXT    NOT NULL,
    task   TEXT    NOT NULL,
    call   TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    input  TEXT    NOT NULL
) STRICT;

CREATE INDEX logged_by_agent ON logged (agent, tool, logged);

-- The inbox. AUTOINCREMENT: a number is never used twice, even after its command is gone.
CREATE TABLE commands (
    command INTEGER PRIMARY KEY AUTOINCREMENT,
    run     INTEGER NOT NULL REFERENCES runs (run),
    body    TEXT    NOT NULL
) STRICT;

CREATE INDEX commands_by_run ON commands (run, command);
