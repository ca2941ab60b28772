//! Possible values of a parameter or a return, as Markdown that fits into a cell of a table.

use serde_json::{Map, Value};

use crate::markdown::{code, line};

/// The longest JSON text that stays on one line of an example.
const LINE: usize = 100;

/// One line of a table of parameters or returns.
#[derive(Debug, PartialEq)]
pub(crate) struct Line {
    /// The name; for a part of another, the way to it: `rows[].x`.
    pub(crate) name: String,
    /// The type with what restricts it, as Markdown.
    pub(crate) kind: String,
    pub(crate) required: bool,
    pub(crate) default: Option<Value>,
    pub(crate) description: String,
}

/// Returns the lines of `parts` and of their parts, in the order they are written. `schema` is the object schema that holds them, if they
/// are in that dialect, which keeps the names of required ones in a list.
pub(crate) fn lines(parts: &Map<String, Value>, schema: Option<&Map<String, Value>>) -> Vec<Line> {
    let mut lines = Vec::new();
    add_lines(&mut lines, "", parts, schema);
    lines
}

fn add_lines(lines: &mut Vec<Line>, prefix: &str, parts: &Map<String, Value>, schema: Option<&Map<String, Value>>) {
    let listed = schema.and_then(|schema| schema.get("required")).and_then(Value::as_array);
    for (name, part) in parts {
        let required = part["required"] == true || listed.is_some_and(|names| names.iter().any(|known| known == name));
        let name = format!("{prefix}{name}");
        let description = part["description"].as_str().unwrap_or_default().to_owned();
        lines.push(Line { kind: kind(part), required, default: part.get("default").cloned(), description, name: name.clone() });
        // An array of arrays of objects is described by its innermost part.
        let (mut inner, mut way) = (part, name);
        while let Some(items) = inner.get("items") {
            inner = items;
            way.push_str("[]");
        }
        if let Some(Value::Object(properties)) = inner.get("properties") {
            add_lines(lines, &format!("{way}."), properties, inner.as_object());
        }
    }
}

/// Returns the type of a part with what restricts it: `array of string, at most 3`.
fn kind(part: &Value) -> String {
    let Some(keys) = part.as_object() else {
        return line(part.as_str().unwrap_or("any"));
    };
    let mut words = vec![match (keys.get("type"), keys.get("items")) {
        (Some(Value::String(name)), Some(items)) if name == "array" => format!("array of {}", kind(items)),
        (Some(Value::String(name)), _) => line(name),
        (Some(Value::Array(names)), _) => line(&names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")),
        _ => ["anyOf", "oneOf"]
            .iter()
            .find_map(|key| keys.get(*key)?.as_array())
            .map_or_else(|| "any".to_owned(), |kinds| kinds.iter().map(kind).collect::<Vec<_>>().join(" or ")),
    }];
    for (key, value) in keys {
        match (key.as_str(), value) {
            ("enum", Value::Array(values)) => {
                let values: Vec<_> = values.iter().map(inline_code).collect();
                words.push(format!("one of {}", values.join(" ")));
            }
            ("const", value) => words.push(format!("always {}", inline_code(value))),
            ("minimum" | "minItems", value) => words.push(format!("at least {}", line(&value.to_string()))),
            ("maximum" | "maxItems", value) => words.push(format!("at most {}", line(&value.to_string()))),
            ("exclusiveMinimum", value) => words.push(format!("more than {}", line(&value.to_string()))),
            ("exclusiveMaximum", value) => words.push(format!("less than {}", line(&value.to_string()))),
            ("minLength", value) if *value == 1 => words.push("not empty".to_owned()),
            ("minLength", value) => words.push(format!("at least {} characters", line(&value.to_string()))),
            ("maxLength", value) => words.push(format!("at most {} characters", line(&value.to_string()))),
            ("pattern", Value::String(pattern)) => words.push(format!("matching {}", code(pattern))),
            ("format", Value::String(format)) => words.push(format!("a {}", line(format))),
            ("uniqueItems", Value::Bool(true)) => words.push("no two alike".to_owned()),
            _ => {}
        }
    }
    words.join(", ")
}

/// Returns a value as code within a line.
pub(crate) fn inline_code(value: &Value) -> String {
    code(&value.to_string())
}

/// Returns JSON with a line for each part that is too long for one line.
pub(crate) fn compact_json(value: &Value) -> String {
    let mut text = String::new();
    // The outermost object always has a line per key, so that input and output are below each other.
    write_json(&mut text, value, 0, true);
    text
}

fn write_json(text: &mut String, value: &Value, indent: usize, open: bool) {
    let line = one_line(value);
    if !open && indent + line.len() <= LINE {
        text.push_str(&line);
        return;
    }
    let (parts, ends): (Vec<(Option<&String>, &Value)>, _) = match value {
        Value::Object(keys) => (keys.iter().map(|(key, part)| (Some(key), part)).collect(), ['{', '}']),
        Value::Array(items) => (items.iter().map(|part| (None, part)).collect(), ['[', ']']),
        _ => return text.push_str(&line),
    };
    text.push(ends[0]);
    for (index, (key, part)) in parts.into_iter().enumerate() {
        text.push_str(if index == 0 { "\n" } else { ",\n" });
        text.push_str(&" ".repeat(indent + 2));
        if let Some(key) = key {
            text.push_str(&Value::from(key.as_str()).to_string());
            text.push_str(": ");
        }
        write_json(text, part, indent + 2, false);
    }
    text.push('\n');
    text.push_str(&" ".repeat(indent));
    text.push(ends[1]);
}

/// Returns JSON on one line, with the spaces that people leave.
fn one_line(value: &Value) -> String {
    match value {
        Value::Object(keys) => {
            let parts: Vec<_> =
                keys.iter().map(|(key, part)| format!("{}: {}", Value::from(key.as_str()), one_line(part))).collect();
            format!("{{{}}}", parts.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(one_line).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(parts: &Value, schema: Option<&Value>) -> Vec<String> {
        let parts = parts.as_object().expect("an object");
        lines(parts, schema.and_then(Value::as_object))
            .into_iter()
            .map(|line| format!("{} | {} | {}", line.name, line.kind, line.required))
            .collect()
    }

    #[test]
    fn parts_of_parts_get_lines_of_their_own() {
        let parts = json!({
            "rows": {"type": "array", "required": true, "items": {"type": "object", "properties": {
                "x": {"type": "number", "required": true, "exclusiveMinimum": 0},
                "label": {"type": "string", "enum": ["a", "b"]}
            }}},
            "grid": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
            "anything": {"description": "no type"}
        });
        assert_eq!(
            said(&parts, None),
            [
                "rows | array of object | true",
                "rows[].x | number, more than 0 | true",
                "rows[].label | string, one of `\"a\"` `\"b\"` | false",
                "grid | array of array of integer | false",
                "anything | any | false",
            ]
        );
    }

    #[test]
    fn a_schema_s_list_says_what_is_required() {
        let schema = json!({
            "properties": {
                "a": {"type": ["string", "null"]},
                "b": {"anyOf": [{"type": "string"}, {"type": "object", "properties": {"a": {}}}]},
                "c": {"type": "object", "properties": {"a": {"type": "string", "minLength": 2}, "b": {}}, "required": ["a"]}
            },
            "required": ["b", "c"]
        });
        assert_eq!(
            said(&schema["properties"], Some(&schema)),
            [
                "a | string or null | false",
                "b | string or object | true",
                "c | object | true",
                "c.a | string, at least 2 characters | true",
                "c.b | any | false",
            ]
        );
    }

    #[test]
    fn returns_may_be_names_of_types() {
        assert_eq!(said(&json!({"path": "string", "value": "any"}), None), ["path | string | false", "value | any | false"]);
    }

    #[test]
    fn json_breaks_only_where_a_line_is_too_long() {
        let value = json!({"input": {"a": [1, 2]}, "output": {"rows": ["x".repeat(60), "y".repeat(60)], "n": null}});
        let (x, y) = ("x".repeat(60), "y".repeat(60));
        let expected = format!(
            "{{\n  \"input\": {{\"a\": [1, 2]}},\n  \"output\": {{\n    \"rows\": [\n      \"{x}\",\n      \"{y}\"\n    ],\n    \"n\": null\n  }}\n}}"
        );
        assert_eq!(compact_json(&value), expected);
        assert_eq!(serde_json::from_str::<Value>(&compact_json(&value)).expect("JSON"), value);
    }
}
