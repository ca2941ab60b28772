//! One call of a tool, or none.

use serde_json::{Value, json};

use super::super::chance::Chance;
use super::super::task::{Agents, Expected, Outcome, Task};
use super::{WORDS, result_schema};

/// Countries and their capitals.
const CAPITALS: [&str; 6] = ["France Paris", "Italy Rome", "Japan Tokyo", "Spain Madrid", "Egypt Cairo", "Norway Oslo"];

/// Asks for a word that comes back.
pub(super) fn echo(chance: &mut Chance) -> Task {
    let word = chance.pick(&WORDS);
    Task {
        request: format!(
            "Send the word \"{word}\" to echo. Then call handoff with {{\"result\": {{\"word\": TEXT}}}} with the word that came back."
        ),
        schema: result_schema(&[("word", "string")]),
        expected: vec![Expected::Call { tool: "echo", input: json!({ "message": word }) }],
        ..base(json!({ "word": word }))
    }
}

/// Asks for a number between two bounds.
pub(super) fn random(chance: &mut Chance) -> Task {
    let (min, span) = (chance.between(1, 40), chance.between(20, 60));
    let max = min + span;
    Task {
        request: format!(
            "Draw a random whole number from {min} to {max}. Then call handoff with {{\"result\": {{\"number\": NUMBER}}}} with the number drawn."
        ),
        schema: result_schema(&[("number", "integer")]),
        expected: vec![Expected::Draws { min, max }],
        outcome: Outcome::Drawn("number"),
        ..base(Value::Null)
    }
}

/// Asks for a wait of one second.
pub(super) fn wait(_: &mut Chance) -> Task {
    Task {
        request: "Wait 1 second with timer. Then call handoff with {\"result\": {\"waited\": NUMBER}} with the seconds that you waited.".to_owned(),
        schema: result_schema(&[("waited", "number")]),
        expected: vec![Expected::Call { tool: "timer", input: json!({"seconds": 1}) }],
        ..base(json!({"waited": 1}))
    }
}

/// Asks for an answer that needs no tool. A right run calls none.
pub(super) fn no_tool(chance: &mut Chance) -> Task {
    let (country, capital) = chance.pick(&CAPITALS).split_once(' ').expect("a country and its capital");
    Task {
        request: format!(
            "What is the capital of {country}? You know it and need no other tool: call handoff with {{\"result\": {{\"answer\": TEXT}}}} with its English name \
             at once."
        ),
        schema: result_schema(&[("answer", "string")]),
        ..base(json!({ "answer": capital }))
    }
}

/// Asks for a value in JSON that the request holds.
pub(super) fn json_value(chance: &mut Chance) -> Task {
    let names = chance.some(&WORDS, 3);
    let (port, other) = (chance.between(1_000, 9_999), chance.between(1_000, 9_999));
    let (one, two) = (names[0], names[1]);
    let data = json!({one: {"owner": names[2], "port": port}, two: {"port": other}});
    let path = format!("{one}.port");
    Task {
        request: format!(
            "Use json-transform with the operation extract and the path {path} on the data {data}. Then call handoff with {{\"result\": {{\"answer\": NUMBER}}}} \
             with the value."
        ),
        agents: Agents::Json,
        schema: result_schema(&[("answer", "number")]),
        expected: vec![Expected::Call {
            tool: "json-transform",
            input: json!({"data": data, "operation": "extract", "path": path}),
        }],
        ..base(json!({ "answer": port }))
    }
}

/// Returns a task without a request and calls.
fn base(result: Value) -> Task {
    Task {
        request: String::new(),
        documents: Vec::new(),
        agents: Agents::Basics,
        schema: Value::Null,
        expected: Vec::new(),
        outcome: Outcome::Result(result),
    }
}
