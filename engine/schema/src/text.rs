//! Judges a JSON text while it is read, so that most values need no tree.
//!
//! Types, keys and elements are judged as they come. If a subschema has other rules, its value is read into a tree, which [`Walk`] judges.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::program::{ARRAY, NodeId, OBJECT, Program, Properties, Rule, STRING};
use crate::walk::{ScopeId, Walk};

impl Program {
    /// Whether `text`, one that [`Json::parse`](baton_types::json::Json::parse) accepts, meets the schema. It may be false for a valid text
    /// that takes many steps; then [`Program::accepts`] decides.
    pub fn accepts_text(&self, text: &str) -> bool {
        let mut reader = serde_json::Deserializer::from_str(text);
        let mut walk = Walk::of_text(self);
        let whole = Part { walk: &mut walk, node: Some(self.root), scope: 0 };
        whole.deserialize(&mut reader).is_ok() && reader.end().is_ok()
    }
}

/// The value that is read next, and the subschema that judges it; `None` if any value is allowed.
struct Part<'p, 'w> {
    walk: &'p mut Walk<'w>,
    node: Option<NodeId>,
    scope: ScopeId,
}

/// The rules of a subschema that need no tree.
struct Simple<'w> {
    types: u8,
    required: &'w [Box<str>],
    properties: Option<&'w Properties>,
    first: &'w [NodeId],
    rest: Option<NodeId>,
}

impl<'w> Simple<'w> {
    const ANY: Self = Self { types: u8::MAX, required: &[], properties: None, first: &[], rest: None };

    /// Returns the rules of a subschema; `None` if one of them needs a tree.
    fn of(rules: &'w [Rule]) -> Option<Self> {
        let mut simple = Self::ANY;
        for rule in rules {
            match rule {
                Rule::Type(allowed) => simple.types &= allowed,
                // Each required key has a bit of a mask.
                Rule::Required(names) if simple.required.is_empty() && names.len() < u64::BITS as usize => {
                    simple.required = names;
                }
                Rule::Properties(properties) if simple.properties.is_none() && properties.patterns.is_empty() => {
                    simple.properties = Some(properties);
                }
                Rule::Elements { first, rest } if simple.first.is_empty() && simple.rest.is_none() => {
                    (simple.first, simple.rest) = (first, *rest);
                }
                _ => return None,
            }
        }
        Some(simple)
    }
}

impl<'w> Part<'_, 'w> {
    /// Returns the rules of its subschema; `None` if one of them needs a tree.
    fn simple(&self) -> Option<Simple<'w>> {
        let program = self.walk.program;
        self.node.map_or(Some(Simple::ANY), |node| Simple::of(&program.nodes[node as usize].rules))
    }

    /// Returns the next inner value, which `node` judges.
    fn inner(&mut self, node: Option<NodeId>) -> Part<'_, 'w> {
        Part { walk: self.walk, node, scope: self.scope }
    }

    /// Judges the value as a tree.
    fn judge<E: Error>(self, value: &Value) -> Result<(), E> {
        met(self.node.is_none_or(|node| self.walk.meets_part(node, value, self.scope)))
    }
}

fn met<E: Error>(is_met: bool) -> Result<(), E> {
    if is_met { Ok(()) } else { Err(E::custom("the value does not meet its schema")) }
}

impl<'de> DeserializeSeed<'de> for Part<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(mut self, deserializer: D) -> Result<(), D::Error> {
        if let Some(node) = self.node {
            let (target, scope) = self.walk.target(node, self.scope);
            (self.node, self.scope) = (Some(target), scope);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.judge(&Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.judge(&Value::from(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.judge(&Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.judge(&Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.judge(&Value::from(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        match self.simple() {
            Some(simple) => met(self.walk.add_value() && simple.types & STRING != 0),
            None => self.judge(&Value::from(value)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        let Some(simple) = self.simple() else {
            return self.judge(&Value::deserialize(SeqAccessDeserializer::new(elements))?);
        };
        met(self.walk.add_value() && simple.types & ARRAY != 0)?;
        let mut nodes = simple.first.iter().copied().map(Some).chain(std::iter::repeat(simple.rest));
        self.walk.depth += 1;
        while elements.next_element_seed(self.inner(nodes.next().flatten()))?.is_some() {}
        self.walk.depth -= 1;
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut keys: A) -> Result<(), A::Error> {
        let Some(simple) = self.simple() else {
            return self.judge(&Value::deserialize(MapAccessDeserializer::new(keys))?);
        };
        met(self.walk.add_value() && simple.types & OBJECT != 0)?;
        let mut missing = (1_u64 << simple.required.len()) - 1;
        self.walk.depth += 1;
        while let Some(key) = keys.next_key_seed(Key { simple: &simple })? {
            missing &= !key.required;
            keys.next_value_seed(self.inner(key.node))?;
        }
        self.walk.depth -= 1;
        met(missing == 0)
    }
}

/// The rules of a subschema for one key.
struct Judged {
    node: Option<NodeId>,
    /// The bit of the key in the mask of required keys.
    required: u64,
}

/// The key that is read next.
struct Key<'k, 'w> {
    simple: &'k Simple<'w>,
}

impl<'de> DeserializeSeed<'de> for Key<'_, '_> {
    type Value = Judged;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Judged, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_, '_> {
    type Value = Judged;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Judged, E> {
        let node = self.simple.properties.and_then(|properties| properties.get(key).or(properties.rest));
        let required = self.simple.required.iter().position(|name| **name == *key).map_or(0, |place| 1 << place);
        Ok(Judged { node, required })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the schema alone, as a property, as the other properties, as an element, and behind a reference, each with a value.
    fn around(schema: &Value, value: &Value) -> Vec<(Value, Value)> {
        vec![
            (schema.clone(), value.clone()),
            (json!({"properties": {"a": schema}, "required": ["a"]}), json!({"b": [value], "a": value})),
            (json!({"type": "object", "additionalProperties": schema}), json!({"a": value, "b": value})),
            (json!({"prefixItems": [{"type": "integer"}], "items": schema}), json!([1, value, value])),
            (json!({"properties": {"a": {"$ref": "#/$defs/s"}}, "$defs": {"s": schema}}), json!({"a": value})),
            (
                json!({"items": {"anyOf": [{"$ref": "#/$defs/s"}, {"type": "null"}]}, "$defs": {"s": schema}}),
                json!([value, {}, value]),
            ),
        ]
    }

    #[test]
    fn a_text_is_judged_like_its_tree() {
        let schemas = [
            json!({}),
            json!({"type": "string"}),
            json!({"type": ["array", "null"]}),
            json!({"type": "object", "required": ["a", "é"]}),
            json!({"properties": {"a": {"type": "integer"}, "é": {"enum": ["b", [1]]}}, "additionalProperties": false}),
            json!({"properties": {"a": {"minimum": 2}}, "patternProperties": {"^é": {"type": "string"}}}),
            json!({"prefixItems": [{"const": 1}], "items": false}),
            json!({"items": {"type": "object", "properties": {"a": {"maxLength": 1}}}}),
            json!({"uniqueItems": true, "minLength": 2, "maxProperties": 1}),
            json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            false.into(),
        ];
        let values = [
            json!(null),
            json!(true),
            json!(1),
            json!(-3),
            json!(1.0),
            json!(2.5),
            json!(""),
            json!("a\n\"é"),
            json!([]),
            json!([1]),
            json!([1, 1]),
            json!([{"a": "b"}, {"a": 1}]),
            json!([{"a": "bc"}]),
            json!({}),
            json!({"a": 1, "é": "b"}),
            json!({"a": 3, "é": [1]}),
            json!({"a": "1", "b": null}),
        ];
        let mut accepted = 0;
        for (schema, value) in schemas.iter().flat_map(|schema| values.iter().flat_map(move |value| around(schema, value))) {
            let program = Program::read(&schema).expect("it is a schema");
            let holds = program.accepts(&value);
            assert_eq!(program.accepts_text(&value.to_string()), holds, "{value} of {schema}");
            assert_eq!(program.accepts_text(&format!(" {value:#} ")), holds, "{value} of {schema}");
            accepted += usize::from(holds);
        }
        assert!(accepted > 400, "{accepted} values were accepted");
    }

    #[test]
    fn a_text_that_is_no_value_is_not_accepted() {
        let program = Program::read(&json!(true)).expect("it is a schema");
        for text in ["", "{", "[1,]", "1 2", "{\"a\"}", &"[".repeat(100_000), &format!("{}1{}", "[".repeat(200), "]".repeat(200))]
        {
            assert!(!program.accepts_text(text), "{text:.20}");
        }
    }

    /// The value is as deep as the schema allows, or one level deeper.
    #[test]
    fn the_levels_of_a_text_and_of_its_tree_are_the_same() {
        let mut definitions: serde_json::Map<String, Value> = (0..499)
            .map(|index| (format!("c{index}"), json!({"allOf": [{"$ref": format!("#/$defs/c{}", index + 1)}]})))
            .collect();
        definitions.insert("c499".to_owned(), json!({"type": "array", "items": {"$ref": "#/$defs/c0"}}));
        let program =
            Program::read(&json!({"properties": {"a": {"$ref": "#/$defs/c0"}}, "$defs": definitions})).expect("it is a schema");
        for (value, holds) in [(json!({"a": [[]]}), true), (json!({"a": [[[]]]}), false)] {
            assert_eq!((program.accepts(&value), program.accepts_text(&value.to_string())), (holds, holds), "{value}");
        }
    }

    /// Verdicts are kept by the address of a value. The next part may have the same address.
    #[test]
    fn each_part_has_its_own_verdict() {
        let schema = json!({
            "items": {"allOf": [{"$ref": "#/$defs/s"}, {"$ref": "#/$defs/s"}]},
            "$defs": {"s": {"type": "array", "maxItems": 1}},
        });
        let program = Program::read(&schema).expect("it is a schema");
        assert!(program.accepts_text("[[1],[2]]"));
        assert!(!program.accepts_text("[[1],[2,3]]"));
    }
}
