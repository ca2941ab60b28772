//! Searches: by words through the index, by tags, by schema.

use baton_types::breadcrumb::{BreadcrumbQuery, FoundBreadcrumbs, SearchMethod, Viewer};
use baton_types::time::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::columns::{COLUMNS, read, ready};
use crate::StoreError;
use crate::breadcrumbs::found::{Found, words_of};
use crate::breadcrumbs::row::BreadcrumbRow;

/// See [`crate::Breadcrumbs::search`].
pub(super) fn search(
    file: &Connection,
    query: &BreadcrumbQuery,
    viewer: &Viewer,
    now: Timestamp,
) -> Result<FoundBreadcrumbs, StoreError> {
    search_among(file, query, viewer, now, |_| true)
}

/// Searches among the records whose rows `is_wanted` accepts.
pub(super) fn search_among(
    file: &Connection,
    query: &BreadcrumbQuery,
    viewer: &Viewer,
    now: Timestamp,
    is_wanted: impl Fn(&BreadcrumbRow) -> bool,
) -> Result<FoundBreadcrumbs, StoreError> {
    let expression = match_expression(query);
    let method = if expression.is_some() { SearchMethod::Fulltext } else { SearchMethod::Filter };
    let mut found = Found::new(query, viewer, now);
    let mut values = Values::default();
    let (mut from, mut conditions, mut order) = ("breadcrumbs AS b", Vec::new(), "b.updated DESC, b.breadcrumb DESC");
    if let Some(expression) = expression {
        from = "breadcrumb_words AS w CROSS JOIN breadcrumbs AS b ON b.breadcrumb = w.rowid";
        conditions.push(format!("w.breadcrumb_words MATCH {}", values.bind(expression)));
        // The title counts most, then tags, then the description, then the context.
        order = "bm25(breadcrumb_words, 8.0, 2.0, 4.0, 1.0), b.updated DESC, b.breadcrumb DESC";
    }
    conditions.extend(filters(query, &mut values));
    let text = format!("SELECT {} FROM {from} WHERE {} ORDER BY {order}", columns_of("b"), conjunction(&conditions));
    let mut statement = file.prepare_cached(&text)?;
    let mut rows = statement.query(params_from_iter(values.0))?;
    while let Some(row) = rows.next()? {
        let row = read(row)?;
        if is_wanted(&row) {
            found.offer(row);
        }
    }
    ready(found.into_records(file, method))
}

/// The values of a statement.
#[derive(Default)]
pub(super) struct Values(pub(super) Vec<Value>);

impl Values {
    /// Adds a value, and returns its name in the statement.
    pub(super) fn bind(&mut self, value: impl Into<Value>) -> String {
        self.0.push(value.into());
        format!("?{}", self.0.len())
    }
}

/// Returns the conditions on schema and tags, for the records `b`.
pub(super) fn filters(query: &BreadcrumbQuery, values: &mut Values) -> Vec<String> {
    let schema = query.schema_name.iter().map(|schema| ("b.schema_name = {}", schema));
    let tagged = "b.breadcrumb IN (SELECT breadcrumb FROM breadcrumb_tags WHERE tag = {})";
    let conditions = schema.chain(query.tags.iter().map(|tag| (tagged, tag)));
    conditions.map(|(condition, value)| condition.replace("{}", &values.bind(value.clone()))).collect()
}

/// Returns a condition that is met if all `conditions` are.
pub(super) fn conjunction(conditions: &[String]) -> String {
    if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") }
}

/// Returns the columns of a row of records, of the table called `name`.
pub(super) fn columns_of(name: &str) -> String {
    COLUMNS.split(", ").map(|column| format!("{name}.{column}")).collect::<Vec<_>>().join(", ")
}

/// Returns the words of a search as an expression of the index: each in quotation marks, so that none is an operator. `None` if
/// there is no word.
fn match_expression(query: &BreadcrumbQuery) -> Option<String> {
    let quoted: Vec<String> = words_of(query).iter().map(|word| format!("\"{}\"", word.replace('"', "\"\""))).collect();
    if quoted.is_empty() { None } else { Some(quoted.join(" OR ")) }
}
