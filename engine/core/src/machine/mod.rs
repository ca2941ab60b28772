//! One run as a value, with two doors.
//!
//! [`Run::decide`] says what an event means and writes nothing; [`Run::apply`] is the only code that changes state.
//! The files here are split by kind of event: `answer` (a model answered), `advance` (a turn's calls proceed),
//! `act` (delegations, questions and handoffs), `admit` (limits before a request), `finish` (a task ends), `join` (what a
//! turn waits for), `compact` (older turns give way), `retry` (failed delegations), `approval` and `doubt` (questions
//! about calls), `outside` (people, clocks and crashes).

mod act;
mod admit;
mod adopt;
mod advance;
mod answer;
mod apply;
mod approval;
mod ask;
mod check;
mod compact;
mod decide;
mod doubt;
mod finish;
mod graph;
mod join;
mod outside;
mod retry;
mod task;
mod world;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

pub use graph::TaskGraph;
pub use join::{Tally, Verdict, verdict};
pub use task::{
    Attempts, Budget, CallStage, Context, ContextMark, Finish, OpenCall, OpenTurn, Question, Streak, Task, TaskState,
};
pub use world::Shared;
use world::{LookAhead, World};

use crate::config::{Agent, Configs};
use crate::document::Documents;
use crate::entry::{Entry, Holder, Recorded, RunEnded, RunStarted};
use crate::event::{Decision, Event, Refusal};
use crate::id::{AgentId, ContentHash, TaskId};
use crate::limits::Limits;
use crate::model::Usage;
use crate::money::Cost;
use crate::time::Timestamp;

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

    /// Says what `event`, at the moment `at`, means: entries to append and effects to perform, or a refusal.
    ///
    /// Nothing is written here: neither a refusal nor a decision that is never committed changes the run.
    pub fn decide(&self, at: Timestamp, event: Event) -> Result<Decision, Refusal> {
        decide::decide(self, at, event)
    }

    /// Appends one entry to the state. The only code that changes it; used alike live and on replay.
    ///
    /// # Panics
    /// If the entry is not the next one, or names what earlier entries did not create: such a timeline was not made
    /// by [`Run::decide`]. If it adopts configs that nobody brought with [`Run::know_configs`].
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
        admit::next_fallback(self, id)
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

impl PartialEq for Run {
    fn eq(&self, other: &Self) -> bool {
        self.shared == other.shared && self.graph == other.graph
    }
}

impl World for Run {
    fn configs(&self) -> &Arc<Configs> {
        &self.configs
    }

    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn shared_mut(&mut self) -> &mut Shared {
        &mut self.shared
    }

    fn task(&self, id: &TaskId) -> Option<&Task> {
        self.graph.get(id)
    }

    fn task_mut(&mut self, id: &TaskId) -> Option<&mut Task> {
        self.graph.get_mut(id)
    }

    fn adopt(&mut self, hash: ContentHash) {
        self.configs = Arc::clone(known(&self.known_configs, &self.configs, &self.shared, hash));
    }

    fn tasks(&self) -> Vec<TaskId> {
        self.graph.iter().map(|task| task.id.clone()).collect()
    }

    fn insert(&mut self, caller: Option<&TaskId>, task: Task) {
        self.graph.insert(caller, task);
    }

    fn caller(&self, id: &TaskId) -> Option<TaskId> {
        self.graph.caller(id).map(|task| task.id.clone())
    }
}

/// The configs that an entry adopts under `hash`: some that were brought, or those the run has already.
fn known<'a>(
    known: &'a [(ContentHash, Arc<Configs>)],
    present: &'a Arc<Configs>,
    shared: &Shared,
    hash: ContentHash,
) -> &'a Arc<Configs> {
    let brought = known.iter().rev().find(|(known, _)| *known == hash).map(|(_, configs)| configs);
    let present = || shared.started.as_ref().is_some_and(|started| started.configs == hash).then_some(present);
    brought.or_else(present).unwrap_or_else(|| panic!("an entry adopts the configs {hash}, which nobody brought along"))
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

/// The decision being made: a look ahead, and what was decided so far.
struct Draft<'run> {
    at: Timestamp,
    world: LookAhead<'run>,
    decision: Decision,
    /// Tasks whose turn may have become complete.
    changed: std::collections::VecDeque<TaskId>,
}

impl<'run> Draft<'run> {
    fn new(run: &'run Run, at: Timestamp) -> Self {
        Self { at, world: LookAhead::new(run), decision: Decision::default(), changed: std::collections::VecDeque::new() }
    }

    /// Adds an entry and looks one step further ahead.
    fn push(&mut self, entry: Entry) {
        let recorded = Recorded { seq: self.world.shared().seq + 1, at: self.at, entry };
        apply::apply(&mut self.world, &recorded);
        self.decision.entries.push(recorded);
    }

    fn configs(&self) -> Arc<Configs> {
        Arc::clone(self.world.configs())
    }

    /// A task that the caller knows to exist.
    fn task(&self, id: &TaskId) -> &Task {
        self.world.task(id).unwrap_or_else(|| panic!("there is no task {id}"))
    }
}
