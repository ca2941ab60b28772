//! `random`: whole numbers by chance.
//!
//! The numbers depend on the call id alone, so the same call of the same job gives the same numbers. If a crash or a fork
//! runs the call again, its result agrees with the timeline.

use baton_macros::tool;
use baton_tool::{ToolContext, ToolError, ToolErrorKind};
use baton_types::id::CallId;
use serde::Serialize;

/// Output of `random`.
#[derive(Debug, Serialize)]
struct Numbers {
    numbers: Vec<i64>,
}

/// Gives `count` whole numbers from `min` to `max`, both included.
#[tool]
fn random(context: &ToolContext, min: Option<i64>, max: Option<i64>, count: Option<i64>) -> Result<Numbers, ToolError> {
    let (min, max, count) = (min.unwrap_or(0), max.unwrap_or(100), count.unwrap_or(1));
    let invalid = |message: &str| ToolError::new(message).of_kind(ToolErrorKind::InvalidInput);
    if !(1..=10).contains(&count) {
        return Err(invalid("count must be between 1 and 10"));
    }
    if min > max {
        return Err(invalid("min must be less than or equal to max"));
    }
    let mut chance = Chance::of(context.call());
    Ok(Numbers { numbers: (0..count).map(|_| chance.between(min, max)).collect() })
}

/// A stream of numbers by chance, fixed by a call.
pub(super) struct Chance(blake3::OutputReader);

impl Chance {
    /// Returns the random stream of `call`.
    pub(super) fn of(call: &CallId) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("baton 2026 tools: chance of a call");
        hasher.update(call.as_str().as_bytes());
        Self(hasher.finalize_xof())
    }

    /// Returns 64 random bits.
    fn bits(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Returns a whole number from `min` to `max`, each as likely as any other.
    fn between(&mut self, min: i64, max: i64) -> i64 {
        let span = (i128::from(max) - i128::from(min) + 1).unsigned_abs();
        // Values beyond the last whole multiple of `span` would make the small results likelier; draw again for those.
        let fair = (1_u128 << 64) / span * span;
        loop {
            let bits = u128::from(self.bits());
            if bits < fair {
                let step = i128::try_from(bits % span).unwrap_or_default();
                return i64::try_from(i128::from(min) + step).unwrap_or(max);
            }
        }
    }

    /// Returns a number from 0, included, to 1, excluded.
    pub(super) fn unit(&mut self) -> f64 {
        /// Number of values that a double distinguishes below 1 (2^53).
        const STEPS: f64 = 9_007_199_254_740_992.0;
        (self.bits() >> 11) as f64 / STEPS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(call: &str, min: Option<i64>, max: Option<i64>, count: Option<i64>) -> Result<Vec<i64>, ToolError> {
        let context = ToolContext::for_test().with_call(call).build();
        random(&context, min, max, count).map(|output| output.numbers)
    }

    #[test]
    fn a_call_always_gets_the_same_numbers_and_another_call_others() {
        let first = draw("0/1.1", None, None, Some(10)).unwrap();
        assert_eq!(first, draw("0/1.1", None, None, Some(10)).unwrap());
        assert_ne!(first, draw("0/1.2", None, None, Some(10)).unwrap());
        assert_eq!(first.len(), 10);
    }

    #[test]
    fn bounds_are_included_and_kept() {
        let mut seen = std::collections::BTreeSet::new();
        for turn in 1..200 {
            seen.extend(draw(&format!("0/{turn}.1"), Some(-1), Some(2), Some(10)).unwrap());
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [-1, 0, 1, 2]);
        assert_eq!(draw("0/1.1", Some(7), Some(7), None).unwrap(), [7]);
    }

    #[test]
    fn the_whole_range_of_integers_works() {
        let numbers = draw("0/1.1", Some(i64::MIN), Some(i64::MAX), Some(10)).unwrap();
        assert!(numbers.iter().any(|number| *number < 0) && numbers.iter().any(|number| *number > 0));
        for number in draw("0/1.1", Some(i64::MAX - 1), Some(i64::MAX), Some(10)).unwrap() {
            assert!(number >= i64::MAX - 1);
        }
    }

    #[test]
    fn no_number_is_likelier_than_another() {
        let mut counts = [0_u32; 3];
        let mut chance = Chance::of(&CallId::new("0/1.1"));
        for _ in 0..30_000 {
            counts[usize::try_from(chance.between(0, 2)).unwrap()] += 1;
        }
        // Three standard deviations of a fair draw are about 245.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 245), "{counts:?}");
        assert!((0..1_000).map(|_| chance.unit()).all(|unit| (0.0..1.0).contains(&unit)));
    }

    #[test]
    fn other_requests_are_refused_with_the_reason() {
        for count in [0, 11, -1, i64::MIN] {
            assert_eq!(draw("0/1.1", None, None, Some(count)).unwrap_err().message, "count must be between 1 and 10");
        }
        assert_eq!(draw("0/1.1", Some(2), Some(1), None).unwrap_err().message, "min must be less than or equal to max");
    }
}
