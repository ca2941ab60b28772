//! Reads of records by their ids, and of records that configure.

use baton_breadcrumb::{DEFINITION_SCHEMA, Definition, may_read};
use baton_types::breadcrumb::{Breadcrumb, BreadcrumbVersion, Viewer, Visibility};
use baton_types::id::{BreadcrumbId, ProjectId};
use baton_types::time::Timestamp;

use super::row::{BreadcrumbRow, damaged};
use super::rows::Rows;
use crate::StoreError;

/// See [`crate::Breadcrumbs::find`].
pub(crate) async fn find(
    rows: &impl Rows,
    id: &BreadcrumbId,
    viewer: &Viewer,
    now: Timestamp,
) -> Result<Option<Breadcrumb>, StoreError> {
    match rows.find(id).await?.filter(|row| row.is_for(viewer, now)) {
        Some(row) => Ok(Some(rows.newest(&row).await?.breadcrumb)),
        None => Ok(None),
    }
}

/// See [`crate::Breadcrumbs::history`].
pub(crate) async fn history(
    rows: &impl Rows,
    id: &BreadcrumbId,
    viewer: &Viewer,
    limit: usize,
    now: Timestamp,
) -> Result<Vec<BreadcrumbVersion>, StoreError> {
    let Some(row) = rows.find(id).await?.filter(|row| row.is_for(viewer, now)) else { return Ok(Vec::new()) };
    let wanted: Vec<_> = (1..=row.version).rev().take(limit).map(|version| (&row, version)).collect();
    let mut versions = rows.versions(&wanted).await?;
    // An earlier version may have been more sensitive than the newest one.
    versions.retain(|version| may_read(viewer, &version.breadcrumb));
    Ok(versions)
}

/// See [`crate::Breadcrumbs::definition`]. The newest that the project has, else the newest public one.
pub(crate) async fn definition(
    rows: &impl Rows,
    schema: &str,
    project: &ProjectId,
    now: Timestamp,
) -> Result<Option<Definition>, StoreError> {
    let mut best = None;
    for row in rows.defining(schema).await? {
        let counts = row.project == *project || row.visibility == Visibility::Public;
        if !counts || row.is_over(now) {
            continue;
        }
        let Some((definition, since)) = definition_of(rows, &row).await? else {
            return Err(damaged(format!("breadcrumb {} has no definition of {schema}", row.id)));
        };
        let rank = (row.project == *project, since, row.number);
        if best.as_ref().is_none_or(|(best, _)| *best < rank) {
            best = Some((rank, definition));
        }
    }
    Ok(best.map(|(_, definition)| definition))
}

/// Returns the definition of a record that counts, with the moment of its version; `None` if it defines nothing.
pub(crate) async fn definition_of(rows: &impl Rows, row: &BreadcrumbRow) -> Result<Option<(Definition, Timestamp)>, StoreError> {
    if row.schema_name.as_deref() != Some(DEFINITION_SCHEMA) {
        return Ok(None);
    }
    let newest = rows.newest(row).await?;
    let record = match row.defines_by(&newest) {
        None => return Ok(None),
        Some(version) if version == row.version => newest.breadcrumb,
        Some(earlier) => rows.version(row, earlier).await?.breadcrumb,
    };
    let definition = Definition::read(&record).map_err(|error| damaged(format!("breadcrumb {}: {error}", row.id)))?;
    Ok(Some((definition, record.updated_at)))
}

/// Returns the rows of a schema whose records configure, each with the version that counts. Records without such a version, and those that
/// have ended, are left out.
pub(crate) async fn counting(
    rows: &impl Rows,
    found: Vec<BreadcrumbRow>,
    now: Timestamp,
) -> Result<Vec<(BreadcrumbRow, Breadcrumb)>, StoreError> {
    let found: Vec<_> = found.into_iter().filter(|row| !row.is_over(now)).collect();
    let wanted: Vec<_> = found.iter().map(|row| (row, row.version)).collect();
    let newest = rows.versions(&wanted).await?;
    let earlier = |row: &BreadcrumbRow, newest: &BreadcrumbVersion| newest.defines_by.filter(|counts| *counts != row.version);
    let wanted: Vec<_> =
        found.iter().zip(&newest).filter_map(|(row, newest)| earlier(row, newest).map(|version| (row, version))).collect();
    let mut earlier_ones = rows.versions(&wanted).await?.into_iter();
    let mut counting = Vec::new();
    for (row, newest) in found.into_iter().zip(newest) {
        let record = match newest.defines_by {
            None => continue,
            Some(version) if version == row.version => newest.breadcrumb,
            Some(version) => earlier_ones.next().ok_or_else(|| row.lacks(version))?.breadcrumb,
        };
        counting.push((row, record));
    }
    Ok(counting)
}
