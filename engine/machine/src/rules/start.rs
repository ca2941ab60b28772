//! Rule *start*: functions run in call order.
//!
//! Neighbours that do not write run together. A writer runs alone. Calls beyond `parallel_calls` wait. A call that waits for
//! its approval, or whose outcome is unknown after a crash, holds the function calls behind it.

use crate::prelude::*;

/// Starts the function calls of `task` that may begin.
pub(crate) fn start(draft: &mut Draft<'_>, task: TaskIndex) -> Steps {
    let configs = draft.configs();
    let of_task = draft.limits(task).parallel_calls;
    let of_run = configs.job.limits.parallel_calls;
    while let Some(calls) = draft.task(task).phase.calls() {
        let counts = calls.counts();
        if counts.waiting_functions == 0 || counts.running_writers > 0 || counts.doubtful > 0 {
            break;
        }
        let full = of_task.is_some_and(|allowed| counts.running_functions >= allowed)
            || of_run.is_some_and(|allowed| draft.run.shared.running_functions >= allowed);
        let next = calls.next_function().filter(|index| !full && calls[*index].stage == CallStage::Waiting);
        let Some(index) = next else { break };
        let (call, open) = (CallAt { task, index }, &calls[index]);
        let tool = &configs.tools[open.asked.tool.as_str()];
        if tool.writes && counts.running_functions > 0 {
            break;
        }
        if let Some(approver) = draft.approver(call, tool) {
            return vec![Step::AskApproval { call, approver, documents: Vec::new(), creating: 0 }, Step::Start(task)];
        }
        let started = CallStarted {
            task: draft.id(task),
            call: open.id.clone(),
            tool: tool.id.clone(),
            tool_type: tool.tool_type,
            documents: Vec::new(),
            target: None,
        };
        draft.push(Entry::CallStarted(started));
        draft.execute(call, tool);
    }
    Vec::new()
}

/// Lets tasks begin the calls that wait for a place among the run's parallel calls.
pub(crate) fn waiting(draft: &Draft<'_>) -> Steps {
    let shared = &draft.run.shared;
    let allowed = draft.run.configs().job.limits.parallel_calls;
    if allowed.is_some_and(|allowed| shared.running_functions >= allowed) {
        return Vec::new();
    }
    // A waiting task that cannot begin has a running call of its own, so at most `parallel_calls` tasks are passed over.
    let first = shared.waiting_for_calls.values().take(1 + shared.running_functions as usize);
    first.map(|task| Step::Start(*task)).collect()
}
