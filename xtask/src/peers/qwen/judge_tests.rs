//! A right run of each generator is right, and each kind of wrong run is wrong.

use serde_json::{Value, json};

use super::super::super::program::FinishedRun;
use super::super::task::{Expected, Outcome, Task};
use super::super::tasks::GENERATORS;
use super::{Call, Seen, judge};

/// Returns a right run of a task.
fn right(task: &Task) -> Seen {
    let mut seen = Seen::default();
    let mut turn = 0;
    let mut call = |tool: &str, input: Value, output: Value, same_turn: bool| {
        turn += u32::from(!same_turn);
        seen.calls.push(Call { turn: format!("0/{turn}"), tool: tool.to_owned(), input, output });
    };
    for expected in &task.expected {
        match expected {
            Expected::Computes { operands, results, .. } => {
                // Two results have two operands each, or one and the result before.
                let texts: Vec<String> = operands.iter().map(ToString::to_string).collect();
                let expressions = match (results.len(), operands.len()) {
                    (2, 3) => vec![texts[..2].join(" + "), format!("{} * {}", results[0][0], texts[2])],
                    (2, 4) => vec![texts[..2].join(" + "), texts[2..].join(" + ")],
                    _ => vec![texts.join(" + ")],
                };
                for (at, (expression, result)) in expressions.iter().zip(results).enumerate() {
                    let same_turn = at > 0 && operands.len() == 4;
                    call("calculator", json!({ "expression": expression }), json!({"result": result[0]}), same_turn);
                }
            }
            Expected::Call { tool, input } => call(tool, input.clone(), json!({}), false),
            Expected::Draws { min, max } => call("random", json!({"min": min, "max": max}), json!({"numbers": [min + 1]}), false),
            Expected::Queries { table, values } => {
                let row: serde_json::Map<String, Value> =
                    values.iter().enumerate().map(|(at, value)| (at.to_string(), value.clone())).collect();
                call("query_data", json!({"sql": format!("SELECT * FROM {table}")}), json!({"rows": [row]}), false);
            }
            Expected::Writes { path, content } => call("write_file", json!({"path": path, "content": content}), json!({}), false),
            Expected::Delegates { agent, words } => {
                call(&format!("route_to_{agent}"), json!({"request": words.join(" ")}), json!({}), false);
            }
        }
    }
    call("handoff", json!({}), json!({}), false);
    seen.result = Some(match &task.outcome {
        Outcome::Result(result) => result.clone(),
        Outcome::Document { result, path, content } => {
            seen.documents.insert((*path).to_owned(), content.clone().into_bytes());
            result.clone()
        }
        Outcome::Drawn(key) => json!({*key: seen.calls[0].output["numbers"][0]}),
    });
    seen
}

/// Checks that every generator's right run is wrong after `change`, unless `change` returns false.
fn is_wrong_after(what: &str, change: impl Fn(&Task, &mut Seen) -> bool) {
    let mut tried = 0;
    for generator in &GENERATORS {
        let task = generator.task(3);
        let mut seen = right(&task);
        if change(&task, &mut seen) {
            tried += 1;
            assert!(!judge(&task, &seen).faults.is_empty(), "{}: {what}: {seen:?}", generator.name);
        }
    }
    assert!(tried > 0, "{what}");
}

/// Returns the first call of the run that is judged.
fn first(seen: &mut Seen) -> Option<&mut Call> {
    seen.calls.iter_mut().find(|call| call.tool != "handoff")
}

#[test]
fn a_right_run_is_right() {
    for generator in &GENERATORS {
        for seed in 1..=20 {
            let task = generator.task(seed);
            let judgement = judge(&task, &right(&task));
            assert_eq!((judgement.faults, judgement.wrong_calls), (vec![], 0), "{} {seed}", generator.name);
        }
    }
}

#[test]
fn a_wrong_run_is_wrong() {
    is_wrong_after("no result", |_, seen| {
        seen.result = None;
        true
    });
    is_wrong_after("another result", |_, seen| {
        let result = seen.result.as_mut().and_then(Value::as_object_mut).unwrap();
        let value = result.values_mut().next().unwrap();
        *value = value.as_f64().map_or(json!("another"), |number| json!(number + 1.0));
        true
    });
    is_wrong_after("the right result as another type", |_, seen| {
        let result = seen.result.as_mut().and_then(Value::as_object_mut).unwrap();
        let value = result.values_mut().next().unwrap();
        let is_number = value.is_number();
        *value = json!(value.to_string());
        is_number
    });
    is_wrong_after("a further key in the result", |_, seen| {
        seen.result.as_mut().unwrap()["note"] = json!("done");
        true
    });
    is_wrong_after("no call", |_, seen| {
        let calls = seen.calls.len();
        seen.calls.retain(|call| call.tool == "handoff");
        seen.calls.len() < calls
    });
    is_wrong_after("one call less", |_, seen| seen.calls.len() > 1 && !seen.calls.remove(0).tool.is_empty());
    is_wrong_after("another tool", |_, seen| first(seen).map(|call| "stop_and_think".clone_into(&mut call.tool)).is_some());
    is_wrong_after("a further call", |_, seen| {
        seen.calls.push(Call {
            turn: "0/9".to_owned(),
            tool: "echo".to_owned(),
            input: json!({"message": "?"}),
            output: json!({}),
        });
        true
    });
    is_wrong_after("another input", |_, seen| {
        first(seen).is_some_and(|call| {
            let key = call.input.as_object().unwrap().keys().next().unwrap().clone();
            let value = &mut call.input[key];
            *value = value.as_f64().map_or(json!("123456789"), |number| json!(number + 1.0));
            true
        })
    });
    is_wrong_after("another output", |task, seen| {
        let call = first(seen);
        let has_output = task
            .expected
            .iter()
            .any(|expected| !matches!(expected, Expected::Call { .. } | Expected::Writes { .. } | Expected::Delegates { .. }));
        call.is_some_and(|call| {
            call.output = json!({"result": -1, "numbers": [-1], "rows": []});
            has_output
        })
    });
    is_wrong_after("another text in the document", |_, seen| {
        seen.documents.values_mut().map(|content| content.push(b'\n')).count() > 0
    });
    is_wrong_after("no document", |_, seen| {
        let had_one = !seen.documents.is_empty();
        seen.documents.clear();
        had_one
    });
}

#[test]
fn the_turns_of_calculations_count() {
    let task = |name: &str| GENERATORS.iter().find(|generator| generator.name == name).unwrap().task(3);
    let two = task("two-sums");
    let mut seen = right(&two);
    "0/7".clone_into(&mut seen.calls[1].turn);
    assert_eq!(judge(&two, &seen).faults, ["the calculations are in different turns"]);
    let second = task("second-sum");
    let mut seen = right(&second);
    seen.calls[1].turn = seen.calls[0].turn.clone();
    assert_eq!(judge(&second, &seen).faults, ["1 of 2 calculations are right"]);
    let mut seen = right(&second);
    let Expected::Computes { operands, results, .. } = &second.expected[0] else { unreachable!() };
    let [a, b, c] = operands[..] else { unreachable!() };
    seen.calls[1].input["expression"] = json!(format!("({a} + {b}) * {c}"));
    assert_eq!(seen.calls[1].output["result"], json!(results[1][0]));
    assert_eq!(judge(&second, &seen).faults, ["1 of 2 calculations are right"]);
}

#[test]
fn only_executed_calls_that_succeeded_are_judged() {
    let row = |call: &str, status: &str, result_of: Value| {
        json!({
            "entry": "call_finished", "call": call, "tool": "echo", "input": {"message": call}, "data": {"result_of": result_of},
            "result": {"status": status, "output": {"echo": call}},
        })
    };
    let rows =
        [row("0/1.1", "success", Value::Null), row("0/2.1", "success", json!("0/1.1")), row("0/3.1", "failed", Value::Null)];
    let run = |exit, status: &str| FinishedRun {
        exit: Some(exit),
        report: json!({"status": status, "result": {"word": "candle"}}),
        stderr: String::new(),
        timeline: rows.to_vec(),
        findings: Vec::new(),
        documents: std::collections::BTreeMap::new(),
    };
    let seen = Seen::of(&run(0, "success"));
    let calls: Vec<_> = seen.calls.iter().map(|call| (call.turn.as_str(), call.tool.as_str(), &call.output["echo"])).collect();
    assert_eq!(calls, [("0/1", "echo", &json!("0/1.1"))]);
    assert_eq!(seen.result, Some(json!({"word": "candle"})));
    assert_eq!(Seen::of(&run(4, "failed")).result, None);
}
