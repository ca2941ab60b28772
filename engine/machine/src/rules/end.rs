//! Rule *end*: the first rule that applies ends the turn, once its last result is in.
//!
//! 1. An effective handoff ends the task with its result. In a last turn because of another limit than that of the task's
//!    turns, the result is `partial`.
//! 2. In a last turn without a handoff the task ends `partial`, with the turn's text as its output.
//! 3. A result whose `after_execution` is `terminate` ends the task.
//! 4. If every call succeeded and its result went to the user, the task ends with the turn's message and the outputs, unless its
//!    result must match a schema of the agent.
//! 5. Otherwise the agent is asked again. So it is instead of 3 and 4 while background tasks run.
//!
//! A delegated task ends by 3 or 4 once its result is accepted, if its delegation needs that. A handoff was accepted before.

use crate::prelude::*;

/// Ends the turn of `task`, if its last result is in.
pub(crate) fn end_turn(draft: &mut Draft<'_>, task: TaskIndex) {
    // Rule *text* ends a turn without calls.
    let is_over = |calls: &&OpenCalls| !calls.is_empty() && calls.counts().unfinished == 0;
    let Some(calls) = draft.task(task).phase.calls().filter(is_over) else { return };
    if calls.own().is_empty() {
        // The acceptor has judged the text of the turn.
        return draft.then(Step::Text(task));
    }
    let handed_off = calls.own().iter().filter(|call| call.hands_off()).find_map(|call| call.finish()?.result.clone());
    match (handed_off, calls.purpose.last_turn()) {
        // The last allowed turn is a turn as good as any other. Other limits cut the work short.
        (Some(result), None | Some(LimitKind::Turns)) => draft.then(Step::end(task, result)),
        (Some(result), Some(limit)) => {
            let output = result.output.shown().into_owned();
            draft.then_end_partial_with(task, limit, output, result.documents.clone());
        }
        (None, Some(limit)) => {
            let output = if calls.text.is_empty() { Json::null() } else { Json::from(Value::from(&*calls.text)) };
            draft.then_end_partial(task, limit, output);
        }
        (None, None) => {
            if draft.run.waits_for_background(task) {
                // Its agent sees the results of its background tasks first.
            } else if let Some(result) = terminating_result(calls) {
                draft.then(Step::Conclude { task, result: result.into() });
            } else if calls.own().iter().all(is_done_for_user) && !promises_result(draft, task) {
                let results = calls.own().iter().filter_map(|call| call.finish()?.result.as_ref());
                let outputs: Vec<Value> = results.map(|result| result.output.value()).collect();
                let output = json!({"message": calls.text, "outputs": outputs});
                draft.then(Step::Conclude { task, result: CallResult::success(output).into() });
            }
            // Otherwise the task is ready, and its model is asked again when limits admit it.
        }
    }
}

/// Whether `call` has a result for the user, and no error that its agent should know.
fn is_done_for_user(call: &OpenCall) -> bool {
    let is_success = |result: &CallResult| matches!(result.status, CallStatus::Success | CallStatus::Partial);
    call.finish().is_some_and(|finish| finish.to_user && finish.result.as_deref().is_some_and(is_success))
}

/// Whether the result of `task` must match the schema of its agent's results, which a message with outputs does not.
fn promises_result(draft: &Draft<'_>, task: TaskIndex) -> bool {
    draft.task(task).kind != TaskKind::Question && draft.agent(task).result_schema.is_some()
}

/// Returns the result of a terminating turn. Its output is that of the first terminating call. Its status is the first status
/// of a terminating call, in call order, that is not `success`.
fn terminating_result(calls: &OpenCalls) -> Option<CallResult> {
    let terminates = |finish: &&Finish| finish.after == AfterExecution::Terminate;
    let mut terminating = calls.own().iter().filter_map(|call| call.finish().filter(terminates)?.result.as_deref());
    let mut result = terminating.next()?.clone();
    if result.status == CallStatus::Success
        && let Some(other) = terminating.find(|other| other.status != CallStatus::Success)
    {
        result.status = other.status;
        result.error.clone_from(&other.error);
    }
    Some(result)
}
