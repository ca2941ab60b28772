//! Searches by words and conditions, apart from the rows: readers, counts and limits.

use baton_types::breadcrumb::{BreadcrumbQuery, FoundBreadcrumbs, SearchMethod, Viewer};
use baton_types::time::Timestamp;

use super::row::BreadcrumbRow;
use super::rows::Rows;
use crate::StoreError;

/// The most words of a search; further ones are ignored.
const MAX_WORDS: usize = 32;

/// Returns the words of a search. Each has a letter or a digit at least.
pub(crate) fn words_of(query: &BreadcrumbQuery) -> Vec<String> {
    let words = query.words.as_deref().unwrap_or_default();
    let plain: String = words.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let words = plain.split_whitespace().filter(|word| word.contains(char::is_alphanumeric));
    words.take(MAX_WORDS).map(str::to_owned).collect()
}

/// The records that a search found.
///
/// Access is checked for each row before rows are counted. So the number of results reveals nothing about the other rows.
pub(crate) struct Found<'a> {
    viewer: &'a Viewer,
    now: Timestamp,
    limit: usize,
    rows: Vec<BreadcrumbRow>,
    total: u64,
}

impl<'a> Found<'a> {
    pub(crate) fn new(query: &BreadcrumbQuery, viewer: &'a Viewer, now: Timestamp) -> Self {
        Self { viewer, now, limit: query.limit, rows: Vec::new(), total: 0 }
    }

    /// Counts a record. The best fit is offered first.
    pub(crate) fn offer(&mut self, row: BreadcrumbRow) {
        if !row.is_for(self.viewer, self.now) {
            return;
        }
        self.total += 1;
        if self.rows.len() < self.limit {
            self.rows.push(row);
        }
    }

    /// Returns the newest versions of the records.
    pub(crate) async fn into_records(self, rows: &impl Rows, method: SearchMethod) -> Result<FoundBreadcrumbs, StoreError> {
        let wanted: Vec<_> = self.rows.iter().map(|row| (row, row.version)).collect();
        let found = rows.versions(&wanted).await?;
        let breadcrumbs = found.into_iter().map(|version| version.breadcrumb).collect();
        Ok(FoundBreadcrumbs { breadcrumbs, total: self.total, method, warning: None })
    }
}
