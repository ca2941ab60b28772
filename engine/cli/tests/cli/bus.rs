//! Tool services over NATS: `run --bus` and `work --bus`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use baton_servers::Nats;
use serde_json::{Value, json};

use crate::support::Folder;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A process that is killed when this is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

/// Starts the service of the example in Python.
fn service(bus: &Nats) -> Process {
    let mut python = Command::new("python3");
    python.arg(repository().join("examples/tool-service/service.py")).arg(bus.address());
    python.env("PYTHONPATH", repository().join("target/python"));
    Process(python.stdin(Stdio::null()).spawn().expect("python3 is installed"))
}

fn command(folder: &Folder, bus: &Nats, arguments: &[&str]) -> Command {
    let mut command = folder.command(arguments);
    command.env("BATON_BUS", bus.address()).stdin(Stdio::null());
    command
}

fn worker(folder: &Folder, bus: &Nats) -> Process {
    Process(command(folder, bus, &["work"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("baton is built"))
}

fn example() -> String {
    repository().join("examples/tool-service/job").display().to_string()
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_mins(1), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn status(folder: &Folder) -> Value {
    folder.baton(&["ps", "--output", "json"]).exits(0).json()[0]["status"].clone()
}

#[test]
fn a_service_in_python_executes_the_calls_of_an_agent() {
    let (folder, bus) = (Folder::new(), Nats::start());
    let _service = service(&bus);
    let ran = command(&folder, &bus, &["run", &example(), "--trust", "--output", "json"]).output().expect("baton is built");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let entries = folder.baton(&["timeline", "@last", "--output", "ndjson"]).exits(0).lines();
    let finished = entries.iter().find(|entry| entry["entry"] == "call_finished" && entry["tool"] == "library_search");
    let finished = finished.expect("the call has a result");
    assert_eq!(finished["result"]["output"], json!({"titles": ["Moths of the Alps", "A Year of Moths"]}), "{finished}");
    assert_eq!(finished["data"]["delivered_by"], json!({"program": "tool.library"}));
    folder.baton(&["verify", "@last"]).exits(0);
}

#[test]
fn a_worker_continues_the_runs_whose_services_answer_later() {
    let (folder, bus) = (Folder::new(), Nats::start());
    folder.write("baton.json", json!({"project": "acme", "channel": "night"}).to_string());
    let queued = command(&folder, &bus, &["run", &example(), "--trust", "--queue"]).output().expect("baton is built");
    assert!(queued.status.success(), "{}", String::from_utf8_lossy(&queued.stderr));
    let first = worker(&folder, &bus);
    eventually("the run waits for the service", || status(&folder) == "waiting");
    drop(first);
    let mut python = Command::new("python3");
    python.arg(repository().join("examples/tool-service/service.py")).args([bus.address().as_str(), "acme", "night"]);
    python.env("PYTHONPATH", repository().join("target/python"));
    let _service = Process(python.stdin(Stdio::null()).spawn().expect("python3 is installed"));
    let _second = worker(&folder, &bus);
    eventually("the run has ended", || status(&folder) == "completed");
    folder.baton(&["verify", "@last"]).exits(0);
}

#[test]
fn a_bus_that_cannot_be_used_is_reported_before_the_first_request() {
    let folder = Folder::new();
    let run = |bus: &str| folder.baton(&["run", &example(), "--trust", "--bus", bus]);
    run("").exits(2).tells("name a NATS server with --bus");
    run("http://ann:secret@localhost").exits(2).tells("nats://HOST:PORT");
    run("nats://127.0.0.1:1").exits(5).tells("the NATS server at nats://127.0.0.1:1 cannot be reached");
    folder.write("baton.json", json!({"project": "two words"}).to_string());
    run("nats://127.0.0.1:1").exits(2).tells("cannot be part of a subject");
}
