//! JSON Schemas that people write: what they demand is enforced, and what is none is refused at its place.

use baton_schema::{compile, read};
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
        // The text `-0` is the negative zero, which is 0.
        (json!({"minimum": 0.0}), json!([-0.0, 0, 0.0]), json!([-0.5])),
        (json!({"maximum": -0.0}), json!([0.0, 0, -0.0]), json!([0.5])),
        (json!({"enum": [0.0]}), json!([-0.0, 0, 0.0]), json!([0.5])),
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
fn an_invalid_schema_is_refused_at_any_place() {
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
        (json!({"$dynamicRef": "other.json#node"}), "/$dynamicRef"),
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
        json!({"$dynamicAnchor": "a", "$dynamicRef": "#a"}),
        // The dynamic anchor of the outermost resource is the whole schema.
        json!({"$id": "https://example.com/root", "$dynamicAnchor": "node", "$ref": "part", "$defs": {"part": {"$id": "part",
            "$dynamicRef": "#node", "$defs": {"node": {"$dynamicAnchor": "node", "type": "object"}}}}}),
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

/// Returns the schema of expressions: an operation on two expressions, its negation, or a number.
fn expressions() -> Value {
    json!({"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [
        {"type": "object", "properties": {"op": {"const": "and"}, "left": {"$ref": "#/$defs/n"}, "right": {"$ref": "#/$defs/n"}},
            "required": ["op", "left", "right"], "additionalProperties": false},
        {"type": "object", "properties": {"op": {"const": "not"}, "left": {"$ref": "#/$defs/n"}}, "required": ["op", "left"],
            "additionalProperties": false},
        {"type": "number"}
    ]}}})
}

fn nots(depth: usize, leaf: Value) -> Value {
    (0..depth).fold(leaf, |inner, _| json!({"op": "not", "left": inner}))
}

#[test]
fn a_value_of_a_recursive_choice_is_judged_in_steps_in_proportion_to_its_depth() {
    // Without a memory of verdicts each level doubles the steps: these values would take 2^120.
    let untagged = json!({"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [
        {"type": "object", "properties": {"left": {"$ref": "#/$defs/n"}, "right": {"$ref": "#/$defs/n"}}, "required": ["left", "right"]},
        {"type": "object", "properties": {"left": {"$ref": "#/$defs/n"}}, "required": ["left"]},
        {"type": "number"}
    ]}}});
    let excluding = json!({"$ref": "#/$defs/n", "$defs": {"n": {"oneOf": [
        {"type": "object", "properties": {"left": {"$ref": "#/$defs/n"}}, "required": ["left"], "not": {"required": ["op"], "properties": {"left": {"$ref": "#/$defs/n"}}}},
        {"type": "object", "properties": {"left": {"$ref": "#/$defs/n"}, "op": true}, "required": ["left", "op"]},
        {"type": "number"}
    ]}}});
    for schema in [expressions(), untagged, excluding] {
        let schema = compile(&schema).expect("it is a schema");
        assert_eq!(schema.check(&nots(120, json!(1))), Ok(()));
        let faults = schema.check(&nots(120, json!("x"))).expect_err("a text is no number");
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!(faults[0].pointer, "/left".repeat(120), "the fault is at the leaf");
        assert!(faults[0].message.starts_with("\"x\" is not "), "{}", faults[0].message);
    }
}

#[test]
fn the_faults_of_a_choice_are_those_of_the_nearest_form() {
    let schema = compile(&expressions()).expect("it is a schema");
    let told = |value: Value| -> Vec<String> {
        let faults = schema.check(&value).expect_err("it is no expression");
        faults.into_iter().map(|fault| format!("{} {}", fault.pointer, fault.message)).collect()
    };
    assert_eq!(told(json!({"op": "and", "left": 1})), [" key \"right\" is missing"]);
    assert_eq!(told(json!({"op": "not", "left": 1, "right": 2})), [" unknown key \"right\"; the keys are op, left"]);
    assert_eq!(
        told(json!({"op": "not", "left": {"op": "and", "left": "1", "right": 2}})),
        ["/left/left \"1\" is not a number or an object"]
    );
    assert_eq!(told(json!([])), [" [] is not a number or an object"]);
}

#[test]
fn a_value_that_takes_too_many_steps_is_reported_and_not_judged() {
    let members: Vec<Value> =
        (0..3_000).rev().map(|least| json!({"properties": {"a": {"minimum": least}}, "required": ["a"]})).collect();
    let schema = compile(&json!({"items": {"anyOf": members}})).expect("it is a schema");
    assert_eq!(schema.check(&json!(vec![json!({"a": 0}); 50])), Ok(()));
    let faults = schema.check(&json!(vec![json!({"a": 0}); 5_000])).expect_err("it has too many values");
    assert!(faults[0].message.contains("too costly"), "{faults:?}");
}

#[test]
fn a_value_that_is_nested_too_deeply_for_its_schema_is_reported_and_ends_no_thread() {
    // Every level of the value is judged through 450 schemas within one another.
    let mut definitions: serde_json::Map<String, Value> =
        (0..450).map(|link| (format!("d{link}"), json!({"allOf": [{"$ref": format!("#/$defs/d{}", link + 1)}]}))).collect();
    definitions.insert("d450".to_owned(), json!({"items": {"$ref": "#/$defs/d0"}}));
    let schema = compile(&json!({"$defs": definitions, "$ref": "#/$defs/d0"})).expect("it is a schema");
    assert_eq!(schema.check(&json!([1])), Ok(()));
    let nested = (0..120).fold(json!(1), |inner, _| json!([inner]));
    let faults = schema.check(&nested).expect_err("it is too deep");
    assert!(faults[0].message.contains("nested too deeply"), "{faults:?}");
}

#[test]
fn a_valid_value_is_never_a_fault_at_the_limit_of_depth() {
    let inner = json!({"allOf": [{"allOf": [{"properties": {"next": {"$ref": "#/$defs/n"}}}]}], "unevaluatedProperties": false});
    let schema = compile(&json!({"$defs": {"n": inner}, "$ref": "#/$defs/n"})).expect("it is a schema");
    let mut value = json!({});
    let mut too_deep = 0;
    for depth in 0..700 {
        if let Err(faults) = schema.check(&value) {
            assert!(faults[0].message.contains("nested too deeply"), "depth {depth}: {faults:?}");
            too_deep += 1;
        }
        value = json!({"next": value});
    }
    assert!(too_deep > 0 && too_deep < 700, "{too_deep}");
}

#[test]
fn a_value_may_take_the_steps_that_its_size_allows_and_no_more() {
    // A value may take 1,000,000 steps, and 256 for each value in it. Here it is a list of objects of one property: for each
    // element the schema takes a step, and one for each of its members.
    let schema = compile(&json!({"items": {"allOf": vec![json!(true); 606]}})).expect("it is a schema");
    let list = |length: usize| json!(vec![json!({"a": 0}); length]);
    assert_eq!(1 + 10_529 * 607, 1_000_000 + 256 * (1 + 10_529 * 2));
    assert_eq!(schema.check(&list(10_529)), Ok(()));
    let faults = schema.check(&list(10_530)).expect_err("it has one element more");
    assert!(faults[0].message.contains("too costly"), "{faults:?}");
}

#[test]
fn a_chain_of_references_has_a_limit_in_any_order_of_the_definitions() {
    let chain = |links: usize, is_forward: bool| {
        let mut links: Vec<(String, Value)> =
            (1..links).map(|link| (format!("d{link}"), json!({"$ref": format!("#/$defs/d{}", link - 1)}))).collect();
        links.insert(0, ("d0".to_owned(), json!({"type": "null"})));
        let last = links.last().map(|(name, _)| format!("#/$defs/{name}"));
        if is_forward {
            links.reverse();
        }
        compile(&json!({"$defs": serde_json::Map::from_iter(links), "items": {"$ref": last}}))
    };
    for is_forward in [false, true] {
        // The first reference is that of the element's subschema.
        let longest = chain(1_000, is_forward).expect("the chain has the length that is allowed");
        assert_eq!(longest.check(&json!([null])), Ok(()));
        assert_eq!(longest.check(&json!([1])).expect_err("it is not null")[0].pointer, "/0");
        let error = chain(1_001, is_forward).expect_err("the chain is too long");
        assert!(error.contains("the chain of references is too long"), "{error}");
    }
}

#[test]
fn the_length_of_a_list_adds_nothing_to_its_depth() {
    let inner = json!({"allOf": [{"properties": {"a": true}}], "unevaluatedProperties": false});
    let schema = compile(&json!({"items": inner})).expect("it is a schema");
    assert_eq!(schema.check(&json!(vec![json!({"a": 0}); 2_000])), Ok(()));
}

#[test]
fn references_by_id_anchor_and_dynamic_anchor_lead_to_their_places() {
    for (schema, right, wrong) in [
        (json!({"$defs": {"a": {"$anchor": "whole", "type": "integer"}}, "items": {"$ref": "#whole"}}), json!([1]), json!(["1"])),
        (
            json!({"$id": "https://example.com/root", "$defs": {"a": {"$id": "part", "$defs": {"b": {"type": "integer"}}}},
                "items": {"$ref": "part#/$defs/b"}}),
            json!([1]),
            json!(["1"]),
        ),
        (
            // A tree that accepts unknown keys, and a schema that refuses them at every level.
            json!({"$id": "https://example.com/strict", "$dynamicAnchor": "node", "$ref": "tree", "unevaluatedProperties": false,
                "$defs": {"tree": {"$id": "tree", "$dynamicAnchor": "node", "type": "object", "properties": {
                    "data": true, "children": {"type": "array", "items": {"$dynamicRef": "#node"}}}}}}),
            json!({"children": [{"data": 1}]}),
            json!({"children": [{"daat": 1}]}),
        ),
        (
            // A dynamic reference to an anchor that is not dynamic is a plain reference.
            json!({"$id": "https://example.com/root", "$ref": "list", "$defs": {"any": {"$dynamicAnchor": "item"}, "list": {
                "$id": "list", "items": {"$dynamicRef": "#item"}, "$defs": {"item": {"$anchor": "item", "type": "integer"}}}}}),
            json!([1]),
            json!(["1"]),
        ),
        (
            // Two dynamic anchors have nothing to do with each other.
            json!({"$dynamicAnchor": "tree", "$dynamicRef": "#list", "items": {"$dynamicRef": "#tree"},
                "$defs": {"list": {"$dynamicAnchor": "list", "type": "array"}}}),
            json!([[], [[]]]),
            json!([[], [1]]),
        ),
        (
            // An address beside a reference counts.
            json!({"$id": "https://example.com/root", "$ref": "#/$defs/list", "$defs": {"number": {"type": "integer"},
                "list": {"items": {"$ref": "https://example.com/root#/$defs/number"}}}}),
            json!([1]),
            json!(["1"]),
        ),
        (json!({"$ref": "#/x-parts/a", "x-parts": {"a": {"items": {"type": "integer"}}}}), json!([1]), json!(["1"])),
        (
            // A schema at a place of the author's own belongs to the resource around it.
            json!({"$id": "https://example.com/root", "$ref": "part#/x-parts/a", "$defs": {"part": {"$id": "part",
                "x-parts": {"a": {"items": {"$ref": "#/$defs/b"}}}, "$defs": {"b": {"type": "integer"}}}}}),
            json!([1]),
            json!(["1"]),
        ),
    ] {
        let compiled = compile(&schema).expect("it is a schema");
        assert_eq!(compiled.check(&right), Ok(()), "{schema}");
        assert!(compiled.check(&wrong).is_err(), "{schema}");
    }
}

#[test]
fn a_schema_that_declares_draft_7_is_read_as_draft_7() {
    let address = "http://json-schema.org/draft-07/schema#";
    for (schema, right, wrong) in [
        (
            json!({"items": [{"type": "integer"}, {"type": "string"}], "additionalItems": false}),
            json!([1, "a"]),
            json!([1, "a", 2]),
        ),
        (json!({"dependencies": {"a": ["b"]}}), json!({"a": 1, "b": 2}), json!({"a": 1})),
        (json!({"dependencies": {"a": {"required": ["c"]}}}), json!({"a": 1, "c": 2}), json!({"a": 1})),
        // The keywords beside a reference do not count.
        (
            json!({"properties": {"a": {"$ref": "#/definitions/t", "maxLength": 1}}, "definitions": {"t": {"type": "string"}}}),
            json!({"a": "long"}),
            json!({"a": 1}),
        ),
        (json!({"definitions": {"t": {"$id": "#t", "type": "string"}}, "items": {"$ref": "#t"}}), json!(["a"]), json!([1])),
    ] {
        let mut declared = schema.clone();
        declared["$schema"] = json!(address);
        let compiled = compile(&declared).unwrap_or_else(|error| panic!("{declared}: {error}"));
        assert_eq!(compiled.check(&right), Ok(()), "{schema}");
        assert!(compiled.check(&wrong).is_err(), "{schema}");
    }
    let ignored = json!({"$schema": address, "definitions": {"a": {"$id": "#t", "$ref": "#/definitions/b"}, "b": {}}, "items": {"$ref": "#t"}});
    assert_eq!(read(&ignored).expect_err("the anchor is beside a reference")[0].pointer, "/items/$ref");
    let tuple = read(&json!({"items": [true]})).expect_err("2020-12 has no list of items");
    assert_eq!(tuple[0].pointer, "/items");
    assert!(tuple[0].message.contains("prefixItems") && tuple[0].message.contains(address), "{}", tuple[0].message);
    let unknown = read(&json!({"$schema": "https://example.com/dialect"})).expect_err("nobody knows it");
    assert!(unknown[0].message.contains("2020-12") && unknown[0].pointer == "/$schema", "{unknown:?}");
}

#[test]
fn a_schema_that_declares_2019_09_has_tuples_and_keywords_beside_a_reference() {
    let address = "https://json-schema.org/draft/2019-09/schema";
    for (schema, right, wrong) in [
        (json!({"$schema": address, "items": [{"type": "integer"}], "additionalItems": false}), json!([1]), json!([1, 2])),
        (
            json!({"$schema": address, "$ref": "#/$defs/t", "maxLength": 1, "$defs": {"t": {"type": "string"}}}),
            json!("a"),
            json!("long"),
        ),
        (json!({"$schema": address, "dependentRequired": {"a": ["b"]}}), json!({"a": 1, "b": 2}), json!({"a": 1})),
    ] {
        let compiled = compile(&schema).unwrap_or_else(|error| panic!("{schema}: {error}"));
        assert_eq!(compiled.check(&right), Ok(()), "{schema}");
        assert!(compiled.check(&wrong).is_err(), "{schema}");
    }
}

#[test]
fn a_misspelled_anchor_is_reported_with_the_nearest_anchor_of_its_resource() {
    let schema = json!({"$ref": "#itme", "$defs": {"a": {"$anchor": "item"}, "b": {"$id": "b", "$anchor": "ite"}}});
    let faults = read(&schema).expect_err("it has no such anchor");
    let message = "no part of this schema has the anchor \"itme\"; did you mean \"#item\"?; a reference may only name a place in \
        the same schema, such as \"#/$defs/point\"";
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!((faults[0].pointer.as_str(), faults[0].message.as_str()), ("/$ref", message));
}

#[test]
fn all_faults_of_a_schema_are_reported_at_once_each_with_its_fix() {
    let schema = json!({"type": "dict", "properties": {
        "a": {"type": "float"}, "b": {"type": ["String", "null"]}, "c": {"type": "any"}, "d": {"type": "strng"}, "e": "string",
        "f": {"$ref": "#/$defs/ponit"}, "g": {"pattern": "^(?!x)"}, "h": {"type": "string", "required": true}, "i": {"minimum": "1"}
    }, "$defs": {"point": {"type": "object"}}});
    let found: Vec<(String, String)> =
        read(&schema).expect_err("it has faults").into_iter().map(|fault| (fault.pointer, fault.message)).collect();
    let expected = [
        ("/type", "`dict` is not a JSON type; did you mean `object`?"),
        ("/properties/a/type", "`float` is not a JSON type; did you mean `number`?"),
        ("/properties/b/type/0", "`String` is not a JSON type; did you mean `string`?"),
        ("/properties/c/type", "`any` is not a JSON type; without \"type\" any value is accepted"),
        ("/properties/d/type", "`strng` is not a JSON type; did you mean `string`?"),
        ("/properties/e", "a schema is an object; did you mean {\"type\": \"string\"}?"),
        ("/properties/f/$ref", "\"#/$defs/ponit\" names no place in this schema; did you mean \"#/$defs/point\"?"),
        (
            "/properties/g/pattern",
            "look-around in a pattern is not supported; test one thing with one pattern, and join them with \"allOf\"",
        ),
        ("/properties/h/required", "\"required\" is a list of keys, beside the \"properties\" that describe them"),
        ("/properties/i/minimum", "\"minimum\" is a number"),
    ];
    assert_eq!(found, expected.map(|(pointer, message)| (pointer.to_owned(), message.to_owned())));
}

#[test]
fn a_value_that_looks_like_a_reference_is_a_value() {
    let value = json!({"$ref": "other.json"});
    let schema = json!({"properties": {"a": {"default": value, "examples": [value], "enum": [value, 1]}, "b": {"const": value}}});
    let schema = compile(&schema).expect("only values look like references");
    assert_eq!(schema.check(&json!({"a": value, "b": value})), Ok(()));
    assert!(schema.check(&json!({"b": 1})).is_err());
}

#[test]
fn a_format_describes_a_value_and_refuses_none() {
    for draft in ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"] {
        let schema = compile(&json!({"$schema": draft, "type": "string", "format": "date"})).expect("it is a schema");
        assert_eq!(schema.check(&json!("tomorrow")), Ok(()));
    }
}
