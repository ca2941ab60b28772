//! `calculator`: the value of an arithmetic expression.

use baton_macros::tool;
use baton_tool::{ToolContext, ToolError, ToolErrorKind};
use serde::Serialize;
use serde_json::Number;

use super::expression::evaluate;
use super::number;
use super::random::Chance;

/// Output of `calculator`.
#[derive(Debug, Serialize)]
struct Calculated {
    result: Option<Number>,
    expression: String,
    formatted: String,
}

/// Evaluates `expression`.
#[tool]
fn calculator(context: &ToolContext, expression: String) -> Result<Calculated, ToolError> {
    let mut chance = Chance::of(context.call());
    let value = evaluate(&expression, &mut || chance.unit()).map_err(|reason| {
        ToolError::new(format!("Failed to evaluate expression: {reason}")).of_kind(ToolErrorKind::InvalidInput)
    })?;
    // `0 * -1` is 0 to a reader.
    let value = if value == 0.0 { 0.0 } else { value };
    Ok(Calculated { result: number(value), formatted: format!("{expression} = {}", written(value)), expression })
}

/// Returns a number as text: a whole number without decimals, any other number with up to ten decimals. Very large and very
/// small numbers are in scientific notation.
fn written(value: f64) -> String {
    if value != 0.0 && (value.abs() >= 1e21 || value.abs() < 5e-11) {
        return format!("{value:e}");
    }
    if value.fract() == 0.0 {
        return format!("{value:.0}");
    }
    format!("{value:.10}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn calculate(expression: &str) -> Result<serde_json::Value, ToolError> {
        let context = ToolContext::for_test().build();
        calculator(&context, expression.to_owned()).map(|output| json!(output))
    }

    #[test]
    fn the_result_is_a_number_and_a_sentence() {
        assert_eq!(calculate("2^3").unwrap(), json!({"result": 8, "expression": "2^3", "formatted": "2^3 = 8"}));
        assert_eq!(calculate("10 / 4").unwrap(), json!({"result": 2.5, "expression": "10 / 4", "formatted": "10 / 4 = 2.5"}));
        assert_eq!(calculate("0.1 + 0.2").unwrap()["formatted"], "0.1 + 0.2 = 0.3");
        assert_eq!(calculate("1 / 3").unwrap()["formatted"], "1 / 3 = 0.3333333333");
        assert_eq!(calculate("0 * -1").unwrap()["result"], json!(0));
        assert_eq!(calculate("2^70").unwrap()["formatted"], "2^70 = 1.1805916207174113e21");
        assert_eq!(calculate("1e-12").unwrap()["formatted"], "1e-12 = 1e-12");
    }

    #[test]
    fn every_failure_says_what_failed() {
        assert_eq!(
            calculate("1/0").unwrap_err().message,
            "Failed to evaluate expression: Expression did not evaluate to a valid number"
        );
        assert!(calculate("2 +").unwrap_err().message.starts_with("Failed to evaluate expression: the expression ends"));
    }

    #[test]
    fn chance_is_fixed_by_the_call() {
        let first = calculate("random()").unwrap();
        assert_eq!(first, calculate("random()").unwrap());
        assert_ne!(calculate("random() - random()").unwrap()["result"], json!(0));
    }
}
