//! One run as a value. Events enter by one function, and one function changes the state.
//!
//! [`Run::handle`] takes an event. It refuses the event and changes nothing, or it appends the entries that answer it.
//! [`Run::apply`] applies each entry when it is appended. It is the only code that changes state, and it also replays a
//! timeline.
//!
//! `settle` passes an event to its rule, and runs the steps that follow. `rules` has one file per rule. A rule reads the run
//! by `models` (models that may be asked, and their prices), `room` (the room that limits leave), `attempts` and `create`. It
//! changes the run only by a `draft`. `books` reserves tokens and money for requests and settles them. `phase`, `calls`,
//! `task` and `shared` are the state.
//!
//! Inside the machine a task is a [`TaskIndex`], and a call is an index in its turn. Ids are made only for entries and
//! effects.

mod acceptance;
mod ahead;
mod apply;
mod approved_class;
mod approver;
mod attempts;
mod books;
mod callable;
mod calls;
mod create;
mod draft;
mod edited;
mod graph;
mod left;
mod models;
mod phase;
mod prelude;
mod requests;
mod reservation;
mod room;
mod rules;
mod settle;
mod shared;
mod task;
mod unknown;

use std::sync::LazyLock;

pub use ahead::Least;
pub use calls::{Attempts, CallDetails, CallStage, Counts, Finish, OpenAsk, OpenCall, OpenCalls};
pub use graph::{TaskGraph, TaskIndex};
pub use phase::{Next, Phase, Purpose, Request, Wait};
pub use reservation::{Counted, Reservation};
pub use shared::Shared;
pub use task::{Budget, Context, ContextMark, Missed, Question, Streak, Task, Work};

use prelude::*;

/// Tokens and money that model requests used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Tokens.
    pub usage: Usage,
    /// Money.
    pub cost: Cost,
}

impl Spent {
    /// Adds one request's usage, and its cost; `None` where its price is not known.
    pub fn settle(&mut self, usage: &Usage, cost: Option<Money>) {
        self.usage.add(usage);
        self.cost.settle(cost);
    }

    /// Adds `other`.
    pub fn add(&mut self, other: Self) {
        self.usage.add(&other.usage);
        self.cost.add(other.cost);
    }
}

/// One run: its configs, its tasks, its documents. It is the fold of its timeline, and nothing else.
#[derive(Clone, Debug)]
pub struct Run {
    configs: Arc<Configs>,
    /// Configs that entries may adopt, under the hash that such an entry names.
    known_configs: Vec<(ContentHash, Arc<Configs>)>,
    graph: TaskGraph,
    shared: Shared,
}

impl Run {
    /// Creates a run before its first entry.
    pub fn new(configs: Arc<Configs>) -> Self {
        Self { configs, known_configs: Vec::new(), graph: TaskGraph::default(), shared: Shared::default() }
    }

    /// Folds `timeline` into a run.
    pub fn fold<'a>(configs: Arc<Configs>, timeline: impl IntoIterator<Item = &'a Recorded>) -> Self {
        let mut run = Self::new(configs);
        for recorded in timeline {
            run.apply(recorded);
        }
        run
    }

    /// Adds `configs` under `hash`, so that later entries can adopt them.
    ///
    /// Entries name configs by hash only. The caller must add the configs that
    /// [`Entry::adopts`](baton_types::entry::Entry::adopts) names before the entry is applied.
    pub fn know_configs(&mut self, hash: ContentHash, configs: Arc<Configs>) {
        self.known_configs.push((hash, configs));
    }

    /// Returns the configs that the run is pinned to: those that it started with or adopted last.
    pub fn configs(&self) -> &Arc<Configs> {
        &self.configs
    }

    /// Returns the number of the last entry; 0 before the first.
    pub fn last_seq(&self) -> u64 {
        self.shared.seq
    }

    /// Returns the start of the run, as later adoptions changed it; `None` before the first entry.
    pub fn started(&self) -> Option<&RunStarted> {
        self.shared.started.as_deref()
    }

    /// Returns the entry that ended the run, if it has ended.
    pub fn ended(&self) -> Option<&RunEnded> {
        self.shared.ended.as_ref()
    }

    /// Returns the workspace.
    pub fn documents(&self) -> &Documents {
        &self.shared.documents
    }

    /// Returns the task named `id`.
    pub fn task(&self, id: &TaskId) -> Option<&Task> {
        self.graph.get(id)
    }

    /// Returns the root task: the newest one, if the run continues another. `None` before the first entry.
    pub fn root(&self) -> Option<&Task> {
        self.graph.root().map(|root| &self.graph[root])
    }

    /// Returns the task graph.
    pub fn graph(&self) -> &TaskGraph {
        &self.graph
    }

    /// Returns the state of the run outside its tasks: counters, usage, queues.
    pub fn totals(&self) -> &Shared {
        &self.shared
    }

    /// Lets no request begin any more: the process is about to release the run. The next owner makes the requests.
    pub fn hold_requests(&mut self) {
        self.shared.releasing = true;
    }

    /// Returns the moment of the next deadline, attempt or end of a suspension. The shell sends [`Event::TimePassed`] then.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let deadline = self.shared.deadlines.first().map(|(at, _)| *at);
        let alarm = self.shared.alarms.first().map(|(at, _)| *at);
        [deadline, alarm].into_iter().flatten().min()
    }

    /// Iterates over the open questions for people, in the order of their numbers.
    pub fn open_questions(&self) -> impl Iterator<Item = &Task> {
        self.shared
            .questions
            .iter()
            .filter_map(|id| self.graph.get(id))
            .filter(|task| task.is_live() && task.holder == Holder::Person)
    }

    /// Whether the run cannot proceed until a person answers.
    pub fn waits_only_for_people(&self) -> bool {
        let shared = &self.shared;
        self.is_idle() && shared.open_questions > 0 && shared.suspended_calls == 0 && shared.alarms.is_empty()
    }

    /// Whether no task can proceed by itself: the run waits for people, for deliveries, or for a moment.
    pub fn is_idle(&self) -> bool {
        self.shared.ended.is_none() && (self.shared.active_tasks == 0 || self.shared.quarantined)
    }

    /// Iterates over the suspended calls.
    pub fn suspended_calls(&self) -> impl Iterator<Item = &OpenCall> {
        let waiting = self.graph.iter().filter(|task| task.is_live());
        waiting.flat_map(Task::calls).filter(|call| call.stage == CallStage::Suspended)
    }

    /// Returns the tokens and money that the requests of `id` and of all tasks below it used. [`Run::totals`] has those of
    /// the whole run. The usage of a call that created a task is the usage of that task and of all tasks below it.
    pub fn spent(&self, id: &TaskId) -> Option<Spent> {
        let own = self.graph.get(id)?;
        let mut spent = Spent::default();
        for task in std::iter::once(own).chain(self.graph.descendants(id)) {
            spent.add(Spent { usage: task.work().usage, cost: task.work().cost });
        }
        Some(spent)
    }

    /// Returns the fallback to ask if the model of the open turn of `id` is not available.
    pub fn next_fallback(&self, id: &TaskId) -> Option<&str> {
        self.fallback_of(self.graph.find(id.as_str())?)
    }

    /// Returns the time limit of one attempt at a request of `id`: the tighter limit of the task and of the run.
    pub fn turn_limit(&self, id: &TaskId) -> Option<Duration> {
        let own = self.graph.get(id)?.limits().turn_seconds;
        let seconds = [own, self.configs.job.limits.turn_seconds].into_iter().flatten().min()?;
        Some(Duration::from_secs(seconds.into()))
    }

    /// Returns the longest answer of the model that `id` asks, if that is the limit of its answer.
    pub fn own_output_limit(&self, id: &TaskId) -> Option<u64> {
        let task = self.graph.find(id.as_str())?;
        self.own_output_tokens(task, self.asked_model(task)?)
    }

    /// Returns the configs that an entry adopts under `hash`: configs that were added, or the run's present ones.
    fn known(&self, hash: ContentHash) -> &Arc<Configs> {
        let brought = self.known_configs.iter().rev().find(|(known, _)| *known == hash).map(|(_, configs)| configs);
        let present = || self.shared.started.as_ref().is_some_and(|started| started.configs == hash).then_some(&self.configs);
        brought
            .or_else(present)
            .unwrap_or_else(|| panic!("an entry adopts the configs {hash}, which were not passed to the machine"))
    }
}

impl PartialEq for Run {
    fn eq(&self, other: &Self) -> bool {
        self.shared == other.shared && self.graph == other.graph
    }
}

/// Returns the agent named `id`. References are checked when configs are loaded, so it exists.
pub(crate) fn agent<'a>(configs: &'a Configs, id: &AgentId) -> &'a Arc<Agent> {
    configs.agents.get(id).unwrap_or_else(|| panic!("the configs of the run have no agent {id}"))
}

/// Returns the limits of a task of `holder` that a call of `tool` created.
pub(crate) fn limits_of(configs: &Configs, holder: &Holder, tool: Option<&ToolId>) -> Arc<Limits> {
    static NONE: LazyLock<Arc<Limits>> = LazyLock::new(Arc::default);
    let own = tool.and_then(|tool| configs.tools.get(tool)).map(|tool| &tool.limits);
    match (holder.agent(), own) {
        (Some(id), Some(tool)) if *tool != Limits::default() => Arc::new(tool.or(&agent(configs, id).limits)),
        (Some(id), _) => Arc::clone(&agent(configs, id).limits),
        (None, _) => Arc::clone(&NONE),
    }
}

/// Returns the error of a call that would do something else than what was approved.
fn changed_since(tool: &Tool) -> CallError {
    CallError::new(
        ErrorCode::Denied,
        format!("the approval does not apply any more: tool {} has changed since it was given", tool.id),
    )
}

/// Shortens the text of a model for a message, because it may be very long.
fn bounded(text: &str) -> String {
    baton_types::text::shortened(text, baton_types::text::MODEL_TEXT_SHOWN)
}
