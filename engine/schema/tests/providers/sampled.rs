//! Values by chance that a schema takes, made from the schema itself. Whether they meet it is for a validator to say.

use baton_proof::random::Random;
use serde_json::{Map, Value, json};

const TEXTS: [&str; 6] = ["", "a", "some text", "2026-01-31", "x.csv", "#"];

/// Returns a value that `schema` accepts, with at most this many levels.
pub(crate) fn sample(root: &Value, schema: &Value, random: &mut Random, depth: usize) -> Value {
    if let Some(reference) = schema["$ref"].as_str() {
        return root.pointer(&reference[1..]).map_or(Value::Null, |inner| sample(root, inner, random, depth));
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(members) = schema[choice].as_array().filter(|members| !members.is_empty()) {
            let null = members.iter().find(|member| member["type"] == "null").filter(|_| depth == 0);
            return sample(root, null.unwrap_or_else(|| random.pick(members)), random, depth.saturating_sub(1));
        }
    }
    if let Some(words) = schema["enum"].as_array() {
        return random.pick(words).clone();
    }
    if let Some(word) = schema.get("const") {
        return word.clone();
    }
    let name = match &schema["type"] {
        Value::Array(names) => random.pick(names).as_str().unwrap_or_default().to_owned(),
        name => name.as_str().unwrap_or_default().to_owned(),
    };
    match name.as_str() {
        "boolean" => Value::from(random.once_in(2)),
        "string" => Value::from(*random.pick(&TEXTS)),
        "integer" => {
            let least = schema["minimum"].as_i64().unwrap_or(0);
            Value::from(least + random.below(8) as i64)
        }
        "number" => random.pick(&[json!(0.5), json!(7), json!(1), json!(-2.25)]).clone(),
        "array" => {
            let least = schema["minItems"].as_u64().unwrap_or(0) as usize;
            let more = if depth == 0 { 0 } else { random.below(3) };
            (0..least + more).map(|_| sample(root, &schema["items"], random, depth.saturating_sub(1))).collect()
        }
        "object" => {
            let mut object = Map::new();
            for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
                let required = schema["required"].as_array().is_some_and(|names| names.iter().any(|each| each == name));
                // Null and absence are the same where null is the default.
                let is_same = inner.get("default").is_some_and(Value::is_null);
                if required || is_same || (depth > 0 && random.once_in(2)) {
                    object.insert(name.clone(), sample(root, inner, random, depth.saturating_sub(1)));
                }
            }
            Value::Object(object)
        }
        _ => Value::Null,
    }
}

/// Returns `value` in the form of a schema that requires every property: omitted ones are null. `None` if that would
/// need a choice.
pub(crate) fn filled(root: &Value, schema: &Value, value: &Value) -> Option<Value> {
    if let Some(reference) = schema["$ref"].as_str() {
        return filled(root, root.pointer(&reference[1..])?, value);
    }
    match value {
        Value::Object(keys) => {
            let mut object = keys.clone();
            for (name, inner) in schema.get("properties")?.as_object()? {
                match keys.get(name) {
                    Some(value) => drop(object.insert(name.clone(), filled(root, inner, value)?)),
                    None => drop(object.insert(name.clone(), Value::Null)),
                }
            }
            Some(Value::Object(object))
        }
        Value::Array(elements) => elements.iter().map(|element| filled(root, schema.get("items")?, element)).collect(),
        plain => Some(plain.clone()),
    }
}

/// Returns the schema without the rules that are only text for the model.
pub(crate) fn without_guidance(schema: &Value) -> Value {
    match schema {
        Value::Object(keywords) => {
            let guidance = ["maxLength", "minLength", "maxProperties", "minProperties", "pattern", "format", "uniqueItems"];
            let kept = keywords.iter().filter(|(key, inner)| !guidance.contains(&key.as_str()) || inner.is_object());
            let renamed = |key: &str| if key == "oneOf" { "anyOf".to_owned() } else { key.to_owned() };
            kept.map(|(key, inner)| (renamed(key), without_guidance(inner))).collect()
        }
        Value::Array(members) => members.iter().map(without_guidance).collect(),
        plain => plain.clone(),
    }
}
