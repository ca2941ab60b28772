//! Searches by the distance between vectors, apart from the rows: comparison, order and limits.
//!
//! Every vector of a reader's records is compared: there is no index that could miss a neighbour. Rows are compared one by one, so memory
//! is that of the neighbours.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap, HashSet};

use baton_breadcrumb::{BreadcrumbError, Definition, embedded_text};
use baton_types::breadcrumb::{
    BreadcrumbQuery, Centre, EmbeddedText, FoundBreadcrumbs, MAX_DIMENSIONS, RecordVector, SearchMethod, Sensitivity, Unembedded,
    VectorKind, Viewer,
};
use baton_types::id::ProjectId;
use baton_types::time::Timestamp;

use super::read::definition;
use super::row::BreadcrumbRow;
use super::rows::Rows;
use crate::{StoreError, Written};

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

/// The nearest records of those that were offered.
pub(crate) struct Nearest<'a> {
    centre: &'a Centre,
    compared: HashSet<i64>,
    /// The farthest is on top, and leaves first.
    neighbours: BinaryHeap<Neighbour>,
}

impl<'a> Nearest<'a> {
    pub(crate) fn new(centre: &'a Centre) -> Self {
        Self { centre, compared: HashSet::new(), neighbours: BinaryHeap::new() }
    }

    /// Compares the vector `stored` of a record.
    pub(crate) fn offer(&mut self, row: BreadcrumbRow, stored: &[u8], viewer: &Viewer, now: Timestamp) {
        if !row.is_for(viewer, now) || row.sensitivity != Sensitivity::Low {
            return;
        }
        // A damaged one counts as absent; `verify` reports it.
        let Some(nearness) = product(&self.centre.vector, stored) else { return };
        self.compared.insert(row.number);
        let neighbour = Neighbour { nearness, row };
        if self.neighbours.len() < self.centre.neighbours {
            self.neighbours.push(neighbour);
        } else if self.neighbours.peek().is_some_and(|farthest| neighbour < *farthest) {
            self.neighbours.pop();
            self.neighbours.push(neighbour);
        }
    }

    /// Returns the neighbours, the nearest first, and the numbers of all records that were compared.
    pub(crate) fn into_rows(self) -> (Vec<BreadcrumbRow>, HashSet<i64>) {
        let neighbours = self.neighbours.into_sorted_vec();
        (neighbours.into_iter().map(|neighbour| neighbour.row).collect(), self.compared)
    }
}

/// Returns the query for the records that follow `neighbours` neighbours.
pub(crate) fn query_of_rest(query: &BreadcrumbQuery, neighbours: usize) -> BreadcrumbQuery {
    BreadcrumbQuery { limit: query.limit.saturating_sub(neighbours), ..query.clone() }
}

/// Returns the records of a search by meaning: the neighbours, then those that words found.
pub(crate) async fn joined(
    rows: &impl Rows,
    query: &BreadcrumbQuery,
    neighbours: &[BreadcrumbRow],
    has_compared: bool,
    by_words: FoundBreadcrumbs,
) -> Result<FoundBreadcrumbs, StoreError> {
    let wanted: Vec<_> = neighbours.iter().take(query.limit).map(|row| (row, row.version)).collect();
    let near = rows.versions(&wanted).await?;
    let breadcrumbs = near.into_iter().map(|version| version.breadcrumb).chain(by_words.breadcrumbs).collect();
    let method = if has_compared { SearchMethod::Vector } else { by_words.method };
    Ok(FoundBreadcrumbs { breadcrumbs, total: neighbours.len() as u64 + by_words.total, method, warning: None })
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

/// See [`crate::Breadcrumbs::keep_vectors`].
pub(crate) async fn keep(
    rows: &impl Rows,
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
        let Some(row) = rows.find_to_change(id).await?.filter(is_current) else { continue };
        let bytes: Vec<u8> = vector.iter().flat_map(|each| each.to_le_bytes()).collect();
        rows.save_vector(&row, kind, &bytes).await?;
    }
    Ok(Ok(Vec::new()))
}

/// The records without a current vector, of which a reader gets the first texts.
#[derive(Default)]
pub(crate) struct Missing {
    rows: Vec<BreadcrumbRow>,
    total: u64,
}

impl Missing {
    /// Counts a record without a current vector.
    pub(crate) fn offer(&mut self, row: BreadcrumbRow, viewer: &Viewer, now: Timestamp) {
        if !row.is_for(viewer, now) {
            return;
        }
        self.total += 1;
        if self.rows.len() < MAX_TEXTS {
            self.rows.push(row);
        }
    }

    /// Returns the texts.
    pub(crate) async fn into_texts(self, rows: &impl Rows, now: Timestamp) -> Result<Unembedded, StoreError> {
        let wanted: Vec<_> = self.rows.iter().map(|row| (row, row.version)).collect();
        let records = rows.versions(&wanted).await?;
        let mut definitions: BTreeMap<(String, ProjectId), Option<Definition>> = BTreeMap::new();
        let mut texts = Vec::new();
        for (row, record) in self.rows.iter().zip(records) {
            let hints = match &row.schema_name {
                None => None,
                Some(schema) => {
                    let key = (schema.clone(), row.project.clone());
                    if !definitions.contains_key(&key) {
                        definitions.insert(key.clone(), definition(rows, schema, &row.project, now).await?);
                    }
                    definitions.get(&key).and_then(Option::as_ref)
                }
            };
            let text = embedded_text(&record.breadcrumb, hints);
            texts.extend(text.map(|text| EmbeddedText { id: row.id.clone(), version: row.version, text }));
        }
        Ok(Unembedded { texts, total: self.total })
    }
}
