//! The cause of a failed run: the same in `run`, `show`, `timeline` and JSON. Large runs: folded trees and graphs.

use serde_json::{Value, json};

use crate::support::Folder;

fn handoff(result: Value) -> Value {
    json!({"calls": [{"tool": "handoff", "input": {"result": result}}]})
}

/// Writes a job whose worker hands off a result with the wrong unit until its script ends, and whose lead has no other turn.
fn failing_job(folder: &Folder) {
    let call = json!({"calls": [{"tool": "route_to_worker", "input": {"request": "Measure the north."}}]});
    let wrong = handoff(json!({"unit": 7}));
    let script = json!({"lead": {"turns": [call]}, "worker": {"turns": [wrong, wrong]}});
    folder.job("failing", &[("lead", &["route_to_worker", "handoff"]), ("worker", &["handoff"])], script, json!({}));
    let mut worker: Value = serde_json::from_str(&folder.read("failing/agents/worker.json")).unwrap();
    worker["result_schema"] =
        json!({"type": "object", "required": ["unit"], "properties": {"unit": {"enum": ["percent", "absolute"]}}});
    folder.write("failing/agents/worker.json", worker.to_string());
}

#[test]
fn a_failed_run_shows_its_first_cause_with_field_task_and_command_everywhere() {
    let folder = Folder::new();
    failing_job(&folder);
    let ran = folder.baton(&["run", "failing"]).exits(1);
    let run = folder.last_run();
    let from = ran.stdout.find("cause ").unwrap_or_else(|| panic!("there is no cause:\n{}", ran.stdout));
    let card = &ran.stdout[from..];
    let parts = [
        "cause       worker (0/1.1, turn 1, handoff): ",
        "field       /result/unit: ",
        "repeated    2 times in this run",
        "then        worker (0/1.1): the script has no answer",
        &format!("look        baton show {run} --task 0/1.1 --messages\n"),
    ];
    for part in parts {
        assert!(card.contains(part), "{part:?} is not in:\n{card}");
    }
    folder.baton(&["show", &run]).exits(0).says(card);
    folder.baton(&["timeline", &run]).exits(0).tells(card);
    let report = folder.baton(&["show", &run, "--output", "json"]).exits(0).json();
    let failure = &report["failure"];
    assert_eq!((&failure["task"], &failure["agent"], &failure["turn"]), (&json!("0/1.1"), &json!("worker"), &json!(1)));
    assert_eq!((&failure["tool"], &failure["code"], &failure["times"]), (&json!("handoff"), &json!("invalid_input"), &json!(2)));
    assert_eq!(failure["fields"][0]["pointer"], "/result/unit");
    assert_eq!(failure["command"], format!("baton show {run} --task 0/1.1 --messages"));
    folder.baton(&["timeline", &run, "--type", "task_created"]).exits(0);
}

#[test]
fn an_error_after_which_the_agent_continued_is_not_the_cause() {
    let folder = Folder::new();
    let missing = json!({"calls": [{"tool": "echo", "input": {}}]});
    let echo = json!({"calls": [{"tool": "echo", "input": {"message": "x"}}]});
    let script = json!({"lead": {"turns": [missing, echo]}});
    folder.job("short", &[("lead", &["echo", "handoff"])], script, json!({}));
    folder.baton(&["run", "short"]).exits(1).says("cause       lead (0, turn 3): the script has no answer");
}

#[test]
fn a_run_that_reached_a_limit_is_partial_and_names_the_limit() {
    let folder = Folder::new();
    let echo = json!({"calls": [{"tool": "echo", "input": {"message": "x"}}]});
    let script = json!({"lead": {"turns": [echo, {"text": "cut"}]}});
    folder.job("limited", &[("lead", &["echo", "handoff"])], script, json!({"limits": {"turns": 2}}));
    let ran = folder.baton(&["run", "limited"]).exits(4).says("cause       lead (0").says("was reached before the work was done");
    assert!(
        ran.stderr.contains("root partial: limits.turns") || ran.stderr.contains("lead partial: limits.turns"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("completed"), "{}", ran.stderr);
}

#[test]
fn a_run_of_2_000_tasks_is_folded_into_counts_that_are_right() {
    const WORKERS: usize = 2_000;
    let folder = Folder::new();
    let call = |number: usize| json!({"tool": "route_to_worker", "input": {"request": format!("Part {number}")}});
    let calls: Vec<Value> = (0..WORKERS).map(call).collect();
    let done = handoff(json!({"summary": "done"}));
    // Three workers do something else in their last turn, so they are partial.
    let echo = json!({"calls": [{"tool": "echo", "input": {"message": "x"}}]});
    let stuck = json!([{"when": "request in ['Part 5', 'Part 6', 'Part 7']", "turns": [echo, echo]}]);
    let script = json!({"lead": {"turns": [{"calls": calls}, done]}, "worker": {"turns": [done], "cases": stuck}});
    let limits =
        json!({"limits": {"children": 3_000, "live_tasks": 3_000, "calls": 9_000, "turns": 9_000, "parallel_calls": 3_000}});
    folder.job("wide", &[("lead", &["route_to_worker", "handoff"]), ("worker", &["echo", "handoff"])], script, limits);
    let mut worker: Value = serde_json::from_str(&folder.read("wide/agents/worker.json")).unwrap();
    worker["limits"] = json!({"turns": 2});
    folder.write("wide/agents/worker.json", worker.to_string());
    let mut lead: Value = serde_json::from_str(&folder.read("wide/agents/lead.json")).unwrap();
    lead["limits"] = json!({"children": 3_000, "calls": 3_000});
    folder.write("wide/agents/lead.json", lead.to_string());
    let quiet = folder.baton(&["run", "wide", "--quiet"]);
    assert_eq!((quiet.code, quiet.stderr.as_str()), (0, ""), "{}", quiet.stdout);
    let shown = folder.baton(&["show", "@last"]).exits(0).stdout;
    let states: Vec<Value> = folder.baton(&["show", "@last", "--output", "json"]).json()["tasks"].as_array().unwrap().clone();
    assert_eq!(states.len(), WORKERS + 1);
    let tree: Vec<&str> = shown.lines().skip_while(|line| !line.starts_with('✓')).take_while(|line| !line.is_empty()).collect();
    assert!(tree.len() <= 40, "{shown}");
    let partial = tree.iter().filter(|line| line.contains(" partial ")).count();
    let fold = tree.last().unwrap();
    let rest = WORKERS - partial;
    let counted = format!("… {},{:03} more tasks: {},{:03} completed", rest / 1_000, rest % 1_000, rest / 1_000, rest % 1_000);
    assert!(partial == 3 && fold.contains(&counted), "{partial} partial, {counted:?} is expected:\n{shown}");
    for id in ["0/1.6", "0/1.7", "0/1.8"] {
        assert!(tree.iter().any(|line| line.contains(id)), "{id} is not in:\n{shown}");
    }

    let graph = folder.baton(&["graph", "@last"]).exits(0).stdout;
    assert!(graph.len() < 50_000 && graph.contains(" more tasks · "), "{} characters", graph.len());
    let nodes = folder.baton(&["graph", "@last", "--output", "json"]).exits(0).json()["nodes"].as_array().unwrap().len();
    assert_eq!(nodes, WORKERS + 1, "programs get every task");
    assert!(folder.baton(&["graph", "@last", "--all"]).exits(0).stdout.len() > graph.len());
}

#[test]
fn an_error_is_one_line_of_json_for_programs() {
    let folder = Folder::new();
    folder.echo_job();
    for arguments in [&["show", "zzz", "--output", "json"][..], &["--output=ndjson", "show", "zzz"]] {
        let ran = folder.baton(arguments).exits(6);
        let error: Value = serde_json::from_str(ran.stderr.trim_end()).unwrap();
        assert_eq!((ran.stdout.as_str(), &error["v"]), ("", &json!(0)));
        assert_eq!((&error["error"]["code"], &error["error"]["exit_code"]), (&json!("not_found"), &json!(6)));
        assert_eq!(error["error"]["message"], "there is no run zzz");
    }
    let ran = folder.baton(&["shwo", "--output", "json"]).exits(2);
    let error: Value = serde_json::from_str(ran.stderr.trim_end()).unwrap();
    assert_eq!(error["error"]["code"], "usage");
}

#[test]
fn a_limit_too_small_for_one_request_is_named_with_the_needed_amount_and_the_remedy() {
    let folder = Folder::new();
    folder.echo_job();
    let ran = folder.baton(&["run", "echoing", "--max-tokens", "100"]).exits(4);
    let words = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("allows 100 tokens, of which 0 tokens are used; the next request may take up to"), "{words}");
    assert!(words.contains("Raise limits.tokens (for a run also --max-tokens)"), "{words}");
}

#[test]
fn a_card_has_each_sentence_once() {
    let folder = Folder::new();
    let script = json!({"lead": {"turns": [{"calls": [{"tool": "echo", "input": {}}]}]}});
    folder.job("once", &[("lead", &["echo", "handoff"])], script, json!({}));
    let ran = folder.baton(&["run", "once"]).exits(1);
    assert_eq!(ran.stdout.matches("key \"message\" is missing").count(), 1, "{}", ran.stdout);
    assert!(ran.stdout.contains("then        lead (0): the script has no answer"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("in task 0, turn 2"), "{}", ran.stdout);
}
