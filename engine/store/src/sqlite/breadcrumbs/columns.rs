//! The columns of a record's row, and how they are read.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use baton_types::id::{BreadcrumbId, ProjectId};
use rusqlite::Row;

use crate::StoreError;
use crate::breadcrumbs::row::{BreadcrumbRow, damaged, decoded};
use crate::sqlite::records::checksum_of;

/// The columns of a record's row.
pub(super) const COLUMNS: &str =
    "breadcrumb, id, owner, project, visibility, sensitivity, schema_name, defines, version, read_count, ends, updated, checksum";

/// Returns the result of work on the rows of a file, which never waits.
pub(super) fn ready<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("the rows of a file never wait"),
    }
}

/// Reads the row of a record from its first columns.
pub(super) fn read(row: &Row<'_>) -> Result<BreadcrumbRow, StoreError> {
    let text = |column: usize| row.get_ref(column)?.as_str().map_err(damaged);
    let read = BreadcrumbRow {
        number: row.get(0)?,
        id: BreadcrumbId::new(row.get::<_, String>(1)?),
        owner: decoded(text(2)?)?,
        project: ProjectId::new(row.get::<_, String>(3)?),
        visibility: decoded(text(4)?)?,
        sensitivity: decoded(text(5)?)?,
        schema_name: row.get(6)?,
        defines: row.get(7)?,
        version: row.get::<_, i64>(8)? as u64,
        read_count: row.get::<_, i64>(9)? as u64,
        ends: row.get(10)?,
        updated: row.get(11)?,
    };
    if row.get::<_, i64>(12)? == row_checksum(&read) {
        Ok(read)
    } else {
        Err(damaged(format!("the row of breadcrumb {} does not match its checksum", read.id)))
    }
}

/// Returns the checksum of a row.
pub(super) fn row_checksum(row: &BreadcrumbRow) -> i64 {
    let BreadcrumbRow { number, id, owner, project, visibility, sensitivity, .. } = row;
    let BreadcrumbRow { schema_name, defines, version, read_count, ends, updated, .. } = row;
    checksum_of(&(
        (number, id, owner, project, visibility, sensitivity),
        (schema_name, defines, version, read_count, ends, updated),
    ))
}
