//! Configs of a valid job.

use std::collections::BTreeMap;
use std::time::Duration;

use baton_config::{
    Role, Sources, Unconfigured, check_inputs, load, load_project, load_tools, render_prompt, render_request, schemas,
};
use baton_types::config::{Approver, Executor, Join, OnFailure, Retry};
use baton_types::limits::Limits;
use baton_types::tool_type::ToolType;
use serde_json::{Value, json};

use crate::support::{Files, LEAD, WORD_COUNT, rules, sound};

const BUILT_IN: &str = "tool-configs/word_count.json";

#[test]
fn a_sound_job_is_joined_and_its_defaults_are_filled_in() {
    let configs = sound().load().unwrap();
    let counter = &configs.agents["counter"];
    let offered = |definitions: &[std::sync::Arc<baton_types::model::ToolDefinition>]| {
        definitions.iter().map(|definition| definition.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(offered(&counter.offered), ["ask_master", "handoff", "note", "word_count"]);
    assert_eq!(offered(&counter.offered_in_questions), ["ask_master", "handoff", "note", "word_count"]);
    assert_eq!(offered(&counter.offered_last), ["handoff"]);
    assert_eq!(*counter.limits, Limits { turns: Some(7), ..Limits::task_defaults() });
    assert_eq!(configs.job.limits, Limits::run_defaults());
    assert_eq!(configs.job.documents[0].file, "documents/notes.txt");
    let tool = &configs.tools["word_count"];
    assert!(matches!(tool.executor, Some(Executor::Function(function)) if function.id == "word_count"));
    assert_eq!(
        tool.input.json().value(),
        json!({"type": "object", "properties": {
            "text": {"type": "string", "description": "Input text"}, "limit": {"type": "integer", "description": "At most"}
        }, "required": ["text"], "additionalProperties": false})
    );
    assert!(tool.input.check(&json!({"text": "a", "x": 1})).is_err());
    assert_eq!(tool.source.as_deref(), Some("tool-configs/word_count.json"));
}

#[test]
fn a_handoff_of_tasks_shows_the_schema_of_results_and_that_of_questions_does_not() {
    let schema = r##""result_schema": {"type": "object", "properties": {"rows": {"$ref": "#/$defs/count"}},
        "$defs": {"count": {"type": "integer"}}}, "tools": ["##;
    let job = |schema: &str| sound().edited("agents/lead.json", r#""tools": ["#, schema).load().unwrap();
    let handoff = |offer: &[std::sync::Arc<baton_types::model::ToolDefinition>]| {
        let definition = offer.iter().find(|definition| definition.id.as_str() == "handoff").unwrap();
        definition.input_schema.value()
    };
    let configs = job(schema);
    let lead = &configs.agents["lead"];
    let plain = handoff(&lead.offered_last_in_questions);
    assert_eq!(plain["properties"]["result"]["properties"], Value::Null);
    assert_eq!(handoff(&lead.offered_in_questions), plain);
    let shown = handoff(&lead.offered);
    assert_eq!(shown["properties"]["result"]["description"], plain["properties"]["result"]["description"]);
    assert_eq!(shown["properties"]["result"]["properties"], json!({"rows": {"$ref": "#/$defs/count"}}));
    assert_eq!(shown["$defs"], json!({"count": {"type": "integer"}}));
    assert_eq!((handoff(&lead.offered_last), &lead.tools["handoff"].definition.input_schema.value()), (shown.clone(), &shown));
    // References to other places would break, so that the schema of this agent is not shown.
    let fixed = job(&schema
        .replace("#/$defs/count", "#/$defs/count/properties/a")
        .replace("{\"type\": \"integer\"}", r##"{"properties": {"a": {"$ref": "#"}}}"##));
    assert_eq!(handoff(&fixed.agents["lead"].offered), plain);
    for (dialect, is_shown) in [("2020-12", true), ("2019-09", false)] {
        let named = format!("\"result_schema\": {{\"$schema\": \"https://json-schema.org/draft/{dialect}/schema\", \"type\"");
        let offered = handoff(&job(&schema.replace(r#""result_schema": {"type""#, &named)).agents["lead"].offered);
        assert_eq!(offered, if is_shown { shown.clone() } else { plain.clone() }, "{dialect}");
    }
    // Anthropic refuses keys with spaces.
    let refused = job(r#""result_schema": {"type": "object", "properties": {"net sales": {"type": "number"}}}, "tools": ["#);
    assert_eq!(handoff(&refused.agents["lead"].offered), plain);
}

#[test]
fn a_schema_of_results_that_no_handoff_can_meet_is_a_fault() {
    for (schema, is_sound) in
        [(r#"{"type": "string"}"#, false), (r#"{"type": ["object", "null"]}"#, true), (r#"{"required": ["a"]}"#, true)]
    {
        let schema = format!("\"result_schema\": {schema}, \"tools\": [");
        let loaded = sound().edited("agents/lead.json", r#""tools": ["#, &schema).load();
        assert_eq!(loaded.is_ok(), is_sound, "{schema}");
        let text = loaded.err().map(|faults| format!("{faults:?}")).unwrap_or_default();
        assert!(is_sound || text.contains("no result of tool \\\"handoff\\\" matches"), "{text}");
    }
}

#[test]
fn every_agent_is_a_tool_that_a_file_may_refine() {
    let refined = r#"{ "tool_id": "route_to_counter", "description": "Have words counted", "limits": { "turns": 3 } }"#;
    let configs = sound().with(Role::Tool, "tools/route_to_counter.json", refined).load().unwrap();
    let derived = &configs.tools["route_to_lead"];
    assert_eq!(derived.tool_type, ToolType::AgentAsTool);
    assert_eq!(derived.agent.as_ref().unwrap().as_str(), "lead");
    assert_eq!(derived.input.json().value()["required"], json!(["request"]));
    let refined = &configs.tools["route_to_counter"];
    assert_eq!(refined.description, "Have words counted");
    assert_eq!(refined.limits.turns, Some(3));
    assert_eq!(refined.input.json(), derived_input(&configs.tools["route_to_lead"]));
    assert_eq!(configs.agents["lead"].offered[1].description, "Have words counted");
}

#[test]
fn joins_retries_approvals_and_doubts_are_read() {
    let route = r#"{ "tool_id": "route_to_counter", "on_failure": { "retry": { "times": 2 } }, "approval": "master" }"#;
    let lead = LEAD.replace(
        r#""tools": ["route_to_counter", "handoff"]"#,
        r#""tools": [{ "tool": "route_to_counter", "approval": "person" }, { "tool": "handoff" }], "join": { "quorum": 2 }"#,
    );
    let configs = sound().with(Role::Tool, "tools/route_to_counter.json", route).with(Role::Agent, "agents/lead.json", &lead);
    let configs = configs.load().unwrap();
    let (lead, route) = (&configs.agents["lead"], &configs.tools["route_to_counter"]);
    assert_eq!(lead.join, Join::Quorum(2));
    assert_eq!(route.on_failure, OnFailure::Retry(Retry { times: 2, backoff_seconds: 1 }));
    assert_eq!((route.approval, lead.approver(route)), (Some(Approver::Master), Some(Approver::Person)), "a person counts");
    assert_eq!(lead.approver(&configs.tools["handoff"]), None);
    assert_eq!(configs.agents["counter"].join, Join::All);
}

#[test]
fn an_agent_has_its_own_words_for_a_tool() {
    let words = r#"[{ "tool": "word_count", "description": "Count the words of a report.", "parameters": { "text": { "description": "The report" } } },
        "handoff", "ask_master", "note"]"#;
    let files = sound().edited("agents/counter.json", r#"["word_count", "handoff", "ask_master", "note"]"#, words);
    let configs = files.load().unwrap();
    let (offered, known) = (&configs.agents["counter"].tools["word_count"], &configs.tools["word_count"]);
    assert_eq!((offered.description.as_str(), known.description.as_str()), ("Count the words of a report.", "Counts words"));
    let shown = configs.agents["counter"].offered.iter().find(|definition| definition.id == *"word_count").unwrap();
    assert_eq!(shown.description, "Count the words of a report.");
    let mut schema = shown.input_schema.value();
    assert_eq!(schema["properties"]["text"]["description"], "The report");
    schema["properties"]["text"]["description"] = json!("Input text");
    assert_eq!(schema, known.definition.input_schema.value(), "the schema is the same but for the words");
    let pinned: Sources = serde_json::from_str(&serde_json::to_string(&files.sources()).unwrap()).unwrap();
    assert_eq!(
        files.load_from(&pinned).unwrap().agents["counter"].tools["word_count"].description,
        "Count the words of a report."
    );
}

#[test]
fn an_agent_s_words_for_a_tool_name_a_parameter_and_change_no_schema() {
    let faults = |grant: &str| sound().edited("agents/counter.json", "\"word_count\", ", &format!("{grant}, ")).faults();
    let told = faults(r#"{ "tool": "word_count", "parameters": { "txet": { "description": "The report" } } }"#);
    assert!(
        told.contains("has no parameter \"txet\"")
            && told.contains("did you mean \"text\"")
            && told.contains("agents/counter.json:6:"),
        "{told}"
    );
    let told = faults(r#"{ "tool": "word_count", "parameters": { "text": { "description": "The report", "maxLength": 3 } } }"#);
    assert!(told.contains("maxLength") && told.contains("agents/counter.json:6:"), "{told}");
}

fn derived_input(tool: &baton_types::config::Tool) -> &baton_types::json::Json {
    tool.input.json()
}

#[test]
fn a_jobs_config_of_a_built_in_tool_replaces_the_keys_it_gives() {
    let refined = r#"{ "tool_id": "word_count", "timeout_seconds": 5,
        "input_schema": { "type": "object", "properties": { "text": { "type": "string", "maxLength": 9 }, "limit": { "type": "integer" } },
                          "required": ["text"] } }"#;
    let configs = sound().with(Role::Tool, "tools/word_count.json", refined).load().unwrap();
    let tool = &configs.tools["word_count"];
    assert_eq!((tool.timeout, tool.description.as_str()), (Duration::from_secs(5), "Counts words"));
    assert!(tool.input.check(&json!({"text": "more than nine"})).is_err());
    assert_eq!(configs.agents["counter"].tools["word_count"].timeout, Duration::from_secs(5));
}

#[test]
fn prompts_and_requests_render_strictly_with_the_inputs() {
    let configs = sound().load().unwrap();
    let inputs = check_inputs(&configs.job, &BTreeMap::new()).unwrap();
    assert_eq!(render_request(&configs, &inputs).unwrap(), "Count the words of 2024.");
    assert_eq!(&*render_prompt(&configs, &configs.agents["counter"], &inputs).unwrap(), "You are counter. The year is 2024.");
    assert_eq!(&*render_prompt(&configs, &configs.agents["lead"], &inputs).unwrap(), "You lead counter lead in demo.");
    assert!(render_request(&configs, &BTreeMap::new()).unwrap_err().to_string().contains("line 1"));
    let hostile = BTreeMap::from([("year".to_owned(), json!("{{ job.id }}"))]);
    assert_eq!(render_request(&configs, &hostile).unwrap(), "Count the words of {{ job.id }}.");
}

#[test]
fn inputs_are_checked_and_every_fault_is_told() {
    let files = sound().edited("job.json", r#", "default": 2024 }"#, r#" }, "place": { "schema": { "enum": ["a"] } }"#);
    let configs = files.load().unwrap();
    let given = BTreeMap::from([("place".to_owned(), json!("b")), ("yaer".to_owned(), json!(1))]);
    let faults = check_inputs(&configs.job, &given).unwrap_err();
    let messages: Vec<_> = faults.iter().map(|fault| (fault.kind.code(), fault.pointer.as_str())).collect();
    assert_eq!(messages, [("B0103", "/yaer"), ("B0105", "/place"), ("B0106", "/year")]);
}

#[test]
fn a_run_is_loaded_again_from_its_pinned_texts() {
    let pinned = serde_json::to_string(&sound().sources()).unwrap();
    assert!(!pinned.contains("demo/"), "the folder's place on this machine is not pinned");
    let sources: Sources = serde_json::from_str(&pinned).unwrap();
    let configs = load(&sources, &[&WORD_COUNT], Unconfigured::Refused, &rules()).unwrap();
    assert_eq!(configs.job.id.as_str(), "demo");
}

#[test]
fn a_pinned_run_goes_on_in_a_program_that_has_learned_new_tools() {
    let sources = sound().without("tool-configs/word_count.json").edited("agents/counter.json", "\"word_count\", ", "").sources();
    assert!(load(&sources, &[&WORD_COUNT], Unconfigured::Refused, &rules()).is_err());
    assert!(load(&sources, &[&WORD_COUNT], Unconfigured::Allowed, &rules()).is_ok());
}

#[test]
fn a_pinned_run_continues_without_the_functions_of_tools_that_no_agent_needs() {
    let counter = r#"["word_count", "handoff", "ask_master", "note"]"#;
    let continued = |grants: &str, files: Files| {
        let sources = files.edited("agents/counter.json", counter, grants).sources();
        load(&sources, &[], Unconfigured::Allowed, &rules()).map(|configs| configs.tools.into_keys().collect::<Vec<_>>())
    };
    assert_eq!(
        continued(r#"["handoff"]"#, sound()).unwrap(),
        ["handoff", "route_to_counter", "route_to_lead"].map(baton_types::id::ToolId::from)
    );
    for grant in [r#""word_count""#, r#"{ "tool": "word_count" }"#, r#"{ "category": "text" }"#, r#"{ "tag": "words" }"#] {
        let files = sound().edited(BUILT_IN, "\"effect\"", r#""category": "text", "tags": ["words"], "effect""#);
        let told = continued(&format!("[{grant}, \"handoff\"]"), files).unwrap_err().to_string();
        assert!(told.contains("\"word_count\" has no function") && told.ends_with("\n1 error"), "{grant}: {told}");
    }
}

#[test]
fn a_pinned_run_keeps_the_tools_that_its_tools_call() {
    let command = |id: &str, called: &str| {
        let file = format!(
            r#"{{ "tool_id": "{id}", "type": "function_tool", "description": "d", "effect": "pure", "calls": ["{called}"],
                "input_schema": {{ "type": "object" }}, "exec": {{ "command": ["true"] }} }}"#
        );
        (Role::Tool, format!("tools/{id}.json"), file)
    };
    let accepting = r#"{ "tool_id": "route_to_counter", "accept": { "by": "tool:judge" } }"#;
    let accepting = (Role::Tool, "tools/route_to_counter.json".to_owned(), accepting.to_owned());
    // Only the judge calls the note, and only the other tool leads to the judge.
    for (granted, (role, path, file)) in [(r#", "errand"]"#, command("errand", "judge")), ("]", accepting)] {
        let (_, judge, text) = command("judge", "note");
        let files = sound().with(Role::Tool, &judge, text).with(role, &path, file);
        let sources = files.edited("agents/counter.json", ", \"note\"]", granted).sources();
        let configs = load(&sources, &[&WORD_COUNT], Unconfigured::Allowed, &rules()).unwrap();
        assert!(configs.tools.contains_key("judge") && configs.tools.contains_key("note"), "{:?}", configs.tools.keys());
    }
}

#[test]
fn a_pinned_run_keeps_the_tool_that_describes_others() {
    let read = r#"{ "tool_id": "read_tools", "type": "non_function_tool", "description": "d", "describes_tools": true,
        "parameters": { "tools": { "type": "array", "items": { "type": "string" }, "description": "d", "required": true } } }"#;
    let files = sound().with(Role::BuiltinTool, "tool-configs/read_tools.json", read);
    let files = files.edited("agents/counter.json", "\"agent_id\"", "\"catalog\": \"discover\", \"agent_id\"");
    let configs = load(&files.sources(), &[&WORD_COUNT], Unconfigured::Allowed, &rules()).unwrap();
    assert!(configs.agents["counter"].tools.contains_key("read_tools"));
}

#[test]
fn a_pinned_run_goes_on_with_a_tool_that_waits_for_approval() {
    let grant = r#"{ "tool": "word_count", "approval": "person" }, "#;
    let sources = sound().edited("agents/counter.json", "\"word_count\", ", grant).sources();
    let configs = load(&sources, &[&WORD_COUNT], Unconfigured::Allowed, &rules()).unwrap();
    assert!(configs.agents["counter"].tools.contains_key("word_count"));
}

#[test]
fn tools_load_without_a_job() {
    let mut sources = Sources::default();
    sources.add(Role::BuiltinTool, "tool-configs/word_count.json", crate::support::WORD_COUNT_CONFIG);
    let tools = load_tools(&sources, &[&WORD_COUNT], Unconfigured::Refused).unwrap();
    assert_eq!(tools.len(), 1);
    let without_function = |unconfigured| load_tools(&sources, &[], unconfigured).map(|tools| tools.len());
    assert_eq!(without_function(Unconfigured::Reading), Ok(1));
    assert!(without_function(Unconfigured::Refused).unwrap_err().to_string().contains("has no function"));
}

#[test]
fn a_project_file_is_as_strict_as_the_others() {
    let project = load_project("baton.json", br#"{ "store": ".baton", "jobs": "jobs" }"#).unwrap();
    assert_eq!(project.jobs.as_deref(), Some("jobs"));
    let faults = load_project("baton.json", br#"{ "stroe": ".baton", "jobs": null }"#).unwrap_err();
    let faults: Vec<_> = faults.iter().map(|fault| (fault.kind.code(), fault.column, fault.nearest.as_deref())).collect();
    assert_eq!(faults, [("B0103", 3, Some("store")), ("B0105", 30, None)]);
}

#[test]
fn the_published_schemas_describe_every_key_and_accept_what_the_loader_accepts() {
    fn undescribed(place: &str, schema: &Value, found: &mut Vec<String>) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            if !property["description"].is_string() {
                found.push(format!("{place}/{name}"));
            }
        }
        for (name, inner) in schema["$defs"].as_object().into_iter().flatten() {
            undescribed(&format!("{place}/{name}"), inner, found);
        }
    }
    let schemas: BTreeMap<_, _> = schemas().into_iter().collect();
    let mut found = Vec::new();
    for (name, schema) in &schemas {
        undescribed(name, schema, &mut found);
    }
    assert_eq!(found, Vec::<String>::new());
    let agent = baton_schema::compile(&schemas["agent.schema.json"]).unwrap();
    let lead: Value = serde_json::from_str(LEAD).unwrap();
    assert!(agent.check(&lead).is_ok());
    assert!(agent.check(&json!({"agent_id": null})).is_err());
}
