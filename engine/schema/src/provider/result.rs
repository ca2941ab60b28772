//! The schema of a result in the dialects that can hold a text to one.
//!
//! What a dialect cannot say exactly is *not* sent at all: then the core judges the text, as it judges every one, and asks for
//! a better one. So a schema here may say less than the agent's own, and never something else.

use baton_types::json::Json;
use serde_json::{Map, Value, json};

use super::back::Back;
use super::openai;
use super::target::Target;

/// The most objects' keys that may be left out, all objects together (Anthropic's limit of optional parameters).
const MAX_OPTIONAL: usize = 24;

/// Keywords that are checked later on the text, or expressed otherwise.
const LEFT_OUT: [&str; 20] = [
    "$comment",
    "$id",
    "$schema",
    "additionalProperties",
    "default",
    "deprecated",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "multipleOf",
    "pattern",
    "required",
    "uniqueItems",
];

/// Deepest nesting of a schema.
const MAX_DEPTH: usize = 16;

/// A schema that a model's text must match.
#[derive(Debug)]
pub struct CompiledResult {
    /// The schema in the dialect.
    pub schema: Value,
    back: Back,
}

impl CompiledResult {
    /// `text`, which a model said for the compiled schema, as the agent's own schema has it.
    pub fn restored(&self, text: &str) -> Option<String> {
        let said = Json::parse(text).ok()?;
        Some(self.back.restored(&said).text().to_owned())
    }
}

/// `schema` in the dialect of `target`; `None` if the dialect has no words for it.
pub fn compile_result(target: Target, schema: &Value) -> Option<CompiledResult> {
    match target {
        Target::OpenAi => {
            let (schema, back) = openai::strict(schema).ok()?;
            Some(CompiledResult { schema, back })
        }
        Target::Anthropic | Target::Ollama => {
            let mut optional = 0;
            let schema =
                plain(schema, 0, &mut optional).filter(|schema| schema["type"] == "object" && optional <= MAX_OPTIONAL)?;
            Some(CompiledResult { schema, back: Back::default() })
        }
        Target::Compatible | Target::Mcp => None,
    }
}

/// Returns `schema` with the keywords that every JSON grammar supports: types, keys, elements and listed values.
/// Objects accept no other keys. Bounds of values and lengths are checked later on the text. Alternatives, references
/// and open objects have no equivalent.
///
/// Anthropic: <https://platform.claude.com/docs/en/build-with-claude/structured-outputs> (limitations of JSON Schema);
/// Ollama: <https://docs.ollama.com/capabilities/structured-outputs>.
fn plain(schema: &Value, depth: usize, optional: &mut usize) -> Option<Value> {
    let keywords = schema.as_object().filter(|_| depth <= MAX_DEPTH)?;
    let mut written = Map::new();
    for (keyword, value) in keywords {
        match keyword.as_str() {
            "type" if value.is_string() => drop(written.insert(keyword.clone(), value.clone())),
            "description" | "title" => drop(written.insert(keyword.clone(), value.clone())),
            "enum" if value.as_array().is_some_and(|words| words.iter().all(|word| !word.is_array() && !word.is_object())) => {
                written.insert(keyword.clone(), value.clone());
            }
            "const" if !value.is_array() && !value.is_object() => drop(written.insert("enum".to_owned(), json!([value]))),
            "items" => drop(written.insert(keyword.clone(), plain(value, depth + 1, optional)?)),
            "properties" => {
                let named = value.as_object()?.iter();
                let named = named.map(|(name, inner)| Some((name.clone(), plain(inner, depth + 1, optional)?)));
                written.insert(keyword.clone(), Value::Object(named.collect::<Option<Map<_, _>>>()?));
            }
            left if LEFT_OUT.contains(&left) => {}
            _ => return None,
        }
    }
    let is = |name: &str| written.get("type").is_some_and(|kind| kind == name);
    if is("object") {
        let named = written.get("properties")?.as_object().filter(|named| !named.is_empty())?;
        let required = keywords.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        // A required key without a schema could never be written.
        if required.iter().any(|name| name.as_str().is_none_or(|name| !named.contains_key(name))) {
            return None;
        }
        *optional += named.len() - required.len().min(named.len());
        written.insert("required".to_owned(), json!(required));
        written.insert("additionalProperties".to_owned(), json!(false));
    } else if is("array") && !written.contains_key("items") || written.get("type").is_none() && !written.contains_key("enum") {
        return None;
    }
    Some(Value::Object(written))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_grammar_knows_is_said_and_what_none_may_know_is_not_sent() {
        let schema = json!({
            "type": "object",
            "properties": {
                "growth": {"type": "number", "minimum": 0, "description": "In per cent"},
                "regions": {"type": "array", "items": {"type": "string", "maxLength": 9}, "minItems": 2},
                "kind": {"const": "report"}
            },
            "required": ["growth"]
        });
        let held = compile_result(Target::Anthropic, &schema).expect("every part has words");
        let expected = json!({
            "type": "object",
            "properties": {
                "growth": {"type": "number", "description": "In per cent"},
                "regions": {"type": "array", "items": {"type": "string"}},
                "kind": {"enum": ["report"]}
            },
            "required": ["growth"],
            "additionalProperties": false
        });
        assert_eq!(held.schema, expected);
        assert_eq!(held.restored("{\"growth\": 1.10}").as_deref(), Some("{\"growth\": 1.10}"));
        let unfit = [
            json!({"type": "string"}),
            json!({"type": "object"}),
            json!({"type": "object", "properties": {"a": {}}}),
            json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}}}),
            json!({"type": "object", "properties": {"a": {"type": "array"}}}),
            json!({"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}]}}}),
            json!({"type": "object", "properties": {"a": {"$ref": "#"}}}),
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]}),
        ];
        for schema in unfit {
            assert!(compile_result(Target::Anthropic, &schema).is_none(), "{schema}");
            assert!(compile_result(Target::Ollama, &schema).is_none(), "{schema}");
        }
        let many: Map<String, Value> = (0..=MAX_OPTIONAL).map(|n| (format!("k{n}"), json!({"type": "string"}))).collect();
        assert!(compile_result(Target::Anthropic, &json!({"type": "object", "properties": many})).is_none());
        assert!(compile_result(Target::Compatible, &schema).is_none());
    }

    #[test]
    fn nulls_that_stand_for_what_is_left_out_are_taken_out_again() {
        let schema =
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"}}, "required": ["a"]});
        let held = compile_result(Target::OpenAi, &schema).expect("the strict subset says it");
        assert_eq!(held.schema["required"], json!(["a", "b"]));
        let restored = held.restored("{\"a\":\"x\",\"b\":null}").expect("it is JSON");
        assert_eq!(serde_json::from_str::<Value>(&restored).unwrap(), json!({"a": "x"}));
        assert_eq!(held.restored("no JSON"), None);
    }
}
