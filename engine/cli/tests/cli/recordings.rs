//! Recording and replaying runs from the command line, and the messages when that is not possible.

use serde_json::{Value, json};

use crate::models::{KEY, hello, holding, mine, server, serving};
use crate::support::Folder;

/// Returns a folder with two jobs, and a provider at `url` in the person's own `models.json`.
fn folder(url: &str) -> Folder {
    let folder = Folder::new();
    folder.echo_job();
    folder.asking_job();
    folder.write("config/baton/models.json", mine(url));
    folder.write(".env", format!("MINE_KEY={KEY}\n"));
    folder.baton(&["doctor", "echoing", "--offline", "--trust"]).exits(0);
    folder
}

#[test]
fn a_recorded_run_is_played_without_its_key_and_its_provider() {
    let (url, received) = server("200 OK", hello());
    let folder = folder(&url);
    let run = |more: &[&str]| folder.baton(&[&["run", "echoing", "--model", "mine:m"], more].concat());
    run(&["--record", "taped"]).exits(0).says("hello").tells("cassettes   1");
    assert_eq!(received.try_iter().count(), 1);
    assert_eq!(holding(&folder.path().join("taped"), KEY), Vec::<String>::new());
    let cassette: Value = serde_json::from_str(&folder.read("taped/0.turn-001.1.json")).unwrap();
    assert_eq!(cassette["answer"]["body"]["json"]["choices"][0]["message"]["content"], "hello");
    std::fs::remove_file(folder.path().join(".env")).unwrap();
    run(&[]).exits(5).tells("MINE_KEY");
    run(&["--replay", "taped"]).exits(0).says("hello");
    let other = ["--replay", "taped", "--request", "Do something else."];
    let told = run(&other).exits(1).says("0.turn-001.1.json").says("Do it.").stdout;
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("now it is") && told.contains("Do something else."), "{told}");
    std::fs::remove_file(folder.path().join("taped/0.turn-001.1.json")).unwrap();
    run(&["--replay", "taped"]).exits(1).says("there is no cassette").says("--record DIR");
    assert_eq!(received.try_iter().count(), 0, "nothing was asked");
}

#[test]
fn a_recording_that_makes_no_sense_is_refused_before_anything_runs() {
    let (url, received) = server("200 OK", hello());
    let folder = folder(&url);
    let run = |more: &[&str]| folder.baton(&[&["run", "echoing", "--model", "mine:m"], more].concat());
    run(&["--record", "a", "--replay", "b"]).exits(2).tells("cannot be used with");
    folder.write("full/mine.txt", "mine");
    run(&["--record", "full"]).exits(2).tells("full is not empty");
    run(&["--record", "full/mine.txt"]).exits(1).tells("mine.txt cannot be written");
    run(&["--replay", "full"]).exits(6).tells("there is no recording in").tells("full");
    run(&["--replay", "nowhere"]).exits(6).tells("nowhere");
    assert_eq!(received.try_iter().count(), 0);
    assert_eq!(folder.baton(&["ps", "--output", "json"]).json(), json!([]));
}

#[test]
fn a_recording_goes_on_with_its_run_and_so_does_what_is_played() {
    let question = json!({"question": "Revenue or units?", "answer_schema": {"type": "string", "enum": ["revenue", "units"]}});
    let call = json!({"id": "c1", "type": "function", "function": {"name": "ask_master", "arguments": question.to_string()}});
    let asks = json!({"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
    let (url, received) = serving("200 OK", vec![asks.to_string(), hello()]);
    let folder = folder(&url);
    let run = |how: &str| folder.baton(&["run", "asking", "--model", "mine:m", how, "taped"]).exits(3);
    let resume = |run: &str, more: &[&str]| folder.baton(&[&["resume", run], more].concat());
    run("--record").tells("--record taped");
    let recorded = folder.last_run();
    folder.baton(&["answer", &recorded, "Q1", "units", "--no-resume"]).exits(0);
    resume(&recorded, &["--record", "nowhere"]).exits(6).tells("nowhere");
    resume(&recorded, &["--record", "taped"]).exits(0).says("hello").tells("cassettes   2");
    assert_eq!(received.try_iter().count(), 2);
    run("--replay").tells("--replay taped");
    let played = folder.last_run();
    folder.baton(&["answer", &played, "Q1", "units", "--no-resume"]).exits(0);
    resume(&played, &["--record", "taped"]).exits(2).tells(&format!("the recording of run {recorded}"));
    resume(&played, &["--replay", "taped"]).exits(0).says("hello");
    assert_eq!(received.try_iter().count(), 0, "nothing was asked again");
}
