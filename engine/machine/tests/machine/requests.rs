//! Requests in universal invocation: the ids of a model's calls (`requestId`) make them safe to repeat.

use baton_types::call::{CallError, CallStatus, ErrorCode, ModelCall};
use baton_types::entry::{Adoption, Entry};
use baton_types::event::{Event, Outcome};
use baton_types::id::{ContentHash, TaskId};
use baton_types::json::Json;
use baton_types::limits::Limits;
use baton_types::message::Part;
use baton_types::model::ModelTurn;
use baton_types::principal::Principal;
use serde_json::json;

use crate::support::jobs::JobDraft;
use crate::support::script::{to_user, with_id};
use crate::support::{Sim, agent, call, function, handoff, job, malformed, route, turn};

fn worker() -> JobDraft {
    job([agent("root", "work look").universal()]).tools([function("work"), function("look")])
}

/// Runs `turns` and a handoff. Each execution of `work` has another output.
fn ended(draft: &JobDraft, turns: impl IntoIterator<Item = ModelTurn>) -> Sim {
    let mut number = 0;
    let count = move |_: &_| {
        number += 1;
        Outcome::success(json!(number))
    };
    let turns = turns.into_iter().chain([turn([handoff("done")])]);
    let sim = Sim::new(draft).agent("root", turns).tool("work", count).start();
    sim.assert_over();
    assert_eq!(sim.task("0").result.as_ref().unwrap().status, CallStatus::Success);
    sim
}

/// Returns the ids of the calls of each turn.
fn ids(sim: &Sim) -> Vec<Vec<&str>> {
    let answered = sim.entries().filter_map(|entry| match entry {
        Entry::ModelAnswered(answered) => Some(&answered.calls),
        _ => None,
    });
    answered.map(|calls| calls.iter().map(|call| call.provider_id.as_deref().unwrap_or("none")).collect()).collect()
}

fn work(id: &str, mark: &str) -> ModelCall {
    with_id(id, call("work", mark))
}

#[test]
fn a_repeated_request_gets_the_stored_result_and_is_not_executed_again() {
    let again = |mark: &str| turn([work("a", "x"), work(mark, "x")]);
    let sim = ended(&worker(), [turn([work("a", "x")]), again("b"), again("c")]);
    assert_eq!(["0/1.1", "0/2.1", "0/2.2", "0/3.1", "0/3.2"].map(|call| sim.executions(call)), [1, 0, 1, 0, 1]);
    let outputs = ["0/1.1", "0/2.1", "0/2.2", "0/3.1"].map(|call| sim.result(call).output.value());
    assert_eq!(outputs, [1, 1, 2, 1].map(|output| json!(output)));
    let result_of = |call: &str| sim.finished(call).result_of.as_ref().map(ToString::to_string);
    assert_eq!(["0/1.1", "0/2.1", "0/2.2", "0/3.1"].map(result_of), [None, Some("0/1.1".into()), None, Some("0/1.1".into())]);
    let request = sim.request("0");
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    let hints: Vec<bool> =
        parts.filter_map(|part| if let Part::Result { hint, .. } = part { Some(hint.is_some()) } else { None }).collect();
    assert_eq!(hints, [false, true, false, true, false], "the agent learns that nothing was executed");
}

#[test]
fn the_order_of_keys_makes_no_other_request() {
    let asked = |input| with_id("a", ModelCall::new("work", input));
    let [one, other] = [r#"{"mark":"x","more":{"a":1,"b":2}}"#, r#"{"more":{"b":2,"a":1},"mark":"x"}"#];
    let sim = ended(&worker(), [one, other].map(|input| turn([asked(Json::from(input.parse::<serde_json::Value>().unwrap()))])));
    assert_eq!(["0/1.1", "0/2.1"].map(|call| sim.executions(call)), [1, 0]);
    assert_eq!(sim.result("0/2.1"), sim.result("0/1.1"), "it is no conflict");
}

#[test]
fn a_result_for_the_user_is_returned_to_the_agent_that_repeats_the_request() {
    let sim = ended(&worker(), [turn([to_user(work("a", "x")), call("look", "x")]), turn([work("a", "x")])]);
    let request = sim.request("0");
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    let outputs: Vec<_> = parts
        .filter_map(|part| if let Part::Result { result: Some(result), .. } = part { Some(result.output.value()) } else { None })
        .collect();
    assert_eq!((&outputs[0], &outputs[2]), (&json!({"sent_to_user": true}), &json!(1)));
}

#[test]
fn an_id_of_another_request_is_a_conflict() {
    let calls = [work("a", "y"), with_id("a", call("look", "x")), work("b", "x"), work("b", "x")];
    let sim = ended(&worker(), [turn([work("a", "x")]), turn(calls)]);
    assert_eq!(sim.refusals(), ["0/2.1", "0/2.2", "0/2.4"].map(|call| (call, ErrorCode::Conflict)));
    let message = |call: &str| sim.refusal(call).message;
    assert_eq!(
        ["0/2.1", "0/2.2", "0/2.4"].map(message),
        [
            "requestId \"a\" belongs to an earlier call with another input; use a new one, such as \"work-6\"",
            "requestId \"a\" is the id of another call of this answer; use a new one, such as \"look-6\"",
            "requestId \"b\" is the id of another call of this answer; use a new one, such as \"work-6\"",
        ]
    );
    let sim = ended(&worker(), [turn([work("a", "x")]), turn([with_id("a", call("look", "x"))])]);
    assert!(sim.refusal("0/2.1").message.contains("belongs to an earlier call of work"), "{}", sim.refusal("0/2.1").message);
}

#[test]
fn a_refused_call_leaves_its_id_free() {
    let wrong = ModelCall { input: json!({"x": 1}).into(), ..call("work", "x") };
    let turns =
        [turn([with_id("a", wrong), with_id("b", malformed("work")), work("c", "x")]), turn([work("a", "x"), work("b", "x")])];
    let sim = ended(&worker(), turns);
    assert_eq!(["0/2.1", "0/2.2"].map(|call| sim.executions(call)), [1, 1]);
}

#[test]
fn a_failed_call_keeps_its_id() {
    let turns = [turn([work("a", "x")]), turn([work("a", "x")]), turn([handoff("done")])];
    let fails = |_: &_| Outcome::error(CallStatus::Failed, CallError::new(ErrorCode::ToolFailed, "no"));
    let sim = Sim::new(&worker()).agent("root", turns).tool("work", fails).start();
    sim.assert_over();
    assert_eq!((sim.executions("0/2.1"), sim.result("0/2.1")), (0, sim.result("0/1.1")));
}

#[test]
fn a_handoff_may_have_any_id() {
    let turns = [turn([work("1", "x")]), turn([with_id("1", handoff("done"))])];
    let sim = Sim::new(&worker()).agent("root", turns).start();
    sim.assert_over();
    assert_eq!((sim.task("0").result.as_ref().unwrap().status, sim.refusals().len()), (CallStatus::Success, 0));
}

#[test]
fn ids_of_native_calls_are_no_requests() {
    let draft = job([agent("root", "work")]).tool(function("work"));
    let turns = [turn([work("call_0", "x")]), turn([work("call_0", "x")]), turn([work("call_0", "y"), call("work", "z")])];
    let sim = ended(&draft, turns);
    assert_eq!(["0/1.1", "0/2.1", "0/3.1"].map(|call| sim.executions(call)), [1, 1, 1]);
    assert_eq!(ids(&sim)[2], ["call_0", "none"]);
}

#[test]
fn a_call_without_an_id_gets_one_that_no_other_call_has() {
    let turns =
        [turn([work("work-3", "x"), call("work", "y")]), turn([call("work", "z"), work("work-4", "z"), call("look", "x")])];
    let sim = ended(&worker(), turns);
    assert_eq!(ids(&sim), [vec!["work-3", "work-2"], vec!["work-5", "work-4", "look-5"], vec!["handoff-6"]]);
    assert_eq!(sim.refusals(), []);
}

#[test]
fn a_repeated_delegation_creates_no_second_task() {
    let draft = job([agent("root", "route_to_child").universal(), agent("child", "")]);
    let again = || turn([with_id("a", route("child", "x"))]);
    let sim = Sim::new(&draft)
        .agent("root", [again(), again(), turn([handoff("done")])])
        .agent("child", [turn([handoff("found")])])
        .start();
    sim.assert_over();
    assert_eq!((sim.ledger.tasks.len(), sim.result("0/2.1")), (2, sim.result("0/1.1")));
}

#[test]
fn requests_are_known_after_a_compaction() {
    let limits = Limits { context_tokens: Some(2_000), turns: Some(200), ..Limits::default() };
    let draft =
        job([agent("root", "work").universal().limits(limits).settings(json!({"max_tokens": 100}))]).tool(function("work"));
    let long = |number: u32| turn([work(&format!("work-{number}"), &format!("{number}: {}", "x".repeat(400)))]);
    let sim = ended(&draft, (1..30).chain([1]).map(long));
    assert!(sim.entries().any(|entry| matches!(entry, Entry::Compacted(_))));
    let held = |part: &Part| matches!(part, Part::Call { asked, .. } if asked.provider_id.as_deref() == Some("work-1"));
    let calls = sim.request("0").messages.iter().flat_map(|message| &message.parts).filter(|part| held(part)).count();
    assert_eq!((calls, sim.executions("0/30.1")), (1, 0), "the conversation has the repetition alone");
    assert_eq!(sim.finished("0/30.1").result_of.as_ref().unwrap().as_str(), "0/1.1");
}

#[test]
fn endless_repetition_is_refused() {
    let draft =
        job([agent("root", "work").universal().limits(Limits { repeats: Some(3), ..Limits::default() })]).tool(function("work"));
    let sim = ended(&draft, std::iter::repeat_with(|| turn([work("a", "x")])).take(5));
    assert_eq!(sim.refusals(), [("0/4.1", ErrorCode::Repeated), ("0/5.1", ErrorCode::Repeated)]);
}

#[test]
fn a_crash_after_the_first_result_changes_nothing() {
    let turns = [turn([work("a", "x")]), turn([work("a", "x")]), turn([handoff("done")])];
    let mut sim = Sim::new(&worker()).agent("root", turns).tool("work", |_| Outcome::success(json!("first")));
    sim.begin(Vec::new());
    while sim.step() {
        if sim.task("0").result.is_none() {
            sim.crash();
        }
    }
    sim.assert_over();
    assert_eq!(sim.finished("0/2.1").result_of.as_ref().unwrap().as_str(), "0/1.1");
}

#[test]
fn calls_are_numbered_from_the_first_one_in_universal_invocation() {
    let tools = || [function("work"), function("look")];
    let sim = Sim::new(&job([agent("root", "work look")]).tools(tools()))
        .agent("root", [turn([call("work", "a"), call("work", "b")])])
        .holding("work")
        .start();
    let mut run = sim.fold();
    let adoption = Adoption::of(ContentHash::of(b"other configs"));
    run.know_configs(adoption.configs, worker().build());
    let by = Principal::person("ada");
    let mut entries = Vec::new();
    let mut handle = |event| entries.extend(run.handle(sim.now, event).unwrap().entries);
    handle(Event::Adopted { adoption, documents: Vec::new(), by });
    for call in ["0/1.1", "0/1.2"] {
        handle(Event::CallReturned { call: call.into(), outcome: Outcome::success(json!("worked")) });
    }
    let (task, request) = (TaskId::root(), ContentHash::of(b"any"));
    handle(Event::ModelAnswered { task, turn: 2, request, answer: turn([call("look", "c")]), recorded: None });
    let named = entries.iter().find_map(|recorded| match &recorded.entry {
        Entry::ModelAnswered(answered) => Some(answered.calls[0].provider_id.clone()),
        _ => None,
    });
    assert_eq!(named, Some(Some("look-1".into())));
}
