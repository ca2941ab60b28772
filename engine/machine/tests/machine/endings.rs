//! Every end of a task gives its caller exactly one typed result, in the same batch, and the caller continues
//! (`ending_wakes_the_caller`).

use baton_types::call::{AfterExecution, CallError, CallStatus, ErrorCode};
use baton_types::config::EffectClass;
use baton_types::entry::{Entry, FinalState};
use baton_types::event::{Event, Outcome};
use baton_types::id::TaskId;
use baton_types::limits::{LimitKind, Limits};
use baton_types::model::FinishReason;
use expect_test::expect;
use serde_json::json;

use crate::support::jobs::{AgentDraft, JobDraft};
use crate::support::{
    Sim, agent, ask, call, check, error, function, handoff, job, print, route, says, stopped, then, to_user, turn,
};

/// The expected result for the caller.
struct Expected {
    state: FinalState,
    status: CallStatus,
    code: Option<ErrorCode>,
    output: &'static str,
    limit: Option<LimitKind>,
}

fn expected(state: FinalState, status: CallStatus, output: &'static str) -> Expected {
    Expected { state, status, code: None, output, limit: None }
}

fn failed(state: FinalState, status: CallStatus, code: ErrorCode) -> Expected {
    Expected { state, status, code: Some(code), output: "null", limit: None }
}

/// Returns a root that delegates to `child` and hands off once it has the result.
fn delegating(child: AgentDraft) -> JobDraft {
    job([agent("root", "route_to_child"), child, agent("grandchild", "work")])
        .tools([function("work"), function("last").after(AfterExecution::Terminate)])
}

fn with_root(sim: Sim) -> Sim {
    sim.agent("root", [turn([route("child", "do it")]), turn([handoff("root done")])])
}

/// Asserts that the task `0/1.1` ended as expected, that the root got the result once, in that batch, and that it
/// continued.
fn check_ending(name: &str, sim: &Sim, expected: &Expected) {
    let context = format!("{name}:\n{}", print::timeline(&sim.timeline));
    sim.assert_over();
    let child = TaskId::from("0/1.1");
    let call = child.originating_call();
    let told: Vec<_> = sim
        .timeline
        .iter()
        .filter_map(|recorded| match &recorded.entry {
            Entry::CallFinished(finished) if finished.call == call => Some(finished),
            _ => None,
        })
        .collect();
    assert_eq!(told.len(), 1, "exactly one result in {context}");
    let result = &told[0].result;
    assert_eq!(result.status, expected.status, "{context}");
    assert_eq!(result.error.as_ref().map(|error| error.code), expected.code, "{context}");
    assert_eq!(result.output.text(), expected.output, "{context}");

    let ends = |entry: &Entry| matches!(entry, Entry::TaskEnded(ended) if ended.task == child);
    let batch = sim.batch_with(ends);
    let ended = batch.iter().find_map(|recorded| match &recorded.entry {
        Entry::TaskEnded(ended) if ended.task == child => Some(ended),
        _ => None,
    });
    let ended = ended.expect("the batch has it");
    assert_eq!((ended.state, ended.limit), (expected.state, expected.limit), "{context}");
    let in_batch = |wanted: &dyn Fn(&Entry) -> bool| batch.iter().any(|recorded| wanted(&recorded.entry));
    assert!(in_batch(&|entry| matches!(entry, Entry::CallFinished(finished) if finished.call == call)), "{context}");
    assert!(
        in_batch(&|entry| matches!(entry, Entry::ModelRequested(asked) if asked.task == TaskId::root() && asked.turn == 2)),
        "the caller goes on at once in {context}"
    );
    assert_eq!(sim.ledger.tasks[&TaskId::root()].ended, Some(FinalState::Completed), "{context}");
}

fn limited(limits: Limits) -> AgentDraft {
    agent("child", "work last route_to_grandchild").limits(limits)
}

fn child() -> AgentDraft {
    limited(Limits::default())
}

#[test]
fn a_handoff_gives_the_caller_its_result() {
    let sim = with_root(Sim::new(&delegating(child()))).agent("child", [turn([handoff("mine")])]).start();
    check_ending("handoff", &sim, &expected(FinalState::Completed, CallStatus::Success, r#""mine""#));
}

#[test]
fn a_text_gives_the_caller_that_text() {
    let sim = with_root(Sim::new(&delegating(child()))).agent("child", [says("all good")]).start();
    check_ending("text", &sim, &expected(FinalState::Completed, CallStatus::Success, r#""all good""#));
}

#[test]
fn a_model_that_gives_no_answer_fails_the_task() {
    let sim = with_root(Sim::new(&delegating(child()))).agent_with("child", |_| Err(Sim::model_error())).start();
    check_ending("model failure", &sim, &failed(FinalState::Failed, CallStatus::Failed, ErrorCode::ModelFailed));
}

#[test]
fn three_empty_turns_fail_the_task_for_want_of_a_handoff() {
    let sim = with_root(Sim::new(&delegating(child()))).agent("child", [says(""), says(" "), says("")]).start();
    check_ending("no handoff", &sim, &failed(FinalState::Failed, CallStatus::Failed, ErrorCode::NoHandoff));
    assert_eq!(sim.ledger.tasks[&TaskId::from("0/1.1")].turns, 3, "two reminders, then the end");
}

#[test]
fn three_turns_cut_by_length_fail_the_task() {
    let cut = || stopped(says("and then I"), FinishReason::Length);
    let sim = with_root(Sim::new(&delegating(child()))).agent("child", [cut(), cut(), cut()]).start();
    check_ending("cut", &sim, &failed(FinalState::Failed, CallStatus::Failed, ErrorCode::NoHandoff));
}

#[test]
fn a_deadline_times_the_task_out_while_its_call_runs() {
    let deadline = Limits { deadline_seconds: Some(10), ..Limits::default() };
    let mut sim =
        with_root(Sim::new(&delegating(limited(deadline)))).agent("child", [turn([call("work", "a")])]).holding("work").start();
    sim.wait(9);
    assert!(!sim.ended);
    sim.wait(2);
    let timed_out =
        Expected { limit: Some(LimitKind::Deadline), ..failed(FinalState::TimedOut, CallStatus::Timeout, ErrorCode::TimedOut) };
    check_ending("deadline", &sim, &timed_out);
    assert_eq!(sim.stopped.len(), 1, "the call that ran was stopped");
}

#[test]
fn a_call_that_may_have_acted_has_an_unknown_outcome_when_its_task_ends() {
    let expected = [
        (EffectClass::Pure, CallStatus::Cancelled),
        (EffectClass::Idempotent, CallStatus::Cancelled),
        (EffectClass::Keyed, CallStatus::UnknownOutcome),
        (EffectClass::AtMostOnce, CallStatus::UnknownOutcome),
    ];
    for (effect, expected) in expected {
        let job = job([agent("root", "act route_to_child"), agent("child", "act")]).tools([function("act").effect(effect)]);
        let mut sim = with_root(Sim::new(&job)).agent("child", [turn([call("act", "a")])]).holding("act").start();
        sim.cancel("0/1.1").expect("a live task can be cancelled");
        assert_eq!(sim.result("0/1.1/1.1").status, expected, "{effect:?}");
        assert_eq!(sim.result("0/1.1").status, CallStatus::Cancelled);
        sim.assert_over();
    }
}

#[test]
fn a_call_that_may_have_acted_is_named_by_everyone_above_it() {
    let job = job([agent("root", "act route_to_child"), agent("child", "route_to_grandchild"), agent("grandchild", "act look")])
        .tools([function("act").effect(EffectClass::AtMostOnce), function("look").effect(EffectClass::Pure)]);
    let begun = || {
        with_root(Sim::new(&job))
            .agent("child", [turn([route("grandchild", "help")])])
            .agent("grandchild", [turn([call("act", "a"), call("look", "b")])])
            .holding("act")
            .holding("look")
            .start()
    };
    for top in ["0/1.1", "0"] {
        let mut sim = begun();
        sim.cancel(top).expect("a live task can be cancelled");
        assert_eq!(sim.result("0/1.1/1.1/1.1").status, CallStatus::UnknownOutcome);
        let ended = |entry: &Entry| match entry {
            Entry::TaskEnded(ended) if ended.task.as_str() == top => ended.result.error.clone(),
            _ => None,
        };
        let error = sim.timeline.iter().find_map(|recorded| ended(&recorded.entry)).expect("it ended without success");
        assert_eq!(error.detail.value()["unknown_outcome"], json!(["act (0/1.1/1.1/1.1)"]), "{top}");
        sim.assert_over();
    }
}

#[test]
fn a_deadline_times_the_task_out_while_it_waits_for_another() {
    let deadline = Limits { deadline_seconds: Some(10), ..Limits::default() };
    let mut sim = with_root(Sim::new(&delegating(limited(deadline))))
        .agent("child", [turn([route("grandchild", "help")])])
        .agent("grandchild", [turn([call("work", "a")])])
        .holding("work")
        .start();
    sim.wait(11);
    let timed_out =
        Expected { limit: Some(LimitKind::Deadline), ..failed(FinalState::TimedOut, CallStatus::Timeout, ErrorCode::TimedOut) };
    check_ending("deadline", &sim, &timed_out);
    assert_eq!(sim.ledger.tasks[&TaskId::from("0/1.1/1.1")].ended, Some(FinalState::Cancelled));
}

#[test]
fn a_cancelled_task_tells_its_caller_and_takes_all_below_it_along() {
    let mut sim = with_root(Sim::new(&delegating(child())))
        .agent("child", [turn([route("grandchild", "help")])])
        .agent("grandchild", [turn([call("work", "a")])])
        .holding("work")
        .start();
    sim.cancel("0/1.1").expect("a live task can be cancelled");
    check_ending("cancel", &sim, &failed(FinalState::Cancelled, CallStatus::Cancelled, ErrorCode::Cancelled));
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
          0/1.1 turn 1: route_to_grandchild
          0/1.1/1.1 route_to_grandchild started → grandchild
            0/1.1/1.1 created: task for grandchild, "help" master 0/1.1
            0/1.1/1.1 turn 1 asked
            0/1.1/1.1 turn 1: work
            0/1.1/1.1/1.1 work started
          ada (person) → 0/1.1: cancelled: enough
          0/1.1 closes [0/1.1/1.1]
          0/1.1/1.1 route_to_grandchild cancelled cancelled
          0/1.1 cancelled: cancelled cancelled
        0/1.1 route_to_child cancelled cancelled
        0 turn 2 asked
        0 turn 2: handoff
        0/2.1 handoff success "root done" [terminate]
        0 completed: success "root done"
        run completed (success)
        "#]],
    );
}

#[test]
fn a_handoff_in_the_last_turn_that_the_turn_limit_allows_completes_the_task() {
    let turns = Limits { turns: Some(3), ..Limits::default() };
    let sim = with_root(Sim::new(&delegating(limited(turns))))
        .agent("child", [turn([call("work", "a")]), turn([call("work", "b")]), turn([handoff("as far as I came")])])
        .start();
    check_ending("turns", &sim, &expected(FinalState::Completed, CallStatus::Success, r#""as far as I came""#));
    let request = sim.request("0/1.1");
    let offered: Vec<&str> = request.tools.iter().map(|tool| tool.id.as_str()).collect();
    assert_eq!(offered, ["handoff"], "the last turn offers a handoff only");
}

#[test]
fn a_last_turn_that_does_something_else_still_ends_partial() {
    let turns = Limits { turns: Some(1), ..Limits::default() };
    for last in [turn([call("work", "a")]), says(""), turn([route("grandchild", "more")])] {
        let sim = with_root(Sim::new(&delegating(limited(turns.clone())))).agent("child", [last.clone()]).start();
        sim.assert_over();
        let child = &sim.ledger.tasks[&TaskId::from("0/1.1")];
        assert_eq!(child.ended, Some(FinalState::Completed), "{last:?}");
        let status = child.result.as_ref().map(|result| result.status);
        assert_eq!(status, Some(CallStatus::Partial), "{last:?}");
        assert_eq!(sim.executions("0/1.1/1.1"), 0, "{last:?}");
        assert_eq!(sim.ledger.tasks.len(), 2, "{last:?}");
    }
}

#[test]
fn a_handoff_in_a_last_turn_for_another_limit_is_partial() {
    let tokens = Limits { tokens: Some(1_000), ..Limits::default() };
    let child = limited(tokens).settings(json!({"max_tokens": 100}));
    let sim = with_root(Sim::new(&delegating(child)))
        .agent_with("child", |prompted| {
            let is_last = prompted.request.tools.len() == 1;
            Ok(turn([if is_last { handoff("as far as I came") } else { call("work", &prompted.turn.to_string()) }]))
        })
        .start();
    let partial = Expected {
        code: Some(ErrorCode::LimitReached),
        limit: Some(LimitKind::Tokens),
        ..expected(FinalState::Completed, CallStatus::Partial, r#""as far as I came""#)
    };
    check_ending("tokens", &sim, &partial);
}

#[test]
fn a_terminating_result_ends_the_task_with_its_output_and_status() {
    let success = with_root(Sim::new(&delegating(child())))
        .agent("child", [turn([call("last", "a")])])
        .tool("last", |_| Outcome::success(json!({"n": 7})))
        .start();
    check_ending("terminate", &success, &expected(FinalState::Completed, CallStatus::Success, r#"{"n":7}"#));

    for (status, state) in [
        (CallStatus::Failed, FinalState::Failed),
        (CallStatus::Timeout, FinalState::TimedOut),
        (CallStatus::Cancelled, FinalState::Cancelled),
    ] {
        let code = match status {
            CallStatus::Timeout => ErrorCode::TimedOut,
            CallStatus::Cancelled => ErrorCode::Cancelled,
            _ => ErrorCode::ToolFailed,
        };
        let sim = with_root(Sim::new(&delegating(child())))
            .agent("child", [turn([call("last", "a")])])
            .tool("last", move |_| Outcome::error(status, error(code)))
            .start();
        check_ending("terminate", &sim, &failed(state, status, code));
    }
}

#[test]
fn a_turn_whose_results_all_go_to_the_user_ends_the_task() {
    let sim = with_root(Sim::new(&delegating(child())))
        .agent("child", [turn([to_user(call("work", "a")), to_user(call("work", "b"))])])
        .start();
    sim.assert_over();
    let child = &sim.ledger.tasks[&TaskId::from("0/1.1")];
    assert_eq!(child.ended, Some(FinalState::Completed));
    assert_eq!(child.result.as_ref().map(|result| result.status), Some(CallStatus::Success));
    assert_eq!(child.turns, 1);
}

#[test]
fn a_handoff_whose_call_asks_to_suspend_still_ends_the_task() {
    // Rule 5(a) comes first: an effective handoff ends the task whatever any call asks for.
    let sim = with_root(Sim::new(&delegating(child())))
        .agent("child", [turn([then(call("work", "a"), AfterExecution::Suspend), handoff("mine")])])
        .start();
    check_ending("handoff", &sim, &expected(FinalState::Completed, CallStatus::Success, r#""mine""#));
}

#[test]
fn a_question_ends_for_its_asker_however_the_master_ends() {
    let asking = || job([agent("root", "route_to_child"), agent("child", "ask_master")]);
    let with = |sim: Sim| {
        sim.agent("root", [turn([route("child", "do it")]), turn([handoff("root done")])])
            .agent("child", [turn([ask("which?")]), turn([handoff("child done")])])
    };
    let status_of = |sim: &Sim| {
        sim.assert_over();
        let told = sim.timeline.iter().filter_map(|recorded| match &recorded.entry {
            Entry::CallFinished(finished) if finished.call.as_str() == "0/1.1/1.1" => Some(finished.result.clone()),
            _ => None,
        });
        let told: Vec<_> = told.collect();
        assert_eq!(told.len(), 1, "{}", print::timeline(&sim.timeline));
        (told[0].status, told[0].error.as_ref().map(|error| error.code))
    };
    let by_text = with(Sim::new(&asking())).answers("root", [says("this one")]).start();
    assert_eq!(status_of(&by_text), (CallStatus::Success, None));
    let by_handoff = with(Sim::new(&asking())).answers("root", [turn([handoff("this one")])]).start();
    assert_eq!(status_of(&by_handoff), (CallStatus::Success, None));
    let by_nothing = with(Sim::new(&asking())).answers("root", [says(""), says(""), says("")]).start();
    assert_eq!(status_of(&by_nothing), (CallStatus::Failed, Some(ErrorCode::NoHandoff)));
    let by_failure = with(Sim::new(&asking())).answers_with("root", |_| Err(Sim::model_error())).start();
    assert_eq!(status_of(&by_failure), (CallStatus::Failed, Some(ErrorCode::ModelFailed)));
}

#[test]
fn a_run_that_cannot_go_on_fails_with_everything_in_it() {
    let mut sim = Sim::new(&job([agent("root", "route_to_child"), agent("child", "work")]).tool(function("work")))
        .holding("work")
        .agent("root", [turn([route("child", "x")])])
        .agent("child", [turn([call("work", "a")])])
        .start();
    sim.event(Event::RunFailed { error: CallError::new(ErrorCode::ModelFailed, "the script says nothing of this") }).unwrap();
    sim.assert_over();
    let result = sim.task("0").result.clone().unwrap();
    assert_eq!(result.status, CallStatus::Failed);
    assert_eq!(result.error.as_ref().map(|error| error.message.as_str()), Some("the script says nothing of this"));
    assert!(!sim.run.task(&"0/1.1".into()).unwrap().is_live());
}
