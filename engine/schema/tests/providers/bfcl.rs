//! The functions of the Berkeley Function-Calling Leaderboard, which were written without any of these dialects in mind.
//!
//! They are not part of the repository (`BATON_FIXTURES/bfcl/*.json`, an object a line, from
//! <https://github.com/ShishirPatil/gorilla>, Apache-2.0): without them the test prints a note and passes.

use std::collections::BTreeMap;

use baton_proof::random::Random;
use baton_schema::provider::{Strictness, compile};
use serde_json::{Map, Value, json};

use crate::trips::Trips;
use crate::{TARGETS, fixtures, named, rules, validator};

#[test]
fn functions_that_others_wrote_can_be_offered_to_every_provider() {
    let folder = fixtures().join("bfcl");
    let Ok(files) = std::fs::read_dir(&folder) else {
        println!("there are no functions at {}: nothing was compiled", folder.display());
        return;
    };
    let mut functions: BTreeMap<String, Value> = BTreeMap::new();
    for file in files.map(|entry| entry.expect("the folder is read").path()) {
        let text = std::fs::read_to_string(&file).expect("a file is read");
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let listed = line["function"].as_array().cloned().unwrap_or_else(|| vec![line]);
            for function in listed.into_iter().filter(|function| function["parameters"].is_object()) {
                functions.insert(function["parameters"].to_string(), function);
            }
        }
    }
    assert!(!functions.is_empty(), "{} holds no functions", folder.display());
    let (mut reasons, mut trips, mut random) = (BTreeMap::<String, usize>::new(), Trips::default(), Random::seeded(1));
    for target in TARGETS {
        let (mut strict, mut faults) = (0, Vec::new());
        for function in functions.values() {
            let schema = in_json_schema(&function["parameters"]);
            match compile(target, &named("function", &schema)) {
                Err(fault) => faults.push(fault.to_string()),
                Ok(compiled) => {
                    validator(&compiled.parameters);
                    match &compiled.strictness {
                        Strictness::Strict => {
                            strict += 1;
                            assert_eq!(rules::broken(&compiled.parameters), [""; 0], "{schema}");
                            trips.of_schema(&schema, &mut random, 5);
                        }
                        Strictness::Loose(unfit) => *reasons.entry(unfit.reason.clone()).or_default() += 1,
                        Strictness::Unknown => {}
                    }
                }
            }
        }
        let (all, faulty) = (functions.len(), faults.len());
        println!("{:<20} {all} functions, {strict} strict, {} not, {faulty} faults", target.to_string(), all - strict - faulty);
        faults.iter().take(5).for_each(|fault| println!("  {fault}"));
    }
    println!("{trips}");
    for (reason, times) in &reasons {
        println!("  {times:>4} not strict: {reason}");
    }
}

/// Returns a schema from this collection as JSON Schema; its types have the names of several languages.
fn in_json_schema(schema: &Value) -> Value {
    let Value::Object(keywords) = schema else { return schema.clone() };
    let mut written = Map::new();
    for (keyword, value) in keywords {
        match (keyword.as_str(), value) {
            ("type", Value::String(name)) => {
                let name = match name.to_lowercase().as_str() {
                    "dict" | "object" | "hashmap" | "hashtable" => "object",
                    "list" | "array" | "arraylist" | "tuple" | "set" | "queue" | "stack" => "array",
                    "float" | "double" | "number" => "number",
                    "int" | "integer" | "long" | "short" | "byte" | "bigint" => "integer",
                    "bool" | "boolean" => "boolean",
                    "str" | "string" | "char" => "string",
                    _ => continue,
                };
                written.insert("type".to_owned(), json!(name));
            }
            ("properties", Value::Object(named)) => {
                let named = named.iter().map(|(name, inner)| (name.clone(), in_json_schema(inner)));
                written.insert("properties".to_owned(), Value::Object(named.collect()));
            }
            ("items", inner) => drop(written.insert("items".to_owned(), in_json_schema(inner))),
            ("required" | "enum", Value::Array(listed)) if !listed.is_empty() => {
                written.insert(keyword.clone(), value.clone());
            }
            ("description", Value::String(_)) | ("default", _) => drop(written.insert(keyword.clone(), value.clone())),
            _ => {}
        }
    }
    Value::Object(written)
}
