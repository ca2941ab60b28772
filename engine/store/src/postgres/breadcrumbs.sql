-- Records that outlive runs.

-- A record, by what is searched: `version` is its newest version, `ends` the moment from which it is gone, and `defines` the schema of
-- which it is the definition. Only `ends` and `defines` change and have an index, so most changes write no index.
CREATE TABLE baton.breadcrumbs (
    breadcrumb  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id          text   COLLATE "C" NOT NULL UNIQUE,
    owner       text   NOT NULL,
    project     text   NOT NULL,
    visibility  text   NOT NULL,
    sensitivity text   NOT NULL,
    schema_name text,
    defines     text,
    version     bigint NOT NULL,
    read_count  bigint NOT NULL,
    ends        bigint,
    updated     bigint NOT NULL
) WITH (fillfactor = 70);

CREATE INDEX breadcrumbs_by_schema ON baton.breadcrumbs (schema_name, project) WHERE schema_name IS NOT NULL;
CREATE INDEX breadcrumbs_that_end ON baton.breadcrumbs (ends) WHERE ends IS NOT NULL;
CREATE INDEX breadcrumbs_that_define ON baton.breadcrumbs (defines) WHERE defines IS NOT NULL;

-- Every version of a record, as JSON.
CREATE TABLE baton.breadcrumb_versions (
    breadcrumb bigint NOT NULL,
    version    bigint NOT NULL,
    record     text   NOT NULL,
    checksum   bigint NOT NULL,
    PRIMARY KEY (breadcrumb, version)
);

-- Tags and words of newest versions; the texts themselves are in the versions. Words of titles have the weight A, of tags B, of
-- descriptions C and of contexts D.
CREATE TABLE baton.breadcrumb_words (
    breadcrumb bigint   PRIMARY KEY,
    tags       text[]   NOT NULL,
    words      tsvector NOT NULL
);

CREATE INDEX breadcrumb_words_by_word ON baton.breadcrumb_words USING gin (words);
CREATE INDEX breadcrumb_words_by_tag ON baton.breadcrumb_words USING gin (tags);

-- The version that the write with an idempotency key made, and a hash of that write. `key` is a hash of the key.
CREATE TABLE baton.breadcrumb_keys (
    key        bytea  PRIMARY KEY,
    breadcrumb bigint NOT NULL,
    version    bigint NOT NULL,
    request    bytea  NOT NULL
);

CREATE INDEX breadcrumb_keys_by_breadcrumb ON baton.breadcrumb_keys (breadcrumb);

-- Schedules: the moment up to which their ticks are settled, which means published or left out.
CREATE TABLE baton.breadcrumb_ticks (
    breadcrumb bigint PRIMARY KEY,
    settled    bigint NOT NULL
);

-- Vectors of newest versions, for searches by meaning: numbers of 32 bits, little-endian. Only vectors of the same `model` and number
-- of `dimensions` can be compared.
CREATE TABLE baton.breadcrumb_vectors (
    breadcrumb bigint PRIMARY KEY,
    version    bigint NOT NULL,
    model      text   NOT NULL,
    dimensions bigint NOT NULL,
    vector     bytea  NOT NULL
);

-- Triggers: versions of records that have to be handled once. `waits` is true until a trigger is settled, `queue` names triggers that
-- are handled one after another, and `run` the run that handles it.
CREATE TABLE baton.breadcrumb_triggers (
    trigger bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project text    NOT NULL,
    waits   boolean NOT NULL,
    queue   text,
    run     text,
    body    text    NOT NULL
);

CREATE INDEX triggers_that_wait ON baton.breadcrumb_triggers (project, trigger) WHERE waits;
CREATE INDEX triggers_by_queue ON baton.breadcrumb_triggers (queue, trigger) WHERE queue IS NOT NULL;
CREATE UNIQUE INDEX triggers_by_run ON baton.breadcrumb_triggers (run) WHERE run IS NOT NULL;
