//! The resume order: one case for each of the 15 steps, and for what comes before what.

use baton_types::call::AfterExecution::{Suspend, Terminate};
use baton_types::json::Json;
use baton_utp::card::Card;
use baton_utp::id::{AgentTurnId, CardId, Name};
use baton_utp::resume::{
    CallState, CardLookup, DeadCode, Decision, IgnoreReason, Known, MISSING_CARD_PAUSE, RUNNING_PAUSE, Received, TurnState,
    UNKNOWN_TURN_PAUSE, decide, timed_out,
};
use baton_utp::status::Status;
use serde_json::{Value, json};

use crate::support::{bytes, callback, result_card, with, without};

/// The expected outcome of a case.
#[derive(Debug, PartialEq)]
enum Expected {
    Apply,
    Defer(std::time::Duration),
    Ignore(IgnoreReason),
    Dead(DeadCode),
}

fn known() -> Known {
    Known {
        turn: TurnState::Suspended,
        agent_turn_id: AgentTurnId::parse("7k2f/0/1.1").expect("a name"),
        turn_epoch: 3,
        call: CallState::Waiting,
        command_after: Suspend,
        controls_flow: true,
    }
}

fn found(card: &Value) -> CardLookup {
    CardLookup::Found(Box::new(Card::read_result(&bytes(card)).expect("a card")))
}

fn card_id(text: &str) -> CardId {
    CardId::parse(text).expect("a name")
}

fn decision(callback: &Value, known: &Known, card: &CardLookup) -> Decision {
    match Received::read(&bytes(callback)) {
        Ok(received) => decide(&received, known, card),
        Err(reason) => Decision::DeadLetter(reason),
    }
}

fn kind(decision: &Decision) -> Expected {
    match decision {
        Decision::Apply(_) => Expected::Apply,
        Decision::Defer(pause) => Expected::Defer(*pause),
        Decision::Ignore(reason) => Expected::Ignore(*reason),
        Decision::DeadLetter(reason) => Expected::Dead(reason.code),
    }
}

#[test]
fn the_resume_order_has_fifteen_steps() {
    use Expected::{Apply, Dead, Defer, Ignore};
    let (good, there) = (callback(), found(&result_card()));
    let is = |turn| Known { turn, ..known() };
    let call = |call| Known { call, ..known() };
    let other_card = |field: &str, value: &str| {
        let mut card = result_card();
        card["metadata"][field] = json!(value);
        found(&card)
    };
    let other_id = found(&with(result_card(), json!({"card_id": "result-2"})));
    let change = |changes: Value| with(callback(), changes);
    let (other_call, other_work) = (other_card("tool_call_id", "0/1.1/3.2"), other_card("agent_turn_id", "7k2f/0"));
    let missing = CardLookup::Missing;
    let cases: Vec<(&str, Value, Known, &CardLookup, Expected)> = vec![
        ("1 no tool_call_id", without(good.clone(), "tool_call_id"), known(), &there, Dead(DeadCode::MissingToolCallId)),
        ("1 no agent_id", without(good.clone(), "agent_id"), known(), &there, Dead(DeadCode::InvalidPayload)),
        ("1 an epoch that is a text", change(json!({"turn_epoch": "3"})), known(), &there, Dead(DeadCode::InvalidPayload)),
        ("2 the work is unknown", good.clone(), is(TurnState::Unknown), &there, Defer(UNKNOWN_TURN_PAUSE)),
        ("3 other work", change(json!({"agent_turn_id": "7k2f/0"})), known(), &there, Ignore(IgnoreReason::OtherTurn)),
        ("3 an old epoch", change(json!({"turn_epoch": 2})), known(), &there, Ignore(IgnoreReason::OtherEpoch)),
        ("3 a later epoch", change(json!({"turn_epoch": 4})), known(), &there, Ignore(IgnoreReason::OtherEpoch)),
        ("4 the work runs", good.clone(), is(TurnState::Running), &there, Defer(RUNNING_PAUSE)),
        ("4 the work is over", good.clone(), is(TurnState::Ended), &there, Ignore(IgnoreReason::TurnEnded)),
        ("5 an inline result", change(json!({"result": {}})), known(), &there, Dead(DeadCode::InvalidPayload)),
        ("6 no card", without(good.clone(), "tool_result_card_id"), known(), &there, Dead(DeadCode::MissingToolResultCard)),
        ("7 an unknown status", change(json!({"status": "done"})), known(), &there, Apply),
        ("7 no status", without(good.clone(), "status"), known(), &there, Dead(DeadCode::InvalidPayload)),
        ("8 an unknown step", change(json!({"after_execution": "stop"})), known(), &there, Dead(DeadCode::InvalidAfterExecution)),
        ("8 no step", without(good.clone(), "after_execution"), known(), &there, Dead(DeadCode::InvalidAfterExecution)),
        ("9 another call", good.clone(), known(), &other_call, Dead(DeadCode::WrongCard)),
        ("9 other work", good.clone(), known(), &other_work, Dead(DeadCode::WrongCard)),
        ("9 another card", good.clone(), known(), &other_id, Dead(DeadCode::WrongCard)),
        ("10 the card is not there", good.clone(), known(), &missing, Defer(MISSING_CARD_PAUSE)),
        ("11 no such call", good.clone(), call(CallState::Unknown), &there, Ignore(IgnoreReason::NotWaiting)),
        ("11 applied", good.clone(), call(CallState::Applied), &there, Ignore(IgnoreReason::Applied)),
        ("11 expired", good.clone(), call(CallState::Expired), &there, Ignore(IgnoreReason::Expired)),
        (
            "12 not the first result",
            good.clone(),
            call(CallState::Received(card_id("result-0"))),
            &there,
            Ignore(IgnoreReason::NotFirst),
        ),
        ("13 received before", good.clone(), call(CallState::Received(card_id("result-1"))), &there, Apply),
        ("13 waiting", good.clone(), known(), &there, Apply),
        // An earlier step decides.
        ("2 before 3", change(json!({"turn_epoch": 2})), is(TurnState::Unknown), &there, Defer(UNKNOWN_TURN_PAUSE)),
        ("3 before 5", change(json!({"turn_epoch": 2, "result": 1})), known(), &there, Ignore(IgnoreReason::OtherEpoch)),
        ("4 before 6", change(json!({"tool_result_card_id": ""})), is(TurnState::Running), &there, Defer(RUNNING_PAUSE)),
        ("5 before 6", change(json!({"result": 1, "tool_result_card_id": ""})), known(), &there, Dead(DeadCode::InvalidPayload)),
        (
            "6 before 8",
            change(json!({"tool_result_card_id": "", "after_execution": ""})),
            known(),
            &there,
            Dead(DeadCode::MissingToolResultCard),
        ),
        ("8 before 9", change(json!({"after_execution": ""})), known(), &other_id, Dead(DeadCode::InvalidAfterExecution)),
        ("9 before 11", good.clone(), call(CallState::Applied), &other_id, Dead(DeadCode::WrongCard)),
        ("10 before 11", good.clone(), call(CallState::Applied), &missing, Defer(MISSING_CARD_PAUSE)),
    ];
    for (name, callback, known, card, expected) in cases {
        assert_eq!(kind(&decision(&callback, &known, card)), expected, "{name}");
    }
}

#[test]
fn a_card_that_is_no_result_is_refused() {
    let mut call = baton_utp::card::Card::read_result(&bytes(&result_card())).expect("a card");
    call.content = baton_utp::card::Content::Thought(baton_utp::card::ThoughtContent { text: String::new() });
    let Decision::DeadLetter(reason) = decision(&callback(), &known(), &CardLookup::Found(Box::new(call))) else {
        panic!("a card of another type")
    };
    assert_eq!(reason.reason, "type is \"agent.thought\"; expected \"tool.result\" in the card");
}

#[test]
fn a_malformed_callback_names_its_fault() {
    let reason = Received::read(b"{").expect_err("no JSON");
    assert_eq!(reason.code, DeadCode::InvalidPayload);
    assert!(reason.reason.starts_with("the message is not a JSON object"), "{}", reason.reason);
    let Decision::DeadLetter(reason) = decision(&with(callback(), json!({"result": 1})), &known(), &CardLookup::Missing) else {
        panic!("an inline result")
    };
    assert_eq!(reason.reason, "result must not be in this message; the card tool_result_card_id holds the result");
}

#[test]
fn the_card_decides_the_status_and_an_unknown_status_is_a_failure() {
    let mut card = result_card();
    card["content"] = json!({"status": "timeout", "result": null, "error": {"code": "tool_timeout", "message": "slow"}});
    let Decision::Apply(applied) = decision(&callback(), &known(), &found(&card)) else { panic!("a result") };
    assert_eq!(applied.content.status, Status::Timeout, "the callback has success");
    let done = with(callback(), json!({"status": "done"}));
    let Decision::Apply(applied) = decision(&done, &known(), &found(&result_card())) else { panic!("a result") };
    assert_eq!(applied.content.status, Status::Failed);
    assert_eq!(applied.content.error.expect("an error").code.as_str(), "invalid_status");
    assert_eq!(applied.content.result.value()["hits"], 2, "the result is kept");
}

#[test]
fn a_callback_may_override_the_step_of_the_command() {
    let bare = with(result_card(), json!({"content": {"status": "success", "result": 1}}));
    let terminate = with(callback(), json!({"after_execution": "terminate"}));
    let after = |callback: &Value, known: &Known, card: &Value| match decision(callback, known, &found(card)) {
        Decision::Apply(applied) => applied.after_execution,
        other => panic!("{other:?}"),
    };
    assert_eq!(after(&terminate, &known(), &bare), Terminate);
    assert_eq!(after(&terminate, &known(), &result_card()), Suspend, "the card has suspend");
    assert_eq!(after(&terminate, &Known { controls_flow: false, ..known() }, &bare), Suspend);
    let mut control = result_card();
    control["content"]["result"] = json!({"__cg_control": {"after_execution": "terminate"}});
    assert_eq!(after(&callback(), &known(), &control), Terminate);
}

#[test]
fn a_step_id_is_not_needed_and_changes_nothing() {
    let there = found(&result_card());
    let whole = decision(&callback(), &known(), &there);
    assert_eq!(decision(&without(callback(), "step_id"), &known(), &there), whole);
    assert_eq!(decision(&with(callback(), json!({"step_id": "99"})), &known(), &there), whole);
}

#[test]
fn a_repeated_callback_has_one_effect() {
    let there = found(&result_card());
    let first = decision(&callback(), &known(), &there);
    assert_eq!(kind(&first), Expected::Apply);
    let applied = Known { call: CallState::Applied, ..known() };
    for _ in 0..3 {
        assert_eq!(kind(&decision(&callback(), &applied, &there)), Expected::Ignore(IgnoreReason::Applied));
    }
    let extended = with(callback(), json!({"attempt": 2, "sent_at": "later"}));
    assert_eq!(decision(&extended, &known(), &there), first, "only the call counts, not the rest of the message");
}

#[test]
fn a_deadline_gives_a_timeout_like_any_result() {
    let content = timed_out();
    assert_eq!(
        (content.status, content.result),
        (
            Status::Timeout,
            Json::from(json!({
                "error_code": "tool_timeout", "error_message": "no result came in time"
            }))
        )
    );
}
