//! A timeline may be larger than the memory: `timeline` keeps one page of it at a time.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::Folder;

/// Number of bytes in the input of a worker's call.
const INPUT: usize = 400_000;

/// Runs `workers` tasks one after the other, each with a call that has a long input.
fn run(folder: &Folder, workers: usize) {
    let delegations =
        (0..workers).map(|part| json!({"calls": [{"tool": "route_to_worker", "input": {"request": format!("part {part}")}}]}));
    let end = json!({"calls": [{"tool": "handoff", "input": {"result": {"summary": "done"}}}]});
    let lead: Vec<Value> = delegations.chain([end.clone()]).collect();
    let echo = json!({"calls": [{"tool": "echo", "input": {"message": "m".repeat(INPUT)}}]});
    let agents: &[(&str, &[&str])] = &[("lead", &["route_to_worker", "handoff"]), ("worker", &["echo", "handoff"])];

    folder.job("large", agents, json!({"lead": {"turns": lead}, "worker": {"turns": [echo, end]}}), json!({}));
    folder.baton(&["--store", "large.db", "run", "large"]).exits(0);
}

/// Returns the peak of `timeline`'s resident memory in bytes, measured when only the rows of a few workers are left to print.
fn peak(folder: &Folder, workers: usize) -> u64 {
    let mut command =
        folder.command(&["--store", "large.db", "--output", "ndjson", "timeline", "@last", "--type", "function_tool"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // Each worker has two rows. The remaining rows do not fit into a pipe, so the process is still running.
    let read = 2 * workers - 6;
    assert_eq!(lines.by_ref().take(read).filter(|line| line.as_ref().unwrap().len() > INPUT).count(), read);
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kibibytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert_eq!(lines.count(), 6);
    assert!(child.wait().unwrap().success());
    kibibytes * 1_024
}

#[test]
fn a_timeline_takes_no_more_memory_when_it_is_longer() {
    let [before, after] = [20, 90].map(|workers| {
        let folder = Folder::new();
        run(&folder, workers);
        peak(&folder, workers)
    });
    // Each worker has two rows with the input.
    let (longer, more) = ((90 - 20) * 2 * INPUT as u64, after.saturating_sub(before));
    assert!(more < longer / 4, "{longer} bytes of a timeline take {more} bytes of memory more");
}
