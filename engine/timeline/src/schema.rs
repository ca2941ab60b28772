//! The JSON Schema of a line.

use baton_types::entry::Entry;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use crate::line::Form;

/// Returns the JSON Schema (2020-12) of one line: the fields of a line, and for each entry the form of its `data`.
pub fn schema() -> Value {
    let schema = schemars::generate::SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Parts>();
    let mut schema: Value = schema.into();
    let mut definitions: Map<String, Value> = serde_json::from_value(schema["$defs"].take()).expect("a schema has definitions");
    let mut line: Map<String, Value> =
        definitions.remove("Line").and_then(|line| serde_json::from_value(line).ok()).expect("a line is an object");
    let entry = definitions.remove("Entry").expect("an entry has a schema");
    let variants = entry["oneOf"].as_array().expect("an entry is one of several").iter().map(|variant| {
        let properties = variant["properties"].as_object().expect("an entry is tagged with its name");
        let (name, data) = properties.iter().next().expect("an entry is tagged with its name");
        json!({"description": variant["description"], "properties": {"entry": {"const": name}, "data": data}})
    });
    line.insert("oneOf".to_owned(), variants.collect());
    let mut file = Map::from_iter([
        ("$schema".to_owned(), schema["$schema"].take()),
        ("title".to_owned(), json!("One line of a timeline, version 0")),
    ]);
    file.extend(line);
    file.insert("$defs".to_owned(), Value::Object(definitions));
    Value::Object(file)
}

/// The types that the schema is made of.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "read by the derive")]
struct Parts {
    line: Form,
    entry: Entry,
}
