//! Numbers kept of the calls of each task's newest turn, so that no check has to walk over them.
//!
//! An entry changes few calls. Those are classified again after the entry, and their former share in the numbers of
//! their task is subtracted. Every change of a call uses [`Ledger::call_mut`], which notes the call.

use std::collections::BTreeSet;

use baton_types::call::CallStatus;
use baton_types::config::Tool;
use baton_types::id::{CallId, TaskId};

use super::{CallBook, Ledger};

/// Numbers of calls in a task's newest turn, by kind; for one call, 0 or 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Without a result.
    pub(crate) unfinished: u32,
    /// Of these, those for which a task was created.
    pub(crate) awaited: u32,
    /// Of these, those that wait for an approval.
    pub(crate) asking: u32,
    /// Functions that run.
    pub(crate) running: u32,
    /// Functions whose code waits for calls that it made.
    pub(crate) calling: u32,
    /// Functions that code called and that may begin at any time.
    pub(crate) inner_unstarted: u32,
    /// Of the running functions, those that write documents.
    pub(crate) writing: u32,
    /// Calls whose outcome is the subject of a question.
    pub(crate) doubtful: u32,
    /// Calls whose code has ended, and whose result is still to come.
    pub(crate) suspended: u32,
    /// Functions that have not begun.
    pub(crate) unstarted: u32,
    /// Delegations that were not refused.
    pub(crate) delegations: u32,
    /// Of these, those without a result.
    pub(crate) open_delegations: u32,
    /// Of these, those that succeeded.
    pub(crate) succeeded: u32,
}

impl Counts {
    /// Returns the share of `call`. `tool` is its tool, and `delegates` is true if that tool delegates to an agent.
    fn of(call: &CallBook, tool: Option<&Tool>, delegates: bool) -> Self {
        let unfinished = !call.is_finished();
        let is_inner = call.outer.is_some();
        // Joins are of the model's own delegations.
        let is_background = tool.is_some_and(|tool| tool.is_background(&call.asked.input));
        let delegates = delegates && !call.refused && !is_inner && !is_background;
        let runs_code = tool.is_some_and(|tool| tool.tool_type.behavior().runs_code);
        Self {
            unfinished: u32::from(unfinished),
            awaited: u32::from((unfinished && call.created && !call.asks()) || call.waits_for_tasks()),
            asking: u32::from(call.asks()),
            running: u32::from(call.runs()),
            calling: u32::from(call.is_calling()),
            inner_unstarted: u32::from(unfinished && runs_code && is_inner && call.started.is_none() && !call.asks()),
            writing: u32::from(call.runs() && tool.is_some_and(|tool| tool.writes)),
            doubtful: u32::from(call.is_doubtful()),
            suspended: u32::from(call.is_suspended()),
            unstarted: u32::from(unfinished && runs_code && call.started.is_none()),
            delegations: u32::from(delegates),
            open_delegations: u32::from(delegates && call.status.is_none()),
            succeeded: u32::from(delegates && call.status == Some(CallStatus::Success)),
        }
    }

    fn numbers(&mut self) -> impl Iterator<Item = &mut u32> {
        let Self { unfinished, awaited, asking, running, writing, doubtful, suspended, unstarted, .. } = self;
        let Self { delegations, open_delegations, succeeded, calling, inner_unstarted, .. } = self;
        let of_calls = [unfinished, awaited, asking, running, writing, doubtful, suspended, unstarted];
        of_calls.into_iter().chain([delegations, open_delegations, succeeded, calling, inner_unstarted])
    }

    /// Whether somebody works on one of the calls, or is asked about one.
    pub(crate) fn are_held(self) -> bool {
        self.running > 0 || self.doubtful > 0 || self.others_work()
    }

    /// Whether a function waits, runs or has an unknown outcome.
    pub(crate) fn have_functions(self) -> bool {
        self.running + self.calling + self.unstarted + self.doubtful > 0
    }

    /// Whether a task works on one of the calls, or an approval or a delivery is waited for.
    pub(crate) fn others_work(self) -> bool {
        self.awaited > 0 || self.asking > 0 || self.suspended > 0
    }

    /// Counts `new` in place of `old`, which was counted before.
    fn replace(&mut self, mut old: Self, mut new: Self) {
        let pairs = old.numbers().zip(new.numbers());
        for (number, (old, new)) in self.numbers().zip(pairs) {
            *number = (*number + *new).saturating_sub(*old);
        }
    }
}

impl Ledger {
    /// Returns the books of a call, to be changed.
    pub(crate) fn call_mut(&mut self, id: &CallId) -> Option<&mut CallBook> {
        let call = self.calls.get_mut(id)?;
        self.changed.insert(id.clone());
        Some(call)
    }

    /// Counts again the calls that the last entry changed.
    pub(crate) fn count_changed(&mut self) {
        for id in std::mem::take(&mut self.changed) {
            self.count(&id);
            self.touched_calls.insert(id);
        }
    }

    /// Counts that `inner` has its result, or that it was made, for the call whose code made it.
    pub(crate) fn count_inner(&mut self, inner: &CallId, is_made: bool) {
        let outer = self.calls.get(inner).and_then(|call| call.outer.clone());
        let Some(outer) = outer.and_then(|outer| self.call_mut(&outer)) else { return };
        outer.open_inner = if is_made { outer.open_inner + 1 } else { outer.open_inner.saturating_sub(1) };
    }

    /// Sets the calls of the newest turn of `task`; those of the turn before count no more.
    pub(crate) fn open_calls(&mut self, task: &TaskId, calls: BTreeSet<CallId>) {
        let Some(book) = self.tasks.get_mut(task) else { return };
        self.changed.extend(calls.iter().cloned());
        let before = std::mem::replace(&mut book.open, calls);
        for call in &before {
            self.count(call);
        }
    }

    /// Notes the calls of all live tasks to be classified again: their tools may have changed.
    pub(crate) fn count_again(&mut self) {
        let live = self.live.iter().filter_map(|id| self.tasks.get(id));
        self.changed.extend(live.flat_map(|book| &book.open).cloned());
    }

    /// Puts what a call adds now in the place of what it added before.
    fn count(&mut self, id: &CallId) {
        self.visited += 1;
        let Some(call) = self.calls.get(id) else { return };
        let Some(task) = self.tasks.get(&call.task) else { return };
        let counts = if task.open.contains(id) {
            let tool = self.tool(&call.tool).map(AsRef::as_ref);
            let granted = self.agent_of(&call.task).and_then(|agent| agent.tools.get(call.tool.as_str()));
            Counts::of(call, tool, granted.is_some_and(|tool| tool.agent.is_some()))
        } else {
            Counts::default()
        };
        let Some(call) = self.calls.get_mut(id) else { return };
        let before = std::mem::replace(&mut call.counted, counts);
        let Some(task) = self.tasks.get_mut(&call.task) else { return };
        task.counts.replace(before, counts);
        self.running = (self.running + counts.running as usize).saturating_sub(before.running as usize);
        let Some(position) = id.position() else { return };
        if counts.unstarted > 0 {
            task.unstarted.insert(position, id.clone());
        } else if before.unstarted > 0 {
            task.unstarted.remove(&position);
        }
    }
}
