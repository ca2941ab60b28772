//! Rule *retry*: a failed delegation is tried again by a new task (`on_failure` of the delegating tool).
//!
//! An attempt is a task of its own, `<call>/retry.<n>`. It is made of the same call, with its documents as they are by then. Its
//! agent learns which attempt it is and why the one before failed, and gets the documents that the one before wrote.
//! Until an attempt succeeds, or the attempts are used up, the call has no result and its caller stays blocked. Between two
//! attempts only a record and a moment exist. So a crash, a cancellation or the caller's end needs no code here.

use crate::prelude::*;
use crate::{changed_since, create};

/// Makes the next attempt at `call`. If none may be made, the call gets the result of the last attempt.
pub(crate) fn retry(draft: &mut Draft<'_>, call: CallAt) {
    match next_attempt(draft, call) {
        Ok(created) => draft.push(Entry::TaskCreated(Box::new(created))),
        Err(error) => {
            let open = draft.call(call);
            let without = || CallResult::error(CallStatus::Failed, error.clone());
            let mut result = open.failed_attempts().last().map_or_else(without, |last| CallResult::clone(last));
            result.add_detail("no_further_attempt", error.to_value());
            draft.then(Step::Deliver { call, result: open.with_attempts(result), envelope: None });
        }
    }
}

fn next_attempt(draft: &Draft<'_>, call: CallAt) -> Result<TaskCreated, CallError> {
    let (tool, input) = (draft.tool(call), draft.call(call).asked.input.value());
    let agent = tool.agent.as_ref().expect("only delegations are tried again");
    // An approval holds for every attempt at the call, but not for a call that has changed since.
    if draft.approver(call, &tool).is_some() {
        return Err(changed_since(&tool));
    }
    draft.run.check_creation(call.task, &tool, 0)?;
    let mut documents = draft.run.pin(&input)?;
    let open = draft.call(call);
    let before = open.id.attempt(open.next_attempt() - 1);
    let written = draft.run.task(&before).into_iter().flat_map(Task::written);
    for written in written.filter(|written| !documents.contains(written)).cloned().collect::<Vec<_>>() {
        documents.push(written);
    }
    Ok(create::delegation(draft, call, agent, &input, documents))
}
