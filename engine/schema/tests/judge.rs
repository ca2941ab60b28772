//! JSON Schemas that people write: what they demand is enforced, and what is none is refused at its place.

use baton_schema::compile;
use serde_json::{Value, json};

#[test]
fn every_keyword_holds_on_both_sides_of_its_bound() {
    for (schema, right, wrong) in [
        (json!({"minimum": 3}), json!([3, 3.5, 4, "2"]), json!([2, 2.5, -9])),
        (json!({"maximum": 3}), json!([3, 2.5, -4, "4"]), json!([4, 3.5, 1e300])),
        (json!({"exclusiveMinimum": 3}), json!([4, 3.5, "2"]), json!([3, 2, 3.0])),
        (json!({"exclusiveMaximum": 3}), json!([2, 2.5, "4"]), json!([3, 4, 3.0, 1e300])),
        (json!({"minLength": 2}), json!(["ab", "éé", 1]), json!(["", "é"])),
        (json!({"maxLength": 2}), json!(["", "éé", 123]), json!(["abc"])),
        (json!({"minItems": 2}), json!([[1, 2], "a"]), json!([[], [1]])),
        (json!({"maxItems": 2}), json!([[], [1, 2], "abc"]), json!([[1, 2, 3]])),
        (json!({"minProperties": 1}), json!([{"a": 1}, []]), json!([{}])),
        (json!({"maxProperties": 1}), json!([{}, {"a": 1}, [1, 2]]), json!([{"a": 1, "b": 2}])),
        (json!({"uniqueItems": true}), json!([["a", "b"], [1, 2], ["1", 1]]), json!([["a", "a"], [1, 1], [1, 1.0]])),
        (json!({"type": "null"}), json!([null]), json!([0, "", []])),
        (json!({"type": "integer"}), json!([1, -1, 1.0]), json!([1.5, "1", null])),
        (json!({"type": "number"}), json!([1, 1.5]), json!(["1", true])),
        (json!({"type": ["string", "null"]}), json!([null, "a"]), json!([1, []])),
        (json!({"enum": ["a", 1]}), json!(["a", 1]), json!(["b", 2, null])),
        (json!({"oneOf": [{"const": "a"}, {"enum": ["b", "c"]}]}), json!(["a", "c"]), json!(["d", 1])),
        (json!({"additionalProperties": {"type": "string"}}), json!([{"a": "x"}]), json!([{"a": 1}])),
        (
            json!({"properties": {"a": {"type": "string"}}, "additionalProperties": false}),
            json!([{"a": "x"}]),
            json!([{"a": 1}, {"b": "x"}]),
        ),
        (json!({"additionalProperties": false, "properties": {"a": {}}}), json!([{"a": 1}, {}]), json!([{"b": 1}])),
    ] {
        let compiled = compile(&schema).expect("it is a schema");
        for value in right.as_array().expect("a list") {
            assert_eq!(compiled.check(value), Ok(()), "{value} against {schema}");
        }
        for value in wrong.as_array().expect("a list") {
            assert!(compiled.check(value).is_err(), "{value} against {schema}");
        }
    }
}

#[test]
fn what_is_no_schema_is_refused_wherever_it_stands() {
    for (schema, place) in [
        (json!({"$schema": 7}), "/$schema"),
        (json!({"properties": {"a": {"$schema": 7}}}), "/properties/a/$schema"),
        (json!({"properties": {"a": {"$defs": {"b": {"type": "strng"}}}}}), "/properties/a/$defs/b/type"),
        (json!({"type": ["string", "string"]}), "/type"),
        (json!({"required": ["a", "a"]}), "/required"),
    ] {
        let told = compile(&schema).expect_err("it is no schema");
        assert!(told.contains(place), "{schema}: {told}");
    }
}

#[test]
fn a_reference_out_of_the_schema_is_told_at_its_place_wherever_it_stands() {
    for (schema, place) in [
        (json!({"anyOf": [{"type": "null"}, {"$ref": "other.json"}]}), "/anyOf/1/$ref"),
        (json!({"properties": {"a": {"$ref": "https://example.com/a"}}}), "/properties/a/$ref"),
        (json!({"$dynamicRef": "#"}), "/$dynamicRef"),
        (json!({"items": {"$recursiveRef": "#"}}), "/items/$recursiveRef"),
    ] {
        let told = compile(&schema).expect_err("the reference is refused");
        assert!(told.contains("may only name a place in the same schema") && told.contains(place), "{schema}: {told}");
    }
}

#[test]
fn a_reference_that_comes_to_no_end_is_refused_by_whatever_keyword_it_comes_back() {
    for schema in [
        json!({"not": {"$ref": "#"}}),
        json!({"if": {"$ref": "#"}}),
        json!({"then": {"$ref": "#"}, "if": true}),
        json!({"else": {"$ref": "#"}, "if": true}),
        json!({"dependentSchemas": {"a": {"$ref": "#"}}}),
        json!({"oneOf": [{"$ref": "#"}]}),
    ] {
        let told = compile(&schema).expect_err("it has no end");
        assert!(told.contains("leads back to itself"), "{schema}: {told}");
    }
}

#[test]
fn references_may_be_followed_so_far_and_branch_so_often_and_no_further() {
    let chain = |links: usize| {
        let mut definitions: serde_json::Map<String, Value> =
            (0..links).map(|link| (format!("d{link}"), json!({"$ref": format!("#/$defs/d{}", link + 1)}))).collect();
        definitions.insert(format!("d{links}"), json!({"type": "null"}));
        json!({"$defs": definitions})
    };
    assert!(compile(&chain(1_000)).is_ok());
    assert!(compile(&chain(1_001)).is_err());
    // The schema itself, the definition, and its members.
    let branches = |members: usize| json!({"$defs": {"a": {"anyOf": vec![json!(true); members]}}, "$ref": "#/$defs/a"});
    assert!(compile(&branches(9_998)).is_ok());
    assert!(compile(&branches(9_999)).expect_err("too many").contains("branch too often"));
}

#[test]
fn a_value_nested_deeply_in_a_recursive_choice_is_told_in_one_fault() {
    let branch = |closed: bool| json!({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"], "additionalProperties": closed});
    let choice = json!({"anyOf": [{"type": "string"}, branch(true), branch(false)]});
    let schema = compile(&choice).expect("it is a schema");
    let nested = |depth: u32, leaf: Value| (0..depth).fold(leaf, |inner, _| json!({"a": inner}));
    assert!(schema.check(&nested(16, json!("leaf"))).is_ok());
    let faults = schema.check(&nested(16, json!(5))).expect_err("a number is no leaf");
    assert_eq!(faults.len(), 1);
    assert!(faults[0].message.contains("nested too deeply"), "{}", faults[0].message);
    let told = schema.check(&nested(1, json!(5))).expect_err("a number is no leaf");
    assert!(!told[0].message.contains("nested too deeply"), "{}", told[0].message);
}

#[test]
fn faults_are_told_one_by_one_where_no_choice_leads_back_to_itself_and_where_a_value_is_flat() {
    let nested = |depth: u32, leaf: Value| (0..depth).fold(leaf, |inner, _| json!({"a": inner}));
    let listed = |depth: u32| (0..depth).fold(json!(5), |inner, _| json!([inner]));
    let told_nowhere = |schema: &Value, value: &Value| {
        let faults = compile(schema).expect("it is a schema").check(value).expect_err("a number is no leaf");
        faults[0].message.contains("nested too deeply")
    };
    let recursive = json!({"type": ["object", "string"], "properties": {"a": {"$ref": "#"}}});
    let chosen = json!({"properties": {"a": {"properties": {"a": {"properties": {"a": {"properties": {"a": {
        "anyOf": [{"type": "string"}, {"type": "null"}]}}}}}}}}});
    for schema in [&recursive, &chosen] {
        assert!(!told_nowhere(schema, &nested(4, json!(5))), "{schema}");
    }
    let both = json!({"anyOf": [{"type": "string"}, {"type": "object", "properties": {"a": {"$ref": "#"}}}, {"type": "array", "items": {"$ref": "#"}}]});
    assert!(!told_nowhere(&both, &nested(3, json!(5))) && told_nowhere(&both, &nested(4, json!(5))));
    assert!(!told_nowhere(&both, &listed(3)) && told_nowhere(&both, &listed(4)), "lists nest as objects do");
    assert!(told_nowhere(&both, &json!([nested(1, json!("leaf")), nested(3, json!(5))])), "the deepest part counts");
}
