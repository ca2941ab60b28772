//! A task as the machine keeps it: small, since a run may have many.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU64;
use std::sync::LazyLock;

use baton_render::SUMMARY_FRAME_TOKENS;
use baton_types::config::Invocation;
use baton_types::entry::{ReminderReason, Said};
use baton_types::path::DocumentPath;

use crate::prelude::*;
use crate::requests::Requests;
use crate::{agent, limits_of};

/// One task of a run. Its conversation is in [`baton_render::Transcript`].
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// Its kind.
    pub kind: TaskKind,
    /// The agent or person that works on it.
    pub holder: Holder,
    /// The number of delegations above it.
    pub depth: u32,
    /// Its phase.
    pub phase: Phase,
    /// Turns requested so far.
    pub turns: u32,
    /// Tokens of its next request (≈), without the turn in progress.
    pub context_tokens: u64,
    /// Whether its caller does not wait for it.
    pub background: bool,
    /// The moment since which it is ready or running.
    pub working_since: Option<Timestamp>,
    /// Its deadline.
    pub deadline: Option<Timestamp>,
    /// The fields of a question.
    pub question: Option<Arc<Question>>,
    /// The tool whose call created it.
    pub(super) tool: Option<ToolId>,
    /// Its limits, under the configs of the run.
    pub(super) limits: Arc<Limits>,
    /// The master of its questions.
    pub(super) master: Master,
    /// The number of the entry that put it into the queue of ready tasks or of waiting calls, if it is in one.
    pub place: Option<NonZeroU64>,
    /// The work on it so far; `None` without any, as for most questions to people.
    pub(super) work: Option<Box<Work>>,
    /// The fields that few tasks need.
    pub(super) extras: Option<Box<Extras>>,
}

/// The work of an agent on a task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// Delegations made so far.
    pub(super) children: u32,
    /// Calls that count towards `limits.calls`, including those of a new turn until they are checked.
    pub(super) calls: u32,
    /// The newest turns, if they did not count.
    pub(super) missed: Option<Missed>,
    /// The last call's tool, input and result, and the number of repetitions.
    pub streak: Option<Streak>,
    /// The documents that the task knows or wrote; `None` for none.
    pub(super) documents: Option<Box<TaskDocuments>>,
    /// The lengths of its newest requests; `None` without a window limit.
    pub(super) context: Option<Box<Context>>,
    /// Tokens used by its own requests and by those of its calls' code.
    pub usage: Usage,
    /// The cost of these tokens.
    pub(super) cost: Cost,
    /// The amounts reserved for its open request.
    pub(super) reservation: Reservation,
    /// Tokens and money used and reserved by it and all tasks below it; kept only where a limit needs it.
    pub budget: Option<Box<Budget>>,
    /// Time spent ready or running, up to [`Task::working_since`].
    pub(super) time: Duration,
}

/// Empty work, for tasks without any.
static NO_WORK: LazyLock<Work> = LazyLock::new(Work::default);

/// A call, of a tool that acts each time, that ended before its code reported whether it took effect.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UnknownCall {
    pub(super) call: CallId,
    pub(super) tool: ToolId,
}

/// The fields that few tasks need.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Extras {
    /// For a question held by an agent: the task on whose behalf it is answered.
    pub(super) answers_for: Option<TaskId>,
    /// For a question of the engine: its concern, the approval or the outcome of a call.
    pub(super) concern: Option<Concern>,
    /// Answers given on this agent's behalf, keyed by the waiting call.
    pub(super) said: Vec<(CallId, Said)>,
    /// The tools that requests offer since they were described.
    pub(super) described: BTreeSet<ToolId>,
    /// Messages from a person for the next request.
    pub(super) steering: Vec<String>,
    /// In universal invocation: its answered requests.
    pub(super) requests: Requests,
    /// The background tasks of this task that have ended, and whose results no request has shown yet.
    pub(super) unseen: Vec<TaskId>,
    /// Content from other tasks that came while a request was open. It becomes a part of the next turn's request.
    pub(super) received: Received,
    /// The facts of a task whose results must be accepted.
    pub(super) acceptance: Option<AcceptanceFacts>,
    /// Its calls, and those of all tasks below it, whose effect is not known.
    pub(super) unknown: Vec<UnknownCall>,
}

/// Empty extras, for tasks without any.
static NO_EXTRAS: Extras = Extras {
    answers_for: None,
    concern: None,
    said: Vec::new(),
    described: BTreeSet::new(),
    steering: Vec::new(),
    requests: Requests::NONE,
    unseen: Vec::new(),
    received: Received { tokens: 0, fresh: Vec::new() },
    acceptance: None,
    unknown: Vec::new(),
};

/// The facts of a task whose results must be accepted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AcceptanceFacts {
    /// Its request.
    pub(super) request: Box<str>,
    /// The number of refused results.
    pub(super) refused: u32,
}

/// Content that came from other tasks while a request was open.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Received {
    /// Its tokens (≈), without what [`Received::fresh`] counts.
    pub(super) tokens: u64,
    /// The results and documents among it.
    pub(super) fresh: Vec<Fresh>,
}

impl Task {
    /// Returns the work on it so far.
    pub fn work(&self) -> &Work {
        self.work.as_deref().unwrap_or_else(|| &NO_WORK)
    }

    /// Returns the work on it so far, to be changed.
    pub(super) fn work_mut(&mut self) -> &mut Work {
        self.work.get_or_insert_default()
    }

    /// Returns the fields that few tasks need.
    pub(super) fn extras(&self) -> &Extras {
        self.extras.as_deref().unwrap_or(&NO_EXTRAS)
    }

    /// Changes the lengths of its requests, whose prompt and tools took `was` tokens and take `is` now.
    pub(super) fn change_prompt(&mut self, was: u64, is: u64) {
        let changed = |tokens: u64| (tokens + is).saturating_sub(was);
        self.context_tokens = changed(self.context_tokens);
        if let Some(context) = self.work.as_mut().and_then(|work| work.context.as_mut()) {
            context.base_tokens = changed(context.base_tokens);
            context.requests.iter_mut().for_each(|request| request.tokens = changed(request.tokens));
        }
    }

    /// Returns the tokens of the definitions that its requests offer since they were described, if `agent` holds it.
    pub(super) fn described_tokens(&self, agent: &Agent) -> u64 {
        if !agent.is_offered_described_tools() {
            return 0;
        }
        self.extras()
            .described
            .iter()
            .filter_map(|id| agent.tools.get(id))
            .map(|tool| baton_render::definition_tokens(tool))
            .sum()
    }

    /// Whether it has not ended.
    pub fn is_live(&self) -> bool {
        !matches!(self.phase, Phase::Ended(_))
    }

    /// Returns its limits. A limit of the tool that created it replaces the same limit of its agent.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the limits that it would have under `configs`, which must have its agent.
    pub fn limits_under(&self, configs: &Configs) -> Arc<Limits> {
        limits_of(configs, &self.holder, self.tool.as_ref())
    }

    /// Returns the agent that holds it; `None` for a person.
    pub fn agent(&self) -> Option<&AgentId> {
        match &self.holder {
            Holder::Agent(agent) => Some(agent),
            Holder::Person => None,
        }
    }

    /// Returns the concern of a question of the engine: the approval or the outcome of a call.
    pub fn concern(&self) -> Option<Concern> {
        self.extras().concern
    }

    /// Returns the tokens and money reserved by its open request and by those of its calls' code.
    pub fn reserved(&self) -> (u64, Cost) {
        let reservation = self.work().reservation;
        let mut reserved = (reservation.tokens, Cost { known: reservation.cost, unpriced: 0 });
        for ask in self.phase.calls().into_iter().flat_map(OpenCalls::asks) {
            reserved.0 = reserved.0.saturating_add(ask.reserved_tokens);
            reserved.1.settle(ask.reserved_cost);
        }
        reserved
    }

    /// Returns the answers given on this agent's behalf while it waits for `call`.
    pub(super) fn said_during(&self, call: &CallId) -> Vec<Said> {
        self.extras().said.iter().filter(|(waiting, _)| waiting == call).map(|(_, said)| said.clone()).collect()
    }

    /// Whether the ids of its calls are requests.
    pub(super) fn has_requests(&self, configs: &Configs) -> bool {
        self.agent().is_some_and(|id| agent(configs, id).invocation == Invocation::Universal)
    }

    /// Iterates over the calls of its newest turn, until the next request.
    pub fn calls(&self) -> impl Iterator<Item = &OpenCall> {
        self.phase.calls().into_iter().flat_map(|calls| calls.iter())
    }

    /// Returns the call `id` of its newest turn, until the next request.
    pub fn call(&self, id: &CallId) -> Option<&OpenCall> {
        let calls = self.phase.calls()?;
        calls.get(calls.index_of(id)?)
    }

    /// Returns the version of `path` that the task read or wrote, which is the base of a write.
    pub fn known(&self, path: &DocumentPath) -> Option<u32> {
        self.work().documents.as_ref()?.read.get(path).copied()
    }

    /// Returns the newest version of `path` that the task read or wrote, or of which it has the record.
    pub(super) fn seen(&self, path: &DocumentPath) -> Option<u32> {
        let documents = self.work().documents.as_ref()?;
        documents.read.get(path).max(documents.named.get(path)).copied()
    }

    /// Returns the content that its next request shows for the first time.
    pub(super) fn fresh(&self) -> &[Fresh] {
        self.work().documents.as_ref().map_or(&[], |documents| &documents.fresh)
    }

    /// Adds content for its next request.
    pub(super) fn add_fresh(&mut self, content: impl IntoIterator<Item = Fresh>) {
        let mut content = content.into_iter().peekable();
        if content.peek().is_some() {
            self.work_mut().documents.get_or_insert_default().fresh.extend(content);
        }
    }

    /// Adds content from another task to the next turn's request.
    pub(super) fn receive(&mut self, tokens: u64, fresh: Vec<Fresh>) {
        let received = &mut self.extras.get_or_insert_default().received;
        received.tokens += tokens;
        received.fresh.extend(fresh);
        self.take_received();
    }

    /// Counts what came from other tasks, unless the request of a turn is open: it is rendered already.
    pub(super) fn take_received(&mut self) {
        if matches!(self.phase, Phase::Asking(_) | Phase::Ready(Next::Again(_))) {
            return;
        }
        let Some(extras) = &mut self.extras else { return };
        let Received { tokens, fresh } = std::mem::take(&mut extras.received);
        self.context_tokens += tokens;
        self.add_fresh(fresh);
    }

    /// Returns its background tasks that have ended, and whose results no request has shown yet.
    pub fn unseen(&self) -> &[TaskId] {
        &self.extras().unseen
    }

    /// Iterates over the newest versions of its written documents, in the order of their first write.
    pub fn written(&self) -> impl Iterator<Item = &DocumentRef> {
        self.work().documents.iter().flat_map(|documents| documents.written.iter())
    }

    /// Records that the task read or wrote this version.
    pub(super) fn learn(&mut self, version: &DocumentVersion) {
        self.work_mut().documents.get_or_insert_default().learn(version);
    }

    /// Whether its newest request is for a summary of older turns alone.
    pub fn is_summarising(&self) -> bool {
        self.phase.purpose().is_summary()
    }

    /// Returns the limit that makes its newest turn the last one.
    pub fn last_turn(&self) -> Option<LimitKind> {
        self.phase.purpose().last_turn()
    }

    /// Returns the time spent ready or running until `now`.
    pub fn worked_until(&self, now: Timestamp) -> Duration {
        self.work().time + self.working_since.map_or(Duration::ZERO, |since| now.since(since))
    }
}

impl Task {
    /// Iterates over the possible compactions, the smallest first. The newest turn always stays.
    pub(super) fn plans(&self) -> impl Iterator<Item = Plan> {
        let now = self.context_tokens;
        let plans = self.work().context.as_deref().into_iter().flat_map(move |context| {
            let inherited = context.inherited_tokens;
            let (base, own) = (context.base_tokens.saturating_sub(inherited), context.base_tokens);
            // Before its first request, the conversation that it begins with has calls without results.
            let alone = (inherited > 0 && !context.requests.is_empty()).then(|| Plan {
                through_turn: 0,
                dropped: inherited,
                kept: now.saturating_sub(inherited),
            });
            let later = context.requests.iter().filter(|request| request.turn > context.through_turn + 1);
            alone.into_iter().chain(later.map(move |request| Plan {
                through_turn: request.turn - 1,
                dropped: request.tokens.saturating_sub(own) + inherited,
                kept: base + now.saturating_sub(request.tokens),
            }))
        });
        plans.filter(|plan| plan.dropped > 2 * SUMMARY_FRAME_TOKENS)
    }
}

/// A possible compaction.
pub(super) struct Plan {
    /// The last turn that is replaced; 0 for the conversation that the task begins with.
    pub(super) through_turn: u32,
    /// Tokens of the replaced turns.
    pub(super) dropped: u64,
    /// Tokens of everything that stays.
    pub(super) kept: u64,
}

impl Plan {
    /// Returns the maximum number of tokens of a digest, which is less than it replaces.
    pub(super) fn digest_tokens(&self, window: u64) -> u64 {
        DIGEST_TOKENS.min(window / 8).min(self.dropped / 2).max(SUMMARY_FRAME_TOKENS)
    }
}

/// Number of the newest turns that may stay as they are. The lengths of as many requests are kept.
pub(super) const KEPT_TURNS: usize = 4;

/// Maximum number of tokens (≈) of a digest.
const DIGEST_TOKENS: u64 = 2_000;

/// The lengths of a conversation that its compaction needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Context {
    /// Tokens (≈) of its beginning: the prompt, the tools, the conversation that it begins with, and the request with its
    /// documents.
    pub base_tokens: u64,
    /// Tokens (≈) among them of the conversation that the task begins with. Each compaction replaces it.
    pub inherited_tokens: u64,
    /// The newest requests, oldest first, with their lengths after compaction.
    pub requests: VecDeque<ContextMark>,
    /// The last turn in the summary; 0 without a summary.
    pub through_turn: u32,
}

/// Consecutive turns that did not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// Number of these turns.
    pub count: u32,
    /// The reason why the last one did not count.
    pub reason: ReminderReason,
}

/// The length of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextMark {
    /// Its turn.
    pub turn: u32,
    /// Its tokens (≈).
    pub tokens: u64,
}

/// The place of a version in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// The conversation that the task began with.
    Inherited,
    /// The messages after this turn; 0 for the task's request.
    After(u32),
}

/// The documents that a task knows or wrote, and the content that its next request shows for the first time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TaskDocuments {
    /// The versions that it read or wrote: the bases of its writes.
    pub read: BTreeMap<DocumentPath, u32>,
    /// The versions of which it has only the record.
    pub named: BTreeMap<DocumentPath, u32>,
    /// The newest versions of its written documents, in the order of their first write.
    pub written: Vec<DocumentRef>,
    /// The versions that its conversation holds.
    pub held: BTreeMap<DocumentRef, Held>,
    /// Content for its next request.
    pub fresh: Vec<Fresh>,
}

impl TaskDocuments {
    /// Records that this version was read or written. An older version than the known one changes nothing.
    pub(super) fn learn(&mut self, version: &DocumentVersion) {
        let known = self.read.entry(version.path.clone()).or_default();
        *known = version.version.max(*known);
    }
}

/// Position of the content of a task's own request: after that of all calls.
pub(super) const OWN_REQUEST: u32 = u32::MAX;

/// Content that the next request of a task shows for the first time, if there is room for it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fresh {
    /// Position of its call in the turn, or [`OWN_REQUEST`].
    pub position: u32,
    /// The content.
    pub content: FreshContent,
}

/// Kind of new content.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FreshContent {
    /// A document. The edge that brought it may leave no room for it.
    Document { version: Arc<DocumentVersion>, exceeds_edge: bool },
    /// The current version of a document, shown as its changes after a conflict.
    Conflict(Arc<DocumentVersion>),
    /// A document of which the output of a call shows a part.
    Part { call: CallId, version: Arc<DocumentVersion> },
    /// The result of a call that is not short. It takes `body` tokens (≈) beyond its frame, before a long output is shown.
    Result { call: CallId, tool: ToolId, result: Arc<CallResult>, body: u64 },
}

/// A repeated tool, input and result. They are kept rather than hashed: comparing them is cheaper than hashing every result,
/// and the payloads are shared with the conversation.
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
    /// Whether the call `asked` has the same tool, input and configuration.
    pub fn is_of(&self, asked: &ModelCall) -> bool {
        self.asked.asks_the_same(asked)
    }

    /// Whether `result` is the same again, apart from the details of an error.
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
    /// Money settled.
    pub cost: Money,
    /// The amounts reserved for open requests.
    pub reserved: Reservation,
}

/// The fields that a question has in addition to those of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Its number in the run.
    pub number: u32,
    /// The task that asked.
    pub asker: TaskId,
    /// The question.
    pub text: Box<str>,
    /// The documents that came with it.
    pub documents: Box<[DocumentRef]>,
    /// The JSON Schema that an answer must meet; `null` for none.
    pub answer_schema: Json,
    /// The policy for a missed deadline.
    pub on_deadline: OnDeadline,
    /// The way in which it was closed; `None` while it is open.
    pub closed: Option<Box<QuestionEnd>>,
}

impl Question {
    /// Returns the compiled schema that an answer must meet; `None` for none.
    pub(super) fn schema(&self, configs: &Configs) -> Option<Result<Schema, String>> {
        (!self.answer_schema.is_null()).then(|| configs.compile(&self.answer_schema.value()))
    }
}
