//! `multi_tool_use.parallel`: a call of `OpenAI`'s models that holds other calls. The tool was not offered.
//!
//! The models were trained with such a tool, and use it at times
//! (<https://community.openai.com/t/model-tries-to-call-unknown-function-multi-tool-use-parallel/490653>). The calls that it holds
//! become calls of the turn. The vendor gets its own call back, with one result for all of them.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::AnsweredCall;
use super::place::{Place, visit};

/// The names of the tool.
const NAMES: [&str; 2] = ["multi_tool_use.parallel", "multi_tool_use_parallel"];

/// Prefix of the names of tools there.
const PREFIX: &str = "functions.";

/// Key of an item that is a call with so many calls in it.
const HOLDS: &str = "holds";

#[derive(Deserialize)]
struct Arguments {
    tool_uses: Vec<Held>,
}

/// A call in another one.
#[derive(Deserialize)]
struct Held {
    recipient_name: String,
    #[serde(default)]
    parameters: Option<Box<RawValue>>,
}

/// Replaces each of `calls` that holds others by these. Its item in `items` keeps its name and its arguments.
pub(super) fn unfold(items: &mut [Value], calls: Vec<AnsweredCall>) -> Vec<AnsweredCall> {
    if !calls.iter().any(|call| NAMES.contains(&call.tool.as_str())) {
        return calls;
    }
    let held: Vec<Option<Vec<AnsweredCall>>> = calls.iter().map(held_by).collect();
    let mut at = 0;
    visit(items, &mut |place| {
        let Place::Call(item) = place else { return };
        if let (Some(call), Some(Some(held))) = (calls.get(at), held.get(at)) {
            keep(item, call, held.len());
        }
        at += 1;
    });
    calls.into_iter().zip(held).flat_map(|(call, held)| held.unwrap_or_else(|| vec![call])).collect()
}

/// Returns the calls that `call` holds; `None` if it is another call, or if they cannot be read.
fn held_by(call: &AnsweredCall) -> Option<Vec<AnsweredCall>> {
    let arguments: Option<Arguments> =
        NAMES.contains(&call.tool.as_str()).then(|| serde_json::from_str(&call.arguments).ok()).flatten();
    let held = arguments.map(|arguments| arguments.tool_uses).filter(|held| !held.is_empty())?;
    let held = held.into_iter().enumerate().map(|(index, held)| AnsweredCall {
        id: call.id.clone().filter(|_| index == 0),
        tool: held.recipient_name.strip_prefix(PREFIX).unwrap_or(&held.recipient_name).to_owned(),
        arguments: held.parameters.map_or_else(String::new, |parameters| parameters.get().to_owned()),
    });
    Some(held.collect())
}

/// Keeps the name and the arguments of `call` in its item, and the number of the calls that it holds.
fn keep(item: &mut Map<String, Value>, call: &AnsweredCall, number: usize) {
    let own = [("name", Value::from(call.tool.as_str())), ("arguments", Value::from(call.arguments.as_str()))];
    let own = own.map(|(key, value)| (key.to_owned(), value));
    match item.get_mut("function").and_then(Value::as_object_mut) {
        Some(function) => function.extend(own),
        None => item.extend(own),
    }
    item.insert(HOLDS.to_owned(), Value::from(number));
}

/// Returns the number of calls of the turn that `item` holds.
pub(super) fn held(item: &Map<String, Value>) -> usize {
    item.get(HOLDS).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok()).unwrap_or(1)
}

/// Completes `item`, a call that holds others, with its id, and removes the number of these.
pub(super) fn complete(item: &mut Map<String, Value>, id: &str) {
    item.shift_remove(HOLDS);
    let key = if item.contains_key("function") { "id" } else { "call_id" };
    item.insert(key.to_owned(), Value::from(id));
}
