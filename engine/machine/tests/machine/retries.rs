//! Retried delegations: time, holder and number of attempts, and the result if all fail.

use baton_machine::Run;
use baton_types::call::{CallStatus, ErrorCode};
use baton_types::config::{Approver, EffectClass, OnFailure, Retry};
use baton_types::entry::Entry;
use baton_types::event::Event;
use baton_types::id::CallId;
use baton_types::limits::Limits;
use baton_types::message::Part;
use baton_types::model::ModelTurn;
use expect_test::expect;
use serde_json::json;

use crate::support::jobs::{AgentDraft, JobDraft, ToolDraft};
use crate::support::script::{Answer, Prompted};
use crate::support::{Sim, agent, ask, call, check, function, handoff, job, route, says, turn, write, writes};

/// Returns a root whose delegation to `child` is tried again `times` times, ten seconds after it failed first.
fn tried_again(times: u32, child: AgentDraft) -> JobDraft {
    with_root(agent("root", "route_to_child ask_master"), times, child)
}

fn with_root(root: AgentDraft, times: u32, child: AgentDraft) -> JobDraft {
    let retry = Retry { times, backoff_seconds: 10 };
    job([root, child]).tools([function("work"), ToolDraft::route("child").on_failure(OnFailure::Retry(retry))])
}

/// Returns a child that fails in its first `times` attempts and then answers `answer`.
fn fails(sim: Sim, times: u32, answer: &str) -> Sim {
    let answer = answer.to_owned();
    let mut left = times;
    sim.agent("root", [turn([route("child", "do it")]), turn([handoff("done")])]).agent_with("child", move |_| -> Answer {
        if left == 0 {
            return Ok(ModelTurn::text(&*answer));
        }
        left -= 1;
        Err(Sim::model_error())
    })
}

#[test]
fn a_failed_delegation_is_tried_again_after_its_pause_by_a_task_of_its_own() {
    let mut sim = fails(Sim::new(&tried_again(2, agent("child", ""))), 2, "at last").start();
    assert!(!sim.ended && sim.pending.is_empty(), "it waits");
    sim.wait(9);
    assert!(sim.pending.is_empty() && sim.ledger.tasks.len() == 2, "it waits for ten seconds");
    sim.wait(1);
    assert_eq!(sim.ledger.tasks.len(), 3, "the second attempt has failed as well");
    sim.wait(19);
    assert!(!sim.ended, "the pause doubles");
    sim.wait(1);
    check(
        &sim,
        expect![[r#"
        run started: go
        0 created: root for root, "go" master you
        0 turn 1 asked
        0 turn 1: route_to_child
        0/1.1 route_to_child started → child
          0/1.1 created: task for child, "do it" master 0
          0/1.1 turn 1 asked
          0/1.1 failed: failed model_failed, to be tried again
            0/1.1/retry.2 created: task for child, "do it" master 0 after 1 that failed
            0/1.1/retry.2 turn 1 asked
            0/1.1/retry.2 failed: failed model_failed, to be tried again
            0/1.1/retry.3 created: task for child, "do it" master 0 after 2 that failed
            0/1.1/retry.3 turn 1 asked
            0/1.1/retry.3 turn 1: "at last"
            0/1.1/retry.3 completed: success "at last"
        0/1.1 route_to_child success "at last"
        0 turn 2 asked
        0 turn 2: handoff
        0/2.1 handoff success "done" [terminate]
        0 completed: success "done"
        run completed (success)
        "#]],
    );
}

#[test]
fn when_the_attempts_are_used_up_the_last_result_returns_and_tells_of_the_others() {
    let mut sim = fails(Sim::new(&tried_again(2, agent("child", ""))), 3, "never").start();
    sim.wait(100);
    sim.assert_over();
    let result = sim.result("0/1.1");
    assert_eq!(result.status, CallStatus::Failed);
    let error = result.error.unwrap();
    assert_eq!(error.code, ErrorCode::ModelFailed);
    let told = &error.detail.value()["failed_attempts"];
    assert_eq!(told["count"], 2);
    assert_eq!(
        told["newest"][1],
        json!({"attempt": 2, "status": "failed", "code": "model_failed", "message": "the provider is down"})
    );
}

#[test]
fn a_task_that_timed_out_is_tried_again_with_a_deadline_of_its_own() {
    let child = agent("child", "work").limits(Limits { deadline_seconds: Some(5), ..Limits::default() });
    let mut sim = Sim::new(&tried_again(1, child))
        .holding("work")
        .agent("root", [turn([route("child", "do it")]), turn([handoff("done")])])
        .agent("child", [turn([call("work", "a")])])
        .start();
    sim.wait(5);
    assert!(!sim.ended && sim.pending.is_empty());
    sim.wait(14);
    assert!(!sim.ended, "the second attempt has five seconds from its own start");
    sim.wait(2);
    sim.assert_over();
    assert_eq!(sim.result("0/1.1").status, CallStatus::Timeout);
    assert_eq!(sim.ledger.tasks.len(), 3);
}

#[test]
fn what_was_stopped_or_handed_back_in_part_is_not_tried_again() {
    let mut cancelled = Sim::new(&tried_again(3, agent("child", "work")))
        .holding("work")
        .agent("root", [turn([route("child", "do it")]), turn([handoff("done")])])
        .agent("child", [turn([call("work", "a")])])
        .start();
    cancelled.cancel("0/1.1").unwrap();
    cancelled.assert_over();
    let child = agent("child", "").limits(Limits { turns: Some(1), ..Limits::default() });
    let partial = Sim::new(&tried_again(3, child))
        .agent("root", [turn([route("child", "do it")]), turn([handoff("done")])])
        .agent("child", [says("")])
        .start();
    partial.assert_over();
    for (sim, status) in [(&cancelled, CallStatus::Cancelled), (&partial, CallStatus::Partial)] {
        assert_eq!(sim.result("0/1.1").status, status);
        assert_eq!(sim.ledger.tasks.len(), 2);
    }
}

#[test]
fn a_delegation_with_a_call_that_may_have_acted_is_not_tried_again() {
    let retry = OnFailure::Retry(Retry { times: 3, backoff_seconds: 0 });
    let limits = Limits { deadline_seconds: Some(10), ..Limits::default() };
    for (effect, tasks) in [(EffectClass::Idempotent, 5), (EffectClass::Keyed, 2), (EffectClass::AtMostOnce, 2)] {
        let job = job([agent("root", "route_to_child"), agent("child", "pay").limits(limits.clone())])
            .tools([function("pay").effect(effect), ToolDraft::route("child").on_failure(retry)]);
        let mut sim = Sim::new(&job)
            .agent("root", [turn([route("child", "do it")]), turn([handoff("done")])])
            .agent_with("child", |_: &Prompted<'_>| Ok(turn([call("pay", "a")])))
            .holding("pay")
            .start();
        for _ in 0..4 {
            sim.wait(11);
        }
        sim.assert_over();
        assert_eq!(sim.ledger.tasks.len(), tasks, "{effect:?}");
        let result = sim.result("0/1.1");
        assert_eq!(result.status, CallStatus::Timeout);
        let error = result.error.as_ref().unwrap();
        let is_named = error.message.ends_with("; it is unknown whether these calls took effect: pay (0/1.1/1.1)");
        assert_eq!(is_named, effect != EffectClass::Idempotent, "{}", error.message);
    }
}

#[test]
fn a_crash_between_two_attempts_changes_nothing() {
    let mut sim = fails(Sim::new(&tried_again(1, agent("child", ""))), 1, "at last").start();
    sim.crash();
    sim.settle();
    assert!(sim.pending.is_empty() && !sim.ended);
    sim.wait(10);
    sim.assert_over();
    assert_eq!(sim.result("0/1.1").status, CallStatus::Success);
}

#[test]
fn the_end_of_the_caller_is_the_end_of_what_waits_for_its_next_attempt() {
    let mut sim = fails(Sim::new(&tried_again(1, agent("child", ""))), 1, "never").start();
    sim.cancel("0").unwrap();
    sim.assert_over();
    assert_eq!(sim.run.next_wake(), None);
    let result = sim.result("0/1.1");
    assert_eq!(result.status, CallStatus::Cancelled);
    assert_eq!(result.error.unwrap().detail.value()["failed_attempts"]["count"], 1);
}

#[test]
fn a_closed_subtree_takes_along_what_waits_for_its_next_attempt() {
    let draft = job([agent("root", "route_to_middle"), agent("middle", "route_to_child"), agent("child", "")])
        .tool(ToolDraft::route("child").on_failure(OnFailure::Retry(Retry { times: 1, backoff_seconds: 10 })));
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([route("middle", "do it")])])
        .agent("middle", [turn([route("child", "do it")])])
        .agent_with("child", |_| Err(Sim::model_error()))
        .start();
    sim.cancel("0").unwrap();
    sim.assert_over();
    assert_eq!(sim.run.next_wake(), None);
}

#[test]
fn attempts_count_as_delegations() {
    let root = agent("root", "route_to_child").limits(Limits { children: Some(2), ..Limits::default() });
    let mut sim = fails(Sim::new(&with_root(root, 5, agent("child", ""))), 9, "never").start();
    sim.wait(10);
    // The second was the last one allowed, so there is no third.
    sim.assert_over();
    assert_eq!(sim.ledger.tasks.len(), 3);
    assert_eq!(sim.result("0/1.1").error.unwrap().detail.value()["failed_attempts"]["count"], 1);
}

#[test]
fn an_attempt_that_finds_no_room_gives_the_last_result_and_says_why() {
    // Three tasks may live. While the child waits for its second attempt, its sibling takes the place with a question.
    let retry = OnFailure::Retry(Retry { times: 1, backoff_seconds: 10 });
    let draft = job([
        agent("root", "route_to_child route_to_sibling"),
        agent("child", ""),
        agent("sibling", "ask_master").asks_a_person(),
    ])
    .tool(ToolDraft::route("child").on_failure(retry))
    .limits(Limits { live_tasks: Some(3), ..Limits::default() });
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([route("child", "do it"), route("sibling", "ask")]), turn([handoff("done")])])
        .agent_with("child", |_| Err(Sim::model_error()))
        .agent("sibling", [turn([ask("which?")]), says("asked")])
        .start();
    sim.wait(10);
    let error = sim.result("0/1.1").error.unwrap();
    assert_eq!(error.code, ErrorCode::ModelFailed, "the result is that of the last attempt");
    assert_eq!(error.detail.value()["no_further_attempt"]["code"], "limit_reached", "{}", error.detail.text());
}

#[test]
fn a_run_that_waits_for_an_attempt_does_not_wait_only_for_people() {
    let mut sim = Sim::new(&tried_again(1, agent("child", "")))
        .agent("root", [turn([route("child", "do it"), ask("may I?")]), turn([handoff("done")])])
        .agent_with("child", |_| Err(Sim::model_error()))
        .start();
    assert!(!sim.run.waits_only_for_people(), "the second attempt will begin by itself");
    sim.wait(10);
    assert!(sim.run.waits_only_for_people());
    sim.person_answers("0/1.2", "yes").unwrap();
    sim.assert_over();
}

#[test]
fn what_a_later_attempt_asked_is_told_with_the_result_of_the_call() {
    let draft = tried_again(1, agent("child", "ask_master"));
    let mut attempts = 0;
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([route("child", "do it")]), turn([handoff("done")])])
        .agent_with("child", move |prompted| {
            attempts += 1;
            match (attempts, prompted.turn) {
                (1, _) => Err(Sim::model_error()),
                (_, 1) => Ok(turn([ask("which?")])),
                _ => Ok(says("at last")),
            }
        })
        .answers("root", [says("this one")])
        .start();
    sim.wait(10);
    sim.assert_over();
    assert_eq!(sim.finished("0/1.1").said[0].question, "which?");
}

#[test]
fn what_comes_late_for_a_failed_attempt_is_not_applied_to_the_next() {
    let draft = tried_again(1, agent("child", "work").limits(Limits { deadline_seconds: Some(5), ..Limits::default() }));
    let mut sim = Sim::new(&draft)
        .holding("work")
        .agent("root", [turn([route("child", "do it")]), turn([handoff("done")])])
        .agent("child", [turn([call("work", "a")]), says("worked")])
        .start();
    sim.wait(15);
    let late =
        Event::CallReturned { call: CallId::from("0/1.1/1.1"), outcome: baton_types::event::Outcome::success(json!("late")) };
    sim.event(late).unwrap();
    assert!(!sim.ended);
    sim.release("work");
    sim.assert_over();
    assert_eq!(sim.result("0/1.1").output.text(), r#""worked""#);
    assert_eq!(sim.executions("0/1.1/retry.2/1.1"), 1);
}

/// Runs a root that delegates to `child`, which fails at once and is tried again after ten seconds, and to `slow`,
/// whose deadline is after `deadline` seconds. The run is not woken for a hundred seconds. Returns the events after
/// that, in order.
fn when_woken_late(deadline: u64) -> Vec<&'static str> {
    let retry = Retry { times: 1, backoff_seconds: 10 };
    let slow = agent("slow", "work").limits(Limits { deadline_seconds: Some(deadline), ..Limits::default() });
    let draft = job([agent("root", "route_to_child route_to_slow"), agent("child", ""), slow])
        .tools([function("work"), ToolDraft::route("child").on_failure(OnFailure::Retry(retry))]);
    let mut sim = fails(Sim::new(&draft), 1, "at last")
        .holding("work")
        .agent("root", [turn([route("child", "c"), route("slow", "s")]), turn([handoff("done")])])
        .agent("slow", [turn([call("work", "a")])])
        .start();
    let before = sim.timeline.len();
    sim.now = sim.now.plus(std::time::Duration::from_secs(100));
    sim.event(Event::TimePassed).unwrap();
    let happened = sim.timeline[before..].iter().filter_map(|recorded| match &recorded.entry {
        Entry::TaskCreated(_) => Some("tried again"),
        Entry::TaskEnded(_) => Some("timed out"),
        _ => None,
    });
    happened.collect()
}

#[test]
fn late_deadlines_are_handled_in_order() {
    assert_eq!(when_woken_late(5), ["timed out", "tried again"]);
    assert_eq!(when_woken_late(10), ["timed out", "tried again"], "what ends at a moment comes before what begins then");
    assert_eq!(when_woken_late(15), ["tried again", "timed out"]);
}

#[test]
fn a_delegation_that_is_not_what_was_approved_any_more_is_not_tried_again() {
    let draft = |effect| {
        let retry = Retry { times: 2, backoff_seconds: 10 };
        let route = ToolDraft::route("child").on_failure(OnFailure::Retry(retry)).approved_by(Approver::Person);
        job([agent("root", "route_to_child"), agent("child", "")]).tool(route.effect(effect))
    };
    let mut sim = fails(Sim::new(&draft(EffectClass::Pure)), 3, "never").start();
    sim.person_answers("0/1.1/approval", json!({"approved": true})).unwrap();
    assert!(sim.pending.is_empty() && !sim.ended, "it waits for the second attempt");
    let later = sim.now.plus(std::time::Duration::from_secs(10));
    let begins = |configs: &JobDraft| {
        let decision = Run::fold(configs.build(), &sim.timeline).handle(later, Event::TimePassed).unwrap();
        decision
            .entries
            .iter()
            .any(|recorded| matches!(&recorded.entry, Entry::TaskCreated(created) if created.task == "0/1.1/retry.2"))
    };
    assert!(begins(&draft(EffectClass::Pure)));
    assert!(!begins(&draft(EffectClass::Keyed)));
}

#[test]
fn an_attempt_knows_why_the_one_before_failed_and_what_it_wrote() {
    let draft = tried_again(1, agent("child", "save")).tool(function("save").writing());
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([route("child", "do it")]), turn([handoff("done")])])
        .agent_with("child", |prompted| match (prompted.request.task.as_str(), prompted.request.turn) {
            (_, 1) => Ok(turn([call("save", prompted.request.task.as_str())])),
            ("0/1.1", _) => Err(Sim::model_error()),
            _ => Ok(turn([handoff("at last")])),
        })
        .tool("save", |execution| writes(json!("saved"), vec![write("notes.md", &execution.call.to_string())]))
        .start();
    sim.wait(10);
    sim.assert_over();
    let request = sim.request("0/1.1/retry.2");
    let opening = &request.messages[0].parts;
    assert!(matches!(&opening[1], Part::Attempt { number: 2, reason } if *reason == Sim::model_error().message), "{opening:?}");
    assert!(matches!(&opening[2], Part::Document(version) if version.path.as_str() == "notes.md"), "{opening:?}");
    assert_eq!(sim.result("0/1.1/retry.2/1.1").status, CallStatus::Success, "it may write over what the first attempt left");
}
