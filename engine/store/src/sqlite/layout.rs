//! The schema that a store must have, to the letter.
//!
//! A file that was received may have a view over an endless query in place of a table, a trigger that deletes what is written,
//! or a column that is computed. So the schema is compared with the one that this program makes, before anything is read.

use std::path::Path;
use std::sync::OnceLock;

use rusqlite::Connection;

use super::named;
use super::schema::TABLES;
use crate::StoreError;

/// A row of `sqlite_schema`: type, name, table, and the text that made it.
type Part = (String, String, String, Option<String>);

/// Refuses a file with a table, index, view or trigger that a new store does not have, and one that lacks a part of it.
pub(super) fn check(path: &Path, connection: &Connection) -> Result<(), StoreError> {
    static EXPECTED: OnceLock<Vec<Part>> = OnceLock::new();
    let named = |error: rusqlite::Error| named(path, error);
    let expected = EXPECTED.get_or_init(|| made().expect("the schema of this program is made in memory"));
    // One more than expected is enough to refuse: a file may have any number.
    let found = parts(connection, expected.len() + 1).map_err(named)?;
    if found == *expected {
        return Ok(());
    }
    let strange = found.iter().find(|part| !expected.contains(part));
    let what = match (strange, expected.iter().find(|part| !found.contains(part))) {
        (Some((kind, name, ..)), _) => format!("its {kind} {name:?} is not one that baton makes"),
        (None, Some((kind, name, ..))) => format!("its {kind} {name:?} is missing"),
        (None, None) => "a part of its schema exists twice".to_owned(),
    };
    Err(StoreError::ForeignSchema { path: path.to_owned(), what })
}

/// Returns the parts of the schema that this program makes.
fn made() -> rusqlite::Result<Vec<Part>> {
    let made = Connection::open_in_memory()?;
    TABLES.iter().try_for_each(|tables| made.execute_batch(tables))?;
    parts(&made, usize::MAX)
}

/// Returns the parts of a file's schema by name, at most `limit` of them.
fn parts(connection: &Connection, limit: usize) -> rusqlite::Result<Vec<Part>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = connection.prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name, type LIMIT ?1")?;
    statement.query_map([limit], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?.collect()
}

#[cfg(test)]
mod tests {
    use baton_types::id::ContentHash;

    use super::*;
    use crate::sqlite::FORMAT_VERSION;

    /// A store is refused if the text of a table differs by one space, so a change of that text is a change of the format.
    #[test]
    fn the_schema_changes_only_with_the_format() {
        let hash = ContentHash::of(format!("{:?}", made().unwrap()).as_bytes()).to_string()[..16].to_owned();
        assert_eq!((FORMAT_VERSION, hash.as_str()), (17, "2261855faa9edf5f"));
    }
}
