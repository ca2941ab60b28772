//! Settings of a tool: declared once, set by the job, and trusted where that widens the reach.

use baton_config::Role;
use baton_types::config::{Origin, Tool};
use serde_json::json;

use crate::support::{Files, sound};

const BUILT_IN: &str = "tool-configs/word_count.json";

/// Returns the valid job, whose built-in tool has settings, and whose own file of it adds `keys`.
fn set(keys: &str) -> Files {
    let settings = r#""settings": {
    "most": { "type": "integer", "description": "At most", "default": 3, "minimum": 1 },
    "language": { "type": "string", "description": "Which", "enum": ["en", "de"] },
    "hosts": { "type": "array", "items": { "type": "string" }, "description": "Where", "needs_trust": true }
  },
  "secrets": ["WORD_KEY"],
  "effect": "pure""#;
    let files = sound().edited(BUILT_IN, "\"effect\": \"pure\"", settings);
    files.with(Role::Tool, "tools/word_count.json", format!("{{ \"tool_id\": \"word_count\"{keys} }}"))
}

/// Returns the facts that a person would have to trust, a line each.
fn to_trust(tool: &Tool) -> Vec<String> {
    tool.reaches.iter().filter(|reach| reach.origin.needs_trust()).map(ToString::to_string).collect()
}

#[test]
fn what_a_job_sets_stands_beside_the_defaults() {
    let configs = set(r#", "set": { "language": "de", "hosts": ["a.example"] }"#).load().expect("it is sound");
    let tool = &configs.tools["word_count"];
    assert_eq!(tool.settings.value(), json!({"most": 3, "language": "de", "hosts": ["a.example"]}));
    assert_eq!(tool.secrets, ["WORD_KEY"]);
    assert_eq!(to_trust(tool), [r#"word_count sets "hosts" to ["a.example"]"#]);
    let quiet = set(r#", "set": { "most": 9 }"#).load().expect("it is sound");
    let quiet = &quiet.tools["word_count"];
    assert_eq!((quiet.settings.value(), to_trust(quiet).len()), (json!({"most": 9}), 0));
    let reads = set(r#", "secrets": ["OTHER_KEY"]"#).load().expect("it is sound");
    assert_eq!(to_trust(&reads.tools["word_count"]), [r#"word_count reads the secret "OTHER_KEY""#]);
}

#[test]
fn a_declaration_of_the_jobs_vouches_for_nothing() {
    let settings =
        r#""settings": { "hosts": { "type": "string", "description": "Where", "default": "a.example" } }, "effect": "pure""#;
    let declared = sound().edited(BUILT_IN, "\"effect\": \"pure\"", settings);
    assert!(to_trust(&declared.load().expect("it is sound").tools["word_count"]).is_empty());
    let of_job = declared.said_by(Origin::Job).load().expect("it is sound");
    assert_eq!(to_trust(&of_job.tools["word_count"]), [r#"word_count sets "hosts" to "a.example""#]);
}

#[test]
fn a_reach_is_shown_element_by_element_and_escaped() {
    let command = r#"{ "tool_id": "run_it", "type": "function_tool", "description": "d", "parameters": {},
  "exec": { "command": ["sh", "a b", "\u001b[2K\u202e\u0085"], "env": ["OPENAI_API_KEY"] } }"#;
    let configs = sound().with(Role::Tool, "tools/run_it.json", command).load().expect("it is sound");
    let shown: Vec<String> = configs.tools["run_it"].reaches.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            r#"run_it runs the command "sh" "a b" "\u{1b}[2K\u{202e}\u{85}""#,
            r#"run_it hands its command the variable "OPENAI_API_KEY""#
        ]
    );
}

#[test]
fn what_cannot_be_set_is_told_at_its_place() {
    let told = set(r#", "set": { "mots": 4, "most": 0, "language": "fr" }"#).faults();
    for expected in [
        "error B0103: tool \"word_count\" has no setting \"mots\"",
        "did you mean \"most\"?",
        "0 is less than the minimum of 1",
        "demo/tools/word_count.json:1:56",
        "\"fr\" is not one of \"en\" or \"de\"",
        "3 errors",
    ] {
        assert!(told.contains(expected), "{expected} is not in:\n{told}");
    }
    let redeclared = set(r#", "settings": { "most": { "type": "integer", "description": "d" } }"#).faults();
    assert!(redeclared.contains("a config that refines a tool cannot change its \"settings\""), "{redeclared}");
    let default = sound().edited(
        BUILT_IN,
        "\"effect\": \"pure\"",
        r#""settings": { "most": { "type": "integer", "description": "d", "default": "x" } }"#,
    );
    assert!(default.faults().contains("the default does not match its parameter's schema"), "{}", default.faults());
    let noted = sound().edited(
        "tools/note.json",
        "\"description\": \"Note something\",",
        "\"description\": \"d\", \"secrets\": [\"A\"],",
    );
    assert!(noted.faults().contains("\"secrets\" does not apply to a tool of type non_function_tool"), "{}", noted.faults());
}

#[test]
fn a_command_has_no_settings() {
    let tool = r#"{ "tool_id": "run_it", "type": "function_tool", "description": "d", "parameters": {},
  "exec": { "command": ["true"] }, "set": {}, "secrets": ["A"] }"#;
    let told = sound().with(Role::Tool, "tools/run_it.json", tool).faults();
    assert!(told.contains("\"set\" is for a function") && told.contains("\"secrets\" is for a function"), "{told}");
}

#[test]
fn an_object_has_a_schema_and_all_faults_of_its_value_are_reported_at_load() {
    let tool = |schema: &str, set: &str| {
        let setting =
            format!(r#""settings": {{ "configs": {{ "type": "object", "description": "By name"{schema} }} }}, "effect": "pure""#);
        let files = sound().edited(BUILT_IN, "\"effect\": \"pure\"", &setting);
        files.with(
            Role::Tool,
            "tools/word_count.json",
            format!(r#"{{ "tool_id": "word_count", "set": {{ "configs": {set} }} }}"#),
        )
    };
    let schema = r#", "schema": { "type": "object", "additionalProperties": { "type": "object", "properties": {
        "model": { "type": "string" }, "temperature": { "type": "number" } }, "additionalProperties": false } }"#;
    let sound_set = tool(schema, r#"{ "abc": { "model": "m" } }"#).load().expect("it is sound");
    assert_eq!(sound_set.tools["word_count"].settings.value(), json!({"configs": {"abc": {"model": "m"}}}));
    let told = tool(schema, r#"{ "abc": { "modle": 7, "temperature": "hot" }, "d": 1 }"#).told();
    for expected in ["modle", "temperature", "3 errors"] {
        assert!(told.contains(expected), "{expected} is not in\n{told}");
    }
    let told = tool("", "{}").told();
    assert!(told.contains("the setting \"configs\" is an object and needs a \"schema\" of its fields"), "{told}");
    let told = tool(r#", "schema": { "type": "float" }"#, "{}").told();
    assert!(told.contains("number") && told.contains("1 error"), "{told}");
    let told = tool(&schema.replacen(", \"schema\"", r#", "default": { "x": 1 }, "schema""#, 1), "{}").told();
    assert!(told.contains("the default does not match the setting's schema"), "{told}");
}
