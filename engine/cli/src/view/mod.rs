//! A run for people: the machine's state of the run, and the facts about it that only people need.
//!
//! The live tree, the lines of a piped run, `show`, `graph` and the JSON of `run` all read this one value. It is *not* a second
//! machine: whatever the state of the run has is read from there.

pub(crate) mod approval;
mod back_off;
pub(crate) mod change;
pub(crate) mod extent;
pub(crate) mod failure;
pub(crate) mod json;
pub(crate) mod lines;
pub(crate) mod live;
pub(crate) mod summary;
pub(crate) mod suspended;
mod table;
mod tree;
pub(crate) mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use approval::Preview;
use back_off::BackOffs;
use baton_machine::{CallStage, OpenCall, Phase, Run, Spent, Task};
use baton_runtime::{Engine, RunError};
use baton_types::call::{CallResult, CallStatus, ModelCall};
use baton_types::document::{DocumentRef, DocumentVersion, Documents};
use baton_types::entry::{BudgetSettled, Concern, Control, ControlAction, Entry, Holder, Recorded, TaskKind, Waited};
use baton_types::id::{RunId, TaskId};
use baton_types::json::Json;
use baton_types::time::Timestamp;
use baton_types::tool_type::ToolType;
use failure::Problem;
use suspended::SuspendedReport;
use usage::{NotUsed, Unsettled};

/// The state of a run, and the facts for people that the state lacks.
pub(crate) struct RunView {
    /// The engine that loads the configs that entries adopt.
    engine: Engine,
    /// The state.
    pub(crate) run: Run,
    /// The time at which the run began.
    pub(crate) began: Timestamp,
    /// Whether it is certain that no process executes the run.
    pub(crate) interrupted: bool,
    /// Whether no process has executed the run yet: it is queued for a worker.
    pub(crate) queued: bool,
    /// Whether a process executes the run, as far as that is known.
    pub(crate) executed: bool,
    /// The row of each task.
    rows: BTreeMap<TaskId, TaskRow>,
    /// The errors of calls and tasks, in order.
    problems: Vec<Problem>,
    /// The outputs for the user: the messages of the root's turns, and results of calls.
    pub(crate) outputs: Vec<Json>,
    /// Tokens that the run used, and their cost. Unlike in the state, unknown usage is not in it.
    pub(crate) used: Spent,
    /// The models that received requests.
    pub(crate) models: BTreeSet<String>,
    /// Number of calls, including refused ones.
    pub(crate) calls: usize,
    /// The own turns and usage of a fork.
    pub(crate) fork: Fork,
    /// The requests whose provider was away when the run stopped.
    pub(crate) away: BTreeMap<TaskId, Waited>,
    /// The pauses of open requests, if this process executes the run.
    pub(crate) back_offs: BackOffs,
    /// Previews of pending approvals, by the question's task. They are not in any entry: they come from the run's pinned configs
    /// and contents.
    pub(crate) previews: BTreeMap<TaskId, Preview>,
    /// The suspended calls, as they were when they were looked at last.
    pub(crate) suspended: Vec<SuspendedReport>,
}

/// Turns and usage since the last entry that a fork shares with its original.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fork {
    /// Number of turns.
    pub(crate) turns: u32,
    /// Number of those turns whose answer was taken from the original.
    pub(crate) recorded_turns: u32,
    /// The fork's own usage and cost, without the answers from the original.
    pub(crate) used: Spent,
}

/// The facts about a task that its row shows in addition to its state.
#[derive(Debug)]
pub(crate) struct TaskRow {
    /// The request, or the question.
    pub(crate) request: String,
    /// The documents of the request.
    pub(crate) documents: Vec<DocumentRef>,
    /// The workspace at the time of the request.
    pub(crate) workspace: Documents,
    /// The time at which the task began.
    pub(crate) began: Timestamp,
    /// The time at which the task ended.
    pub(crate) ended: Option<Timestamp>,
    /// The last turn whose answer was taken from the original of a fork; 0 if there is none.
    recorded_turn: u32,
    /// The current step, or the last one.
    pub(crate) step: String,
    /// Tokens used by this task alone, and their cost.
    pub(crate) used: Spent,
    /// The unknown usage of its requests that never received an answer.
    unknown: Unsettled,
    /// Its result.
    pub(crate) result: Option<Arc<CallResult>>,
    /// The documents that it wrote, in order.
    pub(crate) wrote: Vec<DocumentRef>,
}

/// A question, open or closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// Its task.
    pub(crate) task: &'a Task,
    /// The fields that only questions have.
    pub(crate) question: &'a baton_machine::Question,
}

impl Asked<'_> {
    /// Whether it waits for an answer.
    pub(crate) fn is_open(&self) -> bool {
        self.question.closed.is_none()
    }
}

/// Returns the name of a task's state in reports.
pub(crate) const fn state(phase: &Phase) -> &'static str {
    match phase {
        Phase::Ready(_) => "ready",
        Phase::Asking(_) | Phase::Acting(_) => "running",
        Phase::Waiting(_) => "blocked",
        Phase::Ended(state) => state.as_str(),
    }
}

impl RunView {
    /// Returns the view of `run` before its first entry.
    pub(crate) async fn new(engine: Engine, run: &RunId) -> Result<Self, RunError> {
        Ok(Self {
            run: engine.unstarted(run).await?,
            engine,
            began: Timestamp::default(),
            interrupted: false,
            queued: false,
            executed: false,
            rows: BTreeMap::new(),
            problems: Vec::new(),
            outputs: Vec::new(),
            used: Spent::default(),
            models: BTreeSet::new(),
            calls: 0,
            fork: Fork::default(),
            away: BTreeMap::new(),
            back_offs: BackOffs::default(),
            previews: BTreeMap::new(),
            suspended: Vec::new(),
        })
    }

    /// Applies the next entry.
    pub(crate) async fn apply(&mut self, recorded: &Recorded) -> Result<(), RunError> {
        self.engine.apply(&mut self.run, recorded).await?;
        let at = recorded.at;
        self.outputs.extend(
            recorded
                .entry
                .user_output()
                .filter(|output| lines::is_shown(output, false))
                .map(|output| Json::of(&output).expect("an output serialises")),
        );
        match &recorded.entry {
            Entry::RunStarted(_) => self.began = at,
            Entry::TaskCreated(created) => {
                let row = TaskRow {
                    request: created.request.clone(),
                    documents: created.documents.clone(),
                    workspace: self.run.documents().clone(),
                    began: at,
                    ended: None,
                    recorded_turn: 0,
                    step: String::new(),
                    used: Spent::default(),
                    unknown: Unsettled::default(),
                    result: None,
                    wrote: Vec::new(),
                };
                self.rows.insert(created.task.clone(), row);
            }
            Entry::ModelRequested(requested) => {
                self.asks(&requested.model);
                "thinking".clone_into(&mut self.row_mut(&requested.task).step);
            }
            Entry::FellBack(fell) => {
                self.back_offs.forget(&fell.task);
                self.asks(&fell.to);
            }
            Entry::CallAskedModel(asked) => self.asks(&asked.model),
            Entry::ModelAnswered(answered) => {
                self.back_offs.forget(&answered.task);
                let is_recorded = answered.recorded.is_some();
                self.fork.turns += 1;
                self.fork.recorded_turns += u32::from(is_recorded);
                self.calls += answered.calls.len();
                let row = self.row_mut(&answered.task);
                if is_recorded {
                    row.recorded_turn = answered.turn;
                }
                if answered.calls.is_empty() {
                    crate::words::preview(&answered.text, 60).as_str().clone_into(&mut row.step);
                }
            }
            Entry::CallRefused(refused) => {
                self.problems.push(Problem::of_call(&refused.task, &refused.call, refused.tool.as_str(), &refused.error));
                self.row_mut(&refused.task).step = format!("{} refused: {}", refused.tool, refused.error.message);
            }
            Entry::CallMade(_) => self.calls += 1,
            Entry::CallStarted(started) => self.row_mut(&started.task).step = started.tool.to_string(),
            Entry::CallSuspended(suspended) => {
                self.row_mut(&suspended.task).step = match suspended.suspension.until {
                    Some(until) => format!("{} waits until {until}", suspended.tool),
                    None => format!("{} waits for a delivery", suspended.tool),
                };
            }
            Entry::CallFinished(finished) => {
                if let Some(error) = &finished.result.error {
                    self.problems.push(Problem::of_call(&finished.task, &finished.call, finished.tool.as_str(), error));
                }
                self.row_mut(&finished.task).step = step_of(finished.tool.as_str(), &finished.result);
            }
            Entry::DocumentWritten(version) => {
                if let Some(task) = &version.task {
                    self.row_mut(task).wrote.push(version.reference());
                }
            }
            Entry::QuestionClosed(closed) => _ = self.previews.remove(&closed.task),
            Entry::BudgetSettled(settled) => self.settle(settled),
            Entry::Control(control) => self.control(control, at),
            Entry::SubtreeClosed(closed) => {
                for task in &closed.tasks {
                    let row = self.row_mut(task);
                    row.ended = Some(at);
                    row.step.clone_from(&closed.reason);
                }
            }
            Entry::TaskEnded(ended) => {
                self.back_offs.forget(&ended.task);
                if let Some(error) = &ended.result.error {
                    let turns = self.run.task(&ended.task).map_or(0, |task| task.turns);
                    self.problems.push(Problem::of_end(&ended.task, turns, error));
                }
                let row = self.row_mut(&ended.task);
                row.ended = Some(at);
                row.result = Some(Arc::clone(&ended.result));
            }
            Entry::CallApproved(_)
            | Entry::QuestionOpened(_)
            | Entry::Output(_)
            | Entry::Compacted(_)
            | Entry::TaskReported(_)
            | Entry::RunEnded(_) => {}
        }
        Ok(())
    }

    fn asks(&mut self, model: &str) {
        if !self.models.contains(model) {
            self.models.insert(model.to_owned());
        }
    }

    fn settle(&mut self, settled: &BudgetSettled) {
        let row = self.row_mut(&settled.task);
        if settled.unknown {
            row.unknown.add(Unsettled::of(settled.usage.total(), settled.cost));
            return;
        }
        let is_recorded = settled.by.is_none() && row.recorded_turn == settled.turn;
        row.used.settle(&settled.usage, settled.cost);
        self.used.settle(&settled.usage, settled.cost);
        if !is_recorded {
            self.fork.used.settle(&settled.usage, settled.cost);
        }
    }

    fn control(&mut self, control: &Control, at: Timestamp) {
        match &control.action {
            ControlAction::TakenOver { .. } => self.away.clear(),
            ControlAction::Adopted(adoption) => {
                self.away.clear();
                let Some(fork) = &adoption.fork else { return };
                if adoption.follow_up.is_some() {
                    // Earlier turns, calls and outputs are those of the run that this one continues.
                    (self.began, self.used, self.calls) = (at, Spent::default(), 0);
                    self.outputs.clear();
                    return;
                }
                // The time since the last shared entry does not count for the fork.
                let skipped = at.since(fork.at);
                self.began = self.began.plus(skipped);
                for row in self.rows.values_mut().filter(|row| row.ended.is_none()) {
                    row.began = row.began.plus(skipped);
                }
                self.fork = Fork::default();
            }
            ControlAction::Waited(waited) => {
                if let Some(task) = control.task.as_ref().filter(|_| waited.stops) {
                    self.away.insert(task.clone(), (**waited).clone());
                }
            }
            ControlAction::Paused
            | ControlAction::Unpaused
            | ControlAction::Quarantined { .. }
            | ControlAction::Cancelled { .. }
            | ControlAction::Steered { .. }
            | ControlAction::Late { .. } => {}
        }
    }

    fn row_mut(&mut self, task: &TaskId) -> &mut TaskRow {
        self.rows.get_mut(task).expect("each task of a run has a row")
    }

    /// Returns the row of `task`, which must be a task of the run.
    pub(crate) fn row(&self, task: &TaskId) -> &TaskRow {
        &self.rows[task]
    }

    /// Returns the end of elapsed times on a screen that does not follow the run. It is now if a process executes the run or the
    /// run waits for a person, else the time of the last entry, because no work happens since then.
    pub(crate) fn shown_at(&self) -> Timestamp {
        let latest = self.run.totals().latest;
        let goes_on = self.run.ended().is_none() && (self.executed || self.waits_for_person());
        // Another machine's clock may be behind.
        if goes_on { latest.max(crate::terminal::now()) } else { latest }
    }

    /// Returns the usage of each task with all tasks below it; for the root, of the whole run.
    pub(crate) fn spent(&self) -> BTreeMap<&TaskId, (Spent, NotUsed)> {
        let mut spent: BTreeMap<&TaskId, (Spent, NotUsed)> = BTreeMap::new();
        let mut add = |task, (used, not_used): (Spent, NotUsed)| {
            let sum = spent.entry(task).or_default();
            sum.0.add(used);
            sum.1.add(not_used);
            *sum
        };
        // Callees come after their callers, so each sum is complete before it is added to the caller's.
        for task in self.run.graph().iter().rev() {
            let whole = add(&task.id, (self.row(&task.id).used, self.not_used(task)));
            if let Some(caller) = self.run.graph().caller(&task.id) {
                add(&caller.id, whole);
            }
        }
        spent
    }

    /// Returns the reserved and the unknown usage of `task` alone.
    pub(crate) fn not_used(&self, task: &Task) -> NotUsed {
        let (tokens, cost) = task.reserved();
        NotUsed { reserved: Unsettled { tokens, cost }, unknown: self.row(&task.id).unknown }
    }

    /// Returns the reserved and the unknown usage of the run.
    pub(crate) fn not_used_by_run(&self) -> NotUsed {
        let mut sum = NotUsed::default();
        self.run.graph().iter().for_each(|task| sum.add(self.not_used(task)));
        sum
    }

    /// Returns the call that the open question of `task` asks to approve.
    pub(crate) fn to_approve(&self, task: &Task) -> Option<&ModelCall> {
        matches!(task.concern(), Some(Concern::Approval { .. })).then_some(())?;
        Some(&self.run.graph().caller(&task.id)?.call(&task.id.originating_call())?.asked)
    }

    /// Returns the run's id; empty before the first entry.
    pub(crate) fn id(&self) -> &str {
        self.run.started().map_or("", |started| started.run.as_str())
    }

    /// Returns the result of the root.
    pub(crate) fn result(&self) -> Option<&CallResult> {
        self.rows.get(&self.run.root()?.id)?.result.as_deref()
    }

    /// Returns the name of the holder of `task`.
    pub(crate) fn holder(&self, task: &TaskId) -> String {
        self.run.task(task).map_or_else(|| task.to_string(), |task| task.holder.to_string())
    }

    /// Returns the holder of the task that `call` waits for.
    pub(crate) fn awaited_of(&self, call: &OpenCall) -> String {
        // Background tasks that a call waits for are rows of their own.
        let waits_for_tasks = call.stage != CallStage::Approval && call.tool_type == Some(ToolType::NonFunctionTool);
        if call.stage == CallStage::Suspended || waits_for_tasks {
            return call.asked.shown_name().to_owned();
        }
        self.holder(&Self::awaited_task(call))
    }

    /// Returns the task that `call` waits for: a question about the call, or else its first attempt.
    fn awaited_task(call: &OpenCall) -> TaskId {
        match call.stage {
            CallStage::Approval => call.id.approval(call.approvals()),
            CallStage::Doubt => call.id.outcome(),
            _ => call.id.created_task(),
        }
    }

    /// Iterates over the questions, in the order they were opened.
    pub(crate) fn questions(&self) -> impl Iterator<Item = Asked<'_>> {
        let tasks = self.run.totals().questions.iter().filter_map(|task| self.run.task(task));
        tasks.filter_map(|task| Some(Asked { task, question: task.question.as_deref()? }))
    }

    /// Iterates over the open questions for a person, oldest first.
    pub(crate) fn questions_for_person(&self) -> impl Iterator<Item = Asked<'_>> {
        self.questions().filter(|asked| asked.is_open() && asked.task.holder == Holder::Person)
    }

    /// Returns the documents that the root handed off.
    pub(crate) fn handed_off(&self) -> Vec<&DocumentVersion> {
        let references = self.result().map(|result| result.documents.as_slice()).unwrap_or_default();
        references.iter().filter_map(|reference| self.run.documents().version(reference)).map(AsRef::as_ref).collect()
    }

    /// Returns the name of the author of `version`; `job` for the job's own documents.
    pub(crate) fn author(version: &DocumentVersion) -> String {
        version.created_by.as_ref().map_or_else(|| "job".to_owned(), ToString::to_string)
    }

    /// Returns the path of a question: from the first asker through the masters that passed it on, to the current master.
    pub(crate) fn chain(&self, asked: Asked<'_>) -> Vec<String> {
        let mut chain = vec![asked.task.holder.to_string()];
        let mut next = self.run.task(&asked.question.asker);
        while let Some(task) = next {
            chain.push(task.holder.to_string());
            // A master that passes a question on asks in a task that is a question itself.
            next = self.run.graph().caller(&task.id).filter(|_| task.kind == TaskKind::Question);
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
