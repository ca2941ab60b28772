//! `breadcrumb-create`, `breadcrumb-update`, `breadcrumb-context-merge` and `breadcrumb-approve`.

use baton_macros::tool;
use baton_tool::{BreadcrumbAsk, BreadcrumbReply, ToolContext, ToolError};
use baton_types::breadcrumb::{BreadcrumbChange, NewBreadcrumb, Sensitivity, Verdict, Visibility};
use baton_types::id::BreadcrumbId;
use baton_types::json::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::may_read_pii;

/// Output of `breadcrumb-create`.
#[derive(Serialize)]
struct Created {
    success: bool,
    id: String,
    breadcrumb: Json,
    /// Always null: a failed call is an error result. The seeds name the field.
    error: Option<String>,
}

/// Output of the tools that change a record.
#[derive(Serialize)]
struct Updated {
    success: bool,
    id: String,
    new_version: u64,
    breadcrumb: Json,
    /// As in [`Created`].
    error: Option<String>,
}

/// Changes of `breadcrumb-update`.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Updates {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tags: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    context: Option<Json>,
}

/// Creates a record.
#[tool(id = "breadcrumb-create")]
async fn breadcrumb_create(
    call: &ToolContext,
    schema_name: String,
    title: String,
    tags: Option<Vec<String>>,
    context: Option<Json>,
    description: Option<String>,
    visibility: Option<Visibility>,
    sensitivity: Option<Sensitivity>,
) -> Result<Created, ToolError> {
    let new = NewBreadcrumb {
        title,
        schema_name: Some(schema_name),
        context: context.unwrap_or_else(|| Json::from(serde_json::json!({}))),
        tags: tags.unwrap_or_default(),
        description,
        visibility: visibility.unwrap_or_default(),
        sensitivity: sensitivity.unwrap_or_default(),
        ..NewBreadcrumb::default()
    };
    let (id, _, breadcrumb) = written(call, BreadcrumbAsk::Create(new)).await?;
    Ok(Created { success: true, id, breadcrumb, error: None })
}

/// Replaces the parts of a record that `updates` names.
#[tool(id = "breadcrumb-update")]
async fn breadcrumb_update(
    call: &ToolContext,
    breadcrumb_id: String,
    updates: Updates,
    version: Option<u64>,
) -> Result<Updated, ToolError> {
    let Updates { title, tags, context } = updates;
    let change = BreadcrumbChange { title, tags, context, ..BreadcrumbChange::default() };
    changed(call, breadcrumb_id, change, version).await
}

/// Merges `context` into the context of a record.
#[tool(id = "breadcrumb-context-merge")]
async fn breadcrumb_context_merge(
    call: &ToolContext,
    breadcrumb_id: String,
    context: Json,
    version: Option<u64>,
) -> Result<Updated, ToolError> {
    let change = BreadcrumbChange { merge: Some(context), ..BreadcrumbChange::default() };
    changed(call, breadcrumb_id, change, version).await
}

/// Approves a version of a record, once a person has approved the call.
#[tool(id = "breadcrumb-approve")]
async fn breadcrumb_approve(
    call: &ToolContext,
    breadcrumb_id: String,
    reason: Option<String>,
    version: u64,
) -> Result<Updated, ToolError> {
    let change = BreadcrumbChange { verdict: Some(Verdict { approved: true, reason }), ..BreadcrumbChange::default() };
    changed(call, breadcrumb_id, change, Some(version)).await
}

async fn changed(call: &ToolContext, id: String, change: BreadcrumbChange, version: Option<u64>) -> Result<Updated, ToolError> {
    // The seed's models send 0 for a version that they do not know.
    let expected = version.filter(|version| *version > 0);
    let ask = BreadcrumbAsk::Change { id: BreadcrumbId::new(id), change, expected };
    let (id, new_version, breadcrumb) = written(call, ask).await?;
    Ok(Updated { success: true, id, new_version, breadcrumb, error: None })
}

async fn written(call: &ToolContext, ask: BreadcrumbAsk) -> Result<(String, u64, Json), ToolError> {
    match call.breadcrumbs(ask, may_read_pii(call)?).await? {
        BreadcrumbReply::Written { id, version, record } => Ok((id.to_string(), version, record)),
        BreadcrumbReply::Found { .. } | BreadcrumbReply::Ticks { .. } => {
            Err(ToolError::new("the shell answered a write with a search"))
        }
    }
}
