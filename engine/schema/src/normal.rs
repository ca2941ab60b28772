//! Rewrites a schema of another dialect as a JSON Schema that Baton accepts, and reports each change.

use std::collections::VecDeque;

use serde_json::{Map, Value, json};

use crate::dialect::{Dialect, HOLDS_LIST, HOLDS_MAP, HOLDS_SCHEMA};
use crate::judge::read;
use crate::keywords::{check_keywords, is_keyword};
use crate::pattern::Pattern;
use crate::pointer::below;
use crate::type_name::{is_type_name, meant};

/// The most times that faulty parts are removed.
const ROUNDS: usize = 20;

/// Schemas of an `OpenAPI` description that operations refer to.
const COMPONENTS: [&str; 2] = ["#/components/schemas/", "#/definitions/"];

/// Keywords besides `type` and `enum` that may refuse null. All others concern the values of one type.
const MAY_REFUSE_NULL: [&str; 10] = ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "const", "if", "then", "else"];

/// A difference between a schema and its original.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// JSON pointer to the place in the schema.
    pub pointer: String,
    /// The change.
    pub message: String,
}

impl Change {
    pub(crate) fn new(pointer: &str, message: impl Into<String>) -> Self {
        Self { pointer: pointer.to_owned(), message: message.into() }
    }
}

pub(crate) struct Normalizer<'d> {
    document: &'d Value,
    dialect: Dialect,
    /// References to schemas of the document that are used, each once, with the names that they have in `$defs`.
    used: Vec<(String, String)>,
    /// Names in `$defs` that the schema itself defines.
    own: Vec<String>,
    due: VecDeque<(String, &'d Value)>,
    pub(crate) changes: Vec<Change>,
}

impl<'d> Normalizer<'d> {
    /// Normalizes schemas of `document`, to whose parts they may refer.
    pub(crate) fn new(document: &'d Value) -> Self {
        Self {
            document,
            dialect: Dialect::Draft2020,
            used: Vec::new(),
            own: Vec::new(),
            due: VecDeque::new(),
            changes: Vec::new(),
        }
    }

    fn change(&mut self, pointer: &str, message: impl Into<String>) {
        self.changes.push(Change::new(pointer, message));
    }

    /// Returns the schema of an input, which is an object.
    pub(crate) fn input(&mut self, schema: &Value) -> Value {
        let mut whole = self.whole(schema);
        match whole.get("type").cloned() {
            Some(name) if name == "object" => {}
            None if whole.is_object() => {
                whole["type"] = json!("object");
                self.change("/type", "an input is an object: \"type\": \"object\" was added");
            }
            _ => {
                self.change("", "an input is an object: the value is its property \"value\"");
                lower_references(&mut whole);
                let dialect = whole.as_object_mut().and_then(|keywords| keywords.shift_remove("$schema"));
                whole = json!({"type": "object", "properties": {"value": whole}, "required": ["value"]});
                if let Some(dialect) = dialect {
                    whole["$schema"] = dialect;
                }
            }
        }
        whole
    }

    /// Returns a whole schema with the definitions that it needs.
    pub(crate) fn whole(&mut self, schema: &Value) -> Value {
        self.dialect = Dialect::of(schema);
        let own = schema.get("$defs").and_then(Value::as_object);
        self.own = own.into_iter().flatten().map(|(name, _)| name.clone()).collect();
        let mut whole = self.schema(schema, "");
        while let Some((name, schema)) = self.due.pop_front() {
            let defined = self.schema(schema, &below("/$defs", &name));
            if let Some(keywords) = whole.as_object_mut() {
                keywords.entry("$defs").or_insert_with(|| json!({}))[name] = defined;
            }
        }
        for _ in 0..ROUNDS {
            let slips = check_keywords(&whole).into_iter().map(|slip| (slip.pointer, slip.message));
            let read = read(&whole).err().into_iter().flatten().map(|fault| (fault.pointer, fault.message));
            let faults: Vec<(String, String)> = read.chain(slips).collect();
            if faults.is_empty() {
                break;
            }
            // From the end, so that places in lists stay what they are.
            for (pointer, message) in faults.into_iter().rev() {
                let pointer = place_of(&pointer);
                if remove(&mut whole, &pointer) {
                    self.change(&pointer, format!("removed: {message}"));
                }
            }
        }
        whole
    }

    fn schema(&mut self, schema: &Value, at: &str) -> Value {
        let keywords = match schema {
            Value::Bool(_) => return schema.clone(),
            Value::Object(keywords) => keywords,
            Value::String(name) => {
                self.change(at, format!("{name:?} became a schema"));
                return self.schema(&json!({"type": name}), at);
            }
            _ => {
                self.change(at, "this is not a schema: any value is accepted");
                return json!({});
            }
        };
        let (mut written, mut is_nullable) = (Map::new(), false);
        for (keyword, value) in keywords {
            let place = below(at, keyword);
            match (keyword.as_str(), value) {
                ("type", _) => {
                    if let Some(name) = self.types(value, &place) {
                        written.insert(keyword.clone(), name);
                    }
                }
                ("nullable", value) => {
                    is_nullable = *value == true;
                    self.change(
                        &place,
                        if is_nullable { "\"nullable\" became the type null" } else { "\"nullable\" was removed" },
                    );
                }
                ("example", _) if keywords.contains_key("examples") => {
                    self.change(&place, "\"example\" was removed: \"examples\" has others");
                }
                ("example", value) => {
                    self.change(&place, "\"example\" became \"examples\"");
                    written.insert("examples".to_owned(), json!([value]));
                }
                ("required", Value::Bool(is_required)) => {
                    self.change(&place, format!("\"required\": {is_required} was removed: this is not a property"));
                }
                ("exclusiveMinimum" | "exclusiveMaximum", Value::Bool(is_exclusive)) => {
                    self.exclusive(keyword, *is_exclusive, keywords, &mut written, &place);
                }
                ("minimum", _) if keywords.get("exclusiveMinimum") == Some(&Value::Bool(true)) => {}
                ("maximum", _) if keywords.get("exclusiveMaximum") == Some(&Value::Bool(true)) => {}
                ("items", Value::Array(_)) if !self.dialect.has_tuples() => {
                    self.change(&place, "a list of \"items\" became \"prefixItems\"");
                    written.insert("prefixItems".to_owned(), self.part("prefixItems", value, &place));
                }
                ("additionalItems", value) if !self.dialect.has_tuples() => {
                    if keywords.get("items").is_some_and(Value::is_array) {
                        self.change(&place, "\"additionalItems\" became \"items\"");
                        written.insert("items".to_owned(), self.part("items", value, &place));
                    } else {
                        self.change(&place, "\"additionalItems\" was removed: it has no effect");
                    }
                }
                ("dependencies", Value::Object(named)) if !self.dialect.has_tuples() => {
                    self.change(&place, "\"dependencies\" became \"dependentRequired\" and \"dependentSchemas\"");
                    for (name, inner) in named {
                        let key = if inner.is_array() { "dependentRequired" } else { "dependentSchemas" };
                        let inner = if inner.is_array() { inner.clone() } else { self.schema(inner, &below(&place, name)) };
                        written.entry(key).or_insert_with(|| json!({}))[name] = inner;
                    }
                }
                ("$ref", Value::String(target)) => {
                    let target = self.reference(target, &place);
                    written.insert(keyword.clone(), Value::String(target));
                }
                ("$schema", Value::String(address)) if Dialect::named(address).is_none() => {
                    self.change(&place, format!("the dialect {address:?} is not known: \"$schema\" was removed"));
                }
                ("pattern", Value::String(pattern)) if Pattern::read(pattern).is_err() => {
                    let reason = Pattern::read(pattern).err().unwrap_or_default();
                    self.set_aside(keyword, &reason, keywords, &mut written, &place);
                }
                (key, value) if HOLDS_SCHEMA.contains(&key) || HOLDS_LIST.contains(&key) || HOLDS_MAP.contains(&key) => {
                    written.insert(keyword.clone(), self.part(keyword, value, &place));
                }
                (key, value) if is_keyword(key, self.dialect) || key.starts_with("x-") => {
                    written.insert(keyword.clone(), value.clone());
                }
                (key, _) => {
                    let reason = format!("{key:?} is not a keyword of JSON Schema");
                    self.set_aside(keyword, &reason, keywords, &mut written, &place);
                }
            }
        }
        self.require(keywords, &mut written, at);
        if is_nullable { or_null(written, self.dialect) } else { Value::Object(written) }
    }

    /// Keeps a keyword that cannot be checked under a name that is never checked.
    fn set_aside(
        &mut self,
        keyword: &str,
        reason: &str,
        keywords: &Map<String, Value>,
        written: &mut Map<String, Value>,
        at: &str,
    ) {
        let aside = format!("x-{keyword}");
        if keywords.contains_key(&aside) {
            self.change(at, format!("{keyword:?} was removed, since {aside:?} has a value of its own: {reason}"));
        } else {
            self.change(at, format!("kept as {aside:?}, which is not checked: {reason}"));
            written.insert(aside, keywords[keyword].clone());
        }
    }

    /// Returns the value of a keyword that holds schemas.
    fn part(&mut self, keyword: &str, value: &Value, at: &str) -> Value {
        match value {
            Value::Object(named) if HOLDS_MAP.contains(&keyword) => {
                let each = |(name, inner): (&String, &Value)| {
                    let inner = match inner {
                        Value::Array(_) if keyword == "dependencies" => inner.clone(),
                        Value::Object(keys) if keyword == "properties" && keys.get("required").is_some_and(Value::is_boolean) => {
                            // `require` moves it to the object around the property.
                            let mut keys = keys.clone();
                            keys.shift_remove("required");
                            self.schema(&Value::Object(keys), &below(at, name))
                        }
                        inner => self.schema(inner, &below(at, name)),
                    };
                    (name.clone(), inner)
                };
                Value::Object(named.iter().map(each).collect())
            }
            Value::Array(members) if HOLDS_LIST.contains(&keyword) => {
                members.iter().enumerate().map(|(index, inner)| self.schema(inner, &below(at, &index.to_string()))).collect()
            }
            value if HOLDS_SCHEMA.contains(&keyword) => self.schema(value, at),
            value => value.clone(),
        }
    }

    /// Returns a type, or a list of types, by the names of JSON Schema.
    fn types(&mut self, value: &Value, at: &str) -> Option<Value> {
        match value {
            Value::String(name) if is_type_name(name) => Some(value.clone()),
            Value::String(name) => {
                let meant = meant(name);
                self.change(
                    at,
                    match meant {
                        Some(meant) => format!("type {name:?} became {meant:?}"),
                        None => format!("type {name:?} was removed: any value is accepted"),
                    },
                );
                meant.map(Value::from)
            }
            Value::Array(names) if !names.is_empty() => {
                let names: Option<Vec<Value>> = names.iter().map(|name| self.types(name, at)).collect();
                let mut names = names?;
                let mut seen = Vec::new();
                names.retain(|name| {
                    !seen.contains(name) && {
                        seen.push(name.clone());
                        true
                    }
                });
                Some(Value::Array(names))
            }
            _ => {
                self.change(at, "\"type\" was removed: it names no type");
                None
            }
        }
    }

    /// Writes a bound of draft 4, where `exclusiveMinimum` and `exclusiveMaximum` are true or false.
    fn exclusive(
        &mut self,
        keyword: &str,
        is_exclusive: bool,
        keywords: &Map<String, Value>,
        written: &mut Map<String, Value>,
        at: &str,
    ) {
        let bound = if keyword == "exclusiveMinimum" { "minimum" } else { "maximum" };
        match keywords.get(bound).filter(|_| is_exclusive) {
            Some(bound) => {
                self.change(at, format!("{keyword:?}: true became the bound {bound}"));
                written.insert(keyword.to_owned(), bound.clone());
            }
            None => self.change(at, format!("{keyword:?}: {is_exclusive} was removed: it has no effect")),
        }
    }

    /// Adds properties that are required by a keyword of their own, as in draft 3.
    fn require(&mut self, keywords: &Map<String, Value>, written: &mut Map<String, Value>, at: &str) {
        for (name, inner) in keywords.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let Some(is_required) = inner.get("required").and_then(Value::as_bool) else { continue };
            let place = below(&below(&below(at, "properties"), name), "required");
            if is_required {
                let names = written.entry("required").or_insert_with(|| json!([]));
                if let Some(names) = names.as_array_mut().filter(|names| !names.contains(&json!(name))) {
                    names.push(json!(name));
                }
                self.change(&place, "\"required\": true became a name in the list of the object around it");
            } else {
                self.change(&place, "\"required\": false was removed: it is the default");
            }
        }
    }

    /// Returns a reference within the schema, and notes the part of the document that it needs.
    fn reference(&mut self, target: &str, at: &str) -> String {
        let Some(name) = COMPONENTS.iter().find_map(|prefix| target.strip_prefix(prefix)) else { return target.to_owned() };
        let Some(schema) = target.strip_prefix('#').and_then(|pointer| self.document.pointer(pointer)) else {
            return target.to_owned();
        };
        let known = self.used.iter().find(|(known, _)| known == target).map(|(_, name)| name.clone());
        let is_new = known.is_none();
        let name = known.unwrap_or_else(|| self.free_name(name.replace("~1", "/").replace("~0", "~")));
        let own = below("#/$defs", &name);
        if is_new {
            self.change(at, format!("{target:?} became {own:?}"));
            self.used.push((target.to_owned(), name.clone()));
            self.due.push_back((name, schema));
        }
        own
    }

    /// Returns `name`, or one like it if `$defs` has that name already.
    fn free_name(&self, name: String) -> String {
        let is_free = |name: &String| !self.own.contains(name) && self.used.iter().all(|(_, used)| used != name);
        let like = (2..).map(|number| format!("{name}_{number}"));
        std::iter::once(name.clone()).chain(like).find(is_free).unwrap_or(name)
    }
}

/// Makes the references within `schema` lead to the same places after it has become the property `value` of another schema.
fn lower_references(schema: &mut Value) {
    let Value::Object(keywords) = schema else { return };
    // References below are relative to it, unless it only names an anchor.
    if keywords.get("$id").and_then(Value::as_str).is_some_and(|id| !id.starts_with('#')) {
        return;
    }
    for (keyword, value) in keywords {
        match (keyword.as_str(), value) {
            ("$ref" | "$dynamicRef", Value::String(target)) if *target == "#" || target.starts_with("#/") => {
                target.insert_str(1, "/properties/value");
            }
            (key, Value::Object(named)) if HOLDS_MAP.contains(&key) => named.values_mut().for_each(lower_references),
            (key, Value::Array(members)) if HOLDS_LIST.contains(&key) => members.iter_mut().for_each(lower_references),
            (key, inner) if HOLDS_SCHEMA.contains(&key) => lower_references(inner),
            _ => {}
        }
    }
}

/// Returns the schema that accepts null, too.
fn or_null(mut schema: Map<String, Value>, dialect: Dialect) -> Value {
    let is_reference = schema.contains_key("$ref") && !dialect.reads_siblings();
    match schema.get_mut("type") {
        Some(Value::Array(names)) if names.contains(&json!("null")) => {}
        Some(Value::Array(names)) => names.push(json!("null")),
        Some(name) if name != "null" => *name = json!([name, "null"]),
        _ => {}
    }
    if let Some(Value::Array(words)) = schema.get_mut("enum")
        && !words.contains(&Value::Null)
    {
        words.push(Value::Null);
    }
    if MAY_REFUSE_NULL.iter().any(|keyword| schema.contains_key(*keyword)) {
        // In draft 7 the keywords beside a reference are ignored, so they move with it.
        let is_inner = |keyword: &str| {
            if is_reference {
                !["$schema", "$id", "$defs", "definitions"].contains(&keyword)
            } else {
                MAY_REFUSE_NULL.contains(&keyword)
            }
        };
        let (inner, mut outer): (Map<_, _>, Map<_, _>) = schema.into_iter().partition(|(keyword, _)| is_inner(keyword));
        outer.insert("anyOf".to_owned(), json!([inner, {"type": "null"}]));
        schema = outer;
    }
    Value::Object(schema)
}

/// Returns the part that is removed for a fault: a whole keyword, or an entry of `required`.
fn place_of(pointer: &str) -> String {
    let (mut end, mut is_name) = (0, false);
    for token in pointer.split('/').skip(1) {
        end += 1 + token.len();
        // A property may be called `default`, too.
        if token == "default" && !is_name {
            break;
        }
        is_name = !is_name && HOLDS_MAP.contains(&token);
    }
    pointer[..end].to_owned()
}

/// Removes the value at `pointer`; false if there is none.
fn remove(value: &mut Value, pointer: &str) -> bool {
    let Some((above, token)) = pointer.rsplit_once('/') else { return false };
    let token = token.replace("~1", "/").replace("~0", "~");
    match value.pointer_mut(above) {
        Some(Value::Object(keys)) => keys.shift_remove(&token).is_some(),
        Some(Value::Array(elements)) => {
            let index = token.parse::<usize>().ok().filter(|index| *index < elements.len());
            index.map(|index| elements.remove(index)).is_some()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
