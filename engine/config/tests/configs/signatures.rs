//! Declared inputs of tools compared with their functions' parameters, for all types.

use baton_config::{Role, Unconfigured, load};
use baton_tool::ToolFunction;
use serde_json::{Value, json};

use crate::support::{WORD_COUNT, rules, sound};

/// Returns the faults of a tool with the input schema `config` and the function `function`.
fn told(config: &Value, function: fn() -> Value) -> Vec<String> {
    let tool = json!({"tool_id": "probe", "type": "function_tool", "description": "d", "input_schema": config});
    // The engine's functions live as long as the program; so does this one.
    let probe: &'static ToolFunction =
        Box::leak(Box::new(ToolFunction { id: "probe", name: "probe", parameters: function, ..word_count() }));
    let sources = sound().with(Role::Tool, "tools/probe.json", tool.to_string()).sources();
    let loaded = load(&sources, &[&WORD_COUNT, probe], Unconfigured::Refused, &rules());
    let faults = loaded.err().into_iter().flat_map(|faults| faults.iter().cloned().collect::<Vec<_>>());
    let told = faults.map(|fault| {
        let hint = fault.nearest.or(fault.expected).unwrap_or_default();
        format!("{} {}: {hint}", fault.message, fault.pointer.trim_start_matches("/input_schema"))
    });
    told.collect()
}

fn word_count() -> ToolFunction {
    ToolFunction { ..WORD_COUNT }
}

fn of(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

#[test]
fn a_function_that_takes_anything_takes_what_the_config_says_and_one_that_takes_nothing_does_not() {
    let config = of(json!({"a": {"type": "string"}}));
    let refused = ["parameter \"a\" is not in fn probe /properties/a: no parameters"];
    assert_eq!(told(&config, || json!({"type": "object"})), refused);
    assert_eq!(told(&config, || json!({"type": "object", "additionalProperties": false})), refused);
    assert_eq!(told(&config, || json!({"type": "object", "additionalProperties": true})), [""; 0]);
    assert_eq!(told(&config, || json!({"type": "object", "additionalProperties": {"type": "string"}})), [""; 0]);
}

#[test]
fn an_object_within_that_takes_anything_takes_what_the_config_says() {
    let config = of(json!({"a": {"type": "object", "properties": {"b": {"type": "string"}}}}));
    assert_eq!(told(&config, || of(json!({"a": {"type": "object"}}))), [""; 0]);
    assert_eq!(
        told(&config, || of(json!({"a": {"type": "object", "properties": {"c": {"type": "string"}}}}))),
        ["key \"b\" is not in fn probe /properties/a/properties/b: c",]
    );
}

#[test]
fn the_elements_of_lists_are_compared_as_deep_as_they_nest() {
    let lists = |kind: &str| of(json!({"a": {"type": "array", "items": {"type": "array", "items": {"type": kind}}}}));
    let function = || of(json!({"a": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}}));
    assert_eq!(told(&lists("string"), function), [""; 0]);
    assert_eq!(
        told(&lists("integer"), function),
        ["an element of an element of parameter \"a\" has another type in fn probe /properties/a/items/items/type: string"]
    );
}

#[test]
fn types_that_hold_themselves_are_compared_to_an_end() {
    let tree = || {
        json!({
            "type": "object",
            "properties": {"tree": {"$ref": "#/$defs/Tree"}, "list": {"$ref": "#/$defs/List"}},
            "$defs": {
                "Tree": {"type": "object", "properties": {"below": {"$ref": "#/$defs/Tree"}}},
                "List": {"type": "array", "items": {"$ref": "#/$defs/List"}}
            }
        })
    };
    assert_eq!(told(&tree(), tree), [""; 0]);
}

#[test]
fn a_reference_that_comes_to_no_end_says_nothing_of_a_type() {
    let config = of(json!({"a": {"type": "string"}}));
    let cycle = || json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"$ref": "#/$defs/A"}}});
    assert_eq!(told(&config, cycle), [""; 0]);
}

/// Returns a parameter `a` that is a string behind `LINKS` references.
fn behind_references<const LINKS: usize>() -> Value {
    let mut definitions: serde_json::Map<String, Value> =
        (1..LINKS).map(|link| (format!("d{link}"), json!({"$ref": format!("#/$defs/d{}", link + 1)}))).collect();
    definitions.insert(format!("d{LINKS}"), json!({"type": "string"}));
    json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d1"}}, "$defs": definitions})
}

/// Returns a parameter `a` that is a string within `LEVELS` choices of one schema each.
fn within_choices_of_one<const LEVELS: usize>() -> Value {
    of(json!({"a": (0..LEVELS).fold(json!({"type": "string"}), |inner, _| json!({"allOf": [inner]}))}))
}

/// Returns a parameter `a` that is a string or a boolean by `LEVELS` choices.
fn behind_choices<const LEVELS: usize>() -> Value {
    let choice = |inner, _| json!({"anyOf": [inner, {"type": "boolean"}]});
    of(json!({"a": (0..LEVELS).fold(json!({"type": "string"}), choice)}))
}

#[test]
fn types_are_looked_for_so_deep_and_no_deeper() {
    let config = of(json!({"a": {"type": "integer"}}));
    let differs = |wanted: &str| vec![format!("parameter \"a\" has another type in fn probe /properties/a/type: {wanted}")];
    let nothing = Vec::<String>::new();
    assert_eq!(told(&config, behind_references::<17>), differs("string"));
    assert_eq!(told(&config, behind_references::<18>), nothing);
    assert_eq!(told(&config, within_choices_of_one::<17>), differs("string"));
    assert_eq!(told(&config, within_choices_of_one::<18>), nothing);
    assert_eq!(told(&config, behind_choices::<17>), differs("boolean or string"));
    assert_eq!(told(&config, behind_choices::<18>), nothing);
}

#[test]
fn words_are_compared_however_a_type_lists_them() {
    let config = |words: Value| of(json!({"kind": {"type": "string", "enum": words}}));
    let functions: [fn() -> Value; 4] = [
        || of(json!({"kind": {"enum": ["apple", "pear", "fig"]}})),
        || of(json!({"kind": {"type": "string", "enum": ["apple", "pear", "fig"]}})),
        || of(json!({"kind": {"oneOf": [{"type": "string", "enum": ["apple", "pear"]}, {"type": "string", "const": "fig"}]}})),
        || of(json!({"kind": {"anyOf": [{"const": "apple"}, {"const": "pear"}, {"const": "fig"}]}})),
    ];
    for function in functions {
        assert_eq!(told(&config(json!(["apple", "fig"])), function), [""; 0], "{}", function());
        assert_eq!(
            told(&config(json!(["apple", "paer"])), function),
            ["parameter \"kind\" allows \"paer\", which fn probe does not take /properties/kind/enum: pear"],
            "{}",
            function()
        );
    }
}
