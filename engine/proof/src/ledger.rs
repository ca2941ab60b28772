//! An independent check: keeps its own books from the entries alone and reports everything that no timeline may
//! contain.
//!
//! It shares no code with the machine and does not use its state. It accepts any timeline, however broken: an
//! impossible entry is a [`Finding`], and the books continue as well as they can.

mod batch;
pub(crate) mod counts;
mod entries;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_types::approval::ArgumentMatch;
use baton_types::call::{CallResult, CallStatus, ModelCall, Suspension};
use baton_types::config::{Agent, Configs, Tool};
use baton_types::document::DocumentRef;
use baton_types::entry::{Concern, FinalState, Holder, QuestionEnd, Recorded, TaskCreated};
use baton_types::id::{CallId, ContentHash, TaskId};
use baton_types::model::Usage;
use baton_types::money::{Money, Price};
use baton_types::time::Timestamp;

use baton_types::tool_type::{Then, ToolType};

use self::counts::Counts;
use self::entries::acceptance::AcceptanceBook;
use crate::finding::{Finding, Invariant};

/// The books after the entries so far.
#[derive(Debug)]
pub struct Ledger {
    pub(crate) configs: Arc<Configs>,
    /// Configs that the run may adopt, by the hash that its entries name.
    pub(crate) known_configs: Vec<(ContentHash, Arc<Configs>)>,
    last_seq: u64,
    last_decision: u64,
    last_at: i64,
    /// Every task that was created.
    pub tasks: BTreeMap<TaskId, TaskBook>,
    /// Every call that a model made.
    pub calls: BTreeMap<CallId, CallBook>,
    /// Open model requests of calls' code, by call and number.
    asks: BTreeMap<(CallId, u32), AskBook>,
    /// Every question that was opened for a person, by its number.
    pub questions: BTreeMap<u32, QuestionBook>,
    /// The newest version of each document.
    pub heads: BTreeMap<String, u32>,
    /// The contents that versions of documents name, with their sizes.
    pub contents: BTreeMap<ContentHash, u64>,
    /// The classes of calls that people approved: each by its call, with the hash of the tool.
    classes: Vec<(CallId, ContentHash, Vec<ArgumentMatch>)>,
    /// Whether the run has ended.
    pub run_ended: bool,
    /// The root task: the newest one, if the run continues another.
    pub root: TaskId,
    /// The request of the root task that must follow, if the run continues another from here on.
    follow_up: Option<String>,
    /// Whether a person paused the run.
    pub paused: bool,
    /// Whether the run is quarantined: calls in progress keep their places until the end of the pause.
    pub quarantined: bool,
    /// Owners that died since a turn or a call last ended, counted from entries.
    pub deaths: u32,
    /// The settled usage of all model requests.
    pub settled: Usage,
    /// Their cost in picodollars.
    pub settled_cost: u128,
    /// The number of requests without a known price.
    pub unpriced: u64,
    /// The prices of models, from the start.
    prices: BTreeMap<String, Price>,
    /// Calls that were not refused, without handoffs.
    pub calls_made: u32,
    /// Turns, calls, tokens and picodollars that the earlier runs of the session used.
    pub(crate) before: (u32, u32, u64, u128),
    /// The number of requested turns. A turn requested again after a crash counts once.
    pub turns: u32,
    /// The number of model answers.
    pub answers: usize,
    /// The number of take-overs.
    pub takeovers: u32,
    /// Sequence number of the last take-over.
    last_takeover: u64,
    /// The entry of the last takeover that may have interrupted a call. In a fork, the recording has what became of calls.
    last_crash: u64,
    /// Tasks that have not ended.
    live: BTreeSet<TaskId>,
    /// The number of running function calls.
    running: usize,
    /// Tasks that entries of this batch concern.
    pub(crate) touched: BTreeSet<TaskId>,
    /// Calls that the last entry changed; they are counted again after it.
    changed: BTreeSet<CallId>,
    /// Calls that entries of this batch changed.
    pub(crate) touched_calls: BTreeSet<CallId>,
    /// Tokens and picodollars that are reserved for requests without an answer.
    pub(crate) reserved: (u64, u128),
    /// Number of visits to tasks and calls: the work of the books.
    pub(crate) visited: usize,
    findings: Vec<Finding>,
}

/// The books of a task.
#[derive(Debug)]
pub struct TaskBook {
    /// Its first entry.
    pub created: TaskCreated,
    /// Its final state.
    pub ended: Option<FinalState>,
    /// Its result, unless it was closed with its subtree.
    pub result: Option<Arc<CallResult>>,
    /// The open model request.
    pub request: Option<OpenRequest>,
    /// The entry that made the request.
    requested_at: u64,
    /// Its newest turn.
    pub turns: u32,
    /// The newest turn was settled without an answer, by a crash, and is asked again.
    interrupted: bool,
    answered: u32,
    /// Whether its requests begin with the conversation of another task. The first summary replaces that.
    begins_with_other: bool,
    /// The last turn in a summary.
    compacted_through: u32,
    /// While the newest turn asks for a summary: the last turn that the summary will replace.
    summarising: Option<u32>,
    /// The number of its delegations.
    pub children: u32,
    /// Tokens that its own requests, and those of its calls' code, were settled at.
    pub spent: u64,
    /// Tokens spent and reserved by it and all below it.
    subtree_tokens: u64,
    /// Picodollars spent and reserved by it and all below it.
    subtree_cost: u128,
    /// Its calls that were not refused, without handoffs.
    pub calls_made: u32,
    /// The calls of the newest turn.
    pub open: BTreeSet<CallId>,
    /// Their kinds, counted.
    pub(crate) counts: Counts,
    /// Functions among them that have not begun, in the order of the turn.
    pub(crate) unstarted: BTreeMap<(u32, u32), CallId>,
    /// The number of live tasks below it.
    live_below: u32,
    /// Whether the effect of a call of it, or of a task below it, is not known.
    pub(crate) has_unknown: bool,
    /// Number of its questions that have not ended. For a task that is a question itself, that may be the escalated
    /// one.
    live_questions: u32,
    /// Documents that were handed to this task, by the call's result or with the request.
    pub injected: Vec<DocumentRef>,
    /// The injected documents that its next request shows for the first time.
    pub brought: Vec<DocumentRef>,
    /// The versions that it wrote or that a request showed to it: the bases of its writes.
    known: BTreeMap<String, u32>,
    /// The versions that its next request shows, unless there is no room.
    arrived: Vec<DocumentRef>,
    /// The versions of which outputs of calls show parts in its next request, unless there is no room for the output.
    arrived_parts: Vec<(CallId, DocumentRef)>,
    /// The versions whose changes its next request shows after a conflict, unless there is no room.
    arrived_conflicts: Vec<DocumentRef>,
    /// Documents written for outputs that the next request has no room for.
    kept: Vec<DocumentRef>,
    /// Documents of background tasks that ended while a request was open. The next turn's request shows them.
    received: Vec<DocumentRef>,
    /// The background tasks that it began and that have not ended.
    pub(crate) background: BTreeSet<TaskId>,
    /// Its background tasks that have ended, and whose results no request has shown yet.
    unseen: BTreeSet<TaskId>,
    /// Whether the caller of this background task knows its end.
    reported: bool,
    /// Whether its agent waits for background tasks without a call.
    pub(crate) rests: bool,
    /// Whether its newest turn is its last one.
    last_turn: bool,
    /// Whether background tasks of it were closed before its end.
    closed_background: bool,
    /// Somebody cancelled it.
    cancelled: bool,
    /// The number of the question that it is.
    question: Option<u32>,
    /// The books of its acceptance, if its results must be accepted.
    pub(crate) acceptance: Option<AcceptanceBook>,
}

/// A model request without an answer.
#[derive(Clone, Debug)]
pub struct OpenRequest {
    /// Its turn.
    pub turn: u32,
    /// The model that is asked.
    pub model: String,
    /// The model that was asked first, if that one was not available.
    pub fell_from: Option<String>,
    /// Tokens of the request, as estimated.
    pub input: u64,
    /// Tokens reserved for it and its answer.
    pub reserved: u64,
    /// Picodollars reserved for them.
    pub cost: u128,
}

/// Returns the cost of `usage` at `price`, computed again in numbers that do not overflow.
fn cost(price: &Price, usage: &Usage) -> u128 {
    let of = |tokens: u64, rate: Money| u128::from(tokens) * u128::from(rate.picos());
    let cached = usage.cached_tokens.min(usage.input_tokens);
    of(usage.input_tokens - cached, price.input) + of(cached, price.cached_input) + of(usage.output_tokens, price.output)
}

/// The books of a call.
#[derive(Debug)]
pub struct CallBook {
    /// The task that made it.
    pub task: TaskId,
    /// The tool that it names.
    pub tool: String,
    /// As the model or the code made it.
    asked: Arc<ModelCall>,
    /// The call whose code made it.
    pub outer: Option<CallId>,
    /// The number of calls without a result that its code made.
    pub open_inner: u32,
    /// Entry of its start, and the type of its tool.
    pub started: Option<(u64, ToolType)>,
    /// The documents that were attached when it started.
    attached: Vec<DocumentRef>,
    /// Whether it created a task.
    pub created: bool,
    /// The newest task that works on it.
    pub worked_on_by: Option<TaskId>,
    /// The engine's own question about it, and what it decides.
    pub question: Option<(TaskId, Concern)>,
    /// Whether it was approved, as it is now.
    pub approved: bool,
    /// The hash of what was approved.
    pub(crate) call_hash: Option<ContentHash>,
    /// The number of approval questions.
    pub approvals: u32,
    /// The number of failed attempts that are retried.
    pub failed_attempts: u32,
    /// When the next one is to begin.
    pub retry_at: Option<Timestamp>,
    /// The moment and the output that it waits for, once it is suspended.
    pub suspension: Option<Suspension>,
    /// The status of its result.
    pub status: Option<CallStatus>,
    /// The result.
    result: Option<Arc<CallResult>>,
    /// Whether it was refused.
    pub refused: bool,
    /// It belongs to a task that was closed with the subtree it was in.
    pub closed: bool,
    /// The versions that it wrote.
    wrote: Vec<DocumentRef>,
    /// Its result was sent to the user.
    sent: bool,
    /// Its share of the counts of its task.
    pub(crate) counted: Counts,
}

/// A request of a call's code without an answer.
#[derive(Debug)]
struct AskBook {
    task: TaskId,
    /// The entry that made it.
    asked_at: u64,
    /// Tokens reserved for it and its answer.
    reserved: u64,
    /// Picodollars reserved for them; `None` where the price is not known.
    cost: Option<u128>,
}

/// The books of a question.
#[derive(Debug)]
pub struct QuestionBook {
    /// The task of the question.
    pub task: TaskId,
    /// The number of times it was closed.
    pub ends: u32,
    how: Option<QuestionEnd>,
}

impl CallBook {
    /// Whether nothing more can come of it.
    pub fn is_finished(&self) -> bool {
        self.refused || self.status.is_some() || self.closed
    }

    /// Whether what was approved, if anything was, is what `tool` would do.
    pub(crate) fn is_as_approved(&self, tool: Option<&Tool>) -> bool {
        self.call_hash.is_none_or(|call_hash| tool.is_some_and(|tool| tool.call_hash(&self.asked.input) == call_hash))
    }

    /// Whether a question asks what became of it.
    pub fn is_doubtful(&self) -> bool {
        !self.is_finished() && matches!(self.question, Some((_, Concern::Outcome)))
    }

    /// Whether a question asks whether it may begin.
    pub fn asks(&self) -> bool {
        !self.is_finished() && !self.approved && matches!(self.question, Some((_, Concern::Approval { .. })))
    }

    /// Returns the books of a call that was just made.
    fn new(task: TaskId, asked: Arc<ModelCall>, outer: Option<CallId>) -> Self {
        Self {
            task,
            tool: asked.tool.clone(),
            asked,
            outer,
            open_inner: 0,
            started: None,
            attached: Vec::new(),
            created: false,
            worked_on_by: None,
            question: None,
            approved: false,
            approvals: 0,
            call_hash: None,
            failed_attempts: 0,
            retry_at: None,
            suspension: None,
            status: None,
            result: None,
            refused: false,
            closed: false,
            wrote: Vec::new(),
            sent: false,
            counted: Counts::default(),
        }
    }

    /// Whether it is a function that runs, or that waits for calls of its code.
    pub fn has_code(&self) -> bool {
        self.runs() || self.is_calling()
    }

    /// Whether its code waits for calls that it made.
    pub fn is_calling(&self) -> bool {
        self.open_inner > 0 && self.is_begun()
    }

    /// Whether it is a function that runs.
    pub fn runs(&self) -> bool {
        self.open_inner == 0 && self.is_begun()
    }

    fn is_begun(&self) -> bool {
        !self.is_finished()
            && !self.is_doubtful()
            && self.suspension.is_none()
            && self.started.is_some_and(|(_, tool_type)| tool_type.behavior().runs_code)
    }

    /// Whether it waits for background tasks.
    pub(crate) fn waits_for_tasks(&self) -> bool {
        let is_plain = |tool_type: ToolType| !tool_type.behavior().runs_code && !tool_type.behavior().creates_task;
        !self.is_finished() && self.started.is_some_and(|(_, tool_type)| is_plain(tool_type))
    }

    /// Whether its code has ended and its result is still to come.
    pub fn is_suspended(&self) -> bool {
        !self.is_finished() && self.suspension.is_some()
    }
}

impl Ledger {
    /// Returns empty books for a run of `configs`.
    pub fn new(configs: Arc<Configs>) -> Self {
        Self {
            configs,
            known_configs: Vec::new(),
            last_seq: 0,
            last_decision: 0,
            last_at: 0,
            tasks: BTreeMap::new(),
            calls: BTreeMap::new(),
            asks: BTreeMap::new(),
            questions: BTreeMap::new(),
            heads: BTreeMap::new(),
            contents: BTreeMap::new(),
            classes: Vec::new(),
            run_ended: false,
            root: TaskId::root(),
            follow_up: None,
            paused: false,
            quarantined: false,
            deaths: 0,
            settled: Usage::default(),
            settled_cost: 0,
            unpriced: 0,
            prices: BTreeMap::new(),
            calls_made: 0,
            before: (0, 0, 0, 0),
            turns: 0,
            answers: 0,
            takeovers: 0,
            last_takeover: 0,
            last_crash: 0,
            live: BTreeSet::new(),
            running: 0,
            touched: BTreeSet::new(),
            changed: BTreeSet::new(),
            touched_calls: BTreeSet::new(),
            reserved: (0, 0),
            visited: 0,
            findings: Vec::new(),
        }
    }

    /// Enters one batch and checks what must hold after it.
    pub fn enter(&mut self, batch: &[Recorded]) {
        for recorded in batch {
            self.entry(recorded);
        }
        self.end_batch();
    }

    /// Checks what must hold now that a batch is complete.
    ///
    /// Returns the tasks that it concerns, and those that wait for them.
    pub(crate) fn end_batch(&mut self) -> BTreeSet<TaskId> {
        self.after_batch();
        self.check_limits();
        self.check_policies();
        self.touched_calls.clear();
        std::mem::take(&mut self.touched)
    }

    /// Returns the findings so far, in the order of the entries.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns the number of the last entry.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Notes what is broken unless `holds`.
    pub(crate) fn rule(&mut self, holds: bool, invariant: Invariant, what: impl FnOnce() -> String) {
        if !holds {
            self.findings.push(Finding { invariant, seq: self.last_seq, what: what() });
        }
    }

    pub(crate) fn broken(&mut self, invariant: Invariant, what: String) {
        self.findings.push(Finding { invariant, seq: self.last_seq, what });
    }

    /// Returns the agent that holds `task`.
    fn agent_of(&self, task: &TaskId) -> Option<&Arc<Agent>> {
        match &self.tasks.get(task)?.created.holder {
            Holder::Agent(agent) => self.configs.agents.get(agent),
            Holder::Person => None,
        }
    }

    /// Whether a call of `tool` by `task` must be approved: the rules of its agent and of all agents above bind it.
    fn needs_approval(&self, task: &TaskId, tool: &Tool) -> bool {
        let binds = |above: &TaskId| self.agent_of(above).is_some_and(|agent| agent.approvals.contains_key(&tool.id));
        let is_handoff = tool.tool_type.behavior().then == Then::Stop;
        self.agent_of(task).is_some_and(|agent| agent.approver(tool).is_some()) || (!is_handoff && self.above(task).any(binds))
    }

    fn tool(&self, id: &str) -> Option<&Arc<Tool>> {
        self.configs.tools.get(id)
    }

    /// Returns the tool `name` if `call` of `task` may be of it: its agent was granted it, the config of the tool whose code made the
    /// call names it, or the engine calls it to accept a result.
    fn granted(&self, task: &TaskId, call: &CallId, name: &str) -> Option<&Arc<Tool>> {
        if call.is_acceptance() {
            return self.tool(name).filter(|_| self.may_accept(task, name));
        }
        let agent = self.agent_of(task)?;
        let outer = self.calls.get(call).and_then(|call| call.outer.as_ref());
        let Some(outer) = outer.and_then(|outer| self.calls.get(outer)) else { return agent.tools.get(name) };
        let calls = &self.tool(&outer.tool)?.calls;
        if calls.iter().any(|called| called == name) {
            return self.tool(name);
        }
        calls.iter().any(|called| called == "*").then(|| agent.tools.get(name)).flatten()
    }

    /// Whether there is such a version.
    fn has_version(&self, document: &DocumentRef) -> bool {
        let head = self.heads.get(document.path.as_str()).copied().unwrap_or(0);
        document.version >= 1 && document.version <= head
    }

    /// Whether `task` is below `top`, by the callers that the entries name.
    pub fn is_below(&self, task: &TaskId, top: &TaskId) -> bool {
        self.above(task).any(|above| above == top)
    }

    /// Returns the tasks above `task`, nearest first.
    pub fn above<'a>(&'a self, task: &TaskId) -> impl Iterator<Item = &'a TaskId> {
        let caller = |id: &TaskId| self.tasks.get(id).and_then(|book| book.created.caller.as_ref());
        std::iter::successors(caller(task), move |id| caller(id))
    }

    /// Returns the calls of a task's newest turn that have no result.
    pub fn unfinished_calls(&self, task: &TaskId) -> Vec<&CallId> {
        let open = self.tasks.get(task).into_iter().flat_map(|book| &book.open);
        open.filter(|call| self.calls.get(*call).is_some_and(|call| !call.is_finished())).collect()
    }

    /// Tasks that have not ended.
    pub fn live_tasks(&self) -> impl Iterator<Item = (&TaskId, &TaskBook)> {
        self.live.iter().filter_map(|id| self.tasks.get_key_value(id))
    }

    /// Returns the number of live tasks.
    pub fn live_count(&self) -> usize {
        self.live.len()
    }

    /// Whether a call of `task` waits for its next attempt.
    pub fn waits_for_an_attempt(&self, task: &TaskId) -> bool {
        self.unfinished_calls(task).iter().any(|call| self.calls[*call].retry_at.is_some())
    }

    /// Returns the number of running function calls.
    pub fn running_calls(&self) -> usize {
        self.running
    }

    /// Returns the counts of the calls in the newest turn of `task`.
    pub(crate) fn counts(&self, task: &TaskId) -> Counts {
        self.tasks.get(task).map(|book| book.counts).unwrap_or_default()
    }

    /// Tokens spent and reserved by `top` and all below it.
    pub fn tokens(&self, top: &TaskId) -> u64 {
        self.tasks.get(top).map_or(0, |book| book.subtree_tokens)
    }

    /// Picodollars spent and reserved by `top` and all below it.
    pub fn money(&self, top: &TaskId) -> u128 {
        self.tasks.get(top).map_or(0, |book| book.subtree_cost)
    }

    /// Reserves tokens and picodollars for a request of `task`.
    fn reserve(&mut self, task: &TaskId, reserved: (u64, u128)) {
        self.reserved = (self.reserved.0.saturating_add(reserved.0), self.reserved.1.saturating_add(reserved.1));
        self.hold(task, reserved, (0, 0));
    }

    /// Gives back what was reserved for a request of `task`, of which this much was used.
    fn release(&mut self, task: &TaskId, reserved: (u64, u128), used: (u64, u128)) {
        self.reserved = (self.reserved.0.saturating_sub(reserved.0), self.reserved.1.saturating_sub(reserved.1));
        self.hold(task, used, reserved);
    }

    /// Changes what `task` and all above it hold: tokens and picodollars to `add` and to `take`.
    fn hold(&mut self, task: &TaskId, add: (u64, u128), take: (u64, u128)) {
        self.each_from(task, |book| {
            book.subtree_tokens = book.subtree_tokens.saturating_add(add.0).saturating_sub(take.0);
            book.subtree_cost = book.subtree_cost.saturating_add(add.1).saturating_sub(take.1);
        });
    }

    /// Changes the books of `task` and of all above it.
    fn each_from(&mut self, task: &TaskId, mut change: impl FnMut(&mut TaskBook)) {
        let mut next = Some(task.clone());
        while let Some(book) = next.take().and_then(|id| self.tasks.get_mut(&id)) {
            self.visited += 1;
            change(book);
            next.clone_from(&book.created.caller);
        }
    }
}
