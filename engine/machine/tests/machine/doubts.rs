//! Calls that a crash left in doubt, where the config has the master asked what became of them.

use baton_types::call::{CallResult, CallStatus, ErrorCode};
use baton_types::config::EffectClass;
use baton_types::entry::{Concern, Holder};
use baton_types::id::TaskId;
use serde_json::{Value, json};

use crate::support::jobs::JobDraft;
use crate::support::{Sim, agent, call, function, handoff, job, route, says, turn};

fn posting() -> JobDraft {
    job([agent("root", "post work")]).tools([
        function("post")
            .effect(EffectClass::AtMostOnce)
            .asks_what_became_of_it()
            .output(json!({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]})),
        function("work"),
    ])
}

/// Returns a run that crashed while `post` ran.
fn crashed() -> Sim {
    let mut sim =
        Sim::new(&posting()).holding("post").agent("root", [turn([call("post", "a")]), turn([handoff("done")])]).start();
    sim.crash();
    sim.settle();
    sim
}

fn after(answer: Value) -> CallResult {
    let mut sim = crashed();
    assert_eq!(sim.task("0/1.1/outcome").created.concern, Some(Concern::Outcome));
    assert!(sim.run.waits_only_for_people());
    sim.person_answers("0/1.1/outcome", answer).unwrap();
    sim.assert_over();
    assert_eq!(sim.executions("0/1.1"), 1, "it is never run again");
    sim.result("0/1.1")
}

#[test]
fn the_answer_is_the_result_of_the_call() {
    let done = after(json!({"outcome": "done", "output": {"id": 7}}));
    assert_eq!((done.status, &*done.output.text()), (CallStatus::Success, r#"{"id":7}"#));
    let not_done = after(json!({"outcome": "not_done", "note": "the queue is empty"}));
    assert_eq!(not_done.status, CallStatus::Failed);
    assert!(not_done.error.unwrap().message.contains("the queue is empty"));
    let unknown = after(json!({"outcome": "unknown"}));
    assert_eq!((unknown.status, unknown.error.unwrap().code), (CallStatus::UnknownOutcome, ErrorCode::UnknownOutcome));
}

#[test]
fn a_call_that_is_done_succeeds_without_its_output_only_if_nothing_is_promised_of_it() {
    let without_output = after(json!({"outcome": "done", "note": "seen at the bank"}));
    assert_eq!(without_output.status, CallStatus::UnknownOutcome, "code reads the id, and nothing repeats the call");
    assert_eq!(without_output.reason(), "the call was interrupted; it took effect, and it is not repeated (seen at the bank)");
    let draft = job([agent("root", "post")]).tools([function("post").effect(EffectClass::AtMostOnce).asks_what_became_of_it()]);
    let mut sim = Sim::new(&draft).holding("post").agent("root", [turn([call("post", "a")]), turn([handoff("done")])]).start();
    sim.crash();
    sim.settle();
    sim.person_answers("0/1.1/outcome", json!({"outcome": "done"})).unwrap();
    sim.assert_over();
    let done = sim.result("0/1.1");
    assert_eq!((done.status, &done.output.value()["outcome"]), (CallStatus::Success, &json!("done")));
}

#[test]
fn an_output_that_breaks_the_tools_schema_is_no_answer() {
    let mut sim = crashed();
    assert!(sim.person_answers("0/1.1/outcome", json!({"outcome": "done", "output": {"id": "seven"}})).is_err());
    assert!(sim.person_answers("0/1.1/outcome", json!({"outcome": "perhaps"})).is_err());
    sim.person_answers("0/1.1/outcome", json!({"outcome": "unknown"})).unwrap();
    sim.assert_over();
}

#[test]
fn without_an_answer_the_outcome_stays_unknown() {
    let mut sim = crashed();
    sim.cancel("0/1.1/outcome").unwrap();
    sim.assert_over();
    assert_eq!(sim.result("0/1.1").status, CallStatus::UnknownOutcome);
    let mut sim = crashed();
    sim.cancel("0").unwrap();
    sim.assert_over();
    assert_eq!(sim.result("0/1.1").status, CallStatus::UnknownOutcome, "that is what is known of it");
}

#[test]
fn a_second_crash_asks_the_same_question_and_no_other() {
    let mut sim = crashed();
    sim.crash();
    assert_eq!(sim.asked, [TaskId::from("0/1.1/outcome")]);
    sim.person_answers("0/1.1/outcome", json!({"outcome": "unknown"})).unwrap();
    sim.assert_over();
}

#[test]
fn calls_behind_one_in_doubt_wait_for_what_became_of_it() {
    let draft = job([agent("root", "post work save")]).tools([
        function("post").effect(EffectClass::AtMostOnce).asks_what_became_of_it(),
        function("work"),
        function("save").writing(),
    ]);
    let mut sim = Sim::new(&draft)
        .holding("post")
        .agent("root", [turn([call("post", "a"), call("work", "b"), call("save", "c")]), turn([handoff("done")])])
        .start();
    assert_eq!(sim.executions("0/1.3"), 0, "a writer runs alone");
    sim.crash();
    sim.settle();
    assert_eq!(sim.executions("0/1.3"), 0);
    sim.person_answers("0/1.1/outcome", json!({"outcome": "unknown"})).unwrap();
    sim.assert_over();
    assert_eq!(sim.executions("0/1.3"), 1);
}

#[test]
fn the_master_of_the_calling_task_is_asked() {
    let draft = job([agent("root", "route_to_child"), agent("child", "post")])
        .tool(function("post").effect(EffectClass::AtMostOnce).asks_what_became_of_it());
    let mut sim = Sim::new(&draft)
        .holding("post")
        .agent("root", [turn([route("child", "do it")]), turn([handoff("done")])])
        .agent("child", [turn([call("post", "a")]), says("posted")])
        .answers("root", [turn([handoff(json!({"outcome": "not_done"}))])])
        .start();
    sim.crash();
    sim.settle();
    sim.assert_over();
    assert_eq!(sim.task("0/1.1/1.1/outcome").created.holder, Holder::Agent("root".into()));
    assert_eq!(sim.result("0/1.1/1.1").status, CallStatus::Failed);
}

#[test]
fn a_writer_behind_a_call_in_doubt_waits_whatever_else_comes_to_its_end() {
    let draft = job([agent("root", "post work save")]).tools([
        function("post").effect(EffectClass::AtMostOnce).asks_what_became_of_it(),
        function("work"),
        function("save").writing(),
    ]);
    let mut sim = Sim::new(&draft)
        .holding("post")
        .holding("work")
        .agent("root", [turn([call("post", "a"), call("work", "b"), call("save", "c")]), turn([handoff("done")])])
        .start();
    sim.crash();
    sim.release("work");
    assert_eq!((sim.executions("0/1.2"), sim.executions("0/1.3")), (2, 0));
    sim.person_answers("0/1.1/outcome", json!({"outcome": "unknown"})).unwrap();
    sim.assert_over();
    assert_eq!(sim.executions("0/1.3"), 1);
}
