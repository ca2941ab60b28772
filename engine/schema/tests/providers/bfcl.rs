//! Functions whose parameters were written without any of these dialects in mind, with the type names of several languages.
//!
//! `functions.jsonl` has a few. Where `BATON_FIXTURES` is set, those of the Berkeley Function-Calling Leaderboard are added
//! (`BATON_FIXTURES/bfcl/*.json`, an object a line, from <https://github.com/ShishirPatil/gorilla>, Apache-2.0).

use std::collections::BTreeMap;
use std::path::PathBuf;

use baton_proof::random::Random;
use baton_schema::provider::{Strictness, compile};
use serde_json::{Map, Value, json};

use crate::trips::Trips;
use crate::{TARGETS, named, rules, validator};

#[test]
fn functions_that_others_wrote_can_be_offered_to_every_provider() {
    let mut files = vec![PathBuf::from("tests/providers/functions.jsonl")];
    let fixtures = std::env::var_os("BATON_FIXTURES").map(|fixtures| PathBuf::from(fixtures).join("bfcl"));
    if let Some(folder) = fixtures.filter(|folder| folder.is_dir()) {
        let entries = std::fs::read_dir(folder).expect("the folder is read");
        files.extend(entries.map(|entry| entry.expect("the folder is read").path()));
    }
    let mut functions: BTreeMap<String, Value> = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a file is read");
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let listed = line["function"].as_array().cloned().unwrap_or_else(|| vec![line]);
            for function in listed.into_iter().filter(|function| function["parameters"].is_object()) {
                functions.insert(function["parameters"].to_string(), function);
            }
        }
    }
    assert!(functions.len() >= 9, "every own function is read: {functions:#?}");
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
