//! The way in for events: one check, then each kind of event goes to the file that knows it.

use super::{Draft, Run};
use crate::event::{Decision, Event, Refusal};
use crate::id::TaskId;
use crate::time::Timestamp;

/// Whether `event` is accepted. The only source of refusals.
pub(super) fn check(run: &Run, event: &Event) -> Result<(), Refusal> {
    let starts = matches!(event, Event::Started { .. });
    if starts != run.started().is_none() {
        return Err(Refusal::Start { started: run.started().is_some() });
    }
    if run.ended().is_some() {
        return Err(Refusal::Ended { task: TaskId::root() });
    }
    match event {
        Event::Started { documents, .. } => run.check_new_documents(documents),
        Event::CallAsksModel { by, model: _, input_tokens, output_tokens, worst_cost } => {
            run.check_ask(by, *input_tokens, *output_tokens, *worst_cost)
        }
        Event::PersonAnswered { question, by, answer, documents, recorded: _ } => {
            run.check_answer(question, by, answer, documents)
        }
        Event::CancelRequested { task, .. } => run.check_lives(task),
        Event::Steered { task, .. } => run.check_steering(task),
        Event::Adopted { adoption, documents, by: _ } => run.check_adoption(adoption, documents),
        Event::ModelAnswered { .. }
        | Event::ModelFailed { .. }
        | Event::ModelWaited { .. }
        | Event::RunFailed { .. }
        | Event::CallReturned { .. }
        | Event::CallHeardModel { .. }
        | Event::PauseRequested { .. }
        | Event::UnpauseRequested { .. }
        | Event::TimePassed
        | Event::TakenOver { .. } => Ok(()),
    }
}

/// Appends the entries that answer `event`.
pub(super) fn handle(run: &mut Run, at: Timestamp, event: Event) -> Result<Decision, Refusal> {
    check(run, &event)?;
    let mut draft = Draft::new(run, at);
    match event {
        Event::Started { run, root, documents } => draft.start(run, &root, documents),
        Event::ModelAnswered { task, turn, request, answer, recorded } => {
            draft.model_answered(&task, turn, request, answer, recorded);
        }
        Event::ModelFailed { task, turn, model, error, uncharged } => {
            draft.model_failed(&task, turn, &model, error, uncharged);
        }
        Event::ModelWaited { task, turn, waited } => draft.model_waited(&task, turn, waited),
        Event::RunFailed { error } => draft.run_failed(error),
        Event::CallReturned { call, outcome } => draft.call_returned(&call, outcome),
        Event::CallAsksModel { by, model, input_tokens, output_tokens, worst_cost } => {
            draft.call_asks_model(by, model, input_tokens, output_tokens, worst_cost);
        }
        Event::CallHeardModel { by, used } => draft.call_heard_model(&by, used),
        Event::PersonAnswered { question, by, answer, documents, recorded } => {
            draft.person_answered(&question, by, answer, documents, recorded);
        }
        Event::CancelRequested { task, reason, by } => draft.cancel_requested(&task, reason, by),
        Event::PauseRequested { by } => draft.paused(by, true),
        Event::UnpauseRequested { by } => draft.paused(by, false),
        Event::Steered { task, text, by } => draft.steered(&task, text, by),
        Event::TimePassed => draft.time_passed(),
        Event::TakenOver { process } => draft.taken_over(process),
        Event::Adopted { adoption, documents, by } => draft.adopted(adoption, documents, by),
    }
    draft.settle();
    Ok(draft.decision)
}

impl Draft<'_> {
    /// Follows what the entries so far have led to, until nothing more follows. Bounded by the number of live tasks:
    /// each round ends a task, begins calls or asks a model.
    fn settle(&mut self) {
        while self.run.ended().is_none() {
            if let Some(task) = self.changed.pop_front() {
                self.advance(&task);
            } else if !self.start_waiting_calls() && !self.admit_ready() {
                break;
            }
        }
    }
}
