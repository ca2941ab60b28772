//! The rows of breadcrumbs in a SQLite file, within the transaction of a connection. No method waits, so no future of them does.

use baton_breadcrumb::Trigger;
use baton_types::breadcrumb::{BreadcrumbVersion, VectorKind};
use baton_types::id::{BreadcrumbId, ContentHash, ProjectId, RunId};
use baton_types::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::columns::{COLUMNS, read, row_checksum};
use super::{Totals, triggers, vectors};
use crate::StoreError;
use crate::breadcrumbs::row::{BreadcrumbRow, KeyRow, damaged, encoded};
use crate::breadcrumbs::rows::{NewVersion, Rows, SWEPT};
use crate::sqlite::records::checksum_of;
use crate::sqlite::to_sql;

/// Begins the name of a key of which only the hash is known.
const HASHED: &str = "blake3:";

/// Returns the row of the record `id`. That there is none is believed only after all rows were counted.
pub(super) fn find(file: &Connection, id: &BreadcrumbId) -> Result<Option<BreadcrumbRow>, StoreError> {
    let mut statement = file.prepare_cached(&format!("SELECT {COLUMNS} FROM breadcrumbs WHERE id = ?1"))?;
    let found = statement.query_row([id.as_str()], |row| Ok(read(row))).optional()?.transpose()?;
    match found {
        Some(found) if found.id == *id => Ok(Some(found)),
        Some(other) => Err(damaged(format!("breadcrumb {} is filed under another id", other.id))),
        None => {
            let (rows, is_there): (i64, bool) = file
                .prepare_cached("SELECT count(*), coalesce(max(+id = ?1), 0) FROM breadcrumbs NOT INDEXED")?
                .query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
            if is_there || rows as u64 != Totals::load(file)?.breadcrumbs {
                return Err(damaged(format!("the row of breadcrumb {id} cannot be found, or others are missing")));
            }
            Ok(None)
        }
    }
}

/// Returns the rows that a condition selects.
pub(super) fn select(
    file: &Connection,
    condition: &str,
    values: impl rusqlite::Params,
) -> Result<Vec<BreadcrumbRow>, StoreError> {
    let mut statement =
        file.prepare_cached(&format!("SELECT {COLUMNS} FROM breadcrumbs WHERE {condition} ORDER BY breadcrumb"))?;
    statement.query_map(values, |row| Ok(read(row)))?.collect::<Result<Result<_, _>, _>>()?
}

fn version(file: &Connection, row: &BreadcrumbRow, version: u64) -> Result<BreadcrumbVersion, StoreError> {
    let found = file
        .prepare_cached("SELECT record, checksum FROM breadcrumb_versions WHERE breadcrumb = ?1 AND version = ?2")?
        .query_row(params![row.number, to_sql(version)], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))
        .optional()?;
    let (text, checksum) = found.ok_or_else(|| row.lacks(version))?;
    if checksum != version_checksum(row.number, version, &text) {
        return Err(row.differs(version));
    }
    row.read_version(version, &text)
}

/// Writes the row of a record.
pub(super) fn save(file: &Connection, row: &BreadcrumbRow) -> Result<(), StoreError> {
    file.prepare_cached(&format!(
        "INSERT OR REPLACE INTO breadcrumbs ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"
    ))?
    .execute(params![
        row.number,
        row.id.as_str(),
        encoded(&row.owner),
        row.project.as_str(),
        encoded(&row.visibility),
        encoded(&row.sensitivity),
        row.schema_name,
        row.defines,
        to_sql(row.version),
        to_sql(row.read_count),
        row.ends,
        row.updated,
        row_checksum(row)
    ])?;
    Ok(())
}

/// Writes the text of a version.
pub(super) fn save_version(file: &Connection, number: i64, version: u64, text: &str) -> Result<(), StoreError> {
    file.prepare_cached("INSERT INTO breadcrumb_versions (breadcrumb, version, record, checksum) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![number, to_sql(version), text, version_checksum(number, version, text)])?;
    Ok(())
}

/// Files the words of a version in place of those that its record had.
fn index_words(file: &Connection, number: i64, version: &NewVersion<'_>) -> Result<(), StoreError> {
    let record = &version.made.breadcrumb;
    file.prepare_cached(
        "INSERT OR REPLACE INTO breadcrumb_words (rowid, title, description, tags, context) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![
        number,
        record.title,
        record.description.as_deref().unwrap_or_default(),
        record.tags.join(" "),
        version.searched
    ])?;
    Ok(())
}

/// Files the tags and words of a new version.
fn file_version(file: &Connection, number: i64, version: &NewVersion<'_>) -> Result<(), StoreError> {
    let mut tags = file.prepare_cached("INSERT INTO breadcrumb_tags (tag, breadcrumb) VALUES (?1, ?2)")?;
    for tag in &version.made.breadcrumb.tags {
        tags.execute(params![tag, number])?;
    }
    index_words(file, number, version)
}

fn remove_tags(file: &Connection, number: i64, of: &[String]) -> Result<(), StoreError> {
    let mut tags = file.prepare_cached("DELETE FROM breadcrumb_tags WHERE tag = ?1 AND breadcrumb = ?2")?;
    of.iter().try_for_each(|tag| tags.execute(params![tag, number]).map(drop)).map_err(StoreError::from)
}

fn version_checksum(number: i64, version: u64, text: &str) -> i64 {
    checksum_of(&(number, version, ContentHash::of(text.as_bytes()).as_bytes()))
}

fn key_checksum(key: &str, row: KeyRow) -> i64 {
    checksum_of(&(key, row.number, row.version, row.request.as_bytes()))
}

/// Returns the name under which a key is filed that came from a database, which has only its hash. Other names have a line break.
pub(super) fn hashed_name(hash: ContentHash) -> String {
    format!("{HASHED}{hash}")
}

/// Returns the hash of a key that is filed under `name`.
pub(crate) fn key_hash(name: &str) -> ContentHash {
    let hashed = name.strip_prefix(HASHED).and_then(ContentHash::from_hex);
    hashed.unwrap_or_else(|| ContentHash::of(name.as_bytes()))
}

/// Returns the row of a key. That there is none is believed only after all rows were counted.
pub(super) fn key_row(file: &Connection, key: &str) -> Result<Option<KeyRow>, StoreError> {
    let found = file
        .prepare_cached("SELECT breadcrumb, version, request, checksum, key FROM breadcrumb_keys WHERE key IN (?1, ?2)")?
        .query_row([key, &hashed_name(key_hash(key))], |row| {
            let request = ContentHash::from_bytes(row.get(2)?);
            let found = KeyRow { number: row.get(0)?, version: row.get::<_, i64>(1)? as u64, request };
            Ok((found, row.get::<_, i64>(3)?, row.get::<_, String>(4)?))
        })
        .optional()?;
    match found {
        Some((found, checksum, name)) if checksum == key_checksum(&name, found) => Ok(Some(found)),
        Some(_) => Err(damaged(format!("the key {key:?} of a breadcrumb does not match its checksum"))),
        None => {
            // A damaged index must not let a write happen twice.
            let keys: i64 = file.prepare_cached("SELECT count(*) FROM breadcrumb_keys")?.query_row([], |row| row.get(0))?;
            if keys as u64 == Totals::load(file)?.keys { Ok(None) } else { Err(damaged("keys of breadcrumbs are missing")) }
        }
    }
}

impl Rows for Connection {
    async fn find(&self, id: &BreadcrumbId) -> Result<Option<BreadcrumbRow>, StoreError> {
        find(self, id)
    }

    // A file has one writer at a time.
    async fn find_to_change(&self, id: &BreadcrumbId) -> Result<Option<BreadcrumbRow>, StoreError> {
        find(self, id)
    }

    async fn load_to_change(&self, number: i64) -> Result<BreadcrumbRow, StoreError> {
        let mut statement = self.prepare_cached(&format!("SELECT {COLUMNS} FROM breadcrumbs WHERE breadcrumb = ?1"))?;
        let found = statement.query_row([number], |row| Ok(read(row))).optional()?;
        found.unwrap_or_else(|| Err(damaged(format!("the row of breadcrumb number {number} is missing"))))
    }

    async fn of_schema(&self, schema: &str, project: Option<&ProjectId>) -> Result<Vec<BreadcrumbRow>, StoreError> {
        match project {
            None => select(self, "schema_name = ?1", [schema]),
            Some(project) => select(self, "schema_name = ?1 AND project = ?2", [schema, project.as_str()]),
        }
    }

    async fn defining(&self, schema: &str) -> Result<Vec<BreadcrumbRow>, StoreError> {
        select(self, "defines = ?1", [schema])
    }

    async fn versions(&self, wanted: &[(&BreadcrumbRow, u64)]) -> Result<Vec<BreadcrumbVersion>, StoreError> {
        wanted.iter().map(|(row, number)| version(self, row, *number)).collect()
    }

    async fn write_version(&self, version: NewVersion<'_>) -> Result<i64, StoreError> {
        let (record, mut row) = (&version.made.breadcrumb, version.row.clone());
        let mut totals = Totals::load(self)?;
        totals.versions += 1;
        if row.number == 0 {
            totals.breadcrumbs += 1;
            let next = "SELECT coalesce(max(breadcrumb), 0) + 1 FROM breadcrumbs";
            row.number = self.prepare_cached(next)?.query_row([], |row| row.get(0))?;
        }
        totals.save(self)?;
        let number = row.number;
        if let Some(before) = version.before {
            remove_tags(self, number, &before.tags)?;
        }
        let text = serde_json::to_string(version.made).expect("a record has only string keys and always serialises");
        save_version(self, number, record.version, &text)?;
        save(self, &row)?;
        file_version(self, number, &version)?;
        vectors::forget(self, number)?;
        Ok(number)
    }

    async fn file_copied(&self, version: NewVersion<'_>) -> Result<(), StoreError> {
        file_version(self, version.row.number, &version)
    }

    async fn save(&self, row: &BreadcrumbRow) -> Result<(), StoreError> {
        save(self, row)
    }

    async fn remove(&self, row: &BreadcrumbRow) -> Result<(), StoreError> {
        let number = row.number;
        remove_tags(self, number, &version(self, row, row.version)?.breadcrumb.tags)?;
        let delete = |table: &str, column: &str| self.execute(&format!("DELETE FROM {table} WHERE {column} = ?1"), [number]);
        let versions = delete("breadcrumb_versions", "breadcrumb")?;
        let keys = delete("breadcrumb_keys", "breadcrumb")?;
        delete("breadcrumb_words", "rowid")?;
        delete("breadcrumb_ticks", "breadcrumb")?;
        vectors::forget(self, number)?;
        delete("breadcrumbs", "breadcrumb")?;
        let Totals { breadcrumbs, versions: all, keys: known } = Totals::load(self)?;
        let less = |number: u64, by: usize| number.saturating_sub(by as u64);
        Totals { breadcrumbs: less(breadcrumbs, 1), versions: less(all, versions), keys: less(known, keys) }.save(self)
    }

    async fn sweep(&self, now: Timestamp) -> Result<(), StoreError> {
        let mut statement = self.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM breadcrumbs WHERE ends IS NOT NULL AND ends <= ?1 ORDER BY ends LIMIT ?2"
        ))?;
        let ended = statement.query_map([now.as_micros(), SWEPT], |row| Ok(read(row)))?;
        let ended: Vec<BreadcrumbRow> = ended.collect::<Result<Result<_, _>, _>>()??;
        for row in &ended {
            self.remove(row).await?;
        }
        Ok(())
    }

    async fn key_to_change(&self, key: &str) -> Result<Option<KeyRow>, StoreError> {
        key_row(self, key)
    }

    async fn save_key(&self, key: &str, row: KeyRow, is_new: bool) -> Result<(), StoreError> {
        if is_new {
            let mut totals = Totals::load(self)?;
            totals.keys += 1;
            totals.save(self)?;
        } else {
            self.prepare_cached("DELETE FROM breadcrumb_keys WHERE key = ?1")?.execute([hashed_name(key_hash(key))])?;
        }
        self.prepare_cached(
            "INSERT OR REPLACE INTO breadcrumb_keys (key, breadcrumb, version, request, checksum) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![key, row.number, to_sql(row.version), row.request.as_bytes(), key_checksum(key, row)])?;
        Ok(())
    }

    async fn settled(&self, number: i64) -> Result<Option<Timestamp>, StoreError> {
        let found: Option<(i64, i64)> = self
            .prepare_cached("SELECT settled, checksum FROM breadcrumb_ticks WHERE breadcrumb = ?1")?
            .query_row([number], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        match found {
            Some((settled, checksum)) if checksum != checksum_of(&(number, settled)) => {
                Err(damaged(format!("the ticks of breadcrumb number {number} do not match their checksum")))
            }
            found => Ok(found.map(|(settled, _)| Timestamp::from_micros(settled))),
        }
    }

    async fn settle_ticks(&self, number: i64, at: Timestamp) -> Result<(), StoreError> {
        let settled = at.as_micros();
        self.prepare_cached("INSERT OR REPLACE INTO breadcrumb_ticks (breadcrumb, settled, checksum) VALUES (?1, ?2, ?3)")?
            .execute(params![number, settled, checksum_of(&(number, settled))])?;
        Ok(())
    }

    async fn save_vector(&self, row: &BreadcrumbRow, kind: &VectorKind, bytes: &[u8]) -> Result<(), StoreError> {
        vectors::save(self, row.number, row.version, kind, bytes)
    }

    async fn add_trigger(&self, trigger: Trigger) -> Result<(), StoreError> {
        triggers::add(self, trigger)
    }

    async fn trigger_to_change(&self, number: u64) -> Result<Trigger, StoreError> {
        triggers::load(self, number)
    }

    async fn save_trigger(&self, trigger: &Trigger) -> Result<(), StoreError> {
        triggers::save(self, trigger)
    }

    async fn trigger_of(&self, run: &RunId) -> Result<Option<Trigger>, StoreError> {
        triggers::of_run(self, run)
    }

    async fn next_triggers(&self, project: &ProjectId, limit: usize) -> Result<Vec<Trigger>, StoreError> {
        triggers::next(self, project, limit)
    }

    async fn run_before(&self, queue: &str, number: u64) -> Result<Option<RunId>, StoreError> {
        triggers::run_before(self, queue, number)
    }
}
