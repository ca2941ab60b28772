//! Suspended calls: what is delivered, what a moment brings, and what does not wait for them.

use std::sync::Arc;

use baton_types::call::{CallStatus, ErrorCode, Suspension};
use baton_types::config::EffectClass;
use baton_types::entry::{Adoption, FinalState, Fork, ForkPoint, ForkedEffects};
use baton_types::event::{Effect, Event, Outcome, Refusal};
use baton_types::id::{CallId, ContentHash, RunId};
use baton_types::limits::Limits;
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use serde_json::json;

use crate::support::jobs::JobDraft;
use crate::support::{Sim, agent, ask, call, function, handoff, job, route, turn};

fn shop() -> JobDraft {
    job([agent("root", "wait other route_to_worker ask_master"), agent("worker", "wait")]).tools([
        function("wait").effect(EffectClass::Keyed).suspending().output(json!({"type": "object"})),
        function("other").effect(EffectClass::Pure),
    ])
}

/// Begins a run whose root makes `calls` in its first turn, and then hands off. The code of `wait` does not end by itself.
fn begun(calls: impl IntoIterator<Item = baton_types::call::ModelCall>) -> Sim {
    let then = [turn(calls), turn([handoff("done")])];
    Sim::new(&shop()).agent("root", then).agent("worker", [turn([handoff("worked")])]).holding("wait").start()
}

fn for_a_delivery() -> Suspension {
    Suspension::default()
}

fn until(at: Timestamp, output: Option<serde_json::Value>) -> Suspension {
    Suspension { until: Some(at), output: output.map(Into::into) }
}

#[test]
fn a_delivery_is_the_result_of_a_suspended_call() {
    let mut sim = begun([call("wait", "a"), call("other", "b")]);
    sim.suspended("0/1.1", for_a_delivery());
    assert_eq!(sim.result("0/1.2").status, CallStatus::Success, "the calls behind it begin");
    assert!(sim.run.is_idle() && !sim.run.waits_only_for_people());
    sim.delivered("0/1.1", Outcome::success(json!({"paid": true}))).unwrap();
    assert_eq!(sim.finished("0/1.1").delivered_by.as_deref(), Some(&Principal::person("ada")));
    assert_eq!(sim.result("0/1.1").output.value(), json!({"paid": true}));
    sim.assert_over();
}

#[test]
fn a_delivery_may_be_a_failure() {
    let mut sim = begun([call("wait", "a")]);
    sim.suspended("0/1.1", for_a_delivery());
    let failure = Outcome::error(CallStatus::Failed, crate::support::script::error(ErrorCode::ToolFailed));
    sim.delivered("0/1.1", failure).unwrap();
    assert_eq!(sim.result("0/1.1").status, CallStatus::Failed);
    sim.assert_over();
}

#[test]
fn a_delivery_counts_once_and_only_for_a_suspended_call() {
    let mut sim = begun([call("wait", "a"), call("wait", "b"), call("other", "c")]);
    let delivery = || Outcome::success(json!({}));
    let early = sim.delivered("0/1.1", delivery()).unwrap_err();
    assert_eq!(early, Refusal::StillRunning { call: CallId::from("0/1.1") });
    sim.suspended("0/1.1", for_a_delivery());
    sim.suspended("0/1.2", for_a_delivery());
    sim.delivered("0/1.1", delivery()).unwrap();
    for call in ["0/1.1", "0/1.3", "0/9.9", "0/1.1/1.1", "nonsense"] {
        let refused = sim.delivered(call, delivery()).unwrap_err();
        assert!(matches!(refused, Refusal::NotSuspended { .. }), "{call}: {refused}");
    }
    for (call, why) in [("0/1.1", "it has its result"), ("0/9.9", "it has its result"), ("nonsense", "there is no such call")] {
        let refused = sim.delivered(call, delivery()).unwrap_err();
        assert!(matches!(&refused, Refusal::NotSuspended { why: said, .. } if said == why), "{call}: {refused}");
    }
    let by = Principal::Agent("root".into());
    let inside = Event::ResultDelivered { call: CallId::from("0/1.2"), by, outcome: delivery() };
    assert!(matches!(sim.event(inside), Err(Refusal::NotAPerson { .. })), "no agent delivers");
    sim.delivered("0/1.2", delivery()).unwrap();
    sim.assert_over();
}

#[test]
fn a_delivery_for_a_call_that_cannot_be_suspended_yet_says_why() {
    let calls = turn([call("wait", "a"), call("other", "b"), ask("which?")]);
    let mut sim = Sim::new(&shop()).agent("root", [calls]).holding("wait").holding("other").start();
    sim.suspended("0/1.1", for_a_delivery());
    for (call, why) in [("0/1.2", "its tool gives the result itself"), ("0/1.3", "its code has not ended")] {
        let refused = sim.delivered(call, Outcome::success(json!({}))).unwrap_err();
        assert!(matches!(&refused, Refusal::NotSuspended { why: said, .. } if said == why), "{call}: {refused}");
    }
    sim.cancel("0").unwrap();
    sim.assert_over();
}

#[test]
fn a_delivery_that_breaks_the_schema_is_refused_and_the_call_still_waits() {
    let mut sim = begun([call("wait", "a")]);
    sim.suspended("0/1.1", for_a_delivery());
    let refused = sim.delivered("0/1.1", Outcome::success(json!("no object"))).unwrap_err();
    assert!(matches!(&refused, Refusal::InvalidDelivery { .. }) && refused.to_string().contains("not an object"), "{refused}");
    sim.delivered("0/1.1", Outcome::success(json!({}))).unwrap();
    sim.assert_over();
}

#[test]
fn a_moment_brings_its_output_or_a_timeout() {
    let mut sim = begun([call("wait", "a"), call("wait", "b")]);
    let at = sim.now;
    let (soon, later) = (at.plus(std::time::Duration::from_secs(10)), at.plus(std::time::Duration::from_hours(24 * 30)));
    sim.suspended("0/1.1", until(soon, Some(json!({"woke": true}))));
    sim.suspended("0/1.2", until(later, None));
    assert_eq!(sim.run.next_wake(), Some(soon));
    sim.wait(11);
    assert_eq!(sim.result("0/1.1").output.value(), json!({"woke": true}));
    assert_eq!(sim.run.next_wake(), Some(later));
    sim.wait(31 * 24 * 3_600);
    let result = sim.result("0/1.2");
    assert_eq!((result.status, result.error.unwrap().code), (CallStatus::Timeout, ErrorCode::TimedOut));
    sim.assert_over();
}

#[test]
fn a_delivery_before_the_moment_takes_its_place() {
    let mut sim = begun([call("wait", "a")]);
    let at = sim.now.plus(std::time::Duration::from_mins(1));
    sim.suspended("0/1.1", until(at, Some(json!({"woke": true}))));
    sim.delivered("0/1.1", Outcome::success(json!({"paid": true}))).unwrap();
    sim.wait(100);
    assert_eq!(sim.result("0/1.1").output.value(), json!({"paid": true}));
    assert_eq!(sim.run.next_wake(), None);
    sim.assert_over();
}

#[test]
fn a_handoff_waits_for_a_suspended_call_and_delegations_do_not() {
    let mut sim = begun([call("wait", "a"), handoff("early")]);
    sim.suspended("0/1.1", for_a_delivery());
    assert!(!sim.run.task(&"0".into()).unwrap().phase.is_active());
    sim.delivered("0/1.1", Outcome::success(json!({}))).unwrap();
    assert_eq!(sim.result("0/1.2").status, CallStatus::Success);
    sim.assert_over();

    let mut sim = begun([call("wait", "a"), route("worker", "work")]);
    sim.suspended("0/1.1", for_a_delivery());
    assert_eq!(sim.result("0/1.2").status, CallStatus::Success, "the worker worked meanwhile");
    sim.delivered("0/1.1", Outcome::success(json!({}))).unwrap();
    sim.assert_over();
}

#[test]
fn a_person_can_be_asked_while_a_call_is_suspended() {
    let mut sim = begun([call("wait", "a"), ask("which?")]);
    sim.suspended("0/1.1", for_a_delivery());
    assert!(!sim.run.waits_only_for_people(), "a delivery can come, too");
    sim.person_answers("0/1.2", "this").unwrap();
    sim.delivered("0/1.1", Outcome::success(json!({}))).unwrap();
    sim.assert_over();
}

#[test]
fn a_suspended_call_outlives_the_process_and_its_code_does_not_run_again() {
    let mut sim = begun([call("wait", "a")]);
    sim.suspended("0/1.1", for_a_delivery());
    for _ in 0..10 {
        sim.crash();
    }
    assert_eq!(sim.executions("0/1.1"), 1);
    sim.delivered("0/1.1", Outcome::success(json!({}))).unwrap();
    sim.assert_over();
}

#[test]
fn a_suspended_call_ends_with_its_task() {
    let mut sim = begun([call("wait", "a")]);
    let at = sim.now.plus(std::time::Duration::from_mins(1));
    sim.suspended("0/1.1", until(at, None));
    sim.cancel("0").unwrap();
    assert_eq!(sim.result("0/1.1").status, CallStatus::Cancelled);
    assert_eq!((sim.run.totals().suspended_calls, sim.run.next_wake()), (0, None));
    assert!(sim.delivered("0/1.1", Outcome::success(json!({}))).is_err());
}

#[test]
fn a_suspended_call_leaves_its_place_to_others() {
    let limited = shop().limits(Limits { parallel_calls: Some(1), ..Limits::default() });
    let turns = [turn([call("wait", "a"), call("wait", "b")]), turn([handoff("done")])];
    let mut sim = Sim::new(&limited).agent("root", turns).holding("wait").start();
    assert_eq!(sim.begun(), ["0/1.1"]);
    sim.suspended("0/1.1", for_a_delivery());
    assert_eq!(sim.begun(), ["0/1.1", "0/1.2"]);
    sim.suspended("0/1.2", for_a_delivery());
    sim.delivered("0/1.2", Outcome::success(json!({}))).unwrap();
    sim.delivered("0/1.1", Outcome::success(json!({}))).unwrap();
    sim.assert_over();
}

#[test]
fn waiting_for_a_delivery_is_no_work_but_counts_towards_the_deadline() {
    let limited = |limits: Limits| {
        let shop = job([agent("root", "wait").limits(limits)]).tools([function("wait").suspending()]);
        let mut sim = Sim::new(&shop).agent("root", [turn([call("wait", "a")]), turn([handoff("done")])]).holding("wait").start();
        sim.suspended("0/1.1", for_a_delivery());
        sim.wait(1_000);
        sim
    };
    let mut sim = limited(Limits { worked_seconds: Some(60), ..Limits::default() });
    sim.delivered("0/1.1", Outcome::success(json!({}))).unwrap();
    assert_eq!(sim.task("0").ended, Some(FinalState::Completed));
    let sim = limited(Limits { deadline_seconds: Some(60), ..Limits::default() });
    assert_eq!(sim.task("0").ended, Some(FinalState::TimedOut));
}

#[test]
fn a_suspended_call_begins_again_in_a_fork() {
    let mut sim = begun([call("wait", "a")]);
    let at = sim.now.plus(std::time::Duration::from_mins(1));
    sim.suspended("0/1.1", until(at, None));
    let from = ForkPoint { run: RunId::from("original"), seq: sim.run.last_seq() };
    let fork = Fork { run: RunId::from("fork"), from, at: sim.now, effects: ForkedEffects::default() };
    let adoption = Adoption { fork: Some(fork), ..Adoption::of(ContentHash::of(b"configs")) };
    let mut run = sim.fold();
    run.know_configs(adoption.configs, Arc::clone(&sim.configs));
    let by = Principal::person("ada");
    let decision = run.handle(sim.now, Event::Adopted { adoption, documents: Vec::new(), by }).unwrap();
    assert!(decision.effects.iter().any(|effect| matches!(effect, Effect::Execute { .. })), "{:?}", decision.effects);
    assert_eq!((run.totals().suspended_calls, run.totals().running_functions, run.next_wake()), (0, 1, None));
}

#[test]
fn what_comes_late_from_code_that_is_suspended_changes_nothing() {
    let mut sim = begun([call("wait", "a")]);
    sim.suspended("0/1.1", for_a_delivery());
    sim.returned("0/1.1", Outcome::success(json!({"late": true}))).unwrap();
    sim.suspended("0/1.1", until(sim.now, None));
    assert_eq!(sim.run.suspended_calls().count(), 1);
    sim.delivered("0/1.1", Outcome::success(json!({}))).unwrap();
    sim.assert_over();
}

#[test]
fn a_cancelled_task_waits_for_no_delivery() {
    let agents = [
        agent("root", "route_to_team route_to_asker"),
        agent("team", "route_to_child"),
        agent("child", "wait"),
        agent("asker", "ask_master").asks_a_person(),
    ];
    let mut sim = Sim::new(&job(agents).tool(function("wait").effect(EffectClass::Keyed).suspending()))
        .agent("root", [turn([route("team", "a"), route("asker", "b")]), turn([handoff("done")])])
        .agent("team", [turn([route("child", "a")])])
        .agent("child", [turn([call("wait", "a")])])
        .agent("asker", [turn([ask("which?")]), turn([handoff("asked")])])
        .holding("wait")
        .start();
    sim.suspended("0/1.1/1.1/1.1", for_a_delivery());
    assert!(!sim.run.waits_only_for_people(), "a delivery may come");
    sim.cancel("0/1.1").unwrap();
    assert!(sim.run.waits_only_for_people(), "the question is all that is left");
    sim.person_answers("0/1.2/1.1", json!("this")).unwrap();
    sim.assert_over();
}
