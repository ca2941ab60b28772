//! The judgement of values beside that of another implementation: for each keyword both accept the same values.

use baton_schema::{DAY_PATTERN, ENV_PATTERN, NAME_PATTERN, PAGE_PATTERN, compile};
use baton_types::id::ID_PATTERN;
use baton_types::json::Json;
use serde_json::{Value, json};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Returns one or more schemas for each keyword, valid and invalid ones.
fn schemas() -> Vec<Value> {
    vec![
        json!({"type": "integer"}),
        json!({"type": ["string", "null"]}),
        json!({"type": "number", "format": "double"}),
        json!({"type": []}),
        json!({"type": ["string", "string"]}),
        json!({"type": "strng"}),
        json!({"type": 3}),
        json!({"enum": [1, "a", null, 2.0]}),
        json!({"enum": "a"}),
        json!({"const": {"a": [1]}}),
        json!({"minimum": 2}),
        json!({"maximum": 2.5}),
        json!({"exclusiveMinimum": 2}),
        json!({"exclusiveMaximum": 3}),
        json!({"minimum": "2"}),
        json!({"minimum": 9_007_199_254_740_993_u64}),
        json!({"minLength": 2}),
        json!({"maxLength": 1}),
        json!({"minLength": -1}),
        json!({"minLength": 1.5}),
        json!({"minItems": 1}),
        json!({"maxItems": 1}),
        json!({"minProperties": 1}),
        json!({"maxProperties": 1}),
        json!({"uniqueItems": true}),
        json!({"uniqueItems": false}),
        json!({"items": {"type": "integer"}}),
        json!({"items": [{"type": "integer"}]}),
        json!({"required": ["a"]}),
        json!({"required": []}),
        json!({"required": ["a", "a"]}),
        json!({"required": "a"}),
        json!({"required": [1]}),
        json!({"properties": {"a": {"type": "string"}}}),
        json!({"properties": {"a": {"type": "strng"}}}),
        json!({"properties": []}),
        json!({"properties": {"a": true, "b": false}}),
        json!({"additionalProperties": false}),
        json!({"additionalProperties": {"type": "number"}, "properties": {"a": {"minLength": 1}}}),
        json!({"properties": {"a": {}}, "additionalProperties": false, "required": ["a"]}),
        json!({"additionalProperties": 1}),
        json!({"anyOf": [{"type": "string"}, {"minimum": 3}]}),
        json!({"anyOf": []}),
        json!({"oneOf": []}),
        json!({"anyOf": [{"type": "strng"}]}),
        json!({"oneOf": [{"const": "a"}, {"enum": ["b", "é"], "type": "string"}]}),
        json!({"oneOf": [{"const": "a"}, {"const": "a"}]}),
        json!({"oneOf": [{"const": "a"}, {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}]}),
        json!({"oneOf": [{"type": "object"}, {"type": "object", "required": ["a"]}]}),
        json!({"oneOf": [{"const": "a"}, {"type": "string"}]}),
        json!({"oneOf": [{"const": "a", "maxLength": 0}]}),
        json!({"$defs": {"t": {"items": {"$ref": "#/$defs/t"}, "type": ["array", "integer"]}}, "$ref": "#/$defs/t"}),
        json!({"$ref": "#/$defs/u"}),
        json!({"$defs": {"a/b": {"type": "string"}}, "$ref": "#/$defs/a~1b"}),
        json!({"$defs": 1}),
        json!({"$defs": {"a~1b": {"type": "array"}, "a/b": {"type": "string"}}, "$ref": "#/$defs/a~1b"}),
        json!({"pattern": ID_PATTERN}),
        json!({"pattern": ENV_PATTERN}),
        json!({"pattern": NAME_PATTERN}),
        json!({"pattern": DAY_PATTERN}),
        json!({"pattern": PAGE_PATTERN}),
        json!({"pattern": "^a"}),
        json!({"pattern": "("}),
        json!({"$schema": DIALECT}),
        json!({"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMinimum": true}),
        json!({"description": "d", "title": "t", "default": 1}),
        json!({"description": 1}),
        json!({"title": []}),
        json!({"not": {}}),
        json!({"not": {"type": "integer"}}),
        json!({"allOf": [{"minimum": 2}, {"maximum": 3}]}),
        json!({"oneOf": [{"minimum": 2}, {"maximum": 2}]}),
        json!({"if": {"type": "integer"}, "then": {"minimum": 2}, "else": {"minLength": 1}}),
        json!({"then": {"minimum": 2}}),
        json!({"prefixItems": [{"type": "integer"}], "items": {"type": "array"}}),
        json!({"prefixItems": [{"type": "integer"}], "unevaluatedItems": false}),
        json!({"contains": {"type": "integer"}, "maxContains": 1}),
        json!({"contains": {"type": "integer"}, "minContains": 0, "unevaluatedItems": {"type": "string"}}),
        json!({"patternProperties": {"^a": {"type": "string"}}, "additionalProperties": {"type": "integer"}}),
        json!({"propertyNames": {"maxLength": 1, "pattern": "^a"}}),
        json!({"dependentRequired": {"a": ["b"]}}),
        json!({"dependentSchemas": {"a": {"required": ["b"]}}}),
        json!({"anyOf": [{"properties": {"a": true}, "required": ["a"]}, {"properties": {"b": true}, "required": ["b"]}], "unevaluatedProperties": false}),
        json!({"multipleOf": 0.5}),
        json!({"multipleOf": 0}),
        json!({"x-own": 1}),
        json!(true),
        json!(false),
        json!(1),
        json!("a"),
        json!(null),
    ]
}

fn values() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(0),
        json!(1),
        json!(1.0),
        json!(2),
        json!(2.0),
        json!(2.5),
        json!(3),
        json!(9_007_199_254_740_992_u64),
        json!(9_007_199_254_740_993_u64),
        json!(-1),
        json!(1e300),
        json!(""),
        json!("a"),
        json!("é"),
        json!("b"),
        json!("ab"),
        json!("a_b"),
        json!("a".repeat(200)),
        json!("a__b"),
        json!("a-"),
        json!("a-b2"),
        json!("A"),
        json!("_x"),
        json!("1a"),
        json!("a\n"),
        json!([]),
        json!([1]),
        json!([1, 1]),
        json!([1, 1.0]),
        json!(["a", "a"]),
        json!(["a", "b"]),
        json!([[1], []]),
        json!(["a", 1]),
        json!({}),
        json!({"a": "a"}),
        json!({"a": 1}),
        json!({"a": [1]}),
        json!({"a": [1.0]}),
        json!({"b": 1}),
        json!({"a": "", "b": 2}),
        json!("2026-01-31"),
        json!("2026-1-31x"),
        json!("https://a.b/c"),
        json!("https:// "),
        json!({"a": "x", "b": "y"}),
    ]
}

#[test]
fn both_implementations_accept_the_same_values() {
    let (mut schemas_read, mut accepted, mut refused) = (0, 0, 0);
    for schema in schemas() {
        let options = jsonschema::options().with_draft(jsonschema::Draft::Draft202012).offline();
        let Ok(compiled) = compile(&schema) else { continue };
        schemas_read += 1;
        let validator = options.build(&schema).unwrap_or_else(|error| panic!("{schema} was read, but {error}"));
        for value in values() {
            let faults = compiled.check(&value).err();
            assert_eq!(compiled.check_text(&Json::from(&value)).err(), faults, "{value} of {schema}");
            assert_eq!(faults.is_none(), validator.is_valid(&value), "{value} of {schema}: {faults:?}");
            if faults.is_none() { accepted += 1 } else { refused += 1 }
        }
    }
    assert!(
        schemas_read > 60 && accepted > 1_000 && refused > 500,
        "{schemas_read} schemas, {accepted} accepted, {refused} refused"
    );
}
