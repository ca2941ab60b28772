//! Tools from several files: the effective text, the executor, and the facts that an approval of a call covers.

use baton_config::{Role, Unconfigured, load};
use baton_types::call::AfterExecution;
use baton_types::config::Executor;
use baton_types::json::Json;
use serde_json::json;

use crate::support::{WORD_COUNT, check, rules, sound};

const BUILT_IN: &str = "tool-configs/word_count.json";

#[test]
fn a_fault_of_a_refined_tool_is_told_in_the_file_that_says_it() {
    let refined =
        |keys: &str| sound().with(Role::Tool, "tools/word_count.json", format!("{{ \"tool_id\": \"word_count\"{keys} }}"));
    for (files, place) in [
        // First only the built-in config has it, then the refinement, then both.
        (refined("").edited(BUILT_IN, "\"effect\": \"pure\"", "\"timeout_seconds\": 0"), "tool-configs/word_count.json:11:22"),
        (refined(", \"timeout_seconds\": 0"), "demo/tools/word_count.json:1:47"),
        (
            refined(", \"timeout_seconds\": 0").edited(BUILT_IN, "\"effect\": \"pure\"", "\"timeout_seconds\": 9"),
            "demo/tools/word_count.json:1:47",
        ),
    ] {
        let told = files.faults();
        assert!(told.contains("\"timeout_seconds\" is out of range") && told.contains(place), "{place}: {told}");
    }
    let configs = refined(", \"timeout_seconds\": 9").load().expect("it is sound");
    assert_eq!(configs.tools["word_count"].source.as_deref(), Some("demo/tools/word_count.json"));
    // A key that neither has is reported in the refinement, where the job can add it.
    let neither = refined("").edited(BUILT_IN, "  \"description\": \"Counts words\",\n", "").faults();
    assert!(
        neither.contains("key \"description\" is missing") && neither.contains("demo/tools/word_count.json:1:1"),
        "{neither}"
    );
}

#[test]
fn a_fault_of_calls_is_in_the_file_that_joined_the_keys() {
    let calling = || sound().edited(BUILT_IN, "\"effect\": \"pure\"", "\"effect\": \"pure\", \"calls\": [\"note\"]");
    let refined = |keys: &str| format!("{{ \"tool_id\": \"word_count\", {keys} }}");
    for (keys, place) in [
        ("\"effect\": \"keyed\"", "demo/tools/word_count.json:1:28"),
        ("\"writes\": true", "demo/tools/word_count.json:1:28"),
        ("\"effect\": \"keyed\", \"calls\": [\"*\"]", "demo/tools/word_count.json:1:47"),
        ("\"calls\": [\"nothing\"]", "demo/tools/word_count.json:1:38"),
    ] {
        let told = calling().with(Role::Tool, "tools/word_count.json", refined(keys)).faults();
        assert!(told.contains(place) && told.ends_with("\n1 error"), "{keys}: {told}");
    }
    let suspends = sound().edited(BUILT_IN, "\"effect\": \"pure\"", "\"effect\": \"pure\", \"suspends\": true");
    let told = suspends.with(Role::Tool, "tools/word_count.json", refined("\"calls\": [\"*\"]")).faults();
    assert!(told.contains("demo/tools/word_count.json:1:28") && told.ends_with("\n1 error"), "{told}");
}

#[test]
fn a_command_may_make_calls_whatever_its_effect() {
    let command = |keys: &str| {
        let text = format!(
            "{{ \"tool_id\": \"errand\", \"type\": \"function_tool\", \"description\": \"Runs an errand.\", {keys},
                \"input_schema\": {{ \"type\": \"object\" }}, \"exec\": {{ \"command\": [\"true\"] }} }}"
        );
        sound().with(Role::Tool, "tools/errand.json", text)
    };
    for effect in ["pure", "idempotent", "keyed", "at_most_once"] {
        let configs = command(&format!("\"effect\": \"{effect}\", \"calls\": [\"note\", \"*\"]")).load().expect(effect);
        assert_eq!(configs.tools["errand"].calls, ["note", "*"]);
    }
    for (keys, expected) in [
        ("\"effect\": \"keyed\", \"calls\": [\"note\"], \"writes\": true", "\"calls\" and \"writes\" exclude each other"),
        ("\"effect\": \"keyed\", \"calls\": [\"note\"], \"suspends\": true", "\"calls\" and \"suspends\" exclude each other"),
        ("\"effect\": \"keyed\", \"calls\": [\"nothing\"]", "tool \"errand\" calls the unknown tool \"nothing\""),
        ("\"effect\": \"keyed\", \"calls\": [\"handoff\"]", "code cannot call \"handoff\""),
        ("\"effect\": \"keyed\", \"calls\": [\"note\", \"note\"]", "\"calls\" names \"note\" twice"),
        ("\"effect\": \"keyed\", \"calls\": []", "\"calls\" is out of range"),
        ("\"effect\": \"keyed\", \"calls\": \"note\"", "\"calls\" is of the wrong type"),
        (
            "\"effect\": \"keyed\", \"calls\": [\"note\"], \"runs_programs\": true",
            "\"runs_programs\" is for a function with \"calls\"",
        ),
        ("\"calls\": [\"note\"]", "a command that makes calls needs an \"effect\""),
    ] {
        let told = command(keys).faults();
        assert!(told.contains(expected) && told.ends_with("\n1 error"), "{keys}: {told}");
    }
}

#[test]
fn calls_name_each_tool_once() {
    let calls =
        |named: &str| sound().edited(BUILT_IN, "\"effect\": \"pure\"", &format!("\"effect\": \"pure\", \"calls\": {named}"));
    for named in ["[\"note\", \"note\"]", "[\"*\", \"note\", \"*\"]"] {
        let told = calls(named).faults();
        assert!(told.contains("error B0123: \"calls\" names") && told.ends_with("\n1 error"), "{told}");
    }
    let broken = calls("[\"note\"]").edited("tools/note.json", "non_function_tool", "no_function_tool").faults();
    assert!(
        broken.contains("cannot be \"no_function_tool\"") && broken.ends_with("\n1 error"),
        "a faulty tool is there: {broken}"
    );
    calls("[\"*\", \"note\"]").load().expect("a tool may be named besides those that are granted");
}

#[test]
fn a_refinement_that_is_no_object_is_of_the_wrong_type() {
    check(
        sound().with(Role::Tool, "tools/word_count.json", "[]"),
        "
error B0105: the file is of the wrong type
   ┌─ demo/tools/word_count.json:1:1
 1 │ []
   │ ^ expected an object, found an array
1 error
",
    );
}

#[test]
fn a_tool_that_delegates_says_to_whom() {
    let tool = r#"{ "tool_id": "ask_counter", "type": "agent_as_tool", "description": "d",
  "parameters": { "request": { "type": "string", "description": "d", "required": true },
                  "documents": { "type": "array", "items": { "type": "string" }, "description": "d", "required": false } } }"#;
    let told = sound().with(Role::Tool, "tools/ask_counter.json", tool).faults();
    assert!(told.contains("a tool of type agent_as_tool needs \"agent\"") && told.ends_with("\n1 error"), "{told}");
}

#[test]
fn a_run_that_is_only_read_needs_no_functions() {
    let read = |unconfigured| load(&sound().sources(), &[], unconfigured, &rules());
    assert!(read(Unconfigured::Reading).expect("nothing is run").tools["word_count"].executor.is_none());
    assert!(read(Unconfigured::Allowed).expect_err("it will be run").to_string().contains("has no function"));
}

#[test]
fn a_disagreement_with_the_function_is_told_where_the_schema_stands() {
    let schema = r#""input_schema": { "type": "object", "properties": { "text": { "type": "integer" }, "limit": { "type": "integer" } }, "required": ["text"] }"#;
    let parameters = r#""parameters": {
    "text": { "type": "string", "description": "Input text", "required": true },
    "limit": { "type": "integer", "description": "At most", "required": false }
  }"#;
    let told = sound().edited(BUILT_IN, parameters, schema).edited(BUILT_IN, "\"text\": \"a b\"", "\"text\": 1").faults();
    assert!(told.contains("parameter \"text\" has another type in fn word_count"), "{told}");
    assert!(told.contains("word_count.json:5:73\n") && told.contains("expected string, found integer"), "{told}");
}

#[test]
fn a_handoff_ends_its_task_and_other_tools_do_not_unless_they_say_so() {
    let configs =
        sound().edited(BUILT_IN, "\"effect\"", "\"after_execution\": \"terminate\", \"effect\"").load().expect("it is sound");
    assert_eq!(configs.tools["handoff"].after_by_default(), AfterExecution::Terminate);
    assert_eq!(configs.tools["note"].after_by_default(), AfterExecution::Suspend);
    assert_eq!(configs.tools["route_to_counter"].after_by_default(), AfterExecution::Suspend);
    assert_eq!(configs.tools["word_count"].after_by_default(), AfterExecution::Terminate);
}

#[test]
fn an_approval_binds_the_command_that_would_run_and_the_input_it_gets() {
    let run_by = |command: &str| {
        let exec = format!("\"exec\": {{ \"command\": [\"{command}\"] }}");
        let files = sound().functions(&[]).edited(BUILT_IN, "\"effect\": \"pure\"", &exec);
        std::sync::Arc::clone(&files.load().expect("it is sound").tools["word_count"])
    };
    let input = Json::from(json!({"text": "a"}));
    assert_eq!(run_by("wc").call_hash(&input), run_by("wc").call_hash(&input));
    assert_ne!(run_by("wc").call_hash(&input), run_by("rm").call_hash(&input));
    assert_ne!(run_by("wc").call_hash(&input), run_by("wc").call_hash(&Json::from(json!({"text": "b"}))));
    let shown = |keys: &str| {
        let files = sound().edited(BUILT_IN, "\"effect\"", &format!("\"writes\": true, {keys}\"effect\""));
        files.load().expect("it is sound").tools["word_count"].call_hash(&input)
    };
    let shown = ["", "\"title\": \"Count\", ", "\"title\": \"Measure\", ", "\"changes\": { \"path\": \"text\" }, "].map(shown);
    let distinct: std::collections::BTreeSet<_> = shown.iter().map(ToString::to_string).collect();
    assert_eq!(distinct.len(), shown.len(), "the person approved what they were shown");
    let executors = [Executor::Function(WORD_COUNT.name()), run_by("wc").executor.clone().expect("a command runs it")];
    assert_eq!(executors.map(|executor| format!("{executor:?}")), ["fn word_count", "exec [\"wc\"] with []"]);
}

#[test]
fn a_program_brings_no_tool_with_the_name_of_a_delegation() {
    let told = |role| {
        let file = r#"{ "tool_id": "route_to_counter", "title": "Count" }"#;
        sound().with(role, "x/route_to_counter.json", file).told()
    };
    let of_program = told(Role::BuiltinTool);
    let expected = "error B0122: names with route_to_ belong to agents";
    assert!(of_program.contains(expected) && of_program.ends_with("\n1 error"), "{of_program}");
    assert_eq!(told(Role::Tool), "", "a job refines the tool");
}

#[test]
fn a_refinement_may_declare_settings_where_the_refined_config_has_none() {
    let settings =
        r#"{ "tool_id": "word_count", "settings": { "most": { "type": "integer", "description": "d", "default": 3 } } }"#;
    let configs = sound().with(Role::Tool, "tools/word_count.json", settings).load().expect("nothing is changed");
    assert_eq!(configs.tools["word_count"].settings.value(), json!({"most": 3}));
}
