//! Injected faults, and people who do something at any moment.

use std::time::Duration;

use baton_types::call::{CallStatus, ErrorCode};
use baton_types::event::{Event, Outcome};
use baton_types::id::{CallId, TaskId};
use baton_types::json::Json;
use baton_types::model::ModelTurn;
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use serde_json::json;

use super::faults::Fault;
use super::owner::{Owner, Work};
use super::store::LEASE;
use super::world::World;
use crate::script::{self, write};
use crate::shapes;

/// Author of commands and answers that change nothing.
const BY: &str = "ada";

/// Time after which a run is tried again whose provider is away.
const AWAY_PAUSE: Duration = Duration::from_mins(1);

impl World {
    /// Injects a fault or an action of a person, whatever the run is doing.
    pub(super) fn inject(&mut self, fault: Fault) {
        let awake = |world: &Self| world.owners.iter().position(|owner| world.is_awake(owner.worker));
        match fault {
            Fault::Crash => {
                if self.owners.is_empty() || self.random.once_in(5) {
                    let worker = self.random.pick(&self.workers).id;
                    self.crash(worker);
                } else {
                    let worker = self.random.pick(&self.owners).worker;
                    self.crash(worker);
                }
            }
            Fault::Sleep => {
                let Some(index) = awake(self) else { return };
                let worker = self.owners[index].worker;
                let Some(worker) = self.workers.iter_mut().find(|other| other.id == worker) else { return };
                worker.asleep = true;
                self.pass(LEASE);
            }
            Fault::Wake => {
                let Some(worker) = self.workers.iter_mut().find(|worker| worker.asleep) else { return };
                worker.asleep = false;
            }
            Fault::LostLease => {
                let Some(index) = awake(self) else { return };
                let worker = self.owners[index].worker;
                let late = Duration::from_millis(1 + self.random.below(60) as u64);
                let renews_from = self.store.now.plus(LEASE).plus(late);
                let Some(worker) = self.workers.iter_mut().find(|other| other.id == worker) else { return };
                worker.renews_from = renews_from;
                self.pass(LEASE);
            }
            Fault::EmptyBus => self.bus.clear(),
            Fault::Duplicate => {
                if self.late.is_empty() {
                    return;
                }
                let (owner, work) = self.late.swap_remove(self.random.below(self.late.len()));
                if self.is_asked_again(owner, &work) {
                    return;
                }
                self.faults.count(Fault::Late);
                let event = self.late_answer(&work);
                return self.deliver(owner, event);
            }
            Fault::Foreign => {
                let foreign = ["0/7.7", "0", "nonsense", "0/1.1/77.2", ""];
                let call = CallId::from(*self.random.pick(&foreign));
                let Some(index) = awake(self) else { return };
                let id = self.owners[index].id;
                self.deliver(id, Event::CallReturned { call, outcome: Outcome::success(json!("from nowhere")) });
            }
            Fault::Forward => self.now = self.now.plus(Duration::from_hours(1)),
            Fault::Back => {
                let hour = 3_600_000_000;
                self.now = Timestamp::from_micros(self.now.as_micros() - hour);
            }
            Fault::Cancel => {
                let Some(task) = self.any_task() else { return };
                self.send_command(cancel(task));
            }
            Fault::Answer => {
                let Some(question) = self.any_question() else { return };
                let answer = self.any_answer(question);
                self.send_command(answer);
            }
            Fault::Race => {
                let Some(question) = self.any_question() else { return };
                let (one, other) = (self.any_answer(question.clone()), self.any_answer(question.clone()));
                let commands = if self.random.once_in(2) { [one, cancel(question)] } else { [cancel(question), other] };
                for command in commands {
                    self.send_command(command);
                }
            }
            Fault::Deliver => {
                let Some(call) = self.any_call() else { return };
                let delivery = self.delivery(call);
                self.send_command(delivery);
            }
            Fault::Outage => {
                let waits = |owner: &Owner| self.is_awake(owner.worker) && owner.commit.is_none();
                let Some(index) = self.owners.iter().position(waits) else { return };
                self.stop_for_outage(index);
            }
            Fault::Stop => {
                let Some(index) = awake(self) else { return };
                self.owners[index].run.hold_requests();
            }
            Fault::Pause => self.send_command(Event::PauseRequested { by: Principal::person(BY) }),
            Fault::Unpause => self.send_command(Event::UnpauseRequested { by: Principal::person(BY) }),
            Fault::Steer => {
                let Some(task) = self.any_task() else { return };
                self.send_command(Event::Steered { task, text: "hurry".to_owned(), by: Principal::person(BY) });
            }
            Fault::Away
            | Fault::CrashAmidEffects
            | Fault::StoreError
            | Fault::LostAnswer
            | Fault::StaleCommit
            | Fault::Late
            | Fault::Reorder
            | Fault::Raced
            | Fault::LostMessage
            | Fault::DoubledMessage
            | Fault::DelayedMessage
            | Fault::LostAcknowledgement
            | Fault::Redelivery
            | Fault::RepeatedCommand
            | Fault::ServiceCrash
            | Fault::StaleCallback => return,
        }
        self.faults.count(fault);
    }

    /// Stops a process because providers are away: it records the waiting times of its requests, and releases the run.
    fn stop_for_outage(&mut self, index: usize) {
        let id = self.owners[index].id;
        let waiting = self.works.iter().filter(|(owner, _)| *owner == id).filter_map(|(_, work)| match work {
            Work::Prompt { task, turn } => Some((task.clone(), *turn)),
            Work::Execute(_) => None,
        });
        for (task, turn) in waiting.collect::<Vec<_>>() {
            let event = self.waited(task, turn, true);
            self.owners[index].mailbox.push_back(event);
        }
        self.gather_and_decide(index);
        self.commit(index);
        if let Some(index) = self.owners.iter().position(|owner| owner.id == id) {
            self.release(index, AWAY_PAUSE);
        }
    }

    /// Kills a process. A commit of it that was under way may have reached the store.
    fn crash(&mut self, worker: u64) {
        let owner = self.owners.iter_mut().find(|owner| owner.worker == worker);
        if let Some(commit) = owner.and_then(|owner| owner.commit.take())
            && self.random.once_in(2)
        {
            self.write(&commit.batch);
        }
        self.kill(worker);
    }

    /// Returns a late answer: for a straight job the same once more, otherwise one that must not be accepted.
    fn late_answer(&mut self, work: &Work) -> Event {
        match self.answer(work) {
            event if self.straight => event,
            Event::CallReturned { call, .. } | Event::CallSuspended { call, .. } => {
                Event::CallReturned { call, outcome: Outcome::success(json!("late")) }
            }
            Event::ModelAnswered { task, turn, request, .. } => {
                Event::ModelAnswered { task, turn, request, answer: ModelTurn::text("late"), recorded: None }
            }
            event => event,
        }
    }

    /// Whether somebody runs the same again, so that its answer is a good one whenever it comes.
    fn is_asked_again(&self, owner: u64, work: &Work) -> bool {
        let same = |other: &Work| match (work, other) {
            (Work::Prompt { task, .. }, Work::Prompt { task: other, .. }) => task == other,
            (Work::Execute(one), Work::Execute(other)) => one.call == other.call,
            _ => false,
        };
        self.works.iter().any(|(of, other)| *of == owner && same(other))
    }

    fn any_task(&mut self) -> Option<TaskId> {
        let tasks: Vec<TaskId> = self.checker.ledger().tasks.keys().cloned().collect();
        // The root is the end of everything, so it is seldom meant.
        let task = (!tasks.is_empty()).then(|| self.random.pick(&tasks).clone())?;
        (!task.is_root() || self.random.once_in(10)).then_some(task)
    }

    /// Returns a suspended call, or sometimes any call.
    fn any_call(&mut self) -> Option<CallId> {
        let suspended: Vec<CallId> = self.checker.run().suspended_calls().map(|call| call.id.clone()).collect();
        if !suspended.is_empty() && !self.random.once_in(4) {
            return Some(self.random.pick(&suspended).clone());
        }
        let calls: Vec<CallId> = self.checker.ledger().calls.keys().cloned().collect();
        (!calls.is_empty()).then(|| self.random.pick(&calls).clone())
    }

    /// Returns the delivery of a result for `call`.
    pub(super) fn delivery(&mut self, call: CallId) -> Event {
        let outcome = match self.random.below(4) {
            0 => Outcome::error(CallStatus::Failed, script::error(ErrorCode::ToolFailed)),
            number => Outcome::success(json!(number)),
        };
        Event::ResultDelivered { call, by: Principal::person(BY), outcome }
    }

    fn any_question(&mut self) -> Option<TaskId> {
        let open: Vec<TaskId> = self.checker.run().open_questions().map(|question| question.id.clone()).collect();
        (!open.is_empty()).then(|| self.random.pick(&open).clone())
    }

    fn any_answer(&mut self, question: TaskId) -> Event {
        let about_a_call = self.checker.run().task(&question).is_some_and(|question| question.concern().is_some());
        let answer = if about_a_call {
            Json::from(shapes::any_decision(&mut self.random))
        } else {
            Json::from(self.random.pick(&[json!("yes"), json!("x"), json!(7)]).clone())
        };
        let sends = self.random.once_in(3);
        let documents = if sends { vec![write("a.md", &self.random.bits().to_string())] } else { Vec::new() };
        Event::PersonAnswered { question, by: Principal::person(BY), answer, documents, recorded: None }
    }
}

fn cancel(task: TaskId) -> Event {
    Event::CancelRequested { task, reason: "enough".to_owned(), by: Principal::person(BY) }
}
