//! Tokens and cost that are not known to be used: reserved for open requests, or of requests with unknown usage.
//!
//! Limits count both in full. Screens never show them as used.

use baton_types::entry::{BudgetSettled, CallAskedModel, CallRequest, ModelRequested};
use baton_types::money::{Cost, Money};
use serde::Serialize;

use crate::words;

/// Tokens, and their largest possible cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unsettled {
    /// Tokens of requests and answers together.
    pub(crate) tokens: u64,
    /// The cost.
    pub(crate) cost: Cost,
}

impl Unsettled {
    /// Adds `other`.
    pub(crate) fn add(&mut self, other: Self) {
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.cost.add(other.cost);
    }

    fn of(tokens: u64, cost: Option<Money>) -> Self {
        let mut of = Self { tokens, ..Self::default() };
        of.cost.settle(cost);
        of
    }

    /// Renders ` · 4,000 unknown`, or an empty text for zero tokens.
    pub(crate) fn words(self, what: &str) -> String {
        if self.tokens == 0 { String::new() } else { format!(" · {} {what}", words::count(self.tokens)) }
    }
}

/// Usage of one or several tasks that is reserved or unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NotUsed {
    /// Usage reserved for open requests.
    pub(crate) reserved: Unsettled,
    /// Usage of requests that were open in a crash, or were cancelled.
    pub(crate) unknown: Unsettled,
}

impl NotUsed {
    /// Adds `other`.
    pub(crate) fn add(&mut self, other: Self) {
        self.reserved.add(other.reserved);
        self.unknown.add(other.unknown);
    }

    /// Renders ` · 4,000 reserved · 9,000 unknown`, without the parts that are zero.
    pub(crate) fn words(self) -> String {
        self.reserved.words("reserved") + &self.unknown.words("unknown")
    }
}

/// The open requests of a task, and the unknown usage of its requests that never received an answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    open: Vec<(Option<CallRequest>, Unsettled)>,
    unknown: Unsettled,
}

impl Requests {
    /// Adds a request of the task to its model.
    pub(crate) fn asked(&mut self, requested: &ModelRequested) {
        self.open.push((None, Unsettled::of(requested.reserved_tokens, Some(requested.reserved_cost))));
    }

    /// Adds a request of a call's code to a model.
    pub(crate) fn call_asked(&mut self, asked: &CallAskedModel) {
        self.open.push((Some(asked.by.clone()), Unsettled::of(asked.reserved_tokens, asked.reserved_cost)));
    }

    /// Removes the request that `settled` is about. If its usage is unknown, it is added to the unknown usage.
    pub(crate) fn settled(&mut self, settled: &BudgetSettled) {
        self.open.retain(|(by, _)| by.as_ref() != settled.by.as_deref());
        if settled.unknown {
            self.unknown.add(Unsettled::of(settled.usage.total(), settled.cost));
        }
    }

    /// Returns the reserved and the unknown usage.
    pub(crate) fn not_used(&self) -> NotUsed {
        let mut reserved = Unsettled::default();
        self.open.iter().for_each(|(_, of)| reserved.add(*of));
        NotUsed { reserved, unknown: self.unknown }
    }
}

/// Tokens and their cost in a report.
#[derive(Debug, Serialize)]
pub(crate) struct UnsettledReport {
    tokens: u64,
    cost_usd: Option<f64>,
}

impl From<Unsettled> for UnsettledReport {
    fn from(of: Unsettled) -> Self {
        Self { tokens: of.tokens, cost_usd: usd(of.cost) }
    }
}

/// Returns the cost in US dollars; `None` if it is unknown.
pub(crate) fn usd(cost: Cost) -> Option<f64> {
    cost.total().map(Money::as_usd)
}

#[cfg(test)]
mod tests {
    use baton_types::id::TaskId;
    use baton_types::model::Usage;

    use super::*;

    fn settled(unknown: bool) -> BudgetSettled {
        let usage = Usage { input_tokens: 1_000, output_tokens: 4_000, ..Usage::default() };
        let (task, cost) = (TaskId::root(), Some(Money::from_usd(0.01)));
        BudgetSettled { task, turn: 1, by: None, reserved_tokens: 5_000, usage, unknown, cost }
    }

    #[test]
    fn what_is_reserved_or_unknown_is_named_so_and_gone_once_it_is_used() {
        let requested = ModelRequested {
            task: TaskId::root(),
            turn: 1,
            model: "m".to_owned(),
            input_tokens: 1_000,
            reserved_tokens: 5_000,
            reserved_cost: Money::from_usd(0.01),
            says_result_schema: false,
            steers: Vec::new(),
            notice: None,
        };
        let mut requests = Requests::default();
        requests.asked(&requested);
        assert_eq!(requests.not_used().words(), " · 5,000 reserved");
        let mut answered = requests.clone();
        answered.settled(&settled(false));
        assert_eq!(answered.not_used(), NotUsed::default());
        requests.settled(&settled(true));
        assert_eq!(requests.not_used().words(), " · 5,000 unknown");
        assert_eq!(requests.not_used().unknown.cost.total(), Some(Money::from_usd(0.01)));
    }
}
