//! Rule *background*: the caller continues, and nothing of the task is lost.
//!
//! The call that begins it has its result at once: the id of the task. The end of the task is reported to the caller, whose
//! next request has the result. While such tasks run, or before their results were shown, the agent cannot end its task.
//! After a text the task waits. A handoff is refused. After results that would end the task, the agent is asked again. In a
//! last turn, or with `"open_tasks": "cancel"`, the task ends and its background tasks with it.
//!
//! The agent may wait for its background tasks, and list, steer and cancel the tasks below its own.

use baton_types::config::{OpenTasks, TaskAction};

use crate::bounded;
use crate::prelude::*;

/// The most tasks that have ended in a list of tasks.
const MOST_ENDED: usize = 50;

/// Lets `call` manage tasks, by the config of its tool.
pub(crate) fn manage(draft: &mut Draft<'_>, call: CallAt) {
    let (tool, input) = (draft.tool(call), draft.call(call).asked.input.value());
    let done = match tool.manages_tasks {
        Some(TaskAction::Wait) => match awaited(draft.run, call.task, &input) {
            Ok(_) => {
                draft.start(call, &tool, Vec::new(), None);
                return end_waits(draft, call.task);
            }
            Err(error) => Err(error),
        },
        Some(TaskAction::List) => Ok(listed(draft.run, call.task)),
        Some(TaskAction::Steer) => steer(draft, call, &input),
        Some(TaskAction::Cancel) => cancel(draft, call, &input),
        None => return,
    };
    match done {
        Ok(output) => draft.finish(call, CallResult::success(output), None),
        Err(error) => draft.refuse(call, error),
    }
    draft.then(Step::Advance(call.task));
}

/// Ends the calls of `task` that waited for background tasks, if these have ended.
pub(crate) fn end_waits(draft: &mut Draft<'_>, task: TaskIndex) {
    let Some(calls) = draft.task(task).phase.calls() else { return };
    for index in 0..calls.len() {
        let call = CallAt { task, index };
        let open = draft.call(call);
        // Its type decides, since adopted configs may define its tool otherwise.
        let waits = open.tool_type.is_some_and(|tool_type| tool_type.behavior().then == Then::Continue);
        if !open.is_running() || open.is_function() || !waits {
            continue;
        }
        let input = open.asked.input.value();
        let Ok(tasks) = awaited(draft.run, task, &input) else { continue };
        let run = &*draft.run;
        let (running, ended): (Vec<TaskIndex>, Vec<TaskIndex>) = tasks.into_iter().partition(|task| run.graph[*task].is_live());
        let is_over = running.is_empty() || (input.get("until").is_some_and(|until| until == "any") && !ended.is_empty());
        if is_over {
            let id = |task: &TaskIndex| run.graph[*task].id.clone();
            let ended = ended.iter().map(|task| json!({"task": id(task), "state": run.graph[*task].phase.as_str()}));
            let running: Vec<TaskId> = running.iter().map(id).collect();
            let output = json!({"ended": ended.collect::<Vec<_>>(), "running": running});
            draft.finish(call, CallResult::success(output), None);
        }
    }
    draft.then(Step::Advance(task));
}

/// Returns the tasks that a call of `task` waits for: those that it names, or all background tasks that run or whose results
/// were not shown yet.
fn awaited(run: &Run, task: TaskIndex, input: &Value) -> Result<Vec<TaskIndex>, CallError> {
    let background = run.graph.background_of(task);
    let Some(named) = input.get("tasks").and_then(Value::as_array) else {
        let unseen = run.graph[task].unseen();
        let is_open = |task: &TaskIndex| run.graph[*task].is_live() || unseen.contains(&run.graph[*task].id);
        return Ok(background.into_iter().filter(is_open).collect());
    };
    let find = |id: &Value| {
        let id = id.as_str().unwrap_or_default();
        let found = background.iter().copied().find(|task| run.graph[*task].id.as_str() == id);
        found.ok_or_else(|| {
            let known: Vec<&str> = background.iter().map(|task| run.graph[*task].id.as_str()).collect();
            let message = format!("{:?} is not a background task that you began", bounded(id));
            CallError::new(ErrorCode::InvalidInput, message).with_detail(json!({"background_tasks": known}))
        })
    };
    let mut tasks = Vec::new();
    for id in named {
        let task = find(id)?;
        if !tasks.contains(&task) {
            tasks.push(task);
        }
    }
    Ok(tasks)
}

/// Returns the tasks below `task` that agents hold and that have not ended.
fn below(run: &Run, task: TaskIndex) -> Vec<TaskIndex> {
    let mut below = run.graph.live_below(task);
    below.retain(|task| run.graph[*task].kind == TaskKind::Delegation);
    below
}

/// Returns the tasks below `task` that run, and the newest of its own delegations that have ended.
fn listed(run: &Run, task: TaskIndex) -> Value {
    let list = |task: &Task| {
        json!({
            "task": task.id, "agent": task.agent(), "state": task.phase.as_str(), "turns": task.turns,
            "background": task.background,
        })
    };
    let callees = run.graph.callees(&run.graph[task].id);
    let ended = callees.into_iter().filter(|task| !task.is_live() && task.kind == TaskKind::Delegation);
    let ended: Vec<Value> = ended.rev().take(MOST_ENDED).map(list).collect();
    let running: Vec<Value> = below(run, task).into_iter().map(|task| list(&run.graph[task])).collect();
    json!({"tasks": running, "ended": ended})
}

/// Returns the task that the input names, if it is below the calling one.
fn named(draft: &Draft<'_>, call: CallAt, input: &Value) -> Result<TaskIndex, CallError> {
    let id = input.get("task").and_then(Value::as_str).unwrap_or_default();
    let below = below(draft.run, call.task);
    below.iter().copied().find(|task| draft.task(*task).id.as_str() == id).ok_or_else(|| {
        let known: Vec<&str> = below.iter().map(|task| draft.task(*task).id.as_str()).collect();
        let has_ended = draft.run.graph.find(id).is_some_and(|task| !draft.task(task).is_live());
        let why = if has_ended { "has ended" } else { "is not a task below yours" };
        let message = format!("task {:?} {why}", bounded(id));
        CallError::new(ErrorCode::InvalidInput, message).with_detail(json!({"tasks": known}))
    })
}

fn steer(draft: &mut Draft<'_>, call: CallAt, input: &Value) -> Result<Value, CallError> {
    let task = named(draft, call, input)?;
    let text = input.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
    let refuse = |message: &str| Err(CallError::new(ErrorCode::InvalidInput, message));
    if text.trim().is_empty() {
        return refuse("the message is empty");
    }
    if draft.agent(task).program.is_some() {
        return refuse("a program runs this task, and it reads no messages");
    }
    let (id, by) = (draft.id(task), Principal::Agent(draft.agent(call.task).id.clone()));
    let state = draft.task(task).phase.as_str();
    draft.control(Some(id.clone()), ControlAction::Steered { text }, by);
    Ok(json!({"task": id, "state": state}))
}

fn cancel(draft: &mut Draft<'_>, call: CallAt, input: &Value) -> Result<Value, CallError> {
    let task = named(draft, call, input)?;
    let by = draft.agent(call.task).id.clone();
    let reason = input.get("reason").and_then(Value::as_str).map_or_else(|| format!("{by} cancelled it"), str::to_owned);
    let id = draft.id(task);
    draft.control(Some(id.clone()), ControlAction::Cancelled { reason: reason.clone() }, Principal::Agent(by));
    let result = CallResult::error(CallStatus::Cancelled, CallError::new(ErrorCode::Cancelled, reason));
    draft.then(Step::end(task, result));
    Ok(json!({"task": id, "state": FinalState::Cancelled.as_str()}))
}

impl Run {
    /// Whether background tasks keep `task` from being ended by its agent: one still runs, or the agent has not seen the result
    /// of one.
    pub(crate) fn waits_for_background(&self, task: TaskIndex) -> bool {
        let of = &self.graph[task];
        of.last_turn().is_none()
            && (!of.unseen().is_empty() || self.graph.has_open_background(task))
            && self.agent_of(task).open_tasks == OpenTasks::Wait
    }
}
