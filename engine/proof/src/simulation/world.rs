//! One run and everything round it; what happens next is chosen by chance.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use baton_config::{PriceTable, prices};
use baton_machine::Run;
use baton_types::config::Configs;
use baton_types::entry::{Adoption, Concern, Fork, ForkPoint, ForkedEffects, RunStarted};
use baton_types::event::Event;
use baton_types::id::{ContentHash, RunId};
use baton_types::json::Json;
use baton_types::money::Price;
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use serde_json::json;

use super::effects::Effects;
use super::faults::{Fault, Faults};
use super::owner::{Owner, Work};
use super::store::Store;
use crate::checker::Checker;
use crate::finding::{Finding, Invariant};
use crate::random::Random;
use crate::script::write;

/// Largest number of steps before the faults stop.
const FAULTY_STEPS: usize = 600;

/// Largest number of steps after that until the run must have ended (`every_run_ends`).
const STEPS_TO_END: u64 = 20_000;

/// Once in how many steps a fault comes from nowhere.
const FAULT_ONCE_IN: usize = 9;

/// One run and everything round it.
pub(super) struct World {
    pub(super) seed: u64,
    pub(super) configs: Arc<Configs>,
    pub(super) random: Random,
    pub(super) straight: bool,
    /// Whether faults still come.
    pub(super) faulty: bool,
    pub(super) now: Timestamp,
    pub(super) store: Store,
    pub(super) owners: Vec<Owner>,
    pub(super) next_owner: u64,
    /// Work outside of the machine, with its owner.
    pub(super) works: Vec<(u64, Work)>,
    /// Stopped or answered work; its answers may still come.
    pub(super) late: Vec<(u64, Work)>,
    pub(super) effects: Effects,
    pub(super) checker: Checker,
    pub(super) faults: Faults,
    pub(super) steps: u64,
    pub(super) steps_to_end: u64,
    pub(super) ended: bool,
    findings: Vec<Finding>,
}

/// Possible next step.
enum Step {
    /// A process takes what has come and decides.
    GatherAndDecide(usize),
    /// The store answers a process.
    Commit(usize),
    /// A model or a tool answers.
    Finish(usize),
}

impl World {
    pub(super) fn new(seed: u64, configs: Arc<Configs>, random: Random, straight: bool, faulty: bool) -> Self {
        Self {
            seed,
            checker: Checker::new(&configs),
            configs,
            random,
            straight,
            faulty,
            now: Timestamp::from_micros(1_000_000_000_000),
            store: Store::default(),
            owners: Vec::new(),
            next_owner: 0,
            works: Vec::new(),
            late: Vec::new(),
            effects: Effects::default(),
            faults: Faults::default(),
            steps: 0,
            steps_to_end: 0,
            ended: false,
            findings: Vec::new(),
        }
    }

    /// Continues until the run has ended or an invariant is broken.
    pub(super) fn run(&mut self) {
        let faulty_steps = if self.faulty { 20 + self.random.below(FAULTY_STEPS) as u64 } else { 0 };
        while !self.ended && self.holds() {
            self.steps += 1;
            self.faulty = self.steps <= faulty_steps;
            if !self.faulty {
                self.steps_to_end += 1;
            }
            if self.steps_to_end > STEPS_TO_END {
                self.broken(Invariant::EveryRunEnds, format!("the run continues {STEPS_TO_END} steps after the last fault"));
            }
            self.step();
        }
    }

    /// Whether nothing is broken so far.
    pub(super) fn holds(&self) -> bool {
        self.findings.is_empty() && self.checker.findings().is_empty()
    }

    pub(super) fn broken(&mut self, invariant: Invariant, what: String) {
        self.findings.push(Finding { invariant, seq: self.store.last_seq(), what });
    }

    /// Returns the broken invariants, of the timeline or of the world around it.
    pub(super) fn findings(&self) -> Vec<Finding> {
        self.checker.findings().iter().chain(&self.findings).cloned().collect()
    }

    /// Returns the documents that the timeline ends with.
    pub(super) fn documents(&self) -> Vec<(String, u32, ContentHash)> {
        let documents = self.checker.run().documents().iter();
        documents
            .map(|(path, document)| (path.to_string(), document.current().version, document.current().content.hash))
            .collect()
    }

    fn step(&mut self) {
        self.now = self.now.plus(Duration::from_millis(1));
        if self.faulty && self.random.once_in(FAULT_ONCE_IN) {
            let fault = Fault::any(&mut self.random, self.straight);
            return self.inject(fault);
        }
        if !self.owners.iter().any(|owner| !owner.asleep) {
            return self.take_over();
        }
        let mut steps = Vec::new();
        for (index, owner) in self.owners.iter().enumerate().filter(|(_, owner)| !owner.asleep) {
            let commands = self.store.commands(owner.taken).next().is_some();
            if owner.commit.is_some() {
                steps.push(Step::Commit(index));
            } else if owner.has_events(self.now, commands) {
                steps.push(Step::GatherAndDecide(index));
            }
        }
        let may_end = |index: &usize| !self.waits_for_calls(self.works[*index].0, &self.works[*index].1);
        steps.extend((0..self.works.len()).filter(may_end).map(Step::Finish));
        if steps.is_empty() {
            return self.nothing_runs();
        }
        // Without faults things happen in one order: that of the list.
        let next = if self.steps_to_end == self.steps { 0 } else { self.random.below(steps.len()) };
        match steps[next] {
            Step::GatherAndDecide(owner) => self.gather_and_decide(owner),
            Step::Commit(owner) => self.commit(owner),
            Step::Finish(work) => self.finish(work),
        }
    }

    /// Acts when nothing runs and nothing waits to be decided: a person acts, or time passes.
    fn nothing_runs(&mut self) {
        let owner = self.owners.iter().filter(|owner| !owner.asleep).max_by_key(|owner| owner.epoch);
        let Some(owner) = owner else { return };
        let run = &owner.run;
        let people = run.open_questions().next().map(|question| (question.id.clone(), question.concern()));
        let (wake, suspended) = (run.next_wake(), run.suspended_calls().next().map(|call| call.id.clone()));
        // A process that lost the run has nothing to say about it, and one that stops releases it.
        if owner.epoch != self.store.epoch() || run.totals().releasing {
            let id = owner.id;
            self.owners.retain(|owner| owner.id != id);
        } else if run.totals().paused {
            self.store.put_command(Event::UnpauseRequested { by: Principal::person("ada") });
        } else if let Some((question, concern)) = people {
            let answer = Json::from(match concern {
                None => json!("yes"),
                Some(Concern::Approval { .. }) => json!({"approved": true}),
                Some(Concern::Outcome) => json!({"outcome": "unknown"}),
            });
            self.store.put_command(Event::PersonAnswered {
                question,
                by: Principal::person("ada"),
                answer,
                documents: Vec::new(),
                recorded: None,
            });
        } else if let Some(call) = suspended.filter(|_| !self.straight && (wake.is_none() || self.random.once_in(2))) {
            let delivery = self.delivery(call);
            self.store.put_command(delivery);
        } else if let Some(wake) = wake.filter(|wake| *wake > self.now) {
            self.now = wake;
        } else {
            self.broken(
                Invariant::EveryRunEnds,
                "nothing runs, no person is asked and no time is awaited, but the run has not ended".to_owned(),
            );
        }
    }

    /// Lets another process take the run over. It starts the run before its first entry, and continues it with follow-ups after
    /// its end.
    pub(super) fn take_over(&mut self) {
        let mut mailbox = VecDeque::new();
        let run = Run::fold(Arc::clone(&self.configs), self.store.entries());
        if self.is_over() {
            self.ended = true;
            return;
        }
        mailbox.push_back(match (run.started(), run.ended()) {
            (None, _) => self.start(),
            (Some(_), None) => Event::TakenOver { process: "another".to_owned(), after_death: self.random.once_in(2) },
            (Some(_), Some(_)) => {
                // A run that continues this one is another run: no process of this one, and no answer to it, reaches that run.
                self.owners.clear();
                self.works.clear();
                self.late.clear();
                self.follow_up(run.last_seq())
            }
        });
        let last = self.store.entries().last().map_or(self.now, |last| last.at);
        self.next_owner += 1;
        self.owners.push(Owner {
            id: self.next_owner,
            epoch: self.store.take_over(),
            run,
            last,
            mailbox,
            taken: 0,
            commit: None,
            asleep: false,
            woken_for: None,
        });
    }

    /// Whether the run has ended and is not continued any more.
    pub(super) fn is_over(&self) -> bool {
        let run = self.checker.run();
        let roots = run.graph().iter().filter(|task| task.id.is_root()).count();
        run.ended().is_some() && roots > self.follow_ups()
    }

    /// Returns the number of times that the run is continued after its end.
    const fn follow_ups(&self) -> usize {
        match self.seed % 10 {
            1..=3 => 1,
            4 => 3,
            _ => 0,
        }
    }

    /// Continues a run that has ended.
    fn follow_up(&self, seq: u64) -> Event {
        let from = ForkPoint { run: RunId::from("simulated"), seq };
        let fork = Fork { run: RunId::from("continued"), from, at: self.now, effects: ForkedEffects::default() };
        let adoption = Adoption {
            prices: self.prices(),
            fork: Some(fork),
            follow_up: Some("And then?".to_owned()),
            ..Adoption::of(ContentHash::of(b"configs"))
        };
        Event::Adopted { adoption, documents: vec![write("a.md", "more")], by: Principal::person("ada") }
    }

    fn prices(&self) -> BTreeMap<String, Price> {
        prices(&self.configs, None, |_| false, PriceTable::embedded)
    }

    fn start(&self) -> Event {
        let run = RunStarted {
            run: RunId::from("simulated"),
            job: self.configs.job.id.clone(),
            configs: ContentHash::of(b"configs"),
            folder: None,
            memory: "job".into(),
            request: self.configs.job.request.clone(),
            inputs: Json::null(),
            model: None,
            prices: self.prices(),
            engine: "simulated".to_owned(),
            forked_from: None,
            continues: None,
        };
        let documents = vec![write("a.md", "one"), write("b.csv", "two")];
        Event::Started { run, root: self.configs.job.root.clone(), documents }
    }
}
