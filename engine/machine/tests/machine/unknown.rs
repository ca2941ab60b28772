//! Calls that may have acted: what is above them learns of it.

use baton_types::call::{CallError, CallStatus, ErrorCode};
use baton_types::config::EffectClass;
use baton_types::event::Outcome;
use baton_types::id::CallId;
use serde_json::json;

use crate::support::script::Prompted;
use crate::support::{Sim, agent, ask, call, function, handoff, job, route, turn};

/// Begins a run whose root runs `outer`, of this effect. Its code delegates to a worker that calls `strike`, which is held.
fn delegating(effect: EffectClass, strike_effect: EffectClass, asks: bool) -> Sim {
    let strike = function("strike").effect(strike_effect);
    let strike = if asks { strike.asks_what_became_of_it() } else { strike };
    let job = job([agent("root", "outer look route_to_worker ask_master"), agent("worker", "strike look")]).tools([
        function("outer").effect(effect).calls(&["*"]),
        function("look").effect(EffectClass::Pure),
        strike,
    ]);
    let mut sim = Sim::new(&job)
        .agent("root", [turn([call("outer", "a")]), turn([handoff("done")])])
        // A question about an outcome waits for a person.
        .answers("root", [turn([ask("What became of it?")])])
        .agent_with("worker", |_: &Prompted<'_>| Ok(turn([call("strike", "b"), call("look", "c")])))
        .holding("outer")
        .holding("strike")
        .holding("look")
        .start();
    sim.makes("0/1.1", "d", route("worker", "work")).unwrap();
    sim
}

/// Lets the code of `outer` fail, and returns its status with the calls that its error names.
fn failed(mut sim: Sim) -> (CallStatus, serde_json::Value) {
    let error = CallError::new(ErrorCode::ToolFailed, "it failed");
    sim.returned("0/1.1", Outcome::error(CallStatus::Failed, error)).unwrap();
    sim.settle();
    let result = sim.result("0/1.1");
    let told = (result.status, result.error.as_ref().unwrap().detail.value()["unknown_outcome"].clone());
    sim.assert_over();
    told
}

#[test]
fn a_failed_call_names_what_may_have_acted_below_its_delegations() {
    let named = json!(["strike (0/1.1:d/1.1)"]);
    let begun = |strike| delegating(EffectClass::Pure, strike, false);
    assert_eq!(failed(begun(EffectClass::AtMostOnce)), (CallStatus::UnknownOutcome, named.clone()));
    assert_eq!(failed(begun(EffectClass::Keyed)), (CallStatus::UnknownOutcome, named.clone()), "another call has another key");
    assert_eq!(failed(begun(EffectClass::Idempotent)), (CallStatus::Failed, json!(null)));
    // A question about the outcome is open.
    let mut asked = delegating(EffectClass::Pure, EffectClass::AtMostOnce, true);
    asked.crash();
    asked.settle();
    assert_eq!(failed(asked), (CallStatus::UnknownOutcome, named));
}

#[test]
fn a_failed_call_without_calls_names_nothing() {
    let job = job([agent("root", "strike look")])
        .tools([function("strike").effect(EffectClass::AtMostOnce), function("look").effect(EffectClass::Pure)]);
    let calls = [call("look", "a"), call("strike", "b")];
    let mut sim = Sim::new(&job).agent("root", [turn(calls), turn([handoff("done")])]).holding("strike").holding("look").start();
    let error = || CallError::new(ErrorCode::ToolFailed, "it failed");
    sim.returned("0/1.2", Outcome::error(CallStatus::Timeout, error())).unwrap();
    sim.returned("0/1.1", Outcome::error(CallStatus::Failed, error())).unwrap();
    sim.settle();
    assert_eq!(sim.result("0/1.1").error, Some(error()));
    assert_eq!(sim.result("0/1.2").error, Some(error()));
    sim.assert_over();
}

#[test]
fn without_its_process_a_call_that_must_not_be_repeated_is_interrupted_and_all_below_it_ends() {
    let sim = delegating(EffectClass::AtMostOnce, EffectClass::Keyed, false);
    let [outer, delegation, strike, look] = ["0/1.1", "0/1.1:d", "0/1.1:d/1.1", "0/1.1:d/1.2"].map(CallId::from);
    let interrupted = |call: &CallId| sim.run.is_interrupted(call);
    assert_eq!([&outer, &delegation, &strike, &look].map(interrupted), [true, false, false, false]);
    assert!(!sim.run.is_interrupted(&CallId::from("0/7.1")), "there is no such call");
    for call in [&delegation, &strike, &look] {
        assert_eq!(sim.run.interrupted_above(call), Some(outer.clone()), "{call}");
    }
    assert_eq!(sim.run.interrupted_above(&outer), None);
    let calls: Vec<&str> = sim.run.interruptible().map(|(_, call)| call.id.as_str()).collect();
    assert_eq!(calls, ["0/1.1"]);
    let sim = delegating(EffectClass::Keyed, EffectClass::AtMostOnce, false);
    assert_eq!(sim.run.interrupted_above(&strike), None, "the code above runs again");
    let calls: Vec<&str> = sim.run.interruptible().map(|(_, call)| call.id.as_str()).collect();
    assert_eq!(calls, ["0/1.1:d/1.1"]);
}
