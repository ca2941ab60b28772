//! Judges a run by its timeline and its result: the calls that the task needs, with their inputs, and exactly its result.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::program::FinishedRun;
use super::task::{Expected, Outcome, Task, Turns};

/// Tools whose calls are judged by the result of the run alone.
const NEUTRAL: [&str; 2] = ["handoff", "describe_tools"];

/// A call that was executed, and succeeded.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// Its task and turn, such as `0/1.1/2`.
    pub(super) turn: String,
    pub(super) tool: String,
    pub(super) input: Value,
    pub(super) output: Value,
}

/// The acts of a run: its calls, its result and its documents.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Calls that succeeded, in the order of their ends.
    pub(super) calls: Vec<Call>,
    /// The result; `None` if the run did not end in success.
    pub(super) result: Option<Value>,
    /// Documents of the result: paths and contents.
    pub(super) documents: BTreeMap<String, Vec<u8>>,
}

/// The judgement of a run.
#[derive(Debug, Default)]
pub(super) struct Judgement {
    /// Reasons why the run is wrong; none for a right run.
    pub(super) faults: Vec<String>,
    /// Number of calls that were executed although the task does not need them.
    pub(super) wrong_calls: usize,
}

impl Seen {
    /// Reads the acts of a finished run.
    pub(super) fn of(run: &FinishedRun) -> Self {
        // A repeated request gets the stored result of the first: nothing is executed.
        let is_executed = |row: &&Value| row["result"]["status"] == "success" && row["data"]["result_of"].is_null();
        let finished = run.entries("call_finished").filter(is_executed);
        let calls = finished.map(|row| {
            let id = row["call"].as_str().unwrap_or_default();
            Call {
                turn: id.rsplit_once('.').map_or(id, |(turn, _)| turn).to_owned(),
                tool: row["tool"].as_str().unwrap_or_default().to_owned(),
                input: row["input"].clone(),
                output: row["result"]["output"].clone(),
            }
        });
        let result = (run.exit == Some(0) && run.report["status"] == "success").then(|| run.report["result"].clone());
        Self { calls: calls.collect(), result, documents: run.documents.clone() }
    }
}

/// Judges a run of `task`.
pub(super) fn judge(task: &Task, seen: &Seen) -> Judgement {
    let mut judgement = Judgement::default();
    let mut needed = vec![false; seen.calls.len()];
    for expected in &task.expected {
        let (calls, fault) = expected.needed(&seen.calls);
        for at in calls {
            needed[at] = true;
        }
        judgement.faults.extend(fault);
    }
    for (call, _) in seen.calls.iter().zip(needed).filter(|(call, needed)| !needed && !NEUTRAL.contains(&call.tool.as_str())) {
        judgement.wrong_calls += 1;
        judgement.faults.push(format!("{} was called with {}", call.tool, call.input));
    }
    judgement.faults.extend(task.outcome.fault(seen));
    judgement
}

impl Expected {
    /// Returns the places of the calls that this needs or allows, and the fault if calls are missing.
    fn needed(&self, calls: &[Call]) -> (Vec<usize>, Option<String>) {
        let of_tool = |tool: &str| calls.iter().enumerate().filter(|(_, call)| call.tool == tool).collect::<Vec<_>>();
        let one = |found: Vec<usize>, what: String| match found[..] {
            [_] => (found, None),
            _ => (Vec::new(), Some(format!("{what}: {} calls instead of one", found.len()))),
        };
        match self {
            Self::Computes { operands, constants, results, turns } => {
                computed(&of_tool("calculator"), operands, constants, results, *turns)
            }
            Self::Call { tool, input } => {
                let found = of_tool(tool).into_iter().filter(|(_, call)| equal(&call.input, input)).map(|(at, _)| at);
                one(found.collect(), format!("{tool} with {input}"))
            }
            Self::Draws { min, max } => {
                let is_draw = |input: &Value| {
                    input["min"] == *min && input["max"] == *max && (input["count"].is_null() || input["count"] == 1)
                };
                let found = of_tool("random").into_iter().filter(|(_, call)| is_draw(&call.input)).map(|(at, _)| at);
                one(found.collect(), format!("random from {min} to {max}"))
            }
            Self::Queries { table, values } => {
                let queries: Vec<_> = of_tool("query_data")
                    .into_iter()
                    .filter(|(_, call)| call.input["sql"].as_str().is_some_and(|sql| sql.contains(table)))
                    .collect();
                let allowed = queries.iter().map(|(at, _)| *at).collect();
                let has_values = |call: &Call| match call.output["rows"].as_array().map(Vec::as_slice) {
                    Some([Value::Object(row)]) => values.iter().all(|value| row.values().any(|cell| equal(cell, value))),
                    _ => false,
                };
                let is_missing = !queries.iter().any(|(_, call)| has_values(call));
                let fault = || format!("no query of {table} returned one row with {}", Value::from(values.clone()));
                (allowed, is_missing.then(fault))
            }
            Self::Writes { path, content } => {
                let reads = of_tool("load_to_context").into_iter().filter(|(_, call)| call.input["path"] == *path);
                let mut allowed: Vec<usize> = reads.map(|(at, _)| at).collect();
                let writes = of_tool("write_file")
                    .into_iter()
                    .filter(|(_, call)| call.input["path"] == *path && call.input["content"] == **content);
                let (write, fault) = one(writes.map(|(at, _)| at).collect(), format!("write_file of {path} with the right text"));
                allowed.extend(write);
                (allowed, fault)
            }
            Self::Delegates { agent, words } => {
                let has_words = |call: &Call| {
                    words.iter().all(|word| call.input["request"].as_str().is_some_and(|request| request.contains(word)))
                };
                let found =
                    of_tool(&format!("route_to_{agent}")).into_iter().filter(|(_, call)| has_words(call)).map(|(at, _)| at);
                one(found.collect(), format!("a delegation to {agent} with {}", words.join(", ")))
            }
        }
    }
}

/// Judges calculations: see [`Expected::Computes`].
fn computed(
    calls: &[(usize, &Call)],
    operands: &[f64],
    constants: &[f64],
    results: &[Vec<f64>],
    turns: Turns,
) -> (Vec<usize>, Option<String>) {
    let mut known: Vec<f64> = [operands, constants].concat();
    let (mut allowed, mut used) = (Vec::new(), Vec::new());
    let mut steps: Vec<Option<&Call>> = vec![None; results.len()];
    for (at, call) in calls {
        let numbers = numbers(call.input["expression"].as_str().unwrap_or_default());
        let is_known = |number: &f64| known.iter().any(|known| near(*number, *known));
        if numbers.is_empty() || !numbers.iter().all(is_known) {
            continue;
        }
        allowed.push(*at);
        let result = call.output["result"].as_f64().unwrap_or(f64::NAN);
        let step = (0..results.len())
            .find(|step| steps[*step].is_none() && results[*step].iter().any(|expected| near(result, *expected)))
            .filter(|step| turns != Turns::Successive || *step == 0 || follows(steps[*step - 1], call, &numbers));
        if let Some(step) = step {
            steps[step] = Some(call);
        }
        used.extend(numbers);
        known.push(result);
    }
    let found: Vec<&Call> = steps.into_iter().flatten().collect();
    let fault = if found.len() < results.len() {
        format!("{} of {} calculations are right", found.len(), results.len())
    } else if let Some(operand) = operands.iter().find(|operand| !used.iter().any(|number| near(*number, **operand))) {
        format!("no calculation has the number {operand}")
    } else if turns == Turns::One && found.iter().any(|call| call.turn != found[0].turn) {
        "the calculations are in different turns".to_owned()
    } else {
        return (allowed, None);
    };
    (allowed, Some(fault))
}

/// Whether `call` was made after `before`, with its result among the numbers of its expression.
fn follows(before: Option<&Call>, call: &Call, numbers: &[f64]) -> bool {
    before.is_some_and(|before| {
        let result = before.output["result"].as_f64().unwrap_or(f64::NAN);
        before.turn != call.turn && numbers.iter().any(|number| near(*number, result))
    })
}

impl Outcome {
    /// Returns the fault of the result of a run.
    fn fault(&self, seen: &Seen) -> Option<String> {
        let result = seen.result.as_ref().ok_or_else(|| "the run has no result".to_owned());
        let expected = match self {
            Self::Result(expected) | Self::Document { result: expected, .. } => expected.clone(),
            Self::Drawn(key) => {
                let drawn = seen.calls.iter().find(|call| call.tool == "random").map(|call| call.output["numbers"][0].clone());
                serde_json::json!({ *key: drawn })
            }
        };
        match result {
            Err(fault) => return Some(fault),
            Ok(result) if !equal(result, &expected) => return Some(format!("the result is {result} instead of {expected}")),
            Ok(_) => {}
        }
        match self {
            Self::Document { path, content, .. } if seen.documents.get(*path).map(Vec::as_slice) != Some(content.as_bytes()) => {
                Some(format!("{path} was not handed off with the right text"))
            }
            _ => None,
        }
    }
}

/// Whether two values are equal; numbers may differ in their form and in their last digits.
fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            matches!((one.as_f64(), other.as_f64()), (Some(one), Some(other)) if near(one, other))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len() && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| equal(value, other)))
        }
        _ => one == other,
    }
}

/// Whether two numbers differ at most by an error of calculation.
fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(other.abs()).max(1.0)
}

/// Returns the numbers in an expression.
fn numbers(expression: &str) -> Vec<f64> {
    let parts = expression.split(|each: char| !each.is_ascii_digit() && each != '.');
    parts.filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
