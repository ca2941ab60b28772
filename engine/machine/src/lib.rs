//! One run as a value, with one way in and one way to change.
//!
//! [`Run::handle`] takes an event: it refuses it and changes nothing, or appends the entries that answer it. Each entry is
//! applied as it is appended, by [`Run::apply`], the only code that changes state; the same code replays a timeline.
//!
//! `settle` hands an event to the rule that knows it, and runs the steps that follow. `rules` has one file per rule. A rule reads
//! the run by `models` (what may be asked, and its price), `room` (what limits leave), `attempts` and `create`, and changes it
//! by a `draft` alone. `books` reserves for requests and settles them. `phase`, `calls`, `task` and `shared` are the state.
//!
//! Inside the machine a task is a [`TaskIndex`], and a call its place in the turn. Ids are made once, for entries and effects.

mod apply;
mod attempts;
mod books;
mod calls;
mod create;
mod draft;
mod graph;
mod models;
mod phase;
pub mod render;
mod room;
mod rules;
mod settle;
mod shared;
mod task;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

pub use calls::{Attempts, CallDetails, CallStage, Counts, Finish, OpenAsk, OpenCall, OpenCalls};
pub use graph::{TaskGraph, TaskIndex};
pub use phase::{Next, Phase, Purpose, Request, Wait};
pub use rules::join::{Tally, Verdict, verdict};
pub use shared::Shared;
pub use task::{Budget, Context, ContextMark, Missed, Question, Streak, Task};

use baton_types::call::{CallError, CallResult, CallStatus, ErrorCode};
use baton_types::config::{Agent, Configs, Tool};
use baton_types::document::Documents;
use baton_types::entry::{Holder, Recorded, RunEnded, RunStarted};
use baton_types::event::{Decision, Event, Refusal};
use baton_types::id::{AgentId, ContentHash, TaskId};
use baton_types::limits::Limits;
use baton_types::model::Usage;
use baton_types::money::Cost;
use baton_types::schema::{Schema, SchemaFault};
use baton_types::time::Timestamp;

/// What model requests used, together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Tokens.
    pub usage: Usage,
    /// Money.
    pub cost: Cost,
}

/// One run: its configs, its tasks, its documents. The fold of its timeline, and nothing else.
#[derive(Clone, Debug)]
pub struct Run {
    configs: Arc<Configs>,
    /// Configs that entries may adopt, under the hash that such an entry names.
    known_configs: Vec<(ContentHash, Arc<Configs>)>,
    graph: TaskGraph,
    shared: Shared,
}

impl Run {
    /// A run before its first entry.
    pub fn new(configs: Arc<Configs>) -> Self {
        Self { configs, known_configs: Vec::new(), graph: TaskGraph::default(), shared: Shared::default() }
    }

    /// The run that `timeline` tells of.
    pub fn fold<'a>(configs: Arc<Configs>, timeline: impl IntoIterator<Item = &'a Recorded>) -> Self {
        let mut run = Self::new(configs);
        for recorded in timeline {
            run.apply(recorded);
        }
        run
    }

    /// Answers `event`, which comes at the moment `at`: with the entries that are appended and the effects to perform, or with
    /// a refusal, which changes nothing.
    ///
    /// The entries are applied already. A caller that cannot make them durable drops the run and folds it again.
    ///
    /// # Errors
    /// Those of [`Run::check`].
    pub fn handle(&mut self, at: Timestamp, event: Event) -> Result<Decision, Refusal> {
        settle::handle(self, at, event)
    }

    /// Whether [`Run::handle`] would accept `event`.
    ///
    /// # Errors
    /// The reason why it is refused.
    pub fn check(&self, event: &Event) -> Result<(), Refusal> {
        settle::check(self, event)
    }

    /// Appends one entry of a timeline to the state.
    ///
    /// # Panics
    /// If the entry is not the next one, or names what earlier entries did not create: such a timeline was not made
    /// by [`Run::handle`]. If it adopts configs that nobody brought with [`Run::know_configs`].
    pub fn apply(&mut self, recorded: &Recorded) {
        apply::apply(self, recorded);
    }

    /// Lets entries from here on adopt `configs` under `hash`.
    ///
    /// Entries name configs by hash only, so whoever folds a timeline brings what [`Entry::adopts`] names before the entry
    /// is applied.
    pub fn know_configs(&mut self, hash: ContentHash, configs: Arc<Configs>) {
        self.known_configs.push((hash, configs));
    }

    /// The configs that the run is pinned to: those that it adopted last.
    pub fn configs(&self) -> &Arc<Configs> {
        &self.configs
    }

    /// The number of the last entry; 0 before the first.
    pub fn last_seq(&self) -> u64 {
        self.shared.seq
    }

    /// The first entry, once there is one.
    pub fn started(&self) -> Option<&RunStarted> {
        self.shared.started.as_deref()
    }

    /// The last entry, once there is one.
    pub fn ended(&self) -> Option<&RunEnded> {
        self.shared.ended.as_ref()
    }

    /// The workspace.
    pub fn documents(&self) -> &Documents {
        &self.shared.documents
    }

    /// A task.
    pub fn task(&self, id: &TaskId) -> Option<&Task> {
        self.graph.get(id)
    }

    /// The task graph.
    pub fn graph(&self) -> &TaskGraph {
        &self.graph
    }

    /// What the run knows beside its tasks: counters, usage, queues.
    pub fn totals(&self) -> &Shared {
        &self.shared
    }

    /// When the next deadline passes or the next attempt begins; the shell sends [`Event::TimePassed`] then.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let deadline = self.shared.deadlines.first().map(|(at, _)| *at);
        let retry = self.shared.retries.first().map(|(at, _)| *at);
        [deadline, retry].into_iter().flatten().min()
    }

    /// The questions that wait for a person, in the order of their numbers.
    pub fn open_questions(&self) -> impl Iterator<Item = &Task> {
        self.shared
            .questions
            .iter()
            .filter_map(|id| self.graph.get(id))
            .filter(|task| task.is_live() && task.holder == Holder::Person)
    }

    /// Whether nothing in the run can proceed until a person answers.
    pub fn waits_only_for_people(&self) -> bool {
        let shared = &self.shared;
        shared.ended.is_none() && shared.active_tasks == 0 && shared.open_questions > 0 && shared.retries.is_empty()
    }

    /// What the requests of `id` and of all tasks below it used; those of a whole run are [`Run::totals`]. A call that
    /// created a task has used what that task and all below it have.
    pub fn spent(&self, id: &TaskId) -> Option<Spent> {
        let own = self.graph.get(id)?;
        let mut spent = Spent::default();
        for task in std::iter::once(own).chain(self.graph.descendants(id)) {
            spent.usage.add(&task.usage);
            spent.cost.add(task.cost);
        }
        Some(spent)
    }

    /// The model that is asked when the one that is asked for the open turn of `id` is not available.
    pub fn next_fallback(&self, id: &TaskId) -> Option<&str> {
        self.fallback_of(self.graph.find(id.as_str())?)
    }

    /// How long one attempt at a request of `id` may take: the tighter limit of the task and of the run.
    pub fn turn_limit(&self, id: &TaskId) -> Option<Duration> {
        let own = task_limits(&self.configs, self.graph.get(id)?).turn_seconds;
        let seconds = [own, self.configs.job.limits.turn_seconds].into_iter().flatten().min()?;
        Some(Duration::from_secs(seconds.into()))
    }

    /// The limits that hold for `task`: those of the tool that created it, then those of its agent.
    pub fn limits(&self, task: &Task) -> Cow<'_, Limits> {
        task_limits(&self.configs, task)
    }
}

/// The limits that hold for `task` where `configs` do, which must have its agent.
pub fn limits_under<'a>(configs: &'a Configs, task: &Task) -> Cow<'a, Limits> {
    task_limits(configs, task)
}

impl Run {
    /// The configs that an entry adopts under `hash`: some that were brought, or those the run has already.
    fn known(&self, hash: ContentHash) -> &Arc<Configs> {
        let brought = self.known_configs.iter().rev().find(|(known, _)| *known == hash).map(|(_, configs)| configs);
        let present = || self.shared.started.as_ref().is_some_and(|started| started.configs == hash).then_some(&self.configs);
        brought.or_else(present).unwrap_or_else(|| panic!("an entry adopts the configs {hash}, which nobody brought along"))
    }

    /// A task that the caller knows to exist.
    fn existing(&self, id: &TaskId) -> &Task {
        self.graph.get(id).unwrap_or_else(|| panic!("there is no task {id}"))
    }
}

impl PartialEq for Run {
    fn eq(&self, other: &Self) -> bool {
        self.shared == other.shared && self.graph == other.graph
    }
}

/// The agent named `id`. Configs are joined when loaded, so it exists.
pub(crate) fn agent<'a>(configs: &'a Configs, id: &AgentId) -> &'a Arc<Agent> {
    configs.agents.get(id).unwrap_or_else(|| panic!("the configs of the run have no agent {id}"))
}

/// The limits that hold for `task`.
pub(crate) fn task_limits<'a>(configs: &'a Configs, task: &Task) -> Cow<'a, Limits> {
    let own = task.tool.as_ref().and_then(|tool| configs.tools.get(tool)).map(|tool| &tool.limits);
    match (task.agent(), own) {
        (Some(id), Some(tool)) if *tool != Limits::default() => Cow::Owned(tool.or(&agent(configs, id).limits)),
        (Some(id), _) => Cow::Borrowed(&agent(configs, id).limits),
        (None, _) => Cow::Owned(Limits::default()),
    }
}

/// The error of a call that would do something else than what was approved.
fn changed_since(tool: &Tool) -> CallError {
    CallError::new(ErrorCode::Denied, format!("what was approved is not what would run: {} has changed since", tool.id))
}

/// The result of a call of which nobody knows whether it took effect.
fn unknown_outcome(note: Option<&str>) -> CallResult {
    let note = note.map(|note| format!(": {note}")).unwrap_or_default();
    let message = format!("a crash interrupted the call; whether it took effect is not known, and it is not repeated{note}");
    CallResult::error(CallStatus::UnknownOutcome, CallError::new(ErrorCode::UnknownOutcome, message))
}

/// An answer as the schema reads it: as it is, or the value under its key `answer`.
fn answer_in<'v>(schema: &Schema, result: &'v Value) -> Result<&'v Value, Vec<SchemaFault>> {
    match (schema.check(result), result.get("answer")) {
        (Ok(()), _) => Ok(result),
        (Err(faults), Some(inner)) => schema.check(inner).map(|()| inner).map_err(|_| faults),
        (Err(faults), None) => Err(faults),
    }
}

/// At most 200 characters of `text`: what a model said may be very long.
fn bounded(text: &str) -> String {
    if text.chars().count() <= 200 { text.to_owned() } else { text.chars().take(200).chain(['…']).collect() }
}
