//! The rules of `OpenAI`'s strict subset, as its documentation has them, read off a schema. This shares no code with what
//! writes such schemas.

use serde_json::{Map, Value};

const FORMATS: [&str; 9] = ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// Returns everything in `schema` that the subset does not allow.
pub(crate) fn broken(schema: &Value) -> Vec<String> {
    let mut book = Book { root: schema, wrong: Vec::new(), properties: 0, words: 0, characters: 0 };
    if schema["type"] != "object" || schema.get("anyOf").is_some() {
        book.report("", "the root is no object");
    }
    book.read(schema, "", 0);
    for (name, inner) in schema.get("$defs").and_then(Value::as_object).into_iter().flatten() {
        book.characters += name.chars().count();
        book.read(inner, &format!("/$defs/{name}"), 0);
    }
    for (size, most, what) in
        [(book.properties, 5_000, "properties"), (book.words, 1_000, "enum values"), (book.characters, 120_000, "characters")]
    {
        if size > most {
            book.report("", &format!("{size} {what}"));
        }
    }
    book.wrong
}

struct Book<'s> {
    root: &'s Value,
    wrong: Vec<String>,
    properties: usize,
    words: usize,
    characters: usize,
}

impl Book<'_> {
    fn report(&mut self, at: &str, what: &str) {
        self.wrong.push(format!("{at:?}: {what}"));
    }

    fn read(&mut self, schema: &Value, at: &str, depth: usize) {
        let Some(keywords) = schema.as_object() else { return self.report(at, "is no object") };
        if depth > 10 {
            self.report(at, "more than ten objects deep");
        }
        for text in ["title", "description"].into_iter().filter_map(|key| keywords.get(key)) {
            if !text.is_string() {
                self.report(at, "a title or description is no text");
            }
        }
        if let Some(reference) = keywords.get("$ref") {
            let name = reference.as_str().and_then(|reference| reference.strip_prefix("#/$defs/")).unwrap_or_default();
            if keywords.len() != 1 || self.root["$defs"].get(name).is_none() {
                self.report(at, "a reference with others, or to nowhere");
            }
            return;
        }
        if let Some(members) = keywords.get("anyOf") {
            return self.choice(keywords, members, at, depth);
        }
        let named: Vec<&str> = match &keywords.get("type") {
            Some(Value::String(name)) => vec![name],
            Some(Value::Array(names)) if names.len() == 2 && names[1] == "null" => {
                names.iter().filter_map(Value::as_str).collect()
            }
            other => return self.report(at, &format!("the type is {other:?}")),
        };
        let fitting = match named[0] {
            "object" if named.len() == 1 => self.object(keywords, at, depth),
            "array" if named.len() == 1 => {
                self.read(keywords.get("items").unwrap_or(&Value::Null), &format!("{at}/items"), depth);
                vec!["items", "minItems", "maxItems"]
            }
            "string" => vec!["pattern", "format", "enum"],
            "integer" | "number" => {
                vec!["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "enum"]
            }
            "boolean" => vec!["enum"],
            "null" => vec![],
            other => return self.report(at, &format!("{other} is alone")),
        };
        for keyword in keywords.keys().map(String::as_str) {
            let is_definitions = keyword == "$defs" && at.is_empty();
            if !["type", "title", "description"].contains(&keyword) && !fitting.contains(&keyword) && !is_definitions {
                self.report(at, &format!("{keyword} of {named:?}"));
            }
        }
        if keywords.get("format").is_some_and(|format| !FORMATS.iter().any(|known| format == known)) {
            self.report(at, "an unknown format");
        }
        if let Some(words) = keywords.get("enum") {
            self.listed(words, &named, at);
        }
    }

    fn listed(&mut self, words: &Value, named: &[&str], at: &str) {
        let words = words.as_array().cloned().unwrap_or_default();
        let kind = |word: &Value| match word {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::String(_) => "string",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            _ => "other",
        };
        if words.is_empty()
            || words.iter().any(|word| !named.contains(&kind(word)) && (kind(word), named[0]) != ("integer", "number"))
        {
            self.report(at, "values that are none, or not of the type");
        }
        let characters: usize = words.iter().filter_map(Value::as_str).map(|word| word.chars().count()).sum();
        if words.len() > 250 && characters > 15_000 {
            self.report(at, "a long list of long words");
        }
        self.words += words.len();
        self.characters += characters;
    }

    fn object(&mut self, keywords: &Map<String, Value>, at: &str, depth: usize) -> Vec<&'static str> {
        let empty = Map::new();
        let properties = keywords.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let names: Vec<&str> = properties.keys().map(String::as_str).collect();
        let required: Vec<&str> =
            keywords.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        if names != required || !keywords.contains_key("properties") {
            self.report(at, "not every property is required, in this order");
        }
        if keywords.get("additionalProperties") != Some(&Value::Bool(false)) {
            self.report(at, "the object is open");
        }
        for (name, inner) in properties {
            self.properties += 1;
            self.characters += name.chars().count();
            self.read(inner, &format!("{at}/properties/{name}"), depth + 1);
        }
        vec!["properties", "required", "additionalProperties"]
    }

    fn choice(&mut self, keywords: &Map<String, Value>, members: &Value, at: &str, depth: usize) {
        if keywords.keys().any(|key| !["anyOf", "title", "description"].contains(&key.as_str())) {
            self.report(at, "a choice has siblings");
        }
        let members = members.as_array().cloned().unwrap_or_default();
        if members.len() < 2 {
            self.report(at, "a choice without a choice");
        }
        for (index, member) in members.iter().enumerate() {
            self.read(member, &format!("{at}/anyOf/{index}"), depth);
        }
        let mut firsts: Vec<(String, Option<Vec<Value>>)> = Vec::new();
        let objects: Vec<Value> = members.iter().flat_map(|member| self.objects(member, 0)).collect();
        for object in objects {
            let properties = object["properties"].as_object().cloned().unwrap_or_default();
            let first = properties.iter().next().map(|(name, inner)| (name.clone(), inner["enum"].as_array().cloned()));
            let first = first.unwrap_or_default();
            let clashes = |known: &&(String, Option<Vec<Value>>)| {
                known.0 == first.0
                    && !matches!((&known.1, &first.1), (Some(one), Some(other)) if one.iter().all(|word| !other.contains(word)))
            };
            if firsts.iter().any(|known| clashes(&known)) {
                self.report(at, &format!("two alternatives begin with {:?}", first.0));
            }
            firsts.push(first);
        }
    }

    /// Returns the objects that a member of a choice may be.
    fn objects(&self, member: &Value, hops: usize) -> Vec<Value> {
        if let Some(reference) = member["$ref"].as_str().filter(|_| hops < 20) {
            return self.root.pointer(&reference[1..]).map(|inner| self.objects(inner, hops + 1)).unwrap_or_default();
        }
        if let Some(members) = member["anyOf"].as_array() {
            return members.iter().flat_map(|member| self.objects(member, hops + 1)).collect();
        }
        if member["type"] == "object" { vec![member.clone()] } else { Vec::new() }
    }
}
