//! Entries of calls: made, refused, started, suspended, finished.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Holder;
use crate::approval::ArgumentMatch;
use crate::call::{AfterExecution, CallError, CallOutput, CallResult, CallStatus, ModelCall, Suspension};
use crate::document::DocumentRef;
use crate::id::{AgentId, CallId, ContentHash, TaskId, ToolId};
use crate::json::Json;
use crate::path::DocumentPath;
use crate::principal::Principal;
use crate::tool_type::ToolType;

/// The code of a running call made another call. Models make theirs in `model_answered`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CallMade {
    /// The task of both calls.
    pub task: TaskId,
    /// The call: the id of the call whose code made it, then `:` and its name.
    pub call: CallId,
    /// The tool, the input and the configuration.
    pub asked: Arc<ModelCall>,
}

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
    /// The input that the person gave in place of the agent's; absent if the call was approved as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Json>,
    /// Conditions on inputs. Later calls of this tool that meet all of them are approved, too, until the run ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub class: Vec<ArgumentMatch>,
    /// The call with whose approval a person approved the class of this one; absent if this call was asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_class: Option<CallId>,
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
    /// The effective input: that of the call with the `args` of the tool's config. Absent if it is the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Json>,
    /// The environment variables whose values the code receives as parameters, by parameter. No value is recorded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub envs: BTreeMap<String, String>,
}

/// The code of a call has ended, and the result of the call comes later: from outside, or at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CallSuspended {
    /// The calling task.
    pub task: TaskId,
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: ToolId,
    /// The moment and the output of the call without a delivery.
    pub suspension: Suspension,
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
    /// Author of the delivered result of a suspended call. Absent if its moment came first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_by: Option<Box<Principal>>,
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
    /// Text that the code printed, for people. No model reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<Box<str>>,
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
