//! The second pair of eyes: keeps its own books from the entries alone and says what no timeline may hold.
//!
//! It knows nothing of the machine's state. Names such as I4 are those of RELIABILITY.md, B1.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_core::call::{CallResult, CallStatus};
use baton_core::document::{DocumentRef, DocumentVersion};
use baton_core::entry::{Control, Entry, FinalState, Holder, Recorded, TaskCreated, TaskEnded, TaskKind};
use baton_core::id::{CallId, TaskId};
use baton_core::model::Usage;
use baton_core::tool_type::ToolType;

/// What the entries so far say.
#[derive(Debug, Default)]
pub struct Ledger {
    last_seq: u64,
    last_at: i64,
    /// Every task that was created.
    pub tasks: BTreeMap<TaskId, TaskBook>,
    /// Every call that a model made.
    pub calls: BTreeMap<CallId, CallBook>,
    /// Every question that was opened for a person, by its number.
    pub questions: BTreeMap<u32, QuestionBook>,
    /// The newest version of each document.
    pub heads: BTreeMap<String, u32>,
    /// Whether the run has ended.
    pub run_ended: bool,
    /// What model requests were settled at, together.
    pub settled: Usage,
    /// How many turns were asked for; a turn asked again after a crash counts once.
    pub turns: u32,
}

/// What the entries say of a task.
#[derive(Debug)]
pub struct TaskBook {
    /// Its first entry.
    pub created: TaskCreated,
    /// How it ended.
    pub ended: Option<FinalState>,
    /// What it gave, unless it was closed with the subtree it was in.
    pub result: Option<Arc<CallResult>>,
    /// The open model request and what is reserved for it.
    pub request: Option<(u32, u64)>,
    /// Its newest turn.
    pub turns: u32,
    /// The newest turn was settled without an answer, by a crash, and is asked again.
    interrupted: bool,
    answered: u32,
    /// How many tasks it delegated to.
    pub children: u32,
    /// Tokens that its own requests were settled at.
    pub spent: u64,
    /// The calls of the newest turn.
    pub open: BTreeSet<CallId>,
    /// Documents that were handed to this task, by the call's result or with the request.
    pub injected: Vec<DocumentRef>,
}

/// What the entries say of a call.
#[derive(Debug)]
pub struct CallBook {
    /// The task that made it.
    pub task: TaskId,
    /// The tool that it names.
    pub tool: String,
    /// Where it started and what its tool's type is.
    pub started: Option<(u64, ToolType)>,
    /// Whether it created a task.
    pub created: bool,
    /// The status of its result.
    pub status: Option<CallStatus>,
    /// Whether it was refused.
    pub refused: bool,
    /// It belongs to a task that was closed with the subtree it was in.
    pub closed: bool,
}

/// What the entries say of a question.
#[derive(Debug)]
pub struct QuestionBook {
    /// The task that stands for it.
    pub task: TaskId,
    /// How often it was closed.
    pub ends: u32,
}

impl CallBook {
    fn is_finished(&self) -> bool {
        self.refused || self.status.is_some() || self.closed
    }

    /// Whether it is a function that runs.
    fn runs(&self) -> bool {
        !self.is_finished() && self.started.is_some_and(|(_, tool_type)| tool_type.behavior().runs_code)
    }
}

impl Ledger {
    /// Enters one batch and checks what must hold after it.
    pub fn enter(&mut self, batch: &[Recorded]) {
        for recorded in batch {
            self.entry(recorded);
        }
        self.after_batch();
    }

    fn task(&mut self, id: &TaskId) -> &mut TaskBook {
        self.tasks.get_mut(id).unwrap_or_else(|| panic!("an entry names the task {id}, which was never created"))
    }

    /// The task, which must not have ended (I10).
    fn live(&mut self, id: &TaskId, what: &str) -> &mut TaskBook {
        let task = self.task(id);
        assert!(task.ended.is_none(), "I10: {what} for task {id}, which has ended as {:?}", task.ended);
        task
    }

    fn entry(&mut self, recorded: &Recorded) {
        let Recorded { seq, at, entry } = recorded;
        assert_eq!(*seq, self.last_seq + 1, "I5: seq {seq} follows {}", self.last_seq);
        assert!(at.as_micros() >= self.last_at, "entry {seq} was decided before the one it follows");
        self.last_seq = *seq;
        self.last_at = at.as_micros();
        assert!(
            !self.run_ended || matches!(entry, Entry::Control(_) | Entry::BudgetSettled(_)),
            "I10: {entry:?} after the end of the run"
        );
        match entry {
            Entry::RunStarted(_) => assert_eq!(*seq, 1, "the run starts once, first"),
            Entry::TaskCreated(created) => self.task_created(created, *seq),
            Entry::ModelRequested(requested) => {
                let unfinished = self.unfinished_calls(&requested.task);
                assert!(unfinished.is_empty(), "I4: {} asks its model while {unfinished:?} have no result", requested.task);
                self.turns += u32::from(!self.tasks[&requested.task].interrupted);
                let task = self.live(&requested.task, "a model request");
                assert!(matches!(task.created.holder, Holder::Agent(_)), "a person's task {} runs no model", requested.task);
                assert!(task.request.is_none(), "I9: two model requests of {} are open at once", requested.task);
                let expected = if task.interrupted { task.turns } else { task.turns + 1 };
                assert_eq!(requested.turn, expected, "the turn of {} after turn {}", requested.task, task.turns);
                task.interrupted = false;
                task.turns = requested.turn;
                task.request = Some((requested.turn, requested.reserved_tokens));
                task.open.clear();
            }
            Entry::ModelAnswered(answered) => {
                let task = self.live(&answered.task, "a model answer");
                assert!(
                    task.request.is_some_and(|(turn, _)| turn == answered.turn),
                    "an answer to turn {} of {}, where {:?} is open",
                    answered.turn,
                    answered.task,
                    task.request
                );
                let ids: Vec<CallId> =
                    (1..=answered.calls.len()).map(|position| answered.task.call(answered.turn, position as u32)).collect();
                task.answered = answered.turn;
                task.open = ids.iter().cloned().collect();
                for (id, call) in ids.into_iter().zip(&answered.calls) {
                    let book = CallBook {
                        task: answered.task.clone(),
                        tool: call.tool.clone(),
                        started: None,
                        created: false,
                        status: None,
                        refused: false,
                        closed: false,
                    };
                    assert!(self.calls.insert(id.clone(), book).is_none(), "I4: the call id {id} was used twice");
                }
            }
            Entry::CallRefused(refused) => {
                self.live(&refused.task, "a refused call");
                let call = self.open_call(&refused.call, &refused.task);
                assert!(call.started.is_none(), "{} was refused after it had started", refused.call);
                call.refused = true;
            }
            Entry::CallStarted(started) => {
                let task = self.live(&started.task, "a call's start");
                if started.tool_type == ToolType::AgentAsTool {
                    task.children += 1;
                }
                let call = self.open_call(&started.call, &started.task);
                assert!(call.started.is_none(), "{} started twice", started.call);
                assert_eq!(started.tool, *call.tool, "{} started as another tool", started.call);
                call.started = Some((*seq, started.tool_type));
            }
            Entry::CallFinished(finished) => {
                self.live(&finished.task, "a call's result");
                self.open_call(&finished.call, &finished.task).status = Some(finished.result.status);
                let child = finished.call.created_task();
                if let Some(child) = self.tasks.get(&child) {
                    let closed = (child.ended == Some(FinalState::Cancelled)).then_some(CallStatus::Cancelled);
                    let status = child.result.as_ref().map(|result| result.status).or(closed);
                    assert!(child.ended.is_some(), "I5: the result of {} before the end of its task", finished.call);
                    assert_eq!(
                        status,
                        Some(finished.result.status),
                        "{} and its task end with different statuses",
                        finished.call
                    );
                }
                self.task(&finished.task).injected.extend(finished.result.documents.iter().cloned());
            }
            Entry::DocumentWritten(version) => self.document_written(version),
            Entry::QuestionOpened(opened) => {
                self.live(&opened.task, "a question's opening");
                let book = QuestionBook { task: opened.task.clone(), ends: 0 };
                assert!(self.questions.insert(opened.number, book).is_none(), "Q{} was opened twice", opened.number);
            }
            Entry::QuestionClosed(closed) => {
                let question = self.questions.get_mut(&closed.number).expect("a question that closes was opened");
                question.ends += 1;
                assert_eq!(question.ends, 1, "I22: Q{} has more than one end", closed.number);
                assert_eq!(question.task, closed.task);
            }
            Entry::Output(output) => {
                self.live(&output.task, "an output");
            }
            Entry::BudgetSettled(settled) => {
                self.settled.add(&settled.usage);
                let task = self.task(&settled.task);
                let (turn, reserved) = task.request.take().expect("what is settled was reserved");
                assert_eq!((turn, reserved), (settled.turn, settled.reserved_tokens), "what is settled is what was reserved");
                task.spent += settled.usage.total();
                task.interrupted = task.answered < turn;
            }
            Entry::Compacted(compacted) => {
                self.live(&compacted.task, "a compaction");
            }
            Entry::Control(Control { task, action: _action, by: _by }) => {
                if let Some(task) = task {
                    self.task(task);
                }
            }
            Entry::SubtreeClosed(closed) => self.subtree_closed(&closed.task, &closed.tasks),
            Entry::TaskEnded(ended) => self.task_ended(ended),
            Entry::RunEnded(ended) => {
                let root = self.task(&TaskId::root());
                assert_eq!(root.ended, Some(ended.state), "the run ends as its root did");
                assert_eq!(root.result.as_ref().map(|result| result.status), Some(ended.status));
                self.run_ended = true;
            }
        }
    }

    fn open_call(&mut self, id: &CallId, task: &TaskId) -> &mut CallBook {
        let open = self.tasks[task].open.contains(id);
        let call = self.calls.get_mut(id).unwrap_or_else(|| panic!("an entry names the call {id}, which nobody made"));
        assert_eq!(call.task, *task, "{id} is a call of another task");
        assert!(open, "{id} belongs to an earlier turn");
        assert!(!call.is_finished(), "I4: a second result, or a step after the result, of {id}");
        call
    }

    fn task_created(&mut self, created: &TaskCreated, seq: u64) {
        match &created.caller {
            None => assert!(created.kind == TaskKind::Root && created.task == TaskId::root() && self.tasks.is_empty()),
            Some(caller) => {
                let call = CallId::from(&created.task);
                let depth = u32::from(created.kind == TaskKind::Delegation);
                if created.kind == TaskKind::Delegation || call.task() == *caller {
                    assert_eq!(call.task(), *caller, "I3: a task bears the id of the call that created it");
                }
                let above = self.live(caller, "a new callee").created.depth;
                assert_eq!(created.depth, above + depth, "the depth of {}", created.task);
                if let Some(book) = self.calls.get_mut(&call) {
                    let started = book.started.map(|(started, _)| started);
                    assert!(started.is_some_and(|started| started < seq), "I5: {} exists before its call", created.task);
                    assert!(!book.created, "I3: {call} created two tasks");
                    book.created = true;
                }
            }
        }
        let injected = created.documents.clone();
        let book = TaskBook {
            created: created.clone(),
            ended: None,
            result: None,
            request: None,
            turns: 0,
            interrupted: false,
            answered: 0,
            children: 0,
            spent: 0,
            open: BTreeSet::new(),
            injected,
        };
        assert!(self.tasks.insert(created.task.clone(), book).is_none(), "{} was created twice", created.task);
    }

    fn document_written(&mut self, version: &DocumentVersion) {
        let path = version.path.as_str().to_owned();
        let head = self.heads.get(&path).copied();
        assert_eq!(version.version, head.unwrap_or(0) + 1, "I14: version {} of {path} follows {head:?}", version.version);
        assert_eq!(version.base, head, "I14: {path} v{} was made from {:?}", version.version, version.base);
        if let Some(task) = &version.task {
            self.live(task, "a document");
        }
        self.heads.insert(path, version.version);
    }

    fn subtree_closed(&mut self, top: &TaskId, tasks: &[TaskId]) {
        assert!(!tasks.is_empty(), "a subtree without tasks was closed");
        for id in tasks {
            assert!(self.is_below(id, top), "{id} is not below {top}");
            let task = self.live(id, "a closing");
            task.ended = Some(FinalState::Cancelled);
            for call in std::mem::take(&mut task.open) {
                let call = self.calls.get_mut(&call).expect("open calls are known");
                call.closed = !call.is_finished();
            }
        }
        let closed: BTreeSet<&TaskId> = tasks.iter().collect();
        for question in self.questions.values_mut().filter(|question| closed.contains(&question.task)) {
            if question.ends == 0 {
                question.ends = 1;
            }
        }
    }

    fn task_ended(&mut self, ended: &TaskEnded) {
        let live: Vec<&TaskId> = self
            .tasks
            .iter()
            .filter(|(id, book)| book.ended.is_none() && self.is_below(id, &ended.task))
            .map(|(id, _)| id)
            .collect();
        assert!(live.is_empty(), "I11: {} ends while {live:?} live below it", ended.task);
        let task = self.live(&ended.task, "a second end");
        task.ended = Some(ended.state);
        task.result = Some(Arc::clone(&ended.result));
        let open = std::mem::take(&mut task.open);
        for call in open {
            let call = self.calls.get_mut(&call).expect("open calls are known");
            call.closed = !call.is_finished();
        }
    }

    /// Whether `task` is below `top`, by the callers that the entries name.
    pub fn is_below(&self, task: &TaskId, top: &TaskId) -> bool {
        self.above(task).any(|above| above == top)
    }

    /// The tasks above `task`, nearest first.
    pub fn above<'a>(&'a self, task: &TaskId) -> impl Iterator<Item = &'a TaskId> {
        let caller = |id: &TaskId| self.tasks.get(id).and_then(|book| book.created.caller.as_ref());
        std::iter::successors(caller(task), move |id| caller(id))
    }

    /// The calls of a task's newest turn that have no result.
    pub fn unfinished_calls(&self, task: &TaskId) -> Vec<&CallId> {
        self.tasks[task].open.iter().filter(|call| !self.calls[*call].is_finished()).collect()
    }

    /// Tasks that have not ended.
    pub fn live_tasks(&self) -> impl Iterator<Item = (&TaskId, &TaskBook)> {
        self.tasks.iter().filter(|(_, book)| book.ended.is_none())
    }

    /// How many function calls run.
    pub fn running_calls(&self) -> usize {
        self.calls.values().filter(|call| call.runs()).count()
    }

    /// How many function calls of `task` run.
    pub fn running_calls_of(&self, task: &TaskId) -> usize {
        self.tasks[task].open.iter().filter(|call| self.calls[*call].runs()).count()
    }

    /// Tokens spent and reserved by `top` and all below it.
    pub fn tokens(&self, top: &TaskId) -> u64 {
        let below = self.tasks.iter().filter(|(id, _)| *id == top || self.is_below(id, top));
        below.map(|(_, book)| book.spent + book.request.map_or(0, |(_, reserved)| reserved)).sum()
    }

    fn after_batch(&self) {
        // A call may wait for a place among the run's parallel calls; then others run.
        let functions_run = self.calls.values().any(CallBook::runs);
        for (id, task) in &self.tasks {
            // I2: the batch that ends a task gives its caller's call the result; escalation passes the call on.
            let call = CallId::from(id);
            if task.ended.is_some()
                && let Some(book) = self.calls.get(&call)
                && book.created
            {
                assert!(book.is_finished() || self.is_escalated(id), "I2: {id} has ended and its caller was not told");
            }
            if task.ended.is_some() {
                continue;
            }
            // I1: what a live task waits for can still arrive.
            for call in self.unfinished_calls(id) {
                let book = &self.calls[call];
                if book.created {
                    let child = self.tasks.get(&call.created_task()).expect("a created task is known");
                    assert!(
                        child.ended.is_none() || self.is_escalated(&child.created.task),
                        "I1: {id} waits for {call}, which has ended"
                    );
                }
            }
            let asks = task.request.is_some();
            let calls = self.unfinished_calls(id);
            let waits = calls.iter().any(|call| self.calls[*call].created || self.calls[*call].runs());
            assert!(!asks || calls.is_empty(), "I4: {id} asks its model while {calls:?} are open");
            assert!(asks || waits || functions_run || calls.is_empty(), "{id} has calls that nobody works on: {calls:?}");
        }
        if self.run_ended {
            assert_eq!(self.live_tasks().count(), 0, "I11: the run has ended and tasks live");
            let issued = self.calls.len();
            let answered = self.calls.values().filter(|call| call.is_finished()).count();
            assert_eq!(issued, answered, "I17: calls issued and calls answered");
            for (number, question) in &self.questions {
                assert_eq!(question.ends, 1, "I22: Q{number} has no end");
            }
        }
    }

    /// Whether the question that `task` is went on to another task, which now answers the same call.
    fn is_escalated(&self, task: &TaskId) -> bool {
        self.tasks.values().any(|book| {
            book.ended.is_none() && book.created.caller.as_ref() == Some(task) && book.created.kind == TaskKind::Question
        })
    }
}
