//! JSON Schemas as a person writes them, read more strictly than the standard does.
//!
//! The standard ignores keywords that it does not know, so `"descriptoin"` or `"requierd"` would say nothing, silently.
//! Here they are faults, like the unknown keys of every other file. Schemas that a model writes at run time are *not*
//! read this way.

use std::collections::BTreeSet;

use baton_types::spelling::nearest;
use serde_json::{Map, Value};

use crate::dialect::{Dialect, HOLDS_LIST, HOLDS_MAP, HOLDS_SCHEMA, for_each_part};
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

/// The other keywords.
#[rustfmt::skip]
const PLAIN: [&str; 38] = [
    "$anchor", "$comment", "$dynamicAnchor", "$dynamicRef", "$id", "$ref", "$schema", "$vocabulary", "const",
    "contentEncoding", "contentMediaType", "default", "dependentRequired", "deprecated", "description", "enum", "examples",
    "exclusiveMaximum", "exclusiveMinimum", "format", "maxContains", "maxItems", "maxLength", "maxProperties", "maximum",
    "minContains", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "pattern", "readOnly", "required",
    "title", "type", "uniqueItems", "writeOnly",
];

/// Keywords whose schemas judge the same value as the schema around them.
const IN_PLACE: [&str; 8] = ["allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "oneOf", "then"];

/// Reports every unknown keyword, every required key without a description, and every default that breaks its schema.
/// Keywords that begin with `x-` are the writer's own.
pub fn check_keywords(schema: &Value) -> Vec<KeywordFault> {
    let mut visitor = Visitor { root: schema, dialect: Dialect::of(schema), pointer: String::new(), faults: Vec::new() };
    visitor.visit(schema, &names_in_place(schema, schema));
    visitor.faults
}

struct Visitor<'s> {
    root: &'s Value,
    dialect: Dialect,
    pointer: String,
    faults: Vec<KeywordFault>,
}

impl Visitor<'_> {
    /// Visits `schema`. `described` are the properties that some schema of the same value describes.
    fn visit(&mut self, schema: &Value, described: &BTreeSet<&str>) {
        let Value::Object(keywords) = schema else { return };
        check_required(keywords, described, &self.pointer, &mut self.faults);
        check_default(schema, &self.pointer, &mut self.faults);
        for keyword in keywords.keys() {
            if known(self.dialect).any(|known| known == keyword) || keyword.starts_with("x-") {
                continue;
            }
            let mut pointer = self.pointer.clone();
            push_token(&mut pointer, keyword);
            self.faults.push(KeywordFault {
                kind: Slip::UnknownKeyword,
                pointer,
                message: format!("\"{keyword}\" is not a keyword of JSON Schema ({})", self.dialect),
                nearest: nearest(keyword, known(self.dialect)).map(str::to_owned),
            });
        }
        for_each_part(keywords, |keyword, token, inner| {
            let length = self.pointer.len();
            push_token(&mut self.pointer, keyword);
            self.inner(keyword, token.as_deref(), inner, described);
            self.pointer.truncate(length);
        });
    }

    fn inner(&mut self, keyword: &str, token: Option<&str>, inner: &Value, described: &BTreeSet<&str>) {
        let length = self.pointer.len();
        if let Some(token) = token {
            push_token(&mut self.pointer, token);
        }
        match keyword {
            in_place if IN_PLACE.contains(&in_place) => self.visit(inner, described),
            // A definition may be joined with any other part of the schema.
            "$defs" | "definitions" => self.visit(inner, &all_names(self.root)),
            _ => self.visit(inner, &names_in_place(self.root, inner)),
        }
        self.pointer.truncate(length);
    }
}

/// Returns the properties that `schema` describes, and those of the schemas that judge the same value.
fn names_in_place<'s>(root: &'s Value, schema: &'s Value) -> BTreeSet<&'s str> {
    let (mut names, mut seen, mut due) = (BTreeSet::new(), BTreeSet::new(), vec![schema]);
    while let Some(Value::Object(keywords)) = due.pop() {
        if let Some(Value::Object(named)) = keywords.get("properties") {
            names.extend(named.keys().map(String::as_str));
        }
        if let Some(target) = keywords.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'))
            && seen.insert(target)
        {
            due.extend(root.pointer(target).filter(|target| target.is_object()));
        }
        let parts = IN_PLACE.iter().filter_map(|keyword| Some((*keyword, keywords.get(*keyword)?)));
        for (keyword, part) in parts {
            match part {
                Value::Object(named) if matches!(keyword, "dependencies" | "dependentSchemas") => {
                    due.extend(named.values().filter(|each| each.is_object()));
                }
                Value::Array(members) => due.extend(members.iter().filter(|member| member.is_object())),
                part if part.is_object() => due.push(part),
                _ => {}
            }
        }
    }
    names
}

/// Returns all properties that are described anywhere in `schema`.
fn all_names(schema: &Value) -> BTreeSet<&str> {
    let (mut names, mut due) = (BTreeSet::new(), vec![schema]);
    while let Some(part) = due.pop() {
        if let Some(Value::Object(named)) = part.get("properties") {
            names.extend(named.keys().map(String::as_str));
        }
        match part {
            Value::Object(keywords) => due.extend(keywords.values()),
            Value::Array(members) => due.extend(members),
            _ => {}
        }
    }
    names
}

/// Returns the keywords of a dialect. Keywords that only the other dialect has are slips.
fn known(dialect: Dialect) -> impl Iterator<Item = &'static str> {
    let all = PLAIN.into_iter().chain(HOLDS_SCHEMA).chain(HOLDS_LIST).chain(HOLDS_MAP);
    all.filter(move |keyword| dialect.has_tuples() || !matches!(*keyword, "additionalItems" | "dependencies"))
}

/// Whether `keyword` is one of a dialect.
pub(crate) fn is_keyword(keyword: &str, dialect: Dialect) -> bool {
    known(dialect).any(|known| known == keyword)
}

/// Reports required names that no schema of the same object describes: neither this one, nor one beside or around it.
fn check_required(keywords: &Map<String, Value>, described: &BTreeSet<&str>, pointer: &str, faults: &mut Vec<KeywordFault>) {
    let (Some(required), Some(properties)) = (keywords.get("required"), keywords.get("properties").and_then(Value::as_object))
    else {
        return;
    };
    if keywords.contains_key("patternProperties") {
        return;
    }
    for (index, name) in required.as_array().into_iter().flatten().enumerate() {
        let Some(name) = name.as_str().filter(|name| !described.contains(name)) else { continue };
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
            message: format!("the default does not match its schema: {}", wrong.message),
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
    fn a_required_name_may_be_described_by_another_schema_of_the_same_object() {
        for schema in [
            json!({"properties": {"a": {}, "b": {}}, "if": {}, "then": {"properties": {"a": {}}, "required": ["a", "b"]}}),
            json!({"$defs": {"base": {"properties": {"id": {}}}}, "allOf": [{"$ref": "#/$defs/base"}],
                "properties": {"a": {}}, "required": ["id"]}),
            json!({"$ref": "#/$defs/base", "properties": {"a": {}}, "required": ["id"], "$defs": {"base": {"properties": {"id": {}}}}}),
            json!({"properties": {"a": {}}, "required": ["id"], "anyOf": [{"properties": {"id": {"type": "string"}}}]}),
            json!({"$defs": {"mixin": {"properties": {"a": {}}, "required": ["id"]}}, "properties": {"id": {}}}),
            json!({"properties": {"a": {}}, "patternProperties": {"^x-": {}}, "required": ["x-1"]}),
            json!({"properties": {"a": {}}, "required": ["id"], "if": {"properties": {"id": {}}}, "then": true}),
            json!({"properties": {"a": {}}, "required": ["id"], "dependentSchemas": {"a": {"properties": {"id": {}}}, "b": true}}),
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {}}, "required": ["id"],
                "dependencies": {"a": {"properties": {"id": {}}}, "b": ["a"]}}),
            json!({"$defs": {"mixin": {"properties": {"a": {}}, "required": ["id"]}}, "allOf": [{"properties": {"id": {}}}]}),
        ] {
            assert_eq!(check_keywords(&schema), [], "{schema}");
        }
        // A property of another object is no description.
        let nested = json!({"properties": {"address": {"properties": {"city": {}}}}, "required": ["city"]});
        assert_eq!(check_keywords(&nested)[0].kind, Slip::UndescribedKey);
    }

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

    #[test]
    fn an_unknown_keyword_is_reported_with_the_draft_that_does_not_have_it() {
        for (address, draft) in [
            ("http://json-schema.org/draft-07/schema#", "draft 7"),
            ("https://json-schema.org/draft/2019-09/schema", "2019-09"),
            ("https://json-schema.org/draft/2020-12/schema", "2020-12"),
        ] {
            let found = check_keywords(&json!({"$schema": address, "typ": "string"}));
            let message = format!("\"typ\" is not a keyword of JSON Schema ({draft})");
            let nearest = Some("type".to_owned());
            assert_eq!(found, [KeywordFault { kind: Slip::UnknownKeyword, pointer: "/typ".to_owned(), message, nearest }]);
        }
    }
}
