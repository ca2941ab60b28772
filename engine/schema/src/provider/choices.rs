//! Alternatives that a strict dialect can tell apart.
//!
//! `OpenAI` refuses a choice between objects that begin with the same key ("Objects provided via 'anyOf' must not share
//! identical first keys"), unless it is a discriminator. The order of keys means nothing to a schema, so it is chosen here.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::source::{Unfit, below};

/// Place of an object schema: the pointer into the compiled schema.
type Place = String;

/// Orders the keys of alternatives so that the first key distinguishes them.
pub(super) fn make_distinct(written: &mut Value) -> Result<(), Unfit> {
    let mut found = Vec::new();
    collect(written, "", &mut found);
    for choice in &found {
        if written.pointer(&format!("{choice}/anyOf/1")).is_none() {
            return Err(Unfit::new(choice, "a recursive reference has no room for a description"));
        }
        let places = objects(written, choice, &mut Vec::new());
        if is_distinct(written, &places) {
            continue;
        }
        for (place, first) in first_keys(written, &places) {
            put_first(written, &place, &first);
        }
    }
    // A definition may be part of several choices, which may want another order of it.
    match found.iter().find(|choice| !is_distinct(written, &objects(written, choice, &mut Vec::new()))) {
        Some(choice) => Err(Unfit::new(choice, "alternatives cannot be distinguished by their first key")),
        None => Ok(()),
    }
}

/// Collects the places of all choices.
fn collect(schema: &Value, at: &str, found: &mut Vec<Place>) {
    let Value::Object(keywords) = schema else { return };
    if keywords.contains_key("anyOf") {
        found.push(at.to_owned());
    }
    for (keyword, value) in keywords {
        let at = below(at, keyword);
        match (keyword.as_str(), value) {
            ("properties" | "$defs", Value::Object(named)) => {
                named.iter().for_each(|(name, inner)| collect(inner, &below(&at, name), found));
            }
            ("anyOf", Value::Array(members)) => {
                members.iter().enumerate().for_each(|(index, inner)| collect(inner, &below(&at, &index.to_string()), found));
            }
            ("items", inner) => collect(inner, &at, found),
            _ => {}
        }
    }
}

/// Returns the places of the objects that the schema at `place` offers as alternatives.
fn objects(written: &Value, place: &str, path: &mut Vec<Place>) -> Vec<Place> {
    if path.iter().any(|earlier| earlier == place) {
        return Vec::new();
    }
    path.push(place.to_owned());
    let Some(Value::Object(keywords)) = written.pointer(place) else { return Vec::new() };
    if let Some(reference) = keywords.get("$ref").and_then(Value::as_str) {
        return objects(written, reference.trim_start_matches('#'), path);
    }
    if let Some(Value::Array(members)) = keywords.get("anyOf") {
        let at = below(place, "anyOf");
        return (0..members.len()).flat_map(|index| objects(written, &below(&at, &index.to_string()), path)).collect();
    }
    if keywords.get("type").is_some_and(|name| name == "object") { vec![place.to_owned()] } else { Vec::new() }
}

fn properties<'w>(written: &'w Value, place: &str) -> Option<&'w Map<String, Value>> {
    written.pointer(place)?.get("properties")?.as_object()
}

fn is_distinct(written: &Value, places: &[Place]) -> bool {
    let firsts: Vec<Option<(&String, &Value)>> = places.iter().map(|place| properties(written, place)?.iter().next()).collect();
    firsts.iter().enumerate().all(|(index, one)| {
        firsts[..index].iter().all(|other| match (one, other) {
            (Some((one, schema)), Some((other, their))) => one != other || are_other_words(schema, their),
            (one, other) => one.is_some() != other.is_some(),
        })
    })
}

/// Whether two properties never hold the same word.
fn are_other_words(one: &Value, other: &Value) -> bool {
    match (words(one), words(other)) {
        (Some(one), Some(other)) => one.iter().all(|word| !other.contains(word)),
        _ => false,
    }
}

fn words(schema: &Value) -> Option<&[Value]> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(word), _) => Some(std::slice::from_ref(word)),
        (None, Some(Value::Array(words))) => Some(words),
        _ => None,
    }
}

/// Returns the key that each alternative must begin with: one with a different constant in each, or one that only it
/// has.
fn first_keys(written: &Value, places: &[Place]) -> Vec<(Place, String)> {
    let all: Vec<&Map<String, Value>> = places.iter().filter_map(|place| properties(written, place)).collect();
    let discriminates = |key: &&String| {
        let words: Option<Vec<&Value>> = all.iter().map(|properties| properties.get(*key)).collect();
        words.is_some_and(|words| {
            (0..words.len()).all(|index| words[..index].iter().all(|other| are_other_words(words[index], other)))
        })
    };
    if let Some(key) = all.first().and_then(|first| first.keys().find(discriminates)) {
        return places.iter().map(|place| (place.clone(), key.clone())).collect();
    }
    let mut times: HashMap<&String, usize> = HashMap::new();
    all.iter().flat_map(|properties| properties.keys()).for_each(|key| *times.entry(key).or_default() += 1);
    let own = |place: &Place| properties(written, place)?.keys().find(|key| times.get(key) == Some(&1));
    places.iter().filter_map(|place| Some((place.clone(), own(place)?.clone()))).collect()
}

/// Makes `first` the first key of the object at `place`, in both places that have an order.
fn put_first(written: &mut Value, place: &str, first: &str) {
    let Some(Value::Object(keywords)) = written.pointer_mut(place) else { return };
    let Some(Value::Object(properties)) = keywords.get_mut("properties") else { return };
    if let Some(schema) = properties.shift_remove(first) {
        properties.shift_insert(0, first.to_owned(), schema);
    }
    let names = properties.keys().map(|name| Value::from(name.as_str())).collect();
    keywords.insert("required".to_owned(), Value::Array(names));
}
