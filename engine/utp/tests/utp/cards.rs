//! Seed 004, section 5: results and errors in cards.

use baton_types::call::AfterExecution::{Suspend, Terminate};
use baton_types::call::{CallError, CallResult, CallStatus, ErrorCode as TimelineCode};
use baton_types::json::Json;
use baton_utp::card::Card;
use baton_utp::error_code::ErrorCode;
use baton_utp::result::{Given, ResultError, ToolResultContent};
use baton_utp::status::Status;
use serde_json::{Value, json};

use crate::support::{bytes, result_card};

fn given(status: &str, result: Value, error: Option<ResultError>) -> ToolResultContent {
    Given { status: status.to_owned(), after_execution: None, result: result.into(), error }.content()
}

fn error(code: &str) -> ResultError {
    ResultError::new(ErrorCode::parse(code).expect("a code"), "it broke")
}

#[test]
fn a_bad_status_becomes_failed_with_invalid_status() {
    let content = given("done", json!({"a": 1}), None);
    assert_eq!((content.status, content.error.as_ref().expect("an error").code.as_str()), (Status::Failed, "invalid_status"));
    let content = given("done", json!(null), Some(error("auth_failed")));
    let kept = content.error.expect("an error").detail.value();
    assert_eq!(kept["error"]["code"], "auth_failed", "the error that was there is kept");
}

#[test]
fn an_error_with_success_becomes_failed() {
    let content = given("success", json!({"a": 1}), Some(error("auth_failed")));
    assert_eq!((content.status, content.error.expect("an error").code.as_str()), (Status::Failed, "auth_failed"));
}

#[test]
fn a_status_without_success_and_error_gets_unknown_error() {
    for status in ["failed", "canceled", "timeout", "partial"] {
        let content = given(status, json!(null), None);
        assert_eq!(content.status.as_str(), status);
        assert_eq!(content.error.expect("an error").code, ErrorCode::UNKNOWN_ERROR);
    }
    assert_eq!(given("success", json!(null), None).error, None);
}

#[test]
fn a_result_that_is_no_json_is_result_not_serializable() {
    let content = Given::success(&std::collections::BTreeMap::from([((1, 2), 3)])).content();
    assert_eq!((content.status, content.error.expect("an error").code.as_str()), (Status::Failed, "result_not_serializable"));
    assert_eq!(Given::success(&json!({"a": 1})).content().result.value(), json!({"a": 1}));
}

#[test]
fn a_failed_card_has_its_error_twice() {
    let cases = [
        (json!(null), json!({"error_code": "auth_failed", "error_message": "it broke"})),
        (json!({"hits": 1}), json!({"hits": 1, "error_code": "auth_failed", "error_message": "it broke"})),
        (json!([1]), json!({"output": [1], "error_code": "auth_failed", "error_message": "it broke"})),
        (json!({"error_code": "x"}), json!({"error_code": "auth_failed", "error_message": "it broke"})),
    ];
    for (result, expected) in cases {
        let content = given("failed", result, Some(error("auth_failed")));
        assert_eq!(content.result.value(), expected);
        let written = serde_json::to_value(&content).expect("it serialises");
        assert_eq!(written["error"], json!({"code": "auth_failed", "message": "it broke"}));
    }
}

#[test]
fn an_override_in_the_result_is_in_the_card_too() {
    let content = given("success", json!({"__cg_control": {"after_execution": "terminate"}}), None);
    assert_eq!(content.after_execution, Some(Terminate));
}

#[test]
fn error_codes_are_an_open_set_with_five_known_ones() {
    let known: Vec<String> = ErrorCode::OF_SEED.iter().map(ToString::to_string).collect();
    assert_eq!(known, ["tool_timeout", "auth_failed", "bad_request", "upstream_unavailable", "internal_error"]);
    assert_eq!(ErrorCode::parse("quota_of_vendor").expect("any name is a code").as_str(), "quota_of_vendor");
    assert_eq!(ErrorCode::parse(""), None);
}

#[test]
fn an_unknown_outcome_is_failed_with_that_code() {
    let result = CallResult::error(CallStatus::UnknownOutcome, CallError::new(TimelineCode::UnknownOutcome, "a crash"));
    let content = ToolResultContent::of(&result, Suspend);
    assert_eq!((content.status, content.error.as_ref().expect("an error").code.as_str()), (Status::Failed, "unknown_outcome"));
    assert_eq!(content.to_result().status, CallStatus::UnknownOutcome, "and back");
}

#[test]
fn the_error_of_a_foreign_card_keeps_its_code() {
    let mut card = result_card();
    card["content"] = json!({"status": "failed", "result": {"error_code": "quota", "error_message": "no more today"}});
    let card = Card::read_result(&bytes(&card)).expect("a card");
    let content = card.result().expect("a result");
    assert_eq!(content.error.as_ref().expect("the error within the result").code.as_str(), "quota");
    let result = content.to_result();
    let error = result.error.expect("an error");
    assert_eq!((error.code, error.message.as_str()), (TimelineCode::ToolFailed, "no more today"));
    assert_eq!(error.detail, Json::from(json!({"code": "quota"})));
}

#[test]
fn statuses_and_codes_of_timelines_have_a_spelling_on_the_wire() {
    let statuses = [
        (CallStatus::Success, "success"),
        (CallStatus::Failed, "failed"),
        (CallStatus::Cancelled, "canceled"),
        (CallStatus::Timeout, "timeout"),
        (CallStatus::Partial, "partial"),
        (CallStatus::UnknownOutcome, "failed"),
    ];
    for (status, spelling) in statuses {
        assert_eq!(Status::from(status).as_str(), spelling);
    }
    assert_eq!(ErrorCode::from(TimelineCode::TimedOut), ErrorCode::TOOL_TIMEOUT);
    assert_eq!(ErrorCode::from(TimelineCode::InvalidInput), ErrorCode::BAD_REQUEST);
    assert_eq!(ErrorCode::from(TimelineCode::LimitReached).as_str(), "limit_reached");
}
