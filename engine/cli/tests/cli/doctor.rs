//! `doctor`: every bad finding names its fix, nothing is sent to untrusted addresses, and keys are never shown.

use serde_json::{Value, json};

use crate::models::{KEY, mine, server};
use crate::support::{Folder, Ran};

/// Writes a job whose only agent uses `model`.
fn asking(folder: &Folder, model: &str) {
    folder.echo_job();
    let mut agent: Value = serde_json::from_str(&folder.read("echoing/agents/lead.json")).unwrap();
    agent["model"] = json!(model);
    folder.write("echoing/agents/lead.json", agent.to_string());
}

fn statuses(ran: &Ran) -> Vec<(String, String)> {
    let word = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    ran.json().as_array().unwrap().iter().map(|finding| (word(finding, "check"), word(finding, "status"))).collect()
}

fn expected(statuses: &[(&str, &str)]) -> Vec<(String, String)> {
    statuses.iter().map(|(check, status)| ((*check).to_owned(), (*status).to_owned())).collect()
}

#[test]
fn a_place_without_jobs_or_runs_is_well() {
    let folder = Folder::new();
    let ran = folder.baton(&["doctor"]).exits(0).says("will be created by the first run").says("no job needs a provider");
    assert!(!ran.stdout.contains("fail") && !ran.stdout.contains("warn"), "{}", ran.stdout);
    folder.echo_job();
    folder.baton(&["run", "echoing"]).exits(0);
    folder.baton(&["doctor", "echoing"]).exits(0).says("1 run").says("echoing: 1 agent, 0 faults");
}

#[test]
fn the_job_in_the_folder_where_one_stands_is_looked_at() {
    let folder = Folder::new();
    folder.echo_job();
    let doctor = || {
        let mut command = folder.command(&["doctor"]);
        command.current_dir(folder.path().join("echoing"));
        Ran::from(command.output().unwrap())
    };
    doctor().exits(0).says(".: 1 agent, 0 faults");
    folder.write("echoing/job.json", "{");
    doctor().exits(2).says("1 fault").says("baton validate .");
    // In a project, the job has a name.
    folder.write("baton.json", "{}");
    doctor().exits(2).says("echoing: 1 fault");
}

#[test]
fn what_a_job_lacks_is_told_with_what_mends_it() {
    let folder = Folder::new();
    asking(&folder, "openrouter:google/gemini-2.5-flash");
    folder.baton(&["doctor", "echoing"]).exits(5).says("openrouter needs a key").says("export OPENROUTER_API_KEY=…");
    // No server listens at this address.
    folder.write("config/baton/models.json", mine("http://127.0.0.1:9/v1"));
    folder.write(".env", format!("MINE_KEY={KEY}\n"));
    asking(&folder, "mine:m");
    folder
        .baton(&["doctor", "echoing"])
        .exits(0)
        .says("not checked, because echoing is not trusted")
        .says("doctor echoing --trust");
    let ran = folder.baton(&["doctor", "echoing", "--trust"]).exits(5).says("cannot be reached at http://127.0.0.1:9/v1/models");
    assert!(!ran.stdout.contains(KEY) && !ran.stderr.contains(KEY));
    folder.baton(&["doctor", "echoing", "--offline"]).exits(0).says("the key in MINE_KEY; not checked (--offline)");
    folder.write("echoing/job.json", "{}");
    folder.baton(&["doctor", "echoing"]).exits(2).says("baton validate echoing");
    folder.baton(&["doctor", "nowhere"]).exits(6);
}

#[test]
fn a_provider_is_asked_for_its_models_once_and_its_key_shows_nowhere() {
    let folder = Folder::new();
    asking(&folder, "mine:qwen3");
    let (url, received) = server("200 OK", json!({"data": [{"id": "qwen3"}, {"id": "phi4"}]}).to_string());
    folder.write("config/baton/models.json", mine(&url));
    folder.write(".env", format!("MINE_KEY={KEY}\n"));
    let ran = folder.baton(&["doctor", "echoing", "--output", "json", "--trust"]).exits(0);
    assert_eq!(statuses(&ran), expected(&[("store", "ok"), ("job", "ok"), ("provider", "ok")]));
    let sent = received.recv().unwrap();
    assert!(sent.starts_with("GET /v1/models ") && sent.contains(&format!("authorization: Bearer {KEY}\r\n")), "{sent}");
    assert!(received.try_recv().is_err() && !ran.stdout.contains(KEY) && !ran.stderr.contains(KEY));
    asking(&folder, "mine:qwen33");
    let ran = folder.baton(&["doctor", "echoing", "--output", "json"]).exits(0);
    assert_eq!(statuses(&ran), expected(&[("store", "ok"), ("job", "ok"), ("provider", "ok"), ("provider", "warn")]));
    folder.baton(&["doctor", "echoing"]).says("the provider does not list the model qwen33; did you mean qwen3?");
}

#[test]
fn a_job_that_is_not_trusted_sends_no_key_to_its_own_address() {
    let folder = Folder::new();
    asking(&folder, "mine:m");
    let (url, received) = server("401 Unauthorized", json!({"error": {"message": format!("bad key {KEY}")}}).to_string());
    folder.write("echoing/models.json", mine(&url));
    folder.write(".env", format!("MINE_KEY={KEY}\n"));
    folder.baton(&["doctor", "echoing"]).exits(0).says("not trusted").says("--trust");
    assert!(received.try_recv().is_err(), "nothing was sent");
    folder.baton(&["run", "echoing", "--trust"]).exits(5);
    let ran = folder.baton(&["doctor", "echoing"]).exits(5).says("refused the key").says("set a valid key in MINE_KEY");
    assert!(!ran.stdout.contains(KEY) && !ran.stderr.contains(KEY), "{}", ran.stdout);
}

#[test]
fn a_store_of_a_newer_format_is_reported_with_the_fix_that_works() {
    let folder = Folder::new();
    folder.echo_job();
    folder.baton(&["run", "echoing"]).exits(0);
    let file = rusqlite::Connection::open(folder.path().join(".baton/baton.db")).unwrap();
    file.pragma_update(None, "user_version", 99).unwrap();
    drop(file);
    let ran = folder.baton(&["doctor", "--offline"]).exits(1).says("use a newer version of baton");
    assert!(!ran.stdout.contains("baton verify"), "it cannot open the store either: {}", ran.stdout);
}
