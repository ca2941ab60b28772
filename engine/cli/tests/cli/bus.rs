//! Tool services over NATS: `run --bus` and `work --bus`.

use std::process::{Command, Stdio};

use baton_servers::Nats;
use serde_json::{Value, json};

use crate::support::{Folder, Process, eventually, in_repository};

/// Returns the command of a script in Python that uses the project's package.
fn python(script: &str, arguments: &[&str]) -> Command {
    let mut python = Command::new("python3");
    python.arg(in_repository(script)).args(arguments).env("PYTHONPATH", in_repository("target/python")).stdin(Stdio::null());
    python
}

/// Starts the service of the example in Python.
fn service(arguments: &[&str]) -> Process {
    Process(python("examples/tool-service/service.py", arguments).spawn().expect("python3 is installed"))
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
    in_repository("examples/tool-service/job")
}

#[test]
fn a_service_in_python_executes_the_calls_of_an_agent() {
    let (folder, bus) = (Folder::new(), Nats::start());
    let _service = service(&[&bus.address()]);
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
    eventually("the run waits for the service", || (folder.status() == "waiting").then_some(()));
    drop(first);
    let _service = service(&[&bus.address(), "acme", "night"]);
    let _second = worker(&folder, &bus);
    eventually("the run has ended", || (folder.status() == "completed").then_some(()));
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

/// The permissions that docs/utp.md lists for a worker and a service of the project `default`.
const PERMISSIONS: &str = r#"
authorization { users = [
  { user: worker, password: w, permissions: {
      publish: ["cg.v1r3.default.>", "$JS.API.>", "$JS.ACK.>", "_INBOX.>"]
      subscribe: ["cg.v1r3.default.*.cmd.sys.card.*", "_INBOX.>"] } }
  { user: service, password: s, permissions: {
      publish: ["cg.v1r3.default.*.cmd.sys.>", "cg.v1r3.default.*.evt.sys.dead_letter", "$JS.API.>", "$JS.ACK.>"]
      subscribe: ["_INBOX.>"] } }
] }
"#;

#[test]
fn a_worker_and_a_service_need_no_more_than_the_permissions_of_their_project() {
    let folder = Folder::new();
    folder.write("nats.conf", PERMISSIONS);
    let bus = Nats::start_with(&["--config", folder.path().join("nats.conf").to_str().expect("a path of text")]);
    let _service = service(&[&bus.address_as("service:s")]);
    let run = |address: &str| folder.baton(&["run", &example(), "--trust", "--bus", address]);
    run(&bus.address_as("worker:w")).exits(0);
    run(&bus.address_as("worker:wrong")).exits(5).tells("cannot be reached");
}

/// Starts `tool serve` for the tool of a job.
fn serving(folder: &Folder, bus: &Nats, tool: &str) -> Process {
    let mut serve = command(folder, bus, &["tool", "serve", tool, "--job", "sums", "--trust"]);
    Process(serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("baton is built"))
}

/// Adds the two numbers of its input.
const ADD: &str = "import json, sys; values = json.load(sys.stdin); print(json.dumps({\"sum\": values[\"a\"] + values[\"b\"]}))";

/// Writes a job with a tool `add` that a command executes. It counts its executions in the file `counted`.
fn adding_job(folder: &Folder) {
    let counted = folder.path().join("counted");
    let script = format!("echo >> {}; python3 -c '{ADD}'", counted.display());
    let tool = json!({
        "tool_id": "add", "type": "function_tool", "description": "Adds.", "effect": "keyed",
        "exec": {"command": ["sh", "-c", script]},
        "input_schema": {
            "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"],
        },
    });
    folder.job("sums", &[("lead", &["add"])], json!({"lead": {"turns": [{"text": "done"}]}}), json!({}));
    folder.write("sums/tools/add.json", tool.to_string());
}

#[test]
fn a_caller_in_python_calls_a_tool_of_the_engine() {
    let (folder, bus) = (Folder::new(), Nats::start());
    adding_job(&folder);
    let _serving = serving(&folder, &bus, "add");
    let mut caller = python("engine/cli/tests/cli/caller.py", &[&bus.address(), "add", r#"{"a": 2, "b": 3}"#]);
    let called = caller.output().expect("python3 is installed");
    assert!(called.status.success(), "{}", String::from_utf8_lossy(&called.stderr));
    let answer: Value = serde_json::from_slice(&called.stdout).expect("JSON");
    assert_eq!((&answer["status"], &answer["result"]), (&json!("success"), &json!({"sum": 5})), "{answer}");
    assert_eq!(answer["callbacks"], 3, "each of the three commands for the call is answered: {answer}");
    assert_eq!(folder.read("counted").lines().count(), 1, "and the tool ran once");
}

#[test]
fn an_agent_calls_a_tool_of_another_engine_and_gets_its_errors() {
    let (folder, bus) = (Folder::new(), Nats::start());
    adding_job(&folder);
    let (elsewhere, _serving) = (Folder::new(), serving(&folder, &bus, "add"));
    let tool = json!({
        "tool_id": "add", "type": "function_tool", "description": "Adds.",
        "target_subject": "cg.v1r3.{project_id}.{channel_id}.cmd.tool.add",
        "input_schema": {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]},
    });
    let handoff = json!({"tool": "handoff", "input": {"result": {"summary": "added"}}});
    let calls = json!([{"tool": "add", "input": {"a": 2, "b": 3}}, {"tool": "add", "input": {"a": 2, "b": "three"}}]);
    let script = json!({"lead": {"turns": [{"calls": calls}, {"calls": [handoff]}]}});
    elsewhere.job("sum", &[("lead", &["add", "handoff"])], script, json!({}));
    elsewhere.write("sum/tools/add.json", tool.to_string());
    let ran = command(&elsewhere, &bus, &["run", "sum", "--trust", "--output", "json"]).output().expect("baton is built");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let entries = elsewhere.baton(&["timeline", "@last", "--output", "ndjson"]).exits(0).lines();
    let result = |call: &str| {
        let found = entries.iter().find(|entry| entry["entry"] == "call_finished" && entry["call"] == call);
        found.expect("the call has a result")["result"].clone()
    };
    assert_eq!(result("0/1.1")["output"], json!({"sum": 5}));
    assert_eq!(result("0/1.2")["error"]["code"], "invalid_input", "{}", result("0/1.2"));
    folder.baton(&["tool", "serve", "add", "--job", "sums"]).exits(2).tells("--bus");
    folder.baton(&["tool", "serve", "handoff"]).exits(2).tells("only functions are served");
}
