//! Rule *one end*: whatever ends a task gives its caller exactly one result.
//!
//! Every unfinished task below is closed in the same decision, and the caller's call gets its result in the same decision.
//! Calls that had not started are refused. Calls in progress are cancelled, or of unknown outcome.

use baton_types::entry::{SubtreeClosed, TaskEnded, TaskReported};

use crate::prelude::*;

/// Ends `task`. Everything below it is closed first. Then its caller's call gets the result, which may end the caller's turn.
pub(crate) fn end(draft: &mut Draft<'_>, task: TaskIndex, end: End) {
    let End { result, limit, envelope } = end;
    if !draft.task(task).is_live() {
        return;
    }
    let (id, state) = (draft.id(task), FinalState::from(result.status));
    let reason = match &result.error {
        Some(error) => error.message.clone(),
        None => format!("task {id} ended"),
    };
    close(draft, task, &reason);
    let result = draft.task(task).with_unknown(result);
    close_question(draft, task, &result);
    let above = draft.run.graph.caller_of(task);
    let escalated = above.filter(|above| draft.task(*above).phase.escalated() == Some(&id));
    let is_background = draft.task(task).background;
    let call = if escalated.is_none() && !is_background { draft.originating(task) } else { None };
    let retry_at = call.and_then(|call| draft.run.retry_at(draft.at, task, call, state));
    draft.push(Entry::TaskEnded(TaskEnded { task: id, state, result: result.clone(), limit, retry_at }));
    if let Some(above) = above.filter(|_| is_background) {
        return report(draft, above, task, result);
    }
    if let Some(above) = escalated {
        return draft.then(Step::End { task: above, end: Box::new(End { result, limit, envelope: None }) });
    }
    let Some(call) = call else {
        draft.push(Entry::RunEnded(RunEnded { state, status: result.status, limit }));
        return draft.decision.effects.push(Effect::EndRun);
    };
    draft.then(match (retry_at, draft.task(task).concern()) {
        (Some(at), _) if at <= draft.at => Step::Retry(call),
        (Some(_), _) => return,
        (None, Some(Concern::Approval { call_hash })) => Step::DecideApproval { call, question: task, call_hash, result },
        (None, Some(Concern::Outcome)) => Step::TakeOutcome { call, result },
        (None, None) => Step::Deliver { call, result: draft.call(call).with_attempts(result), envelope },
    });
}

/// Reports to `caller` the result of its background task.
fn report(draft: &mut Draft<'_>, caller: TaskIndex, ended: TaskIndex, result: Arc<CallResult>) {
    let (ended, of) = (draft.task(ended), draft.task(caller));
    let call = ended.id.originating_call();
    let reported = TaskReported {
        task: of.id.clone(),
        tool: ended.tool.clone().unwrap_or_else(|| ToolId::new("")),
        ended: ended.id.clone(),
        said: of.said_during(&call),
        call,
        result,
    };
    draft.push(Entry::TaskReported(Box::new(reported)));
    draft.then(Step::EndWaits(caller));
}

/// Closes all tasks below `task`, and its calls. The task itself stays.
pub(crate) fn close(draft: &mut Draft<'_>, task: TaskIndex, reason: &str) {
    close_below(draft, task, reason);
    stop(draft, task);
    close_calls(draft, task, reason);
}

/// Closes every unfinished task below `task` in one entry.
fn close_below(draft: &mut Draft<'_>, task: TaskIndex, reason: &str) {
    let below = live_below(draft, task);
    if below.is_empty() {
        return;
    }
    for below in &below {
        stop(draft, *below);
    }
    // Only calls that may have taken effect get a result of their own.
    for below in below.iter().rev() {
        close_unknown(draft, *below, reason);
    }
    // Those results may have closed tasks. Callees come before callers, so that no task outlives one that waits for it.
    let below = live_below(draft, task);
    let tasks = below.iter().rev().map(|below| draft.id(*below)).collect();
    draft.push(Entry::SubtreeClosed(SubtreeClosed { task: draft.id(task), reason: reason.to_owned(), tasks }));
}

/// Returns the unfinished tasks below `task`, callers before callees.
fn live_below(draft: &Draft<'_>, task: TaskIndex) -> Vec<TaskIndex> {
    draft.run.graph.live_below(task)
}

/// Stops everything that runs for `task`. An open request is settled at its worst case, since its usage cannot become known.
fn stop(draft: &mut Draft<'_>, task: TaskIndex) {
    let phase = &draft.task(task).phase;
    let runs = phase.calls().is_some_and(|calls| calls.counts().running_functions + calls.counts().calling > 0);
    if phase.request().is_some() {
        draft.settle_request(task, Used::Reservation);
    } else if !runs {
        return;
    }
    draft.settle_asks(task, None, Used::Reservation);
    let task = draft.id(task);
    draft.decision.effects.push(Effect::Stop { task });
}

/// Gives each call of a closed task that may have taken effect the result `unknown_outcome`.
fn close_unknown(draft: &mut Draft<'_>, task: TaskIndex, reason: &str) {
    for index in close_order(draft.task(task)) {
        let call = CallAt { task, index };
        let (is_doubted, error) = (draft.call(call).stage == CallStage::Doubt, CallError::new(ErrorCode::Cancelled, reason));
        let stopped = || draft.stopped(call, error);
        let result = if is_doubted { outcome::unknown(Some(reason)).into() } else { stopped() };
        if result.status == CallStatus::UnknownOutcome {
            draft.finish(call, result, None);
        }
    }
}

/// Gives every unfinished call of the turn a result: refused, cancelled or, if its outcome is in doubt, `unknown_outcome`.
fn close_calls(draft: &mut Draft<'_>, task: TaskIndex, reason: &str) {
    // Calls that code made end before the call whose code made them.
    for index in close_order(draft.task(task)) {
        let call = CallAt { task, index };
        let error = CallError::new(ErrorCode::Cancelled, format!("the call was stopped: {reason}"));
        match draft.call(call).stage {
            CallStage::Refused | CallStage::Finished(_) => {}
            CallStage::Waiting | CallStage::Approval => draft.refuse(call, error),
            CallStage::Doubt => draft.finish(call, outcome::unknown(Some(reason)), None),
            CallStage::Running { .. } | CallStage::Suspended => {
                let result = draft.stopped(call, error);
                draft.finish(call, result, None);
            }
        }
    }
}

/// Returns the indices of the calls of `task`: those that code made, the newest first, and then the model's own.
fn close_order(task: &Task) -> impl Iterator<Item = usize> + use<> {
    let (own, all) = task.phase.calls().map_or((0, 0), |calls| (calls.own().len(), calls.len()));
    (own..all).rev().chain(0..own)
}

/// Closes the question of `task`, if it has an open one.
fn close_question(draft: &mut Draft<'_>, task: TaskIndex, result: &CallResult) {
    let of = draft.task(task);
    let Some(question) = of.question.clone().filter(|question| question.closed.is_none()) else { return };
    let answered = match result.status {
        CallStatus::Success => true,
        // A limit ended it. Its output so far is the answer, unless there is none.
        CallStatus::Partial => !result.output.is_null(),
        CallStatus::Failed | CallStatus::Cancelled | CallStatus::Timeout | CallStatus::UnknownOutcome => false,
    };
    let how = if answered {
        let by = match &of.holder {
            Holder::Agent(agent) => Principal::Agent(agent.clone()),
            // A person's own answer closes the question before its task ends.
            Holder::Person => Principal::Engine,
        };
        QuestionEnd::Answered { by, answer: result.output.shown().into_owned(), recorded: None }
    } else {
        QuestionEnd::Failed { reason: result.reason().to_owned() }
    };
    draft.close_question(task, &question, how);
}
