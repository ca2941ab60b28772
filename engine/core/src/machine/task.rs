//! A task as the machine keeps it: small, since a run may have many.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::call::{AfterExecution, CallResult, CallStatus, ModelCall};
use crate::document::DocumentRef;
use crate::entry::{CallRequest, Concern, FinalState, Holder, Master, Otherwise, QuestionEnd, ReminderReason, Said, TaskKind};
use crate::id::{AgentId, CallId, ContentHash, TaskId, ToolId};
use crate::json::Json;
use crate::limits::LimitKind;
use crate::model::Usage;
use crate::money::{Cost, Money};
use crate::path::DocumentPath;
use crate::time::Timestamp;
use crate::tool_type::ToolType;

/// One task of a run. Its conversation is not here: see [`crate::render::Transcript`].
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// What it is.
    pub kind: TaskKind,
    /// The agent or person that works on it.
    pub holder: Holder,
    /// The tool whose call created it.
    pub tool: Option<ToolId>,
    /// The master of its questions.
    pub master: Master,
    /// For a question held by an agent: the task on whose behalf it is answered.
    pub answers_for: Option<TaskId>,
    /// The number of delegations above it.
    pub depth: u32,
    /// Its state.
    pub state: TaskState,
    /// Its place in the queue of ready tasks or of waiting calls, if it is in one.
    pub place: Option<u64>,
    /// The turn in progress: a request, or calls that lack results.
    pub open: Option<Box<OpenTurn>>,
    /// Turns requested so far.
    pub turns: u32,
    /// Whether a crash ended the newest turn without an answer, so that it must be requested again.
    pub interrupted: bool,
    /// Delegations made so far.
    pub children: u32,
    /// Consecutive turns that did not count.
    pub reminders: u32,
    /// Why the turn before did not count.
    pub fault: Option<ReminderReason>,
    /// The limit that makes the turn in progress the last one.
    pub last_turn: Option<LimitKind>,
    /// The last call's tool, input and result, and how often they were repeated.
    pub streak: Option<Box<Streak>>,
    /// The documents that the task knows or wrote; `None` for none.
    pub documents: Option<Box<TaskDocuments>>,
    /// Tokens of its next request (≈), without the turn in progress.
    pub context_tokens: u64,
    /// The lengths of its newest requests; `None` without a window limit.
    pub context: Option<Box<Context>>,
    /// Tokens used by its own requests and by those of its calls' code.
    pub usage: Usage,
    /// The cost of those tokens.
    pub cost: Cost,
    /// Tokens reserved for its open request.
    pub reserved_tokens: u64,
    /// Money reserved for its open request.
    pub reserved_cost: Money,
    /// Calls that count towards `limits.calls`, including those of a new turn until they are checked.
    pub calls: u32,
    /// Tokens and money used and reserved by it and all tasks below it; kept only where a limit needs it.
    pub budget: Option<Box<Budget>>,
    /// Time spent ready or running, up to [`Task::working_since`].
    pub worked: Duration,
    /// The moment since which it is ready or running.
    pub working_since: Option<Timestamp>,
    /// Its deadline.
    pub deadline: Option<Timestamp>,
    /// Answers given on this agent's behalf, keyed by the waiting call.
    pub said: Vec<(CallId, Said)>,
    /// The fields of a question.
    pub question: Option<Arc<Question>>,
    /// For a question of the engine: the decision about a call.
    pub concern: Option<Concern>,
    /// The task to which an unanswered question was escalated.
    pub escalated: Option<TaskId>,
    /// Messages from a person for the next request.
    pub steering: Vec<String>,
}

impl Task {
    /// Whether it has not ended.
    pub fn is_live(&self) -> bool {
        !matches!(self.state, TaskState::Ended(_))
    }

    /// The agent that holds it; `None` for a person.
    pub fn agent(&self) -> Option<&AgentId> {
        match &self.holder {
            Holder::Agent(agent) => Some(agent),
            Holder::Person => None,
        }
    }

    /// The calls for which the task is blocked.
    pub fn awaited(&self) -> impl Iterator<Item = CallId> + '_ {
        let open = self.open.iter();
        open.flat_map(|turn| turn.calls.iter().filter(|call| call.is_awaited()).map(|call| call.id.clone()))
    }

    /// The known version of `path`: the base of a write.
    pub fn known(&self, path: &DocumentPath) -> Option<u32> {
        self.documents.as_ref()?.known.get(path).copied()
    }

    /// The newest versions of its written documents, in the order of their first write.
    pub fn written(&self) -> impl Iterator<Item = &DocumentRef> {
        self.documents.iter().flat_map(|documents| documents.written.iter())
    }

    /// Records that the task knows this version of `path`.
    pub(super) fn learn(&mut self, path: DocumentPath, version: u32) {
        self.documents.get_or_insert_default().known.insert(path, version);
    }

    /// Whether the open turn only requests a summary of older turns.
    pub fn is_summarising(&self) -> bool {
        self.context.as_ref().is_some_and(|context| context.summarising.is_some())
    }

    /// Time spent ready or running until `now`.
    pub fn worked_until(&self, now: Timestamp) -> Duration {
        self.worked + self.working_since.map_or(Duration::ZERO, |since| now.since(since))
    }
}

/// The length of a conversation, as its compaction needs it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Context {
    /// Tokens (≈) that no compaction removes: the prompt, the tools and the request with its documents.
    pub base_tokens: u64,
    /// The newest requests, oldest first, with their lengths after compaction.
    pub requests: VecDeque<ContextMark>,
    /// The last turn in the summary; 0 without a summary.
    pub through_turn: u32,
    /// The last turn in the summary that the open turn requests.
    pub summarising: Option<u32>,
}

/// The length of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextMark {
    /// Its turn.
    pub turn: u32,
    /// Its tokens (≈).
    pub tokens: u64,
}

/// The documents that a task knows or wrote.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskDocuments {
    /// The known versions: the bases of its writes.
    pub known: BTreeMap<DocumentPath, u32>,
    /// The newest versions of its written documents, in the order of their first write.
    pub written: Vec<DocumentRef>,
}

/// The state of a task. A task stops only by [`TaskState::Ended`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// It may ask its model, as soon as limits admit the request.
    Ready,
    /// Its model answers, or its calls run.
    Running,
    /// It waits for the calls that [`Task::awaited`] lists, never for none.
    Blocked,
    /// It has its one result.
    Ended(FinalState),
}

impl TaskState {
    /// The name used on timelines.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Blocked => "blocked",
            Self::Ended(state) => state.as_str(),
        }
    }
}

/// A turn in progress.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenTurn {
    /// Its number, from 1.
    pub turn: u32,
    /// Whether the model has yet to answer.
    pub requested: bool,
    /// The fallback model of this turn, if the task's own is not available.
    pub fallback: Option<Arc<str>>,
    /// The text of the answer.
    pub text: Arc<str>,
    /// The calls, in the model's order.
    pub calls: Vec<OpenCall>,
    /// Calls without a result.
    pub unfinished: u32,
    /// Function calls not yet started.
    pub waiting_functions: u32,
    /// Running function calls.
    pub running_functions: u32,
    /// Whether the running call is a writer.
    pub writer_runs: bool,
    /// Running delegations and questions.
    pub awaited: u32,
    /// Pending approvals. Function calls among them have not started.
    pub asking: u32,
    /// Function calls with an unknown outcome, about which a question is open.
    pub doubtful: u32,
    /// Whether its request has cost nothing, because its provider was away when the run stopped.
    pub uncharged: bool,
    /// Open model requests of its calls' code.
    pub asks: Vec<OpenAsk>,
}

/// An open model request of a call's code.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenAsk {
    /// Who asks.
    pub by: CallRequest,
    /// Tokens of the request (≈).
    pub input_tokens: u64,
    /// Tokens reserved for it and its answer.
    pub reserved_tokens: u64,
    /// Money reserved for them; `None` where the price is not known.
    pub reserved_cost: Option<Money>,
}

impl OpenTurn {
    /// Whether the turn is blocked: no function runs, and the next call waits for another task.
    pub fn waits(&self) -> bool {
        let next = || {
            self.calls.iter().find(|call| call.is_function() && matches!(call.stage, CallStage::Waiting | CallStage::Approval))
        };
        self.running_functions == 0
            && match self.waiting_functions {
                0 => self.awaited + self.asking + self.doubtful > 0,
                _ => self.doubtful > 0 || (self.asking > 0 && next().is_some_and(|call| call.stage == CallStage::Approval)),
            }
    }

    /// The index of `call`, if it is one of this turn.
    pub fn index_of(&self, call: &CallId) -> Option<usize> {
        let (turn, position) = call.position()?;
        let index = (position as usize).checked_sub(1)?;
        (turn == self.turn && index < self.calls.len()).then_some(index)
    }
}

/// A call of a turn in progress.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenCall {
    /// Its id.
    pub id: CallId,
    /// The call as the model wrote it.
    pub asked: Arc<ModelCall>,
    /// The tool's type; `None` if the agent has no such tool.
    pub tool_type: Option<ToolType>,
    /// Whether it is a delegation.
    pub delegates: bool,
    /// The approved [`crate::config::Tool::bound_hash`], once it is approved.
    pub approved: Option<ContentHash>,
    /// The number of approval questions so far.
    pub approvals: u32,
    /// The failed attempts before the current one; `None` before the first failure.
    pub attempts: Option<Box<Attempts>>,
    /// Its stage.
    pub stage: CallStage,
}

impl OpenCall {
    /// Whether an executor runs it.
    pub fn is_function(&self) -> bool {
        self.tool_type.is_some_and(|tool_type| tool_type.behavior().runs_code)
    }

    /// Whether the task is blocked on it.
    pub fn is_awaited(&self) -> bool {
        let runs = || self.tool_type.is_some_and(|tool_type| tool_type.behavior().blocks_caller);
        match self.stage {
            CallStage::Approval | CallStage::Doubt => true,
            CallStage::Running => runs(),
            CallStage::Waiting | CallStage::Refused | CallStage::Finished(_) => false,
        }
    }

    /// Whether it has its result.
    pub fn is_finished(&self) -> bool {
        matches!(self.stage, CallStage::Refused | CallStage::Finished(_))
    }

    /// The number of failed attempts.
    pub fn failed_attempts(&self) -> u32 {
        self.attempts.as_ref().map_or(0, |attempts| u32::try_from(attempts.failed.len()).unwrap_or(u32::MAX))
    }

    /// The moment of the next attempt, while none is running.
    pub fn retry_at(&self) -> Option<Timestamp> {
        self.attempts.as_ref().and_then(|attempts| attempts.next_at)
    }
}

/// The failed attempts of a delegation with a retry policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attempts {
    /// Their results, in order.
    pub failed: Vec<Arc<CallResult>>,
    /// The moment of the next attempt; `None` while one is running.
    pub next_at: Option<Timestamp>,
}

/// The stage of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallStage {
    /// Not yet checked, or accepted and not yet begun.
    Waiting,
    /// Accepted; a question asks whether it may begin.
    Approval,
    /// Its executor or its task is running.
    Running,
    /// Its executor is gone; a question asks whether it took effect.
    Doubt,
    /// Its result is the error it was refused with.
    Refused,
    /// It has a result.
    Finished(Finish),
}

/// The parts of a result that decide the end of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Finish {
    /// Its status.
    pub status: CallStatus,
    /// The requested end of the turn.
    pub after: AfterExecution,
    /// Whether it goes to the user instead of the agent.
    pub to_user: bool,
    /// The result, kept where the task may end with it.
    pub result: Option<Arc<CallResult>>,
}

/// A repeated tool, input and result. They are kept rather than hashed: comparing them is cheaper than
/// hashing every result, and the payloads are shared with the conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Streak {
    /// The last of the calls.
    pub asked: Arc<ModelCall>,
    /// Its result.
    pub result: Arc<CallResult>,
    /// The number of repetitions.
    pub count: u32,
}

impl Streak {
    /// Whether the call `asked` may continue it.
    pub fn is_of(&self, asked: &ModelCall) -> bool {
        self.asked.tool == asked.tool && self.asked.input == asked.input
    }

    /// Whether `result` is the same again. Details of an error do not count.
    pub fn is_same(&self, result: &CallResult) -> bool {
        let messages = [&self.result, result].map(|result| result.error.as_ref().map(|error| error.message.as_str()));
        self.result.status == result.status
            && self.result.output == result.output
            && self.result.documents == result.documents
            && messages[0] == messages[1]
    }
}

/// Tokens and money used and reserved by a task and all below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Tokens settled.
    pub tokens: u64,
    /// Tokens reserved by open requests.
    pub reserved_tokens: u64,
    /// Money settled.
    pub cost: Money,
    /// Money reserved by open requests.
    pub reserved_cost: Money,
}

/// The fields that a question has beside those of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Its number in the run.
    pub number: u32,
    /// The task that asked.
    pub asker: TaskId,
    /// The question.
    pub text: String,
    /// The documents that came with it.
    pub documents: Vec<DocumentRef>,
    /// The JSON Schema that an answer must meet; `null` without.
    pub answer_schema: Json,
    /// The policy for a missed deadline.
    pub otherwise: Otherwise,
    /// How it was closed; `None` while it is open.
    pub closed: Option<QuestionEnd>,
}
