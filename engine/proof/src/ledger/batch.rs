//! Conditions between two batches, the only states that are visible outside.

use baton_types::entry::{Concern, QuestionEnd, TaskKind};
use baton_types::id::{CallId, TaskId};

use super::entries::acceptance::AcceptanceBook;
use super::{CallBook, Ledger, TaskBook};
use crate::finding::Invariant;

impl Ledger {
    /// Looks at every task that the batch concerns, at those that wait for it, and at every call that changed, or whose task
    /// or question is among them.
    pub(super) fn after_batch(&mut self) {
        let callers: Vec<TaskId> =
            self.touched.iter().filter_map(|id| self.tasks.get(id)).filter_map(|book| book.created.caller.clone()).collect();
        self.touched.extend(callers);
        let touched: Vec<TaskId> = self.touched.iter().cloned().collect();
        self.touched_calls.extend(touched.iter().map(TaskId::originating_call));
        let calls: Vec<CallId> = self.touched_calls.iter().cloned().collect();
        self.visited += touched.len() + calls.len();
        for id in &touched {
            self.caller_told(id);
            if self.tasks.get(id).is_some_and(|book| book.ended.is_none()) {
                self.at_rest(id);
            }
        }
        for id in &calls {
            self.call_at_rest(id);
            self.inner_at_rest(id);
            self.asks_at_rest(id);
        }
        let root = self.tasks.get(&self.root).is_some_and(|root| root.ended.is_some());
        let ended = self.run_ended;
        self.rule(root == ended, Invariant::EndedStaysEnded, || "the run and its root end together".to_owned());
        if ended {
            self.at_the_end();
        }
    }

    /// `ending_wakes_the_caller`: the batch that ends a task gives its caller's call the result; escalation passes the call on.
    fn caller_told(&mut self, id: &TaskId) {
        let call = id.originating_call();
        let ended = self.tasks.get(id).is_some_and(|book| book.ended.is_some());
        let informed = self.calls.get(&call).is_none_or(|book| match &book.question {
            Some((question, concern)) if question == id => {
                book.is_finished() || (book.approved && matches!(concern, Concern::Approval { .. }))
            }
            _ if book.worked_on_by.as_ref() != Some(id) => true,
            _ => book.is_finished() || book.retry_at.is_some(),
        });
        let is_told = |book: &TaskBook| !book.created.background || book.result.is_none() || book.reported;
        let informed = informed && self.tasks.get(id).is_none_or(is_told);
        let held = !ended || informed || self.is_escalated(id);
        self.rule(held, Invariant::EndingWakesTheCaller, || format!("{id} has ended and its caller was not informed"));
    }

    /// `every_call_has_one_result`: calls that code made end with this code. A crash ends it for good if its outcome is in doubt.
    fn inner_at_rest(&mut self, call: &CallId) {
        let is_over = |book: &&CallBook| book.is_finished() || book.is_doubtful();
        let Some(open) = self.calls.get(call).filter(is_over).map(|book| book.open_inner) else { return };
        self.rule(open == 0, Invariant::EveryCallHasOneResult, || {
            format!("{call} has ended and {open} calls of its code have not")
        });
    }

    /// `blocked_task_can_wake`, of a call of a live task: what it waits for was begun and has not ended.
    fn call_at_rest(&mut self, call: &CallId) {
        let Some(book) = self.calls.get(call).filter(|book| !book.is_finished()) else { return };
        let id = book.task.clone();
        if self.tasks.get(&id).is_none_or(|task| task.ended.is_some() || !task.open.contains(call)) {
            return;
        }
        let takeover = self.last_crash;
        let in_doubt = book.has_code()
            && !self.quarantined
            && book.started.is_some_and(|(at, _)| at < takeover)
            && self.tool(&book.tool).is_some_and(|tool| tool.is_lost_in_crash());
        let begun = book.started.is_some_and(|(_, tool_type)| tool_type.behavior().creates_task);
        let created = book.created;
        let has_ended = |task: &TaskId| self.tasks.get(task).is_some_and(|task| task.ended.is_some());
        let callee = book.worked_on_by.as_ref().filter(|_| created && book.retry_at.is_none());
        let unanswered = book.asks() || book.is_doubtful();
        let dead = callee.is_some_and(|callee| has_ended(callee) && !self.is_escalated(callee))
            || (unanswered && book.question.as_ref().is_some_and(|(question, _)| has_ended(question)));
        let is_over = book.waits_for_tasks() && self.is_wait_over(&id, book);
        self.rule(!is_over, Invariant::BlockedTaskCanWake, || format!("{call} waits for tasks that have ended"));
        self.rule(!in_doubt, Invariant::NoEffectTwice, || format!("{call} was interrupted and its outcome is not doubted"));
        self.rule(!begun || created, Invariant::BlockedTaskCanWake, || {
            format!("{id} waits for {call}, for which there is no task")
        });
        self.rule(!dead, Invariant::BlockedTaskCanWake, || format!("{id} waits for {call}, which has ended"));
    }

    /// Whether nothing is left that a call of `task` waits for.
    fn is_wait_over(&self, task: &TaskId, call: &CallBook) -> bool {
        let Some(task) = self.tasks.get(task) else { return true };
        let input = call.asked.input.value();
        let runs = |id: &str| task.background.iter().any(|task| task.as_str() == id);
        let named: Option<Vec<&str>> =
            input["tasks"].as_array().map(|tasks| tasks.iter().filter_map(serde_json::Value::as_str).collect());
        let (running, ended) = match named {
            Some(named) => (named.iter().any(|id| runs(id)), named.iter().any(|id| !runs(id))),
            None => (!task.background.is_empty(), !task.unseen.is_empty()),
        };
        !running || (input["until"] == "any" && ended)
    }

    /// `blocked_task_can_wake`: a live task is being worked on, or waits for what can still come.
    fn at_rest(&mut self, id: &TaskId) {
        let Some(book) = self.tasks.get(id) else { return };
        let (asks, cancelled, question, counts) = (book.request.is_some(), book.cancelled, book.question, book.counts);
        let stale = asks && book.requested_at < self.last_takeover;
        self.rule(!stale, Invariant::OneOwnerOneTurn, || format!("the request of {id} outlived the process that made it"));
        self.rule(!cancelled, Invariant::CancelledStaysQuiet, || format!("{id} was cancelled and lives"));
        let unfinished = counts.unfinished;
        self.rule(!asks || unfinished == 0, Invariant::EveryCallHasOneResult, || {
            format!("{id} asks its model while {unfinished} calls are open")
        });
        // A call may wait for a place among the run's parallel calls; then others run.
        let rests = self.tasks.get(id).is_some_and(|book| book.rests && book.background.is_empty());
        self.rule(!rests, Invariant::BlockedTaskCanWake, || format!("{id} waits for background tasks, and none runs"));
        let refused = self.tasks.get(id).and_then(|book| book.acceptance.as_ref()).is_some_and(AcceptanceBook::must_end);
        self.rule(!refused, Invariant::ResultsAreAccepted, || {
            format!("{id} lives after its last refusal, or without a verdict about its result")
        });
        let held = asks || counts.are_held() || self.running > 0 || unfinished == 0 || self.paused;
        self.rule(held, Invariant::BlockedTaskCanWake, || format!("{id} has {unfinished} calls without work in progress"));
        let is_question = self.tasks.get(id).is_some_and(|book| book.created.kind == TaskKind::Question);
        self.rule(!is_question || question.is_some(), Invariant::EveryQuestionHasOneEnd, || {
            format!("{id} is a question that was not opened")
        });
        let how = question.and_then(|number| self.questions.get(&number)).and_then(|question| question.how.as_ref());
        let over = how.is_some_and(|how| !matches!(how, QuestionEnd::Escalated { .. }));
        self.rule(!over, Invariant::EveryQuestionHasOneEnd, || format!("the question of {id} is closed and the task lives"));
    }

    /// `callees_end_first`, `books_balance` and `every_question_has_one_end`, over the whole run.
    fn at_the_end(&mut self) {
        let live = self.live.len();
        self.rule(live == 0, Invariant::CalleesEndFirst, || format!("the run has ended and {live} tasks live"));
        let open = self.calls.values().filter(|call| !call.is_finished()).count();
        self.rule(open == 0, Invariant::BooksBalance, || format!("the run has ended and {open} calls have no result"));
        let untold: Vec<u32> =
            self.questions.iter().filter(|(_, question)| question.ends != 1).map(|(number, _)| *number).collect();
        self.rule(untold.is_empty(), Invariant::EveryQuestionHasOneEnd, || {
            format!("questions {open:?} do not have exactly one end")
        });
    }

    /// Whether the question `task` was escalated to another task, which now answers the same call.
    fn is_escalated(&self, task: &TaskId) -> bool {
        self.tasks.get(task).is_some_and(|book| book.live_questions > 0)
    }
}
