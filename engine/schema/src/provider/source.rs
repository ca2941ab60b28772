//! A tool's own schema, read: where references lead, whether `null` is a value, and schemas that hold together as one.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

/// Keywords that describe and demand nothing.
const ANNOTATIONS: [&str; 13] = [
    "$anchor",
    "$comment",
    "$defs",
    "$id",
    "$schema",
    "default",
    "definitions",
    "deprecated",
    "description",
    "examples",
    "readOnly",
    "title",
    "writeOnly",
];

/// The most schemas that are joined to one another for one tool: choices within choices multiply.
const MAX_JOINED: usize = 2_000;

/// The most references that are followed after one another.
const MAX_HOPS: usize = 64;

/// A place that a dialect has no words for, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// JSON pointer into the tool's schema.
    pub pointer: String,
    /// The part that cannot be expressed.
    pub reason: String,
}

/// The keywords of an object schema.
pub(super) type Keywords = Map<String, Value>;

/// A schema with its references.
pub(super) struct Source<'s> {
    root: &'s Value,
    joined: usize,
}

impl Unfit {
    pub(super) fn new(pointer: &str, reason: impl Into<String>) -> Self {
        Self { pointer: pointer.to_owned(), reason: reason.into() }
    }
}

/// Whether `keyword` demands something of a value.
pub(super) fn constrains(keyword: &str) -> bool {
    !ANNOTATIONS.contains(&keyword) && !keyword.starts_with("x-")
}

/// Whether an omitted value means null.
pub(super) fn defaults_to_null(schema: &Value) -> bool {
    schema.get("default").is_some_and(Value::is_null)
}

/// `pointer` one step down.
pub(super) fn below(pointer: &str, token: &str) -> String {
    format!("{pointer}/{}", token.replace('~', "~0").replace('/', "~1"))
}

impl<'s> Source<'s> {
    pub(super) fn new(root: &'s Value) -> Self {
        Self { root, joined: 0 }
    }

    /// Returns the pointer that `reference` names, and the schema there.
    pub(super) fn target(&self, reference: &str, at: &str) -> Result<(String, &'s Value), Unfit> {
        let found = reference.strip_prefix('#').and_then(|pointer| Some((pointer.to_owned(), self.root.pointer(pointer)?)));
        found.ok_or_else(|| Unfit::new(&below(at, "$ref"), format!("{reference:?} names no place in this schema")))
    }

    /// Whether `null` meets `schema`.
    pub(super) fn takes_null(&self, schema: &Value, at: &str, path: &mut Vec<String>) -> Result<bool, Unfit> {
        let keywords = match schema {
            Value::Object(keywords) => keywords,
            other => return Ok(*other == Value::Bool(true)),
        };
        for (keyword, value) in keywords {
            let members = value.as_array().map(Vec::as_slice).unwrap_or_default();
            let takes = |member: &Value| self.takes_null(member, at, path);
            let holds = match (keyword.as_str(), value) {
                ("type", Value::String(name)) => name == "null",
                ("type" | "enum", _) => members.iter().any(|each| each.is_null() || each == "null" && keyword == "type"),
                ("const", value) => value.is_null(),
                ("allOf", _) => members.iter().map(takes).collect::<Result<Vec<_>, _>>()?.into_iter().all(|takes| takes),
                ("anyOf", _) => members.iter().map(takes).collect::<Result<Vec<_>, _>>()?.contains(&true),
                ("oneOf", _) => {
                    let takes = members.iter().map(takes).collect::<Result<Vec<_>, _>>()?;
                    match takes.iter().filter(|takes| **takes).count() {
                        0 => false,
                        1 => true,
                        _ => return Err(Unfit::new(&below(at, "oneOf"), "null meets more than one of these forms")),
                    }
                }
                ("$ref", Value::String(reference)) => {
                    let (target, inner) = self.target(reference, at)?;
                    if path.contains(&target) || path.len() > MAX_HOPS {
                        return Err(Unfit::new(&below(at, "$ref"), "the reference leads back to itself"));
                    }
                    path.push(target);
                    let takes = self.takes_null(inner, at, path)?;
                    path.pop();
                    takes
                }
                ("not" | "if", _) => return Err(Unfit::new(&below(at, keyword), no_word(keyword))),
                // The other keywords say nothing of null.
                _ => true,
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether `schema` accepts null by name, and not only because it names no type. `path` are the references followed.
    pub(super) fn names_null(&self, schema: &Value, path: &mut Vec<String>) -> bool {
        let Value::Object(keywords) = schema else { return false };
        keywords.iter().any(|(keyword, value)| match (keyword.as_str(), value) {
            ("type", name) if name.is_string() => name == "null",
            ("type", names) => names.as_array().is_some_and(|names| names.iter().any(|name| name == "null")),
            ("enum", words) => words.as_array().is_some_and(|words| words.contains(&Value::Null)),
            ("const", word) => word.is_null(),
            ("allOf" | "anyOf" | "oneOf", Value::Array(members)) => members.iter().any(|member| self.names_null(member, path)),
            ("$ref", Value::String(reference)) => self.target(reference, "").is_ok_and(|(target, inner)| {
                let is_new = !path.contains(&target);
                path.push(target);
                is_new && self.names_null(inner, path)
            }),
            _ => false,
        })
    }

    /// Returns the same schema without `allOf` and without a reference beside other keywords: they are merged.
    pub(super) fn opened<'k>(&mut self, keywords: &'k Keywords, at: &str) -> Result<Cow<'k, Keywords>, Unfit> {
        let refers_beside = keywords.contains_key("$ref") && keywords.keys().any(|key| key != "$ref" && constrains(key));
        if keywords.contains_key("allOf") || refers_beside {
            self.open(keywords, at, &mut Vec::new()).map(Cow::Owned)
        } else {
            Ok(Cow::Borrowed(keywords))
        }
    }

    /// Returns the members of a choice, each merged with the keywords beside the choice.
    pub(super) fn distributed(
        &mut self,
        keywords: &Keywords,
        choice: &str,
        members: &[Value],
        at: &str,
    ) -> Result<Vec<Value>, Unfit> {
        let beside: Keywords = keywords.iter().filter(|(key, _)| *key != choice && constrains(key)).map(owned).collect();
        if beside.is_empty() {
            return Ok(members.to_vec());
        }
        let each = |(index, member): (usize, &Value)| {
            let at = below(&below(at, choice), &index.to_string());
            match member {
                Value::Object(member) => {
                    let open = self.open(member, &at, &mut Vec::new())?;
                    self.join(open, &beside, &at).map(Value::Object)
                }
                _ => Err(Unfit::new(&at, "true and false do not describe a value")),
            }
        };
        members.iter().enumerate().map(each).collect()
    }

    fn open(&mut self, keywords: &Keywords, at: &str, path: &mut Vec<String>) -> Result<Keywords, Unfit> {
        let mut open: Keywords = keywords
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "allOf" | "$ref" | "$defs" | "definitions"))
            .map(owned)
            .collect();
        if let Some(Value::String(reference)) = keywords.get("$ref") {
            let (target, inner) = self.target(reference, at)?;
            if path.contains(&target) || path.len() > MAX_HOPS {
                return Err(Unfit::new(&below(at, "$ref"), "a recursive schema cannot be joined with others"));
            }
            path.push(target);
            open = self.joined_with(open, inner, at, path)?;
            path.pop();
        }
        for (index, member) in keywords.get("allOf").and_then(Value::as_array).into_iter().flatten().enumerate() {
            open = self.joined_with(open, member, &below(&below(at, "allOf"), &index.to_string()), path)?;
        }
        Ok(open)
    }

    fn joined_with(&mut self, open: Keywords, other: &Value, at: &str, path: &mut Vec<String>) -> Result<Keywords, Unfit> {
        match other {
            Value::Bool(true) => Ok(open),
            Value::Object(other) => {
                let other = self.open(other, at, path)?;
                self.join(open, &other, at)
            }
            _ => Err(Unfit::new(at, "no value meets false")),
        }
    }

    /// Returns one schema with the rules of both.
    fn join(&mut self, mut one: Keywords, other: &Keywords, at: &str) -> Result<Keywords, Unfit> {
        self.joined += 1;
        if self.joined > MAX_JOINED {
            return Err(Unfit::new(at, "its parts multiply"));
        }
        join_properties(&mut one, other, at)?;
        for (keyword, value) in other {
            if matches!(keyword.as_str(), "properties" | "additionalProperties") {
                continue;
            }
            let joined = match one.get(keyword) {
                None => value.clone(),
                Some(own) if own == value => continue,
                Some(own) => join_keyword(keyword, own, value)
                    .ok_or_else(|| Unfit::new(at, format!("two rules for {keyword:?} cannot be joined to one")))?,
            };
            one.insert(keyword.clone(), joined);
        }
        Ok(one)
    }
}

/// Returns the reason for a keyword that a dialect does not have.
pub(super) fn no_word(keyword: &str) -> String {
    format!("{keyword:?} is not supported")
}

fn owned((key, value): (&String, &Value)) -> (String, Value) {
    (key.clone(), value.clone())
}

/// Merges both sets of named properties, as far as neither schema rejects the other's.
fn join_properties(one: &mut Keywords, other: &Keywords, at: &str) -> Result<(), Unfit> {
    let named = |keywords: &Keywords| keywords.get("properties").and_then(Value::as_object).cloned();
    let (own, theirs) = (named(one), named(other));
    let rests = [one.get("additionalProperties").cloned(), other.get("additionalProperties").cloned()];
    if own.is_none() && theirs.is_none() && rests == [None, None] {
        return Ok(());
    }
    if rests.iter().flatten().any(|rest| !rest.is_boolean()) && theirs != own {
        return Err(Unfit::new(&below(at, "additionalProperties"), "keys of two schemas cannot be joined"));
    }
    let refuses = rests.each_ref().map(|rest| *rest == Some(Value::Bool(false)));
    let (own, theirs) = (own.unwrap_or_default(), theirs.unwrap_or_default());
    let mut joined = Map::new();
    for (name, schema) in &own {
        match theirs.get(name) {
            None if refuses[1] => {}
            Some(their) if their != schema => drop(joined.insert(name.clone(), json!({"allOf": [schema, their]}))),
            _ => drop(joined.insert(name.clone(), schema.clone())),
        }
    }
    let more = theirs.iter().filter(|(name, _)| !own.contains_key(*name) && !refuses[0]);
    joined.extend(more.map(owned));
    one.insert("properties".to_owned(), Value::Object(joined));
    let rest = match rests {
        _ if refuses.contains(&true) => Some(Value::Bool(false)),
        [Some(rest), _] | [None, Some(rest)] => Some(rest),
        [None, None] => None,
    };
    if let Some(rest) = rest {
        one.insert("additionalProperties".to_owned(), rest);
    }
    Ok(())
}

/// Returns one keyword with the rules of both, if there is one.
fn join_keyword(keyword: &str, one: &Value, other: &Value) -> Option<Value> {
    let listed = |value: &Value| match value {
        Value::Array(values) => values.clone(),
        value => vec![value.clone()],
    };
    match keyword {
        "type" => {
            let mut names: Vec<Value> = Vec::new();
            for (own, their) in
                listed(one).iter().flat_map(|own| listed(other).into_iter().map(move |their| (own.clone(), their)))
            {
                let both = match (own.as_str()?, their.as_str()?) {
                    (own, their) if own == their => own.to_owned(),
                    ("integer", "number") | ("number", "integer") => "integer".to_owned(),
                    _ => continue,
                };
                if !names.contains(&Value::from(both.as_str())) {
                    names.push(Value::from(both));
                }
            }
            match names.as_slice() {
                [] => None,
                [name] => Some(name.clone()),
                _ => Some(Value::Array(names)),
            }
        }
        "enum" => {
            let both: Vec<Value> = listed(one).into_iter().filter(|value| listed(other).contains(value)).collect();
            (!both.is_empty()).then_some(Value::Array(both))
        }
        "required" => {
            let mut names = listed(one);
            names.extend(listed(other).into_iter().filter(|name| !listed(one).contains(name)));
            Some(Value::Array(names))
        }
        "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" => {
            Some(if one.as_f64()? >= other.as_f64()? { one.clone() } else { other.clone() })
        }
        "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" => {
            Some(if one.as_f64()? <= other.as_f64()? { one.clone() } else { other.clone() })
        }
        "uniqueItems" => Some(Value::Bool(true)),
        "items" => Some(json!({"allOf": [one, other]})),
        "description" => Some(Value::from(format!("{} {}", one.as_str()?, other.as_str()?))),
        _ if !constrains(keyword) => Some(one.clone()),
        _ => None,
    }
}
