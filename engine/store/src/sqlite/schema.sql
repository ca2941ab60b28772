-- Moments are microseconds since 1970; texts of entries, commands and inputs are JSON.
--
-- Rows have checksums over all that they say. What a checksum cannot tell, that a row is missing, is told by a count elsewhere.

-- A run may begin with the first `past_seq` entries of an older run: they are read where they are. `link` is that of its last
-- row of entries; `commands` and `tasks` count its commands and its tasks with places in the tree. `recent` has the places of its
-- latest batches, which are not yet in the tree: `[[task, ...], [[last, batch, [position of a task, ...]], ...]]`. `wakes` is there
-- if its last owner released it while it waited: the moment at which it continues by itself.
CREATE TABLE runs (
    run      INTEGER PRIMARY KEY,
    id       TEXT    NOT NULL UNIQUE,
    job      TEXT    NOT NULL,
    status   TEXT    NOT NULL,
    created  INTEGER NOT NULL,
    updated  INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    epoch    INTEGER NOT NULL,
    owner    TEXT,
    wakes    INTEGER,
    past     INTEGER REFERENCES runs (run),
    past_seq INTEGER NOT NULL,
    commands INTEGER NOT NULL,
    tasks    INTEGER NOT NULL,
    recent   TEXT    NOT NULL,
    link     BLOB    NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;

CREATE INDEX waiting ON runs (wakes) WHERE wakes IS NOT NULL;
CREATE INDEX called ON runs (run) WHERE wakes IS NOT NULL AND commands > 0;

-- One row: how many runs and memories there are, and the last number that a command got; none is used twice. `secret` has 32 random
-- bytes.
CREATE TABLE totals (
    total    INTEGER PRIMARY KEY,
    runs     INTEGER NOT NULL,
    memories INTEGER NOT NULL,
    commands INTEGER NOT NULL,
    secret   BLOB    NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;

-- Entries, in the order they were committed: `entries` is `[[decision, moment, entry], ...]`, numbered from `first`, as an LZ4 block
-- after its length (see packed.rs). `link` is a hash of the row and of the link before it, so that it stands for the whole
-- timeline up to here.
CREATE TABLE batches (
    batch    INTEGER PRIMARY KEY,
    run      INTEGER NOT NULL,
    first    INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    link     BLOB    NOT NULL,
    entries  BLOB    NOT NULL
) STRICT;

-- Where a run's batches are, each by its last entry, except those of `recent`. All of them are under task 0, and those of one task
-- under that task's key. Under task 1, by the tasks' keys, how many places each task has.
CREATE TABLE IF NOT EXISTS places (
    run   INTEGER NOT NULL,
    task  INTEGER NOT NULL,
    last  INTEGER NOT NULL,
    batch INTEGER NOT NULL,
    PRIMARY KEY (run, task, last)
) STRICT, WITHOUT ROWID;

-- Contents by their BLAKE3 hash, each stored once whatever names it. Has row ids: a tree keyed by the hash would keep large
-- contents in its inner pages.
CREATE TABLE IF NOT EXISTS contents (
    content INTEGER PRIMARY KEY,
    hash    BLOB NOT NULL UNIQUE,
    bytes   BLOB NOT NULL
) STRICT;

-- Calls of tools that only log their input: the `nth` that an agent made of a tool, in any run of a memory. They outlive their run.
CREATE TABLE logged (
    logged   INTEGER PRIMARY KEY,
    memory   TEXT    NOT NULL,
    agent    TEXT    NOT NULL,
    tool     TEXT    NOT NULL,
    nth      INTEGER NOT NULL,
    run      TEXT    NOT NULL,
    task     TEXT    NOT NULL,
    call     TEXT    NOT NULL,
    at       INTEGER NOT NULL,
    input    TEXT    NOT NULL,
    checksum INTEGER NOT NULL,
    UNIQUE (memory, agent, tool, nth)
) STRICT;

-- How many calls an agent logged of a tool, by memory: that of a job, or of a project.
CREATE TABLE memories (
    memory TEXT    NOT NULL,
    agent  TEXT    NOT NULL,
    tool   TEXT    NOT NULL,
    calls  INTEGER NOT NULL,
    PRIMARY KEY (memory, agent, tool)
) STRICT, WITHOUT ROWID;

-- The inbox.
CREATE TABLE commands (
    run      INTEGER NOT NULL REFERENCES runs (run),
    command  INTEGER NOT NULL,
    body     TEXT    NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (run, command)
) STRICT, WITHOUT ROWID;
