//! The parts of an answer's items that the views of a turn show.

use serde_json::{Map, Value};

/// A part of an item that a view shows.
pub(super) enum Place<'a> {
    /// A text: a string, or a range of the turn's text.
    Text(&'a mut Value),
    /// A call.
    Call(&'a mut Map<String, Value>),
}

/// Calls `each` for every part of `items` that a view may show, in order. Items are those of Anthropic and of Responses by their
/// type, and the message of chat completions or of Ollama.
pub(super) fn visit(items: &mut [Value], each: &mut dyn FnMut(Place<'_>)) {
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        match item.get("type").and_then(Value::as_str) {
            Some("text") => item.get_mut("text").into_iter().for_each(|text| each(Place::Text(text))),
            Some("tool_use" | "function_call") => each(Place::Call(item)),
            Some("message") | None => {
                match item.get_mut("content") {
                    Some(Value::Array(parts)) => parts.iter_mut().filter_map(shown).for_each(|text| each(Place::Text(text))),
                    Some(text) => each(Place::Text(text)),
                    None => {}
                }
                let calls = item.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten();
                calls.filter_map(Value::as_object_mut).for_each(|call| each(Place::Call(call)));
            }
            Some(_) => {}
        }
    }
}

/// Returns the text of `part`, a part of a message's content.
fn shown(part: &mut Value) -> Option<&mut Value> {
    match part.get("type")?.as_str()? {
        "text" | "output_text" => part.get_mut("text"),
        _ => None,
    }
}
