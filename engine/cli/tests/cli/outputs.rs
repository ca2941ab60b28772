//! Outputs of a run: the messages of turns, and results that go to the user. Each is printed once.

use serde_json::{Value, json};

use crate::models::{KEY, mine, serving};
use crate::screens::Screen;
use crate::support::Folder;

/// Writes a job whose lead writes messages beside its calls, delegates, asks a person, and ends with a text.
fn talking_job(folder: &Folder) {
    let script = json!({
        "lead": {"turns": [
            {"text": "I look first.\nThen I ask.", "calls": [{"tool": "echo", "input": {"message": "one"}}]},
            {"text": " ", "calls": [{"tool": "route_to_worker", "input": {"request": "Work."}}]},
            {"text": "I ask now.", "calls": [{"tool": "ask_master", "input": {
                "question": "Revenue or units?", "answer_schema": {"type": "string", "enum": ["revenue", "units"]},
            }}]},
            {"text": "I am nearly done.", "calls": [
                {"tool": "echo", "input": {"message": "for the user"}, "return_to_llm": false},
                {"tool": "echo", "input": {"message": "for me"}},
            ]},
            {"text": "All is done."},
        ]},
        "worker": {"turns": [
            {"text": "I am at work.", "calls": [{"tool": "echo", "input": {"message": "two"}}]},
            {"calls": [{"tool": "handoff", "input": {"result": {"summary": "worked"}}}]},
        ]},
    });
    let agents: &[(&str, &[&str])] = &[("lead", &["echo", "route_to_worker", "ask_master"]), ("worker", &["echo", "handoff"])];
    folder.job("talking", agents, script, json!({}));
}

/// Returns the task and the output of each line that has an output.
fn outputs(lines: &[Value]) -> Vec<(String, Value)> {
    let with_output = lines.iter().filter(|line| !line["output"].is_null());
    with_output.map(|line| (line["task"].as_str().unwrap().to_owned(), line["output"].clone())).collect()
}

fn count(text: &str, words: &str) -> usize {
    text.matches(words).count()
}

#[test]
fn the_messages_of_the_root_are_printed_once_and_those_of_other_tasks_with_verbose() {
    let folder = Folder::new();
    talking_job(&folder);
    let began = folder.baton(&["run", "talking"]).exits(3);
    assert_eq!(began.stdout, "", "messages are no result");
    let began = began.tells("0 lead → you\n       │ I look first.\n       │ Then I ask.\n").tells("│ I ask now.");
    assert_eq!((count(&began.stderr, "I look first."), count(&began.stderr, "I am at work.")), (1, 0));
    assert_eq!(count(&began.stderr, "0 lead → you\n       │ "), 2, "a blank text is no message");
    let ended = folder.baton(&["answer", "@last", "units"]).exits(0);
    let ended = ended.tells("│ I am nearly done.").tells("\"for the user\"");
    assert_eq!(count(&ended.stderr, "I look first.") + count(&ended.stderr, "I ask now."), 0, "they were printed before");
    assert_eq!(count(&ended.stderr, "for the user"), 1);
    assert_eq!((count(&ended.stderr, "All is done."), count(&ended.stdout, "All is done.")), (0, 1), "the result is no message");

    let verbose = folder.baton(&["run", "talking", "-v"]).exits(3);
    let verbose = verbose.tells("0/2.1 worker → you\n       │ I am at work.\n");
    assert_eq!(count(&verbose.stderr, "I look first."), 1);
    let quiet = folder.baton(&["run", "talking", "--quiet"]).exits(3);
    assert_eq!(count(&quiet.stderr, "│"), 0);
}

#[test]
fn each_line_with_an_output_has_it_in_output_and_the_report_has_those_of_the_root() {
    let folder = Folder::new();
    talking_job(&folder);
    let first = folder.baton(&["run", "talking", "--output", "ndjson"]).exits(3).lines();
    let own = |text: &str| ("0".to_owned(), json!(text));
    let before = [own("I look first.\nThen I ask."), ("0/2.1".to_owned(), json!("I am at work.")), own("I ask now.")];
    assert_eq!(outputs(&first), before);
    let second = folder.baton(&["answer", "@last", "units", "--output", "ndjson"]).exits(0).lines();
    let after = [own("I am nearly done."), ("0".to_owned(), json!({"echo": "for the user"}))];
    assert_eq!(outputs(&second), after, "what was an output before is not one again");
    let all = folder.baton(&["timeline", "@last", "--output", "ndjson"]).exits(0).lines();
    assert_eq!(outputs(&all), [before.as_slice(), &after].concat());
    let report = folder.baton(&["show", "@last", "--output", "json"]).exits(0).json();
    let expected = json!([
        {"task": "0", "turn": 1, "message": "I look first.\nThen I ask."},
        {"task": "0", "turn": 3, "message": "I ask now."},
        {"task": "0", "turn": 4, "message": "I am nearly done."},
        {"task": "0", "call": "0/4.1", "status": "success", "output": {"echo": "for the user"}},
    ]);
    assert_eq!((&report["outputs"], &report["result"]), (&expected, &json!("All is done.")));
}

#[test]
fn messages_stay_above_the_live_tree() {
    let folder = Folder::new();
    talking_job(&folder);
    let mut screen = Screen::open(&folder, &["run", "talking"]);
    screen.shows("I look first.");
    screen.shows("I ask now.");
    screen.shows("Ctrl-C stops");
    screen.types("units\r");
    let (exit, drawn) = screen.ends();
    assert_eq!(exit, Some(0), "{drawn}");
    for message in ["I look first.", "I ask now.", "I am nearly done.", "\"for the user\""] {
        assert_eq!(count(&drawn, message), 1, "{message:?} in {drawn}");
    }
    assert_eq!(count(&drawn, "All is done."), 1, "the result is no message: {drawn}");
}

#[test]
fn white_space_in_a_models_arguments_breaks_no_line_and_no_value() {
    let folder = Folder::new();
    folder.echo_job();
    let call = |tool: &str, arguments: &str| json!({"type": "function", "function": {"name": tool, "arguments": arguments}});
    let calls = [call("echo", "{\n\t\"message\"\r\n: \"a\\tb\"\t}"), call("handoff", "{\"result\":\t{\n\"said\": \"done\"}\n}")];
    let answer = json!({"choices": [{"message": {"content": null, "tool_calls": calls}, "finish_reason": "tool_calls"}]});
    let (url, _received) = serving("200 OK", vec![answer.to_string()]);
    folder.write("echoing/models.json", mine(&url));
    folder.write(".env", format!("MINE_KEY={KEY}\n"));
    let lines = folder.baton(&["run", "echoing", "--model", "fast", "--trust", "--output", "ndjson"]).exits(0).lines();
    assert_eq!(lines.last().unwrap()["report"]["result"], json!({"said": "done"}));
    let listed = folder.baton(&["timeline", "@last", "--output", "json"]).exits(0).json();
    let lines = folder.baton(&["timeline", "@last", "--output", "ndjson"]).exits(0).lines();
    assert_eq!(listed, Value::from(lines));
    let echoed = listed.as_array().unwrap().iter().find(|row| row["tool"] == "echo").unwrap();
    assert_eq!(echoed["input"], json!({"message": "a\tb"}));
}
