//! Calculations.

use serde_json::json;

use super::super::chance::Chance;
use super::super::task::{Agents, Expected, Outcome, Task, Turns};
use super::result_schema;

/// Numbers of every calculation that are not operands: factors of percentages and rounding.
const CONSTANTS: &[f64] = &[1.0, 2.0, 10.0, 100.0];

/// Asks for `a * b + c`.
pub(super) fn product_plus(chance: &mut Chance) -> Task {
    let (a, b, c) = (chance.between(13, 99), chance.between(13, 99), chance.between(100, 999));
    answer(format!("What is {a} * {b} + {c}?"), &[a, b, c], &[], &[f64::from(a * b + c)])
}

/// Asks for growth in percent, a whole number.
pub(super) fn growth(chance: &mut Chance) -> Task {
    let (hundreds, percent) = (chance.between(2, 9), chance.between(3, 60));
    let (from, to) = (100 * hundreds, (100 + percent) * hundreds);
    let request = format!("Sales rose from {from} to {to}. By how many percent did they grow?");
    answer(request, &[from, to], CONSTANTS, &[f64::from(percent)])
}

/// Asks for a square root, rounded to two decimals.
pub(super) fn rounded_root(chance: &mut Chance) -> Task {
    // Between two squares, so that the root is never whole.
    let below = chance.between(5, 40);
    let number = below * below + chance.between(1, 2 * below);
    let root = f64::from(number).sqrt();
    let rounded = (root * 100.0).round() / 100.0;
    answer(format!("What is the square root of {number}, rounded to two decimals?"), &[number], CONSTANTS, &[rounded, root])
}

/// Asks for `((a + b) * c - d) / e`, a whole number.
pub(super) fn parentheses(chance: &mut Chance) -> Task {
    let (first, second) = (chance.between(11, 60), chance.between(11, 60));
    let (factor, divisor) = (chance.between(3, 19), chance.between(3, 9));
    let product = (first + second) * factor;
    let less = divisor + product % divisor;
    let question = format!("What is (({first} + {second}) * {factor} - {less}) / {divisor}?");
    answer(question, &[first, second, factor, less, divisor], &[], &[f64::from((product - less) / divisor)])
}

/// Asks for a sum, and a product of this sum in a second calculation.
pub(super) fn second_sum(chance: &mut Chance) -> Task {
    let (a, b, c) = (chance.between(100, 999), chance.between(100, 999), chance.between(3, 29));
    let results = vec![vec![f64::from(a + b)], vec![f64::from((a + b) * c)]];
    Task {
        request: format!(
            "First compute {a} + {b} with calculator and wait for the sum. Then multiply this sum by {c} with a second call of \
             calculator. Call handoff with {{\"result\": {{\"answer\": NUMBER}}}} with the product."
        ),
        expected: vec![computes(&[a, b, c], &[], results, Turns::Successive)],
        ..base(f64::from((a + b) * c))
    }
}

/// Asks for two independent sums whose calls are in one turn.
pub(super) fn two_sums(chance: &mut Chance) -> Task {
    let [a, b, c, d] = [(); 4].map(|()| chance.between(100, 999));
    let (first, second) = (f64::from(a + b), f64::from(c + d));
    Task {
        request: format!(
            "Compute {a} + {b} and {c} + {d}: two calls of calculator in one answer. Then call handoff with {{\"result\": {{\"first\": NUMBER, \"second\": \
             NUMBER}}}} with the two sums."
        ),
        schema: result_schema(&[("first", "number"), ("second", "number")]),
        expected: vec![computes(&[a, b, c, d], &[], vec![vec![first], vec![second]], Turns::One)],
        outcome: Outcome::Result(json!({"first": first, "second": second})),
        ..base(0.0)
    }
}

/// Asks for a sum that another agent computes.
pub(super) fn delegated(chance: &mut Chance) -> Task {
    let (a, b) = (chance.between(1_000, 9_999), chance.between(1_000, 9_999));
    let sum = f64::from(a + b);
    let words = vec![a.to_string(), b.to_string()];
    Task {
        request: format!(
            "Let the agent adder add {a} and {b}. Then call handoff with {{\"result\": {{\"answer\": NUMBER}}}} with its sum."
        ),
        agents: Agents::Adder,
        expected: vec![computes(&[a, b], &[], vec![vec![sum]], Turns::Any), Expected::Delegates { agent: "adder", words }],
        ..base(sum)
    }
}

/// Returns a task with one question whose answer is the first of `results`. A right run calculates one of them.
fn answer(question: String, operands: &[u32], constants: &'static [f64], results: &[f64]) -> Task {
    Task {
        request: format!("{question} Use calculator, then call handoff with {{\"result\": {{\"answer\": NUMBER}}}}."),
        expected: vec![computes(operands, constants, vec![results.to_vec()], Turns::Any)],
        ..base(results[0])
    }
}

fn computes(operands: &[u32], constants: &'static [f64], results: Vec<Vec<f64>>, turns: Turns) -> Expected {
    Expected::Computes { operands: operands.iter().map(|number| f64::from(*number)).collect(), constants, results, turns }
}

/// Returns a task without a request whose result is one number.
fn base(number: f64) -> Task {
    Task {
        request: String::new(),
        documents: Vec::new(),
        agents: Agents::Basics,
        schema: result_schema(&[("answer", "number")]),
        expected: Vec::new(),
        outcome: Outcome::Result(json!({ "answer": number })),
    }
}
