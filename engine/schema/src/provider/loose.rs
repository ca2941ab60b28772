//! Schemas that a model is shown but that are not enforced. They are sent as written, except for keywords that would
//! make a provider reject the whole request.

use serde_json::{Map, Value, json};

use super::guidance;

/// Keywords that no provider accepts beside the `"type": "object"` of an input. `OpenAI`: "schema must have type
/// 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"; Anthropic: "`input_schema` does not
/// support oneOf, allOf, or anyOf at the top level".
const NOT_AT_ROOT: [&str; 6] = ["allOf", "anyOf", "const", "enum", "not", "oneOf"];

/// `schema` as an input that every provider takes, and in words what the root of it may not say.
pub(super) fn rooted(schema: &Value) -> (Value, Vec<String>) {
    let mut schema = schema.clone();
    let Some(keywords) = schema.as_object_mut() else { return (schema, Vec::new()) };
    let mut rules = Vec::new();
    for keyword in NOT_AT_ROOT {
        if let Some(rule) = keywords.shift_remove(keyword) {
            if let Value::Array(members) = &rule {
                show_properties(keywords, members);
            }
            rules.extend(guidance::as_text(keyword, &rule));
        }
    }
    (schema, rules)
}

/// Lets the keys that only alternatives describe show among the others.
fn show_properties(keywords: &mut Map<String, Value>, members: &[Value]) {
    if keywords.get("additionalProperties") == Some(&Value::Bool(false)) {
        return;
    }
    let shown = keywords.entry("properties").or_insert_with(|| json!({}));
    let Some(shown) = shown.as_object_mut() else { return };
    for (name, schema) in members.iter().filter_map(|member| member.get("properties")?.as_object()).flatten() {
        shown.entry(name).or_insert_with(|| schema.clone());
    }
}

/// Gives every list elements: `OpenAI` refuses a request with "array schema missing items".
pub(super) fn with_items(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            let is_list = match keywords.get("type") {
                Some(Value::Array(names)) => names.iter().any(|name| name == "array"),
                name => name.is_some_and(|name| name == "array"),
            };
            if is_list && !keywords.contains_key("items") {
                keywords.insert("items".to_owned(), json!({}));
            }
            for (keyword, inner) in keywords.iter_mut() {
                // These keywords hold values, not schemas.
                if !matches!(keyword.as_str(), "const" | "default" | "enum" | "examples") {
                    with_items(inner);
                }
            }
        }
        Value::Array(members) => members.iter_mut().for_each(with_items),
        _ => {}
    }
}
