//! Calls whose effect is not known: the question about the outcome of one, the outcome in its answer, and the result without one.

use baton_types::call::{CallError, CallResult, CallStatus, ErrorCode};
use baton_types::config::Tool;
use baton_types::json::Json;
use serde_json::{Value, json};

use crate::{QuestionText, shown_input};

/// Returns the question about the outcome of an interrupted call of `tool` with `input`.
pub fn question(tool: &Tool, input: &Json) -> QuestionText {
    let request = format!(
        "A crash interrupted a call of {}. Whether it took effect is not known, and it is not repeated. What became of it?\n\n{}\n\nIts input:\n{}",
        tool.id,
        tool.description,
        shown_input(input)
    );
    let answer_schema = json!({
        "type": "object",
        "properties": {
            "outcome": {"enum": ["done", "not_done", "unknown"], "description": "Whether it took effect."},
            "output": output_schema(tool),
            "note": {"type": "string", "description": "What else the caller should know."}
        },
        "required": ["outcome"],
        "additionalProperties": false
    });
    QuestionText { request, answer_schema }
}

/// Returns the result of an interrupted call of `tool`, after the question about its outcome ended with `answer`.
pub fn result(tool: &Tool, answer: &CallResult) -> CallResult {
    let told = if answer.status == CallStatus::Success { answer.output.value() } else { Value::Null };
    let note = told.get("note").and_then(Value::as_str);
    match told.get("outcome").and_then(Value::as_str) {
        Some("done") => {
            let lost = note.unwrap_or("the call took effect before a crash; its output is lost");
            let output = told.get("output").cloned().unwrap_or_else(|| json!({"outcome": "done", "note": lost}));
            // Code that reads the output relies on its schema.
            let has_form = tool.output.as_ref().is_none_or(|schema| schema.check(&output).is_ok());
            if has_form { CallResult::success(output) } else { without_output(lost) }
        }
        Some("not_done") => {
            let note = note.map(|note| format!(": {note}")).unwrap_or_default();
            let message = format!("a crash interrupted the call before it took effect{note}");
            CallResult::error(CallStatus::Failed, CallError::new(ErrorCode::ToolFailed, message))
        }
        _ => unknown(note),
    }
}

/// Returns the result of a call whose effect is not known.
pub fn unknown(note: Option<&str>) -> CallResult {
    let note = note.map(|note| format!(" ({note})")).unwrap_or_default();
    let message = format!("the call was interrupted; it is unknown whether it took effect, so it is not repeated{note}");
    CallResult::error(CallStatus::UnknownOutcome, CallError::new(ErrorCode::UnknownOutcome, message))
}

/// Returns the result of a call that took effect and whose output is lost, with `note` in its error. Its status prevents a repetition.
fn without_output(note: &str) -> CallResult {
    let message = format!("the call was interrupted; it took effect, and it is not repeated ({note})");
    CallResult::error(CallStatus::UnknownOutcome, CallError::new(ErrorCode::UnknownOutcome, message))
}

/// Returns the schema of the `output` in an answer about an outcome. It is the tool's own schema, unless that refers to parts
/// of itself, which would be parts of another schema here.
fn output_schema(tool: &Tool) -> Value {
    let own = tool.output.as_ref().map(|schema| schema.json().value());
    own.filter(|schema| !schema.to_string().contains("\"$")).unwrap_or_else(|| json!({}))
}
