//! `ps`, `show`, `timeline`, `graph`, `completions`: inspecting runs.

use serde_json::{Value, json};

use crate::support::Folder;

#[test]
fn runs_are_listed_newest_first_and_found_by_a_beginning() {
    let folder = Folder::with_documents();
    folder.echo_job();
    folder.baton(&["run", "echoing"]).exits(0);
    let runs = folder.baton(&["ps", "--output", "json"]).exits(0).json();
    assert_eq!((&runs[0]["job"], &runs[1]["job"]), (&json!("echoing"), &json!("writing")));
    assert_eq!(runs[0]["status"], "completed");
    folder.baton(&["ps"]).exits(0).says("RUN").says("echoing").says("completed");
    assert_eq!(folder.baton(&["ps", "-n", "1", "--output", "ndjson"]).exits(0).lines().len(), 1);
    let id = runs[1]["run"].as_str().unwrap();
    folder.baton(&["show", &id[..6]]).exits(0).says("job writing");
    folder.baton(&["show", "@last"]).exits(0).says("job echoing");
}

#[test]
fn a_run_is_shown_as_a_tree_with_result_and_documents() {
    let folder = Folder::with_documents();
    let ran = folder.baton(&["show", "@last"]).exits(0).says("✓ lead").says("└─✓ worker").says("written").says("out/page.md v2");
    assert!(ran.stdout.contains("request     Do it."), "{}", ran.stdout);
    assert_eq!(folder.baton(&["show", "@last", "--output", "json"]).exits(0).json()["result"], json!({"summary": "written"}));
    let task = folder.baton(&["show", "@last", "--task", "0/1.1", "--output", "json"]).exits(0).json();
    assert_eq!((&task["agent"], &task["caller"], &task["request"]), (&json!("worker"), &json!("0"), &json!("Write it.")));
    folder
        .baton(&["show", "@last", "--task", "0/1.1"])
        .exits(0)
        .says("attached    source.csv v1")
        .says("wrote       out/page.md v2");
}

#[test]
fn what_a_model_is_sent_can_be_read() {
    let folder = Folder::with_documents();
    let sent = folder.baton(&["show", "@last", "--task", "0/1.1", "--messages", "--output", "json"]).exits(0).json();
    assert_eq!((&sent["system"], &sent["turn"], &sent["model"]), (&json!("Do it."), &json!(3), &json!("scripted")));
    let first = &sent["messages"][0];
    assert_eq!(first["role"], "user");
    let text = first.to_string();
    assert!(text.contains("Write it.") && text.contains("source.csv") && text.contains("a,b\\n1,2"), "{text}");
    let tools: Vec<&str> = sent["tools"].as_array().unwrap().iter().map(|tool| tool["id"].as_str().unwrap()).collect();
    assert_eq!(tools, ["handoff", "write_file"]);
    folder.baton(&["show", "@last", "--task", "0", "--messages"]).exits(0).says("── system ──").says("route_to_worker");
    folder.baton(&["show", "@last", "--messages"]).exits(2).tells("--task");
}

#[test]
fn the_timeline_has_the_five_fields_of_the_seed() {
    let folder = Folder::with_documents();
    let rows = folder.baton(&["timeline", "@last", "--output", "ndjson"]).exits(0).lines();
    for (number, row) in (1..).zip(&rows) {
        assert_eq!(row["seq"], number);
        for key in ["task", "type", "tool", "input", "result", "timestamp"] {
            assert!(row.get(key).is_some(), "{key} is missing in {row}");
        }
        let timestamp = row["timestamp"].as_str().unwrap();
        assert!(timestamp.len() == 27 && timestamp.contains('T') && timestamp.ends_with('Z'), "{timestamp}");
    }
    let of = |kind: &str, entry: &str| -> Vec<&Value> {
        rows.iter().filter(|row| row["type"] == kind && row["entry"] == entry).collect()
    };
    let writes = of("function_tool", "call_finished");
    assert_eq!(writes.len(), 2);
    assert_eq!(writes[0]["tool"], "write_file");
    assert_eq!(writes[0]["input"]["path"], "out/page.md");
    assert_eq!(writes[0]["result"]["output"]["path"], "out/page.md");
    assert_eq!(of("agent_as_tool", "call_started")[0]["result"], "→ delegated to worker (task 0/1.1)");
    assert_eq!(of("agent_as_tool", "call_finished")[0]["result"]["from"], "← result from worker");
    assert_eq!(of("handoff", "call_finished").len(), 2);
    let root = of("root", "task_created");
    assert_eq!((root.len(), &root[0]["input"]), (1, &json!({"request": "Do it."})));
    assert_eq!(of("root", "task_ended")[0]["result"]["output"], json!({"summary": "written"}));
    assert_eq!(rows.last().unwrap()["type"], "run_ended");
}

#[test]
fn a_question_and_its_answer_stand_on_the_timeline() {
    let folder = Folder::new();
    folder.asking_job();
    folder.baton(&["run", "asking"]).exits(3);
    folder.baton(&["answer", "@last", "units", "--no-resume"]).exits(0);
    folder.baton(&["resume", "@last"]).exits(0);
    let rows = folder.baton(&["timeline", "@last", "--type", "ask_master", "--output", "json"]).exits(0).json();
    assert_eq!(rows[0]["result"], "→ asked you (task 0/1.1)");
    assert_eq!(rows[0]["input"]["question"], "Revenue or units?");
    assert_eq!(rows[1]["result"]["from"], "← answer from you");
}

#[test]
fn a_person_and_an_agent_of_the_same_name_are_told_apart_in_every_view() {
    let folder = Folder::new();
    // The person in these tests is named ann, too.
    let agents: &[(&str, &[&str])] = &[("ann", &["route_to_child", "handoff"]), ("child", &["ask_master", "handoff"])];
    let done = |text: &str| json!({"calls": [{"tool": "handoff", "input": {"result": {"summary": text}}}]});
    let script = json!({
        "ann": {
            "turns": [{"calls": [{"tool": "route_to_child", "input": {"request": "Do it"}}]}, done("done")],
            "answers": [done("mine")],
        },
        "child": {"turns": [{"calls": [{"tool": "ask_master", "input": {"question": "May I?"}}]}, done("did it")]},
    });
    folder.job("named", agents, script, json!({}));
    folder.asking_job();
    let by = |job: &str| {
        folder.baton(&["run", job]).exits(if job == "asking" { 3 } else { 0 });
        let run = folder.last_run();
        if job == "asking" {
            folder.baton(&["answer", &run, "units", "--no-resume"]).exits(0);
            folder.baton(&["resume", &run]).exits(0);
        }
        let rows = folder.baton(&["timeline", &run, "--output", "ndjson"]).exits(0).lines();
        let closed = rows.iter().find(|row| row["type"] == "question_closed").unwrap();
        let shown = folder.baton(&["show", &run, "--output", "json"]).json();
        let text = folder.baton(&["timeline", &run, "--type", "question_closed"]).exits(0).stdout;
        (closed["data"]["how"]["answered"]["by"].clone(), shown["questions"][0]["answered_by"].clone(), text)
    };
    let (row, shown, text) = by("named");
    assert_eq!((&row, &shown), (&json!({"agent": "ann"}), &json!({"agent": "ann"})));
    assert!(text.contains("answered by ann:"), "{text}");
    let (row, shown, text) = by("asking");
    assert_eq!((&row, &shown), (&json!({"person": "ann"}), &json!({"person": "ann"})));
    assert!(text.contains("answered by ann (person):"), "{text}");
}

#[test]
fn an_agent_cannot_have_an_id_that_views_use_for_others() {
    let folder = Folder::new();
    for id in ["you", "person", "user", "system", "engine", "run", "job", "program", "agent", "master"] {
        folder.job("forging", &[(id, &[])], json!({id: {"turns": [{"text": "done"}]}}), json!({}));
        folder
            .baton(&["validate", "forging"])
            .exits(2)
            .tells("B0122")
            .tells(&format!("the agent id \"{id}\" is reserved"))
            .tells(&format!("another id, such as \"{id}_agent\""));
        std::fs::remove_dir_all(folder.path().join("forging")).unwrap();
    }
}

#[test]
fn a_timeline_can_be_narrowed() {
    let folder = Folder::with_documents();
    let rows =
        folder.baton(&["timeline", "@last", "--task", "0/1.1", "--type", "call_finished", "--output", "json"]).exits(0).json();
    assert_eq!(rows.as_array().unwrap().len(), 3);
    let all = folder.baton(&["timeline", "@last", "--output", "ndjson"]).exits(0).lines().len() as u64;
    assert_eq!(folder.baton(&["timeline", "@last", "--after", &(all - 1).to_string(), "--output", "json"]).json()[0]["seq"], all);
    folder
        .baton(&["timeline", "@last", "--type", "function_tool"])
        .exits(0)
        .says("write_file(path: out/page.md")
        .says(" 0/1.1  worker");
    let unknown = folder.baton(&["timeline", "@last", "--type", "function_tol"]).exits(2);
    unknown.tells("did you mean function_tool?").tells("known: function_tool, ").tells("run_ended");
}

#[test]
fn a_graph_shows_who_delegates_to_whom() {
    let folder = Folder::with_documents();
    folder.baton(&["graph", "@last"]).exits(0).says("graph TD").says("lead · completed").says("t0 -->|\"Write it.\"| t1");
    folder.baton(&["graph", "@last", "--format", "dot"]).exits(0).says("digraph").says("\"0\" -> \"0/1.1\"");
    folder.baton(&["graph", "writing"]).exits(0).says("t0[\"lead · scripted\"]").says("t0 --> t1");
    let graph = folder.baton(&["graph", "@last", "--output", "json"]).exits(0).json();
    assert_eq!((&graph["edges"][0]["caller"], &graph["edges"][0]["callee"]), (&json!("0"), &json!("0/1.1")));
    folder.baton(&["graph", "@last", "--format", "svg"]).exits(2).tells("mermaid");
}

#[test]
fn shells_complete_commands_runs_jobs_and_tools() {
    let folder = Folder::with_documents();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        folder.baton(&["completions", shell]).exits(0).says("COMPLETE");
    }
    folder.baton(&["completions", "tcsh"]).exits(2).tells("bash");
    let completed = |words: &[&str]| {
        let mut command = folder.command(&[&["--", "baton"], words].concat());
        command.env("COMPLETE", "fish");
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(completed(&["sho"]).contains("show"));
    let runs = completed(&["show", ""]);
    assert!(runs.contains("@last") && runs.contains(&folder.last_run()) && runs.contains("writing"), "{runs}");
    assert!(completed(&["run", ""]).contains("writing"));
    assert!(completed(&["tool", "show", "ec"]).contains("echo"));
}

#[test]
fn what_a_model_says_cannot_command_the_terminal() {
    let folder = Folder::new();
    let evil = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}";
    let script = json!({"lead": {"turns": [
        {"text": evil, "calls": [{"tool": format!("x{evil}"), "input": {"a": evil}}, {"tool": "echo", "input": {"message": evil}}]},
        {"calls": [{"tool": "write_file", "input": {"path": "a.md", "content": format!("# {evil}")}}]},
        {"calls": [{"tool": "handoff", "input": {"result": {"summary": evil}, "documents": ["a.md"]}}]},
    ]}});
    folder.job("evil", &[("lead", &["echo", "write_file", "handoff"])], script, json!({}));
    let commands = [
        &["run", "evil"][..],
        &["show", "@last"],
        &["show", "@last", "--task", "0"],
        &["show", "@last", "--task", "0", "--messages"],
        &["timeline", "@last"],
        &["graph", "@last"],
        &["doc", "ls", "@last"],
    ];
    for arguments in commands {
        let mut command = folder.command(arguments);
        // Colours are forced, because without them every sequence would be removed from the output.
        let ran = crate::support::Ran::from(command.env("CLICOLOR_FORCE", "1").output().unwrap()).exits(0);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        let plain: Vec<&str> =
            said.split("\u{1b}[").map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';')).collect();
        assert!(plain.iter().skip(1).all(|part| part.starts_with('m')), "{arguments:?} lets a sequence through: {said:?}");
        assert!(!plain.concat().contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}']), "{arguments:?} lets it through: {said:?}");
    }
}

#[test]
fn a_task_is_shown_by_the_name_of_its_agent() {
    let folder = Folder::new();
    folder.writing_job();
    folder.baton(&["run", "writing"]).exits(0);
    folder.baton(&["show", "@last", "--task", "worker"]).exits(0).says("task 0/1.1 · worker");
    folder.baton(&["show", "@last", "--task", "worker", "--messages"]).exits(0).says("Write it.");
    folder.baton(&["show", "@last", "--task", "nobody"]).exits(6).tells("there is no task nobody; known: 0, 0/1.1");
}
