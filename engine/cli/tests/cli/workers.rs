//! `run --queue` and `work`: runs that are executed by another process than the one that starts them.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Folder, end, eventually};

/// Writes a job whose lead executes a command that adds a line to the file in `STARTED`, works for `TAKES` seconds, and hands off.
fn working_job(folder: &Folder) {
    let tool = json!({
        "tool_id": "work", "type": "function_tool", "description": "Works.", "effect": "keyed",
        "exec": {"command": ["sh", "-c", "echo >> \"$STARTED\"; sleep \"$TAKES\"; echo '{}'"], "env": ["STARTED", "TAKES"]},
        "input_schema": {"type": "object"},
    });
    let done = json!({"tool": "handoff", "input": {"result": {"summary": "worked"}}});
    let turns = json!([{"calls": [{"tool": "work", "input": {}}]}, {"calls": [done]}]);
    folder.job("working", &[("lead", &["work", "handoff"])], json!({"lead": {"turns": turns}}), json!({}));
    folder.write("working/tools/work.json", tool.to_string());
}

fn worker(folder: &Folder, started: &Path, takes: &str) -> Child {
    let mut command = folder.command(&["work", "--slots", "2"]);
    command.env("STARTED", started).env("TAKES", takes).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Returns the number of times that the command was started.
fn times(started: &Path) -> usize {
    std::fs::read(started).map_or(0, |bytes| bytes.len())
}

fn queue(folder: &Folder, started: &Path) -> String {
    let mut command = folder.command(&["run", "working", "--queue", "--trust", "--output", "json"]);
    let output = command.env("STARTED", started).env("TAKES", "0").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["state"], "queued");
    report["run"].as_str().unwrap().to_owned()
}

#[test]
fn a_worker_executes_a_queued_run_that_nothing_was_asked_for() {
    let folder = Folder::new();
    working_job(&folder);
    let started = folder.path().join("started");
    let run = queue(&folder, &started);
    assert_eq!((folder.status(), times(&started)), (json!("queued"), 0));
    let entries = folder.baton(&["timeline", &run, "--output", "ndjson"]).exits(0);
    assert!(!entries.stdout.contains("model_requested"), "no request was made, so none is lost: {}", entries.stdout);
    let working = worker(&folder, &started, "0");
    eventually("the run has ended", || (folder.status() == "completed").then_some(()));
    end(working, "TERM");
    let shown = folder.baton(&["show", &run, "--output", "json"]).exits(0).json();
    assert_eq!((times(&started), &shown["result"]["summary"]), (1, &json!("worked")), "{shown}");
    folder.baton(&["verify", &run]).exits(0);
}

#[test]
fn a_run_moves_from_a_stopped_worker_to_the_next_one() {
    let folder = Folder::new();
    working_job(&folder);
    let started = folder.path().join("started");
    queue(&folder, &started);
    // More often than a quarantine allows: a worker that is stopped has not died.
    for turn in 1..=5 {
        let working = worker(&folder, &started, "600");
        eventually("the command runs", || (times(&started) == turn).then_some(()));
        end(working, "TERM");
    }
    let working = worker(&folder, &started, "0");
    eventually("the run has ended", || (folder.status() == "completed").then_some(()));
    end(working, "TERM");
    folder.baton(&["verify", "@last"]).exits(0);
}

#[test]
fn a_run_whose_workers_die_is_quarantined_until_a_person_resumes_it() {
    let folder = Folder::new();
    working_job(&folder);
    let started = folder.path().join("started");
    let run = queue(&folder, &started);
    for turn in 1..=3 {
        let working = worker(&folder, &started, "600");
        eventually("the command runs", || (times(&started) == turn).then_some(()));
        end(working, "KILL");
    }
    let working = worker(&folder, &started, "0");
    eventually("the run is quarantined", || (folder.status() == "quarantined").then_some(()));
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!((times(&started), folder.status()), (3, json!("quarantined")), "no worker touches it");
    folder.baton(&["timeline", &run]).exits(0).says("quarantined: 3 owners died");
    let mut resume = folder.command(&["resume", &run]);
    assert!(resume.env("STARTED", &started).env("TAKES", "0").output().unwrap().status.success());
    assert_eq!((times(&started), folder.status()), (4, json!("completed")));
    end(working, "TERM");
    folder.baton(&["verify", &run]).exits(0);
}

#[test]
fn a_run_of_a_store_in_memory_cannot_be_queued() {
    let folder = Folder::new();
    working_job(&folder);
    folder.baton(&["run", "working", "--queue", "--trust", "--store", "memory"]).exits(2).tells("--store");
    folder.baton(&["work", "--slots", "0"]).exits(2).tells("from 1 to");
}
