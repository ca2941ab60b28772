//! Failed attempts at a delegation: the moment of the next one, and the details that the call's result lists.

use baton_types::config::OnFailure;

use crate::bounded;
use crate::prelude::*;

/// Maximum number of failed attempts that a result lists. The newest are kept.
const ATTEMPTS_LISTED: usize = 5;

impl Run {
    /// Returns the moment of the next attempt, if another task is to try again after `task` ended for `call`. A task that
    /// failed or timed out is tried again. A task is not tried again if it was cancelled, ended `partial`, or has a call
    /// whose effect is not known: another task could repeat the effect.
    ///
    /// Of the limits only `children` is checked here. It will still be reached later, because the number of children never
    /// falls.
    pub(super) fn retry_at(&self, at: Timestamp, task: TaskIndex, call: CallAt, state: FinalState) -> Option<Timestamp> {
        let (of, caller) = (&self.graph[task], &self.graph[call.task]);
        let may_repeat = matches!(state, FinalState::Failed | FinalState::TimedOut) && of.extras().unknown.is_empty();
        if of.kind != TaskKind::Delegation || !may_repeat {
            return None;
        }
        let OnFailure::Retry(retry) = self.configs.tools.get(of.tool.as_ref()?)?.on_failure else { return None };
        if caller.limits().children.is_some_and(|allowed| caller.work().children >= allowed) {
            return None;
        }
        let failed = caller.phase.calls()?[call.index].next_attempt();
        retry.pause(failed).map(|pause| at.plus(pause))
    }
}

impl OpenCall {
    /// Returns `result` as the call gets it. A result without success lists the failed attempts before the last one.
    pub(super) fn with_attempts(&self, result: impl Into<Arc<CallResult>>) -> Arc<CallResult> {
        let (result, failed) = (result.into(), self.failed_attempts());
        if failed.is_empty() || result.status == CallStatus::Success {
            return result;
        }
        let newest = failed.iter().enumerate().skip(failed.len().saturating_sub(ATTEMPTS_LISTED)).map(|(index, failed)| {
            let error = failed.error.as_ref();
            let message = error.map_or("", |error| error.message.as_str());
            json!({
                "attempt": index + 1,
                "status": failed.status,
                "code": error.map(|error| error.code),
                "message": bounded(message),
            })
        });
        let newest: Vec<Value> = newest.collect();
        let mut result = CallResult::clone(&result);
        result.add_detail("failed_attempts", json!({"count": failed.len(), "newest": newest}));
        Arc::new(result)
    }
}
