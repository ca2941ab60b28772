//! Rule *act*: delegations, questions and the handoff come last.
//!
//! They act after the last function of the turn has a result. Each attached document is pinned to its newest version at that
//! moment, and a missing one is an error of its call alone. The caller waits once, for all of them.

use crate::create;
use crate::prelude::*;

/// Lets the waiting delegations, questions and handoffs of `task` act in call order, beginning at index `from`.
pub(crate) fn act(draft: &mut Draft<'_>, task: TaskIndex, from: usize) -> Steps {
    let Some(calls) = draft.task(task).phase.calls() else { return Vec::new() };
    let counts = calls.counts();
    // Calls that are neither finished nor awaited have not acted yet.
    if !calls.functions_are_over() || counts.unfinished == counts.awaited + counts.approvals {
        return Vec::new();
    }
    for index in from..calls.iter().len() {
        let call = CallAt { task, index };
        if draft.call(call).stage != CallStage::Waiting {
            continue;
        }
        match begin(draft, call) {
            Ok(None) => {}
            Ok(Some(step)) => return vec![step, Step::Act { task, from: index + 1 }],
            Err(error) => draft.refuse(call, error),
        }
    }
    Vec::new()
}

/// Lets `call` act, or returns the step that does.
fn begin(draft: &mut Draft<'_>, call: CallAt) -> Result<Option<Step>, CallError> {
    let configs = draft.configs();
    let open = draft.call(call);
    let tool = &configs.tools[open.asked.tool.as_str()];
    if tool.tool_type.behavior().then == Then::Stop {
        return Ok(Some(Step::HandOff(call)));
    }
    let input: Value = open.asked.input.value();
    draft.run.check_creation(call.task, tool, 0)?;
    let documents = draft.run.pin(&input)?;
    if let Some(approver) = draft.approver(call, tool) {
        return Ok(Some(Step::AskApproval { call, approver, documents, creating: 0 }));
    }
    let Some(agent) = &tool.agent else { return Ok(Some(Step::AskMaster { call, documents })) };
    let created: TaskCreated = create::delegation(draft, call, tool, agent, &input, documents);
    draft.push(Entry::CallStarted(CallStarted {
        task: draft.id(call.task),
        call: draft.call(call).id.clone(),
        tool: tool.id.clone(),
        tool_type: tool.tool_type,
        documents: created.documents.clone(),
        target: Some(created.holder.clone()),
    }));
    draft.push(Entry::TaskCreated(Box::new(created)));
    Ok(None)
}
