//! Workers race for the run, as those of the runtime do. Each learns from the bus, or by looking at the store from time to time, that
//! the run needs an owner. It takes the run over first, and acknowledges the message after that.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use baton_machine::Run;
use baton_types::event::Event;
use baton_types::time::Timestamp;

use super::bus::Content;
use super::faults::Fault;
use super::owner::{Owner, Sending};
use super::store::Batch;
use super::worker::{Announced, Attempt, Takes, Worker};
use super::world::World;
use crate::finding::Invariant;

/// Longest time between two looks at the store: the bus may have lost the message that the run needs an owner.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Time after which a run that another process holds is looked at again.
const HELD: Duration = Duration::from_secs(1);

impl World {
    /// Starts a process.
    pub(super) fn start_worker(&mut self) {
        self.last_id += 1;
        self.workers.push(Worker::new(self.last_id, self.store.now));
        self.store.renew(self.last_id);
    }

    pub(super) fn is_awake(&self, worker: u64) -> bool {
        self.workers.iter().any(|other| other.id == worker && !other.asleep)
    }

    /// Whether a worker that is awake has something to do beside its run.
    pub(super) fn has_work(&self, worker: &Worker) -> bool {
        let owner = self.owners.iter().find(|owner| owner.worker == worker.id);
        !worker.carried_out.is_empty()
            || worker.attempt.is_some()
            || match worker.announced {
                Some(_) => owner.is_none_or(|owner| owner.has_begun),
                None => self.wake_ups().next().is_some() || worker.next_look <= self.store.now,
            }
            || (worker.is_busy && owner.is_none())
    }

    fn wake_ups(&self) -> impl Iterator<Item = u64> {
        self.bus.available(self.store.now, |content| matches!(content, Content::WakeUp))
    }

    /// Lets a worker take its next step.
    pub(super) fn proceed(&mut self, index: usize) {
        let worker = &mut self.workers[index];
        if let Some(number) = worker.carried_out.pop_front() {
            return self.acknowledge_callback(number);
        }
        if worker.attempt.is_some() {
            return self.attempt(index);
        }
        let owner = self.owners.iter().find(|owner| owner.worker == worker.id);
        if worker.is_busy && owner.is_none() {
            worker.is_busy = false;
            if worker.is_left {
                // The wake-up comes again.
                worker.announced = None;
            }
            return self.acknowledge_wake_up(index);
        }
        if worker.announced.is_some() {
            if owner.is_none_or(|owner| owner.has_begun) {
                self.acknowledge_wake_up(index);
            }
            return;
        }
        let wake_ups: Vec<u64> = self.wake_ups().collect();
        if wake_ups.is_empty() {
            self.workers[index].next_look = self.store.now.plus(LONGEST_PAUSE);
            return self.look(index);
        }
        let message = *self.random.pick(&wake_ups);
        self.take_message(message);
        self.workers[index].announced = Some(Announced { message, epoch: self.store.epoch() });
        self.look(index);
    }

    /// Looks whether the run needs an owner, and begins to take it over.
    fn look(&mut self, index: usize) {
        let (worker, record) = (&self.workers[index], self.store.record());
        // A living owner reads the inbox itself.
        let is_left = worker.is_left && worker.announced.is_none();
        if worker.is_busy || !(is_left || self.store.is_due(self.now)) {
            return self.acknowledge_wake_up(index);
        }
        let takes = match record.owner {
            Some(owner) if owner == worker.id => worker.is_left.then_some(Takes::Left),
            Some(owner) if self.store.is_alive(owner) => None,
            _ if !self.store.is_due(self.now) => None,
            Some(_) | None => Some(Takes::Unattended),
        };
        let Some(takes) = takes else {
            self.workers[index].is_left &= record.owner == Some(self.workers[index].id);
            self.workers[index].next_look = self.store.now.plus(HELD);
            return self.acknowledge_wake_up(index);
        };
        let worker = &mut self.workers[index];
        (worker.is_left, worker.is_busy) = (false, true);
        worker.attempt = Some(Attempt { takes, read: None, is_raced: false });
    }

    /// Lets a person have the run continued.
    pub(super) fn resume_by_person(&mut self) {
        let Some(worker) = self.workers.iter_mut().find(|worker| !worker.asleep && worker.attempt.is_none()) else { return };
        worker.is_busy = true;
        worker.attempt = Some(Attempt { takes: Takes::IfFree, read: None, is_raced: false });
    }

    /// Takes the next step to get the run: reads who owns it, or takes it over.
    fn attempt(&mut self, index: usize) {
        let (record, now) = (self.store.record(), self.store.now);
        let worker = &mut self.workers[index];
        let (id, Some(attempt)) = (worker.id, &mut worker.attempt) else { return };
        let Some((read, since)) = attempt.read.take() else {
            let is_own = |owner| owner == id && attempt.takes == Takes::Left && !attempt.is_raced;
            let lives = |owner: u64| attempt.is_raced || owner == id || self.store.is_alive(owner);
            if record.owner.is_some_and(|owner| !is_own(owner) && lives(owner)) {
                (worker.attempt, worker.is_busy) = (None, false);
                worker.next_look = now.plus(HELD);
                return self.acknowledge_wake_up(index);
            }
            attempt.read = Some((record, now));
            return;
        };
        let takes = attempt.takes;
        let Ok(former) = self.store.take_over(id, read.epoch) else {
            attempt.is_raced = true;
            return self.faults.count(Fault::Raced);
        };
        worker.attempt = None;
        if let Some(former) = former.filter(|former| *former != id && self.store.is_alive_since(*former, since)) {
            let what = format!("worker {id} has taken the run over from worker {former}, which is alive");
            self.broken(Invariant::OneOwnerOneTurn, what);
        }
        let after_death = takes != Takes::IfFree && former.is_some_and(|former| former != id && !self.store.is_alive(former));
        self.own(id, takes == Takes::IfFree, former, after_death);
    }

    /// Makes a worker the owner of the run, which it has taken over. It starts the run before its first entry, and continues it with
    /// follow-ups after its end.
    fn own(&mut self, worker: u64, is_attended: bool, former: Option<u64>, after_death: bool) {
        if self.is_over() {
            self.ended = true;
            return;
        }
        let run = Run::fold(Arc::clone(&self.configs), self.store.entries());
        let first = match (run.started(), run.ended()) {
            (None, _) => self.start(),
            (Some(_), None) => Event::TakenOver { process: "another".to_owned(), after_death },
            (Some(_), Some(_)) => {
                // A run that continues this one is another run, with other processes. Late answers to this one do not reach it.
                self.owners.clear();
                self.works.clear();
                self.late.clear();
                self.follow_up(run.last_seq())
            }
        };
        let last = self.store.entries().last().map_or(self.now, |last| last.at);
        self.last_id += 1;
        self.owners.push(Owner {
            id: self.last_id,
            worker,
            is_attended,
            epoch: self.store.epoch(),
            run,
            last,
            mailbox: VecDeque::from([first]),
            taken: 0,
            commit: None,
            has_begun: false,
            woken_for: None,
            sending: Sending { through: last, next: Some(last), is_behind: former.is_some() },
        });
    }

    /// Releases the run, which the owner `index` does not execute any more. It is not due again before `again` has passed.
    pub(super) fn release(&mut self, index: usize, again: Duration) {
        let owner = &self.owners[index];
        let (run, now) = (&owner.run, self.now);
        let proceeds = run.ended().is_none() && !run.totals().paused;
        let waits = (run.is_idle() && proceeds).then(|| run.next_wake().unwrap_or(Timestamp::MAX));
        let wakes = waits.or_else(|| (proceeds && !owner.is_attended).then(|| now.plus(again)));
        let wakes = wakes.map(|wakes| owner.sending.next.map_or(wakes, |next| wakes.min(next)));
        let (epoch, expected_seq) = (owner.epoch, run.last_seq());
        let batch = Batch { epoch, expected_seq, entries: Vec::new(), consumed: Vec::new(), releases: true, wakes };
        let is_written = self.write(&batch);
        self.fail(index, false);
        if is_written && wakes.is_some_and(|wakes| wakes <= now) {
            self.publish(Some(format!("released {epoch}")), Content::WakeUp);
        }
    }

    /// Puts a command into the inbox, and announces that the run needs an owner if it has none.
    pub(super) fn send_command(&mut self, command: Event) {
        let number = self.store.put_command(command);
        if !self.store.record().owner.is_some_and(|owner| self.store.is_alive(owner)) {
            self.publish(Some(format!("command {number}")), Content::WakeUp);
        }
    }

    /// Ends the work of the owner `index`. Its process lives; it takes the run again if an outage stopped it.
    pub(super) fn fail(&mut self, index: usize, is_outage: bool) {
        let (worker, is_attended) = (self.owners[index].worker, self.owners[index].is_attended);
        if is_outage && is_attended {
            // The process of a person ends with its run.
            return self.kill(worker);
        }
        self.end_owner(index);
        if let Some(worker) = self.workers.iter_mut().find(|other| other.id == worker) {
            worker.is_left = is_outage;
        }
    }

    /// Kills a process. Its lease stays. Another process is started in its place.
    pub(super) fn kill(&mut self, worker: u64) {
        while let Some(index) = self.owners.iter().position(|owner| owner.worker == worker) {
            self.end_owner(index);
        }
        self.workers.retain(|other| other.id != worker);
        self.start_worker();
    }

    /// Acknowledges the wake-up that a worker has taken.
    fn acknowledge_wake_up(&mut self, index: usize) {
        let worker = self.workers[index].id;
        let Some(Announced { message, epoch }) = self.workers[index].announced.take() else { return };
        let has_owner = self.store.record().owner.is_some_and(|owner| self.store.is_alive(owner));
        // A process that executes the run may have lost it without noticing.
        let executes = self.owners.iter().any(|owner| owner.worker == worker);
        let is_settled = executes || self.store.epoch() > epoch || has_owner || !self.store.is_due(self.now);
        if !is_settled {
            let what = "a wake-up is acknowledged, and the run that it announced has no owner".to_owned();
            self.broken(Invariant::AcknowledgedIsDurable, what);
        }
        self.remove_message(message);
    }
}
