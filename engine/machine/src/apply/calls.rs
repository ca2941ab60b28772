//! Entries about the calls of a turn, and the phase of the task that follows from them.

use std::num::NonZeroU64;

use baton_render::acceptance::Judgement;
use baton_types::entry::CallApproved;

use super::known;
use super::tasks::enter;
use crate::approved_class::{ApprovedClass, tool_hash};
use crate::calls::Attempts;
use crate::prelude::*;
use crate::task::{Fresh, FreshContent, Streak};
use crate::{agent, unknown};

pub(super) fn call_made(run: &mut Run, at: Timestamp, entry: &CallMade) {
    let configs = Arc::clone(run.configs());
    let tool = configs.tools.get(entry.asked.tool.as_str());
    let call = OpenCall::made(entry, tool.map(AsRef::as_ref));
    let made = u32::from(call.is_counted());
    let index = known(run, &entry.task);
    let task = &mut run.graph[index];
    task.work_mut().calls += made;
    let calls = open_calls(task);
    let before = calls.counts();
    calls.add_made(call);
    let after = calls.counts();
    run.shared.running_functions = run.shared.running_functions + after.running_functions - before.running_functions;
    run.shared.calls += made;
    follow_calls(run, at, index);
}

pub(super) fn call_refused(run: &mut Run, at: Timestamp, entry: &CallRefused) {
    let task = known(run, &entry.task);
    let is_inner = entry.call.outer().is_some();
    let stage = if is_inner {
        let result = Arc::new(CallResult::error(CallStatus::Failed, entry.error.clone()));
        let (status, after) = (result.status, AfterExecution::Suspend);
        CallStage::Finished(Finish { status, after, to_user: false, result: Some(result) })
    } else {
        CallStage::Refused
    };
    change_stage(run, at, task, &entry.call, stage);
    let task = &mut run.graph[task];
    if !task.is_summarising() && !is_inner {
        let tokens = render::error_tokens(&entry.error);
        task.context_tokens += tokens;
        if tokens > render::SHORT_TOKENS {
            let result = Arc::new(CallResult::error(CallStatus::Failed, entry.error.clone()));
            let body = tokens - render::SHORT_TOKENS;
            let content = FreshContent::Result { call: entry.call.clone(), tool: entry.tool.clone(), result, body };
            task.add_fresh([Fresh { position: position(&entry.call), content }]);
        }
    }
    let (calls, index) = call_of(task, &entry.call);
    if calls[index].is_counted() && !stays_counted(entry.error.code) {
        task.work_mut().calls -= 1;
        run.shared.calls -= 1;
    }
}

/// Whether a call that is refused for `code` still counts as made. It does not count if a limit refused it or if its turn
/// executes nothing.
fn stays_counted(code: ErrorCode) -> bool {
    !matches!(code, ErrorCode::LimitReached | ErrorCode::TurnDiscarded)
}

pub(super) fn call_approved(run: &mut Run, at: Timestamp, entry: &CallApproved) {
    let task = known(run, &entry.task);
    let index = change_stage(run, at, task, &entry.call, CallStage::Waiting);
    let task = &mut run.graph[task];
    open_calls(task).details_mut(index).approved = Some(entry.call_hash);
    if let Some(input) = &entry.input {
        let call = &open_calls(task)[index];
        // Code gets the result alone.
        let notice = (!call.is_inner()).then(|| render::input_changed(call.original(), input));
        let tool = run.configs.tools.get(call.asked.tool.as_str());
        let delegates = tool.is_some_and(|tool| tool.delegates(input));
        open_calls(task).change_input(index, input.clone(), delegates);
        task.context_tokens += notice.as_ref().map_or(0, render::notice_tokens);
    }
    if !entry.class.is_empty() {
        let asked = Arc::clone(&open_calls(task)[index].asked);
        let tool = run.configs.tool_of(task.agent(), &asked).map(|tool| tool_hash(tool));
        let class = tool.map(|tool| ApprovedClass { call: entry.call.clone(), tool, conditions: entry.class.clone() });
        run.shared.classes.extend(class);
    }
}

pub(super) fn call_started(run: &mut Run, at: Timestamp, entry: &CallStarted) {
    let writes = run.configs().tools.get(entry.tool.as_str()).is_some_and(|tool| tool.writes);
    change_stage(run, at, known(run, &entry.task), &entry.call, CallStage::Running { writes });
}

pub(super) fn call_suspended(run: &mut Run, at: Timestamp, entry: &CallSuspended) {
    let task = known(run, &entry.task);
    let index = change_stage(run, at, task, &entry.call, CallStage::Suspended);
    let details = open_calls(&mut run.graph[task]).details_mut(index);
    (details.suspension, details.suspended_at) = (entry.suspension.clone(), at);
    if let Some(until) = entry.suspension.until {
        run.shared.alarms.insert((until, entry.call.clone()));
    }
}

/// Lets the suspended calls of the original run again in its fork, whose keys are others.
pub(super) fn unsuspend(run: &mut Run, at: Timestamp, task: TaskIndex) {
    let configs = Arc::clone(run.configs());
    let suspended = run.graph[task].calls().filter(|call| call.stage == CallStage::Suspended);
    let calls: Vec<(CallId, bool)> = suspended
        .map(|call| (call.id.clone(), configs.tools.get(call.asked.tool.as_str()).is_some_and(|tool| tool.writes)))
        .collect();
    for (call, writes) in calls {
        change_stage(run, at, task, &call, CallStage::Running { writes });
    }
}

pub(super) fn call_finished(run: &mut Run, at: Timestamp, entry: &CallFinished) {
    run.shared.deaths = 0;
    let (after, result) = (entry.after, &entry.result);
    let task = known(run, &entry.task);
    change_attempts(run, task, &entry.call, |attempts| attempts.next_at = None);
    unknown::note(run, task, entry);
    let (calls, index) = call_of(&mut run.graph[task], &entry.call);
    if calls[index].is_inner() {
        // Its result goes to the code, and into no request.
        let stage = Finish { status: result.status, after, to_user: false, result: Some(Arc::clone(result)) };
        change_stage(run, at, task, &entry.call, CallStage::Finished(stage));
        let task = &mut run.graph[task];
        if entry.call.is_acceptance() {
            note_verdict(task, result);
        }
        return forget_said(task, &entry.call);
    }
    let to_user = render::goes_to_user(&calls[index].asked, entry.tool_type);
    let receipt = to_user.then(|| render::receipt(entry));
    let shown = receipt.as_ref().unwrap_or(entry);
    let tokens = render::result_tokens(shown, &run.shared.documents);
    let body = render::body_tokens(shown);
    let fresh = fresh_content(run, task, shown, body);
    let kept = (to_user || after == AfterExecution::Terminate).then(|| Arc::clone(result));
    let stage = CallStage::Finished(Finish { status: result.status, after, to_user, result: kept });
    change_stage(run, at, task, &entry.call, stage);
    offer_described(run, task, index, entry);
    let task = &mut run.graph[task];
    task.context_tokens += tokens;
    task.add_fresh(fresh);
    let asked = Arc::clone(open_calls(task)[index].original());
    if task.has_requests(&run.configs) {
        task.extras.get_or_insert_default().requests.answer(&entry.call, &asked, result);
    }
    forget_said(task, &entry.call);
    if entry.repeat > 0 {
        task.work_mut().streak = Some(Streak { asked, result: Arc::clone(result), count: entry.repeat });
    }
}

/// Counts a refusal of the result of `task`. A handoff gets the reason as its error; without one, a notice has it.
fn note_verdict(task: &mut Task, result: &CallResult) {
    let Judgement::No(reason) = Judgement::of(result) else { return };
    if let Some(facts) = task.extras.as_mut().and_then(|extras| extras.acceptance.as_mut()) {
        facts.refused += 1;
    }
    if open_calls(task).own().iter().all(OpenCall::is_finished) {
        task.receive(render::notice_tokens(&Notice::NotAccepted { reason }), Vec::new());
    }
}

/// Removes the answers given on behalf of `task` while it waited for `call`, which has its result.
pub(super) fn forget_said(task: &mut Task, call: &CallId) {
    if let Some(extras) = &mut task.extras {
        extras.said.retain(|(waiting, _)| waiting != call);
    }
}

/// Counts the definitions of tools that the finished call described, since requests offer them from now on.
fn offer_described(run: &mut Run, task: TaskIndex, call: usize, entry: &CallFinished) {
    let configs = Arc::clone(run.configs());
    let Some(tool) = configs.tools.get(&entry.tool).filter(|tool| tool.describes_tools) else { return };
    let task = &mut run.graph[task];
    let Some(agent) = task.agent().map(|id| agent(&configs, id)).filter(|agent| agent.is_offered_described_tools()) else {
        return;
    };
    let asked = Arc::clone(&open_calls(task)[call].asked);
    for described in tool.described(agent, &asked.input).0.into_iter().filter(|tool| !tool.is_known_at_once()) {
        if task.extras.get_or_insert_default().described.insert(described.id.clone()) {
            task.change_prompt(0, render::definition_tokens(described));
        }
    }
}

/// Returns the position of `call` in its turn.
pub(super) fn position(call: &CallId) -> u32 {
    call.position().map_or(0, |(_, position)| position)
}

/// Returns what the result of a call of `task` adds to the next request: documents, conflicts and a body that is not short.
fn fresh_content(run: &Run, task: TaskIndex, entry: &CallFinished, body: u64) -> Vec<Fresh> {
    let documents = &run.shared.documents;
    let position = position(&entry.call);
    // The agent chose the documents that its tool loads. The limit is for documents that others attach.
    let edge = run.graph[task].limits().inject_tokens.filter(|_| !entry.tool_type.behavior().runs_code);
    let mut fresh = fresh_documents(position, &entry.result.documents, documents, edge);
    fresh.extend(entry.conflicts.iter().filter_map(|conflict| {
        let current = DocumentRef { path: conflict.path.clone(), version: conflict.current };
        let content = FreshContent::Conflict(Arc::clone(documents.version(&current)?));
        Some(Fresh { position, content })
    }));
    fresh.extend(entry.read.iter().filter_map(|read| {
        let version = Arc::clone(documents.version(read)?);
        Some(Fresh { position, content: FreshContent::Part { call: entry.call.clone(), version } })
    }));
    if body > render::SHORT_TOKENS {
        let (call, tool, result) = (entry.call.clone(), entry.tool.clone(), Arc::clone(&entry.result));
        fresh.push(Fresh { position, content: FreshContent::Result { call, tool, result, body } });
    }
    fresh
}

/// Returns the documents that one edge brings into a conversation. Those beyond `edge` tokens are shown as records.
pub(super) fn fresh_documents(position: u32, references: &[DocumentRef], documents: &Documents, edge: Option<u64>) -> Vec<Fresh> {
    let mut left = edge.unwrap_or(u64::MAX);
    let versions = references.iter().filter_map(|reference| documents.version(reference));
    let fresh = versions.map(|version| {
        let rest = left.checked_sub(version.content.token_count);
        left = rest.unwrap_or(left);
        let content = FreshContent::Document { version: Arc::clone(version), exceeds_edge: rest.is_none() };
        Fresh { position, content }
    });
    fresh.collect()
}

/// Moves `call` to the stage of an open question about it: its approval or its outcome.
pub(super) fn question_about_call(run: &mut Run, at: Timestamp, caller: TaskIndex, call: &CallId, concern: Concern) {
    match concern {
        Concern::Approval { .. } => {
            let index = change_stage(run, at, caller, call, CallStage::Approval);
            open_calls(&mut run.graph[caller]).details_mut(index).approvals += 1;
        }
        Concern::Outcome => {
            change_stage(run, at, caller, call, CallStage::Doubt);
        }
    }
}

/// Changes the failed attempts at `call`, if there are any, and updates the queue of next attempts.
pub(super) fn change_attempts(run: &mut Run, caller: TaskIndex, call: &CallId, change: impl FnOnce(&mut Attempts)) {
    let (calls, index) = call_of(&mut run.graph[caller], call);
    let Some(attempts) = calls.attempts_mut(index) else { return };
    let before = attempts.next_at;
    change(attempts);
    let after = attempts.next_at;
    let alarms = &mut run.shared.alarms;
    if let Some(at) = before {
        alarms.remove(&(at, call.clone()));
    }
    if let Some(at) = after {
        alarms.insert((at, call.clone()));
    }
}

/// Returns the calls of the turn in progress, which must exist.
pub(super) fn open_calls(task: &mut Task) -> &mut OpenCalls {
    match task.phase.calls_mut() {
        Some(calls) => calls,
        None => panic!("an entry is about a call of task {}, which has no turn in progress", task.id),
    }
}

/// Returns the calls of the turn in progress, and the index of `call` among them.
pub(super) fn call_of<'r>(task: &'r mut Task, call: &CallId) -> (&'r mut OpenCalls, usize) {
    let calls = open_calls(task);
    let index = calls.position_of(call);
    (calls, index)
}

/// Moves `call` to another stage, and its task to the phase that follows. Returns the index of the call.
fn change_stage(run: &mut Run, at: Timestamp, task: TaskIndex, call: &CallId, stage: CallStage) -> usize {
    let (calls, index) = call_of(&mut run.graph[task], call);
    let (before, alarm) = (calls.counts(), calls[index].alarm());
    calls.set_stage(index, stage);
    let (after, shared) = (calls.counts(), &mut run.shared);
    shared.running_functions = shared.running_functions + after.running_functions - before.running_functions;
    shared.suspended_calls = shared.suspended_calls + after.suspended - before.suspended;
    if let Some(alarm) = alarm {
        shared.alarms.remove(&(alarm, call.clone()));
    }
    follow_calls(run, at, task);
    index
}

/// Moves a task to the phase that follows from its calls. Only a task that can act queues for a place among the parallel
/// calls. So a call that waits for a person does not hold up calls that could begin.
pub(super) fn follow_calls(run: &mut Run, at: Timestamp, task: TaskIndex) {
    let calls = open_calls(&mut run.graph[task]);
    let queues = calls.counts().waiting_functions > 0 && !calls.waits();
    if !queues {
        leave_call_queue(run, task);
    }
    enter(run, at, task, Phase::after_change);
    let seq = run.shared.seq;
    if queues && run.graph[task].place.is_none() {
        run.graph[task].place = NonZeroU64::new(seq);
        run.shared.waiting_for_calls.insert(seq, task);
    }
}

pub(super) fn leave_call_queue(run: &mut Run, task: TaskIndex) {
    let Some(place) = run.graph[task].place.map(NonZeroU64::get) else { return };
    if run.shared.waiting_for_calls.get(&place) == Some(&task) {
        run.shared.waiting_for_calls.remove(&place);
        run.graph[task].place = None;
    }
}
