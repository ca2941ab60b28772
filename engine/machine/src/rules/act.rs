//! Rule *act*: delegations, questions and the handoff come last.
//!
//! They act after the last function of the turn has a result. Each attached document is pinned to its newest version at that
//! moment, and a missing one is an error of its call alone. The caller waits once, for all of them.

use crate::create;
use crate::prelude::*;

/// Lets the waiting delegations, questions and handoffs of `task` act in call order, beginning at index `from`.
pub(crate) fn act(draft: &mut Draft<'_>, task: TaskIndex, from: usize) {
    let Some(calls) = draft.task(task).phase.calls() else { return };
    let counts = calls.counts();
    // Calls that are neither finished nor awaited have not acted yet.
    if !calls.functions_are_over() || counts.unfinished == counts.awaited + counts.approvals {
        return;
    }
    for index in from..calls.len() {
        let call = CallAt { task, index };
        if draft.call(call).stage != CallStage::Waiting {
            continue;
        }
        match begin(draft, call) {
            Ok(None) => {}
            Ok(Some(step)) => {
                draft.then(step);
                return draft.then(Step::Act { task, from: index + 1 });
            }
            Err(error) => draft.refuse(call, error),
        }
    }
}

/// Lets `call` act, or returns the step that does.
fn begin(draft: &mut Draft<'_>, call: CallAt) -> Result<Option<Step>, CallError> {
    let tool = draft.tool(call);
    if tool.tool_type.behavior().then == Then::Stop {
        return Ok(Some(Step::HandOff(call)));
    }
    let input = draft.call(call).asked.input.value();
    draft.run.check_creation(call.task, &tool, 0)?;
    let documents = draft.run.pin(&input)?;
    if let Some(approver) = draft.approver(call, &tool) {
        return Ok(Some(Step::AskApproval(NeededApproval { call, approver, documents, creating: 0 })));
    }
    let Some(agent) = &tool.agent else { return Ok(Some(Step::AskMaster { call, documents })) };
    let created = create::delegation(draft, call, agent, &input, documents);
    draft.start(call, &tool, created.documents.clone(), Some(created.holder.clone()));
    draft.push(Entry::TaskCreated(Box::new(created)));
    Ok(None)
}
