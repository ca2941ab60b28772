-- Moments are microseconds since 1970; texts of entries, commands and inputs are JSON.

-- One row: the version of these tables, and 32 random bytes for keys that only this store can make.
CREATE TABLE baton.format (
    version integer NOT NULL,
    secret  bytea   NOT NULL
);

-- A run may begin with the first `past_seq` entries of an older run: they are read where they are. `link` is that of its last row of
-- entries. Columns after `past_seq` change with each batch; none of them has an index, and pages have free room, so that a change writes
-- no index (a heap-only tuple).
CREATE TABLE baton.runs (
    run      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id       text   NOT NULL UNIQUE,
    job      text   NOT NULL,
    created  bigint NOT NULL,
    past     bigint REFERENCES baton.runs (run),
    past_seq bigint NOT NULL,
    status   text   NOT NULL,
    updated  bigint NOT NULL,
    last_seq bigint NOT NULL,
    epoch    bigint NOT NULL,
    owner    text,
    link     bytea  NOT NULL
) WITH (fillfactor = 60);

CREATE INDEX runs_by_creation ON baton.runs (created, run);
CREATE INDEX runs_by_past ON baton.runs (past) WHERE past IS NOT NULL;

-- Runs whose last owner released them while they waited: the moment at which they continue by themselves.
CREATE TABLE baton.waiting (
    run   bigint PRIMARY KEY,
    wakes bigint NOT NULL
);

CREATE INDEX waiting_by_moment ON baton.waiting (wakes);

-- Entries: `entries` is `[[decision, moment, entry], ...]`, numbered from `first` to `last`. `link` is a hash of the row and of the link
-- before it, so that it stands for the whole timeline up to here.
CREATE TABLE baton.entries (
    run      bigint NOT NULL,
    first    bigint NOT NULL,
    last     bigint NOT NULL,
    checksum bigint NOT NULL,
    link     bytea  NOT NULL,
    entries  text   NOT NULL,
    PRIMARY KEY (run, last)
) PARTITION BY HASH (run);

-- The rows that have entries of a task, by the task's key.
CREATE TABLE baton.places (
    run  bigint NOT NULL,
    task bigint NOT NULL,
    last bigint NOT NULL,
    PRIMARY KEY (run, task, last)
) PARTITION BY HASH (run);

DO $$
BEGIN
    FOR part IN 0..15 LOOP
        EXECUTE format('CREATE TABLE baton.entries_%s PARTITION OF baton.entries FOR VALUES WITH (MODULUS 16, REMAINDER %s)', part, part);
        EXECUTE format('CREATE TABLE baton.places_%s PARTITION OF baton.places FOR VALUES WITH (MODULUS 16, REMAINDER %s)', part, part);
    END LOOP;
END
$$;

-- Contents by their BLAKE3 hash, each stored once whatever names it.
CREATE TABLE baton.contents (
    hash  bytea PRIMARY KEY,
    bytes bytea NOT NULL
);

-- Calls of tools that only log their input, in their order. They outlive their run.
CREATE TABLE baton.logged (
    logged bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    memory text   NOT NULL,
    agent  text   NOT NULL,
    tool   text   NOT NULL,
    run    text   NOT NULL,
    task   text   NOT NULL,
    call   text   NOT NULL,
    at     bigint NOT NULL,
    input  text   NOT NULL
);

CREATE INDEX logged_by_memory ON baton.logged (memory, agent, tool, logged);

-- The inbox. No number is used twice.
CREATE SEQUENCE baton.command_numbers;

CREATE TABLE baton.commands (
    run     bigint NOT NULL,
    command bigint NOT NULL,
    body    text   NOT NULL,
    PRIMARY KEY (run, command)
);

-- The processes that own runs: each is alive until its lease ends.
CREATE TABLE baton.leases (
    owner   text        PRIMARY KEY,
    expires timestamptz NOT NULL
) WITH (fillfactor = 60);
