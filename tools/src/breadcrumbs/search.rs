//! `breadcrumb-search`: finds records by meaning or words, schema and tags.

use baton_macros::tool;
use baton_tool::{BreadcrumbAsk, BreadcrumbReply, ToolContext, ToolError};
use baton_types::breadcrumb::{BreadcrumbQuery, SearchMethod};
use baton_types::json::Json;
use serde::Serialize;

use super::may_read_pii;

/// Number of records (default).
const DEFAULT_LIMIT: u32 = 10;

/// Output of `breadcrumb-search`.
#[derive(Serialize)]
struct Found {
    breadcrumbs: Vec<Json>,
    /// Number of records in `breadcrumbs`.
    count: usize,
    method: SearchMethod,
    /// Number of records found, with those beyond the limit.
    total: u64,
    /// The reason why records were searched by words, if they should have been searched by meaning.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

/// Finds the records that meet every given condition.
#[tool(id = "breadcrumb-search")]
async fn breadcrumb_search(
    call: &ToolContext,
    query: Option<String>,
    schema_name: Option<String>,
    tag: Option<String>,
    tags: Option<Vec<String>>,
    limit: Option<u32>,
    nn: Option<u32>,
) -> Result<Found, ToolError> {
    let tags = tags.unwrap_or_default().into_iter().chain(tag).collect();
    let limit = limit.unwrap_or(DEFAULT_LIMIT) as usize;
    let neighbours = nn.map(|nn| nn as usize);
    let query = BreadcrumbQuery { words: query, schema_name, tags, neighbours, limit };
    match call.breadcrumbs(BreadcrumbAsk::Search(query), may_read_pii(call)?).await? {
        BreadcrumbReply::Found { records, total, method, warning } => {
            Ok(Found { count: records.len(), breadcrumbs: records, method, total, warning })
        }
        BreadcrumbReply::Written { .. } | BreadcrumbReply::Ticks { .. } => {
            Err(ToolError::new("the shell answered a search with a write"))
        }
    }
}
