//! Tools that delegate to agents by name: a delegation in the background, several at once, a question to an expert.
//!
//! They call `route_to_AGENT` as any code does, so all limits, approvals and rules of delegations hold, and an agent reaches only
//! agents that it was granted.

mod agents;
mod background;
mod expert;
mod join;
mod provision;

use baton_tool::{ToolError, ToolErrorKind};
use baton_types::call::{CallResult, ErrorCode, ModelCall};
use baton_types::id::ROUTE_PREFIX;
use serde_json::{Map, Value, json};

/// Returns a call that delegates `request` to the agent `profile`.
fn delegation(profile: &str, request: &str) -> ModelCall {
    ModelCall::new(format!("{ROUTE_PREFIX}{profile}"), json!({"request": request}))
}

/// Returns `call` with the further fields `fields` in its input.
fn with_fields(call: ModelCall, fields: impl IntoIterator<Item = (&'static str, Value)>) -> ModelCall {
    let mut input = match call.input.value() {
        Value::Object(input) => input,
        _ => Map::new(),
    };
    input.extend(fields.into_iter().map(|(name, value)| (name.to_owned(), value)));
    ModelCall::new(call.tool, Value::Object(input))
}

fn invalid(message: impl Into<String>) -> ToolError {
    ToolError::new(message.into()).of_kind(ToolErrorKind::InvalidInput)
}

/// Returns why a delegation to `profile` has no success.
fn reason_of(profile: &str, result: &CallResult) -> String {
    let (reason, tool) = (result.reason(), format!("{ROUTE_PREFIX}{profile}"));
    match result.error.as_ref().map(|error| &error.code) {
        Some(ErrorCode::UnknownTool) => format!("you cannot delegate to an agent {profile:?}"),
        Some(ErrorCode::InvalidInput) if reason.contains("unknown key \"wait\"") => {
            format!("{profile} takes no work in the background: its tool {tool} needs \"background\": true")
        }
        Some(ErrorCode::InvalidInput) if reason.contains("unknown key \"continues\"") => {
            format!("no conversation of {profile} can be continued: its tool {tool} needs \"follow_up\": true")
        }
        _ => format!("the delegation to {profile} ended as {}: {reason}", result.status.as_str()),
    }
}

/// Returns the error of a delegation to `profile` that has no success.
fn failed(profile: &str, result: &CallResult) -> ToolError {
    let error = ToolError::new(reason_of(profile, result));
    let Some(of_result) = &result.error else { return error };
    let is_of_input = matches!(of_result.code, ErrorCode::UnknownTool | ErrorCode::InvalidInput);
    let error = error.with_detail(of_result.detail.clone());
    if is_of_input { error.of_kind(ToolErrorKind::InvalidInput) } else { error }
}
