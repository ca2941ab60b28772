//! The examples of the seeds, which `seeds.txt` lists by seed and line.
//!
//! An example is a header `== SEED:LINE OUTCOME`, its text, and completions `-- TEMPLATE -> VALUE`. As the seed prints it, a
//! template is no JSON and runs nothing.

use baton_types::call::{CallError, CallResult, CallStatus, ErrorCode};
use serde_json::Value;

use crate::{response_to, turn};

const EXAMPLES: &str = include_str!("seeds.txt");

/// Outcome of an example.
#[derive(Debug)]
enum Outcome {
    /// It is an answer with these calls, as `TOOL=ID`.
    Runs(String),
    /// It is a request of this call: an answer lists it.
    Item(String),
    /// It is a list of such requests.
    List(String),
    /// It is not exactly one answer: the model receives a reason.
    Teaches,
    /// It describes something else than an answer.
    Text,
    /// It is what a model receives.
    Response,
}

struct Example {
    /// Seed and line.
    place: &'static str,
    outcome: Outcome,
    raw: String,
    completed: String,
}

fn examples() -> Vec<Example> {
    EXAMPLES.split("\n== ").skip(1).map(example).collect()
}

fn example(text: &'static str) -> Example {
    let (head, body) = text.split_once('\n').unwrap();
    let (place, outcome) = head.split_once(' ').unwrap();
    let (outcome, calls) = outcome.split_once(' ').unwrap_or((outcome, ""));
    let calls = calls.to_owned();
    let outcome = match outcome {
        "runs" => Outcome::Runs(calls),
        "item" => Outcome::Item(calls),
        "list" => Outcome::List(calls),
        "teaches" => Outcome::Teaches,
        "text" => Outcome::Text,
        "response" => Outcome::Response,
        other => panic!("{place}: {other} is no outcome"),
    };
    let (completions, raw): (Vec<&str>, Vec<&str>) = body.lines().partition(|line| line.starts_with("-- "));
    let raw = raw.join("\n").trim().to_owned();
    let completed = completions.into_iter().fold(raw.clone(), |text, completion| {
        let (template, value) = completion["-- ".len()..].split_once(" -> ").unwrap();
        assert!(text.contains(template), "{place} has no {template}");
        text.replace(template, value)
    });
    Example { place, outcome, raw, completed }
}

/// Returns the calls of a text that execute, as `TOOL=ID` with the id that the text has; `None` if it teaches.
fn calls(text: &str) -> Option<String> {
    let turn = turn(text);
    let call = |call: &baton_types::call::ModelCall| {
        // The agent here has configurations of one tool. The machine refuses those of others.
        let is_granted = call.config_id.is_none() || call.tool == "openrouter";
        (call.malformed.is_none() && is_granted)
            .then(|| format!("{}={}", call.tool, call.provider_id.as_deref().unwrap_or_default()))
    };
    turn.calls.iter().map(call).collect::<Option<Vec<_>>>().map(|calls| calls.join(" "))
}

#[test]
fn the_examples_of_the_seeds_run_or_teach() {
    for Example { place, outcome, raw, completed } in examples() {
        let is_template = raw != completed;
        match outcome {
            Outcome::Runs(expected) => {
                assert_eq!(calls(&completed), Some(expected), "{place}");
                assert!(!is_template || calls(&raw).is_none(), "{place}: the template runs");
            }
            Outcome::Item(expected) => {
                assert_eq!(calls(&completed), None, "{place}: a request is no answer");
                assert_eq!(calls(&format!("{{\"tool_requests\": [{completed}]}}")), Some(expected), "{place}");
            }
            Outcome::List(expected) => {
                assert_eq!(calls(&raw), None, "{place}: the template runs");
                assert_eq!(calls(&completed), None, "{place}: a list is no answer");
                assert_eq!(calls(&format!("{{\"tool_requests\": {completed}}}")), Some(expected), "{place}");
            }
            Outcome::Teaches => {
                assert_eq!(calls(&raw), None, "{place}");
                assert_eq!(calls(&completed), None, "{place}");
            }
            Outcome::Text => {
                assert_eq!(turn(&raw).text, raw, "{place}");
                assert_eq!(turn(&completed).text, completed, "{place}");
            }
            Outcome::Response => {
                let expected: Value = serde_json::from_str(&completed).unwrap_or_else(|error| panic!("{place}: {error}"));
                let ours = rendered(&expected);
                // An example may be a whole response, or its context.
                let part = if expected.get("context").is_some() { &ours } else { &ours["context"] };
                assert!(has_all_of(part, &expected), "{place}: {part} has not all of {expected}");
            }
        }
    }
}

#[test]
fn every_kind_of_example_is_there() {
    let count = |is_kind: fn(&Outcome) -> bool| examples().iter().filter(|example| is_kind(&example.outcome)).count();
    let runs = count(|outcome| matches!(outcome, Outcome::Runs(_)));
    let requests = count(|outcome| matches!(outcome, Outcome::Item(_) | Outcome::List(_)));
    let teaches = count(|outcome| matches!(outcome, Outcome::Teaches));
    let responses = count(|outcome| matches!(outcome, Outcome::Response));
    let others = count(|outcome| matches!(outcome, Outcome::Text));
    assert_eq!((runs, requests, teaches, responses, others), (23, 6, 6, 7, 2));
}

/// Returns our response to the call that a response of a seed answers.
fn rendered(expected: &Value) -> Value {
    let context = expected.get("context").unwrap_or(expected);
    let text = |key: &str, default: &'static str| context[key].as_str().unwrap_or(default).to_owned();
    let result = match context["status"].as_str().unwrap() {
        "success" => CallResult::success(context["output"].clone()),
        _ => CallResult::error(CallStatus::Failed, CallError::new(ErrorCode::InvalidInput, text("error", ""))),
    };
    let ours = response_to(&text("tool", "calculator"), &text("request_id", "calc-001"), result);
    let keys: Vec<&String> = ours["context"].as_object().unwrap().keys().collect();
    let known = ["request_id", "tool", "status", "output", "error"];
    assert!(keys.iter().all(|key| known.contains(&key.as_str())), "{keys:?} are more than the seeds have");
    ours
}

/// Whether `ours` has every key and value of `theirs`.
fn has_all_of(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let has = |(key, value): (&String, &Value)| ours.get(key).is_some_and(|ours| has_all_of(ours, value));
            theirs.iter().all(has)
        }
        _ => ours == theirs,
    }
}
