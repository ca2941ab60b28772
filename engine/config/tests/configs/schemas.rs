//! JSON Schemas in the files of a job, and those of the files themselves.

use baton_config::schema_of;
use serde_json::{Value, json};

use crate::support::sound;

#[test]
fn a_default_is_not_judged_by_a_part_that_refers_to_the_whole() {
    let tree = |children: Value| {
        let schema = json!({"type": "object", "properties": {"children": children}});
        sound().edited("agents/lead.json", "\"tools\"", &format!("\"result_schema\": {schema}, \"tools\""))
    };
    for children in [
        json!({"type": "array", "items": {"$ref": "#"}, "default": [{"children": []}]}),
        json!({"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#"}}], "default": [{"children": []}]}),
    ] {
        tree(children.clone()).load().unwrap_or_else(|faults| panic!("{children}: {faults}"));
    }
    let told = tree(json!({"type": "array", "default": 7})).faults();
    assert!(told.contains("the default does not match its schema") && told.contains("1 error"), "{told}");
}

#[derive(schemars::JsonSchema)]
#[expect(dead_code, reason = "only its schema is looked at")]
struct Choice {
    size: Option<Size>,
    many: Option<Vec<u8>>,
}

#[derive(schemars::JsonSchema)]
#[schemars(inline)]
#[expect(dead_code, reason = "only its schema is looked at")]
enum Size {
    Small,
    Large,
}

#[test]
fn what_may_be_absent_may_not_be_null() {
    let schema = schema_of::<Choice>();
    assert_eq!(schema["properties"]["size"]["enum"], json!(["Small", "Large"]));
    assert_eq!(schema["properties"]["many"]["type"], "array");
    let schema = baton_schema::compile(&schema).expect("it is a schema");
    assert!(schema.check(&json!({})).is_ok() && schema.check(&json!({"size": "Small", "many": [1]})).is_ok());
    assert!(schema.check(&json!({"size": null})).is_err() && schema.check(&json!({"many": null})).is_err());
}
