//! Breadcrumbs as rows. The store in memory uses the same code, over a connection in memory.
//!
//! A row has checksums over all of it, and counts elsewhere reveal rows that are missing. The index of words has neither: SQLite
//! checks it in `verify`, and damage to it can hide a record from a search, but never change one.

mod columns;
mod copy;
mod in_memory;
mod on_disk;
mod rows;
mod search;
pub(crate) mod triggers;
mod vectors;
mod verify;

use baton_breadcrumb::BreadcrumbError;
use baton_types::breadcrumb::Viewer;
use baton_types::id::BreadcrumbId;
use baton_types::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::records::checksum_of;
use super::to_sql;
use crate::breadcrumbs::request;
use crate::breadcrumbs::row::damaged;
use crate::{StoreError, Written};

pub(crate) use crate::breadcrumbs::request::Request;
use columns::{COLUMNS, ready};
pub(super) use copy::{finish_copy, write_copied};
pub(crate) use in_memory::InMemory;
pub(crate) use rows::key_hash;
use search::search;
pub(super) use verify::verify;

/// Performs a write; see [`request::perform`].
pub(crate) fn perform(file: &Connection, request: &Request) -> Result<Result<Vec<Written>, BreadcrumbError>, StoreError> {
    ready(request::perform(file, request))
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

/// See [`crate::Breadcrumbs::ids`].
fn ids(file: &Connection, prefix: &str, viewer: &Viewer, limit: usize, now: Timestamp) -> Result<Vec<BreadcrumbId>, StoreError> {
    let mut found = Vec::new();
    let mut statement = file.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM breadcrumbs WHERE id >= ?1 AND substr(id, 1, length(?1)) = ?1 ORDER BY id"
    ))?;
    let mut all = statement.query([prefix])?;
    while found.len() < limit
        && let Some(row) = all.next()?
    {
        let row = columns::read(row)?;
        if row.is_for(viewer, now) {
            found.push(row.id);
        }
    }
    Ok(found)
}
