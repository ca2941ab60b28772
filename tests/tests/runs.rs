//! Runs from start to end: delegation in parallel, tools that misbehave, questions, cancellation.

use std::sync::Arc;

use baton_core::entry::{Entry, FinalState};
use baton_core::json::Json;
use baton_core::model::ModelTurn;
use baton_runtime::{RunError, RunOutcome, StartOptions};
use baton_store::MemoryStore;
use futures_util::StreamExt;
use serde_json::json;

use crate::support::tools::Gate;
use crate::support::{
    TestJob, call_error, call_output, call_result, calls, engine, finish, handoff, model, name_of, root, run_to_end, workspace,
};

const NONE: fn() -> serde_json::Value = || json!({});

fn text(description: &str) -> serde_json::Value {
    json!({"type": "string", "description": description, "required": true})
}

#[tokio::test]
async fn children_of_one_turn_work_at_the_same_time_and_hand_back_their_documents() {
    let write = json!({"path": text("Where."), "content": text("What.")});
    let meet = json!({"name": text("Where."), "count": {"type": "integer", "description": "Who.", "required": true}});
    let job = TestJob::new("lead", NONE())
        .agent("lead", &["route_to_worker", "handoff"])
        .agent("worker", &["meet", "write_note", "handoff"])
        .tool("meet", meet, json!({"effect": "pure"}))
        .tool("write_note", write, json!({"effect": "idempotent", "writes": true}))
        .load();
    let answers = model(|agent, turn, request| match (agent, turn) {
        ("lead", 1) => {
            let routes: Vec<_> = ["a", "b", "c"].map(|name| ("route_to_worker", json!({"request": name}))).into();
            calls(&routes)
        }
        ("lead", _) => handoff("all is done", &["b.md"]),
        ("worker", 1) => calls(&[("meet", json!({"name": "three workers", "count": 3}))]),
        ("worker", 2) => {
            let name = request_text(request);
            calls(&[("write_note", json!({"path": format!("{name}.md"), "content": format!("by {name}")}))])
        }
        (_, _) => handoff("written", &[&format!("{}.md", request_text(request))]),
    });
    let engine = engine(Arc::new(MemoryStore::default()), &answers);
    let finished = run_to_end(&engine, job).await;
    assert_eq!(finished.status, "success");
    assert_eq!(finished.result, json!({"summary": "all is done"}));
    let paths: Vec<String> = finished.run.documents().iter().map(|(path, _)| path.to_string()).collect();
    assert_eq!(paths, ["a.md", "b.md", "c.md"]);
    assert_eq!(finished.run.graph().iter().count(), 4);
    assert_eq!(finished.run.task(&"0/1.2".into()).unwrap().kind, baton_core::entry::TaskKind::Delegation);
}

fn request_text(request: &baton_core::model::ModelRequest) -> String {
    let found = request.messages.iter().flat_map(|message| &message.parts).find_map(|part| match part {
        baton_core::render::Part::Request(text) => Some(text.clone()),
        _ => None,
    });
    found.expect("every conversation begins with a request")
}

#[tokio::test(start_paused = true)]
async fn tools_that_misbehave_become_results_that_the_agent_reads() {
    let gate = json!({"gate": text("Whom to tell.")});
    let job = TestJob::new("solo", NONE())
        .agent("solo", &["explode", "explode_on_a_thread", "dawdle", "spin", "lie", "handoff"])
        .tool("explode", NONE(), NONE())
        .tool("explode_on_a_thread", NONE(), NONE())
        .tool("dawdle", NONE(), json!({"timeout_seconds": 2}))
        .tool("spin", gate, json!({"timeout_seconds": 1}))
        .tool("lie", NONE(), json!({"returns": {"count": "integer"}}))
        .load();
    let answers = model(|_, turn, _| match turn {
        1 => calls(&[("explode", json!({})), ("explode_on_a_thread", json!({})), ("dawdle", json!({})), ("lie", json!({}))]),
        2 => calls(&[("dawdle", json!({"for": 1})), ("missing", json!({}))]),
        _ => handoff("went on", &[]),
    });
    let engine = engine(Arc::new(MemoryStore::default()), &answers);
    let finished = run_to_end(&engine, job).await;
    assert_eq!(finished.status, "success");
    assert_eq!(call_result(&finished.entries, "0/1.1"), "failed panicked");
    assert_eq!(call_error(&finished.entries, "0/1.1"), "the tool's code panicked: the fuse was short");
    assert_eq!(call_result(&finished.entries, "0/1.2"), "failed panicked");
    assert_eq!(call_error(&finished.entries, "0/1.2"), "the tool's code panicked: the fuse was short");
    assert_eq!(call_result(&finished.entries, "0/1.3"), "timeout timed_out");
    assert_eq!(call_result(&finished.entries, "0/1.4"), "failed invalid_output");
    assert_eq!(call_result(&finished.entries, "0/2.1"), "refused invalid_input");
    assert_eq!(call_result(&finished.entries, "0/2.2"), "refused unknown_tool");
}
