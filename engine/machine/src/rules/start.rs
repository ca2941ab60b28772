//! Rule *start*: functions run in call order.
//!
//! Neighbours that do not write run together. A writer runs alone. Calls beyond `parallel_calls` wait. A call that waits for
//! its approval, or whose outcome is unknown after a crash, holds the function calls behind it.
//!
//! The code of a call decides itself which of its calls wait for others. So its calls hold each other back only where two of them
//! write: the second begins after the first, and sees its documents. Each sees the workspace as it was when it began.

use crate::prelude::*;

/// Starts the function calls of `task` that may begin. In a paused run none may.
pub(crate) fn start(draft: &mut Draft<'_>, task: TaskIndex) {
    if draft.run.shared.paused {
        return;
    }
    let of_task = draft.task(task).limits().parallel_calls;
    let of_run = draft.run.configs.job.limits.parallel_calls;
    while let Some(calls) = draft.task(task).phase.calls() {
        let counts = calls.counts();
        if counts.waiting_functions == 0 {
            return;
        }
        let full = of_task.is_some_and(|allowed| counts.running_functions >= allowed)
            || of_run.is_some_and(|allowed| draft.run.shared.running_functions >= allowed);
        let writes = |index: &usize| draft.tool(CallAt { task, index: *index }).writes;
        let next = if full {
            None
        } else if counts.calling > 0 {
            calls.waiting_of_code().find(|index| counts.running_writers == 0 || !writes(index))
        } else if counts.running_writers + counts.doubtful > 0 {
            None
        } else {
            let next = calls.next_function().filter(|index| calls[*index].stage == CallStage::Waiting);
            next.filter(|index| counts.running_functions == 0 || !writes(index))
        };
        let Some(index) = next else { return };
        let call = CallAt { task, index };
        let tool = draft.tool(call);
        if let Some(approver) = draft.approver(call, &tool) {
            draft.then(Step::AskApproval(NeededApproval { call, approver, documents: Vec::new(), creating: 0 }));
            return draft.then(Step::Start(task));
        }
        draft.start(call, &tool, Vec::new(), None);
        draft.execute(call, &tool);
    }
}

/// Lets tasks begin the calls that wait for a place among the run's parallel calls.
pub(crate) fn waiting(draft: &mut Draft<'_>) {
    let shared = &draft.run.shared;
    let allowed = draft.run.configs.job.limits.parallel_calls;
    if allowed.is_none_or(|allowed| shared.running_functions < allowed) {
        // A waiting task that cannot begin has a running call of its own, so at most `parallel_calls` tasks are passed over.
        let first = shared.waiting_for_calls.values().take(1 + shared.running_functions as usize);
        draft.steps.extend(first.map(|task| Step::Start(*task)));
    }
}
