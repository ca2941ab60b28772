//! Rows of breadcrumbs that a copy writes.

use baton_types::breadcrumb::VectorKind;
use baton_types::id::{BreadcrumbId, ContentHash, ProjectId};
use baton_types::time::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, params};

use super::columns::ready;
use super::rows::{hashed_name, save, save_version, select};
use super::{Totals, triggers, vectors};
use crate::StoreError;
use crate::breadcrumbs::row::{BreadcrumbRow, KeyRow, damaged, decoded};
use crate::breadcrumbs::rows::Rows as _;
use crate::breadcrumbs::triggers::read_trigger;
use crate::breadcrumbs::write::file_all;
use crate::copy::{Table, Values};

/// Writes a row. The order of the values is that of [`Table::parts`].
pub(in crate::sqlite) fn write_copied(file: &Connection, table: Table, mut row: Values) -> Result<(), StoreError> {
    match table {
        Table::Breadcrumbs => {
            let row = BreadcrumbRow {
                number: row.next()?,
                id: BreadcrumbId::new(row.next::<String>()?),
                owner: decoded(&row.next::<String>()?)?,
                project: ProjectId::new(row.next::<String>()?),
                visibility: decoded(&row.next::<String>()?)?,
                sensitivity: decoded(&row.next::<String>()?)?,
                schema_name: row.next()?,
                defines: row.next()?,
                version: row.next::<i64>()? as u64,
                read_count: row.next::<i64>()? as u64,
                ends: row.next()?,
                updated: row.next()?,
            };
            save(file, &row)
        }
        Table::BreadcrumbVersions => save_version(file, row.next()?, row.next::<i64>()? as u64, &row.next::<String>()?),
        Table::BreadcrumbKeys => {
            let key = match row.next()? {
                Value::Text(key) => key,
                Value::Blob(hash) => hashed_name(ContentHash::from_bytes(hash.try_into().map_err(|_| damaged("a key's hash"))?)),
                _ => return Err(damaged("a key of a breadcrumb is neither a text nor a hash")),
            };
            let (number, version) = (row.next()?, row.next::<i64>()? as u64);
            let row = KeyRow { number, version, request: ContentHash::from_bytes(row.next()?) };
            ready(file.save_key(&key, row, true))
        }
        Table::BreadcrumbTicks => ready(file.settle_ticks(row.next()?, Timestamp::from_micros(row.next()?))),
        Table::BreadcrumbVectors => {
            let (number, version) = (row.next()?, row.next::<i64>()? as u64);
            let (model, dimensions) = (row.next()?, row.next::<i64>()? as usize);
            vectors::save(file, number, version, &VectorKind { model, dimensions }, &row.next::<Vec<u8>>()?)
        }
        Table::BreadcrumbTriggers => {
            let number = row.next()?;
            let (_project, _waits, _queue, _run): (Value, Value, Value, Value) =
                (row.next()?, row.next()?, row.next()?, row.next()?);
            triggers::save(file, &read_trigger(number, &row.next::<String>()?)?)
        }
        Table::Runs | Table::Waiting | Table::Entries | Table::Places | Table::Contents | Table::Logged | Table::Commands => {
            Err(damaged(format!("{} has no breadcrumbs", table.name())))
        }
    }
}

/// Writes the totals, and the words and tags of all records.
pub(in crate::sqlite) fn finish_copy(file: &Connection) -> Result<(), StoreError> {
    let count = |table: &str| file.query_row(&format!("SELECT count(*) FROM {table}"), params![], |row| row.get::<_, i64>(0));
    let (breadcrumbs, versions) = (count("breadcrumbs")? as u64, count("breadcrumb_versions")? as u64);
    Totals { breadcrumbs, versions, keys: count("breadcrumb_keys")? as u64 }.save(file)?;
    ready(file_all(file, select(file, "true", [])?))
}
