//! Searches: by words through a `tsvector`, by meaning, by tags, by schema.

use std::pin::pin;

use baton_types::breadcrumb::{
    BreadcrumbQuery, Centre, FoundBreadcrumbs, SearchMethod, Sensitivity, Unembedded, VectorKind, Viewer,
};
use baton_types::id::BreadcrumbId;
use baton_types::time::Timestamp;
use futures_util::TryStreamExt as _;
use tokio_postgres::Client;

use super::rows::{COLUMNS, is_storable, read, select};
use super::words::query_of;
use crate::StoreError;
use crate::breadcrumbs::found::{Found, words_of};
use crate::breadcrumbs::nearest::{Missing, Nearest, joined, query_of_rest};
use crate::breadcrumbs::row::{BreadcrumbRow, encoded};
use crate::postgres::value::values;

/// Conditions on schema and tags, with the parameters `$1` and `$2`, for the records `b` with the words `w`.
const FILTER: &str = "($1 IS NULL OR b.schema_name = $1) AND (cardinality($2) = 0 OR w.tags @> $2)";

/// The most ids that one statement returns.
const PAGE: i64 = 1_000;

/// Returns the parameters of [`FILTER`]; `None` if no record can meet the conditions.
fn filter(query: &BreadcrumbQuery) -> Option<(Option<&str>, Vec<&str>)> {
    let tags: Vec<&str> = query.tags.iter().map(String::as_str).collect();
    let schema = query.schema_name.as_deref();
    tags.iter().copied().chain(schema).all(is_storable).then_some((schema, tags))
}

/// See [`crate::Breadcrumbs::search`].
pub(super) async fn search(
    client: &Client,
    query: &BreadcrumbQuery,
    viewer: &Viewer,
    now: Timestamp,
) -> Result<FoundBreadcrumbs, StoreError> {
    search_among(client, query, viewer, now, &|_| true).await
}

/// Searches among the records whose rows `is_wanted` accepts.
async fn search_among(
    client: &Client,
    query: &BreadcrumbQuery,
    viewer: &Viewer,
    now: Timestamp,
    is_wanted: &(dyn Fn(&BreadcrumbRow) -> bool + Sync),
) -> Result<FoundBreadcrumbs, StoreError> {
    let words = words_of(query);
    let method = if words.is_empty() { SearchMethod::Filter } else { SearchMethod::Fulltext };
    let mut found = Found::new(query, viewer, now);
    let expression = query_of(&words);
    let Some((schema, tags)) = filter(query).filter(|_| words.is_empty() || expression.is_some()) else {
        return found.into_records(client, method).await;
    };
    // The title counts most, then tags, then the description, then the context. Longer texts count less.
    let (condition, rank) = match &expression {
        None => ("$3 IS NULL", ""),
        Some(_) => ("w.words @@ $3::tsquery", "ts_rank('{0.125, 0.25, 0.5, 1}', w.words, $3::tsquery, 1) DESC,"),
    };
    let statement = format!(
        "SELECT {COLUMNS} FROM baton.breadcrumb_words AS w JOIN baton.breadcrumbs AS b ON b.breadcrumb = w.breadcrumb
         WHERE {FILTER} AND {condition} ORDER BY {rank} b.updated DESC, b.breadcrumb DESC"
    );
    let mut rows = pin!(client.query_typed_raw(&statement, values![schema, tags, expression].to_vec()).await?);
    while let Some(row) = rows.try_next().await? {
        let row = read(&row)?;
        if is_wanted(&row) {
            found.offer(row);
        }
    }
    found.into_records(client, method).await
}

/// See [`crate::Breadcrumbs::nearest`].
pub(super) async fn nearest(
    client: &Client,
    query: &BreadcrumbQuery,
    centre: &Centre,
    viewer: &Viewer,
    now: Timestamp,
) -> Result<FoundBreadcrumbs, StoreError> {
    let mut nearest = Nearest::new(centre);
    if let Some((schema, tags)) = filter(query) {
        let statement = format!(
            "SELECT {COLUMNS}, v.vector FROM baton.breadcrumb_vectors AS v
             JOIN baton.breadcrumbs AS b ON b.breadcrumb = v.breadcrumb JOIN baton.breadcrumb_words AS w ON w.breadcrumb = v.breadcrumb
             WHERE {FILTER} AND v.version = b.version AND v.model = $3 AND v.dimensions = $4"
        );
        let (model, dimensions) = (centre.kind.model.as_str(), centre.kind.dimensions as i64);
        let parameters = values![schema, tags, model, dimensions].to_vec();
        let mut rows = pin!(client.query_typed_raw(&statement, parameters).await?);
        while let Some(row) = rows.try_next().await? {
            nearest.offer(read(&row)?, row.try_get(12)?, viewer, now);
        }
    }
    let (neighbours, compared) = nearest.into_rows();
    let rest = query_of_rest(query, neighbours.len());
    let is_left = |row: &BreadcrumbRow| !compared.contains(&row.number);
    let by_words = search_among(client, &rest, viewer, now, &is_left).await?;
    joined(client, query, &neighbours, !compared.is_empty(), by_words).await
}

/// See [`crate::Breadcrumbs::unembedded`].
pub(super) async fn unembedded(
    client: &Client,
    query: &BreadcrumbQuery,
    kind: &VectorKind,
    viewer: &Viewer,
    now: Timestamp,
) -> Result<Unembedded, StoreError> {
    let mut missing = Missing::default();
    if let Some((schema, tags)) = filter(query) {
        let statement = format!(
            "SELECT {COLUMNS} FROM baton.breadcrumbs AS b JOIN baton.breadcrumb_words AS w ON w.breadcrumb = b.breadcrumb
             WHERE {FILTER} AND b.sensitivity = $3 AND NOT EXISTS
                 (SELECT 1 FROM baton.breadcrumb_vectors AS v
                  WHERE v.breadcrumb = b.breadcrumb AND v.version = b.version AND v.model = $4 AND v.dimensions = $5)
             ORDER BY b.updated DESC, b.breadcrumb DESC"
        );
        let (low, model, dimensions) = (encoded(&Sensitivity::Low), kind.model.as_str(), kind.dimensions as i64);
        let parameters = values![schema, tags, low, model, dimensions].to_vec();
        let mut rows = pin!(client.query_typed_raw(&statement, parameters).await?);
        while let Some(row) = rows.try_next().await? {
            missing.offer(read(&row)?, viewer, now);
        }
    }
    missing.into_texts(client, now).await
}

/// See [`crate::Breadcrumbs::ids`].
pub(super) async fn ids(
    client: &Client,
    prefix: &str,
    viewer: &Viewer,
    limit: usize,
    now: Timestamp,
) -> Result<Vec<BreadcrumbId>, StoreError> {
    let mut found = Vec::new();
    if !is_storable(prefix) {
        return Ok(found);
    }
    // `starts_with` uses no index, the comparison does.
    let rest = "WHERE b.id >= $1 AND starts_with(b.id, $1) AND ($2 IS NULL OR b.id > $2) ORDER BY b.id LIMIT $3";
    let mut after: Option<String> = None;
    loop {
        let page = select(client, rest, values![prefix, after, PAGE]).await?;
        after = page.last().map(|row| row.id.to_string());
        let is_last = (page.len() as i64) < PAGE;
        let readable = page.into_iter().filter(|row| row.is_for(viewer, now)).map(|row| row.id);
        found.extend(readable.take(limit - found.len()));
        if is_last || found.len() == limit {
            return Ok(found);
        }
    }
}
