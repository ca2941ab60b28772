//! The rules of a run, one file each. A rule appends entries and returns the steps that follow from them; it never calls
//! another rule. [`super::settle`] is the only code that runs steps.
//!
//! | file | rule |
//! | --- | --- |
//! | `arrive`, `start`, `act`, `close`, `end`, `text`, `after`, `route` | the rules of one turn |
//! | `answer` | a model answers, fails or waits |
//! | `ending` | one end: whatever ends a task gives its caller exactly one result |
//! | `writes` | a function returns; new versions and long outputs |
//! | `join`, `retry` | the delegations of a turn, and further attempts at them |
//! | `question` | questions, approvals and unknown outcomes |
//! | `limits`, `window` | before a model is asked |
//! | `code` | the code of a running call asks a model |
//! | `people`, `time`, `crash`, `adopt` | what comes from outside |

pub(super) mod act;
pub(super) mod adopt;
pub(super) mod after;
pub(super) mod answer;
pub(super) mod arrive;
pub(super) mod close;
pub(super) mod code;
pub(super) mod crash;
pub(super) mod end;
pub(super) mod ending;
pub(super) mod join;
pub(super) mod limits;
pub(super) mod people;
pub(super) mod question;
pub(super) mod retry;
pub(super) mod route;
pub(super) mod start;
pub(super) mod text;
pub(super) mod time;
pub(super) mod window;
pub(super) mod writes;

use std::sync::Arc;

use baton_types::call::{AfterExecution, CallError, CallResult, CallStatus, ErrorCode};
use baton_types::config::Approver;
use baton_types::document::DocumentRef;
use baton_types::entry::FinalState;
use baton_types::id::ContentHash;
use baton_types::json::Json;
use baton_types::limits::LimitKind;

use super::draft::CallAt;
use super::graph::TaskIndex;
use super::task::Task;

/// What follows from a rule, in order. A step is complete, with all that follows from it, before the next one begins.
pub(super) type Steps = Vec<Step>;

/// One step towards rest. A step whose task has ended or moved on since does nothing.
pub(super) enum Step {
    /// Looks at the turn of a task once no other step is left: `Start`, `Act`, `Join` and `EndTurn`, in this order.
    Advance(TaskIndex),
    /// Checks the calls of an answered turn from `from` on; `creating` earlier ones will create tasks.
    Arrive { task: TaskIndex, from: usize, creating: u32 },
    /// Begins function calls.
    Start(TaskIndex),
    /// Lets delegations, questions and handoffs from `from` on act.
    Act { task: TaskIndex, from: usize },
    /// Hands off.
    HandOff(CallAt),
    /// Creates the task of an agent's question.
    AskMaster { call: CallAt, documents: Vec<DocumentRef> },
    /// Asks for an approval; `creating` earlier calls of the turn will create tasks.
    AskApproval { call: CallAt, approver: Approver, documents: Vec<DocumentRef>, creating: u32 },
    /// An approval was decided by the end of `question`.
    DecideApproval { call: CallAt, question: TaskIndex, binds: ContentHash, result: Arc<CallResult> },
    /// The question what became of a call has ended.
    TakeOutcome { call: CallAt, result: Arc<CallResult> },
    /// Ends delegations that the join of the turn no longer needs.
    Join(TaskIndex),
    /// Makes the next attempt at a delegation.
    Retry(CallAt),
    /// Gives a call its result.
    Deliver { call: CallAt, result: Arc<CallResult>, envelope: Option<AfterExecution> },
    /// The last result of the turn is in.
    EndTurn(TaskIndex),
    /// An answer without calls, or one that does not count.
    Text(TaskIndex),
    /// Ends a task.
    End { task: TaskIndex, end: Box<End> },
    /// Closes what is below a task, and its calls.
    Close { task: TaskIndex, reason: &'static str },
    /// Passes an unanswered question on to the next master.
    Escalate(TaskIndex),
    /// Makes room in the conversation of a ready task; then its model may be asked.
    Fit(TaskIndex),
    /// Asks the model of a ready task, if limits admit it.
    Request(TaskIndex),
    /// Looks at the first ready task that became so after entry `place`, and then at the next.
    Admit { place: u64 },
    /// Replaces all older turns that may be replaced by a digest.
    Shorten(TaskIndex),
    /// Replaces the turns that a summary was asked for; without a summary by a digest.
    Summarise { task: TaskIndex, summary: Option<String> },
    /// Withdraws the questions about calls that have changed.
    WithdrawApprovals,
    /// Continues a task of which nothing is in flight any more.
    Recover { task: TaskIndex, recovery: crash::Recovery },
    /// Continues a call of which nothing is in flight any more.
    Resume { call: CallAt, recovery: crash::Recovery },
    /// A crash interrupted a call that is never repeated.
    Interrupt(CallAt),
    /// Does what is due by now, earliest first.
    PassTime,
}

/// How a task ends.
pub(super) struct End {
    pub(super) state: FinalState,
    pub(super) result: Arc<CallResult>,
    pub(super) limit: Option<LimitKind>,
    /// What outranks the caller's call and its config on the end of the turn.
    pub(super) envelope: Option<AfterExecution>,
}

impl Step {
    /// Ends `task` as `state`.
    pub(super) fn end(task: TaskIndex, state: FinalState, result: impl Into<Arc<CallResult>>) -> Self {
        Self::End { task, end: Box::new(End { state, result: result.into(), limit: None, envelope: None }) }
    }

    /// Ends `task` with `output` and `documents`, because a limit was reached.
    pub(super) fn end_partial(task: TaskIndex, limit: LimitKind, output: Json, documents: Vec<DocumentRef>) -> Self {
        let error = CallError::new(ErrorCode::LimitReached, format!("{limit} was reached before the work was done"))
            .with_detail(serde_json::json!({"limit": limit}));
        let result = CallResult { status: CallStatus::Partial, output: output.into(), error: Some(error), documents };
        let end = End { state: FinalState::Completed, result: result.into(), limit: Some(limit), envelope: None };
        Self::End { task, end: Box::new(end) }
    }

    /// Ends `task` with what it has written, because it took too long.
    pub(super) fn time_out(task: TaskIndex, of: &Task, error: CallError, limit: LimitKind) -> Self {
        let result = CallResult { documents: of.written().cloned().collect(), ..CallResult::error(CallStatus::Timeout, error) };
        let end = End { state: FinalState::TimedOut, result: result.into(), limit: Some(limit), envelope: None };
        Self::End { task, end: Box::new(end) }
    }
}
