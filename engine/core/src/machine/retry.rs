//! Failed delegations that are tried again (`on_failure` of the delegating tool).
//!
//! An attempt is a task of its own, `<call>/retry.<n>`, made of the same call with its documents as they are by then. Until
//! one succeeds, or the attempts are used up, the call has no result and its caller stays blocked. What waits for its next
//! attempt is a record and a moment, so a crash, a cancellation or the caller's end needs nothing of its own here.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Draft, task_limits};
use crate::call::{CallError, CallResult, CallStatus, ErrorCode};
use crate::config::OnFailure;
use crate::entry::{Entry, FinalState, TaskCreated, TaskKind};
use crate::id::{CallId, TaskId};
use crate::time::Timestamp;

/// How many earlier attempts a result tells of, the newest ones.
const ATTEMPTS_TOLD: usize = 5;

impl Draft<'_> {
    /// When what `id` failed at is tried again, if it is: a task that failed or timed out is, one that was stopped or that
    /// handed back a part is not.
    ///
    /// Of the limits only `children` is looked at here, because only that one is sure to hold later: a task never has fewer.
    pub(super) fn retry_at(&self, id: &TaskId, state: FinalState) -> Option<Timestamp> {
        let task = self.task(id);
        if task.kind != TaskKind::Delegation || !matches!(state, FinalState::Failed | FinalState::TimedOut) {
            return None;
        }
        let configs = self.run.configs();
        let OnFailure::Retry(retry) = configs.tools.get(task.tool.as_ref()?)?.on_failure else { return None };
        let caller = self.task(&self.run.caller(id)?);
        let open = caller.open.as_ref()?;
        let failed = open.calls[open.index_of(&id.originating_call())?].failed_attempts() + 1;
        if task_limits(configs, caller).children.is_some_and(|allowed| caller.children >= allowed) {
            return None;
        }
        retry.pause(failed).map(|pause| self.at.plus(pause))
    }

    /// Makes the next attempt at `call`, or gives it the last one's result where a limit is in the way.
    pub(super) fn try_again(&mut self, call: &CallId) {
        let caller = call.task();
        let open = self.task(&caller).open.as_ref().expect("a call that is tried again is of an open turn");
        let index = open.index_of(call).expect("a call that is tried again is of an open turn");
        match self.next_attempt(&caller, index) {
            Ok(created) => self.push(Entry::TaskCreated(Box::new(created))),
            Err(error) => {
                let attempts = open.calls[index].attempts.as_ref().expect("it was tried before");
                let mut result = attempts
                    .failed
                    .last()
                    .map_or_else(|| CallResult::error(CallStatus::Failed, error.clone()), |last| CallResult::clone(last));
                tell(&mut result, "no_further_attempt", error.to_value());
                let result = self.with_attempts(&caller, index, result);
                self.finish_call(&caller, index, result, None, Vec::new());
                self.changed.push_back(caller);
            }
        }
    }

    fn next_attempt(&self, caller: &TaskId, index: usize) -> Result<TaskCreated, CallError> {
        let task = self.task(caller);
        let call = &task.open.as_ref().expect("the turn is open").calls[index];
        let tool = &self.run.configs().tools[call.asked.tool.as_str()];
        let agent = tool.agent.as_ref().expect("only delegations are tried again");
        let input = call.asked.input.value();
        // What was approved is the call, however often it is tried; but not what it has become since.
        if self.approver(caller, index, tool).is_some() {
            return Err(super::approval::changed(tool));
        }
        self.check_creation(task, tool, &input, 0)?;
        let documents = self.pin(&input)?;
        Ok(self.delegated_task(caller, &call.id, call.failed_attempts(), tool, agent, &input, documents))
    }

    /// `result` as the call at `index` gets it: without success, it tells of the attempts before the last one.
    pub(super) fn with_attempts(&self, caller: &TaskId, index: usize, result: impl Into<Arc<CallResult>>) -> Arc<CallResult> {
        let result = result.into();
        let open = self.task(caller).open.as_ref().expect("the turn is open");
        let Some(attempts) = open.calls[index].attempts.as_ref().filter(|_| result.status != CallStatus::Success) else {
            return result;
        };
        let told = attempts.failed.iter().enumerate().rev().take(ATTEMPTS_TOLD).rev().map(|(index, failed)| {
            let error = failed.error.as_ref();
            let message = error.map_or("", |error| error.message.as_str());
            json!({
                "attempt": index + 1,
                "status": failed.status,
                "code": error.map(|error| error.code),
                "message": super::check::bounded(message),
            })
        });
        let told: Vec<Value> = told.collect();
        let mut result = CallResult::clone(&result);
        tell(&mut result, "failed_attempts", json!({"count": attempts.failed.len(), "newest": told}));
        Arc::new(result)
    }
}

/// Adds `value` under `key` to what the error of `result` says in detail.
fn tell(result: &mut CallResult, key: &str, value: Value) {
    let error = result.error.get_or_insert_with(|| CallError::new(ErrorCode::ToolFailed, "the delegated task failed"));
    let mut detail = match error.detail.value() {
        Value::Object(detail) => detail,
        Value::Null => serde_json::Map::new(),
        other => serde_json::Map::from_iter([("detail".to_owned(), other)]),
    };
    detail.insert(key.to_owned(), value);
    error.detail = Value::Object(detail).into();
}
