//! Rule *join*: how many delegations of a turn are awaited. Once enough of them succeeded, or can no longer succeed, the
//! others end.
//!
//! Delegations that began end like cancelled tasks: with their subtrees, in the decision of the result that decided the join.
//! Each call gets its one result. Questions and functions of the turn are not affected.

use baton_types::config::{Join, JoinState, Tally};

use crate::prelude::*;

/// Ends the delegations of the turn of `task` that its agent's join no longer needs.
///
/// The results of the ended delegations do not affect the end of the turn (rule *end*). If the config of a delegation has
/// `terminate`, the task ends with the success that met the join, not with the cancellation of another delegation.
pub(crate) fn join(draft: &mut Draft<'_>, task: TaskIndex) {
    let awaits = |calls: &&OpenCalls| calls.functions_are_over() && calls.counts().awaited + calls.counts().approvals > 0;
    let Some(calls) = draft.run.graph[task].phase.calls().filter(awaits) else { return };
    let join = draft.agent(task).join;
    if join == Join::All {
        return;
    }
    let tally = calls.tally();
    let state = join.state(tally);
    if state == JoinState::Pending || tally.pending == 0 {
        return;
    }
    let how = if state == JoinState::Met { "was met" } else { "can no longer be met" };
    let message = format!(
        "the turn waits for {join}, which {how}: {} of its {} delegations succeeded",
        tally.succeeded,
        tally.succeeded + tally.failed + tally.pending
    );
    let error = CallError::new(ErrorCode::Cancelled, message).with_detail(json!({"join": join}));
    let result = CallResult::error(CallStatus::Cancelled, error);
    let graph = &draft.run.graph;
    let envelope = Some(AfterExecution::Suspend);
    for (index, open) in calls.own().iter().enumerate().filter(|(_, call)| call.delegates && !call.is_finished()) {
        if let Some(attempt) = graph.find_live(&open.id.attempt(open.next_attempt())) {
            let end = End { result: result.clone().into(), limit: None, envelope };
            draft.steps.push(Step::End { task: attempt, end: Box::new(end) });
            continue;
        }
        draft.steps.push(Step::Deliver { call: CallAt { task, index }, result: open.with_attempts(result.clone()), envelope });
        if let Some(approval) = graph.find_live(&open.id.approval(open.approvals())) {
            draft.steps.push(Step::end(approval, result.clone()));
        }
    }
}

impl OpenCalls {
    /// Counts the delegations of the turn by result, without those that code made.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for call in self.own().iter().filter(|call| call.delegates) {
            match &call.stage {
                CallStage::Refused => {}
                CallStage::Finished(finish) if finish.status == CallStatus::Success => tally.succeeded += 1,
                CallStage::Finished(_) => tally.failed += 1,
                CallStage::Waiting
                | CallStage::Approval
                | CallStage::Running { .. }
                | CallStage::Doubt
                | CallStage::Suspended => {
                    tally.pending += 1;
                }
            }
        }
        tally
    }
}
