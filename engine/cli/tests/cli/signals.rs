//! SIGINT and SIGTERM in the first moments of a run. Once the run has begun, it stops and can be resumed, and no call of it is
//! in doubt.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::Folder;

/// The number of tried moments, and the time between them.
const MOMENTS: u32 = 24;
const APART: Duration = Duration::from_micros(1_500);

fn signal(child: &Child, name: &str) {
    // The program may have ended.
    let _ended = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).stderr(Stdio::null()).status();
}

/// Writes a job that calls a command which must not be repeated, and then many quick tools.
fn eager_job(folder: &Folder) {
    let tool = json!({
        "tool_id": "once", "type": "function_tool", "description": "Counts.", "effect": "at_most_once",
        "exec": {"command": ["sh", "-c", "echo '{\"done\": true}'"]}, "input_schema": {"type": "object"},
    });
    let echo = |number: u32| json!({"calls": [{"tool": "echo", "input": {"message": format!("{number}")}}]});
    let mut turns = vec![json!({"calls": [{"tool": "once", "input": {}}]})];
    turns.extend((0..40).map(echo));
    turns.push(json!({"calls": [{"tool": "handoff", "input": {"result": {"summary": "done"}}}]}));
    folder.job("eager", &[("lead", &["once", "echo", "handoff"])], json!({"lead": {"turns": turns}}), json!({}));
    folder.write("eager/tools/once.json", tool.to_string());
}

#[test]
fn a_signal_in_the_first_moments_of_a_run_stops_it_and_leaves_nothing_in_doubt() {
    let folder = Folder::new();
    eager_job(&folder);
    for moment in 0..MOMENTS {
        let store = format!("store-{moment}.db");
        let file = folder.path().join(&store);
        let name = if moment % 2 == 0 { "TERM" } else { "INT" };
        let mut command = folder.command(&["run", "eager", "--trust", "--store", &store]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // The moments start when the store exists; each is a bit later than the one before.
        while !file.exists() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        let there = Instant::now();
        while there.elapsed() < APART * moment {
            std::hint::spin_loop();
        }
        signal(&child, name);
        let status = child.wait().unwrap();
        let runs = folder.baton(&["ps", "--output", "json", "--store", &store]).exits(0).json();
        let Some(run) = runs.get(0) else { continue };
        assert!(matches!(status.code(), Some(130 | 0)), "SIG{name} at moment {moment} of a begun run: {status}, {run}");
        if status.code() == Some(130) {
            folder.baton(&["resume", "@last", "--store", &store]).exits(0);
        }
        let timeline = folder.baton(&["timeline", "@last", "--store", &store, "--output", "ndjson"]).exits(0);
        assert!(!timeline.stdout.contains("unknown_outcome"), "SIG{name} at moment {moment}: {}", timeline.stdout);
    }
}

#[test]
fn a_signal_after_each_of_the_first_entries_stops_the_run() {
    let folder = Folder::new();
    eager_job(&folder);
    for entries in 1..8 {
        let store = format!("store-{entries}.db");
        let mut command = folder.command(&["run", "eager", "--trust", "--output", "ndjson", "--store", &store]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.by_ref().take(entries).flatten().count(), entries);
        signal(&child, "TERM");
        lines.for_each(drop);
        let status = child.wait().unwrap();
        assert!(matches!(status.code(), Some(130 | 0)), "after {entries} entries: {status}");
    }
}
