//! Requests of calls, as an envelope lists them, in the machine's form.
//!
//! A request that cannot be used becomes a malformed call with the reason. Its result teaches the model, and nothing runs.

use std::sync::Arc;

use baton_types::call::ModelCall;
use baton_types::json::Json;
use baton_types::model::ToolDefinition;
use serde_json::{Map, Value};

use super::envelope::preview;

/// Keys of a request, with that of an answer that is one call.
const REQUEST_KEYS: [&str; 6] = ["action", "tool", "input", "requestId", "return_to_llm", "config_id"];

/// Greatest number of characters of a `requestId`.
const ID_CHARACTERS: usize = 128;

/// Returns a request of a call to one of `tools` as a call. Its `requestId` is the call's `provider_id`. The engine gives an id
/// to a call without one.
pub(super) fn call_of(request: &Value, tools: &[Arc<ToolDefinition>]) -> ModelCall {
    let name = request.get("tool").and_then(Value::as_str).unwrap_or_default();
    let definition = tools.iter().find(|tool| tool.id.as_str() == name || tool.name.as_deref() == Some(name));
    let tool = definition.map_or(name, |tool| tool.id.as_str());
    let other_name = (tool != name).then(|| name.into());
    let id = request_id(request);
    let provider_id = id.clone().unwrap_or_default().map(String::into_boxed_str);
    match id.and_then(|_| input_of(request)) {
        Ok((input, return_to_llm, config_id)) => {
            ModelCall { name: other_name, return_to_llm, provider_id, config_id, ..ModelCall::new(tool, Value::Object(input)) }
        }
        Err(reason) => {
            let preview = Json::from(Value::from(preview(request)));
            let tool = if tool.is_empty() { "?" } else { tool };
            ModelCall { name: other_name, malformed: Some(reason.into()), provider_id, ..ModelCall::new(tool, preview) }
        }
    }
}

/// Returns the id that the model gave to a request, if it gave one.
fn request_id(request: &Value) -> Result<Option<String>, String> {
    match request.get("requestId") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(id)) => Ok(Some(id.to_string())),
        Some(Value::String(id)) if id.is_empty() => Ok(None),
        Some(Value::String(id)) if id.chars().count() <= ID_CHARACTERS => Ok(Some(id.clone())),
        Some(_) => Err(format!("\"requestId\" is a string of at most {ID_CHARACTERS} characters")),
    }
}

/// An input, the route of the result, and the id of a configuration.
type Parts = (Map<String, Value>, Option<bool>, Option<Box<str>>);

/// Returns the parts of a request that its call has.
fn input_of(request: &Value) -> Result<Parts, String> {
    let Some(object) = request.as_object() else {
        return Err(format!("an item of \"tool_requests\" is an object, not {}", preview(request)));
    };
    if request.get("tool").is_none() && request["name"].is_string() {
        let message = "\"tool\" is missing; a request here has \"tool\" and \"input\", not \"name\" and \"arguments\"";
        return Err(message.to_owned());
    }
    if !request["tool"].is_string() {
        return Err("\"tool\" is missing or not a string".to_owned());
    }
    // A misspelled input must not run as an empty one, and a misspelled configuration not as none.
    if let Some(key) = object.keys().find(|key| !REQUEST_KEYS.contains(&key.as_str())) {
        let key = preview(&Value::from(key.as_str()));
        return Err(format!("the key {key} is unknown; a request has \"{}\"", REQUEST_KEYS[1..].join("\", \"")));
    }
    let input = match request.get("input") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(input)) => input.clone(),
        Some(Value::String(_)) => return Err("\"input\" is a string; send the object itself".to_owned()),
        Some(other) => return Err(format!("\"input\" is an object, not {}", preview(other))),
    };
    let return_to_llm = match request.get("return_to_llm") {
        None | Some(Value::Null) => None,
        Some(Value::Bool(wish)) => Some(*wish),
        Some(other) => return Err(format!("\"return_to_llm\" is true or false, not {}", preview(other))),
    };
    let config_id = match request.get("config_id") {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) => Some(id.as_str().into()),
        Some(other) => return Err(format!("\"config_id\" is a string, not {}", preview(other))),
    };
    Ok((input, return_to_llm, config_id))
}
