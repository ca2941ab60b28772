//! The task graph: tasks, and one kind of edge, caller → callee. Nothing is ever removed.
//!
//! petgraph's indices leave this file only as [`TaskIndex`].

use baton_types::id::TaskId;
use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{Dfs, NodeFiltered, Walker};
use rustc_hash::FxHashMap;

use super::task::Task;

/// All tasks of a run, by id and by who called whom.
#[derive(Clone, Debug, Default)]
pub struct TaskGraph {
    graph: DiGraph<Box<Task>, ()>,
    index: FxHashMap<TaskId, TaskIndex>,
}

/// The place of a task in the graph: its name inside the machine. Events, entries and effects name tasks by their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskIndex(NodeIndex);

impl TaskGraph {
    /// The task named `id`.
    pub fn get(&self, id: &TaskId) -> Option<&Task> {
        Some(&self[self.find(id.as_str())?])
    }

    /// The place of the task whose id reads `id`.
    pub(super) fn find(&self, id: &str) -> Option<TaskIndex> {
        self.index.get(id).copied()
    }

    /// Adds `task` below `caller`.
    pub(super) fn insert(&mut self, caller: Option<TaskIndex>, task: Task) -> TaskIndex {
        let id = task.id.clone();
        let callee = TaskIndex(self.graph.add_node(Box::new(task)));
        assert!(self.index.insert(id.clone(), callee).is_none(), "task {id} was created twice");
        if let Some(caller) = caller {
            self.graph.add_edge(caller.0, callee.0, ());
        }
        callee
    }

    /// The places of all tasks, in the order of their creation.
    pub(super) fn indices(&self) -> impl Iterator<Item = TaskIndex> + use<> {
        self.graph.node_indices().map(TaskIndex)
    }

    /// The places of the tasks that have not ended, in the order of their creation.
    pub(super) fn live(&self) -> impl Iterator<Item = TaskIndex> {
        self.indices().filter(|task| self[*task].is_live())
    }

    /// All tasks, in the order of their creation.
    pub fn iter(&self) -> impl Iterator<Item = &Task> {
        self.graph.node_weights().map(Box::as_ref)
    }

    /// How many tasks there are.
    pub fn len(&self) -> usize {
        self.graph.node_count()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.graph.node_count() == 0
    }

    /// The task that waits for `id`; `None` for the root.
    pub fn caller(&self, id: &TaskId) -> Option<&Task> {
        Some(&self[self.caller_of(self.find(id.as_str())?)?])
    }

    /// The place of the task that waits for `task`; `None` for the root.
    pub(super) fn caller_of(&self, task: TaskIndex) -> Option<TaskIndex> {
        self.graph.neighbors_directed(task.0, Direction::Incoming).next().map(TaskIndex)
    }

    /// `task` and the tasks above it, nearest first.
    pub(super) fn upwards(&self, task: TaskIndex) -> impl Iterator<Item = TaskIndex> {
        std::iter::successors(Some(task), |task| self.caller_of(*task))
    }

    /// The tasks that `id` called, in the order of their creation.
    pub fn callees(&self, id: &TaskId) -> Vec<&Task> {
        let Some(index) = self.index.get(id) else { return Vec::new() };
        let mut callees: Vec<NodeIndex> = self.graph.neighbors_directed(index.0, Direction::Outgoing).collect();
        callees.sort_unstable();
        callees.into_iter().map(|callee| self.graph[callee].as_ref()).collect()
    }

    /// The tasks above `id`, nearest first.
    pub fn ancestors<'a>(&'a self, id: &TaskId) -> impl Iterator<Item = &'a Task> {
        std::iter::successors(self.caller(id), |task| self.caller(&task.id))
    }

    /// The tasks below `id`, without it, callers before callees.
    pub fn descendants(&self, id: &TaskId) -> Vec<&Task> {
        let Some(start) = self.index.get(id) else { return Vec::new() };
        Dfs::new(&self.graph, start.0).iter(&self.graph).skip(1).map(|index| self.graph[index].as_ref()).collect()
    }

    /// The places of the tasks below `task` that have not ended, callers before callees. Nothing below an ended task is live,
    /// so what ended is not walked through again.
    pub(super) fn live_below(&self, task: TaskIndex) -> Vec<TaskIndex> {
        let live = NodeFiltered::from_fn(&self.graph, |index| index == task.0 || self.graph[index].is_live());
        Dfs::new(&live, task.0).iter(&live).skip(1).map(TaskIndex).collect()
    }

    /// Whether following "waits for" from any task ever comes back to it. Callees are always new tasks, so it cannot;
    /// tests ask after every commit (`tasks_form_a_tree`).
    pub fn waits_in_a_circle(&self) -> bool {
        petgraph::algo::is_cyclic_directed(&self.graph)
    }
}

impl std::ops::Index<TaskIndex> for TaskGraph {
    type Output = Task;

    fn index(&self, task: TaskIndex) -> &Task {
        &self.graph[task.0]
    }
}

/// Used by `apply` only.
impl std::ops::IndexMut<TaskIndex> for TaskGraph {
    fn index_mut(&mut self, task: TaskIndex) -> &mut Task {
        &mut self.graph[task.0]
    }
}

impl PartialEq for TaskGraph {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self.iter().all(|task| {
                other.get(&task.id) == Some(task)
                    && self.caller(&task.id).map(|caller| &caller.id) == other.caller(&task.id).map(|caller| &caller.id)
            })
    }
}
