//! Schemas that say only what most schemas say, judged by a walk over the value.
//!
//! Types, required keys, listed values and bounds describe nearly every tool and every file. For them a general
//! validator costs too much: its meta-schemas alone take more time and memory than the rest of a small start. What is
//! accepted here is accepted by the validator as well (a test compares the two). It is *not* a second opinion: what is
//! not accepted here is for the validator to decide, and the validator alone words what is wrong.

use std::collections::BTreeSet;

use baton_types::id::{ID_PATTERN, is_valid_id};
use serde_json::{Map, Value};

use crate::patterns::{
    DAY_PATTERN, ENV_PATTERN, NAME_PATTERN, PAGE_PATTERN, is_day, is_environment_name, is_page, is_template_name,
};

/// The dialect that a schema may say it is written in.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Magnitudes up to which every integer has its own `f64`.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// The most properties that are looked through one by one.
const MAX_PROPERTIES: usize = 64;

/// A schema of which every keyword is understood.
#[derive(Debug)]
pub struct Plain {
    root: Rules,
    definitions: Box<[Rules]>,
}

/// All rules of one subschema.
type Rules = Box<[Rule]>;

#[derive(Debug)]
enum Rule {
    /// A bit for each type that is allowed.
    Type(u8),
    OneOf(Box<[Value]>),
    AnyOf(Box<[Rules]>),
    /// The definition of that index.
    As(usize),
    AtLeast(f64),
    AtMost(f64),
    MoreThan(f64),
    LessThan(f64),
    /// Characters, elements or keys.
    Size(Sizes, usize, usize),
    Pattern(fn(&str) -> bool),
    DistinctTexts,
    Elements(Rules),
    Required(Box<[Box<str>]>),
    /// The properties, and what others must meet; `None` refuses others.
    Properties(Box<[(Box<str>, Rules)]>, Option<Rules>),
}

/// Unit of a size.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sizes {
    Text,
    Array,
    Object,
}

impl Plain {
    /// Compiles `schema`; `None` if it has further keywords or is no schema.
    pub fn of(schema: &Value) -> Option<Self> {
        let named = match schema.get("$defs") {
            Some(definitions) => definitions.as_object()?.iter().collect(),
            None => Vec::new(),
        };
        let reader = Reader { definitions: named.iter().map(|(name, _)| name.as_str()).collect() };
        let definitions = named.iter().map(|(_, inner)| reader.rules(inner, false)).collect::<Option<_>>()?;
        Some(Self { root: reader.rules(schema, true)?, definitions })
    }

    /// Whether `value` surely meets the schema.
    pub fn accepts(&self, value: &Value) -> bool {
        self.all(&self.root, value)
    }

    fn all(&self, rules: &[Rule], value: &Value) -> bool {
        rules.iter().all(|rule| self.holds(rule, value))
    }

    fn holds(&self, rule: &Rule, value: &Value) -> bool {
        match (rule, value) {
            (Rule::Type(allowed), value) => allowed & type_of(value) != 0,
            (Rule::OneOf(values), value) => values.contains(value),
            (Rule::AnyOf(members), value) => members.iter().any(|member| self.all(member, value)),
            (Rule::As(index), value) => self.all(&self.definitions[*index], value),
            (Rule::AtLeast(bound), Value::Number(_)) => exact(value).is_some_and(|number| number >= *bound),
            (Rule::AtMost(bound), Value::Number(_)) => exact(value).is_some_and(|number| number <= *bound),
            (Rule::MoreThan(bound), Value::Number(_)) => exact(value).is_some_and(|number| number > *bound),
            (Rule::LessThan(bound), Value::Number(_)) => exact(value).is_some_and(|number| number < *bound),
            (Rule::Size(Sizes::Text, least, most), Value::String(text)) => (*least..=*most).contains(&text.chars().count()),
            (Rule::Size(Sizes::Array, least, most), Value::Array(elements)) => (*least..=*most).contains(&elements.len()),
            (Rule::Size(Sizes::Object, least, most), Value::Object(keys)) => (*least..=*most).contains(&keys.len()),
            (Rule::Pattern(matches), Value::String(text)) => matches(text),
            (Rule::DistinctTexts, Value::Array(elements)) => {
                let texts: BTreeSet<&str> = elements.iter().filter_map(Value::as_str).collect();
                texts.len() == elements.len()
            }
            (Rule::Elements(rules), Value::Array(elements)) => elements.iter().all(|element| self.all(rules, element)),
            (Rule::Required(names), Value::Object(keys)) => names.iter().all(|name| keys.contains_key(&**name)),
            (Rule::Properties(properties, others), Value::Object(keys)) => keys.iter().all(|(key, value)| {
                let known = properties.iter().find(|(name, _)| **name == **key).map(|(_, rules)| rules);
                known.or(others.as_ref()).is_some_and(|rules| self.all(rules, value))
            }),
            // The other keywords say nothing of values of another type.
            _ => true,
        }
    }
}

/// Returns the number, if no neighbour shares its `f64`.
fn exact(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.abs() < MAX_EXACT)
}

struct Reader<'s> {
    definitions: Vec<&'s str>,
}

impl Reader<'_> {
    fn rules(&self, schema: &Value, is_root: bool) -> Option<Rules> {
        let keywords = match schema {
            Value::Bool(true) => return Some(Rules::default()),
            Value::Object(keywords) => keywords,
            _ => return None,
        };
        let mut rules = Vec::new();
        for (keyword, value) in keywords {
            rules.push(match (keyword.as_str(), value) {
                ("description" | "title" | "format", Value::String(_)) | ("default", _) => continue,
                ("$schema", value) if is_root && value == DIALECT => continue,
                ("$defs", _) if is_root => continue,
                ("type", Value::String(name)) => Rule::Type(type_named(name)?),
                ("type", Value::Array(names)) if is_set(names) && !names.is_empty() => {
                    Rule::Type(names.iter().try_fold(0, |types, name| Some(types | type_named(name.as_str()?)?))?)
                }
                ("enum", Value::Array(values)) => Rule::OneOf(values.clone().into()),
                ("const", value) => Rule::OneOf([value.clone()].into()),
                ("anyOf", Value::Array(members)) if !members.is_empty() => {
                    Rule::AnyOf(members.iter().map(|member| self.rules(member, false)).collect::<Option<_>>()?)
                }
                ("oneOf", Value::Array(members)) if !members.is_empty() => self.one_of(members)?,
                ("$ref", Value::String(target)) => {
                    let name = target.strip_prefix("#/$defs/").filter(|name| !name.contains(['~', '%', '/']))?;
                    Rule::As(self.definitions.iter().position(|known| *known == name)?)
                }
                ("minimum", bound) => Rule::AtLeast(exact(bound)?),
                ("maximum", bound) => Rule::AtMost(exact(bound)?),
                ("exclusiveMinimum", bound) => Rule::MoreThan(exact(bound)?),
                ("exclusiveMaximum", bound) => Rule::LessThan(exact(bound)?),
                ("minLength", bound) => Rule::Size(Sizes::Text, size(bound)?, usize::MAX),
                ("maxLength", bound) => Rule::Size(Sizes::Text, 0, size(bound)?),
                ("minItems", bound) => Rule::Size(Sizes::Array, size(bound)?, usize::MAX),
                ("maxItems", bound) => Rule::Size(Sizes::Array, 0, size(bound)?),
                ("minProperties", bound) => Rule::Size(Sizes::Object, size(bound)?, usize::MAX),
                ("maxProperties", bound) => Rule::Size(Sizes::Object, 0, size(bound)?),
                ("pattern", Value::String(pattern)) => Rule::Pattern(known_pattern(pattern)?),
                ("uniqueItems", Value::Bool(true)) => Rule::DistinctTexts,
                ("items", items) => Rule::Elements(self.rules(items, false)?),
                ("required", Value::Array(names)) if is_set(names) => {
                    Rule::Required(names.iter().map(|name| name.as_str().map(Box::from)).collect::<Option<_>>()?)
                }
                ("additionalProperties", _) if keywords.contains_key("properties") => continue,
                ("properties", Value::Object(_)) | ("additionalProperties", _) => self.properties(keywords)?,
                _ => return None,
            });
        }
        Some(rules.into())
    }

    /// Returns a choice whose members exclude each other: different constants, and at most one object in addition.
    fn one_of(&self, members: &[Value]) -> Option<Rule> {
        let (objects, named): (Vec<Value>, Vec<Value>) = members.iter().cloned().partition(|member| member["type"] == "object");
        let named = Rule::OneOf(words(&named)?);
        match objects.as_slice() {
            [] => Some(named),
            [object] => Some(Rule::AnyOf([self.rules(object, false)?, [named].into()].into())),
            _ => None,
        }
    }

    /// Compiles `properties` and `additionalProperties` together.
    fn properties(&self, keywords: &Map<String, Value>) -> Option<Rule> {
        let named = keywords.get("properties").and_then(Value::as_object);
        if named.is_some_and(|named| named.len() > MAX_PROPERTIES) {
            return None;
        }
        let properties = named.into_iter().flatten().map(|(name, inner)| Some((name.as_str().into(), self.rules(inner, false)?)));
        let others = match keywords.get("additionalProperties") {
            None => Some(Rules::default()),
            Some(Value::Bool(false)) => None,
            Some(schema) => Some(self.rules(schema, false)?),
        };
        Some(Rule::Properties(properties.collect::<Option<_>>()?, others))
    }
}

/// Returns the constants of a choice whose members are different constants and nothing else.
fn words(members: &[Value]) -> Option<Box<[Value]>> {
    let mut words: Vec<Value> = Vec::new();
    for member in members {
        let keywords = member.as_object()?;
        let listed = match (keywords.get("const"), keywords.get("enum")) {
            (Some(word), None) => std::slice::from_ref(word),
            (None, Some(Value::Array(listed))) => listed,
            _ => return None,
        };
        let is_plain = keywords.iter().all(|(keyword, value)| match keyword.as_str() {
            "const" | "enum" => true,
            "type" => value == "string",
            "description" | "title" => value.is_string(),
            _ => false,
        });
        if !is_plain || listed.iter().any(|word| !word.is_string() || words.contains(word)) {
            return None;
        }
        words.extend_from_slice(listed);
    }
    Some(words.into())
}

const NULL: u8 = 1;
const BOOLEAN: u8 = 1 << 1;
const INTEGER: u8 = 1 << 2;
const FRACTION: u8 = 1 << 3;
const STRING: u8 = 1 << 4;
const ARRAY: u8 = 1 << 5;
const OBJECT: u8 = 1 << 6;

/// Returns the type of `value`. A number that was written with a fraction may yet be an integer: that is for the validator.
fn type_of(value: &Value) -> u8 {
    match value {
        Value::Null => NULL,
        Value::Bool(_) => BOOLEAN,
        Value::Number(number) if number.is_f64() => FRACTION,
        Value::Number(_) => INTEGER,
        Value::String(_) => STRING,
        Value::Array(_) => ARRAY,
        Value::Object(_) => OBJECT,
    }
}

fn type_named(name: &str) -> Option<u8> {
    Some(match name {
        "null" => NULL,
        "boolean" => BOOLEAN,
        "integer" => INTEGER,
        "number" => INTEGER | FRACTION,
        "string" => STRING,
        "array" => ARRAY,
        "object" => OBJECT,
        _ => return None,
    })
}

fn is_set(names: &[Value]) -> bool {
    names.iter().enumerate().all(|(index, name)| !names[..index].contains(name))
}

fn size(bound: &Value) -> Option<usize> {
    bound.as_u64().and_then(|bound| usize::try_from(bound).ok())
}

/// Returns the patterns of the engine's own forms, which need no regular expressions.
fn known_pattern(pattern: &str) -> Option<fn(&str) -> bool> {
    match pattern {
        ID_PATTERN => Some(is_valid_id),
        NAME_PATTERN => Some(is_template_name),
        ENV_PATTERN => Some(is_environment_name),
        DAY_PATTERN => Some(is_day),
        PAGE_PATTERN => Some(is_page),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn validator(schema: &Value) -> Result<jsonschema::Validator, String> {
        let options = jsonschema::options().with_draft(jsonschema::Draft::Draft202012).offline();
        options.build(schema).map_err(|error| error.to_string())
    }

    /// Returns one or more schemas for each keyword, valid and invalid ones.
    fn schemas() -> Vec<Value> {
        vec![
            json!({"type": "integer"}),
            json!({"type": ["string", "null"]}),
            json!({"type": "number", "format": "double"}),
            json!({"type": []}),
            json!({"type": ["string", "string"]}),
            json!({"type": "strng"}),
            json!({"type": 3}),
            json!({"enum": [1, "a", null, 2.0]}),
            json!({"enum": "a"}),
            json!({"const": {"a": [1]}}),
            json!({"minimum": 2}),
            json!({"maximum": 2.5}),
            json!({"exclusiveMinimum": 2}),
            json!({"exclusiveMaximum": 3}),
            json!({"minimum": "2"}),
            json!({"minimum": 9_007_199_254_740_993_u64}),
            json!({"minLength": 2}),
            json!({"maxLength": 1}),
            json!({"minLength": -1}),
            json!({"minLength": 1.5}),
            json!({"minItems": 1}),
            json!({"maxItems": 1}),
            json!({"minProperties": 1}),
            json!({"maxProperties": 1}),
            json!({"uniqueItems": true}),
            json!({"uniqueItems": false}),
            json!({"items": {"type": "integer"}}),
            json!({"items": [{"type": "integer"}]}),
            json!({"required": ["a"]}),
            json!({"required": []}),
            json!({"required": ["a", "a"]}),
            json!({"required": "a"}),
            json!({"required": [1]}),
            json!({"properties": {"a": {"type": "string"}}}),
            json!({"properties": {"a": {"type": "strng"}}}),
            json!({"properties": []}),
            json!({"properties": {"a": true, "b": false}}),
            json!({"additionalProperties": false}),
            json!({"additionalProperties": {"type": "number"}, "properties": {"a": {"minLength": 1}}}),
            json!({"properties": {"a": {}}, "additionalProperties": false, "required": ["a"]}),
            json!({"additionalProperties": 1}),
            json!({"anyOf": [{"type": "string"}, {"minimum": 3}]}),
            json!({"anyOf": []}),
            json!({"oneOf": []}),
            json!({"anyOf": [{"type": "strng"}]}),
            json!({"oneOf": [{"const": "a"}, {"enum": ["b", "é"], "type": "string"}]}),
            json!({"oneOf": [{"const": "a"}, {"const": "a"}]}),
            json!({"oneOf": [{"const": "a"}, {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}]}),
            json!({"oneOf": [{"type": "object"}, {"type": "object", "required": ["a"]}]}),
            json!({"oneOf": [{"const": "a"}, {"type": "string"}]}),
            json!({"oneOf": [{"const": "a", "maxLength": 0}]}),
            json!({"$defs": {"t": {"items": {"$ref": "#/$defs/t"}, "type": ["array", "integer"]}}, "$ref": "#/$defs/t"}),
            json!({"$ref": "#/$defs/u"}),
            json!({"$defs": {"a/b": {"type": "string"}}, "$ref": "#/$defs/a~1b"}),
            json!({"$defs": 1}),
            json!({"$defs": {"a~1b": {"type": "array"}, "a/b": {"type": "string"}}, "$ref": "#/$defs/a~1b"}),
            json!({"pattern": ID_PATTERN}),
            json!({"pattern": ENV_PATTERN}),
            json!({"pattern": NAME_PATTERN}),
            json!({"pattern": DAY_PATTERN}),
            json!({"pattern": PAGE_PATTERN}),
            json!({"pattern": "^a"}),
            json!({"pattern": "("}),
            json!({"$schema": DIALECT}),
            json!({"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMinimum": true}),
            json!({"description": "d", "title": "t", "default": 1}),
            json!({"description": 1}),
            json!({"title": []}),
            json!({"not": {}}),
            json!({"x-own": 1}),
            json!(true),
            json!(false),
            json!(1),
            json!("a"),
            json!(null),
        ]
    }

    fn values() -> Vec<Value> {
        vec![
            json!(null),
            json!(true),
            json!(0),
            json!(1),
            json!(1.0),
            json!(2),
            json!(2.0),
            json!(2.5),
            json!(3),
            json!(9_007_199_254_740_992_u64),
            json!(9_007_199_254_740_993_u64),
            json!(-1),
            json!(1e300),
            json!(""),
            json!("a"),
            json!("é"),
            json!("b"),
            json!("ab"),
            json!("a_b"),
            json!("a-b2"),
            json!("A"),
            json!("_x"),
            json!("1a"),
            json!("a\n"),
            json!([]),
            json!([1]),
            json!([1, 1]),
            json!([1, 1.0]),
            json!(["a", "a"]),
            json!(["a", "b"]),
            json!([[1], []]),
            json!(["a", 1]),
            json!({}),
            json!({"a": "a"}),
            json!({"a": 1}),
            json!({"a": [1]}),
            json!({"a": [1.0]}),
            json!({"b": 1}),
            json!({"a": "", "b": 2}),
            json!("2026-01-31"),
            json!("2026-1-31x"),
            json!("https://a.b/c"),
            json!("https:// "),
            json!({"a": "x", "b": "y"}),
        ]
    }

    #[test]
    fn what_is_understood_is_a_schema_and_what_is_accepted_is_valid() {
        let (mut understood, mut accepted, mut undecided) = (0, 0, 0);
        for schema in schemas() {
            let Some(plain) = Plain::of(&schema) else { continue };
            understood += 1;
            let validator = validator(&schema).unwrap_or_else(|error| panic!("{schema} is understood, but {error}"));
            for value in values() {
                match (plain.accepts(&value), validator.is_valid(&value)) {
                    (true, true) => accepted += 1,
                    (true, false) => panic!("{value} is accepted, but breaks {schema}"),
                    (false, true) => undecided += 1,
                    (false, false) => {}
                }
            }
        }
        assert!(understood >= 30, "{understood} schemas are understood");
        assert!(accepted > undecided * 20, "{accepted} accepted, {undecided} valid ones left to the validator");
    }

    #[test]
    fn the_forms_of_files_are_plain() {
        for (name, schema) in baton_config::schemas() {
            assert!(Plain::of(&schema).is_some(), "{name} needs a validator even for a file without faults");
        }
    }
}
