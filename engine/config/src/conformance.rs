//! Conformance of tool configs to the two checklists of seed 001: agents can only use fields that are described.
//!
//! A tool works without descriptions, and definitions of others often lack them. So a run starts all the same; `baton validate`
//! reports these findings, and `--strict` makes them faults. Each file counts alone: keys of the config that it refines are
//! that config's.

use serde_json::{Map, Value};

use crate::fault::{Fault, FaultKind, Faults};
use crate::loader::Loader;
use crate::reader::{Spot, Text, pointer};
use crate::source::{Role, Sources};

/// Keys that name the possible values of a schema, and so their types.
const TYPED_BY: [&str; 8] = ["type", "enum", "const", "$ref", "$dynamicRef", "anyOf", "oneOf", "allOf"];

/// Keys whose schemas describe parts of the same value.
const SAME_VALUE: [&str; 3] = ["anyOf", "oneOf", "allOf"];

/// Checks the tools of `sources`. Fails with their fields without type or description, and with fields of examples that no
/// input or output has. Files that cannot be read are left out: their faults are those of [`load`](crate::load).
pub fn conformance(sources: &Sources) -> Result<(), Faults> {
    let mut loader = Loader::new(sources, &[]);
    let mut findings = Vec::new();
    for source in [Role::BuiltinTool, Role::SharedTool, Role::Tool].into_iter().flat_map(|role| sources.of(role)) {
        if let Some(read) = loader.read(source) {
            let mut check = Check { text: &read.text, findings: &mut findings };
            check.tool(&read.value);
        }
    }
    Faults::none_of(findings)
}

/// The findings of one file.
struct Check<'a, 's> {
    text: &'a Text<'s>,
    findings: &'a mut Vec<Fault>,
}

impl Check<'_, '_> {
    fn tool(&mut self, tool: &Value) {
        for key in ["parameters", "returns"] {
            self.fields(tool.get(key), &pointer(&[key]));
        }
        for key in ["input_schema", "output_schema"] {
            if let Some(schema) = tool.get(key) {
                self.parts(schema, &pointer(&[key]));
            }
        }
        let examples = tool.get("examples").and_then(Value::as_array).into_iter().flatten();
        for (index, example) in examples.enumerate() {
            // The loader already closes the inputs of `parameters` and the outputs of `returns`.
            for (side, key) in [("input", "input_schema"), ("output", "output_schema")] {
                if let (Some(shown), Some(schema)) = (example.get(side), tool.get(key)) {
                    self.example(side, schema, schema, shown, &pointer(&["examples", &index.to_string(), side]));
                }
            }
        }
    }

    /// Checks each field of an object, and their parts.
    fn fields(&mut self, fields: Option<&Value>, place: &str) {
        for (name, field) in fields.and_then(Value::as_object).into_iter().flatten() {
            let place = format!("{place}{}", pointer(&[name]));
            // `"count": "integer"` is a type without a description; `true` takes any value.
            let is_typed = field.is_string() || TYPED_BY.iter().any(|key| field.get(key).is_some());
            if !is_typed {
                let message = format!("the field \"{name}\" has no type");
                self.find(FaultKind::UntypedField, &place, message, "\"type\", such as \"string\"");
            }
            if field.get("description").and_then(Value::as_str).is_none_or(|text| text.trim().is_empty()) {
                let message = format!("the field \"{name}\" has no description");
                self.find(FaultKind::UndescribedField, &place, message, "\"description\": the meaning of the value");
            }
            self.parts(field, &place);
        }
    }

    /// Checks the fields within a value.
    fn parts(&mut self, schema: &Value, place: &str) {
        for key in ["properties", "patternProperties"] {
            self.fields(schema.get(key), &format!("{place}/{key}"));
        }
        for key in ["items", "additionalProperties", "then", "else", "contains"] {
            if let Some(part) = schema.get(key) {
                self.parts(part, &format!("{place}/{key}"));
            }
        }
        for key in SAME_VALUE.into_iter().chain(["prefixItems"]) {
            for (index, part) in schema.get(key).and_then(Value::as_array).into_iter().flatten().enumerate() {
                self.parts(part, &format!("{place}/{key}/{index}"));
            }
        }
        for key in ["$defs", "definitions", "dependentSchemas"] {
            for (name, part) in schema.get(key).and_then(Value::as_object).into_iter().flatten() {
                self.parts(part, &format!("{place}{}", pointer(&[key, name])));
            }
        }
    }

    /// Checks that each field of an example's `side` is declared. A schema that declares no fields leaves them open.
    fn example(&mut self, side: &str, root: &Value, schema: &Value, example: &Value, place: &str) {
        match example {
            Value::Object(fields) => {
                let Some(declared) = declared(root, schema) else { return };
                for (name, value) in fields {
                    let place = format!("{place}{}", pointer(&[name]));
                    if let Some(schema) = declared.get(name) {
                        self.example(side, root, schema, value, &place);
                    } else {
                        let message = format!("the example shows the field \"{name}\", which the {side} does not have");
                        let fault = self.text.fault(FaultKind::UnknownExampleField, &place, Spot::Key, message);
                        self.findings.push(fault.near(name, declared.keys().map(String::as_str)));
                    }
                }
            }
            Value::Array(elements) => {
                let Some(items) = resolved(root, schema).and_then(|schema| schema.get("items")) else { return };
                for (index, element) in elements.iter().enumerate() {
                    self.example(side, root, items, element, &format!("{place}/{index}"));
                }
            }
            _ => {}
        }
    }

    fn find(&mut self, kind: FaultKind, place: &str, message: String, expected: &str) {
        self.findings.push(self.text.fault(kind, place, Spot::Key, message).expected(expected));
    }
}

/// Returns the declared fields of an object, unless it takes others by pattern or by a combination of schemas.
fn declared<'a>(root: &'a Value, schema: &'a Value) -> Option<&'a Map<String, Value>> {
    let schema = resolved(root, schema)?;
    let others = ["patternProperties", "additionalProperties", "anyOf", "oneOf", "allOf", "if", "dependentSchemas"];
    let is_open = others.iter().any(|key| schema.get(key).is_some_and(|value| value != &Value::Bool(false)));
    schema.get("properties")?.as_object().filter(|_| !is_open)
}

/// Returns the schema that `schema` names by a local reference, or itself.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> Option<&'a Value> {
    match schema.get("$ref").and_then(Value::as_str) {
        Some(reference) => root.pointer(reference.strip_prefix('#')?),
        None => Some(schema),
    }
}
