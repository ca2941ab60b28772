//! Values that a tool's config adds to inputs: what executors get, and what the timeline has.

use std::sync::Arc;

use baton_runtime::{Engine, StartOptions};
use baton_store::MemoryStore;
use baton_types::entry::Entry;
use serde_json::{Value, json};

use crate::support::{Finished, TestJob, call_error, call_output, calls, finish, handoff, model};

/// Returns an engine whose model calls the tool `command` once with `input`.
fn engine(input: Value) -> Engine {
    let model = model(move |_, turn, _| match turn {
        1 => calls(&[("command", input.clone())]),
        _ => handoff("done", &[]),
    });
    let variables = |name: &str| match name {
        "PATH" => std::env::var("PATH").ok(),
        "LIBRARY_KEY" => Some("canary-4711".to_owned()),
        _ => None,
    };
    Engine::builder()
        .trust(baton_runtime::TrustEverything)
        .store(Arc::new(MemoryStore::default()))
        .variables(variables)
        .model("m", model)
        .build()
        .unwrap()
}

/// Runs a job whose agent calls the tool `command` once with `input`.
async fn ran(config: Value, input: Value) -> Finished {
    let engine = engine(input);
    let job = TestJob::new("solo", json!({})).agent("solo", &["command", "handoff"]).tool_by_schema("command", config).load();
    let handle = engine.start(job, StartOptions::default()).await.unwrap();
    finish(&engine, &handle).await
}

fn config(envs: Value) -> Value {
    json!({
        "input_schema": {
            "type": "object",
            "properties": {
                "q": {"type": "string"}, "limit": {"type": "integer"}, "by": {"type": "string"}, "key": {"type": "string"}
            },
            "required": ["q", "limit", "by", "key"], "additionalProperties": false
        },
        "effect": "idempotent",
        "args": {"defaults": {"limit": 5}, "fixed": {"by": "{agent_id} {step_id} {tool_call_id}"}},
        "envs": envs
    })
}

#[tokio::test]
async fn a_command_gets_the_effective_input_and_the_timeline_has_no_value_of_a_variable() {
    let mut with_command = config(json!({"key": "LIBRARY_KEY"}));
    // The length shows that the command has the value, which is taken out of its output.
    let script =
        "import json,sys; given = json.load(sys.stdin); print(json.dumps({'given': given, 'length': len(given['key'])}))";
    with_command["exec"] = json!({"command": ["python3", "-c", script]});
    let finished = ran(with_command, json!({"q": "a", "key": "mine"})).await;
    assert_eq!(
        call_output(&finished.entries, "0/1.1"),
        json!({"given": {"q": "a", "limit": 5, "by": "solo 1 0/1.1", "key": "[key]"}, "length": 11})
    );
    let started = finished.entries.iter().find_map(|recorded| match &recorded.entry {
        Entry::CallStarted(started) if started.tool.as_str() == "command" => Some(started.clone()),
        _ => None,
    });
    let started = started.unwrap();
    assert_eq!(started.input.unwrap().value(), json!({"q": "a", "limit": 5, "by": "solo 1 0/1.1"}));
    assert_eq!(started.envs["key"], "LIBRARY_KEY");
    let all = finished.entries.iter().map(|recorded| serde_json::to_string(&recorded.entry).unwrap()).collect::<String>();
    assert!(!all.contains("canary"), "{all}");
}

#[tokio::test]
async fn a_call_whose_variable_is_not_set_fails_before_its_code_runs() {
    let mut with_command = config(json!({"key": "ABSENT"}));
    with_command["exec"] = json!({"command": ["python3", "-c", "raise SystemExit(3)"]});
    let finished = ran(with_command, json!({"q": "a"})).await;
    let error = call_error(&finished.entries, "0/1.1");
    assert!(error.contains("the environment variable ABSENT is not set"), "{error}");
}

#[tokio::test]
async fn a_job_that_needs_a_tool_service_does_not_start() {
    let mut service = config(json!({"key": "LIBRARY_KEY"}));
    service["target_subject"] = json!("cg.v1r3.{project_id}.{channel_id}.cmd.tool.library");
    let job = TestJob::new("solo", json!({})).agent("solo", &["command", "handoff"]).tool_by_schema("command", service).load();
    let engine = engine(Value::Null);
    let refused = engine.start(job, StartOptions::default()).await.err().unwrap().to_string();
    assert!(refused.contains("there is no connection to them: command"), "{refused}");
    assert!(engine.store().runs().await.unwrap().is_empty(), "nothing is stored");
}
