//! A task ends: its subtree is closed and its caller gets exactly one result, in the same commit.

use std::sync::Arc;

use super::{CallStage, Draft};
use crate::call::{AfterExecution, CallError, CallResult, CallStatus, ErrorCode};
use crate::document::{DocumentRef, DocumentVersion, Write};
use crate::entry::{
    BudgetSettled, Concern, Entry, FinalState, Holder, QuestionClosed, QuestionEnd, RunEnded, SubtreeClosed, TaskEnded,
};
use crate::event::Effect;
use crate::id::{CallId, TaskId};
use crate::json::Json;
use crate::limits::LimitKind;
use crate::model::Usage;
use crate::money::Money;
use crate::principal::Principal;

impl Draft<'_> {
    /// Ends `id`. Whatever is below it is closed first; then its caller's call, and so perhaps its caller's turn, ends.
    pub(super) fn end_task(
        &mut self,
        id: &TaskId,
        state: FinalState,
        result: impl Into<Arc<CallResult>>,
        limit: Option<LimitKind>,
    ) {
        self.end_task_with(id, state, result.into(), limit, None);
    }

    /// Ends `id`; `envelope`, if given, outranks what the caller's call and its config say of the end of the turn.
    pub(super) fn end_task_with(
        &mut self,
        id: &TaskId,
        state: FinalState,
        result: Arc<CallResult>,
        limit: Option<LimitKind>,
        envelope: Option<AfterExecution>,
    ) {
        let reason = match &result.error {
            Some(error) => error.message.clone(),
            None => format!("task {id} ended"),
        };
        self.close_below(id, &reason);
        self.stop(id);
        self.close_calls(id, &reason);
        self.close_question(id, &result);
        let retry_at = self.retry_at(id, state);
        self.push(Entry::TaskEnded(TaskEnded { task: id.clone(), state, result: Arc::clone(&result), limit, retry_at }));
        let Some(caller) = self.run.caller(id) else {
            self.push(Entry::RunEnded(RunEnded { state, status: result.status, limit }));
            self.decision.effects.push(Effect::EndRun);
            return;
        };
        if self.task(&caller).escalated.as_ref() == Some(id) {
            self.end_task(&caller, state, result, limit);
            return;
        }
        let call = id.originating_call();
        if let Some(at) = retry_at {
            if at <= self.at {
                self.try_again(&call);
            }
            return;
        }
        let index = self.task(&caller).open.as_ref().and_then(|open| open.index_of(&call));
        let index = index.expect("a task's caller waits for it in its open turn");
        match self.task(id).concern {
            Some(Concern::Approval { binds }) => return self.approval_decided(&caller, index, id, binds, &result),
            Some(Concern::Outcome) => return self.outcome_told(&caller, index, &result),
            None => {}
        }
        let result = self.with_attempts(&caller, index, result);
        self.finish_call(&caller, index, result, envelope, Vec::new());
        self.changed.push_back(caller);
    }

    /// Ends `id` with what it has: a limit was reached.
    pub(super) fn end_partial(&mut self, id: &TaskId, limit: LimitKind, output: Json) {
        let documents = self.task(id).written().cloned().collect();
        self.end_partial_with(id, limit, output, documents);
    }

    /// Ends `id` with `output` and `documents`: a limit was reached.
    pub(super) fn end_partial_with(&mut self, id: &TaskId, limit: LimitKind, output: Json, documents: Vec<DocumentRef>) {
        let error = CallError::new(ErrorCode::LimitReached, format!("{limit} was reached before the work was done"))
            .with_detail(serde_json::json!({"limit": limit}));
        let result = CallResult { status: CallStatus::Partial, output: output.into(), error: Some(error), documents };
        self.end_task(id, FinalState::Completed, result, Some(limit));
    }

    /// Closes every unfinished task below `id` in one entry.
    pub(super) fn close_below(&mut self, id: &TaskId, reason: &str) {
        let mut tasks = self.run.graph.live_descendants(id);
        if tasks.is_empty() {
            return;
        }
        for below in &tasks {
            self.stop(below);
        }
        // Callees before callers, so that no task outlives one that waits for it.
        tasks.reverse();
        self.push(Entry::SubtreeClosed(SubtreeClosed { task: id.clone(), reason: reason.to_owned(), tasks }));
    }

    /// Stops what runs for `id`: an open request is settled at its worst case, since nobody will say what it used.
    pub(super) fn stop(&mut self, id: &TaskId) {
        let task = self.task(id);
        let Some(open) = &task.open else { return };
        if !open.requested && open.running_functions == 0 {
            return;
        }
        if open.requested {
            let (turn, reserved_tokens) = (open.turn, task.reserved_tokens);
            self.settle_at_worst(id, turn, reserved_tokens);
        }
        self.settle_asks(id, None);
        self.decision.effects.push(Effect::Stop { task: id.clone() });
    }

    /// Settles an open request that used nothing, or that another run has in its books.
    pub(super) fn settle_at_nothing(&mut self, id: &TaskId, turn: u32) {
        self.settle_request(id, turn, self.task(id).reserved_tokens, Usage::default(), Some(Money::ZERO), false);
    }

    /// Settles an open request at what was reserved for it.
    pub(super) fn settle_at_worst(&mut self, id: &TaskId, turn: u32, reserved_tokens: u64) {
        let input_tokens = self.task(id).context_tokens.min(reserved_tokens);
        let usage = Usage { input_tokens, output_tokens: reserved_tokens - input_tokens, estimated: true, ..Usage::default() };
        let reserved_cost = self.task(id).reserved_cost;
        let cost = (self.run.price(id).is_some() || !reserved_cost.is_zero()).then_some(reserved_cost);
        self.settle_request(id, turn, reserved_tokens, usage, cost, true);
    }

    /// Replaces what was reserved for the open request of `id` by what it used; `unknown` if nobody knows that.
    pub(super) fn settle_request(
        &mut self,
        id: &TaskId,
        turn: u32,
        reserved_tokens: u64,
        usage: Usage,
        cost: Option<Money>,
        unknown: bool,
    ) {
        let task = id.clone();
        self.push(Entry::BudgetSettled(BudgetSettled { task, turn, by: None, reserved_tokens, usage, unknown, cost }));
    }

    /// Gives every call of the open turn that lacks a result one that says it was cancelled.
    pub(super) fn close_calls(&mut self, id: &TaskId, reason: &str) {
        let Some(open) = &self.task(id).open else { return };
        let unfinished: Vec<usize> =
            open.calls.iter().enumerate().filter(|(_, call)| !call.is_finished()).map(|(index, _)| index).collect();
        for index in unfinished {
            let stage = self.task(id).open.as_ref().map(|open| open.calls[index].stage.clone());
            let error = CallError::new(ErrorCode::Cancelled, format!("the call was stopped: {reason}"));
            if matches!(stage, Some(CallStage::Waiting | CallStage::Approval)) {
                self.refuse(id, index, error);
            } else if stage == Some(CallStage::Doubt) {
                self.finish_call(id, index, super::doubt::unknown(Some(reason)), None, Vec::new());
            } else {
                let result = self.with_attempts(id, index, CallResult::error(CallStatus::Cancelled, error));
                self.finish_call(id, index, result, None, Vec::new());
            }
        }
    }

    /// Closes the question that `id` is, unless it is closed or none.
    fn close_question(&mut self, id: &TaskId, result: &CallResult) {
        let task = self.task(id);
        let Some(question) = task.question.as_ref().filter(|question| question.closed.is_none()) else { return };
        let number = question.number;
        let answered = match result.status {
            CallStatus::Success => true,
            // A limit ended it: what it said until then is the answer, unless it said nothing.
            CallStatus::Partial => !result.output.is_null(),
            CallStatus::Failed | CallStatus::Cancelled | CallStatus::Timeout | CallStatus::UnknownOutcome => false,
        };
        let how = if answered {
            let by = match &task.holder {
                Holder::Agent(agent) => Principal::Agent(agent.clone()),
                // A person's own answer closes the question before its task ends.
                Holder::Person => Principal::Engine,
            };
            QuestionEnd::Answered { by, answer: result.output.shown().into_owned(), recorded: None }
        } else {
            let reason = result.error.as_ref().map_or_else(|| result.status.as_str().to_owned(), |error| error.message.clone());
            QuestionEnd::Failed { reason }
        };
        self.push(Entry::QuestionClosed(QuestionClosed { task: id.clone(), number, how }));
    }

    /// Makes a new version of a document in somebody's name from outside the run; `None` for the job's own documents.
    pub(super) fn write_document(&mut self, write: Write, created_by: Option<Principal>) -> DocumentRef {
        self.write_version(write, created_by, None).reference()
    }

    /// Makes the new version of a document that `call` of `task` writes.
    pub(super) fn write_document_of_call(&mut self, write: Write, task: &TaskId, call: &CallId) -> Arc<DocumentVersion> {
        let created_by = self.task(task).agent().cloned().map(Principal::Agent);
        self.write_version(write, created_by, Some((task, call)))
    }

    /// Makes a new version of a document. The caller has compared its base with the current version.
    fn write_version(
        &mut self,
        write: Write,
        created_by: Option<Principal>,
        by: Option<(&TaskId, &CallId)>,
    ) -> Arc<DocumentVersion> {
        let current = self.run.shared.documents.get(&write.path).map(|document| Arc::clone(document.current()));
        let base = current.as_ref().map(|current| current.version);
        let version = Arc::new(DocumentVersion {
            path: write.path,
            version: base.unwrap_or(0) + 1,
            base,
            content: write.content,
            description: write
                .description
                .or_else(|| current.as_ref().map(|current| current.description.clone()))
                .unwrap_or_default(),
            tags: write.tags.or_else(|| current.as_ref().map(|current| current.tags.clone())).unwrap_or_default(),
            task: by.map(|(task, _)| task.clone()),
            call: by.map(|(_, call)| call.clone()),
            created_by,
            at: self.at,
        });
        self.push(Entry::DocumentWritten(Arc::clone(&version)));
        version
    }
}
