//! `OpenAI`'s strict subset of JSON Schema: compiles a schema, and notes how to restore the inputs.
//!
//! Rules from <https://platform.openai.com/docs/guides/structured-outputs> (supported schemas): every object names its
//! keys, requires all of them and accepts no others. So an optional key becomes one that may be null. An optional key
//! that may be null already has no such form, unless its default is null. Choices are `anyOf`, and not at the root. There is no `allOf`, `not` or condition. Rules that the subset has no keyword for,
//! such as lengths and defaults, become text in the description. If the compiled schema would mean something else, it
//! is *not* used: the original schema is offered without enforcement.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde_json::{Map, Value, json};

use super::back::{Back, Node, Slot, kind_named};
use super::guidance;
use super::source::{Keywords, Source, Unfit, below, constrains, defaults_to_null, no_word};
use super::{choices, limits};

/// Formats of texts that are enforced.
const FORMATS: [&str; 9] = ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"];

/// Rules for numbers and lists that are enforced.
const HELD: [&str; 7] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems"];

/// Rules that become words.
const TOLD: [&str; 12] = [
    "contentEncoding",
    "contentMediaType",
    "default",
    "deprecated",
    "examples",
    "format",
    "maxLength",
    "maxProperties",
    "minLength",
    "minProperties",
    "pattern",
    "uniqueItems",
];

/// Keywords that are read elsewhere than where they are written down.
const READ: [&str; 9] =
    ["additionalProperties", "const", "enum", "items", "properties", "required", "type", "unevaluatedProperties", "$ref"];

/// The most schemas that are written for one tool.
const MAX_SCHEMAS: usize = 20_000;

/// Deepest nesting.
const MAX_DEPTH: usize = 64;

/// `schema` in the strict subset, with the way back.
pub(super) fn strict(schema: &Value) -> Result<(Value, Back), Unfit> {
    let mut writer = Writer {
        source: Source::new(schema),
        names: HashMap::new(),
        due: VecDeque::new(),
        nodes: Vec::new(),
        depth: 0,
        written: 0,
    };
    let root = writer.schema(schema, "", true)?;
    if root.json.get("type").is_none_or(|name| name != "object") {
        return Err(Unfit::new("", "the whole input has more than one form"));
    }
    let mut written = root.json;
    let mut definitions = Map::new();
    while let Some(Definition { pointer, name, node }) = writer.due.pop_front() {
        let (_, inner) = writer.source.target(&format!("#{pointer}"), &pointer)?;
        let part = writer.schema(inner, &pointer, false)?;
        writer.nodes[node] = Node::Choice(vec![part.node]);
        definitions.insert(name, Value::Object(part.json));
    }
    if !definitions.is_empty() {
        written.insert("$defs".to_owned(), Value::Object(definitions));
    }
    let mut written = Value::Object(written);
    choices::make_distinct(&mut written)?;
    limits::check(&written)?;
    let back = Back::new(writer.nodes, root.node).ok_or_else(|| Unfit::new("", "a choice leads back to itself"))?;
    if !back.has_value() {
        return Err(Unfit::new("", "it requires itself, so no finite value meets it"));
    }
    Ok((written, back))
}

struct Writer<'s> {
    source: Source<'s>,
    /// Definitions by the pointer of what they define, each with its node.
    names: HashMap<String, (String, usize)>,
    due: VecDeque<Definition>,
    nodes: Vec<Node>,
    depth: usize,
    written: usize,
}

/// A definition that is yet to be written.
struct Definition {
    pointer: String,
    name: String,
    node: usize,
}

/// A schema that is written.
struct Part {
    json: Keywords,
    node: usize,
}

impl Writer<'_> {
    fn schema(&mut self, schema: &Value, at: &str, is_root: bool) -> Result<Part, Unfit> {
        self.written += 1;
        if self.written > MAX_SCHEMAS || self.depth > MAX_DEPTH {
            return Err(Unfit::new(at, "the schema has too many parts"));
        }
        self.depth += 1;
        let part = self.part(schema, at, is_root);
        self.depth -= 1;
        part
    }

    fn part(&mut self, schema: &Value, at: &str, is_root: bool) -> Result<Part, Unfit> {
        let Value::Object(keywords) = schema else {
            return Err(Unfit::new(at, "true and false do not describe a value"));
        };
        let keywords = self.source.opened(keywords, at)?.into_owned();
        if let Some(Value::String(reference)) = keywords.get("$ref") {
            return self.reference(reference, &keywords, at);
        }
        for choice in ["anyOf", "oneOf"] {
            if let Some(Value::Array(members)) = keywords.get(choice) {
                let members = self.source.distributed(&keywords, choice, members, at)?;
                return self.choice(&keywords, &members, &below(at, choice));
            }
        }
        let known = |key: &str| HELD.contains(&key) || TOLD.contains(&key) || READ.contains(&key) || !constrains(key);
        if let Some(unknown) = keywords.keys().find(|key| !known(key)) {
            return Err(Unfit::new(&below(at, unknown), no_word(unknown)));
        }
        let types = types(&keywords).ok_or_else(|| Unfit::new(at, "any value is taken"))?;
        let (nulls, others): (Vec<&str>, Vec<&str>) = types.iter().map(String::as_str).partition(|name| *name == "null");
        let part = match others.as_slice() {
            [] if nulls.is_empty() => return Err(Unfit::new(at, "no value meets it")),
            [] => self.plain("null", &keywords),
            [only] => self.typed(only, &keywords, at, is_root)?,
            several => {
                let parts = several.iter().map(|name| self.typed(name, &without_words(&keywords), at, false));
                let parts = parts.collect::<Result<Vec<_>, _>>()?;
                let mut part = self.one_of(parts);
                describe(&mut part.json, &keywords, "");
                part
            }
        };
        Ok(if nulls.is_empty() || others.is_empty() { part } else { self.or_null(part) })
    }

    /// Turns a reference into one to a definition. Keywords beside it only describe, and are dropped.
    fn reference(&mut self, reference: &str, keywords: &Keywords, at: &str) -> Result<Part, Unfit> {
        let (pointer, inner) = self.source.target(reference, at)?;
        let mut json = Map::new();
        describe(&mut json, keywords, "");
        if !json.is_empty() && !leads_to_itself(&self.source, inner, &pointer, &mut Vec::new())? {
            let mut part = self.schema(inner, &pointer, false)?;
            part.json.extend(json);
            return Ok(part);
        }
        let (name, node) = self.defined(&pointer);
        let reference = Map::from_iter([("$ref".to_owned(), Value::from(format!("#/$defs/{name}")))]);
        if json.is_empty() {
            return Ok(Part { json: reference, node });
        }
        // With null for another member it is a choice like all others; alone it is refused in the end.
        json.insert("anyOf".to_owned(), json!([reference]));
        Ok(Part { json, node })
    }

    /// Returns the name and the node of the definition for `pointer`.
    fn defined(&mut self, pointer: &str) -> (String, usize) {
        if let Some(known) = self.names.get(pointer) {
            return known.clone();
        }
        let last = pointer.rsplit('/').next().unwrap_or_default();
        let plain: String = last.chars().filter(|each| each.is_ascii_alphanumeric() || "_-".contains(*each)).take(48).collect();
        let base = if plain.is_empty() { "input".to_owned() } else { plain };
        let is_taken = |name: &str| self.names.values().any(|(taken, _)| taken == name);
        let numbered = (2..self.names.len() + 3).map(|number| format!("{base}_{number}"));
        let name = std::iter::once(base.clone()).chain(numbered).find(|name| !is_taken(name));
        let name = name.expect("of more names than are taken, one is free");
        let node = self.node(Node::Choice(Vec::new()));
        self.names.insert(pointer.to_owned(), (name.clone(), node));
        self.due.push_back(Definition { pointer: pointer.to_owned(), name: name.clone(), node });
        (name, node)
    }

    fn choice(&mut self, keywords: &Keywords, members: &[Value], at: &str) -> Result<Part, Unfit> {
        let mut parts: Vec<Part> = Vec::new();
        for (index, member) in members.iter().enumerate() {
            let part = self.schema(member, &below(at, &index.to_string()), false)?;
            if !parts.iter().any(|known| known.json == part.json) {
                parts.push(part);
            }
        }
        let mut part = if parts.len() == 1 { parts.remove(0) } else { self.one_of(parts) };
        describe(&mut part.json, keywords, "");
        Ok(part)
    }

    /// Returns a schema for values of the type `name`, which are not null.
    fn typed(&mut self, name: &str, keywords: &Keywords, at: &str, is_root: bool) -> Result<Part, Unfit> {
        match name {
            "object" => self.object(keywords, at, is_root),
            "array" => self.list(keywords, at),
            "string" | "integer" | "number" | "boolean" => Ok(self.plain(name, keywords)),
            other => Err(Unfit::new(&below(at, "type"), format!("there is no type {other:?}"))),
        }
    }

    fn plain(&mut self, name: &str, keywords: &Keywords) -> Part {
        let mut json = Map::from_iter([("type".to_owned(), Value::from(name))]);
        describe(&mut json, keywords, name);
        let words = words(keywords).filter(|_| name != "null");
        let words = words.map(|words| words.into_iter().filter(|word| is_of(word, name)).collect::<Vec<_>>());
        match &words {
            Some(words) => drop(json.insert("enum".to_owned(), Value::Array(words.clone()))),
            None => json.extend(held(keywords, name)),
        }
        let node = self.node(Node::Plain { kinds: kind_named(name), words });
        Part { json, node }
    }

    fn list(&mut self, keywords: &Keywords, at: &str) -> Result<Part, Unfit> {
        refuse_words(keywords, at)?;
        let at_items = below(at, "items");
        let items = keywords.get("items").ok_or_else(|| Unfit::new(at, "the elements of the list may be anything"))?;
        let items = self.schema(items, &at_items, false)?;
        let mut json = Map::from_iter([("type".to_owned(), Value::from("array"))]);
        describe(&mut json, keywords, "array");
        json.insert("items".to_owned(), Value::Object(items.json));
        json.extend(held(keywords, "array"));
        let node = self.node(Node::List(items.node));
        Ok(Part { json, node })
    }

    fn object(&mut self, keywords: &Keywords, at: &str, is_root: bool) -> Result<Part, Unfit> {
        refuse_words(keywords, at)?;
        for rest in ["additionalProperties", "unevaluatedProperties"] {
            if keywords.get(rest).is_some_and(|rest| *rest != Value::Bool(false)) {
                return Err(Unfit::new(&below(at, rest), "keys are not known beforehand"));
            }
        }
        let none = Map::new();
        let named = keywords.get("properties").and_then(Value::as_object);
        let is_closed = keywords.contains_key("additionalProperties") || (is_root && named.is_some());
        if named.is_none_or(Map::is_empty) && !is_closed {
            return Err(Unfit::new(at, "keys are not known beforehand"));
        }
        let named = named.unwrap_or(&none);
        let required: Vec<&str> =
            keywords.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        if let Some(missing) = required.iter().find(|name| !named.contains_key(**name)) {
            return Err(Unfit::new(&below(at, "required"), format!("{missing:?} is required and not described")));
        }
        let (mut properties, mut slots) = (Map::new(), BTreeMap::new());
        for (name, inner) in named {
            let place = below(&below(at, "properties"), name);
            let mut part = self.schema(inner, &place, false)?;
            let mut slot = Slot { node: part.node, can_be_absent: false };
            if !required.contains(&name.as_str()) {
                if !self.source.takes_null(inner, &place, &mut Vec::new())? {
                    slot.can_be_absent = true;
                    part = self.or_null(part);
                } else if !defaults_to_null(inner) || !self.source.names_null(inner, &mut Vec::new()) {
                    let reason = "it may be null and may be omitted, and a strict schema has one form for both";
                    return Err(Unfit::new(&place, reason));
                }
            }
            properties.insert(name.clone(), Value::Object(part.json));
            slots.insert(name.clone(), slot);
        }
        let mut json = Map::from_iter([("type".to_owned(), Value::from("object"))]);
        describe(&mut json, keywords, "object");
        let names: Vec<Value> = properties.keys().map(|name| Value::from(name.as_str())).collect();
        json.insert("properties".to_owned(), Value::Object(properties));
        json.insert("required".to_owned(), Value::Array(names));
        json.insert("additionalProperties".to_owned(), Value::Bool(false));
        let node = self.node(Node::Object(slots));
        Ok(Part { json, node })
    }

    fn one_of(&mut self, parts: Vec<Part>) -> Part {
        let (jsons, nodes): (Vec<Value>, Vec<usize>) =
            parts.into_iter().map(|part| (Value::Object(part.json), part.node)).unzip();
        let node = self.node(Node::Choice(nodes));
        Part { json: Map::from_iter([("anyOf".to_owned(), Value::Array(jsons))]), node }
    }

    /// Returns the same schema, or null. The description stays outside, since it describes the property.
    fn or_null(&mut self, part: Part) -> Part {
        let null = self.node(Node::Plain { kinds: kind_named("null"), words: None });
        let node = self.node(Node::Choice(vec![part.node, null]));
        let mut json = part.json;
        let is_bare = !json.contains_key("enum") && !json.contains_key("const");
        match json.get("type").and_then(Value::as_str) {
            Some("null") => {}
            Some(name @ ("string" | "integer" | "number" | "boolean")) if is_bare => {
                let both = json!([name, "null"]);
                json.insert("type".to_owned(), both);
            }
            _ => {
                let description = json.shift_remove("description");
                let mut members = match json.shift_remove("anyOf") {
                    Some(Value::Array(members)) => members,
                    _ => vec![Value::Object(json)],
                };
                if !members.contains(&json!({"type": "null"})) {
                    members.push(json!({"type": "null"}));
                }
                json = description.into_iter().map(|text| ("description".to_owned(), text)).collect();
                json.insert("anyOf".to_owned(), Value::Array(members));
            }
        }
        Part { json, node }
    }

    fn node(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }
}

/// Whether the schema at `pointer` refers to itself or to a schema around it, at any depth. `seen` are the references
/// followed so far.
fn leads_to_itself(source: &Source<'_>, schema: &Value, pointer: &str, seen: &mut Vec<String>) -> Result<bool, Unfit> {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let (target, inner) = source.target(reference, pointer)?;
        if pointer.strip_prefix(target.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            return Ok(true);
        }
        if seen.len() > MAX_SCHEMAS / 100 {
            return Ok(true);
        }
        if !seen.contains(&target) {
            seen.push(target);
            if leads_to_itself(source, inner, pointer, seen)? {
                return Ok(true);
            }
        }
    }
    let parts: Vec<&Value> = match schema {
        Value::Object(keywords) => keywords.values().collect(),
        Value::Array(members) => members.iter().collect(),
        _ => Vec::new(),
    };
    parts.into_iter().try_fold(false, |found, part| Ok(found || leads_to_itself(source, part, pointer, seen)?))
}

/// Adds title and description, and as text the rules for type `name` that are not enforced.
fn describe(json: &mut Keywords, keywords: &Keywords, name: &str) {
    for key in ["title", "description"] {
        if let Some(text) = keywords.get(key).filter(|text| text.is_string()) {
            json.insert(key.to_owned(), text.clone());
        }
    }
    let is_guidance = |key: &str, value: &Value| TOLD.contains(&key) && concerns(key, name) && !holds(key, value, name);
    let rules = keywords.iter().filter(|(key, value)| is_guidance(key, value));
    let rules: Vec<String> = rules.filter_map(|(key, value)| guidance::as_text(key, value)).collect();
    guidance::append(json, &rules);
}

/// Returns the enforced rules for values of the type `name`.
fn held(keywords: &Keywords, name: &str) -> impl Iterator<Item = (String, Value)> {
    keywords.iter().filter(move |(key, value)| holds(key, value, name)).map(|(key, value)| (key.clone(), value.clone()))
}

fn holds(keyword: &str, value: &Value, name: &str) -> bool {
    match keyword {
        "pattern" => name == "string" && value.as_str().is_some_and(is_plain_pattern),
        "format" => name == "string" && value.as_str().is_some_and(|format| FORMATS.contains(&format)),
        _ => HELD.contains(&keyword) && concerns(keyword, name),
    }
}

/// Whether `keyword` applies to values of the type `name`.
fn concerns(keyword: &str, name: &str) -> bool {
    match keyword {
        "minItems" | "maxItems" | "uniqueItems" => name == "array",
        "minProperties" | "maxProperties" => name == "object",
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => matches!(name, "integer" | "number"),
        "minLength" | "maxLength" | "pattern" | "format" | "contentEncoding" | "contentMediaType" => name == "string",
        _ => true,
    }
}

/// Whether every dialect of regular expressions reads a pattern alike. The grammars that hold a model to one know little
/// more than this.
fn is_plain_pattern(pattern: &str) -> bool {
    let escapes_alike = |escaped: char| "dDwWsS.+*?()[]{}|^$/\\-".contains(escaped);
    let mut characters = pattern.chars().peekable();
    while let Some(each) = characters.next() {
        let is_plain = match each {
            '\\' => characters.next().is_some_and(escapes_alike),
            '(' => characters.peek() != Some(&'?'),
            '[' => characters.peek() != Some(&'['),
            '&' | '~' => false,
            each => each.is_ascii() && !each.is_ascii_control(),
        };
        if !is_plain {
            return false;
        }
    }
    true
}

/// Returns the names of the types that a value may have; `None` if it may have any.
fn types(keywords: &Keywords) -> Option<Vec<String>> {
    let listed = words(keywords);
    let named: Vec<String> = match keywords.get("type") {
        Some(Value::String(name)) => vec![name.clone()],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ if listed.is_some() => ["string", "integer", "number", "boolean", "object", "array", "null"].map(str::to_owned).into(),
        _ if keywords.contains_key("properties") => vec!["object".to_owned()],
        _ if keywords.contains_key("items") => vec!["array".to_owned()],
        _ => return None,
    };
    let Some(mut left) = listed else { return Some(named) };
    let mut used = Vec::new();
    for name in named {
        let before = left.len();
        left.retain(|word| !is_of(word, &name));
        if left.len() < before {
            used.push(name);
        }
    }
    Some(used)
}

/// Returns the listed values, if it is a list of values.
fn words(keywords: &Keywords) -> Option<Vec<Value>> {
    let listed = keywords.get("enum").and_then(Value::as_array).cloned();
    let only = keywords.get("const");
    match (listed, only) {
        (Some(listed), Some(only)) => Some(listed.into_iter().filter(|word| word == only).collect()),
        (None, Some(only)) => Some(vec![only.clone()]),
        (listed, None) => listed,
    }
}

fn is_of(word: &Value, name: &str) -> bool {
    match word {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::String(_) => name == "string",
        Value::Number(number) => {
            name == "number" || (name == "integer" && number.as_f64().is_some_and(|number| number.fract() == 0.0))
        }
        Value::Array(_) => name == "array",
        Value::Object(_) => name == "object",
    }
}

fn refuse_words(keywords: &Keywords, at: &str) -> Result<(), Unfit> {
    let listed = ["enum", "const"].into_iter().find(|key| keywords.contains_key(*key));
    listed.map_or(Ok(()), |key| Err(Unfit::new(&below(at, key), "lists and objects cannot be listed")))
}

/// Returns the keywords without descriptions, which belong outside of the types.
fn without_words(keywords: &Keywords) -> Keywords {
    keywords.iter().filter(|(key, _)| constrains(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}
