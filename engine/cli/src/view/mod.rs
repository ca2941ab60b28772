//! A run as people see it: the fold of its timeline into rows, questions, documents and totals.
//!
//! The live tree, the lines of a piped run, `show`, `graph` and the JSON of `run` all read this one value.
//! It decides nothing: what may happen next is the machine's business.

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

/// A run, folded.
#[derive(Debug, Default)]
pub(crate) struct RunView {
    /// Entry 1.
    pub(crate) started: Option<RunStarted>,
    /// When it began.
    pub(crate) began: Timestamp,
    /// When the newest entry was decided.
    pub(crate) latest: Timestamp,
    /// The newest entry's number.
    pub(crate) seq: u64,
    /// How it ended.
    pub(crate) ended: Option<RunEnded>,
    /// Whether somebody paused it.
    pub(crate) paused: bool,
    /// Whether it is known that no process runs it.
    pub(crate) interrupted: bool,
    /// Every task, in the order of creation.
    pub(crate) order: Vec<TaskId>,
    /// What is known of each.
    pub(crate) tasks: BTreeMap<TaskId, TaskRow>,
    /// The workspace.
    pub(crate) documents: Documents,
    /// Every question, in the order they were opened.
    pub(crate) questions: Vec<Question>,
    /// What was sent to the user instead of an agent.
    pub(crate) outputs: Vec<Json>,
    /// Tokens used.
    pub(crate) usage: Usage,
    /// What they cost.
    pub(crate) cost: Cost,
    /// The models that were asked.
    pub(crate) models: BTreeSet<String>,
    /// Calls made, refused ones included.
    pub(crate) calls: usize,
    /// What it shares with another run, when it is a fork.
    pub(crate) fork: Option<Fork>,
    /// The requests whose provider was away when the run stopped.
    pub(crate) away: BTreeMap<TaskId, Waited>,
    /// Previews of pending approvals, by the question's task. No entry holds them: they come from the
    /// configs and the contents that the run is pinned to.
    pub(crate) previews: BTreeMap<TaskId, Preview>,
}

/// What a fork has of its original.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fork {
    /// The last entry that both have.
    pub(crate) of: ForkPoint,
    /// Turns answered since then.
    pub(crate) turns: u32,
    /// Those of them whose answer was taken from the original.
    pub(crate) recorded_turns: u32,
    /// What the fork spent itself: neither in what it shares nor for what it took from the original.
    pub(crate) spent: Spent,
}

/// A task as a row shows it.
#[derive(Debug)]
pub(crate) struct TaskRow {
    /// How it came about.
    pub(crate) created: TaskCreated,
    /// When.
    pub(crate) began: Timestamp,
    /// When it ended.
    pub(crate) ended: Option<Timestamp>,
    /// Where it stands.
    pub(crate) state: TaskState,
    /// The tasks that call it, in the order of creation.
    pub(crate) callees: Vec<TaskId>,
    /// Turns begun.
    pub(crate) turns: u32,
    /// The last of them whose answer was taken from the original of a fork; 0 if there is none.
    pub(crate) recorded_turn: u32,
    /// What it does now, or did last.
    pub(crate) step: String,
    /// The calls that have no result yet, with their tools.
    pub(crate) open_calls: BTreeMap<CallId, String>,
    /// Those of them that wait for a task.
    pub(crate) awaited: BTreeSet<CallId>,
    /// Tokens used by this task alone.
    pub(crate) usage: Usage,
    /// What they cost.
    pub(crate) cost: Cost,
    /// The calls of its newest turn.
    pub(crate) asked: Vec<Arc<ModelCall>>,
    /// Its requests without an answer.
    pub(crate) requests: Requests,
    /// Its result.
    pub(crate) result: Option<Arc<CallResult>>,
    /// Documents it wrote, in order.
    pub(crate) wrote: Vec<DocumentRef>,
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskState {
    /// It can go on and has not yet.
    Ready,
    /// Its model or its calls are at work.
    Running,
    /// It waits for the tasks it called, or for a person.
    Blocked,
    /// It has ended.
    Final(FinalState),
}

impl TaskState {
    /// The name used in JSON.
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
    /// People say `Q1`.
    pub(crate) number: u32,
    /// The task that asked.
    pub(crate) asker: TaskId,
    /// Who is asked.
    pub(crate) holder: Holder,
    /// What happens when nobody answers.
    pub(crate) otherwise: Otherwise,
    /// The workspace as it was when it was asked.
    pub(crate) documents: Documents,
    /// How it closed.
    pub(crate) closed: Option<QuestionEnd>,
}

impl RunView {
    /// The fold of a whole timeline.
    pub(crate) fn of<'a>(entries: impl IntoIterator<Item = &'a Recorded>) -> Self {
        let mut view = Self::default();
        for recorded in entries {
            view.apply(recorded);
        }
        view
    }

    /// Takes in the next entry.
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
                        // The time since the last shared entry did not pass for the fork.
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
                    // The call itself waits for the answer, whatever it is a call of.
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

    /// A task is blocked when all that it still waits for are tasks.
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

    /// The moment that elapsed times count to when the run is not watched: now for one that waits for a person, else its
    /// last entry, because nobody works on it.
    pub(crate) fn shown_at(&self) -> Timestamp {
        if self.waits_for_person() { crate::terminal::now() } else { self.latest }
    }

    /// What each task and all below it used.
    pub(crate) fn spent(&self) -> BTreeMap<&TaskId, Spent> {
        let mut spent: BTreeMap<&TaskId, Spent> = BTreeMap::new();
        // Callees come after their callers, so each is complete before it is added to its caller.
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

    /// The call that the open question `task` asks to approve.
    pub(crate) fn to_approve(&self, task: &TaskId) -> Option<&ModelCall> {
        let row = self.tasks.get(task)?;
        matches!(row.created.concern, Some(Concern::Approval { .. })).then_some(())?;
        let (_, position) = task.originating_call().position()?;
        let caller = self.tasks.get(row.created.caller.as_ref()?)?;
        caller.asked.get((position as usize).checked_sub(1)?).map(AsRef::as_ref)
    }

    /// What of `task` and all below it is not known to be used; of the whole run for the root.
    pub(crate) fn not_used_below(&self, task: &TaskId) -> NotUsed {
        let (mut sum, mut open) = (NotUsed::default(), vec![task]);
        while let Some(row) = open.pop().and_then(|task| self.tasks.get(task)) {
            sum.add(row.requests.not_used());
            open.extend(&row.callees);
        }
        sum
    }

    /// What of the run is not known to be used.
    pub(crate) fn not_used(&self) -> NotUsed {
        let mut sum = NotUsed::default();
        self.tasks.values().for_each(|row| sum.add(row.requests.not_used()));
        sum
    }

    /// The root's row.
    pub(crate) fn root(&self) -> Option<&TaskRow> {
        self.tasks.get(&TaskId::root())
    }

    /// Who holds `task`.
    pub(crate) fn holder_of(&self, task: &TaskId) -> Option<&Holder> {
        self.tasks.get(task).map(|row| &row.created.holder)
    }

    /// Who holds `task`, as people call them.
    pub(crate) fn holder(&self, task: &TaskId) -> String {
        self.holder_of(task).map_or_else(|| task.to_string(), ToString::to_string)
    }

    /// Who works on what `call` waits for: the question about it while it is open, else the newest attempt.
    pub(crate) fn awaited_of(&self, call: &CallId) -> String {
        let live = |task: &TaskId| self.tasks.get(task).is_some_and(|row| !matches!(row.state, TaskState::Final(_)));
        let asks = |task: &TaskId| self.tasks.get(task).is_some_and(|row| row.created.concern.is_some()) && live(task);
        let question = self.order.iter().rev().find(|task| task.originating_call() == *call && asks(task));
        self.holder(question.unwrap_or(&call.created_task()))
    }

    /// The questions that wait for a person, oldest first.
    pub(crate) fn questions_for_person(&self) -> impl Iterator<Item = &Question> {
        self.questions.iter().filter(|question| question.closed.is_none() && question.holder == Holder::Person)
    }

    /// The documents that the root handed off.
    pub(crate) fn handed_off(&self) -> Vec<&DocumentVersion> {
        let result = self.root().and_then(|root| root.result.as_ref());
        let references = result.map(|result| result.documents.as_slice()).unwrap_or_default();
        references.iter().filter_map(|reference| self.documents.version(reference)).map(AsRef::as_ref).collect()
    }

    /// Who wrote `version`, as people call them; `job` for the job's own documents.
    pub(crate) fn author(version: &DocumentVersion) -> String {
        version.created_by.as_ref().map_or_else(|| "job".to_owned(), ToString::to_string)
    }

    /// The way of a question: from the task that first asked, through the masters that passed it on, to who is asked now.
    pub(crate) fn chain(&self, question: &Question) -> Vec<String> {
        let mut chain = vec![question.holder.to_string()];
        let mut next = Some(&question.asker);
        while let Some(row) = next.and_then(|task| self.tasks.get(task)) {
            chain.push(row.created.holder.to_string());
            // A master that passes a question on asks in a task which is itself a question.
            next = if row.created.kind == TaskKind::Question { row.created.caller.as_ref() } else { None };
        }
        chain.reverse();
        chain
    }
}

/// What a finished call leaves in its task's row.
fn step_of(tool: &str, result: &CallResult) -> String {
    match (&result.error, result.status) {
        (_, CallStatus::Success) => tool.to_owned(),
        (Some(error), status) => format!("{tool} {}: {}", status.as_str(), crate::words::preview(&error.message, 80).as_str()),
        (None, status) => format!("{tool} {}", status.as_str()),
    }
}
