//! Schemas of other dialects, what each becomes, and the changes that are reported.

use super::*;

const DRAFT_7: &str = "http://json-schema.org/draft-07/schema#";

/// Checks what one kind of normalization makes of each schema: the schema, the result, and the changes.
#[track_caller]
fn check<'d>(document: &'d Value, normalize: fn(&mut Normalizer<'d>, &Value) -> Value, rows: &[(Value, Value, &[&str])]) {
    for (schema, expected, changes) in rows {
        let mut normalizer = Normalizer::new(document);
        let found = normalize(&mut normalizer, schema);
        assert_eq!(found, *expected, "{schema}");
        let told: Vec<String> =
            normalizer.changes.iter().map(|change| format!("{} {}", change.pointer, change.message)).collect();
        assert_eq!(told, *changes, "{schema}");
    }
}

#[test]
fn an_input_is_always_an_object() {
    let wrapped = |inner: Value| json!({"type": "object", "properties": {"value": inner}, "required": ["value"]});
    let is_wrapped: &[&str] = &[" an input is an object: the value is its property \"value\""];
    check(
        &Value::Null,
        Normalizer::input,
        &[
            (json!({"type": "object", "maxProperties": 1}), json!({"type": "object", "maxProperties": 1}), &[]),
            (
                json!({"properties": {"a": true}}),
                json!({"properties": {"a": true}, "type": "object"}),
                &["/type an input is an object: \"type\": \"object\" was added"],
            ),
            (json!({"type": "string"}), wrapped(json!({"type": "string"})), is_wrapped),
            (
                json!({"type": "array", "items": {"$ref": "#named"}, "contains": {"$dynamicRef": "#/$defs/a"}, "$defs": {
                    "a": {"enum": [{"$ref": "#"}]},
                    "b": {"$anchor": "named", "$ref": "#/$defs/a"},
                    "c": {"$id": "https://example.com/c", "items": {"$ref": "#"}}
                }}),
                wrapped(
                    json!({"type": "array", "items": {"$ref": "#named"}, "contains": {"$dynamicRef": "#/properties/value/$defs/a"}, "$defs": {
                        "a": {"enum": [{"$ref": "#"}]},
                        "b": {"$anchor": "named", "$ref": "#/properties/value/$defs/a"},
                        "c": {"$id": "https://example.com/c", "items": {"$ref": "#"}}
                    }}),
                ),
                is_wrapped,
            ),
            (json!({"type": ["object", "null"]}), wrapped(json!({"type": ["object", "null"]})), is_wrapped),
            (json!(true), wrapped(json!(true)), is_wrapped),
            (
                json!({"$schema": DRAFT_7, "type": "array", "items": [{"$id": "#a", "items": {"$ref": "#/items/0"}}]}),
                json!({
                    "type": "object",
                    "properties": {
                        "value": {"type": "array", "items": [{"$id": "#a", "items": {"$ref": "#/properties/value/items/0"}}]}
                    },
                    "required": ["value"],
                    "$schema": DRAFT_7,
                }),
                is_wrapped,
            ),
            (
                json!({"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/a"}]}, "$defs": {"a": {"const": {"$ref": "#"}}}}),
                wrapped(json!({
                    "type": "array",
                    "items": {"anyOf": [{"$ref": "#/properties/value"}, {"$ref": "#/properties/value/$defs/a"}]},
                    "$defs": {"a": {"const": {"$ref": "#"}}}
                })),
                is_wrapped,
            ),
        ],
    );
}

#[test]
fn every_part_of_a_schema_is_normalized() {
    let int = |place: &str| format!("{place} type \"int\" became \"integer\"");
    for (schema, expected, places) in [
        (json!({"not": {"type": "int"}}), json!({"not": {"type": "integer"}}), vec!["/not/type"]),
        (json!({"items": {"type": "int"}}), json!({"items": {"type": "integer"}}), vec!["/items/type"]),
        (
            json!({"additionalProperties": {"type": "int"}}),
            json!({"additionalProperties": {"type": "integer"}}),
            vec!["/additionalProperties/type"],
        ),
        (json!({"anyOf": [true, {"type": "int"}]}), json!({"anyOf": [true, {"type": "integer"}]}), vec!["/anyOf/1/type"]),
        (json!({"$defs": {"a": {"type": "int"}}}), json!({"$defs": {"a": {"type": "integer"}}}), vec!["/$defs/a/type"]),
        // A property may have the name of a keyword.
        (
            json!({"properties": {"type": {"type": "int"}, "not": false}}),
            json!({"properties": {"type": {"type": "integer"}, "not": false}}),
            vec!["/properties/type/type"],
        ),
    ] {
        let told: Vec<String> = places.into_iter().map(int).collect();
        let told: Vec<&str> = told.iter().map(String::as_str).collect();
        check(&Value::Null, Normalizer::whole, &[(schema, expected, &told[..])]);
    }
}

#[test]
fn parts_that_are_no_schemas_become_schemas_or_are_removed() {
    check(
        &Value::Null,
        Normalizer::whole,
        &[
            (json!({"properties": {"a": true, "b": false}}), json!({"properties": {"a": true, "b": false}}), &[]),
            (
                json!({"properties": {"a": "string", "b": "int"}}),
                json!({"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}),
                &[
                    "/properties/a \"string\" became a schema",
                    "/properties/b \"int\" became a schema",
                    "/properties/b/type type \"int\" became \"integer\"",
                ],
            ),
            (
                json!({"properties": {"a": ["b"]}}),
                json!({"properties": {"a": {}}}),
                &["/properties/a this is not a schema: any value is accepted"],
            ),
            (json!({"not": [true]}), json!({"not": {}}), &["/not this is not a schema: any value is accepted"]),
            (json!({"properties": [1]}), json!({}), &["/properties removed: \"properties\" has a schema for each name"]),
            (
                json!({"type": "object", "properties": {"n": {"type": "integer"}}, "default": {"n": "many"}}),
                json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
                &["/default removed: the default does not match its schema: \"many\" is not an integer"],
            ),
            (
                json!({"properties": {"default": {"properties": {"x": {"type": "string", "default": 1}}}}}),
                json!({"properties": {"default": {"properties": {"x": {"type": "string"}}}}}),
                &["/properties/default/properties/x/default removed: the default does not match its schema: 1 is not a string"],
            ),
            (
                json!({"properties": {"b": {}}, "required": ["a", "b", "c"]}),
                json!({"properties": {"b": {}}, "required": ["b"]}),
                &[
                    "/required/2 removed: \"c\" is required, but \"properties\" does not describe it",
                    "/required/0 removed: \"a\" is required, but \"properties\" does not describe it",
                ],
            ),
            (
                json!({"properties": {"a": {"required": true}, "b": {"required": false}}}),
                json!({"properties": {"a": {}, "b": {}}, "required": ["a"]}),
                &[
                    "/properties/a/required \"required\": true became a name in the list of the object around it",
                    "/properties/b/required \"required\": false was removed: it is the default",
                ],
            ),
            (
                json!({"required": true, "items": {"required": false}}),
                json!({"items": {}}),
                &[
                    "/required \"required\": true was removed: this is not a property",
                    "/items/required \"required\": false was removed: this is not a property",
                ],
            ),
            (
                json!({"$defs": {"a": {"required": true}}}),
                json!({"$defs": {"a": {}}}),
                &["/$defs/a/required \"required\": true was removed: this is not a property"],
            ),
            (
                json!({"items": {"type": "object", "properties": {"n": {"type": "integer"}}, "default": {"n": "many"}}}),
                json!({"items": {"type": "object", "properties": {"n": {"type": "integer"}}}}),
                &["/items/default removed: the default does not match its schema: \"many\" is not an integer"],
            ),
            (json!({"example": 1}), json!({"examples": [1]}), &["/example \"example\" became \"examples\""]),
            (
                json!({"example": 1, "examples": [2]}),
                json!({"examples": [2]}),
                &["/example \"example\" was removed: \"examples\" has others"],
            ),
        ],
    );
}

#[test]
fn types_become_those_of_json_schema_each_named_once() {
    check(
        &Value::Null,
        Normalizer::whole,
        &[
            (json!({"type": ["string", "null"]}), json!({"type": ["string", "null"]}), &[]),
            (
                json!({"type": ["int", "integer", "none"]}),
                json!({"type": ["integer", "null"]}),
                &["/type type \"int\" became \"integer\"", "/type type \"none\" became \"null\""],
            ),
            (json!({"type": 3}), json!({}), &["/type \"type\" was removed: it names no type"]),
            (json!({"type": []}), json!({}), &["/type \"type\" was removed: it names no type"]),
            (json!({"type": "Any"}), json!({}), &["/type type \"Any\" was removed: any value is accepted"]),
            (json!({"type": ["any", "string"]}), json!({}), &["/type type \"any\" was removed: any value is accepted"]),
            (json!({"type": "quux"}), json!({}), &["/type type \"quux\" was removed: any value is accepted"]),
        ],
    );
}

#[test]
fn a_nullable_schema_accepts_null() {
    let told: &[&str] = &["/nullable \"nullable\" became the type null"];
    check(
        &Value::Null,
        Normalizer::whole,
        &[
            (json!({"type": "string", "nullable": true}), json!({"type": ["string", "null"]}), told),
            (json!({"type": ["string", "integer"], "nullable": true}), json!({"type": ["string", "integer", "null"]}), told),
            (json!({"type": ["string", "null"], "nullable": true}), json!({"type": ["string", "null"]}), told),
            (json!({"enum": ["a", null], "nullable": true}), json!({"enum": ["a", null]}), told),
            (json!({"title": "t", "nullable": true}), json!({"title": "t"}), told),
            (json!({"const": "a", "nullable": true}), json!({"anyOf": [{"const": "a"}, {"type": "null"}]}), told),
            (
                json!({"type": "string", "allOf": [{"minLength": 1}], "nullable": true}),
                json!({"type": ["string", "null"], "anyOf": [{"allOf": [{"minLength": 1}]}, {"type": "null"}]}),
                told,
            ),
            (
                json!({"if": true, "then": {"type": "string"}, "nullable": true}),
                json!({"anyOf": [{"if": true, "then": {"type": "string"}}, {"type": "null"}]}),
                told,
            ),
            (json!({"type": "null", "nullable": true}), json!({"type": "null"}), told),
            // In draft 7 only the reference counts.
            (
                json!({"$schema": DRAFT_7, "$ref": "#/definitions/a", "maxLength": 1, "nullable": true, "definitions": {"a": true}}),
                json!({"$schema": DRAFT_7, "definitions": {"a": true},
                    "anyOf": [{"$ref": "#/definitions/a", "maxLength": 1}, {"type": "null"}]}),
                told,
            ),
            // Definitions and properties remain where references and providers look for them.
            (
                json!({"$schema": DRAFT_7, "type": "object", "properties": {"a": true}, "nullable": true,
                    "allOf": [{"$ref": "#/definitions/a"}], "definitions": {"a": {"required": ["a"]}}}),
                json!({"$schema": DRAFT_7, "type": ["object", "null"], "properties": {"a": true},
                    "definitions": {"a": {"required": ["a"]}}, "anyOf": [{"allOf": [{"$ref": "#/definitions/a"}]}, {"type": "null"}]}),
                told,
            ),
            (
                json!({"oneOf": [{"type": "string"}], "nullable": true}),
                json!({"anyOf": [{"oneOf": [{"type": "string"}]}, {"type": "null"}]}),
                told,
            ),
            (json!({"type": "string", "nullable": false}), json!({"type": "string"}), &["/nullable \"nullable\" was removed"]),
        ],
    );
    for schema in [
        json!({"type": "string", "nullable": true}),
        json!({"enum": ["a"], "nullable": true}),
        json!({"type": "string", "const": "a", "nullable": true}),
        json!({"type": "string", "not": {"const": null}, "nullable": true}),
        json!({"type": "string", "if": true, "then": {"const": "a"}, "nullable": true}),
        json!({"$defs": {"a": {"$dynamicAnchor": "a", "const": "a"}}, "$dynamicRef": "#a", "nullable": true}),
    ] {
        let accepts = |schema: &Value, value: Value| crate::compile(schema).expect("it is a schema").check(&value).is_ok();
        let whole = Normalizer::new(&Value::Null).whole(&schema);
        assert!(accepts(&whole, json!(null)) && accepts(&whole, json!("a")) && !accepts(&whole, json!(1)), "{schema}: {whole}");
    }
    // An input is an object, and a text in it may be null.
    let text = json!({"type": "string", "allOf": [{"minLength": 1}], "nullable": true});
    let input = crate::compile(&Normalizer::new(&Value::Null).input(&text)).expect("it is a schema");
    assert_eq!(input.check(&json!({"value": null})), Ok(()));
    assert!(input.check(&json!({"value": ""})).is_err());
}

#[test]
fn keywords_of_earlier_drafts_are_rewritten_unless_their_draft_is_declared() {
    check(
        &Value::Null,
        Normalizer::whole,
        &[
            (json!({"minimum": 1, "maximum": 9}), json!({"minimum": 1, "maximum": 9}), &[]),
            (
                json!({"minimum": 1, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": true}),
                json!({"exclusiveMinimum": 1, "exclusiveMaximum": 9}),
                &[
                    "/exclusiveMinimum \"exclusiveMinimum\": true became the bound 1",
                    "/exclusiveMaximum \"exclusiveMaximum\": true became the bound 9",
                ],
            ),
            (
                json!({"maximum": 9, "exclusiveMaximum": false, "minimum": 1, "exclusiveMinimum": false}),
                json!({"maximum": 9, "minimum": 1}),
                &[
                    "/exclusiveMaximum \"exclusiveMaximum\": false was removed: it has no effect",
                    "/exclusiveMinimum \"exclusiveMinimum\": false was removed: it has no effect",
                ],
            ),
            (
                json!({"items": [true], "additionalItems": {"type": "int"}}),
                json!({"prefixItems": [true], "items": {"type": "integer"}}),
                &[
                    "/items a list of \"items\" became \"prefixItems\"",
                    "/additionalItems \"additionalItems\" became \"items\"",
                    "/additionalItems/type type \"int\" became \"integer\"",
                ],
            ),
            (
                json!({"items": true, "additionalItems": false}),
                json!({"items": true}),
                &["/additionalItems \"additionalItems\" was removed: it has no effect"],
            ),
            (
                json!({"$schema": DRAFT_7, "items": [{"type": "int"}], "additionalItems": false}),
                json!({"$schema": DRAFT_7, "items": [{"type": "integer"}], "additionalItems": false}),
                &["/items/0/type type \"int\" became \"integer\""],
            ),
            (
                json!({"dependencies": {"a": ["b"], "c": {"type": "int"}}}),
                json!({"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"type": "integer"}}}),
                &[
                    "/dependencies \"dependencies\" became \"dependentRequired\" and \"dependentSchemas\"",
                    "/dependencies/c/type type \"int\" became \"integer\"",
                ],
            ),
            (
                json!({"$schema": DRAFT_7, "dependencies": {"a": ["b"], "c": {"type": "int"}}}),
                json!({"$schema": DRAFT_7, "dependencies": {"a": ["b"], "c": {"type": "integer"}}}),
                &["/dependencies/c/type type \"int\" became \"integer\""],
            ),
            (
                json!({"$schema": "https://example.com/own", "title": "t"}),
                json!({"title": "t"}),
                &["/$schema the dialect \"https://example.com/own\" is not known: \"$schema\" was removed"],
            ),
        ],
    );
}

#[test]
fn keywords_that_cannot_be_checked_are_kept_under_a_name_of_their_own() {
    check(
        &Value::Null,
        Normalizer::whole,
        &[
            (json!({"pattern": "^a", "x-own": 1}), json!({"pattern": "^a", "x-own": 1}), &[]),
            (
                json!({"pattern": "(?=a)"}),
                json!({"x-pattern": "(?=a)"}),
                &["/pattern kept as \"x-pattern\", which is not checked: look-around in a pattern is not supported; \
                   test one thing with one pattern, and join them with \"allOf\""],
            ),
            (
                json!({"xml": {}}),
                json!({"x-xml": {}}),
                &["/xml kept as \"x-xml\", which is not checked: \"xml\" is not a keyword of JSON Schema"],
            ),
            (
                json!({"xml": {}, "x-xml": 1}),
                json!({"x-xml": 1}),
                &["/xml \"xml\" was removed, since \"x-xml\" has a value of its own: \"xml\" is not a keyword of JSON Schema"],
            ),
        ],
    );
}

#[test]
fn schemas_of_the_document_become_definitions_each_once() {
    let document = json!({
        "definitions": {"a/b": {"type": "int", "items": {"$ref": "#/definitions/c"}}, "c": true},
        "components": {"schemas": {"c": false}}
    });
    check(
        &document,
        Normalizer::whole,
        &[
            (
                json!({"items": {"$ref": "#/definitions/a~1b", "nullable": true}, "not": {"$ref": "#/definitions/a~1b"}}),
                json!({"items": {"anyOf": [{"$ref": "#/$defs/a~1b"}, {"type": "null"}]}, "not": {"$ref": "#/$defs/a~1b"},
                    "$defs": {"a/b": {"type": "integer", "items": {"$ref": "#/$defs/c"}}, "c": true}}),
                &[
                    "/items/$ref \"#/definitions/a~1b\" became \"#/$defs/a~1b\"",
                    "/items/nullable \"nullable\" became the type null",
                    "/$defs/a~1b/type type \"int\" became \"integer\"",
                    "/$defs/a~1b/items/$ref \"#/definitions/c\" became \"#/$defs/c\"",
                ],
            ),
            // Each definition keeps a name of its own.
            (
                json!({"allOf": [{"$ref": "#/definitions/c"}, {"$ref": "#/components/schemas/c"}, {"$ref": "#/$defs/c"}],
                    "$defs": {"c": {"title": "own"}}}),
                json!({"allOf": [{"$ref": "#/$defs/c_2"}, {"$ref": "#/$defs/c_3"}, {"$ref": "#/$defs/c"}],
                    "$defs": {"c": {"title": "own"}, "c_2": true, "c_3": false}}),
                &[
                    "/allOf/0/$ref \"#/definitions/c\" became \"#/$defs/c_2\"",
                    "/allOf/1/$ref \"#/components/schemas/c\" became \"#/$defs/c_3\"",
                ],
            ),
            (
                json!({"items": {"$ref": "#/definitions/gone", "title": "t"}}),
                json!({"items": {"title": "t"}}),
                &["/items/$ref removed: \"#/definitions/gone\" names no place in this schema"],
            ),
        ],
    );
}

#[test]
fn only_a_value_that_exists_is_removed() {
    for (pointer, left) in [
        ("/a", Some(json!({"b/c": [1, 2]}))),
        ("/b~1c", Some(json!({"a": {}}))),
        ("/b~1c/0", Some(json!({"a": {}, "b/c": [2]}))),
        ("/b~1c/2", None),
        ("/b~1c/x", None),
        ("/a/b", None),
        ("/b~1c/0/x", None),
        ("/gone/a", None),
        ("", None),
    ] {
        let whole = json!({"a": {}, "b/c": [1, 2]});
        let mut value = whole.clone();
        assert_eq!(remove(&mut value, pointer), left.is_some(), "{pointer}");
        assert_eq!(value, left.unwrap_or(whole), "{pointer}");
    }
}
