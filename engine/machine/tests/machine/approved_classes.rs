//! Classes of calls that a person approves at once.

use std::sync::Arc;

use baton_machine::Run;
use baton_types::call::ModelCall;
use baton_types::config::{Approver, Configs, EffectClass};
use baton_types::entry::{Adoption, CallApproved, Entry, Fork, ForkPoint, ForkedEffects};
use baton_types::event::{Event, Refusal};
use baton_types::id::{CallId, ContentHash, RunId};
use baton_types::json::Json;
use baton_types::principal::Principal;
use serde_json::{Value, json};

use crate::support::jobs::JobDraft;
use crate::support::{Sim, agent, call, function, handoff, job, route, turn};

fn shop() -> JobDraft {
    job([agent("root", "flow save route_to_worker"), agent("worker", "save")]).tools([
        function("flow").effect(EffectClass::Pure).calls(&["*"]),
        function("save").effect(EffectClass::Keyed).approved_by(Approver::Person),
    ])
}

fn save(mark: &str) -> ModelCall {
    call("save", mark)
}

/// Begins a run whose root makes these calls, one in each turn, and then hands off.
fn begun(draft: &JobDraft, calls: impl IntoIterator<Item = ModelCall>) -> Sim {
    let turns = calls.into_iter().map(|call| turn([call])).chain([turn([handoff("done")])]);
    Sim::new(draft)
        .agent("root", turns.collect::<Vec<_>>())
        .agent("worker", [turn([save("a/3")]), turn([handoff("worked")])])
        .start()
}

fn class() -> Value {
    json!({"approved": true, "class": [{"pointer": "/x", "prefix": "a/"}]})
}

/// Returns the calls that were approved without a question, with the call that has the class.
fn by_class(sim: &Sim) -> Vec<(String, String)> {
    let found = sim.timeline.iter().filter_map(|recorded| match &recorded.entry {
        Entry::CallApproved(CallApproved { call, by_class: Some(by), .. }) => Some((call.to_string(), by.to_string())),
        _ => None,
    });
    found.collect()
}

#[test]
fn a_class_approves_later_calls_of_the_tool_until_the_run_ends() {
    let mut sim = begun(&shop(), [save("a/1"), save("a/2"), route("worker", "w"), save("b/1")]);
    sim.person_answers("0/1.1/approval", class()).unwrap();
    let expected = [("0/2.1", "0/1.1"), ("0/3.1/1.1", "0/1.1")].map(|(call, by)| (call.to_owned(), by.to_owned()));
    assert_eq!(by_class(&sim), expected, "also those of other agents");
    assert!(sim.run.waits_only_for_people(), "another input is asked about");
    sim.person_answers("0/4.1/approval", json!({"approved": true})).unwrap();
    sim.assert_over();
}

#[test]
fn a_class_holds_after_a_crash_and_for_calls_of_code() {
    let mut sim = begun(&shop(), [save("a/1"), call("flow", "f")]).holding("flow");
    sim.person_answers("0/1.1/approval", class()).unwrap();
    sim.crash();
    sim.settle();
    sim.makes("0/2.1", "s", save("a/2")).unwrap();
    sim.makes("0/2.1", "t", save("b")).unwrap();
    assert_eq!(by_class(&sim), [("0/2.1:s".to_owned(), "0/1.1".to_owned())]);
    assert!(sim.run.task(&CallId::from("0/2.1:t").approval(1)).is_some());
    sim.release("flow");
    sim.assert_over();
}

#[test]
fn a_class_must_be_one_of_the_call_itself() {
    let mut sim = begun(&shop(), [save("a/1")]);
    for (class, why) in [
        (json!([{"pointer": "/x", "prefix": "b/"}]), "the class must match this call"),
        (json!([{"pointer": "/y", "equals": 1}]), "the class must match this call"),
        (json!([{"pointer": "x", "prefix": "a"}]), "is not a JSON pointer"),
        (json!([{"pointer": "/x"}]), "needs either"),
        (json!([]), ""),
    ] {
        match sim.person_answers("0/1.1/approval", json!({"approved": true, "class": class})) {
            Err(Refusal::InvalidAnswer { reason }) => assert!(reason.contains(why), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
    sim.person_answers(
        "0/1.1/approval",
        json!({"approved": true, "input": {"x": "c/1"}, "class": [{"pointer": "/x", "equals": "c/1"}]}),
    )
    .unwrap();
    sim.assert_over();
}

/// Returns the run of `sim`, read back, after it adopted `configs`.
fn adopting(sim: &Sim, configs: &Arc<Configs>, fork: Option<Fork>) -> Run {
    let mut run = sim.fold();
    let hash = ContentHash::of(b"other");
    run.know_configs(hash, Arc::clone(configs));
    let adoption = Adoption { fork, ..Adoption::of(hash) };
    run.handle(sim.now, Event::Adopted { adoption, documents: Vec::new(), by: Principal::person("ada") }).unwrap();
    run
}

/// Returns whether the next call of the code asks a person.
fn asks(run: &mut Run, sim: &Sim) -> bool {
    let made = Event::CallMade { by: CallId::from("0/2.1"), name: "s".to_owned(), asked: save("a/2") };
    let decision = run.handle(sim.now, made).unwrap();
    decision.entries.iter().any(|recorded| matches!(recorded.entry, Entry::QuestionOpened(_)))
}

#[test]
fn a_fork_and_another_definition_have_no_class() {
    let mut sim = begun(&shop(), [save("a/1"), call("flow", "f")]).holding("flow");
    sim.person_answers("0/1.1/approval", class()).unwrap();
    let fork = Fork {
        run: RunId::from("fork"),
        from: ForkPoint { run: RunId::from("run"), seq: sim.run.last_seq() },
        effects: ForkedEffects::New,
        at: sim.now,
    };
    assert!(!asks(&mut adopting(&sim, &sim.configs, None), &sim), "a migration keeps it");
    assert!(asks(&mut adopting(&sim, &sim.configs, Some(fork)), &sim));
    let other = job([agent("root", "flow save route_to_worker"), agent("worker", "save")]).tools([
        function("flow").effect(EffectClass::Pure).calls(&["*"]),
        function("save").effect(EffectClass::Idempotent).approved_by(Approver::Person),
    ]);
    assert!(asks(&mut adopting(&sim, &other.build(), None), &sim), "the class is of the tool as it was");
}

#[test]
fn the_hash_of_a_class_is_that_of_the_tool() {
    let mut sim = begun(&shop(), [save("a/1"), save("a/2")]);
    sim.person_answers("0/1.1/approval", class()).unwrap();
    let approved = sim.timeline.iter().filter_map(|recorded| match &recorded.entry {
        Entry::CallApproved(approved) => Some(approved.call_hash),
        _ => None,
    });
    let of = |mark: &str| sim.configs.tools["save"].call_hash(&Json::from(json!({"x": mark})));
    assert_eq!(approved.collect::<Vec<_>>(), [of("a/1"), of("a/2")]);
    sim.assert_over();
}
