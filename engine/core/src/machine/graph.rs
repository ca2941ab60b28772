//! The task graph: tasks, and one kind of edge, caller → callee. Nothing is ever removed.
//!
//! petgraph's indices never leave this file.

use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{Dfs, NodeFiltered, Walker};
use rustc_hash::FxHashMap;

use super::task::Task;
use crate::id::TaskId;

/// All tasks of a run, by id and by who called whom.
#[derive(Clone, Debug, Default)]
pub struct TaskGraph {
    graph: DiGraph<Box<Task>, ()>,
    index: FxHashMap<TaskId, NodeIndex>,
}

impl TaskGraph {
    /// The task named `id`.
    pub fn get(&self, id: &TaskId) -> Option<&Task> {
        Some(&self.graph[*self.index.get(id)?])
    }

    /// The task named `id`, to be changed by `apply`.
    pub(super) fn get_mut(&mut self, id: &TaskId) -> Option<&mut Task> {
        Some(&mut self.graph[*self.index.get(id)?])
    }

    /// Adds `task` below `caller`.
    pub(super) fn insert(&mut self, caller: Option<&TaskId>, task: Task) {
        let id = task.id.clone();
        let callee = self.graph.add_node(Box::new(task));
        assert!(self.index.insert(id.clone(), callee).is_none(), "task {id} was created twice");
        if let Some(caller) = caller.and_then(|caller| self.index.get(caller)) {
            self.graph.add_edge(*caller, callee, ());
        }
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
        let index = *self.index.get(id)?;
        let caller = self.graph.neighbors_directed(index, Direction::Incoming).next()?;
        Some(&self.graph[caller])
    }

    /// The tasks that `id` called, in the order of their creation.
    pub fn callees(&self, id: &TaskId) -> Vec<&Task> {
        let Some(index) = self.index.get(id) else { return Vec::new() };
        let mut callees: Vec<NodeIndex> = self.graph.neighbors_directed(*index, Direction::Outgoing).collect();
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
        Dfs::new(&self.graph, *start).iter(&self.graph).skip(1).map(|index| self.graph[index].as_ref()).collect()
    }

    /// The tasks below `id` that have not ended, without it, callers before callees. Nothing below an ended task is live, so
    /// what ended is not walked through again.
    pub(super) fn live_descendants(&self, id: &TaskId) -> Vec<TaskId> {
        let Some(start) = self.index.get(id) else { return Vec::new() };
        let live = NodeFiltered::from_fn(&self.graph, |index| index == *start || self.graph[index].is_live());
        Dfs::new(&live, *start).iter(&live).skip(1).map(|index| self.graph[index].id.clone()).collect()
    }

    /// Whether following "waits for" from any task ever comes back to it. Callees are always new tasks, so it cannot;
    /// tests ask after every commit (`tasks_form_a_tree`).
    pub fn waits_in_a_circle(&self) -> bool {
        petgraph::algo::is_cyclic_directed(&self.graph)
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
