//! Ends of turns: termination, results for the user, and reminders (rules 5 to 8).

use baton_types::call::{AfterExecution, CallStatus, ErrorCode};
use baton_types::entry::{Entry, FinalState, Notice, ReminderReason};
use baton_types::event::{Outcome, Produced};
use baton_types::id::TaskId;
use baton_types::message::Part;
use baton_types::model::{FinishReason, ModelTurn};
use expect_test::expect;
use serde_json::json;

use crate::support::jobs::JobDraft;
use crate::support::script::Execution;
use crate::support::{
    Sim, agent, ask, call, call_with, check, error, function, handoff, job, note, route, says, stopped, then, to_user, turn,
};

fn one_agent() -> JobDraft {
    job([agent("root", "work last jot")]).tools([
        function("work"),
        function("last").after(AfterExecution::Terminate),
        note("jot"),
    ])
}

fn root_result(sim: &Sim) -> (FinalState, CallStatus, String) {
    sim.assert_over();
    let root = &sim.ledger.tasks[&TaskId::root()];
    let result = root.result.as_ref().expect("the root has ended");
    (root.ended.expect("the root has ended"), result.status, result.output.text().into_owned())
}

fn turns(sim: &Sim) -> u32 {
    sim.ledger.tasks[&TaskId::root()].turns
}

fn envelope(after: Option<AfterExecution>) -> impl FnMut(&crate::support::script::Execution) -> Outcome {
    move |_| Outcome { after, ..Outcome::success(json!("out")) }
}

#[test]
fn the_envelope_outranks_the_call_the_call_the_config_and_the_config_the_row() {
    use AfterExecution::{Suspend, Terminate};
    let choices = [None, Some(Suspend), Some(Terminate)];
    for in_envelope in choices {
        for in_call in choices {
            for in_config in choices {
                let expected = in_envelope.or(in_call).or(in_config).unwrap_or(Suspend);
                let mut tool = function("work");
                if let Some(after) = in_config {
                    tool = tool.after(after);
                }
                let asked = match in_call {
                    Some(after) => then(call("work", "a"), after),
                    None => call("work", "a"),
                };
                let sim = Sim::new(&job([agent("root", "work")]).tool(tool))
                    .agent("root", [turn([asked]), turn([handoff("done")])])
                    .tool("work", envelope(in_envelope))
                    .start();
                let context = format!("envelope {in_envelope:?}, call {in_call:?}, config {in_config:?}");
                let (_, _, output) = root_result(&sim);
                let (expected_turns, expected_output) = if expected == Terminate { (1, "\"out\"") } else { (2, "\"done\"") };
                assert_eq!((turns(&sim), output.as_str()), (expected_turns, expected_output), "{context}");
            }
        }
    }
}

#[test]
fn control_fields_in_a_result_are_content_and_control_nothing() {
    let sim = Sim::new(&one_agent())
        .agent("root", [turn([call("work", "a")]), turn([handoff("done")])])
        .tool("work", |_| Outcome::success(json!({"__cg_control": {"after_execution": "terminate"}})))
        .start();
    assert_eq!(turns(&sim), 2, "content_controls_nothing");
    assert_eq!(root_result(&sim).2, "\"done\"");
}

#[test]
fn a_terminating_turn_ends_with_the_first_output_and_the_first_status_that_is_no_success() {
    let outcome = |status: CallStatus, output: &str| match status {
        CallStatus::Success => Outcome::success(json!(output)),
        other => {
            Outcome { output: Produced::Inline(json!(output).into()), ..Outcome::error(other, error(ErrorCode::ToolFailed)) }
        }
    };
    let run = |statuses: [CallStatus; 3]| {
        let sim = Sim::new(&one_agent())
            .agent("root", [turn([call("work", "0"), call("last", "1"), call("last", "2"), call("last", "3")])])
            .tool("last", move |execution| {
                let (_, position) = execution.call.position().expect("a call has a position");
                outcome(statuses[position as usize - 2], &position.to_string())
            })
            .by_chance(7)
            .start();
        assert_eq!(turns(&sim), 1);
        root_result(&sim)
    };
    use CallStatus::{Cancelled, Failed, Success, Timeout};
    assert_eq!(run([Success, Success, Success]), (FinalState::Completed, Success, "\"2\"".to_owned()));
    assert_eq!(run([Success, Timeout, Failed]), (FinalState::TimedOut, Timeout, "\"2\"".to_owned()));
    assert_eq!(run([Failed, Timeout, Success]), (FinalState::Failed, Failed, "\"2\"".to_owned()));
    assert_eq!(run([Success, Success, Cancelled]), (FinalState::Cancelled, Cancelled, "\"2\"".to_owned()));
}

#[test]
fn a_result_that_does_not_terminate_has_no_say_in_the_status() {
    let sim = Sim::new(&one_agent())
        .agent("root", [turn([call("work", "a"), call("last", "b")])])
        .tool("work", |_| Outcome::error(CallStatus::Failed, error(ErrorCode::ToolFailed)))
        .tool("last", |_| Outcome::success(json!("out")))
        .start();
    assert_eq!(root_result(&sim), (FinalState::Completed, CallStatus::Success, "\"out\"".to_owned()));
}

#[test]
fn a_terminating_result_ends_the_task_although_another_call_was_refused() {
    // Rule 5(b) comes before 5(c).
    let sim = Sim::new(&one_agent()).agent("root", [turn([call("nothing", "a"), call("last", "b")])]).start();
    assert_eq!(turns(&sim), 1);
    assert_eq!(root_result(&sim).1, CallStatus::Success);
}

#[test]
fn a_terminating_result_ends_the_task_only_when_the_last_result_is_in() {
    let draft = job([agent("root", "last route_to_child"), agent("child", "work")])
        .tools([function("last").after(AfterExecution::Terminate), function("work")]);
    let mut sim = Sim::new(&draft)
        .agent("root", [turn([route("child", "x"), call("last", "a")])])
        .agent("child", [turn([call("work", "a")]), turn([handoff("child")])])
        .tool("last", |_| Outcome::success(json!("out")))
        .holding("work")
        .start();
    assert!(!sim.ended, "the delegation of the turn is awaited");
    sim.release("work");
    assert_eq!(turns(&sim), 1);
    assert_eq!(root_result(&sim), (FinalState::Completed, CallStatus::Success, "\"out\"".to_owned()));
    assert_eq!(sim.task("0/1.1").ended, Some(FinalState::Completed), "it was not cut off");
}

#[test]
fn an_effective_handoff_comes_before_a_terminating_result() {
    let sim = Sim::new(&one_agent())
        .agent("root", [turn([call("last", "a"), then(handoff("handed"), AfterExecution::Suspend)])])
        .tool("last", |_| Outcome::success(json!("out")))
        .start();
    assert_eq!(turns(&sim), 1);
    assert_eq!(root_result(&sim).2, "\"handed\"");
}

#[test]
fn a_delegation_that_asks_to_terminate_ends_the_caller_with_its_result() {
    let draft = job([agent("root", "route_to_child"), agent("child", "")]);
    let sim = Sim::new(&draft)
        .agent("root", [turn([then(route("child", "x"), AfterExecution::Terminate)])])
        .agent("child", [turn([handoff("child")])])
        .start();
    assert_eq!(root_result(&sim), (FinalState::Completed, CallStatus::Success, "\"child\"".to_owned()));
}

#[test]
fn a_note_that_asks_to_terminate_ends_the_task() {
    let sim = Sim::new(&one_agent()).agent("root", [turn([then(call("jot", "a"), AfterExecution::Terminate)])]).start();
    assert_eq!(root_result(&sim).1, CallStatus::Success);
    assert_eq!(turns(&sim), 1);
}

#[test]
fn results_that_all_go_to_the_user_end_the_task_with_message_and_outputs() {
    let speaking = ModelTurn { text: "look".to_owned(), ..turn([to_user(call("work", "a")), to_user(call("work", "b"))]) };
    let sim = Sim::new(&one_agent()).agent("root", [speaking]).start();
    check(
        &sim,
        expect![[r#"
        run started: go
        0 created: root for root, "go" master you
        0 turn 1 asked
        0 turn 1: "look" work return_to_llm=false, work return_to_llm=false
        0/1.1 work started
        0/1.2 work started
        0/1.1 work success "0/1.1"
        0/1.1 to the user: success "0/1.1"
        0/1.2 work success "0/1.2"
        0/1.2 to the user: success "0/1.2"
        0 completed: success {"message":"look","outputs":["0/1.1","0/1.2"]}
        run completed (success)
        "#]],
    );
}

#[test]
fn an_agent_is_asked_again_if_a_call_for_the_user_failed() {
    let failing = |execution: &Execution| match execution.call.as_str() {
        "0/1.2" => Outcome::error(CallStatus::Failed, crate::support::error(ErrorCode::ToolFailed)),
        _ => Outcome::success(json!("shown")),
    };
    let first = turn([to_user(call("work", "a")), to_user(call("work", "b"))]);
    let sim = Sim::new(&one_agent()).agent("root", [first, turn([handoff("done")])]).tool("work", failing).start();
    assert_eq!((turns(&sim), root_result(&sim).2.as_str()), (2, "\"done\""));
}

#[test]
fn an_agent_whose_results_have_a_schema_is_asked_again_after_results_for_the_user() {
    let draft =
        job([agent("root", "work").result_schema(json!({"type": "object", "required": ["total"]}))]).tools([function("work")]);
    let turns = [turn([to_user(call("work", "a"))]), turn([handoff(json!({"total": 7}))])];
    let sim = Sim::new(&draft).agent("root", turns).start();
    assert_eq!((self::turns(&sim), root_result(&sim).2.as_str()), (2, r#"{"total":7}"#));
}

#[test]
fn one_result_that_returns_prompts_the_agent() {
    for mixture in [
        vec![to_user(call("work", "a")), call("work", "b")],
        vec![call("work", "a"), to_user(call("work", "b"))],
        vec![to_user(call("work", "a")), call("jot", "b")],
    ] {
        let sim = Sim::new(&one_agent()).agent("root", [turn(mixture), turn([handoff("done")])]).start();
        assert_eq!(turns(&sim), 2);
        let outputs = sim.timeline.iter().filter(|recorded| matches!(recorded.entry, Entry::Output(_))).count();
        assert_eq!(outputs, 1);
        assert_eq!(root_result(&sim).2, "\"done\"");
    }
}

#[test]
fn a_result_for_the_user_leaves_a_receipt() {
    let sim = Sim::new(&one_agent())
        .agent("root", [turn([to_user(call("work", "a")), call("work", "b")]), turn([handoff("done")])])
        .tool("work", |execution| Outcome::success(json!(format!("long {}", execution.input.text()).repeat(1_000))))
        .start();
    sim.assert_over();
    let request = sim.request("0");
    let outputs = request.messages.iter().flat_map(|message| &message.parts).filter_map(|part| match part {
        Part::Result { result: Some(result), .. } => Some(result.output.shown().text().to_owned()),
        _ => None,
    });
    let outputs: Vec<String> = outputs.collect();
    assert_eq!(outputs[0], r#"{"sent_to_user":true}"#);
    assert!(outputs[1].starts_with("\"long {"), "{}", &outputs[1][..20]);
    let whole = sim.entries().filter_map(|entry| match entry {
        Entry::Output(output) => Some(output.output.text().len()),
        _ => None,
    });
    assert!(whole.eq([outputs[1].len()]), "the user gets all of it");
}

#[test]
fn a_refused_call_returns_to_the_agent_wherever_its_result_was_to_go() {
    let calls = [to_user(call("nothing", "a")), to_user(call("work", "b"))];
    let sim = Sim::new(&one_agent()).agent("root", [turn(calls), turn([handoff("done")])]).start();
    assert_eq!(turns(&sim), 2);
    let outputs = sim.timeline.iter().filter(|recorded| matches!(recorded.entry, Entry::Output(_))).count();
    assert_eq!(outputs, 1, "the refusal is no output");
    assert_eq!(root_result(&sim).2, "\"done\"");
}

#[test]
fn a_turn_that_says_return_to_the_agent_is_a_native_one() {
    let returning = baton_types::call::ModelCall { return_to_llm: Some(true), ..call("work", "a") };
    let sim = Sim::new(&one_agent()).agent("root", [turn([returning]), turn([handoff("done")])]).start();
    assert_eq!(turns(&sim), 2);
}

/// Returns the notices at the head of the root's turns.
fn notices(sim: &Sim) -> Vec<Option<Notice>> {
    let asked = sim.timeline.iter().filter_map(|recorded| match &recorded.entry {
        Entry::ModelRequested(asked) if asked.task == TaskId::root() => Some(asked.notice.clone()),
        _ => None,
    });
    asked.collect()
}

fn reminder(count: u32, reason: ReminderReason) -> Notice {
    Notice::Reminder { count, reason }
}

#[test]
fn each_turn_that_does_not_count_is_answered_by_a_reminder_that_says_why() {
    let reminding = || job([agent("root", "work").reminded_on_text()]).tool(function("work"));
    for (missing, reason) in [
        (says(""), ReminderReason::Empty),
        (says("  \n"), ReminderReason::Empty),
        (says("I will do it"), ReminderReason::TextOnly),
        (stopped(says("I will d"), FinishReason::Length), ReminderReason::Cut),
        (stopped(says(""), FinishReason::ContentFilter), ReminderReason::Filtered),
        (stopped(says("No."), FinishReason::Refusal), ReminderReason::Declined),
        (stopped(turn([call("work", "a")]), FinishReason::Length), ReminderReason::Cut),
    ] {
        let sim = Sim::new(&reminding()).agent("root", [missing, turn([handoff("done")])]).start();
        assert_eq!(notices(&sim), [None, Some(reminder(1, reason))]);
        assert_eq!(sim.executions("0/1.1"), 0);
        assert_eq!(root_result(&sim).2, "\"done\"");
    }
}

#[test]
fn a_good_turn_between_forgives_the_reminders_before_it() {
    let sim = Sim::new(&one_agent())
        .agent(
            "root",
            [
                says(""),
                says(""),
                turn([call("work", "a")]),
                says(""),
                says(""),
                turn([call("work", "b")]),
                turn([handoff("done")]),
            ],
        )
        .start();
    let empty = |count| Some(reminder(count, ReminderReason::Empty));
    assert_eq!(notices(&sim), [None, empty(1), empty(2), None, empty(1), empty(2), None]);
    assert_eq!(root_result(&sim).0, FinalState::Completed);
}

#[test]
fn a_turn_of_refused_calls_is_no_reminder() {
    let wrong = || turn([call("nothing", "a")]);
    let sim = Sim::new(&one_agent()).agent("root", [wrong(), wrong(), wrong(), wrong(), turn([handoff("done")])]).start();
    assert_eq!(notices(&sim), [None, None, None, None, None]);
    assert_eq!(root_result(&sim).0, FinalState::Completed);
}

#[test]
fn the_third_turn_in_a_row_that_does_not_count_fails_the_task() {
    let draft = job([agent("root", "work").reminded_on_text()]).tool(function("work"));
    let sim = Sim::new(&draft).agent("root", [says("a"), stopped(says("b"), FinishReason::Length), says("")]).start();
    sim.assert_over();
    let root = &sim.ledger.tasks[&TaskId::root()];
    let code = root.result.as_ref().and_then(|result| result.error.as_ref()).map(|error| error.code);
    assert_eq!((root.ended, code, root.turns), (Some(FinalState::Failed), Some(ErrorCode::NoHandoff), 3));
    assert_eq!(
        notices(&sim),
        [None, Some(reminder(1, ReminderReason::TextOnly)), Some(reminder(2, ReminderReason::Cut))],
        "reminders of different reasons count together"
    );
}

#[test]
fn a_text_that_breaks_the_result_schema_is_reminded_of_it_and_one_that_meets_it_is_the_result() {
    let schema = json!({"type": "object", "required": ["total"], "properties": {"total": {"type": "number"}}});
    let draft = job([agent("root", "").result_schema(schema)]);
    let sim = Sim::new(&draft).agent("root", [says("about seven"), says(r#"{"total": 7}"#)]).start();
    assert_eq!(notices(&sim), [None, Some(reminder(1, ReminderReason::InvalidResult))]);
    let (state, status, output) = root_result(&sim);
    assert_eq!((state, status), (FinalState::Completed, CallStatus::Success));
    assert_eq!(serde_json::from_str::<serde_json::Value>(&output).expect("JSON"), json!({"total": 7}));
}

#[test]
fn a_request_says_the_schema_of_its_text_only_where_its_text_is_held_to_one() {
    let schema = || json!({"type": "string"});
    let says = |sim: &Sim, task: &str| -> Vec<bool> {
        let asked = sim.entries().filter_map(|entry| match entry {
            Entry::ModelRequested(asked) if asked.task.as_str() == task => Some(asked.says_result_schema),
            _ => None,
        });
        asked.collect()
    };
    let alone = |agent| Sim::new(&job([agent])).agent("root", [turn([handoff("7")])]).start();
    assert_eq!(says(&alone(agent("root", "")), "0"), [false]);
    assert_eq!(says(&alone(agent("root", "").reminded_on_text()), "0"), [false]);
    assert_eq!(says(&alone(agent("root", "").result_schema(schema())), "0"), [true]);
    assert_eq!(says(&alone(agent("root", "").result_schema(schema()).reminded_on_text()), "0"), [false]);
    let free = call_with("ask_master", json!({"question": "which?"}));
    let held = call_with("ask_master", json!({"question": "which?", "answer_schema": schema()}));
    for (question, expected) in [(free, false), (held, true)] {
        let root = agent("root", "route_to_child").result_schema(schema()).reminded_on_text();
        let sim = Sim::new(&job([root, agent("child", "ask_master")]))
            .agent("root", [turn([route("child", "x")]), turn([handoff("7")])])
            .agent("child", [turn([question]), turn([handoff("done")])])
            .answers("root", [crate::support::says("7")])
            .start();
        assert_eq!(says(&sim, "0/1.1/1.1"), [expected]);
        assert_eq!(says(&sim, "0"), [false, false], "its own text is no result");
    }
}

#[test]
fn a_handoff_that_breaks_the_result_schema_is_refused() {
    let schema = json!({"type": "object", "required": ["total"]});
    let draft = job([agent("root", "").result_schema(schema)]);
    let sim = Sim::new(&draft).agent("root", [turn([handoff("seven")]), turn([handoff(json!({"total": 7}))])]).start();
    assert_eq!(turns(&sim), 2);
    let (_, _, output) = root_result(&sim);
    assert_eq!(output, r#"{"total":7}"#);
}

#[test]
fn a_text_beside_calls_is_no_result() {
    let speaking = ModelTurn { text: "I am on it".to_owned(), ..turn([call("work", "a")]) };
    let sim = Sim::new(&one_agent()).agent("root", [speaking, says("here it is")]).start();
    assert_eq!(root_result(&sim).2, "\"here it is\"");
}

#[test]
fn an_agent_that_must_use_tools_may_answer_questions_in_words() {
    let draft = job([agent("root", "route_to_child").reminded_on_text(), agent("child", "ask_master")]);
    let sim = Sim::new(&draft)
        .agent("root", [turn([route("child", "x")]), turn([handoff("done")])])
        .agent("child", [turn([ask("which?")]), turn([handoff("child")])])
        .answers("root", [says("that one")])
        .start();
    assert_eq!(root_result(&sim).0, FinalState::Completed);
}
