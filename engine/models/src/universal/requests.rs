//! Requests of calls, as an envelope lists them, in the machine's form.
//!
//! A request that cannot be used becomes a malformed call with the reason. Its result teaches the model, and nothing runs.

use std::collections::HashSet;

use baton_types::call::ModelCall;
use baton_types::json::Json;
use baton_types::model::ToolDefinition;
use serde_json::{Map, Value};

use super::envelope::shown;

/// Keys of a request, with that of an answer that is one call.
const KEYS: [&str; 6] = ["action", "tool", "input", "requestId", "return_to_llm", "config_id"];

/// Reads the requests of one answer.
pub(super) struct Requests<'a> {
    /// The offered tools.
    pub tools: &'a [std::sync::Arc<ToolDefinition>],
    /// The ids of all requests so far.
    pub used: HashSet<String>,
}

impl Requests<'_> {
    /// Returns a request as a call.
    pub(super) fn call(&mut self, request: &Value) -> ModelCall {
        let name = request.get("tool").and_then(Value::as_str).unwrap_or_default();
        let definition = self.tools.iter().find(|tool| tool.id.as_str() == name || tool.name.as_deref() == Some(name));
        let tool = definition.map_or(name, |tool| tool.id.as_str());
        let given = match request.get("requestId") {
            None | Some(Value::Null) => None,
            Some(Value::String(id)) => Some(id.clone()),
            Some(id) => Some(id.to_string()),
        };
        let repeats = given.as_ref().is_some_and(|id| self.used.contains(id));
        let id = given.filter(|_| !repeats).unwrap_or_else(|| self.next_id(tool));
        self.used.insert(id.clone());
        let read = if repeats {
            Err("this \"requestId\" was used before; send another one".to_owned())
        } else {
            read(request, definition.map(|tool| &**tool))
        };
        let call = match read {
            Ok((input, return_to_llm)) => ModelCall { return_to_llm, ..ModelCall::new(tool, Value::Object(input)) },
            Err(reason) => {
                let preview = Json::from(Value::from(shown(request)));
                ModelCall { malformed: Some(reason), ..ModelCall::new(if tool.is_empty() { "?" } else { tool }, preview) }
            }
        };
        ModelCall { provider_id: Some(id), ..call }
    }

    /// Returns an id of the form `{tool}-{n}` that no request has.
    fn next_id(&self, tool: &str) -> String {
        let ids = (self.used.len() + 1..).map(|number| format!("{tool}-{number}"));
        ids.into_iter().find(|id| !self.used.contains(id)).expect("numbers do not end")
    }
}

/// Returns the input and the route of a request's result.
fn read(request: &Value, tool: Option<&ToolDefinition>) -> Result<(Map<String, Value>, Option<bool>), String> {
    let Some(object) = request.as_object() else {
        return Err(format!("an item of \"tool_requests\" is an object, not {}", shown(request)));
    };
    if !request["tool"].is_string() {
        return Err("\"tool\" is missing or not a string".to_owned());
    }
    let mut input = match request.get("input") {
        None | Some(Value::Null) => match object.keys().find(|key| !KEYS.contains(&key.as_str())) {
            // A misspelled input must not run as an empty one.
            Some(key) => return Err(format!("the key {} is unknown; \"input\" is missing", shown(&Value::from(key.as_str())))),
            None => Map::new(),
        },
        Some(Value::Object(input)) => input.clone(),
        Some(Value::String(_)) => return Err("\"input\" is a string; send the object itself".to_owned()),
        Some(other) => return Err(format!("\"input\" is an object, not {}", shown(other))),
    };
    let return_to_llm = match request.get("return_to_llm") {
        None | Some(Value::Null) => None,
        Some(Value::Bool(wish)) => Some(*wish),
        Some(other) => return Err(format!("\"return_to_llm\" is true or false, not {}", shown(other))),
    };
    match request.get("config_id") {
        None | Some(Value::Null) => {}
        Some(id) if tool.is_some_and(has_config_id) => {
            input.entry("config_id").or_insert_with(|| id.clone());
        }
        Some(_) => return Err("this tool takes no \"config_id\"; leave it out".to_owned()),
    }
    Ok((input, return_to_llm))
}

fn has_config_id(tool: &ToolDefinition) -> bool {
    tool.input_schema.value().pointer("/properties/config_id").is_some()
}
