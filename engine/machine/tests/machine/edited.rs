//! Calls that a person approves with another input.

use baton_render::{Transcript, TranscriptStart};
use baton_types::call::CallStatus;
use baton_types::config::{Approver, EffectClass};
use baton_types::entry::{CallApproved, Entry, InputChange, Notice, Recorded};
use baton_types::event::{Outcome, Refusal};
use baton_types::id::CallId;
use baton_types::json::Json;
use baton_types::message::Part;
use serde_json::{Value, json};

use crate::support::jobs::JobDraft;
use crate::support::{Sim, agent, call, call_with, function, handoff, job, route, turn};

const QUESTION: &str = "0/1.1/approval";

fn careful() -> JobDraft {
    let schema = json!({"type": "object", "properties": {"x": {"type": "string", "maxLength": 9}}, "required": ["x"]});
    job([agent("root", "delete"), agent("worker", "")]).tool(function("delete").input(schema).approved_by(Approver::Person))
}

/// Begins a run whose root makes `first`, which must be approved, and then hands off.
fn asked(draft: &JobDraft, first: baton_types::call::ModelCall) -> Sim {
    Sim::new(draft).agent("root", [turn([first]), turn([handoff("done")])]).agent("worker", [turn([handoff("worked")])]).start()
}

fn approval(sim: &Sim) -> CallApproved {
    let found = sim.timeline.iter().find_map(|recorded| match &recorded.entry {
        Entry::CallApproved(approved) => Some(approved.clone()),
        _ => None,
    });
    found.expect("the call is approved")
}

fn with(input: Value) -> Value {
    json!({"approved": true, "input": input})
}

#[test]
fn a_person_approves_a_call_with_another_input_and_the_agent_is_told() {
    let mut sim = Sim::new(&careful())
        .agent("root", [turn([call("delete", "all")]), turn([handoff("done")])])
        .tool("delete", |execution| Outcome::success(execution.input.value()))
        .start();
    sim.person_answers(QUESTION, with(json!({"x": "one"}))).unwrap();
    let approved = approval(&sim);
    let input = Json::from(json!({"x": "one"}));
    assert_eq!(approved.input.as_ref(), Some(&input));
    assert_eq!(approved.call_hash, sim.configs.tools["delete"].call_hash(&input), "the approval is of this input");
    assert_eq!(sim.result("0/1.1").output.value(), json!({"x": "one"}), "the tool gets it");
    let request = sim.requests.newest(&"0".into());
    let told = Notice::InputChanged(Box::new(InputChange {
        tool: "delete".to_owned(),
        asked: Json::from(json!({"x": "all"})),
        approved: input,
    }));
    let parts: Vec<&Part> = request.messages.iter().flat_map(|message| &message.parts).collect();
    let place = parts.iter().position(|part| **part == Part::Notice(told.clone())).expect("the agent is told");
    assert!(matches!(parts[place - 1], Part::Result { asked, .. } if asked.input.value() == json!({"x": "all"})));
    sim.assert_over();
}

#[test]
fn an_input_that_the_tool_does_not_take_is_refused_and_the_question_stays_open() {
    let mut sim = asked(&careful(), call("delete", "all"));
    for (input, why) in [(json!({"x": "much too long"}), "/input/x"), (json!({}), "\"x\""), (json!([]), "object")] {
        match sim.person_answers(QUESTION, with(input)) {
            Err(Refusal::InvalidAnswer { reason }) => assert!(reason.contains(why), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
    for (key, value) in [("input", json!({"x": "one"})), ("class", json!([{"pointer": "/x", "equals": "all"}]))] {
        match sim.person_answers(QUESTION, json!({"approved": false, key: value})) {
            Err(Refusal::InvalidAnswer { reason }) => assert!(reason.contains("\"approved\" must be true"), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
    sim.person_answers(QUESTION, json!({"approved": false})).unwrap();
    assert!(sim.refusal("0/1.1").message.contains("was not approved"), "a no is a no");
    sim.assert_over();
}

#[test]
fn the_same_input_changes_nothing() {
    let mut sim = asked(&careful(), call("delete", "all"));
    sim.person_answers(QUESTION, with(json!({"x": "all"}))).unwrap();
    assert_eq!(approval(&sim).input, None);
    sim.assert_over();
}

#[test]
fn an_input_holds_after_a_crash_and_for_a_delegation() {
    let mut sim = asked(&careful(), call("delete", "all")).holding("delete");
    sim.person_answers(QUESTION, with(json!({"x": "one"}))).unwrap();
    sim.crash();
    sim.settle();
    let open = sim.run.task(&"0".into()).unwrap().call(&CallId::from("0/1.1")).map(|call| call.asked.input.value());
    assert!(open.is_none_or(|input| input == json!({"x": "one"})));
    sim.release("delete");
    sim.assert_over();
    let draft = job([agent("root", "route_to_worker").needs_approval("route_to_worker", Approver::Person), agent("worker", "")]);
    let mut sim = asked(&draft, route("worker", "everything"));
    sim.person_answers(QUESTION, with(json!({"request": "a part"}))).unwrap();
    assert_eq!(sim.task("0/1.1").created.request, "a part");
    sim.assert_over();
}

#[test]
fn code_repeats_its_own_call_and_gets_the_result_of_the_approved_one() {
    let draft = job([agent("root", "flow delete")]).tools([
        function("flow").effect(EffectClass::Pure).calls(&["*"]),
        function("delete").effect(EffectClass::Idempotent).approved_by(Approver::Person),
    ]);
    let mut sim = Sim::new(&draft).agent("root", [turn([call("flow", "a")]), turn([handoff("done")])]).holding("flow").start();
    sim.makes("0/1.1", "d", call("delete", "all")).unwrap();
    sim.person_answers("0/1.1:d/approval", with(json!({"x": "one"}))).unwrap();
    assert_eq!(sim.result("0/1.1:d").status, CallStatus::Success);
    sim.crash();
    sim.settle();
    sim.makes("0/1.1", "d", call("delete", "all")).unwrap();
    let differs = sim.makes("0/1.1", "d", call("delete", "one")).unwrap_err();
    assert_eq!(differs, Refusal::Diverged { call: CallId::from("0/1.1:d") }, "the code made another call");
    sim.returned("0/1.1", Outcome::success(json!("over"))).unwrap();
    sim.settle();
    sim.assert_over();
}

#[test]
fn an_agent_and_a_handoff_have_no_other_input() {
    let handing = job([agent("root", "").needs_approval("handoff", Approver::Person)]);
    let mut sim = Sim::new(&handing).agent("root", [turn([handoff("done")])]).start();
    assert!(matches!(sim.person_answers(QUESTION, with(json!({"result": "other"}))), Err(Refusal::InvalidAnswer { .. })));
    sim.person_answers(QUESTION, json!({"approved": true})).unwrap();
    sim.assert_over();
    let agents = [agent("root", "route_to_child"), agent("child", "delete")];
    let draft = job(agents).tool(function("delete").approved_by(Approver::Master));
    let answer = handoff_of(with(json!({"x": "one"})));
    let sim = Sim::new(&draft)
        .agent("root", [turn([route("child", "a")]), turn([handoff("done")])])
        .answers("root", [turn([answer]), turn([handoff_of(json!({"approved": true}))])])
        .agent("child", [turn([call("delete", "all")]), turn([handoff("deleted")])])
        .start();
    assert_eq!(approval(&sim).input, None);
    sim.assert_over();
}

fn handoff_of(result: Value) -> baton_types::call::ModelCall {
    call_with("handoff", json!({"result": result}))
}

#[test]
fn the_newest_input_of_a_person_is_the_one_that_the_agent_is_told() {
    let mut sim = asked(&careful(), call("delete", "all"));
    sim.person_answers(QUESTION, with(json!({"x": "one"}))).unwrap();
    sim.assert_over();
    let Entry::TaskCreated(created) = &sim.timeline[1].entry else { panic!("the root is created second") };
    let (agent, documents) = (&sim.configs.agents["root"], sim.run.documents());
    let system = sim.request("0").system.clone();
    let mut transcript = Transcript::new(TranscriptStart { agent, system, created, asker: None, documents, earlier: None });
    for recorded in sim.timeline.iter().filter(|recorded| recorded.entry.task() == Some(&created.task)) {
        if let Entry::CallApproved(approved) = &recorded.entry {
            // An earlier approval, of a definition that has changed since.
            let earlier = CallApproved { input: Some(json!({"x": "two"}).into()), ..approved.clone() };
            transcript.apply(&Recorded { entry: Entry::CallApproved(earlier), ..recorded.clone() }, documents);
        }
        transcript.apply(recorded, documents);
    }
    let sent = sim.request("0").messages.clone();
    assert_eq!(transcript.messages()[..sent.len()], sent[..]);
}
