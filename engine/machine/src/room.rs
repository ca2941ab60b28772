//! Room within limits for one more task or one more request.
//!
//! If the spent amount and the request's own expected amount exceed a limit, the limit is reached. Otherwise a request may run
//! beside others only while the upper bounds of all of them fit. Beyond that it waits until no other request is open under the
//! limit. So requests side by side never exceed a limit together, and one request exceeds it by the error of its own estimate
//! at most. The last turns of the callers above count as spent, since the callers wait for this task and it does not wait for
//! them.

use crate::prelude::*;

/// Tokens (≈) of a result in addition to the task's output: its frame, and the error of a `partial` result.
const RESULT_TOKENS: u64 = 64;

/// The admission of a request by the limits.
pub(super) enum Admission {
    /// It may be made.
    Now,
    /// The reservations of others are in the way.
    Later,
    /// This limit is reached.
    Reached(Reached),
}

/// Requests.
impl Run {
    /// Checks a turn of `task`, or its `last` one, against all limits. Its request has `input` tokens.
    pub(super) fn admission(&self, at: Timestamp, task: TaskIndex, input: u64, last: bool) -> Admission {
        let (of, shared) = (&self.graph[task], &self.shared);
        let (own, run) = (of.limits(), &self.configs.job.limits);
        if !last {
            if own.turns.is_some_and(|allowed| of.turns + 1 >= allowed) {
                return Admission::Reached(LimitKind::Turns.into());
            }
            // Every live task has a turn set aside, including this one.
            let limit = self.limit_of_turns();
            if limit.check(shared.turns + shared.live_agent_tasks).is_err() {
                return Admission::Reached(limit.kind.into());
            }
            let worked =
                |allowed: Option<u64>, worked: Duration| allowed.is_some_and(|seconds| worked >= Duration::from_secs(seconds));
            let run_worked = shared.worked + shared.active_since.map_or(Duration::ZERO, |since| at.since(since));
            if worked(own.worked_seconds, of.worked_until(at)) || worked(run.worked_seconds, run_worked) {
                return Admission::Reached(LimitKind::WorkedSeconds.into());
            }
        }
        // A run has room for the last turns of its tasks, unless earlier runs of the session left none for its root.
        let limit = self.limit_of_turns();
        if last && limit.kind == LimitKind::SessionTurns && limit.check(shared.turns).is_err() {
            return Admission::Reached(limit.kind.into());
        }
        self.admits_budget(task, input, last)
    }

    /// Checks the worst case of a turn, or of the last turn, against every limit of tokens and money on `task` and above. Its
    /// request has `input` tokens.
    pub(super) fn admits_budget(&self, task: TaskIndex, input: u64, last: bool) -> Admission {
        if !self.shared.has_budgets {
            return Admission::Now;
        }
        let (expected, output) = (self.counted(task).expected(input), self.output_tokens(task));
        let worst = expected.saturating_add(output);
        let mut needed = Reservation {
            tokens: worst,
            cost: self.worst_price(task, expected, output),
            input_tokens: input,
            input_cost: self.worst_price(task, input, 0),
        };
        if !last {
            // The maximum of a later last turn is set aside: the context with the answer to this request, and one more
            // answer.
            needed.tokens = needed.tokens.saturating_add(worst.saturating_add(output));
            needed.cost = needed.cost.plus(self.worst_price(task, worst, output));
        }
        self.fits(task, needed)
    }

    /// Checks a request of a call's code against every limit of its task and above, in addition to the last turn of the task.
    /// That turn will hold an answer of `output` tokens. A request without a known price fits no limit of money.
    pub(super) fn admits_ask(&self, task: TaskIndex, input: u64, output: u64, worst_cost: Option<Money>) -> Admission {
        if !self.shared.has_budgets {
            return Admission::Now;
        }
        let context = self.counted(task).expected(self.graph[task].context_tokens);
        let held = context.saturating_add(RESULT_TOKENS).saturating_add(output);
        let last = self.output_tokens(task);
        let cost = worst_cost.unwrap_or(Money::MAX);
        let needed = Reservation {
            tokens: input.saturating_add(output).saturating_add(held).saturating_add(last),
            cost: cost.plus(self.worst_price(task, held, last)),
            input_tokens: input,
            input_cost: cost,
        };
        self.fits(task, needed)
    }

    /// Checks `needed` against every limit of `task`, of all tasks above it and of the run. The last turns of the tasks above
    /// are included.
    fn fits(&self, task: TaskIndex, mut needed: Reservation) -> Admission {
        let mut later = false;
        // Each amount is spent, needed by this request, and the most that this request and the open ones may take.
        let mut check = |[spent, needed, most]: [u64; 3], is_alone: bool, allowed: Option<u64>, kind| {
            let allowed = allowed?;
            if spent.saturating_add(needed) > allowed {
                return Some(Reached { limit: kind, amounts: Some(Amounts { allowed, spent, needed }) });
            }
            later |= !is_alone && spent.saturating_add(most) > allowed;
            None
        };
        let mut check_all = |budget: &Budget, limits: &Limits, needed: Reservation, kinds: (LimitKind, LimitKind)| {
            let (reserved, is_alone) = (budget.reserved, budget.reserved == Reservation::default());
            let most = reserved.most_cost().plus(needed.most_cost());
            let money = [budget.cost, needed.cost, most].map(Money::picos);
            let money = check(money, is_alone, limits.cost().map(Money::picos), kinds.1);
            let most = reserved.most_tokens().saturating_add(needed.most_tokens());
            check([budget.tokens, needed.tokens, most], is_alone, limits.tokens, kinds.0).or(money)
        };
        let above = (LimitKind::TokensAbove, LimitKind::CostAbove);
        let mut reached = None;
        let mut below = task;
        for holder in self.graph.upwards(task) {
            if holder != task {
                let (input, output) = self.set_aside(holder, below);
                needed.tokens = needed.tokens.saturating_add(input.saturating_add(output));
                needed.cost = needed.cost.plus(self.worst_price(holder, input, output));
            }
            let of = &self.graph[holder];
            if let Some(budget) = of.work().budget.as_deref() {
                let kinds = if holder == task { (LimitKind::Tokens, LimitKind::Cost) } else { above };
                reached = check_all(budget, of.limits(), needed, kinds).or(reached);
            }
            below = holder;
        }
        let [(of_run, run), (of_session, session)] = self.budgets_of_run();
        let reached = reached.or(check_all(&of_run, &run, needed, above));
        let kinds = (LimitKind::SessionTokens, LimitKind::SessionCost);
        let reached = reached.or(check_all(&of_session, &session, needed, kinds));
        match reached {
            Some(reached) => Admission::Reached(reached),
            None if later => Admission::Later,
            None => Admission::Now,
        }
    }

    /// Returns the amounts of the run and of its session, each with its limits of tokens and money.
    pub(super) fn budgets_of_run(&self) -> [(Budget, Limits); 2] {
        let (shared, job) = (&self.shared, &self.configs.job);
        let of_run = Budget { tokens: shared.usage.total(), cost: shared.cost.known, reserved: shared.reserved };
        let of_session = Budget {
            tokens: shared.before.tokens.saturating_add(of_run.tokens),
            cost: shared.before.cost.plus(of_run.cost),
            ..of_run
        };
        let run = Limits { tokens: job.limits.tokens, cost_usd: job.limits.cost_usd, ..Limits::default() };
        [(of_run, run), (of_session, job.session_limits.budget())]
    }

    /// Returns the tokens that the last turn of `caller` needs: for its request, and for its answer. The request holds the
    /// caller's context, the frame of a result for every call that it waits for, and an answer of `callee`. Tasks below may
    /// not spend these tokens. Otherwise a limit could be reached with no turn left to report the results. The lengths of
    /// other results and of returned documents are not included: their worst case would leave no room for any request.
    fn set_aside(&self, caller: TaskIndex, callee: TaskIndex) -> (u64, u64) {
        let awaited = self.graph[caller].calls().filter(|call| call.is_awaited()).count() as u64;
        let results = awaited.saturating_mul(RESULT_TOKENS).saturating_add(self.output_tokens(callee));
        let context = self.counted(caller).expected(self.graph[caller].context_tokens);
        (context.saturating_add(results), self.output_tokens(caller))
    }
}

/// Tasks.
impl Run {
    /// Checks whether a call of `task` may create a task, in addition to the `earlier` ones that its turn creates. The check
    /// runs when the turn arrives, and again when the task is created.
    pub(super) fn check_creation(&self, task: TaskIndex, tool: &Tool, earlier: u32) -> Result<(), CallError> {
        let of = &self.graph[task];
        self.check_room(tool.agent.is_some() || of.master != Master::Person, earlier)?;
        if tool.agent.is_none() {
            return Ok(());
        }
        let own = of.limits();
        LimitKind::Children.check(of.work().children + earlier, own.children)?;
        let depth = [self.configs.job.limits.depth, own.depth].into_iter().flatten().min();
        LimitKind::Depth.check(of.depth, depth)
    }

    /// Checks whether one more task may live, in addition to the `earlier` ones of this turn. With `runs_model` it also needs
    /// a turn.
    pub(super) fn check_room(&self, runs_model: bool, earlier: u32) -> Result<(), CallError> {
        let (run, shared) = (&self.configs.job.limits, &self.shared);
        LimitKind::LiveTasks.check(shared.live_tasks + earlier, run.live_tasks)?;
        // A new task needs a last turn set aside, in addition to the turns that are set aside for others.
        let turns = shared.turns + shared.live_agent_tasks + earlier;
        if runs_model { self.limit_of_turns().check(turns) } else { Ok(()) }
    }

    /// Returns the limit that decides about further turns of the run: its own, or that of the session.
    pub(super) fn limit_of_turns(&self) -> RunLimit {
        let (job, before) = (&self.configs.job, self.shared.before.turns);
        let session = RunLimit { kind: LimitKind::SessionTurns, allowed: job.session_limits.turns, before };
        session.or_lower(RunLimit { kind: LimitKind::RunTurns, allowed: job.limits.turns, before: 0 })
    }

    /// Returns the limit that decides about further calls of the run.
    pub(super) fn limit_of_calls(&self) -> RunLimit {
        let (job, before) = (&self.configs.job, self.shared.before.calls);
        let session = RunLimit { kind: LimitKind::SessionCalls, allowed: job.session_limits.calls, before };
        session.or_lower(RunLimit { kind: LimitKind::RunCalls, allowed: job.limits.calls, before: 0 })
    }
}

/// A limit of a run, or of its session.
#[derive(Clone, Copy)]
pub(super) struct RunLimit {
    pub(super) kind: LimitKind,
    pub(super) allowed: Option<u32>,
    /// The number that counts before the run begins.
    before: u32,
}

impl RunLimit {
    /// Returns `run` if it leaves no more than this limit does.
    fn or_lower(self, run: Self) -> Self {
        match (self.left(), run.allowed) {
            (Some(left), run) if run.is_none_or(|run| left < run) => self,
            _ => run,
        }
    }

    /// Returns the number that the run may use; `None` for any number.
    pub(super) fn left(self) -> Option<u32> {
        self.allowed.map(|allowed| allowed.saturating_sub(self.before))
    }

    /// Returns the number that counts once the run has used `used`.
    pub(super) fn counted(self, used: u32) -> u32 {
        self.before.saturating_add(used)
    }

    /// Checks that the run may use more than `used`.
    pub(super) fn check(self, used: u32) -> Result<(), CallError> {
        self.kind.check(self.counted(used), self.allowed)
    }
}
