//! Schemas that a dialect cannot express, and their replacements.

use baton_schema::provider::{Strictness, Target, compile};
use serde_json::{Value, json};

use crate::{TARGETS, strict, tool};

fn parameters(target: Target, schema: &Value) -> (String, Value) {
    let compiled = compile(target, &tool(schema)).unwrap_or_else(|fault| panic!("{fault}"));
    (compiled.description, compiled.parameters)
}

/// Returns the place and the reason why `schema` is not enforced. It is sent as it is.
#[track_caller]
fn loose(schema: &Value) -> (String, String) {
    let compiled = compile(Target::OpenAi, &tool(schema)).unwrap_or_else(|fault| panic!("{fault}"));
    let Strictness::Loose(unfit) = compiled.strictness else { panic!("{schema} became {:#}", compiled.parameters) };
    (unfit.pointer, unfit.reason)
}

fn of_properties(properties: Value) -> Value {
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

#[test]
fn optional_properties_become_required_ones_that_may_be_null() {
    let schema = json!({"type": "object", "properties": {
        "path": {"type": "string", "description": "Where", "minLength": 1},
        "kind": {"type": "string", "enum": ["a", "b"], "default": "a"},
        "rows": {"type": "array", "items": {"type": "integer", "minimum": 1}, "uniqueItems": true, "maxItems": 3},
        "note": {"type": ["string", "null"], "default": null},
        "at": {"description": "When", "$ref": "#/$defs/moment"}
    }, "required": ["path"], "$defs": {"moment": {"type": "string", "format": "date-time"}}});
    assert_eq!(
        strict(&schema).parameters,
        json!({"type": "object", "properties": {
            "path": {"type": "string", "description": "Where (at least 1 character)"},
            "kind": {"description": "default: \"a\"", "anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}]},
            "rows": {"description": "no element twice", "anyOf": [
                {"type": "array", "items": {"type": "integer", "minimum": 1}, "maxItems": 3}, {"type": "null"}
            ]},
            "note": {"type": ["string", "null"], "description": "default: null"},
            "at": {"type": ["string", "null"], "description": "When", "format": "date-time"}
        }, "required": ["path", "kind", "rows", "note", "at"], "additionalProperties": false})
    );
}

#[test]
fn recursive_schemas_refer_to_definitions() {
    let node = json!({"type": "object", "properties": {
        "name": {"type": "string"},
        "next": {"$ref": "#/$defs/node", "description": "The one after it"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}
    }, "required": ["name"]});
    let compiled = strict(&json!({"type": "object", "properties": {"root": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}));
    let next = &compiled.parameters["$defs"]["node"]["properties"]["next"];
    let expected = json!({"description": "The one after it", "anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]});
    assert_eq!(*next, expected);
    // The whole input may be in itself.
    let whole = json!({"type": "object", "properties": {"inner": {"$ref": "#"}, "n": {"type": "integer"}}, "required": ["n"]});
    assert_eq!(strict(&whole).parameters["$defs"].as_object().map(serde_json::Map::len), Some(1));
}

#[test]
fn schemas_of_all_of_are_merged() {
    let schema = of_properties(json!({"who": {"allOf": [
        {"$ref": "#/$defs/named"},
        {"type": "object", "properties": {"age": {"type": "number", "minimum": 0}}},
        {"properties": {"age": {"type": "integer", "minimum": 7, "maximum": 99}}, "required": ["age"]}
    ], "description": "Somebody"}}));
    let mut whole = schema.clone();
    whole["$defs"] = json!({"named": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}});
    let who = &strict(&whole).parameters["properties"]["who"];
    assert_eq!(who["description"], "Somebody");
    assert_eq!(
        who["anyOf"][0]["properties"],
        json!({"name": {"type": "string"}, "age": {"type": "integer", "minimum": 7, "maximum": 99}})
    );
    // Keywords beside a choice hold for all its members.
    let chosen = of_properties(json!({"who": {
        "type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "additionalProperties": false,
        "anyOf": [{"required": ["a"], "properties": {"b": false}}, {"required": ["b"]}]
    }}));
    assert_eq!(loose(&chosen).1, "no value meets false");
    let distinct = of_properties(json!({"who": {
        "properties": {"kind": {"type": "string"}, "n": {"type": "integer"}}, "type": "object", "required": ["kind"],
        "oneOf": [{"properties": {"kind": {"const": "x"}}}, {"properties": {"kind": {"const": "y"}}, "required": ["n"]}]
    }}));
    let members = strict(&distinct).parameters["properties"]["who"]["anyOf"].clone();
    assert_eq!(members[1]["properties"], json!({"kind": {"type": "string", "enum": ["y"]}, "n": {"type": "integer"}}));
}

#[test]
fn alternatives_begin_with_keys_that_tell_them_apart() {
    let form = |words: &[&str], own: &str| {
        json!({"type": "object", "properties": {"id": {"type": "string"}, own: {"type": "string"}, "kind": {"enum": words}},
            "required": ["id", "kind"]})
    };
    let schema = of_properties(json!({"event": {"oneOf": [form(&["made"], "by"), form(&["gone"], "why")]}}));
    let compiled = strict(&schema);
    let firsts = |index: usize| {
        let member = &compiled.parameters["properties"]["event"]["anyOf"][index];
        (member["properties"].as_object().and_then(|named| named.keys().next()).cloned(), member["required"][0].clone())
    };
    assert_eq!([firsts(0), firsts(1)], [0, 1].map(|_| (Some("kind".to_owned()), json!("kind"))));
    // Without such a word: a key that the other does not have.
    let schema = of_properties(json!({"event": {"anyOf": [form(&["made"], "by"), form(&["made"], "why")]}}));
    let compiled = strict(&schema);
    let members = &compiled.parameters["properties"]["event"]["anyOf"];
    assert_eq!((&members[0]["required"][0], &members[1]["required"][0]), (&json!("by"), &json!("why")));
    // No order helps.
    let same = json!({"type": "object", "properties": {"id": {"type": "string"}}});
    let wide = json!({"type": "object", "properties": {"id": {"type": "integer"}}});
    assert!(loose(&of_properties(json!({"event": {"anyOf": [same, wide]}}))).1.contains("first key"));
}

#[test]
fn what_the_strict_subset_cannot_say_is_sent_as_it_is_and_says_where() {
    for (property, pointer) in [
        (json!({}), ""),
        (json!(true), ""),
        (json!({"type": "object"}), ""),
        (
            json!({"type": "object", "additionalProperties": true, "properties": {"a": {"type": "string"}}}),
            "/additionalProperties",
        ),
        (json!({"type": "object", "additionalProperties": {"type": "string"}}), "/additionalProperties"),
        (json!({"type": "object", "patternProperties": {"^a": {"type": "string"}}}), "/patternProperties"),
        (json!({"type": "array"}), ""),
        (json!({"type": "array", "items": {}}), "/items"),
        (json!({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "string"}}), "/prefixItems"),
        (json!({"type": "string", "not": {"enum": ["a"]}}), "/not"),
        (json!({"type": "object", "properties": {"a": {"type": "string"}}, "if": {"required": ["a"]}, "then": {}}), "/if"),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "dependentRequired": {"a": ["b"]}}),
            "/dependentRequired",
        ),
        (json!({"allOf": [{"type": "string", "pattern": "^a"}, {"pattern": "b$"}]}), "/allOf/1"),
        (json!({"enum": [{"a": 1}]}), "/enum"),
        (json!({"type": "string", "enum": [1]}), ""),
        (json!({"oneOf": [{"type": ["string", "null"]}, {"type": ["integer", "null"]}]}), "/oneOf"),
    ] {
        let schema = of_properties(json!({"it": property}));
        assert_eq!(loose(&schema).0, format!("/properties/it{pointer}"), "{schema}");
        let (_, sent) = parameters(Target::OpenAi, &schema);
        let is_list = property["type"] == "array" && property.get("items").is_none();
        let expected = if is_list { of_properties(json!({"it": {"type": "array", "items": {}}})) } else { schema };
        assert_eq!(sent, expected);
    }
    let deep = (0..12).fold(json!({"type": "string"}), |inner, _| of_properties(json!({"in": inner})));
    assert!(loose(&deep).1.contains("levels of objects"), "{:?}", loose(&deep));
    let words: Vec<String> = (0..1_001).map(|number| format!("w{number}")).collect();
    assert!(loose(&of_properties(json!({"it": {"enum": words}}))).1.contains("listed values"));
}

#[test]
fn no_provider_is_sent_alternatives_at_the_root() {
    let schema = json!({
        "type": "object", "properties": {"a": {"type": "string"}},
        "anyOf": [{"required": ["a"]}, {"properties": {"b": {"type": "integer"}}, "required": ["b"]}]
    });
    for target in TARGETS {
        let (description, sent) = parameters(target, &schema);
        if target == Target::Mcp {
            assert_eq!((description.as_str(), &sent), ("Probes.", &schema));
            continue;
        }
        assert!(sent.get("anyOf").is_none() && sent["properties"].get("b").is_some(), "{target}: {sent:#}");
        assert!(
            description.starts_with("Probes. (must also meet {\"anyOf\": [{\"required\":[\"a\"]}"),
            "{target}: {description}"
        );
    }
}

#[test]
fn what_a_provider_would_turn_down_names_tool_and_place() {
    let schema = of_properties(json!({"ok": of_properties(json!({"größe": {"type": "integer"}}))}));
    let fault = compile(Target::Anthropic, &tool(&schema)).expect_err("Anthropic takes no such key").to_string();
    assert!(fault.starts_with("tool probe cannot be offered to anthropic: a key may only have letters"), "{fault}");
    assert!(fault.contains("/properties/ok/properties/größe"), "{fault}");
    for target in [Target::OpenAi, Target::Compatible, Target::Ollama, Target::Mcp] {
        assert!(compile(target, &tool(&schema)).is_ok(), "{target}");
    }
    // A value is no schema.
    let valued = of_properties(json!({"ok": {"type": "object", "default": {"properties": {"größe": 1}}}}));
    assert!(compile(Target::Anthropic, &tool(&valued)).is_ok());
    for target in TARGETS {
        let fault = compile(target, &tool(&json!({"type": "string"}))).expect_err("an input is an object").to_string();
        assert!(fault.contains("/type"), "{fault}");
    }
}

#[test]
fn rules_that_ollama_drops_become_text() {
    let schema = json!({"type": "object", "properties": {
        "path": {"$ref": "#/$defs/path", "description": "Where"},
        "kind": {"oneOf": [{"const": "a"}, {"type": "integer", "minimum": 3}]},
        "tree": {"$ref": "#/$defs/tree"},
        "any": true
    }, "required": ["path"], "additionalProperties": false, "minProperties": 2, "$defs": {
        "path": {"type": "string", "minLength": 1, "description": "A path"},
        "tree": {"type": "object", "required": ["n"], "properties": {
            "n": {"type": "integer", "default": 1}, "in": {"type": "array", "items": {"$ref": "#/$defs/tree"}}
        }}
    }});
    let (description, sent) = parameters(Target::Ollama, &schema);
    assert_eq!(description, "Probes. (at least 2 keys)");
    assert_eq!(
        sent,
        json!({"type": "object", "properties": {
            "path": {"type": "string", "description": "Where (at least 1 character)"},
            "kind": {"anyOf": [{"enum": ["a"]}, {"type": "integer", "description": "at least 3"}]},
            "tree": {"type": "object", "properties": {
                "n": {"type": "integer", "description": "default: 1"}, "in": {"type": "array", "items": {"type": "object"}}
            }, "description": "required: n"},
            "any": {}
        }, "required": ["path"]})
    );
}
