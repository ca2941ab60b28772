//! `delegate_async` and `launch_principal`: delegations whose results come later.

use baton_macros::tool;
use baton_tool::{ToolContext, ToolError};
use baton_types::call::CallStatus;
use baton_types::id::ROUTE_PREFIX;
use serde::Serialize;
use serde_json::{Value, json};

use super::agents::{Agents, Instruction, ONLY_DELEGATION, TargetStrategy};
use super::{failed, with_fields};

/// A delegation that has begun.
#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "the outputs of the tool")]
struct Accepted {
    accepted: bool,
    /// The task.
    agent_turn_id: String,
    /// The number of its turn.
    turn_epoch: u32,
}

/// Delegates without waiting for the result.
#[tool]
async fn delegate_async(
    context: &ToolContext,
    target_strategy: TargetStrategy,
    target_ref: String,
    instruction: String,
) -> Result<Accepted, ToolError> {
    begin(context, Instruction { target_strategy, target_ref, instruction }).await
}

/// Lets an agent of the job begin a conversation of its own.
#[tool]
async fn launch_principal(context: &ToolContext, profile_name: String, instruction: String) -> Result<Accepted, ToolError> {
    begin(context, Instruction { target_strategy: TargetStrategy::New, target_ref: profile_name, instruction }).await
}

async fn begin(context: &ToolContext, instruction: Instruction) -> Result<Accepted, ToolError> {
    let agents = match instruction.target_strategy {
        TargetStrategy::New => Agents::default(),
        TargetStrategy::Reuse | TargetStrategy::Clone => Agents::read(context).await?,
    };
    let (profile, call) = agents.delegations(&[instruction])?.remove(0);
    let call = with_fields(call, [("wait", json!(false))]);
    let result = context.call_tool(Some(ONLY_DELEGATION), &call.tool, call.input).await?;
    if result.status != CallStatus::Success {
        return Err(failed(&profile, &result));
    }
    let output = result.output.value();
    match output.get("task").and_then(Value::as_str) {
        Some(task) => Ok(Accepted { accepted: true, agent_turn_id: task.to_owned(), turn_epoch: 1 }),
        None => Err(ToolError::new(format!("{ROUTE_PREFIX}{profile} does not delegate in the background"))),
    }
}
