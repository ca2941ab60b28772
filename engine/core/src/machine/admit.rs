//! Limits before a model is asked: the worst case is reserved on the task, on every task above it and on the run.
//!
//! If only others' reservations stand in the way, the request waits. If what was spent and its own worst case exceed a
//! limit, the limit is reached: the turn set aside from the start is used, with a handoff as the only tool. What the last
//! turns of the callers above will need counts as spent, since they wait for this task and not it for them.

use std::time::Duration;

use super::{Budget, Draft, Run, TaskState, task_limits};
use crate::config::OnText;
use crate::entry::{Entry, ModelRequested, Notice};
use crate::event::Effect;
use crate::id::TaskId;
use crate::json::Json;
use crate::limits::{LimitKind, Limits};
use crate::money::{Money, Price};

/// Tokens (≈) that a result has beside what its task said: its frame, and the error of one that is partial.
const RESULT_TOKENS: u64 = 64;

/// Whether a request may be made now.
pub(super) enum Admission {
    /// It may.
    Now,
    /// Others' reservations stand in the way.
    Later,
    /// This limit is reached.
    Reached(LimitKind),
}

impl Draft<'_> {
    /// Asks the model of the first ready task that limits admit; says whether anything happened.
    pub(super) fn admit_ready(&mut self) -> bool {
        if self.run.shared.paused {
            return false;
        }
        let ready: Vec<TaskId> = self.run.shared.ready.values().cloned().collect();
        let before = self.decision.entries.len();
        for id in ready {
            self.admit(&id);
            if !self.changed.is_empty() || self.run.shared.ended.is_some() {
                break;
            }
        }
        self.decision.entries.len() > before
    }

    /// Asks the model of `id`, leaves it waiting, uses its last turn, or ends it with what it has.
    fn admit(&mut self, id: &TaskId) {
        if self.task(id).state != TaskState::Ready {
            return;
        }
        if !self.makes_room(id) {
            return;
        }
        if self.task(id).interrupted {
            return self.ask_again(id);
        }
        match self.admission(id, false) {
            Admission::Now => {
                let notice = self.notice(id);
                self.request(id, notice);
            }
            Admission::Later => {}
            Admission::Reached(limit) => match self.admission(id, true) {
                Admission::Now => self.request(id, Some(Notice::LastTurn { limit })),
                Admission::Later => {}
                Admission::Reached(_) => self.end_partial(id, limit, Json::null()),
            },
        }
    }

    /// Whether a turn, or the last turn, of `id` fits all limits.
    pub(super) fn admission(&self, id: &TaskId, last: bool) -> Admission {
        let task = self.task(id);
        let configs = self.configs();
        let (own, run) = (self.limits(id), &configs.job.limits);
        let shared = &self.run.shared;
        if !last {
            if own.turns.is_some_and(|allowed| task.turns + 1 >= allowed) {
                return Admission::Reached(LimitKind::Turns);
            }
            // Every live task has a turn set aside, this one included.
            if run.turns.is_some_and(|allowed| shared.turns + shared.live_agent_tasks >= allowed) {
                return Admission::Reached(LimitKind::RunTurns);
            }
            let worked =
                |allowed: Option<u64>, worked: Duration| allowed.is_some_and(|seconds| worked >= Duration::from_secs(seconds));
            let run_worked = shared.worked + shared.active_since.map_or(Duration::ZERO, |since| self.at.since(since));
            if worked(own.worked_seconds, task.worked_until(self.at)) || worked(run.worked_seconds, run_worked) {
                return Admission::Reached(LimitKind::WorkedSeconds);
            }
        }
        self.admits_budget(id, last)
    }

    /// Whether the worst case of a turn, or of the last turn, fits every limit of tokens and money above it.
    fn admits_budget(&self, id: &TaskId, last: bool) -> Admission {
        let shared = &self.run.shared;
        if !shared.has_budgets {
            return Admission::Now;
        }
        let (input, output) = (self.task(id).context_tokens, self.run.output_tokens(id));
        let worst = input.saturating_add(output);
        let (mut tokens, mut money) = (worst, self.run.worst_price(id, input, output));
        if !last {
            // What a later last turn needs at most is set aside: what this request holds, and one more answer.
            tokens = tokens.saturating_add(worst.saturating_add(output));
            money = money.plus(self.run.worst_price(id, worst, output));
        }
        self.run.fits(id, tokens, money)
    }
}

impl Run {
    /// Whether a request of a call's code fits every limit of its task and above, beside the last turn of the task, which will
    /// hold an answer of that length. What has no known price fits no limit of money.
    pub(super) fn admits_ask(&self, id: &TaskId, input: u64, output: u64, worst_cost: Option<Money>) -> Admission {
        if !self.shared.has_budgets {
            return Admission::Now;
        }
        let held = self.existing(id).context_tokens.saturating_add(RESULT_TOKENS).saturating_add(output);
        let last = self.output_tokens(id);
        let tokens = input.saturating_add(output).saturating_add(held).saturating_add(last);
        self.fits(id, tokens, worst_cost.unwrap_or(Money::MAX).plus(self.worst_price(id, held, last)))
    }

    /// Whether so much more, beside what the last turns of the tasks above `id` take, fits every limit of `id`, of all above it
    /// and of the run.
    pub(super) fn fits(&self, id: &TaskId, mut tokens: u64, mut money: Money) -> Admission {
        let shared = &self.shared;
        let mut later = false;
        let mut check = |spent: u64, reserved: u64, needed: u64, allowed: Option<u64>, kind| {
            let allowed = allowed?;
            if spent.saturating_add(needed) > allowed {
                return Some(kind);
            }
            later |= spent.saturating_add(reserved).saturating_add(needed) > allowed;
            None
        };
        let mut check_all = |budget: &Budget, limits: &Limits, needed: (u64, Money), kinds: (LimitKind, LimitKind)| {
            let allowed = limits.cost().map(Money::picos);
            let money = check(budget.cost.picos(), budget.reserved_cost.picos(), needed.1.picos(), allowed, kinds.1);
            check(budget.tokens, budget.reserved_tokens, needed.0, limits.tokens, kinds.0).or(money)
        };
        let above = (LimitKind::TokensAbove, LimitKind::CostAbove);
        let mut reached = None;
        let mut below = id.clone();
        let mut next = Some(id.clone());
        while let Some(holder) = next {
            if holder != *id {
                let (input, output) = self.set_aside(&holder, &below);
                tokens = tokens.saturating_add(input.saturating_add(output));
                money = money.plus(self.worst_price(&holder, input, output));
            }
            if let Some(budget) = self.existing(&holder).budget.as_deref() {
                let kinds = if holder == *id { (LimitKind::Tokens, LimitKind::Cost) } else { above };
                reached =
                    check_all(budget, &task_limits(&self.configs, self.existing(&holder)), (tokens, money), kinds).or(reached);
            }
            next = self.caller(&holder);
            below = holder;
        }
        let whole = Budget {
            tokens: shared.usage.total(),
            reserved_tokens: shared.reserved_tokens,
            cost: shared.cost.known,
            reserved_cost: shared.reserved_cost,
        };
        let reached = reached.or(check_all(&whole, &self.configs.job.limits, (tokens, money), above));
        match reached {
            Some(kind) => Admission::Reached(kind),
            None if later => Admission::Later,
            None => Admission::Now,
        }
    }

    /// What the last turn of `caller` takes, in tokens sent and answered: what it holds, the frame of a result for every call
    /// that it waits for, and one as long as an answer of `callee`. Nobody below may spend that, or a limit would be reached
    /// with nobody left to say what was found. How much the others will say, and documents that come back, are not foreseen:
    /// a worst case of all of them would leave no room to ask anybody.
    fn set_aside(&self, caller: &TaskId, callee: &TaskId) -> (u64, u64) {
        let task = self.existing(caller);
        let awaited = task.open.iter().flat_map(|open| &open.calls).filter(|call| call.is_awaited()).count() as u64;
        let results = awaited.saturating_mul(RESULT_TOKENS).saturating_add(self.output_tokens(callee));
        (task.context_tokens.saturating_add(results), self.output_tokens(caller))
    }

    /// What so many tokens cost at most where `id` asks, whichever of its models answers. Without a price nothing is known to
    /// fit: the start has refused that, and it is not taken for free here.
    pub(super) fn worst_price(&self, id: &TaskId, input: u64, output: u64) -> Money {
        let costs = self.prices(id).map(|price| price.map_or(Money::MAX, |price| price.worst_case(input, output)));
        costs.max().unwrap_or(Money::MAX)
    }

    pub(super) fn model_name(&self, id: &TaskId) -> &str {
        model_of(self, id).expect("only agents have models")
    }

    /// The model that is asked for the open turn of `id`: its own, or the one that it fell back to.
    pub(super) fn asked_model(&self, id: &TaskId) -> &str {
        let fallback = self.existing(id).open.as_ref().and_then(|open| open.fallback.as_deref());
        fallback.unwrap_or_else(|| self.model_name(id))
    }

    /// What the tokens of the open turn of `id` cost, if it is known: as the run's start recorded it.
    pub(super) fn price(&self, id: &TaskId) -> Option<&Price> {
        self.price_of(self.asked_model(id))
    }

    fn price_of(&self, model: &str) -> Option<&Price> {
        self.shared.started.as_ref()?.prices.get(model)
    }

    /// What tokens of a turn of `id` may cost, by each model that may be asked for it.
    pub(super) fn prices(&self, id: &TaskId) -> impl Iterator<Item = Option<&Price>> {
        let own = self.model_name(id);
        let fallbacks = self.configs.job.fallbacks(own).iter().map(String::as_str);
        std::iter::once(own).chain(fallbacks).map(|model| self.price_of(model))
    }

    pub(super) fn output_tokens(&self, id: &TaskId) -> u64 {
        self.existing(id).agent().map_or(0, |agent| super::agent(&self.configs, agent).max_output_tokens)
    }
}

impl Draft<'_> {
    /// Whether a text of the task's agent is a result that has to meet a schema.
    fn text_has_schema(&self, id: &TaskId) -> bool {
        let (configs, task) = (self.configs(), self.task(id));
        match (&task.question, task.agent()) {
            (Some(question), _) => !question.answer_schema.is_null(),
            (None, Some(agent)) => {
                let agent = super::agent(&configs, agent);
                agent.on_text == OnText::Handoff && agent.result_schema.is_some()
            }
            (None, None) => false,
        }
    }

    /// The most tokens that the next request and its answer may use.
    fn worst_case(&self, id: &TaskId) -> u64 {
        self.task(id).context_tokens.saturating_add(self.run.output_tokens(id))
    }

    /// What the agent is told at the head of the turn.
    fn notice(&self, id: &TaskId) -> Option<Notice> {
        let task = self.task(id);
        task.fault.map(|reason| Notice::Reminder { count: task.reminders, reason })
    }

    /// Records the request, with all that people said meanwhile, and asks for it.
    fn request(&mut self, id: &TaskId, notice: Option<Notice>) {
        let task = self.task(id);
        let (turn, steers) = (task.turns + 1, task.steering.clone());
        self.request_turn(id, turn, steers, notice);
    }

    /// Asks for an interrupted turn again: the same turn, rendered alike, within the same limits of tokens and
    /// money. What people said since waits for the turn after it.
    fn ask_again(&mut self, id: &TaskId) {
        let (turn, last) = (self.task(id).turns, self.task(id).last_turn);
        let summarising = self.task(id).context.as_ref().and_then(|context| context.summarising);
        let summarise = summarising.map(|through_turn| Notice::Summarise { through_turn });
        let notice = summarise.or(last.map(|limit| Notice::LastTurn { limit }));
        match self.admits_budget(id, true) {
            Admission::Now => self.request_turn(id, turn, Vec::new(), notice),
            Admission::Later => {}
            Admission::Reached(limit) => self.end_partial(id, last.unwrap_or(limit), Json::null()),
        }
    }

    /// Records a request for `turn` and asks for it; after a crash the same turn is asked for again.
    pub(super) fn request_turn(&mut self, id: &TaskId, turn: u32, steers: Vec<String>, notice: Option<Notice>) {
        let input_tokens = self.task(id).context_tokens;
        let output_tokens = self.run.output_tokens(id);
        let costs = self.run.prices(id).flatten().map(|price| price.worst_case(input_tokens, output_tokens));
        let entry = ModelRequested {
            task: id.clone(),
            turn,
            model: self.run.model_name(id).to_owned(),
            input_tokens,
            reserved_tokens: self.worst_case(id),
            reserved_cost: costs.max().unwrap_or(Money::ZERO),
            says_result_schema: !matches!(notice, Some(Notice::Summarise { .. })) && self.text_has_schema(id),
            steers,
            notice,
        };
        self.push(Entry::ModelRequested(entry));
        self.decision.effects.push(Effect::Prompt { task: id.clone(), turn });
    }
}

/// The name of the model that answers for `id`: the one that stands in for all, or its agent's.
fn model_of<'r>(run: &'r Run, id: &TaskId) -> Option<&'r str> {
    let started = run.shared.started.as_ref()?;
    let agent = run.task(id)?.agent()?;
    Some(started.model.as_ref().unwrap_or_else(|| &super::agent(run.configs(), agent).model))
}

/// The model to ask next when the one that is asked for the open turn of `id` is not available.
pub(super) fn next_fallback<'r>(run: &'r Run, id: &TaskId) -> Option<&'r str> {
    let fallbacks = run.configs().job.fallbacks(model_of(run, id)?);
    let asked = run.task(id)?.open.as_ref()?.fallback.as_deref();
    let next = asked.map_or(Some(0), |asked| Some(fallbacks.iter().position(|name| name == asked)? + 1));
    fallbacks.get(next?).map(String::as_str)
}
