use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use baton_tool::testing::block_on;
use baton_types::call::{CallError, ErrorCode};

use super::*;

/// Runs a workflow whose tools return what `tool` does, at once.
fn run(input: Value, tool: impl Fn(&ModelCall) -> CallResult + Send + Sync + 'static) -> Result<Value, ToolError> {
    run_slowly(input, move |asked, _| Some(tool(asked)))
}

/// Runs a workflow whose tools return what `tool` does, at the poll at which it gives something.
fn run_slowly(
    input: Value,
    tool: impl Fn(&ModelCall, u32) -> Option<CallResult> + Send + Sync + 'static,
) -> Result<Value, ToolError> {
    #[derive(Deserialize)]
    #[expect(non_snake_case, reason = "seed 000 names the parameters so")]
    struct Input {
        steps: Vec<Step>,
        returnStep: Option<String>,
        continueOnError: Option<bool>,
    }
    let Input { steps, returnStep, continueOnError } = serde_json::from_value(input).unwrap();
    let context = ToolContext::for_test().with_slow_calls(tool).build();
    let output = block_on(workflow(&context, steps, returnStep, continueOnError))?;
    Ok(serde_json::to_value(output).unwrap())
}

/// Tools of the seeds: `random` gives 7, `calculator` its expression, `fail` fails.
fn tool(asked: &ModelCall) -> CallResult {
    let input = asked.input.value();
    match asked.tool.as_str() {
        "random" => CallResult::success(json!({"numbers": [7]})),
        "calculator" => CallResult::success(json!({"result": input["expression"]})),
        "echo" => CallResult::success(json!({"echo": input["message"]})),
        _ => CallResult::error(CallStatus::Failed, CallError::new(ErrorCode::ToolFailed, "boom")),
    }
}

#[test]
fn the_examples_of_the_seeds_run() {
    let pattern_4 = json!({"steps": [
        {"id": "step1", "tool": "random", "input": {}},
        {"id": "step2", "tool": "calculator", "input": {"expression": "${step1.numbers[0]} + 5"}, "dependencies": ["step1"]}
    ]});
    let expected = json!({
        "results": {"step1": {"numbers": [7]}, "step2": {"result": "7 + 5"}},
        "executionOrder": ["step1", "step2"],
        "errors": {}
    });
    assert_eq!(run(pattern_4, tool).unwrap(), expected);
    let sum = json!({"steps": [
        {"id": "num1", "tool": "random", "input": {"min": 1, "max": 100}},
        {"id": "num2", "tool": "random", "input": {"min": 1, "max": 100}},
        {"id": "sum", "tool": "calculator", "input": {"expression": "${num1.numbers[0]} + ${num2.numbers[0]}"},
         "dependencies": ["num1", "num2"]}
    ]});
    let output = run(sum, tool).unwrap();
    assert_eq!(output["results"]["sum"], json!({"result": "7 + 7"}));
    assert_eq!(output["executionOrder"][2], "sum");
}

#[test]
fn a_reference_is_a_dependency_and_one_step_may_be_the_output() {
    let steps = json!([
        {"id": "last", "tool": "echo", "input": {"message": "${first.echo}"}},
        {"id": "first", "tool": "echo", "input": {"message": {"n": [1, 2]}}}
    ]);
    let output = run(json!({"steps": steps}), tool).unwrap();
    assert_eq!(output["executionOrder"], json!(["first", "last"]));
    assert_eq!(run(json!({"steps": steps, "returnStep": "last"}), tool).unwrap(), json!({"echo": {"n": [1, 2]}}));
}

#[test]
fn each_fault_is_reported_before_the_first_call() {
    let step = |id: &str, needs: &[&str]| json!({"id": id, "tool": "echo", "dependencies": needs});
    let reads = |text: &str| json!([{"id": "a", "tool": "echo", "input": {"message": text}}]);
    let steps = [
        (json!([step("a", &[]), step("a", &[])]), "two steps have the id \"a\""),
        (json!([step("a", &["b"])]), "step \"a\": it depends on \"b\", and there is no such step"),
        (reads("${b.x}"), "step \"a\": it reads ${b.x}, and there is no such step; for a text write $${b.x}"),
        (reads("${b..x}"), "step \"a\": ${b..x} cannot be read as a reference; write ${step.field[0]}, or $${ for a text"),
        (json!([step("x", &["b"]), step("b", &["c"]), step("c", &["b"])]), "steps wait for each other: b needs c needs b"),
        (reads("${a.x}"), "steps wait for each other: a needs a"),
        (json!([step("a.b", &[])]), "a step cannot have the id \"a.b\"; use 1 to 64 letters of ASCII, digits, '_' or '-'"),
        (json!([step("a b", &[])]), "a step cannot have the id \"a b\"; use 1 to 64 letters of ASCII, digits, '_' or '-'"),
    ];
    for (steps, expected) in steps {
        let error = run(json!({"steps": steps, "continueOnError": true}), |_| panic!("nothing is called")).unwrap_err();
        assert_eq!((error.message.as_str(), error.kind), (expected, ToolErrorKind::InvalidInput));
    }
    let error = run(json!({"steps": [step("a", &[])], "returnStep": "z"}), |_| panic!("nothing is called")).unwrap_err();
    assert_eq!(error.message, "returnStep: there is no step \"z\"");
}

#[test]
fn the_first_failure_ends_the_workflow_or_skips_what_depends_on_it() {
    let steps = json!([
        {"id": "bad", "tool": "fail"},
        {"id": "after", "tool": "echo", "input": {"message": "${bad.x}"}},
        {"id": "later", "tool": "echo", "input": {"message": "x"}, "dependencies": ["after"]},
        {"id": "other", "tool": "echo", "input": {"message": "y"}},
        {"id": "missing", "tool": "echo", "input": {"message": "${other.no}"}}
    ]);
    let error = run(json!({"steps": steps}), tool).unwrap_err();
    assert_eq!(error.message, "step \"bad\" failed: boom");
    let output = run(json!({"steps": steps, "continueOnError": true}), tool).unwrap();
    assert_eq!(output["results"], json!({"other": {"echo": "y"}}));
    assert_eq!(output["errors"]["after"], "skipped: step \"bad\" failed");
    assert_eq!(output["errors"]["later"], "skipped: step \"bad\" failed");
    assert!(
        output["errors"]["missing"].as_str().unwrap().starts_with("${other.no} is not in the output of step \"other\": it is")
    );
    let run_steps: BTreeSet<&str> = output["executionOrder"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(run_steps, BTreeSet::from(["bad", "other"]), "what was skipped did not run");
    let wanted = run(json!({"steps": steps, "continueOnError": true, "returnStep": "after"}), tool).unwrap_err();
    assert_eq!(wanted.message, "step \"after\" gave no output: skipped: step \"bad\" failed");
}

#[test]
fn the_error_of_a_workflow_has_the_outputs_of_the_steps_that_succeeded() {
    let failing = |message: &str| {
        let done = json!({"id": "done", "tool": "echo", "input": {"message": message}});
        let steps = json!([done, {"id": "bad", "tool": "fail", "dependencies": ["done"]}]);
        run(json!({"steps": steps}), tool).unwrap_err().detail.value()
    };
    let expected = json!({"step": "bad", "executionOrder": ["done", "bad"], "results": {"done": {"echo": "x"}}});
    assert_eq!(failing("x"), expected);
    let expected = json!({"step": "bad", "executionOrder": ["done", "bad"], "succeeded": ["done"]});
    assert_eq!(failing(&"x".repeat(20_000)), expected);
}

/// A generator for tests (xorshift of Marsaglia).
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % most as u64).unwrap()
    }
}

/// A step of a random workflow: the steps that it reads, those that it only waits for, and whether it fails.
struct Drawn {
    reads: Vec<usize>,
    waits: Vec<usize>,
    fails: bool,
}

fn drawn(chance: &mut Chance) -> Vec<Drawn> {
    let count = 1 + chance.below(200);
    let step = |index: usize| {
        let mut some = |most: usize| -> Vec<usize> {
            if index == 0 { Vec::new() } else { (0..chance.below(most)).map(|_| chance.below(index)).collect() }
        };
        let (reads, waits) = (some(4), some(3));
        Drawn { reads, waits, fails: chance.below(40) == 0 }
    };
    (0..count).map(step).collect()
}

/// Evaluates the steps in the order in which they were drawn: every step comes after those that it needs.
fn reference(steps: &[Drawn]) -> (Map<String, Value>, BTreeSet<String>) {
    let (mut results, mut errors) = (Map::new(), BTreeSet::new());
    for (index, step) in steps.iter().enumerate() {
        let id = format!("s{index}");
        let needs = step.reads.iter().chain(&step.waits).map(|need| format!("s{need}"));
        if step.fails || needs.clone().any(|need| errors.contains(&need)) {
            errors.insert(id);
            continue;
        }
        let sum: u64 = step.reads.iter().map(|need| results[&format!("s{need}")]["n"].as_u64().unwrap()).sum();
        results.insert(id, json!({"n": (sum + index as u64) % 1_000_003}));
    }
    (results, errors)
}

/// The progress of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Happened {
    Began,
    /// It was in progress when it was polled.
    WasPolled,
    Ended,
}

/// The progress of the calls of steps, in order.
type Log = Arc<Mutex<Vec<(usize, Happened)>>>;

/// Checks that each step began after those that it needs, and before any call in progress then was polled a second time.
fn check_starts(drawn: &[Drawn], log: &[(usize, Happened)]) {
    let mut ends: Vec<Option<usize>> = vec![None; drawn.len()];
    for (at, (step, happened)) in log.iter().enumerate() {
        match happened {
            Happened::Began => {
                let needs = drawn[*step].reads.iter().chain(&drawn[*step].waits);
                let ends = needs.map(|need| ends[*need].expect("a step begins after those that it needs"));
                let ready = ends.max().map_or(0, |end| end + 1);
                let mut polled = BTreeSet::new();
                for (other, happened) in &log[ready..at] {
                    assert!(*happened != Happened::WasPolled || polled.insert(*other), "s{step} waited, and s{other} went on");
                }
            }
            Happened::WasPolled => {}
            Happened::Ended => ends[*step] = Some(at),
        }
    }
}

#[test]
fn a_thousand_random_workflows_equal_a_reference_evaluation() {
    let mut chance = Chance(0x5eed_0000_0001);
    let mut overlapping = 0;
    for _ in 0..1_000 {
        let drawn = drawn(&mut chance);
        // Without any, every call ends at its first poll.
        let most_polls = [1, 2, 40][chance.below(3)];
        let polls: Vec<usize> = drawn.iter().map(|_| chance.below(most_polls)).collect();
        let mut steps: Vec<Value> = drawn
            .iter()
            .enumerate()
            .map(|(index, step)| {
                let add = step.reads.iter().map(|need| json!(format!("${{s{need}.n}}"))).chain([json!(index)]);
                let waits: Vec<String> = step.waits.iter().map(|need| format!("s{need}")).collect();
                let tool = if step.fails { "fail" } else { "add" };
                json!({"id": format!("s{index}"), "tool": tool, "input": {"add": add.collect::<Vec<_>>()}, "dependencies": waits})
            })
            .collect();
        for index in 0..steps.len() {
            let other = chance.below(steps.len());
            steps.swap(index, other);
        }
        let log = Log::default();
        let add = {
            let log = Arc::clone(&log);
            move |asked: &ModelCall, poll: u32| {
                let input = asked.input.value();
                let numbers: Vec<u64> = input["add"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|number| number.as_u64().expect("numbers stay numbers"))
                    .collect();
                let step = usize::try_from(*numbers.last().unwrap()).unwrap();
                let mut log = log.lock().unwrap();
                log.extend((poll == 0).then_some((step, Happened::Began)));
                if (poll as usize) < polls[step] {
                    log.extend((poll > 0).then_some((step, Happened::WasPolled)));
                    return None;
                }
                log.push((step, Happened::Ended));
                Some(match asked.tool.as_str() {
                    "fail" => CallResult::error(CallStatus::Failed, CallError::new(ErrorCode::ToolFailed, "as drawn")),
                    _ => CallResult::success(json!({"n": numbers.iter().sum::<u64>() % 1_000_003})),
                })
            }
        };
        let output = run_slowly(json!({"steps": steps, "continueOnError": true}), add).unwrap();
        let (results, errors) = reference(&drawn);
        assert_eq!(output["results"].as_object().unwrap().len(), results.len());
        assert!(results.iter().all(|(id, result)| output["results"][id] == *result));
        let failed: BTreeSet<String> = output["errors"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(failed, errors);
        let log = std::mem::take(&mut *log.lock().unwrap());
        let ended = log.iter().filter(|(_, happened)| *happened == Happened::Ended);
        let ended: Vec<String> = ended.map(|(step, _)| format!("s{step}")).collect();
        assert_eq!(output["executionOrder"], json!(ended), "the order of completion");
        check_starts(&drawn, &log);
        let is_overlapping = |pair: &[(usize, Happened)]| pair[0].1 == Happened::Began && pair[1].1 == Happened::Began;
        overlapping += u32::from(log.windows(2).any(is_overlapping));
    }
    assert!(overlapping > 500, "only {overlapping} workflows had two calls in progress");
}
