//! Where timelines, documents and commands are kept: memory and SQLite.
