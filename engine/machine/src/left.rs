//! The rest of a task's limits, for agents with `tell_limits`. Each number is the smallest rest of four limits: the task's
//! own, those of the tasks above it, that of the run and that of its session.

use baton_types::entry::LimitsLeft;

use crate::prelude::*;

impl Run {
    /// Returns what is left before the next request of `task`; `None` if no limit holds.
    pub(crate) fn limits_left(&self, at: Timestamp, task: TaskIndex) -> Option<LimitsLeft> {
        let (of, run, shared) = (&self.graph[task], &self.configs.job.limits, &self.shared);
        let own = of.limits();
        // A turn is set aside for every other live task.
        let others = shared.live_agent_tasks.saturating_sub(1);
        let of_run = self.limit_of_turns().left().map(|allowed| allowed.saturating_sub(shared.turns.saturating_add(others)));
        let turns = own.turns.map(|allowed| allowed.saturating_sub(of.turns)).into_iter().chain(of_run).min();
        let rest = |allowed: u64, worked: Duration| Duration::from_secs(allowed).saturating_sub(worked);
        let run_worked = shared.worked + shared.active_since.map_or(Duration::ZERO, |since| at.since(since));
        let deadlines =
            self.graph.upwards(task).filter_map(|above| self.graph[above].deadline).map(|deadline| deadline.since(at));
        let times = deadlines
            .chain(own.worked_seconds.map(|allowed| rest(allowed, of.worked_until(at))))
            .chain(run.worked_seconds.map(|allowed| rest(allowed, run_worked)));
        let seconds = times.min().map(|time| time.as_secs());
        let above = self.graph.upwards(task).filter_map(|holder| {
            let of = &self.graph[holder];
            Some((*of.work().budget.as_deref()?, of.limits().clone()))
        });
        let (mut tokens, mut cost): (Option<u64>, Option<Money>) = (None, None);
        for (budget, limits) in above.chain(self.budgets_of_run()) {
            let used = budget.tokens.saturating_add(budget.reserved.tokens);
            tokens = tokens.into_iter().chain(limits.tokens.map(|allowed| allowed.saturating_sub(used))).min();
            let spent = budget.cost.plus(budget.reserved.cost);
            cost = cost.into_iter().chain(limits.cost().map(|allowed| allowed.minus(spent))).min();
        }
        Some(LimitsLeft { turns, seconds, tokens, cost }).filter(|left| *left != LimitsLeft::default())
    }
}
