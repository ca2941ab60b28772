//! The question whether a call may begin, and the decision in its answer.

use baton_types::call::{CallResult, CallStatus};
use baton_types::config::Tool;
use baton_types::json::Json;
use serde_json::{Value, json};

use crate::{QuestionText, shown_input};

/// Returns the question about a call of `tool` with `input`. With `may_change`, the answer may replace the input, and may approve
/// later calls that meet conditions.
pub fn question(tool: &Tool, input: &Json, may_change: bool) -> QuestionText {
    let title = tool.title.as_ref().map(|title| format!(" ({title})")).unwrap_or_default();
    let configuration = tool.configuration.as_ref();
    let with = configuration.map(|configuration| format!(" with the configuration {}", configuration.id)).unwrap_or_default();
    let request = format!(
        "May I call {}{title}{with}? It begins only once you approve it.\n\n{}\n\nIts input:\n{}",
        tool.id,
        tool.description,
        shown_input(input)
    );
    let mut answer_schema = json!({
        "type": "object",
        "properties": {
            "approved": {"type": "boolean", "description": "Whether the call may begin."},
            "reason": {"type": "string", "description": "The reason, for the agent that wants to make the call."}
        },
        "required": ["approved"],
        "additionalProperties": false
    });
    if may_change {
        let properties = &mut answer_schema["properties"];
        properties["input"] =
            json!({"type": "object", "description": "The input with which the call is approved, in place of that of the agent."});
        properties["class"] = json!({
            "type": "array",
            "description": "Conditions on inputs. Later calls of this tool that meet all of them are approved, too, until the run ends.",
            "items": {
                "type": "object",
                "properties": {"pointer": {"type": "string"}, "equals": {}, "prefix": {"type": "string"}},
                "required": ["pointer"],
                "additionalProperties": false
            },
            "minItems": 1
        });
    }
    QuestionText { request, answer_schema }
}

/// Checks that an ended question approves its call. The error is the reason why it does not.
pub fn check_approved(result: &CallResult) -> Result<(), String> {
    if result.status != CallStatus::Success {
        return Err(format!("no decision was made: {}", result.reason()));
    }
    let answer = result.output.value();
    match (answer.get("approved"), answer.get("reason").and_then(Value::as_str)) {
        (Some(Value::Bool(true)), _) => Ok(()),
        (_, Some(reason)) if !reason.trim().is_empty() => Err(reason.to_owned()),
        _ => Err("no reason was given".to_owned()),
    }
}
