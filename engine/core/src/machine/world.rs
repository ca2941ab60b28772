//! Where `apply` writes: the state itself, or a look ahead.
//!
//! `decide` must know what its own first entries lead to (a result that completes a turn that ends a task that wakes
//! its caller) without changing the state. So `apply` is written once, against [`World`], and runs on the [`Run`] when
//! entries are durable and on a [`LookAhead`] while they are decided. A look ahead copies only the tasks it touches.

use std::sync::Arc;

use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync, VectorSync};
use rustc_hash::FxHashMap;

use super::Run;
use super::graph::TaskGraph;
use super::task::Task;
use crate::config::Configs;
use crate::document::Documents;
use crate::entry::{RunEnded, RunStarted};
use crate::id::{CallId, ContentHash, TaskId};
use crate::model::Usage;
use crate::money::{Cost, Money};
use crate::time::Timestamp;

/// What a run knows beside its tasks. Cheap to copy: everything that grows is a persistent collection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shared {
    /// The last entry's number.
    pub seq: u64,
    /// When the last entry was decided.
    pub latest: Timestamp,
    /// The first entry.
    pub started: Option<Arc<RunStarted>>,
    /// When the first entry was decided.
    pub started_at: Timestamp,
    /// The last entry.
    pub ended: Option<RunEnded>,
    /// The workspace.
    pub documents: Documents,
    /// Whether a person paused the run.
    pub paused: bool,
    /// Turns asked for in the whole run.
    pub turns: u32,
    /// Tasks that have not ended and that an agent holds; each has its last turn set aside.
    pub live_agent_tasks: u32,
    /// Tasks that have not ended.
    pub live_tasks: u32,
    /// Tasks that have not ended and that a person holds: questions that wait for an answer.
    pub open_questions: u32,
    /// Tasks that are ready or running.
    pub active_tasks: u32,
    /// Time in which some task was active, up to [`Shared::active_since`].
    pub worked: std::time::Duration,
    /// Since when some task is active.
    pub active_since: Option<Timestamp>,
    /// Function calls that run.
    pub running_functions: u32,
    /// What all requests used.
    pub usage: Usage,
    /// What all requests cost.
    pub cost: Cost,
    /// Tokens reserved by open requests.
    pub reserved_tokens: u64,
    /// Money reserved by open requests.
    pub reserved_cost: Money,
    /// Calls of the whole run, counted as [`Task::calls`] are.
    pub calls: u32,
    /// Tasks that are ready, by when they became so.
    pub ready: RedBlackTreeMapSync<u64, TaskId>,
    /// Tasks with function calls that have not begun, by when the turn was answered.
    pub waiting_for_calls: RedBlackTreeMapSync<u64, TaskId>,
    /// When tasks time out.
    pub deadlines: RedBlackTreeSetSync<(Timestamp, TaskId)>,
    /// When failed delegations are tried again.
    pub retries: RedBlackTreeSetSync<(Timestamp, CallId)>,
    /// The questions, in the order of their numbers.
    pub questions: VectorSync<TaskId>,
    /// Whether some task or the run has a limit of tokens or money, so that reservations above a task must be kept.
    pub has_budgets: bool,
}

/// A state that entries can be applied to.
pub(super) trait World {
    /// The configs that the run is pinned to.
    fn configs(&self) -> &Arc<Configs>;
    /// What the run knows beside its tasks.
    fn shared(&self) -> &Shared;
    /// The same, to be changed.
    fn shared_mut(&mut self) -> &mut Shared;
    /// A task.
    fn task(&self, id: &TaskId) -> Option<&Task>;
    /// A task, to be changed.
    fn task_mut(&mut self, id: &TaskId) -> Option<&mut Task>;
    /// From here on the run is pinned to the configs that were brought along under `hash`.
    fn adopt(&mut self, hash: ContentHash);
    /// All tasks, in the order of their creation, those excepted that the decision of now created.
    fn tasks(&self) -> Vec<TaskId>;
    /// Adds a task below its caller.
    fn insert(&mut self, caller: Option<&TaskId>, task: Task);
    /// The task that waits for `id`.
    fn caller(&self, id: &TaskId) -> Option<TaskId>;
}

/// A state as it would be: the tasks touched so far lie over those of the real one.
pub(super) struct LookAhead<'run> {
    configs: &'run Arc<Configs>,
    known_configs: &'run [(ContentHash, Arc<Configs>)],
    graph: &'run TaskGraph,
    shared: Shared,
    touched: FxHashMap<TaskId, Task>,
    created: FxHashMap<TaskId, TaskId>,
}

impl<'run> LookAhead<'run> {
    /// A look ahead from the real state.
    pub(super) fn new(run: &'run Run) -> Self {
        Self {
            configs: &run.configs,
            known_configs: &run.known_configs,
            graph: &run.graph,
            shared: run.shared.clone(),
            touched: FxHashMap::default(),
            created: FxHashMap::default(),
        }
    }

    /// The configs that were brought along under `hash`.
    pub(super) fn known(&self, hash: ContentHash) -> &'run Arc<Configs> {
        super::known(self.known_configs, self.configs, &self.shared, hash)
    }

    /// The unfinished tasks below `id`, callers before callees.
    pub(super) fn live_descendants(&self, id: &TaskId) -> Vec<TaskId> {
        let mut live: Vec<TaskId> = self
            .graph
            .live_descendants(id, |task| self.task(&task.id).is_some_and(Task::is_live))
            .into_iter()
            .map(|task| task.id.clone())
            .collect();
        // Tasks that this very decision created are few; a chain of them ends at a task of the graph or at `id`.
        for created in self.created.keys() {
            let below = std::iter::successors(self.caller(created), |above| self.caller(above)).any(|above| above == *id);
            if below && self.task(created).is_some_and(Task::is_live) {
                live.push(created.clone());
            }
        }
        live
    }

    /// The real graph, for walks over tasks that no decision of now has created.
    pub(super) fn graph(&self) -> &'run TaskGraph {
        self.graph
    }
}

impl World for LookAhead<'_> {
    fn configs(&self) -> &Arc<Configs> {
        self.configs
    }

    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn shared_mut(&mut self) -> &mut Shared {
        &mut self.shared
    }

    fn task(&self, id: &TaskId) -> Option<&Task> {
        self.touched.get(id).or_else(|| self.graph.get(id))
    }

    fn task_mut(&mut self, id: &TaskId) -> Option<&mut Task> {
        if !self.touched.contains_key(id) {
            let copy = self.graph.get(id)?.clone();
            self.touched.insert(id.clone(), copy);
        }
        self.touched.get_mut(id)
    }

    fn adopt(&mut self, hash: ContentHash) {
        self.configs = self.known(hash);
    }

    fn tasks(&self) -> Vec<TaskId> {
        self.graph.iter().map(|task| task.id.clone()).collect()
    }

    fn insert(&mut self, caller: Option<&TaskId>, task: Task) {
        if let Some(caller) = caller {
            self.created.insert(task.id.clone(), caller.clone());
        }
        self.touched.insert(task.id.clone(), task);
    }

    fn caller(&self, id: &TaskId) -> Option<TaskId> {
        self.created.get(id).cloned().or_else(|| self.graph.caller(id).map(|task| task.id.clone()))
    }
}
