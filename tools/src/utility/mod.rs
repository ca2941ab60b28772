//! Small tools that compute: arithmetic, chance, time, JSON.

mod calculator;
mod echo;
mod expression;
mod json_transform;
mod random;
mod timer;

use serde_json::Number;

/// `value` as JSON: a whole number without a fraction, so that `8` is not printed as `8.0`.
fn number(value: f64) -> Option<Number> {
    /// The largest whole number below which every whole number is exact (2^53).
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < EXACT { Some(Number::from(value as i64)) } else { Number::from_f64(value) }
}
