//! `delegate_async` and `launch_principal`: delegations whose results come later.

use baton_macros::tool;
use baton_tool::{ToolContext, ToolError};
use baton_types::call::{CallStatus, ErrorCode};
use baton_types::id::ROUTE_PREFIX;
use serde::Serialize;
use serde_json::{Value, json};

use super::agents::{Agents, Instruction, ONLY, TargetStrategy};
use super::{failed, invalid, with};

/// A delegation that has begun.
#[derive(Debug, Serialize)]
struct Accepted {
    accepted: bool,
    /// The work: run and task.
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
    let (profile, call) = agents.call(&instruction)?;
    let call = with(call, [("wait", json!(false))]);
    let result = context.call_tool(Some(ONLY), &call.tool, call.input).await?;
    if result.status != CallStatus::Success {
        let code = result.error.as_ref().map(|error| &error.code);
        let is_of_wait = result.reason().contains("\"wait\"");
        return Err(match code {
            Some(ErrorCode::InvalidInput) if is_of_wait => invalid(format!(
                "{profile} takes no work in the background: its tool {ROUTE_PREFIX}{profile} needs \"background\": true, and \"follow_up\": \
                 true to go on with a conversation"
            )),
            _ => failed(&profile, &result),
        });
    }
    let begun = result.output.value();
    match begun.get("task").and_then(Value::as_str) {
        Some(task) => Ok(Accepted { accepted: true, agent_turn_id: format!("{}/{task}", context.run()), turn_epoch: 1 }),
        None => Err(ToolError::new(format!("{ROUTE_PREFIX}{profile} does not delegate in the background"))),
    }
}
