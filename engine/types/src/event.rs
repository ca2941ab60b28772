//! Input and output of the machine.
//!
//! Both lists are closed and exhaustive on purpose: a shell that forgets a case must not compile.

use std::sync::Arc;

use crate::call::{AfterExecution, CallError, CallResult, CallStatus, ModelCall, Suspension};
use crate::document::{Content, DocumentRef, Write};
use crate::entry::{Adoption, CallRequest, ForkPoint, Recorded, RunStarted, Waited};
use crate::id::{AgentId, CallId, ContentHash, TaskId, ToolId};
use crate::json::Json;
use crate::limits::LimitKind;
use crate::model::{ModelTurn, Usage};
use crate::money::Money;
use crate::principal::Principal;

/// Shell → core: something happened. Answered by a [`Decision`] or a [`Refusal`].
#[derive(Clone, Debug)]
pub enum Event {
    /// A person starts the run. Must be the first event, and only that.
    Started {
        /// The first entry.
        run: RunStarted,
        /// The agent of the root task.
        root: AgentId,
        /// The job's documents.
        documents: Vec<Write>,
    },
    /// A model answered a [`Effect::Prompt`].
    ModelAnswered {
        /// The task that was prompted.
        task: TaskId,
        /// The turn that was prompted.
        turn: u32,
        /// The hash of the request as it was sent.
        request: ContentHash,
        /// The answer.
        answer: ModelTurn,
        /// Its entry in another run, if it was taken from there.
        recorded: Option<ForkPoint>,
    },
    /// A model gave no answer to a [`Effect::Prompt`], after all retries. One that is not available
    /// ([`ErrorCode::ModelUnavailable`](crate::call::ErrorCode::ModelUnavailable)) is replaced by its next fallback. One that
    /// exceeded the limit of a turn ([`ErrorCode::TimedOut`](crate::call::ErrorCode::TimedOut)) times its task out.
    ModelFailed {
        /// The task that was prompted.
        task: TaskId,
        /// The turn that was prompted.
        turn: u32,
        /// The model that was asked.
        model: String,
        /// Why.
        error: CallError,
        /// Whether the provider is known to have charged nothing for the request.
        uncharged: bool,
    },
    /// The request of a task waited while its provider was away. Sent before the answer, and before the run stops.
    ModelWaited {
        /// The task.
        task: TaskId,
        /// Its turn.
        turn: u32,
        /// The time, and who was charged for it.
        waited: Waited,
    },
    /// The run cannot continue: its script does not match what the agents did, and continuing would hide that.
    RunFailed {
        /// Why.
        error: CallError,
    },
    /// An executor answered a [`Effect::Execute`].
    CallReturned {
        /// The call.
        call: CallId,
        /// The outcome.
        outcome: Outcome,
    },
    /// An executor ended the code of a call without a result, which comes later.
    CallSuspended {
        /// The call.
        call: CallId,
        /// The moment and the output that it waits for.
        suspension: Suspension,
    },
    /// Somebody outside the run delivers the result of a suspended call. Refused if the call is not suspended, or if its
    /// output would not be accepted from its code either.
    ResultDelivered {
        /// The call.
        call: CallId,
        /// Author.
        by: Principal,
        /// The result: a status, with an output or an error.
        outcome: Outcome,
    },
    /// The code of a running call makes another call. [`Effect::Return`] brings its result, also if the call was made before a
    /// crash and has its result already. Refused if the code made another call with this name ([`Refusal::Diverged`]).
    CallMade {
        /// The call whose code makes it.
        by: CallId,
        /// Its name, unique among the calls of this code ([`is_call_name`](crate::id::is_call_name)).
        name: String,
        /// The tool, the input and the configuration.
        asked: ModelCall,
    },
    /// The code of a running call wants to ask a model. Refused where a limit does not allow it
    /// ([`Refusal::LimitReached`]), and while other reservations block it ([`Refusal::NoRoom`]).
    CallAsksModel(CallAsk),
    /// A model answered the code of a call, or did not.
    CallHeardModel {
        /// The asking call.
        by: CallRequest,
        /// The used tokens and their cost. `None` if unknown, which counts as the whole reservation.
        used: Option<(Usage, Option<Money>)>,
    },
    /// A person answered a [`Effect::AskPerson`].
    PersonAnswered {
        /// The question's task.
        question: TaskId,
        /// Author of the answer: a person, or a program for one.
        by: Principal,
        /// The answer.
        answer: Json,
        /// Documents that the person sends along; written in the person's name.
        documents: Vec<Write>,
        /// Its entry in another run, if a fork takes it from there.
        recorded: Option<ForkPoint>,
    },
    /// Somebody ends a task and all below it; the root's end ends the run.
    CancelRequested {
        /// The task.
        task: TaskId,
        /// Why.
        reason: String,
        /// Author.
        by: Principal,
    },
    /// A person stops the run from taking further steps; what is in flight may finish.
    PauseRequested {
        /// Author.
        by: Principal,
    },
    /// A person continues a paused run.
    UnpauseRequested {
        /// Author.
        by: Principal,
    },
    /// A person sends a message into the next request of a task.
    Steered {
        /// The task.
        task: TaskId,
        /// The message.
        text: String,
        /// Author.
        by: Principal,
    },
    /// The moment of [`baton_machine::Run::next_wake`] has come.
    TimePassed,
    /// A process took the run over: whatever was in flight is gone.
    TakenOver {
        /// The name of the process.
        process: String,
        /// Whether its former owner died, and no person asked for the take-over.
        after_death: bool,
    },
    /// A person continues the run with configs that the shell registered with [`baton_machine::Run::know_configs`];
    /// work in flight is lost. The first event of a fork, or in place of [`Event::TakenOver`].
    Adopted {
        /// Which configs, and why.
        adoption: Adoption,
        /// Documents that the person writes at the same moment.
        documents: Vec<Write>,
        /// Author.
        by: Principal,
    },
}

/// A request that the code of a running call wants to make.
#[derive(Clone, Debug, PartialEq)]
pub struct CallAsk {
    /// The asking call.
    pub by: CallRequest,
    /// The model, as the code names it.
    pub model: String,
    /// Tokens of the request (≈).
    pub input_tokens: u64,
    /// The most tokens of the answer.
    pub output_tokens: u64,
    /// The maximum cost of those tokens. `None` if the price is unknown; no limit of money admits that.
    pub worst_cost: Option<Money>,
}

/// The outcome of a call, as its executor returns it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The status.
    pub status: CallStatus,
    /// The output.
    pub output: Produced,
    /// The error, if the status is not `success`.
    pub error: Option<CallError>,
    /// Documents to write, all or none.
    pub writes: Vec<Write>,
    /// Documents to inject into the calling task.
    pub loads: Vec<DocumentRef>,
    /// Documents of which the output shows a part.
    pub reads: Vec<DocumentRef>,
    /// Wish of the executor's typed envelope for the end of the turn; never read from content.
    pub after: Option<AfterExecution>,
    /// Text that the code printed.
    pub printed: Option<Box<str>>,
}

impl Outcome {
    /// Returns a success with `output` and nothing else.
    pub fn success(output: impl Into<Json>) -> Self {
        Self {
            status: CallStatus::Success,
            output: Produced::Inline(output.into()),
            error: None,
            writes: Vec::new(),
            loads: Vec::new(),
            reads: Vec::new(),
            after: None,
            printed: None,
        }
    }

    /// Returns an outcome without success.
    pub fn error(status: CallStatus, error: CallError) -> Self {
        Self {
            status,
            output: Produced::Inline(Json::null()),
            error: Some(error),
            writes: Vec::new(),
            loads: Vec::new(),
            reads: Vec::new(),
            after: None,
            printed: None,
        }
    }
}

/// The output that an executor returned. The shell measures it, since it alone has bytes; the machine decides what is kept.
#[derive(Clone, Debug, PartialEq)]
pub enum Produced {
    /// An output that is short enough for every receiver.
    Inline(Json),
    /// An output that is too long for an agent's requests. If an agent receives it, the document is written in its place.
    Long {
        /// The output.
        output: Json,
        /// The document that holds it.
        document: Write,
    },
    /// In a fork: the document that the original wrote in place of the same output.
    Kept(Write),
}

/// Core → shell: work to perform once the entries are durable.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Render the task's request and ask its model; answer with [`Event::ModelAnswered`] or [`Event::ModelFailed`].
    Prompt {
        /// The task.
        task: TaskId,
        /// Its turn.
        turn: u32,
    },
    /// Run the tool's executor; answer with [`Event::CallReturned`] or [`Event::CallSuspended`].
    Execute {
        /// The calling task.
        task: TaskId,
        /// The agent that calls.
        agent: AgentId,
        /// The call; with the run id its idempotency key.
        call: CallId,
        /// The tool.
        tool: ToolId,
        /// The checked input.
        input: Json,
    },
    /// Give the code of a running call the result of a call that it made. Results are given in the order of these effects.
    Return {
        /// The call that has the result. [`CallId::outer`] is the call whose code waits for it.
        call: CallId,
        /// Its result.
        result: Arc<CallResult>,
    },
    /// Stop the executor of one call, whose result is not needed any more; no answer is expected.
    StopCall {
        /// The call.
        call: CallId,
    },
    /// A question waits for a person; answer with [`Event::PersonAnswered`].
    AskPerson {
        /// The question's task.
        question: TaskId,
    },
    /// Stop what runs for this task, its model request and its calls; no answer is expected.
    Stop {
        /// The task.
        task: TaskId,
    },
    /// The run has ended. No effect follows.
    EndRun,
}

/// The answer to an event: appended entries, then effects to perform.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The entries, in order, to be committed as one batch.
    pub entries: Vec<Arc<Recorded>>,
    /// The effects to perform after the commit, in order.
    pub effects: Vec<Effect>,
    /// The contents of documents that the machine writes, to be committed with the entries.
    pub contents: Vec<(ContentHash, Content)>,
}

/// The core refuses an event, and nothing changes. The shell reports it to the sender.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The first event must start the run, and only the first.
    #[error("the run {}", if *started { "has already started" } else { "has not started" })]
    Start {
        /// Whether it has.
        started: bool,
    },
    /// There is no such task.
    #[error("there is no task {task}")]
    UnknownTask {
        /// The task named.
        task: TaskId,
    },
    /// Only a run that has ended can be continued.
    #[error("the run has not ended; send a message to the running task instead (`baton steer`)")]
    NotEnded,
    /// A finished task refuses everything.
    #[error("task {task} has ended")]
    Ended {
        /// The task named.
        task: TaskId,
    },
    /// The call is not running, so it cannot ask a model.
    #[error("call {call} is not running")]
    NotRunning {
        /// The call named.
        call: CallId,
    },
    /// No result can be delivered for the call.
    #[error("no result can be delivered for call {call}: {why}")]
    NotSuspended {
        /// The call named.
        call: CallId,
        /// State of the call.
        why: String,
    },
    /// The code of the call has not ended yet. The delivery may come again once it has.
    #[error("the code of call {call} is still running")]
    StillRunning {
        /// The call named.
        call: CallId,
    },
    /// The delivered output cannot be the call's output.
    #[error("the delivery for call {call} is not accepted: {reason}")]
    InvalidDelivery {
        /// The call.
        call: CallId,
        /// Description of the mismatch.
        reason: String,
    },
    /// The code of the call may not make this call at all.
    #[error("the code of {call} cannot make this call: {why}")]
    CannotCall {
        /// The call whose code wants to make it.
        call: CallId,
        /// Why.
        why: String,
    },
    /// The code made another call with this name before: it does not do the same as in its first execution.
    #[error("call {call} was made before with another tool, input or configuration")]
    Diverged {
        /// The call named.
        call: CallId,
    },
    /// The call has made that request already, and it is open.
    #[error("request {request} of call {call} is already in progress")]
    AlreadyAsked {
        /// The call.
        call: CallId,
        /// Which of its requests.
        request: u32,
    },
    /// A limit of tokens or money leaves no room for the request.
    #[error("the request would exceed {limit}")]
    LimitReached {
        /// Which limit.
        limit: LimitKind,
    },
    /// Reservations of other requests leave no room. The request may be made once they are answered.
    #[error("the rest of the budget is reserved by other requests; this request has to wait until one of them ends")]
    NoRoom,
    /// A person holds the task, or its agent is a program: no model is asked in it.
    #[error("no model is asked for task {task}: a person or a program works on it")]
    NoModel {
        /// The task named.
        task: TaskId,
    },
    /// The task is no question that waits for a person.
    #[error("task {task} is not an open question to a person")]
    NotAsked {
        /// The task named.
        task: TaskId,
    },
    /// Only people and programs outside the run answer a question to a person.
    #[error("{by} is neither a person nor a program, so it cannot answer this question")]
    NotAPerson {
        /// Author of the attempt.
        by: Principal,
    },
    /// Somebody answered first.
    #[error("question Q{number} is closed: {how}")]
    QuestionClosed {
        /// The question's number.
        number: u32,
        /// End of the question.
        how: String,
    },
    /// The answer does not meet the question's schema.
    #[error("the answer does not fit the question: {reason}")]
    InvalidAnswer {
        /// Description of the mismatch.
        reason: String,
    },
    /// The configs lack something that living tasks need.
    #[error("the run cannot continue with these configs: {}", .reasons.join("; "))]
    CannotAdopt {
        /// All missing parts.
        reasons: Vec<String>,
    },
    /// A document of the event cannot be written.
    #[error("document {path} cannot be written: {reason}")]
    InvalidDocument {
        /// Its path.
        path: String,
        /// Why.
        reason: String,
    },
}
