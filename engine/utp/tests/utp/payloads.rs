//! Seed 004, sections 4.1 to 4.3: payloads.

use baton_types::call::AfterExecution;
use baton_utp::callback::{Callback, Wakeup};
use baton_utp::card::Card;
use baton_utp::command::{BuiltinCommand, ToolCommand};
use baton_utp::exchange::{CardGet, CardPut};
use baton_utp::read::PayloadError;
use baton_utp::status::Status;
use baton_utp::{MAX_CARD_BYTES, MAX_PAYLOAD_BYTES};
use serde_json::{Value, json};

use crate::support::{builtin_command, bytes, callback, card_get, card_put, result_card, tool_command, wakeup, with, without};

/// Reads a message, and writes what was kept of it.
type Read = fn(&[u8]) -> Result<Value, PayloadError>;

fn kept<T: serde::Serialize>(read: Result<T, PayloadError>) -> Result<Value, PayloadError> {
    read.map(|message| serde_json::to_value(message).expect("it serialises"))
}

/// Returns every message with its reader and its required fields.
pub(crate) fn messages() -> Vec<(&'static str, Value, Read, &'static [&'static str])> {
    vec![
        (
            "tool command",
            tool_command(),
            |bytes| kept(ToolCommand::read(bytes)),
            &["agent_id", "agent_turn_id", "turn_epoch", "tool_call_id", "after_execution", "tool_call_card_id"],
        ),
        (
            "built-in command",
            builtin_command(),
            |bytes| kept(BuiltinCommand::read(bytes)),
            &[
                "agent_id",
                "agent_turn_id",
                "turn_epoch",
                "step_id",
                "tool_call_id",
                "after_execution",
                "tool_call_card_id",
                "tool_name",
            ],
        ),
        (
            "callback",
            callback(),
            |bytes| kept(Callback::read(bytes)),
            &["tool_call_id", "agent_turn_id", "turn_epoch", "agent_id", "tool_result_card_id", "status", "after_execution"],
        ),
        ("wake-up", wakeup(), |bytes| kept(Wakeup::read(bytes)), &["agent_id"]),
        ("card request", card_get(), |bytes| kept(CardGet::read(bytes)), &["card_id"]),
        ("card to keep", card_put(), |bytes| kept(CardPut::read(bytes)), &["card"]),
        (
            "card",
            result_card(),
            |bytes| kept(Card::read_result(bytes)),
            &["card_id", "project_id", "type", "author_id", "metadata", "content"],
        ),
    ]
}

#[test]
fn a_message_is_read_and_written_without_loss() {
    for (name, message, read, _) in messages() {
        assert_eq!(read(&bytes(&message)).expect(name), message, "{name}");
    }
}

/// Checks the required fields of one message.
fn check_required(name: &str, count: usize) {
    let (_, message, read, required) = messages().into_iter().find(|(each, ..)| *each == name).expect("a message");
    assert_eq!(required.len(), count);
    for (field, _) in message.as_object().expect("an object").clone() {
        let outcome = read(&bytes(&without(message.clone(), &field)));
        if !required.contains(&field.as_str()) {
            outcome.unwrap_or_else(|error| panic!("{name} without {field}: {error}"));
            continue;
        }
        let error = outcome.expect_err(&field).to_string();
        assert!(error.starts_with(&format!("{field} is missing; expected ")), "{error}");
        for wrong in [json!(null), json!(true), json!([]), json!(-1), json!("")] {
            if field == "status" || (field == "turn_epoch" && wrong.is_u64()) {
                continue;
            }
            let error = read(&bytes(&with(message.clone(), json!({&*field: wrong})))).expect_err(&field).to_string();
            assert!(error.starts_with(&format!("{field} is {wrong}; expected ")), "{error}");
        }
    }
}

#[test]
fn a_tool_command_needs_six_fields() {
    check_required("tool command", 6);
}

#[test]
fn a_builtin_command_needs_eight_fields() {
    check_required("built-in command", 8);
}

#[test]
fn a_callback_needs_seven_fields_and_step_id_is_only_recommended() {
    check_required("callback", 7);
    let read = Callback::read(&bytes(&without(callback(), "step_id"))).expect("a callback");
    assert_eq!(read.step_id, None);
}

#[test]
fn tool_name_and_context_box_id_are_optional_in_a_tool_command() {
    let bare = without(without(without(tool_command(), "tool_name"), "context_box_id"), "step_id");
    let command = ToolCommand::read(&bytes(&bare)).expect("a command");
    assert_eq!((command.tool_name, command.context_box_id, command.step_id), (None, None, None));
    // `null` is the same as absent.
    let null = with(bare, json!({"tool_name": null, "context_box_id": null, "step_id": null}));
    ToolCommand::read(&bytes(&null)).expect("a command");
}

#[test]
fn a_command_without_its_card_is_refused() {
    for (name, message, read, _) in messages().into_iter().take(2) {
        let error = read(&bytes(&without(message, "tool_call_card_id"))).expect_err(name);
        assert_eq!(
            error.to_string(),
            "tool_call_card_id is missing; expected a text of 1 to 512 characters without control characters"
        );
    }
}

#[test]
fn inline_inputs_and_results_are_refused() {
    for (name, message, read, _) in messages().into_iter().take(4) {
        for field in ["args", "arguments", "result"] {
            for value in [json!({"q": 1}), json!(null)] {
                let error = read(&bytes(&with(message.clone(), json!({field: value})))).expect_err(name).to_string();
                assert!(error.starts_with(&format!("{field} must not be in this message")), "{name}: {error}");
            }
        }
    }
}

#[test]
fn a_status_is_one_of_five() {
    for status in ["success", "failed", "canceled", "timeout", "partial"] {
        let read = Callback::read(&bytes(&with(callback(), json!({"status": status})))).expect(status);
        assert_eq!(read.status.as_str(), status);
    }
    assert_eq!(Status::ALL.len(), 5);
    for status in [json!("ok"), json!("cancelled"), json!("Success"), json!(""), json!(null), json!(1)] {
        let error = Callback::read(&bytes(&with(callback(), json!({"status": status})))).expect_err("no status").to_string();
        assert_eq!(
            error,
            format!("status is {status}; expected \"success\", \"failed\", \"canceled\", \"timeout\" or \"partial\"")
        );
    }
}

#[test]
fn after_execution_is_suspend_or_terminate() {
    for (text, expected) in [("suspend", AfterExecution::Suspend), ("terminate", AfterExecution::Terminate)] {
        let read = Callback::read(&bytes(&with(callback(), json!({"after_execution": text})))).expect(text);
        assert_eq!(read.control.after_execution, expected);
    }
    for wrong in ["", "SUSPEND", "continue"] {
        Callback::read(&bytes(&with(callback(), json!({"after_execution": wrong})))).expect_err(wrong);
    }
}

#[test]
fn unknown_fields_are_ignored_and_kept_out() {
    for (name, message, read, _) in messages() {
        let extended = with(message.clone(), json!({"trace": {"deep": [1]}, "x-vendor": "y", "v2": null}));
        assert_eq!(read(&bytes(&extended)).expect(name), message, "{name}");
    }
    let mut card = result_card();
    card["metadata"]["trace_id"] = json!("t");
    card["content"]["extra"] = json!(1);
    card["content"]["error"] = json!(null);
    assert_eq!(kept(Card::read_result(&bytes(&card))).expect("a card"), result_card());
}

#[test]
fn control_fields_are_typed_apart_and_returned_unchanged() {
    let command = ToolCommand::read(&bytes(&tool_command())).expect("a command");
    let callback = Callback::read(&bytes(&callback())).expect("a callback");
    assert_eq!(command.control, callback.control);
    let written = serde_json::to_value(&command.control).expect("it serialises");
    let fields: Vec<&String> = written.as_object().expect("an object").keys().collect();
    assert_eq!(fields, ["agent_id", "agent_turn_id", "turn_epoch", "tool_call_id", "after_execution"]);
}

#[test]
fn all_faults_of_a_message_are_reported_at_once() {
    let message = with(without(callback(), "agent_id"), json!({"status": "ok", "result": 1, "turn_epoch": "3"}));
    let error = Callback::read(&bytes(&message)).expect_err("four faults");
    let fields: Vec<&str> = error.fields().iter().map(|fault| fault.field.as_str()).collect();
    assert_eq!(fields, ["result", "agent_id", "turn_epoch", "status"]);
}

#[test]
fn faults_within_a_card_name_the_whole_path() {
    let mut put = card_put();
    put["card"]["metadata"]["agent_turn_id"] = json!(7);
    put["card"]["content"]["status"] = json!(1);
    let error = CardPut::read(&bytes(&put)).expect_err("two faults");
    let fields: Vec<&str> = error.fields().iter().map(|fault| fault.field.as_str()).collect();
    assert_eq!(fields, ["card.metadata.agent_turn_id", "card.content.status"]);
}

#[test]
fn an_epoch_is_a_whole_number_of_63_bits() {
    for epoch in ["0", "9223372036854775807"] {
        let text = callback().to_string().replace("\"turn_epoch\":3", &format!("\"turn_epoch\":{epoch}"));
        Callback::read(text.as_bytes()).expect(epoch);
    }
    for epoch in ["-1", "1.5", "9223372036854775808", "1e400", "\"1\""] {
        let text = callback().to_string().replace("\"turn_epoch\":3", &format!("\"turn_epoch\":{epoch}"));
        Callback::read(text.as_bytes()).expect_err(epoch);
    }
}

#[test]
fn a_repeated_key_is_refused() {
    let text = callback().to_string().replacen('{', "{\"status\":\"failed\",", 1);
    let error = Callback::read(text.as_bytes()).expect_err("status occurs twice").to_string();
    assert!(error.contains("the key \"status\" occurs twice"), "{error}");
}

#[test]
fn a_message_over_its_size_is_refused_before_it_is_read() {
    let error = Callback::read(&vec![b'{'; MAX_PAYLOAD_BYTES + 1]).expect_err("too long");
    assert_eq!(error, PayloadError::TooLong { bytes: MAX_PAYLOAD_BYTES + 1, allowed: MAX_PAYLOAD_BYTES });
    let error = CardPut::read(&vec![b' '; MAX_CARD_BYTES + 1]).expect_err("too long");
    assert!(matches!(error, PayloadError::TooLong { .. }));
    let mut full = bytes(&callback());
    full.resize(MAX_PAYLOAD_BYTES, b' ');
    Callback::read(&full).expect("a message of exactly that size");
}

#[test]
fn a_service_may_keep_only_results() {
    for card_type in ["tool.call", "agent.thought", "task.deliverable", "sys.profile"] {
        let error = Card::read_result(&bytes(&with(result_card(), json!({"type": card_type})))).expect_err(card_type).to_string();
        assert_eq!(error, format!("type is \"{card_type}\"; expected \"tool.result\""));
    }
}

#[test]
fn a_repeated_command_names_the_same_call_and_the_same_card() {
    let of = |epoch| {
        let (run, call) = ("7k2f".into(), "0/1.1/3.1".into());
        ToolCommand::of(&run, &call, &"lead".into(), &"search".into(), epoch, AfterExecution::Suspend)
    };
    assert_eq!(of(3), of(3));
    let (first, later) = (of(3), of(4));
    assert_eq!((&first.control.tool_call_id, &first.tool_call_card_id), (&later.control.tool_call_id, &later.tool_call_card_id));
    let written = serde_json::to_vec(&first).expect("it serialises");
    assert_eq!(ToolCommand::read(&written).as_ref(), Ok(&first));
    let expected = without(tool_command(), "context_box_id");
    assert_eq!(serde_json::to_value(&first).expect("it serialises"), expected);
}
