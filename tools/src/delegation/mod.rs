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
use baton_types::call::{CallResult, ModelCall};
use baton_types::id::ROUTE_PREFIX;
use serde_json::{Map, Value, json};

/// Returns a call that delegates `request` to the agent `profile`.
fn delegation(profile: &str, request: &str) -> ModelCall {
    ModelCall::new(format!("{ROUTE_PREFIX}{profile}"), json!({"request": request}))
}

/// Returns `call` with the further fields `fields` in its input.
fn with(call: ModelCall, fields: impl IntoIterator<Item = (&'static str, Value)>) -> ModelCall {
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

/// Returns the error of a delegation to `profile` that has no success.
fn failed(profile: &str, result: &CallResult) -> ToolError {
    let error = ToolError::new(format!("the delegation to {profile} ended as {}: {}", result.status.as_str(), result.reason()));
    match &result.error {
        Some(of_result) => error.with_detail(of_result.detail.clone()),
        None => error,
    }
}
