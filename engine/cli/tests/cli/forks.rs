//! `fork`, `replay`, `diff` and `resume --migrate`.

use serde_json::{Value, json};

use crate::support::{Folder, Ran};

/// Runs a job that writes a page; returns the run's id.
fn written(folder: &Folder) -> String {
    folder.writing_job();
    folder.baton(&["run", "writing"]).exits(0);
    folder.last_run()
}

#[test]
fn a_run_replays_byte_for_byte_without_its_job() {
    let folder = Folder::new();
    let run = written(&folder);
    std::fs::remove_dir_all(folder.path().join("writing")).unwrap();
    folder.baton(&["replay", "@last"]).exits(0).says("5 requests, each identical to the bytes that were sent");
    let report = folder.baton(&["replay", &run[..4], "--output", "json"]).exits(0).json();
    assert_eq!((&report["run"], &report["identical"], &report["differences"]), (&json!(run), &json!(true), &json!([])));
    folder.baton(&["replay", "zzzz"]).exits(6);
}

#[test]
fn a_change_of_a_file_that_explains_nothing_is_no_cause() {
    let folder = Folder::new();
    folder.echo_job();
    folder.baton(&["run", "echoing"]).exits(0);
    let first = folder.last_run();
    // The script of this run takes the place of the job's script and of its model.
    folder.baton(&["run", "echoing", "--script", "echoing/the.script.json"]).exits(0);
    let diff = folder.baton(&["diff", &first, "@last", "--output", "json"]).exits(0).json();
    assert_eq!((&diff["first"]["cause"], &diff["first"]["what"]), (&Value::Null, &json!("the request of turn 1")));
    assert_eq!(diff["configs"].as_array().unwrap().len(), 1, "{}", diff["configs"]);
    let shown = folder.baton(&["diff", &first, "@last"]).exits(0).says("differs     the request of turn 1");
    assert!(!shown.stdout.contains("cause "), "{}", shown.stdout);
}

#[test]
fn a_fork_takes_recorded_answers_and_says_how_many() {
    let folder = Folder::new();
    let run = written(&folder);
    let ran = folder.baton(&["fork", &run]).exits(0).says("written").tells(&format!("of run {run} after entry"));
    ran.tells("5 of 5 turns from the recording").tells("spent in this fork: nothing");
    let fork = folder.last_run();
    assert_ne!(fork, run);
    folder
        .baton(&["diff", &run, &fork])
        .exits(0)
        .says("nothing differs")
        .says("tasks       2 the same, 0 different")
        .says("cost        $0 → $0");
    folder.baton(&["replay", &fork]).exits(0).says("5 requests");

    let edited = ["fork", &run, "--set", "agents.worker.system_prompt=Do it well.", "--output", "json"];
    let report = folder.baton(&edited).exits(0).json();
    assert_eq!((&report["fork"]["run"], &report["fork"]["turns"]), (&json!(run), &json!(5)));
    assert_eq!(report["fork"]["recorded_turns"], json!(2), "the script says the same, so the lead is asked nothing new");
    let (own, whole) = (&report["fork"]["usage"], &report["usage"]["used"]);
    let tokens = |usage: &Value| usage["input_tokens"].as_u64().unwrap();
    assert!(0 < tokens(own) && tokens(own) < tokens(whole), "three of five turns were asked here: {own} of {whole}");
    assert_eq!(report["fork"]["cost_usd"], json!(0.0));
    let edited = report["run"].as_str().unwrap().to_owned();
    let diff = folder.baton(&["diff", &run, &edited, "--output", "json"]).exits(0).json();
    assert_eq!(
        (&diff["same"], &diff["first"]["cause"], &diff["first"]["task"]),
        (&json!(false), &json!("config"), &json!("0/1.1"))
    );
    assert_eq!(diff["configs"], json!(["agents/worker.json: system_prompt"]));
    let differing: Vec<&Value> = diff["tasks"].as_array().unwrap().iter().filter(|task| !task["first"].is_null()).collect();
    assert_eq!(differing.len(), 1, "{differing:?}");
    folder
        .baton(&["diff", &run, &edited])
        .exits(0)
        .says("cause       config: the request of turn 1 (system prompt of agent worker)");
    let (first, number) = (&diff["first"], |list: &str, side: usize| diff["first"][list][side].as_u64().unwrap());
    let entries = folder.baton(&["timeline", &run, "--output", "json"]).exits(0).json();
    let entry = |seq: u64| entries.as_array().unwrap().iter().find(|entry| entry["seq"] == seq).unwrap();
    let at = number("fork_at", 0);
    assert_eq!(entry(number("seq", 0))["decision"], number("decision", 0), "{first}");
    assert_eq!(entry(at + 1)["decision"], number("decision", 0), "{first}");
    assert!(entry(at)["decision"].as_u64().unwrap() < number("decision", 0), "{first}");
    let place = format!("fork        before decision {}, after entry {at}: baton fork {run} --at {at}\n", number("decision", 0));
    folder.baton(&["diff", &run, &edited]).exits(0).says(&place);
    folder.baton(&["fork", &run, "--at", &at.to_string()]).exits(0).tells(&format!("of run {run} after entry {at}"));
    let lines = folder.baton(&["diff", &run, &edited, "--output", "ndjson"]).exits(0).lines();
    assert_eq!((&lines[0]["type"], &lines.last().unwrap()["type"]), (&json!("task"), &json!("diff")));
    let timeline = folder.baton(&["timeline", &edited, "--type", "control", "--output", "json"]).exits(0).json();
    assert_eq!(timeline[0]["data"]["action"]["adopted"]["fork"]["from"]["run"], json!(run));
}

#[test]
fn the_past_of_a_fork_is_verified_by_the_configs_of_that_past() {
    let folder = Folder::new();
    let run = written(&folder);
    let entries = folder.baton(&["timeline", &run, "--type", "model_requested", "--output", "json"]).exits(0).json();
    let last = entries.as_array().unwrap().last().unwrap();
    let needed = last["data"]["reserved_tokens"].as_u64().unwrap();
    let at = last["seq"].as_u64().unwrap() - 1;
    let limit = format!("agents.lead.limits.context_tokens={}", needed - 1);
    let forked = folder.baton(&["fork", &run, "--at", &at.to_string(), "--set", &limit]);
    forked.tells("after entry");
    folder.baton(&["verify", "@last"]).exits(0).says("holds");
}

#[test]
fn a_fork_cannot_change_what_lies_before_every_fork_point() {
    let folder = Folder::new();
    let run = written(&folder);
    for (setting, field) in
        [("job.request=Do other work.", "request"), ("job.root=worker", "root"), ("job.documents=[]", "documents")]
    {
        let ran = folder.baton(&["fork", &run, "--set", setting]);
        ran.exits(2).tells(&format!("a fork cannot change job.{field}")).tells("baton run");
    }
    folder.baton(&["fork", &run, "--set", "job.description=Other words."]).exits(0);
}

#[test]
fn a_fork_that_changes_nothing_says_so() {
    let folder = Folder::new();
    let run = written(&folder);
    let mut command = folder.command(&["fork", &run, "--at", "4"]);
    let forked = Ran::from(command.env("BATON_USER", "ann").output().unwrap()).exits(0);
    forked.tells("forked by ann (person): no changes");
}

#[test]
fn a_fork_begins_at_a_step_with_the_document_that_the_person_gives() {
    let folder = Folder::new();
    let run = written(&folder);
    let entries = folder.baton(&["timeline", &run, "--output", "json"]).exits(0).json();
    let written = entries
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .find(|row| row["entry"] == "document_written" || row["type"] == "document_written");
    let at = written.unwrap()["seq"].as_u64().unwrap();
    folder.write("other.csv", "a,b\n5,6\n");
    let after = at.to_string();
    let ran = folder.baton(&["fork", &run, "--at", &after, "--edit", "source.csv=other.csv"]).exits(0);
    ran.tells("the last complete decision up to");
    let fork = folder.last_run();
    folder.baton(&["doc", "cat", &fork, "source.csv"]).exits(0).says("5,6");
    folder.baton(&["diff", &run, &fork]).exits(0).says("cause       document: document source.csv v2 was written");
    folder.baton(&["fork", &run, "--at", "1"]).exits(2).tells("the first decision of the run ends with entry");
    let end = entries.as_array().unwrap().last().unwrap()["seq"].as_u64().unwrap();
    let past = folder.baton(&["fork", &run, "--at", "100000"]).exits(2).tells(&format!("run {run} ended with entry {end}"));
    let last = past.stderr.split("a fork can begin after entry ").nth(1).unwrap().split_whitespace().next().unwrap();
    assert!(last.parse::<u64>().unwrap() < end, "{last}");
    folder.baton(&["fork", &run, "--at", &end.to_string()]).exits(2);
    folder.baton(&["fork", &run, "--at", last]).exits(0).says("written");
}

#[test]
fn what_a_fork_cannot_be_is_told_before_it_is_one() {
    let folder = Folder::new();
    let run = written(&folder);
    let before = folder.baton(&["ps", "--output", "json"]).exits(0).json();
    folder.baton(&["fork", &run, "--set", "agents.wroker.model=m"]).exits(2).tells("known: lead, worker");
    folder.baton(&["fork", &run, "--set", "agents.worker.model=m"]).exits(2).tells("uses the model \"m\"");
    folder.baton(&["fork", &run, "--set", "agents.worker.modell=m"]).exits(2).tells("modell");
    folder.baton(&["fork", &run, "--edit", "../x=other.csv"]).exits(2);
    folder.baton(&["fork", &run, "--edit", "x.md=missing.md"]).exits(6);
    assert_eq!(folder.baton(&["ps", "--output", "json"]).exits(0).json(), before);
}

#[test]
fn a_waiting_run_adopts_the_folders_configs_when_told_to() {
    let folder = Folder::new();
    folder.asking_job();
    folder.baton(&["run", "asking"]).exits(3);
    let run = folder.last_run();
    let agent = folder.read("asking/agents/lead.json").replace("Do it.", "Do it carefully.");
    folder.write("asking/agents/lead.json", agent);
    folder.baton(&["resume", &run]).exits(3).tells("has changed since").tells(&format!("baton resume {run} --migrate"));
    let told = folder.baton(&["resume", &run, "--migrate"]).exits(2).tells("agents/lead.json: system_prompt");
    told.tells("0 (lead): system prompt; its next request starts a new cache prefix").tells("--yes");
    folder.baton(&["resume", &run, "--migrate", "--yes"]).exits(3);
    folder.baton(&["resume", &run, "--migrate", "--yes"]).exits(3).tells("nothing to migrate");
    folder.baton(&["answer", &run, "units", "--no-resume"]).exits(0);
    folder.baton(&["resume", &run]).exits(0).says("units");
    folder.baton(&["show", &run, "--task", "0", "--messages"]).exits(0).says("Do it carefully.");
    folder.baton(&["replay", &run]).exits(0).says("2 requests, each identical to the bytes");

    // The agent that holds an unfinished task must still exist.
    folder.baton(&["run", "asking"]).exits(3);
    let run = folder.last_run();
    let agent = folder.read("asking/agents/lead.json").replace("lead", "chief");
    std::fs::remove_file(folder.path().join("asking/agents/lead.json")).unwrap();
    folder.write("asking/agents/chief.json", agent);
    let job = folder.read("asking/job.json").replace("lead", "chief");
    folder.write("asking/job.json", job);
    let script = folder.read("asking/the.script.json").replace("lead", "chief");
    folder.write("asking/the.script.json", script);
    folder.baton(&["resume", &run, "--migrate", "--yes"]).exits(1).tells("the configs lack agent lead, which holds task 0");
}

/// Writes a job whose lead deploys with a command, after a person's approval. The command appends `note` to a file.
fn deploying(folder: &Folder, note: &str) {
    let script = json!({"lead": {"turns": [
        {"calls": [{"tool": "deploy", "input": {"what": "site"}}]},
        {"calls": [{"tool": "handoff", "input": {"result": {"summary": "deployed"}}}]},
    ]}});
    folder.job("deploying", &[("lead", &["deploy", "handoff"])], script, json!({}));
    let tool = json!({
        "tool_id": "deploy", "type": "function_tool", "description": "Deploys.", "effect": "at_most_once", "approval": "person",
        "exec": {"command": ["sh", "-c", command(folder, note)]}, "input_schema": {"type": "object"},
    });
    folder.write("deploying/tools/deploy.json", tool.to_string());
}

fn command(folder: &Folder, note: &str) -> String {
    format!("echo {note} >> {}/done.txt; echo '{{}}'", folder.path().display())
}

#[test]
fn an_approval_does_not_hold_for_another_definition_in_a_fork() {
    let folder = Folder::new();
    deploying(&folder, "approved");
    folder.baton(&["run", "deploying", "--trust"]).exits(3);
    let run = folder.last_run();
    folder.baton(&["answer", &run, "Q1", "yes", "--no-resume"]).exits(0);
    folder.baton(&["resume", &run, "--trust"]).exits(0);
    assert_eq!(folder.read("done.txt"), "approved\n");
    // A fork with the same call reuses the person's answer.
    folder.baton(&["fork", &run, "--allow-effects=all", "--trust"]).exits(0);
    assert_eq!(folder.read("done.txt"), "approved\napproved\n");
    // At every step, a changed command needs a new approval, or is refused if the call itself is in the past.
    let exec = format!("tools.deploy.exec={}", json!({"command": ["sh", "-c", command(&folder, "changed")]}));
    let entries = folder.baton(&["timeline", &run, "--output", "json"]).exits(0).json();
    let mut waiting = 0;
    for at in 1..entries.as_array().unwrap().len() {
        let at = at.to_string();
        let forked = folder.baton(&["fork", &run, "--at", &at, "--allow-effects=all", "--set", &exec, "--trust"]);
        waiting += u32::from(forked.code == 3);
        assert_eq!(folder.read("done.txt"), "approved\napproved\n", "at {at}: {}", forked.stderr);
    }
    assert!(waiting > 0, "a person is asked again");
    folder.baton(&["fork", &run, "--allow-effects=all", "--set", &exec, "--trust"]).exits(3).tells("baton answer");
}

#[test]
fn a_fork_names_the_entries_after_which_it_can_begin() {
    let folder = Folder::new();
    folder.asking_job();
    folder.baton(&["run", "asking"]).exits(3);
    let last = folder.baton(&["timeline", "@last", "--output", "json"]).json().as_array().unwrap().len();
    let runs = folder.baton(&["ps", "--output", "json"]).json();
    let refused = folder.baton(&["fork", "@last", "--at", "99999"]).exits(2);
    refused.tells(&format!("has {last} entries: a fork can begin after entry 3 to {last}, not after entry 99999"));
    for not_a_number in ["-1", "first"] {
        let refused = folder.baton(&["fork", "@last", "--at", not_a_number]).exits(2).tells("expected the number of an entry");
        assert!(!refused.stderr.contains("tip:"), "{}", refused.stderr);
    }
    assert_eq!(folder.baton(&["ps", "--output", "json"]).json(), runs, "a refused fork stores nothing");
    folder.baton(&["fork", "@last", "--at", &last.to_string()]).exits(3);
}
