//! The seed's dialect of parameters and returns, turned into JSON Schema (2020-12) without loss.

use serde_json::{Map, Value, json};

/// Rule for further properties of an object with named ones.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// It may not: inputs.
    Refused,
    /// It may: outputs.
    Allowed,
}

/// Returns the schema of an object with `parts`, which the form has checked. The order of keys is kept.
pub fn object_schema(parts: &Map<String, Value>, others: Others) -> Value {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("object"));
    put_properties(&mut schema, parts, others);
    Value::Object(schema)
}

/// Returns the schema of one part: a name of a type, or an object that has one.
pub fn part_schema(part: &Value, others: Others) -> Value {
    let mut schema = Map::new();
    match part {
        Value::String(name) => put_type(&mut schema, name),
        Value::Object(keys) => {
            for (key, value) in keys {
                match (key.as_str(), value) {
                    ("type", Value::String(name)) => put_type(&mut schema, name),
                    ("items", items) => {
                        schema.insert("items".to_owned(), part_schema(items, others));
                    }
                    ("properties", Value::Object(properties)) => put_properties(&mut schema, properties, others),
                    // The object that holds a part determines whether the part is required.
                    ("required", Value::Bool(_)) => {}
                    (kept, value) => {
                        schema.insert(kept.to_owned(), value.clone());
                    }
                }
            }
        }
        _ => {}
    }
    Value::Object(schema)
}

fn put_type(schema: &mut Map<String, Value>, name: &str) {
    if name != "any" {
        schema.insert("type".to_owned(), json!(name));
    }
}

fn put_properties(schema: &mut Map<String, Value>, parts: &Map<String, Value>, others: Others) {
    let properties: Map<String, Value> = parts.iter().map(|(name, part)| (name.clone(), part_schema(part, others))).collect();
    let required: Vec<&String> = parts.iter().filter(|(_, part)| part["required"] == true).map(|(name, _)| name).collect();
    schema.insert("properties".to_owned(), Value::Object(properties));
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    if others == Others::Refused {
        schema.insert("additionalProperties".to_owned(), json!(false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_and_the_order_is_kept() {
        let parts = json!({
            "rows": {"type": "array", "description": "Rows", "required": true, "items": {"type": "object", "properties": {
                "x": {"type": "number", "required": true, "minimum": 0},
                "label": {"type": "string", "enum": ["a", "b"], "default": "a"}
            }}},
            "kind": {"type": "string", "description": "", "required": false, "default": "line"}
        });
        let schema = object_schema(parts.as_object().unwrap(), Others::Refused);
        assert_eq!(
            schema.to_string(),
            json!({
                "type": "object",
                "properties": {
                    "rows": {"type": "array", "description": "Rows", "items": {
                        "type": "object",
                        "properties": {
                            "x": {"type": "number", "minimum": 0},
                            "label": {"type": "string", "enum": ["a", "b"], "default": "a"}
                        },
                        "required": ["x"],
                        "additionalProperties": false
                    }},
                    "kind": {"type": "string", "description": "", "default": "line"}
                },
                "required": ["rows"],
                "additionalProperties": false
            })
            .to_string()
        );
    }

    #[test]
    fn returns_may_name_types_alone_and_any() {
        let parts = json!({"path": "string", "value": "any", "list": {"type": "array", "items": "integer"}});
        assert_eq!(
            object_schema(parts.as_object().unwrap(), Others::Allowed),
            json!({"type": "object", "properties": {
                "path": {"type": "string"}, "value": {}, "list": {"type": "array", "items": {"type": "integer"}}
            }})
        );
    }
}
