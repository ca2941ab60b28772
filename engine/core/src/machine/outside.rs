//! What comes from outside the task graph: the start, people, clocks and crashes.

use std::time::Duration;

use super::check::answer_in;
use super::{CallStage, Draft, Question, Run, TaskState, agent};
use crate::call::{CallError, CallResult, CallStatus, ErrorCode};
use crate::config::{EffectClass, Schema};
use crate::document::Write;
use crate::entry::{
    Control, ControlAction, Entry, FinalState, ForkPoint, Holder, Master, Otherwise, QuestionClosed, QuestionEnd, RunStarted,
    TaskCreated, TaskKind,
};
use crate::event::{Effect, Refusal};
use crate::id::{AgentId, TaskId};
use crate::json::Json;
use crate::limits::LimitKind;
use crate::principal::Principal;

impl Draft<'_> {
    /// The first entries of a run: its start, its documents, its root task.
    pub(super) fn start(&mut self, started: RunStarted, root: &AgentId, documents: Vec<Write>) {
        let configs = self.configs();
        let limits = &agent(&configs, root).limits;
        let request = started.request.clone();
        self.push(Entry::RunStarted(Box::new(started)));
        let attached = documents.into_iter().map(|write| self.write_document(write, None)).collect();
        let seconds = [limits.deadline_seconds, configs.job.limits.deadline_seconds].into_iter().flatten().min();
        self.push(Entry::TaskCreated(Box::new(TaskCreated {
            task: TaskId::root(),
            kind: TaskKind::Root,
            holder: Holder::Agent(root.clone()),
            caller: None,
            tool: None,
            master: Master::Person,
            answers_for: None,
            request,
            documents: attached,
            depth: 0,
            answer_schema: Json::null(),
            deadline: seconds.map(|seconds| self.at.plus(Duration::from_secs(seconds))),
            failed_attempts: 0,
            concern: None,
        })));
    }

    /// A person answers a question; the first valid answer wins. No agent answers in a person's place.
    pub(super) fn person_answered(
        &mut self,
        id: &TaskId,
        by: Principal,
        answer: Json,
        documents: Vec<Write>,
        recorded: Option<ForkPoint>,
    ) {
        let Some(question) = self.task(id).question.clone() else { return };
        let answer = fitting(&question, &answer).unwrap_or(answer);
        let written = documents.into_iter().map(|write| self.write_document(write, Some(by.clone()))).collect();
        let how = QuestionEnd::Answered { by, answer: answer.clone(), recorded };
        self.push(Entry::QuestionClosed(QuestionClosed { task: id.clone(), number: question.number, how }));
        let result = CallResult { status: CallStatus::Success, output: answer.into(), error: None, documents: written };
        self.end_task(id, FinalState::Completed, result, None);
    }

    /// Somebody ends a task and all below it.
    pub(super) fn cancel_requested(&mut self, id: &TaskId, reason: String, by: Principal) {
        self.push(Entry::Control(Control {
            task: Some(id.clone()),
            action: ControlAction::Cancelled { reason: reason.clone() },
            by,
        }));
        let error = CallError::new(ErrorCode::Cancelled, reason);
        self.end_task(id, FinalState::Cancelled, CallResult::error(CallStatus::Cancelled, error), None);
    }

    /// The run cannot go on: its root fails, and everything below it is closed.
    pub(super) fn run_failed(&mut self, error: CallError) {
        self.end_task(&TaskId::root(), FinalState::Failed, CallResult::error(CallStatus::Failed, error), None);
    }

    /// Somebody pauses the run, or lets it go on.
    pub(super) fn paused(&mut self, by: Principal, paused: bool) {
        let action = if paused { ControlAction::Paused } else { ControlAction::Unpaused };
        if self.run.shared.paused != paused {
            self.push(Entry::Control(Control { task: None, action, by }));
        }
    }

    /// Somebody sends a message into the next request of a task.
    pub(super) fn steered(&mut self, id: &TaskId, text: String, by: Principal) {
        self.push(Entry::Control(Control { task: Some(id.clone()), action: ControlAction::Steered { text }, by }));
    }

    /// Ends what has run out of time and tries again what is due, earliest first.
    pub(super) fn time_passed(&mut self) {
        while self.run.shared.ended.is_none() {
            let shared = &self.run.shared;
            let deadline = shared.deadlines.first().filter(|(at, _)| *at <= self.at).cloned();
            let retry = shared.retries.first().filter(|(at, _)| *at <= self.at).cloned();
            match (deadline, retry) {
                (Some((at, id)), retry) if retry.as_ref().is_none_or(|(retry_at, _)| at <= *retry_at) => self.time_out(&id),
                (_, Some((_, call))) => self.try_again(&call),
                (_, None) => return,
            }
        }
    }

    /// A model has not answered in time: the task fails as if the model had.
    pub(super) fn request_timed_out(&mut self, id: &TaskId, error: CallError) {
        let result =
            CallResult { documents: self.task(id).written().cloned().collect(), ..CallResult::error(CallStatus::Timeout, error) };
        self.end_task(id, FinalState::TimedOut, result, Some(LimitKind::TurnSeconds));
    }

    /// A task's deadline has passed. A question does what its asker wanted; any other task is timed out.
    fn time_out(&mut self, id: &TaskId) {
        let question = self.task(id).question.clone().filter(|question| question.closed.is_none());
        let Some(question) = question else {
            let error = CallError::new(ErrorCode::TimedOut, format!("the deadline of task {id} has passed"));
            let result = CallResult {
                documents: self.task(id).written().cloned().collect(),
                ..CallResult::error(CallStatus::Timeout, error)
            };
            self.end_task(id, FinalState::TimedOut, result, Some(LimitKind::Deadline));
            return;
        };
        let number = question.number;
        match &question.otherwise {
            Otherwise::Default(default) => {
                let how = QuestionEnd::Expired { default: default.clone() };
                self.push(Entry::QuestionClosed(QuestionClosed { task: id.clone(), number, how }));
                self.end_task(id, FinalState::Completed, CallResult::success(default.clone()), None);
            }
            Otherwise::Escalate if self.may_escalate(id) => self.escalate(id, &question),
            Otherwise::Escalate | Otherwise::Fail => {
                let how = QuestionEnd::Expired { default: Json::null() };
                self.push(Entry::QuestionClosed(QuestionClosed { task: id.clone(), number, how }));
                let error = CallError::new(ErrorCode::Unanswered, format!("nobody answered question Q{number} in time"));
                self.end_task(id, FinalState::TimedOut, CallResult::error(CallStatus::Timeout, error), None);
            }
        }
    }

    /// Whether a question can go on to a next master: an agent holds it, one more task may live, and an agent that is
    /// asked next has a turn left to be set aside. Whoever did not answer in time may have used its own by now.
    fn may_escalate(&self, id: &TaskId) -> bool {
        let (run, shared) = (&self.run.configs.job.limits, &self.run.shared);
        self.task(id).holder != Holder::Person
            && run.live_tasks.is_none_or(|allowed| shared.live_tasks < allowed)
            && (self.master_of(id).0 == Holder::Person
                || run.turns.is_none_or(|allowed| shared.turns + shared.live_agent_tasks <= allowed))
    }

    /// Passes an unanswered question on to the next master. The first task stays blocked and ends with the same answer.
    fn escalate(&mut self, id: &TaskId, question: &super::Question) {
        let (holder, answers_for, master) = self.master_of(id);
        let next = TaskId::new(format!("{id}/escalated"));
        let reason = "the question went on to the next master";
        self.close_below(id, reason);
        self.stop(id);
        self.close_calls(id, reason);
        let how = QuestionEnd::Escalated { to: holder.clone(), task: next.clone() };
        self.push(Entry::QuestionClosed(QuestionClosed { task: id.clone(), number: question.number, how }));
        let created = TaskCreated {
            task: next,
            kind: TaskKind::Question,
            holder,
            caller: Some(id.clone()),
            tool: self.task(id).tool.as_ref().map(ToString::to_string),
            master,
            answers_for,
            request: question.text.clone(),
            documents: question.documents.clone(),
            depth: self.task(id).depth,
            answer_schema: question.answer_schema.clone(),
            deadline: None,
            failed_attempts: 0,
            concern: None,
        };
        self.push(Entry::TaskCreated(Box::new(created.clone())));
        self.open_question(&created, &question.asker, Otherwise::Fail);
    }

    /// A process took the run over: what was in flight is gone. Requests are asked again; calls are run again where
    /// that is safe, and are in doubt where it is not.
    pub(super) fn taken_over(&mut self, process: String) {
        let action = ControlAction::TakenOver { process };
        self.push(Entry::Control(Control { task: None, action, by: Principal::Engine }));
        let live: Vec<TaskId> = self.run.graph.iter().filter(|task| task.is_live()).map(|task| task.id.clone()).collect();
        for id in live {
            if self.is_live(&id) {
                self.recover(&id, Recovery::AfterCrash);
            }
        }
    }

    /// Lets `id` go on where what was in flight for it is gone.
    pub(super) fn recover(&mut self, id: &TaskId, recovery: Recovery) {
        let task = self.task(id);
        if task.holder == Holder::Person {
            self.decision.effects.push(Effect::AskPerson { question: id.clone() });
            return;
        }
        let Some(open) = task.open.clone() else { return };
        if open.requested {
            let (turn, reserved_tokens) = (open.turn, task.reserved_tokens);
            // The task is ready from here on, and is asked again as limits admit it.
            match recovery {
                Recovery::AfterCrash if open.uncharged => self.settle_at_nothing(id, turn),
                // What it used nobody will say.
                Recovery::AfterCrash => self.settle_at_worst(id, turn, reserved_tokens),
                // The original made the request and has it in its books.
                Recovery::InFork => self.settle_at_nothing(id, turn),
            }
            return;
        }
        if task.state != TaskState::Running && open.running_functions == 0 {
            return;
        }
        match recovery {
            Recovery::AfterCrash => self.settle_asks(id, None),
            Recovery::InFork => self.leave_asks_to_original(id),
        }
        let configs = self.configs();
        for (index, call) in open.calls.iter().enumerate() {
            let runs_code = call.tool_type.is_some_and(|tool_type| tool_type.behavior().runs_code);
            if call.stage != CallStage::Running || !runs_code {
                continue;
            }
            let tool = &configs.tools[call.asked.tool.as_str()];
            let is_as_approved = call.approved.is_none_or(|binds| tool.bound_hash(&call.asked.input) == binds);
            // In a fork the shell knows what became of the call in the original.
            if tool.effect == EffectClass::AtMostOnce && recovery == Recovery::AfterCrash {
                self.interrupted(id, index, tool);
            } else if !is_as_approved {
                // It began as what was approved, and would begin again as something else.
                let result = CallResult::error(CallStatus::Failed, super::approval::changed(tool));
                self.finish_call(id, index, result, None, Vec::new());
                self.changed.push_back(id.clone());
            } else {
                let agent = self.task(id).agent().expect("only agents make calls").clone();
                self.decision.effects.push(Effect::Execute {
                    task: id.clone(),
                    agent,
                    call: open.calls[index].id.clone(),
                    tool: tool.id.clone(),
                    input: call.asked.input.clone(),
                });
            }
        }
    }
}

impl Run {
    /// New documents must neither look like ones that exist nor like one another.
    pub(super) fn check_new_documents(&self, writes: &[Write]) -> Result<(), Refusal> {
        let mut names = self.shared.documents.names().clone();
        for write in writes {
            if let Some(twin) = names.twin(&write.path) {
                let reason = format!("it looks like the document {twin}, or one of them would be a folder of the other");
                return Err(Refusal::InvalidDocument { path: write.path.to_string(), reason });
            }
            names.insert(&write.path);
        }
        Ok(())
    }

    pub(super) fn check_answer(&self, id: &TaskId, by: &Principal, answer: &Json, documents: &[Write]) -> Result<(), Refusal> {
        let task = self.task(id).ok_or_else(|| Refusal::UnknownTask { task: id.clone() })?;
        let question = task.question.as_ref().filter(|_| task.holder == Holder::Person);
        let question = question.ok_or_else(|| Refusal::NotAsked { task: id.clone() })?;
        if !by.is_outside() {
            return Err(Refusal::NotAPerson { by: by.clone() });
        }
        if let Some(closed) = &question.closed {
            return Err(Refusal::QuestionClosed { number: question.number, how: describe(closed) });
        }
        fitting(question, answer).map_err(|reason| Refusal::InvalidAnswer { reason })?;
        self.check_new_documents(documents)
    }

    pub(super) fn check_steering(&self, id: &TaskId) -> Result<(), Refusal> {
        self.check_lives(id)?;
        match self.existing(id).holder {
            Holder::Person => Err(Refusal::NoModel { task: id.clone() }),
            Holder::Agent(_) => Ok(()),
        }
    }

    pub(super) fn check_lives(&self, id: &TaskId) -> Result<(), Refusal> {
        match self.task(id) {
            None => Err(Refusal::UnknownTask { task: id.clone() }),
            Some(task) if !task.is_live() => Err(Refusal::Ended { task: id.clone() }),
            Some(_) => Ok(()),
        }
    }
}

/// The answer as the question's schema reads it, or why it does not fit.
fn fitting(question: &Question, answer: &Json) -> Result<Json, String> {
    if question.answer_schema.is_null() {
        return Ok(answer.clone());
    }
    let schema = Schema::compile(&question.answer_schema.value())?;
    let value = answer.value();
    let fits = answer_in(&schema, &value);
    fits.map(Json::from).map_err(|faults| {
        let messages: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
        messages.join("; ")
    })
}

/// Why what was in flight is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recovery {
    /// The process that waited for it is gone.
    AfterCrash,
    /// It is another run's.
    InFork,
}

/// How a question was closed, for whoever came late.
fn describe(end: &QuestionEnd) -> String {
    match end {
        QuestionEnd::Answered { by, answer, .. } => format!("{by} answered {}", answer.text()),
        QuestionEnd::Expired { .. } => "its deadline passed".to_owned(),
        QuestionEnd::Escalated { to, .. } => format!("it went on to {to}"),
        QuestionEnd::Failed { reason } => reason.clone(),
    }
}
