//! Entries of tasks: how they begin and how they end.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Said;
use crate::call::{CallResult, CallStatus};
use crate::document::DocumentRef;
use crate::id::{AgentId, CallId, ContentHash, TaskId, ToolId};
use crate::json::Json;
use crate::limits::LimitKind;
use crate::time::Timestamp;

/// The kind of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// The entry point of the run.
    Root,
    /// Created by an `agent_as_tool` call.
    Delegation,
    /// Created by an `ask_master` call.
    Question,
}

/// The agent or person that works on a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Holder {
    /// An agent, by its model.
    Agent(AgentId),
    /// A person; the task runs no model.
    Person,
}

impl Holder {
    /// Returns the agent, unless a person holds the task.
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            Self::Agent(agent) => Some(agent),
            Self::Person => None,
        }
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Agent(agent) => crate::principal::write_agent(f, agent),
            Self::Person => f.write_str("you"),
        }
    }
}

/// The master of a task's questions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Master {
    /// The agent that holds this task, on this task's transcript.
    Task(TaskId),
    /// A person.
    Person,
}

/// A task exists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TaskCreated {
    /// Its id.
    pub task: TaskId,
    /// Its kind.
    pub kind: TaskKind,
    /// Its holder.
    pub holder: Holder,
    /// The task that waits for it; `None` for the root. Its call has this task's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<TaskId>,
    /// The tool whose call created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The master of its questions.
    pub master: Master,
    /// For a question held by an agent: the task on whose transcript, and in whose name, it is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers_for: Option<TaskId>,
    /// The task whose conversation is the beginning of this one's: the root of the run that this run continues, or a caller
    /// that shares its conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begins_from: Option<TaskId>,
    /// Whether the call that created it has its result already: the task id. The end of the task is reported to the caller.
    #[serde(default, skip_serializing_if = "is_false")]
    pub background: bool,
    /// The request, or the question.
    pub request: String,
    /// The documents injected with the request, pinned, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<DocumentRef>,
    /// The number of delegations between the root and this task. Questions do not count.
    pub depth: u32,
    /// The JSON Schema that an answer must meet.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub answer_schema: Json,
    /// When the task times out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// The number of earlier failed attempts at the same delegation.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed_attempts: u32,
    /// Why the newest of them failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
    /// For a question of the engine: the decision about the call in its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concern: Option<Concern>,
}

impl TaskCreated {
    /// Returns the task whose conversation, up to now, is the beginning of this one's.
    pub fn earlier(&self) -> Option<&TaskId> {
        self.begins_from.as_ref().or(self.answers_for.as_ref())
    }

    /// Returns a task without a caller, documents, a schema or a deadline. Its master is a person.
    pub fn new(task: TaskId, kind: TaskKind, holder: Holder, request: String) -> Self {
        Self {
            task,
            kind,
            holder,
            caller: None,
            tool: None,
            master: Master::Person,
            answers_for: None,
            begins_from: None,
            background: false,
            request,
            documents: Vec::new(),
            depth: 0,
            answer_schema: Json::null(),
            deadline: None,
            failed_attempts: 0,
            last_failure: None,
            concern: None,
        }
    }
}

/// The decision of an engine's question about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Concern {
    /// Approval of a call.
    Approval {
        /// The hash of what is approved: the tool, its definition and the input.
        #[serde(alias = "binds")]
        call_hash: ContentHash,
    },
    /// Doubt whether a call that a crash interrupted had an effect.
    Outcome,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// All unfinished tasks below `task` were closed at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SubtreeClosed {
    /// The task whose end closes them.
    pub task: TaskId,
    /// Why.
    pub reason: String,
    /// The tasks closed; each is cancelled from here on, and so are its open calls and, if it is a question, the question.
    pub tasks: Vec<TaskId>,
}

/// The final states of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FinalState {
    /// It did its work, or a part of it before a limit.
    Completed,
    /// It could not.
    Failed,
    /// It was stopped.
    Cancelled,
    /// It took too long.
    TimedOut,
}

impl FinalState {
    /// Returns the name used on timelines.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
        }
    }
}

impl From<CallStatus> for FinalState {
    /// Returns the state of a task that ended with a result of this status.
    fn from(status: CallStatus) -> Self {
        match status {
            CallStatus::Success | CallStatus::Partial => Self::Completed,
            CallStatus::Failed | CallStatus::UnknownOutcome => Self::Failed,
            CallStatus::Cancelled => Self::Cancelled,
            CallStatus::Timeout => Self::TimedOut,
        }
    }
}

/// A task has its one end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TaskEnded {
    /// The task.
    pub task: TaskId,
    /// Final state.
    pub state: FinalState,
    /// Its result; the caller's call gets the same, unless the config of the delegation has it tried again.
    pub result: Arc<CallResult>,
    /// The limit that ended it, when one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitKind>,
    /// When another task tries again what this one failed at; until then, and while that one works, the caller's call has
    /// no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
}

/// The caller of a background task learns its end. The next request of the caller has the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TaskReported {
    /// The task whose call began the background task.
    pub task: TaskId,
    /// That call.
    pub call: CallId,
    /// Its tool.
    pub tool: ToolId,
    /// The background task.
    pub ended: TaskId,
    /// The result of the background task, shared with the conversation.
    pub result: Arc<CallResult>,
    /// Questions and answers on behalf of the calling agent meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<Said>,
}
