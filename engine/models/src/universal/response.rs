//! Calls and results as text: what the model wrote, and the `tool.response.v1` that answers it (seeds 000 and 001).

use baton_types::call::{CallError, CallResult, CallStatus, ModelCall};
use baton_types::entry::Said;
use baton_types::message::RepeatHint;
use serde_json::{Map, Value, json};

/// Returns a turn of the model as the short form of an envelope; a turn without calls as its text.
pub(super) fn envelope_text(text: &str, calls: &[&ModelCall]) -> String {
    if calls.is_empty() {
        return text.to_owned();
    }
    let requests: Vec<Value> = calls.iter().map(|call| request_object(call)).collect();
    json!({"message": text, "tool_requests": requests}).to_string()
}

fn request_object(call: &ModelCall) -> Value {
    let mut request = json!({
        "tool": call.shown_name(),
        "input": call.input,
        "requestId": call.provider_id,
        "return_to_llm": call.return_to_llm.unwrap_or(true),
    });
    if let Some(id) = &call.config_id {
        request["config_id"] = json!(id);
    }
    request
}

/// Returns the response to a call. `result` is `None` while the call still waits.
pub(super) fn response(asked: &ModelCall, result: Option<&CallResult>, hint: Option<RepeatHint>, said: &[Said]) -> Value {
    let id = asked.provider_id.as_deref().unwrap_or_default();
    let mut context = Map::new();
    context.insert("request_id".to_owned(), json!(id));
    context.insert("tool".to_owned(), json!(asked.shown_name()));
    let status = match result.map(|result| result.status) {
        None => "waiting",
        Some(CallStatus::Success | CallStatus::Partial) => "success",
        Some(_) => "error",
    };
    context.insert("status".to_owned(), json!(status));
    if let Some(result) = result {
        if result.status == CallStatus::Partial {
            context.insert("partial".to_owned(), json!(true));
        }
        let output = result.output.value();
        match &result.error {
            None => drop(context.insert("output".to_owned(), output)),
            Some(error) => {
                // The detail of an unreadable call repeats its text, which is in the answer before.
                let detail = if asked.malformed.is_some() { Value::Null } else { error.detail.value() };
                context.insert("output".to_owned(), failed_output(output, error, detail, result.status));
                context.insert("error".to_owned(), json!(error.message));
            }
        }
    }
    if let Some(hint) = hint {
        context.insert("hint".to_owned(), json!(hint));
    }
    if !said.is_empty() {
        context.insert("answered_in_your_name".to_owned(), json!(said));
    }
    json!({
        "schema_name": "tool.response.v1",
        "tags": ["tool:response", format!("request:{id}")],
        "context": context,
    })
}

/// Returns the output of a failed call: what it has, and the error with its code and `detail`.
fn failed_output(output: Value, error: &CallError, detail: Value, status: CallStatus) -> Value {
    let mut failed = match output {
        Value::Object(output) => output,
        Value::Null => Map::new(),
        other => Map::from_iter([("output".to_owned(), other)]),
    };
    failed.insert("error".to_owned(), json!(error.message));
    failed.insert("status".to_owned(), json!(status.as_str()));
    failed.insert("code".to_owned(), json!(error.code.as_str()));
    if !detail.is_null() {
        failed.insert("detail".to_owned(), detail);
    }
    Value::Object(failed)
}
