//! The fold of a run's timeline for people: rows of tasks, questions, documents and totals.
//!
//! The live tree, the lines of a piped run, `show`, `graph` and the JSON of `run` all read this one value. It makes no
//! decisions: the machine decides the next steps.

pub(crate) mod approval;
pub(crate) mod change;
pub(crate) mod extent;
pub(crate) mod json;
pub(crate) mod lines;
pub(crate) mod live;
pub(crate) mod summary;
mod tree;
pub(crate) mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use approval::Preview;
use baton_machine::Spent;
use baton_types::call::{CallResult, CallStatus, ModelCall};
use baton_types::document::{DocumentRef, DocumentVersion, Documents};
use baton_types::entry::{
    Concern, ControlAction, Entry, FinalState, ForkPoint, Holder, Otherwise, QuestionEnd, Recorded, RunEnded, RunStarted,
    TaskCreated, TaskKind, Waited,
};
use baton_types::id::{CallId, TaskId};
use baton_types::json::Json;
use baton_types::model::Usage;
use baton_types::money::Cost;
use baton_types::time::Timestamp;
use usage::{NotUsed, Requests};

/// The fold of a run.
#[derive(Debug, Default)]
pub(crate) struct RunView {
    /// The run's first entry.
    pub(crate) started: Option<RunStarted>,
    /// The time at which the run began.
    pub(crate) began: Timestamp,
    /// The time of the newest entry.
    pub(crate) latest: Timestamp,
    /// The newest entry's number.
    pub(crate) seq: u64,
    /// The end of the run.
    pub(crate) ended: Option<RunEnded>,
    /// Whether a person paused the run.
    pub(crate) paused: bool,
    /// Whether it is certain that no process executes the run.
    pub(crate) interrupted: bool,
    /// Every task, in the order of creation.
    pub(crate) order: Vec<TaskId>,
    /// The row of each task.
    pub(crate) tasks: BTreeMap<TaskId, TaskRow>,
    /// The workspace.
    pub(crate) documents: Documents,
    /// Every question, in the order they were opened.
    pub(crate) questions: Vec<Question>,
    /// The outputs for the user.
    pub(crate) outputs: Vec<Json>,
    /// Tokens that the run used.
    pub(crate) usage: Usage,
    /// Cost of these tokens.
    pub(crate) cost: Cost,
    /// The models that received requests.
    pub(crate) models: BTreeSet<String>,
    /// Number of calls, including refused ones.
    pub(crate) calls: usize,
    /// The origin and usage of a fork; `None` if the run is not a fork.
    pub(crate) fork: Option<Fork>,
    /// The requests whose provider was away when the run stopped.
    pub(crate) away: BTreeMap<TaskId, Waited>,
    /// Previews of pending approvals, by the question's task. They are not in any entry: they come from the run's pinned configs
    /// and contents.
    pub(crate) previews: BTreeMap<TaskId, Preview>,
}

/// The part of a fork that it shares with its original, and its own usage.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fork {
    /// The last shared entry.
    pub(crate) of: ForkPoint,
    /// Number of turns since then.
    pub(crate) turns: u32,
    /// Number of those turns whose answer was taken from the original.
    pub(crate) recorded_turns: u32,
    /// The fork's own usage and cost, without the shared entries and the answers from the original.
    pub(crate) spent: Spent,
}

/// A task, as its row shows it.
#[derive(Debug)]
pub(crate) struct TaskRow {
    /// The entry that created the task.
    pub(crate) created: TaskCreated,
    /// The time at which the task began.
    pub(crate) began: Timestamp,
    /// The time at which the task ended.
    pub(crate) ended: Option<Timestamp>,
    /// The state of the task.
    pub(crate) state: TaskState,
    /// The tasks that it called, in the order of creation.
    pub(crate) callees: Vec<TaskId>,
    /// Number of turns begun.
    pub(crate) turns: u32,
    /// The last turn whose answer was taken from the original of a fork; 0 if there is none.
    pub(crate) recorded_turn: u32,
    /// The current step, or the last one.
    pub(crate) step: String,
    /// The calls that have no result yet, with their tools.
    pub(crate) open_calls: BTreeMap<CallId, String>,
    /// The open calls that wait for a task.
    pub(crate) awaited: BTreeSet<CallId>,
    /// Tokens used by this task alone.
    pub(crate) usage: Usage,
    /// Cost of these tokens.
    pub(crate) cost: Cost,
    /// The calls of its newest turn.
    pub(crate) asked: Vec<Arc<ModelCall>>,
    /// Its requests without an answer.
    pub(crate) requests: Requests,
    /// Its result.
    pub(crate) result: Option<Arc<CallResult>>,
    /// The documents that it wrote, in order.
    pub(crate) wrote: Vec<DocumentRef>,
}

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskState {
    /// It can continue, but has not yet.
    Ready,
    /// Its model or its calls are running.
    Running,
    /// It waits for the tasks that it called, or for a person.
    Blocked,
    /// It has ended.
    Final(FinalState),
}

impl TaskState {
    /// Returns the name in JSON.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Blocked => "blocked",
            Self::Final(state) => state.as_str(),
        }
    }
}

/// A question, open or closed.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// Its task.
    pub(crate) task: TaskId,
    /// The number in its name, such as `Q1`.
    pub(crate) number: u32,
    /// The task that asked.
    pub(crate) asker: TaskId,
    /// The agent or person that is asked.
    pub(crate) holder: Holder,
    /// The action after the deadline, if there is no answer.
    pub(crate) otherwise: Otherwise,
    /// The workspace at the time of the question.
    pub(crate) documents: Documents,
    /// The way it closed; `None` while it is open.
    pub(crate) closed: Option<QuestionEnd>,
}

impl RunView {
    /// Returns the fold of a whole timeline.
    pub(crate) fn of<'a>(entries: impl IntoIterator<Item = &'a Recorded>) -> Self {
        let mut view = Self::default();
        for recorded in entries {
            view.apply(recorded);
        }
        view
    }

    /// Applies the next entry.
    pub(crate) fn apply(&mut self, recorded: &Recorded) {
        self.seq = recorded.seq;
        self.latest = self.latest.max(recorded.at);
        match &recorded.entry {
            Entry::RunStarted(started) => {
                self.began = recorded.at;
                self.started = Some((**started).clone());
            }
            Entry::TaskCreated(created) => self.create(created, recorded.at),
            Entry::ModelRequested(requested) => {
                if !self.models.contains(&requested.model) {
                    self.models.insert(requested.model.clone());
                }
                self.row(&requested.task, |row| {
                    row.state = TaskState::Running;
                    row.turns = requested.turn;
                    row.requests.asked(requested);
                    "thinking".clone_into(&mut row.step);
                });
            }
            Entry::FellBack(fell) => _ = self.models.insert(fell.to.clone()),
            Entry::ModelAnswered(answered) => {
                if let Some(fork) = &mut self.fork {
                    fork.turns += 1;
                    fork.recorded_turns += u32::from(answered.recorded.is_some());
                }
                self.calls += answered.calls.len();
                let said = crate::words::preview(&answered.text, 60).as_str().to_owned();
                self.row(&answered.task, |row| {
                    row.asked.clone_from(&answered.calls);
                    if answered.recorded.is_some() {
                        row.recorded_turn = answered.turn;
                    }
                    if answered.calls.is_empty() {
                        row.step = said;
                    }
                });
            }
            Entry::CallRefused(refused) => {
                let step = format!("{} refused: {}", refused.tool, refused.error.message);
                self.row(&refused.task, |row| {
                    row.open_calls.remove(&refused.call);
                    row.awaited.remove(&refused.call);
                    row.step = step;
                });
            }
            Entry::CallStarted(started) => {
                let waits = started.tool_type.behavior().blocks_caller;
                self.row(&started.task, |row| {
                    row.open_calls.insert(started.call.clone(), started.tool.to_string());
                    row.step = started.tool.to_string();
                    if waits {
                        row.awaited.insert(started.call.clone());
                    }
                });
                self.settle(&started.task);
            }
            Entry::CallAskedModel(asked) => {
                self.models.insert(asked.model.clone());
                self.row(&asked.task, |row| row.requests.call_asked(asked));
            }
            Entry::CallApproved(approved) => {
                self.row(&approved.task, |row| {
                    row.open_calls.remove(&approved.call);
                    row.awaited.remove(&approved.call);
                });
                self.settle(&approved.task);
            }
            Entry::CallFinished(finished) => {
                let step = step_of(finished.tool.as_str(), &finished.result);
                self.row(&finished.task, |row| {
                    row.open_calls.remove(&finished.call);
                    row.awaited.remove(&finished.call);
                    row.step = step;
                });
                self.settle(&finished.task);
            }
            Entry::DocumentWritten(version) => self.write(version),
            Entry::QuestionOpened(opened) => {
                self.questions.retain(|known| known.task != opened.task);
                self.questions.push(Question {
                    task: opened.task.clone(),
                    number: opened.number,
                    asker: opened.asker.clone(),
                    holder: opened.holder.clone(),
                    otherwise: opened.otherwise.clone(),
                    documents: self.documents.clone(),
                    closed: None,
                });
                if opened.holder == Holder::Person {
                    self.row(&opened.task, |row| row.state = TaskState::Blocked);
                }
            }
            Entry::QuestionClosed(closed) => {
                self.previews.remove(&closed.task);
                if let Some(question) = self.questions.iter_mut().rev().find(|known| known.task == closed.task) {
                    question.closed = Some(closed.how.clone());
                }
            }
            Entry::Output(output) => self.outputs.push(output.output.shown().into_owned()),
            Entry::BudgetSettled(settled) => {
                self.row(&settled.task, |row| row.requests.settled(settled));
                if settled.unknown {
                    return;
                }
                self.usage.add(&settled.usage);
                self.cost.settle(settled.cost);
                let of_turn = settled.by.is_none();
                let recorded = of_turn && self.tasks.get(&settled.task).is_some_and(|row| row.recorded_turn == settled.turn);
                if let Some(fork) = self.fork.as_mut().filter(|_| !recorded) {
                    fork.spent.usage.add(&settled.usage);
                    fork.spent.cost.settle(settled.cost);
                }
                self.row(&settled.task, |row| {
                    row.usage.add(&settled.usage);
                    row.cost.settle(settled.cost);
                });
            }
            Entry::Compacted(_) => {}
            Entry::Control(control) => {
                match &control.action {
                    ControlAction::Paused => self.paused = true,
                    ControlAction::Unpaused => self.paused = false,
                    ControlAction::TakenOver { .. } | ControlAction::Adopted(_) => self.away.clear(),
                    ControlAction::Waited(waited) => {
                        if let Some(task) = control.task.as_ref().filter(|_| waited.stops) {
                            self.away.insert(task.clone(), (**waited).clone());
                        }
                    }
                    ControlAction::Cancelled { .. } | ControlAction::Steered { .. } | ControlAction::Late { .. } => {}
                }
                if let Some((adoption, started)) = recorded.entry.adopts().zip(self.started.as_ref()) {
                    self.started = Some(adoption.restarted(started));
                    if let Some(fork) = &adoption.fork {
                        // The time since the last shared entry does not count for the fork.
                        let skipped = recorded.at.since(fork.at);
                        self.began = self.began.plus(skipped);
                        for row in self.tasks.values_mut().filter(|row| row.ended.is_none()) {
                            row.began = row.began.plus(skipped);
                            row.created.deadline = row.created.deadline.map(|deadline| deadline.plus(skipped));
                        }
                        self.fork = Some(Fork { of: fork.from.clone(), turns: 0, recorded_turns: 0, spent: Spent::default() });
                    }
                }
            }
            Entry::SubtreeClosed(closed) => {
                for task in &closed.tasks {
                    self.end(task, FinalState::Cancelled, None, recorded.at);
                    self.row(task, |row| row.step.clone_from(&closed.reason));
                }
            }
            Entry::TaskEnded(ended) => self.end(&ended.task, ended.state, Some(Arc::clone(&ended.result)), recorded.at),
            Entry::RunEnded(ended) => self.ended = Some(ended.clone()),
        }
    }

    fn create(&mut self, created: &TaskCreated, at: Timestamp) {
        if let Some(caller) = &created.caller {
            self.row(caller, |row| {
                row.callees.push(created.task.clone());
                if created.concern.is_some() {
                    // This call itself waits for the answer, whichever tool it uses.
                    let call = created.task.originating_call();
                    row.open_calls.entry(call.clone()).or_default();
                    row.awaited.insert(call);
                }
            });
            if created.concern.is_some() {
                self.settle(caller);
            }
        }
        let row = TaskRow {
            created: created.clone(),
            began: at,
            ended: None,
            state: if created.holder == Holder::Person { TaskState::Blocked } else { TaskState::Ready },
            callees: Vec::new(),
            turns: 0,
            recorded_turn: 0,
            step: String::new(),
            open_calls: BTreeMap::new(),
            awaited: BTreeSet::new(),
            usage: Usage::default(),
            cost: Cost::default(),
            asked: Vec::new(),
            requests: Requests::default(),
            result: None,
            wrote: Vec::new(),
        };
        self.order.push(created.task.clone());
        self.tasks.insert(created.task.clone(), row);
    }

    fn write(&mut self, version: &DocumentVersion) {
        self.documents.insert(version.clone());
        if let Some(task) = &version.task {
            self.row(task, |row| row.wrote.push(version.reference()));
        }
    }

    fn end(&mut self, task: &TaskId, state: FinalState, result: Option<Arc<CallResult>>, at: Timestamp) {
        self.row(task, |row| {
            row.state = TaskState::Final(state);
            row.ended.get_or_insert(at);
            row.open_calls.clear();
            row.awaited.clear();
            if result.is_some() {
                row.result = result;
            }
        });
        if let Some(question) = self.questions.iter_mut().rev().find(|known| known.task == *task && known.closed.is_none()) {
            question.closed = Some(QuestionEnd::Failed { reason: state.as_str().to_owned() });
        }
    }

    /// Updates the state of a task. It is blocked if it only waits for tasks.
    fn settle(&mut self, task: &TaskId) {
        self.row(task, |row| {
            row.state = match row.state {
                TaskState::Final(state) => TaskState::Final(state),
                _ if row.open_calls.is_empty() => TaskState::Ready,
                _ if row.open_calls.len() == row.awaited.len() => TaskState::Blocked,
                _ => TaskState::Running,
            };
        });
    }

    fn row(&mut self, task: &TaskId, change: impl FnOnce(&mut TaskRow)) {
        if let Some(row) = self.tasks.get_mut(task) {
            change(row);
        }
    }

    /// Returns the end of elapsed times on a screen that does not follow the run. It is now if the run waits for a person, else
    /// the time of the last entry, because no work happens since then.
    pub(crate) fn shown_at(&self) -> Timestamp {
        if self.waits_for_person() { crate::terminal::now() } else { self.latest }
    }

    /// Returns the usage of each task with all tasks below it.
    pub(crate) fn spent(&self) -> BTreeMap<&TaskId, Spent> {
        let mut spent: BTreeMap<&TaskId, Spent> = BTreeMap::new();
        // Callees come after their callers, so each sum is complete before it is added to the caller's.
        for id in self.order.iter().rev() {
            let Some(row) = self.tasks.get(id) else { continue };
            let whole = spent.entry(id).or_default();
            whole.usage.add(&row.usage);
            whole.cost.add(row.cost);
            let whole = *whole;
            if let Some(caller) = &row.created.caller {
                let above = spent.entry(caller).or_default();
                above.usage.add(&whole.usage);
                above.cost.add(whole.cost);
            }
        }
        spent
    }

    /// Returns the call that the open question `task` asks to approve.
    pub(crate) fn to_approve(&self, task: &TaskId) -> Option<&ModelCall> {
        let row = self.tasks.get(task)?;
        matches!(row.created.concern, Some(Concern::Approval { .. })).then_some(())?;
        let (_, position) = task.originating_call().position()?;
        let caller = self.tasks.get(row.created.caller.as_ref()?)?;
        caller.asked.get((position as usize).checked_sub(1)?).map(AsRef::as_ref)
    }

    /// Returns the reserved and the unknown usage of `task` and all tasks below it; for the root, of the whole run.
    pub(crate) fn not_used_below(&self, task: &TaskId) -> NotUsed {
        let (mut sum, mut open) = (NotUsed::default(), vec![task]);
        while let Some(row) = open.pop().and_then(|task| self.tasks.get(task)) {
            sum.add(row.requests.not_used());
            open.extend(&row.callees);
        }
        sum
    }

    /// Returns the reserved and the unknown usage of the run.
    pub(crate) fn not_used(&self) -> NotUsed {
        let mut sum = NotUsed::default();
        self.tasks.values().for_each(|row| sum.add(row.requests.not_used()));
        sum
    }

    /// Returns the root's row.
    pub(crate) fn root(&self) -> Option<&TaskRow> {
        self.tasks.get(&TaskId::root())
    }

    /// Returns the holder of `task`.
    pub(crate) fn holder_of(&self, task: &TaskId) -> Option<&Holder> {
        self.tasks.get(task).map(|row| &row.created.holder)
    }

    /// Returns the name of the holder of `task`.
    pub(crate) fn holder(&self, task: &TaskId) -> String {
        self.holder_of(task).map_or_else(|| task.to_string(), ToString::to_string)
    }

    /// Returns the holder of the task that `call` waits for: an open question about the call, or else the newest attempt.
    pub(crate) fn awaited_of(&self, call: &CallId) -> String {
        let live = |task: &TaskId| self.tasks.get(task).is_some_and(|row| !matches!(row.state, TaskState::Final(_)));
        let asks = |task: &TaskId| self.tasks.get(task).is_some_and(|row| row.created.concern.is_some()) && live(task);
        let question = self.order.iter().rev().find(|task| task.originating_call() == *call && asks(task));
        self.holder(question.unwrap_or(&call.created_task()))
    }

    /// Returns the open questions for a person, oldest first.
    pub(crate) fn questions_for_person(&self) -> impl Iterator<Item = &Question> {
        self.questions.iter().filter(|question| question.closed.is_none() && question.holder == Holder::Person)
    }

    /// Returns the documents that the root handed off.
    pub(crate) fn handed_off(&self) -> Vec<&DocumentVersion> {
        let result = self.root().and_then(|root| root.result.as_ref());
        let references = result.map(|result| result.documents.as_slice()).unwrap_or_default();
        references.iter().filter_map(|reference| self.documents.version(reference)).map(AsRef::as_ref).collect()
    }

    /// Returns the name of the author of `version`; `job` for the job's own documents.
    pub(crate) fn author(version: &DocumentVersion) -> String {
        version.created_by.as_ref().map_or_else(|| "job".to_owned(), ToString::to_string)
    }

    /// Returns the path of a question: from the first asker through the masters that passed it on, to the current master.
    pub(crate) fn chain(&self, question: &Question) -> Vec<String> {
        let mut chain = vec![question.holder.to_string()];
        let mut next = Some(&question.asker);
        while let Some(row) = next.and_then(|task| self.tasks.get(task)) {
            chain.push(row.created.holder.to_string());
            // A master that passes a question on asks in a task that is a question itself.
            next = if row.created.kind == TaskKind::Question { row.created.caller.as_ref() } else { None };
        }
        chain.reverse();
        chain
    }
}

/// Returns the step that a task's row shows after a call.
fn step_of(tool: &str, result: &CallResult) -> String {
    match (&result.error, result.status) {
        (_, CallStatus::Success) => tool.to_owned(),
        (Some(error), status) => format!("{tool} {}: {}", status.as_str(), crate::words::preview(&error.message, 80).as_str()),
        (None, status) => format!("{tool} {}", status.as_str()),
    }
}
