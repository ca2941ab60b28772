//! Entries of calls: refused, started, finished.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Holder;
use crate::call::{AfterExecution, CallError, CallOutput, CallResult, CallStatus};
use crate::document::DocumentRef;
use crate::id::{AgentId, CallId, ContentHash, TaskId, ToolId};
use crate::json::Json;
use crate::path::DocumentPath;
use crate::tool_type::ToolType;

/// A call was refused before it touched anything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CallRefused {
    /// The calling task.
    pub task: TaskId,
    /// The call.
    pub call: CallId,
    /// The name the model used.
    pub tool: ToolId,
    /// The tool's type, when there is such a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_type: Option<ToolType>,
    /// Why.
    pub error: CallError,
}

/// A call that had to be approved was; it begins when its place has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CallApproved {
    /// The calling task.
    pub task: TaskId,
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: ToolId,
    /// The hash of what was approved: the tool, its definition and the input.
    #[serde(alias = "binds")]
    pub call_hash: ContentHash,
}

/// A call was accepted and begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CallStarted {
    /// The calling task.
    pub task: TaskId,
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: ToolId,
    /// Its type.
    pub tool_type: ToolType,
    /// The documents attached, pinned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<DocumentRef>,
    /// The called agent, or the recipient of the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Holder>,
}

/// A call has its one result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CallFinished {
    /// The calling task.
    pub task: TaskId,
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: ToolId,
    /// Its type.
    pub tool_type: ToolType,
    /// The result, shared with the conversation.
    pub result: Arc<CallResult>,
    /// Wish of the result for the step after the turn.
    pub after: AfterExecution,
    /// Number of times in a row that this tool gave this result for this input, including this time; 0 if it is not
    /// counted.
    #[serde(default)]
    pub repeat: u32,
    /// The earlier call of the same request, whose stored result this is: nothing was executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_of: Option<CallId>,
    /// Questions and answers on behalf of the calling agent while it waited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<Said>,
    /// The stale bases that made the engine drop all writes of the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Conflict>,
    /// Documents of which the output shows a part. The task may write new versions of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<DocumentRef>,
}

/// A write whose base is not the current version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Conflict {
    /// Which document.
    pub path: DocumentPath,
    /// The version the writer knew; `None` if it knew none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<u32>,
    /// The current version; the task knows it from here on.
    pub current: u32,
}

/// A question that was answered in a waiting agent's name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Said {
    /// The agent that asked.
    pub asker: AgentId,
    /// The question.
    pub question: String,
    /// The answer given.
    pub answer: Json,
}

/// A result was sent to the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Output {
    /// The task whose call it was.
    pub task: TaskId,
    /// The call.
    pub call: CallId,
    /// Its status.
    pub status: CallStatus,
    /// Its output.
    pub output: CallOutput,
}
