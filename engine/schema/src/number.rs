//! Numbers and equality as JSON Schema defines them: 1 and 1.0 are one value, and no digit is lost in a comparison.

use std::cmp::Ordering;
use std::fmt::Write as _;

use serde_json::{Number, Value};

/// Compares two numbers exactly.
pub(crate) fn compare(one: &Number, other: &Number) -> Ordering {
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        (Some(one), None) => compare_mixed(one, float(other)),
        (None, Some(other)) => compare_mixed(other, float(one)).reverse(),
        (None, None) => float(one).total_cmp(&float(other)),
    }
}

/// Whether a number has no fraction: 1.0 has none.
pub(crate) fn is_whole(number: &Number) -> bool {
    !number.is_f64() || float(number).fract() == 0.0
}

/// Returns a number that was written without fraction and exponent.
fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// Returns the number as a float. The negative zero becomes 0, since the two are equal in JSON Schema.
fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or_default() + 0.0
}

/// Compares an integer with a float, which may be far larger than any integer.
fn compare_mixed(one: i128, other: f64) -> Ordering {
    let floor = other.floor();
    if floor.abs() > 1e37 {
        return if floor > 0.0 { Ordering::Less } else { Ordering::Greater };
    }
    match one.cmp(&(floor as i128)) {
        Ordering::Equal if other > floor => Ordering::Less,
        order => order,
    }
}

/// Whether two values are equal.
pub(crate) fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => compare(one, other) == Ordering::Equal,
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len() && one.iter().all(|(key, one)| other.get(key).is_some_and(|other| is_equal(one, other)))
        }
        (one, other) => one == other,
    }
}

/// Appends a text that equal values share, and no others.
pub(crate) fn push_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Number(number) => {
            let float = float(number);
            // A float of this size without fraction is exactly that integer.
            let _ = match whole(number) {
                Some(whole) => write!(text, "{whole}"),
                None if float.fract() == 0.0 && float.abs() < 1e37 => write!(text, "{}", float as i128),
                None => write!(text, "{float:e}"),
            };
        }
        Value::Array(elements) => {
            text.push('[');
            for element in elements {
                push_canonical(element, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(keys) => {
            let mut pairs: Vec<(&String, &Value)> = keys.iter().collect();
            pairs.sort_unstable_by_key(|(key, _)| *key);
            text.push('{');
            for (key, value) in pairs {
                let _ = write!(text, "{key:?}:");
                push_canonical(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::String(string) => drop(write!(text, "{string:?}")),
        other => drop(write!(text, "{other}")),
    }
}

/// A positive number in decimal: a multiple is found without rounding.
#[derive(Clone, Copy, Debug)]
struct Decimal {
    digits: u64,
    exponent: i64,
}

impl Decimal {
    /// Reads the magnitude of a number from its shortest text.
    fn of(number: &Number) -> Option<Self> {
        let text = number.to_string();
        let text = text.trim_start_matches('-');
        let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (before, after) = digits.split_once('.').unwrap_or((digits, ""));
        let joined = format!("{before}{after}");
        let kept = joined.trim_end_matches('0');
        let exponent = exponent.parse::<i64>().ok()? - after.len() as i64 + (joined.len() - kept.len()) as i64;
        Some(Self { digits: if kept.is_empty() { 0 } else { kept.parse().ok()? }, exponent })
    }
}

/// Whether `number` is a multiple of `step`, which is more than zero.
pub(crate) fn is_multiple(number: &Number, step: &Number) -> bool {
    let (Some(number), Some(step)) = (Decimal::of(number), Decimal::of(step)) else {
        return (float(number) / float(step)).fract() == 0.0;
    };
    if number.digits == 0 || step.digits == 0 {
        return number.digits == 0;
    }
    let shift = number.exponent - step.exponent;
    let modulus = u128::from(step.digits);
    if shift >= 0 {
        // Both factors are below 2^64, so their product fits.
        let mut rest = u128::from(number.digits) % modulus;
        for _ in 0..shift.min(1_000) {
            rest = rest * 10 % modulus;
        }
        return rest == 0;
    }
    let scaled = 10_u128.checked_pow(u32::try_from(-shift).unwrap_or(u32::MAX)).and_then(|scale| scale.checked_mul(modulus));
    // A step beyond this size is larger than the number.
    scaled.is_some_and(|scaled| u128::from(number.digits) % scaled == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn number(value: &Value) -> &Number {
        value.as_number().expect("a number")
    }

    #[test]
    fn numbers_compare_without_rounding() {
        for (one, other, order) in [
            (json!(1), json!(1.0), Ordering::Equal),
            (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992.0), Ordering::Greater),
            (json!(u64::MAX), json!(1e300), Ordering::Less),
            (json!(-1), json!(-1e300), Ordering::Greater),
            (json!(2), json!(2.5), Ordering::Less),
            (json!(-2), json!(-2.5), Ordering::Greater),
            (json!(i64::MIN), json!(u64::MAX), Ordering::Less),
        ] {
            assert_eq!(compare(number(&one), number(&other)), order, "{one} {other}");
            assert_eq!(compare(number(&other), number(&one)), order.reverse(), "{other} {one}");
        }
    }

    #[test]
    fn multiples_are_found_in_decimal() {
        for (value, step, expected) in [
            (json!(0.0075), json!(0.0001), true),
            (json!(0.00751), json!(0.0001), false),
            (json!(1e308), json!(0.123_456_789), false),
            (json!(1e308), json!(0.5), true),
            (json!(0.3), json!(0.1), true),
            (json!(-6), json!(2), true),
            (json!(0), json!(7), true),
            (json!(1), json!(1e300), false),
            (json!(12_391_239_123_i64), json!(1e-8), true),
            (json!(0), json!(1e300), true),
            (json!(0.0), json!(10), true),
            (json!(20), json!(10), true),
            (json!(5), json!(10), false),
            (json!(15), json!(10), false),
            (json!(-0.5), json!(10), false),
        ] {
            assert_eq!(is_multiple(number(&value), number(&step)), expected, "{value} {step}");
        }
    }

    #[test]
    fn equal_values_share_their_canonical_text() {
        let values = [
            json!(1),
            json!(1.0),
            json!(1.5),
            json!("1"),
            json!([1, 2]),
            json!([1.0, 2.0]),
            json!([1, 3]),
            json!([1]),
            json!({"a": 1}),
            json!({"a": 2}),
            json!([1, {"b": 1, "a": [2.0]}]),
            json!([1.0, {"a": [2], "b": 1}]),
            json!(true),
        ];
        for one in &values {
            for other in &values {
                let text = |value| {
                    let mut text = String::new();
                    push_canonical(value, &mut text);
                    text
                };
                assert_eq!(is_equal(one, other), text(one) == text(other), "{one} {other}");
            }
        }
    }
}
