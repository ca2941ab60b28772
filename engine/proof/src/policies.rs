//! Policies of configs about delegations and approvals, checked after every batch from the books and the configs
//! alone.

use baton_types::config::{Agent, Configs, Join, OnFailure};
use baton_types::entry::{FinalState, Holder, TaskKind};
use baton_types::id::{CallId, TaskId};

use crate::finding::Invariant;
use crate::ledger::counts::Counts;
use crate::ledger::{CallBook, Ledger, TaskBook};

impl Ledger {
    /// Checks the tasks and calls of the batch: no delegation continues that its turn no longer needs, and none is
    /// tried too often.
    pub(crate) fn check_policies(&mut self) {
        let configs = std::sync::Arc::clone(&self.configs);
        let touched: Vec<TaskId> = self.touched.iter().cloned().collect();
        for id in touched {
            let Some(agent) = self.tasks.get(&id).and_then(|book| living_agent(book, &configs)) else { continue };
            // Delegations act after the functions of their turn. A repeated one may have its result before.
            let undecided = self.counts(&id).have_functions() || join_holds(self.counts(&id), agent.join);
            self.rule(undecided, Invariant::EndingWakesTheCaller, || format!("{id} waits for {}, which is decided", agent.join));
        }
        let calls: Vec<CallId> = self.touched_calls.iter().cloned().collect();
        for call in calls {
            let Some(book) = self.calls.get(&call).filter(|book| book.counted.delegations > 0) else { continue };
            let Some(agent) = self.tasks.get(&book.task).and_then(|task| living_agent(task, &configs)) else { continue };
            let allowed = match agent.tools.get(book.tool.as_str()).map(|tool| tool.on_failure) {
                Some(OnFailure::Retry(retry)) => retry.times,
                Some(OnFailure::Return) | None => 0,
            };
            let within = book.failed_attempts <= allowed;
            self.rule(within, Invariant::LimitsHold, || format!("the delegation {call} was tried again too often"));
        }
    }

    /// Whether the config of the delegation to `id`, which ended as `state`, promises a further attempt that no limit forbids.
    pub(crate) fn must_be_tried_again(&self, id: &TaskId, state: FinalState) -> bool {
        let Some(book) = self.tasks.get(id).filter(|book| book.created.kind == TaskKind::Delegation) else { return false };
        let Some(caller) = book.created.caller.as_ref().and_then(|caller| self.tasks.get(caller)) else { return false };
        let Some(call) = self.calls.get(&id.originating_call()).filter(|call| !call.is_finished()) else { return false };
        let OnFailure::Retry(retry) = self.configs.tools.get(call.tool.as_str()).map(|tool| tool.on_failure).unwrap_or_default()
        else {
            return false;
        };
        let room = crate::caps::limits(&self.configs, &caller.created).children.is_none_or(|allowed| caller.children < allowed);
        matches!(state, FinalState::Failed | FinalState::TimedOut)
            && caller.ended.is_none()
            && call.failed_attempts < retry.times
            && !book.has_unknown
            && room
    }

    /// `blocked_task_can_wake`: whether the task can only wait: nothing of it runs, and what comes next in call order waits for somebody.
    pub(crate) fn can_only_wait(&self, id: &TaskId) -> bool {
        let Some(book) = self.tasks.get(id) else { return false };
        let counts = book.counts;
        if book.rests {
            return true;
        }
        if counts.running > 0 {
            return false;
        }
        if counts.calling > 0 {
            // The model's own calls behind that call wait for it. An unknown outcome holds no call of code back.
            return counts.inner_unstarted == 0 && (counts.doubtful > 0 || counts.others_work());
        }
        if counts.doubtful > 0 {
            return true;
        }
        match book.unstarted.values().next() {
            Some(next) => self.calls.get(next).is_some_and(CallBook::asks),
            None => counts.others_work(),
        }
    }
}

/// Returns the agent that holds a task, if it has not ended.
fn living_agent<'a>(book: &TaskBook, configs: &'a Configs) -> Option<&'a Agent> {
    match &book.created.holder {
        Holder::Agent(agent) if book.ended.is_none() => configs.agents.get(agent).map(AsRef::as_ref),
        _ => None,
    }
}

/// Whether the delegations of the newest turn are all over, or their join is not yet decided.
fn join_holds(counts: Counts, join: Join) -> bool {
    let Counts { delegations, open_delegations: open, succeeded, .. } = counts;
    let needed = match join {
        Join::All => return true,
        Join::FirstSuccess => 1,
        Join::FailFast => delegations,
        Join::Quorum(least) if least > delegations => return true,
        Join::Quorum(least) => least,
    };
    open == 0 || (succeeded < needed && succeeded + open >= needed)
}
