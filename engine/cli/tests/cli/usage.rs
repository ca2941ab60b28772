//! Tokens and cost that were reserved for requests are never shown as used. This covers requests that reached no provider,
//! cancelled requests, and runs that fail while many requests are open.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::support::{Folder, in_repository};

/// Returns the usage of the last run.
fn usage(folder: &Folder) -> Value {
    folder.baton(&["show", "@last", "--output", "json"]).json()["usage"].clone()
}

/// Returns the tokens that the tasks of the last run used, and the cancelled tasks.
fn of_tasks(folder: &Folder) -> (u64, Vec<Value>) {
    let report = folder.baton(&["show", "@last", "--output", "json"]).json();
    let tasks = report["tasks"].as_array().unwrap();
    let tokens = tasks.iter().map(|task| task["tokens"].as_u64().unwrap()).sum();
    (tokens, tasks.iter().filter(|task| task["status"] == "cancelled").cloned().collect())
}

fn used(usage: &Value) -> u64 {
    ["input_tokens", "output_tokens"].iter().map(|tokens| usage["used"][tokens].as_u64().unwrap()).sum()
}

#[test]
fn a_request_that_never_reached_its_provider_uses_nothing_and_costs_nothing() {
    let folder = Folder::new();
    folder.echo_job();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let models = json!({
        "providers": {"mine": {"like": "llamacpp", "base_url": format!("http://{closed}/v1"), "outage_seconds": 0}},
        "models": {"dear": {"model": "mine:m", "price": {"input": 5, "output": 20}}},
    });
    folder.write("config/baton/models.json", models.to_string());
    let ran = folder.baton(&["run", "echoing", "--model", "dear", "--max-cost", "0.5", "--trust"]).exits(5);
    let told = ran.stdout + &ran.stderr;
    assert!(!told.contains('≈') && told.contains("0 in · 0 out") && told.contains("cost $0"), "{told}");
    let usage = usage(&folder);
    assert_eq!(used(&usage), 0, "{usage}");
    assert!(usage["reserved"]["cost_usd"].as_f64().unwrap() > 0.0, "the request stays open: {usage}");
}

#[test]
fn what_a_cancelled_reviewer_reserved_is_unknown_and_not_used() {
    let folder = Folder::new();
    let ran = folder.baton(&["run", &in_repository("examples/four-eyes")]).exits(3);
    let (usage, (tokens, cancelled)) = (usage(&folder), of_tasks(&folder));
    assert_eq!((used(&usage), cancelled.len(), &cancelled[0]["tokens"]), (tokens, 1, &json!(0)), "{usage}");
    assert!(usage["unknown"]["tokens"].as_u64().unwrap() > 1_000, "{usage}");
    let told = ran.stdout + &ran.stderr;
    assert!(told.contains(" unknown · cost"), "{told}");
}

#[test]
fn what_was_open_when_a_run_failed_is_unknown_and_not_used() {
    const WORKERS: usize = 20;
    let folder = Folder::new();
    // This server accepts connections and never answers, so its requests are open until they are cancelled.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let call = |tool: &str| json!({"tool": tool, "input": {"request": "Do it."}});
    let calls: Vec<Value> = (0..WORKERS).map(|_| call("route_to_worker")).chain([call("route_to_failing")]).collect();
    let script = json!({"lead": {"turns": [{"calls": calls}]}, "failing": {"turns": [{"calls": [{"tool": "echo", "input": {"message": "x"}}]}]}});
    let lead = ["route_to_worker", "route_to_failing", "handoff"].as_slice();
    folder.job("many", &[("lead", lead), ("failing", &["echo", "handoff"])], script, json!({}));
    let worker = json!({
        "agent_id": "worker", "description": "Works.", "model": "mine:m", "system_prompt": "Work.", "tools": ["handoff"],
    });
    folder.write("many/agents/worker.json", worker.to_string());
    let url = format!("http://{}/v1", silent.local_addr().unwrap());
    folder.write("config/baton/models.json", json!({"providers": {"mine": {"like": "llamacpp", "base_url": url}}}).to_string());
    // The script has no second turn for `failing`, which fails the run.
    folder.baton(&["run", "many", "--trust"]).exits(1);
    let (usage, (tokens, cancelled)) = (usage(&folder), of_tasks(&folder));
    let workers: Vec<_> = cancelled.iter().filter(|task| task["agent"] == "worker").collect();
    assert_eq!((used(&usage), workers.len()), (tokens, WORKERS), "{usage}");
    assert!(workers.iter().all(|task| task["tokens"] == 0), "{workers:?}");
    assert!(usage["unknown"]["tokens"].as_u64().unwrap() > 1_000 * WORKERS as u64, "{usage}");
}
