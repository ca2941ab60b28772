//! Rule *suspend*: the code of a call may end before its result is there.
//!
//! A suspended call does not run: it holds no other call back, and only its record exists. The turn closes when the result is
//! in. Somebody outside delivers it, or its moment comes. The first of both counts. A delivery is checked as the output of the
//! code would be, and one that is not accepted changes nothing.

use baton_types::event::{Outcome, Produced};

use crate::prelude::*;
use crate::rules::writes;

/// Suspends a running call.
///
/// A moment that the code sets counts. Without one, `suspend_timeout_seconds` of the tool's config does.
pub(crate) fn suspend(draft: &mut Draft<'_>, id: &CallId, mut suspension: Suspension) {
    let Some(call) = draft.run.running_function(id) else {
        return draft.record_late(&id.task(), format!("the suspension of call {id}"));
    };
    draft.settle_asks(call.task, Some(id), Used::Reservation);
    let (task, tool) = (draft.id(call.task), draft.tool(call));
    if let (None, Some(timeout)) = (suspension.until, tool.suspend_timeout) {
        suspension.until = Some(draft.at.plus(timeout));
    }
    let tool = tool.id.clone();
    draft.push(Entry::CallSuspended(Box::new(CallSuspended { task, call: id.clone(), tool, suspension })));
    draft.then(Step::Advance(call.task));
}

/// Checks whether a result may be delivered for a call now.
pub(crate) fn check(run: &Run, id: &CallId, by: &Principal, outcome: &Outcome) -> Result<(), Refusal> {
    if !by.is_outside() {
        return Err(Refusal::NotAPerson { by: by.clone() });
    }
    let not_suspended = |why: &str| Refusal::NotSuspended { call: id.clone(), why: why.to_owned() };
    let task = run.task(&id.task()).ok_or_else(|| not_suspended("there is no such call"))?;
    if !task.is_live() {
        return Err(not_suspended("its task has ended"));
    }
    let open = match task.call(id) {
        Some(open) if open.is_function() && (open.is_running() || open.stage == CallStage::Suspended) => open,
        Some(open) if !open.is_finished() => return Err(not_suspended("its code has not ended")),
        // A turn that is over leaves no calls behind.
        Some(_) | None => return Err(not_suspended("it has its result")),
    };
    let tool = run.configs().tool_of(task.agent(), &open.asked);
    let tool = tool.ok_or_else(|| not_suspended("the configs of the run do not have its tool"))?;
    if !tool.suspends {
        return Err(not_suspended("its tool gives the result itself"));
    }
    let output = match &outcome.output {
        Produced::Inline(output) | Produced::Long { output, .. } => Some(output),
        Produced::Kept(_) => None,
    };
    tool.check_output(task.limits().result_bytes, outcome.status, output)
        .map_err(|error| Refusal::InvalidDelivery { call: id.clone(), reason: error.message_with_faults() })?;
    if open.is_running() { Err(Refusal::StillRunning { call: id.clone() }) } else { Ok(()) }
}

/// Gives a suspended call the result that somebody delivers.
pub(crate) fn deliver(draft: &mut Draft<'_>, id: &CallId, by: Principal, outcome: Outcome) {
    if let Some(call) = draft.run.suspended_call(id) {
        writes::finish(draft, call, outcome, Some(Box::new(by)));
    }
}

/// Ends the suspension of a call at its moment: with the output that it named for that, or as `timeout`.
pub(crate) fn wake_up(draft: &mut Draft<'_>, call: CallAt) {
    let Some(suspension) = draft.call(call).suspension().cloned() else { return };
    let late = || Outcome::error(CallStatus::Timeout, CallError::new(ErrorCode::TimedOut, "no result was delivered in time"));
    let outcome = suspension.output.map_or_else(late, Outcome::success);
    writes::finish(draft, call, outcome, None);
}
