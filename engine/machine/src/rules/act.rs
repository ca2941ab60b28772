//! Rule *act*: delegations, questions and the handoff come last.
//!
//! They act when no function of the turn waits or runs. Those that code makes act at once. The handoff also waits for suspended
//! calls. Each attached document is pinned to its newest version at that moment, and a missing one is an error of its call
//! alone. The caller waits once, for all of them, except for those in the background.

use crate::create;
use crate::prelude::*;

/// Lets the waiting delegations, questions and handoffs of `task` act in call order, beginning at index `from`.
pub(crate) fn act(draft: &mut Draft<'_>, task: TaskIndex, from: usize) {
    let Some(calls) = draft.task(task).phase.calls() else { return };
    let (counts, functions_are_over) = (calls.counts(), calls.functions_are_over());
    // Calls that are neither finished nor awaited have not acted yet. Those that code makes wait for no function.
    if (!functions_are_over && counts.calling == 0) || counts.unfinished == counts.awaited + counts.approvals + counts.suspended {
        return;
    }
    let Some(first) = calls.unbegun().next() else { return };
    for index in from.max(first)..calls.len() {
        let call = CallAt { task, index };
        let open = draft.call(call);
        let has_turn = functions_are_over || (open.is_inner() && !open.is_function());
        // A handoff needs the results of all other calls.
        if !has_turn || open.stage != CallStage::Waiting || (counts.suspended > 0 && open.hands_off()) {
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
    if draft.call(call).is_acceptance() {
        let approver = draft.approver(call, &tool);
        let approval = approver.map(|approver| NeededApproval { call, approver, documents: Vec::new(), creating: 0 });
        return Ok(Some(approval.map_or(Step::AskAcceptor(call), Step::AskApproval)));
    }
    if tool.tool_type.behavior().then == Then::Stop {
        return Ok(Some(Step::HandOff(call)));
    }
    if tool.manages_tasks.is_some() {
        return Ok(Some(Step::ManageTasks(call)));
    }
    let input = draft.call(call).asked.input.value();
    draft.run.check_creation(call.task, &tool, 0)?;
    // A person may have approved it with another input.
    let open = draft.call(call);
    draft.run.check_delegation(call.task, &tool, &open.asked)?;
    let documents = draft.run.pin(&input)?;
    if let Some(approver) = draft.approver(call, &tool) {
        return Ok(Some(Step::AskApproval(NeededApproval { call, approver, documents, creating: 0 })));
    }
    let Some(agent) = &tool.agent else { return Ok(Some(Step::AskMaster { call, documents })) };
    let created = create::delegation(draft, call, agent, &input, documents);
    draft.start(call, &tool, created.documents.clone(), Some(created.holder.clone()));
    let begun = created.background.then(|| created.task.clone());
    draft.push(Entry::TaskCreated(Box::new(created)));
    if let Some(task) = begun {
        draft.finish(call, CallResult::success(json!({"task": task})), Some(AfterExecution::Suspend));
    }
    Ok(None)
}
