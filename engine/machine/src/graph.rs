//! The task graph: tasks, and one kind of edge, from caller to callee. Tasks are never removed.
//!
//! Outside this file petgraph's indices appear only as [`TaskIndex`].

use std::hash::BuildHasher as _;

use hashbrown::HashTable;
use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{Dfs, NodeFiltered, Walker};
use rustc_hash::FxBuildHasher;

use crate::prelude::*;

/// All tasks of a run, by id, with the edges from callers to callees.
#[derive(Clone, Debug, Default)]
pub struct TaskGraph {
    graph: DiGraph<Box<Task>, ()>,
    /// The index of each task, by the hash of its id. Only the task holds the id, since a run may have many tasks.
    index: HashTable<TaskIndex>,
    /// The newest root task.
    root: Option<TaskIndex>,
}

/// Index of a task in the graph, used only inside the machine. Events, entries and effects use the task's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskIndex(NodeIndex);

impl TaskGraph {
    /// Returns the task named `id`.
    pub fn get(&self, id: &TaskId) -> Option<&Task> {
        Some(&self[self.find(id.as_str())?])
    }

    /// Returns the index of the task whose id has the text `id`.
    pub(super) fn find(&self, id: &str) -> Option<TaskIndex> {
        self.index.find(hash(id), |task| self[*task].id == *id).copied()
    }

    /// Adds `task` below `caller`.
    pub(super) fn insert(&mut self, caller: Option<TaskIndex>, task: Task) -> TaskIndex {
        assert!(self.find(task.id.as_str()).is_none(), "task {} was created twice", task.id);
        let (hashed, is_root) = (hash(task.id.as_str()), task.kind == TaskKind::Root);
        let callee = TaskIndex(self.graph.add_node(Box::new(task)));
        let graph = &self.graph;
        self.index.insert_unique(hashed, callee, |task| hash(graph[task.0].id.as_str()));
        if let Some(caller) = caller {
            self.graph.add_edge(caller.0, callee.0, ());
        }
        if is_root {
            self.root = Some(callee);
        }
        callee
    }

    /// Returns the newest root task; `None` before the first one.
    pub(super) fn root(&self) -> Option<TaskIndex> {
        self.root
    }

    /// Iterates over the indices of all tasks, in the order of their creation.
    pub(super) fn indices(&self) -> impl DoubleEndedIterator<Item = TaskIndex> + use<> {
        self.graph.node_indices().map(TaskIndex)
    }

    /// Iterates over the indices of the tasks that have not ended, in the order of their creation.
    pub(super) fn live(&self) -> impl Iterator<Item = TaskIndex> {
        self.indices().filter(|task| self[*task].is_live())
    }

    /// Returns the index of `id`, unless that task has ended or does not exist.
    pub(super) fn find_live(&self, id: &TaskId) -> Option<TaskIndex> {
        self.find(id.as_str()).filter(|task| self[*task].is_live())
    }

    /// Iterates over all tasks, in the order of their creation.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Task> {
        self.indices().map(|task| &self[task])
    }

    /// Returns the caller of `id`; `None` for the root.
    pub fn caller(&self, id: &TaskId) -> Option<&Task> {
        Some(&self[self.caller_of(self.find(id.as_str())?)?])
    }

    /// Returns the index of the caller of `task`; `None` for the root.
    pub(super) fn caller_of(&self, task: TaskIndex) -> Option<TaskIndex> {
        self.graph.neighbors_directed(task.0, Direction::Incoming).next().map(TaskIndex)
    }

    /// Iterates over `task` and the tasks above it, nearest first.
    pub(super) fn upwards(&self, task: TaskIndex) -> impl Iterator<Item = TaskIndex> {
        std::iter::successors(Some(task), |task| self.caller_of(*task))
    }

    /// Returns the indices of the background tasks that `task` began, in the order of their creation.
    pub(super) fn background_of(&self, task: TaskIndex) -> Vec<TaskIndex> {
        let callees = self.graph.neighbors_directed(task.0, Direction::Outgoing).map(TaskIndex);
        let mut tasks: Vec<TaskIndex> = callees.filter(|callee| self[*callee].background).collect();
        tasks.reverse();
        tasks
    }

    /// Whether a background task that `task` began has not ended.
    pub(super) fn has_open_background(&self, task: TaskIndex) -> bool {
        let mut callees = self.graph.neighbors_directed(task.0, Direction::Outgoing).map(TaskIndex);
        callees.any(|callee| self[callee].background && self[callee].is_live())
    }

    /// Returns the tasks that `id` called, in the order of their creation.
    pub fn callees(&self, id: &TaskId) -> Vec<&Task> {
        let Some(index) = self.find(id.as_str()) else { return Vec::new() };
        let mut callees: Vec<NodeIndex> = self.graph.neighbors_directed(index.0, Direction::Outgoing).collect();
        callees.sort_unstable();
        callees.into_iter().map(|callee| self.graph[callee].as_ref()).collect()
    }

    /// Returns all tasks below `id`, callers before callees.
    pub fn descendants(&self, id: &TaskId) -> Vec<&Task> {
        let Some(start) = self.find(id.as_str()) else { return Vec::new() };
        Dfs::new(&self.graph, start.0).iter(&self.graph).skip(1).map(|index| self.graph[index].as_ref()).collect()
    }

    /// Returns the indices of the tasks below `task` that have not ended, callers before callees. No task below an ended task
    /// is live, so the walk does not enter ended tasks.
    pub(super) fn live_below(&self, task: TaskIndex) -> Vec<TaskIndex> {
        let live = NodeFiltered::from_fn(&self.graph, |index| index == task.0 || self.graph[index].is_live());
        Dfs::new(&live, task.0).iter(&live).skip(1).map(TaskIndex).collect()
    }
}

fn hash(id: &str) -> u64 {
    FxBuildHasher.hash_one(id)
}

impl std::ops::Index<TaskIndex> for TaskGraph {
    type Output = Task;

    fn index(&self, task: TaskIndex) -> &Task {
        &self.graph[task.0]
    }
}

/// Only `apply` uses it.
impl std::ops::IndexMut<TaskIndex> for TaskGraph {
    fn index_mut(&mut self, task: TaskIndex) -> &mut Task {
        &mut self.graph[task.0]
    }
}

impl PartialEq for TaskGraph {
    fn eq(&self, other: &Self) -> bool {
        self.graph.node_count() == other.graph.node_count()
            && self.iter().all(|task| {
                other.get(&task.id) == Some(task)
                    && self.caller(&task.id).map(|caller| &caller.id) == other.caller(&task.id).map(|caller| &caller.id)
            })
    }
}
