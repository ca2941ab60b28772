//! A run that has ended is continued: a new root task begins from the conversation of the root before.

use baton_types::call::{CallStatus, ErrorCode};
use baton_types::entry::{Compacted, Entry};
use baton_types::event::{Event, Outcome, Refusal};
use baton_types::limits::{LimitKind, Limits, SessionLimits};
use baton_types::message::{Message, Part, Role};
use baton_types::model::ModelTurn;
use baton_types::principal::Principal;
use serde_json::json;

use crate::support::jobs::ToolDraft;
use crate::support::script::{Answer, Execution, Prompted, call_with, document_path, handoff_with, writes};
use crate::support::{Sim, agent, call, function, handoff, job, route, says, turn, write};

/// Returns the parts of `messages` that tell the conversation, in words.
pub(crate) fn told(messages: &[std::sync::Arc<Message>]) -> Vec<String> {
    let told = messages.iter().flat_map(|message| &message.parts).filter_map(|part| match part {
        Part::Request(text) => Some(format!("request {text}")),
        Part::Text(text) => Some(format!("text {text}")),
        Part::Call { asked, .. } => Some(format!("call {}", asked.tool)),
        Part::Result { asked, result, .. } => {
            Some(format!("result of {}: {}", asked.tool, result.as_ref().map_or("none", |result| result.status.as_str())))
        }
        Part::Summary { through_turn, .. } => Some(format!("summary of turns up to {through_turn}")),
        _ => None,
    });
    told.collect()
}

/// Answers with the turns of each root in turn.
fn each<const ROOTS: usize>(roots: [Vec<ModelTurn>; ROOTS]) -> impl FnMut(&Prompted<'_>) -> Answer + 'static {
    move |prompted| {
        let root: usize = prompted.task.as_str().parse().expect("only a root is asked");
        Ok(roots[root][prompted.turn as usize - 1].clone())
    }
}

/// Returns the error code of a call's result.
pub(crate) fn code(sim: &Sim, id: &str) -> Option<ErrorCode> {
    let error = sim.entries().find_map(|entry| match entry {
        Entry::CallFinished(finished) if finished.call.as_str() == id => Some(finished.result.error.as_ref()),
        _ => None,
    });
    error.expect("the call has a result").map(|error| error.code)
}

fn compactions(sim: &Sim) -> Vec<&Compacted> {
    let compacted = sim.entries().filter_map(|entry| match entry {
        Entry::Compacted(compacted) => Some(compacted),
        _ => None,
    });
    compacted.collect()
}

#[test]
fn a_run_that_has_ended_goes_on_with_the_conversation_of_its_root() {
    let mut sim = Sim::new(&job([agent("root", "look")]).tool(function("look")))
        .agent_with(
            "root",
            each([vec![turn([call("look", "a")]), turn([handoff("first")])], vec![says("second")], vec![says("third")]]),
        )
        .start();
    sim.assert_over();
    sim.follow_up("And then?").unwrap();
    sim.assert_over();
    let conversation =
        ["request go", "call look", "result of look: success", "call handoff", "result of handoff: success", "request And then?"];
    assert_eq!(told(&sim.request("1").messages), conversation);
    assert_eq!(sim.task("1").result.as_ref().unwrap().output.value(), json!("second"));
    assert_eq!(sim.run.ended().map(|ended| ended.status), Some(CallStatus::Success));
    // A text that was the result is a part of the conversation as well.
    sim.follow_up("Once more.").unwrap();
    sim.assert_over();
    assert_eq!(told(&sim.request("2").messages), [&conversation[..], &["text second", "request Once more."]].concat());
    let started = sim.run.started().unwrap();
    assert_eq!((started.request.as_str(), started.forked_from.as_ref()), ("Once more.", None));
    assert!(started.continues.is_some());
}

#[test]
fn only_a_run_that_has_ended_is_continued() {
    let mut sim = Sim::new(&job([agent("root", "look")]).tool(function("look")))
        .agent("root", [turn([call("look", "a")]), turn([handoff("done")])])
        .holding("look")
        .start();
    assert_eq!(sim.follow_up("And then?"), Err(Refusal::NotEnded));
    sim.release("look");
    sim.assert_over();
    let steer = Event::Steered { task: "0".into(), text: "More.".to_owned(), by: Principal::person("ada") };
    assert_eq!(sim.event(steer), Err(Refusal::Ended { task: "0".into() }));
}

#[test]
fn a_conversation_goes_on_after_every_end_of_its_root() {
    let limits = Limits { turns: Some(2), ..Limits::default() };
    let new = || Sim::new(&job([agent("root", "look").limits(limits.clone())]).tool(function("look")));
    let ended_by = |mut sim: Sim, status: CallStatus| {
        assert_eq!(sim.task("0").result.as_ref().unwrap().status, status);
        sim.follow_up("Try again.").unwrap();
        sim.assert_over();
        assert_eq!(sim.task("1").result.as_ref().unwrap().status, CallStatus::Success);
        sim
    };
    let mut cancelled =
        new().agent_with("root", each([vec![turn([call("look", "a")])], vec![says("done")]])).holding("look").start();
    cancelled.cancel("0").unwrap();
    let cancelled = ended_by(cancelled, CallStatus::Cancelled);
    assert_eq!(told(&cancelled.request("1").messages)[1..], ["call look", "result of look: cancelled", "request Try again."]);
    let failed = new().agent_with("root", |prompted| match prompted.task.as_str() {
        "0" => Err(Sim::model_error()),
        _ => Ok(turn([handoff("done")])),
    });
    ended_by(failed.start(), CallStatus::Failed);
    let looks = vec![turn([call("look", "a")]), turn([call("look", "b")])];
    let partial = new().agent_with("root", each([looks, vec![says("done")]]));
    ended_by(partial.start(), CallStatus::Partial);
}

#[test]
fn the_limits_of_a_run_count_anew() {
    let limits = Limits { turns: Some(3), calls: Some(1), ..Limits::default() };
    let turns = || [turn([call("look", "a")]), turn([handoff("done")])];
    let mut sim = Sim::new(&job([agent("root", "look")]).tool(function("look")).limits(limits))
        .agent("root", turns().into_iter().chain(turns()))
        .start();
    assert_eq!((sim.run.totals().turns, sim.run.totals().calls), (2, 1));
    let used = sim.run.totals().usage;
    sim.follow_up("Again.").unwrap();
    sim.assert_over();
    assert_eq!(sim.task("1").result.as_ref().unwrap().output.value(), json!("done"));
    assert_eq!((sim.run.totals().turns, sim.run.totals().calls), (2, 1));
    assert!(used.total() > 0 && sim.run.totals().usage.total() > 0);
}

#[test]
fn the_limits_of_a_session_hold_over_all_its_runs() {
    let ended = |limits: SessionLimits| {
        let turns = || [turn([call("look", "a")]), turn([handoff("done")])];
        let root = agent("root", "look").settings(json!({"max_tokens": 20}));
        let mut sim = Sim::new(&job([root]).tool(function("look")).session_limits(limits))
            .agent("root", turns().into_iter().chain(turns()))
            .start();
        assert_eq!(sim.run.ended().unwrap().status, CallStatus::Success, "the first run is within every limit");
        let used = sim.run.totals().usage.total();
        sim.follow_up("Again.").unwrap();
        sim.assert_over();
        (used, sim.run.ended().unwrap().limit, sim)
    };
    let (used, none, _) = ended(SessionLimits { tokens: Some(1_000_000), ..SessionLimits::default() });
    assert_eq!(none, None);
    let (_, limit, mut sim) = ended(SessionLimits { turns: Some(3), ..SessionLimits::default() });
    assert_eq!(limit, Some(LimitKind::SessionTurns));
    sim.follow_up("Once more.").unwrap();
    sim.assert_over();
    assert_eq!((sim.run.ended().unwrap().limit, sim.run.totals().turns), (Some(LimitKind::SessionTurns), 0));
    let (_, limit, mut sim) = ended(SessionLimits { tokens: Some(used + 300), ..SessionLimits::default() });
    assert_eq!(limit, Some(LimitKind::SessionTokens));
    sim.follow_up("Once more.").unwrap();
    let error = sim.task("2").result.as_ref().unwrap().error.clone().unwrap();
    assert!(error.message.contains("Raise session_limits.tokens in the job"), "{}", error.message);
    let (_, limit, sim) = ended(SessionLimits { calls: Some(1), ..SessionLimits::default() });
    assert_eq!((limit, sim.refusal("1/1.1").code), (None, ErrorCode::LimitReached));
    assert_eq!(sim.refusal("1/1.1").message, "session_limits.calls is reached: 1 allowed");
}

#[test]
fn what_the_root_knew_of_documents_it_knows_when_it_is_continued() {
    let save = |execution: &Execution| {
        let text = execution.input.value()["x"].as_str().unwrap().to_owned();
        Outcome { writes: vec![write("a.md", &text)], ..Outcome::success(json!("saved")) }
    };
    let mut sim = Sim::new(&job([agent("root", "save route_to_child"), agent("child", "save")]).tool(function("save").writing()))
        .agent_with(
            "root",
            each([
                vec![turn([call("save", "1")]), turn([handoff("first")])],
                vec![turn([call("save", "2")]), turn([route("child", "write it")]), turn([handoff("second")])],
                vec![turn([call("save", "3")]), turn([handoff("third")])],
            ]),
        )
        .agent("child", [turn([call("save", "other")]), turn([handoff("child")])])
        .tool("save", save)
        .start();
    sim.follow_up("Change it.").unwrap();
    sim.assert_over();
    assert_eq!(code(&sim, "1/1.1"), None, "the version that the root wrote before is the base");
    assert_eq!(code(&sim, "1/2.1/1.1"), Some(ErrorCode::Conflict), "the child never saw it");
    sim.follow_up("And again.").unwrap();
    sim.assert_over();
    assert_eq!(code(&sim, "2/1.1"), None);
}

#[test]
fn the_conversation_before_is_the_first_that_a_summary_replaces() {
    let narrow = Limits { context_tokens: Some(4_000), turns: Some(200), ..Limits::default() };
    let root = agent("root", "work").limits(narrow).settings(json!({"max_tokens": 100}));
    let mut sim = Sim::new(&job([root]).tool(function("work")))
        .agent_with("root", |prompted| {
            Ok(turn([if prompted.turn > 6 { handoff("done") } else { call("work", &prompted.turn.to_string()) }]))
        })
        .tool("work", |_| Outcome::success(json!("x".repeat(1_000))))
        .start();
    for request in ["second", "third", "fourth", "fifth", "sixth"] {
        sim.follow_up(request).unwrap();
        sim.assert_over();
        assert_eq!(sim.run.ended().map(|ended| (ended.status, ended.limit)), Some((CallStatus::Success, None)));
    }
    let first = compactions(&sim).iter().filter(|compacted| compacted.through_turn == 0).count();
    assert!(first > 0, "{:?}", compactions(&sim));
    let request = sim.request("5");
    let conversation = told(&request.messages);
    assert_eq!(request.messages[0].role, Role::User);
    assert!(conversation.iter().filter(|line| line.starts_with("request ")).count() == 1, "{conversation:?}");
    let summary = request.messages[0].parts.iter().find_map(|part| match part {
        Part::Summary { text, .. } => Some(text.clone()),
        _ => None,
    });
    assert!(summary.unwrap().contains("you were asked: fifth"));
}

#[test]
fn a_request_without_room_beside_the_conversation_ends_the_run_with_the_limit() {
    let narrow = Limits { context_tokens: Some(2_000), ..Limits::default() };
    let root = agent("root", "").limits(narrow).settings(json!({"max_tokens": 100}));
    let mut sim = Sim::new(&job([root])).agent("root", [says("done")]).start();
    sim.follow_up(&"word ".repeat(3_000)).unwrap();
    assert_eq!(sim.run.ended().and_then(|ended| ended.limit), Some(LimitKind::Context));
}

#[test]
fn what_came_while_the_last_request_was_open_begins_the_next_conversation() {
    let job = job([agent("root", "route_to_worker look"), agent("worker", "save")]).tools([
        ToolDraft::route("worker").in_background(),
        function("save").writing(),
        function("look"),
    ]);
    let begin = call_with("route_to_worker", json!({"request": "write", "wait": false}));
    let root = move |prompted: &Prompted<'_>| match (prompted.task.as_str(), prompted.turn) {
        ("0", 1) => Ok(turn([begin.clone()])),
        ("0", 2) => Ok(turn([call("look", "a")])),
        ("0", _) => Err(Sim::model_error()),
        _ => Ok(says("done")),
    };
    // Calls end in the order in which they began, so the worker hands off while the third request of the root is open.
    let mut sim = Sim::new(&job)
        .agent_with("root", root)
        .agent("worker", [turn([call("save", "a")]), turn([handoff_with("written", &["a.md"])])])
        .tool("save", |_| writes(json!("saved"), vec![write("a.md", "the text")]))
        .start();
    assert_eq!(sim.run.ended().map(|ended| ended.status), Some(CallStatus::Failed));
    sim.follow_up("Go on.").unwrap();
    let request = sim.request("1");
    let documents = request.messages.iter().flat_map(|message| &message.parts).filter(|part| matches!(part, Part::Document(_)));
    assert_eq!(documents.count(), 1);
    let root = sim.run.graph().get(&"1".into()).unwrap();
    assert_eq!(root.known(&document_path("a.md")), Some(1), "a write may be based on the version that the request shows");
    sim.assert_over();
}
