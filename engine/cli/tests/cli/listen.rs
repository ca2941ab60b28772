//! `baton listen` as an operator uses it: killed, stopped and started again, with people who answer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Folder, Process, eventually};

/// Number of times that the listener is killed, of records, and of their sessions.
const KILLS: u64 = 100;
const RECORDS: usize = 1_000;
const SESSIONS: usize = 50;

/// Returns a project with an agent that is a record. `tools` are its grants, and `turns` those of its script.
fn project(tools: &Value, turns: &Value) -> Folder {
    let folder = Folder::new();
    folder.write("baton.json", "{}");
    folder.write("answers.json", json!({"agents": {"bot": {"turns": turns}}}).to_string());
    let definition = json!({
        "title": "Bot", "schema_name": "agent.definition.v1",
        "context": {
            "agent_id": "bot", "model": "google/gemini-2.5-flash", "system_prompt": "Answer.", "tools": tools,
            "subscriptions": {"selectors": [{"schema_name": "user.message.v1"}]},
        },
    });
    folder.write("records/0-bot.json", definition.to_string());
    folder
}

fn message(session: Option<usize>, number: usize) -> String {
    let tags: Vec<String> = session.map(|session| format!("session:{session}")).into_iter().collect();
    let context = json!({"content": "Hello", "number": number, "session_id": "s"});
    json!({"title": format!("Message {number}"), "schema_name": "user.message.v1", "tags": tags, "context": context}).to_string()
}

/// Starts a listener. If nothing reads its output, it has none: a full pipe would stop it.
fn listen(folder: &Folder, output: Stdio) -> Process {
    let mut command = folder.command(&["listen", "--script", "answers.json", "--output", "ndjson"]);
    Process(command.stdout(output).stderr(Stdio::piped()).spawn().unwrap())
}

/// Returns the lines that the listener prints, until one has this state.
fn reported(listening: &mut Process, state: &str) -> Value {
    let mut lines = BufReader::new(listening.0.stdout.as_mut().unwrap()).lines();
    let line = lines.find_map(|line| {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        (line["state"] == state).then_some(line)
    });
    line.unwrap_or_else(|| panic!("no line with {state}"))
}

/// Returns the answers, the oldest first.
fn answers(folder: &Folder) -> Vec<Value> {
    let limit = (2 * RECORDS).to_string();
    let arguments = ["breadcrumb", "search", "--schema", "agent.response.v1", "--limit", &limit, "--output", "json"];
    let found = folder.baton(&arguments).exits(0).json();
    let mut found = found["breadcrumbs"].as_array().unwrap_or_else(|| panic!("{found}")).clone();
    found.reverse();
    found
}

/// Resumes the runs that are quarantined, since several listeners died before their first turn had ended.
fn resume_quarantined(folder: &Folder) {
    let listed = folder.baton(&["ps", "--limit", "5000", "--output", "json"]).exits(0).json();
    for run in listed.as_array().unwrap().iter().filter(|run| run["status"] == "quarantined") {
        folder.baton(&["resume", run["run"].as_str().unwrap()]).exits(0);
    }
}

#[test]
fn a_listener_that_is_killed_a_hundred_times_answers_each_record_once() {
    let turns: Vec<Value> = (0..=RECORDS / SESSIONS).map(|_| json!({"text": "Done."})).collect();
    let folder = project(&json!([]), &json!(turns));
    for number in 1..=RECORDS {
        folder.write(&format!("records/{number:04}.json"), message(Some(number % SESSIONS), number));
    }
    folder.baton(&["breadcrumb", "import", "records"]).exits(0);
    let mut killed_at_work = 0;
    for kill in 0..KILLS {
        let listening = listen(&folder, Stdio::null());
        // Times that are spread, but not random: a failure can be repeated.
        std::thread::sleep(Duration::from_millis(40 + kill * 37 % 260));
        drop(listening);
        let left = answers(&folder).len();
        killed_at_work += u64::from(left < RECORDS);
    }
    assert!(killed_at_work > KILLS / 2, "the listener was done after {killed_at_work} kills; it needs more records");
    let began = Instant::now();
    let listening = listen(&folder, Stdio::null());
    while answers(&folder).len() < RECORDS {
        assert!(began.elapsed() < Duration::from_mins(5), "{} records are answered", answers(&folder).len());
        resume_quarantined(&folder);
        std::thread::sleep(Duration::from_millis(200));
    }
    // Whatever would be done twice is done by now.
    std::thread::sleep(Duration::from_millis(500));
    drop(listening);
    let answers = answers(&folder);
    let (mut sessions, mut runs) = (BTreeMap::<String, Vec<String>>::new(), BTreeSet::new());
    for answer in &answers {
        let shown = folder.baton(&["breadcrumb", "show", answer["id"].as_str().unwrap(), "--full", "--output", "json"]);
        let record = shown.exits(0).json();
        assert_eq!(record["context"]["message"], "Done.");
        runs.insert(record["context"]["metadata"]["run"].as_str().unwrap().to_owned());
        let session = record["tags"].as_array().unwrap().iter().find_map(|tag| tag.as_str()?.strip_prefix("session:"));
        sessions.entry(session.unwrap().to_owned()).or_default().push(record["title"].as_str().unwrap().to_owned());
        if runs.len() >= 100 {
            break;
        }
    }
    assert_eq!(answers.len(), RECORDS, "each record has one answer");
    let titles: BTreeSet<&str> = answers.iter().map(|answer| answer["title"].as_str().unwrap()).collect();
    assert_eq!(titles.len(), RECORDS, "no record has two answers");
    assert_eq!(runs.len(), 100, "each answer has a run of its own");
    let mut in_session = BTreeMap::<&str, Vec<usize>>::new();
    for answer in &answers {
        let session = answer["tags"].as_array().unwrap().iter().find_map(|tag| tag.as_str()?.strip_prefix("session:")).unwrap();
        let number = answer["title"].as_str().unwrap().rsplit(' ').next().unwrap().parse().unwrap();
        in_session.entry(session).or_default().push(number);
    }
    for (session, numbers) in &in_session {
        assert!(numbers.is_sorted(), "session {session}: {numbers:?}");
        assert_eq!(numbers.len(), RECORDS / SESSIONS, "session {session}");
    }
    let list = folder.baton(&["ps", "--limit", "5000", "--output", "json"]).exits(0).json();
    let status = |run: &Value| run["status"].as_str().unwrap_or_default().to_owned();
    let all = list.as_array().unwrap();
    assert_eq!(all.len(), RECORDS, "each record has one run");
    assert!(all.iter().all(|run| status(run) == "completed"), "{list}");
    folder.baton(&["verify"]).exits(0);
}

#[test]
fn a_person_approves_what_a_listener_waits_for() {
    let turns = json!([{"calls": [{"tool": "echo", "input": {"message": "hi"}}]}, {"text": "Said hi."}]);
    let folder = project(&json!([{"tool": "echo", "approval": "person"}]), &turns);
    folder.write("records/1.json", message(None, 1));
    folder.baton(&["breadcrumb", "import", "records"]).exits(0);
    let mut listening = listen(&folder, Stdio::piped());
    let waiting = reported(&mut listening, "waiting");
    let run = waiting["run"].as_str().unwrap().to_owned();
    folder.baton(&["answer", &run, "Q1", "yes"]).exits(0);
    let answered = reported(&mut listening, "answered");
    assert_eq!((&answered["run"], &answered["trigger"]), (&json!(run), &waiting["trigger"]));
    let [answer] = &answers(&folder)[..] else { panic!("one answer") };
    assert_eq!(answer["id"], answered["detail"]);
    let full =
        folder.baton(&["breadcrumb", "show", answer["id"].as_str().unwrap(), "--full", "--output", "json"]).exits(0).json();
    assert_eq!(full["context"]["message"], "Said hi.");
}

#[test]
fn a_run_whose_listeners_die_is_reported_as_quarantined() {
    let turns = json!([{"calls": [{"tool": "slow", "input": {}}]}, {"text": "Done."}]);
    let folder = project(&json!(["slow"]), &turns);
    let tool = json!({
        "tool_id": "slow", "type": "function_tool", "description": "Works.", "effect": "keyed",
        "exec": {"command": ["sh", "-c", "echo >> \"$STARTED\"; sleep 600"], "env": ["STARTED"]},
        "input_schema": {"type": "object"},
    });
    folder.write("tools/slow.json", tool.to_string());
    folder.write("records/1.json", message(None, 1));
    folder.baton(&["breadcrumb", "import", "records"]).exits(0);
    let started = folder.path().join("started");
    let listen = |output: Stdio| {
        let mut command = folder.command(&["listen", "--script", "answers.json", "--output", "ndjson", "--trust"]);
        Process(command.env("STARTED", &started).stdout(output).stderr(Stdio::null()).spawn().unwrap())
    };
    for times in 1..=3 {
        let _killed = listen(Stdio::null());
        let is_started = || fs::read(&started).is_ok_and(|lines| lines.len() == times).then_some(());
        eventually("the tool is started", is_started);
    }
    let line = reported(&mut listen(Stdio::piped()), "quarantined");
    let resume = format!("baton resume {}", line["run"].as_str().unwrap());
    assert!(line["detail"].as_str().unwrap().ends_with(&resume), "{line}");
}

#[test]
fn a_listener_reports_faulty_agents_and_needs_a_store_on_disk() {
    let folder = project(&json!(["no_such_tool"]), &json!([]));
    folder.baton(&["breadcrumb", "import", "records"]).exits(0);
    folder.baton(&["--store", "memory", "listen"]).exits(2).tells("a store in memory has no breadcrumbs of other processes");
    folder.write("records/1.json", message(None, 1));
    folder.baton(&["breadcrumb", "import", "records"]).exits(0);
    let mut listening = listen(&folder, Stdio::piped());
    let failed = reported(&mut listening, "not handled");
    assert!(failed["detail"].as_str().unwrap().contains("no_such_tool"), "{failed}");
    let mut warning = String::new();
    BufReader::new(listening.0.stderr.as_mut().unwrap()).read_line(&mut warning).unwrap();
    assert!(warning.contains("the agent Bot") && warning.contains("cannot start"), "{warning}");
    // The folder of a store that was in use is complete.
    assert!(fs::exists(folder.path().join(".baton/baton.db")).unwrap());
}
