//! The calls of one turn: their stages, and the number of calls in each stage. Calls that the code of these calls or the engine makes
//! follow the model's own.
//!
//! Only this file changes a stage. It changes the counts at the same time, so that the two cannot disagree.

use std::collections::BTreeMap;

use baton_types::entry::CallRequest;

use crate::prelude::*;

/// The calls of an answered turn.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenCalls {
    /// The purpose of the request.
    pub purpose: Purpose,
    /// The text of the answer.
    pub text: Box<str>,
    turn: u32,
    calls: Vec<OpenCall>,
    /// Number of the model's own calls, which come first.
    own: usize,
    /// Index before which every call has begun or has its result.
    begun: usize,
    counts: Counts,
    /// The calls that code or the engine made, and the requests of that code. Few turns have any.
    code: Option<Box<OfCode>>,
}

/// The calls that code or the engine made in a turn, and the requests of that code.
#[derive(Clone, Debug, Default, PartialEq)]
struct OfCode {
    /// The index of each of these calls.
    made: BTreeMap<CallId, usize>,
    /// The indices of the calls that code made and that have their result, in the order of the results.
    returned: Vec<usize>,
    /// The open model requests.
    asks: Vec<OpenAsk>,
}

/// Numbers of the calls of a turn, by stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls without a result.
    pub unfinished: u32,
    /// Function calls not yet started.
    pub waiting_functions: u32,
    /// Running function calls, without those whose code waits for calls that it made.
    pub running_functions: u32,
    /// Function calls whose code waits for calls that it made.
    pub calling: u32,
    /// Running function calls that write.
    pub running_writers: u32,
    /// Running delegations and questions.
    pub awaited: u32,
    /// Pending approvals. Function calls among them have not started.
    pub approvals: u32,
    /// Function calls with an unknown outcome, about which a question is open.
    pub doubtful: u32,
    /// Function calls whose code has ended, and whose result comes later.
    pub suspended: u32,
}

impl OpenCalls {
    /// Returns the calls of an answer. None of them has begun.
    pub(super) fn new(purpose: Purpose, turn: u32, text: &str, calls: Vec<OpenCall>) -> Self {
        let mut counts = Counts::default();
        for call in &calls {
            counts.count(call);
        }
        let own = calls.len();
        Self { purpose, turn, text: text.into(), calls, own, begun: 0, counts, code: None }
    }

    /// Adds a call that the code of a running call made, or one of the engine, which belongs to no other call.
    pub(super) fn add_made(&mut self, call: OpenCall) {
        let (outer, _) = call.id.outer().expect("code or the engine made the call");
        let is_of_turn = outer.position() == Some((self.turn, 0));
        let outer = if is_of_turn { None } else { Some(self.position_of(&outer)) };
        self.counts.count(&call);
        self.code.get_or_insert_default().made.insert(call.id.clone(), self.calls.len());
        self.calls.push(OpenCall { outer, ..call });
        if let Some(outer) = outer {
            self.change(outer, |outer| outer.open_inner += 1);
        }
    }

    /// Returns the newest call by which the engine asked for acceptance in this turn.
    pub(super) fn acceptance(&self) -> Option<&OpenCall> {
        self.calls[self.own..].iter().rev().find(|call| call.is_acceptance())
    }

    /// Returns the id of the next such call of `task`.
    pub(super) fn next_acceptance(&self, task: &TaskId) -> CallId {
        let earlier = self.calls[self.own..].iter().filter(|call| call.is_acceptance()).count();
        task.acceptance(self.turn, u32::try_from(earlier + 1).unwrap_or(u32::MAX))
    }

    /// Returns the model's own calls.
    pub fn own(&self) -> &[OpenCall] {
        &self.calls[..self.own]
    }

    /// Iterates over the calls with a result that the code of `outer` made, in the order of their results.
    pub fn returned_to(&self, outer: &CallId) -> impl Iterator<Item = &OpenCall> {
        let outer = self.index_of(outer);
        let returned = self.code.iter().flat_map(|code| &code.returned);
        returned.map(|index| &self.calls[*index]).filter(move |call| call.outer == outer)
    }

    /// Returns the indices of the calls without a result that the code of the call at `outer` made, the newest first.
    pub(super) fn unfinished_of(&self, outer: usize) -> Vec<usize> {
        let is_open = |index: &usize| self.calls[*index].is_made_by(outer) && !self.calls[*index].is_finished();
        (self.own..self.calls.len()).rev().filter(is_open).collect()
    }

    /// Returns the number of calls in each stage.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the index of `call`, if it is a call of this turn.
    pub fn index_of(&self, call: &CallId) -> Option<usize> {
        let Some((turn, position)) = call.position() else { return self.code.as_ref()?.made.get(call).copied() };
        let index = (position as usize).checked_sub(1)?;
        (turn == self.turn && index < self.own).then_some(index)
    }

    /// Returns the index of `call`, which must be a call of this turn.
    pub(super) fn position_of(&self, call: &CallId) -> usize {
        self.index_of(call).unwrap_or_else(|| panic!("call {call} is not of the turn in progress"))
    }

    /// Whether the turn cannot proceed without others: no function runs, and the next call waits for another task. A call that code
    /// made waits for none.
    pub fn waits(&self) -> bool {
        let counts = self.counts;
        counts.running_functions == 0
            && match self.next_function() {
                None => counts.awaited + counts.approvals + counts.doubtful + counts.suspended > 0,
                Some(_) if counts.calling > 0 => false,
                Some(next) => counts.doubtful > 0 || self.calls[next].stage == CallStage::Approval,
            }
    }

    /// Whether no code of the turn can run any more: no function waits, runs or has an unknown outcome.
    pub(super) fn functions_are_over(&self) -> bool {
        let Counts { waiting_functions, running_functions, calling, doubtful, .. } = self.counts;
        waiting_functions + running_functions + calling + doubtful == 0
    }

    /// Returns the index of the first function call that may begin next, or that waits for its approval in this place.
    ///
    /// Calls that code made come first, because the model's calls behind their outer call wait for it. No approval of one of
    /// them holds up the others.
    pub(super) fn next_function(&self) -> Option<usize> {
        if self.counts.waiting_functions == 0 {
            return None;
        }
        if self.counts.calling > 0 {
            return self.waiting_of_code().next();
        }
        self.unbegun().find(|index| self.calls[*index].is_function())
    }

    /// Iterates over the indices of the function calls that code made and that have not begun, except those that wait for approval.
    pub(super) fn waiting_of_code(&self) -> impl Iterator<Item = usize> {
        let waits = |call: &OpenCall| call.is_function() && call.stage == CallStage::Waiting;
        self.unbegun().filter(move |index| *index >= self.own && waits(&self.calls[*index]))
    }

    /// Iterates over the indices of the calls that have not begun, also of those that wait for approval.
    pub(super) fn unbegun(&self) -> impl Iterator<Item = usize> {
        (self.begun..self.calls.len()).filter(|index| self.calls[*index].is_unbegun())
    }

    /// Moves the call at `index` to `stage`.
    pub(super) fn set_stage(&mut self, index: usize, stage: CallStage) {
        self.change(index, |call| call.stage = stage);
        let call = &self.calls[index];
        if let Some(outer) = call.outer.filter(|_| call.is_finished()) {
            self.code.get_or_insert_default().returned.push(index);
            self.change(outer, |outer| outer.open_inner -= 1);
        }
    }

    fn change(&mut self, index: usize, change: impl FnOnce(&mut OpenCall)) {
        let call = &mut self.calls[index];
        self.counts.discount(call);
        change(call);
        self.counts.count(call);
        // A crash may take a call back.
        if self.calls[index].is_unbegun() {
            self.begun = self.begun.min(index);
        }
        while self.calls.get(self.begun).is_some_and(|call| !call.is_unbegun()) {
            self.begun += 1;
        }
    }

    /// Returns the details of the call at `index`, to be changed.
    pub(super) fn details_mut(&mut self, index: usize) -> &mut CallDetails {
        self.calls[index].details.get_or_insert_default()
    }

    /// Returns the failed attempts at the call at `index`; `None` for a call without details.
    pub(super) fn attempts_mut(&mut self, index: usize) -> Option<&mut Attempts> {
        self.calls[index].details.as_mut().map(|details| &mut details.attempts)
    }

    /// Gives the call at `index` the input of the person who approved it.
    pub(super) fn change_input(&mut self, index: usize, input: Json, delegates: bool) {
        let call = &mut self.calls[index];
        let changed = ModelCall { input, ..(*call.asked).clone() };
        let before = std::mem::replace(&mut call.asked, Arc::new(changed));
        call.delegates = delegates;
        call.details.get_or_insert_default().original.get_or_insert(before);
    }

    /// Returns the open model requests of the calls' code.
    pub fn asks(&self) -> &[OpenAsk] {
        self.code.as_ref().map_or(&[], |code| &code.asks)
    }

    /// Adds an open model request of a call's code.
    pub(super) fn add_ask(&mut self, ask: OpenAsk) {
        self.code.get_or_insert_default().asks.push(ask);
    }

    /// Removes and returns the open model request that `by` made.
    pub(super) fn take_ask(&mut self, by: &CallRequest) -> Option<OpenAsk> {
        let asks = &mut self.code.as_mut()?.asks;
        let place = asks.iter().position(|ask| ask.by == *by)?;
        Some(asks.remove(place))
    }
}

/// The calls: the model's in its order, then those that code made.
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
        let Self {
            unfinished,
            waiting_functions,
            running_functions,
            calling,
            running_writers,
            awaited,
            approvals,
            doubtful,
            suspended,
        } = self;
        let is_function = call.is_function();
        match call.stage {
            CallStage::Waiting => [Some(unfinished), is_function.then_some(waiting_functions), None],
            CallStage::Approval => [Some(unfinished), is_function.then_some(waiting_functions), Some(approvals)],
            CallStage::Running { .. } if is_function && call.open_inner > 0 => [Some(unfinished), Some(calling), None],
            CallStage::Running { writes } if is_function => {
                [Some(unfinished), Some(running_functions), writes.then_some(running_writers)]
            }
            CallStage::Running { .. } => [Some(unfinished), Some(awaited), None],
            CallStage::Doubt => [Some(unfinished), Some(doubtful), None],
            CallStage::Suspended => [Some(unfinished), Some(suspended), None],
            CallStage::Refused | CallStage::Finished(_) => [None, None, None],
        }
    }
}

/// A call of an answered turn.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenCall {
    /// Its id.
    pub id: CallId,
    /// The call as the model wrote it, or with the input of the person who approved it.
    pub asked: Arc<ModelCall>,
    /// The tool's type; `None` if the agent has no such tool.
    pub tool_type: Option<ToolType>,
    /// Whether it is a delegation.
    pub delegates: bool,
    /// Its stage.
    pub stage: CallStage,
    /// Whether code or the engine made it, and no model.
    is_inner: bool,
    /// The index of the call whose code made it.
    outer: Option<usize>,
    /// Number of calls without a result that its code made.
    open_inner: u32,
    /// The fields that few calls need.
    details: Option<Box<CallDetails>>,
}

/// The fields that only calls with approvals, failed attempts or a suspension need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallDetails {
    /// The approved [`baton_types::config::Tool::call_hash`], once it is approved.
    pub approved: Option<ContentHash>,
    /// The call as the model wrote it, if a person gave it another input.
    pub original: Option<Arc<ModelCall>>,
    /// The number of approval questions so far.
    pub approvals: u32,
    /// The failed attempts before the current one.
    pub attempts: Attempts,
    /// The moment and the output of a suspended call.
    pub suspension: Suspension,
    /// When it was suspended.
    pub suspended_at: Timestamp,
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
        let (is_inner, stage) = (false, CallStage::Waiting);
        Self { id, asked, tool_type, delegates, stage, is_inner, outer: None, open_inner: 0, details: None }
    }

    /// Creates a call of code or of the engine.
    pub(super) fn made(entry: &CallMade, tool: Option<&Tool>) -> Self {
        let delegates = tool.is_some_and(|tool| tool.delegates(&entry.asked.input));
        let call = Self::new(entry.call.clone(), Arc::clone(&entry.asked), tool.map(|tool| tool.tool_type), delegates);
        Self { is_inner: true, ..call }
    }

    /// Whether the code of another call or the engine made it. Its result goes into no request.
    pub fn is_inner(&self) -> bool {
        self.is_inner
    }

    /// Whether the engine made it, to ask whether a result is accepted.
    pub fn is_acceptance(&self) -> bool {
        self.is_inner && self.id.is_acceptance()
    }

    /// Whether the code of the call at `outer` made it.
    pub(super) fn is_made_by(&self, outer: usize) -> bool {
        self.outer == Some(outer)
    }

    /// Whether its code waits for calls that it made.
    pub fn is_calling(&self) -> bool {
        self.is_running() && self.open_inner > 0
    }

    /// Whether an executor runs it.
    pub fn is_function(&self) -> bool {
        self.tool_type.is_some_and(|tool_type| tool_type.behavior().runs_code)
    }

    /// Whether it is a handoff.
    pub fn hands_off(&self) -> bool {
        self.tool_type.is_some_and(|tool_type| tool_type.behavior().then == Then::Stop)
    }

    /// Whether it counts towards [`baton_types::limits::Limits::calls`]. All calls do except handoffs and calls for acceptance, so that
    /// a task can always finish.
    pub fn is_counted(&self) -> bool {
        !self.hands_off() && !self.is_acceptance()
    }

    /// Whether it has not begun, or waits for approval.
    fn is_unbegun(&self) -> bool {
        matches!(self.stage, CallStage::Waiting | CallStage::Approval)
    }

    /// Whether an executor or a task works on it.
    pub fn is_running(&self) -> bool {
        matches!(self.stage, CallStage::Running { .. })
    }

    /// Whether the task waits for it.
    pub fn is_awaited(&self) -> bool {
        let runs = || self.tool_type.is_some_and(|tool_type| tool_type.behavior().blocks_caller);
        match self.stage {
            CallStage::Approval | CallStage::Doubt | CallStage::Suspended => true,
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

    /// Returns the call as the model or the code wrote it.
    pub fn original(&self) -> &Arc<ModelCall> {
        self.details.as_ref().and_then(|details| details.original.as_ref()).unwrap_or(&self.asked)
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

    /// Returns the moment at which something happens to the call by itself: its next attempt, or the end of its suspension.
    pub fn alarm(&self) -> Option<Timestamp> {
        self.retry_at().or_else(|| self.suspension()?.until)
    }

    /// Returns what the call waits for, while it is suspended.
    pub fn suspension(&self) -> Option<&Suspension> {
        self.suspended().map(|details| &details.suspension)
    }

    /// Returns the moment at which it was suspended.
    pub fn suspended_at(&self) -> Option<Timestamp> {
        self.suspended().map(|details| details.suspended_at)
    }

    fn suspended(&self) -> Option<&CallDetails> {
        self.details.as_deref().filter(|_| self.stage == CallStage::Suspended)
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
    /// Its code has ended; its result is delivered, or comes at a moment.
    Suspended,
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
    /// The result, kept where the task may end with it, or where code waits for it.
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
