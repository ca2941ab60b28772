-- Schedules: the moment up to which their ticks are settled, which means published or left out. The table was added with format 11.
CREATE TABLE breadcrumb_ticks (
    breadcrumb INTEGER PRIMARY KEY,
    settled    INTEGER NOT NULL,
    checksum   INTEGER NOT NULL
) STRICT;
