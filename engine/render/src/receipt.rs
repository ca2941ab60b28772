//! Rule *route*: `"return_to_llm": false` on a call sends its result to the user as an output. The agent gets a receipt.
//!
//! A handoff's result always goes to the caller, and a refused call always returns to the agent.

use std::sync::Arc;

use baton_types::call::{CallResult, ModelCall};
use baton_types::entry::CallFinished;
use baton_types::json::Json;
use baton_types::tool_type::{Then, ToolType};
use serde_json::json;

/// Whether the result of a call goes to the user.
pub fn goes_to_user(asked: &ModelCall, tool_type: ToolType) -> bool {
    asked.return_to_llm == Some(false) && tool_type.behavior().then != Then::Stop
}

/// Returns `entry` as its agent sees it: the status, an error if there is one, and a receipt in place of output and documents.
pub fn receipt(entry: &CallFinished) -> CallFinished {
    let documents: Vec<String> = entry.result.documents.iter().map(ToString::to_string).collect();
    let mut receipt = json!({"sent_to_user": true});
    if !documents.is_empty() {
        receipt["documents"] = json!(documents);
    }
    let (status, error) = (entry.result.status, entry.result.error.clone());
    let result = CallResult { status, output: Json::from(receipt).into(), error, documents: Vec::new() };
    CallFinished {
        task: entry.task.clone(),
        call: entry.call.clone(),
        tool: entry.tool.clone(),
        tool_type: entry.tool_type,
        after: entry.after,
        repeat: entry.repeat,
        delivered_by: entry.delivered_by.clone(),
        result_of: entry.result_of.clone(),
        said: entry.said.clone(),
        result: Arc::new(result),
        conflicts: entry.conflicts.clone(),
        read: Vec::new(),
        printed: None,
    }
}
