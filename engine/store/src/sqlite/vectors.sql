-- Vectors of newest versions, for searches by meaning: numbers of 32 bits, little-endian. Only vectors of the same `model` and number of
-- `dimensions` can be compared. The table was added with format 12.
CREATE TABLE breadcrumb_vectors (
    breadcrumb INTEGER PRIMARY KEY,
    version    INTEGER NOT NULL,
    model      TEXT    NOT NULL,
    dimensions INTEGER NOT NULL,
    checksum   INTEGER NOT NULL,
    vector     BLOB    NOT NULL
) STRICT;
