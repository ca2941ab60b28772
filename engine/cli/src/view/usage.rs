//! Tokens and cost that are not known to be used: reserved for open requests, or of requests with unknown usage.
//!
//! Limits count both in full. Screens never show them as used.

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

    /// Returns the tokens of one request and its answer, with their cost; `None` where the price is not known.
    pub(crate) fn of(tokens: u64, cost: Option<Money>) -> Self {
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
    use super::*;

    #[test]
    fn what_is_reserved_or_unknown_is_named_so() {
        let mut not_used = NotUsed { reserved: Unsettled::of(5_000, Some(Money::from_usd(0.01))), ..NotUsed::default() };
        assert_eq!(not_used.words(), " · 5,000 reserved");
        not_used.add(NotUsed { unknown: Unsettled::of(4_000, None), ..not_used });
        assert_eq!(not_used.words(), " · 10,000 reserved · 4,000 unknown");
        assert_eq!((usd(not_used.reserved.cost), usd(not_used.unknown.cost)), (Some(0.02), None));
    }
}
