//! The content that a request leaves out, to the token, when its window has no room.

use std::collections::BTreeSet;

use baton_types::call::{CallError, CallStatus, ErrorCode, ModelCall};
use baton_types::config::EffectClass;
use baton_types::entry::{Entry, ModelRequested};
use baton_types::estimate::text_tokens;
use baton_types::event::Outcome;
use baton_types::id::{CallId, TaskId};
use baton_types::limits::Limits;
use baton_types::message::{FRAME_BYTES, Part};
use serde_json::{Value, json};

use crate::support::jobs::{AgentDraft, ToolDraft};
use crate::support::script::{Execution, call_with, document_path};
use crate::support::{Sim, agent, call, function, handoff, job, route, turn, write};

/// The most tokens of an answer here.
const OUTPUT: u64 = 100;

/// The most tokens of a result that always stays.
const SHORT: u64 = 32;

/// Returns a root with a long prompt and, if there is one, a window of so many tokens.
fn root(tools: &str, window: Option<u64>) -> AgentDraft {
    let limits = Limits { context_tokens: window, inline_result_bytes: Some(1_000_000), ..Limits::default() };
    agent("root", tools).prompt(&"word ".repeat(4_000)).limits(limits).settings(json!({"max_tokens": OUTPUT}))
}

/// Returns the requests of the root.
fn requests(sim: &Sim) -> Vec<&ModelRequested> {
    let requested = sim.entries().filter_map(|entry| match entry {
        Entry::ModelRequested(requested) if requested.task == TaskId::root() => Some(requested),
        _ => None,
    });
    requested.collect()
}

fn bundled(requested: &ModelRequested) -> BTreeSet<CallId> {
    requested.bundle.iter().flat_map(|bundle| bundle.results.iter().cloned()).collect()
}

/// Returns the run of `of` whose last request would exceed its window by one token if it left nothing out.
fn too_long_by_one(of: impl Fn(Option<u64>) -> Sim) -> Sim {
    let whole = of(None);
    whole.assert_over();
    let sim = of(Some(requests(&whole).last().unwrap().input_tokens + OUTPUT - 1));
    sim.assert_over();
    assert_eq!(sim.task("0").result.as_ref().unwrap().status, CallStatus::Success);
    sim
}

fn error_tokens(error: &CallError) -> u64 {
    text_tokens((error.message.len() + error.detail.text().len()) as u64 + FRAME_BYTES)
}

/// Returns calls of `tool` whose inputs are texts of many lengths.
fn of_many_lengths(tool: &str) -> Vec<ModelCall> {
    (100..150).map(|length| call(tool, &"y".repeat(length))).collect()
}

/// Returns the text in the input of a call.
fn text_of(execution: &Execution) -> Value {
    execution.input.value()["x"].clone()
}

#[test]
fn every_result_that_is_not_short_may_be_left_out() {
    let sim = too_long_by_one(|window| {
        Sim::new(&job([root("work", window)]).tool(function("work").effect(EffectClass::Pure)))
            .agent("root", [turn(of_many_lengths("work")), turn([handoff("done")])])
            .tool("work", |execution| Outcome::success(text_of(execution)))
            .start()
    });
    let long: BTreeSet<CallId> = (1..=50)
        .map(|place| CallId::from(format!("0/1.{place}").as_str()))
        .filter(|call| text_tokens(sim.result(call.as_str()).output.text().len() as u64) > SHORT)
        .collect();
    assert!(!long.is_empty() && long.len() < 50);
    assert_eq!(bundled(requests(&sim)[1]), long);
    let document = &requests(&sim)[1].bundle.as_ref().unwrap().document;
    let content = &sim.contents[&sim.run.documents().version(document).unwrap().content.hash];
    let content: Value = serde_json::from_slice(content).unwrap();
    let held: Vec<&str> = content["results"].as_array().unwrap().iter().map(|held| held["call"].as_str().unwrap()).collect();
    assert_eq!(held.into_iter().map(CallId::from).collect::<BTreeSet<_>>(), long, "the document holds them");
}

#[test]
fn every_refusal_that_is_not_short_may_be_left_out() {
    let unknown = || (1..60).map(|length| call(&"z".repeat(length), "")).collect::<Vec<_>>();
    let sim = too_long_by_one(|window| {
        Sim::new(&job([root("", window)])).agent("root", [turn(unknown()), turn([handoff("done")])]).start()
    });
    let tokens = |place| error_tokens(&sim.refusal(&format!("0/1.{place}")));
    let long: BTreeSet<CallId> =
        (1..60).filter(|place| tokens(*place) > SHORT).map(|place| CallId::from(format!("0/1.{place}").as_str())).collect();
    assert_eq!(bundled(requests(&sim)[1]), long);
    assert!(!long.is_empty(), "{:?}", (1..60).map(tokens).collect::<Vec<_>>());
}

#[test]
fn every_result_of_a_background_task_that_is_not_short_may_be_left_out() {
    let sim = too_long_by_one(|window| {
        let begin = |length: usize| call_with("route_to_worker", json!({"request": "y".repeat(length), "wait": false}));
        let draft = job([root("route_to_worker route_to_slow", window), agent("worker", ""), agent("slow", "look")])
            .tools([function("look").effect(EffectClass::Pure), ToolDraft::route("worker").in_background()]);
        let begins = (110..140).map(begin).chain([route("slow", "a")]);
        let mut sim = Sim::new(&draft)
            .agent("root", [turn(begins), turn([handoff("done")])])
            .agent("slow", [turn([call("look", "a")]), turn([handoff("slow")])])
            .agent_with("worker", |prompted| {
                let Some(Part::Request(text)) = prompted.request.messages[0].parts.first() else { panic!("it has a request") };
                Ok(turn([handoff(text.as_str())]))
            })
            .holding("look")
            .start();
        sim.release("look");
        sim
    });
    let reported = sim.entries().filter_map(|entry| match entry {
        Entry::TaskReported(reported) => Some((reported.call.clone(), text_tokens(reported.result.output.text().len() as u64))),
        _ => None,
    });
    let long: BTreeSet<CallId> = reported.filter(|(_, tokens)| *tokens > SHORT).map(|(call, _)| call).collect();
    assert_eq!(bundled(requests(&sim).last().unwrap()), long);
    assert!(!long.is_empty() && long.len() < 30);
}

#[test]
fn the_largest_results_are_left_out_until_four_fifths_of_the_window_suffice() {
    let of = |window, errors: &'static [usize]| {
        let calls = (0..errors.len()).map(|number| call("work", &number.to_string()));
        let sim = Sim::new(&job([root("work", window)]).tool(function("work").effect(EffectClass::Pure)))
            .agent("root", [turn(calls), turn([handoff("done")])])
            .tool("work", |execution| {
                let number: usize = text_of(execution).as_str().unwrap().parse().unwrap();
                Outcome::error(CallStatus::Failed, CallError::new(ErrorCode::ToolFailed, "e".repeat(errors[number])))
            })
            .start();
        sim.assert_over();
        sim
    };
    const ERRORS: &[usize] = &[2_000, 400, 5_000, 1_200, 3_000, 800, 4_000, 1_600, 600, 2_400];
    let whole = requests(&of(None, ERRORS))[1].input_tokens;
    for window in (whole + OUTPUT - 1_200)..(whole + OUTPUT) {
        let sim = of(Some(window), ERRORS);
        let requested = requests(&sim)[1];
        let left_out = bundled(requested);
        let of_result = |call: &CallId| error_tokens(&sim.result(call.as_str()).error.unwrap());
        let smallest = left_out.iter().map(of_result).min().expect("something is left out");
        let larger = (1..=ERRORS.len()).map(|place| CallId::from(format!("0/1.{place}").as_str()));
        assert!(larger.filter(|call| of_result(call) > smallest).all(|call| left_out.contains(&call)), "the largest first");
        let (needed, bound) = (requested.input_tokens + OUTPUT, window - window / 5);
        assert!(needed <= bound && needed + smallest > bound, "{needed} of {bound} with {smallest} at {window}");
    }
}

#[test]
fn a_request_that_fits_its_window_to_the_token_is_made() {
    let of = |window, input: usize| {
        let sim = Sim::new(&job([root("work", window)]).tool(function("work").effect(EffectClass::Pure)))
            .agent("root", [turn([call("work", &"y".repeat(input))]), turn([handoff("done")])])
            .tool("work", |_| Outcome::error(CallStatus::Failed, CallError::new(ErrorCode::ToolFailed, "e".repeat(2_000))))
            .start();
        sim.assert_over();
        sim
    };
    // The last result is replaced by a record. Inputs are one token longer from run to run.
    let window = requests(&of(None, 1_000))[1].input_tokens + OUTPUT - 300;
    let mut exact = 0;
    for input in (1_200..1_500).step_by(4) {
        let sim = of(Some(window), input);
        let least = requests(&of(None, input))[1].input_tokens + OUTPUT + 128 - error_tokens(&sim.result("0/1.1").error.unwrap());
        assert_eq!(requests(&sim).len() == 2, least <= window, "{least} of {window}");
        exact += u32::from(least == window);
        assert!(requests(&sim).iter().all(|requested| requested.reserved_tokens <= window));
    }
    assert_eq!(exact, 1);
}

#[test]
fn long_results_that_share_a_document_have_no_other_one() {
    let calls = || (0..40).map(|number| call("work", &number.to_string()));
    let sim = |window| {
        let sim = Sim::new(&job([root("work", window)]).tool(function("work").effect(EffectClass::Pure)))
            .agent("root", [turn(calls()), turn([handoff("done")])])
            .tool("work", |execution| Outcome::success(json!(format!("{} {}", text_of(execution), "long ".repeat(300)))))
            .start();
        sim.assert_over();
        sim
    };
    let kept_alone = requests(&sim(Some(100_000)))[1].input_tokens - 40 * 377 + 40 * 128 + OUTPUT;
    let sim = sim(Some(kept_alone - 100));
    let requested = requests(&sim)[1];
    let kept: BTreeSet<CallId> = requested.kept.iter().map(|kept| kept.call.clone()).collect();
    let bundled = bundled(requested);
    assert!(!kept.is_empty() && !bundled.is_empty(), "{} and {}", kept.len(), bundled.len());
    assert_eq!(kept.intersection(&bundled).count(), 0);
}

#[test]
fn a_document_is_shown_while_four_fifths_of_the_window_suffice() {
    let window = 20_000;
    let (mut whole, mut records) = (0, 0);
    for length in (41_000..44_000).step_by(100) {
        let sim = Sim::new(&job([root("", Some(window))]))
            .agent("root", [turn([handoff("done")])])
            .start_with(vec![write("a.md", &"x".repeat(length))]);
        sim.assert_over();
        let requested = requests(&sim)[0];
        let (needed, tokens) = (requested.input_tokens + OUTPUT, text_tokens(length as u64));
        if requested.pointers.is_empty() {
            whole += 1;
            assert!(needed <= window - window / 5, "{needed} with {tokens}");
        } else {
            records += 1;
            assert!(needed + tokens > window - window / 5, "{needed} without {tokens}");
        }
    }
    assert!(whole > 2 && records > 2, "{whole} whole, {records} records");
}

#[test]
fn an_output_is_shown_up_to_the_inline_limit() {
    let limits = Limits { inline_result_bytes: Some(2_000), ..Limits::default() };
    let draft = job([agent("root", "work").limits(limits)]).tool(function("work").effect(EffectClass::Pure));
    let sim = Sim::new(&draft)
        .agent("root", [turn([call("work", "1998"), call("work", "1999")]), turn([handoff("done")])])
        .tool("work", |execution| Outcome::success(json!("x".repeat(text_of(execution).as_str().unwrap().parse().unwrap()))))
        .start();
    sim.assert_over();
    let kept: Vec<&str> = requests(&sim)[1].kept.iter().map(|kept| kept.call.as_str()).collect();
    assert_eq!(kept, ["0/1.2"], "the text with its quotes is a byte longer than the limit");
}

#[test]
fn the_same_output_without_room_is_one_document() {
    let limits = Limits { inline_result_bytes: Some(2_000), ..Limits::default() };
    let draft = job([agent("root", "work").limits(limits)]).tool(function("work").effect(EffectClass::Pure));
    let sim = Sim::new(&draft)
        .agent("root", [turn([call("work", "a"), call("work", "b")]), turn([handoff("done")])])
        .tool("work", |_| Outcome::success(json!("x".repeat(5_000))))
        .start();
    sim.assert_over();
    let kept = &requests(&sim)[1].kept;
    assert_eq!((kept.len(), sim.ledger.heads.len()), (2, 1));
    assert_eq!(kept[0].output, kept[1].output);
}

#[test]
fn of_results_of_the_same_length_the_first_calls_are_shown_whatever_came_first() {
    let draft = job([root("work", Some(8_000))]).tool(function("work").effect(EffectClass::Pure));
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([call("work", "a"), call("work", "b")]), turn([handoff("done")])])
        .holding("work")
        .start();
    for (call, text) in [("0/1.2", "b"), ("0/1.1", "a")] {
        sim.returned(call, Outcome::success(json!(text.repeat(4_000)))).unwrap();
    }
    sim.settle();
    sim.assert_over();
    let kept: Vec<&str> = requests(&sim)[1].kept.iter().map(|kept| kept.call.as_str()).collect();
    assert_eq!(kept, ["0/1.2"]);
}

#[test]
fn a_document_is_loaded_up_to_the_room_that_older_turns_could_leave() {
    let window = 40_000;
    let loaded = |tokens: u64| {
        let draft =
            job([root("save work load", Some(window))]).tools([function("save").writing(), function("work"), function("load")]);
        let long = "y".repeat(40_000);
        let sim = Sim::new(&draft)
            .agent(
                "root",
                [turn([call("save", "a")]), turn([call("work", &long)]), turn([call("load", "x")]), turn([handoff("done")])],
            )
            .tool("save", move |_| Outcome {
                writes: vec![write("a.md", &"word".repeat(tokens as usize))],
                ..Outcome::success(json!("saved"))
            })
            .tool("load", |_| {
                let loads = vec![baton_types::document::DocumentRef { path: document_path("a.md"), version: 1 }];
                Outcome { loads, ..Outcome::success(json!("loaded")) }
            })
            .start();
        sim.assert_over();
        sim.result("0/3.1").error.map(|error| error.detail.value())
    };
    let room = loaded(window).expect("there is no room for it")["room_tokens"].as_u64().unwrap();
    assert_eq!(loaded(room), None);
    assert_eq!(loaded(room + 1), Some(json!({"path": "a.md", "token_count": room + 1, "room_tokens": room})));
    assert_eq!(room, window / 2, "the older turns take much of the rest");
}

#[test]
fn older_turns_are_not_replaced_for_content_that_would_take_more_than_half_of_the_window() {
    let window = 20_000;
    let draft = job([root("work", Some(window))]).tool(function("work").effect(EffectClass::Pure));
    let long = "y".repeat(3_000);
    let turns = [turn([call("work", &long)]), turn([call("work", "now")]), turn([handoff("done")])];
    let output = |execution: &Execution| if text_of(execution) == json!("now") { 60_000 } else { 4 };
    let sim = Sim::new(&draft)
        .agent("root", turns)
        .tool("work", move |execution| Outcome::success(json!("x".repeat(output(execution)))))
        .start();
    sim.assert_over();
    assert!(!sim.entries().any(|entry| matches!(entry, Entry::Compacted(_))));
    assert_eq!(requests(&sim)[2].kept.len(), 1, "a document holds it");
}
