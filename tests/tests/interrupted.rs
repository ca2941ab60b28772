//! Commands that are interrupted while they wait for their calls: results reach the next process once, and nothing is accepted for a
//! command that does not run again.

use std::sync::Arc;

use baton_models::Model;
use baton_runtime::{Delivery, Engine, LoadedJob, RunError, RunHandle, RunOutcome, StartOptions};
use baton_store::{MemoryStore, SqliteStore, Store};
use baton_types::event::Refusal;
use baton_types::id::{CallId, TaskId};
use baton_types::json::Json;
use baton_types::principal::Principal;
use serde_json::{Value, json};

use crate::support::{TestJob, call_output, call_result, calls, engine, finish, handoff, model};

/// A command that makes one call, then another one, and returns the status of the first and the output of the second.
const SCRIPT: &str = r#"
import json, sys
given = json.loads(sys.stdin.readline())["input"]
def call(name, tool, fields):
    print(json.dumps({"call": {"tool": tool, "name": name, "input": fields}}), flush=True)
    return json.loads(sys.stdin.readline())["result"]
first = call("first", given["tool"], given["fields"])
second = call("second", "calculator", {"expression": "2 + 3"})
print(json.dumps({"output": [first["status"], second["output"]["result"]]}), flush=True)
"#;

fn job(effect: &str, folder: &tempfile::TempDir) -> LoadedJob {
    std::fs::write(folder.path().join("errand.py"), SCRIPT).unwrap();
    let errand = json!({
        "exec": {"command": ["python3", "errand.py"]},
        "input_schema": {"type": "object"},
        "effect": effect,
        "calls": ["*"],
        "timeout_seconds": 20,
    });
    let gate = json!({"gate": {"type": "string", "description": "Where to wait.", "required": false}});
    let granted = ["errand", "wait_for_event", "calculator", "ask_master", "handoff"];
    let tools = granted.map(Value::from).to_vec();
    let pay = json!({"tool": "strike", "approval": "person"});
    let tools: Vec<Value> = tools.into_iter().chain([pay]).collect();
    let mut job = TestJob::new("root", json!({}))
        .agent_with("root", &[], json!({ "tools": tools }))
        .built_in("wait_for_event")
        .built_in("calculator")
        .tool("strike", gate, json!({"effect": "keyed"}))
        .tool_by_schema("errand", errand)
        .load();
    job.folder = Some(folder.path().to_owned());
    job
}

fn calling(tool: &str, fields: Value) -> Arc<dyn Model> {
    let input = json!({"tool": tool, "fields": fields});
    model(move |_, turn, _| if turn == 1 { calls(&[("errand", input.clone())]) } else { handoff("done", &[]) })
}

fn ann() -> Principal {
    Principal::person("ann")
}

fn first() -> CallId {
    CallId::from("0/1.1:first")
}

/// Starts a run, and stops it when its command can only wait.
async fn stopped(engine: &Engine, job: LoadedJob) -> RunHandle {
    let handle = engine.start(job, StartOptions::default()).await.unwrap();
    assert!(handle.until_idle().await.is_none(), "the run waits");
    assert!(matches!(handle.stop().await, RunOutcome::Stopped));
    handle
}

/// Answers the only open question of a run.
async fn answer(engine: &Engine, handle: &RunHandle, answer: Value) -> Result<Delivery, RunError> {
    let state = engine.state(handle.id()).await.unwrap();
    let is_open = |task: &&baton_machine::Task| task.question.as_ref().is_some_and(|question| question.closed.is_none());
    let question: TaskId = state.graph().iter().find(is_open).expect("a question is open").id.clone();
    engine.answer(handle.id(), question, &ann(), answer.into(), Vec::new()).await
}

#[tokio::test]
async fn a_result_that_comes_with_the_restart_of_a_command_reaches_it_once() {
    for (tool, fields, expected) in [
        ("wait_for_event", json!({"event": "paid"}), "success"),
        ("ask_master", json!({"question": "May I?"}), "success"),
        ("strike", json!({}), "failed"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(Arc::new(MemoryStore::new()), &calling(tool, fields));
        let handle = stopped(&engine, job("keyed", &folder)).await;
        let delivered = match tool {
            "wait_for_event" => engine.deliver(handle.id(), &first(), &ann(), Ok(Json::from(json!({"by": "ann"})))).await,
            "ask_master" => answer(&engine, &handle, json!("yes")).await,
            _ => answer(&engine, &handle, json!({"approved": false})).await,
        };
        assert_eq!(delivered.unwrap(), Delivery::Queued, "{tool}");
        let finished = finish(&engine, &engine.resume(handle.id()).await.unwrap()).await;
        assert_eq!(call_result(&finished.entries, "0/1.1"), "success", "{tool}");
        assert_eq!(call_output(&finished.entries, "0/1.1"), json!([expected, 5]), "{tool}");
    }
}

#[tokio::test]
async fn nothing_is_accepted_for_a_command_that_does_not_run_again() {
    for (tool, fields) in
        [("wait_for_event", json!({"event": "paid"})), ("ask_master", json!({"question": "May I?"})), ("strike", json!({}))]
    {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(Arc::new(MemoryStore::new()), &calling(tool, fields));
        let handle = stopped(&engine, job("at_most_once", &folder)).await;
        let refused = match tool {
            "wait_for_event" => engine.deliver(handle.id(), &first(), &ann(), Ok(Json::from(json!({"by": "ann"})))).await,
            _ => answer(&engine, &handle, json!({"approved": true})).await,
        };
        let Err(RunError::Refused(refusal)) = refused else { panic!("{tool}: {refused:?}") };
        assert!(matches!(refusal, Refusal::NotSuspended { .. } | Refusal::QuestionClosed { .. }), "{tool}: {refusal}");
        assert!(refusal.to_string().contains("call 0/1.1"), "{tool}: {refusal}");
        let finished = finish(&engine, &engine.resume(handle.id()).await.unwrap()).await;
        assert_eq!(call_result(&finished.entries, "0/1.1"), "unknown_outcome unknown_outcome", "{tool}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_several_deliveries_at_the_same_time_one_is_told_that_it_counts() {
    // Not every round has the race.
    for round in 0..24 {
        let folder = tempfile::tempdir().unwrap();
        let opened = || Arc::new(SqliteStore::open(folder.path().join("baton.db")).unwrap());
        let asked = calling("wait_for_event", json!({"event": "paid"}));
        let owner = engine(opened(), &asked);
        let handle = owner.start(job("keyed", &folder), StartOptions::default()).await.unwrap();
        assert!(handle.until_idle().await.is_none(), "the run waits");
        let others: Vec<_> = (0..6)
            .map(|number| {
                let (store, asked, id): (Arc<dyn Store>, _, _) = (opened(), Arc::clone(&asked), handle.id().clone());
                tokio::spawn(async move {
                    let output = Json::from(json!({"by": number}));
                    engine(store, &asked).deliver(&id, &first(), &ann(), Ok(output)).await
                })
            })
            .collect();
        let mut counted = Vec::new();
        for (number, other) in others.into_iter().enumerate() {
            match other.await.unwrap() {
                Ok(Delivery::Done) => counted.push(number),
                Err(RunError::Refused(Refusal::NotSuspended { .. } | Refusal::Ended { .. })) => {}
                other => panic!("round {round}, {number}: {other:?}"),
            }
        }
        let finished = finish(&owner, &handle).await;
        let output = call_output(&finished.entries, "0/1.1:first");
        assert_eq!(counted.iter().map(|number| json!({"by": number})).collect::<Vec<_>>(), [output], "round {round}");
    }
}
