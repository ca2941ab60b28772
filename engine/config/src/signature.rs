//! Compares the declared input of a tool with the parameters of its function.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

use baton_schema::push_token;
use baton_types::spelling::nearest;
use serde_json::{Map, Value};

use crate::fault::FaultKind;
use crate::reader::Spot;

/// One disagreement. The pointer is into the config's input schema.
#[derive(Debug, PartialEq)]
pub(crate) struct Mismatch {
    pub(crate) kind: FaultKind,
    pub(crate) pointer: String,
    pub(crate) spot: Spot,
    pub(crate) message: String,
    pub(crate) expected: Option<String>,
    pub(crate) found: Option<String>,
    pub(crate) nearest: Option<String>,
}

/// The properties of an object that names none.
static NOTHING: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// Deepest level at which parameters are compared.
const MAX_DEPTH: usize = 16;

/// Compares the input schema of a config with the schema of the parameters of `fn name`.
pub(crate) fn compare(config: &Value, function: &Value, name: &str) -> Vec<Mismatch> {
    let mut comparison = Comparison { config, function, name, found: Vec::new() };
    comparison.objects(config, function, &mut String::new(), 0);
    comparison.found
}

struct Comparison<'a> {
    config: &'a Value,
    function: &'a Value,
    name: &'a str,
    found: Vec<Mismatch>,
}

impl<'a> Comparison<'a> {
    fn objects(&mut self, config: &'a Value, function: &'a Value, pointer: &mut String, depth: usize) {
        let ours = properties(config).unwrap_or(&NOTHING);
        let theirs = match properties(function) {
            Some(theirs) => theirs,
            // A function whose parameter is a map of anything accepts every declared input.
            None if depth > 0 || function.get("additionalProperties").is_some_and(|others| *others != Value::Bool(false)) => {
                return;
            }
            None => &NOTHING,
        };
        let word = if depth == 0 { "parameter" } else { "key" };
        let mut meant = BTreeSet::new();
        for name in ours.keys().filter(|name| !theirs.contains_key(*name)) {
            let free = theirs.keys().map(String::as_str).filter(|theirs| !ours.contains_key(*theirs));
            let nearest = nearest(name, free.clone()).map(str::to_owned);
            meant.extend(nearest.clone());
            let message = format!("{word} \"{name}\" is not in fn {}", self.name);
            let known: Vec<&str> = theirs.keys().map(String::as_str).collect();
            let mut mismatch =
                Self::mismatch(FaultKind::ParameterNotInFunction, pointer, &["properties", name], Spot::Key, message);
            mismatch.expected = Some(if known.is_empty() { "no parameters".to_owned() } else { super::fault::one_of(&known) });
            mismatch.nearest = nearest;
            self.found.push(mismatch);
        }
        for (name, parameter) in theirs {
            let Some(ours_here) = ours.get(name) else {
                if !meant.contains(name) {
                    let message = format!("{word} \"{name}\" of fn {} is missing", self.name);
                    let mut missing =
                        Self::mismatch(FaultKind::ParameterNotInConfig, pointer, &["properties", name], Spot::Key, message);
                    missing.expected = types(self.function, parameter, 0).map(|types| format!("\"{name}\" of type {types}"));
                    self.found.push(missing);
                }
                continue;
            };
            if is_required(config, name) != is_required(function, name) {
                let (theirs, ours) =
                    if is_required(function, name) { ("required", "optional") } else { ("optional", "required") };
                let message = format!("{word} \"{name}\" is {theirs} in fn {}, but {ours} here", self.name);
                let mut mismatch = Self::mismatch(
                    FaultKind::ParameterRequired,
                    pointer,
                    &["properties", name, "required"],
                    Spot::Value,
                    message,
                );
                mismatch.expected = Some(format!("\"required\": {}", theirs == "required"));
                self.found.push(mismatch);
            }
            let length = pointer.len();
            pointer.push_str("/properties");
            push_token(pointer, name);
            self.values(ours_here, parameter, pointer, &format!("{word} \"{name}\""), depth);
            pointer.truncate(length);
        }
    }

    fn values(&mut self, config: &'a Value, function: &'a Value, pointer: &mut String, what: &str, depth: usize) {
        let Some(wanted) = types(self.function, function, 0) else { return };
        let given = types(self.config, config, 0);
        if given != Some(wanted) {
            let message = format!("{what} has another type in fn {}", self.name);
            let mut mismatch = Self::mismatch(FaultKind::ParameterType, pointer, &["type"], Spot::Value, message);
            mismatch.expected = Some(wanted.to_string());
            mismatch.found = Some(given.map_or_else(|| "any".to_owned(), |given| given.to_string()));
            self.found.push(mismatch);
            return;
        }
        let (config, function) = (resolve(self.config, config, 0), resolve(self.function, function, 0));
        if let Some(wanted) = words(self.function, function)
            && let Some(given) = words(self.config, config)
        {
            for word in given.iter().filter(|word| !wanted.contains(word)) {
                let message = format!("{what} allows \"{word}\", which fn {} does not take", self.name);
                let mut mismatch = Self::mismatch(FaultKind::ParameterType, pointer, &["enum"], Spot::Key, message);
                mismatch.nearest = nearest(word, wanted.iter().copied()).map(str::to_owned);
                mismatch.expected = Some(super::fault::one_of(&wanted));
                self.found.push(mismatch);
            }
        }
        if depth >= MAX_DEPTH {
            return;
        }
        if properties(config).is_some() {
            self.objects(config, function, pointer, depth + 1);
        }
        if let (Some(ours), Some(theirs)) = (config.get("items"), function.get("items")) {
            let length = pointer.len();
            pointer.push_str("/items");
            self.values(ours, theirs, pointer, &format!("an element of {what}"), depth + 1);
            pointer.truncate(length);
        }
    }

    fn mismatch(kind: FaultKind, pointer: &str, rest: &[&str], spot: Spot, message: String) -> Mismatch {
        let mut pointer = pointer.to_owned();
        for token in rest {
            push_token(&mut pointer, token);
        }
        Mismatch { kind, pointer, spot, message, expected: None, found: None, nearest: None }
    }
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

fn is_required(object: &Value, name: &str) -> bool {
    object.get("required").and_then(Value::as_array).is_some_and(|required| required.iter().any(|each| each == name))
}

/// Keywords whose value is a choice of schemas.
const CHOICES: [&str; 3] = ["anyOf", "oneOf", "allOf"];

/// Whether `schema` has a keyword that is `wanted`: most have none, and looking through a few is quicker than asking for each.
fn says(schema: &Value, wanted: impl Fn(&str) -> bool) -> bool {
    schema.as_object().is_some_and(|keywords| keywords.keys().any(|keyword| wanted(keyword)))
}

/// Follows local references, and an optional value to what it is when it is there.
fn resolve<'v>(root: &'v Value, schema: &'v Value, depth: usize) -> &'v Value {
    if depth > MAX_DEPTH || !says(schema, |keyword| keyword == "$ref" || CHOICES.contains(&keyword)) {
        return schema;
    }
    if let Some(target) = schema.get("$ref").and_then(Value::as_str)
        && let Some(found) = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer))
    {
        return resolve(root, found, depth + 1);
    }
    for keyword in CHOICES {
        if let Some(members) = schema.get(keyword).and_then(Value::as_array) {
            let mut present = members.iter().filter(|member| member.get("type").is_none_or(|name| name != "null"));
            if let (Some(only), None) = (present.next(), present.next()) {
                return resolve(root, only, depth + 1);
            }
        }
    }
    schema
}

/// Returns the JSON types that a schema allows besides `null`; `None` if it allows any.
fn types(root: &Value, schema: &Value, depth: usize) -> Option<Types> {
    let schema = resolve(root, schema, depth);
    let mut found = Types::default();
    match schema.get("type") {
        Some(Value::String(name)) => found.add(name),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).for_each(|name| found.add(name)),
        _ => {
            if let Some(value) = schema.get("const") {
                found.add(super::shape::type_of(value));
            } else if let Some(values) = schema.get("enum").and_then(Value::as_array) {
                for value in values {
                    found.add(super::shape::type_of(value));
                }
            } else {
                let members = ["anyOf", "oneOf"].iter().find_map(|keyword| schema.get(*keyword)).and_then(Value::as_array)?;
                for member in members {
                    if depth > MAX_DEPTH {
                        return None;
                    }
                    found.0 |= types(root, member, depth + 1)?.0;
                }
            }
        }
    }
    Some(found)
}

/// JSON types besides `null`: a bit for each of [`Types::NAMES`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Types(u8);

impl Types {
    const NAMES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

    fn add(&mut self, name: &str) {
        self.0 |= Self::NAMES.iter().position(|known| *known == name).map_or(0, |bit| 1 << bit);
    }
}

impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Self::NAMES.iter().enumerate().filter(|(bit, _)| self.0 & (1 << bit) != 0);
        f.write_str(&names.map(|(_, name)| *name).collect::<Vec<_>>().join(" or "))
    }
}

/// Returns the words that a schema allows, if it lists them.
fn words<'v>(root: &'v Value, schema: &'v Value) -> Option<Vec<&'v str>> {
    let schema = resolve(root, schema, 0);
    if !says(schema, |keyword| keyword == "enum" || CHOICES.contains(&keyword)) {
        return None;
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return Some(values.iter().filter_map(Value::as_str).collect());
    }
    let members = ["oneOf", "anyOf"].iter().find_map(|keyword| schema.get(*keyword)).and_then(Value::as_array)?;
    let mut words = Vec::new();
    for member in members {
        match (member.get("const").and_then(Value::as_str), member.get("enum")) {
            (Some(word), _) => words.push(word),
            (None, Some(Value::Array(values))) => words.extend(values.iter().filter_map(Value::as_str)),
            _ => return None,
        }
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kinds(config: &Value, function: &Value) -> Vec<(FaultKind, String)> {
        compare(config, function, "f").into_iter().map(|mismatch| (mismatch.kind, mismatch.pointer)).collect()
    }

    #[test]
    fn an_optional_and_a_nested_parameter_agree() {
        let function = json!({
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "limit": {"type": ["integer", "null"], "format": "uint32", "minimum": 0},
                "point": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]},
                "kind": {"$ref": "#/$defs/Kind"},
                "extra": true
            },
            "required": ["text", "kind", "extra"],
            "$defs": {
                "Point": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
                "Kind": {"oneOf": [{"type": "string", "const": "a"}, {"type": "string", "const": "b"}]}
            }
        });
        let mut config = json!({
            "type": "object",
            "properties": {
                "text": {"type": "string"}, "limit": {"type": "integer"},
                "point": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
                "kind": {"type": "string", "enum": ["a"]}, "extra": {"type": "object"}
            },
            "required": ["text", "kind", "extra"]
        });
        assert_eq!(kinds(&config, &function), []);
        config["properties"]["point"]["properties"] = json!({"y": {"type": "number"}});
        config["properties"]["kind"]["enum"] = json!(["a", "c"]);
        config["properties"]["limit"]["type"] = json!("number");
        config["required"] = json!(["text", "limit", "kind", "extra"]);
        assert_eq!(
            kinds(&config, &function),
            [
                (FaultKind::ParameterRequired, "/properties/limit/required".to_owned()),
                (FaultKind::ParameterType, "/properties/limit/type".to_owned()),
                (FaultKind::ParameterNotInFunction, "/properties/point/properties/y".to_owned()),
                (FaultKind::ParameterType, "/properties/kind/enum".to_owned()),
            ]
        );
    }

    #[test]
    fn a_renamed_parameter_is_one_fault_and_a_missing_one_is_its_own() {
        let function = json!({"properties": {"text": {"type": "string"}, "width": {"type": "integer"}}, "required": ["text"]});
        let config = json!({"properties": {"txt": {"type": "string"}}, "required": ["txt"]});
        let found = compare(&config, &function, "word_count");
        assert_eq!(found[0].message, "parameter \"txt\" is not in fn word_count");
        assert_eq!(found[0].nearest.as_deref(), Some("text"));
        assert_eq!(found[1].message, "parameter \"width\" of fn word_count is missing");
        assert_eq!(found.len(), 2);
    }
}
