//! Delegated tasks that begin with the conversation of their caller (`"context": "fork"` of the delegating tool).

use baton_types::call::ErrorCode;
use baton_types::event::Outcome;
use baton_types::limits::Limits;
use baton_types::message::Part;
use serde_json::json;

use crate::follow_ups::{code, told};
use crate::support::jobs::{JobDraft, ToolDraft};
use crate::support::script::Execution;
use crate::support::{Sim, agent, call, function, handoff, job, route, turn, write};

fn team(is_fork: bool) -> JobDraft {
    let to_child = ToolDraft::route("child");
    job([agent("root", "look save route_to_child"), agent("child", "save")])
        .tools([function("look"), function("save").writing()])
        .tool(if is_fork { to_child.forks_context() } else { to_child })
}

fn save(execution: &Execution) -> Outcome {
    let text = execution.input.value()["x"].as_str().expect("x is a string").to_owned();
    Outcome { writes: vec![write("a.md", &text)], ..Outcome::success(json!("saved")) }
}

/// Runs a root that looks, saves, and then delegates a save.
fn delegating(is_fork: bool) -> Sim {
    let sim = Sim::new(&team(is_fork))
        .agent(
            "root",
            [turn([call("look", "a"), call("save", "one")]), turn([route("child", "Go on.")]), turn([handoff("done")])],
        )
        .agent("child", [turn([call("save", "two")]), turn([handoff("child")])])
        .tool("save", save)
        .start();
    sim.assert_over();
    sim
}

#[test]
fn a_callee_begins_with_the_conversation_of_its_caller() {
    let conversation = |is_fork| told(&delegating(is_fork).request("0/2.1").messages)[..].to_vec();
    let own = |status| ["request Go on.".to_owned(), "call save".to_owned(), format!("result of save: {status}")];
    let callers = [
        "request go",
        "call look",
        "call save",
        "result of look: success",
        "result of save: success",
        "call route_to_child",
        "result of route_to_child: none",
    ];
    assert_eq!(conversation(true), [&callers.map(str::to_owned)[..], &own("success")].concat());
    assert_eq!(conversation(false), own("failed"));
}

#[test]
fn a_callee_knows_the_documents_that_the_conversation_has() {
    assert_eq!(code(&delegating(true), "0/2.1/1.1"), None, "it saw what its caller wrote");
    assert_eq!(code(&delegating(false), "0/2.1/1.1"), Some(ErrorCode::Conflict));
}

#[test]
fn the_conversation_of_the_caller_gives_way_first() {
    let narrow = Limits { context_tokens: Some(3_000), turns: Some(50), ..Limits::default() };
    let to_child = ToolDraft::route("child").forks_context();
    let agents = [agent("root", "look route_to_child"), agent("child", "look")];
    let agents = agents.map(|agent| agent.limits(narrow.clone()).settings(json!({"max_tokens": 100})));
    let sim = Sim::new(&job(agents).tool(function("look")).tool(to_child))
        .agent_with("root", |prompted| {
            Ok(turn([match prompted.turn {
                1..=4 => call("look", &prompted.turn.to_string()),
                5 => route("child", "Go on."),
                _ => handoff("done"),
            }]))
        })
        .agent_with("child", |prompted| {
            Ok(turn([if prompted.turn > 5 { handoff("child") } else { call("look", &prompted.turn.to_string()) }]))
        })
        .tool("look", |_| Outcome::success(json!("x".repeat(1_200))))
        .start();
    sim.assert_over();
    let request = sim.request("0/5.1");
    let conversation = told(&request.messages);
    assert_eq!(conversation.iter().filter(|line| line.starts_with("request ")).count(), 1, "{conversation:?}");
    assert!(matches!(&request.messages[0].parts[..], [Part::Request(request), Part::Summary { .. }] if request == "Go on."));
}
