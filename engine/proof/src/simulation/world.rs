//! One run and everything round it; what happens next is chosen by chance.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use baton_config::{PriceTable, prices};
use baton_machine::OpenCall;
use baton_types::config::Configs;
use baton_types::entry::{Adoption, Concern, Fork, ForkPoint, ForkedEffects, RunStarted};
use baton_types::event::Event;
use baton_types::id::{CallId, ContentHash, RunId};
use baton_types::json::Json;
use baton_types::money::Price;
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use baton_utp::card::Card;
use serde_json::json;

use super::bus::{Bus, Content};
use super::effects::Effects;
use super::faults::{Fault, Faults};
use super::owner::{Owner, Work};
use super::store::Store;
use super::worker::Worker;
use crate::checker::Checker;
use crate::finding::{Finding, Invariant};
use crate::jobs::started;
use crate::random::Random;
use crate::script::write;

/// The id of the run.
pub(super) const RUN: &str = "simulated";

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
    pub(super) bus: Bus,
    pub(super) workers: Vec<Worker>,
    pub(super) owners: Vec<Owner>,
    /// Id of the last process or owner.
    pub(super) last_id: u64,
    /// Work outside of the machine, with its owner.
    pub(super) works: Vec<(u64, Work)>,
    /// Stopped or answered work; its answers may still come.
    pub(super) late: Vec<(u64, Work)>,
    pub(super) effects: Effects,
    /// The cards of the tool service, by the calls that it has executed.
    pub(super) cards: BTreeMap<CallId, Card>,
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
    /// A process releases the run.
    Release(usize),
    /// A worker looks after the run.
    Proceed(usize),
    /// The tool service executes a command.
    Serve(u64),
    /// A worker carries a callback out.
    CarryOut(u64),
}

impl World {
    pub(super) fn new(seed: u64, configs: Arc<Configs>, random: Random, straight: bool, faulty: bool) -> Self {
        let now = Timestamp::from_micros(1_000_000_000_000);
        let is_queued = !seed.is_multiple_of(3);
        let mut world = Self {
            seed,
            checker: Checker::new(&configs),
            configs,
            random,
            straight,
            faulty,
            now,
            store: Store::new(now, is_queued),
            bus: Bus::default(),
            workers: Vec::new(),
            owners: Vec::new(),
            last_id: 0,
            works: Vec::new(),
            late: Vec::new(),
            effects: Effects::default(),
            cards: BTreeMap::new(),
            faults: Faults::default(),
            steps: 0,
            steps_to_end: 0,
            ended: false,
            findings: Vec::new(),
        };
        for _ in 0..=seed / 3 % 3 {
            world.start_worker();
        }
        if is_queued {
            world.publish(Some("queued".to_owned()), Content::WakeUp);
        }
        world
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

    /// Lets time pass. Processes that are awake renew their leases.
    pub(super) fn pass(&mut self, time: Duration) {
        self.now = self.now.plus(time);
        self.store.now = self.store.now.plus(time);
        let now = self.store.now;
        for worker in self.workers.iter().filter(|worker| !worker.asleep && worker.renews_from <= now) {
            self.store.renew(worker.id);
        }
    }

    fn step(&mut self) {
        self.pass(Duration::from_millis(1));
        if self.faulty && self.random.once_in(FAULT_ONCE_IN) {
            let fault = Fault::any(&mut self.random, self.straight);
            return self.inject(fault);
        }
        if self.workers.iter().all(|worker| worker.asleep) {
            self.start_worker();
        }
        let steps = self.possible_steps();
        if steps.is_empty() {
            return self.nothing_runs();
        }
        // Without faults things happen in one order: that of the list.
        let next = if self.steps_to_end == self.steps { 0 } else { self.random.below(steps.len()) };
        match steps[next] {
            Step::GatherAndDecide(owner) => self.gather_and_decide(owner),
            Step::Commit(owner) => self.commit(owner),
            Step::Finish(work) => self.finish(work),
            Step::Release(owner) => self.release(owner, Duration::ZERO),
            Step::Proceed(worker) => self.proceed(worker),
            Step::Serve(command) => self.serve(command),
            Step::CarryOut(callback) => self.carry_out(callback),
        }
    }

    fn possible_steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (index, owner) in self.owners.iter().enumerate().filter(|(_, owner)| self.is_awake(owner.worker)) {
            let commands = self.store.commands(owner.taken).next().is_some();
            if owner.commit.is_some() {
                steps.push(Step::Commit(index));
            } else if owner.has_events(self.now, commands) {
                steps.push(Step::GatherAndDecide(index));
            } else if owner.releases() && !self.works.iter().any(|(of, work)| *of == owner.id && !self.waits_for_calls(*of, work))
            {
                steps.push(Step::Release(index));
            }
        }
        let may_end = |index: &usize| !self.waits_for_calls(self.works[*index].0, &self.works[*index].1);
        steps.extend((0..self.works.len()).filter(may_end).map(Step::Finish));
        let workers = self.workers.iter().enumerate().filter(|(_, worker)| !worker.asleep && self.has_work(worker));
        steps.extend(workers.map(|(index, _)| Step::Proceed(index)));
        let now = self.store.now;
        steps.extend(self.bus.available(now, |content| matches!(content, Content::Command(_))).map(Step::Serve));
        steps.extend(self.bus.available(now, |content| matches!(content, Content::Callback { .. })).map(Step::CarryOut));
        steps
    }

    /// Acts when nothing runs and nothing waits to be decided: a person acts, or time passes.
    fn nothing_runs(&mut self) {
        let (epoch, owners) = (self.store.epoch(), self.owners.len());
        // A process that lost the run has nothing to say about it.
        let is_stale =
            |owner: &Owner| owner.epoch != epoch && self.workers.iter().any(|worker| worker.id == owner.worker && !worker.asleep);
        let stale: Vec<u64> = self.owners.iter().filter(|owner| is_stale(owner)).map(|owner| owner.id).collect();
        self.owners.retain(|owner| !stale.contains(&owner.id));
        if self.owners.len() < owners {
            return;
        }
        let run = self.checker.run();
        if run.ended().is_some() && self.store.wakes().is_none() {
            return self.store.queue();
        }
        let has_owner = self.store.record().owner.is_some_and(|owner| self.store.is_alive(owner));
        let Some(owner) = self.current() else {
            if has_owner || self.store.is_due(self.now) {
                self.let_time_pass();
            } else if self.store.wakes().is_none() {
                self.resume_by_person();
            } else {
                self.act_as_person();
            }
            return;
        };
        if owner.run.totals().paused {
            return self.send_command(Event::UnpauseRequested { by: Principal::person("ada") });
        }
        self.act_as_person();
    }

    /// Returns the owner that the store knows, if it is awake.
    fn current(&self) -> Option<&Owner> {
        self.owners.iter().find(|owner| owner.epoch == self.store.epoch() && self.is_awake(owner.worker))
    }

    /// Lets a person answer a question or deliver a result. If there is nothing to be done, time passes.
    fn act_as_person(&mut self) {
        let run = self.checker.run();
        let question = run.open_questions().next().map(|question| (question.id.clone(), question.concern()));
        if let Some((question, concern)) = question {
            let answer = Json::from(match concern {
                None => json!("yes"),
                Some(Concern::Approval { .. }) => json!({"approved": true}),
                Some(Concern::Outcome) => json!({"outcome": "unknown"}),
            });
            let by = Principal::person("ada");
            let answered = Event::PersonAnswered { question, by, answer, documents: Vec::new(), recorded: None };
            return self.send_command(answered);
        }
        let is_for_people = |call: &&OpenCall| {
            let tool = self.configs.tools.get(call.asked.tool.as_str());
            !self.straight && tool.is_none_or(|tool| tool.service().is_none())
        };
        let call = run.suspended_calls().find(is_for_people).map(|call| call.id.clone());
        let is_awaited = run.next_wake().is_some();
        match call {
            Some(call) if !is_awaited || self.random.once_in(2) => {
                let delivery = self.delivery(call);
                self.send_command(delivery);
            }
            Some(_) | None => self.let_time_pass(),
        }
    }

    /// Lets time pass until the next moment that something waits for.
    fn let_time_pass(&mut self) {
        let owner = self.current();
        let of_run = match owner {
            Some(owner) => [owner.run.next_wake(), owner.sending.next],
            None => [self.store.wakes().filter(|wakes| *wakes < Timestamp::MAX), None],
        };
        let on_clock = of_run.into_iter().flatten().filter(|moment| *moment > self.now).map(|moment| moment.since(self.now));
        let now = self.store.now;
        let looks = self.workers.iter().filter(|worker| !worker.asleep).map(|worker| worker.next_look);
        let lease = self.store.record().owner.map(|owner| self.store.alive_until(owner));
        let is_left = self.workers.iter().any(|worker| worker.is_left && !worker.asleep);
        let waits = owner.is_none() && (is_left || self.store.is_due(self.now));
        let for_owner = looks.chain(lease).filter(|_| waits);
        let lease = lease.filter(|_| owner.is_none());
        let in_store = for_owner.chain(lease).chain(self.bus.next(now)).filter(|moment| *moment > now);
        let next = on_clock.chain(in_store.map(|moment| moment.since(now))).min();
        match next {
            Some(time) => self.pass(time),
            None => self.broken(
                Invariant::EveryRunEnds,
                "nothing runs, no person is asked and no time is awaited, but the run has not ended".to_owned(),
            ),
        }
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
    pub(super) fn follow_up(&self, seq: u64) -> Event {
        let from = ForkPoint { run: RunId::from(RUN), seq };
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

    pub(super) fn start(&self) -> Event {
        let run = RunStarted { run: RUN.into(), prices: self.prices(), engine: "simulated".to_owned(), ..started(&self.configs) };
        let documents = vec![write("a.md", "one"), write("b.csv", "two")];
        Event::Started { run, root: self.configs.job.root.clone(), documents }
    }
}
