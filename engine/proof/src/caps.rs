//! `limits_hold`: limits hold at all times, worked out from the ledger and the configs alone.

use baton_types::config::Configs;
use baton_types::entry::{Holder, ModelRequested, TaskCreated};
use baton_types::id::{TaskId, ToolId};
use baton_types::limits::Limits;
use baton_types::money::Money;

use crate::finding::Invariant;
use crate::ledger::Ledger;

/// Returns the limits of a task: those of the tool that delegated, then those of its agent.
pub(crate) fn limits(configs: &Configs, created: &TaskCreated) -> Limits {
    let Holder::Agent(agent) = &created.holder else { return Limits::default() };
    let Some(agent) = configs.agents.get(agent) else { return Limits::default() };
    let tool = created.tool.as_deref().and_then(|tool| configs.tools.get(&ToolId::from(tool)));
    tool.map(|tool| tool.limits.clone()).unwrap_or_default().or(&agent.limits)
}

impl Ledger {
    /// Checks every limit that entries can show, of the run and of the tasks that the batch concerns.
    pub(crate) fn check_limits(&mut self) {
        let configs = std::sync::Arc::clone(&self.configs);
        let run = &configs.job.limits;
        self.within(u64::from(self.turns), run.turns.map(u64::from), || "turns of the run".to_owned());
        self.within(self.live_count() as u64, run.live_tasks.map(u64::from), || "live tasks".to_owned());
        self.within(u64::from(self.calls_made), run.calls.map(u64::from), || "calls of the run".to_owned());
        let (session, (turns, calls, ..)) = (&configs.job.session_limits, self.before);
        let [turns, calls] =
            [(turns, self.turns), (calls, self.calls_made)].map(|(before, now)| u64::from(before) + u64::from(now));
        self.within(turns, session.turns.map(u64::from), || "turns of the session".to_owned());
        self.within(calls, session.calls.map(u64::from), || "calls of the session".to_owned());
        let touched: Vec<TaskId> = self.touched.iter().cloned().collect();
        for id in touched {
            let Some(book) = self.tasks.get(&id).filter(|book| book.ended.is_none()) else { continue };
            let own = limits(&configs, &book.created);
            let (turns, children, depth) = (u64::from(book.turns), u64::from(book.children), u64::from(book.created.depth));
            let calls = u64::from(book.calls_made);
            self.within(turns, own.turns.map(u64::from), || format!("turns of {id}"));
            self.within(children, own.children.map(u64::from), || format!("children of {id}"));
            self.within(calls, own.calls.map(u64::from), || format!("calls of {id}"));
            self.within(depth, run.depth.map(u64::from), || format!("depth of {id}"));
        }
    }

    /// Checks that there is a place for a function call of `task` that starts. Code that continues after its own calls needs none.
    pub(crate) fn check_place(&mut self, task: &TaskId) {
        let configs = std::sync::Arc::clone(&self.configs);
        let Some(book) = self.tasks.get(task) else { return };
        let (own, running) = (limits(&configs, &book.created), u64::from(book.counts.running) + 1);
        let (all, run) = (self.running_calls() as u64 + 1, &configs.job.limits);
        self.within(running, own.parallel_calls.map(u64::from), || format!("parallel calls of {task}"));
        self.within(all, run.parallel_calls.map(u64::from), || "parallel calls of the run".to_owned());
    }

    /// Checks, when `task` asks its model, that the tokens and the money spent and reserved fit the limits of the task, of
    /// all above it and of the run. A provider may say later that more was used; then nothing further may be asked for.
    pub(crate) fn check_reservation(&mut self, task: &TaskId) {
        let configs = std::sync::Arc::clone(&self.configs);
        let picos = |limits: &Limits| limits.cost_usd.map(|usd| Money::from_usd(usd).picos());
        let held = |ledger: &Self, id: &TaskId| u64::try_from(ledger.money(id)).unwrap_or(u64::MAX);
        let (root, run) = (self.root.clone(), &configs.job.limits);
        self.within(self.tokens(&root), run.tokens, || "tokens of the run".to_owned());
        self.within(held(self, &root), picos(run), || "picodollars of the run".to_owned());
        let (session, (_, _, tokens, cost)) = (configs.job.session_limits.budget(), self.before);
        let cost = u64::try_from(cost.saturating_add(self.money(&root))).unwrap_or(u64::MAX);
        self.within(tokens.saturating_add(self.tokens(&root)), session.tokens, || "tokens of the session".to_owned());
        self.within(cost, picos(&session), || "picodollars of the session".to_owned());
        let holders: Vec<TaskId> = std::iter::once(task).chain(self.above(task)).cloned().collect();
        for id in holders {
            let Some(book) = self.tasks.get(&id) else { continue };
            let own = limits(&configs, &book.created);
            self.within(self.tokens(&id), own.tokens, || format!("tokens of {id}"));
            self.within(held(self, &id), picos(&own), || format!("picodollars of {id}"));
        }
    }

    /// Checks that a request and the longest answer to it fit the window that configs give its task.
    pub(crate) fn check_window(&mut self, requested: &ModelRequested) {
        let configs = std::sync::Arc::clone(&self.configs);
        let Some(book) = self.tasks.get(&requested.task) else { return };
        let windows = [limits(&configs, &book.created).context_tokens, configs.job.limits.context_tokens];
        let window = windows.into_iter().flatten().min();
        let (id, needed) = (&requested.task, requested.reserved_tokens);
        self.within(needed, window, || format!("tokens of a request of {id} and its answer"));
    }

    fn within(&mut self, used: u64, allowed: Option<u64>, what: impl FnOnce() -> String) {
        let Some(allowed) = allowed else { return };
        self.rule(used <= allowed, Invariant::LimitsHold, || format!("{used} of {allowed} {}", what()));
    }
}
