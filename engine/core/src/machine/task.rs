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
    /// Who works on it.
    pub holder: Holder,
    /// The tool whose call created it.
    pub tool: Option<ToolId>,
    /// Who answers its questions.
    pub master: Master,
    /// For a question held by an agent: the task in whose name it is answered.
    pub answers_for: Option<TaskId>,
    /// How many delegations lie above it.
    pub depth: u32,
    /// Where it stands.
    pub state: TaskState,
    /// Its place in the queue it waits in, if it waits in one: that of ready tasks or that of waiting calls.
    pub place: Option<u64>,
    /// The turn in progress: a request, or calls that lack results.
    pub open: Option<Box<OpenTurn>>,
    /// Turns asked for so far.
    pub turns: u32,
    /// Whether the newest of them was settled without an answer, by a crash, and must be asked for again.
    pub interrupted: bool,
    /// Delegations made so far.
    pub children: u32,
    /// Turns in a row that did not count.
    pub reminders: u32,
    /// What was wrong with the turn before, when it did not count.
    pub fault: Option<ReminderReason>,
    /// The limit that makes the turn in progress the last one.
    pub last_turn: Option<LimitKind>,
    /// The last call's tool, input and result, and how often in a row they came.
    pub streak: Option<Box<Streak>>,
    /// The documents that the task has to do with; `None` for none.
    pub documents: Option<Box<TaskDocuments>>,
    /// Tokens of its next request (≈), without what the turn in progress adds.
    pub context_tokens: u64,
    /// How long its newest requests were; `None` where no window limits them.
    pub context: Option<Box<Context>>,
    /// What its own requests, and those of its calls' code, used.
    pub usage: Usage,
    /// What they cost.
    pub cost: Cost,
    /// Tokens reserved for its open request.
    pub reserved_tokens: u64,
    /// Money reserved for its open request.
    pub reserved_cost: Money,
    /// Calls made so far, without handoffs and refused ones; those of a new turn until they are checked.
    pub calls: u32,
    /// What it and all below it used and reserved; kept only where a limit of tokens or money needs it.
    pub budget: Option<Box<Budget>>,
    /// Time spent ready or running, up to [`Task::working_since`].
    pub worked: Duration,
    /// Since when it is ready or running.
    pub working_since: Option<Timestamp>,
    /// When it times out.
    pub deadline: Option<Timestamp>,
    /// What was said in its agent's name, by the waiting call it belongs to.
    pub said: Vec<(CallId, Said)>,
    /// The rest of a question.
    pub question: Option<Arc<Question>>,
    /// What a question of the engine's own decides about the call it is about.
    pub concern: Option<Concern>,
    /// The task that a question went on to when nobody answered in time.
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

    /// The calls that the task waits for while it is blocked.
    pub fn awaited(&self) -> impl Iterator<Item = CallId> + '_ {
        let open = self.open.iter();
        open.flat_map(|turn| turn.calls.iter().filter(|call| call.is_awaited()).map(|call| call.id.clone()))
    }

    /// The version of `path` that it knows: the base of a write.
    pub fn known(&self, path: &DocumentPath) -> Option<u32> {
        self.documents.as_ref()?.known.get(path).copied()
    }

    /// The documents it wrote, newest versions, in the order of their first write.
    pub fn written(&self) -> impl Iterator<Item = &DocumentRef> {
        self.documents.iter().flat_map(|documents| documents.written.iter())
    }

    /// From here on it knows this version of `path`.
    pub(super) fn learn(&mut self, path: DocumentPath, version: u32) {
        self.documents.get_or_insert_default().known.insert(path, version);
    }

    /// Whether the open turn was asked for a summary of older ones, and for nothing else.
    pub fn is_summarising(&self) -> bool {
        self.context.as_ref().is_some_and(|context| context.summarising.is_some())
    }

    /// Time spent ready or running until `now`.
    pub fn worked_until(&self, now: Timestamp) -> Duration {
        self.worked + self.working_since.map_or(Duration::ZERO, |since| now.since(since))
    }
}

/// How long a conversation is, as far as its compaction needs to know.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Context {
    /// Tokens (≈) of what no compaction takes away: the prompt, the tools and the request with its documents.
    pub base_tokens: u64,
    /// The newest requests, oldest first, as long as they are with what was compacted since.
    pub requests: VecDeque<ContextMark>,
    /// The last turn that a summary stands for; 0 without.
    pub through_turn: u32,
    /// The last turn that the summary is to stand for which the open turn was asked for.
    pub summarising: Option<u32>,
}

/// How long a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextMark {
    /// The turn that it was for.
    pub turn: u32,
    /// Its tokens (≈).
    pub tokens: u64,
}

/// The documents that a task has to do with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskDocuments {
    /// The versions that it knows: the bases of its writes.
    pub known: BTreeMap<DocumentPath, u32>,
    /// What it wrote, newest versions, in the order of their first write.
    pub written: Vec<DocumentRef>,
}

/// Where a task stands. There is no other way to stop than [`TaskState::Ended`].
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
    /// Which turn, from 1.
    pub turn: u32,
    /// Whether the model has yet to answer.
    pub requested: bool,
    /// The model that is asked in place of the task's own, once that was not available.
    pub fallback: Option<Arc<str>>,
    /// What the model said beside its calls.
    pub text: Arc<str>,
    /// The calls, in the model's order.
    pub calls: Vec<OpenCall>,
    /// Calls without a result.
    pub unfinished: u32,
    /// Function calls not yet started.
    pub waiting_functions: u32,
    /// Function calls that run.
    pub running_functions: u32,
    /// Whether the one that runs is a writer.
    pub writer_runs: bool,
    /// Delegations and questions that run.
    pub awaited: u32,
    /// Calls that wait for an approval; functions among them have not yet started.
    pub asking: u32,
    /// Function calls of which a question asks whether they took effect.
    pub doubtful: u32,
    /// Whether its request is known to have cost nothing so far, since its provider was away when the run stopped.
    pub uncharged: bool,
    /// What the code of its calls asks models at the moment.
    pub asks: Vec<OpenAsk>,
}

/// A request of a call's code without an answer.
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
    /// Whether the turn can go on only once somebody else is done: nothing runs, and what comes next waits for a task.
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
    /// As the model asked for it.
    pub asked: Arc<ModelCall>,
    /// The tool's type; `None` if the agent has no such tool.
    pub tool_type: Option<ToolType>,
    /// Whether it calls another agent.
    pub delegates: bool,
    /// What was approved, once it was: the hash that [`crate::config::Tool::bound_hash`] gives.
    pub approved: Option<ContentHash>,
    /// How often somebody was asked whether it may begin.
    pub approvals: u32,
    /// What became of the attempts before the one that works now; `None` before the first has failed.
    pub attempts: Option<Box<Attempts>>,
    /// Where it stands.
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

    /// How many attempts at it have failed.
    pub fn failed_attempts(&self) -> u32 {
        self.attempts.as_ref().map_or(0, |attempts| u32::try_from(attempts.failed.len()).unwrap_or(u32::MAX))
    }

    /// When the next attempt at it begins, while none works.
    pub fn retry_at(&self) -> Option<Timestamp> {
        self.attempts.as_ref().and_then(|attempts| attempts.next_at)
    }
}

/// The failed attempts at a delegation whose config has it tried again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attempts {
    /// Their results, in order.
    pub failed: Vec<Arc<CallResult>>,
    /// When the next one begins; `None` while it works.
    pub next_at: Option<Timestamp>,
}

/// Where a call stands.
#[derive(Clone, Debug, PartialEq)]
pub enum CallStage {
    /// Not yet checked, or accepted and not yet begun.
    Waiting,
    /// Accepted; a question asks whether it may begin.
    Approval,
    /// Its executor works, or the task it created does.
    Running,
    /// Its executor is gone; a question asks whether it took effect.
    Doubt,
    /// Its result is the error it was refused with.
    Refused,
    /// It has a result.
    Finished(Finish),
}

/// What the end of the turn needs to know of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Finish {
    /// Its status.
    pub status: CallStatus,
    /// What it asks to happen.
    pub after: AfterExecution,
    /// Whether it goes to the user instead of the agent.
    pub to_user: bool,
    /// The result, kept where the task may end with it.
    pub result: Option<Arc<CallResult>>,
}

/// The same tool, input and result, in a row. Kept as they are rather than as hashes: comparing them is cheaper than
/// hashing every result, and the payloads are shared with the conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Streak {
    /// The last of the calls.
    pub asked: Arc<ModelCall>,
    /// Its result.
    pub result: Arc<CallResult>,
    /// How often.
    pub count: u32,
}

impl Streak {
    /// Whether the call `asked` may continue it.
    pub fn is_of(&self, asked: &ModelCall) -> bool {
        self.asked.tool == asked.tool && self.asked.input == asked.input
    }

    /// Whether `result` is the same again; what an error says in detail does not count.
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

/// What a question has beside a task.
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
    /// What happens when nobody answers in time.
    pub otherwise: Otherwise,
    /// How it closed.
    pub closed: Option<QuestionEnd>,
}
