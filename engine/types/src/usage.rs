//! Tokens that requests used.

use serde::{Deserialize, Serialize};

/// Tokens used. `cached_tokens` are part of `input_tokens`, `reasoning_tokens` of `output_tokens`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Usage {
    /// Tokens of the request.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// Tokens of the request that the provider had cached.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_tokens: u64,
    /// Tokens of the answer spent on reasoning.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
    /// Whether the counts are estimates from bytes (≈) rather than a provider's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

impl Usage {
    /// Returns the same usage with plausible counts: at most [`Self::MOST`] tokens each.
    pub fn bounded(self) -> Self {
        Self {
            input_tokens: self.input_tokens.min(Self::MOST),
            output_tokens: self.output_tokens.min(Self::MOST),
            cached_tokens: self.cached_tokens.min(Self::MOST),
            reasoning_tokens: self.reasoning_tokens.min(Self::MOST),
            estimated: self.estimated,
        }
    }

    /// The most tokens that a provider's count is taken for.
    pub const MOST: u64 = 1 << 47;

    /// Returns the sum of input and output.
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Adds `other`; the sum is an estimate if either is. Whatever providers report, it stops instead of going round.
    pub fn add(&mut self, other: &Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(other.reasoning_tokens);
        self.estimated |= other.estimated;
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
