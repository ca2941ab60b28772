//! Calls that the code of a call makes.

use baton_types::call::{CallError, CallStatus, ErrorCode, ModelCall, Suspension};
use baton_types::config::{Approver, EffectClass, OnFailure, Retry};
use baton_types::entry::Entry;
use baton_types::event::{Effect, Event, Outcome, Refusal};
use baton_types::id::CallId;
use baton_types::limits::Limits;
use serde_json::json;

use crate::support::jobs::{JobDraft, ToolDraft};
use crate::support::script::Prompted;
use crate::support::{Sim, agent, ask, call, function, handoff, job, route, turn};

fn shop() -> JobDraft {
    job([agent("root", "flow look strike write revise wait ask_master route_to_worker"), agent("worker", "look flow")]).tools([
        function("flow").effect(EffectClass::Pure).calls(&["*"]),
        function("look").effect(EffectClass::Pure),
        function("strike").effect(EffectClass::AtMostOnce),
        function("write").effect(EffectClass::Idempotent).writing(),
        function("revise").effect(EffectClass::Idempotent).writing(),
        function("wait").effect(EffectClass::Keyed).suspending(),
        function("hidden").effect(EffectClass::Pure),
    ])
}

/// Begins a run of `job` whose root makes `calls` in its first turn, and then hands off. The code of `flow` does not end by itself.
fn begun_in(job: &JobDraft, calls: impl IntoIterator<Item = ModelCall>) -> Sim {
    let then = [turn(calls), turn([handoff("done")])];
    let worker = [turn([handoff("worked")])];
    Sim::new(job).agent("root", then).agent("worker", worker).holding("flow").start()
}

fn begun(calls: impl IntoIterator<Item = ModelCall>) -> Sim {
    begun_in(&shop(), calls)
}

#[test]
fn the_result_of_an_inner_call_goes_to_the_code_and_into_no_request() {
    let mut sim = begun([call("flow", "a")]);
    sim.makes("0/1.1", "first", call("look", "b")).unwrap();
    assert_eq!(sim.given_to_code(), [("0/1.1:first", CallStatus::Success)]);
    assert_eq!(sim.begun(), ["0/1.1", "0/1.1:first"]);
    sim.makes("0/1.1", "first:x", call("look", "c")).unwrap_err();
    sim.release("flow");
    let request = serde_json::to_string(sim.requests.newest(&"0".into()).messages.as_ref()).unwrap();
    assert!(request.contains("\"0/1.1\"") && !request.contains("0/1.1:first"), "{request}");
    sim.assert_over();
}

#[test]
fn code_calls_what_its_config_names_and_hands_nothing_off() {
    let named = job([agent("root", "flow look"), agent("worker", "look")]).tools([
        function("flow").effect(EffectClass::Pure).calls(&["hidden", "handoff"]),
        function("look").effect(EffectClass::Pure),
        function("hidden").effect(EffectClass::Pure),
    ]);
    let mut sim = begun_in(&named, [call("flow", "a"), call("look", "b")]);
    sim.makes("0/1.1", "1", call("hidden", "c")).unwrap();
    assert_eq!(sim.result("0/1.1:1").status, CallStatus::Success, "a named tool need not be granted");
    for (name, asked) in [("2", call("look", "d")), ("3", handoff("out")), ("4", call("nothing", "e"))] {
        sim.makes("0/1.1", name, asked).unwrap();
        assert_eq!(sim.refusal(&format!("0/1.1:{name}")).code, ErrorCode::UnknownTool);
    }
    let other = sim.makes("0/1.2", "1", call("look", "f")).unwrap_err();
    assert_eq!(other, Refusal::NotRunning { call: CallId::from("0/1.2") });
    assert_eq!(sim.given_to_code().len(), 4, "a refusal is a result");
    sim.release("flow");
    sim.assert_over();
}

#[test]
fn inner_delegations_and_questions_act_at_once() {
    let mut sim = begun([call("flow", "a"), call("write", "b"), route("worker", "later")]);
    sim.makes("0/1.1", "d", route("worker", "now")).unwrap();
    assert_eq!(sim.result("0/1.1:d").status, CallStatus::Success);
    assert!(!sim.begun().contains(&"0/1.3"), "the model's own delegation waits for its functions");
    sim.makes("0/1.1", "q", ask("which?")).unwrap();
    assert!(sim.run.waits_only_for_people(), "the turn can only wait");
    sim.person_answers("0/1.1:q", json!("this")).unwrap();
    assert_eq!(sim.given_to_code().len(), 2);
    sim.release("flow");
    assert_eq!(sim.begun(), ["0/1.1", "0/1.1:d", "0/1.1:q", "0/1.2", "0/1.3"]);
    sim.assert_over();
}

#[test]
fn code_that_waits_leaves_its_place_to_its_calls() {
    let limits = Limits { parallel_calls: Some(1), ..Limits::default() };
    let mut sim = begun_in(&shop().limits(limits), [call("flow", "a"), call("look", "b")]);
    assert_eq!(sim.begun(), ["0/1.1"]);
    sim.makes("0/1.1", "1", call("look", "c")).unwrap();
    sim.makes("0/1.1", "2", call("write", "d")).unwrap();
    assert_eq!(sim.given_to_code().len(), 2, "a writer among them runs too");
    assert_eq!(sim.begun(), ["0/1.1", "0/1.1:1", "0/1.1:2"], "the calls behind wait for the whole of it");
    sim.release("flow");
    sim.assert_over();
}

#[test]
fn an_inner_writer_waits_for_writers_alone() {
    let mut sim = begun([call("flow", "a"), call("look", "own")]).holding("look").holding("write");
    sim.makes("0/1.1", "reads", call("look", "b")).unwrap();
    sim.makes("0/1.1", "writes", call("write", "c")).unwrap();
    sim.makes("0/1.1", "second", call("revise", "d")).unwrap();
    sim.makes("0/1.1", "later", call("look", "e")).unwrap();
    assert_eq!(sim.begun(), ["0/1.1", "0/1.2", "0/1.1:reads", "0/1.1:writes", "0/1.1:later"]);
    sim.release("write");
    assert_eq!(sim.begun().last(), Some(&"0/1.1:second"), "the second writer begins after the first");
    sim.release("look");
    sim.release("flow");
    sim.assert_over();
}

#[test]
fn an_inner_call_in_doubt_holds_no_other() {
    let asks = job([agent("root", "flow look strike")]).tools([
        function("flow").effect(EffectClass::Pure).calls(&["*"]),
        function("look").effect(EffectClass::Pure),
        function("strike").effect(EffectClass::AtMostOnce).asks_what_became_of_it(),
    ]);
    let mut sim = begun_in(&asks, [call("flow", "a")]).holding("strike");
    sim.makes("0/1.1", "s", call("strike", "b")).unwrap();
    sim.crash();
    sim.settle();
    sim.makes("0/1.1", "l", call("look", "c")).unwrap();
    assert_eq!(sim.given_to_code(), [("0/1.1:l", CallStatus::Success)]);
    sim.person_answers("0/1.1:s/outcome", json!({"outcome": "done"})).unwrap();
    sim.release("flow");
    sim.assert_over();
}

#[test]
fn a_call_of_code_beside_one_in_doubt_waits_for_its_place() {
    let limits = Limits { parallel_calls: Some(1), ..Limits::default() };
    let agents = [
        agent("root", "route_to_worker route_to_other"),
        agent("worker", "flow look strike").asks_a_person(),
        agent("other", "save ask_master").asks_a_person(),
    ];
    let job = job(agents).limits(limits).tools([
        function("flow").effect(EffectClass::Pure).calls(&["*"]),
        function("look").effect(EffectClass::Pure),
        function("strike").effect(EffectClass::AtMostOnce).asks_what_became_of_it(),
        function("save"),
    ]);
    let both = turn([route("worker", "a"), route("other", "b")]);
    let mut sim = Sim::new(&job)
        .agent("root", [both, turn([handoff("done")])])
        .agent("worker", [turn([call("flow", "a")]), turn([handoff("worked")])])
        .agent("other", [turn([ask("which?")]), turn([call("save", "b")]), turn([handoff("worked")])])
        .holding("flow")
        .holding("strike")
        .holding("save")
        .start();
    sim.makes("0/1.1/1.1", "s", call("strike", "b")).unwrap();
    sim.crash();
    sim.settle();
    sim.person_answers("0/1.2/1.1", json!("this")).unwrap();
    sim.makes("0/1.1/1.1", "l", call("look", "c")).unwrap();
    assert_eq!(sim.given_to_code(), [], "the other task has the place");
    sim.release("save");
    assert_eq!(sim.given_to_code(), [("0/1.1/1.1:l", CallStatus::Success)]);
    sim.person_answers("0/1.1/1.1:s/outcome", json!({"outcome": "done"})).unwrap();
    sim.release("flow");
    sim.assert_over();
}

#[test]
fn what_code_may_not_call_is_known_before_its_first_call() {
    let sim = begun([call("flow", "a")]);
    let ahead = |asked: ModelCall| sim.run.check_ahead(&CallId::from("0/1.1"), &[asked]);
    assert_eq!(ahead(call("look", "b")).unwrap().calls, 1);
    for asked in [handoff("out"), call("hidden", "b"), call("nothing", "b")] {
        let error = ahead(asked.clone()).unwrap_err();
        assert_eq!(error.code, ErrorCode::UnknownTool);
        assert_eq!(error.message, format!("there is no tool {:?} that the code of flow may call", asked.tool));
        assert!(error.detail.value()["callable_tools"].as_array().unwrap().contains(&json!("look")));
    }
}

#[test]
fn an_approval_holds_one_inner_call_and_no_other() {
    let asked = job([agent("root", "flow look strike").needs_approval("strike", Approver::Person)]).tools([
        function("flow").effect(EffectClass::Pure).calls(&["*"]),
        function("look").effect(EffectClass::Pure),
        function("strike").effect(EffectClass::AtMostOnce),
    ]);
    let mut sim = begun_in(&asked, [call("flow", "a")]);
    sim.makes("0/1.1", "s", call("strike", "b")).unwrap();
    sim.makes("0/1.1", "l", call("look", "c")).unwrap();
    assert_eq!(sim.given_to_code(), [("0/1.1:l", CallStatus::Success)]);
    sim.person_answers("0/1.1:s/approval", json!({"approved": true})).unwrap();
    assert_eq!(sim.given_to_code().len(), 2);
    sim.release("flow");
    sim.assert_over();
}

#[test]
fn inner_calls_end_with_the_code_that_made_them() {
    let mut sim = begun([call("flow", "a")]).holding("look").holding("strike").holding("wait").holding("write");
    sim.makes("0/1.1", "running", call("look", "b")).unwrap();
    sim.makes("0/1.1", "asked", ask("which?")).unwrap();
    sim.makes("0/1.1", "suspended", call("wait", "d")).unwrap();
    sim.suspended("0/1.1:suspended", Suspension::default());
    sim.makes("0/1.1", "writes", call("write", "e")).unwrap();
    sim.makes("0/1.1", "waits", call("revise", "f")).unwrap();
    sim.makes("0/1.1", "last", call("strike", "g")).unwrap();
    sim.release("flow");
    assert_eq!(sim.refusal("0/1.1:waits").code, ErrorCode::Cancelled);
    for name in ["running", "asked", "suspended", "writes"] {
        assert_eq!(sim.result(&format!("0/1.1:{name}")).status, CallStatus::Cancelled, "{name}");
    }
    assert_eq!(sim.result("0/1.1:last").status, CallStatus::UnknownOutcome, "it may have acted");
    assert_eq!(sim.result("0/1.1").status, CallStatus::Success, "its code knew that it did not wait");
    assert_eq!(sim.stopped.len(), 3, "their executors are stopped");
    let late = Event::CallReturned { call: CallId::from("0/1.1:last"), outcome: Outcome::success(json!("late")) };
    assert!(sim.ended || sim.event(late).is_ok());
    sim.assert_over();
}

#[test]
fn a_call_that_fails_while_its_calls_act_has_an_unknown_outcome() {
    let mut sim = begun([call("flow", "a")]).holding("look").holding("strike");
    sim.makes("0/1.1", "reads", call("look", "b")).unwrap();
    sim.makes("0/1.1", "flow", call("flow", "c")).unwrap();
    sim.makes("0/1.1:flow", "pays", call("strike", "d")).unwrap();
    sim.makes("0/1.1", "pays", call("strike", "e")).unwrap();
    let error = CallError::new(ErrorCode::ToolFailed, "step \"check\" failed");
    sim.returned("0/1.1", Outcome::error(CallStatus::Failed, error.clone())).unwrap();
    sim.settle();
    assert_eq!(sim.result("0/1.1:reads").status, CallStatus::Cancelled);
    for inner in ["0/1.1:flow:pays", "0/1.1:pays"] {
        assert_eq!(sim.result(inner).status, CallStatus::UnknownOutcome, "{inner}");
    }
    let told = |call: &str| {
        let result = sim.result(call);
        let CallError { code, message, detail } = result.error.clone().unwrap();
        assert_eq!((result.status, code), (CallStatus::UnknownOutcome, ErrorCode::UnknownOutcome));
        (message, detail.value()["unknown_outcome"].clone())
    };
    let (message, names) = told("0/1.1");
    assert_eq!(names, json!(["strike (0/1.1:pays)", "strike (0/1.1:flow:pays)"]));
    assert!(message.starts_with("step \"check\" failed; it is unknown"), "{message}");
    assert_eq!(told("0/1.1:flow").1, json!(["strike (0/1.1:flow:pays)"]));
    sim.release("flow");
    sim.assert_over();
}

#[test]
fn inner_calls_that_wait_for_somebody_end_with_the_code_that_made_them() {
    let root = agent("root", "flow look strike wait route_to_worker").needs_approval("look", Approver::Person);
    let retry = OnFailure::Retry(Retry { times: 1, backoff_seconds: 60 });
    let job = job([root, agent("worker", "")]).tools([
        function("flow").effect(EffectClass::Pure).calls(&["*"]),
        function("look").effect(EffectClass::Pure),
        function("strike").effect(EffectClass::AtMostOnce).asks_what_became_of_it(),
        function("wait").effect(EffectClass::Keyed).suspending(),
        ToolDraft::route("worker").on_failure(retry),
    ]);
    let mut sim = Sim::new(&job)
        .agent("root", [turn([call("flow", "a")]), turn([handoff("done")])])
        .agent_with("worker", |_: &Prompted<'_>| Err(Sim::model_error()))
        .holding("flow")
        .holding("strike")
        .holding("wait")
        .start();
    sim.makes("0/1.1", "doubtful", call("strike", "b")).unwrap();
    sim.crash();
    sim.settle();
    sim.makes("0/1.1", "unapproved", call("look", "c")).unwrap();
    sim.makes("0/1.1", "failed", route("worker", "work")).unwrap();
    assert_eq!(sim.asked.len(), 2);
    sim.makes("0/1.1", "suspended", call("wait", "d")).unwrap();
    sim.suspended("0/1.1:suspended", Suspension::default());
    let over = || Outcome::success(json!("over"));
    let decision = sim.fold().handle(sim.now, Event::CallReturned { call: CallId::from("0/1.1"), outcome: over() }).unwrap();
    let stops = decision.effects.iter().any(|effect| matches!(effect, Effect::StopCall { .. }));
    assert!(!stops, "none of these calls has code that runs");
    sim.returned("0/1.1", over()).unwrap();
    sim.settle();
    assert_eq!(sim.result("0/1.1:doubtful").status, CallStatus::UnknownOutcome);
    assert_eq!(sim.refusal("0/1.1:unapproved").code, ErrorCode::Denied);
    assert_eq!(sim.result("0/1.1:failed").status, CallStatus::Cancelled, "no attempt follows");
    assert_eq!(sim.result("0/1.1:suspended").status, CallStatus::Cancelled);
    assert_eq!(sim.run.next_wake(), None);
    sim.assert_over();
}

#[test]
fn a_delegation_of_inner_code_ends_once_with_all_code_above_it() {
    let mut sim = begun([call("flow", "a")]);
    sim.makes("0/1.1", "n", call("flow", "b")).unwrap();
    sim.makes("0/1.1:n", "q", ask("which?")).unwrap();
    sim.returned("0/1.1", Outcome::success(json!("over"))).unwrap();
    sim.settle();
    let ends = |task: &str| {
        let ended = |entry: &Entry| matches!(entry, Entry::TaskEnded(ended) if ended.task.as_str() == task);
        sim.timeline.iter().filter(|recorded| ended(&recorded.entry)).count()
    };
    assert_eq!(ends("0/1.1:n:q"), 1);
    for id in ["0/1.1:n", "0/1.1:n:q"] {
        assert_eq!(sim.result(id).status, CallStatus::Cancelled, "{id}");
    }
    sim.assert_over();
}

#[test]
fn code_that_runs_again_takes_the_results_it_has_and_may_not_differ() {
    let mut sim = begun([call("flow", "a")]);
    sim.makes("0/1.1", "1", call("look", "b")).unwrap();
    sim.makes("0/1.1", "2", route("worker", "work")).unwrap();
    let (entries, given) = (sim.timeline.len(), sim.given_to_code().len());
    sim.crash();
    sim.settle();
    let calls = sim.run.task(&baton_types::id::TaskId::root()).unwrap().phase.calls().unwrap();
    let recorded: Vec<&str> = calls.returned_to(&CallId::from("0/1.1")).map(|call| call.id.as_str()).collect();
    assert_eq!(recorded, ["0/1.1:1", "0/1.1:2"], "the shell begins with these");
    sim.makes("0/1.1", "1", call("look", "b")).unwrap();
    assert_eq!(sim.timeline.len(), entries + 1, "nothing is made twice: {:?}", sim.timeline.last());
    assert_eq!(sim.given_to_code().len(), given);
    let differs = sim.makes("0/1.1", "2", route("worker", "other work")).unwrap_err();
    assert_eq!(differs, Refusal::Diverged { call: CallId::from("0/1.1:2") });
    sim.makes("0/1.1", "3", call("look", "c")).unwrap();
    sim.release("flow");
    sim.assert_over();
}

#[test]
fn a_crash_treats_an_inner_call_by_its_own_effect() {
    let mut sim = begun([call("flow", "a")]).holding("strike").holding("look");
    sim.makes("0/1.1", "s", call("strike", "b")).unwrap();
    sim.makes("0/1.1", "l", call("look", "c")).unwrap();
    sim.crash();
    sim.settle();
    assert_eq!(sim.result("0/1.1:s").status, CallStatus::UnknownOutcome);
    assert_eq!(sim.given_to_code(), [("0/1.1:s", CallStatus::UnknownOutcome)]);
    sim.release("look");
    assert_eq!(sim.result("0/1.1:l").status, CallStatus::Success);
    sim.release("flow");
    sim.assert_over();
}

/// Begins a run whose root calls `errand`, whose code makes calls and is not repeated after a crash.
fn begun_errand(asks: bool) -> Sim {
    let errand = function("errand").effect(EffectClass::AtMostOnce).calls(&["*"]);
    let errand = if asks { errand.asks_what_became_of_it() } else { errand };
    let job = job([agent("root", "errand flow look strike ask_master route_to_worker"), agent("worker", "look")]).tools([
        errand,
        function("flow").effect(EffectClass::Pure).calls(&["*"]),
        function("look").effect(EffectClass::Pure),
        function("strike").effect(EffectClass::AtMostOnce),
    ]);
    let root = [turn([call("errand", "a")]), turn([handoff("done")])];
    let worker = |_: &Prompted<'_>| Ok(turn([call("look", "w")]));
    let held = ["errand", "flow", "look", "strike"];
    let sim = Sim::new(&job).agent("root", root).agent_with("worker", worker);
    held.into_iter().fold(sim, Sim::holding).start()
}

#[test]
fn inner_calls_end_at_a_crash_with_code_that_is_not_repeated() {
    for asks in [false, true] {
        let mut sim = begun_errand(asks);
        sim.makes("0/1.1", "l", call("look", "b")).unwrap();
        sim.makes("0/1.1", "s", call("strike", "c")).unwrap();
        sim.makes("0/1.1", "d", route("worker", "work")).unwrap();
        sim.makes("0/1.1", "q", ask("which?")).unwrap();
        sim.makes("0/1.1", "f", call("flow", "d")).unwrap();
        sim.makes("0/1.1:f", "s", call("strike", "e")).unwrap();
        sim.makes("0/1.1", "e", call("errand", "f")).unwrap();
        sim.makes("0/1.1:e", "s", call("strike", "g")).unwrap();
        sim.crash();
        sim.settle();
        for name in ["l", "d", "q"] {
            assert_eq!(sim.result(&format!("0/1.1:{name}")).status, CallStatus::Cancelled, "{name}");
        }
        for name in ["s", "f", "f:s", "e", "e:s"] {
            assert_eq!(sim.result(&format!("0/1.1:{name}")).status, CallStatus::UnknownOutcome, "{name}");
        }
        if asks {
            assert!(sim.run.waits_only_for_people());
            sim.makes("0/1.1", "l", call("look", "b")).unwrap_err();
            sim.person_answers("0/1.1/outcome", json!({"outcome": "done"})).unwrap();
        }
        let expected = if asks { CallStatus::Success } else { CallStatus::UnknownOutcome };
        assert_eq!(sim.result("0/1.1").status, expected);
        sim.assert_over();
    }
}

#[test]
fn a_suspended_inner_call_lets_the_run_wait_without_a_process() {
    let mut sim = begun([call("flow", "a")]).holding("wait");
    sim.makes("0/1.1", "w", call("wait", "b")).unwrap();
    sim.suspended("0/1.1:w", Suspension::default());
    assert!(sim.run.is_idle());
    sim.crash();
    sim.settle();
    assert!(sim.run.is_idle(), "the code runs again, and waits");
    sim.delivered("0/1.1:w", Outcome::success(json!("came"))).unwrap();
    assert_eq!(sim.given_to_code(), [("0/1.1:w", CallStatus::Success)]);
    sim.release("flow");
    sim.assert_over();
}

#[test]
fn inner_calls_count_towards_the_limits_and_are_bounded_in_depth() {
    let limits = Limits { calls: Some(3), ..Limits::default() };
    let mut sim = begun_in(&shop().limits(limits), [call("flow", "a")]);
    for name in ["1", "2", "3"] {
        sim.makes("0/1.1", name, call("look", name)).unwrap();
    }
    assert_eq!(sim.refusals(), [("0/1.1:3", ErrorCode::LimitReached)]);
    sim.release("flow");
    sim.assert_over();
    let mut sim = begun([call("flow", "a")]);
    let mut outer = "0/1.1".to_owned();
    for _ in 0..8 {
        sim.makes(&outer, "n", call("flow", "a")).unwrap();
        outer.push_str(":n");
    }
    assert!(matches!(sim.makes(&outer, "n", call("look", "a")), Err(Refusal::CannotCall { .. })));
    sim.release("flow");
    sim.assert_over();
}

#[test]
fn joins_and_handoffs_look_at_the_models_own_calls() {
    let mut sim = begun([call("flow", "a"), handoff("result")]);
    sim.makes("0/1.1", "1", call("nothing", "b")).unwrap();
    sim.release("flow");
    assert_eq!(sim.result("0/1.2").status, CallStatus::Success, "a failed inner call is the code's business");
    sim.assert_over();
}

#[test]
fn a_call_of_code_may_repeat_as_often_as_it_likes() {
    let limits = Limits { repeats: Some(2), ..Limits::default() };
    let mut sim = begun_in(&shop().limits(limits), [call("flow", "a")]);
    for name in ["1", "2", "3", "4"] {
        sim.makes("0/1.1", name, call("look", "same")).unwrap();
    }
    assert!(sim.refusals().is_empty());
    sim.release("flow");
    sim.assert_over();
}

#[test]
fn a_cancelled_task_ends_its_inner_calls_with_it() {
    let mut sim = begun([call("flow", "a")]).holding("look");
    sim.makes("0/1.1", "l", call("look", "b")).unwrap();
    sim.makes("0/1.1", "q", ask("which?")).unwrap();
    sim.cancel("0").unwrap();
    for id in ["0/1.1", "0/1.1:l", "0/1.1:q"] {
        assert_eq!(sim.result(id).status, CallStatus::Cancelled, "{id}");
    }
    assert!(sim.pending.is_empty());
}

#[test]
fn calls_that_code_waits_for_keep_no_later_one_from_beginning() {
    let tools = "flow check wait ask_master route_to_worker";
    let draft = job([agent("root", tools), agent("worker", "")]).tools([
        function("flow").effect(EffectClass::Pure).calls(&["*"]),
        function("check").effect(EffectClass::Pure).approved_by(Approver::Person),
        function("wait").effect(EffectClass::Keyed).suspending(),
    ]);
    for (asked, approved, suspended) in (0..125).map(|number| (number / 25, number / 5 % 5, number % 5)) {
        let mut sim = begun_in(&draft, [call("flow", "a")]).holding("wait");
        for number in 0..asked {
            sim.makes("0/1.1", &format!("q{number}"), ask("which?")).unwrap();
        }
        for number in 0..approved {
            sim.makes("0/1.1", &format!("c{number}"), call("check", &number.to_string())).unwrap();
        }
        for number in 0..suspended {
            sim.makes("0/1.1", &format!("w{number}"), call("wait", &number.to_string())).unwrap();
            sim.suspended(&format!("0/1.1:w{number}"), Suspension { until: None, output: None });
        }
        sim.makes("0/1.1", "d", route("worker", "now")).unwrap();
        let begun = sim.given_to_code().last() == Some(&("0/1.1:d", CallStatus::Success));
        assert!(begun, "beside {asked} questions, {approved} approvals and {suspended} suspended calls");
        sim.cancel("0").unwrap();
        sim.assert_over();
    }
}

#[test]
fn inner_calls_count_towards_the_limit_of_their_agent() {
    let limits = Limits { calls: Some(3), ..Limits::default() };
    let draft = job([agent("root", "flow look").limits(limits)])
        .tools([function("flow").effect(EffectClass::Pure).calls(&["*"]), function("look").effect(EffectClass::Pure)]);
    let mut sim = Sim::new(&draft).agent("root", [turn([call("flow", "a")]), turn([handoff("done")])]).holding("flow").start();
    for name in ["1", "2", "3"] {
        sim.makes("0/1.1", name, call("look", name)).unwrap();
    }
    assert_eq!(sim.refusals(), [("0/1.1:3", ErrorCode::LimitReached)]);
    sim.release("flow");
    sim.assert_over();
}
