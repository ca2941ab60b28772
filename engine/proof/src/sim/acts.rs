//! Events of a simulated run besides the answers of its script: returns of calls, acts of people, passing time and crashes.

use std::time::Duration;

use baton_types::call::{CallError, ErrorCode, ModelCall, Suspension};
use baton_types::document::Write;
use baton_types::entry::{Adoption, Fork, ForkPoint, ForkedEffects};
use baton_types::event::{Event, Outcome, Refusal};
use baton_types::id::{CallId, ContentHash, RunId, TaskId};
use baton_types::json::Json;
use baton_types::principal::Principal;
use serde_json::Value;

use super::{Sim, Work};

impl Sim {
    /// Brings `outcome` back for `call`, which need not have been asked for.
    pub fn returned(&mut self, call: &str, outcome: Outcome) -> Result<(), Refusal> {
        self.pending.retain(|work| !matches!(work, Work::Execute(execution) if execution.call.as_str() == call));
        self.event(Event::CallReturned { call: CallId::from(call), outcome })
    }

    /// Suspends `call`, whose code is running, and continues the run.
    pub fn suspended(&mut self, call: &str, suspension: Suspension) {
        self.pending.retain(|work| !matches!(work, Work::Execute(execution) if execution.call.as_str() == call));
        self.event(Event::CallSuspended { call: CallId::from(call), suspension }).expect("the code of a call ends");
        self.settle();
    }

    /// Lets the code of `by` make a call named `name`, and continues the run.
    pub fn makes(&mut self, by: &str, name: &str, asked: ModelCall) -> Result<(), Refusal> {
        self.event(Event::CallMade { by: CallId::from(by), name: name.to_owned(), asked })?;
        self.settle();
        Ok(())
    }

    /// Lets a person deliver `outcome` for `call`, and continues the run.
    pub fn delivered(&mut self, call: &str, outcome: Outcome) -> Result<(), Refusal> {
        let by = Principal::person("ada");
        self.event(Event::ResultDelivered { call: CallId::from(call), by, outcome })?;
        self.settle();
        Ok(())
    }

    /// Lets a person answer, and continues the run.
    pub fn person_answers(&mut self, question: &str, answer: impl Into<Value>) -> Result<(), Refusal> {
        self.person_sends(question, answer, Vec::new())
    }

    /// Lets a person answer with documents, and continues the run.
    pub fn person_sends(&mut self, question: &str, answer: impl Into<Value>, documents: Vec<Write>) -> Result<(), Refusal> {
        let answer = Json::from(answer.into());
        self.event(Event::PersonAnswered {
            question: TaskId::from(question),
            by: Principal::person("ada"),
            answer,
            documents,
            recorded: None,
        })?;
        self.settle();
        Ok(())
    }

    /// Cancels `task` as a person, and continues the run.
    pub fn cancel(&mut self, task: &str) -> Result<(), Refusal> {
        self.event(Event::CancelRequested {
            task: TaskId::from(task),
            reason: "enough".to_owned(),
            by: Principal::person("ada"),
        })?;
        self.settle();
        Ok(())
    }

    /// Continues the run, which has ended, with a request of a person. The simulation has the same configs and one timeline.
    pub fn follow_up(&mut self, request: &str) -> Result<(), Refusal> {
        let from = ForkPoint { run: RunId::from(self.name.as_str()), seq: self.run.last_seq() };
        let run = RunId::new(format!("{}+", self.name));
        let adoption = Adoption {
            prices: self.prices.clone(),
            fork: Some(Fork { run, from, at: self.now, effects: ForkedEffects::default() }),
            follow_up: Some(request.to_owned()),
            ..Adoption::of(ContentHash::of(b"configs"))
        };
        self.event(Event::Adopted { adoption, documents: Vec::new(), by: Principal::person("ada") })?;
        self.settle();
        Ok(())
    }

    /// Lets `seconds` pass, waking the run whenever it asked for it, and continues.
    pub fn wait(&mut self, seconds: u64) {
        let until = self.now.plus(Duration::from_secs(seconds));
        while let Some(wake) = self.run.next_wake().filter(|wake| *wake <= until) {
            self.now = self.now.max(wake);
            self.event(Event::TimePassed).expect("time may pass");
            self.settle();
            assert!(self.run.next_wake() != Some(wake), "the run asks to be woken at {wake}, which has come");
        }
        self.now = self.now.max(until);
    }

    /// Lets `seconds` pass and wakes the run at each moment for which it asked. No call or request returns, and requests that
    /// take too long are stopped.
    pub fn wait_idly(&mut self, seconds: u64) {
        let until = self.now.plus(Duration::from_secs(seconds));
        loop {
            let limited = self.pending.iter().enumerate().filter_map(|(index, work)| match work {
                Work::Prompt { until, .. } => until.map(|until| (until, index)),
                Work::Execute(_) => None,
            });
            let (stop, wake) = (limited.min(), self.run.next_wake());
            match (stop, wake) {
                (Some((at, index)), wake) if at <= until && wake.is_none_or(|wake| at < wake) => {
                    self.now = self.now.max(at);
                    self.stop_request(index);
                }
                (_, Some(wake)) if wake <= until => {
                    self.now = self.now.max(wake);
                    self.event(Event::TimePassed).expect("time may pass");
                }
                _ => break,
            }
        }
        self.now = self.now.max(until);
    }

    /// Stops a request that took longer than its limit allows.
    fn stop_request(&mut self, index: usize) {
        let work = self.pending.remove(index);
        self.stopped.push(work.clone());
        let Work::Prompt { task, turn, request, .. } = work else { return };
        let error = CallError::new(ErrorCode::TimedOut, "the model did not answer in time");
        let failed = Event::ModelFailed { task, turn, model: request.model.clone(), error, uncharged: false };
        self.event(failed).expect("an answer to what was asked is accepted");
    }

    /// Lets another process take the run over: work in flight is lost, and the state is the fold of the timeline.
    pub fn crash(&mut self) {
        self.taken_over(false);
    }

    /// Lets a worker take the run over after the death of its owner. Otherwise as [`Sim::crash`].
    pub fn die(&mut self) {
        self.taken_over(true);
    }

    fn taken_over(&mut self, after_death: bool) {
        self.stopped.append(&mut self.pending);
        self.asked.clear();
        self.run = self.fold();
        self.event(Event::TakenOver { process: "another".to_owned(), after_death }).expect("a run may be taken over");
    }
}
