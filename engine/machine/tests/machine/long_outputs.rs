//! Outputs that are too long for an agent's requests: documents hold them.

use baton_tool::long_output;
use baton_tool::measure::measure;
use baton_types::call::{AfterExecution, CallStatus, ErrorCode, ModelCall};
use baton_types::document::DocumentRef;
use baton_types::event::{Outcome, Produced};
use baton_types::id::TaskId;
use baton_types::json::Json;
use baton_types::limits::Limits;
use serde_json::{Value, json};

use crate::support::script::{then, to_user};
use crate::support::{Sim, agent, call, function, handoff, job, route, turn, write, writes};

/// Returns a long output of `tool`, as a shell brings it: with the document that it would be kept as.
fn long_output(tool: &str, output: Value) -> Outcome {
    let output = Json::from(output);
    let (document, _) = long_output::document(&tool.into(), &output);
    Outcome { output: Produced::Long { output, document }, ..Outcome::success(Json::null()) }
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
fn a_fork_keeps_the_document_that_its_original_kept() {
    let draft = job([agent("root", "work")]).tool(function("work").output(json!({"type": "string"})));
    let (document, _) = long_output::document(&"work".into(), &Json::from(json!("x".repeat(100_000))));
    let path = document.path.clone();
    let sim = Sim::new(&draft)
        .agent("root", [turn([call("work", "a")]), turn([handoff("done")])])
        .tool("work", move |_| Outcome { output: Produced::Kept(document.clone()), ..Outcome::success(Json::null()) })
        .start();
    sim.assert_over();
    let result = sim.result("0/1.1");
    let kept = result.output.kept().expect("a document holds the output").clone();
    assert_eq!((result.status, kept.document), (CallStatus::Success, DocumentRef { path, version: 1 }));
    assert_eq!(kept.size_bytes, 100_000);
}

#[test]
fn a_document_at_the_place_of_a_kept_output_is_a_document() {
    let (document, _) = long_output::document(&"work".into(), &Json::from(json!("hello")));
    let draft = job([agent("root", "work")]).tool(function("work").writing());
    let sim = Sim::new(&draft)
        .agent("root", [turn([call("work", "a")]), turn([handoff("done")])])
        .tool("work", move |_| writes(json!({"answer": "the real answer"}), vec![document.clone()]))
        .start();
    sim.assert_over();
    assert_eq!(sim.result("0/1.1").output.value(), json!({"answer": "the real answer"}));
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
    assert_eq!((error.code, result.output.is_null()), (ErrorCode::Conflict, true), "the child knows no version of a.md");
    assert_eq!(sim.ledger.heads.len(), 1, "nothing was written");
}

#[test]
fn a_long_output_never_replaces_another_document() {
    let (kept, _) = long_output::document(&"work".into(), &Json::from(json!({"long": true})));
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
fn the_document_of_an_output_holds_all_of_it() {
    for (output, content, ending) in [
        (json!("two\nlines"), "two\nlines", "txt"),
        (json!(""), "", "txt"),
        (json!({"a": [1, 2]}), r#"{"a":[1,2]}"#, "json"),
        (json!([null]), "[null]", "json"),
    ] {
        let (kept, bytes) = long_output::document(&"work".into(), &Json::from(&output));
        assert_eq!(&*bytes, content.as_bytes());
        assert_eq!(kept.content, measure(&kept.path, content.as_bytes(), None));
        assert_eq!(kept.path.as_str().rsplit_once('.').map(|(_, ending)| ending), Some(ending));
    }
}

#[test]
fn an_output_over_the_result_limit_is_kept_if_the_code_had_made_calls() {
    // The text has two quotes.
    for (calls, bytes, expected) in [
        (true, 998, Some(false)),
        (true, 997, Some(false)),
        (true, 999, Some(true)),
        (true, 5_000, Some(true)),
        (false, 998, Some(false)),
        (false, 999, None),
    ] {
        let work = if calls { function("work").calls(&["*"]) } else { function("work") };
        let limits = Limits { result_bytes: Some(1_000), ..Limits::default() };
        let draft = job([agent("root", "work").limits(limits)]).tool(work);
        let sim = Sim::new(&draft)
            .agent("root", [turn([then(call("work", "a"), AfterExecution::Terminate)]), turn([handoff("done")])])
            .tool("work", move |_| long_output("work", json!("x".repeat(bytes))))
            .start();
        sim.assert_over();
        let result = sim.result("0/1.1");
        let kept = (result.status == CallStatus::Success).then(|| result.output.kept().is_some());
        assert_eq!(kept, expected, "{bytes} bytes of code that makes calls: {calls}");
    }
}
