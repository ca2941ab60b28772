//! The calls of an open turn: refused, approved, begun, finished; and where that leaves their task.

use std::sync::Arc;

use super::known;
use super::tasks::enter;
use super::turns::counts;
use crate::call::{AfterExecution, ErrorCode};
use crate::entry::{CallApproved, CallFinished, CallRefused, CallStarted, Concern};
use crate::id::{CallId, TaskId};
use crate::machine::Run;
use crate::machine::answer;
use crate::machine::task::{Attempts, CallStage, Finish, Streak, TaskState};
use crate::render;
use crate::time::Timestamp;

pub(super) fn call_refused(run: &mut Run, at: Timestamp, entry: &CallRefused) {
    let (index, before) = restage(run, &entry.task, &entry.call, CallStage::Refused);
    let task = known(run, &entry.task);
    if !task.is_summarising() {
        task.context_tokens += render::error_tokens(&entry.error);
    }
    let open = task.open.as_mut().expect("the call was in it");
    open.unfinished -= 1;
    if before == CallStage::Approval {
        open.asking -= 1;
    }
    let call = &open.calls[index];
    let tool_type = call.tool_type;
    if call.is_function() {
        open.waiting_functions -= 1;
    }
    if counts(tool_type) && !stays_counted(entry.error.code) {
        task.calls -= 1;
        run.shared.calls -= 1;
    }
    stand(run, at, &entry.task);
}

/// Whether a call that is refused for `code` counts as made: all do but those for which a limit leaves no room, and those of
/// a turn that executes nothing.
fn stays_counted(code: ErrorCode) -> bool {
    !matches!(code, ErrorCode::LimitReached | ErrorCode::TurnDiscarded)
}

pub(super) fn call_approved(run: &mut Run, at: Timestamp, entry: &CallApproved) {
    let (index, _) = restage(run, &entry.task, &entry.call, CallStage::Waiting);
    let open = known(run, &entry.task).open.as_mut().expect("the call was in it");
    open.calls[index].approved = Some(entry.binds);
    open.asking -= 1;
    stand(run, at, &entry.task);
}

pub(super) fn call_started(run: &mut Run, at: Timestamp, entry: &CallStarted) {
    let (index, _) = restage(run, &entry.task, &entry.call, CallStage::Running);
    let writes = run.configs().tools.get(entry.tool.as_str()).is_some_and(|tool| tool.writes);
    let task = known(run, &entry.task);
    let open = task.open.as_mut().expect("the call was in it");
    if open.calls[index].is_function() {
        open.waiting_functions -= 1;
        open.running_functions += 1;
        open.writer_runs = writes;
        let all_begun = open.waiting_functions == 0;
        run.shared.running_functions += 1;
        if all_begun {
            leave_call_queue(run, &entry.task);
        }
    } else {
        open.awaited += 1;
        enter(run, at, &entry.task, TaskState::Blocked);
    }
}

pub(super) fn call_finished(run: &mut Run, at: Timestamp, entry: &CallFinished) {
    let after = entry.after;
    let result = &entry.result;
    let open = run.task(&entry.task).and_then(|task| task.open.as_ref());
    let asked = open.and_then(|open| open.index_of(&entry.call).map(|index| &open.calls[index].asked));
    let to_user = asked.is_some_and(|asked| answer::returns_to_user(asked, entry.tool_type));
    let keep = to_user || after == AfterExecution::Terminate;
    let finish = Finish { status: result.status, after, to_user, result: keep.then(|| Arc::clone(result)) };
    change_attempts(run, &entry.task, &entry.call, |attempts| attempts.next_at = None);
    let (index, before) = restage(run, &entry.task, &entry.call, CallStage::Finished(finish));
    let budget = run.limits(run.existing(&entry.task)).inject_tokens;
    let tokens = render::result_tokens(entry, &run.shared.documents, budget);
    let task = known(run, &entry.task);
    task.context_tokens += tokens;
    for document in &result.documents {
        task.learn(document.path.clone(), document.version);
    }
    for conflict in &entry.conflicts {
        task.learn(conflict.path.clone(), conflict.current);
    }
    task.said.retain(|(waiting, _)| *waiting != entry.call);
    let open = task.open.as_mut().expect("the call was in it");
    let call = &open.calls[index];
    if entry.repeat > 0 {
        let (asked, result) = (Arc::clone(&call.asked), Arc::clone(result));
        task.streak = Some(Box::new(Streak { asked, result, count: entry.repeat }));
    }
    let is_function = call.is_function();
    open.unfinished -= 1;
    if before == CallStage::Approval {
        open.asking -= 1;
    }
    let mut ran = false;
    if before == CallStage::Doubt {
        open.doubtful -= 1;
    } else if is_function {
        if before == CallStage::Running {
            open.running_functions -= 1;
            open.writer_runs = false;
            ran = true;
        } else {
            open.waiting_functions -= 1;
        }
    } else if before == CallStage::Running {
        open.awaited -= 1;
    }
    if ran {
        run.shared.running_functions -= 1;
    }
    stand(run, at, &entry.task);
}

/// The engine asks whether the call may begin, or what became of it.
pub(super) fn question_about_call(run: &mut Run, at: Timestamp, caller: &TaskId, call: &CallId, concern: Concern) {
    let stage = match concern {
        Concern::Approval { .. } => CallStage::Approval,
        Concern::Outcome => CallStage::Doubt,
    };
    let (index, before) = restage(run, caller, call, stage);
    let open = known(run, caller).open.as_mut().expect("the call was in it");
    match concern {
        Concern::Approval { .. } => {
            open.asking += u32::from(before != CallStage::Approval);
            open.calls[index].approvals += 1;
        }
        Concern::Outcome => {
            open.running_functions -= 1;
            open.writer_runs = false;
            open.doubtful += 1;
            run.shared.running_functions -= 1;
        }
    }
    stand(run, at, caller);
}

/// Changes what is known of the failed attempts at `call`, if there are any, and with it when the next one begins.
pub(super) fn change_attempts(run: &mut Run, caller: &TaskId, call: &CallId, change: impl FnOnce(&mut Attempts)) {
    let Some(open) = known(run, caller).open.as_mut() else { return };
    let Some(attempts) = open.index_of(call).and_then(|index| open.calls[index].attempts.as_mut()) else { return };
    let before = attempts.next_at;
    change(attempts);
    let after = attempts.next_at;
    let retries = &mut run.shared.retries;
    if let Some(at) = before {
        retries.remove(&(at, call.clone()));
    }
    if let Some(at) = after {
        retries.insert((at, call.clone()));
    }
}

/// Marks the call at its place in the open turn; returns the place, and the stage before.
pub(super) fn restage(run: &mut Run, id: &TaskId, call: &CallId, stage: CallStage) -> (usize, CallStage) {
    let task = known(run, id);
    let open = task.open.as_mut().unwrap_or_else(|| panic!("call {call} belongs to no open turn"));
    let index = open.index_of(call).unwrap_or_else(|| panic!("call {call} is not of the open turn"));
    let before = std::mem::replace(&mut open.calls[index].stage, stage);
    (index, before)
}

/// Where a task stands while its turn proceeds: ready once every call has its result, blocked while all it could do waits
/// for others, running otherwise. Only a running one waits for a place among the parallel calls, so that a call which waits
/// for a person keeps no place in that queue from those that could begin.
pub(super) fn stand(run: &mut Run, at: Timestamp, id: &TaskId) {
    let Some(task) = run.task(id) else { return };
    let Some(open) = task.open.as_ref() else { return };
    let (blocked, queued) = (task.state == TaskState::Blocked, task.place.is_some());
    if open.unfinished == 0 {
        leave_call_queue(run, id);
        enter(run, at, id, TaskState::Ready);
    } else if open.waits() {
        leave_call_queue(run, id);
        enter(run, at, id, TaskState::Blocked);
    } else if open.waiting_functions == 0 {
        leave_call_queue(run, id);
        if blocked {
            enter(run, at, id, TaskState::Running);
        }
    } else if blocked {
        enter(run, at, id, TaskState::Running);
        if !queued {
            let seq = run.shared.seq;
            queue_for_calls(run, id, seq);
        }
    }
}

pub(super) fn queue_for_calls(run: &mut Run, id: &TaskId, place: u64) {
    run.shared.waiting_for_calls.insert(place, id.clone());
    known(run, id).place = Some(place);
}

pub(super) fn leave_call_queue(run: &mut Run, id: &TaskId) {
    if run.shared.waiting_for_calls.is_empty() {
        return;
    }
    let Some(place) = run.task(id).and_then(|task| task.place) else { return };
    if run.shared.waiting_for_calls.get(&place) == Some(id) {
        run.shared.waiting_for_calls.remove(&place);
        known(run, id).place = None;
    }
}
