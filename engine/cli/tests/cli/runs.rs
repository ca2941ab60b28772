//! `run`, `resume`, exit codes and output formats.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Folder, Ran, signal};

#[test]
fn a_run_prints_its_result_on_stdout_and_its_progress_on_stderr() {
    let folder = Folder::new();
    folder.writing_job();
    let ran = folder.baton(&["run", "writing"]).exits(0);
    assert!(ran.stdout.starts_with("written\n"), "the result comes first: {}", ran.stdout);
    let ran = ran.says("out/page.md v2").tells("lead → worker: Write it. [source.csv v1]").tells("worker wrote out/page.md v2");
    let ran = ran.tells("✓ completed").tells("tokens      ≈").tells(&format!("baton show {}", folder.last_run()));
    assert!(!ran.stderr.contains('\u{1b}') && !ran.stdout.contains('\u{1b}'), "no colour where nobody sees it");
}

#[test]
fn a_run_as_json_is_one_object_with_the_promised_keys() {
    let folder = Folder::new();
    folder.writing_job();
    let report = folder.baton(&["run", "writing", "--output", "json"]).exits(0).json();
    for key in ["run", "job", "status", "result", "documents", "tasks", "usage", "elapsed_ms"] {
        assert!(!report[key].is_null(), "{key} is missing in {report}");
    }
    assert_eq!(report["status"], "success");
    assert_eq!(report["job"], "writing");
    let document = &report["documents"][0];
    for key in ["path", "version", "mime_type", "size_bytes", "token_count", "created_by", "summary"] {
        assert!(!document[key].is_null(), "{key} is missing in {document}");
    }
    assert_eq!(
        (&document["path"], &document["version"], &document["created_by"]),
        (&json!("out/page.md"), &json!(2), &json!({"agent": "worker"}))
    );
    assert_eq!(report["documents"].as_array().unwrap().len(), 1, "the attached source is not handed back");
    let tasks: Vec<Value> = report["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| json!([task["task"], task["agent"], task["status"], task["caller"]]))
        .collect();
    assert_eq!(tasks, [json!(["0", "lead", "completed", null]), json!(["0/1.1", "worker", "completed", "0"])]);
    assert!(report["usage"]["used"]["input_tokens"].as_u64().unwrap() > 0 && report["usage"]["used"]["estimated"] == true);
}

#[test]
fn a_run_as_ndjson_prints_every_entry_and_then_the_report() {
    let folder = Folder::new();
    folder.echo_job();
    let lines = folder.baton(&["run", "echoing", "--output", "ndjson"]).exits(0).lines();
    let (report, entries) = lines.split_last().unwrap();
    let numbers: Vec<u64> = entries.iter().map(|entry| entry["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=entries.len() as u64).collect::<Vec<_>>());
    assert_eq!(entries.last().unwrap()["type"], "run_ended");
    assert_eq!((&report["type"], &report["report"]["result"]), (&json!("run"), &json!({"said": "hello"})));
}

#[test]
fn a_job_that_fails_exits_1_and_says_why() {
    let folder = Folder::new();
    let script = json!({"lead": {"turns": [{"finish": "refusal"}, {"finish": "refusal"}, {"finish": "refusal"}]}});
    folder.job("failing", &[("lead", &["handoff"])], script, json!({}));
    let ran = folder.baton(&["run", "failing"]).exits(1).tells("failed");
    assert!(ran.stdout.contains("no_handoff"), "{}", ran.stdout);
    let report = folder.baton(&["run", "failing", "--output", "json"]).exits(1).json();
    assert_eq!((&report["status"], &report["error"]["code"]), (&json!("failed"), &json!("no_handoff")));
}

#[test]
fn a_job_that_reaches_a_limit_exits_4_and_names_it() {
    let folder = Folder::new();
    let echo = json!({"calls": [{"tool": "echo", "input": {"message": "{{ turn }}"}}]});
    let script = json!({"lead": {"turns": [echo.clone(), echo.clone(), echo.clone()]}});
    folder.job("limited", &[("lead", &["echo", "handoff"])], script, json!({}));
    let agent = folder.read("limited/agents/lead.json").replacen('{', r#"{"limits": {"turns": 3},"#, 1);
    folder.write("limited/agents/lead.json", agent);
    let report = folder.baton(&["run", "limited", "--output", "json"]).exits(4).json();
    assert_eq!(report["limit"], "limits.turns");
    assert_eq!(report["status"], "partial");
    assert_eq!(folder.status(), "partial");
}

#[test]
fn a_run_may_be_limited_in_tokens_and_money_from_the_command_line() {
    let folder = Folder::new();
    let price = json!({"provider": "scripted", "script": "the.script.json", "price": {"input": 3, "output": 15}});
    let ask = json!({"calls": [{"tool": "ask_master", "input": {"question": "Which?"}}]});
    let script = json!({"lead": {"turns": [ask, {"text": "this one"}]}});
    folder.job("dear", &[("lead", &["ask_master", "handoff"])], script, json!({"models": {"scripted": price}}));
    let limit = |arguments: &[&str]| {
        let report = folder.baton(&[&["run", "dear", "--output", "json"], arguments].concat()).exits(4).json();
        report["limit"].as_str().unwrap().to_owned()
    };
    assert_eq!(limit(&["--max-cost", "0.000001"]), "limits.cost_usd of a task above or of the run");
    assert_eq!(limit(&["--max-tokens", "1"]), "limits.tokens of a task above or of the run");
    folder.baton(&["run", "dear", "--max-cost=-1"]).exits(2).tells("US dollars, from 0");
    folder.baton(&["run", "dear", "--max-tokens", "0"]).exits(2);

    // Limits of the start are not a change of the job.
    folder.baton(&["run", "dear", "--max-cost", "$5"]).exits(3);
    let resumed = folder.baton(&["resume", "@last"]).exits(3);
    assert!(!resumed.stderr.contains("has changed since"), "{}", resumed.stderr);
}

#[test]
fn inputs_requests_and_documents_come_from_the_command_line() {
    let folder = Folder::new();
    let script = json!({"lead": {"turns": [
        {"calls": [{"tool": "handoff", "input": {"result": {"request": "{{ request }}"}, "documents": ["notes/a.txt"]}}]},
    ]}});
    let request = json!({"text": "Count {{ inputs.what }} {{ inputs.times }} times", "inputs": {
        "what": {"type": "string", "description": "What"}, "times": {"type": "integer", "description": "How often", "default": 2},
    }});
    folder.job("given", &[("lead", &["handoff"])], script, json!({"request": request}));
    folder.write("a.txt", "the notes");
    let run = ["run", "given", "--output", "json", "--document", "a.txt=notes/a.txt"];
    let with = |more: &[&str]| folder.baton(&[&run, more].concat());

    let report = with(&["--input", "what=sheep", "--input", "times=3"]).exits(0).json();
    assert_eq!(report["result"], json!({"request": "Count sheep 3 times"}));
    assert_eq!((&report["documents"][0]["path"], &report["documents"][0]["created_by"]), (&json!("notes/a.txt"), &json!(null)));
    let report =
        folder.baton_with_input(&[&run[..], &["--input", "what=x", "--request", "-"]].concat(), "from stdin\n").exits(0).json();
    assert_eq!(report["result"], json!({"request": "from stdin"}));

    with(&[]).exits(2).tells("is missing: What");
    with(&["--input", "what=sheep", "--input", "times=often"]).exits(2).tells("times");
    with(&["--input", "wat=sheep"]).exits(2).tells("did you mean ");
    with(&["--input", "what"]).exits(2).tells("NAME=VALUE");
    with(&["--document", "none.txt", "--input", "what=x"]).exits(6).tells("none.txt");
    with(&["--document", "a.txt=../b.txt", "--input", "what=x"]).exits(2).tells("cannot be a document path");
    with(&["--model", "scripts", "--input", "what=x"]).exits(2).tells("model scripts is not known");
    assert_eq!(folder.baton(&["ps", "--output", "json"]).json().as_array().unwrap().len(), 2, "what is refused leaves no run");
}

#[test]
fn what_does_not_exist_exits_6_and_names_what_does() {
    let folder = Folder::new();
    folder.echo_job();
    folder.baton(&["run", "echoin"]).exits(6).tells("did you mean echoing?");
    folder.baton(&["show", "@last"]).exits(6).tells("there is no run @last");
    folder.baton(&["run", "echoing"]).exits(0);
    for arguments in
        [&["show", "zzz"][..], &["timeline", "zzz"], &["resume", "zzz"], &["answer", "zzz", "x"], &["doc", "ls", "zzz"]]
    {
        folder.baton(arguments).exits(6).tells("there is no run zzz");
    }
    folder.baton(&["answer", "Q7", "x"]).exits(6).tells("Q7");
    folder.baton(&["graph", "zzz"]).exits(6).tells("there is no run or job zzz");
    folder.baton(&["timeline", "@last", "--task", "0/9.9"]).exits(6).tells("there is no task 0/9.9");
}

#[test]
fn wrong_usage_exits_2_and_proposes_the_nearest_command() {
    let folder = Folder::new();
    folder.baton(&["valdate"]).exits(2).tells("validate");
    folder.baton(&["run"]).exits(2).tells("<JOB>");
    folder.baton(&["ps", "--output", "yaml"]).exits(2).tells("ndjson");
    folder.baton(&["ps", "--store", "mysql://x"]).exits(2).tells("postgres");
    folder.baton(&["--help"]).exits(0).says("Exit codes");
    folder.baton(&["--version"]).exits(0).says(env!("CARGO_PKG_VERSION"));
}

#[test]
fn two_faults_in_three_files_are_six_messages_and_no_run() {
    let folder = Folder::new();
    folder.writing_job();
    for file in ["writing/job.json", "writing/agents/lead.json", "writing/agents/worker.json"] {
        let text =
            folder.read(file).replacen('{', r#"{"surprise": 1,"#, 1).replacen("\"description\":\"A", "\"descripton\":\"A", 1);
        folder.write(file, text);
    }
    for command in ["run", "validate"] {
        let ran = folder.baton(&[command, "writing"]).exits(2).tells("did you mean \"description\"?");
        let messages = ran.stderr.lines().filter(|line| line.starts_with("error B")).count();
        assert!(messages >= 6, "{messages} messages:\n{}", ran.stderr);
        for file in ["writing/job.json:1:2", "writing/agents/lead.json:1:2", "writing/agents/worker.json:1:2"] {
            assert!(ran.stderr.contains(file), "{file} is not in:\n{}", ran.stderr);
        }
    }
    folder.baton(&["ps"]).exits(0).tells("no runs yet");
    let report = folder.baton(&["validate", "writing", "--output", "json"]).exits(2).json();
    assert_eq!(report["valid"], false);
    assert!(report["faults"][0]["code"].as_str().unwrap().starts_with('B'));
}

#[test]
fn ctrl_c_stops_the_run_and_says_how_to_go_on() {
    let folder = Folder::new();
    let script = json!({"lead": {"turns": [
        {"calls": [{"tool": "echo", "input": {"message": "before"}}]},
        {"calls": [{"tool": "ask_master", "input": {"question": "Go on?"}}, {"tool": "timer", "input": {"seconds": 60}}]},
    ]}});
    folder.job("slow", &[("lead", &["echo", "timer", "ask_master", "handoff"])], script, json!({}));
    let mut command = folder.command(&["run", "slow", "--output", "ndjson"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !(line.contains("\"tool\":\"timer\"") && line.contains("\"entry\":\"call_started\"")) {
        line.clear();
        assert_ne!(out.read_line(&mut line).unwrap(), 0, "the timer never started");
    }
    signal("INT", child.id());
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    let stderr = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{stderr}");
    let run = folder.last_run();
    assert!(stderr.contains(&format!("baton resume {run}")), "{stderr}");
    let report = rest.lines().last().map(|line| serde_json::from_str::<Value>(line).unwrap()).unwrap();
    assert_eq!(report["report"]["status"], "running");
}

#[test]
fn a_run_whose_reader_goes_away_stops_and_says_how_to_go_on() {
    let folder = Folder::new();
    let turn = json!({"calls": [{"tool": "timer", "input": {"seconds": 60}}, {"tool": "echo", "input": {"message": "x"}}]});
    folder.job("slow", &[("lead", &["echo", "timer"])], json!({"lead": {"turns": [turn]}}), json!({}));
    let mut command = folder.command(&["run", "slow", "--output", "ndjson"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let stderr = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{stderr}");
    assert!(stderr.contains(&format!("baton resume {}", folder.last_run())), "{stderr}");
}

#[test]
fn an_empty_request_is_no_request() {
    let folder = Folder::new();
    folder.echo_job();
    folder.baton(&["run", "echoing", "--request", " "]).exits(2).tells("the request is empty");
    folder.baton_with_input(&["run", "echoing", "--request", "-"], "\n").exits(2).tells("the request is empty");
}

#[test]
fn a_run_that_ended_is_only_reported_by_resume() {
    let folder = Folder::new();
    folder.echo_job();
    let first = folder.baton(&["run", "echoing", "--output", "json"]).exits(0).json();
    let again = folder.baton(&["resume", "@last", "--output", "json"]).exits(0).json();
    assert_eq!(first, again);
}

#[test]
fn resume_says_that_the_folder_changed_and_keeps_the_configs_of_the_start() {
    let folder = Folder::new();
    folder.asking_job();
    folder.baton(&["run", "asking"]).exits(3);
    let script = folder.read("asking/the.script.json").replace("{{ results.choice }}", "something else");
    folder.write("asking/the.script.json", script);
    folder.baton(&["answer", "@last", "units", "--no-resume"]).exits(0);
    let ran = folder.baton(&["resume", "@last"]).exits(0).tells("has changed since");
    assert!(ran.stdout.starts_with("units\n"), "{}", ran.stdout);
}

#[test]
fn the_store_is_beside_the_project_unless_said() {
    let folder = Folder::new();
    folder.echo_job();
    folder.write("baton.json", "{}");
    let runs = |ran: Ran| ran.exits(0).json().as_array().unwrap().len();
    let mut below = folder.command(&["run", "echoing", "--output", "json"]);
    below.current_dir(folder.path().join("echoing"));
    assert_eq!(below.output().unwrap().status.code(), Some(0), "a job is called by name from anywhere in the project");
    assert!(folder.path().join(".baton/baton.db").is_file());
    assert_eq!(folder.read(".baton/.gitignore"), "*\n");
    assert_eq!(runs(folder.baton(&["ps", "--output", "json"])), 1);
    folder.baton(&["run", "echoing", "--store", "memory"]).exits(0);
    folder.baton(&["run", "echoing", "--store", "other/runs.db"]).exits(0);
    assert_eq!(runs(folder.baton(&["ps", "--output", "json"])), 1);
    assert_eq!(runs(folder.baton(&["ps", "--output", "json", "--store", "other/runs.db"])), 1);
    let mut elsewhere = folder.command(&["ps", "--output", "json"]);
    elsewhere.env("BATON_HOME", folder.path().join("home"));
    assert_eq!(String::from_utf8(elsewhere.output().unwrap().stdout).unwrap(), "[]\n");
}

#[test]
fn colour_is_for_people_who_want_it_and_never_in_json() {
    let folder = Folder::new();
    folder.echo_job();
    let forced = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = folder.command(arguments);
        command.envs(variables.iter().copied());
        let output = command.output().unwrap();
        (output.stdout.contains(&0x1b), output.stderr.contains(&0x1b))
    };
    assert_eq!(forced(&["run", "echoing"], &[]), (false, false));
    assert!(forced(&["run", "echoing"], &[("CLICOLOR_FORCE", "1")]).1);
    assert!(!forced(&["run", "echoing", "--output", "json"], &[("CLICOLOR_FORCE", "1")]).0);
    assert!(forced(&["ps"], &[("CLICOLOR_FORCE", "1")]).0);
    assert!(!forced(&["ps"], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]).0);
}

#[test]
fn a_run_in_memory_suggests_no_command_that_would_need_its_store() {
    let folder = Folder::new();
    folder.echo_job();
    folder.asking_job();
    let done = folder.baton(&["run", "echoing", "--store", "memory"]).exits(0).tells("✓ completed");
    let waits = folder.baton(&["run", "asking", "--store", "memory"]).exits(3).tells("the run is lost: its store was in memory");
    for ran in [done, waits] {
        assert!(!ran.stderr.contains("next:") && !ran.stderr.contains("baton "), "{}", ran.stderr);
    }
}

#[test]
fn a_run_that_ended_well_is_completed_everywhere() {
    let folder = Folder::new();
    folder.writing_job();
    folder.baton(&["run", "writing"]).exits(0).tells("✓ completed");
    folder.baton(&["ps"]).exits(0).says("completed");
    let shown = folder.baton(&["show", "@last"]).exits(0).says("✓ lead ").says("✓ worker ");
    assert_eq!(shown.stdout.matches("  completed").count(), 2, "{}", shown.stdout);
    assert!(!shown.stdout.contains(" done"), "{}", shown.stdout);
    folder.baton(&["timeline", "@last"]).exits(0).says("worker  completed").says("lead    completed");
}

#[test]
fn a_request_and_an_input_are_read_from_files() {
    let folder = Folder::new();
    let script = json!({"lead": {"turns": [{"calls": [{"tool": "handoff", "input": {"result": {"got": "{{ request }}"}}}]}]}});
    let inputs = json!({"request": {"text": "Greet {{ inputs.who }}.", "inputs": {"who": {"type": "string"}}}});
    folder.job("greeting", &[("lead", &["handoff"])], script, inputs);
    folder.write("who.txt", "Ann & Bo\n");
    let got = |arguments: &[&str]| {
        let report = folder.baton(&[&["run", "greeting", "--output", "json"], arguments].concat()).exits(0).json();
        report["result"]["got"].as_str().unwrap().to_owned()
    };
    assert_eq!(got(&["--input", "who=@who.txt"]), "Greet Ann & Bo.");
    assert_eq!(got(&["--input", "who=@@ann"]), "Greet @ann.");
    assert_eq!(got(&["--input", "who=x", "--request", "@who.txt"]), "Ann & Bo");
    folder.write("dash.txt", "-\n");
    assert_eq!(got(&["--input", "who=x", "--request", "@dash.txt"]), "-", "a file's text is not a reference to stdin");
    folder.baton(&["run", "greeting", "--input", "who=@missing.txt"]).exits(6).tells("there is no file");
}
