//! The least that calls of code will take, compared with the limits before the first of them is made.

use crate::calls::OpenCalls;
use crate::prelude::*;

/// The least that calls take: the calls, the tasks that they create, and the first request of each task. Answers and further
/// turns are not known beforehand and are not included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Least {
    /// Calls.
    pub calls: u32,
    /// Tasks. Each has one turn at least.
    pub tasks: u32,
    /// Tokens of their first requests (≈).
    pub tokens: u64,
    /// The cost of those tokens.
    pub cost: Cost,
}

impl Run {
    /// Checks whether the limits leave room for `calls`, which the code of the running call `by` is about to make. Returns the least
    /// that they take.
    ///
    /// Code that has made calls before is not checked again: after a crash, a part of the limits is used by these same calls.
    ///
    /// # Errors
    /// The limit that leaves no room, with the amounts, or the tool that the code may not call.
    pub fn check_ahead(&self, by: &CallId, calls: &[ModelCall]) -> Result<Least, CallError> {
        let Some(outer) = self.running_function(by) else { return Ok(Least::default()) };
        let (least, task) = (self.least_of(calls), &self.graph[outer.task]);
        let code = task.call(by).and_then(|open| self.configs.tool_of(task.agent(), &open.asked));
        for asked in calls {
            self.callable(outer.task, code.map(AsRef::as_ref), &asked.tool)?;
        }
        if task.phase.calls().is_some_and(|calls| calls.has_made_calls(outer.index)) {
            return Ok(least);
        }
        let (own, shared) = (task.limits(), &self.shared);
        let turns = shared.turns.saturating_add(shared.live_agent_tasks);
        let (run_calls, run_turns) = (self.limit_of_calls(), self.limit_of_turns());
        let counted = [
            (LimitKind::Calls, task.work().calls, least.calls, own.calls),
            (run_calls.kind, run_calls.counted(shared.calls), least.calls, run_calls.allowed),
            (LimitKind::Children, task.work().children, least.tasks, own.children),
            (run_turns.kind, run_turns.counted(turns), least.tasks, run_turns.allowed),
        ];
        for (limit, used, needed, allowed) in counted {
            check(limit, used.into(), needed.into(), allowed.map(u64::from), |amount| json!(amount))?;
        }
        let usd = |picos: u64| json!(Money::from_picos(picos).as_usd());
        let budget = |budget: &Budget, limits: &Limits, tokens: LimitKind, cost: LimitKind| {
            let used = budget.tokens.saturating_add(budget.reserved.tokens);
            check(tokens, used, least.tokens, limits.tokens, |amount| json!(amount))?;
            let used = budget.cost.plus(budget.reserved.cost).picos();
            check(cost, used, least.cost.known.picos(), limits.cost().map(Money::picos), usd)
        };
        for holder in self.graph.upwards(outer.task) {
            let of = &self.graph[holder];
            if let Some(own) = of.work().budget.as_deref() {
                let is_own = holder == outer.task;
                let (tokens, cost) =
                    if is_own { (LimitKind::Tokens, LimitKind::Cost) } else { (LimitKind::TokensAbove, LimitKind::CostAbove) };
                budget(own, of.limits(), tokens, cost)?;
            }
        }
        let [(of_run, run), (of_session, session)] = self.budgets_of_run();
        budget(&of_run, &run, LimitKind::TokensAbove, LimitKind::CostAbove)?;
        budget(&of_session, &session, LimitKind::SessionTokens, LimitKind::SessionCost)?;
        Ok(least)
    }

    fn least_of(&self, calls: &[ModelCall]) -> Least {
        let mut least = Least { calls: u32::try_from(calls.len()).unwrap_or(u32::MAX), ..Least::default() };
        for asked in calls {
            let tool = self.configs.tools.get(asked.tool.as_str());
            let Some(agent) = tool.and_then(|tool| self.configs.agents.get(tool.agent.as_ref()?)) else { continue };
            let tokens = render::prompt_tokens(agent) + render::input_tokens(&asked.input);
            let usage = Usage { input_tokens: tokens, ..Usage::default() };
            least.tasks = least.tasks.saturating_add(1);
            least.tokens = least.tokens.saturating_add(tokens);
            least.cost.settle(self.price_of(self.model_of(agent)).map(|price| price.cost(&usage)));
        }
        least
    }
}

/// Checks that `needed` fits beside `used` within what is `allowed`. `shown` renders an amount.
fn check(limit: LimitKind, used: u64, needed: u64, allowed: Option<u64>, shown: impl Fn(u64) -> Value) -> Result<(), CallError> {
    let Some(allowed) = allowed.filter(|allowed| used.saturating_add(needed) > *allowed) else { return Ok(()) };
    let (allowed, used, needed) = (shown(allowed), shown(used), shown(needed));
    let mut error = limit.error(allowed.clone());
    error.message = format!("{limit} leaves no room: {allowed} allowed, {used} used, and these calls need {needed} or more");
    Err(error.with_detail(json!({"limit": limit, "allowed": allowed, "used": used, "needed": needed})))
}

impl OpenCalls {
    /// Whether the code of the call at `outer` has made calls.
    fn has_made_calls(&self, outer: usize) -> bool {
        self[self.own().len()..].iter().any(|call| call.is_made_by(outer))
    }
}
