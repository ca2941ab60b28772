//! `wait_for_event`: waits until somebody outside the run delivers what happened.

use baton_macros::tool;
use baton_tool::{ToolContext, ToolError};
use baton_types::json::Json;

use super::moment_in;

/// Waits for `event`, at most `seconds`. The call ends with what is delivered.
#[tool]
fn wait_for_event(context: &ToolContext, event: String, seconds: Option<u64>) -> Result<Json, ToolError> {
    // The person who delivers reads it in the call's input.
    drop(event);
    let until = seconds.map(|seconds| moment_in(context, seconds)).transpose()?;
    Err(context.wait_for_delivery(until))
}
