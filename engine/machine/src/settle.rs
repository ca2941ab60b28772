//! The entry point of events, and the only loop that runs steps.

use baton_types::event::Event;

use crate::prelude::*;
use crate::rules::{
    accept, act, adopt, after, answer, arrive, background, close, code, crash, end, ending, inner, join, limits, people,
    question, retry, start, suspend, text, time, window, writes,
};

impl Run {
    /// Answers `event`, which happens at the moment `at`. Returns the entries that are appended and the effects to perform,
    /// or a refusal, which changes nothing.
    ///
    /// The entries are already applied. A caller that cannot make them durable must drop the run and fold it again.
    ///
    /// # Errors
    /// The errors of [`Run::check`].
    pub fn handle(&mut self, at: Timestamp, event: Event) -> Result<Decision, Refusal> {
        self.check(&event)?;
        let mut draft = Draft::new(self, at);
        begin(&mut draft, event);
        settle(&mut draft);
        Ok(draft.decision)
    }

    /// Checks that [`Run::handle`] would accept `event`. Every refusal comes from here.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn check(&self, event: &Event) -> Result<(), Refusal> {
        let starts = matches!(event, Event::Started { .. });
        if starts != self.started().is_none() {
            return Err(Refusal::Start { started: self.started().is_some() });
        }
        let continues = matches!(event, Event::Adopted { adoption, .. } if adoption.follow_up.is_some());
        match (self.ended(), self.root()) {
            (Some(_), Some(root)) if !continues => return Err(Refusal::Ended { task: root.id.clone() }),
            (None, _) if continues => return Err(Refusal::NotEnded),
            _ => {}
        }
        match event {
            Event::Started { documents, .. } => self.check_new_documents(documents),
            Event::CallMade { by, name, asked } => inner::check(self, by, name, asked),
            Event::CallAsksModel(ask) => code::check(self, ask),
            Event::ResultDelivered { call, by, outcome } => suspend::check(self, call, by, outcome),
            Event::PersonAnswered { question, by, answer, documents, recorded } => {
                people::check_answer(self, question, by, answer, documents)?;
                // A fork takes the answer of its original as it was given.
                if recorded.is_some() { Ok(()) } else { people::check_denial(self, question, answer) }
            }
            Event::CancelRequested { task, .. } => people::check_lives(self, task).map(drop),
            Event::Steered { task, .. } => people::check_steering(self, task),
            Event::Adopted { adoption, documents, by: _ } => adopt::check(self, adoption, documents),
            Event::ModelAnswered { .. }
            | Event::ModelFailed { .. }
            | Event::ModelWaited { .. }
            | Event::RunFailed { .. }
            | Event::CallReturned { .. }
            | Event::CallSuspended { .. }
            | Event::CallHeardModel { .. }
            | Event::PauseRequested { .. }
            | Event::UnpauseRequested { .. }
            | Event::TimePassed
            | Event::TakenOver { .. } => Ok(()),
        }
    }
}

/// Passes an event to the rule that handles it.
fn begin(draft: &mut Draft<'_>, event: Event) {
    match event {
        Event::Started { run, root, documents } => people::start(draft, run, &root, documents),
        Event::ModelAnswered { task, turn, request, answer, recorded } => {
            answer::answered(draft, &task, turn, request, answer, recorded);
        }
        Event::ModelFailed { task, turn, model, error, uncharged } => {
            answer::failed(draft, &task, turn, &model, error, uncharged);
        }
        Event::ModelWaited { task, turn, waited } => answer::waited(draft, &task, turn, waited),
        Event::RunFailed { error } => people::fail_run(draft, error),
        Event::CallReturned { call, outcome } => writes::returned(draft, &call, outcome),
        Event::CallSuspended { call, suspension } => suspend::suspend(draft, &call, suspension),
        Event::ResultDelivered { call, by, outcome } => suspend::deliver(draft, &call, by, outcome),
        Event::CallMade { by, name, asked } => inner::make(draft, &by, &name, asked),
        Event::CallAsksModel(ask) => code::ask(draft, ask),
        Event::CallHeardModel { by, used } => code::hear(draft, &by, used),
        Event::PersonAnswered { question, by, answer, documents, recorded } => {
            people::answer(draft, &question, by, answer, documents, recorded);
        }
        Event::CancelRequested { task, reason, by } => people::cancel(draft, &task, reason, by),
        Event::PauseRequested { by } => people::set_paused(draft, by, true),
        Event::UnpauseRequested { by } => people::set_paused(draft, by, false),
        Event::Steered { task, text, by } => people::steer(draft, task, text, by),
        Event::TimePassed => time::pass(draft),
        Event::TakenOver { process, after_death } => crash::take_over(draft, process, after_death),
        Event::Adopted { adoption, documents, by } => adopt::adopt(draft, adoption, documents, by),
    }
}

/// Runs the steps of `draft` and all steps that follow from them, until none is left. The number of live tasks bounds the
/// loop: each round ends a task, begins calls or asks a model.
fn settle(draft: &mut Draft<'_>) {
    run_steps(draft);
    while draft.run.ended().is_none() {
        if let Some(task) = draft.changed.get(draft.advanced).copied() {
            draft.advanced += 1;
            draft.steps.extend([Step::Start(task), Step::Act { task, from: 0 }, Step::Join(task), Step::EndTurn(task)]);
            run_steps(draft);
            continue;
        }
        let before = draft.decision.entries.len();
        start::waiting(draft);
        run_steps(draft);
        if draft.decision.entries.len() == before {
            draft.then(Step::Admit { place: 0 });
            run_steps(draft);
        }
        if draft.decision.entries.len() == before {
            return;
        }
    }
}

/// Runs the steps of `draft`, which are in order. All steps that follow from a step run before the next one.
fn run_steps(draft: &mut Draft<'_>) {
    // Steps are taken from the end, so the next step must be the last one.
    draft.steps.reverse();
    while let Some(step) = draft.steps.pop() {
        if draft.run.ended().is_some() {
            return;
        }
        let left = draft.steps.len();
        run_step(draft, step);
        draft.steps[left..].reverse();
    }
}

fn run_step(draft: &mut Draft<'_>, step: Step) {
    match step {
        Step::Advance(task) => draft.changed.push(task),
        Step::Arrive { task, from, creating } => arrive::arrive(draft, task, from, creating),
        Step::Start(task) => start::start(draft, task),
        Step::Act { task, from } => act::act(draft, task, from),
        Step::HandOff(call) => close::hand_off(draft, call),
        Step::Conclude { task, result } => accept::conclude(draft, task, result),
        Step::AskAcceptance { task, asked } => accept::ask(draft, task, *asked),
        Step::AskMaster { call, documents } => question::ask_master(draft, call, documents),
        Step::AskAcceptor(call) => question::ask_acceptor(draft, call),
        Step::ManageTasks(call) => background::manage(draft, call),
        Step::EndWaits(task) => background::end_waits(draft, task),
        Step::AskApproval(approval) => question::ask_approval(draft, approval),
        Step::DecideApproval { call, question, call_hash, result } => {
            question::decide_approval(draft, call, question, call_hash, &result);
        }
        Step::TakeOutcome { call, result } => question::take_outcome(draft, call, &result),
        Step::Join(task) => join::join(draft, task),
        Step::Retry(call) => retry::retry(draft, call),
        Step::WakeUp(call) => suspend::wake_up(draft, call),
        Step::Deliver { call, result, envelope } => after::deliver(draft, call, result, envelope),
        Step::EndTurn(task) => end::end_turn(draft, task),
        Step::Text(task) => text::text(draft, task),
        Step::End { task, end } => ending::end(draft, task, *end),
        Step::Close { task, reason } => ending::close(draft, task, reason),
        Step::Escalate(task) => question::escalate(draft, task),
        Step::Fit(task) => window::fit(draft, task),
        Step::Request(task) => limits::request(draft, task),
        // The changed tasks come first, since they may end and so make room.
        Step::Admit { .. } if draft.advanced < draft.changed.len() => {}
        Step::Admit { place } => limits::admit(draft, place),
        Step::Shorten(task) => window::shorten(draft, task),
        Step::Summarise { task, summary } => window::summarise(draft, task, summary),
        Step::WithdrawApprovals => question::withdraw_changed(draft),
        Step::RecoverAll => crash::recover_all(draft),
        Step::Recover { task, recovery } => crash::recover(draft, task, recovery),
        Step::Resume { call, recovery } => crash::resume(draft, call, recovery),
        Step::Interrupt(call) => question::interrupt(draft, call),
        Step::PassTime => time::pass(draft),
    }
}
