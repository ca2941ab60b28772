//! Compares the machine's counters with those of the books: of the run, and of the calls of each task.

use std::collections::BTreeSet;

use baton_machine::{OpenCalls, Phase, Run};
use baton_types::id::TaskId;

use crate::counters::Counters;
use crate::finding::Invariant;
use crate::ledger::Ledger;
use crate::ledger::counts::Counts;

/// Returns the amount as far as the run's own books can hold it.
fn bounded(picos: u128) -> u64 {
    u64::try_from(picos).unwrap_or(u64::MAX)
}

/// Returns the machine's and the books' counts of a turn's calls.
fn counted(calls: &OpenCalls, books: Counts) -> [(&'static str, u32, u32); 8] {
    let counts = calls.counts();
    [
        ("without a result", counts.unfinished, books.unfinished),
        ("of functions that have not begun", counts.waiting_functions, books.unstarted),
        ("of functions that run", counts.running_functions, books.running),
        ("whose code waits for calls", counts.calling, books.calling),
        ("that others work on", counts.awaited, books.awaited),
        ("that wait for an approval", counts.approvals, books.asking),
        ("in doubt", counts.doubtful, books.doubtful),
        ("that are suspended", counts.suspended, books.suspended),
    ]
}

impl Ledger {
    /// `state_is_the_fold` and `books_balance`: everything that the run counts is what its entries add up to.
    pub(crate) fn compare(&mut self, run: &Run) {
        let live: BTreeSet<TaskId> = self.live_tasks().map(|(id, _)| id.clone()).collect();
        let miscounted = Counters::look_at_all(run);
        self.compare_after(run, &live, miscounted);
    }

    /// As [`Ledger::compare`], of the run itself and of `tasks`; `miscounted` is what the run counts wrongly of its tasks.
    pub(crate) fn compare_after(&mut self, run: &Run, tasks: &BTreeSet<TaskId>, miscounted: Vec<String>) {
        self.compare_totals(run);
        for what in miscounted {
            self.broken(Invariant::StateIsTheFold, what);
        }
        for id in tasks {
            let Some(task) = run.task(id).filter(|task| task.is_live()) else { continue };
            let (caller, created_by) =
                (run.graph().caller(id).map(|caller| caller.id.clone()), self.tasks[id].created.caller.clone());
            self.rule(caller == created_by, Invariant::TasksFormATree, || {
                format!("{id} is called by {caller:?}, not {created_by:?}")
            });
            let counts = self.counts(id);
            let unlike = task
                .phase
                .calls()
                .into_iter()
                .flat_map(|calls| counted(calls, counts))
                .filter(|(_, state, books)| state != books);
            for (what, state, books) in unlike {
                self.broken(Invariant::StateIsTheFold, format!("{id} counts {state} calls {what}, the entries {books}"));
            }
            let waits = matches!(task.phase, Phase::Waiting(_));
            let should = self.can_only_wait(id) || task.phase.escalated().is_some();
            self.rule(task.agent().is_none() || waits == should, Invariant::BlockedTaskCanWake, || {
                format!("{id} is blocked without waiting, or waits without being so")
            });
        }
    }

    /// Compares the counters of the whole run.
    fn compare_totals(&mut self, run: &Run) {
        let totals = run.totals();
        let (reserved, reserved_cost) = self.reserved;
        let pairs = [
            ("live tasks", u64::from(totals.live_tasks), self.live_count() as u64),
            ("calls that run", u64::from(totals.running_functions), self.running_calls() as u64),
            ("turns", u64::from(totals.turns), u64::from(self.turns)),
            ("reserved tokens", totals.reserved.tokens, reserved),
            ("reserved picodollars", totals.reserved.cost.picos(), bounded(reserved_cost)),
            ("picodollars spent", totals.cost.known.picos(), bounded(self.settled_cost)),
            ("requests without a price", totals.cost.unpriced, self.unpriced),
            ("calls made", u64::from(totals.calls), u64::from(self.calls_made)),
            ("documents", totals.documents.len() as u64, self.heads.len() as u64),
            ("questions", totals.questions.len() as u64, self.questions.len() as u64),
            ("pauses", u64::from(totals.paused), u64::from(self.paused)),
            ("deaths of owners", u64::from(totals.deaths), u64::from(self.deaths)),
            ("ends", u64::from(totals.ended.is_some()), u64::from(self.run_ended)),
        ];
        for (what, state, books) in pairs {
            self.rule(state == books, Invariant::StateIsTheFold, || {
                format!("the state counts {state} {what}, the entries {books}")
            });
        }
        let same = totals.usage == self.settled;
        self.rule(same, Invariant::BooksBalance, || "what the state counts as used is not what was settled".to_owned());
    }
}
