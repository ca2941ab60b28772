//! Walks a timeline and states what it breaks.
//!
//! The books of the [`Ledger`] come first: they share no code with the machine. As long as they find nothing, the
//! timeline is also folded and every request rendered again, by the machine itself, and compared with what the entries
//! and the books say (`state_is_the_fold` and the rules of requests). A timeline that the books refuse is not folded: the machine may rely on what its
//! own timelines hold.

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

/// What the state counts is compared after every batch, of the tasks that the batch concerns. All tasks and their calls are
/// looked at again where there are no more than this, else only after so many batches that each batch stands for
/// [`TASKS_PER_BATCH`] of them, and at the end: a walk over a timeline costs what the timeline is long.
const FEW_TASKS: usize = 64;
const TASKS_PER_BATCH: usize = 4;

/// A timeline being checked.
pub struct Checker {
    ledger: Ledger,
    folded: Folded,
    /// Whether the machine can go on folding: nothing was found yet.
    folds: bool,
    /// The decision that is being read.
    began: Option<u64>,
    /// What the tasks of the state add to its numbers.
    counters: Counters,
    /// The batches since all tasks were looked at.
    uncompared: usize,
    /// The tasks that were looked at to compare what the state counts.
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
    /// How many tasks and calls the books looked at, each as often as that was done.
    pub visited: usize,
    /// How many messages of requests were looked at, each as often as that was done.
    pub messages: usize,
    /// The books: tasks, calls, documents as the entries tell of them.
    pub ledger: Ledger,
    /// The state that the timeline folds to; `None` if it holds what no fold takes.
    pub run: Option<Run>,
}

impl Checker {
    /// Nothing entered yet, of a run that is pinned to `configs`.
    pub fn new(configs: &Arc<Configs>) -> Self {
        let folded = Folded { run: Run::new(Arc::clone(configs)), requests: Requests::new(Arc::clone(configs)) };
        let (ledger, counters) = (Ledger::new(Arc::clone(configs)), Counters::default());
        Self { ledger, folded, folds: true, began: None, counters, uncompared: 0, compared: 0 }
    }

    /// Says which configs an entry adopts that names `hash`: those of a fork, or of a migration.
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

/// Checks a whole timeline of a run that is pinned to `configs`; see [`Checker::read`].
pub fn verify(configs: &Arc<Configs>, entries: &[Recorded]) -> Report {
    let mut checker = Checker::new(configs);
    for recorded in entries {
        checker.read(recorded);
    }
    checker.report()
}
