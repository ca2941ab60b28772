//! Vectors of records, and searches by the distance between them.
//!
//! Every vector of a reader's records is compared: there is no index that could miss a neighbour. Rows are read one by one, so memory is
//! that of the neighbours. A vector counts only for the version that it was made of. Vectors are derived data: damage to one can hide
//! a record from a search, but never change or show it.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap, HashSet};

use baton_breadcrumb::{BreadcrumbError, Definition, embedded_text};
use baton_types::breadcrumb::{
    BreadcrumbQuery, Centre, EmbeddedText, FoundBreadcrumbs, MAX_DIMENSIONS, RecordVector, SearchMethod, Sensitivity, Unembedded,
    VectorKind, Viewer,
};
use baton_types::id::{ContentHash, ProjectId};
use baton_types::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, params, params_from_iter};

use super::search::{Values, columns_of, conjunction, filters, search_among};
use super::{BreadcrumbRow, damaged, definition, encoded, has_table};
use crate::sqlite::records::checksum_of;
use crate::sqlite::to_sql;
use crate::{StoreError, Verification, Written};

/// The table.
const TABLE: &str = "breadcrumb_vectors";
/// The most texts that one look at the records without vectors returns.
const MAX_TEXTS: usize = 256;
/// Numbers that are multiplied side by side.
const LANES: usize = 16;

/// A record by its distance, the nearest first, then the newest.
struct Neighbour {
    nearness: f32,
    row: BreadcrumbRow,
}

impl Neighbour {
    fn rank(&self) -> (Reverse<i64>, Reverse<i64>) {
        (Reverse(self.row.updated), Reverse(self.row.number))
    }
}

impl Ord for Neighbour {
    fn cmp(&self, other: &Self) -> Ordering {
        other.nearness.total_cmp(&self.nearness).then_with(|| self.rank().cmp(&other.rank()))
    }
}

impl PartialOrd for Neighbour {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Neighbour {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Neighbour {}

/// See [`crate::Breadcrumbs::nearest`].
pub(super) fn nearest(
    file: &Connection,
    query: &BreadcrumbQuery,
    centre: &Centre,
    viewer: &Viewer,
    now: Timestamp,
) -> Result<FoundBreadcrumbs, StoreError> {
    let mut compared = HashSet::new();
    // The farthest is on top, and leaves first.
    let mut nearest: BinaryHeap<Neighbour> = BinaryHeap::new();
    if has_table(file, TABLE)? {
        let mut values = Values::default();
        let (model, dimensions) = (values.bind(centre.kind.model.clone()), values.bind(to_sql(centre.kind.dimensions as u64)));
        let current = format!("v.version = b.version AND v.model = {model} AND v.dimensions = {dimensions}");
        let conditions: Vec<String> = [current].into_iter().chain(filters(query, &mut values)).collect();
        let (columns, filter) = (columns_of("b"), conjunction(&conditions));
        let mut statement = file.prepare_cached(&format!(
            "SELECT {columns}, v.vector FROM {TABLE} AS v CROSS JOIN breadcrumbs AS b ON b.breadcrumb = v.breadcrumb WHERE {filter}"
        ))?;
        let mut rows = statement.query(params_from_iter(values.0))?;
        while let Some(read) = rows.next()? {
            let row = BreadcrumbRow::read(read)?;
            if !row.is_for(viewer, now) || row.sensitivity != Sensitivity::Low {
                continue;
            }
            // A damaged one counts as absent; `verify` reports it.
            let Some(nearness) = read.get_ref(13)?.as_blob().ok().and_then(|stored| product(&centre.vector, stored)) else {
                continue;
            };
            compared.insert(row.number);
            let neighbour = Neighbour { nearness, row };
            if nearest.len() < centre.neighbours {
                nearest.push(neighbour);
            } else if nearest.peek().is_some_and(|farthest| neighbour < *farthest) {
                nearest.pop();
                nearest.push(neighbour);
            }
        }
    }
    let neighbours = nearest.into_sorted_vec();
    let rest = BreadcrumbQuery { limit: query.limit.saturating_sub(neighbours.len()), ..query.clone() };
    let by_words = search_among(file, &rest, viewer, now, |row| !compared.contains(&row.number))?;
    let total = neighbours.len() as u64 + by_words.total;
    let near = neighbours.iter().take(query.limit).map(|neighbour| neighbour.row.newest(file));
    let breadcrumbs = near.chain(by_words.breadcrumbs.into_iter().map(Ok)).collect::<Result<_, _>>()?;
    let method = if compared.is_empty() { by_words.method } else { SearchMethod::Vector };
    Ok(FoundBreadcrumbs { breadcrumbs, total, method, warning: None })
}

/// Returns the scalar product of a vector and one as a row has it; `None` if that is none of the same length with finite numbers.
fn product(vector: &[f32], stored: &[u8]) -> Option<f32> {
    let (numbers, rest) = stored.as_chunks::<4>();
    if !rest.is_empty() || numbers.len() != vector.len() {
        return None;
    }
    let mut sums = [0.0_f32; LANES];
    for (left, right) in vector.chunks(LANES).zip(numbers.chunks(LANES)) {
        for ((sum, left), right) in sums.iter_mut().zip(left).zip(right) {
            *sum += left * f32::from_le_bytes(*right);
        }
    }
    Some(sums.iter().sum()).filter(|sum: &f32| sum.is_finite())
}

/// See [`crate::Breadcrumbs::unembedded`].
pub(super) fn unembedded(
    file: &Connection,
    query: &BreadcrumbQuery,
    kind: &VectorKind,
    viewer: &Viewer,
    now: Timestamp,
) -> Result<Unembedded, StoreError> {
    let mut found = Unembedded::default();
    if !has_table(file, TABLE)? {
        return Ok(found);
    }
    let mut values = Values::default();
    let low = format!("b.sensitivity = {}", values.bind(encoded(&Sensitivity::Low)));
    let (model, dimensions) = (values.bind(kind.model.clone()), values.bind(to_sql(kind.dimensions as u64)));
    let current = format!(
        "NOT EXISTS (SELECT 1 FROM {TABLE} AS v WHERE v.breadcrumb = b.breadcrumb AND v.version = b.version AND v.model = {model} AND \
         v.dimensions = {dimensions})"
    );
    let conditions: Vec<String> = [low, current].into_iter().chain(filters(query, &mut values)).collect();
    let (columns, filter) = (columns_of("b"), conjunction(&conditions));
    let mut statement = file.prepare_cached(&format!(
        "SELECT {columns} FROM breadcrumbs AS b WHERE {filter} ORDER BY b.updated DESC, b.breadcrumb DESC"
    ))?;
    let mut definitions: BTreeMap<(String, ProjectId), Option<Definition>> = BTreeMap::new();
    let mut rows = statement.query(params_from_iter(values.0))?;
    while let Some(row) = rows.next()? {
        let row = BreadcrumbRow::read(row)?;
        if !row.is_for(viewer, now) {
            continue;
        }
        found.total += 1;
        if found.texts.len() == MAX_TEXTS {
            continue;
        }
        let record = row.newest(file)?;
        let hints = match &row.schema_name {
            None => None,
            Some(schema) => {
                let key = (schema.clone(), row.project.clone());
                if !definitions.contains_key(&key) {
                    definitions.insert(key.clone(), definition(file, schema, &row.project, now)?);
                }
                definitions.get(&key).and_then(Option::as_ref)
            }
        };
        let text = embedded_text(&record, hints);
        found.texts.extend(text.map(|text| EmbeddedText { id: row.id, version: row.version, text }));
    }
    Ok(found)
}

/// See [`crate::Breadcrumbs::keep_vectors`].
pub(super) fn keep(
    file: &Connection,
    kind: &VectorKind,
    vectors: &[RecordVector],
) -> Result<Result<Vec<Written>, BreadcrumbError>, StoreError> {
    let is_vector = |kept: &RecordVector| kept.vector.len() == kind.dimensions && kept.vector.iter().all(|each| each.is_finite());
    if !(1..=MAX_DIMENSIONS).contains(&kind.dimensions) || !vectors.iter().all(is_vector) {
        let reason = format!("expected {} finite numbers, at most {MAX_DIMENSIONS}", kind.dimensions);
        return Ok(Err(BreadcrumbError::Invalid { field: "vector", reason }));
    }
    for RecordVector { id, version, vector } in vectors {
        // The record may have changed, or become sensitive, while its text was away.
        let is_current = |row: &BreadcrumbRow| row.version == *version && row.sensitivity == Sensitivity::Low;
        let Some(row) = BreadcrumbRow::find(file, id)?.filter(is_current) else { continue };
        let bytes: Vec<u8> = vector.iter().flat_map(|each| each.to_le_bytes()).collect();
        let dimensions = to_sql(kind.dimensions as u64);
        let checksum = checksum(row.number, to_sql(*version), &kind.model, dimensions, &bytes);
        file.prepare_cached(&format!(
            "INSERT OR REPLACE INTO {TABLE} (breadcrumb, version, model, dimensions, checksum, vector) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
        ))?
        .execute(params![row.number, to_sql(*version), kind.model, dimensions, checksum, bytes])?;
    }
    Ok(Ok(Vec::new()))
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
    if !has_table(file, TABLE)? {
        return Ok(());
    }
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
