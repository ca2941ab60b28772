//! Tokens and money reserved for open requests, and the tokens that providers count for estimated ones.

use baton_types::model::Usage;
use baton_types::money::Money;

/// Maximum number of tokens that a provider may count for one estimated token. An estimated token is four bytes of text, and a
/// real one has at least one byte.
const MOST_COUNTED: u64 = 4;

/// The amounts reserved for open requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reservation {
    /// Tokens of the requests and of their longest answers.
    pub tokens: u64,
    /// Cost of these tokens.
    pub cost: Money,
    /// Tokens (≈) of the requests alone.
    pub input_tokens: u64,
    /// Cost of the requests alone.
    pub input_cost: Money,
}

/// The usage with which a request is settled.
#[derive(Clone, Copy)]
pub(super) enum Used {
    /// This usage, and its cost if the price is known.
    Known(Usage, Option<Money>),
    /// Nothing, because the provider was unavailable, or because a fork's original accounts for the request.
    Nothing,
    /// The whole reservation, because the usage cannot become known.
    Reservation,
}

impl Reservation {
    /// Returns the upper bound of the tokens, whatever the estimates of the requests are.
    pub(crate) const fn most_tokens(&self) -> u64 {
        self.tokens.saturating_add(self.input_tokens.saturating_mul(MOST_COUNTED - 1))
    }

    /// Returns the upper bound of the cost.
    pub(crate) const fn most_cost(&self) -> Money {
        self.cost.plus(self.input_cost.times(MOST_COUNTED - 1))
    }

    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            cost: self.cost.plus(other.cost),
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            input_cost: self.input_cost.plus(other.input_cost),
        }
    }

    pub(crate) const fn minus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(other.tokens),
            cost: self.cost.minus(other.cost),
            input_tokens: self.input_tokens.saturating_sub(other.input_tokens),
            input_cost: self.input_cost.minus(other.input_cost),
        }
    }
}

/// The tokens that a model's provider counted for requests of this run, and the estimates of the same requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Tokens (≈), as estimated before the requests.
    pub estimated: u64,
    /// Tokens, as counted by the provider.
    pub counted: u64,
}

impl Counted {
    pub(crate) const fn add(&mut self, estimated: u64, counted: u64) {
        self.estimated = self.estimated.saturating_add(estimated);
        self.counted = self.counted.saturating_add(counted);
    }

    /// Returns the tokens that the provider is expected to count for `estimated` ones: never fewer, and at most four times as
    /// many.
    pub fn expected(self, estimated: u64) -> u64 {
        let (counted, of) = self.ratio();
        u64::try_from((u128::from(estimated) * counted).div_ceil(of)).unwrap_or(u64::MAX)
    }

    /// Returns the largest estimate for which the provider is expected to count at most `tokens`.
    pub fn estimate(self, tokens: u64) -> u64 {
        let (counted, of) = self.ratio();
        u64::try_from(u128::from(tokens) * of / counted).unwrap_or(u64::MAX)
    }

    fn ratio(self) -> (u128, u128) {
        // Before the first count, estimates are taken as they are.
        let estimated = self.estimated.max(1);
        (u128::from(self.counted.clamp(estimated, estimated.saturating_mul(MOST_COUNTED))), u128::from(estimated))
    }

    /// Whether the provider counts more tokens for an estimated one than `other` does.
    pub fn is_higher_than(self, other: Self) -> bool {
        let ((counted, of), (others, of_other)) = (self.ratio(), other.ratio());
        counted * of_other > others * of
    }
}
