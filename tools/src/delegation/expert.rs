//! `ask_expert`: a question to an agent, whose answer comes back.

use baton_macros::tool;
use baton_tool::{ToolContext, ToolError};
use baton_types::call::CallStatus;
use serde::Serialize;
use serde_json::Value;

use super::agents::ONLY_DELEGATION;
use super::{delegation, failed};

/// An answer.
#[derive(Debug, Serialize)]
struct Answered {
    answer: Value,
}

/// Asks the agent `expert_profile`, and waits for its answer.
#[tool]
async fn ask_expert(context: &ToolContext, expert_profile: String, question: String) -> Result<Answered, ToolError> {
    let call = delegation(&expert_profile, &question);
    let result = context.call_tool(Some(ONLY_DELEGATION), &call.tool, call.input).await?;
    match result.status {
        CallStatus::Success => Ok(Answered { answer: result.output.value() }),
        _ => Err(failed(&expert_profile, &result)),
    }
}
