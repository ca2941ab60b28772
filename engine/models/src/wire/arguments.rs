//! The arguments of a call: text that a model wrote, read once, at its end.

use baton_types::call::ModelCall;
use baton_types::json::{self, Json, JsonError};
use serde_json::Value;

use super::AnsweredCall;

/// Number of characters shown of arguments that cannot be read.
const PREVIEW_CHARACTERS: usize = 200;

/// Returns a requested call in the machine's form. Arguments that are no JSON object are kept as a preview with the
/// reason; the machine answers them with an error that teaches. Missing arguments are an empty object, which a tool
/// with required fields refuses.
pub fn call_of(call: AnsweredCall) -> ModelCall {
    let AnsweredCall { id, tool, arguments } = call;
    let (input, malformed) = match read(&arguments) {
        Ok(input) => (input, None),
        Err(reason) => (Json::from(Value::from(preview(&arguments))), Some(reason.into_boxed_str())),
    };
    ModelCall { input, malformed, provider_id: id.map(String::into_boxed_str), ..ModelCall::new(tool, Json::null()) }
}

fn read(arguments: &str) -> Result<Json, String> {
    let text = arguments.trim();
    if text.is_empty() || text == "null" {
        return Ok(Json::from(Value::Object(serde_json::Map::new())));
    }
    let reason = |error: JsonError| match error {
        JsonError::Unreadable(error) => format!("the arguments are not JSON: {error}"),
        JsonError::NoValue { .. } => format!("the arguments cannot be used: {error}"),
    };
    if text.starts_with('{') {
        return Json::parse(text).map_err(reason);
    }
    match json::read(text).map_err(reason)? {
        Value::String(inner) if serde_json::from_str::<Value>(&inner).is_ok() => {
            Err("the arguments are a JSON string that holds JSON; expected the object itself".to_owned())
        }
        other => Err(format!("the arguments are {}; expected an object", kind(&other))),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn preview(text: &str) -> String {
    let mut shown: String = text.chars().take(PREVIEW_CHARACTERS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
