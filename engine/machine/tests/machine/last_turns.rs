//! The last turn of a task at a limit: what it may do, and what the task's end names.

use std::sync::Arc;

use baton_types::call::{CallResult, CallStatus, ErrorCode};
use baton_types::entry::{Adoption, Entry, Notice};
use baton_types::event::{Event, Outcome};
use baton_types::id::{CallId, ContentHash, TaskId};
use baton_types::limits::{LimitKind, Limits, SessionLimits};
use baton_types::model::{ModelTurn, Usage};
use baton_types::principal::Principal;
use serde_json::json;

use crate::support::jobs::AgentDraft;
use crate::support::script::{document_path, handoff_with, route_with};
use crate::support::{Sim, agent, ask, call, function, handoff, job, route, says, turn, write, writes};

fn turns(allowed: u32) -> Limits {
    Limits { turns: Some(allowed), ..Limits::default() }
}

fn result_of_root(sim: &Sim) -> Arc<CallResult> {
    sim.task("0").result.clone().expect("the root has ended")
}

/// Returns the limits at which the requests of the root were the last ones.
fn last_turns(sim: &Sim) -> Vec<Option<LimitKind>> {
    let asked = sim.entries().filter_map(|entry| match entry {
        Entry::ModelRequested(asked) if asked.task == TaskId::root() => Some(asked.notice.clone()),
        _ => None,
    });
    asked.map(|notice| if let Some(Notice::LastTurn { limit }) = notice { Some(limit) } else { None }).collect()
}

#[test]
fn a_text_in_the_last_allowed_turn_is_the_result_if_it_would_be_one_in_any_turn() {
    let ended = |root: AgentDraft| {
        let draft = job([root.limits(turns(2))]).tool(function("work"));
        let sim = Sim::new(&draft).agent("root", [turn([call("work", "a")]), says("so far")]).start();
        sim.assert_over();
        assert_eq!(last_turns(&sim), [None, Some(LimitKind::Turns)]);
        let result = result_of_root(&sim);
        assert_eq!(result.output.value(), json!("so far"), "it is kept in any case");
        result.status
    };
    let root = || agent("root", "work");
    assert_eq!(ended(root()), CallStatus::Success);
    assert_eq!(ended(root().reminded_on_text()), CallStatus::Partial, "it should have used a tool");
    assert_eq!(ended(root().result_schema(json!({"type": "object"}))), CallStatus::Partial, "it breaks the schema");
}

#[test]
fn a_text_answers_a_question_in_the_last_allowed_turn_whatever_its_agent_does_with_texts() {
    let master = agent("root", "look route_to_child").limits(turns(2)).reminded_on_text();
    let draft = job([master, agent("child", "ask_master")]).tool(function("look").effect(baton_types::config::EffectClass::Pure));
    let sim = Sim::new(&draft)
        .agent("root", [turn([route("child", "x")]), turn([handoff("done")])])
        .answers("root", [turn([call("look", "a")]), says("the third")])
        .agent("child", [turn([ask("which?")]), turn([handoff("child")])])
        .start();
    sim.assert_over();
    let answer = sim.result("0/1.1/1.1");
    assert_eq!((answer.status, answer.output.value()), (CallStatus::Success, json!("the third")));
}

#[test]
fn a_session_has_room_for_the_last_turn_of_its_root() {
    let draft = job([agent("root", "work")])
        .tool(function("work"))
        .session_limits(SessionLimits { turns: Some(2), ..SessionLimits::default() });
    let sim = Sim::new(&draft).agent("root", [turn([call("work", "a")]), turn([handoff("done")])]).start();
    sim.assert_over();
    assert_eq!(last_turns(&sim), [None, Some(LimitKind::SessionTurns)]);
    assert_eq!(result_of_root(&sim).output.value(), json!("done"));
}

#[test]
fn a_run_that_has_used_more_turns_than_it_may_since_an_adoption_has_a_last_turn() {
    let draft = |limits| job([agent("root", "work")]).tool(function("work")).limits(limits);
    let sim = Sim::new(&draft(Limits::default()))
        .agent("root", [turn([call("work", "a")]), turn([call("work", "b")])])
        .holding("work")
        .start();
    let mut run = sim.fold();
    let adoption = Adoption::of(ContentHash::of(b"other configs"));
    run.know_configs(adoption.configs, draft(turns(1)).build());
    let by = Principal::person("ada");
    run.handle(sim.now, Event::Adopted { adoption, documents: Vec::new(), by }).unwrap();
    let returned = Event::CallReturned { call: CallId::from("0/1.1"), outcome: Outcome::success(json!("worked")) };
    let decision = run.handle(sim.now, returned).unwrap();
    let last = |entry: &Entry| matches!(entry, Entry::ModelRequested(asked) if asked.notice == Some(Notice::LastTurn { limit: LimitKind::RunTurns }));
    assert!(decision.entries.iter().any(|recorded| last(&recorded.entry)), "{decision:?}");
}

#[test]
fn a_last_turn_that_a_crash_makes_impossible_ends_with_its_own_limit() {
    let root = |tokens| agent("root", "").limits(Limits { tokens, ..turns(1) }).settings(json!({"max_tokens": 100}));
    let mut sim = Sim::new(&job([root(None)])).agent("root", [turn([handoff("done")])]);
    sim.begin(Vec::new());
    let reserved = sim.task("0").request.as_ref().expect("it is asked").reserved;
    let mut sim = Sim::new(&job([root(Some(reserved))])).agent("root", [turn([handoff("done")])]);
    sim.begin(Vec::new());
    sim.crash();
    sim.settle();
    sim.assert_over();
    let error = result_of_root(&sim).error.clone().expect("it is partial");
    assert_eq!(error.detail.value(), json!({"limit": LimitKind::Turns}), "it had no other turn anyway");
}

#[test]
fn the_end_at_a_limit_of_tokens_names_what_the_last_turn_needed() {
    let limits = Limits { tokens: Some(5_000), ..Limits::default() };
    let root = agent("root", "work").limits(limits).settings(json!({"max_tokens": 100}));
    let usage = Usage { output_tokens: 4_990, ..Usage::default() };
    let sim = Sim::new(&job([root]).tool(function("work")))
        .agent("root", [ModelTurn { usage: Some(usage), ..turn([call("work", "a")]) }])
        .start();
    sim.assert_over();
    let error = result_of_root(&sim).error.clone().expect("it is partial");
    let needed = sim.run.task(&TaskId::root()).unwrap().context_tokens + 100;
    let detail = json!({"limit": LimitKind::Tokens, "allowed": 5_000, "used": 4_990, "needed": needed});
    assert_eq!((error.code, error.detail.value()), (ErrorCode::LimitReached, detail));
}

#[test]
fn a_last_turn_hands_off_the_version_that_its_task_knows() {
    let ended = |allowed| {
        let draft = job([agent("root", "route_to_child").limits(turns(allowed)), agent("child", "save")])
            .tool(function("save").writing());
        let sim = Sim::new(&draft)
            .agent(
                "root",
                [turn([route_with("child", "x", &["d.md"])]), turn([handoff_with("mine", &["d.md"])]), turn([handoff("done")])],
            )
            .agent("child", [turn([call("save", "a")]), turn([handoff("child")])])
            .tool("save", |_| writes(json!("saved"), vec![write("d.md", "newer")]))
            .start_with(vec![write("d.md", "of the job")]);
        sim.assert_over();
        let documents = result_of_root(&sim).documents.clone();
        (sim.refusals().len(), documents.into_iter().map(|document| (document.path, document.version)).collect::<Vec<_>>())
    };
    assert_eq!(ended(2), (0, vec![(document_path("d.md"), 1)]));
    assert_eq!(ended(3), (1, Vec::new()), "before it, a newer version is a conflict");
}
