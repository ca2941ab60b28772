//! The rules of one turn in detail: execution order, refusals with reasons, and recipients of results.

use expect_test::expect;
use std::cell::RefCell;
use std::rc::Rc;

use baton_types::call::{CallStatus, ErrorCode};
use baton_types::entry::{CallRefused, Entry, FinalState, Notice, ReminderReason, UserOutput};
use baton_types::event::Outcome;
use baton_types::id::CallId;
use baton_types::json::Json;
use baton_types::limits::Limits;
use baton_types::message::{Part, Role};
use baton_types::model::{FinishReason, ModelTurn};
use serde_json::json;

use crate::support::sim::Work;
use crate::support::{
    Sim, agent, ask, call, call_with, check, error, function, handoff, handoff_with, job, malformed, note, route, says, turn,
    write, writes,
};

/// Returns the calls that run, in the order in which they were begun.
fn running(sim: &Sim) -> Vec<String> {
    let calls = sim.pending.iter().map(|work| match work {
        Work::Execute(execution) => format!("{} {}", execution.call, execution.tool),
        Work::Prompt { task, turn, .. } => format!("{task} turn {turn}"),
    });
    calls.collect()
}

/// Returns the refusals of a run, in order.
fn refusals(sim: &Sim) -> Vec<&CallRefused> {
    let refused = sim.timeline.iter().filter_map(|recorded| match &recorded.entry {
        Entry::CallRefused(refused) => Some(refused),
        _ => None,
    });
    refused.collect()
}

#[test]
fn a_writer_runs_alone_and_its_neighbours_together() {
    let draft = job([agent("root", "read save")]).tools([function("read"), function("save").writing()]);
    let calls = ["read", "read", "save", "read", "read", "save", "save"];
    let mut sim = Sim::new(&draft)
        .agent(
            "root",
            [turn(calls.iter().enumerate().map(|(place, tool)| call(tool, &place.to_string()))), turn([handoff("done")])],
        )
        .holding("read")
        .holding("save")
        .start();
    assert_eq!(running(&sim), ["0/1.1 read", "0/1.2 read"], "neighbours that do not write run together");
    sim.returned("0/1.2", Outcome::success(json!(2))).expect("it runs");
    assert_eq!(running(&sim), ["0/1.1 read"], "a writer waits for all calls before it");
    sim.returned("0/1.1", Outcome::success(json!(1))).expect("it runs");
    assert_eq!(running(&sim), ["0/1.3 save"], "a writer runs alone");
    sim.returned("0/1.3", Outcome::success(json!(3))).expect("it runs");
    assert_eq!(running(&sim), ["0/1.4 read", "0/1.5 read"]);
    sim.returned("0/1.4", Outcome::success(json!(4))).expect("it runs");
    sim.returned("0/1.5", Outcome::success(json!(5))).expect("it runs");
    assert_eq!(running(&sim), ["0/1.6 save"], "writers that are neighbours run one after the other");
    sim.returned("0/1.6", Outcome::success(json!(6))).expect("it runs");
    assert_eq!(running(&sim), ["0/1.7 save"]);
    sim.release("save");
    sim.assert_over();
}

#[test]
fn a_call_sees_what_the_calls_before_it_wrote() {
    let draft = job([agent("root", "read save")]).tools([function("read"), function("save").writing()]);
    let sim = Sim::new(&draft)
        .agent("root", [turn([call("save", "a"), call("read", "a")]), turn([handoff("done")])])
        .tool("save", |_| writes(json!("saved"), vec![write("a.md", "text")]))
        .start();
    let places: Vec<&str> = sim
        .timeline
        .iter()
        .filter_map(|recorded| match &recorded.entry {
            Entry::DocumentWritten(_) => Some("written"),
            Entry::CallStarted(started) if started.tool == "read" => Some("read"),
            _ => None,
        })
        .collect();
    assert_eq!(places, ["written", "read"]);
    sim.assert_over();
}

#[test]
fn calls_beyond_the_parallel_limit_wait_and_none_is_refused() {
    let limits = Limits { parallel_calls: Some(2), ..Limits::default() };
    let draft = job([agent("root", "work").limits(limits)]).tool(function("work"));
    let mut sim = Sim::new(&draft)
        .agent("root", [turn((0..5).map(|mark| call("work", &mark.to_string()))), turn([handoff("done")])])
        .holding("work")
        .start();
    assert_eq!(running(&sim), ["0/1.1 work", "0/1.2 work"]);
    sim.returned("0/1.2", Outcome::success(json!(2))).expect("it runs");
    assert_eq!(running(&sim), ["0/1.1 work", "0/1.3 work"]);
    sim.release("work");
    assert!(refusals(&sim).is_empty());
    sim.assert_over();
}

#[test]
fn the_parallel_limit_of_the_run_holds_over_all_its_tasks() {
    let most = Rc::new(RefCell::new(0));
    let draft = job([agent("root", "route_to_child"), agent("child", "work")])
        .tool(function("work"))
        .limits(Limits { parallel_calls: Some(3), ..Limits::default() });
    for seed in 0..20 {
        let mut sim = Sim::new(&draft)
            .agent("root", [turn((0..4).map(|mark| route("child", &mark.to_string()))), turn([handoff("done")])])
            .agent("child", [turn((0..4).map(|mark| call("work", &mark.to_string()))), turn([handoff("done")])])
            .by_chance(seed);
        sim.begin(Vec::new());
        loop {
            let running = sim.pending.iter().filter(|work| matches!(work, Work::Execute(_))).count();
            assert!(running <= 3, "{running} calls run at once");
            let before: usize = *most.borrow();
            *most.borrow_mut() = before.max(running);
            if !sim.step() {
                break;
            }
        }
        assert!(refusals(&sim).is_empty());
        sim.assert_over();
    }
    assert_eq!(*most.borrow(), 3, "the limit is used");
}

#[test]
fn results_are_rendered_in_call_order_whatever_order_they_come_in() {
    let draft = job([agent("root", "work")]).tool(function("work"));
    let sim = |order: [usize; 3]| {
        let mut sim = Sim::new(&draft)
            .agent("root", [turn([call("work", "a"), call("work", "b"), call("work", "c")]), turn([handoff("done")])])
            .holding("work")
            .start();
        for position in order {
            sim.returned(&format!("0/1.{position}"), Outcome::success(json!(position))).expect("it runs");
        }
        sim.settle();
        sim.assert_over();
        sim
    };
    let forwards = sim([1, 2, 3]);
    for order in [[3, 2, 1], [2, 3, 1], [3, 1, 2]] {
        let other = sim(order);
        assert_eq!(forwards.request("0").messages, other.request("0").messages, "{order:?}");
        assert_eq!(forwards.request("0").hash, other.request("0").hash, "{order:?}");
        let finished: Vec<usize> = other
            .timeline
            .iter()
            .filter_map(|recorded| match &recorded.entry {
                Entry::CallFinished(finished) if finished.tool == "work" => {
                    finished.call.position().map(|(_, position)| position as usize)
                }
                _ => None,
            })
            .collect();
        assert_eq!(finished, order, "each result is committed when it arrives");
    }
}

#[test]
fn an_effective_handoff_waits_for_the_functions_of_its_turn() {
    let draft = job([agent("root", "work jot")]).tools([function("work"), note("jot")]);
    let sim = Sim::new(&draft).agent("root", [turn([handoff("done"), call("work", "a"), call("jot", "b")])]).start();
    check(
        &sim,
        expect![[r#"
        run started: go
        0 created: root for root, "go" master you
        0 turn 1 asked
        0 turn 1: handoff, work, jot
        0/1.3 jot success {"logged":true}
        0/1.2 work started
        0/1.2 work success "0/1.2"
        0/1.1 handoff success "done" [terminate]
        0 completed: success "done"
        run completed (success)
        "#]],
    );
}

#[test]
fn each_refused_handoff_says_why() {
    let draft = job([agent("root", "work ask_master route_to_child"), agent("child", "")]).tool(function("work"));
    let refused_beside = |beside: baton_types::call::ModelCall, status: CallStatus| {
        let mut sim = Sim::new(&draft)
            .agent("root", [turn([handoff("early"), beside]), turn([handoff("done")])])
            .agent("child", [turn([handoff("child")])])
            .tool("work", move |_| match status {
                CallStatus::Success => Outcome::success(json!(1)),
                other => Outcome::error(other, error(ErrorCode::ToolFailed)),
            })
            .start();
        if let Some(question) = sim.asked.first().cloned() {
            sim.person_answers(question.as_str(), "yes").expect("the question is open");
        }
        sim.assert_over();
        let handoffs: Vec<_> =
            refusals(&sim).into_iter().filter(|refused| refused.error.code == ErrorCode::HandoffRefused).cloned().collect();
        assert_eq!(handoffs[0].call, CallId::from("0/1.1"));
        handoffs[0].error.message.clone()
    };
    let second = refused_beside(handoff("again"), CallStatus::Success);
    let delegation = refused_beside(route("child", "x"), CallStatus::Success);
    let question = refused_beside(ask("x"), CallStatus::Success);
    let invalid = refused_beside(call("nothing", "x"), CallStatus::Success);
    assert!(second.contains("one handoff"), "{second}");
    assert!(delegation.contains("route_to_child") && delegation.contains("wait"), "{delegation}");
    assert!(question.contains("ask_master") && question.contains("wait"), "{question}");
    assert!(invalid.contains("nothing"), "{invalid}");
    for status in
        [CallStatus::Failed, CallStatus::Cancelled, CallStatus::Timeout, CallStatus::Partial, CallStatus::UnknownOutcome]
    {
        let unsuccessful = refused_beside(call("work", "x"), status);
        assert!(unsuccessful.contains("work"), "{status:?}: {unsuccessful}");
    }
}

#[test]
fn a_handoff_that_names_a_missing_document_is_refused_and_the_agent_goes_on() {
    let draft = job([agent("root", "")]);
    let sim = Sim::new(&draft).agent("root", [turn([handoff_with("early", &["missing.md"])]), turn([handoff("done")])]).start();
    let codes: Vec<ErrorCode> = refusals(&sim).iter().map(|refused| refused.error.code).collect();
    assert_eq!(codes, [ErrorCode::UnknownDocument]);
    assert_eq!(sim.task("0").turns, 2);
    sim.assert_over();
}

#[test]
fn invalid_calls_teach_and_touch_nothing_else() {
    let draft = job([agent("root", "work jot")]).tools([function("work"), function("withheld"), note("jot")]);
    let sim = Sim::new(&draft)
        .agent(
            "root",
            [
                turn([
                    call("nothing", "a"),
                    call("withheld", "a"),
                    call("Work", "a"),
                    call("work ", "a"),
                    call("w\u{43E}rk", "a"),
                    malformed("work"),
                    call_with("work", json!({"x": 7})),
                    call_with("work", json!([])),
                    call_with("jot", json!("text")),
                    call("work", "good"),
                ]),
                turn([handoff("done")]),
            ],
        )
        .start();
    sim.assert_over();
    let codes: Vec<&str> = refusals(&sim).iter().map(|refused| refused.error.code.as_str()).collect();
    assert_eq!(
        codes,
        [
            "unknown_tool",
            "unknown_tool",
            "unknown_tool",
            "unknown_tool",
            "unknown_tool",
            "malformed_input",
            "invalid_input",
            "invalid_input",
            "invalid_input"
        ]
    );
    for refused in refusals(&sim) {
        assert_eq!(sim.executions(refused.call.as_str()), 0);
        assert!(!refused.error.message.is_empty());
    }
    let unknown = refusals(&sim)[0].error.detail.text().to_owned();
    assert!(unknown.contains("jot") && unknown.contains("work") && unknown.contains("handoff"), "granted names: {unknown}");
    assert!(!unknown.contains("withheld"), "a tool that was not granted is not named: {unknown}");
    let invalid = refusals(&sim)[6].error.detail.text().to_owned();
    assert!(invalid.contains("/x"), "the pointer to the fault: {invalid}");
    assert_eq!(sim.executions("0/1.10"), 1, "the good call ran");
}

#[test]
fn an_argument_text_that_is_no_json_is_never_run_as_an_empty_input() {
    let draft = job([agent("root", "work")]).tool(function("work"));
    let sim = Sim::new(&draft).agent("root", [turn([malformed("work")]), turn([handoff("done")])]).start();
    assert_eq!(sim.executions("0/1.1"), 0);
    sim.assert_over();
}

#[test]
fn an_output_that_breaks_its_own_schema_is_an_error_result() {
    let draft = job([agent("root", "work")]).tool(function("work").output(json!({"type": "object", "required": ["rows"]})));
    let sim = Sim::new(&draft)
        .agent("root", [turn([call("work", "a")]), turn([handoff("done")])])
        .tool("work", |_| Outcome::success(json!({"row": 1})))
        .start();
    assert_eq!(sim.result("0/1.1").status, CallStatus::Failed);
    sim.assert_over();
}

#[test]
fn a_turn_cut_by_length_executes_nothing_although_its_calls_are_whole() {
    let draft = job([agent("root", "work")]).tool(function("work"));
    for finish in [
        baton_types::model::FinishReason::Length,
        baton_types::model::FinishReason::ContentFilter,
        baton_types::model::FinishReason::Refusal,
    ] {
        let cut = crate::support::stopped(turn([call("work", "a"), handoff("cut")]), finish);
        let sim = Sim::new(&draft).agent("root", [cut, turn([handoff("done")])]).start();
        sim.assert_over();
        assert_eq!(sim.executions("0/1.1"), 0);
        let codes: Vec<ErrorCode> = refusals(&sim).iter().map(|refused| refused.error.code).collect();
        assert_eq!(codes, [ErrorCode::TurnDiscarded, ErrorCode::TurnDiscarded], "{finish:?}");
        let result = sim.task("0").result.clone().expect("it ended");
        assert_eq!(result.output, Json::from(json!("done")).into());
    }
}

#[test]
fn the_results_of_a_turn_follow_it_in_one_message() {
    let draft = job([agent("root", "work route_to_child"), agent("child", "")]).tool(function("work"));
    let sim = Sim::new(&draft)
        .agent("root", [turn([route("child", "x"), call("nothing", "x"), call("work", "x")]), turn([handoff("done")])])
        .agent("child", [says("here")])
        .start();
    sim.assert_over();
    let request = sim.request("0");
    let roles: Vec<Role> = request.messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool]);
    let results = request.messages[2].parts.iter().filter(|part| matches!(part, Part::Result { result: Some(_), .. })).count();
    assert_eq!(results, 3);
}

#[test]
fn a_task_whose_calls_wait_for_a_place_works_and_is_not_blocked() {
    let draft = job([agent("root", "route_to_one route_to_two"), agent("one", "work"), agent("two", "work")])
        .tool(function("work"))
        .limits(Limits { parallel_calls: Some(1), ..Limits::default() });
    let sim = Sim::new(&draft)
        .holding("work")
        .agent("root", [turn([route("one", "1"), route("two", "2")]), turn([handoff("done")])])
        .agent("one", [turn([call("work", "a")])])
        // A refused call has its result at once, and the turn still waits only for the running one.
        .agent("two", [turn([malformed("work"), call("work", "b")])])
        .start();
    assert_eq!(running(&sim), ["0/1.1/1.1 work"]);
    assert!(sim.ledger.calls[&CallId::from("0/1.2/1.1")].refused);
    assert_eq!(sim.run.task(&"0/1.2".into()).unwrap().phase.as_str(), "acting");
}

#[test]
fn turns_of_malformed_calls_alone_are_reminded_twice_and_then_fail_the_task() {
    let nonsense = || turn([malformed("work"), malformed("work")]);
    let sim = Sim::new(&job([agent("root", "work")]).tool(function("work")))
        .agent("root", [nonsense(), nonsense(), nonsense()])
        .start();
    sim.assert_over();
    assert_eq!(sim.refusal("0/1.1").code, ErrorCode::MalformedInput, "each call is told what is wrong with it");
    let reminders = sim.timeline.iter().filter(|recorded| {
        matches!(&recorded.entry, Entry::ModelRequested(asked)
            if matches!(asked.notice, Some(Notice::Reminder { reason: ReminderReason::Malformed, .. })))
    });
    assert_eq!(reminders.count(), 2);
    let end = sim.task("0").result.clone().unwrap();
    assert_eq!(end.error.as_ref().map(|error| error.code), Some(ErrorCode::NoHandoff));

    let mixed = || turn([malformed("work"), call("work", "a")]);
    let mut turns = vec![mixed(), mixed(), mixed(), mixed()];
    turns.push(turn([handoff("done")]));
    let sim = Sim::new(&job([agent("root", "work")]).tool(function("work"))).agent("root", turns).start();
    sim.assert_over();
    assert_eq!(sim.task("0").ended, Some(FinalState::Completed), "a turn with a call that can be read counts");
}

/// Returns the messages of turns to the user, in order, as `task turn: message`.
fn messages(sim: &Sim) -> Vec<String> {
    let messages = sim.entries().filter_map(|entry| match entry.user_output()? {
        UserOutput::Message { task, turn, message } => Some(format!("{task} {turn}: {message}")),
        UserOutput::Result { .. } => None,
    });
    messages.collect()
}

fn beside(text: &str, calls: ModelTurn) -> ModelTurn {
    ModelTurn { text: text.to_owned(), ..calls }
}

#[test]
fn the_text_of_a_turn_with_calls_is_a_message_and_the_result_is_none() {
    let draft = job([agent("root", "read route_to_child"), agent("child", "read")]).tools([function("read")]);
    let sim = Sim::new(&draft)
        .agent(
            "root",
            [
                beside("I look first.", turn([call("read", "a")])),
                beside(" \n", turn([call("read", "b")])),
                beside("I delegate.", turn([route("child", "x"), call("unknown", "x")])),
                says("the result"),
            ],
        )
        .agent("child", [beside("I am at work.", turn([call("read", "c")])), says("the child's result")])
        .start();
    sim.assert_over();
    assert_eq!(messages(&sim), ["0 1: I look first.", "0 3: I delegate.", "0/3.1 1: I am at work."]);
}

#[test]
fn the_text_of_a_turn_that_does_not_count_is_a_message() {
    let draft = job([agent("root", "read").reminded_on_text()]).tools([function("read")]);
    let cut = ModelTurn { finish: FinishReason::Length, ..says("I was cut") };
    let sim = Sim::new(&draft).agent("root", [says("May I?"), cut, turn([handoff("done")])]).start();
    sim.assert_over();
    assert_eq!(messages(&sim), ["0 1: May I?", "0 2: I was cut"]);
}
