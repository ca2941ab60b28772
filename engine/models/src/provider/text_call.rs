//! Calls in the text of a native turn, which small models on local servers write in place of tool calls.
//!
//! A text is such a call if it is exactly one object `{"name": …, "arguments": {…}}` that names an offered tool,
//! possibly in one code fence. Any other text stays the model's text. JSON that is copied word for word from a document,
//! a result or a request is never a call.

use std::sync::Arc;

use baton_schema::provider::CompiledTool;
use baton_types::call::ModelCall;
use baton_types::json::Json;
use baton_types::model::{FinishReason, ModelRequest, ModelTurn};
use serde_json::{Map, Value, json};

use crate::error::ModelError;
use crate::model::ContentSource;
use crate::universal::{Found, is_copied, values};

/// Returns `turn` with the call of an offered tool that its text is; otherwise as it is.
pub(super) async fn with_text_call(
    turn: ModelTurn,
    tools: &[Arc<CompiledTool>],
    request: &ModelRequest,
    contents: &dyn ContentSource,
) -> Result<ModelTurn, ModelError> {
    // A cut answer counts too: only white space can follow the call.
    if !turn.calls.is_empty() || !matches!(turn.finish, FinishReason::Stop | FinishReason::Length) {
        return Ok(turn);
    }
    let Some((text, name, input)) = call_in(&turn.text) else { return Ok(turn) };
    let Some(tool) = tools.iter().find(|tool| tool.name == name) else { return Ok(turn) };
    let object = json!({"name": name, "arguments": input});
    if is_copied(text, &object, request, contents).await? {
        return Ok(turn);
    }
    let input = tool.restored(&Json::from(Value::Object(input)));
    let name = Some(name).filter(|name| name != tool.id.as_str()).map(Into::into);
    let call = ModelCall { name, ..ModelCall::new(tool.id.as_str(), input) };
    // Items refer to the text, which is no longer part of the turn.
    Ok(ModelTurn { text: String::new(), calls: vec![call], finish: FinishReason::ToolCalls, items: Json::null(), ..turn })
}

/// Returns the only object of `text` with its name and arguments, if it is such a call.
fn call_in(text: &str) -> Option<(&str, String, Map<String, Value>)> {
    let text = text.trim();
    let object = match text.strip_prefix("```") {
        Some(fenced) => fenced.split_once('\n')?.1,
        None => text,
    };
    let mut found = values(text).found;
    let Some(Found { text: json, value: Value::Object(mut fields), is_quoted: false }) = found.pop() else { return None };
    let rest = object.trim_start().strip_prefix(json)?.trim();
    // A fence that the answer's limit cut off is not closed.
    let is_alone = rest.is_empty() || (rest == "```" && text.starts_with("```"));
    match (fields.shift_remove("name"), fields.shift_remove("arguments")) {
        (Some(Value::String(name)), Some(Value::Object(input))) if is_alone && fields.is_empty() => Some((json, name, input)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::call_in;

    #[test]
    fn one_object_is_a_call_with_or_without_a_fence() {
        for text in [
            r#"{"name": "add", "arguments": {"a": 1}}"#,
            "\n {\"arguments\": {\"a\": 1}, \"name\": \"add\"} \n\n\n",
            "```json\n{\"name\": \"add\", \"arguments\": {\"a\": 1,}}\n```\n\n",
            "```\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n\n\n",
        ] {
            let (_, name, input) = call_in(text).unwrap_or_else(|| panic!("{text} is no call"));
            assert_eq!((name.as_str(), input["a"].as_i64()), ("add", Some(1)), "{text}");
        }
    }

    #[test]
    fn any_other_text_stays() {
        for text in [
            "",
            "add",
            "I add. {\"name\": \"add\", \"arguments\": {}}",
            "{\"name\": \"add\", \"arguments\": {}} Done.",
            "```json\n{\"name\": \"add\", \"arguments\": {}}\n```\nDone.",
            "```json\n{\"name\": \"add\", \"arguments\": {}}\n``` ```",
            "{\"name\": \"add\", \"arguments\": {}}\n{\"name\": \"add\", \"arguments\": {}}",
            "[{\"name\": \"add\", \"arguments\": {}}]",
            "{\"name\": \"add\", \"arguments\": {}, \"id\": 1}",
            "{\"name\": \"add\", \"arguments\": \"{}\"}",
            "{\"name\": \"add\"}",
            "{\"name\": \"add\", \"arguments\": {\"a\": 1}",
            "\"{\"name\": \"add\", \"arguments\": {}}\"",
        ] {
            assert_eq!(call_in(text), None, "{text}");
        }
    }
}
