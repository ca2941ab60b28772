//! Walks a timeline and states what it breaks.
//!
//! The books of the [`Ledger`] come first: they share no code with the machine. As long as they find nothing, the
//! timeline is also folded and every request rendered again, by the machine itself, and compared with what the entries
//! and the books say (`state_is_the_fold` and the rules of requests). A timeline that the books refuse is not folded: the machine may rely on what its
//! own timelines hold.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use baton_core::Run;
use baton_core::config::Configs;
use baton_core::entry::{Entry, Recorded};
use baton_core::id::ContentHash;
use baton_core::machine::TaskState;

use crate::counters::miscounted;
use crate::finding::{Finding, Invariant};
use crate::ledger::Ledger;
use crate::requests::Requests;

/// Counting again looks at every task. In a run of more tasks than this it is done only after so many batches that each
/// batch stands for [`TASKS_PER_BATCH`] of them, and at the end: a walk over a timeline costs what the timeline is long.
const FEW_TASKS: usize = 64;
const TASKS_PER_BATCH: usize = 4;

/// A timeline being checked.
pub struct Checker {
    ledger: Ledger,
    folded: Folded,
    /// Whether the machine can go on folding: nothing was found yet.
    folds: bool,
    /// The batches since the counts of the state were last compared with the books.
    uncompared: usize,
    /// The tasks that were looked at to compare them.
    compared: usize,
}

/// What the machine makes of the timeline.
struct Folded {
    run: Run,
    requests: Requests,
}

/// What was found in a whole timeline.
pub struct Report {
    /// What it breaks, in order; empty if it holds.
    pub findings: Vec<Finding>,
    /// How many entries were read.
    pub entries: u64,
    /// Every request, rendered again; as far as the timeline holds.
    pub requests: Requests,
    /// How many answers were compared with the request that they name.
    pub answers: usize,
    /// How many tasks were looked at to count again what the state counts, each as often as that was done.
    pub compared: usize,
    /// The books: tasks, calls, documents as the entries tell of them.
    pub ledger: Ledger,
    /// The state that the timeline folds to; `None` if it holds what no fold takes.
    pub run: Option<Run>,
}

impl Checker {
    /// Nothing entered yet, of a run that is pinned to `configs`.
    pub fn new(configs: &Arc<Configs>) -> Self {
        let folded = Folded { run: Run::new(Arc::clone(configs)), requests: Requests::new(Arc::clone(configs)) };
        Self { ledger: Ledger::new(Arc::clone(configs)), folded, folds: true, uncompared: 0, compared: 0 }
    }

    /// Says which configs an entry adopts that names `hash`: those of a fork, or of a migration.
    pub fn know_configs(&mut self, hash: ContentHash, configs: &Arc<Configs>) {
        self.folded.run.know_configs(hash, Arc::clone(configs));
        self.ledger.known_configs.push((hash, Arc::clone(configs)));
    }

    /// Enters one batch: entries that became durable together.
    pub fn enter(&mut self, batch: &[Recorded]) {
        for recorded in batch {
            self.ledger.entry(recorded);
            self.fold(recorded);
        }
        self.ledger.end_batch();
        self.uncompared += 1;
        let tasks = self.ledger.tasks.len();
        if tasks <= FEW_TASKS || self.uncompared * TASKS_PER_BATCH >= tasks {
            self.compare();
        }
    }

    /// Compares what the state counts with the books.
    fn compare(&mut self) {
        if self.folds && self.ledger.findings().is_empty() {
            self.ledger.compare(&self.folded.run);
            self.compared += self.ledger.tasks.len();
        }
        self.uncompared = 0;
    }

    /// Enters a whole timeline as a store gives it back.
    ///
    /// A store does not keep where batches end. The entries of one batch have one moment, so what must hold between batches
    /// is looked at where the moment changes.
    pub fn walk(&mut self, entries: &[Recorded]) {
        for batch in entries.chunk_by(|one, next| one.at == next.at) {
            self.enter(batch);
        }
    }

    /// What was found so far, in the order of the entries.
    pub fn findings(&self) -> &[Finding] {
        self.ledger.findings()
    }

    /// The books.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The fold of the timeline, as far as it holds.
    pub fn run(&self) -> &Run {
        &self.folded.run
    }

    /// The requests, as far as the timeline holds.
    pub fn requests(&self) -> &Requests {
        &self.folded.requests
    }

    /// What was found, and what the timeline says.
    pub fn report(mut self) -> Report {
        if self.uncompared > 0 {
            self.compare();
        }
        let Folded { run, requests } = self.folded;
        let run = self.folds.then_some(run);
        let (findings, answers, compared) = (self.ledger.findings().to_vec(), self.ledger.answers, self.compared);
        Report { findings, entries: self.ledger.last_seq(), requests, answers, compared, ledger: self.ledger, run }
    }

    fn fold(&mut self, recorded: &Recorded) {
        self.folds &= self.ledger.findings().is_empty();
        if !self.folds {
            return;
        }
        let Folded { run, requests } = &mut self.folded;
        let ledger = &mut self.ledger;
        // The machine takes its own timelines and may stop at others; a checker goes on.
        let folded = catch_unwind(AssertUnwindSafe(|| {
            run.apply(recorded);
            requests.apply(recorded, run, ledger);
            if let Entry::ModelRequested(_) | Entry::FellBack(_) = &recorded.entry
                && let Some(task) = recorded.entry.task()
            {
                requests.request(task, ledger);
            }
        }));
        if folded.is_err() {
            self.folds = false;
            self.ledger.broken(Invariant::StateIsTheFold, format!("the machine cannot apply {}", recorded.entry.name()));
        }
    }
}

/// Checks a whole timeline of a run that is pinned to `configs`; see [`Checker::walk`].
pub fn verify(configs: &Arc<Configs>, entries: &[Recorded]) -> Report {
    let mut checker = Checker::new(configs);
    checker.walk(entries);
    checker.report()
}

/// The amount as far as the run's own books can hold it.
fn bounded(picos: u128) -> u64 {
    u64::try_from(picos).unwrap_or(u64::MAX)
}

impl Ledger {
    /// `state_is_the_fold` and `books_balance`: what the run counts is what its entries add up to.
    pub(crate) fn compare(&mut self, run: &Run) {
        let totals = run.totals();
        let open = || self.live_tasks().filter_map(|(_, book)| book.request.as_ref());
        let (asked, asked_cost) = self.asked();
        let reserved = asked + open().map(|request| request.reserved).sum::<u64>();
        let reserved_cost = asked_cost + open().map(|request| request.cost).sum::<u128>();
        let pairs = [
            ("live tasks", u64::from(totals.live_tasks), self.live_count() as u64),
            ("calls that run", u64::from(totals.running_functions), self.running_calls() as u64),
            ("turns", u64::from(totals.turns), u64::from(self.turns)),
            ("reserved tokens", totals.reserved_tokens, reserved),
            ("reserved picodollars", totals.reserved_cost.picos(), bounded(reserved_cost)),
            ("picodollars spent", totals.cost.known.picos(), bounded(self.settled_cost)),
            ("requests without a price", totals.cost.unpriced, self.unpriced),
            ("calls made", u64::from(totals.calls), u64::from(self.calls_made)),
            ("documents", totals.documents.len() as u64, self.heads.len() as u64),
            ("questions", totals.questions.len() as u64, self.questions.len() as u64),
            ("pauses", u64::from(totals.paused), u64::from(self.paused)),
            ("ends", u64::from(totals.ended.is_some()), u64::from(self.run_ended)),
        ];
        for (what, state, books) in pairs {
            self.rule(state == books, Invariant::StateIsTheFold, || {
                format!("the state counts {state} {what}, the entries {books}")
            });
        }
        for what in miscounted(run) {
            self.rule(false, Invariant::StateIsTheFold, || what.clone());
        }
        let same = totals.usage == self.settled;
        self.rule(same, Invariant::BooksBalance, || "what the state counts as used is not what was settled".to_owned());
        let unlike: Vec<_> = self
            .live_tasks()
            .filter_map(|(id, _)| run.task(id))
            .filter(|task| task.agent().is_some())
            .filter(|task| {
                let waits = matches!(task.state, TaskState::Blocked);
                waits != (self.can_only_wait(&task.id) || task.escalated.is_some())
            })
            .map(|task| task.id.clone())
            .collect();
        self.rule(unlike.is_empty(), Invariant::BlockedTaskCanWake, || {
            format!("{unlike:?} are blocked without waiting, or wait without being so")
        });
    }
}
