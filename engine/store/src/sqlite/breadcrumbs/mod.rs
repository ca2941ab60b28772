//! Breadcrumbs as rows. The store in memory uses the same code, over a connection in memory.
//!
//! A row has checksums over all of it, and counts elsewhere reveal rows that are missing. The index of words has neither: SQLite
//! checks it in `verify`, and damage to it can hide a record from a search, but never change one.

mod in_memory;
mod on_disk;
mod request;
mod search;
mod settle;
mod ticks;
pub(crate) mod triggers;
mod vectors;
mod verify;
mod write;

use baton_breadcrumb::{Access, DEFINITION_SCHEMA, Definition, may_read, searched_text};
use baton_types::breadcrumb::{Breadcrumb, BreadcrumbVersion, Sensitivity, Viewer, Visibility};
use baton_types::id::{BreadcrumbId, ContentHash, ProjectId};
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::records::checksum_of;
use super::to_sql;
use crate::StoreError;

pub(crate) use in_memory::InMemory;
use in_memory::known;
pub(crate) use request::{Request, perform};
use search::search;
pub(super) use verify::verify;

const COLUMNS: &str =
    "breadcrumb, id, owner, project, visibility, sensitivity, schema_name, defines, version, read_count, ends, updated, checksum";

/// The row of a record.
#[derive(Clone, Debug)]
struct BreadcrumbRow {
    number: i64,
    id: BreadcrumbId,
    owner: Principal,
    project: ProjectId,
    visibility: Visibility,
    sensitivity: Sensitivity,
    schema_name: Option<String>,
    defines: Option<String>,
    version: u64,
    read_count: u64,
    ends: Option<i64>,
    updated: i64,
}

fn damaged(what: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt { what: what.to_string() }
}

/// Returns a value as a column has it: its JSON.
fn encoded(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("names and numbers serialise")
}

fn decoded<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<T, StoreError> {
    let text = row.get_ref(column)?.as_str().map_err(damaged)?;
    serde_json::from_str(text).map_err(|error| damaged(format!("a breadcrumb's row: {error}")))
}

/// Whether the file has the tables of records.
fn has_tables(file: &Connection) -> Result<bool, StoreError> {
    has_table(file, "breadcrumbs")
}

/// Whether the file has a table. A file of an earlier format lacks some until it is opened for writing.
fn has_table(file: &Connection, name: &str) -> Result<bool, StoreError> {
    Ok(file.prepare_cached("SELECT 1 FROM sqlite_schema WHERE name = ?1")?.exists([name])?)
}

impl BreadcrumbRow {
    /// Returns the row of `record`, whose number is `number`. `defines` is the schema that it defines.
    fn of(number: i64, record: &Breadcrumb, defines: Option<String>) -> Self {
        Self {
            number,
            id: record.id.clone(),
            owner: record.owner.clone(),
            project: record.project.clone(),
            visibility: record.visibility,
            sensitivity: record.sensitivity,
            schema_name: record.schema_name.clone(),
            defines,
            version: record.version,
            read_count: record.read_count,
            ends: record.ttl.map(Timestamp::as_micros),
            updated: record.updated_at.as_micros(),
        }
    }

    fn read(row: &Row<'_>) -> Result<Self, StoreError> {
        let read = Self {
            number: row.get(0)?,
            id: BreadcrumbId::new(row.get::<_, String>(1)?),
            owner: decoded(row, 2)?,
            project: ProjectId::new(row.get::<_, String>(3)?),
            visibility: decoded(row, 4)?,
            sensitivity: decoded(row, 5)?,
            schema_name: row.get(6)?,
            defines: row.get(7)?,
            version: row.get::<_, i64>(8)? as u64,
            read_count: row.get::<_, i64>(9)? as u64,
            ends: row.get(10)?,
            updated: row.get(11)?,
        };
        if row.get::<_, i64>(12)? == read.checksum() {
            Ok(read)
        } else {
            Err(damaged(format!("the row of breadcrumb {} does not match its checksum", read.id)))
        }
    }

    fn checksum(&self) -> i64 {
        let Self { number, id, owner, project, visibility, sensitivity, .. } = self;
        let Self { schema_name, defines, version, read_count, ends, updated, .. } = self;
        checksum_of(&(
            (number, id, owner, project, visibility, sensitivity),
            (schema_name, defines, version, read_count, ends, updated),
        ))
    }

    /// Returns the row of the record `id`. That there is none is believed only after all rows were counted.
    fn find(file: &Connection, id: &BreadcrumbId) -> Result<Option<Self>, StoreError> {
        if !has_tables(file)? {
            return Ok(None);
        }
        let mut statement = file.prepare_cached(&format!("SELECT {COLUMNS} FROM breadcrumbs WHERE id = ?1"))?;
        let found = statement.query_row([id.as_str()], |row| Ok(Self::read(row))).optional()?.transpose()?;
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

    fn load(file: &Connection, number: i64) -> Result<Self, StoreError> {
        let mut statement = file.prepare_cached(&format!("SELECT {COLUMNS} FROM breadcrumbs WHERE breadcrumb = ?1"))?;
        let found = statement.query_row([number], |row| Ok(Self::read(row))).optional()?;
        found.unwrap_or_else(|| Err(damaged(format!("the row of breadcrumb number {number} is missing"))))
    }

    fn save(&self, file: &Connection) -> Result<(), StoreError> {
        file.prepare_cached(&format!(
            "INSERT OR REPLACE INTO breadcrumbs ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"
        ))?
        .execute(params![
            self.number,
            self.id.as_str(),
            encoded(&self.owner),
            self.project.as_str(),
            encoded(&self.visibility),
            encoded(&self.sensitivity),
            self.schema_name,
            self.defines,
            to_sql(self.version),
            to_sql(self.read_count),
            self.ends,
            self.updated,
            self.checksum()
        ])?;
        Ok(())
    }

    /// Whether the record exists for `viewer` at the moment `now`.
    fn is_for(&self, viewer: &Viewer, now: Timestamp) -> bool {
        let Self { owner, project, visibility, sensitivity, ends, .. } = self;
        let access = Access { owner, project, visibility: *visibility, sensitivity: *sensitivity };
        ends.is_none_or(|ends| ends > now.as_micros()) && may_read(viewer, access)
    }

    /// Returns one version of the record.
    fn version(&self, file: &Connection, version: u64) -> Result<BreadcrumbVersion, StoreError> {
        let lacks = || damaged(format!("breadcrumb {} lacks version {version}", self.id));
        let found = file
            .prepare_cached("SELECT record, checksum FROM breadcrumb_versions WHERE breadcrumb = ?1 AND version = ?2")?
            .query_row(params![self.number, to_sql(version)], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))
            .optional()?;
        let (text, checksum) = found.ok_or_else(lacks)?;
        if checksum != version_checksum(self.number, version, &text) {
            return Err(damaged(format!("version {version} of breadcrumb {} does not match its checksum", self.id)));
        }
        let mut read: BreadcrumbVersion =
            serde_json::from_str(&text).map_err(|error| damaged(format!("breadcrumb {}: {error}", self.id)))?;
        read.breadcrumb.read_count = self.read_count;
        Ok(read)
    }

    /// Returns the version whose definition counts. The first records lack it: their newest version counts, if one does.
    fn defines_by(&self, newest: &BreadcrumbVersion) -> Option<u64> {
        newest.defines_by.or_else(|| self.defines.as_ref().map(|_| self.version))
    }

    /// Returns the definition of the record that counts, with the moment of its version; `None` if it defines nothing.
    fn definition(&self, file: &Connection) -> Result<Option<(Definition, Timestamp)>, StoreError> {
        let newest = self.version(file, self.version)?;
        let is_definition = self.schema_name.as_deref() == Some(DEFINITION_SCHEMA);
        let Some(version) = self.defines_by(&newest).filter(|_| is_definition) else { return Ok(None) };
        let record = self.version(file, version)?.breadcrumb;
        let definition = Definition::read(&record).map_err(|error| damaged(format!("breadcrumb {}: {error}", self.id)))?;
        Ok(Some((definition, record.updated_at)))
    }

    /// Returns the newest version of the record.
    fn newest(&self, file: &Connection) -> Result<Breadcrumb, StoreError> {
        Ok(self.version(file, self.version)?.breadcrumb)
    }
}

fn version_checksum(number: i64, version: u64, text: &str) -> i64 {
    checksum_of(&(number, version, ContentHash::of(text.as_bytes()).as_bytes()))
}

/// The numbers of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    breadcrumbs: u64,
    versions: u64,
    keys: u64,
}

impl Totals {
    fn load(file: &Connection) -> Result<Self, StoreError> {
        let found = file
            .prepare_cached("SELECT breadcrumbs, versions, keys, checksum FROM breadcrumb_totals WHERE total = 1")?
            .query_row([], |row| {
                let number = |index| row.get::<_, i64>(index).map(|number| number as u64);
                Ok((Self { breadcrumbs: number(0)?, versions: number(1)?, keys: number(2)? }, row.get::<_, i64>(3)?))
            })
            .optional()?;
        match found {
            Some((totals, checksum)) if checksum != totals.checksum() => {
                Err(damaged("the totals of the breadcrumbs do not match their checksum"))
            }
            // Nothing was ever written.
            found => Ok(found.map(|(totals, _)| totals).unwrap_or_default()),
        }
    }

    fn save(self, file: &Connection) -> Result<(), StoreError> {
        file.prepare_cached(
            "INSERT OR REPLACE INTO breadcrumb_totals (total, breadcrumbs, versions, keys, checksum) VALUES (1, ?1, ?2, ?3, ?4)",
        )?
        .execute(params![to_sql(self.breadcrumbs), to_sql(self.versions), to_sql(self.keys), self.checksum()])?;
        Ok(())
    }

    fn checksum(self) -> i64 {
        checksum_of(&(self.breadcrumbs, self.versions, self.keys))
    }
}

/// Files the words of a record in place of those that it had.
fn index_words(file: &Connection, number: i64, record: &Breadcrumb, definition: Option<&Definition>) -> Result<(), StoreError> {
    file.prepare_cached(
        "INSERT OR REPLACE INTO breadcrumb_words (rowid, title, description, tags, context) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![
        number,
        record.title,
        record.description.as_deref().unwrap_or_default(),
        record.tags.join(" "),
        searched_text(record, definition)
    ])?;
    Ok(())
}

/// See [`crate::Breadcrumbs::find`].
fn find(file: &Connection, id: &BreadcrumbId, viewer: &Viewer, now: Timestamp) -> Result<Option<Breadcrumb>, StoreError> {
    match BreadcrumbRow::find(file, id)?.filter(|row| row.is_for(viewer, now)) {
        Some(row) => row.newest(file).map(Some),
        None => Ok(None),
    }
}

/// See [`crate::Breadcrumbs::history`].
fn history(
    file: &Connection,
    id: &BreadcrumbId,
    viewer: &Viewer,
    limit: usize,
    now: Timestamp,
) -> Result<Vec<BreadcrumbVersion>, StoreError> {
    let Some(row) = BreadcrumbRow::find(file, id)?.filter(|row| row.is_for(viewer, now)) else { return Ok(Vec::new()) };
    let versions = (1..=row.version).rev().take(limit).map(|version| row.version(file, version));
    // An earlier version may have been more sensitive than the newest one.
    let readable = |version: &Result<BreadcrumbVersion, StoreError>| {
        version.as_ref().map_or(true, |version| may_read(viewer, &version.breadcrumb))
    };
    versions.filter(readable).collect()
}

/// See [`crate::Breadcrumbs::ids`].
fn ids(file: &Connection, prefix: &str, viewer: &Viewer, limit: usize, now: Timestamp) -> Result<Vec<BreadcrumbId>, StoreError> {
    let mut found = Vec::new();
    if !has_tables(file)? {
        return Ok(found);
    }
    let mut statement = file.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM breadcrumbs WHERE id >= ?1 AND substr(id, 1, length(?1)) = ?1 ORDER BY id"
    ))?;
    let mut rows = statement.query([prefix])?;
    while found.len() < limit
        && let Some(row) = rows.next()?
    {
        let row = BreadcrumbRow::read(row)?;
        if row.is_for(viewer, now) {
            found.push(row.id);
        }
    }
    Ok(found)
}

/// Returns the scope in which a key is unique.
fn scoped(project: &ProjectId, key: &str) -> String {
    format!("{project}\n{key}")
}

/// Returns the record and the version that a keyed write made, and a hash of that write.
fn key_row(file: &Connection, key: &str) -> Result<Option<(i64, u64, ContentHash)>, StoreError> {
    if !has_tables(file)? {
        return Ok(None);
    }
    let found = file
        .prepare_cached("SELECT breadcrumb, version, request, checksum FROM breadcrumb_keys WHERE key = ?1")?
        .query_row([key], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)? as u64, row.get(2)?, row.get::<_, i64>(3)?)))
        .optional()?;
    match found {
        None => {
            // A damaged index must not let a write happen twice.
            let keys: i64 = file.prepare_cached("SELECT count(*) FROM breadcrumb_keys")?.query_row([], |row| row.get(0))?;
            if keys as u64 == Totals::load(file)?.keys { Ok(None) } else { Err(damaged("keys of breadcrumbs are missing")) }
        }
        Some((number, version, request, checksum)) => {
            let request = ContentHash::from_bytes(request);
            if checksum == checksum_of(&(key, number, version, request.as_bytes())) {
                Ok(Some((number, version, request)))
            } else {
                Err(damaged(format!("the key {key:?} of a breadcrumb does not match its checksum")))
            }
        }
    }
}

/// See [`crate::Breadcrumbs::definition`]. The newest that the project has, else the newest public one.
fn definition(file: &Connection, schema: &str, project: &ProjectId, now: Timestamp) -> Result<Option<Definition>, StoreError> {
    if !has_tables(file)? {
        return Ok(None);
    }
    let mut statement = file.prepare_cached(&format!("SELECT {COLUMNS} FROM breadcrumbs WHERE defines = ?1"))?;
    let mut rows = statement.query([schema])?;
    let mut best = None;
    while let Some(row) = rows.next()? {
        let row = BreadcrumbRow::read(row)?;
        let counts = row.project == *project || row.visibility == Visibility::Public;
        if !counts || row.ends.is_some_and(|ends| ends <= now.as_micros()) {
            continue;
        }
        let Some((definition, since)) = row.definition(file)? else {
            return Err(damaged(format!("breadcrumb {} has no definition of {schema}", row.id)));
        };
        let rank = (row.project == *project, since, row.number);
        if best.as_ref().is_none_or(|(best, _)| *best < rank) {
            best = Some((rank, definition));
        }
    }
    Ok(best.map(|(_, definition)| definition))
}
