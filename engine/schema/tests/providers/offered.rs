//! Tools that servers of the Model Context Protocol offer: each value of their inputs comes back from OpenAI as it was.
//!
//! `tools.json` has definitions in the shapes that such servers use. Where `BATON_FIXTURES` is set, those of
//! `BATON_FIXTURES/tool-definitions/*.json` are added: lists of objects with `name` and `inputSchema`.
//! `cargo xtask tool-trips FOLDER` sets it.

use std::path::PathBuf;

use baton_proof::random::Random;
use baton_schema::provider::{Strictness, Target, compile};
use serde_json::Value;

use crate::named;
use crate::trips::Trips;

/// Number of values of each tool.
const VALUES: usize = 50;

#[test]
fn inputs_of_offered_tools_come_back_as_they_were_meant() {
    let mut files = vec![PathBuf::from("tests/providers/tools.json")];
    let fixtures = std::env::var_os("BATON_FIXTURES").map(|fixtures| PathBuf::from(fixtures).join("tool-definitions"));
    if let Some(folder) = fixtures.filter(|folder| folder.is_dir()) {
        let entries = std::fs::read_dir(folder).expect("the folder is read");
        files.extend(entries.map(|entry| entry.expect("the folder is read").path()));
    }
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a file is read");
        let tools: Vec<Value> = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let (mut trips, mut random) = (Trips::default(), Random::seeded(1));
        for tool in &tools {
            let (name, schema) = (tool["name"].as_str().expect("a tool has a name"), &tool["inputSchema"]);
            let compiled = compile(Target::OpenAi, &named(name, schema)).unwrap_or_else(|fault| panic!("{fault}"));
            let expected = tool.get("strict").and_then(Value::as_bool);
            assert!(expected.is_none_or(|strict| strict == compiled.is_strict()), "{name}: {:?}", compiled.strictness);
            if let Strictness::Loose(unfit) = &compiled.strictness {
                println!("  {name} is not strict: {} (at {:?})", unfit.reason, unfit.pointer);
            }
            trips.of_schema(schema, &mut random, VALUES);
        }
        println!("{}: {} tools, {trips}", file.display(), tools.len());
        assert!(trips.there_and_back > tools.len(), "{trips}");
    }
}
