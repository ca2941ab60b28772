//! What configs ask of delegations and approvals holds after every batch, worked out from the books and the configs alone.

use baton_core::call::CallStatus;
use baton_core::config::{Agent, Join, OnFailure};
use baton_core::entry::{FinalState, Holder, TaskKind};
use baton_core::id::TaskId;

use crate::finding::Invariant;
use crate::ledger::{CallBook, Ledger};

impl Ledger {
    /// Checks, of the tasks that the batch concerns, that no delegation goes on which its turn no longer needs, and that none
    /// is tried too often.
    pub(crate) fn check_policies(&mut self) {
        let configs = std::sync::Arc::clone(&self.configs);
        let touched: Vec<TaskId> = self.touched.iter().cloned().collect();
        for id in touched {
            let Some(book) = self.tasks.get(&id).filter(|book| book.ended.is_none()) else { continue };
            let Holder::Agent(agent) = &book.created.holder else { continue };
            let Some(agent) = configs.agents.get(agent) else { continue };
            let undecided = self.join_holds(&id, agent);
            self.rule(undecided, Invariant::EndingWakesTheCaller, || format!("{id} waits for {}, which is decided", agent.join));
            let within = self.delegations(&id, agent).all(|call| {
                let allowed = match agent.tools[call.tool.as_str()].on_failure {
                    OnFailure::Return => 0,
                    OnFailure::Retry(retry) => retry.times,
                };
                call.failed_attempts <= allowed
            });
            self.rule(within, Invariant::LimitsHold, || format!("a delegation of {id} was tried again too often"));
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
            && room
    }

    /// The delegations of the newest turn that were not refused.
    fn delegations<'a>(&'a self, id: &TaskId, agent: &'a Agent) -> impl Iterator<Item = &'a CallBook> {
        let open = self.tasks.get(id).into_iter().flat_map(|book| &book.open);
        let calls = open.filter_map(|call| self.calls.get(call));
        calls.filter(|call| !call.refused && agent.tools.get(call.tool.as_str()).is_some_and(|tool| tool.agent.is_some()))
    }

    /// Whether the delegations of the newest turn are all over, or their join is not yet decided.
    fn join_holds(&self, id: &TaskId, agent: &Agent) -> bool {
        let statuses: Vec<Option<CallStatus>> = self.delegations(id, agent).map(|call| call.status).collect();
        let open = statuses.iter().filter(|status| status.is_none()).count();
        let succeeded = statuses.iter().filter(|status| **status == Some(CallStatus::Success)).count();
        let needed = match agent.join {
            Join::All => return true,
            Join::FirstSuccess => 1,
            Join::Quorum(least) if least as usize > statuses.len() => return true,
            Join::Quorum(least) => least as usize,
        };
        open == 0 || (succeeded < needed && succeeded + open >= needed)
    }

    /// `blocked_task_can_wake`: whether the task can only wait: nothing of it runs, and what comes next in call order waits for somebody.
    pub(crate) fn can_only_wait(&self, id: &TaskId) -> bool {
        let mut calls = self.unfinished_calls(id);
        calls.sort_by_key(|call| call.position());
        let books: Vec<&CallBook> = calls.iter().filter_map(|call| self.calls.get(*call)).collect();
        let is_function = |book: &CallBook| {
            let tool = self.configs.tools.get(book.tool.as_str());
            tool.is_some_and(|tool| tool.tool_type.behavior().runs_code)
        };
        if books.iter().any(|book| book.runs()) {
            return false;
        }
        if books.iter().any(|book| book.is_doubtful()) {
            return true;
        }
        match books.iter().find(|book| is_function(book) && book.started.is_none()) {
            Some(next) => next.asks(),
            None => books.iter().any(|book| book.created || book.asks()),
        }
    }
}
