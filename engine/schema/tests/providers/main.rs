//! Tools' schemas in the dialects of providers: what is written obeys each dialect, what comes back is the tool's own again.

mod bfcl;
mod dialects;
mod forms;
mod offered;
mod rules;
mod sampled;
mod trips;
mod ways_back;

use std::path::Path;

use baton_config::{ModelRules, Role, Sources, Unconfigured, load};
use baton_schema::provider::{CompiledTool, Strictness, Target, compile};
use baton_types::id::ToolId;
use baton_types::json::Json;
use baton_types::model::ToolDefinition;
use serde_json::{Value, json};

const TARGETS: [Target; 5] = [Target::OpenAi, Target::Compatible, Target::Anthropic, Target::Ollama, Target::Mcp];

/// Returns a tool with this input.
pub(crate) fn tool(schema: &Value) -> ToolDefinition {
    named("probe", schema)
}

pub(crate) fn named(id: &str, schema: &Value) -> ToolDefinition {
    ToolDefinition { id: ToolId::new(id), name: None, description: "Probes.".to_owned(), input_schema: Json::from(schema) }
}

/// Returns the tool of `schema`, whose schema is enforced.
#[track_caller]
pub(crate) fn strict(schema: &Value) -> CompiledTool {
    let compiled = compile(Target::OpenAi, &tool(schema)).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(compiled.strictness, Strictness::Strict, "{schema}");
    assert_eq!(rules::broken(&compiled.parameters), [""; 0], "{schema}\nbecame {:#}", compiled.parameters);
    compiled
}

/// Returns a validator of `schema`. It only answers yes or no: faults would multiply with the depth of a value.
pub(crate) fn validator(schema: &Value) -> jsonschema::Validator {
    let options = jsonschema::options().with_draft(jsonschema::Draft::Draft202012).offline();
    options.build(schema).unwrap_or_else(|error| panic!("{schema} is no schema: {error}"))
}

/// Returns the built-in tools, as an agent that has all of them offers them.
fn built_in() -> Vec<std::sync::Arc<ToolDefinition>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tool-configs");
    let mut sources = Sources::default();
    let mut ids = Vec::new();
    for file in std::fs::read_dir(&folder).expect("the repository has tools").map(|entry| entry.expect("it is read").path()) {
        let name = file.file_stem().and_then(|name| name.to_str()).expect("a tool has a name").to_owned();
        sources.add(Role::BuiltinTool, file.display().to_string(), std::fs::read(&file).expect("a tool's file is read"));
        ids.push(name);
    }
    let agent = json!({"agent_id": "all", "description": "Has all.", "system_prompt": "Use.", "model": "p:m", "tools": ids});
    let job = json!({"job_id": "j", "description": "Offers.", "root": "all", "request": "Go."});
    sources.add(Role::Agent, "agents/all.json", agent.to_string());
    sources.add(Role::Job, "job.json", job.to_string());
    let rules = ModelRules {
        check_script: &|_| Vec::new(),
        providers: &["p"],
        media: |_| baton_types::config::Media::ALL,
        embeds: |_| true,
        own_settings: &[],
        boolean_settings: &[],
        refused_settings: &[],
    };
    let configs = load(&sources, &[], Unconfigured::Reading, &rules).unwrap_or_else(|faults| panic!("{faults}"));
    configs.agents["all"].offered.tools().to_vec()
}

#[test]
fn every_built_in_tool_can_be_offered_to_every_provider() {
    let tools = built_in();
    assert_eq!(tools.len(), std::fs::read_dir("../../tool-configs").expect("they were read before").count());
    let mut loose = Vec::new();
    for target in TARGETS {
        let mut strict = 0;
        for tool in &tools {
            let compiled = compile(target, tool).unwrap_or_else(|fault| panic!("{fault}"));
            validator(&compiled.parameters);
            match &compiled.strictness {
                Strictness::Strict => {
                    strict += 1;
                    assert_eq!(rules::broken(&compiled.parameters), [""; 0], "{}: {:#}", tool.id, compiled.parameters);
                }
                Strictness::Unknown => {}
                Strictness::Loose(unfit) => loose.push(format!("{} {} {}", tool.id, unfit.pointer, unfit.reason)),
            }
        }
        println!("{:<20} {} tools, {strict} strict, {} not, 0 faults", target.to_string(), tools.len(), tools.len() - strict);
    }
    // Their inputs have parts with arbitrary keys. A new tool may have some as well, and appears in the list.
    println!("not strict for openai:\n  {}", loose.join("\n  "));
    let expected = [
        "ask_master /properties/answer_schema keys are not known beforehand",
        "draw_chart /properties/rows/items keys are not known beforehand",
        "edit_file_block /properties/new_data keys are not known beforehand",
        "handoff /properties/result keys are not known beforehand",
        "json-transform /properties/data keys are not known beforehand",
    ];
    for known in expected {
        assert!(loose.iter().any(|found| found == known), "{known} is not among {loose:#?}");
    }
    assert!(loose.len() * 2 < tools.len(), "most tools are strict, but not {loose:#?}");
}

#[test]
fn the_rules_of_the_strict_subset_catch_what_breaks_them() {
    let sound = strict(&json!({"type": "object", "properties": {
        "a": {"type": "string"},
        "b": {"anyOf": [{"type": "object", "properties": {"x": {"type": "integer"}}}, {"type": "object", "properties": {"y": {"const": 1}}, "required": ["y"]}]}
    }}))
    .parameters;
    for (pointer, wrong) in [
        ("/required/0", json!("z")),
        ("/additionalProperties", json!(true)),
        ("/type", json!("array")),
        ("/properties/a/type", json!(["string", "integer"])),
        ("/properties/a", json!({"type": "string", "minLength": 1})),
        ("/properties/a", json!({"type": "string", "format": "uri"})),
        ("/properties/a", json!({"$ref": "#/$defs/none"})),
        ("/properties/a", json!({"enum": ["a"]})),
        ("/properties/a", json!({"type": "array"})),
        ("/properties/a", json!({"anyOf": [{"type": "string"}]})),
        ("/properties/b/anyOf/1", sound["properties"]["b"]["anyOf"][0].clone()),
        ("/properties/b/anyOf/1/properties/y/enum", json!(["1"])),
        ("/properties/b/anyOf/1/required", json!([])),
    ] {
        let mut broken = sound.clone();
        *broken.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is not in {sound:#}")) = wrong;
        assert_ne!(rules::broken(&broken), [""; 0], "{broken:#}");
    }
}

#[test]
fn inputs_of_built_in_tools_come_back_as_they_were_meant() {
    let mut random = baton_proof::random::Random::seeded(7);
    let mut trips = trips::Trips::default();
    for tool in built_in() {
        trips.of_schema(&tool.input_schema.value(), &mut random, 200);
    }
    println!("built-in tools: {trips}");
    assert!(trips.there_and_back > 1_000 && trips.back > 1_000, "{trips}");
}
