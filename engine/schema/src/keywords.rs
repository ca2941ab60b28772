//! JSON Schemas as a person writes them, read more strictly than the standard does.
//!
//! The standard ignores keywords that it does not know, so `"descriptoin"` or `"requierd"` would say nothing, silently.
//! Here they are faults, like the unknown keys of every other file. Schemas that a model writes at run time are *not*
//! read this way.

use baton_types::spelling::nearest;
use serde_json::{Map, Value};

use crate::judge::compile;
use crate::pointer::push_token;

/// A fault in a schema; the pointer is into the schema.
#[derive(Debug, PartialEq)]
pub struct KeywordFault {
    /// Kind of the fault.
    pub kind: Slip,
    /// JSON pointer into the schema.
    pub pointer: String,
    /// Description of the fault.
    pub message: String,
    /// The known name that is nearest to the one found.
    pub nearest: Option<String>,
}

/// Mistakes in schemas that the standard accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slip {
    /// A keyword that is none; the pointer ends with it.
    UnknownKeyword,
    /// A required key that `properties` does not describe.
    UndescribedKey,
    /// A default that breaks its own schema.
    BrokenDefault,
}

/// Keywords of 2020-12 whose value is a schema.
const HOLDS_SCHEMA: [&str; 11] = [
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords whose value is a list of schemas.
const HOLDS_LIST: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];

/// Keywords whose value is schemas by name; `definitions` is the old name of `$defs`, which 2020-12 still knows.
const HOLDS_MAP: [&str; 5] = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// The other keywords.
#[rustfmt::skip]
const PLAIN: [&str; 38] = [
    "$anchor", "$comment", "$dynamicAnchor", "$dynamicRef", "$id", "$ref", "$schema", "$vocabulary", "const",
    "contentEncoding", "contentMediaType", "default", "dependentRequired", "deprecated", "description", "enum", "examples",
    "exclusiveMaximum", "exclusiveMinimum", "format", "maxContains", "maxItems", "maxLength", "maxProperties", "maximum",
    "minContains", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "pattern", "readOnly", "required",
    "title", "type", "uniqueItems", "writeOnly",
];

/// Reports every unknown keyword, every required key without a description, and every default that breaks its schema.
/// Keywords that begin with `x-` are the writer's own.
pub fn check_keywords(schema: &Value) -> Vec<KeywordFault> {
    let mut faults = Vec::new();
    visit(schema, &mut String::new(), &mut faults);
    faults
}

fn visit(schema: &Value, pointer: &mut String, faults: &mut Vec<KeywordFault>) {
    let Value::Object(keywords) = schema else { return };
    check_required(keywords, pointer, faults);
    check_default(schema, pointer, faults);
    for (keyword, value) in keywords {
        let length = pointer.len();
        push_token(pointer, keyword);
        match value {
            Value::Object(named) if HOLDS_MAP.contains(&keyword.as_str()) => {
                for (name, inner) in named {
                    let length = pointer.len();
                    push_token(pointer, name);
                    visit(inner, pointer, faults);
                    pointer.truncate(length);
                }
            }
            Value::Array(members) if HOLDS_LIST.contains(&keyword.as_str()) => {
                for (index, inner) in members.iter().enumerate() {
                    let length = pointer.len();
                    push_token(pointer, &index.to_string());
                    visit(inner, pointer, faults);
                    pointer.truncate(length);
                }
            }
            inner if HOLDS_SCHEMA.contains(&keyword.as_str()) => visit(inner, pointer, faults),
            _ if known().any(|known| known == keyword) || keyword.starts_with("x-") => {}
            _ => faults.push(KeywordFault {
                kind: Slip::UnknownKeyword,
                pointer: pointer.clone(),
                message: format!("\"{keyword}\" is no keyword of JSON Schema (2020-12)"),
                nearest: nearest(keyword, known()).map(str::to_owned),
            }),
        }
        pointer.truncate(length);
    }
}

fn known() -> impl Iterator<Item = &'static str> {
    PLAIN.into_iter().chain(HOLDS_SCHEMA).chain(HOLDS_LIST).chain(HOLDS_MAP)
}

fn check_required(keywords: &Map<String, Value>, pointer: &str, faults: &mut Vec<KeywordFault>) {
    let (Some(required), Some(properties)) = (keywords.get("required"), keywords.get("properties").and_then(Value::as_object))
    else {
        return;
    };
    for (index, name) in required.as_array().into_iter().flatten().enumerate() {
        let Some(name) = name.as_str().filter(|name| !properties.contains_key(*name)) else { continue };
        faults.push(KeywordFault {
            kind: Slip::UndescribedKey,
            pointer: format!("{pointer}/required/{index}"),
            message: format!("\"{name}\" is required, but \"properties\" does not describe it"),
            nearest: nearest(name, properties.keys().map(String::as_str)).map(str::to_owned),
        });
    }
}

fn check_default(schema: &Value, pointer: &str, faults: &mut Vec<KeywordFault>) {
    let Some(default) = schema.get("default") else { return };
    // A part that refers elsewhere cannot be compiled by itself.
    if refers(schema) {
        return;
    }
    let Ok(compiled) = compile(schema) else { return };
    for wrong in compiled.check(default).err().into_iter().flatten() {
        faults.push(KeywordFault {
            kind: Slip::BrokenDefault,
            pointer: format!("{pointer}/default{}", wrong.pointer),
            message: format!("the default breaks its own schema: {}", wrong.message),
            nearest: None,
        });
    }
}

fn refers(schema: &Value) -> bool {
    match schema {
        Value::Object(object) => object.contains_key("$ref") || object.values().any(refers),
        Value::Array(elements) => elements.iter().any(refers),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn slips_in_a_schema_are_told_and_names_of_properties_are_not_keywords() {
        let schema = json!({
            "type": "object",
            "properties": {
                "descriptoin": {"type": "string", "descriptoin": "d", "x-order": 1},
                "list": {"items": {"anyOf": [{"typ": "string"}]}, "default": 7, "type": "array"}
            },
            "required": ["lists"],
            "examples": [{"anything": 1}]
        });
        let found: Vec<_> = check_keywords(&schema).into_iter().map(|fault| (fault.kind, fault.pointer, fault.nearest)).collect();
        assert_eq!(
            found,
            [
                (Slip::UndescribedKey, "/required/0".to_owned(), Some("list".to_owned())),
                (Slip::UnknownKeyword, "/properties/descriptoin/descriptoin".to_owned(), Some("description".to_owned())),
                (Slip::BrokenDefault, "/properties/list/default".to_owned(), None),
                (Slip::UnknownKeyword, "/properties/list/items/anyOf/0/typ".to_owned(), Some("type".to_owned())),
            ]
        );
    }
}
