//! The program with a store in PostgreSQL: the same commands, and the same results as with a file.

use std::process::Stdio;
use std::time::{Duration, Instant};

use baton_servers::{Database, Nats, Postgres};
use serde_json::json;

use crate::deliveries::{started, waiting_job};
use crate::support::{Folder, Ran, end, in_repository};

/// A folder whose commands use a database.
struct Shared<'a> {
    folder: Folder,
    database: Database<'a>,
}

impl Shared<'_> {
    fn new() -> Self {
        Self { folder: Folder::new(), database: Postgres::shared().database() }
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.folder.command(arguments);
        command.env("BATON_STORE", self.database.address());
        command
    }

    fn baton(&self, arguments: &[&str]) -> Ran {
        Ran::from(self.command(arguments).output().unwrap())
    }
}

#[test]
fn a_killed_run_is_resumed_from_the_database() {
    let shared = Shared::new();
    let (job, begun) = (in_repository("examples/q3-sales"), Instant::now());
    let written = "SELECT coalesce(max(last_seq), 0) FROM baton.runs WHERE status = 'running'";
    loop {
        assert!(begun.elapsed() < Duration::from_mins(2), "every run ended before it was killed");
        let mut run = shared.command(&["run", &job]);
        let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let killed = loop {
            if run.try_wait().unwrap().is_some() {
                break false;
            }
            let is_there = shared.database.sql("SELECT to_regclass('baton.runs') IS NOT NULL") == "t";
            if is_there && shared.database.sql(written).parse::<u64>().unwrap() >= 5 {
                run.kill().unwrap();
                run.wait().unwrap();
                break shared.database.sql("SELECT count(*) FROM baton.runs WHERE status = 'running'") == "1";
            }
        };
        if killed {
            break;
        }
    }
    // Other processes are refused until the lease of the killed process has ended.
    let resumed = loop {
        let ran = shared.baton(&["resume", "@last", "--output", "json"]);
        if ran.code == 0 {
            break ran.json();
        }
        assert!(begun.elapsed() < Duration::from_mins(3), "{}", ran.stderr);
        std::thread::sleep(Duration::from_millis(500));
    };
    assert_eq!(resumed["result"]["figures_checked"], json!(true), "{resumed}");
    shared.baton(&["verify", "@last"]).exits(0);
    shared.baton(&["verify"]).exits(0).says("whole");
    shared.baton(&["replay", "@last"]).exits(0);
    let documents = shared.baton(&["doc", "ls", "@last", "--output", "json"]).exits(0).json();
    assert_eq!(documents.as_array().unwrap().len(), 3, "{documents}");
    assert!(!shared.folder.path().join(".baton").exists(), "nothing is kept in the project");
}

#[test]
fn commands_use_the_database_like_a_file() {
    let shared = Shared::new();
    shared.folder.asking_job();
    shared.folder.echo_job();
    shared.baton(&["ps"]).exits(6).tells("there is no store");
    shared.baton(&["run", "asking", "--no-input"]).exits(3);
    shared.baton(&["answer", "@last", "units"]).exits(0);
    shared.baton(&["show", "@last"]).exits(0).says("units");
    shared.baton(&["run", "echoing"]).exits(0);
    shared.baton(&["fork", "@last", "--at", "3"]).exits(0);
    let runs = shared.baton(&["ps", "--output", "json"]).exits(0).json();
    assert_eq!(runs.as_array().unwrap().len(), 3, "{runs}");
    let doctor = shared.baton(&["doctor"]);
    assert!(doctor.stdout.contains("3 runs"), "{doctor:?}");
    shared.baton(&["gc", "--keep", "0"]).exits(0).says("removed 3 runs");
    shared.baton(&["ps"]).exits(0).tells("no runs yet");
}

#[test]
fn a_store_moves_to_a_database_and_back_with_its_suspended_call() {
    let shared = Shared::new();
    let (folder, address) = (&shared.folder, shared.database.address());
    waiting_job(folder);
    let (child, key) = started(folder);
    let copy = |from: &str, to: &str| folder.baton(&["store", "copy", from, to]);
    let refused = copy(".baton/baton.db", &address).exits(1);
    refused.tells(&folder.last_run()).tells(&format!("process {}-", child.id())).tells("stop that process");
    end(child, "TERM");
    copy("none.db", &address).exits(6).tells("there is no store none.db");
    copy("memory", &address).exits(2).tells("name a file or a database");
    copy("none.db", "mysql://one/runs").exits(6);
    copy(".baton/baton.db", "mysql://one/runs").exits(2).tells("no store for mysql://");
    let copied = copy(".baton/baton.db", &address).exits(0).says("copied 1 run · ").says("BATON_STORE");
    assert!(!copied.stdout.contains('@'), "{copied:?}");
    copy(".baton/baton.db", &address).exits(1).tells("is not empty").tells("name a new file");
    // Each copy has the call with its key, and continues by itself.
    copy(&address, "back.db").exits(0);
    for store in [address.as_str(), "back.db", ".baton/baton.db"] {
        let baton = |arguments: &[&str]| folder.baton(&[&["--store", store], arguments].concat());
        baton(&["verify"]).exits(0).says("whole");
        assert_eq!(baton(&["show", "@last", "--output", "json"]).exits(0).json()["suspended"][0]["key"], json!(key));
        baton(&["deliver", &key, "{\"paid\": true}"]).exits(0).says("paid");
        baton(&["verify", "@last"]).exits(0).says("holds");
    }
}

#[test]
fn a_database_that_cannot_be_reached_is_named_without_its_password() {
    let folder = Folder::new();
    folder.echo_job();
    for command in [&["ps"][..], &["run", "echoing"], &["verify"], &["doctor"], &["gc"]] {
        let address = "postgres://ann:sesame@127.0.0.1:1/runs?connect_timeout=2";
        let ran = folder.baton(&[&["--store", address], command].concat());
        assert_ne!(ran.code, 0, "{ran:?}");
        let all = format!("{}{}", ran.stdout, ran.stderr);
        assert!(all.contains("postgres://127.0.0.1:1/runs cannot be reached"), "{all}");
        assert!(!all.contains("sesame"), "{all}");
    }
    let ran = folder.baton(&["--store", "mysql://ann:sesame@one/runs", "ps"]).exits(2).tells("no store for mysql://");
    assert!(!ran.stderr.contains("sesame"), "{ran:?}");
}

/// Writes a job whose lead executes a command three times, which adds the key of its call to a file, and hands off.
fn counting_job(folder: &Folder, effect: &str) {
    let tool = json!({
        "tool_id": "count", "type": "function_tool", "description": "Counts.", "effect": effect,
        "exec": {"command": ["sh", "-c", "echo \"$BATON_CALL_ID\" >> \"$COUNTED\"; sleep 0.2; echo '{}'"], "env": ["COUNTED"]},
        "input_schema": {"type": "object"},
    });
    let count = json!({"calls": [{"tool": "count", "input": {}}]});
    let done = json!({"calls": [{"tool": "handoff", "input": {"result": {"summary": "counted"}}}]});
    let turns = json!([count, count, count, done]);
    folder.job("counting", &[("lead", &["count", "handoff"])], json!({"lead": {"turns": turns}}), json!({}));
    folder.write("counting/tools/count.json", tool.to_string());
}

#[test]
fn three_workers_lose_no_run_while_one_is_killed_and_the_database_crashes() {
    three_workers_lose_no_run(None);
}

#[test]
fn three_workers_with_a_bus_lose_no_run_while_one_is_killed_and_both_servers_crash() {
    three_workers_lose_no_run(Some(&Nats::start()));
}

/// Lets three workers execute runs while one of them is killed, the database crashes, and the bus loses all its messages.
fn three_workers_lose_no_run(bus: Option<&Nats>) {
    const RUNS: usize = 24;
    let server = Postgres::start(&[]);
    let shared = Shared { folder: Folder::new(), database: server.database() };
    counting_job(&shared.folder, "keyed");
    let counted = shared.folder.path().join("counted");
    let command = |arguments: &[&str]| {
        let mut command = shared.command(arguments);
        command.env("COUNTED", &counted).stdout(Stdio::null()).stderr(Stdio::null());
        command.env("BATON_BUS", bus.map(Nats::address).unwrap_or_default());
        command
    };
    for _ in 0..RUNS {
        assert!(command(&["run", "counting", "--queue", "--trust"]).status().unwrap().success());
    }
    let ended = || shared.database.sql("SELECT count(*) FROM baton.runs WHERE status = 'completed'").parse::<usize>().unwrap();
    let begun = Instant::now();
    let until = |wanted: usize| {
        while ended() < wanted {
            assert!(begun.elapsed() < Duration::from_mins(3), "{} of {RUNS} runs have ended: {}", ended(), server.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let mut workers: Vec<_> = (0..3).map(|_| command(&["work", "--slots", "4"]).spawn().unwrap()).collect();
    until(2);
    workers[0].kill().unwrap();
    workers[0].wait().unwrap();
    until(5);
    server.kill();
    if let Some(bus) = bus {
        bus.kill();
        bus.forget_everything();
    }
    std::thread::sleep(Duration::from_secs(2));
    server.start_again();
    if let Some(bus) = bus {
        bus.start_again();
    }
    until(RUNS);
    for mut worker in workers.split_off(1) {
        assert!(worker.try_wait().unwrap().is_none(), "a worker waits until the database is back");
        assert_eq!(end(worker, "TERM").code(), Some(0));
    }
    // A call that a crash interrupted ran again, with the same key.
    let keys = std::fs::read_to_string(&counted).unwrap();
    let distinct: std::collections::BTreeSet<&str> = keys.lines().collect();
    assert_eq!(distinct.len(), RUNS * 3);
    shared.baton(&["verify"]).exits(0).says("whole");
}

#[test]
fn no_run_is_stuck_or_does_something_twice_while_workers_are_restarted() {
    let restarts = std::env::var("BATON_ROLLING_RESTARTS").ok().and_then(|restarts| restarts.parse().ok()).unwrap_or(6);
    let server = Postgres::start(&[]);
    let shared = Shared { folder: Folder::new(), database: server.database() };
    counting_job(&shared.folder, "at_most_once");
    let counted = shared.folder.path().join("counted");
    let command = |arguments: &[&str]| {
        let mut command = shared.command(arguments);
        command.env("COUNTED", &counted).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let worker = || command(&["work", "--slots", "4"]).spawn().unwrap();
    let stop = |worker| assert_eq!(end(worker, "TERM").code(), Some(0));
    let mut old = worker();
    for _ in 0..restarts {
        assert!(command(&["run", "counting", "--queue", "--trust"]).status().unwrap().success());
        let new = worker();
        stop(std::mem::replace(&mut old, new));
    }
    let ended = || shared.database.sql("SELECT count(*) FROM baton.runs WHERE status = 'completed'").parse::<usize>().unwrap();
    let begun = Instant::now();
    while ended() < restarts {
        assert!(begun.elapsed() < Duration::from_mins(2), "{} of {restarts} runs have ended: {}", ended(), server.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    stop(old);
    let keys = std::fs::read_to_string(&counted).unwrap();
    let distinct: std::collections::BTreeSet<&str> = keys.lines().collect();
    assert_eq!((keys.lines().count(), distinct.len()), (restarts * 3, restarts * 3));
    shared.baton(&["verify"]).exits(0).says("whole");
}
