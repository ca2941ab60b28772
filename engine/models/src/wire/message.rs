//! The message of an answer in chat completions and at Ollama, put together from one piece or from many.

use std::ops::Range;

use serde_json::{Map, Value, json};

use super::value::text;
use super::{Answer, AnsweredCall, items};

/// Keys that views show, or that every message has.
const SHOWN: [&str; 5] = ["role", "content", "tool_calls", "refusal", "function_call"];

/// A message whose text and calls are those of its answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Message {
    parts: Vec<Part>,
    /// Whether the content came as a list of parts.
    is_listed: bool,
    /// Keys beside content and calls, such as `reasoning`, `reasoning_details` and `extra_content`.
    beside: Map<String, Value>,
}

/// A part of a content.
#[derive(Clone, Debug)]
enum Part {
    /// Bytes of the answer's text.
    Text(Range<usize>),
    /// A part that is no text, such as Mistral's thinking.
    Other(Value),
}

impl Message {
    /// Adds a piece of the message to `answer`.
    pub(super) fn add(&mut self, answer: &mut Answer, piece: &Value) {
        match piece.get("content") {
            Some(Value::String(said)) => self.say(answer, said),
            Some(Value::Array(parts)) => {
                self.is_listed = true;
                for part in parts {
                    match (text(part, "/text"), self.parts.last_mut()) {
                        (Some(said), _) => self.say(answer, said),
                        (None, Some(Part::Other(last))) if last.get("type") == part.get("type") => join(last, part),
                        (None, _) => self.parts.push(Part::Other(part.clone())),
                    }
                }
            }
            _ => {}
        }
        for (key, value) in piece.as_object().into_iter().flatten().filter(|(key, _)| !SHOWN.contains(&key.as_str())) {
            add_to(&mut self.beside, key, value);
        }
    }

    fn say(&mut self, answer: &mut Answer, said: &str) {
        if said.is_empty() {
            return;
        }
        let from = answer.text.len();
        answer.text.push_str(said);
        match self.parts.last_mut() {
            Some(Part::Text(range)) => range.end = answer.text.len(),
            _ => self.parts.push(Part::Text(from..answer.text.len())),
        }
    }

    /// Ends the message with `calls`: gives `answer` its calls, and the message as its item.
    pub(super) fn finish(mut self, answer: &mut Answer, calls: impl Iterator<Item = (AnsweredCall, Map<String, Value>)>) {
        if self.beside.contains_key("reasoning_details") {
            // A router's plain form of the same.
            self.beside.shift_remove("reasoning");
        }
        let mut message = Map::from_iter([("role".to_owned(), Value::from("assistant"))]);
        if self.is_listed {
            let part = |part| match part {
                Part::Text(range) => json!({"type": "text", "text": items::range(range)}),
                Part::Other(part) => part,
            };
            message.insert("content".to_owned(), self.parts.into_iter().map(part).collect());
        } else if let Some(Part::Text(range)) = self.parts.pop() {
            message.insert("content".to_owned(), items::range(range));
        }
        message.append(&mut self.beside);
        let (calls, besides): (Vec<_>, Vec<_>) = calls.map(|(call, beside)| (call, Value::Object(beside))).unzip();
        answer.calls = calls;
        if !besides.is_empty() {
            message.insert("tool_calls".to_owned(), Value::Array(besides));
        }
        answer.items = vec![Value::Object(message)];
    }
}

/// Adds what `call`, or a piece of it, has beside its name, its arguments and the keys in `left_out`.
pub(super) fn add_call(beside: &mut Map<String, Value>, call: &Value, left_out: &[&str]) {
    for (key, value) in call.as_object().into_iter().flatten().filter(|(key, _)| !left_out.contains(&key.as_str())) {
        if key != "function" {
            add_to(beside, key, value);
            continue;
        }
        let function = beside.entry("function").or_insert_with(|| json!({}));
        let more = value.as_object().into_iter().flatten().filter(|(key, _)| !matches!(key.as_str(), "name" | "arguments"));
        if let Some(function) = function.as_object_mut() {
            more.for_each(|(key, value)| add_to(function, key, value));
        }
    }
}

/// Adds `value` to the `key` of `known`. Values that carry nothing are left out.
fn add_to(known: &mut Map<String, Value>, key: &str, value: &Value) {
    let is_nothing = match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    if is_nothing {
        return;
    }
    match (known.get_mut(key), value) {
        (None, Value::Array(details)) if key == "reasoning_details" => {
            let mut joined = Vec::new();
            add_details(&mut joined, details);
            known.insert(key.to_owned(), Value::Array(joined));
        }
        (Some(Value::Array(known)), Value::Array(details)) if key == "reasoning_details" => add_details(known, details),
        (Some(Value::String(known)), Value::String(more)) if is_words(key) => known.push_str(more),
        (Some(Value::Array(known)), Value::Array(more)) => known.extend(more.iter().cloned()),
        (Some(Value::Object(known)), Value::Object(more)) => more.iter().for_each(|(key, value)| add_to(known, key, value)),
        _ => {
            known.insert(key.to_owned(), value.clone());
        }
    }
}

/// Whether the pieces of a string under `key` are to be joined: the words of reasoning, under each server's own key.
fn is_words(key: &str) -> bool {
    matches!(key, "reasoning" | "reasoning_content" | "reasoning_text" | "thinking")
}

/// Adds details of `OpenRouter`'s reasoning: pieces of known ones, or others.
fn add_details(known: &mut Vec<Value>, details: &[Value]) {
    for detail in details {
        let same = |known: &&mut Value| {
            ["index", "type"].iter().all(|key| known.get(key) == detail.get(key))
                && (detail.get("id").is_none_or(Value::is_null) || known.get("id") == detail.get("id"))
        };
        match known.iter_mut().rev().find(same).filter(|_| detail.get("index").is_some()) {
            Some(known) => join(known, detail),
            None => known.push(detail.clone()),
        }
    }
}

/// Continues a part: appends its words, and replaces other values unless they are null.
fn join(known: &mut Value, piece: &Value) {
    for (key, value) in piece.as_object().into_iter().flatten() {
        match (known.get_mut(key), value) {
            (_, Value::Null) => {}
            (Some(Value::String(before)), Value::String(more)) if matches!(key.as_str(), "text" | "summary" | "data") => {
                before.push_str(more);
            }
            (Some(Value::Array(before)), Value::Array(more)) => {
                for part in more {
                    match before.last_mut().filter(|last| last.get("type") == part.get("type")) {
                        Some(last) => join(last, part),
                        None => before.push(part.clone()),
                    }
                }
            }
            (_, value) => known[key] = value.clone(),
        }
    }
}
