//! `deliver` and `work`: results of suspended calls, from another process than the one that made the calls.

use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Folder, Ran, end, eventually, signal};

/// Writes a job whose lead waits for an event, and then hands off.
pub(crate) fn waiting_job(folder: &Folder) {
    let wait = json!({"tool": "wait_for_event", "input": {"event": "Invoice 17 is paid"}});
    let done = json!({"calls": [{"tool": "handoff", "input": {"result": {"summary": "paid"}}}]});
    let turns = json!([{"calls": [wait]}, done]);
    folder.job("waiting", &[("lead", &["wait_for_event", "handoff"])], json!({"lead": {"turns": turns}}), json!({}));
}

fn shown(folder: &Folder) -> Value {
    folder.baton(&["show", "@last", "--output", "json"]).exits(0).json()
}

/// Starts a run, waits until its call is suspended, and returns the process with the key of the call.
pub(crate) fn started(folder: &Folder) -> (Child, String) {
    let child = folder.command(&["run", "waiting"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let key = eventually("the call is suspended", || {
        let report: Ran = folder.baton(&["show", "@last", "--output", "json"]);
        let suspended = (report.code == 0).then(|| report.json()["suspended"][0].clone())?;
        (suspended["tool"] == "wait_for_event").then(|| suspended["key"].as_str().unwrap().to_owned())
    });
    (child, key)
}

#[test]
fn a_paused_run_is_listed_as_paused_although_a_call_waits() {
    let folder = Folder::new();
    waiting_job(&folder);
    let (child, _) = started(&folder);
    end(child, "INT");
    assert_eq!(folder.status(), "waiting");
    folder.baton(&["pause", "@last"]).exits(0);
    assert_eq!(folder.status(), "paused");
}

#[test]
fn a_delivery_reaches_the_process_that_waits_for_it() {
    let folder = Folder::new();
    waiting_job(&folder);
    let (mut child, key) = started(&folder);
    folder.baton(&["show", "@last"]).exits(0).says("waits for wait_for_event").says(&format!("baton deliver {key} JSON"));
    folder.baton(&["deliver", &key, "7"]).exits(1).tells("does not match its output schema: 7 is not an object");
    folder.baton(&["deliver", &key, "paid"]).exits(2).tells("the result is not JSON").tells("needs quotes");
    let twice = "{\"paid\": false, \"paid\": true}";
    folder.baton(&["deliver", &key, twice]).exits(2).tells("the key \"paid\" occurs twice in an object at line 1 column 17");
    folder.baton(&["deliver", &key, "{\"paid\": true}"]).exits(0).says("delivered for call 0/1.1 of run");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let events = folder.baton(&["timeline", "@last"]).exits(0);
    events.says("waits for a delivery").says("→ delivered by ").says("paid: true");
    folder.baton(&["deliver", &key, "{}"]).exits(1).tells("task 0 has ended");
    folder.baton(&["verify", "@last"]).exits(0).says("holds");
}

#[test]
fn a_delivery_continues_a_run_whose_process_was_killed() {
    let folder = Folder::new();
    waiting_job(&folder);
    let (child, key) = started(&folder);
    end(child, "KILL");
    assert_eq!(shown(&folder)["suspended"][0]["key"], json!(key), "the key stays the same");
    folder.baton(&["deliver", &key, "{\"paid\": true}"]).exits(0).says("paid").tells("the result for call 0/1.1 of run");
    let events = folder.baton(&["timeline", "@last", "--output", "ndjson"]).exits(0).lines();
    let named = |name: &str| events.iter().filter(|line| line["entry"] == name).count();
    assert_eq!((named("call_started"), named("call_suspended"), named("run_ended")), (1, 1, 1));
}

#[test]
fn a_run_names_its_only_call_and_a_failure_needs_a_reason_alone() {
    let folder = Folder::new();
    waiting_job(&folder);
    let (child, _) = started(&folder);
    end(child, "TERM");
    folder.baton(&["deliver", "@last"]).exits(2);
    folder.baton(&["deliver", "@last", "{}", "--failed", "no"]).exits(2);
    folder.baton(&["deliver", "@last", "--failed", " "]).exits(2).tells("the reason of --failed is empty");
    let queued = folder.baton(&["deliver", "@last", "--failed", "the bank refused", "--no-resume", "--output", "json"]).exits(0);
    assert_eq!((&queued.json()["call"], &queued.json()["delivery"]), (&json!("0/1.1"), &json!("queued")));
    folder.baton(&["show", "@last"]).exits(0).says("a result is delivered, and counts when the run continues");
    folder.baton(&["deliver", "@last", "{}"]).exits(1).tells("it has its result");
    folder.baton(&["resume", "@last"]).exits(0);
    folder.baton(&["timeline", "@last"]).exits(0).says("failed: the bank refused");
}

#[test]
fn a_key_that_this_store_has_not_made_is_refused() {
    let folder = Folder::new();
    folder.baton(&["deliver", "a:0_1.1:00", "{}"]).exits(6).tells("there is no key a:0_1.1:00");
    waiting_job(&folder);
    let (child, key) = started(&folder);
    end(child, "TERM");
    let (call, proof) = key.rsplit_once(':').unwrap();
    for wrong in [format!("{call}:{}", "0".repeat(proof.len())), format!("other:0_1.1:{proof}"), format!("{call}:")] {
        folder.baton(&["deliver", &wrong, "{}"]).exits(6).tells("there is no key");
    }
    folder.baton(&["deliver", &key, "{}"]).exits(0);
}

#[test]
fn a_worker_continues_waiting_runs() {
    let folder = Folder::new();
    waiting_job(&folder);
    let sleep = json!({"calls": [{"tool": "sleep", "input": {"seconds": 2}}]});
    let done = json!({"calls": [{"tool": "handoff", "input": {"result": {"summary": "awake"}}}]});
    folder.job("asleep", &[("lead", &["sleep", "handoff"])], json!({"lead": {"turns": [sleep, done]}}), json!({}));
    let sleeper = folder.command(&["run", "asleep"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("the run sleeps", || {
        let listed = folder.baton(&["ps", "--output", "json"]);
        (listed.code == 0 && listed.json()[0]["status"] == "waiting").then_some(())
    });
    end(sleeper, "TERM");
    let (child, key) = started(&folder);
    end(child, "TERM");
    let worker = folder.command(&["work", "--output", "ndjson"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    folder.baton(&["deliver", &key, "{\"paid\": true}", "--no-resume"]).exits(0);
    eventually("both runs have ended", || {
        let listed = folder.baton(&["ps", "--output", "json"]).exits(0).json();
        listed.as_array().unwrap().iter().all(|run| run["status"] == "completed").then_some(())
    });
    signal("TERM", worker.id());
    let output = worker.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let ended = text.lines().filter(|line| line.contains("\"completed\"")).count();
    assert_eq!(ended, 2, "{text}");
}

/// Writes a job whose lead waits for an event, calls a command that takes long, and waits again.
fn working_job(folder: &Folder) {
    let tool = json!({
        "tool_id": "work", "type": "function_tool", "description": "Works.", "effect": "keyed",
        "exec": {"command": ["sh", "-c", "touch \"$STARTED\"; sleep \"$TAKES\"; echo '{}'"], "env": ["STARTED", "TAKES"]},
        "input_schema": {"type": "object"},
    });
    let wait = json!({"calls": [{"tool": "wait_for_event", "input": {"event": "more"}}]});
    let turns = json!([wait, {"calls": [{"tool": "work", "input": {}}]}, wait]);
    folder.job("waiting", &[("lead", &["wait_for_event", "work", "handoff"])], json!({"lead": {"turns": turns}}), json!({}));
    folder.write("waiting/tools/work.json", tool.to_string());
}

#[test]
fn a_run_continues_in_another_worker_after_the_end_of_its_worker() {
    for name in ["TERM", "KILL"] {
        let folder = Folder::new();
        working_job(&folder);
        let marker = folder.path().join("started");
        let with_environment = |arguments: &[&str], takes: &str| {
            let mut command = folder.command(arguments);
            command.env("STARTED", &marker).env("TAKES", takes).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().unwrap()
        };
        let first = with_environment(&["run", "waiting", "--trust"], "0");
        let key = eventually("the call is suspended", || {
            let listed = folder.baton(&["ps", "--output", "json"]);
            let report = (listed.code == 0 && listed.json()[0]["status"] == "waiting").then(|| shown(&folder))?;
            report["suspended"][0]["key"].as_str().map(str::to_owned)
        });
        end(first, "TERM");
        let worker = with_environment(&["work"], "600");
        folder.baton(&["deliver", &key, "{}", "--no-resume"]).exits(0);
        eventually("the command runs", || marker.exists().then_some(()));
        end(worker, name);
        let again = with_environment(&["work"], "0");
        eventually("the run waits again", || {
            let report = shown(&folder);
            (report["suspended"][0]["call"] == "0/3.1").then_some(())
        });
        end(again, "TERM");
        folder.baton(&["verify", "@last"]).exits(0);
    }
}

#[test]
fn a_delivery_returns_when_the_run_waits_again() {
    let folder = Folder::new();
    let wait = json!({"calls": [{"tool": "wait_for_event", "input": {"event": "more"}}]});
    folder.job("waiting", &[("lead", &["wait_for_event", "handoff"])], json!({"lead": {"turns": [wait, wait]}}), json!({}));
    let (child, key) = started(&folder);
    end(child, "TERM");
    folder.baton(&["deliver", &key, "{}"]).exits(3).tells("baton deliver ").tells(":0_2.1:");
}

#[test]
fn a_call_by_hand_does_not_wait_and_the_examples_of_tools_that_wait_hold() {
    let folder = Folder::new();
    folder.baton(&["tool", "test", "sleep"]).exits(0);
    folder.baton(&["tool", "test", "wait_for_event"]).exits(0);
    folder.baton(&["tool", "call", "wait_for_event", "--event", "x"]).exits(1).tells("a call by hand does not");
}

#[test]
fn a_call_by_hand_approves_the_calls_of_its_code_and_answers_no_question() {
    let folder = Folder::new();
    let ask = json!({"steps": [{"id": "ask", "tool": "ask_master", "input": {"question": "Which year?"}}]}).to_string();
    folder
        .baton(&["tool", "call", "workflow", "--input", &ask])
        .exits(1)
        .tells("a call by hand answers no questions: Which year?");
    folder.job("asking", &[("lead", &["handoff"])], json!({}), json!({}));
    let refined = json!({"tool_id": "echo", "approval": "person"}).to_string();
    folder.write("asking/tools/echo.json", refined);
    let steps = json!({"steps": [{"id": "say", "tool": "echo", "input": {"message": "approved"}}]}).to_string();
    folder.baton(&["tool", "call", "workflow", "--job", "asking", "--input", &steps]).exits(0).says("approved");
}

#[test]
fn a_delivery_after_a_deadline_is_refused() {
    let folder = Folder::new();
    let wait = json!({"calls": [{"tool": "wait_for_event", "input": {"event": "soon", "seconds": 1}}]});
    let done = json!({"calls": [{"tool": "handoff", "input": {"result": {"summary": "done"}}}]});
    folder.job("waiting", &[("lead", &["wait_for_event", "handoff"])], json!({"lead": {"turns": [wait, done]}}), json!({}));
    let (child, key) = started(&folder);
    end(child, "TERM");
    std::thread::sleep(Duration::from_millis(1_100));
    folder.baton(&["deliver", &key, "{}"]).exits(1).tells("no result can be delivered for call 0/1.1: it has its result");
    folder.baton(&["resume", "@last"]).exits(0);
    folder.baton(&["timeline", "@last"]).exits(0).says("timeout: no result was delivered in time");
}

#[test]
fn a_command_may_leave_its_result_to_a_delivery() {
    let folder = Folder::new();
    let command = "printf %s \"$BATON_DELIVERY_KEY\" > \"$KEPT\"; echo '{\"suspend\": {\"seconds\": 3600}}'";
    let tool = json!({
        "tool_id": "order", "type": "function_tool", "description": "Orders.", "effect": "keyed", "suspends": true,
        "exec": {"command": ["sh", "-c", command], "env": ["KEPT"]}, "input_schema": {"type": "object"},
    });
    let turns = json!([
        {"calls": [{"tool": "order", "input": {}}]},
        {"calls": [{"tool": "handoff", "input": {"result": {"summary": "ordered"}}}]},
    ]);
    folder.job("ordering", &[("lead", &["order", "handoff"])], json!({"lead": {"turns": turns}}), json!({}));
    folder.write("ordering/tools/order.json", tool.to_string());
    let kept = folder.path().join("key.txt");
    let mut command = folder.command(&["run", "ordering", "--trust"]);
    let mut child = command.env("KEPT", &kept).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let key = eventually("the call is suspended", || {
        let listed = folder.baton(&["ps", "--output", "json"]);
        (listed.code == 0 && listed.json()[0]["status"] == "waiting").then(|| std::fs::read_to_string(&kept).unwrap())
    });
    folder.baton(&["deliver", &key, "{\"order\": 4}"]).exits(0);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    folder.baton(&["timeline", "@last"]).exits(0).says("order: 4");
}
