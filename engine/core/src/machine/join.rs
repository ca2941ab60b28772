//! The delegations of one turn, joined: once enough of them succeeded, or can no longer, the others are ended.
//!
//! What began is ended like anything that is cancelled: with its subtree, in the commit of the result that decided it, and
//! each call gets its one result. What became of questions and functions of the turn is none of this file's business.

use serde_json::json;

use super::{CallStage, Draft, OpenTurn};
use crate::call::{AfterExecution, CallError, CallResult, CallStatus, ErrorCode};
use crate::config::Join;
use crate::entry::FinalState;
use crate::id::TaskId;

/// Where the delegations of a turn stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Those with a result of `success`. A `partial` result is none: it says that something is missing. It is kept like any.
    pub succeeded: u32,
    /// Those with another result.
    pub failed: u32,
    /// Those without a result; one that waits for its next attempt is among them.
    pub pending: u32,
}

/// What a join says of its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The results that are still missing matter.
    Pending,
    /// What it asks for is there.
    Met,
    /// What it asks for can no longer come.
    Impossible,
}

/// What `join` says of a turn whose delegations stand as `tally` says. Only delegations that were not refused count.
pub fn verdict(join: Join, tally: Tally) -> Verdict {
    let Tally { succeeded, failed, pending } = tally;
    let least = match join {
        Join::All => None,
        Join::FirstSuccess => Some(1),
        // A quorum that the turn could never reach would cancel whatever the agent begins: then every result is awaited.
        Join::Quorum(least) => Some(least).filter(|least| *least <= succeeded + failed + pending),
    };
    match least {
        Some(least) if succeeded >= least => Verdict::Met,
        Some(least) if succeeded + pending < least => Verdict::Impossible,
        None if pending == 0 => Verdict::Met,
        _ => Verdict::Pending,
    }
}

impl OpenTurn {
    /// Where the delegations of the turn stand.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for call in self.calls.iter().filter(|call| call.delegates) {
            match &call.stage {
                CallStage::Refused => {}
                CallStage::Finished(finish) if finish.status == CallStatus::Success => tally.succeeded += 1,
                CallStage::Finished(_) => tally.failed += 1,
                CallStage::Waiting | CallStage::Approval | CallStage::Running | CallStage::Doubt => tally.pending += 1,
            }
        }
        tally
    }
}

impl Draft<'_> {
    /// Ends the delegations of the open turn of `id` that its agent's join no longer needs.
    ///
    /// Their results decide nothing about the end of the turn (rule *end*): a delegation whose config says `terminate`
    /// ends the task with the success that met the join, not with the cancellation of another.
    pub(super) fn join(&mut self, id: &TaskId) {
        let task = self.task(id);
        let Some(open) = task.open.as_ref().filter(|open| open.awaited + open.asking > 0) else { return };
        let join = super::advance::calling_agent(task, self.run.configs()).join;
        if join == Join::All {
            return;
        }
        let tally = open.tally();
        let verdict = verdict(join, tally);
        if verdict == Verdict::Pending || tally.pending == 0 {
            return;
        }
        let how = if verdict == Verdict::Met { "was met" } else { "can no longer be met" };
        let message = format!(
            "the turn waits for {join}, which {how}: {} of its {} delegations succeeded",
            tally.succeeded,
            tally.succeeded + tally.failed + tally.pending
        );
        let pending = open.calls.iter().enumerate().filter(|(_, call)| call.delegates && !call.is_finished());
        let pending: Vec<usize> = pending.map(|(index, _)| index).collect();
        for index in pending {
            let error = CallError::new(ErrorCode::Cancelled, message.clone()).with_detail(json!({"join": join}));
            let result = CallResult::error(CallStatus::Cancelled, error);
            let open = self.task(id).open.as_ref().expect("a join closes no turn");
            let (call, approvals) = (open.calls[index].id.clone(), open.calls[index].approvals);
            let attempt = call.attempt(open.calls[index].failed_attempts() + 1);
            if self.is_live(&attempt) {
                self.end_task_with(&attempt, FinalState::Cancelled, result.into(), None, Some(AfterExecution::Suspend));
            } else {
                let told = self.with_attempts(id, index, result.clone());
                self.finish_call(id, index, told, Some(AfterExecution::Suspend), Vec::new());
                let approval = call.approval(approvals);
                if self.is_live(&approval) {
                    self.end_task(&approval, FinalState::Cancelled, result, None);
                }
            }
        }
    }
}
