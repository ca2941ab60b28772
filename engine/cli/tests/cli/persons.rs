//! `run --model person`: a person, or a program that writes lines, answers in place of the models.

use serde_json::json;

use crate::support::Folder;

const RUN: [&str; 4] = ["run", "echoing", "--model", "person"];

#[test]
fn lines_of_standard_input_are_turns_and_are_recorded_as_any_models() {
    let folder = Folder::new();
    folder.echo_job();
    let lines = "ecko {\"message\": \"typo\"}\necho {\"message\": \n?\nI echo it.\necho {\"message\": \"hello\"}\n\n\
                 handoff {\"result\": {\"said\": \"by hand\"}}";
    let run = [&RUN[..], &["--max-cost", "0.01", "--output", "json"]].concat();
    let ran = folder.baton_with_input(&run, lines).exits(0);
    let shown = [
        "── lead · task 0 · turn 1 ──",
        "Do it.",
        "echo(message)",
        "handoff(",
        "no tool ecko is offered",
        "is not JSON",
        "\"properties\"",
        "── lead · task 0 · turn 2 ──",
        "result of echo: success",
        "{\"echo\":\"hello\"",
    ];
    for words in shown {
        assert!(ran.stderr.contains(words), "{words:?} is not in\n{}", ran.stderr);
    }
    assert_eq!(ran.stderr.matches("\n    Do it.\n").count(), 2, "the prompt and the request are shown once:\n{}", ran.stderr);
    let report = ran.json();
    assert_eq!(report["result"], json!({"said": "by hand"}));
    assert_eq!((&report["cost_usd"], &report["usage"]["used"]["estimated"]), (&json!(0.0), &json!(true)), "{report}");
    folder.baton(&["replay", "@last"]).exits(0);
    folder.baton(&["export", "@last", "--script", "--out", "again.script.json"]).exits(0);
    let again = folder.baton(&["run", "echoing", "--script", "again.script.json", "--output", "json"]).exits(0).json();
    assert_eq!((&again["result"], &again["tasks"]), (&report["result"], &report["tasks"]));
}

#[test]
fn a_run_without_a_person_is_refused_before_its_start() {
    let folder = Folder::new();
    folder.echo_job();
    folder.baton(&RUN).exits(2).tells("which has no lines").tells("--script FILE");
    folder.baton_with_input(&[&RUN[..], &["--request", "-"]].concat(), "Do it.\n").exits(2).tells("--script FILE");
    folder.baton(&["ps"]).exits(0).tells("no runs");
}

#[test]
fn a_run_stops_when_the_lines_end_and_continues_with_others() {
    let folder = Folder::new();
    folder.echo_job();
    let ran = folder.baton_with_input(&RUN, "echo {\"message\": \"hello\"}\n").exits(130);
    let ran = ran.tells("standard input has ended").tells("stopped; nothing is lost").tells("baton resume");
    assert_eq!(ran.stderr.matches("standard input has ended").count(), 1, "{}", ran.stderr);
    let ran = folder.baton_with_input(&["resume", "@last", "--output", "json"], "It is done.\n").exits(0);
    assert!(ran.stderr.contains("{\"echo\":\"hello\""), "the conversation is shown again:\n{}", ran.stderr);
    assert_eq!(ran.json()["result"], json!("It is done."));
}

#[test]
fn several_tasks_are_asked_one_after_the_other() {
    let folder = Folder::new();
    folder.writing_job();
    let lines = "route_to_worker {\"request\": \"First.\"}\nroute_to_worker {\"request\": \"Second.\"}\n\none\n\ntwo\n\nboth\n";
    let ran = folder.baton_with_input(&["run", "writing", "--model", "person", "--output", "json"], lines).exits(0);
    let place = |words: &str| ran.stderr.find(words).unwrap_or_else(|| panic!("{words:?} is not in\n{}", ran.stderr));
    assert!(place("task 0/1.1 · turn 1") < place("task 0/1.2 · turn 1"));
    assert!(place("task 0/1.2 · turn 1") < place("task 0 · turn 2"));
    let outputs: Vec<_> = ["0/1.1", "0/1.2"].map(|task| folder.baton(&["show", "@last", "--task", task]).exits(0).stdout).into();
    assert!(outputs[0].contains("one") && outputs[1].contains("two"), "{outputs:?}");
}

#[test]
fn a_request_commands_no_terminal_and_is_bounded() {
    let folder = Folder::new();
    folder.echo_job();
    let request = format!("\u{1b}[2Jclear\u{202e}\n{}", "a line\n".repeat(500));
    let ran = folder.baton_with_input(&[&RUN[..], &["--request", &request]].concat(), "done\n").exits(0);
    assert!(!ran.stderr.contains("\u{1b}[2J") && !ran.stderr.contains('\u{202e}'), "{}", ran.stderr);
    assert!(ran.stderr.contains("\\u{1b}[2Jclear") && ran.stderr.contains("more characters"), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().filter(|line| line.trim() == "a line").count(), 39, "{}", ran.stderr);
}
