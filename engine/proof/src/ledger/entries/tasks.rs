//! Tasks begin and end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_types::call::CallStatus;
use baton_types::config::{CalleeContext, OpenTasks};
use baton_types::document::DocumentRef;
use baton_types::entry::{Concern, FinalState, Holder, QuestionEnd, TaskCreated, TaskEnded, TaskKind, TaskReported};
use baton_types::id::{CallId, TaskId};
use baton_types::time::Timestamp;

use crate::finding::Invariant;
use crate::ledger::counts::Counts;
use crate::ledger::entries::acceptance::AcceptanceBook;
use crate::ledger::{Ledger, QuestionBook, TaskBook};

impl Ledger {
    pub(super) fn task_created(&mut self, created: &TaskCreated, seq: u64, at: Timestamp) {
        let id = &created.task;
        if self.tasks.contains_key(id) {
            return self.broken(Invariant::TasksFormATree, format!("task {id} was created twice"));
        }
        if let Holder::Agent(agent) = &created.holder {
            let known = self.configs.agents.contains_key(agent);
            self.rule(known, Invariant::TasksFormATree, || format!("task {id} is held by {agent}, whom the job does not know"));
        }
        let known = created.documents.iter().all(|document| self.has_version(document));
        self.rule(known, Invariant::HandedOverArrivesOnce, || format!("task {id} was given documents that do not exist"));
        let once = created.documents.iter().collect::<BTreeSet<_>>().len() == created.documents.len();
        self.rule(once, Invariant::HandedOverArrivesOnce, || format!("task {id} was given a document twice"));
        let tool = created.tool.as_deref().and_then(|tool| self.tool(tool)).map(AsRef::as_ref);
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
            begins_with_other: created.begins_from.is_some(),
            compacted_through: 0,
            summarising: None,
            children: 0,
            spent: 0,
            subtree_tokens: 0,
            open: BTreeSet::new(),
            counts: Counts::default(),
            unstarted: BTreeMap::new(),
            live_below: 0,
            has_unknown: false,
            live_questions: 0,
            injected: created.documents.clone(),
            brought: created.documents.clone(),
            known: BTreeMap::new(),
            arrived: created.documents.clone(),
            arrived_parts: Vec::new(),
            arrived_conflicts: Vec::new(),
            kept: Vec::new(),
            received: Vec::new(),
            background: BTreeSet::new(),
            unseen: BTreeSet::new(),
            reported: false,
            rests: false,
            last_turn: false,
            closed_background: false,
            cancelled: false,
            question: None,
            acceptance: AcceptanceBook::of(created.kind, tool),
        };
        if let Some(earlier) = created.begins_from.as_ref() {
            self.begins_from(&mut book, earlier);
        }
        match &created.caller {
            None => {
                let is_root = created.kind == TaskKind::Root && created.depth == 0;
                let is_expected = match self.follow_up.take() {
                    None => self.tasks.is_empty() && *id == TaskId::root() && created.begins_from.is_none(),
                    Some(request) => {
                        let before = std::mem::replace(&mut self.root, id.clone());
                        *id == before.next_root() && created.begins_from == Some(before) && created.request == request
                    }
                };
                self.rule(is_root && is_expected, Invariant::TasksFormATree, || {
                    format!("task {id} has no caller and is not the root")
                });
                let held = created.holder == Holder::Agent(self.configs.job.root.clone());
                self.rule(held, Invariant::TasksFormATree, || "the root is held by another agent than the job's".to_owned());
            }
            Some(caller) => {
                if !self.live(caller, "a new callee") {
                    // A caller that comes later must not close a cycle.
                    book.created.caller = None;
                }
                self.callee_created(created, caller, seq, at);
            }
        }
        if created.background
            && let Some(caller) = created.caller.as_ref().and_then(|caller| self.tasks.get_mut(caller))
        {
            caller.background.insert(id.clone());
        }
        self.live.insert(id.clone());
        self.tasks.insert(id.clone(), book);
        self.count_life(id, true);
    }

    /// Gives a task the conversation of `earlier`, with the documents that it showed or was about to show.
    fn begins_from(&mut self, book: &mut TaskBook, earlier: &TaskId) {
        let Some(before) = self.tasks.get(earlier) else {
            let id = &book.created.task;
            return self.broken(Invariant::TasksFormATree, format!("task {id} begins from a task that does not exist"));
        };
        book.known.clone_from(&before.known);
        for (documents, earlier) in [
            (&mut book.injected, &before.injected),
            (&mut book.brought, &before.brought),
            (&mut book.arrived, &before.arrived),
            (&mut book.arrived_conflicts, &before.arrived_conflicts),
        ] {
            documents.splice(..0, earlier.iter().cloned());
        }
        book.arrived_parts.clone_from(&before.arrived_parts);
        // Results that came while the last request was open are a part of the first request here.
        book.receive(&before.received);
    }

    /// Counts, for the tasks above it, that a task is live from here on, or has ended.
    fn count_life(&mut self, id: &TaskId, lives: bool) {
        let Some(created) = self.tasks.get(id).map(|book| &book.created) else { return };
        let Some(caller) = created.caller.clone() else { return };
        let change = |number: &mut u32| {
            *number = if lives { number.saturating_add(1) } else { number.saturating_sub(1) };
        };
        if created.kind == TaskKind::Question
            && let Some(asker) = self.tasks.get_mut(&caller)
        {
            change(&mut asker.live_questions);
        }
        self.each_from(&caller, |above| change(&mut above.live_below));
    }

    /// Returns the live tasks below `top`, for a finding.
    fn live_below(&self, top: &TaskId) -> Vec<TaskId> {
        if self.tasks.get(top).is_none_or(|book| book.live_below == 0) {
            return Vec::new();
        }
        self.live.iter().filter(|id| self.is_below(id, top)).cloned().collect()
    }

    pub(super) fn callee_created(&mut self, created: &TaskCreated, caller: &TaskId, seq: u64, at: Timestamp) {
        let id = &created.task;
        let delegation = created.kind == TaskKind::Delegation;
        let above = self.tasks.get(caller).map_or(0, |book| book.created.depth);
        let depth = above.saturating_add(u32::from(delegation));
        self.rule(created.depth == depth, Invariant::TasksFormATree, || {
            format!("task {id} has the recorded depth {}, not {depth}", created.depth)
        });
        let known = created.answers_for.as_ref().is_none_or(|master| self.tasks.contains_key(master));
        self.rule(known, Invariant::EveryQuestionHasOneEnd, || format!("task {id} answers for a task that does not exist"));
        let call = id.originating_call();
        if self.escalated_to(caller) == Some(id) {
            return;
        }
        if let Some(concern) = created.concern {
            return self.question_about_call(created, caller, &call, concern);
        }
        let Some(book) = self.calls.get(&call).filter(|book| book.task == *caller) else {
            return self.broken(Invariant::TasksFormATree, format!("no call of {caller} created task {id}"));
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
        let is_acceptance = call.is_acceptance();
        let held = match (tool.and_then(|tool| tool.agent.as_ref()), &created.holder) {
            (Some(agent), Holder::Agent(holder)) if is_acceptance => created.kind == TaskKind::Question && agent == holder,
            (Some(agent), Holder::Agent(holder)) => delegation && agent == holder,
            (None, _) => created.kind == TaskKind::Question,
            (Some(_), Holder::Person) => false,
        };
        let may_wait = created.background == tool.is_some_and(|tool| tool.is_background(&book.asked.input));
        let forks = !is_acceptance && tool.is_some_and(|tool| tool.context == CalleeContext::Fork);
        let continued = tool.and_then(|tool| tool.continued_task(&book.asked.input)).map(|named| {
            // The last attempt counts.
            let call = named.originating_call();
            let later = (2..).map(|number| call.attempt(number)).take_while(|attempt| self.tasks.contains_key(attempt));
            later.last().unwrap_or(named)
        });
        let may_continue = continued.as_ref().is_none_or(|earlier| {
            let earlier = self.tasks.get(earlier);
            let is_own = |book: &TaskBook| book.created.caller.as_ref() == Some(caller) && book.created.tool == created.tool;
            earlier.is_some_and(|book| book.ended.is_some() && is_own(book))
        });
        let begins_so = may_continue && created.begins_from.as_ref() == continued.as_ref().or(forks.then_some(caller));
        self.rule(begins_so, Invariant::OnlyTheGrantedIsUsed, || {
            format!("task {id} begins with the conversation of {:?}", created.begins_from)
        });
        self.rule(may_wait, Invariant::TypeDecidesBehaviour, || {
            format!("task {id} runs in the background, or does not, against its call")
        });
        self.rule(before && open, Invariant::TimelineHasNoGaps, || format!("task {id} exists before its call has started"));
        self.rule(!again, Invariant::TasksFormATree, || format!("call {call} created a task too many, or too early"));
        self.rule(named_so, Invariant::TasksFormATree, || format!("task {id} is not the next attempt at {call}"));
        self.rule(named && held, Invariant::TypeDecidesBehaviour, || format!("task {id} is not what its call asks for"));
        self.rule(attached, Invariant::HandedOverArrivesOnce, || {
            format!("task {id} gets other documents than its call attached")
        });
        let as_approved = self.calls.get(&call).is_none_or(|book| book.is_as_approved(self.tool(&book.tool).map(AsRef::as_ref)));
        self.rule(as_approved, Invariant::OnlyTheGrantedIsUsed, || format!("task {id} is not what was approved"));
        if let Some(book) = self.call_mut(&call) {
            book.created = true;
            book.worked_on_by = Some(id.clone()).filter(|_| !created.background);
            book.retry_at = None;
        }
        if failed > 0
            && let Some(task) = self.tasks.get_mut(caller)
        {
            task.children = task.children.saturating_add(1);
        }
    }

    /// Checks a question of the engine about a call: an approval, or a doubt about its outcome.
    pub(super) fn question_about_call(&mut self, created: &TaskCreated, caller: &TaskId, call: &CallId, concern: Concern) {
        let id = &created.task;
        let is_question = created.kind == TaskKind::Question;
        self.rule(is_question, Invariant::EveryQuestionHasOneEnd, || format!("task {id} is about a call and no question"));
        let takeover = self.last_crash;
        let Some(book) = self.call_mut(call).filter(|book| book.task == *caller) else {
            return self.broken(Invariant::TasksFormATree, format!("task {id} is about a call that {caller} did not make"));
        };
        let interrupted = book.runs() && book.started.is_some_and(|(at, _)| at < takeover);
        let (expected, may) = match concern {
            // A call that has changed since is asked about again. The approval of its earlier form no longer counts.
            Concern::Approval { call_hash } => {
                let same = matches!(book.question, Some((_, Concern::Approval { call_hash: before })) if before == call_hash);
                book.approvals += 1;
                book.approved = false;
                (call.approval(book.approvals), book.started.is_none() && !same)
            }
            Concern::Outcome => (call.outcome(), interrupted),
        };
        let open = !book.is_finished();
        book.question = Some((id.clone(), concern));
        self.rule(*id == expected && may && open, Invariant::EveryQuestionHasOneEnd, || {
            format!("task {id} asks something other than a question of {call}")
        });
    }

    pub(super) fn task_ended(&mut self, ended: &TaskEnded) {
        let id = &ended.task;
        let below = self.live_below(id);
        self.rule(below.is_empty(), Invariant::CalleesEndFirst, || format!("{id} ends while {below:?} live below it"));
        if !self.live(id, "a second end") {
            return;
        }
        let unfinished = self.counts(id).unfinished;
        self.rule(unfinished == 0, Invariant::EveryCallHasOneResult, || {
            format!("{id} ends while {unfinished} of its calls have no result")
        });
        let status = ended.result.status;
        let fits = match ended.state {
            FinalState::Completed => matches!(status, CallStatus::Success | CallStatus::Partial),
            FinalState::Failed => matches!(status, CallStatus::Failed | CallStatus::UnknownOutcome),
            FinalState::Cancelled => status == CallStatus::Cancelled,
            FinalState::TimedOut => status == CallStatus::Timeout,
        };
        self.rule(fits, Invariant::EndedStaysEnded, || format!("{id} ends as {} with {}", ended.state.as_str(), status.as_str()));
        let known = ended.result.documents.iter().all(|document| self.has_version(document));
        self.rule(known, Invariant::HandedOverArrivesOnce, || format!("{id} hands off documents that do not exist"));
        let question = self.tasks.get(id).and_then(|book| book.question).and_then(|number| self.questions.get(&number));
        let (open, answer) = match question {
            Some(QuestionBook { how: None, .. }) => (true, None),
            Some(QuestionBook { how: Some(QuestionEnd::Answered { answer, .. }), .. }) => (false, Some(answer.clone())),
            _ => (false, None),
        };
        self.rule(!open, Invariant::EveryQuestionHasOneEnd, || format!("{id} ends and its question stays open"));
        let same = answer.is_none_or(|answer| answer == *ended.result.output.shown());
        self.rule(same, Invariant::EveryQuestionHasOneEnd, || format!("{id} gives another answer than its question got"));
        self.check_open_background(ended);
        self.check_acceptance(ended);
        self.check_unknown(ended);
        self.close(id, ended.state);
        if let Some(retry_at) = ended.retry_at {
            self.awaits_another_try(id, ended.state, retry_at);
        } else {
            let due = self.must_be_tried_again(id, ended.state);
            self.rule(!due, Invariant::EndingWakesTheCaller, || {
                format!("{id} failed, and the further attempt that its tool promises is not made")
            });
        }
        if let Some(task) = self.tasks.get_mut(id) {
            task.result = Some(Arc::clone(&ended.result));
        }
    }

    /// Checks that a task which ends because its agent wants it to leaves no background task behind that it should wait for.
    fn check_open_background(&mut self, ended: &TaskEnded) {
        let id = &ended.task;
        let waits = self.agent_of(id).is_some_and(|agent| agent.open_tasks == OpenTasks::Wait);
        let Some(book) = self.tasks.get(id).filter(|book| waits && !book.last_turn) else { return };
        let lost = book.closed_background || !book.unseen.is_empty();
        self.rule(!lost || ended.result.status != CallStatus::Success, Invariant::EndingWakesTheCaller, || {
            format!("{id} ends before its background tasks, or before it has seen their results")
        });
    }

    /// Enters that the caller of a background task learns its end.
    pub(super) fn task_reported(&mut self, reported: &TaskReported) {
        let TaskReported { task: id, call, tool, ended, result, said: _ } = reported;
        if !self.live(id, "the report of a background task") {
            return;
        }
        let book = self.tasks.get(ended);
        let is_own = book.is_some_and(|book| book.created.background && book.created.caller.as_ref() == Some(id));
        let is_first = book.is_some_and(|book| !book.reported && book.result.as_ref() == Some(result));
        let named =
            *call == ended.originating_call() && book.is_some_and(|book| book.created.tool.as_deref() == Some(tool.as_str()));
        self.rule(is_own && named, Invariant::TasksFormATree, || {
            format!("{id} learns the end of {ended}, which it did not begin")
        });
        self.rule(is_first, Invariant::EndingWakesTheCaller, || {
            format!("{id} learns another end of {ended} than it had, or learns it twice")
        });
        if let Some(book) = self.tasks.get_mut(ended) {
            book.reported = true;
        }
        let Some(task) = self.tasks.get_mut(id) else { return };
        task.rests = false;
        task.background.remove(ended);
        task.unseen.insert(ended.clone());
        if task.request.is_some() || task.interrupted {
            task.received.extend(result.documents.iter().cloned());
        } else {
            task.receive(&result.documents);
        }
    }

    /// Notes that the newest attempt at a delegation failed, and another will follow.
    pub(super) fn awaits_another_try(&mut self, id: &TaskId, state: FinalState, retry_at: Timestamp) {
        let is_known = self.tasks.get(id).is_none_or(|book| !book.has_unknown);
        self.rule(is_known, Invariant::NoEffectTwice, || format!("{id} is tried again, and a call below it may have acted"));
        let failed = matches!(state, FinalState::Failed | FinalState::TimedOut);
        let Some(call) = self.call_mut(&id.originating_call()) else { return };
        let newest = !call.is_finished() && call.worked_on_by.as_ref() == Some(id) && call.retry_at.is_none();
        call.failed_attempts = call.failed_attempts.saturating_add(1);
        call.retry_at = Some(retry_at);
        let due = retry_at.as_micros() >= self.last_at;
        self.rule(failed && newest && due, Invariant::EndingWakesTheCaller, || format!("{id} is tried again, and may not be"));
    }

    pub(super) fn subtree_closed(&mut self, top: &TaskId, tasks: &[TaskId]) {
        self.rule(!tasks.is_empty(), Invariant::CancelledStaysQuiet, || format!("nothing below {top} was closed"));
        for id in tasks {
            let below = self.is_below(id, top);
            self.rule(below, Invariant::CancelledStaysQuiet, || format!("{id} is closed with {top} and is not below it"));
            if self.live(id, "a closing") {
                self.close(id, FinalState::Cancelled);
                let caller = self.tasks.get(id).filter(|book| book.created.background);
                let caller = caller.and_then(|book| book.created.caller.clone());
                if let Some(caller) = caller.and_then(|caller| self.tasks.get_mut(&caller)) {
                    caller.background.remove(id);
                    caller.closed_background = true;
                }
            }
        }
        let left = self.live_below(top);
        self.rule(left.is_empty(), Invariant::CancelledStaysQuiet, || {
            format!("{left:?} live on below {top}, whose subtree was closed")
        });
    }

    /// Closes a live task: nothing of it runs from here on.
    pub(super) fn close(&mut self, id: &TaskId, state: FinalState) {
        let Some(task) = self.tasks.get_mut(id) else { return };
        task.ended = Some(state);
        self.touched.insert(id.clone());
        let (open, reserved) = (task.open.clone(), task.request.is_some());
        let question = task.question;
        self.rule(!reserved, Invariant::BooksBalance, || format!("{id} ends while a request of it is not settled"));
        for call in open {
            self.check_closed_call(&call);
            let Some(call) = self.call_mut(&call) else { continue };
            call.closed |= !call.is_finished();
            (call.retry_at, call.open_inner) = (None, 0);
        }
        self.open_calls(id, BTreeSet::new());
        if self.live.remove(id) {
            self.count_life(id, false);
        }
        if let Some(question) = question.and_then(|number| self.questions.get_mut(&number)) {
            question.ends = question.ends.max(1);
        }
    }
}

impl TaskBook {
    /// Adds documents that its next turn's request shows.
    pub(super) fn receive(&mut self, documents: &[DocumentRef]) {
        for list in [&mut self.injected, &mut self.brought, &mut self.arrived] {
            list.extend(documents.iter().cloned());
        }
    }
}
