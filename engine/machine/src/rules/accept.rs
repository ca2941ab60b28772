//! Rule *accept*: the result of a delegation takes effect once its acceptor has accepted it.
//!
//! The engine asks by a call of its own in the turn that would end the task. The call belongs to that task and goes into no request,
//! as calls of code do. So limits, approvals, crashes and cancellations need no code here. While it runs, a handoff has not acted.
//! The end of the call advances the turn again: the handoff acts or is refused, or the task ends, or its agent is asked again.
//!
//! `acceptance` has the verdict. A question to an agent is opened in rule *questions*.

use crate::acceptance::Acceptance;
use crate::prelude::*;

/// Ends `task` with `result`, if that needs no acceptance or is accepted. Otherwise the acceptor is asked. After a refusal the task
/// is ready, and its agent is asked again when limits admit it.
pub(crate) fn conclude(draft: &mut Draft<'_>, task: TaskIndex, result: Arc<CallResult>) {
    match draft.run.acceptance(task) {
        Acceptance::Open | Acceptance::Given => {}
        Acceptance::Pending | Acceptance::Refused(_) => return,
        Acceptance::Over(over) => return draft.then(Step::end(task, over)),
    }
    let is_success = result.status == CallStatus::Success;
    let needed = is_success.then(|| draft.run.acceptance_call(task, &result.output.shown(), &result.documents)).flatten();
    draft.then(match needed {
        Some(asked) => Step::AskAcceptance { task, asked: Box::new(asked) },
        None => Step::end(task, result),
    });
}

/// Calls the acceptor for `task`.
pub(crate) fn ask(draft: &mut Draft<'_>, task: TaskIndex, asked: ModelCall) {
    let (id, calls) = (draft.id(task), draft.calls(task));
    let (call, from) = (calls.next_acceptance(&id), calls.len());
    draft.push(Entry::CallMade(CallMade { task: id, call, asked: Arc::new(asked) }));
    draft.then(Step::Arrive { task, from, creating: 0 });
}
