//! Faults of values: each has the pointer of its place and a message that names the broken rule.

use baton_schema::{Program, compile};
use serde_json::{Map, Value, json};

/// Checks that `value` has exactly these faults, each written as its pointer, a space and its message.
#[track_caller]
fn assert_faults(schema: &Value, value: &Value, expected: &[&str]) {
    let compiled = compile(schema).unwrap_or_else(|error| panic!("{schema}: {error}"));
    let faults = compiled.check(value).err().unwrap_or_default();
    let found: Vec<String> = faults.into_iter().map(|fault| format!("{} {}", fault.pointer, fault.message)).collect();
    assert_eq!(found, expected, "{value} against {schema}");
}

#[test]
fn a_message_names_the_value_and_the_rule_that_it_breaks() {
    for (schema, value, expected) in [
        (json!(false), json!(1), " no value is allowed here"),
        (json!({"type": "boolean"}), json!(1), " 1 is not a boolean"),
        (json!({"type": ["integer", "null"]}), json!("1"), " \"1\" is not an integer or null"),
        (json!({"type": ["string", "array", "object"]}), json!(true), " true is not a string, an object or an array"),
        (json!({"const": {"a": 1}}), json!({"a": 2}), " {\"a\":2} is not {\"a\":1}"),
        (json!({"enum": ["green", "red"]}), json!("blue"), " \"blue\" is not one of \"green\" or \"red\""),
        (
            json!({"enum": ["green", "red"]}),
            json!("gren"),
            " \"gren\" is not one of \"green\" or \"red\"; did you mean \"green\"?",
        ),
        (json!({"minimum": 3}), json!(2), " 2 is less than the minimum of 3"),
        (json!({"maximum": 3}), json!(4), " 4 is greater than the maximum of 3"),
        (json!({"exclusiveMinimum": 3}), json!(3), " 3 is not more than 3"),
        (json!({"exclusiveMaximum": 3}), json!(3), " 3 is not less than 3"),
        (json!({"multipleOf": 2}), json!(7), " 7 is not a multiple of 2"),
        (json!({"minLength": 3}), json!("éé"), " \"éé\" has 2 characters, and at least 3 are needed"),
        (json!({"minLength": 1}), json!(""), " \"\" has 0 characters, and at least 1 is needed"),
        (json!({"maxLength": 1}), json!("ab"), " \"ab\" has 2 characters, and at most 1 is allowed"),
        (json!({"minItems": 2}), json!([7]), " [7] has 1 element, and at least 2 are needed"),
        (json!({"maxItems": 2}), json!([1, 2, 3]), " [1,2,3] has 3 elements, and at most 2 are allowed"),
        (json!({"minProperties": 2}), json!({"a": 1}), " {\"a\":1} has 1 key, and at least 2 are needed"),
        (json!({"maxProperties": 1}), json!({"a": 1, "b": 2}), " {\"a\":1,\"b\":2} has 2 keys, and at most 1 is allowed"),
        (json!({"required": ["a"]}), json!({}), " key \"a\" is missing"),
        (json!({"dependentRequired": {"a": ["b"]}}), json!({"a": 1}), " key \"b\" is missing, which key \"a\" needs"),
        (json!({"pattern": "^a+$"}), json!("b"), " \"b\" does not match ^a+$"),
        (json!({"uniqueItems": true}), json!([1, 2, 1]), " element 2 equals an earlier one, and the elements must differ"),
        (json!({"contains": {"type": "null"}}), json!([1]), " no element has the form that is needed"),
        (
            json!({"contains": {"type": "null"}, "maxContains": 1}),
            json!([null, null]),
            " the number of elements of a certain form is 2, which is not allowed",
        ),
        (json!({"not": {"type": "null"}}), json!(null), " null is of a form that is not allowed"),
        (json!({"items": {"not": {"type": "null"}}}), json!([null]), "/0 null is of a form that is not allowed"),
        (json!({"allOf": [true, {"minimum": 3}]}), json!(2), " 2 is less than the minimum of 3"),
        (json!({"if": {"type": "integer"}, "then": {"minimum": 3}}), json!(2), " 2 is less than the minimum of 3"),
        (json!({"if": {"type": "integer"}, "else": {"type": "null"}}), json!("a"), " \"a\" is not null"),
        (
            json!({"oneOf": [{"minimum": 1}, {"minimum": 2}]}),
            json!(3),
            " the value has more than one of the forms of which it must have exactly one",
        ),
        (json!({"additionalProperties": false}), json!({"a": 1}), " unknown key \"a\""),
        (json!({"properties": {"a": true}, "unevaluatedProperties": false}), json!({"a": 1, "b": 2}), " unknown key \"b\""),
        (
            json!({"properties": {"color": true, "size": true}, "additionalProperties": false}),
            json!({"colour": 1}),
            " unknown key \"colour\"; did you mean \"color\"?",
        ),
        (
            json!({"properties": {"color": true, "size": true}, "additionalProperties": false}),
            json!({"weight": 1}),
            " unknown key \"weight\"; the keys are color, size",
        ),
    ] {
        assert_faults(&schema, &value, &[expected]);
    }
}

#[test]
fn a_fault_within_a_value_has_the_pointer_of_its_place() {
    for (schema, value, expected) in [
        (json!({"properties": {"a/b": {"items": {"type": "null"}}}}), json!({"a/b": [null, 1]}), "/a~1b/1 1 is not null"),
        (json!({"patternProperties": {"^a": {"type": "null"}}}), json!({"ab": 1, "b": 1}), "/ab 1 is not null"),
        (json!({"additionalProperties": {"type": "null"}}), json!({"a": null, "b": 1}), "/b 1 is not null"),
        (json!({"unevaluatedProperties": {"type": "null"}}), json!({"a": null, "b": 1}), "/b 1 is not null"),
        (json!({"prefixItems": [true], "unevaluatedItems": {"type": "null"}}), json!([1, null, 2]), "/2 2 is not null"),
        (json!({"prefixItems": [true], "unevaluatedItems": false}), json!([1, 2]), "/1 no value is allowed here"),
        (
            json!({"dependentSchemas": {"a": {"properties": {"b": false}}}}),
            json!({"a": 1, "b": 2}),
            "/b no value is allowed here",
        ),
    ] {
        assert_faults(&schema, &value, &[expected]);
    }
}

#[test]
fn a_value_of_another_type_has_only_the_fault_of_its_type() {
    // The order of the keywords does not matter.
    for schema in [
        json!({"type": "string", "enum": ["a", "b"], "not": {"const": 1}}),
        json!({"not": {"const": 1}, "enum": ["a", "b"], "type": "string"}),
    ] {
        assert_faults(&schema, &json!(1), &[" 1 is not a string"]);
    }
}

#[test]
fn a_key_that_is_not_allowed_is_reported_with_the_rule_that_its_name_breaks() {
    let short = json!({"minLength": 1, "maxLength": 3, "pattern": "^[a-z]*$"});
    for (names, key, reason) in [
        (short.clone(), "AB", "it does not match ^[a-z]*$"),
        (short.clone(), "abcd", "it has more than 3 characters"),
        (short, "", "it has fewer than 1 characters"),
        (json!({"enum": ["ab", "cd"]}), "ef", "it is not one of \"ab\", \"cd\""),
    ] {
        let value = json!({"ab": 1, key: 2});
        assert_faults(&json!({"propertyNames": names}), &value, &[&format!(" key {key:?} is not allowed: {reason}")]);
    }
}

#[test]
fn long_values_are_shortened_and_long_lists_are_cut() {
    let texts = |length: usize| json!(["x".repeat(length)]);
    let fits = format!(" {} is not null", texts(56));
    let cut = format!(" \"{}… is not null", "x".repeat(59));
    for (value, expected) in [
        (texts(56), fits.as_str()),
        (texts(57), " the array is not null"),
        (texts(100), " the array is not null"),
        (json!({"a": "x".repeat(100)}), " the object is not null"),
        (json!("x".repeat(100)), cut.as_str()),
    ] {
        assert_faults(&json!({"type": "null"}), &value, &[expected]);
    }

    let numbers = |most: usize| (0..most).map(|number| number.to_string()).collect::<Vec<_>>().join(", ");
    let listed = |count: usize| json!({"enum": (0..count).collect::<Vec<_>>()});
    assert_faults(&listed(20), &json!(-1), &[&format!(" -1 is not one of {} or 19", numbers(19))]);
    assert_faults(&listed(25), &json!(-1), &[&format!(" -1 is not one of {} or 5 more", numbers(20))]);
    let keys: Map<String, Value> = (0..22).map(|number| (number.to_string(), json!(true))).collect();
    let schema = json!({"properties": keys, "additionalProperties": false});
    assert_faults(&schema, &json!({"other": 1}), &[&format!(" unknown key \"other\"; the keys are {}, 2 more", numbers(20))]);
}

/// Returns a choice among `forms`, beside definitions that they may refer to.
fn choice(keyword: &str, forms: &[Value]) -> Value {
    json!({keyword: forms, "$defs": {
        "text": {"$dynamicAnchor": "text", "type": "string"},
        "pair": {"$dynamicAnchor": "pair", "required": ["a", "b"]},
        "texts": {"$dynamicAnchor": "texts", "type": "array", "items": {"type": "string"}}
    }})
}

#[test]
fn of_several_forms_the_nearest_is_reported_in_any_order_of_the_forms() {
    let few_keys = json!({"minProperties": 4});
    for (nearer, farther, value, expected) in [
        // Forms of another type are not considered.
        (
            json!({"type": "integer", "minimum": 10}),
            json!({"allOf": [{"type": "string"}]}),
            json!(5),
            " 5 is less than the minimum of 10",
        ),
        (
            json!({"type": "integer", "minimum": 10}),
            json!({"$dynamicRef": "#text"}),
            json!(5),
            " 5 is less than the minimum of 10",
        ),
        // One missing key is nearer than two.
        (json!({"required": ["c"]}), json!({"required": ["a", "b"]}), json!({}), " key \"c\" is missing"),
        (json!({"required": ["c"]}), json!({"allOf": [{"required": ["a", "b"]}]}), json!({}), " key \"c\" is missing"),
        (json!({"required": ["c"]}), json!({"$dynamicRef": "#pair"}), json!({}), " key \"c\" is missing"),
        // A value that does not fit is nearer than too few keys, which are nearer than a missing or an unknown key.
        (
            json!({"required": ["k"], "properties": {"k": {"type": "string"}}}),
            few_keys.clone(),
            json!({"k": 1}),
            "/k 1 is not a string",
        ),
        (json!({"additionalProperties": {"type": "string"}}), few_keys.clone(), json!({"k": 1}), "/k 1 is not a string"),
        (json!({"properties": {"k": false}}), few_keys.clone(), json!({"k": 1}), "/k no value is allowed here"),
        (
            few_keys.clone(),
            json!({"additionalProperties": false}),
            json!({"k": 1}),
            " {\"k\":1} has 1 key, and at least 4 are needed",
        ),
        (few_keys.clone(), json!({"required": ["a"]}), json!({"k": 1}), " {\"k\":1} has 1 key, and at least 4 are needed"),
        // The property that distinguishes the forms is the one that lists its values.
        (
            few_keys,
            json!({"properties": {"k": {"const": 2}}}),
            json!({"k": 1}),
            " {\"k\":1} has 1 key, and at least 4 are needed",
        ),
        // Rules that the value meets do not count.
        (
            json!({"type": "integer", "minimum": 0, "maximum": 3}),
            json!({"minimum": 6, "multipleOf": 2}),
            json!(5),
            " 5 is greater than the maximum of 3",
        ),
        // A size that misses its limit by little is nearer than one that misses it by much.
        (json!({"maxLength": 1}), json!({"minLength": 5}), json!("ab"), " \"ab\" has 2 characters, and at most 1 is allowed"),
        // Only faults of the value itself count, not those of its elements.
        (json!({"$dynamicRef": "#texts"}), json!({"type": "array", "minItems": 2}), json!([1]), "/0 1 is not a string"),
    ] {
        for keyword in ["anyOf", "oneOf"] {
            assert_faults(&choice(keyword, &[nearer.clone(), farther.clone()]), &value, &[expected]);
            assert_faults(&choice(keyword, &[farther.clone(), nearer.clone()]), &value, &[expected]);
        }
    }
}

#[test]
fn a_value_of_no_form_is_reported_with_the_types_and_the_constants_of_all_forms() {
    let integer = json!({"type": "integer"});
    for (forms, value, expected) in [
        ([json!({"$dynamicRef": "#text"}), integer.clone()], json!(null), " null is not a string or an integer"),
        ([json!({"$ref": "#/$defs/texts"}), integer.clone()], json!(null), " null is not an integer or an array"),
        ([json!({"allOf": [{"type": "string"}]}), integer.clone()], json!(null), " null is not a string or an integer"),
        (
            [json!({"enum": ["on", "off"]}), integer],
            json!("onn"),
            " \"onn\" is not an integer, \"on\" or \"off\"; did you mean \"on\"?",
        ),
        ([json!(false), json!(false)], json!(1), " 1 is not allowed here"),
    ] {
        assert_faults(&choice("anyOf", &forms), &value, &[expected]);
    }
}

#[test]
fn a_program_accepts_the_values_without_findings_and_returns_no_more_findings_than_asked_for() {
    let program = Program::read(&json!({"type": "object", "required": ["a", "b", "c"]})).expect("it is a schema");
    let whole = json!({"a": 1, "b": 2, "c": 3});
    assert!(program.accepts(&whole));
    assert!(program.findings(&whole, 9).is_empty());
    let empty = json!({});
    assert!(!program.accepts(&empty));
    for (most, expected) in [(0, 0), (1, 1), (2, 2), (3, 3), (9, 3)] {
        assert_eq!(program.findings(&empty, most).len(), expected, "at most {most}");
    }
}

#[test]
fn a_program_does_not_accept_a_value_that_is_nested_too_deeply_to_judge() {
    let mut definitions: Map<String, Value> =
        (0..450).map(|link| (format!("d{link}"), json!({"allOf": [{"$ref": format!("#/$defs/d{}", link + 1)}]}))).collect();
    definitions.insert("d450".to_owned(), json!({"items": {"$ref": "#/$defs/d0"}}));
    // The verdict on the inner schema is unknown, so `not` must not turn it into an acceptance.
    let program = Program::read(&json!({"$defs": definitions, "not": {"$ref": "#/$defs/d0"}})).expect("it is a schema");
    let nested = (0..120).fold(json!(1), |inner, _| json!([inner]));
    assert!(!program.accepts(&nested));
}

#[test]
fn no_valid_part_is_reported_when_the_faults_take_too_many_steps_to_collect() {
    let forms: Vec<Value> =
        (0..3_000).rev().map(|least| json!({"properties": {"a": {"minimum": least}}, "required": ["a"]})).collect();
    let array = json!([{"type": "array"}, {"type": "string"}]);
    let schema =
        json!({"items": {"type": "object", "anyOf": forms}, "oneOf": array, "anyOf": array, "contains": {"type": "object"}});
    // The first element breaks the schema in one step. The others are valid, and too many to be judged.
    let mut elements = vec![json!(1)];
    elements.extend(vec![json!({"a": 0}); 5_000]);
    assert_faults(&schema, &Value::Array(elements), &["/0 1 is not an object"]);
}
