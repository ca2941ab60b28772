//! Nulls that are removed when an input is restored, and nulls that stay.

use baton_types::json::Json;
use serde_json::{Value, json};

use crate::{strict, validator};

#[track_caller]
fn back(schema: &Value, input: &str) -> String {
    strict(schema).restored(&Json::parse(input).expect("the input is JSON")).text().to_owned()
}

#[test]
fn only_nulls_that_stand_for_what_is_left_out_are_taken_out_and_all_other_bytes_stay() {
    let schema = json!({"type": "object", "properties": {
        "must": {"type": ["string", "null"]},
        "may": {"type": ["string", "null"], "default": null},
        "left": {"type": "string"},
        "number": {"type": "number"},
        "list": {"type": "array", "items": {"type": ["integer", "null"]}},
        "rows": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}, "z": {"type": "null", "default": null}}}}
    }, "required": ["must"]});
    let input = r#"{"number": 12345678901234567890123.50,"must":null, "may":null,"left" : null,"list":[ null,1e2],
        "rows":[{"n":1,"z":null},{"z":null,"n":null}]}"#;
    assert_eq!(
        back(&schema, input),
        r#"{"number":12345678901234567890123.50,"must":null,"may":null,"list":[ null,1e2],"rows":[{"n":1,"z":null},{"z":null}]}"#
    );
    // Nothing to take out: not a byte is touched.
    let whole = r#"{ "must" : null , "left":"x" }"#;
    assert_eq!(back(&schema, whole), whole);
}

#[test]
fn what_does_not_fit_comes_back_as_it_came() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}},
        "c": {"anyOf": [{"type": "object", "properties": {"d": {"type": "string"}}}, {"type": "object", "properties": {"e": {"type": "string"}}}]}}});
    for input in [r#"{"a":[null],"x":null}"#, r#"{"a":7}"#, r#"{"c":{"d":null,"e":null}}"#, "null", "[null]", r#""a""#] {
        assert_eq!(back(&schema, input), input);
    }
}

#[test]
fn the_form_of_an_alternative_follows_from_everything_in_it() {
    let deep = |word: &str, inner: Value| json!({"type": "array", "items": {"type": "object", "properties": {"kind": {"const": word}, "v": inner}, "required": ["kind"]}});
    let schema = json!({"type": "object", "properties": {
        "it": {"anyOf": [deep("text", json!({"type": "string"})), deep("null", json!({"type": ["string", "null"], "default": null}))]}
    }});
    assert_eq!(back(&schema, r#"{"it":[{"kind":"text","v":null}]}"#), r#"{"it":[{"kind":"text"}]}"#);
    assert_eq!(back(&schema, r#"{"it":[{"kind":"null","v":null}]}"#), r#"{"it":[{"kind":"null","v":null}]}"#);
}

/// Returns a tree whose every node has one of two forms, which differ only further down.
fn tree() -> Value {
    let node = |word: &str| {
        json!({"type": "object", "properties": {
            "left": {"$ref": "#/$defs/tree"}, "right": {"$ref": "#/$defs/tree"}, "kind": {"const": word}
        }, "required": ["kind"]})
    };
    json!({"type": "object", "properties": {"tree": {"$ref": "#/$defs/tree"}},
        "$defs": {"tree": {"anyOf": [node("a"), node("b")]}}})
}

#[test]
fn choices_within_choices_are_not_tried_again_and_again() {
    let compiled = strict(&tree());
    // Sixty levels, each with a choice that shows its form last: trying both at each would take 2^60 steps.
    let mut value = json!({"left": null, "right": null, "kind": "b"});
    let mut own = json!({"kind": "b"});
    for level in 0..60 {
        let kind = if level % 2 == 0 { "a" } else { "b" };
        value = json!({"left": value, "right": null, "kind": kind});
        own = json!({"left": own, "kind": kind});
    }
    let input = json!({"tree": value});
    assert!(validator(&compiled.parameters).is_valid(&json!({"tree": {"left": null, "right": null, "kind": "a"}})));
    assert_eq!(compiled.restored(&Json::from(&input)).value(), json!({"tree": own}));
}

#[test]
fn a_wide_input_takes_steps_in_proportion() {
    let schema = json!({"type": "object", "properties": {"rows": {"type": "array", "items": {"anyOf": [
        {"type": "object", "properties": {"kind": {"const": "a"}, "n": {"type": "integer"}}, "required": ["kind"]},
        {"type": "object", "properties": {"kind": {"const": "b"}, "n": {"type": "integer"}}, "required": ["kind"]}
    ]}}}});
    let compiled = strict(&schema);
    let rows: Vec<Value> = (0..20_000).map(|row| json!({"kind": if row % 2 == 0 { "a" } else { "b" }, "n": null})).collect();
    let back = compiled.restored(&Json::from(&json!({"rows": rows}))).value();
    assert!(back["rows"].as_array().is_some_and(|rows| rows.len() == 20_000 && rows.iter().all(|row| row.get("n").is_none())));
}
