//! Searches: by words through the index, by tags, by schema.

use baton_types::breadcrumb::{BreadcrumbQuery, FoundBreadcrumbs, SearchMethod, Viewer};
use baton_types::time::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::{BreadcrumbRow, COLUMNS, has_tables};
use crate::StoreError;

/// The most words of a search; further ones are ignored.
const MAX_WORDS: usize = 32;

/// See [`crate::Breadcrumbs::search`].
///
/// Access is checked for each row before rows are counted. So the number of results reveals nothing about the other rows.
pub(super) fn search(
    file: &Connection,
    query: &BreadcrumbQuery,
    viewer: &Viewer,
    now: Timestamp,
) -> Result<FoundBreadcrumbs, StoreError> {
    let expression = query.words.as_deref().and_then(match_expression);
    let method = if expression.is_some() { SearchMethod::Fulltext } else { SearchMethod::Filter };
    let mut found = FoundBreadcrumbs { breadcrumbs: Vec::new(), total: 0, method };
    if !has_tables(file)? {
        return Ok(found);
    }
    let columns: Vec<String> = COLUMNS.split(", ").map(|column| format!("b.{column}")).collect();
    let (mut from, mut conditions, mut order) = ("breadcrumbs AS b", Vec::new(), "b.updated DESC, b.breadcrumb DESC");
    let mut values: Vec<Value> = Vec::new();
    let mut bind = |value: Value| {
        values.push(value);
        format!("?{}", values.len())
    };
    if let Some(expression) = expression {
        from = "breadcrumb_words AS w CROSS JOIN breadcrumbs AS b ON b.breadcrumb = w.rowid";
        conditions.push(format!("w.breadcrumb_words MATCH {}", bind(expression.into())));
        // The title counts most, then tags, then the description, then the context.
        order = "bm25(breadcrumb_words, 8.0, 2.0, 4.0, 1.0), b.updated DESC, b.breadcrumb DESC";
    }
    if let Some(schema) = &query.schema_name {
        conditions.push(format!("b.schema_name = {}", bind(schema.clone().into())));
    }
    for tag in &query.tags {
        let tag = bind(tag.clone().into());
        conditions.push(format!("b.breadcrumb IN (SELECT breadcrumb FROM breadcrumb_tags WHERE tag = {tag})"));
    }
    let filter = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") };
    let text = format!("SELECT {} FROM {from} WHERE {filter} ORDER BY {order}", columns.join(", "));
    let mut statement = file.prepare_cached(&text)?;
    let mut rows = statement.query(params_from_iter(values))?;
    while let Some(row) = rows.next()? {
        let row = BreadcrumbRow::read(row)?;
        if row.is_for(viewer, now) {
            if found.breadcrumbs.len() < query.limit {
                found.breadcrumbs.push(row.newest(file)?);
            }
            found.total += 1;
        }
    }
    Ok(found)
}

/// Returns the words of a search as an expression of the index: each in quotation marks, so that none is an operator. `None` if
/// there is no word.
fn match_expression(words: &str) -> Option<String> {
    let plain: String = words.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let words = plain.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).take(MAX_WORDS);
    let quoted: Vec<String> = words.map(|word| format!("\"{}\"", word.replace('"', "\"\""))).collect();
    if quoted.is_empty() { None } else { Some(quoted.join(" OR ")) }
}
