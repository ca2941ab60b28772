//! `continue`: a new run continues the conversation of a run that has ended.

use serde_json::{Value, json};

use crate::support::Folder;

/// Returns the listed runs, with the sessions that they belong to.
fn listed(folder: &Folder) -> Vec<(String, String)> {
    let listed = folder.baton(&["ps", "--output", "json"]).exits(0).json();
    let text = |run: &Value, key: &str| run[key].as_str().unwrap().to_owned();
    listed.as_array().unwrap().iter().map(|run| (text(run, "run"), text(run, "session"))).collect()
}

/// Writes a job whose lead repeats each request.
fn repeating(folder: &Folder) {
    let hand_off = json!({"calls": [{"tool": "handoff", "input": {"result": {"said": "{{ request }}"}}}]});
    folder.job("repeating", &[("lead", &["handoff"])], json!({"lead": {"turns": [hand_off]}}), json!({}));
}

#[test]
fn a_session_has_five_follow_ups() {
    let folder = Folder::new();
    repeating(&folder);
    folder.baton(&["run", "repeating"]).exits(0).says("Do it.");
    let first = folder.last_run();
    folder.baton(&["run", "repeating"]).exits(0);
    let other = folder.last_run();
    let mut before = first.clone();
    for number in 1..=5 {
        let request = format!("Request {number}");
        let ran = folder.baton(&["continue", &before, &request]).exits(0).says(&request);
        let run = listed(&folder)[0].0.clone();
        ran.tells(&format!("run {run} continues run {before}")).tells("1 agent · 1 task · 1 turn · 1 call");
        before = run;
    }
    let runs = listed(&folder);
    assert_eq!(runs.iter().filter(|(_, session)| *session == first).count(), 6);
    assert!(runs[..6].iter().all(|(_, session)| *session == first), "the runs of a session stand together");
    assert_eq!(runs[6], (other.clone(), other));
    let shown = folder.baton(&["show", &before]).exits(0).says("Request 5").says(&format!("session     {first} → "));
    assert!(!shown.stdout.contains("Request 4"), "{}", shown.stdout);
    let report = folder.baton(&["show", &before, "--output", "json"]).exits(0).json();
    assert_eq!((&report["continues"], &report["fork"]), (&json!(runs[1].0), &Value::Null));
    let messages = folder.baton(&["show", &before, "--task", "5", "--messages"]).exits(0);
    for number in 1..=5 {
        assert!(messages.stdout.contains(&format!("Request {number}")), "{number}: {}", messages.stdout);
    }
    folder.baton(&["verify", &before]).exits(0).says("holds");
    folder.baton(&["replay", &before]).exits(0).says("6 requests, each identical");
    folder.baton(&["gc", "--keep", "0", "--dry-run"]).exits(0);
    let kept = folder.baton(&["gc", "--dry-run", &first]).exits(0);
    kept.says(&format!("kept {first}: ")).says("begins with its entries");
}

#[test]
fn a_session_with_branches_is_shown_with_them() {
    let folder = Folder::new();
    repeating(&folder);
    folder.baton(&["run", "repeating"]).exits(0);
    let first = folder.last_run();
    let continued = |run: &str| {
        folder.baton(&["continue", run, "Again"]).exits(0);
        folder.last_run()
    };
    let (second, other) = (continued(&first), continued(&first));
    let third = continued(&second);
    let shown = folder.baton(&["show", &third]).exits(0);
    let text = shown.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = format!("session {first} → {second}, {first} → {other}, {second} → {third}");
    assert!(text.contains(&expected), "{text}");
}

#[test]
fn only_a_run_that_has_ended_goes_on_and_only_with_a_request() {
    let folder = Folder::new();
    folder.asking_job();
    folder.baton(&["run", "asking"]).exits(3);
    let run = folder.last_run();
    folder.baton(&["continue", &run, "More."]).exits(1).tells("the run has not ended").tells("baton steer");
    folder.baton(&["answer", &run, "Q1", "units"]).exits(0);
    folder.baton(&["continue", &run, ""]).exits(2).tells("the request is empty");
    folder.baton(&["continue", "nobody", "More."]).exits(6).tells("there is no run");
    // The new run waits for a person, and other processes continue it as they do every run.
    folder.baton(&["continue", &run, "More."]).exits(3).tells("Revenue or units?");
    let next = folder.last_run();
    folder.baton(&["answer", &next, "Q2", "revenue"]).exits(0).says("revenue");
    folder.baton(&["verify", &next]).exits(0);
    assert_eq!(listed(&folder).len(), 2);
}

#[test]
fn the_workspace_and_the_present_configs_hold_in_the_new_run() {
    let folder = Folder::new();
    folder.writing_job();
    folder.baton(&["run", "writing"]).exits(0);
    let run = folder.last_run();
    folder.write("notes.txt", "Three lines.\n");
    let agent = folder.read("writing/agents/worker.json");
    folder.write("writing/agents/worker.json", agent.replace("An agent for a test.", "Another agent."));
    let attached = ["continue", &run, "Again.", "--document", "notes.txt=in/notes.txt"];
    let ran = folder.baton(&attached).exits(0).tells("configs have changed: agents/worker.json");
    ran.tells("2 agents · 2 tasks");
    let next = folder.last_run();
    let documents = folder.baton(&["doc", "ls", &next]).exits(0);
    documents.says("out/page.md").says("in/notes.txt").says("source.csv");
    let shown = folder.baton(&["show", &next, "--task", "1"]).exits(0);
    shown.says("attached    in/notes.txt v1");
    folder.baton(&["continue", &run, "Again.", "--keep-configs"]).exits(0);
    let kept = folder.baton(&["timeline", "@last"]).exits(0);
    kept.says("continued by").says("no changes");
    std::fs::remove_dir_all(folder.path().join("writing")).unwrap();
    folder.baton(&["continue", &run, "Again."]).exits(2).tells("does not exist; --keep-configs");
    folder.baton(&["continue", &run, "Again.", "--keep-configs"]).exits(0);
}

#[test]
fn a_fork_may_begin_within_a_run_that_continues_another() {
    let folder = Folder::new();
    repeating(&folder);
    folder.baton(&["run", "repeating"]).exits(0);
    folder.baton(&["continue", "@last", "Second."]).exits(0);
    let run = folder.last_run();
    let entries = folder.baton(&["timeline", &run, "--output", "json"]).exits(0).json();
    let at = |name: &str, number: usize| {
        let entries = entries.as_array().unwrap().iter().filter(|entry| entry["entry"] == name);
        entries.map(|entry| entry["seq"].as_u64().unwrap()).nth(number).unwrap()
    };
    let begun = at("task_created", 1).to_string();
    let fork = folder.baton(&["fork", &run, "--at", &(at("model_requested", 1)).to_string()]).exits(0).says("Second.");
    fork.tells("1 of 1 turn from the recording");
    let end = at("run_ended", 1).to_string();
    folder.baton(&["fork", &run, "--at", &end]).exits(2).tells("a fork cannot begin there");
    // No fork of this run begins within the run before it.
    folder.baton(&["fork", &run, "--at", &begun]).exits(2).tells("the first decision of the run ends with entry");
    let before = at("model_requested", 0).to_string();
    folder.baton(&["fork", &run, "--at", &before]).exits(0).says("Do it.");
    let ended = at("run_ended", 0).to_string();
    folder.baton(&["fork", &run, "--at", &ended]).exits(2).tells("a fork cannot begin there");
    // Without a place, all that is the run's own is done again.
    folder.baton(&["fork", &run]).exits(0).says("Second.").tells("1 of 1 turn from the recording");
}
