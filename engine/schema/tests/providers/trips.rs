//! Round trips. A value of a tool's own schema, in strict form, matches the strict schema and is restored unchanged.
//! Any value of the strict schema is restored to one that the tool accepts, except for rules that are only text for
//! the model.

use std::fmt;

use baton_proof::random::Random;
use baton_schema::provider::{Strictness, Target, compile};
use baton_types::json::Json;
use serde_json::{Value, json};

use crate::forms::{NullableOptional, random_forms};
use crate::sampled::{filled, sample, without_guidance};
use crate::{rules, strict, tool, validator};

/// Numbers of trials.
#[derive(Debug, Default)]
pub(crate) struct Trips {
    pub(crate) strict: usize,
    pub(crate) loose: usize,
    pub(crate) there_and_back: usize,
    pub(crate) back: usize,
}

impl Trips {
    /// Tries this number of values of `schema`, if its strict form exists.
    pub(crate) fn of_schema(&mut self, schema: &Value, random: &mut Random, times: usize) {
        let compiled = compile(Target::OpenAi, &tool(schema)).unwrap_or_else(|fault| panic!("{fault}"));
        if let Strictness::Loose(_) = compiled.strictness {
            self.loose += 1;
            let input = Json::from(json!({"a": null, "b": [null, {"c": null}]}));
            assert_eq!(compiled.restored(&input), input, "nothing is taken out of what a model is not held to");
            return;
        }
        assert_eq!(rules::broken(&compiled.parameters), [""; 0], "{schema}\nbecame {:#}", compiled.parameters);
        self.strict += 1;
        let (own, written) = (validator(schema), validator(&compiled.parameters));
        for _ in 0..times {
            let value = sample(schema, schema, random, 3);
            let Some(worded) = filled(schema, schema, &value).filter(|_| own.is_valid(&value)) else { continue };
            assert!(written.is_valid(&worded), "{worded} of {schema}\nis refused by {:#}", compiled.parameters);
            assert_eq!(compiled.restored(&Json::from(&worded)).value(), value, "{schema}");
            self.there_and_back += 1;
        }
        self.back(schema, &compiled.parameters, random, times, |input| compiled.restored(input));
    }

    /// Tries this number of values of the compiled schema.
    pub(crate) fn back(
        &mut self,
        schema: &Value,
        written: &Value,
        random: &mut Random,
        times: usize,
        restored: impl Fn(&Json) -> Json,
    ) {
        let (own, strict) = (validator(&without_guidance(schema)), validator(written));
        for _ in 0..times {
            let value = sample(written, written, random, 4);
            if !strict.is_valid(&value) {
                continue;
            }
            let back = restored(&Json::from(&value)).value();
            assert!(own.is_valid(&back), "{value}\ncame back as {back}\nwhich breaks {schema}\nthat became {written:#}");
            self.back += 1;
        }
    }
}

impl fmt::Display for Trips {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { strict, loose, there_and_back, back } = self;
        write!(f, "{strict} strict schemas, {loose} loose; {there_and_back} values there and back, {back} values back")
    }
}

#[test]
fn what_a_schema_takes_comes_back_as_it_was_however_the_schema_is_spelled() {
    let mut trips = Trips::default();
    for seed in 0..800 {
        let mut random = Random::seeded(seed);
        let forms = random_forms(&mut random, NullableOptional::Never);
        let schema = forms.schema(&mut random);
        let compiled = strict(&schema);
        let (own, written) = (validator(&schema), validator(&compiled.parameters));
        for _ in 0..20 {
            let (value, worded) = forms.value(&mut random);
            assert!(own.is_valid(&value), "seed {seed}: the form gives what its schema refuses: {value} of {schema}");
            assert!(written.is_valid(&worded), "seed {seed}: {worded} of {schema}\nis refused by {:#}", compiled.parameters);
            let back = compiled.restored(&Json::from(&worded)).value();
            assert_eq!(back, value, "seed {seed}: {worded} of {schema}");
            trips.there_and_back += 1;
        }
        trips.strict += 1;
        trips.back(&schema, &compiled.parameters, &mut random, 20, |input| compiled.restored(input));
    }
    println!("random schemas: {trips}");
    assert!(trips.back > 12_000, "{trips}");
}

#[test]
fn absent_null_and_value_stay_three_things() {
    let (mut strict, mut loose) = (0, 0);
    for seed in 0..800 {
        let mut random = Random::seeded(seed);
        let forms = random_forms(&mut random, NullableOptional::Sometimes);
        let schema = forms.schema(&mut random);
        let compiled = compile(Target::OpenAi, &tool(&schema)).unwrap_or_else(|fault| panic!("{fault}"));
        match &compiled.strictness {
            Strictness::Strict => strict += 1,
            Strictness::Loose(unfit) => {
                assert!(unfit.reason.contains("may be null and may be omitted"), "{schema}: {unfit:?}");
                loose += 1;
            }
            Strictness::Unknown => panic!("{schema}"),
        }
        assert_eq!(compiled.is_strict(), !forms.has_nullable_optional(), "seed {seed}: {schema}");
        for _ in 0..20 {
            let (value, worded) = forms.value(&mut random);
            let sent = if compiled.is_strict() { worded } else { value.clone() };
            let back = compiled.restored(&Json::from(&sent)).value();
            assert_eq!(back, value, "seed {seed}: {sent} of {schema}");
        }
    }
    assert!(strict > 100 && loose > 100, "{strict} strict, {loose} loose");
}

#[test]
fn an_optional_property_that_may_be_null_is_strict_only_if_null_is_its_default() {
    let schema = |property: Value| json!({"type": "object", "properties": {"a": property}});
    for (property, is_strict) in [
        (json!({"type": "string"}), true),
        (json!({"type": ["string", "null"]}), false),
        (json!({"type": ["string", "null"], "default": null}), true),
        (json!({"type": ["string", "null"], "default": "x"}), false),
        (json!({"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}), true),
        (json!({"enum": ["x", null]}), false),
        // Without a type any value is accepted, so null is one.
        (json!({"properties": {"b": {"type": "string"}}, "required": ["b"]}), false),
        (json!({"items": {"type": "string"}}), false),
        (json!({"items": {"type": "string"}, "default": null}), false),
    ] {
        let compiled = compile(Target::OpenAi, &tool(&schema(property.clone()))).unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!(compiled.is_strict(), is_strict, "{property}");
        let sent = json!({"a": null});
        let expected = if property["type"] == "string" { json!({}) } else { sent.clone() };
        assert_eq!(compiled.restored(&Json::from(&sent)).value(), expected, "{property}");
    }
}

#[test]
fn a_schema_without_a_finite_value_is_not_enforced() {
    let node = |required: Value| {
        json!({"type": "object", "properties": {"tree": {"$ref": "#/$defs/node"}}, "required": ["tree"],
            "$defs": {"node": {"type": "object", "properties": {"left": {"$ref": "#/$defs/node"}}, "required": required}}})
    };
    strict(&node(json!([])));
    let compiled = compile(Target::OpenAi, &tool(&node(json!(["left"])))).unwrap_or_else(|fault| panic!("{fault}"));
    let Strictness::Loose(unfit) = &compiled.strictness else { panic!("{:#}", compiled.parameters) };
    assert!(unfit.reason.contains("no finite value"), "{unfit:?}");
    // An untyped node accepts null, so an omitted child and a child that is null are two values.
    let untyped = json!({"type": "object", "properties": {"tree": {"$ref": "#/$defs/node"}}, "required": ["tree"],
        "$defs": {"node": {"properties": {"left": {"$ref": "#/$defs/node"}}}}});
    let compiled = compile(Target::OpenAi, &tool(&untyped)).unwrap_or_else(|fault| panic!("{fault}"));
    assert!(!compiled.is_strict(), "{:#}", compiled.parameters);
}
