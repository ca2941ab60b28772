//! A model's text as a message and requests of calls: the envelopes of seeds 000 and 001.
//!
//! An answer has one action at most. Text without an envelope is the message. An envelope that cannot be used is a
//! fault, whose reason the model receives; nothing of it runs.

use baton_types::text::shortened;
use serde_json::{Map, Value};

use super::noise::{Found, values};

/// The schema name of an answer.
const ANSWER: &str = "agent.response.v1";

/// The action of a single call.
const INVOKE: &str = "invoke_tool";

/// Keys that make an object an envelope.
const ENVELOPE_KEYS: [&str; 3] = ["action", "breadcrumb", "tool_requests"];

/// Keys of an answer: those of seed 000, and two that the schema of `agent.response.v1` has beside them.
const ANSWER_KEYS: [&str; 4] = ["message", "tool_requests", "created_breadcrumbs", "metadata"];

/// The key of an input, and others that models write for it.
const INPUT_KEYS: [&str; 4] = ["input", "args", "arguments", "parameters"];

/// A model's text, read.
#[derive(Debug, PartialEq)]
pub(super) enum Reading<'a> {
    /// A text without an envelope.
    Text,
    /// One envelope.
    Envelope {
        /// Its text, as the model wrote it.
        text: &'a str,
        /// Its object that requests calls: the context, or all of a short form.
        object: Value,
        /// The message to the user; possibly empty.
        message: String,
        /// The requested calls, not yet read.
        requests: Vec<Value>,
    },
    /// An envelope that cannot be used, with the reason.
    Fault(String),
}

/// Reads a model's text.
pub(super) fn read_answer(text: &str) -> Reading<'_> {
    let values = values(text);
    if looks_like_envelope(values.open) || is_cut_answer(text, values.open) {
        return Reading::Fault("the JSON ends before its last closing bracket".to_owned());
    }
    if let Some((_, reason)) = values.unreadable.iter().find(|(text, _)| looks_like_envelope(text)) {
        return Reading::Fault(format!("the JSON cannot be read: {reason}"));
    }
    if !values.found.iter().any(|found| has_envelope(&found.value)) {
        return Reading::Text;
    }
    let holds_one = |found: &&Found<'_>| found.value.is_object() || has_envelope(&found.value);
    let objects: Vec<&Found<'_>> = values.found.iter().filter(holds_one).collect();
    match objects[..] {
        _ if values.fences > 1 => Reading::Fault("the answer has several code blocks; send one JSON object".to_owned()),
        [found] if found.is_quoted => {
            Reading::Fault("the JSON object is within quotation marks; send it without them".to_owned())
        }
        [found] if is_envelope(&found.value) => match envelope(&found.value) {
            Ok((message, requests)) => {
                let object = found.value.pointer("/breadcrumb/context").unwrap_or(&found.value).clone();
                let message = if message.trim().is_empty() { prose_around(text, found.text) } else { message };
                Reading::Envelope { text: found.text, object, message, requests }
            }
            Err(reason) => Reading::Fault(reason),
        },
        [_] | [] => Reading::Fault("the envelope is within another JSON value; send it as the only JSON object".to_owned()),
        [..] => Reading::Fault(
            "the answer has several JSON objects; send one, with all calls in its list \"tool_requests\"".to_owned(),
        ),
    }
}

/// Whether `value` was meant as an envelope, also with a misspelled list of calls, or as a request without one.
pub(super) fn is_envelope(value: &Value) -> bool {
    let lists_requests = |value: &Value| value.as_array().is_some_and(|items| items.iter().any(names_tool));
    let has_key = |object: &Map<String, Value>| {
        ENVELOPE_KEYS.iter().any(|key| object.contains_key(*key)) || object.keys().any(|key| names_calls(key))
    };
    is_request(value)
        || is_breadcrumb(value)
        || value.as_object().is_some_and(|object| has_key(object) || object.values().any(lists_requests))
}

/// Whether `value` is a breadcrumb, such as a result that the model invents.
fn is_breadcrumb(value: &Value) -> bool {
    value.get("schema_name").is_some_and(Value::is_string) && value.get("context").is_some_and(Value::is_object)
}

/// Whether `value` is a request of a call: as envelopes list them, or as other protocols write them.
fn is_request(value: &Value) -> bool {
    let has_any = |keys: &[&str]| keys.iter().any(|key| value.get(key).is_some());
    names_tool(value) || (value.get("name").is_some_and(Value::is_string) && has_any(&["arguments", "parameters"]))
}

/// Whether `value` has a tool, and an input or an id.
fn names_tool(value: &Value) -> bool {
    let is_input = |key: &&str| value.get(key).is_some_and(Value::is_object);
    value.get("tool").is_some_and(Value::is_string) && (INPUT_KEYS.iter().any(is_input) || value.get("requestId").is_some())
}

/// Whether `key` is another spelling of `tool_requests`.
fn names_calls(key: &str) -> bool {
    let letters: String = key.chars().filter(char::is_ascii_alphabetic).map(|each| each.to_ascii_lowercase()).collect();
    ["toolrequest", "toolrequests", "toolcall", "toolcalls"].contains(&letters.as_str())
}

/// Whether `value` is an envelope, or holds one.
fn has_envelope(value: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().any(|value| is_envelope(value) || holds_calls(value)),
        Value::Object(_) => is_envelope(value) || holds_calls(value),
        _ => false,
    }
}

/// Whether `value` or a value in it has the keys that only envelopes have.
fn holds_calls(value: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().any(holds_calls),
        Value::Object(object) => {
            object.contains_key("tool_requests")
                || object.contains_key("breadcrumb")
                || object.get("action").is_some_and(|action| action == INVOKE)
                || object.values().any(holds_calls)
        }
        _ => false,
    }
}

/// Whether a text that cannot be read as JSON was meant as an envelope, whatever its quotation marks are.
fn looks_like_envelope(text: &str) -> bool {
    // Code and style sheets have words in brackets as well, so that a bare word is no sign.
    let signs = [
        "tool_requests",
        INVOKE,
        "\"breadcrumb\"",
        "'breadcrumb'",
        "requestId\"",
        "requestId'",
        "requestId:",
        "\"tool\"",
        "'tool'",
        "{tool:",
    ];
    signs.iter().any(|sign| text.contains(sign))
}

/// Whether the answer consists of an object that ends within `open`, its text from the first bracket on.
fn is_cut_answer(text: &str, open: &str) -> bool {
    let before = text[..text.len() - open.len()].trim();
    let is_first = before.is_empty() || (before.starts_with("```") && !before.contains(char::is_whitespace));
    let first_key = open.strip_prefix('{').map(str::trim_start);
    is_first && first_key.is_some_and(|key| key.is_empty() || key.starts_with('"'))
}

/// Returns the lines of `text` around its `envelope`, without marks of code fences.
fn prose_around(text: &str, envelope: &str) -> String {
    let (before, after) = text.split_once(envelope).unwrap_or((text, ""));
    let lines = before.lines().chain(after.lines()).filter(|line| !line.trim_start().starts_with("```"));
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// Returns the message and the requests of an envelope, or the reason why it cannot be used.
fn envelope(value: &Value) -> Result<(String, Vec<Value>), String> {
    match value.get("action") {
        Some(Value::String(action)) if action == "create" => {
            let Some(Value::Object(breadcrumb)) = value.get("breadcrumb") else {
                return Err("\"breadcrumb\" is missing or not an object".to_owned());
            };
            match breadcrumb.get("schema_name") {
                Some(Value::String(name)) if name == ANSWER => {}
                Some(name) => return Err(format!("\"schema_name\" is {}; only \"{ANSWER}\" can be sent", preview(name))),
                None => return Err(format!("\"schema_name\" is missing; send \"{ANSWER}\"")),
            }
            if value.get("tool_requests").is_some() || breadcrumb.contains_key("tool_requests") {
                return Err("\"tool_requests\" belongs in \"context\"".to_owned());
            }
            match breadcrumb.get("context") {
                Some(Value::Object(context)) => answer(context),
                _ => Err("\"context\" is missing or not an object".to_owned()),
            }
        }
        Some(Value::String(action)) if action == INVOKE => Ok((String::new(), vec![value.clone()])),
        Some(action) => Err(format!("the action {} is unknown; send \"create\"", preview(action))),
        None if is_breadcrumb(value) => Err("\"action\": \"create\" is missing".to_owned()),
        None if is_request(value) => Err("put the call into the list \"tool_requests\"".to_owned()),
        None => match value {
            Value::Object(context) if !context.contains_key("breadcrumb") => answer(context),
            _ => Err("\"action\": \"create\" is missing".to_owned()),
        },
    }
}

/// Returns the message and the requests of an answer.
fn answer(context: &Map<String, Value>) -> Result<(String, Vec<Value>), String> {
    // A misspelled list of calls must not end the work as if there were none.
    if let Some(key) = context.keys().find(|key| !ANSWER_KEYS.contains(&key.as_str())) {
        return Err(format!(
            "the key {} is unknown; an answer has \"message\" and \"tool_requests\"",
            preview(&Value::from(key.as_str()))
        ));
    }
    let message = match context.get("message") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(message)) => message.clone(),
        Some(_) => return Err("\"message\" is not a string".to_owned()),
    };
    match context.get("tool_requests") {
        None | Some(Value::Null) => Ok((message, Vec::new())),
        Some(Value::Array(requests)) => Ok((message, requests.clone())),
        Some(_) => Err("\"tool_requests\" is not a list".to_owned()),
    }
}

/// Returns a short form of `value` for a message.
pub(super) fn preview(value: &Value) -> String {
    const LENGTH: usize = 60;
    shortened(&value.to_string(), LENGTH)
}
