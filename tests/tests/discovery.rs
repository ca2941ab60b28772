//! Agents that discover their tools: a line for each first, then the definitions of those that they ask for.

use std::sync::{Arc, Mutex};

use baton_models::FunctionModel;
use baton_runtime::Engine;
use baton_store::MemoryStore;
use baton_types::call::ErrorCode;
use baton_types::entry::Entry;
use baton_types::model::{ModelRequest, ModelTurn};
use serde_json::{Value, json};

use crate::support::{Finished, TestJob, call_output, calls, engine, handoff, run_to_end};

/// The names of the tools that each request offers, and its system prompt.
type Received = Vec<(Vec<String>, String)>;

/// Runs an agent that answers with `turns`, and returns what its requests offered.
async fn run(invocation: &str, more: Value, turns: Vec<ModelTurn>) -> (Finished, Received) {
    let received = Arc::new(Mutex::new(Vec::new()));
    let sees = Arc::clone(&received);
    let model = FunctionModel::new(move |request: &ModelRequest| {
        let offered = request.tools.iter().map(|tool| tool.id.to_string()).collect::<Vec<_>>();
        sees.lock().unwrap().push((offered, request.system.to_string()));
        Ok(turns[request.turn as usize - 1].clone())
    });
    let engine: Engine = engine(Arc::new(MemoryStore::default()), &(Arc::new(model) as Arc<_>));
    let mut extra = json!({"invocation": invocation});
    extra.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let job = TestJob::new("solo", json!({})).agent_with("solo", &["handoff", "calculator", "echo", "random"], extra);
    let job = ["calculator", "echo", "random"].into_iter().fold(job, TestJob::built_in).load();
    let finished = run_to_end(&engine, job).await;
    let received = received.lock().unwrap().clone();
    (finished, received)
}

fn describe(names: &[&str]) -> ModelTurn {
    calls(&[("describe_tools", json!({"tools": names}))])
}

#[tokio::test]
async fn a_described_tool_is_offered_from_the_next_request_on() {
    let add = calls(&[("calculator", json!({"expression": "6 * 7"}))]);
    let turns = vec![describe(&["calculator", "spell"]), add, describe(&["echo"]), handoff("done", &[])];
    // The run is replayed at its end: a replay renders the same requests.
    let (finished, received) = run("native", json!({"catalog": "discover"}), turns).await;
    assert_eq!(finished.status, "success", "{}", finished.result);
    let offered: Vec<Vec<&str>> = received.iter().map(|(tools, _)| tools.iter().map(String::as_str).collect()).collect();
    assert_eq!(offered[0], ["describe_tools", "handoff"]);
    assert_eq!(offered[1], ["calculator", "describe_tools", "handoff"]);
    assert_eq!(offered[2], offered[1]);
    assert_eq!(offered[3], ["calculator", "describe_tools", "echo", "handoff"]);
    let system = &received[0].1;
    for line in ["=== TOOLS (3 available) ===", "\n• calculator: ", "\n• echo: ", "\n• random: ", "describe_tools"] {
        assert!(system.contains(line), "{line} in {system}");
    }
    assert!(received.iter().all(|(_, other)| other == system), "the prompt is the same in every request");
    assert_eq!(call_output(&finished.entries, "0/1.1"), json!({"tools": [{"tool": "calculator"}], "unknown": ["spell"]}));
    assert_eq!(call_output(&finished.entries, "0/2.1")["result"], json!(42));
}

#[tokio::test]
async fn the_result_holds_the_definitions_in_universal_invocation() {
    let ask = r#"{"tool_requests": [{"tool": "describe_tools", "input": {"tools": ["calculator"]}}]}"#;
    let end = r#"{"tool_requests": [{"tool": "handoff", "input": {"result": {"summary": "done"}}}]}"#;
    let (finished, received) = run("universal", json!({}), vec![ModelTurn::text(ask), ModelTurn::text(end)]).await;
    assert_eq!(finished.status, "success", "{}", finished.result);
    let output = call_output(&finished.entries, "0/1.1");
    assert_eq!(output["tools"][0]["input_schema"]["required"], json!(["expression"]), "{output}");
    let system = &received[0].1;
    assert!(system.contains("• calculator: ") && !system.contains("\"expression\""), "{system}");
    assert!(system.contains("input: {"), "the inputs of tools that are known at once: {system}");
}

#[tokio::test]
async fn a_tool_may_be_called_before_it_is_described() {
    let add = calls(&[("calculator", json!({"expression": "6 * 7"}))]);
    let (finished, _) = run("native", json!({"catalog": "discover"}), vec![add, handoff("done", &[])]).await;
    assert_eq!(call_output(&finished.entries, "0/1.1")["result"], json!(42));
}

#[tokio::test]
async fn a_call_refused_for_its_input_learns_the_schema() {
    let wrong = calls(&[("calculator", json!({"sum": "6 * 7"}))]);
    let (finished, _) = run("native", json!({"catalog": "discover"}), vec![wrong, handoff("done", &[])]).await;
    let error = finished.entries.iter().find_map(|recorded| match &recorded.entry {
        Entry::CallRefused(refused) => Some(&refused.error),
        _ => None,
    });
    let detail = error.expect("the call is refused").detail.value();
    assert_eq!(detail["input_schema"]["required"], json!(["expression"]), "{detail}");
}

#[tokio::test]
async fn a_call_that_names_no_tool_learns_the_names() {
    let turns = vec![describe(&["spell"]), handoff("done", &[])];
    let (finished, received) = run("native", json!({"catalog": "discover"}), turns).await;
    let error = finished.entries.iter().find_map(|recorded| match &recorded.entry {
        Entry::CallRefused(refused) => Some(&refused.error),
        _ => None,
    });
    let error = error.expect("the call is refused");
    assert_eq!((error.code, &error.detail.value()["granted_tools"][0]), (ErrorCode::UnknownTool, &json!("calculator")));
    assert_eq!(received[1].0, ["describe_tools", "handoff"]);
}

#[tokio::test]
async fn the_full_catalog_needs_no_description() {
    let end = r#"{"tool_requests": [{"tool": "handoff", "input": {"result": {"summary": "done"}}}]}"#;
    let (_, received) = run("universal", json!({"catalog": "full"}), vec![ModelTurn::text(end)]).await;
    assert!(received[0].1.contains("\"expression\"") && !received[0].1.contains("describe_tools"), "{}", received[0].1);
    let (_, received) = run("native", json!({}), vec![handoff("done", &[])]).await;
    assert_eq!(received[0].0, ["calculator", "echo", "handoff", "random"]);
}

#[tokio::test]
async fn a_run_keeps_the_tools_that_its_selectors_selected() {
    let add = calls(&[("calculator", json!({"expression": "6 * 7"}))]);
    let turns = [add, handoff("done", &[])];
    let model = FunctionModel::new(move |request: &ModelRequest| {
        let offered: Vec<&str> = request.tools.iter().map(|tool| tool.id.as_str()).collect();
        assert_eq!(offered, ["calculator", "echo", "handoff", "random"]);
        Ok(turns[request.turn as usize - 1].clone())
    });
    let engine = engine(Arc::new(MemoryStore::default()), &(Arc::new(model) as Arc<_>));
    let job = TestJob::new("solo", json!({})).agent_with("solo", &[], json!({"tools": ["handoff", {"category": "utility"}]}));
    let job = ["calculator", "echo", "random"].into_iter().fold(job, TestJob::built_in).load();
    // The replay at its end loads the pinned configs again, with the tools that these select.
    let finished = run_to_end(&engine, job).await;
    assert_eq!(finished.status, "success", "{}", finished.result);
    assert_eq!(call_output(&finished.entries, "0/1.1")["result"], json!(42));
}

/// Runs an agent with a tool whose name is not its id, and returns what its model received in each turn, as text.
async fn named(invocation: &str, turns: Vec<ModelTurn>) -> (Finished, Vec<String>) {
    let received = Arc::new(Mutex::new(Vec::new()));
    let sees = Arc::clone(&received);
    let model = FunctionModel::new(move |request: &ModelRequest| {
        sees.lock().unwrap().push(format!("{}{:?}", request.system, request.messages));
        Ok(turns[request.turn as usize - 1].clone())
    });
    let engine: Engine = engine(Arc::new(MemoryStore::default()), &(Arc::new(model) as Arc<_>));
    let text = json!({"text": {"type": "string", "description": "A text.", "required": true}});
    let job = TestJob::new("solo", json!({}))
        .tool("note_it", text, json!({"type": "non_function_tool", "name": "noteIt", "description": "Notes a text."}))
        .agent_with("solo", &["handoff", "note_it"], json!({"invocation": invocation, "catalog": "discover"}))
        .load();
    let finished = run_to_end(&engine, job).await;
    let received = received.lock().unwrap().clone();
    (finished, received)
}

#[tokio::test]
async fn a_model_reads_the_name_of_a_tool_and_not_its_id() {
    let ask = |tool: &str, input: Value| {
        let requests = json!([{"tool": tool, "input": input}]);
        ModelTurn::text(json!({"message": "m", "tool_requests": requests}).to_string())
    };
    let turns = vec![
        ask("describe_tools", json!({"tools": ["noteIt"]})),
        ask("noteIt", json!({"text": "a"})),
        ask("noteIt", json!({})),
        ask("spell", json!({})),
        ask("describe_tools", json!({"tools": ["spell"]})),
        ask("handoff", json!({"result": {"summary": "done"}})),
    ];
    let (finished, received) = named("universal", turns).await;
    assert_eq!(finished.status, "success", "{}", finished.result);
    assert!(received[0].contains("• noteIt: "), "{}", received[0]);
    assert!(received.last().unwrap().contains("noteIt-2"), "a call without an id gets one with the name: {received:?}");
    for text in &received {
        assert!(!text.contains("note_it"), "{text}");
    }
    assert_eq!(call_output(&finished.entries, "0/2.1"), json!({"logged": true}));
    let (finished, received) = named("native", vec![describe(&["noteIt", "note_it"]), handoff("done", &[])]).await;
    assert_eq!(call_output(&finished.entries, "0/1.1"), json!({"tools": [{"tool": "noteIt"}]}), "both names are understood");
    assert!(received[0].contains("• noteIt: ") && !received[0].contains("note_it"), "{}", received[0]);
}
