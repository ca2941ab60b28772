//! Keywords of JSON Schema one by one: the values that each accepts and refuses, and the faults of a keyword that is no keyword.

use baton_schema::{Program, compile, read};
use serde_json::{Value, json};

const DRAFT_7: &str = "http://json-schema.org/draft-07/schema#";

/// Checks that `schema` accepts each value of the list `right` and refuses each value of the list `wrong`. The verdict and
/// the report of faults must agree.
#[track_caller]
fn check(schema: &Value, right: &Value, wrong: &Value) {
    let compiled = compile(schema).unwrap_or_else(|error| panic!("{schema}: {error}"));
    let program = Program::read(schema).expect("it was compiled");
    for value in right.as_array().expect("a list") {
        assert_eq!(compiled.check(value), Ok(()), "{value} against {schema}");
        assert!(program.accepts(value), "{value} against {schema}");
    }
    for value in wrong.as_array().expect("a list") {
        assert!(compiled.check(value).is_err(), "{value} against {schema}");
        assert!(!program.accepts(value), "{value} against {schema}");
    }
}

#[test]
fn keywords_of_one_value_accept_and_refuse() {
    for (schema, right, wrong) in [
        (json!({"multipleOf": 2}), json!([4, 0, -6, 2.0, "3", [3]]), json!([3, 0.5, -1])),
        (json!({"multipleOf": 0.01}), json!([0.07, 1, 19.99]), json!([0.075])),
        (json!({"multipleOf": 10}), json!([0, 1e2]), json!([5, 15, 0.1])),
        (json!({"const": [1, 2]}), json!([[1, 2], [1.0, 2]]), json!([[1, 3], [2, 2], [1], [1, 2, 3], []])),
        (json!({"const": {"a": 1}}), json!([{"a": 1.0}]), json!([{"a": 2}, {"b": 1}, {"a": 1, "b": 1}, {}])),
        (json!({"uniqueItems": false}), json!([[1, 1]]), json!([])),
        (json!({"pattern": "^a"}), json!(["ab", 1, {"b": 1}]), json!(["ba", ""])),
        (json!({"contains": {"const": 1}}), json!([[1], [2, 1], {}]), json!([[], [2]])),
        (
            json!({"contains": {"const": 1}, "minContains": 2, "maxContains": 3}),
            json!([[1, 1], [1, 2, 1, 1]]),
            json!([[1], [1, 1, 1, 1]]),
        ),
    ] {
        check(&schema, &right, &wrong);
    }
}

#[test]
fn keywords_that_depend_on_a_key_apply_only_with_that_key() {
    for (schema, right, wrong) in [
        (
            json!({"dependentRequired": {"a": ["b"]}}),
            json!([{}, {"b": 1}, {"a": 1, "b": 1}, []]),
            json!([{"a": 1}, {"a": 1, "c": 1}]),
        ),
        (
            json!({"dependentSchemas": {"a": {"required": ["b"]}, "c": false}}),
            json!([{}, {"b": 1}, {"a": 1, "b": 1}, []]),
            json!([{"a": 1}, {"c": 1}, {"a": 1, "b": 1, "c": 1}]),
        ),
        (
            json!({"$schema": DRAFT_7, "dependencies": {"a": ["b"], "c": {"required": ["d"]}}}),
            json!([{}, {"b": 1}, {"a": 1, "b": 1}, {"d": 1}, {"c": 1, "d": 1}]),
            json!([{"a": 1}, {"c": 1}]),
        ),
    ] {
        check(&schema, &right, &wrong);
    }
}

#[test]
fn unevaluated_properties_and_elements_are_those_that_no_rule_in_place_judges() {
    for (schema, right, wrong) in [
        (
            json!({"allOf": [{"properties": {"a": true}}], "unevaluatedProperties": false}),
            json!([{}, {"a": 1}, 1]),
            json!([{"b": 1}, {"a": 1, "b": 1}]),
        ),
        (json!({"allOf": [{"unevaluatedProperties": true}], "unevaluatedProperties": false}), json!([{"a": 1}]), json!([])),
        (
            json!({"allOf": [{"unevaluatedItems": {"type": "integer"}}], "unevaluatedItems": false}),
            json!([[], [1, 2]]),
            json!([["a"], [1, "a"]]),
        ),
        (
            json!({"dependentSchemas": {"a": {"properties": {"b": true}}}, "properties": {"a": true}, "unevaluatedProperties": false}),
            json!([{"a": 1, "b": 1}, {"a": 1}]),
            json!([{"b": 1}, {"a": 1, "c": 1}]),
        ),
        (
            json!({"if": {"properties": {"kind": {"const": "a"}}, "required": ["kind"]}, "then": {"properties": {"x": true}},
                "else": {"properties": {"y": true}}, "unevaluatedProperties": false}),
            json!([{}, {"kind": "a"}, {"kind": "a", "x": 1}, {"y": 1}]),
            json!([{"kind": "a", "y": 1}, {"x": 1}, {"kind": "b"}]),
        ),
        (
            json!({"$defs": {"named": {"$dynamicAnchor": "named", "properties": {"a": true}}}, "$dynamicRef": "#named",
                "unevaluatedProperties": false}),
            json!([{"a": 1}]),
            json!([{"b": 1}]),
        ),
    ] {
        check(&schema, &right, &wrong);
    }
}

#[test]
fn references_lead_to_every_place_of_the_schema() {
    for (schema, right, wrong) in [
        // A place that no keyword describes as a schema.
        (json!({"items": {"$ref": "#/x-types/id"}, "x-types": {"id": {"type": "integer"}}}), json!([[1]]), json!([["a"]])),
        (json!({"items": {"$ref": "#/examples/0"}, "examples": [{"maximum": 3}]}), json!([[3]]), json!([[4]])),
        // One definition for several names of keys, which are texts of their own.
        (
            json!({"$defs": {"short": {"maxLength": 1}}, "propertyNames": {"$ref": "#/$defs/short"}}),
            json!([{}, {"a": 1, "b": 2}]),
            json!([{"a": 1, "bb": 2}, {"aa": 1, "b": 2}]),
        ),
        (
            json!({"$defs": {"id": {"$dynamicAnchor": "id", "type": "integer"}}, "properties": {"a": {"$dynamicRef": "#id"}}}),
            json!([{"a": 1}]),
            json!([{"a": "1"}, {"a": {"a": 1}}]),
        ),
        // Two dynamic anchors, of which one is used twice. The outer schema replaces both.
        (
            json!({"$id": "https://example.com/outer", "$ref": "base", "$defs": {
                "one": {"$dynamicAnchor": "one", "type": "integer"}, "two": {"$dynamicAnchor": "two", "type": "string"},
                "base": {"$id": "base", "$defs": {"one": {"$dynamicAnchor": "one"}, "two": {"$dynamicAnchor": "two"}}, "properties": {
                    "one": {"$dynamicRef": "#one"}, "two": {"$dynamicRef": "#two"}, "again": {"$dynamicRef": "#two"}}}
            }}),
            json!([{"one": 1, "two": "a", "again": "b"}]),
            json!([{"one": "a"}, {"two": 1}, {"again": 1}]),
        ),
    ] {
        check(&schema, &right, &wrong);
    }
}

#[test]
fn keywords_of_later_drafts_have_no_effect_in_draft_7() {
    for (schema, value) in [
        (json!({"dependentRequired": {"a": ["b"]}}), json!({"a": 1})),
        (json!({"dependentRequired": 1}), json!({})),
        (json!({"dependentSchemas": {"a": false}}), json!({"a": 1})),
        (json!({"unevaluatedProperties": false}), json!({"a": 1})),
        (json!({"unevaluatedItems": false}), json!([1])),
        (json!({"contains": true, "minContains": 2}), json!([1])),
        (json!({"contentSchema": {"type": "strng"}}), json!("a")),
        (json!({"$dynamicRef": "other.json"}), json!(1)),
    ] {
        let is_accepted = |schema: &Value| compile(schema).is_ok_and(|compiled| compiled.check(&value).is_ok());
        assert!(!is_accepted(&schema), "{value} against {schema}");
        let mut declared = schema.clone();
        declared["$schema"] = json!(DRAFT_7);
        assert!(is_accepted(&declared), "{value} against {declared}");
    }
}

#[test]
fn every_fault_of_a_keyword_is_reported_once_at_its_place() {
    let strng = "`strng` is not a JSON type; did you mean `string`?";
    let at = |place: &str| format!("{place} {strng}");
    let plain = |faults: &[&str]| faults.iter().map(|fault| (*fault).to_owned()).collect::<Vec<_>>();
    for (schema, expected) in [
        (json!({"uniqueItems": false, "deprecated": true, "readOnly": false, "writeOnly": true}), vec![]),
        (json!({"examples": [], "multipleOf": 0.1, "title": "t", "exclusiveMinimum": 1}), vec![]),
        (json!({"pattern": 7}), plain(&["/pattern \"pattern\" is a text"])),
        (json!({"multipleOf": 0}), plain(&["/multipleOf \"multipleOf\" is a number of more than 0"])),
        (json!({"multipleOf": -1}), plain(&["/multipleOf \"multipleOf\" is a number of more than 0"])),
        (json!({"multipleOf": "2"}), plain(&["/multipleOf \"multipleOf\" is a number of more than 0"])),
        (
            json!({"uniqueItems": 1, "deprecated": "yes", "readOnly": null, "writeOnly": []}),
            plain(&[
                "/uniqueItems \"uniqueItems\" is true or false",
                "/deprecated \"deprecated\" is true or false",
                "/readOnly \"readOnly\" is true or false",
                "/writeOnly \"writeOnly\" is true or false",
            ]),
        ),
        (json!({"dependentRequired": []}), plain(&["/dependentRequired \"dependentRequired\" has a list of keys for each key"])),
        (json!({"dependentRequired": {"a": "b"}}), plain(&["/dependentRequired/a \"a\" is a list of keys"])),
        (json!({"examples": 1}), plain(&["/examples \"examples\" is a list of values"])),
        (json!({"title": 1, "format": []}), plain(&["/title \"title\" is a text", "/format \"format\" is a text"])),
        (json!({"prefixItems": []}), plain(&["/prefixItems \"prefixItems\" is a list of at least one schema"])),
        (json!({"prefixItems": {}}), plain(&["/prefixItems \"prefixItems\" is a list of at least one schema"])),
        (
            json!({"exclusiveMinimum": true, "exclusiveMaximum": false, "minimum": true, "maximum": false}),
            plain(&[
                "/exclusiveMinimum \"exclusiveMinimum\" is the bound itself, a number; true and false are of draft 4",
                "/exclusiveMaximum \"exclusiveMaximum\" is the bound itself, a number; true and false are of draft 4",
                "/minimum \"minimum\" is a number",
                "/maximum \"maximum\" is a number",
            ]),
        ),
        (json!({"exclusiveMinimum": "1"}), plain(&["/exclusiveMinimum \"exclusiveMinimum\" is a number"])),
        (json!({"properties": {"a": "strng"}}), plain(&["/properties/a a schema is an object, true or false"])),
        (json!({"then": {"type": "strng"}}), vec![at("/then/type")]),
        (json!({"else": {"type": "strng"}}), vec![at("/else/type")]),
        (
            json!({"if": {"type": "strng"}, "then": {"type": "strng"}, "else": {"type": "strng"}}),
            vec![at("/if/type"), at("/then/type"), at("/else/type")],
        ),
        (json!({"contentSchema": {"type": "strng"}}), vec![at("/contentSchema/type")]),
        (json!({"$ref": "#/x-types/id", "x-types": {"id": {"type": "strng"}}}), vec![at("/x-types/id/type")]),
    ] {
        let faults = read(&schema).err().unwrap_or_default();
        let found: Vec<String> = faults.into_iter().map(|fault| format!("{} {}", fault.pointer, fault.message)).collect();
        assert_eq!(found, expected, "{schema}");
    }
}
