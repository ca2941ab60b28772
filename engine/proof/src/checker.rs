//! Walks a timeline and reports the invariants that it breaks.
//!
//! The books of the [`Ledger`] come first: they share no code with the machine. As long as they find nothing, the
//! timeline is also folded and every request rendered again, by the machine itself, and compared with what the entries
//! and the books say (`state_is_the_fold` and the rules of requests). A timeline that the books refuse is not folded, because
//! the machine relies on properties that its own timelines have.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use baton_machine::Run;
use baton_types::config::Configs;
use baton_types::entry::{Entry, Recorded};
use baton_types::id::ContentHash;

use crate::counters::Counters;
use crate::finding::{Finding, Invariant};
use crate::ledger::Ledger;
use crate::requests::Requests;

/// Largest number of tasks that are all compared after every batch. A batch's own tasks are always compared.
///
/// In a larger run, all tasks are compared only after enough batches that each of them covers [`TASKS_PER_BATCH`] tasks,
/// and at the end. So the cost of checking is linear in the length of the timeline.
const FEW_TASKS: usize = 64;
const TASKS_PER_BATCH: usize = 4;

/// A timeline being checked.
pub struct Checker {
    ledger: Ledger,
    folded: Folded,
    /// Whether the machine can continue folding: nothing was found yet.
    folds: bool,
    /// The decision that is being read.
    began: Option<u64>,
    /// Shares of the tasks in the state's counters.
    counters: Counters,
    /// The batches since all tasks were looked at.
    uncompared: usize,
    /// The tasks that were looked at to compare what the state counts.
    compared: usize,
}

/// State of the machine after the timeline.
struct Folded {
    run: Run,
    requests: Requests,
}

/// Findings about a whole timeline.
pub struct Report {
    /// Broken invariants, in order; empty if all hold.
    pub findings: Vec<Finding>,
    /// Number of entries read.
    pub entries: u64,
    /// Every request, rendered again; as far as the timeline holds.
    pub requests: Requests,
    /// Number of answers compared with the request that they name.
    pub answers: usize,
    /// Number of visits to tasks when counters were compared.
    pub compared: usize,
    /// Number of visits to tasks and calls by the books.
    pub visited: usize,
    /// Number of visits to messages of requests.
    pub messages: usize,
    /// The books: tasks, calls, documents as the entries tell of them.
    pub ledger: Ledger,
    /// The state that the timeline folds to; `None` if it holds what no fold takes.
    pub run: Option<Run>,
}

impl Checker {
    /// Returns an empty checker for a run that is pinned to `configs`.
    pub fn new(configs: &Arc<Configs>) -> Self {
        let folded = Folded { run: Run::new(Arc::clone(configs)), requests: Requests::new(Arc::clone(configs)) };
        let (ledger, counters) = (Ledger::new(Arc::clone(configs)), Counters::default());
        Self { ledger, folded, folds: true, began: None, counters, uncompared: 0, compared: 0 }
    }

    /// Registers the configs for the `hash` that an entry may adopt: those of a fork, or of a migration.
    pub fn know_configs(&mut self, hash: ContentHash, configs: &Arc<Configs>) {
        self.folded.run.know_configs(hash, Arc::clone(configs));
        self.ledger.known_configs.push((hash, Arc::clone(configs)));
    }

    /// Enters one batch: entries that became durable together.
    pub fn enter(&mut self, batch: &[Recorded]) {
        for recorded in batch {
            self.entry(recorded);
        }
        self.end_batch();
    }

    fn entry(&mut self, recorded: &Recorded) {
        self.ledger.entry(recorded);
        self.fold(recorded);
    }

    /// Checks what must hold now that a batch is complete.
    fn end_batch(&mut self) {
        self.began = None;
        let touched = self.ledger.end_batch();
        self.uncompared += 1;
        let tasks = self.ledger.tasks.len();
        if self.folds && self.ledger.findings().is_empty() {
            let miscounted = self.counters.look_at(&self.folded.run, &touched);
            self.ledger.compare_after(&self.folded.run, &touched, miscounted);
            self.compared += touched.len();
        }
        if tasks <= FEW_TASKS || self.uncompared * TASKS_PER_BATCH >= tasks {
            self.compare();
        }
    }

    /// Compares everything that the state counts with the books.
    fn compare(&mut self) {
        if self.folds && self.ledger.findings().is_empty() {
            self.ledger.compare(&self.folded.run);
            self.compared += self.ledger.tasks.len();
        }
        self.uncompared = 0;
    }

    /// Enters the next entry of a timeline as a store gives it back.
    ///
    /// A store does not keep where batches end. What must hold between batches is looked at after each decision, and in the
    /// [`report`](Self::report).
    pub fn read(&mut self, recorded: &Recorded) {
        if self.began.is_some_and(|decision| decision != recorded.decision) {
            self.end_batch();
        }
        self.entry(recorded);
        self.began = Some(recorded.decision);
    }

    /// Returns the findings so far, in the order of the entries.
    pub fn findings(&self) -> &[Finding] {
        self.ledger.findings()
    }

    /// Returns the books.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the fold of the timeline, as far as it holds.
    pub fn run(&self) -> &Run {
        &self.folded.run
    }

    /// Returns the requests, as far as the timeline holds.
    pub fn requests(&self) -> &Requests {
        &self.folded.requests
    }

    /// Returns the findings and the figures of the timeline.
    pub fn report(mut self) -> Report {
        if self.began.is_some() {
            self.end_batch();
        }
        if self.uncompared > 0 {
            self.compare();
        }
        let Folded { run, requests } = self.folded;
        let run = self.folds.then_some(run);
        let Self { ledger, compared, .. } = self;
        Report {
            findings: ledger.findings().to_vec(),
            entries: ledger.last_seq(),
            answers: ledger.answers,
            visited: ledger.visited,
            messages: requests.looked_at,
            compared,
            requests,
            ledger,
            run,
        }
    }

    fn fold(&mut self, recorded: &Recorded) {
        self.folds &= self.ledger.findings().is_empty();
        if !self.folds {
            return;
        }
        let Folded { run, requests } = &mut self.folded;
        let ledger = &mut self.ledger;
        // The machine folds its own timelines and may stop at others; the checker continues.
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

/// Checks a whole timeline of a run that is pinned to `configs`; see [`Checker::read`].
pub fn verify(configs: &Arc<Configs>, entries: &[Recorded]) -> Report {
    let mut checker = Checker::new(configs);
    for recorded in entries {
        checker.read(recorded);
    }
    checker.report()
}
