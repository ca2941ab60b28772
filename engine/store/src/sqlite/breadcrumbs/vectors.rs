//! The rows of vectors. A vector counts only for the version that it was made of. Vectors are derived data: damage to one can hide
//! a record from a search, but never change or show it.

use baton_types::breadcrumb::{BreadcrumbQuery, Centre, FoundBreadcrumbs, Sensitivity, Unembedded, VectorKind, Viewer};
use baton_types::id::ContentHash;
use baton_types::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, params, params_from_iter};

use super::columns::{read, ready};
use super::search::{Values, columns_of, conjunction, filters, search_among};
use crate::breadcrumbs::nearest::{Missing, Nearest, joined, query_of_rest};
use crate::breadcrumbs::row::{damaged, encoded};
use crate::sqlite::records::checksum_of;
use crate::sqlite::to_sql;
use crate::{StoreError, Verification};

/// The table.
const TABLE: &str = "breadcrumb_vectors";

/// See [`crate::Breadcrumbs::nearest`].
pub(super) fn nearest(
    file: &Connection,
    query: &BreadcrumbQuery,
    centre: &Centre,
    viewer: &Viewer,
    now: Timestamp,
) -> Result<FoundBreadcrumbs, StoreError> {
    let mut nearest = Nearest::new(centre);
    let mut values = Values::default();
    let (model, dimensions) = (values.bind(centre.kind.model.clone()), values.bind(to_sql(centre.kind.dimensions as u64)));
    let current = format!("v.version = b.version AND v.model = {model} AND v.dimensions = {dimensions}");
    let conditions: Vec<String> = [current].into_iter().chain(filters(query, &mut values)).collect();
    let (columns, filter) = (columns_of("b"), conjunction(&conditions));
    let mut statement = file.prepare_cached(&format!(
        "SELECT {columns}, v.vector FROM {TABLE} AS v CROSS JOIN breadcrumbs AS b ON b.breadcrumb = v.breadcrumb WHERE {filter}"
    ))?;
    let mut rows = statement.query(params_from_iter(values.0))?;
    while let Some(found) = rows.next()? {
        // A value of another type counts as damaged.
        nearest.offer(read(found)?, found.get_ref(13)?.as_blob().unwrap_or_default(), viewer, now);
    }
    let (neighbours, compared) = nearest.into_rows();
    let rest = query_of_rest(query, neighbours.len());
    let by_words = search_among(file, &rest, viewer, now, |row| !compared.contains(&row.number))?;
    ready(joined(file, query, &neighbours, !compared.is_empty(), by_words))
}

/// See [`crate::Breadcrumbs::unembedded`].
pub(super) fn unembedded(
    file: &Connection,
    query: &BreadcrumbQuery,
    kind: &VectorKind,
    viewer: &Viewer,
    now: Timestamp,
) -> Result<Unembedded, StoreError> {
    let mut missing = Missing::default();
    let mut values = Values::default();
    let low = format!("b.sensitivity = {}", values.bind(encoded(&Sensitivity::Low)));
    let (model, dimensions) = (values.bind(kind.model.clone()), values.bind(to_sql(kind.dimensions as u64)));
    let current = format!(
        "NOT EXISTS (SELECT 1 FROM {TABLE} AS v WHERE v.breadcrumb = b.breadcrumb AND v.version = b.version AND v.model = {model} \
         AND v.dimensions = {dimensions})"
    );
    let conditions: Vec<String> = [low, current].into_iter().chain(filters(query, &mut values)).collect();
    let (columns, filter) = (columns_of("b"), conjunction(&conditions));
    let mut statement = file.prepare_cached(&format!(
        "SELECT {columns} FROM breadcrumbs AS b WHERE {filter} ORDER BY b.updated DESC, b.breadcrumb DESC"
    ))?;
    let mut rows = statement.query(params_from_iter(values.0))?;
    while let Some(row) = rows.next()? {
        missing.offer(read(row)?, viewer, now);
    }
    ready(missing.into_texts(file, now))
}

/// Writes the vector of the newest version of a record.
pub(super) fn save(file: &Connection, number: i64, version: u64, kind: &VectorKind, bytes: &[u8]) -> Result<(), StoreError> {
    let (version, dimensions) = (to_sql(version), to_sql(kind.dimensions as u64));
    let checksum = checksum(number, version, &kind.model, dimensions, bytes);
    file.prepare_cached(&format!(
        "INSERT OR REPLACE INTO {TABLE} (breadcrumb, version, model, dimensions, checksum, vector) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
    ))?
    .execute(params![number, version, kind.model, dimensions, checksum, bytes])?;
    Ok(())
}

fn checksum(number: i64, version: i64, model: &str, dimensions: i64, bytes: &[u8]) -> i64 {
    checksum_of(&(number, version, model, dimensions, ContentHash::of(bytes).as_bytes()))
}

/// Removes the vector of a record.
pub(super) fn forget(file: &Connection, number: i64) -> Result<(), StoreError> {
    file.prepare_cached(&format!("DELETE FROM {TABLE} WHERE breadcrumb = ?1"))?.execute([number])?;
    Ok(())
}

/// Checks every vector, and that its record exists.
pub(super) fn verify(file: &Transaction<'_>, found: &mut Verification) -> Result<(), StoreError> {
    let mut newest = file.prepare("SELECT version FROM breadcrumbs WHERE breadcrumb = ?1")?;
    let mut statement = file.prepare(&format!("SELECT breadcrumb, version, model, dimensions, checksum, vector FROM {TABLE}"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (number, version, dimensions): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(3)?);
        let (model, bytes) = (row.get_ref(2)?.as_str().map_err(damaged)?, row.get_ref(5)?.as_blob().map_err(damaged)?);
        let mut wrong = |what: &str| found.findings.push(format!("the vector of breadcrumb number {number} {what}"));
        if row.get::<_, i64>(4)? != checksum(number, version, model, dimensions, bytes) {
            wrong("does not match its checksum");
        } else if usize::try_from(dimensions).map_or(true, |dimensions| bytes.len() != 4 * dimensions) {
            wrong("has other dimensions than its row");
        }
        if newest.query_row([number], |row| row.get::<_, i64>(0)).optional()? != Some(version) {
            wrong("is not that of its newest version");
        }
    }
    Ok(())
}
