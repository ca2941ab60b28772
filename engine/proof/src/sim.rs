//! A shell without threads, files or clocks: drives one run by a script and a schedule, and lets nothing pass unchecked.
//!
//! After every batch the run must equal the fold of the timeline as it reads back from JSON, both must decide the next
//! event alike, and the [`Ledger`] must find nothing wrong. Every request must begin with the one before it.

mod acts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use baton_config::{PriceTable, prices};
use baton_machine::Run;
use baton_types::call::{CallError, CallResult, CallStatus, ErrorCode};
use baton_types::config::Configs;
use baton_types::document::{Content, Write};
use baton_types::entry::{Entry, Recorded, RunStarted};
use baton_types::event::{Decision, Effect, Event, Outcome, Refusal};
use baton_types::id::{CallId, ContentHash, TaskId};
use baton_types::model::{ModelRequest, ModelTurn, Usage};
use baton_types::money::Price;
use baton_types::time::Timestamp;

use crate::decision::effects_match;
use crate::jobs::{JobDraft, started};
use crate::ledger::{Ledger, TaskBook};
use crate::random::Random;
use crate::recount::Recount;
use crate::requests::Requests;
use crate::script::{Answer, Execution, Prompted, Script, table};

/// Up to here the run is compared with the fold of its timeline after every event; later at every [`CHECKPOINT`].
const EACH_ENTRY: u64 = 200;

/// Entries between two later comparisons: each costs time in proportion to the run's tasks.
const CHECKPOINT: u64 = 64;

/// Something the shell works on.
#[derive(Clone, Debug)]
pub enum Work {
    /// A model is asked.
    Prompt {
        /// Its task.
        task: TaskId,
        /// Which of its turns.
        turn: u32,
        /// The model's request.
        request: Arc<ModelRequest>,
        /// When it is stopped, if it may not take longer.
        until: Option<Timestamp>,
    },
    /// A function runs.
    Execute(Execution),
}

impl Work {
    /// Returns the task that it is done for.
    pub fn task(&self) -> &TaskId {
        match self {
            Self::Prompt { task, .. } => task,
            Self::Execute(execution) => &execution.task,
        }
    }

    fn is_call_of(&self, tool: &str) -> bool {
        matches!(self, Self::Execute(execution) if execution.tool.as_str() == tool)
    }
}

/// Which work ends first.
enum Schedule {
    FirstComeFirstServed,
    Chance(Random),
}

/// One run and the world round it.
pub struct Sim {
    /// Configs of the run.
    pub configs: Arc<Configs>,
    /// Prices of its models, as in its start.
    pub prices: BTreeMap<String, Price>,
    /// The id of the run.
    pub name: String,
    /// The run itself.
    pub run: Run,
    /// The books, kept from the entries alone.
    pub ledger: Ledger,
    /// Every entry so far.
    pub timeline: Vec<Recorded>,
    /// The contents that the machine wrote.
    pub contents: BTreeMap<ContentHash, Content>,
    /// End of each batch in the timeline.
    pub batches: Vec<usize>,
    /// The moment that the next event comes after.
    pub now: Timestamp,
    /// Work in progress in the shell.
    pub pending: Vec<Work>,
    /// The model that replaces all models of the run.
    model: Option<String>,
    /// Work that was stopped, whose answers may still arrive.
    pub stopped: Vec<Work>,
    /// Questions that wait for a person, in the order in which they came up.
    pub asked: Vec<TaskId>,
    /// Results that the code of calls was given, in order.
    pub returned: Vec<(CallId, Arc<CallResult>)>,
    /// Whether the shell was released.
    pub ended: bool,
    /// Sum of the usage in model answers.
    pub used: Usage,
    /// The requests, as a shell renders them.
    pub requests: Requests,
    recount: Recount,
    mirror: Run,
    script: Script,
    schedule: Schedule,
    held: BTreeSet<String>,
    executed: BTreeMap<CallId, u32>,
}

impl Sim {
    /// Returns a run of `job` that has not started.
    pub fn new(job: &JobDraft) -> Self {
        let configs = job.build();
        Self {
            run: Run::new(Arc::clone(&configs)),
            mirror: Run::new(Arc::clone(&configs)),
            requests: Requests::new(Arc::clone(&configs)),
            recount: Recount::default(),
            ledger: Ledger::new(Arc::clone(&configs)),
            prices: prices(&configs, None, |_| false, PriceTable::embedded),
            configs,
            name: "run".to_owned(),
            timeline: Vec::new(),
            contents: BTreeMap::new(),
            batches: Vec::new(),
            now: Timestamp::from_micros(1_000_000_000),
            pending: Vec::new(),
            model: None,
            stopped: Vec::new(),
            asked: Vec::new(),
            returned: Vec::new(),
            ended: false,
            used: Usage::default(),
            script: Script::default(),
            schedule: Schedule::FirstComeFirstServed,
            held: BTreeSet::new(),
            executed: BTreeMap::new(),
        }
    }

    /// Gives `agent` these `turns`, one after the other, in each of its own tasks.
    pub fn agent(mut self, agent: &str, turns: impl IntoIterator<Item = ModelTurn>) -> Self {
        self.script.model(agent, false, table(agent, turns.into_iter().collect()));
        self
    }

    /// Gives `agent` these `turns`, one after the other, in each question that it answers.
    pub fn answers(mut self, agent: &str, turns: impl IntoIterator<Item = ModelTurn>) -> Self {
        self.script.model(agent, true, table(agent, turns.into_iter().collect()));
        self
    }

    /// Lets `model` answer for `agent`, in its own tasks.
    pub fn agent_with(mut self, agent: &str, model: impl FnMut(&Prompted<'_>) -> Answer + 'static) -> Self {
        self.script.model(agent, false, model);
        self
    }

    /// Lets `model` answer for `agent`, in the questions that it answers.
    pub fn answers_with(mut self, agent: &str, model: impl FnMut(&Prompted<'_>) -> Answer + 'static) -> Self {
        self.script.model(agent, true, model);
        self
    }

    /// Sets the executor of `tool`.
    pub fn tool(mut self, tool: &str, executor: impl FnMut(&Execution) -> Outcome + 'static) -> Self {
        self.script.executor(tool, executor);
        self
    }

    /// Lets running work end in a random order, given by `seed`.
    pub fn by_chance(mut self, seed: u64) -> Self {
        self.schedule = Schedule::Chance(Random::seeded(seed));
        self
    }

    /// Calls of `tool` do not end until they are released.
    pub fn holding(mut self, tool: &str) -> Self {
        self.held.insert(tool.to_owned());
        self
    }

    /// Starts, and continues until nothing more happens by itself.
    pub fn start(self) -> Self {
        self.start_with(Vec::new())
    }

    /// As [`Sim::start`], in a workspace that holds `documents`.
    pub fn start_with(mut self, documents: Vec<Write>) -> Self {
        self.begin(documents);
        self.settle();
        self
    }

    /// Replaces all models of the run.
    pub fn with_model(mut self, model: &str) -> Self {
        self.model = Some(model.to_owned());
        self
    }

    /// Starts, and does nothing that the start asks for.
    pub fn begin(&mut self, documents: Vec<Write>) {
        let run = RunStarted {
            run: self.name.as_str().into(),
            model: self.model.clone(),
            prices: self.prices.clone(),
            ..started(&self.configs)
        };
        let root = self.configs.job.root.clone();
        self.event(Event::Started { run, root, documents }).expect("a new run starts");
    }

    /// Continues until nothing more happens by itself.
    pub fn settle(&mut self) {
        for _ in 0..1_000_000 {
            if !self.step() {
                return;
            }
        }
        panic!("the run does not come to rest");
    }

    /// Ends one piece of work; false if there is none.
    pub fn step(&mut self) -> bool {
        let ready: Vec<usize> = (0..self.pending.len()).filter(|index| !self.is_held(&self.pending[*index])).collect();
        if ready.is_empty() {
            return false;
        }
        let next = match &mut self.schedule {
            Schedule::FirstComeFirstServed => ready[0],
            Schedule::Chance(random) => *random.pick(&ready),
        };
        let work = self.pending.remove(next);
        self.finish(work).expect("an answer to what was asked is accepted");
        true
    }

    fn is_held(&self, work: &Work) -> bool {
        self.held.iter().any(|tool| work.is_call_of(tool))
    }

    /// Lets the calls of `tool` end, and continues.
    pub fn release(&mut self, tool: &str) {
        self.held.remove(tool);
        self.settle();
    }

    /// Brings the answer to `work` back.
    pub fn finish(&mut self, work: Work) -> Result<(), Refusal> {
        match work {
            Work::Prompt { task, turn, request, until: _until } => {
                let open = self.ledger.tasks[&task].request.as_ref();
                let (reserved, input) = open.map_or((0, 0), |open| (open.reserved, open.input));
                let answer = self.script.answer(&Prompted { task: &task, turn, request: &request, reserved, input });
                let (hash, model) = (request.hash, request.model.clone());
                match answer {
                    Ok(answer) => self.event(Event::ModelAnswered { task, turn, request: hash, answer, recorded: None }),
                    Err(error) => self.event(Event::ModelFailed { task, turn, model, error, uncharged: false }),
                }
            }
            Work::Execute(execution) => {
                let outcome = self.script.execute(&execution);
                self.event(Event::CallReturned { call: execution.call, outcome })
            }
        }
    }

    /// Returns the fold of the timeline after a round trip through JSON.
    pub fn fold(&self) -> Run {
        let mut run = Run::new(Arc::clone(&self.configs));
        for recorded in &self.timeline {
            run.apply(&read_back(recorded));
        }
        run
    }

    /// Sends `event` in, and does what the shell does with the decision.
    pub fn event(&mut self, event: Event) -> Result<(), Refusal> {
        self.now = self.now.plus(Duration::from_millis(1));
        if let Event::ModelAnswered { answer, .. } = &event
            && let Some(usage) = &answer.usage
        {
            self.used.add(usage);
        }
        let checked = self.run.check(&event);
        let is_compared = is_compared(self.run.last_seq());
        let again = is_compared.then(|| self.mirror.clone().handle(self.now, event.clone()));
        let handled = self.run.handle(self.now, event);
        if let Some(again) = again {
            assert_eq!(handled, again, "the run and the fold of its timeline decide alike");
        }
        match handled {
            Ok(decision) => {
                checked.expect("what is handled was accepted");
                self.commit(decision);
                Ok(())
            }
            Err(refusal) => {
                assert_eq!(checked, Err(refusal.clone()), "only the check refuses");
                assert!(!is_compared || self.run == self.mirror, "a refused event has changed the run: {refusal}");
                Err(refusal)
            }
        }
    }

    fn commit(&mut self, decision: Decision) {
        for recorded in &decision.entries {
            self.mirror.apply(&read_back(recorded));
            self.ledger.entry(recorded);
            self.recount.apply(recorded);
            self.requests.apply(recorded, &self.mirror, &mut self.ledger);
        }
        if decision.entries.iter().any(|recorded| is_compared(recorded.seq)) {
            let entries = &decision.entries;
            assert!(
                self.run == self.mirror,
                "state_is_the_fold: after {entries:?} the run differs from the fold of its timeline"
            );
        }
        self.timeline.extend(decision.entries.iter().map(|recorded| Recorded::clone(recorded)));
        self.batches.push(self.timeline.len());
        self.ledger.end_batch();
        self.ledger.compare(&self.run);
        let tasks = &self.ledger.tasks;
        self.asked.retain(|question| tasks[question].ended.is_none());
        self.judge();
        effects_match(&decision).unwrap_or_else(|what| panic!("{what}"));
        self.ended &=
            !decision.entries.iter().any(|recorded| recorded.entry.adopts().is_some_and(|with| with.follow_up.is_some()));
        assert!(!self.ended || decision.effects.is_empty(), "effects after the end: {:?}", decision.effects);
        self.contents.extend(decision.contents);
        for effect in decision.effects {
            self.perform(effect);
        }
        self.judge();
        self.check_rest();
    }

    /// Ends the test at a finding of the ledger.
    fn judge(&self) {
        if let Some(finding) = self.ledger.findings().first() {
            panic!("{finding}");
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Prompt { task, turn } => {
                let running = self.pending.iter().any(|work| *work.task() == task);
                assert!(!running, "one_owner_one_turn: {task} is prompted while something of it runs");
                let request = self.requests.request(&task, &mut self.ledger);
                assert_eq!(request.turn, turn);
                self.recount.check(&request, &self.run);
                let until = self.run.turn_limit(&task).map(|limit| self.now.plus(limit));
                self.pending.push(Work::Prompt { task, turn, request, until });
            }
            Effect::Execute { task, agent, call, tool, input } => {
                let twice = self.pending.iter().any(|work| matches!(work, Work::Execute(other) if other.call == call));
                assert!(!twice, "no_effect_twice: {call} is executed while it runs");
                *self.executed.entry(call.clone()).or_default() += 1;
                self.pending.push(Work::Execute(Execution { task, agent, call, tool, input }));
            }
            Effect::Return { call, result } => self.returned.push((call, result)),
            Effect::StopCall { call } => {
                let is_stopped = |work: &Work| matches!(work, Work::Execute(execution) if execution.call == call);
                let (stopped, pending) = std::mem::take(&mut self.pending).into_iter().partition(is_stopped);
                self.stopped.append(&mut { stopped });
                self.pending = pending;
            }
            Effect::AskPerson { question } => {
                // A later entry of the same decision may have ended it.
                let lives = self.ledger.tasks[&question].ended.is_none();
                if lives && !self.asked.contains(&question) {
                    self.asked.push(question);
                }
            }
            Effect::Stop { task } => {
                let (stopped, pending) = std::mem::take(&mut self.pending).into_iter().partition(|work| *work.task() == task);
                self.stopped.append(&mut { stopped });
                self.pending = pending;
            }
            Effect::EndRun => {
                assert!(self.ledger.run_ended, "the shell is released before the run has ended");
                self.ended = true;
            }
        }
    }

    /// Checks `every_run_ends`, as far as a shell without delays can see it: every live task is in progress or waits for
    /// something.
    fn check_rest(&self) {
        if self.ended {
            assert!(self.pending.is_empty(), "the run has ended and {:?} runs", self.pending);
            return;
        }
        for work in &self.pending {
            assert!(
                self.ledger.tasks[work.task()].ended.is_none(),
                "cancelled_stays_quiet: {work:?} runs on for a task that has ended"
            );
        }
        if self.run.totals().paused {
            return;
        }
        for (id, book) in self.ledger.live_tasks() {
            let runs = self.pending.iter().any(|work| work.task() == id);
            let asks = self.asked.contains(id);
            let waits = self.ledger.counts(id).suspended > 0
                || self.ledger.live_tasks().any(|(_, below)| below.created.caller.as_ref() == Some(id))
                || (self.ledger.waits_for_an_attempt(id) && self.run.next_wake().is_some());
            // It may wait for a place among the run's parallel calls, or for tokens that others have reserved.
            let others_run = !self.pending.is_empty();
            assert!(runs || asks || waits || others_run, "{id} lives without work in progress: {book:?}");
        }
    }

    /// Returns the number of times that the executor of `call` was started.
    pub fn executions(&self, call: &str) -> u32 {
        self.executed.get(call).copied().unwrap_or(0)
    }

    /// Returns the results that code was given, each with the call that has it, in order.
    pub fn given_to_code(&self) -> Vec<(&str, CallStatus)> {
        self.returned.iter().map(|(call, result)| (call.as_str(), result.status)).collect()
    }

    /// Returns the books of `task`.
    pub fn task(&self, task: &str) -> &TaskBook {
        &self.ledger.tasks[&TaskId::from(task)]
    }

    /// Returns the newest request of `task`.
    pub fn request(&self, task: &str) -> Arc<ModelRequest> {
        self.requests.newest(&TaskId::from(task))
    }

    /// Returns the entries of the batch that holds the first entry for which `wanted` is true.
    pub fn batch_with(&self, wanted: impl Fn(&Entry) -> bool) -> &[Recorded] {
        let place = self.timeline.iter().position(|recorded| wanted(&recorded.entry)).expect("there is such an entry");
        let batch = self.batches.partition_point(|end| *end <= place);
        let start = if batch == 0 { 0 } else { self.batches[batch - 1] };
        &self.timeline[start..self.batches[batch]]
    }

    /// Takes the work on `task` out of the shell's hands.
    pub fn take_work(&mut self, task: &str) -> Work {
        let index = self.pending.iter().position(|work| work.task().as_str() == task);
        self.pending.remove(index.unwrap_or_else(|| panic!("nothing runs for {task}")))
    }

    /// Returns an error for a model that gives no answer.
    pub fn model_error() -> CallError {
        CallError::new(ErrorCode::ModelFailed, "the provider is down")
    }

    /// Asserts that nothing runs, that the run has ended, and that its end can be reproduced.
    pub fn assert_over(&self) {
        assert!(self.ended, "the run has not ended:\n{}", crate::print::timeline(&self.timeline));
        assert!(self.pending.is_empty() && self.asked.is_empty());
        assert!(self.fold() == self.run, "state_is_the_fold: the run is the fold of its timeline");
        let read: Vec<Recorded> = self.timeline.iter().map(read_back).collect();
        let report = crate::checker::verify(&self.configs, &read);
        assert_eq!(report.findings, [], "the timeline holds when it is read back");
        assert!(report.requests.same_as(&self.requests), "requests_are_reproducible: the same fold gives the same requests");
    }
}

/// `recorded` as it comes back from the store.
pub fn read_back(recorded: &Recorded) -> Recorded {
    let text = serde_json::to_string(recorded).expect("an entry serialises");
    let read: Recorded = serde_json::from_str(&text).unwrap_or_else(|error| panic!("an entry reads back ({error}): {text}"));
    assert_eq!(read, *recorded, "an entry reads back as it was");
    read
}

impl Drop for Sim {
    /// Prints the run if the test failed.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", crate::print::timeline(&self.timeline));
        }
    }
}

/// Whether the run is compared with the fold of its timeline at entry `seq`.
fn is_compared(seq: u64) -> bool {
    seq <= EACH_ENTRY || seq.is_multiple_of(CHECKPOINT)
}
