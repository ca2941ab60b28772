//! JSON Schemas (2020-12), compiled so that nothing is fetched and no pattern backtracks.

use std::collections::HashMap;
use std::sync::OnceLock;

use baton_types::json::Json;
use baton_types::schema::{Judge, Schema, SchemaFault};
use serde_json::Value;

use crate::plain::Plain;
use crate::pointer::push_token;

/// The most bytes a compiled pattern may take.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// The most subschemas that one value is held against: references that branch would double them with every line.
const MAX_STEPS: usize = 10_000;

/// Largest number of reported faults of a check.
const MAX_FAULTS: usize = 20;

/// Deepest value whose faults are reported one by one if a schema's choices are recursive.
const MAX_TOLD_DEPTH: usize = 3;

/// Compiles `schema`; the error names the place where it is no schema. Nothing is ever fetched.
pub fn compile(schema: &Value) -> Result<Schema, String> {
    if let Some(pointer) = reference_outside(schema, &mut String::new()) {
        return Err(format!("a reference may only name a place in the same schema, such as \"#/$defs/point\" (at {pointer:?})"));
    }
    if let Some((pointer, fault)) = endless_reference(schema) {
        return Err(format!("{fault} (at {pointer:?})"));
    }
    let compiled = Compiled::of(schema);
    if compiled.plain.is_none() {
        compiled.validator.get_or_init(|| build(schema)).as_ref().map_err(String::clone)?;
    }
    Ok(Schema::new(compiled.json.clone(), compiled))
}

/// Keeps a schema that the engine derived from checked parts.
pub fn derived(schema: &Value) -> Schema {
    let compiled = Compiled::of(schema);
    Schema::new(compiled.json.clone(), compiled)
}

/// Checks `value` against a schema that the engine derived and does not keep.
pub fn judge(schema: &Value, value: &Value) -> Vec<SchemaFault> {
    if Plain::of(schema).is_some_and(|plain| plain.accepts(value)) {
        return Vec::new();
    }
    Compiled::of(schema).check(value).err().unwrap_or_default()
}

/// A compiled schema, with its source.
#[derive(Debug)]
struct Compiled {
    json: Json,
    /// The simple form of the schema, if it has one; then most values need no validator.
    plain: Option<Plain>,
    /// Filled at once for a schema that is not plain, else when a value is not accepted.
    validator: OnceLock<Result<Box<jsonschema::Validator>, String>>,
}

impl Compiled {
    fn of(schema: &Value) -> Self {
        Self { json: Json::from(schema), plain: Plain::of(schema), validator: OnceLock::new() }
    }

    /// Whether a choice may lead back to itself further down in a value. The validator keeps the faults of every alternative,
    /// so there they may double with every level of the value, which is a model's to nest.
    fn chooses_recursively(&self) -> bool {
        let says = |keyword: &str| self.json.text().contains(keyword);
        says("\"$ref\"") && (says("\"anyOf\"") || says("\"oneOf\""))
    }
}

impl Judge for Compiled {
    fn check(&self, value: &Value) -> Result<(), Vec<SchemaFault>> {
        if self.plain.as_ref().is_some_and(|plain| plain.accepts(value)) {
            return Ok(());
        }
        let validator = match self.validator.get_or_init(|| build(&self.json.value())) {
            Ok(validator) => validator,
            Err(message) => return Err(vec![SchemaFault { pointer: String::new(), message: message.clone() }]),
        };
        if validator.is_valid(value) {
            return Ok(());
        }
        if self.chooses_recursively() && depth(value) > MAX_TOLD_DEPTH {
            let message = "the value fits none of the forms that are allowed; it is nested too deeply to say where".to_owned();
            return Err(vec![SchemaFault { pointer: String::new(), message }]);
        }
        Err(validator
            .iter_errors(value)
            .map(|error| SchemaFault { pointer: error.instance_path().to_string(), message: error.to_string() })
            .take(MAX_FAULTS)
            .collect())
    }
}

/// Returns the depth of nested lists and objects.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(values) => 1 + values.iter().map(depth).max().unwrap_or(0),
        Value::Object(object) => 1 + object.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn build(schema: &Value) -> Result<Box<jsonschema::Validator>, String> {
    let patterns = jsonschema::PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES);
    let options = jsonschema::options().with_draft(jsonschema::Draft::Draft202012).with_pattern_options(patterns).offline();
    options.build(schema).map(Box::new).map_err(|error| format!("{error} (at {:?})", error.instance_path().to_string()))
}

/// Returns the pointer of a reference that leaves the schema or is resolved while it runs.
fn reference_outside(schema: &Value, pointer: &mut String) -> Option<String> {
    let mut inside = |key: &str, value: &Value| {
        let length = pointer.len();
        push_token(pointer, key);
        let foreign = match (key, value) {
            ("$ref", Value::String(target)) => !(target == "#" || target.starts_with("#/")),
            ("$dynamicRef" | "$recursiveRef", Value::String(_)) => true,
            _ => false,
        };
        let found = if foreign { Some(pointer.clone()) } else { reference_outside(value, pointer) };
        pointer.truncate(length);
        found
    };
    match schema {
        Value::Object(object) => object.iter().find_map(|(key, value)| inside(key, value)),
        Value::Array(array) => array.iter().enumerate().find_map(|(index, value)| inside(&index.to_string(), value)),
        _ => None,
    }
}

/// Returns the pointer of a reference that would be followed for ever, or nearly so, without going down into the value, and what
/// is wrong with it.
fn endless_reference(schema: &Value) -> Option<(String, &'static str)> {
    let mut done = HashMap::new();
    let mut references = Vec::new();
    collect_references(schema, &mut String::new(), &mut references);
    references.into_iter().find_map(|start| {
        let fault = match steps(schema, &start, &mut Vec::new(), &mut done) {
            None => "the reference leads back to itself",
            Some(steps) if steps > MAX_STEPS => "the references branch too often",
            Some(_) => return None,
        };
        Some((start, fault))
    })
}

fn collect_references(schema: &Value, pointer: &mut String, found: &mut Vec<String>) {
    let mut inside = |key: &str, value: &Value| {
        let length = pointer.len();
        push_token(pointer, key);
        collect_references(value, pointer, found);
        pointer.truncate(length);
    };
    match schema {
        Value::Object(object) => {
            object.iter().for_each(|(key, value)| inside(key, value));
            if object.get("$ref").is_some_and(Value::is_string) {
                found.push(pointer.clone());
            }
        }
        Value::Array(array) => array.iter().enumerate().for_each(|(index, value)| inside(&index.to_string(), value)),
        _ => {}
    }
}

/// Returns the number of subschemas that are met when the schema at `pointer` is followed in place; `None` if that
/// never ends.
fn steps(root: &Value, pointer: &str, path: &mut Vec<String>, done: &mut HashMap<String, usize>) -> Option<usize> {
    if let Some(known) = done.get(pointer) {
        return Some(*known);
    }
    if path.iter().any(|earlier| earlier == pointer) || path.len() > 1_000 {
        return None;
    }
    path.push(pointer.to_owned());
    let mut next = Vec::new();
    if let Some(Value::Object(object)) = root.pointer(pointer) {
        for (key, value) in object {
            match (key.as_str(), value) {
                ("$ref", Value::String(target)) => next.push(target.trim_start_matches('#').to_owned()),
                ("allOf" | "anyOf" | "oneOf", Value::Array(members)) => {
                    next.extend((0..members.len()).map(|index| format!("{pointer}/{key}/{index}")));
                }
                ("not" | "if" | "then" | "else", Value::Object(_)) => next.push(format!("{pointer}/{key}")),
                ("dependentSchemas", Value::Object(members)) => next.extend(members.keys().map(|member| {
                    let mut inner = format!("{pointer}/{key}");
                    push_token(&mut inner, member);
                    inner
                })),
                _ => {}
            }
        }
    }
    let mut sum = 1_usize;
    for target in &next {
        sum = sum.saturating_add(steps(root, target, path, done)?);
    }
    path.pop();
    done.insert(pointer.to_owned(), sum);
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_that_leave_the_schema_are_refused() {
        for target in ["http://example.com/x.json", "file:///etc/passwd", "other.json#/a", "#anchor"] {
            let error = compile(&json!({"properties": {"a": {"$ref": target}}})).unwrap_err();
            assert!(error.contains("/properties/a/$ref"), "{target}: {error}");
        }
        assert!(compile(&json!({"$dynamicRef": "#a"})).is_err());
    }

    #[test]
    fn references_that_lead_back_to_themselves_are_refused_and_recursive_values_are_not() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}),
            json!({"anyOf": [{"type": "string"}, {"$ref": "#"}]}),
        ] {
            assert!(compile(&schema).is_err(), "{schema}");
        }
        let tree = json!({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}});
        let schema = compile(&tree).unwrap();
        assert!(schema.check(&json!({"children": [{"children": []}]})).is_ok());
        assert!(schema.check(&json!({"children": [{"children": 1}]})).is_err());
    }

    #[test]
    fn references_that_double_with_every_line_are_refused() {
        let doubling = |lines: usize| {
            let twice =
                |next: usize| json!({"anyOf": [{"$ref": format!("#/$defs/d{next}")}, {"$ref": format!("#/$defs/d{next}")}]});
            let mut definitions: serde_json::Map<String, Value> =
                (0..lines).map(|line| (format!("d{line}"), twice(line + 1))).collect();
            definitions.insert(format!("d{lines}"), json!({"type": "null"}));
            json!({"$defs": definitions, "$ref": "#/$defs/d0"})
        };
        assert!(compile(&doubling(60)).unwrap_err().contains("branch too often"));
        let few = compile(&doubling(5)).unwrap();
        assert!(few.check(&json!(null)).is_ok() && few.check(&json!(1)).is_err());
    }

    #[test]
    fn patterns_run_in_linear_time_or_are_refused() {
        let schema = compile(&json!({"type": "string", "pattern": "^(a+)+$"})).unwrap();
        let hostile = "a".repeat(50_000) + "!";
        assert!(schema.check(&Value::String(hostile)).is_err());
        assert!(compile(&json!({"pattern": "(\\w{1000}){1000}"})).is_err());
        assert!(compile(&json!({"pattern": "(?=a)b"})).is_err());
    }

    #[test]
    fn a_schema_that_is_none_says_where() {
        let error = compile(&json!({"type": "object", "properties": {"a": {"type": "strng"}}})).unwrap_err();
        assert!(error.contains("/properties/a/type"), "{error}");
    }
}
