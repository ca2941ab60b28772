//! `fork_join`: several delegations at once, one result.

use std::sync::Arc;

use baton_macros::tool;
use baton_tool::{BoxFuture, ToolContext, ToolError};
use baton_types::call::{CallResult, CallStatus};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::Serialize;
use serde_json::{Value, json};

use super::agents::{Agents, Instruction};
use super::{invalid, reason_of};

/// The most delegations of one call.
const MOST_TASKS: usize = 8;

/// The default of `deadline_seconds`. Tasks that have not ended then are cancelled.
const DEADLINE_SECONDS: u64 = 900;

/// The name of the `sleep` call that ends at the deadline.
const DEADLINE: &str = "deadline";

/// Output of `fork_join`.
#[derive(Debug, Serialize)]
struct Outcome {
    /// `success`, `partial`, `failed` or `timeout`.
    status: CallStatus,
    results: Vec<TaskResult>,
}

/// The result of one delegation.
#[derive(Debug, Serialize)]
struct TaskResult {
    /// Its place among the tasks, from 0.
    task_index: usize,
    status: CallStatus,
    /// The id of the task.
    agent_turn_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Delegates all of `tasks`, and waits for their results until the deadline.
#[tool]
async fn fork_join(
    context: &ToolContext,
    tasks: Vec<Instruction>,
    fail_fast: Option<bool>,
    deadline_seconds: Option<u64>,
) -> Result<Outcome, ToolError> {
    if tasks.is_empty() || tasks.len() > MOST_TASKS {
        return Err(invalid(format!("a call takes 1 to {MOST_TASKS} tasks, and these are {}", tasks.len())));
    }
    let (profiles, calls): (Vec<_>, Vec<_>) = Agents::read(context).await?.delegations(&tasks)?.into_iter().unzip();
    context.check_ahead(calls.clone()).await?;
    let fail_fast = fail_fast.unwrap_or_default();
    let mut ended: Vec<Option<Arc<CallResult>>> = vec![None; calls.len()];
    let count = calls.len();
    let mut running: FuturesUnordered<BoxFuture<'_, _>> = FuturesUnordered::new();
    for (index, call) in calls.into_iter().enumerate() {
        running.push(Box::pin(async move {
            let name = (index + 1).to_string();
            (Some(index), context.call_tool(Some(&name), &call.tool, call.input).await)
        }));
    }
    let deadline = json!({"seconds": deadline_seconds.unwrap_or(DEADLINE_SECONDS)});
    running.push(Box::pin(async move { (None, context.call_tool(Some(DEADLINE), "sleep", deadline).await) }));
    let mut status_of_unfinished = CallStatus::Timeout;
    while ended.iter().any(Option::is_none) {
        let Some((index, result)) = running.next().await else { break };
        let result = result?;
        let Some(index) = index else {
            match result.status {
                CallStatus::Success => break,
                _ => return Err(ToolError::new(format!("the deadline cannot be kept: {}", result.reason()))),
            }
        };
        let has_failed = !matches!(result.status, CallStatus::Success | CallStatus::Partial);
        ended[index] = Some(result);
        if fail_fast && has_failed {
            status_of_unfinished = CallStatus::Cancelled;
            break;
        }
    }
    let task = |index: usize| context.call().inner(&(index + 1).to_string()).created_task();
    let results: Vec<TaskResult> = (0..count)
        .map(|task_index| {
            let agent_turn_id = task(task_index).to_string();
            let Some(ended) = &ended[task_index] else {
                let why = if status_of_unfinished == CallStatus::Cancelled {
                    "another task had failed"
                } else {
                    "the deadline had passed"
                };
                return TaskResult {
                    task_index,
                    status: status_of_unfinished,
                    agent_turn_id,
                    result: None,
                    error: Some(why.to_owned()),
                };
            };
            let output = Some(ended.output.value()).filter(|output| !output.is_null());
            let error = (ended.status != CallStatus::Success).then(|| reason_of(&profiles[task_index], ended));
            TaskResult { task_index, status: ended.status, agent_turn_id, result: output, error }
        })
        .collect();
    Ok(Outcome { status: joined(&results), results })
}

/// Returns the status of all results together.
fn joined(results: &[TaskResult]) -> CallStatus {
    let all = |status: CallStatus| results.iter().all(|result| result.status == status);
    let is_useful = |result: &TaskResult| matches!(result.status, CallStatus::Success | CallStatus::Partial);
    match () {
        () if all(CallStatus::Success) => CallStatus::Success,
        () if all(CallStatus::Timeout) => CallStatus::Timeout,
        () if results.iter().any(is_useful) => CallStatus::Partial,
        () => CallStatus::Failed,
    }
}
