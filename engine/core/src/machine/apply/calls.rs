//! The calls of an open turn: refused, approved, begun, finished; and where that leaves their task.

use std::sync::Arc;

use super::known;
use super::tasks::enter;
use super::turns::counts;
use crate::call::{AfterExecution, ErrorCode};
use crate::entry::{CallApproved, CallFinished, CallRefused, CallStarted, Concern};
use crate::id::{CallId, TaskId};
use crate::machine::task::{Attempts, CallStage, Finish, OpenCall, Streak, TaskState};
use crate::machine::world::World;
use crate::machine::{answer, task_limits};
use crate::render;
use crate::time::Timestamp;

pub(super) fn call_refused<W: World>(world: &mut W, at: Timestamp, entry: &CallRefused) {
    let (call, before) = restage(world, &entry.task, &entry.call, CallStage::Refused);
    let task = known(world, &entry.task);
    if !task.is_summarising() {
        task.context_tokens += render::error_tokens(&entry.error);
    }
    let open = task.open.as_mut().expect("the call was in it");
    open.unfinished -= 1;
    if before == CallStage::Approval {
        open.asking -= 1;
    }
    if call.is_function() {
        open.waiting_functions -= 1;
    }
    if counts(call.tool_type) && !stays_counted(entry.error.code) {
        task.calls -= 1;
        world.shared_mut().calls -= 1;
    }
    stand(world, at, &entry.task);
}

/// Whether a call that is refused for `code` counts as made: all do but those for which a limit leaves no room, and those of
/// a turn that executes nothing.
fn stays_counted(code: ErrorCode) -> bool {
    !matches!(code, ErrorCode::LimitReached | ErrorCode::TurnDiscarded)
}

pub(super) fn call_approved<W: World>(world: &mut W, at: Timestamp, entry: &CallApproved) {
    restage(world, &entry.task, &entry.call, CallStage::Waiting);
    let open = known(world, &entry.task).open.as_mut().expect("the call was in it");
    let index = open.index_of(&entry.call).expect("the call was in it");
    let mut approved = open.calls[index].clone();
    approved.approved = Some(entry.binds);
    open.calls.set_mut(index, approved);
    open.asking -= 1;
    stand(world, at, &entry.task);
}

pub(super) fn call_started<W: World>(world: &mut W, at: Timestamp, entry: &CallStarted) {
    let (call, _) = restage(world, &entry.task, &entry.call, CallStage::Running);
    let writes = world.configs().tools.get(entry.tool.as_str()).is_some_and(|tool| tool.writes);
    let task = known(world, &entry.task);
    let open = task.open.as_mut().expect("the call was in it");
    if call.is_function() {
        open.waiting_functions -= 1;
        open.running_functions += 1;
        open.writer_runs = writes;
        let all_begun = open.waiting_functions == 0;
        world.shared_mut().running_functions += 1;
        if all_begun {
            leave_call_queue(world, &entry.task);
        }
    } else {
        open.awaited += 1;
        enter(world, at, &entry.task, TaskState::Blocked);
    }
}

pub(super) fn call_finished<W: World>(world: &mut W, at: Timestamp, entry: &CallFinished) {
    let after = entry.after;
    let result = &entry.result;
    let open = world.task(&entry.task).and_then(|task| task.open.as_ref());
    let asked = open.and_then(|open| open.index_of(&entry.call).map(|index| &open.calls[index].asked));
    let to_user = asked.is_some_and(|asked| answer::returns_to_user(asked, entry.tool_type));
    let keep = to_user || after == AfterExecution::Terminate;
    let finish = Finish { status: result.status, after, to_user, result: keep.then(|| Arc::clone(result)) };
    change_attempts(world, &entry.task, &entry.call, |attempts| attempts.next_at = None);
    let (call, before) = restage(world, &entry.task, &entry.call, CallStage::Finished(finish));
    let configs = Arc::clone(world.configs());
    let documents = world.shared().documents.clone();
    let task = known(world, &entry.task);
    let budget = task_limits(&configs, task).inject_tokens;
    task.context_tokens += render::result_tokens(entry, &documents, budget);
    for document in &result.documents {
        task.learn(document.path.clone(), document.version);
    }
    for conflict in &entry.conflicts {
        task.learn(conflict.path.clone(), conflict.current);
    }
    if entry.repeat > 0 {
        task.streak = Some(Arc::new(Streak { asked: Arc::clone(&call.asked), result: Arc::clone(result), count: entry.repeat }));
    }
    task.said.retain(|(waiting, _)| *waiting != entry.call);
    let open = task.open.as_mut().expect("the call was in it");
    open.unfinished -= 1;
    if before == CallStage::Approval {
        open.asking -= 1;
    }
    let mut ran = false;
    if before == CallStage::Doubt {
        open.doubtful -= 1;
    } else if call.is_function() {
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
        world.shared_mut().running_functions -= 1;
    }
    stand(world, at, &entry.task);
}

/// The engine asks whether the call may begin, or what became of it.
pub(super) fn question_about_call<W: World>(world: &mut W, at: Timestamp, caller: &TaskId, call: &CallId, concern: Concern) {
    let stage = match concern {
        Concern::Approval { .. } => CallStage::Approval,
        Concern::Outcome => CallStage::Doubt,
    };
    let (_, before) = restage(world, caller, call, stage);
    let open = known(world, caller).open.as_mut().expect("the call was in it");
    match concern {
        Concern::Approval { .. } => {
            open.asking += u32::from(before != CallStage::Approval);
            let index = open.index_of(call).expect("the call was in it");
            let mut asked = open.calls[index].clone();
            asked.approvals += 1;
            open.calls.set_mut(index, asked);
        }
        Concern::Outcome => {
            open.running_functions -= 1;
            open.writer_runs = false;
            open.doubtful += 1;
            world.shared_mut().running_functions -= 1;
        }
    }
    stand(world, at, caller);
}

/// Changes what is known of the failed attempts at `call`, if there are any, and with it when the next one begins.
pub(super) fn change_attempts<W: World>(world: &mut W, caller: &TaskId, call: &CallId, change: impl FnOnce(&mut Attempts)) {
    let open = world.task(caller).and_then(|task| task.open.as_ref());
    let Some(index) = open.and_then(|open| open.index_of(call).filter(|index| open.calls[*index].attempts.is_some())) else {
        return;
    };
    let open = known(world, caller).open.as_mut().expect("the call was in it");
    let mut changed = open.calls[index].clone();
    let attempts = Arc::make_mut(changed.attempts.get_or_insert_default());
    let before = attempts.next_at;
    change(attempts);
    let after = attempts.next_at;
    open.calls.set_mut(index, changed);
    let retries = &mut world.shared_mut().retries;
    if let Some(at) = before {
        retries.remove_mut(&(at, call.clone()));
    }
    if let Some(at) = after {
        retries.insert_mut((at, call.clone()));
    }
}

/// Marks the call at its place in the open turn; returns what the call was.
pub(super) fn restage<W: World>(world: &mut W, id: &TaskId, call: &CallId, stage: CallStage) -> (OpenCall, CallStage) {
    let task = known(world, id);
    let open = task.open.as_mut().unwrap_or_else(|| panic!("call {call} belongs to no open turn"));
    let index = open.index_of(call).unwrap_or_else(|| panic!("call {call} is not of the open turn"));
    let before = open.calls[index].clone();
    let mut after = before.clone();
    after.stage = stage;
    open.calls.set_mut(index, after);
    let earlier = before.stage.clone();
    (before, earlier)
}

/// Where a task stands while its turn proceeds: ready once every call has its result, blocked while all it could do waits
/// for others, running otherwise. Only a running one waits for a place among the parallel calls, so that a call which waits
/// for a person keeps no place in that queue from those that could begin.
pub(super) fn stand<W: World>(world: &mut W, at: Timestamp, id: &TaskId) {
    let Some(task) = world.task(id) else { return };
    let Some(open) = task.open.as_ref() else { return };
    let (blocked, queued) = (task.state == TaskState::Blocked, task.place.is_some());
    if open.unfinished == 0 {
        leave_call_queue(world, id);
        enter(world, at, id, TaskState::Ready);
    } else if open.waits() {
        leave_call_queue(world, id);
        enter(world, at, id, TaskState::Blocked);
    } else if open.waiting_functions == 0 {
        leave_call_queue(world, id);
        if blocked {
            enter(world, at, id, TaskState::Running);
        }
    } else if blocked {
        enter(world, at, id, TaskState::Running);
        if !queued {
            let seq = world.shared().seq;
            queue_for_calls(world, id, seq);
        }
    }
}

pub(super) fn queue_for_calls<W: World>(world: &mut W, id: &TaskId, place: u64) {
    world.shared_mut().waiting_for_calls.insert_mut(place, id.clone());
    known(world, id).place = Some(place);
}

pub(super) fn leave_call_queue<W: World>(world: &mut W, id: &TaskId) {
    if world.shared().waiting_for_calls.is_empty() {
        return;
    }
    let Some(place) = world.task(id).and_then(|task| task.place) else { return };
    if world.shared().waiting_for_calls.get(&place) == Some(id) {
        world.shared_mut().waiting_for_calls.remove_mut(&place);
        known(world, id).place = None;
    }
}
