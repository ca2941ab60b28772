//! Rules that a dialect has no keyword for, as text for the model.

use serde_json::{Map, Value};

/// Returns the rule of `keyword` as text; `None` if it does not concern the author of a value.
pub(super) fn as_text(keyword: &str, value: &Value) -> Option<String> {
    Some(match (keyword, value) {
        ("minLength", _) => format!("at least {}", counted(value, "character")),
        ("maxLength", _) => format!("at most {}", counted(value, "character")),
        ("minItems", _) => format!("at least {}", counted(value, "element")),
        ("maxItems", _) => format!("at most {}", counted(value, "element")),
        ("minProperties", _) => format!("at least {}", counted(value, "key")),
        ("maxProperties", _) => format!("at most {}", counted(value, "key")),
        ("minimum", _) => format!("at least {value}"),
        ("maximum", _) => format!("at most {value}"),
        ("exclusiveMinimum", _) => format!("more than {value}"),
        ("exclusiveMaximum", _) => format!("less than {value}"),
        ("multipleOf", _) => format!("a multiple of {value}"),
        ("uniqueItems", Value::Bool(true)) => "no element twice".to_owned(),
        ("pattern", Value::String(pattern)) => format!("matches {pattern}"),
        ("format" | "contentEncoding" | "contentMediaType", Value::String(name)) => format!("format: {name}"),
        ("const", _) => format!("always {value}"),
        ("default", _) => format!("default: {value}"),
        ("examples", _) => format!("examples: {value}"),
        ("deprecated", Value::Bool(true)) => "deprecated".to_owned(),
        ("additionalProperties", Value::Bool(false)) => "no other keys".to_owned(),
        ("additionalProperties", Value::Object(rest)) if !rest.is_empty() => format!("each key holds {value}"),
        ("required", Value::Array(names)) => format!("required: {}", listed(names)),
        ("title" | "description" | "deprecated" | "uniqueItems" | "readOnly" | "writeOnly" | "additionalProperties", _) => {
            return None;
        }
        (own, _) if own.starts_with('$') || own.starts_with("x-") => return None,
        (rule, _) => format!("must also meet {{{rule:?}: {value}}}"),
    })
}

/// Appends `rules` to the description that `schema` has, or gives it one.
pub(super) fn append(schema: &mut Map<String, Value>, rules: &[String]) {
    if rules.is_empty() {
        return;
    }
    let described = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let described = joined(described, rules);
    schema.insert("description".to_owned(), Value::from(described));
}

/// `description` with `rules` after it.
pub(super) fn joined(description: &str, rules: &[String]) -> String {
    let rules = rules.join("; ");
    match (description.is_empty(), rules.is_empty()) {
        (_, true) => description.to_owned(),
        (true, false) => rules,
        (false, false) => format!("{description} ({rules})"),
    }
}

fn counted(count: &Value, what: &str) -> String {
    if count.as_u64() == Some(1) { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn listed(names: &[Value]) -> String {
    names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
}
