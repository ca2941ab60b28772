//! The only code that changes state. One function per entry, by what the entry is about; none can fail, none decides.

mod calls;
mod tasks;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use rpds::VectorSync;

pub(super) use self::turns::counts;
use super::adopt;
use super::task::Task;
use super::world::World;
use crate::document::{DocumentRef, DocumentVersion};
use crate::entry::{Control, ControlAction, Entry, Recorded, RunStarted};
use crate::id::TaskId;
use crate::render;
use crate::time::Timestamp;

/// Applies `recorded` to the state or to a look ahead.
pub(super) fn apply<W: World>(world: &mut W, recorded: &Recorded) {
    let expected = world.shared().seq + 1;
    assert_eq!(recorded.seq, expected, "entries are applied in order and without gaps");
    world.shared_mut().seq = recorded.seq;
    let (at, latest) = (recorded.at, world.shared().latest);
    world.shared_mut().latest = at;
    match &recorded.entry {
        Entry::RunStarted(entry) => run_started(world, at, entry),
        Entry::TaskCreated(entry) => tasks::task_created(world, at, entry),
        Entry::ModelRequested(entry) => turns::model_requested(world, at, entry),
        Entry::FellBack(entry) => turns::fell_back(world, entry),
        Entry::ModelAnswered(entry) => turns::model_answered(world, at, entry),
        Entry::CallRefused(entry) => calls::call_refused(world, at, entry),
        Entry::CallApproved(entry) => calls::call_approved(world, at, entry),
        Entry::CallStarted(entry) => calls::call_started(world, at, entry),
        Entry::CallAskedModel(entry) => turns::call_asked_model(world, entry),
        Entry::CallFinished(entry) => calls::call_finished(world, at, entry),
        Entry::DocumentWritten(entry) => document_written(world, entry),
        Entry::QuestionOpened(entry) => tasks::question_opened(world, entry),
        Entry::QuestionClosed(entry) => tasks::question_closed(world, at, entry),
        Entry::BudgetSettled(entry) => turns::budget_settled(world, at, entry),
        Entry::Compacted(entry) => turns::compacted(world, entry),
        // What goes to the user changes nothing that decides.
        Entry::Output(_) => {}
        Entry::Control(entry) => control(world, at, latest, entry),
        Entry::SubtreeClosed(entry) => tasks::subtree_closed(world, at, entry),
        Entry::TaskEnded(entry) => tasks::task_ended(world, at, entry),
        Entry::RunEnded(entry) => world.shared_mut().ended = Some(entry.clone()),
    }
}

fn known<'w, W: World>(world: &'w mut W, id: &TaskId) -> &'w mut Task {
    world.task_mut(id).unwrap_or_else(|| panic!("an entry names task {id}, which no entry created"))
}

fn run_started<W: World>(world: &mut W, at: Timestamp, entry: &RunStarted) {
    let limited = world.configs().job.limits.has_budget();
    let shared = world.shared_mut();
    shared.started = Some(Arc::new(entry.clone()));
    shared.started_at = at;
    shared.has_budgets = limited;
}

fn document_written<W: World>(world: &mut W, version: &Arc<DocumentVersion>) {
    world.shared_mut().documents.insert(Arc::clone(version));
    if let Some(id) = &version.task {
        let task = known(world, id);
        task.learn(version.path.clone(), version.version);
        let written = &mut Arc::make_mut(task.documents.get_or_insert_default()).written;
        let reference = version.reference();
        let place = |written: &VectorSync<DocumentRef>| written.iter().position(|written| written.path == version.path);
        // A first version is of a document that nobody wrote before.
        match (version.version > 1).then(|| place(written)).flatten() {
            Some(index) => {
                written.set_mut(index, reference);
            }
            None => written.push_back_mut(reference),
        }
    }
}

fn control<W: World>(world: &mut W, at: Timestamp, latest: Timestamp, entry: &Control) {
    match (&entry.action, &entry.task) {
        (ControlAction::Paused, _) => world.shared_mut().paused = true,
        (ControlAction::Unpaused, _) => world.shared_mut().paused = false,
        (ControlAction::Steered { text }, Some(task)) => {
            let task = known(world, task);
            task.context_tokens += render::steer_tokens(text);
            task.steering.push(text.clone());
        }
        (ControlAction::Adopted(adoption), _) => {
            adopt::adopted(world, at, adoption);
            if adoption.fork.is_none() {
                rested(world, at.since(latest));
            }
        }
        // No process worked for the run since its last entry.
        (ControlAction::TakenOver { .. }, _) => rested(world, at.since(latest)),
        (ControlAction::Waited(waited), Some(task)) => turns::waited(world, task, waited),
        (
            ControlAction::Steered { .. }
            | ControlAction::Cancelled { .. }
            | ControlAction::Waited(_)
            | ControlAction::Late { .. },
            _,
        ) => {}
    }
}

/// Takes `time`, which has just passed, from the worked time of all tasks and of the run.
fn rested<W: World>(world: &mut W, time: Duration) {
    for id in world.tasks() {
        if world.task(&id).is_some_and(|task| task.working_since.is_some()) {
            let task = known(world, &id);
            task.working_since = task.working_since.map(|since| since.plus(time));
        }
    }
    let shared = world.shared_mut();
    shared.active_since = shared.active_since.map(|since| since.plus(time));
}
