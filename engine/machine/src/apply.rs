//! The only code that changes state: one function per kind of entry. No function here returns an error or decides anything.

mod adopt;
mod calls;
mod tasks;
mod turns;

use crate::prelude::*;

impl Run {
    /// Applies one entry of a timeline to the state.
    ///
    /// # Panics
    /// If the entry is not the next one, or names something that no earlier entry created. [`Run::handle`] makes no such
    /// timeline. Also if the entry adopts configs that are neither the run's own nor added with [`Run::know_configs`].
    pub fn apply(&mut self, recorded: &Recorded) {
        let expected = self.shared.seq + 1;
        assert_eq!(recorded.seq, expected, "entries are applied in order and without gaps");
        self.shared.seq = recorded.seq;
        self.shared.decision = recorded.decision;
        let (at, latest) = (recorded.at, self.shared.latest);
        self.shared.latest = at;
        match &recorded.entry {
            Entry::RunStarted(entry) => run_started(self, at, entry),
            Entry::TaskCreated(entry) => tasks::task_created(self, at, entry),
            Entry::ModelRequested(entry) => turns::model_requested(self, at, entry),
            Entry::FellBack(entry) => turns::fell_back(self, entry),
            Entry::ModelAnswered(entry) => turns::model_answered(self, at, entry),
            Entry::CallRefused(entry) => calls::call_refused(self, at, entry),
            Entry::CallApproved(entry) => calls::call_approved(self, at, entry),
            Entry::CallMade(entry) => calls::call_made(self, at, entry),
            Entry::CallSuspended(entry) => calls::call_suspended(self, at, entry),
            Entry::CallStarted(entry) => calls::call_started(self, at, entry),
            Entry::CallAskedModel(entry) => turns::call_asked_model(self, entry),
            Entry::CallFinished(entry) => calls::call_finished(self, at, entry),
            Entry::DocumentWritten(entry) => document_written(self, entry),
            Entry::QuestionOpened(entry) => tasks::question_opened(self, entry),
            Entry::QuestionClosed(entry) => tasks::question_closed(self, at, entry),
            Entry::BudgetSettled(entry) => turns::budget_settled(self, at, entry),
            Entry::Compacted(entry) => turns::compacted(self, entry),
            // An output for the user does not change the state.
            Entry::Output(_) => {}
            Entry::Control(entry) => control(self, at, latest, entry),
            Entry::SubtreeClosed(entry) => tasks::subtree_closed(self, at, entry),
            Entry::TaskEnded(entry) => tasks::task_ended(self, at, entry),
            Entry::TaskReported(entry) => tasks::task_reported(self, at, entry),
            Entry::RunEnded(entry) => self.shared.ended = Some(entry.clone()),
        }
    }
}

/// Returns the task that an entry names.
fn known(run: &Run, id: &TaskId) -> TaskIndex {
    run.graph.find(id.as_str()).unwrap_or_else(|| panic!("an entry names task {id}, which no entry created"))
}

fn run_started(run: &mut Run, at: Timestamp, entry: &RunStarted) {
    let job = &run.configs().job;
    let limited = job.limits.has_budget() || job.session_limits.budget().has_budget();
    let shared = &mut run.shared;
    shared.started = Some(Arc::new(entry.clone()));
    shared.started_at = at;
    shared.has_budgets = limited;
}

fn document_written(run: &mut Run, version: &Arc<DocumentVersion>) {
    run.shared.documents.insert(Arc::clone(version));
    if let Some(id) = &version.task {
        let task = known(run, id);
        let task = &mut run.graph[task];
        task.learn(version);
        let written = &mut task.work_mut().documents.get_or_insert_default().written;
        let reference = version.reference();
        // Version 1 is the first of its document, so no earlier version can be in the list.
        match written.iter_mut().find(|written| version.version > 1 && written.path == version.path) {
            Some(earlier) => *earlier = reference,
            None => written.push(reference),
        }
    }
}

fn control(run: &mut Run, at: Timestamp, latest: Timestamp, entry: &Control) {
    match (&entry.action, &entry.task) {
        (ControlAction::Paused, _) => run.shared.paused = true,
        (ControlAction::Quarantined { .. }, _) => (run.shared.paused, run.shared.quarantined) = (true, true),
        (ControlAction::Unpaused, _) => {
            let shared = &mut run.shared;
            (shared.paused, shared.quarantined, shared.deaths) = (false, false, 0);
        }
        (ControlAction::Steered { text }, Some(task)) => {
            let index = known(run, task);
            let task = &mut run.graph[index];
            let tokens = render::steer_tokens(text);
            if let Principal::Agent(_) = entry.by {
                task.receive(tokens, Vec::new());
            } else {
                task.context_tokens += tokens;
                task.extras.get_or_insert_default().steering.push(text.clone());
            }
            tasks::wake(run, at, index);
        }
        (ControlAction::Adopted(adoption), _) => {
            adopt::adopted(run, at, adoption);
            (run.shared.quarantined, run.shared.deaths) = (false, 0);
            if adoption.fork.is_none() {
                rested(run, at.since(latest));
            }
        }
        // No process worked on the run since its last entry.
        (ControlAction::TakenOver { after_death, .. }, _) => {
            run.shared.deaths += u32::from(*after_death);
            rested(run, at.since(latest));
        }
        (ControlAction::Waited(waited), Some(task)) => turns::waited(run, known(run, task), waited),
        (
            ControlAction::Steered { .. }
            | ControlAction::Cancelled { .. }
            | ControlAction::Waited(_)
            | ControlAction::Late { .. },
            _,
        ) => {}
    }
}

/// Excludes `time`, which has just passed, from the worked time of every task and of the run.
fn rested(run: &mut Run, time: Duration) {
    for task in run.graph.indices() {
        let task = &mut run.graph[task];
        task.working_since = task.working_since.map(|since| since.plus(time));
    }
    let shared = &mut run.shared;
    shared.active_since = shared.active_since.map(|since| since.plus(time));
}
