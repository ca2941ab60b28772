//! Where one decision ends and the next begins, as far as a timeline tells.

use std::collections::HashSet;

use super::{Concern, Entry, Holder, QuestionEnd};
use crate::call::CallStatus;
use crate::id::{CallId, TaskId};

/// Reads a timeline from its first entry on and says which entries begin a decision.
///
/// Between two decisions a run is at rest: all it waits for is known to it, so it can go on from there. Within one it is not.
/// Only beginnings that are certain are told: each model answer or fallback, each request of a call's code, each result of a function, each person's answer or act.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    /// Function calls that run.
    running: HashSet<CallId>,
    /// Questions that wait for a person.
    people: HashSet<TaskId>,
    /// Whose writes the last entries are, if they are writes.
    writes: Option<Writer>,
}

/// Who writes a document.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Writer {
    Call(CallId),
    /// A person, or the job.
    Person,
}

impl Steps {
    /// Takes the next entry in; says whether it begins a decision.
    pub fn begins(&mut self, entry: &Entry) -> bool {
        let writes = self.writes.take();
        match entry {
            Entry::RunStarted(_)
            | Entry::FellBack(_)
            | Entry::ModelAnswered(_)
            | Entry::CallAskedModel(_)
            | Entry::Control(_) => true,
            Entry::TaskCreated(created) => {
                if created.holder == Holder::Person {
                    self.people.insert(created.task.clone());
                }
                if created.concern == Some(Concern::Outcome) {
                    // Nothing of it runs any more; its result comes with the answer.
                    self.running.remove(&created.task.originating_call());
                }
                false
            }
            Entry::CallStarted(started) => {
                self.running.insert(started.call.clone());
                false
            }
            Entry::DocumentWritten(version) => {
                let writer = version.call.clone().map_or(Writer::Person, Writer::Call);
                let runs = version.call.as_ref().is_some_and(|call| self.running.contains(call));
                let begins = runs && writes.as_ref() != Some(&writer);
                self.writes = Some(writer);
                begins
            }
            Entry::CallFinished(finished) => {
                let ran = self.running.remove(&finished.call) && finished.tool_type.behavior().runs_code;
                // Other ends may be a part of what ended the task, or of a recovery.
                let returned = matches!(finished.result.status, CallStatus::Success | CallStatus::Failed | CallStatus::Partial);
                ran && returned && writes != Some(Writer::Call(finished.call.clone()))
            }
            Entry::QuestionClosed(closed) => {
                let of_person = self.people.remove(&closed.task);
                of_person && matches!(closed.how, QuestionEnd::Answered { .. }) && writes.is_none()
            }
            Entry::ModelRequested(_)
            | Entry::CallRefused(_)
            | Entry::CallApproved(_)
            | Entry::QuestionOpened(_)
            | Entry::Output(_)
            | Entry::BudgetSettled(_)
            | Entry::Compacted(_)
            | Entry::SubtreeClosed(_)
            | Entry::TaskEnded(_)
            | Entry::RunEnded(_) => false,
        }
    }
}
