//! Outputs that are too long to be shown: kept as documents that their agents are pointed to.

use baton_core::aside;
use baton_core::call::{AfterExecution, CallStatus, ErrorCode, ModelCall};
use baton_core::event::Outcome;
use baton_core::id::TaskId;
use baton_core::json::Json;
use baton_core::measure::measure;
use serde_json::{Value, json};

use crate::support::script::{then, to_user};
use crate::support::{Sim, agent, call, function, handoff, job, route, turn, write, writes};

/// A long output of `tool`, as a shell brings it: with the document that it would be kept as.
fn long_output(tool: &str, output: Value) -> Outcome {
    let (write, _) = aside::kept(&tool.into(), &Json::from(&output));
    Outcome { writes: vec![write], ..Outcome::success(output) }
}

#[test]
fn an_output_that_is_too_long_to_be_shown_is_kept_as_a_document_once() {
    let strict = function("work").output(json!({"type": "string", "minLength": 100}));
    let draft = job([agent("root", "work")]).tool(strict);
    let sim = Sim::new(&draft)
        .agent("root", [turn([call("work", "a"), call("work", "b")]), turn([call("work", "a")]), turn([handoff("done")])])
        .tool("work", |_| long_output("work", json!("line\n".repeat(30_000))))
        .start();
    sim.assert_over();
    let outputs: Vec<Value> = ["0/1.1", "0/1.2", "0/2.1"].map(|call| sim.result(call).output.value()).to_vec();
    assert!(outputs.iter().all(|output| *output == outputs[0]), "{outputs:?}");
    assert_eq!((&outputs[0]["size_bytes"], &outputs[0]["token_count"]), (&json!(150_000), &json!(37_500)));
    let path = outputs[0]["document"].as_str().unwrap();
    assert!(path.starts_with("results/work-") && path.rsplit_once('.').is_some_and(|(_, kind)| kind == "txt"), "{path}");
    assert_eq!(sim.ledger.heads[path], 1, "the same output is the same document");
    assert!(sim.run.task(&TaskId::root()).unwrap().context_tokens < 2_000, "the agent is shown where it is, and no more");
}

#[test]
fn an_output_for_somebody_else_than_the_agent_stays_whole() {
    let cases: [(ModelCall, &str); 2] =
        [(to_user(call("work", "a")), "the user"), (then(call("work", "a"), AfterExecution::Terminate), "the caller")];
    for (asked, whom) in cases {
        let draft = job([agent("root", "work")]).tool(function("work"));
        let sim = Sim::new(&draft)
            .agent("root", [turn([asked])])
            .tool("work", |_| long_output("work", json!("x".repeat(100_000))))
            .start();
        sim.assert_over();
        assert_eq!(sim.result("0/1.1").output.text().len(), 100_002, "{whom} gets it as it is");
        assert!(sim.ledger.heads.is_empty());
    }
}

#[test]
fn a_fork_brings_the_pointer_itself_in_place_of_the_output() {
    let draft = job([agent("root", "work")]).tool(function("work").output(json!({"type": "string"})));
    let (kept, _) = aside::kept(&"work".into(), &Json::from(json!("x".repeat(100_000))));
    let pointer = aside::pointer(&kept.path, &kept.content);
    let output = pointer.value();
    let sim = Sim::new(&draft)
        .agent("root", [turn([call("work", "a")]), turn([handoff("done")])])
        .tool("work", move |_| Outcome { writes: vec![kept.clone()], ..Outcome::success(output.clone()) })
        .start();
    sim.assert_over();
    let result = sim.result("0/1.1");
    assert_eq!((result.status, result.output), (CallStatus::Success, pointer));
}

#[test]
fn an_output_whose_call_may_not_write_is_neither_kept_nor_shown() {
    let draft = job([agent("root", "route_to_child"), agent("child", "work")]).tool(function("work").writing());
    let sim = Sim::new(&draft)
        .agent("root", [turn([route("child", "x")]), turn([handoff("done")])])
        .agent("child", [turn([call("work", "a")]), turn([handoff("child")])])
        .tool("work", |_| {
            let mut outcome = long_output("work", json!("x".repeat(100_000)));
            outcome.writes.push(write("a.md", "mine"));
            outcome
        })
        .start_with(vec![write("a.md", "somebody's")]);
    sim.assert_over();
    let result = sim.result("0/1.1/1.1");
    let error = result.error.unwrap();
    assert_eq!((error.code, result.output), (ErrorCode::Conflict, Json::null()), "the child knows no version of a.md");
    assert!(error.message.ends_with("what it returned is too long to be shown"), "{}", error.message);
    assert_eq!(sim.ledger.heads.len(), 1, "nothing was written");
}

#[test]
fn where_something_else_stands_nothing_is_kept() {
    let (kept, _) = aside::kept(&"work".into(), &Json::from(json!({"long": true})));
    for place in [kept.path.as_str().to_owned(), "results".to_owned(), kept.path.as_str().to_uppercase()] {
        let draft = job([agent("root", "save work")]).tool(function("work")).tool(function("save").writing());
        let at = place.clone();
        let sim = Sim::new(&draft)
            .agent("root", [turn([call("save", "a")]), turn([call("work", "a")]), turn([handoff("done")])])
            .tool("save", move |_| writes(json!("saved"), vec![write(&at, "something else")]))
            .tool("work", |_| long_output("work", json!({"long": true})))
            .start();
        sim.assert_over();
        let result = sim.result("0/2.1");
        assert_eq!(result.error.map(|error| error.code), Some(ErrorCode::LimitReached), "{place}");
    }
}

#[test]
fn a_kept_output_is_whole_and_found_where_its_pointer_says() {
    let (tool, other) = ("work".into(), "other".into());
    let (elsewhere, _) = aside::kept(&tool, &Json::from(json!("something else")));
    for (output, content, kind) in [
        (json!("two\nlines"), "two\nlines", "txt"),
        (json!(""), "", "txt"),
        (json!({"a": [1, 2]}), r#"{"a":[1,2]}"#, "json"),
        (json!([null]), "[null]", "json"),
    ] {
        let (kept, bytes) = aside::kept(&tool, &Json::from(&output));
        assert_eq!(&*bytes, content.as_bytes());
        assert_eq!(kept.content, measure(&kept.path, content.as_bytes(), None));
        assert_eq!(kept.path.as_str().rsplit_once('.').map(|(_, kind)| kind), Some(kind));
        assert!(aside::is_kept(&tool, &kept.path, &kept.content));
        assert!(!aside::is_kept(&other, &kept.path, &kept.content) && !aside::is_kept(&tool, &kept.path, &elsewhere.content));
        let pointer = aside::pointer(&kept.path, &kept.content);
        let summary = pointer.value().get("summary").and_then(|summary| summary.as_str().map(str::to_owned));
        assert_eq!(summary.unwrap_or_default(), kept.content.summary);
        assert_eq!(aside::pointed(&pointer), Some(kept.path));
    }
    for output in [json!("a.md"), json!({"document": "a.md"}), json!({"note": "a"}), json!({"note": "a", "document": "../a.md"})]
    {
        assert_eq!(aside::pointed(&Json::from(&output)), None, "{output}");
    }
}
