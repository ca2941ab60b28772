//! What one entry may say, given those before it.

use std::collections::BTreeSet;
use std::sync::Arc;

use baton_core::call::{AfterExecution, CallResult, CallStatus};
use baton_core::config::EffectClass;
use baton_core::document::{DocumentRef, DocumentVersion};
use baton_core::entry::{
    BudgetSettled, CallApproved, CallFinished, CallRefused, CallStarted, Concern, Control, ControlAction, Entry, FinalState,
    Holder, ModelAnswered, ModelRequested, Output, QuestionClosed, QuestionEnd, QuestionOpened, Recorded, RunEnded, TaskCreated,
    TaskEnded, TaskKind,
};
use baton_core::id::{CallId, TaskId};
use baton_core::time::Timestamp;
use baton_core::tool_type::Then;

use super::{CallBook, Ledger, OpenRequest, QuestionBook, TaskBook, cost};
use crate::finding::Invariant;

/// More tokens than anything uses; a count beyond it is no count, and adding such counts up would overflow.
const TOO_MANY: u64 = 1 << 48;

impl Ledger {
    /// Enters one entry.
    pub(crate) fn entry(&mut self, recorded: &Recorded) {
        let Recorded { seq, at, entry } = recorded;
        let before = std::mem::replace(&mut self.last_seq, *seq);
        self.rule(*seq == before.saturating_add(1), Invariant::I5, || format!("entry {seq} follows entry {before}"));
        let (moment, earlier) = (at.as_micros(), self.last_at);
        self.rule(moment >= earlier, Invariant::I5, || "it was decided before the entry that it follows".to_owned());
        self.last_at = moment.max(earlier);
        let starts = matches!(entry, Entry::RunStarted(_));
        self.rule(starts == (before == 0), Invariant::I5, || "the run starts once, first".to_owned());
        let after_end = self.run_ended && !matches!(entry, Entry::Control(_));
        self.rule(!after_end, Invariant::I10, || format!("{} after the end of the run", entry.name()));
        if let Some(task) = entry.task() {
            self.touched.insert(task.clone());
        }
        match entry {
            Entry::RunStarted(started) => self.prices.clone_from(&started.prices),
            Entry::TaskCreated(created) => self.task_created(created, *seq, *at),
            Entry::ModelRequested(requested) => self.model_requested(requested, *seq),
            Entry::ModelAnswered(answered) => self.model_answered(answered),
            Entry::CallRefused(refused) => self.call_refused(refused),
            Entry::CallApproved(approved) => self.call_approved(approved),
            Entry::CallStarted(started) => self.call_started(started, *seq),
            Entry::CallFinished(finished) => self.call_finished(finished),
            Entry::DocumentWritten(version) => self.document_written(version),
            Entry::QuestionOpened(opened) => self.question_opened(opened),
            Entry::QuestionClosed(closed) => self.question_closed(closed),
            Entry::Output(output) => self.output(output),
            Entry::BudgetSettled(settled) => self.budget_settled(settled),
            Entry::Compacted(compacted) => {
                self.live(&compacted.task, "a compaction");
            }
            Entry::Control(control) => self.control(control, *seq),
            Entry::SubtreeClosed(closed) => self.subtree_closed(&closed.task, &closed.tasks),
            Entry::TaskEnded(ended) => self.task_ended(ended),
            Entry::RunEnded(ended) => self.run_end(ended),
        }
    }

    /// Whether `id` was created and has not ended; if not, `what` is said of it in vain (I10).
    fn live(&mut self, id: &TaskId, what: &str) -> bool {
        match self.tasks.get(id).map(|book| book.ended) {
            None => self.broken(Invariant::I3, format!("{what} for task {id}, which was never created")),
            Some(Some(state)) => {
                self.broken(Invariant::I10, format!("{what} for task {id}, which has ended as {}", state.as_str()));
            }
            Some(None) => return true,
        }
        false
    }

    /// The books of a call that may go on: of `task`, of its newest turn, without a result.
    fn open_call(&mut self, id: &CallId, task: &TaskId, tool: &str) -> Option<&mut CallBook> {
        let open = self.tasks.get(task).is_some_and(|book| book.open.contains(id));
        let Some(call) = self.calls.get(id) else {
            self.broken(Invariant::I4, format!("call {id} was made by nobody"));
            return None;
        };
        let (ours, finished, named) = (call.task == *task, call.is_finished(), call.tool == tool);
        self.rule(ours, Invariant::I4, || format!("{id} is a call of another task than {task}"));
        self.rule(open || !ours, Invariant::I4, || format!("{id} belongs to an earlier turn"));
        self.rule(!finished, Invariant::I4, || format!("a second result, or a step after the result, of {id}"));
        self.rule(named, Invariant::I4, || format!("{id} goes on as a call of {tool}"));
        if ours && open && !finished { self.calls.get_mut(id) } else { None }
    }

    fn task_created(&mut self, created: &TaskCreated, seq: u64, at: Timestamp) {
        let id = &created.task;
        if self.tasks.contains_key(id) {
            return self.broken(Invariant::I3, format!("task {id} was created twice"));
        }
        if let Holder::Agent(agent) = &created.holder {
            let known = self.configs.agents.contains_key(agent);
            self.rule(known, Invariant::I3, || format!("task {id} is held by {agent}, whom the job does not know"));
        }
        let known = created.documents.iter().all(|document| self.has_version(document));
        self.rule(known, Invariant::I16, || format!("task {id} was given documents that do not exist"));
        let once = created.documents.iter().collect::<BTreeSet<_>>().len() == created.documents.len();
        self.rule(once, Invariant::I16, || format!("task {id} was given a document twice"));
        let mut book = TaskBook {
            created: created.clone(),
            ended: None,
            result: None,
            request: None,
            subtree_cost: 0,
            calls_made: 0,
            requested_at: 0,
            turns: 0,
            interrupted: false,
            answered: 0,
            children: 0,
            spent: 0,
            subtree_tokens: 0,
            open: BTreeSet::new(),
            injected: created.documents.clone(),
            known: created.documents.iter().map(as_known).collect(),
            cancelled: false,
            question: None,
        };
        match &created.caller {
            None => {
                let root = created.kind == TaskKind::Root && *id == TaskId::root() && created.depth == 0;
                let first = self.tasks.is_empty();
                self.rule(root && first, Invariant::I3, || format!("task {id} has no caller and is not the root"));
                let held = created.holder == Holder::Agent(self.configs.job.root.clone());
                self.rule(held, Invariant::I3, || "the root is held by another agent than the job's".to_owned());
            }
            Some(caller) => {
                if !self.live(caller, "a new callee") {
                    // A caller that comes later must not close a circle.
                    book.created.caller = None;
                }
                self.callee_created(created, caller, seq, at);
            }
        }
        self.live.insert(id.clone());
        self.tasks.insert(id.clone(), book);
    }

    fn callee_created(&mut self, created: &TaskCreated, caller: &TaskId, seq: u64, at: Timestamp) {
        let id = &created.task;
        let delegation = created.kind == TaskKind::Delegation;
        let above = self.tasks.get(caller).map_or(0, |book| book.created.depth);
        let depth = above.saturating_add(u32::from(delegation));
        self.rule(created.depth == depth, Invariant::I3, || format!("task {id} says that it is {} deep", created.depth));
        let known = created.answers_for.as_ref().is_none_or(|master| self.tasks.contains_key(master));
        self.rule(known, Invariant::I22, || format!("task {id} answers for a task that does not exist"));
        let call = id.originating_call();
        if self.escalated_to(caller) == Some(id) {
            return;
        }
        if let Some(concern) = created.concern {
            return self.question_about_call(created, caller, &call, concern);
        }
        let Some(book) = self.calls.get(&call).filter(|book| book.task == *caller) else {
            return self.broken(Invariant::I3, format!("no call of {caller} created task {id}"));
        };
        let failed = created.failed_attempts;
        // A later attempt gets the documents as they are by then.
        let attached = failed > 0 || book.attached == created.documents;
        let (open, due) = (!book.is_finished(), book.retry_at);
        let again = if failed == 0 { book.created } else { due.is_none_or(|due| at < due) };
        let named_so = *id == call.attempt(failed.saturating_add(1)) && failed == book.failed_attempts;
        let before = book.started.is_some_and(|(started, _)| started < seq);
        let named = created.tool.as_deref() == Some(book.tool.as_str());
        let tool = self.tool(&book.tool);
        let held = match (tool.and_then(|tool| tool.agent.as_ref()), &created.holder) {
            (Some(agent), Holder::Agent(holder)) => delegation && agent == holder,
            (None, _) => created.kind == TaskKind::Question,
            (Some(_), Holder::Person) => false,
        };
        self.rule(before && open, Invariant::I5, || format!("task {id} exists before its call has started"));
        self.rule(!again, Invariant::I3, || format!("call {call} created a task too many, or too early"));
        self.rule(named_so, Invariant::I3, || format!("task {id} is not the next attempt at {call}"));
        self.rule(named && held, Invariant::I21, || format!("task {id} is not what its call asks for"));
        self.rule(attached, Invariant::I16, || format!("task {id} gets other documents than its call attached"));
        if let Some(book) = self.calls.get_mut(&call) {
            book.created = true;
            book.worked_on_by = Some(id.clone());
            book.retry_at = None;
        }
        if failed > 0
            && let Some(task) = self.tasks.get_mut(caller)
        {
            task.children = task.children.saturating_add(1);
        }
    }

    /// The engine asks about a call: whether it may begin, or what became of it.
    fn question_about_call(&mut self, created: &TaskCreated, caller: &TaskId, call: &CallId, concern: Concern) {
        let id = &created.task;
        let is_question = created.kind == TaskKind::Question;
        self.rule(is_question, Invariant::I22, || format!("task {id} is about a call and no question"));
        let takeover = self.last_takeover;
        let Some(book) = self.calls.get_mut(call).filter(|book| book.task == *caller) else {
            return self.broken(Invariant::I3, format!("task {id} is about a call that {caller} did not make"));
        };
        let ran = book.runs();
        let interrupted = ran && book.started.is_some_and(|(at, _)| at < takeover);
        let (expected, may) = match concern {
            Concern::Approval { .. } => (call.approval(), book.started.is_none() && book.question.is_none()),
            Concern::Outcome => (call.outcome(), interrupted),
        };
        let open = !book.is_finished();
        book.question = Some((id.clone(), concern));
        if concern == Concern::Outcome {
            self.running -= usize::from(ran);
        }
        self.rule(*id == expected && may && open, Invariant::I22, || format!("task {id} asks what is no question of {call}"));
    }

    fn call_approved(&mut self, approved: &CallApproved) {
        let id = &approved.call;
        if !self.live(&approved.task, "an approval") {
            return;
        }
        let asked = self.calls.get(id).and_then(|call| call.question.clone());
        let said = asked.as_ref().and_then(|(question, _)| self.tasks.get(question)).and_then(|question| question.result.clone());
        let granted = said.is_some_and(|said| said.status == CallStatus::Success && said.output.value()["approved"] == true);
        let bound = matches!(asked, Some((_, Concern::Approval { binds })) if binds == approved.binds);
        let Some(call) = self.open_call(id, &approved.task, approved.tool.as_str()) else { return };
        let early = call.started.is_none() && !std::mem::replace(&mut call.approved, true);
        self.rule(early, Invariant::I4, || format!("{id} is approved twice, or too late"));
        self.rule(granted && bound, Invariant::I15, || format!("{id} begins by an approval that nobody gave"));
    }

    /// The task that the question `task` went on to.
    fn escalated_to(&self, task: &TaskId) -> Option<&TaskId> {
        let number = self.tasks.get(task)?.question?;
        match self.questions.get(&number)?.how.as_ref()? {
            QuestionEnd::Escalated { to: _, task } => Some(task),
            _ => None,
        }
    }

    fn model_requested(&mut self, requested: &ModelRequested, seq: u64) {
        let id = &requested.task;
        if !self.live(id, "a model request") {
            return;
        }
        let unfinished = self.unfinished_calls(id).len();
        self.rule(unfinished == 0, Invariant::I4, || format!("{id} asks its model while {unfinished} calls have no result"));
        let paused = self.paused;
        self.rule(!paused, Invariant::I19, || format!("{id} asks its model while the run is paused"));
        let by_agent = self.agent_of(id).is_some();
        self.rule(by_agent, Invariant::I9, || format!("task {id} has no agent and asks a model"));
        let sane = requested.reserved_tokens < TOO_MANY && requested.input_tokens <= requested.reserved_tokens;
        self.rule(sane, Invariant::I18, || format!("{id} reserves {} tokens", requested.reserved_tokens));
        let reserved = if sane { requested.reserved_tokens } else { 0 };
        let cost = u128::from(requested.reserved_cost.picos());
        let Some(task) = self.tasks.get_mut(id) else { return };
        let (before, again, open) = (task.turns, task.interrupted, task.request.is_some());
        task.interrupted = false;
        task.turns = requested.turn;
        let (turn, model, input) = (requested.turn, requested.model.clone(), requested.input_tokens);
        task.request = Some(OpenRequest { turn, model, input, reserved, cost });
        task.requested_at = seq;
        task.open.clear();
        let expected = if again { before } else { before.saturating_add(1) };
        self.rule(!open, Invariant::I9, || format!("two model requests of {id} are open at once"));
        self.rule(requested.turn == expected, Invariant::I9, || format!("turn {} of {id} after turn {before}", requested.turn));
        self.turns = self.turns.saturating_add(u32::from(!again));
        self.hold(id, (reserved, cost), (0, 0));
        self.check_reservation(id);
    }

    fn model_answered(&mut self, answered: &ModelAnswered) {
        let id = &answered.task;
        if !self.live(id, "a model answer") {
            return;
        }
        self.answers += 1;
        let Some(task) = self.tasks.get_mut(id) else { return };
        let asked = task.request.as_ref().is_some_and(|request| request.turn == answered.turn) && task.answered < answered.turn;
        task.answered = answered.turn;
        let calls = (1..).zip(&answered.calls).map(|(position, call)| (id.call(answered.turn, position), call));
        let calls: Vec<_> = calls.collect();
        task.open = calls.iter().map(|(call, _)| call.clone()).collect();
        self.rule(asked, Invariant::I9, || format!("an answer to turn {} of {id}, which nobody waits for", answered.turn));
        for (call, asked) in calls {
            let book = CallBook {
                task: id.clone(),
                tool: asked.tool.clone(),
                asked: Arc::clone(asked),
                started: None,
                attached: Vec::new(),
                created: false,
                worked_on_by: None,
                question: None,
                approved: false,
                failed_attempts: 0,
                retry_at: None,
                status: None,
                result: None,
                refused: false,
                closed: false,
                wrote: false,
                sent: false,
            };
            let twice = self.calls.contains_key(&call);
            self.rule(!twice, Invariant::I4, || format!("the call id {call} was used twice"));
            if !twice {
                self.count_call(&book, true);
                self.calls.insert(call, book);
            }
        }
    }

    /// Counts a call that was made, or no longer one that was refused after all; handoffs are not counted.
    fn count_call(&mut self, call: &CallBook, is_made: bool) {
        let hands_off = self.tool(&call.tool).is_some_and(|tool| tool.tool_type.behavior().then == Then::Stop);
        let Some(task) = self.tasks.get_mut(&call.task).filter(|_| !hands_off) else { return };
        for count in [&mut task.calls_made, &mut self.calls_made] {
            *count = if is_made { count.saturating_add(1) } else { count.saturating_sub(1) };
        }
    }

    fn call_refused(&mut self, refused: &CallRefused) {
        if !self.live(&refused.task, "a refused call") {
            return;
        }
        let Some(call) = self.open_call(&refused.call, &refused.task, refused.tool.as_str()) else { return };
        call.refused = true;
        let started = call.started.is_some();
        self.rule(!started, Invariant::I4, || format!("{} was refused after it had started", refused.call));
        if let Some(book) = self.calls.remove(&refused.call) {
            self.count_call(&book, false);
            self.calls.insert(refused.call.clone(), book);
        }
    }

    fn call_started(&mut self, started: &CallStarted, seq: u64) {
        let (id, name) = (&started.call, started.tool.as_str());
        if !self.live(&started.task, "a call's start") {
            return;
        }
        let row = started.tool_type.behavior();
        let typed = self.tool(name).is_some_and(|tool| tool.tool_type == started.tool_type);
        self.rule(typed, Invariant::I21, || format!("{id} starts {name} as what it is not, a {}", started.tool_type));
        let granted = self.agent_of(&started.task).is_some_and(|agent| agent.tools.contains_key(name));
        self.rule(granted, Invariant::I15, || format!("{id} starts {name}, which its agent was not granted"));
        let known = started.documents.iter().all(|document| self.has_version(document));
        self.rule(known, Invariant::I16, || format!("{id} attaches documents that do not exist"));
        if row.runs_code {
            let writes = |name: &str| self.tool(name).is_some_and(|tool| tool.writes);
            let running: Vec<bool> = self
                .tasks
                .get(&started.task)
                .into_iter()
                .flat_map(|book| &book.open)
                .filter_map(|call| self.calls.get(call))
                .filter(|call| call.runs())
                .map(|call| writes(&call.tool))
                .collect();
            let alone = running.is_empty() || (!writes(name) && !running.contains(&true));
            self.rule(alone, Invariant::I14, || format!("{id} runs beside a call that writes"));
        } else {
            self.rule(row.creates_task, Invariant::I21, || format!("{id} starts {name}, of which nothing runs"));
        }
        let needed = self
            .agent_of(&started.task)
            .and_then(|agent| agent.tools.get(name).map(|tool| agent.approver(tool).is_some()))
            .unwrap_or_default();
        let Some(call) = self.open_call(id, &started.task, name) else { return };
        let approved = call.approved || (!needed && call.question.is_none());
        let again = call.started.replace((seq, started.tool_type)).is_some();
        call.attached.clone_from(&started.documents);
        self.rule(!again, Invariant::I12, || format!("{id} started twice"));
        self.rule(approved, Invariant::I15, || format!("{id} began without its approval"));
        self.running += usize::from(row.runs_code && !again);
        if row.then == Then::Block
            && self.tool(name).is_some_and(|tool| tool.agent.is_some())
            && let Some(task) = self.tasks.get_mut(&started.task)
        {
            task.children = task.children.saturating_add(1);
        }
    }

    fn call_finished(&mut self, finished: &CallFinished) {
        let (id, result) = (&finished.call, &finished.result);
        if !self.live(&finished.task, "a call's result") {
            return;
        }
        let takeover = self.last_takeover;
        let name = finished.tool.as_str();
        let Some(call) = self.open_call(id, &finished.task, name) else { return };
        let (started, wrote, asked) = (call.started, call.wrote, Arc::clone(&call.asked));
        let (never_begun, told) = (call.asks() && result.status == CallStatus::Cancelled, call.is_doubtful());
        let ran = call.runs();
        call.status = Some(result.status);
        call.result = Some(Arc::clone(result));
        self.running -= usize::from(ran);
        let row = finished.tool_type.behavior();
        let must_start = row.runs_code || row.creates_task;
        self.rule(started.is_some() == must_start || never_begun, Invariant::I12, || {
            format!("{id} has a result and never started")
        });
        if let Some(tool) = self.tool(name).cloned() {
            self.rule(tool.tool_type == finished.tool_type, Invariant::I21, || format!("{id} ends as another kind of tool"));
            // What a join cancels says nothing about the end of the turn.
            let joined = result.status == CallStatus::Cancelled && tool.agent.is_some();
            let said = match row.then {
                Then::Block if joined && finished.after == AfterExecution::Suspend => true,
                Then::Stop => finished.after == AfterExecution::Terminate,
                // An executor may say it in its envelope; nobody else may.
                _ => row.runs_code || finished.after == asked.after_execution.unwrap_or_else(|| tool.after_by_default()),
            };
            self.rule(said, Invariant::I24, || format!("nobody who may asked for what happens after {id}"));
            let in_doubt =
                tool.effect == EffectClass::AtMostOnce && row.runs_code && started.is_some_and(|(at, _)| at < takeover);
            let doubted = result.status == CallStatus::UnknownOutcome;
            let stopped = result.status == CallStatus::Cancelled;
            self.rule(!in_doubt || doubted || stopped || told, Invariant::I12, || format!("{id} was in doubt and has a result"));
        }
        self.rule(!wrote || result.status == CallStatus::Success, Invariant::I14, || format!("{id} wrote and did not succeed"));
        let known = result.documents.iter().all(|document| self.has_version(document));
        self.rule(known, Invariant::I16, || format!("the result of {id} brings documents that do not exist"));
        for conflict in &finished.conflicts {
            let head = self.heads.get(conflict.path.as_str()).copied();
            let real = head == Some(conflict.current) && conflict.base != head && result.status == CallStatus::Failed && !wrote;
            self.rule(real, Invariant::I14, || format!("{id} has a conflict that is none"));
        }
        if row.creates_task {
            self.callee_told(finished);
        }
        if let Some(task) = self.tasks.get_mut(&finished.task) {
            task.injected.extend(result.documents.iter().cloned());
            task.known.extend(result.documents.iter().map(as_known));
            task.known.extend(finished.conflicts.iter().map(|conflict| (conflict.path.as_str().to_owned(), conflict.current)));
        }
    }

    /// The result of a delegation or a question is that of its task; of one that was tried again, that of its last task,
    /// with what is told of the others.
    fn callee_told(&mut self, finished: &CallFinished) {
        let Some(call) = self.calls.get_mut(&finished.call) else { return };
        let (waited, tried_again) = (call.retry_at.take().is_some(), call.failed_attempts > 0);
        let Some(callee) = call.worked_on_by.as_ref().and_then(|callee| self.tasks.get(callee)) else { return };
        let (ended, given) = (callee.ended, callee.result.clone());
        self.rule(ended.is_some(), Invariant::I5, || format!("the result of {} before the end of its task", finished.call));
        let result = &finished.result;
        let same = match (given, ended) {
            _ if waited && result.status == CallStatus::Cancelled => true,
            (Some(given), _) if tried_again => {
                let code = |result: &CallResult| result.error.as_ref().map(|error| (error.code, error.message.clone()));
                (given.status, &given.output, &given.documents) == (result.status, &result.output, &result.documents)
                    && code(&given) == code(result)
            }
            (Some(given), _) => given == *result,
            (None, Some(FinalState::Cancelled)) => result.status == CallStatus::Cancelled,
            (None, _) => true,
        };
        self.rule(same, Invariant::I2, || format!("{} has another result than its task", finished.call));
    }

    fn document_written(&mut self, version: &DocumentVersion) {
        let path = version.path.as_str().to_owned();
        let head = self.heads.get(&path).copied();
        let next = version.version == head.unwrap_or(0).saturating_add(1);
        self.rule(next, Invariant::I14, || format!("version {} of {path} follows {head:?}", version.version));
        self.rule(version.base == head, Invariant::I14, || format!("{path} was made from {:?}, not {head:?}", version.base));
        let by_call = version.call.as_ref().and_then(|call| self.calls.get(call));
        let may = by_call.is_some_and(|call| {
            call.runs() && version.task.as_ref() == Some(&call.task) && self.tool(&call.tool).is_some_and(|tool| tool.writes)
        });
        let by_nobody = version.call.is_none() && version.task.is_none();
        self.rule(may || by_nobody, Invariant::I15, || format!("{path} was written by a call that may not or does not run"));
        if let Some(call) = version.call.as_ref().and_then(|call| self.calls.get_mut(call)) {
            call.wrote = true;
        }
        if let Some(task) = version.task.as_ref().and_then(|task| self.tasks.get_mut(task)) {
            let seen = task.known.insert(path.clone(), version.version) == head;
            self.rule(seen, Invariant::I14, || format!("{path} was written over by a task that has not seen version {head:?}"));
        }
        let size = version.content.size_bytes;
        let before = self.contents.insert(version.content.hash, size);
        self.rule(before.is_none_or(|before| before == size), Invariant::I14, || format!("a content of {path} has two sizes"));
        self.heads.insert(path, version.version);
    }

    fn question_opened(&mut self, opened: &QuestionOpened) {
        let (id, number) = (&opened.task, opened.number);
        if !self.live(id, "a question's opening") {
            return;
        }
        let next = self.questions.len() + 1;
        self.rule(number as usize == next, Invariant::I22, || format!("Q{number} is the {next}. question"));
        let Some(book) = self.tasks.get_mut(id) else { return };
        let again = book.question.replace(number).is_some();
        let created = &book.created;
        let same = created.kind == TaskKind::Question
            && created.holder == opened.holder
            && created.documents == opened.documents
            && created.request == opened.question
            && created.answer_schema == opened.answer_schema;
        self.rule(!again && same, Invariant::I22, || format!("Q{number} is not what task {id} was created for"));
        let asked = self.above(id).any(|above| *above == opened.asker);
        self.rule(asked, Invariant::I22, || format!("Q{number} is asked by {}, who does not wait for it", opened.asker));
        let book = QuestionBook { task: id.clone(), ends: 0, how: None };
        let twice = self.questions.insert(number, book).is_some();
        self.rule(!twice, Invariant::I22, || format!("Q{number} was opened twice"));
    }

    fn question_closed(&mut self, closed: &QuestionClosed) {
        let number = closed.number;
        if !self.live(&closed.task, "a question's end") {
            return;
        }
        let Some(question) = self.questions.get_mut(&number) else {
            return self.broken(Invariant::I22, format!("Q{number} is closed and was never opened"));
        };
        question.ends = question.ends.saturating_add(1);
        question.how = Some(closed.how.clone());
        let (ends, same) = (question.ends, question.task == closed.task);
        self.rule(ends == 1, Invariant::I22, || format!("Q{number} has more than one end"));
        self.rule(same, Invariant::I22, || format!("Q{number} ends in another task than it is"));
    }

    fn output(&mut self, output: &Output) {
        let id = &output.call;
        if !self.live(&output.task, "an output") {
            return;
        }
        let Some(call) = self.calls.get_mut(id) else {
            return self.broken(Invariant::I4, format!("an output of call {id}, which nobody made"));
        };
        let again = std::mem::replace(&mut call.sent, true);
        let wanted = call.asked.return_to_llm == Some(false);
        let same = call.result.as_ref().is_some_and(|result| result.status == output.status && result.output == output.output);
        self.rule(!again, Invariant::I4, || format!("the result of {id} goes to the user twice"));
        self.rule(wanted && same, Invariant::I24, || {
            format!("what goes to the user is not the result of {id}, or not asked for")
        });
    }

    fn budget_settled(&mut self, settled: &BudgetSettled) {
        let id = &settled.task;
        if !self.live(id, "a settlement") {
            return;
        }
        let usage = &settled.usage;
        let used = [usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens];
        if used.iter().any(|tokens| *tokens >= TOO_MANY) {
            return self.broken(Invariant::I17, format!("turn {} of {id} used {used:?} tokens", settled.turn));
        }
        let Some(task) = self.tasks.get_mut(id) else { return };
        let Some(request) = task.request.take() else {
            return self.broken(Invariant::I17, format!("turn {} of {id} is settled and was not reserved for", settled.turn));
        };
        let (turn, reserved) = (request.turn, request.reserved);
        task.spent = task.spent.saturating_add(usage.total());
        task.interrupted = task.answered < turn;
        let is_worst = task.interrupted;
        let same = (turn, reserved) == (settled.turn, settled.reserved_tokens);
        self.settled.add(usage);
        self.rule(same, Invariant::I17, || format!("what is settled for {id} is not what was reserved"));
        // What nobody answered costs what was reserved; the rest costs what it used, at the price of the start.
        let price = self.prices.get(&request.model);
        let told = settled.cost.map(|cost| u128::from(cost.picos()));
        let known = match price {
            // What was asked for in the original of a fork is in its books.
            _ if is_worst && usage.total() == 0 => Some(0),
            _ if is_worst && (told.is_some() || request.cost > 0) => Some(request.cost),
            _ if is_worst => None,
            price => price.map(|price| cost(price, usage).min(u128::from(u64::MAX))),
        };
        self.rule(told == known, Invariant::I17, || format!("turn {turn} of {id} cost {known:?} picodollars, not {told:?}"));
        self.settled_cost = self.settled_cost.saturating_add(told.unwrap_or(0));
        self.unpriced = self.unpriced.saturating_add(u64::from(told.is_none()));
        self.hold(id, (usage.total(), told.unwrap_or(0)), (reserved, request.cost));
    }

    fn control(&mut self, control: &Control, seq: u64) {
        let Control { task, action, by: _by } = control;
        match action {
            ControlAction::Paused | ControlAction::Unpaused => {
                let paused = *action == ControlAction::Paused;
                let before = std::mem::replace(&mut self.paused, paused);
                self.rule(before != paused, Invariant::I5, || "a pause of what is paused, or an end of no pause".to_owned());
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
                if let Some(id) = task {
                    self.live(id, "a message");
                }
            }
            ControlAction::TakenOver | ControlAction::Adopted(_) => {
                if let ControlAction::Adopted(adoption) = action {
                    let known = self.known_configs.iter().rev().find(|(hash, _)| *hash == adoption.configs);
                    if let Some((_, configs)) = known {
                        self.configs = Arc::clone(configs);
                    }
                    self.prices.clone_from(&adoption.prices);
                    // What a person stopped was the original.
                    self.paused &= adoption.fork.is_none();
                }
                self.last_takeover = seq;
                self.takeovers = self.takeovers.saturating_add(1);
                let live = self.live.clone();
                self.touched.extend(live);
            }
            ControlAction::Late { .. } => {
                if let Some(id) = task {
                    let known = self.tasks.contains_key(id);
                    self.rule(known, Invariant::I3, || format!("something late for task {id}, which was never created"));
                }
            }
        }
    }

    fn subtree_closed(&mut self, top: &TaskId, tasks: &[TaskId]) {
        self.rule(!tasks.is_empty(), Invariant::I19, || format!("nothing below {top} was closed"));
        for id in tasks {
            let below = self.is_below(id, top);
            self.rule(below, Invariant::I19, || format!("{id} is closed with {top} and is not below it"));
            if self.live(id, "a closing") {
                self.close(id, FinalState::Cancelled);
            }
        }
        let left: Vec<TaskId> = self.live.iter().filter(|id| self.is_below(id, top)).cloned().collect();
        self.rule(left.is_empty(), Invariant::I19, || format!("{left:?} live on below {top}, whose subtree was closed"));
    }

    /// A live task is over: nothing of it runs from here on.
    fn close(&mut self, id: &TaskId, state: FinalState) {
        let Some(task) = self.tasks.get_mut(id) else { return };
        task.ended = Some(state);
        self.live.remove(id);
        self.touched.insert(id.clone());
        let (open, reserved) = (std::mem::take(&mut task.open), task.request.is_some());
        let question = task.question;
        self.rule(!reserved, Invariant::I17, || format!("{id} ends while a request of it is not settled"));
        for call in open {
            let Some(call) = self.calls.get_mut(&call) else { continue };
            self.running -= usize::from(call.runs());
            call.closed |= !call.is_finished();
            call.retry_at = None;
        }
        if let Some(question) = question.and_then(|number| self.questions.get_mut(&number)) {
            question.ends = question.ends.max(1);
        }
    }

    fn task_ended(&mut self, ended: &TaskEnded) {
        let id = &ended.task;
        let below: Vec<TaskId> = self.live.iter().filter(|live| self.is_below(live, id)).cloned().collect();
        self.rule(below.is_empty(), Invariant::I11, || format!("{id} ends while {below:?} live below it"));
        if !self.live(id, "a second end") {
            return;
        }
        let unfinished = self.unfinished_calls(id).len();
        self.rule(unfinished == 0, Invariant::I4, || format!("{id} ends while {unfinished} of its calls have no result"));
        let status = ended.result.status;
        let fits = match ended.state {
            FinalState::Completed => matches!(status, CallStatus::Success | CallStatus::Partial),
            FinalState::Failed => matches!(status, CallStatus::Failed | CallStatus::UnknownOutcome),
            FinalState::Cancelled => status == CallStatus::Cancelled,
            FinalState::TimedOut => status == CallStatus::Timeout,
        };
        self.rule(fits, Invariant::I10, || format!("{id} ends as {} with {}", ended.state.as_str(), status.as_str()));
        let known = ended.result.documents.iter().all(|document| self.has_version(document));
        self.rule(known, Invariant::I16, || format!("{id} hands off documents that do not exist"));
        let question = self.tasks.get(id).and_then(|book| book.question).and_then(|number| self.questions.get(&number));
        let (open, answer) = match question {
            Some(QuestionBook { how: None, .. }) => (true, None),
            Some(QuestionBook { how: Some(QuestionEnd::Answered { answer, .. }), .. }) => (false, Some(answer.clone())),
            _ => (false, None),
        };
        self.rule(!open, Invariant::I22, || format!("{id} ends and its question stays open"));
        let same = answer.is_none_or(|answer| answer == ended.result.output);
        self.rule(same, Invariant::I22, || format!("{id} gives another answer than its question got"));
        self.close(id, ended.state);
        if let Some(retry_at) = ended.retry_at {
            self.awaits_another_try(id, ended.state, retry_at);
        }
        if let Some(task) = self.tasks.get_mut(id) {
            task.result = Some(Arc::clone(&ended.result));
        }
    }

    /// The newest attempt at a delegation failed, and another is to be made.
    fn awaits_another_try(&mut self, id: &TaskId, state: FinalState, retry_at: Timestamp) {
        let failed = matches!(state, FinalState::Failed | FinalState::TimedOut);
        let Some(call) = self.calls.get_mut(&id.originating_call()) else { return };
        let newest = !call.is_finished() && call.worked_on_by.as_ref() == Some(id) && call.retry_at.is_none();
        call.failed_attempts = call.failed_attempts.saturating_add(1);
        call.retry_at = Some(retry_at);
        let due = retry_at.as_micros() >= self.last_at;
        self.rule(failed && newest && due, Invariant::I2, || format!("{id} is tried again, and may not be"));
    }

    fn run_end(&mut self, ended: &RunEnded) {
        let root = self.tasks.get(&TaskId::root());
        let same = root.is_some_and(|root| {
            root.ended == Some(ended.state) && root.result.as_ref().map(|result| result.status) == Some(ended.status)
        });
        self.rule(same, Invariant::I10, || "the run ends otherwise than its root".to_owned());
        self.run_ended = true;
    }
}

/// What a task that gets `document` knows of it.
fn as_known(document: &DocumentRef) -> (String, u32) {
    (document.path.as_str().to_owned(), document.version)
}
