//! Money, and what tokens cost. Whole numbers only: sums of any order are the same, and no cent is lost.
//!
//! [`baton_config::PriceTable`] describes the source of prices; [`baton_machine`] enforces money limits.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::usage::Usage;

/// Picodollars (10⁻¹² US dollars) in a dollar.
const PER_DOLLAR: f64 = 1e12;

/// An amount of US dollars in whole picodollars, up to about 18 million dollars. Sums stop there instead of going round.
///
/// So fine, because a price of $0.000001 for a million tokens is then one picodollar a token: what a request costs is a
/// product of whole numbers, and nothing is ever rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Money(u64);

impl Money {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// More than any limit allows: what something costs whose price is not known, where a limit of money must be kept.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns an amount in picodollars.
    pub const fn from_picos(picos: u64) -> Self {
        Self(picos)
    }

    /// Returns the amount in picodollars.
    pub const fn picos(self) -> u64 {
        self.0
    }

    /// Returns the amount nearest to `usd` US dollars; nothing for what is negative or no number.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float stops at the bounds")]
    pub fn from_usd(usd: f64) -> Self {
        Self((usd * PER_DOLLAR).round() as u64)
    }

    /// Returns the amount in US dollars, for programs that read reports.
    #[expect(clippy::cast_precision_loss, reason = "for people, not for sums")]
    pub fn as_usd(self) -> f64 {
        self.0 as f64 / PER_DOLLAR
    }

    /// Returns both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the difference, or zero if `other` is more.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// This much for each of `count` tokens.
    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }

    /// Whether it is nothing.
    pub const fn is_zero(&self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Money {
    /// Dollars as people read them: `$0`, `$12.30`, `$0.0123`, `$0.0000021`. What is not nothing never reads as nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DOLLAR: u64 = 1_000_000_000_000;
        if self.0 == 0 {
            return f.write_str("$0");
        }
        // Cents from a dollar on; four decimals below; below a hundredth of a cent, two digits that say something.
        let mut decimals = if self.0 >= DOLLAR { 2 } else { 4 };
        if self.0 < DOLLAR / 10_000 {
            decimals = 14 - (self.0.ilog10() + 1);
        }
        let decimals = decimals.min(12);
        let unit = 10_u64.pow(12 - decimals);
        let rounded = self.0 / unit + u64::from(self.0 % unit >= unit.div_ceil(2));
        let whole = 10_u64.pow(decimals);
        write!(f, "${}.{:0width$}", rounded / whole, rounded % whole, width = decimals as usize)
    }
}

/// The price of a model's tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Price {
    /// A token of a request that the provider had not cached.
    pub input: Money,
    /// A token of a request that the provider had cached.
    pub cached_input: Money,
    /// A token of an answer, reasoning included.
    pub output: Money,
    /// The source of the price, for people: `scripted`, `job.json`, or the page and date of a table's row.
    pub source: String,
    /// The context window in tokens, if the table has it beside the price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// The longest answer in tokens, reasoning included, if the table has it beside the price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Whether only the job or a store names it: an estimate, which no limit of money relies on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_estimate: bool,
}

impl Price {
    /// The source of the price of a script, which costs nothing.
    pub const SCRIPTED: &'static str = "scripted";

    /// Returns the price of a script.
    pub fn scripted() -> Self {
        Self {
            input: Money::ZERO,
            cached_input: Money::ZERO,
            output: Money::ZERO,
            source: Self::SCRIPTED.to_owned(),
            context_tokens: None,
            output_tokens: None,
            is_estimate: false,
        }
    }

    /// Returns the price of a model that a server on this machine runs.
    pub fn local() -> Self {
        Self { source: "runs on this machine".to_owned(), ..Self::scripted() }
    }

    /// Returns the price of a person who answers in place of a model.
    pub fn person() -> Self {
        Self { source: "a person answers".to_owned(), ..Self::scripted() }
    }

    /// Returns the cost of `usage`. Cached tokens count at most as many as the request has.
    pub fn cost(&self, usage: &Usage) -> Money {
        let cached = usage.cached_tokens.min(usage.input_tokens);
        let fresh = self.input.times(usage.input_tokens - cached);
        fresh.plus(self.cached_input.times(cached)).plus(self.output.times(usage.output_tokens))
    }

    /// Returns the most that a request of `input` tokens and an answer of `output` tokens can cost.
    pub fn worst_case(&self, input: u64, output: u64) -> Money {
        self.input.max(self.cached_input).times(input).plus(self.output.times(output))
    }
}

/// The cost of requests with known prices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// The cost of requests with a known price.
    pub known: Money,
    /// The number of requests without a known price.
    pub unpriced: u64,
}

impl Cost {
    /// Adds one request's cost; `None` where its price is not known.
    pub fn settle(&mut self, cost: Option<Money>) {
        match cost {
            Some(cost) => self.known = self.known.plus(cost),
            None => self.unpriced += 1,
        }
    }

    /// Adds what other requests cost.
    pub fn add(&mut self, other: Self) {
        self.known = self.known.plus(other.known);
        self.unpriced += other.unpriced;
    }

    /// Returns the whole of it; `None` if some of it is not known.
    pub fn total(&self) -> Option<Money> {
        (self.unpriced == 0).then_some(self.known)
    }
}

impl fmt::Display for Cost {
    /// Writes the amount, or `?` if it is not known: never less than what was spent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.total() {
            Some(total) => total.fmt(f),
            None => f.write_str("?"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_read_as_people_write_them_and_never_as_nothing() {
        let cases = [
            (0.0, "$0"),
            (12.3, "$12.30"),
            (1.0, "$1.00"),
            (0.999_99, "$1.0000"),
            (0.0123, "$0.0123"),
            (0.5, "$0.5000"),
            (0.000_1, "$0.0001"),
            (0.000_045_3, "$0.000045"),
            (0.000_002_1, "$0.0000021"),
            (1e-12, "$0.000000000001"),
        ];
        for (usd, expected) in cases {
            assert_eq!(Money::from_usd(usd).to_string(), expected);
        }
        assert_eq!(Money::MAX.to_string(), "$18446744.07");
    }

    #[test]
    fn an_invalid_amount_is_zero_and_a_large_one_saturates() {
        assert_eq!(Money::from_usd(-1.0), Money::ZERO);
        assert_eq!(Money::from_usd(f64::NAN), Money::ZERO);
        assert_eq!(Money::from_usd(1e30), Money::MAX);
        assert_eq!(Money::MAX.plus(Money::from_picos(1)), Money::MAX);
        assert_eq!(Money::from_picos(2).times(u64::MAX), Money::MAX);
    }

    #[test]
    fn decimal_prices_and_limits_are_exact() {
        assert_eq!(Money::from_usd(0.29), Money::from_picos(290_000_000_000));
        assert_eq!(Money::from_usd(0.1 + 0.2), Money::from_picos(300_000_000_000));
    }

    #[test]
    fn cached_tokens_settle_at_their_own_rate() {
        let price = Price {
            input: Money::from_picos(10),
            cached_input: Money::from_picos(1),
            output: Money::from_picos(100),
            source: "a test".to_owned(),
            context_tokens: None,
            output_tokens: None,
            is_estimate: false,
        };
        let usage = Usage { input_tokens: 7, cached_tokens: 5, output_tokens: 3, ..Usage::default() };
        assert_eq!(price.cost(&usage), Money::from_picos(2 * 10 + 5 + 300));
        assert_eq!(price.worst_case(7, 3), Money::from_picos(70 + 300));
        let hostile = Usage { input_tokens: 1, cached_tokens: u64::MAX, ..Usage::default() };
        assert_eq!(price.cost(&hostile), Money::from_picos(1));
        let dear_cache = Price { cached_input: Money::from_picos(20), ..price };
        assert_eq!(dear_cache.worst_case(7, 3), Money::from_picos(140 + 300), "the dearest rate of a request's tokens");
    }

    #[test]
    fn one_unknown_price_makes_the_sum_unknown() {
        let mut cost = Cost::default();
        cost.settle(Some(Money::from_usd(0.0123)));
        assert_eq!(cost.to_string(), "$0.0123");
        cost.settle(None);
        assert_eq!((cost.total(), cost.to_string().as_str()), (None, "?"));
    }
}
