//! Steps of the simulation, one at a time: decisions, commits, answers, and the faults among them.

use std::sync::Arc;

use baton_types::call::Suspension;
use baton_types::config::{Configs, EffectClass};
use baton_types::entry::{CallRequest, Waited};
use baton_types::event::{CallAsk, Effect, Event};
use baton_types::id::{CallId, ContentHash, TaskId};
use baton_types::model::Usage;
use baton_types::money::Money;
use baton_types::time::Timestamp;

use super::faults::Fault;
use super::owner::{Commit, Work};
use super::store::Batch;
use super::world::World;
use crate::decision::effects_match;
use crate::finding::Invariant;
use crate::random::Random;
use crate::script::{Execution, Prompted};
use crate::shapes;

/// Up to here the state is compared with the fold of the timeline after every batch; later at every [`CHECKPOINT`].
const EACH_BATCH: u64 = 200;

/// Entries between two later comparisons.
const CHECKPOINT: u64 = 16;

/// The next step of work.
enum Next {
    /// The code makes its call of this number.
    Makes(usize),
    /// The code waits for the calls that it made.
    Waits,
    /// The work comes to its end.
    Ends,
}

impl World {
    /// Takes all waiting events (*gather*), and lets the core decide each of them in memory (*decide*).
    pub(super) fn gather_and_decide(&mut self, index: usize) {
        self.repeat_commands(index);
        let (faulty, code) = (self.faulty, self.code());
        let owner = &mut self.owners[index];
        owner.last = owner.last.max(self.now);
        let many =
            if faulty && owner.mailbox.len() > 1 { 1 + self.random.below(owner.mailbox.len()) } else { owner.mailbox.len() };
        let mut events: std::collections::VecDeque<Event> = owner.mailbox.drain(..many).collect();
        let mut consumed = Vec::new();
        for (number, command) in self.store.commands(owner.taken) {
            consumed.push(*number);
            events.push_back(command.clone());
        }
        owner.taken = consumed.last().copied().unwrap_or(owner.taken);
        if let Some(wake) = owner.due(self.now) {
            owner.woken_for = Some(wake);
            events.push_back(Event::TimePassed);
        }
        let expected_seq = owner.run.last_seq();
        let (mut entries, mut effects, mut unlike, last) = (Vec::new(), Vec::new(), None, owner.last);
        while let Some(event) = events.pop_front() {
            // A refusal is returned to the sender, and changes nothing.
            let Ok(decision) = owner.run.handle(owner.last, event) else { continue };
            unlike = unlike.or(effects_match(&decision).err());
            entries.extend(decision.entries.into_iter().map(Arc::unwrap_or_clone));
            for effect in decision.effects {
                match effect {
                    Effect::Execute { task, agent, call, tool, input } if runs_at_once(&self.configs, tool.as_str()) => {
                        // Work without an effect outside runs at once, and its result joins the batch. So does the suspension of a call
                        // that a service executes.
                        let execution = Execution { task, agent, call, tool, input };
                        events.push_front(code.end(&execution, last));
                    }
                    effect => effects.push(effect),
                }
            }
        }
        let releases = owner.run.ended().is_some();
        let batch = Batch { epoch: owner.epoch, expected_seq, entries, consumed, releases, wakes: None };
        owner.commit = Some(Commit { batch, effects });
        if let Some(what) = unlike {
            self.broken(Invariant::StateIsTheFold, what);
        }
    }

    /// Lets the store write or refuse a batch (*commit*). Checks the durable entries, and only then performs effects.
    pub(super) fn commit(&mut self, index: usize) {
        let Some(Commit { batch, effects }) = self.owners[index].commit.take() else { return };
        if batch.epoch != self.store.epoch() {
            self.faults.count(Fault::StaleCommit);
        }
        if self.faulty && self.random.once_in(40) {
            self.faults.count(Fault::StoreError);
            return self.fail(index, true);
        }
        if !self.write(&batch) {
            return self.fail(index, false);
        }
        if self.faulty && self.random.once_in(60) {
            self.faults.count(Fault::LostAnswer);
            return self.fail(index, true);
        }
        self.owners[index].has_begun = true;
        self.send_commands(index, &batch.entries);
        let seq = self.store.last_seq();
        if (seq <= EACH_BATCH || seq.is_multiple_of(CHECKPOINT)) && !self.is_the_fold(index) {
            self.broken(Invariant::StateIsTheFold, "the state differs from the fold of the timeline".to_owned());
        }
        let (owner, worker) = (self.owners[index].id, self.owners[index].worker);
        for effect in effects {
            self.perform(owner, effect);
            if self.faulty && self.random.once_in(150) {
                self.faults.count(Fault::CrashAmidEffects);
                return self.kill(worker);
            }
        }
        let runs_on = |(of, work): &&(u64, Work)| {
            *of == owner && self.checker.ledger().tasks.get(work.task()).is_some_and(|task| task.ended.is_some())
        };
        if let Some((_, work)) = self.works.iter().find(runs_on) {
            let what = format!("{work:?} runs on for a task that has ended");
            self.broken(Invariant::CancelledStaysQuiet, what);
        }
        if self.checker.run().ended().is_some() {
            self.owners.retain(|other| other.id != owner);
        }
    }

    /// Makes a batch durable and checks its entries. Returns false if the store refuses it.
    pub(super) fn write(&mut self, batch: &Batch) -> bool {
        let epoch = self.store.epoch();
        let written = self.store.append(batch);
        if written && batch.epoch != epoch {
            let what = format!("a batch of epoch {} is written in epoch {epoch}", batch.epoch);
            self.broken(Invariant::OneOwnerOneTurn, what);
        }
        if written && !batch.entries.is_empty() {
            self.checker.enter(&batch.entries);
        }
        written
    }

    fn perform(&mut self, owner: u64, effect: Effect) {
        // A later event of the same batch may have ended the task or the call.
        let known = |task: &TaskId| {
            let owner = self.owners.iter().find(|other| other.id == owner);
            owner.and_then(|owner| owner.run.task(task)).filter(|task| task.is_live())
        };
        let is_open =
            |task: &TaskId, call: &CallId| known(task).and_then(|task| task.call(call)).is_some_and(|call| !call.is_finished());
        match effect {
            Effect::Prompt { task, .. } if known(&task).is_none() => {}
            Effect::Execute { task, call, .. } if !is_open(&task, &call) => {}
            Effect::Prompt { task, turn } => self.works.push((owner, Work::Prompt { task, turn })),
            Effect::Execute { task, agent, call, tool, input } => {
                let class = class_of(&self.configs, tool.as_str());
                let execution = Execution { task, agent, call, tool, input };
                let finished = self.checker.ledger().calls.get(&execution.call).is_some_and(|call| call.status.is_some());
                // A process that lost the run between its commit and this effect does not know it.
                let current = self.owners.iter().any(|other| other.id == owner && other.epoch == self.store.epoch());
                if let Err(what) = self.effects.start(&execution, class, finished && current) {
                    self.broken(Invariant::NoEffectTwice, what);
                }
                self.works.push((owner, Work::Execute(execution)));
            }
            Effect::Stop { task } => {
                let stopped = |work: &(u64, Work)| work.0 == owner && *work.1.task() == task;
                let (stopped, works) = std::mem::take(&mut self.works).into_iter().partition(stopped);
                self.works = works;
                self.late.extend::<Vec<_>>(stopped);
            }
            Effect::StopCall { call } => {
                let is_stopped =
                    |work: &(u64, Work)| work.0 == owner && matches!(&work.1, Work::Execute(execution) if execution.call == call);
                let (stopped, works) = std::mem::take(&mut self.works).into_iter().partition(is_stopped);
                self.works = works;
                self.late.extend::<Vec<_>>(stopped);
            }
            Effect::EndRun => self.ended = self.is_over(),
            // The question is in the state; people find it there. Code looks at the results of its calls by itself.
            Effect::AskPerson { question: _ } | Effect::Return { .. } => {}
        }
    }

    /// Delivers the answer of a model or a tool to its owner, if that one still runs.
    pub(super) fn finish(&mut self, index: usize) {
        let (owner, work) = self.works.swap_remove(index);
        if let Work::Prompt { task, turn } = &work
            && self.faulty
            && self.random.once_in(10)
        {
            self.faults.count(Fault::Away);
            let event = self.waited(task.clone(), *turn, false);
            self.works.push((owner, work));
            return self.deliver_perhaps_twice(owner, event);
        }
        if let Next::Makes(number) = self.next_of(owner, &work)
            && let Work::Execute(execution) = &work
        {
            // Code that runs again makes the same calls again.
            let number = if number > 0 && self.random.once_in(3) { self.random.below(number) } else { number };
            let asked = self.code_of(execution).calls.swap_remove(number);
            let event = Event::CallMade { by: execution.call.clone(), name: number.to_string(), asked };
            self.works.push((owner, work));
            return self.deliver_perhaps_twice(owner, event);
        }
        if let Some(event) = self.asks_on(&work) {
            self.works.push((owner, work));
            return self.deliver_perhaps_twice(owner, event);
        }
        if let Work::Execute(execution) = &work {
            self.happen(execution);
        }
        let event = self.answer(&work);
        if self.random.once_in(4) && self.faulty {
            self.late.push((owner, work));
        }
        self.deliver_perhaps_twice(owner, event);
    }

    /// Whether the code of a call waits for results of calls that it made, and for nothing else.
    pub(super) fn waits_for_calls(&self, owner: u64, work: &Work) -> bool {
        matches!(self.next_of(owner, work), Next::Waits)
    }

    /// Returns what comes next of `work`, as the process that it belongs to knows the run.
    fn next_of(&self, owner: u64, work: &Work) -> Next {
        let Work::Execute(execution) = work else { return Next::Ends };
        if !makes_calls(&self.configs, execution.tool.as_str()) {
            return Next::Ends;
        }
        let owner = self.owners.iter().find(|other| other.id == owner);
        // A process that sleeps takes no calls.
        if owner.is_some_and(|owner| !self.is_awake(owner.worker)) {
            return Next::Waits;
        }
        let calls = owner.and_then(|owner| owner.run.task(&execution.task)).and_then(|task| task.phase.calls());
        let Some(calls) = calls else { return Next::Ends };
        let code = self.code_of(execution);
        let made = (0..code.calls.len()).map(|number| calls.index_of(&execution.call.inner(&number.to_string())));
        let made: Vec<_> = made.map_while(|index| index.map(|index| calls[index].is_finished())).collect();
        let is_open = made.contains(&false);
        if made.len() < code.calls.len() && !(code.one_by_one && is_open) {
            return Next::Makes(made.len());
        }
        if is_open && !code.leaves_early { Next::Waits } else { Next::Ends }
    }

    fn code_of(&self, execution: &Execution) -> shapes::CodeShape {
        let seed = ContentHash::of(format!("code of {}", execution.call).as_bytes());
        shapes::code_shape(&mut Random::seeded(self.seed ^ number_of(seed.as_bytes())), self.straight)
    }

    /// Lets the code of a call ask a model before it returns, or get the answer, or return without waiting for the
    /// answer.
    fn asks_on(&mut self, work: &Work) -> Option<Event> {
        let Work::Execute(execution) = work else { return None };
        if self.straight || !self.random.once_in(3) {
            return None;
        }
        let open = self.checker.run().task(&execution.task).and_then(|task| task.phase.calls());
        let asked = open.and_then(|calls| calls.asks().iter().find(|ask| ask.by.call == execution.call)).cloned();
        let random = &mut self.random;
        let mut below = |most: u64| random.below(usize::try_from(most).unwrap_or(usize::MAX).max(1)) as u64;
        let Some(asked) = asked else {
            // A shell counts on, so that what comes late is never taken for the answer to another request.
            let by = CallRequest { call: execution.call.clone(), request: u32::try_from(self.steps).unwrap_or(u32::MAX) };
            let most = if below(4) == 0 { 20_000 } else { 200 };
            let (input_tokens, output_tokens) = (below(most), below(100));
            let worst_cost = (below(5) > 0).then(|| Money::from_picos(5 * (input_tokens + output_tokens)));
            return Some(Event::CallAsksModel(CallAsk {
                by,
                model: "helper".to_owned(),
                input_tokens,
                output_tokens,
                worst_cost,
            }));
        };
        let heard = below(4) > 0;
        // The reported usage may exceed the reservation.
        let (input_tokens, output_tokens) = (below(2 * asked.input_tokens), below(asked.reserved_tokens));
        let usage = Usage { input_tokens, output_tokens, ..Usage::default() };
        let cost = asked.reserved_cost.map(|_| Money::from_picos(5 * usage.total()));
        Some(Event::CallHeardModel { by: asked.by, used: heard.then_some((usage, cost)) })
    }

    /// Returns the event that the request of `task` waited for its provider, for an arbitrary time.
    pub(super) fn waited(&mut self, task: TaskId, turn: u32, stops: bool) -> Event {
        let mut milliseconds = || self.random.below(100_000) as u64;
        let (milliseconds, run_milliseconds) = (milliseconds(), milliseconds());
        let (provider, reason) = ("far".to_owned(), "it does not answer".to_owned());
        let uncharged = stops && self.random.once_in(2);
        let waited = Waited { provider, reason, milliseconds, run_milliseconds, stops, uncharged };
        Event::ModelWaited { task, turn, waited }
    }

    fn deliver_perhaps_twice(&mut self, owner: u64, event: Event) {
        if self.faulty && self.random.once_in(30) {
            self.faults.count(Fault::Duplicate);
            self.deliver(owner, event.clone());
        }
        self.deliver(owner, event);
    }

    pub(super) fn deliver(&mut self, id: u64, event: Event) {
        let Some(owner) = self.owners.iter_mut().find(|owner| owner.id == id) else { return };
        owner.mailbox.push_back(event);
        // An owner takes over before it looks at anything else.
        let first = usize::from(matches!(owner.mailbox.front(), Some(Event::TakenOver { .. } | Event::Started { .. })));
        let waiting = owner.mailbox.len();
        if self.faulty && waiting > first + 1 && self.random.once_in(4) {
            self.faults.count(Fault::Reorder);
            let place = first + self.random.below(waiting - first);
            owner.mailbox.swap(place, waiting - 1);
        }
    }

    /// Returns the outcome of `work`: always the same, so that a crash changes no answer.
    pub(super) fn answer(&mut self, work: &Work) -> Event {
        match work {
            Work::Prompt { task, turn } => {
                let request = self.checker.requests().newest(task);
                let open = self.checker.ledger().tasks.get(task).and_then(|book| book.request.as_ref());
                let (reserved, input) = open.map_or((0, 0), |open| (open.reserved, open.input));
                let mut random = Random::seeded(self.seed ^ number_of(request.hash.as_bytes()) ^ u64::from(*turn));
                let prompted = Prompted { task, turn: *turn, request: &request, reserved, input };
                let answer = if self.straight {
                    shapes::straight_turn(&mut random, &prompted)
                } else {
                    shapes::any_turn(&mut random, &prompted)
                };
                let (task, turn) = (task.clone(), *turn);
                match answer {
                    Ok(answer) => Event::ModelAnswered { task, turn, request: request.hash, answer, recorded: None },
                    Err(error) => Event::ModelFailed { task, turn, model: request.model.clone(), error, uncharged: false },
                }
            }
            Work::Execute(execution) => self.code().end(execution, self.now),
        }
    }

    /// Performs the effect of a tool.
    fn happen(&mut self, execution: &Execution) {
        let class = class_of(&self.configs, execution.tool.as_str());
        if let Err(what) = self.effects.happen(&execution.call, class) {
            self.broken(Invariant::NoEffectTwice, what);
        }
    }

    /// Whether the state of a process is the fold of the timeline. A stop is not on the timeline.
    fn is_the_fold(&self, index: usize) -> bool {
        let run = &self.owners[index].run;
        if !run.totals().releasing {
            return run == self.checker.run();
        }
        let mut fold = self.checker.run().clone();
        fold.hold_requests();
        *run == fold
    }

    /// Ends what a process does for the run. Answers for it are dropped, but some tools have had their effect.
    pub(super) fn end_owner(&mut self, index: usize) {
        let owner = self.owners.swap_remove(index);
        let (orphans, works) = std::mem::take(&mut self.works).into_iter().partition(|(of, _)| *of == owner.id);
        self.works = works;
        let orphans: Vec<(u64, Work)> = orphans;
        for (_, work) in orphans {
            if let Work::Execute(execution) = work
                && self.random.once_in(2)
            {
                self.happen(&execution);
            }
        }
    }

    fn code(&self) -> Code {
        Code { seed: self.seed, straight: self.straight, configs: Arc::clone(&self.configs) }
    }
}

/// The code of tools.
struct Code {
    seed: u64,
    straight: bool,
    configs: Arc<Configs>,
}

impl Code {
    /// Returns the end of a call's code: always the same. `now` is the moment at which the code ends.
    fn end(&self, execution: &Execution, now: Timestamp) -> Event {
        let (call, straight) = (execution.call.clone(), self.straight);
        let random = |of: &str| Random::seeded(self.seed ^ number_of(ContentHash::of(of.as_bytes()).as_bytes()));
        let tool = self.configs.tools.get(execution.tool.as_str());
        if tool.is_some_and(|tool| tool.service().is_some()) {
            return Event::CallSuspended { call, suspension: Suspension::default() };
        }
        let suspends = tool.is_some_and(|tool| tool.suspends);
        let mut chance = random(&format!("end of {call}"));
        if suspends && chance.once_in(2) {
            return Event::CallSuspended { call, suspension: shapes::any_suspension(&mut chance, now, straight) };
        }
        let mut random = random(call.as_str());
        let outcome =
            if straight { shapes::straight_outcome(&mut random, execution) } else { shapes::any_outcome(&mut random, execution) };
        Event::CallReturned { call, outcome }
    }
}

fn number_of(hash: &[u8; 32]) -> u64 {
    hash[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn class_of(configs: &baton_types::config::Configs, tool: &str) -> EffectClass {
    configs.tools.get(tool).map_or(EffectClass::AtMostOnce, |tool| tool.effect)
}

fn runs_at_once(configs: &baton_types::config::Configs, tool: &str) -> bool {
    let is_served = configs.tools.get(tool).is_some_and(|tool| tool.service().is_some());
    is_served || (class_of(configs, tool) == EffectClass::Pure && !makes_calls(configs, tool))
}

fn makes_calls(configs: &baton_types::config::Configs, tool: &str) -> bool {
    configs.tools.get(tool).is_some_and(|tool| !tool.calls.is_empty())
}
