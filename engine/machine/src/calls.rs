//! The calls of one turn: their stages, and the number of calls in each stage.
//!
//! Only this file changes a stage. It changes the counts at the same time, so that the two cannot disagree.

use baton_types::entry::CallRequest;

use crate::prelude::*;

/// The calls of an answered turn.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenCalls {
    /// The purpose of the request.
    pub purpose: Purpose,
    /// The text of the answer.
    pub text: Box<str>,
    /// The open model requests of the calls' code.
    pub asks: Vec<OpenAsk>,
    turn: u32,
    calls: Box<[OpenCall]>,
    counts: Counts,
}

/// Numbers of the calls of a turn, by stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls without a result.
    pub unfinished: u32,
    /// Function calls not yet started.
    pub waiting_functions: u32,
    /// Running function calls.
    pub running_functions: u32,
    /// Running function calls that write.
    pub running_writers: u32,
    /// Running delegations and questions.
    pub awaited: u32,
    /// Pending approvals. Function calls among them have not started.
    pub approvals: u32,
    /// Function calls with an unknown outcome, about which a question is open.
    pub doubtful: u32,
}

impl OpenCalls {
    /// Returns the calls of an answer. None of them has begun.
    pub(super) fn new(purpose: Purpose, turn: u32, text: &str, calls: Box<[OpenCall]>) -> Self {
        let mut counts = Counts::default();
        for call in &calls {
            counts.count(call);
        }
        Self { purpose, turn, text: text.into(), calls, counts, asks: Vec::new() }
    }

    /// Returns the number of calls in each stage.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the index of `call`, if it is a call of this turn.
    pub fn index_of(&self, call: &CallId) -> Option<usize> {
        let (turn, position) = call.position()?;
        let index = (position as usize).checked_sub(1)?;
        (turn == self.turn && index < self.calls.len()).then_some(index)
    }

    /// Returns the index of `call`, which must be a call of this turn.
    pub(super) fn position_of(&self, call: &CallId) -> usize {
        self.index_of(call).unwrap_or_else(|| panic!("call {call} is not of the turn in progress"))
    }

    /// Whether the turn cannot proceed without others: no function runs, and the next call waits for another task.
    pub fn waits(&self) -> bool {
        let counts = self.counts;
        let next_is_asked_about = || self.next_function().is_some_and(|next| self.calls[next].stage == CallStage::Approval);
        counts.running_functions == 0
            && match counts.waiting_functions {
                0 => counts.awaited + counts.approvals + counts.doubtful > 0,
                _ => counts.doubtful > 0 || (counts.approvals > 0 && next_is_asked_about()),
            }
    }

    /// Whether every function of the turn is over: none waits, runs or has an unknown outcome.
    pub(super) fn functions_are_over(&self) -> bool {
        self.counts.waiting_functions + self.counts.running_functions + self.counts.doubtful == 0
    }

    /// Returns the index of the first function call that has not begun.
    pub(super) fn next_function(&self) -> Option<usize> {
        let waits = |call: &OpenCall| matches!(call.stage, CallStage::Waiting | CallStage::Approval);
        self.calls.iter().position(|call| call.is_function() && waits(call))
    }

    /// Moves the call at `index` to `stage`.
    pub(super) fn set_stage(&mut self, index: usize, stage: CallStage) {
        let call = &mut self.calls[index];
        self.counts.discount(call);
        call.stage = stage;
        self.counts.count(call);
    }

    /// Returns the details of the call at `index`, to be changed.
    pub(super) fn details_mut(&mut self, index: usize) -> &mut CallDetails {
        self.calls[index].details.get_or_insert_default()
    }

    /// Returns the failed attempts at the call at `index`; `None` for a call without details.
    pub(super) fn attempts_mut(&mut self, index: usize) -> Option<&mut Attempts> {
        self.calls[index].details.as_mut().map(|details| &mut details.attempts)
    }

    /// Removes and returns the open model request that `by` made.
    pub(super) fn take_ask(&mut self, by: &CallRequest) -> Option<OpenAsk> {
        let place = self.asks.iter().position(|ask| ask.by == *by)?;
        Some(self.asks.remove(place))
    }
}

/// The calls, in the model's order.
impl std::ops::Deref for OpenCalls {
    type Target = [OpenCall];

    fn deref(&self) -> &[OpenCall] {
        &self.calls
    }
}

impl Counts {
    fn count(&mut self, call: &OpenCall) {
        for count in self.of(call).into_iter().flatten() {
            *count += 1;
        }
    }

    fn discount(&mut self, call: &OpenCall) {
        for count in self.of(call).into_iter().flatten() {
            *count -= 1;
        }
    }

    /// Returns the counts that include `call`.
    fn of(&mut self, call: &OpenCall) -> [Option<&mut u32>; 3] {
        let Self { unfinished, waiting_functions, running_functions, running_writers, awaited, approvals, doubtful } = self;
        let is_function = call.is_function();
        match call.stage {
            CallStage::Waiting => [Some(unfinished), is_function.then_some(waiting_functions), None],
            CallStage::Approval => [Some(unfinished), is_function.then_some(waiting_functions), Some(approvals)],
            CallStage::Running { writes } if is_function => {
                [Some(unfinished), Some(running_functions), writes.then_some(running_writers)]
            }
            CallStage::Running { .. } => [Some(unfinished), Some(awaited), None],
            CallStage::Doubt => [Some(unfinished), Some(doubtful), None],
            CallStage::Refused | CallStage::Finished(_) => [None, None, None],
        }
    }
}

/// A call of an answered turn.
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
    /// Its stage.
    pub stage: CallStage,
    /// The fields that few calls need.
    details: Option<Box<CallDetails>>,
}

/// The fields that only calls with approvals or failed attempts need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallDetails {
    /// The approved [`baton_types::config::Tool::call_hash`], once it is approved.
    pub approved: Option<ContentHash>,
    /// The number of approval questions so far.
    pub approvals: u32,
    /// The failed attempts before the current one.
    pub attempts: Attempts,
}

/// The failed attempts of a delegation with a retry policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attempts {
    /// Their results, in order.
    pub failed: Vec<Arc<CallResult>>,
    /// The moment of the next attempt; `None` while one is running.
    pub next_at: Option<Timestamp>,
}

impl OpenCall {
    /// Creates a call that has not begun.
    pub(super) fn new(id: CallId, asked: Arc<ModelCall>, tool_type: Option<ToolType>, delegates: bool) -> Self {
        Self { id, asked, tool_type, delegates, stage: CallStage::Waiting, details: None }
    }

    /// Whether an executor runs it.
    pub fn is_function(&self) -> bool {
        self.tool_type.is_some_and(|tool_type| tool_type.behavior().runs_code)
    }

    /// Whether it counts towards [`baton_types::limits::Limits::calls`]. All calls do except handoffs, so that a task can
    /// always finish.
    pub fn is_counted(&self) -> bool {
        self.tool_type.is_none_or(|tool_type| tool_type.behavior().then != Then::Stop)
    }

    /// Whether an executor or a task works on it.
    pub fn is_running(&self) -> bool {
        matches!(self.stage, CallStage::Running { .. })
    }

    /// Whether the task waits for it.
    pub fn is_awaited(&self) -> bool {
        let runs = || self.tool_type.is_some_and(|tool_type| tool_type.behavior().blocks_caller);
        match self.stage {
            CallStage::Approval | CallStage::Doubt => true,
            CallStage::Running { .. } => runs(),
            CallStage::Waiting | CallStage::Refused | CallStage::Finished(_) => false,
        }
    }

    /// Whether it has its result.
    pub fn is_finished(&self) -> bool {
        matches!(self.stage, CallStage::Refused | CallStage::Finished(_))
    }

    /// Returns the parts of the result that decide the end of the turn. A refused call has none.
    pub fn finish(&self) -> Option<&Finish> {
        match &self.stage {
            CallStage::Finished(finish) => Some(finish),
            _ => None,
        }
    }

    /// Returns the approved [`baton_types::config::Tool::call_hash`], once the call is approved.
    pub fn approved(&self) -> Option<ContentHash> {
        self.details.as_ref().and_then(|details| details.approved)
    }

    /// Returns the number of approval questions so far.
    pub fn approvals(&self) -> u32 {
        self.details.as_ref().map_or(0, |details| details.approvals)
    }

    /// Returns the results of the failed attempts, in order.
    pub fn failed_attempts(&self) -> &[Arc<CallResult>] {
        self.details.as_ref().map_or(&[], |details| &details.attempts.failed)
    }

    /// Returns the number of the attempt that follows the failed ones, from 1.
    pub fn next_attempt(&self) -> u32 {
        u32::try_from(self.failed_attempts().len() + 1).unwrap_or(u32::MAX)
    }

    /// Returns the moment of the next attempt, while none is running.
    pub fn retry_at(&self) -> Option<Timestamp> {
        self.details.as_ref().and_then(|details| details.attempts.next_at)
    }
}

/// The stage of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallStage {
    /// Not yet checked, or accepted and not yet begun.
    Waiting,
    /// Accepted; a question asks whether it may begin.
    Approval,
    /// Its executor or its task is running.
    Running {
        /// Whether it may write documents.
        writes: bool,
    },
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

/// An open model request of a call's code.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenAsk {
    /// The call, and the number of the request among those of its code.
    pub by: CallRequest,
    /// Tokens of the request (≈).
    pub input_tokens: u64,
    /// Tokens reserved for it and its answer.
    pub reserved_tokens: u64,
    /// Money reserved for them; `None` where the price is not known.
    pub reserved_cost: Option<Money>,
}

impl OpenAsk {
    /// Returns the amounts reserved for it. The cost of its input alone is not recorded; the whole cost bounds it.
    pub(crate) fn reservation(&self) -> Reservation {
        let cost = self.reserved_cost.unwrap_or_default();
        Reservation { tokens: self.reserved_tokens, cost, input_tokens: self.input_tokens, input_cost: cost }
    }
}
