//! Conditions of each entry, given those before it.

pub(crate) mod acceptance;
mod asks;
mod calls;
mod tasks;
mod turns;
mod unknown;

use std::sync::Arc;

use baton_types::document::DocumentVersion;
use baton_types::entry::{
    Control, ControlAction, Entry, QuestionClosed, QuestionEnd, QuestionOpened, Recorded, RunEnded, TaskKind,
};
use baton_types::id::{CallId, TaskId};
use baton_types::model::Usage;
use baton_types::principal::Principal;

use super::{CallBook, Ledger, QuestionBook};
use crate::finding::Invariant;

/// More tokens than anything uses; a count beyond it is no count, and adding such counts up would overflow.
const TOO_MANY: u64 = 1 << 48;

impl Ledger {
    /// Enters one entry.
    pub(crate) fn entry(&mut self, recorded: &Recorded) {
        let Recorded { seq, decision, at, entry } = recorded;
        let before = std::mem::replace(&mut self.last_seq, *seq);
        self.rule(*seq == before.saturating_add(1), Invariant::TimelineHasNoGaps, || {
            format!("entry {seq} follows entry {before}")
        });
        let last = std::mem::replace(&mut self.last_decision, *decision);
        let continues = *decision == last && before > 0;
        self.rule(continues || *decision == last.saturating_add(1), Invariant::TimelineHasNoGaps, || {
            format!("an entry of decision {decision} follows one of decision {last}")
        });
        let (moment, earlier) = (at.as_micros(), self.last_at);
        self.rule(!continues || moment == earlier, Invariant::TimelineHasNoGaps, || {
            format!("the entries of decision {decision} have two moments")
        });
        self.rule(moment >= earlier, Invariant::TimelineHasNoGaps, || {
            "it was decided before the entry that it follows".to_owned()
        });
        self.last_at = moment.max(earlier);
        let starts = matches!(entry, Entry::RunStarted(_));
        self.rule(starts == (before == 0), Invariant::TimelineHasNoGaps, || "the run starts once, first".to_owned());
        let after_end = self.run_ended && !matches!(entry, Entry::Control(_));
        self.rule(!after_end, Invariant::EndedStaysEnded, || format!("{} after the end of the run", entry.name()));
        if let Some(task) = entry.task() {
            self.touched.insert(task.clone());
        }
        match entry {
            Entry::RunStarted(started) => self.prices.clone_from(&started.prices),
            Entry::TaskCreated(created) => self.task_created(created, *seq, *at),
            Entry::ModelRequested(requested) => self.model_requested(requested, *seq),
            Entry::FellBack(fell) => self.fell_back(fell),
            Entry::ModelAnswered(answered) => {
                self.deaths = 0;
                self.model_answered(answered);
            }
            Entry::CallRefused(refused) => self.call_refused(refused),
            Entry::CallApproved(approved) => self.call_approved(approved),
            Entry::CallStarted(started) => self.call_started(started, *seq),
            Entry::CallAskedModel(asked) => self.call_asked_model(asked),
            Entry::CallMade(made) => self.call_made(made),
            Entry::CallSuspended(suspended) => self.call_suspended(suspended),
            Entry::CallFinished(finished) => {
                self.deaths = 0;
                self.call_finished(finished, *at);
            }
            Entry::DocumentWritten(version) => self.document_written(version),
            Entry::QuestionOpened(opened) => self.question_opened(opened),
            Entry::QuestionClosed(closed) => self.question_closed(closed),
            Entry::Output(output) => self.output(output),
            Entry::BudgetSettled(settled) => self.budget_settled(settled),
            Entry::Compacted(compacted) => self.compacted(compacted),
            Entry::Control(control) => self.control(control, *seq),
            Entry::SubtreeClosed(closed) => self.subtree_closed(&closed.task, &closed.tasks),
            Entry::TaskEnded(ended) => self.task_ended(ended),
            Entry::TaskReported(reported) => self.task_reported(reported),
            Entry::RunEnded(ended) => self.run_end(ended),
        }
        self.count_changed();
    }

    /// Whether `id` was created and has not ended. If not, adds a finding about `what` (`ended_stays_ended`).
    fn live(&mut self, id: &TaskId, what: &str) -> bool {
        match self.tasks.get(id).map(|book| book.ended) {
            None => self.broken(Invariant::TasksFormATree, format!("{what} for task {id}, which was never created")),
            Some(Some(state)) => {
                self.broken(Invariant::EndedStaysEnded, format!("{what} for task {id}, which has ended as {}", state.as_str()));
            }
            Some(None) => return true,
        }
        false
    }

    /// Returns the books of a call that may continue: of `task`, of its newest turn, without a result.
    fn open_call(&mut self, id: &CallId, task: &TaskId, tool: &str) -> Option<&mut CallBook> {
        let open = self.tasks.get(task).is_some_and(|book| book.open.contains(id));
        let Some(call) = self.calls.get(id) else {
            self.broken(Invariant::EveryCallHasOneResult, format!("no turn made call {id}"));
            return None;
        };
        let (ours, finished, named) = (call.task == *task, call.is_finished(), call.tool == tool);
        self.rule(ours, Invariant::EveryCallHasOneResult, || format!("{id} is a call of another task than {task}"));
        self.rule(open || !ours, Invariant::EveryCallHasOneResult, || format!("{id} belongs to an earlier turn"));
        self.rule(!finished, Invariant::EveryCallHasOneResult, || {
            format!("a second result, or a step after the result, of {id}")
        });
        self.rule(named, Invariant::EveryCallHasOneResult, || format!("{id} continues as a call of {tool}"));
        if ours && open && !finished { self.call_mut(id) } else { None }
    }

    /// Returns the question that the question `task` was escalated to.
    fn escalated_to(&self, task: &TaskId) -> Option<&TaskId> {
        let number = self.tasks.get(task)?.question?;
        match self.questions.get(&number)?.how.as_ref()? {
            QuestionEnd::Escalated { to: _, task } => Some(task),
            _ => None,
        }
    }

    fn document_written(&mut self, version: &DocumentVersion) {
        let path = version.path.as_str().to_owned();
        let head = self.heads.get(&path).copied();
        let next = version.version == head.unwrap_or(0).saturating_add(1);
        self.rule(next, Invariant::VersionsFormAChain, || format!("version {} of {path} follows {head:?}", version.version));
        self.rule(version.base == head, Invariant::VersionsFormAChain, || {
            format!("{path} was made from {:?}, not {head:?}", version.base)
        });
        let by_call = version.call.as_ref().and_then(|call| self.calls.get(call));
        // An output that a request has no room for is written after its call.
        let is_kept_output = path.starts_with("results/") && by_call.is_some_and(CallBook::is_finished);
        // A question may show outputs of its master's calls.
        let may = is_kept_output || by_call.is_some_and(|call| call.has_code() && version.task.as_ref() == Some(&call.task));
        let by_nobody = version.call.is_none() && version.task.is_none();
        self.rule(may || by_nobody, Invariant::OnlyTheGrantedIsUsed, || {
            format!("{path} was written by a call that may not or does not run")
        });
        if let Some(call) = version.call.as_ref().and_then(|call| self.calls.get_mut(call)) {
            call.wrote.push(version.reference());
        }
        if let Some(task) = version.task.as_ref().and_then(|task| self.tasks.get_mut(task)) {
            if is_kept_output {
                task.kept.push(version.reference());
            }
            let seen = task.known.insert(path.clone(), version.version) == head;
            self.rule(seen, Invariant::VersionsFormAChain, || {
                format!("{path} was written over by a task that has not seen version {head:?}")
            });
        }
        let size = version.content.size_bytes;
        let before = self.contents.insert(version.content.hash, size);
        self.rule(before.is_none_or(|before| before == size), Invariant::VersionsFormAChain, || {
            format!("a content of {path} has two sizes")
        });
        self.heads.insert(path, version.version);
    }

    fn question_opened(&mut self, opened: &QuestionOpened) {
        let (id, number) = (&opened.task, opened.number);
        if !self.live(id, "a question's opening") {
            return;
        }
        let next = self.questions.len() + 1;
        self.rule(number as usize == next, Invariant::EveryQuestionHasOneEnd, || format!("Q{number} is the {next}. question"));
        let Some(book) = self.tasks.get_mut(id) else { return };
        let again = book.question.replace(number).is_some();
        let created = &book.created;
        let same = created.kind == TaskKind::Question
            && created.holder == opened.holder
            && created.documents == opened.documents
            && created.request == opened.question
            && created.answer_schema == opened.answer_schema;
        self.rule(!again && same, Invariant::EveryQuestionHasOneEnd, || {
            format!("Q{number} is not what task {id} was created for")
        });
        let asked = self.above(id).any(|above| *above == opened.asker);
        self.rule(asked, Invariant::EveryQuestionHasOneEnd, || {
            format!("Q{number} is asked by {}, who does not wait for it", opened.asker)
        });
        let book = QuestionBook { task: id.clone(), ends: 0, how: None };
        let twice = self.questions.insert(number, book).is_some();
        self.rule(!twice, Invariant::EveryQuestionHasOneEnd, || format!("Q{number} was opened twice"));
    }

    fn question_closed(&mut self, closed: &QuestionClosed) {
        let number = closed.number;
        if !self.live(&closed.task, "a question's end") {
            return;
        }
        let Some(question) = self.questions.get_mut(&number) else {
            return self.broken(Invariant::EveryQuestionHasOneEnd, format!("Q{number} is closed and was never opened"));
        };
        question.ends = question.ends.saturating_add(1);
        question.how = Some(closed.how.clone());
        let (ends, same) = (question.ends, question.task == closed.task);
        self.rule(ends == 1, Invariant::EveryQuestionHasOneEnd, || format!("Q{number} has more than one end"));
        self.rule(same, Invariant::EveryQuestionHasOneEnd, || format!("Q{number} ends in another task than it is"));
    }

    fn control(&mut self, control: &Control, seq: u64) {
        let Control { task, action, by } = control;
        if let (Principal::Agent(agent), Some(task)) = (by, task) {
            let holds = |above: &TaskId| self.tasks.get(above).is_some_and(|book| book.created.holder.agent() == Some(agent));
            let may = self.above(task).any(holds);
            self.rule(may, Invariant::OnlyTheGrantedIsUsed, || format!("{agent} acts on {task}, which is not below it"));
        }
        match action {
            ControlAction::Paused | ControlAction::Unpaused | ControlAction::Quarantined { .. } => {
                let paused = *action != ControlAction::Unpaused;
                let before = std::mem::replace(&mut self.paused, paused);
                self.quarantined = matches!(action, ControlAction::Quarantined { .. });
                self.rule(before != paused, Invariant::TimelineHasNoGaps, || {
                    "a pause of what is paused, or an end of no pause".to_owned()
                });
                if let ControlAction::Quarantined { deaths } = action {
                    let (counted, named) = (self.deaths, *deaths);
                    self.rule(counted == named && named >= 3, Invariant::TimelineHasNoGaps, || {
                        format!("a quarantine after {named} deaths, where {counted} are on the timeline")
                    });
                }
                if !paused {
                    self.deaths = 0;
                }
                if !paused {
                    // Calls that waited for the end of the pause begin now.
                    self.touched.extend(self.live.iter().cloned());
                }
            }
            ControlAction::Cancelled { .. } => {
                if let Some(id) = task
                    && self.live(id, "a cancellation")
                    && let Some(book) = self.tasks.get_mut(id)
                {
                    book.cancelled = true;
                }
            }
            ControlAction::Steered { .. } => {
                if let Some(id) = task
                    && self.live(id, "a message")
                    && let Some(book) = self.tasks.get_mut(id)
                {
                    book.rests = false;
                }
            }
            ControlAction::TakenOver { .. } | ControlAction::Adopted(_) => {
                self.quarantined &= matches!(action, ControlAction::TakenOver { .. });
                if let ControlAction::Adopted(adoption) = action {
                    let known = self.known_configs.iter().rev().find(|(hash, _)| *hash == adoption.configs);
                    if let Some((_, configs)) = known {
                        self.configs = Arc::clone(configs);
                    }
                    self.prices.clone_from(&adoption.prices);
                    if adoption.fork.is_some() || adoption.follow_up.is_some() {
                        self.classes.clear();
                    }
                    if let Some(request) = &adoption.follow_up {
                        self.continued(request);
                    }
                    if adoption.fork.is_some() {
                        // A person stopped the original. The calls of the fork have other keys.
                        self.paused = false;
                        self.unsuspend();
                    }
                }
                self.deaths = match action {
                    ControlAction::TakenOver { after_death, .. } => self.deaths + u32::from(*after_death),
                    _ => 0,
                };
                self.last_takeover = seq;
                if !matches!(action, ControlAction::Adopted(adoption) if adoption.fork.is_some()) {
                    self.last_crash = seq;
                }
                self.takeovers = self.takeovers.saturating_add(1);
                let live = self.live.clone();
                self.touched.extend(live);
                self.count_again();
            }
            ControlAction::Waited(_) => {
                if let Some(id) = task {
                    self.live(id, "a wait");
                    let asks = self.tasks.get(id).is_some_and(|book| book.request.is_some());
                    self.rule(asks, Invariant::TimelineHasNoGaps, || {
                        format!("{id} waits for a provider without an open request")
                    });
                }
            }
            ControlAction::Late { .. } => {
                if let Some(id) = task {
                    let known = self.tasks.contains_key(id);
                    self.rule(known, Invariant::TasksFormATree, || {
                        format!("something late for task {id}, which was never created")
                    });
                }
            }
        }
    }

    /// Lets the suspended calls run again.
    fn unsuspend(&mut self) {
        let live = self.live.iter().filter_map(|id| self.tasks.get(id));
        let calls: Vec<CallId> = live.flat_map(|task| &task.open).cloned().collect();
        for call in calls {
            if let Some(call) = self.calls.get_mut(&call).filter(|call| call.is_suspended()) {
                call.suspension = None;
            }
        }
    }

    /// Begins the books of a run that continues one that has ended: what its limits count begins at zero.
    fn continued(&mut self, request: &str) {
        let ended = std::mem::take(&mut self.run_ended);
        self.rule(ended, Invariant::EndedStaysEnded, || "a run is continued that has not ended".to_owned());
        self.follow_up = Some(request.to_owned());
        let (turns, calls, tokens, cost) = self.before;
        let (tokens, cost) = (tokens.saturating_add(self.settled.total()), cost.saturating_add(self.settled_cost));
        self.before = (turns.saturating_add(self.turns), calls.saturating_add(self.calls_made), tokens, cost);
        (self.turns, self.calls_made) = (0, 0);
        (self.settled, self.settled_cost, self.unpriced) = (Usage::default(), 0, 0);
    }

    fn run_end(&mut self, ended: &RunEnded) {
        let root = self.tasks.get(&self.root);
        let same = root.is_some_and(|root| {
            root.ended == Some(ended.state) && root.result.as_ref().map(|result| result.status) == Some(ended.status)
        });
        self.rule(same, Invariant::EndedStaysEnded, || "the run ends otherwise than its root".to_owned());
        self.run_ended = true;
    }
}
