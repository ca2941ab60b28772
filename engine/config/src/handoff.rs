//! The schema of an agent's results in the definition of its handoff, so that its model knows the schema before the first result.
//!
//! The machine checks results by the agent's own schema: see `result_schema`. The definition is *not* used for checks.

use std::sync::Arc;

use baton_schema::provider::{Target, compile};
use baton_types::config::Tool;
use baton_types::json::Json;
use baton_types::model::ToolDefinition;
use baton_types::schema::Schema;
use serde_json::Value;

/// The input of a handoff that holds the result.
const RESULT: &str = "result";

/// The keyword whose subschemas move to the root of the definition, where references find them.
const DEFINITIONS: &str = "$defs";

/// The dialect of definitions. Schemas of results in another dialect are not shown.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Returns the definition of `tool` with `schema` as the schema of its result; `None` if the schema cannot be part of another one,
/// or if some provider could not offer the definition.
pub(crate) fn with_result_schema(tool: &Tool, schema: &Schema) -> Option<Arc<ToolDefinition>> {
    let mut input_schema = tool.definition.input_schema.value();
    let result = input_schema.get_mut("properties")?.get_mut(RESULT)?.as_object_mut()?;
    let Value::Object(mut schema) = schema.json().value() else { return None };
    schema.shift_remove("$schema").is_none_or(|dialect| dialect == DIALECT).then_some(())?;
    let definitions = schema.shift_remove(DEFINITIONS);
    if !is_movable(&Value::Object(schema.clone())) || !definitions.as_ref().is_none_or(is_movable) {
        return None;
    }
    result.retain(|keyword, _| matches!(keyword.as_str(), "type" | "description"));
    result.extend(schema);
    if let Some(definitions) = definitions {
        let replaced = input_schema.as_object_mut()?.insert(DEFINITIONS.to_owned(), definitions);
        replaced.is_none().then_some(())?;
    }
    let definition = tool.definition.with_input_schema(Json::from(input_schema));
    // The one dialect that refuses schemas: keys of properties have plain characters.
    compile(Target::Anthropic, &definition).is_ok().then(|| Arc::new(definition))
}

/// Whether some result of `tool` can match `schema`, by the types of both.
pub(crate) fn can_match(tool: &Tool, schema: &Schema) -> bool {
    let input = tool.definition.input_schema.value();
    let (own, wanted) = (input.pointer("/properties/result").map(types).unwrap_or_default(), types(&schema.json().value()));
    own.is_empty() || wanted.is_empty() || own.iter().any(|kind| wanted.contains(kind))
}

/// Returns the types that `schema` names; none if it allows all.
fn types(schema: &Value) -> Vec<String> {
    let names = match schema.get("type") {
        Some(Value::Array(names)) => names.as_slice(),
        Some(name) => std::slice::from_ref(name),
        None => &[],
    };
    // Whole numbers are numbers.
    names.iter().filter_map(Value::as_str).map(|name| if name == "integer" { "number" } else { name }.to_owned()).collect()
}

/// Whether `schema` means the same in another place: it has no names of its own, and refers to `$defs` of the root only.
fn is_movable(schema: &Value) -> bool {
    match schema {
        Value::Object(keywords) => keywords.iter().all(|(keyword, value)| match (keyword.as_str(), value) {
            ("$ref", Value::String(reference)) => reference.starts_with("#/$defs/"),
            ("$id" | "$anchor" | "$dynamicAnchor" | "$dynamicRef" | "$schema", Value::String(_)) => false,
            (_, value) => is_movable(value),
        }),
        Value::Array(values) => values.iter().all(is_movable),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::is_movable;

    #[test]
    fn a_schema_moves_unless_its_references_would_break() {
        assert!(is_movable(&json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}, "$id": {"type": "string"}}})));
        for fixed in [json!({"$ref": "#"}), json!({"$id": "urn:a"}), json!({"items": [{"$ref": "#/properties/a"}]})] {
            assert!(!is_movable(&fixed), "{fixed}");
        }
    }
}
