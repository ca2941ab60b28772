//! Ollama's dialect: the few keywords that its server reads; the others it drops, so they become words.
//!
//! Its server reads tools into fixed fields (`ToolFunctionParameters` and `ToolProperty` in
//! <https://github.com/ollama/ollama/blob/main/api/types.go>): types, descriptions, listed values, properties, elements and
//! alternatives. References are written out, as far as they do not lead back to themselves.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::guidance;
use super::loose;
use super::source::{Keywords, Source};

/// Keywords of a property that the server reads.
const READ: [&str; 6] = ["anyOf", "description", "enum", "items", "properties", "type"];

/// The most schemas that are written for one tool; beyond them, references that multiply are not written out.
const MAX_SCHEMAS: usize = 5_000;

/// Deepest nesting.
const MAX_DEPTH: usize = 64;

/// `schema` as it is offered, and in words what its root could not say.
pub(super) fn offered(schema: &Value) -> (Value, Vec<String>) {
    let (rooted, mut rules) = loose::rooted(schema);
    let mut writer = Writer { source: Source::new(schema), path: Vec::new(), depth: 0, written: 0 };
    let mut root = rooted.as_object().cloned().unwrap_or_default();
    let reference = root.shift_remove("$ref");
    if let Some((_, target)) = reference.and_then(|reference| writer.source.target(reference.as_str()?, "").ok()) {
        for (keyword, value) in target.as_object().into_iter().flatten() {
            root.entry(keyword).or_insert_with(|| value.clone());
        }
    }
    let named = root.get("properties").and_then(Value::as_object).into_iter().flatten();
    let properties = named.map(|(name, inner)| (name.clone(), writer.property(inner))).collect();
    let mut written =
        Map::from_iter([("type".to_owned(), json!("object")), ("properties".to_owned(), Value::Object(properties))]);
    written.extend(root.get("required").map(|names| ("required".to_owned(), names.clone())));
    let dropped = root.iter().filter(|(keyword, _)| {
        !matches!(keyword.as_str(), "additionalProperties" | "definitions" | "properties" | "required" | "type")
    });
    rules.extend(dropped.filter_map(|(keyword, value)| guidance::as_text(keyword, value)));
    (Value::Object(written), rules)
}

struct Writer<'s> {
    source: Source<'s>,
    /// The references that are being written out.
    path: Vec<String>,
    depth: usize,
    written: usize,
}

impl Writer<'_> {
    fn property(&mut self, schema: &Value) -> Value {
        let Value::Object(keywords) = schema else { return json!({}) };
        self.written += 1;
        if self.written > MAX_SCHEMAS || self.depth > MAX_DEPTH {
            return json!({});
        }
        self.depth += 1;
        let written = match keywords.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.reference(reference, keywords),
            None => self.keywords(keywords),
        };
        self.depth -= 1;
        written
    }

    fn keywords(&mut self, keywords: &Keywords) -> Value {
        // Schemas that cannot be joined are described as text.
        let opened = self.source.opened(keywords, "").map(Cow::into_owned);
        let keywords = &opened.unwrap_or_else(|_| keywords.clone());
        let mut written = Map::new();
        for (keyword, value) in keywords {
            let value = match (keyword.as_str(), value) {
                ("properties", Value::Object(named)) => {
                    named.iter().map(|(name, inner)| (name.clone(), self.property(inner))).collect()
                }
                ("anyOf" | "oneOf", Value::Array(members)) => members.iter().map(|inner| self.property(inner)).collect(),
                ("items", inner) => self.property(inner),
                _ => value.clone(),
            };
            match keyword.as_str() {
                "oneOf" => drop(written.insert("anyOf".to_owned(), value)),
                read if READ.contains(&read) => drop(written.insert(keyword.clone(), value)),
                _ => {}
            }
        }
        if let Some(only) = keywords.get("const") {
            written.entry("enum").or_insert_with(|| json!([only]));
        }
        let is_dropped = |keyword: &str| !READ.contains(&keyword) && !matches!(keyword, "const" | "definitions" | "oneOf");
        let rules = keywords.iter().filter(|(keyword, _)| is_dropped(keyword));
        let rules: Vec<String> = rules.filter_map(|(keyword, value)| guidance::as_text(keyword, value)).collect();
        guidance::append(&mut written, &rules);
        Value::Object(written)
    }

    /// Returns the target of a reference, described by the keywords beside the reference. A recursive target is
    /// described briefly.
    fn reference(&mut self, reference: &str, keywords: &Keywords) -> Value {
        let Ok((target, inner)) = self.source.target(reference, "") else { return json!({}) };
        let mut whole = inner.as_object().cloned().unwrap_or_default();
        if self.path.contains(&target) {
            whole.retain(|keyword, _| matches!(keyword.as_str(), "type" | "description"));
        }
        whole.extend(keywords.iter().filter(|(key, _)| *key != "$ref").map(|(key, value)| (key.clone(), value.clone())));
        self.path.push(target);
        let written = self.property(&Value::Object(whole));
        self.path.pop();
        written
    }
}
