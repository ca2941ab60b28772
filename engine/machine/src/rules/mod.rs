//! The rules of a run, one file each. A rule appends entries and the steps that follow from them; it never calls another
//! rule. [`super::settle`] is the only code that runs steps.
//!
//! | file | rule |
//! | --- | --- |
//! | `arrive`, `start`, `act`, `close`, `end`, `text`, `after` | the rules of one turn |
//! | `answer` | a model answers, fails or waits |
//! | `ending` | one end: whatever ends a task gives its caller exactly one result |
//! | `writes` | a function returns; new versions and long outputs |
//! | `join`, `retry` | the delegations of a turn, and further attempts at them |
//! | `question` | questions, approvals and unknown outcomes |
//! | `accept` | results of delegations that an agent or a tool must accept |
//! | `limits`, `window`, `allot` | checks before a model is asked, and the room for new content |
//! | `code` | the code of a running call asks a model |
//! | `inner` | the code of a running call makes other calls |
//! | `background` | tasks for which their caller does not wait, and the calls that manage tasks |
//! | `people`, `time`, `crash`, `adopt` | events from outside |
//!
//! Rules *route* and *describe* are `receipt.rs` and `describe.rs` of `baton-render`.

pub(super) mod accept;
pub(super) mod act;
pub(super) mod adopt;
pub(super) mod after;
pub(super) mod allot;
pub(super) mod answer;
pub(super) mod arrive;
pub(super) mod background;
pub(super) mod close;
pub(super) mod code;
pub(super) mod crash;
pub(super) mod end;
pub(super) mod ending;
pub(super) mod inner;
pub(super) mod join;
pub(super) mod limits;
pub(super) mod people;
pub(super) mod question;
pub(super) mod retry;
pub(super) mod start;
pub(super) mod suspend;
pub(super) mod text;
pub(super) mod time;
pub(super) mod window;
pub(super) mod writes;

use crate::prelude::*;

/// One step of the loop in `settle`. A step and all steps that follow from it are complete before the next one begins. A step
/// does nothing if its task has ended or changed its phase meanwhile.
pub(super) enum Step {
    /// Advances the turn of a task once no other step is left: `Start`, `Act`, `Join` and `EndTurn`, in this order.
    Advance(TaskIndex),
    /// Checks the calls of an answered turn, beginning at index `from`; `creating` earlier calls will create tasks.
    Arrive { task: TaskIndex, from: usize, creating: u32 },
    /// Begins function calls.
    Start(TaskIndex),
    /// Lets delegations, questions and handoffs act, beginning at index `from`.
    Act { task: TaskIndex, from: usize },
    /// Performs a handoff.
    HandOff(CallAt),
    /// Ends a task with a result, once it is accepted.
    Conclude { task: TaskIndex, result: Arc<CallResult> },
    /// Calls the acceptor of a task's results.
    AskAcceptance { task: TaskIndex, asked: Box<ModelCall> },
    /// Creates the task of an acceptor that is an agent.
    AskAcceptor(CallAt),
    /// Creates the task of an agent's question.
    AskMaster { call: CallAt, documents: Vec<DocumentRef> },
    /// Lets a call wait for, list, steer or cancel tasks.
    ManageTasks(CallAt),
    /// Gives calls of a task their results that waited for background tasks.
    EndWaits(TaskIndex),
    /// Asks for an approval.
    AskApproval(NeededApproval),
    /// Approves or refuses a call, after the end of `question`.
    DecideApproval { call: CallAt, question: TaskIndex, call_hash: ContentHash, result: Arc<CallResult> },
    /// Gives a call its result, after the end of the question about its outcome.
    TakeOutcome { call: CallAt, result: Arc<CallResult> },
    /// Ends delegations that the join of the turn no longer needs.
    Join(TaskIndex),
    /// Makes the next attempt at a delegation.
    Retry(CallAt),
    /// Ends the suspension of a call at its moment.
    WakeUp(CallAt),
    /// Gives a call its result.
    Deliver { call: CallAt, result: Arc<CallResult>, envelope: Option<AfterExecution> },
    /// Ends the turn, if its last result is in.
    EndTurn(TaskIndex),
    /// Handles an answer without calls, or an answer that does not count.
    Text(TaskIndex),
    /// Ends a task.
    End { task: TaskIndex, end: Box<End> },
    /// Closes all tasks below a task, and its calls.
    Close { task: TaskIndex, reason: &'static str },
    /// Passes an unanswered question on to the next master.
    Escalate(TaskIndex),
    /// Makes room in the conversation of a ready task; then its model may be asked.
    Fit(TaskIndex),
    /// Asks the model of a ready task, if limits admit it.
    Request(TaskIndex),
    /// Tries to admit the first task that became ready after entry `place`, and then the next one.
    Admit { place: u64 },
    /// Replaces as many older turns as possible with a digest.
    Shorten(TaskIndex),
    /// Replaces the turns that a summary was asked for with the summary; without one, with a digest.
    Summarise { task: TaskIndex, summary: Option<String> },
    /// Withdraws the questions about calls that have changed.
    WithdrawApprovals,
    /// Continues every living task after a crash.
    RecoverAll,
    /// Continues a task after its request or its calls in progress were lost.
    Recover { task: TaskIndex, recovery: crash::Recovery },
    /// Continues a call after its execution was lost.
    Resume { call: CallAt, recovery: crash::Recovery },
    /// Handles a crash during a call that is never repeated.
    Interrupt(CallAt),
    /// Does everything that is due by now, earliest first.
    PassTime,
}

/// An approval that a call needs.
pub(super) struct NeededApproval {
    pub(super) call: CallAt,
    pub(super) approver: Approver,
    /// The documents that the call would pass on.
    pub(super) documents: Vec<DocumentRef>,
    /// The number of earlier calls of the turn that will create tasks.
    pub(super) creating: u32,
}

/// The end of a task.
pub(super) struct End {
    pub(super) result: Arc<CallResult>,
    /// The limit that ended it.
    pub(super) limit: Option<LimitKind>,
    /// The `after_execution` that outranks that of the caller's call and its config.
    pub(super) envelope: Option<AfterExecution>,
}

impl Step {
    /// Returns the step that ends `task` with `result`.
    pub(super) fn end(task: TaskIndex, result: impl Into<Arc<CallResult>>) -> Self {
        Self::End { task, end: Box::new(End { result: result.into(), limit: None, envelope: None }) }
    }

    /// Returns the step that ends `task` with `result`, because of `limit`.
    fn end_by(task: TaskIndex, limit: LimitKind, result: CallResult) -> Self {
        Self::End { task, end: Box::new(End { result: result.into(), limit: Some(limit), envelope: None }) }
    }
}

/// Ends because of limits.
impl Draft<'_> {
    /// Ends `task` with `output` and its written documents next, because `limit` was reached.
    pub(super) fn then_end_partial(&mut self, task: TaskIndex, limit: LimitKind, output: Json) {
        let documents = self.task(task).written().cloned().collect();
        self.then_end_partial_with(task, limit, output, documents);
    }

    /// Ends `task` with `output` and `documents` next, because `limit` was reached.
    pub(super) fn then_end_partial_with(&mut self, task: TaskIndex, limit: LimitKind, output: Json, documents: Vec<DocumentRef>) {
        self.then_end_partial_by(task, limit.into(), output, documents);
    }

    /// Ends `task` without an output and with its written documents next, because no request is possible.
    pub(super) fn then_end_reached(&mut self, task: TaskIndex, reached: Reached) {
        let documents = self.task(task).written().cloned().collect();
        // Callers have little room set aside for each result, so only the root's error has amounts.
        let is_root = self.run.graph.caller_of(task).is_none();
        let reached = if is_root { reached } else { reached.limit.into() };
        self.then_end_partial_by(task, reached, Json::null(), documents);
    }

    fn then_end_partial_by(&mut self, task: TaskIndex, reached: Reached, output: Json, documents: Vec<DocumentRef>) {
        let error = Some(reached.error());
        let mut result = CallResult { status: CallStatus::Partial, output: output.into(), error, documents };
        self.run.note_not_accepted(task, &mut result);
        self.then(Step::end_by(task, reached.limit, result));
    }

    /// Ends `task` with its written documents next, because it took too long.
    pub(super) fn then_time_out(&mut self, task: TaskIndex, limit: LimitKind, error: CallError) {
        let documents = self.task(task).written().cloned().collect();
        self.then(Step::end_by(task, limit, CallResult { documents, ..CallResult::error(CallStatus::Timeout, error) }));
    }
}
