//! A JSON payload kept as its text: inputs, outputs and answers are copied and stored far more often than read.

mod strict;

use std::fmt;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

pub use strict::{JsonError, MAX_DEPTH, read, read_or_text};

/// A valid JSON text, shared. Numbers keep every digit they were written with.
///
/// A text from outside becomes one by [`Json::parse`], or within a larger text by [`read`]. Both refuse a text of which [`Json::value`]
/// would lose a part. Deserialisation alone trusts its source: it reads what a store has, and every take-over of a run does that.
///
/// Because it is stored raw, a type that holds one must not be an internally tagged or flattened serde type.
#[derive(Clone)]
pub struct Json(Arc<RawValue>);

impl Json {
    /// Returns the payload `null`.
    pub fn null() -> Self {
        static NULL: LazyLock<Json> = LazyLock::new(|| Json(RawValue::NULL.to_owned().into()));
        NULL.clone()
    }

    /// Keeps `text` if it is one JSON value, with finite numbers, whole characters, no repeated key and at most [`MAX_DEPTH`] levels.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        let raw: &RawValue = serde_json::from_str(text)?;
        strict::check(text)?;
        Ok(Self(raw.to_owned().into()))
    }

    /// Keeps `text` as a store has it: it was checked before it was stored.
    pub fn stored(text: &str) -> Result<Self, serde_json::Error> {
        let raw: &RawValue = serde_json::from_str(text)?;
        Ok(Self(raw.to_owned().into()))
    }

    /// Serialises a value that code from outside made, and checks it as [`Json::parse`] does.
    pub fn of_outside<T: Serialize + ?Sized>(value: &T) -> Result<Self, JsonError> {
        let json = Self::of(value)?;
        strict::check(json.text())?;
        Ok(json)
    }

    /// Serialises `value`.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(|raw| Self(raw.into()))
    }

    /// Returns the JSON text.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Parses the payload into a tree. A text that an earlier version stored and that is not a value is `null`.
    pub fn value(&self) -> Value {
        serde_json::from_str(self.text()).unwrap_or(Value::Null)
    }

    /// Whether the payload is `null`.
    pub fn is_null(&self) -> bool {
        self.text() == "null"
    }
}

impl Default for Json {
    fn default() -> Self {
        Self::null()
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Self::from(&value)
    }
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Self {
        Self::of(value).expect("a JSON tree always serialises")
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl Serialize for Json {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw| Self(raw.into()))
    }
}

impl schemars::JsonSchema for Json {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Json".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        true.into()
    }

    fn inline_schema() -> bool {
        true
    }
}

/// Returns the number of levels of brackets in a JSON text, without recursion. Brackets in strings do not count.
pub fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest, mut is_string, mut is_escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            b'{' | b'[' if !is_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !is_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Returns the type of a value as messages name it.
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_is_measured_outside_of_texts_and_without_recursion() {
        for (text, expected) in [("1", 0), ("[]", 1), (r#"{"a":[{"b":1}]}"#, 3), (r#"{"a":"[[[\"{{"}"#, 1), ("[[],[[]]]", 3)] {
            assert_eq!(nesting(text), expected, "{text}");
        }
        assert_eq!(nesting(&"[".repeat(1_000_000)), 1_000_000);
    }
}
