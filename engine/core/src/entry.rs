//! The timeline: the ordered facts of a run. State is their fold, and nothing else is true.
//!
//! The list of entries is closed and exhaustive on purpose: a reader that forgets a case must not compile.
//! Entries are stored as externally tagged JSON, because payloads are kept raw ([`Json`]).
//!
//! An entry is *not* a log line: nothing here is for people alone, and nothing that replay needs is missing.

use serde::{Deserialize, Serialize};

use crate::call::{AfterExecution, CallError, CallResult, CallStatus, ModelCall};
use crate::document::{DocumentRef, DocumentVersion};
use crate::id::{AgentId, CallId, ContentHash, JobId, RunId, TaskId};
use crate::json::Json;
use crate::limits::LimitKind;
use crate::model::{FinishReason, Usage};
use crate::path::DocumentPath;
use crate::time::Timestamp;
use crate::tool_type::ToolType;

/// An entry in its place: `seq` runs from 1 without gaps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// Its place in the run.
    pub seq: u64,
    /// When it was decided.
    pub at: Timestamp,
    /// The fact.
    pub entry: Entry,
}

/// One fact of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// The run exists.
    RunStarted(RunStarted),
    /// A task exists; it is the root, a delegation or a question.
    TaskCreated(TaskCreated),
    /// A model is about to be asked; the worst case of the request is reserved.
    ModelRequested(ModelRequested),
    /// The model answered.
    ModelAnswered(ModelAnswered),
    /// A call was refused before it touched anything: its one result is an error.
    CallRefused(CallRefused),
    /// A call was accepted and begins.
    CallStarted(CallStarted),
    /// A call has its one result.
    CallFinished(CallFinished),
    /// A document has a new version.
    DocumentWritten(DocumentVersion),
    /// A question waits for its answer.
    QuestionOpened(QuestionOpened),
    /// A question was answered, expired or was withdrawn.
    QuestionClosed(QuestionClosed),
    /// A result was sent to the user instead of the agent.
    Output(Output),
    /// What a model request really used replaces what was reserved for it.
    BudgetSettled(BudgetSettled),
    /// Older turns of a task are replaced by a summary in later requests.
    Compacted(Compacted),
    /// Somebody outside the task graph acted on the run.
    Control(Control),
    /// All unfinished tasks below a task were closed at once, with their open calls and questions.
    SubtreeClosed(SubtreeClosed),
    /// A task has its one end.
    TaskEnded(TaskEnded),
    /// The run has its one end.
    RunEnded(RunEnded),
}

impl Entry {
    /// The task that the entry belongs to; `None` for what concerns the whole run.
    pub fn task(&self) -> Option<&TaskId> {
        match self {
            Self::RunStarted(_) | Self::RunEnded(_) => None,
            Self::TaskCreated(entry) => Some(&entry.task),
            Self::ModelRequested(entry) => Some(&entry.task),
            Self::ModelAnswered(entry) => Some(&entry.task),
            Self::CallRefused(entry) => Some(&entry.task),
            Self::CallStarted(entry) => Some(&entry.task),
            Self::CallFinished(entry) => Some(&entry.task),
            Self::DocumentWritten(entry) => entry.task.as_ref(),
            Self::QuestionOpened(entry) => Some(&entry.task),
            Self::QuestionClosed(entry) => Some(&entry.task),
            Self::Output(entry) => Some(&entry.task),
            Self::BudgetSettled(entry) => Some(&entry.task),
            Self::Compacted(entry) => Some(&entry.task),
            Self::Control(entry) => entry.task.as_ref(),
            Self::SubtreeClosed(entry) => Some(&entry.task),
            Self::TaskEnded(entry) => Some(&entry.task),
        }
    }

    /// The entry's name, as `type` shows it for entries that are not calls.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::RunStarted(_) => "run_started",
            Self::TaskCreated(_) => "task_created",
            Self::ModelRequested(_) => "model_requested",
            Self::ModelAnswered(_) => "model_answered",
            Self::CallRefused(_) => "call_refused",
            Self::CallStarted(_) => "call_started",
            Self::CallFinished(_) => "call_finished",
            Self::DocumentWritten(_) => "document_written",
            Self::QuestionOpened(_) => "question_opened",
            Self::QuestionClosed(_) => "question_closed",
            Self::Output(_) => "output",
            Self::BudgetSettled(_) => "budget_settled",
            Self::Compacted(_) => "compacted",
            Self::Control(_) => "control",
            Self::SubtreeClosed(_) => "subtree_closed",
            Self::TaskEnded(_) => "task_ended",
            Self::RunEnded(_) => "run_ended",
        }
    }
}

/// The run exists. Always entry 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// Its id.
    pub run: RunId,
    /// The job it executes.
    pub job: JobId,
    /// The stored sources of every config it is pinned to.
    pub configs: ContentHash,
    /// The folder the job was read from, for `exec` tools and for saying that it changed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The request of the root task, rendered.
    pub request: String,
    /// The typed inputs of the job.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub inputs: Json,
    /// A model that stands in for every agent's own, when one was named at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The version of the engine that started it.
    pub engine: String,
    /// Where it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkPoint>,
}

/// A place in another run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForkPoint {
    /// The other run.
    pub run: RunId,
    /// Its last entry that is shared.
    pub seq: u64,
}

/// What a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// The entry point of the run.
    Root,
    /// Created by an `agent_as_tool` call.
    Delegation,
    /// Created by an `ask_master` call.
    Question,
}

/// Who works on a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Holder {
    /// An agent, by its model.
    Agent(AgentId),
    /// A person; the task runs no model.
    Person,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Agent(agent) => write!(f, "{agent}"),
            Self::Person => f.write_str("you"),
        }
    }
}

/// Who answers a task's questions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Master {
    /// The agent that holds this task, on this task's transcript.
    Task(TaskId),
    /// A person.
    Person,
}

/// A task exists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskCreated {
    /// Its id.
    pub task: TaskId,
    /// What it is.
    pub kind: TaskKind,
    /// Who works on it.
    pub holder: Holder,
    /// The task that waits for it; `None` for the root. Its call has this task's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<TaskId>,
    /// The tool whose call created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Who answers its questions.
    pub master: Master,
    /// For a question held by an agent: the task on whose transcript, and in whose name, it is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers_for: Option<TaskId>,
    /// What is to be done, or the question.
    pub request: String,
    /// The documents injected with the request, pinned, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<DocumentRef>,
    /// How many delegations lie between the root and this task; questions do not count.
    pub depth: u32,
    /// The JSON Schema that an answer must meet.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub answer_schema: Json,
    /// When the task times out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
}

/// A model is about to be asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelRequested {
    /// The task whose turn it is.
    pub task: TaskId,
    /// Which of its turns, from 1.
    pub turn: u32,
    /// The model's name in the job.
    pub model: String,
    /// Tokens of the request (≈).
    pub input_tokens: u64,
    /// Tokens reserved on this task, every task above it and the run: the worst case.
    pub reserved_tokens: u64,
    /// What the agent is told first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<Notice>,
}

/// What the engine tells an agent at the head of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    /// The turn before did not count; the number says how many in a row.
    Reminder {
        /// 1 or 2.
        count: u32,
        /// What was wrong with the turn.
        reason: ReminderReason,
    },
    /// A limit was reached: this is the last turn and only a handoff is offered.
    LastTurn {
        /// Which limit.
        limit: LimitKind,
    },
    /// A person sent a message into the running task.
    Steer {
        /// The message.
        text: String,
    },
}

/// Why a turn counted as a reminder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReminderReason {
    /// Neither text nor calls.
    Empty,
    /// Text, where the agent must use a tool.
    TextOnly,
    /// Text that breaks the result schema of the agent, or the answer schema of the question.
    InvalidResult,
    /// Cut by the length of the answer.
    Cut,
    /// Withheld by the provider.
    Filtered,
    /// Declined by the model.
    Declined,
}

/// The model answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelAnswered {
    /// The task whose turn it is.
    pub task: TaskId,
    /// Which of its turns.
    pub turn: u32,
    /// What it said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// What it asked for; the call at index `i` has the id `<task>/<turn>.<i + 1>`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ModelCall>,
    /// Why it stopped.
    pub finish: FinishReason,
    /// The hash of the request it answered, so that replay can prove byte-identical requests.
    pub request: ContentHash,
    /// The vendor's reasoning blocks, sent back unchanged to that vendor only.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub reasoning: Json,
}

/// A call was refused before it touched anything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallRefused {
    /// The calling task.
    pub task: TaskId,
    /// The call.
    pub call: CallId,
    /// The name the model used.
    pub tool: String,
    /// The tool's type, when there is such a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_type: Option<ToolType>,
    /// Why.
    pub error: CallError,
}

/// A call was accepted and begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallStarted {
    /// The calling task.
    pub task: TaskId,
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// Its type.
    pub tool_type: ToolType,
    /// The documents attached, pinned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<DocumentRef>,
    /// Who was called or asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Holder>,
}

/// A call has its one result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallFinished {
    /// The calling task.
    pub task: TaskId,
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// Its type.
    pub tool_type: ToolType,
    /// The result.
    pub result: CallResult,
    /// What the result asks to happen once the turn is complete.
    pub after: AfterExecution,
    /// How often in a row this tool gave this result for this input, this time included; 0 where it is not counted.
    #[serde(default)]
    pub repeat: u32,
    /// What was asked and answered in the calling agent's name while it waited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<Said>,
    /// The stale bases that made the engine drop all writes of the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Conflict>,
}

/// A write whose base is not the current version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conflict {
    /// Which document.
    pub path: DocumentPath,
    /// The version the writer knew; `None` if it knew none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<u32>,
    /// The version that stands; the task knows it from here on.
    pub current: u32,
}

/// A question that was answered in a waiting agent's name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// The agent that asked.
    pub asker: AgentId,
    /// The question.
    pub question: String,
    /// The answer given.
    pub answer: Json,
}

/// A question waits for its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuestionOpened {
    /// The question's task.
    pub task: TaskId,
    /// Its number in the run, from 1: people say `Q1`.
    pub number: u32,
    /// The task that asked.
    pub asker: TaskId,
    /// Who is asked.
    pub holder: Holder,
    /// The question.
    pub question: String,
    /// The documents that came with it, pinned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<DocumentRef>,
    /// The JSON Schema that an answer must meet.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub answer_schema: Json,
    /// What happens when nobody answers before the deadline of the task.
    pub otherwise: Otherwise,
}

/// What happens to a question that nobody answered in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Otherwise {
    /// This answer is taken.
    Default(Json),
    /// The question goes to the next master; from a person it fails.
    Escalate,
    /// The asker gets a `timeout` result.
    Fail,
}

/// A question was answered, expired or was withdrawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuestionClosed {
    /// The question's task.
    pub task: TaskId,
    /// Its number.
    pub number: u32,
    /// How it closed.
    pub how: QuestionEnd,
}

/// How a question closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionEnd {
    /// Somebody answered.
    Answered {
        /// An agent's id, or how a person is known to the shell.
        by: String,
        /// The answer.
        answer: Json,
    },
    /// Nobody did before the deadline; the default was taken, or none.
    Expired {
        /// The default that was taken.
        #[serde(default, skip_serializing_if = "Json::is_null")]
        default: Json,
    },
    /// Nobody did before the deadline, and the question went on to the next master.
    Escalated {
        /// Who is asked now.
        to: Holder,
        /// By which task.
        task: TaskId,
    },
    /// The task that should have answered it ended without an answer.
    Failed {
        /// Why.
        reason: String,
    },
}

/// A result was sent to the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// The task whose call it was.
    pub task: TaskId,
    /// The call.
    pub call: CallId,
    /// Its status.
    pub status: CallStatus,
    /// What came out.
    pub output: Json,
}

/// What a model request really used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BudgetSettled {
    /// The task.
    pub task: TaskId,
    /// Its turn.
    pub turn: u32,
    /// What had been reserved.
    pub reserved_tokens: u64,
    /// What was used.
    pub usage: Usage,
}

/// Older turns are replaced by a summary in later requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compacted {
    /// The task.
    pub task: TaskId,
    /// The last turn that the summary stands for.
    pub through_turn: u32,
    /// The summary.
    pub summary: String,
}

/// Somebody outside the task graph acted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// The task acted on; `None` for the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// What was done.
    pub action: ControlAction,
    /// Who did it.
    pub by: String,
}

/// What somebody outside the task graph did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlAction {
    /// No further step is taken.
    Paused,
    /// Steps are taken again.
    Unpaused,
    /// The task and all below it end.
    Cancelled {
        /// Why.
        reason: String,
    },
    /// A message enters the task's next request.
    Steered {
        /// The message.
        text: String,
    },
    /// A process took the run over after another stopped.
    TakenOver,
    /// Something came too late, or twice, or from nowhere: recorded and not applied.
    Late {
        /// What came.
        what: String,
    },
}

/// All unfinished tasks below `task` were closed at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubtreeClosed {
    /// The task whose end closes them.
    pub task: TaskId,
    /// Why.
    pub reason: String,
    /// The tasks closed; each is cancelled from here on, and so are its open calls and, if it is a question, the question.
    pub tasks: Vec<TaskId>,
}

/// The final states of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The name used on timelines.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
        }
    }
}

/// A task has its one end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskEnded {
    /// The task.
    pub task: TaskId,
    /// How.
    pub state: FinalState,
    /// Its result; the caller's call gets the same.
    pub result: CallResult,
    /// The limit that ended it, when one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitKind>,
}

/// The run has its one end: that of its root task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunEnded {
    /// How the root ended.
    pub state: FinalState,
    /// The status of its result.
    pub status: CallStatus,
    /// The limit that ended it, when one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitKind>,
}
