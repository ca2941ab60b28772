//! One of two runs that are compared: its timeline by task, with what came of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_machine::Spent;
use baton_types::call::CallResult;
use baton_types::document::{DocumentRef, DocumentVersion};
use baton_types::entry::{ControlAction, Entry, FinalState, Holder, Recorded};
use baton_types::id::{ContentHash, RunId, TaskId};

use crate::engine::Engine;
use crate::error::RunError;
use crate::reading::PAGE;

/// A timeline, by task.
pub(super) struct Side {
    /// The configs of the run, each with the entry from which they are in force. The first have entry 0.
    pub(super) configs: Vec<(u64, ContentHash)>,
    pub(super) ended: bool,
    pub(super) entries: Vec<Arc<Recorded>>,
    /// Entries of each task, in order. Entries without a task are under `None`.
    tasks: BTreeMap<Option<TaskId>, Vec<usize>>,
    pub(super) order: Vec<TaskId>,
    pub(super) holders: BTreeMap<TaskId, Holder>,
    pub(super) documents: BTreeMap<String, Vec<Arc<DocumentVersion>>>,
    versions: BTreeMap<DocumentRef, ContentHash>,
    pub(super) states: BTreeMap<TaskId, FinalState>,
    spent: BTreeMap<TaskId, Spent>,
    pub(super) whole: Spent,
}

impl Side {
    pub(super) async fn read(engine: &Engine, id: &RunId) -> Result<Self, RunError> {
        let mut side = Self {
            configs: vec![(0, engine.started(id).await?.configs)],
            ended: false,
            entries: Vec::new(),
            tasks: BTreeMap::new(),
            order: Vec::new(),
            holders: BTreeMap::new(),
            documents: BTreeMap::new(),
            versions: BTreeMap::new(),
            states: BTreeMap::new(),
            spent: BTreeMap::new(),
            whole: Spent::default(),
        };
        loop {
            let after = side.entries.last().map_or(0, |last| last.seq);
            let page = engine.store().entries(id, after, PAGE).await?;
            if page.is_empty() {
                side.put_in_order();
                return Ok(side);
            }
            for recorded in page {
                side.take(recorded);
            }
        }
    }

    fn take(&mut self, recorded: Arc<Recorded>) {
        match &recorded.entry {
            Entry::TaskCreated(created) => {
                self.order.push(created.task.clone());
                self.holders.insert(created.task.clone(), created.holder.clone());
            }
            Entry::DocumentWritten(version) => {
                self.versions.insert(version.reference(), version.content.hash);
                self.documents.entry(version.path.to_string()).or_default().push(Arc::clone(version));
            }
            // Unknown usage is not compared.
            Entry::BudgetSettled(settled) if settled.unknown => {}
            Entry::BudgetSettled(settled) => {
                for spent in [self.spent.entry(settled.task.clone()).or_default(), &mut self.whole] {
                    spent.usage.add(&settled.usage);
                    spent.cost.settle(settled.cost);
                }
            }
            Entry::TaskEnded(ended) => {
                self.states.insert(ended.task.clone(), ended.state);
            }
            Entry::SubtreeClosed(closed) => {
                self.states.extend(closed.tasks.iter().map(|task| (task.clone(), FinalState::Cancelled)));
            }
            Entry::RunEnded(_) => self.ended = true,
            entry => {
                if let Some(adoption) = entry.adopts() {
                    self.configs.push((recorded.seq, adoption.configs));
                }
            }
        }
        if is_compared(&recorded.entry) {
            let task = recorded.entry.task().cloned();
            self.tasks.entry(task).or_default().push(self.entries.len());
        }
        self.entries.push(recorded);
    }

    /// Returns the configs in force at entry `seq`.
    pub(super) fn configs_at(&self, seq: u64) -> ContentHash {
        let adopted = self.configs.partition_point(|(from, _)| *from <= seq);
        self.configs[adopted - 1].1
    }

    /// Puts what came of a turn's calls into the order of the calls: when each came is chance.
    fn put_in_order(&mut self) {
        for indices in self.tasks.values_mut() {
            let mut latest = 0;
            indices.sort_by_cached_key(|index| place(&self.entries[*index].entry, &mut latest));
        }
    }

    /// Returns the last entry of the decision before that of `recorded`.
    pub(super) fn fork_place_before(&self, recorded: &Recorded) -> Option<u64> {
        let earlier = &self.entries[..self.entries.partition_point(|entry| entry.seq < recorded.seq)];
        let before = earlier.iter().rev().find(|entry| entry.decision != recorded.decision)?;
        // No fork begins where a run has ended.
        (!matches!(before.entry, Entry::RunEnded(_))).then_some(before.seq)
    }

    /// Returns the own usage of `task`.
    pub(super) fn of_task(&self, task: &TaskId) -> Spent {
        self.spent.get(task).copied().unwrap_or_default()
    }

    pub(super) fn of<'a>(&'a self, task: Option<&TaskId>) -> impl Iterator<Item = &'a Recorded> + use<'a> {
        let indices = self.tasks.get(&task.cloned()).map(Vec::as_slice).unwrap_or_default();
        indices.iter().map(|index| &*self.entries[*index])
    }

    pub(super) fn holder(&self, task: &TaskId) -> Option<Holder> {
        self.holders.get(task).cloned()
    }

    pub(super) fn state(&self, task: &TaskId) -> Option<&'static str> {
        self.holders.get(task).map(|_| self.states.get(task).map_or("unfinished", |state| state.as_str()))
    }

    pub(super) fn contents<'a>(
        &'a self,
        documents: &'a [DocumentRef],
    ) -> impl Iterator<Item = (&'a DocumentRef, Option<&'a ContentHash>)> {
        documents.iter().map(|document| (document, self.versions.get(document)))
    }

    pub(super) fn is_result_same(&self, own: &CallResult, other: &Self, others: &CallResult) -> bool {
        own.status == others.status
            && own.output == others.output
            && own.error.as_ref().map(|error| (error.code, &error.message))
                == others.error.as_ref().map(|error| (error.code, &error.message))
            && self.contents(&own.documents).eq(other.contents(&others.documents))
    }
}

/// Returns the place of an entry within its task: turn, part of the turn, call. `latest` is the turn of the entries
/// before.
fn place(entry: &Entry, latest: &mut u32) -> (u32, u8, u32) {
    let call = match entry {
        Entry::ModelRequested(requested) => {
            *latest = requested.turn;
            return (requested.turn, 0, 0);
        }
        Entry::ModelAnswered(answered) => {
            *latest = answered.turn;
            return (answered.turn, 1, 0);
        }
        Entry::CallRefused(refused) => Some(&refused.call),
        Entry::CallFinished(finished) => Some(&finished.call),
        Entry::DocumentWritten(version) => version.call.as_ref(),
        Entry::Output(output) => Some(&output.call),
        _ => None,
    };
    match call.and_then(baton_types::id::CallId::position) {
        Some((turn, position)) => (turn, 2, position),
        None => (*latest, 3, 0),
    }
}

/// Whether an entry is compared: accounts, crashes and what came late say nothing of what a run did.
fn is_compared(entry: &Entry) -> bool {
    match entry {
        Entry::BudgetSettled(_)
        | Entry::FellBack(_)
        | Entry::RunEnded(_)
        | Entry::SubtreeClosed(_)
        | Entry::CallMade(_)
        | Entry::CallStarted(_)
        | Entry::CallSuspended(_)
        | Entry::CallAskedModel(_)
        // It repeats the end of the background task.
        | Entry::TaskReported(_) => false,
        // A request is compared by its answer, whichever model gave it; the engine's notice at its head is compared
        // here.
        Entry::ModelRequested(requested) => requested.notice.is_some(),
        Entry::Control(control) => matches!(control.action, ControlAction::Cancelled { .. } | ControlAction::Steered { .. }),
        _ => true,
    }
}
