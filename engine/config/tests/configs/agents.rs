//! Agents: how much they may answer, what their results must meet, and the prompts they are given.

use std::collections::BTreeMap;

use baton_config::{Role, render_prompt};
use baton_types::config::{DEFAULT_MAX_OUTPUT_TOKENS, Join};
use serde_json::json;

use crate::support::{check, sound};

#[test]
fn an_answer_may_have_as_many_tokens_as_the_settings_say() {
    let lead = |settings: &str| sound().edited("agents/lead.json", "\"tools\"", &format!("{settings}\"tools\""));
    let tokens = |settings: &str| lead(settings).load().map(|configs| configs.agents["lead"].max_output_tokens);
    assert_eq!(tokens(""), Ok(DEFAULT_MAX_OUTPUT_TOKENS));
    assert_eq!(tokens("\"settings\": {},"), Ok(DEFAULT_MAX_OUTPUT_TOKENS));
    assert_eq!(tokens("\"settings\": {\"thinking\": {\"type\": \"enabled\", \"budget_tokens\": 8000}},"), Ok(12_000));
    for (given, kept) in [("1", 1), ("50", 50), ("1000000000", 1_000_000_000)] {
        assert_eq!(tokens(&format!("\"settings\": {{\"max_tokens\": {given}}},")), Ok(kept));
    }
    for wrong in ["0", "-1", "1.5", "\"50\"", "null", "1000000001"] {
        let told = lead(&format!("\"settings\": {{\"max_tokens\": {wrong}}},")).faults();
        assert!(told.contains("\"max_tokens\" is out of range") && told.contains("lead.json:6:30"), "{wrong}: {told}");
        assert!(told.contains(&format!("at least 1 and at most 1000000000, found {wrong}\n1 error")), "{wrong}: {told}");
    }
}

#[test]
fn a_setting_that_the_engine_cannot_serve_is_a_fault_with_its_reason() {
    let lead = |value: &str| {
        sound().edited("agents/lead.json", "\"tools\"", &format!("\"settings\": {{\"later\": {value}}}, \"tools\""))
    };
    for value in ["true", "1"] {
        let told = lead(value).faults();
        assert!(told.contains(&format!("\"later\": {value} cannot be used: nothing waits")), "{told}");
    }
    for value in ["false", "null"] {
        lead(value).load().unwrap();
    }
}

#[test]
fn a_setting_for_the_engine_is_a_boolean() {
    let lead = |value: &str| {
        sound().edited("agents/lead.json", "\"tools\"", &format!("\"settings\": {{\"calls_in_text\": {value}}}, \"tools\""))
    };
    for value in ["\"yes\"", "1"] {
        let told = lead(value).faults();
        assert!(told.contains("error B0105: \"calls_in_text\" is of the wrong type"), "{told}");
        assert!(told.contains(&format!("expected true or false, found {value}")), "{told}");
    }
    for value in ["true", "false", "null"] {
        lead(value).load().unwrap();
    }
}

#[test]
fn what_a_result_must_meet_is_kept_and_a_broken_schema_is_told() {
    let lead = |schema: &str| sound().edited("agents/lead.json", "\"tools\"", &format!("\"result_schema\": {schema}, \"tools\""));
    let configs = lead(r#"{"type": "object", "required": ["sum"], "properties": {"sum": {"type": "integer"}}}"#)
        .load()
        .expect("it is sound");
    let schema = configs.agents["lead"].result_schema.as_ref().expect("it is kept");
    assert!(schema.check(&json!({"sum": 1})).is_ok() && schema.check(&json!({"sum": "1"})).is_err());
    assert!(configs.agents["counter"].result_schema.is_none());
    let told = lead(r#"{"type": "objct"}"#).faults();
    assert!(told.contains("`objct` is not a JSON type; did you mean `object`?") && told.contains("lead.json:6:29"), "{told}");
}

#[test]
fn a_prompt_that_is_no_text_is_told_where_it_ceases_to_be_one() {
    check(
        sound().with(Role::Prompt, "prompts/lead.md", b"You lead.\nWell\xff, and so on."),
        "
error B0101: the file is not text in UTF-8
   ┌─ demo/prompts/lead.md:2:5
 2 │ Well\u{fffd}, and so on.
   │     ^
1 error
",
    );
}

#[test]
fn a_newline_at_the_end_of_a_prompt_is_no_part_of_it() {
    for (written, rendered) in
        [("You lead.", "You lead."), ("You lead.\n", "You lead."), ("{{ job.id }}\n", "demo"), ("a\n\nb\n\n", "a\n\nb\n")]
    {
        let configs = sound().with(Role::Prompt, "prompts/lead.md", written).load().expect("it is sound");
        assert_eq!(&*render_prompt(&configs, &configs.agents["lead"], &BTreeMap::new()).expect("it renders"), rendered);
    }
}

#[test]
fn what_is_awaited_is_told_in_words() {
    assert_eq!(
        [Join::All, Join::FirstSuccess, Join::Quorum(2)].map(|join| join.to_string()),
        ["all", "first_success", "a quorum of 2"]
    );
}

/// Returns a sound job whose agent `counter` is granted `tools`.
fn counters(tools: &str) -> crate::support::Files {
    let granted = "\"tools\": [\"word_count\", \"handoff\", \"ask_master\", \"note\"]";
    sound()
        .edited("agents/counter.json", granted, &format!("\"tools\": {tools}"))
        .edited(
            "tool-configs/word_count.json",
            "\"effect\"",
            "\"category\": \"text\", \"tags\": [\"words\", \"count\"], \"effect\"",
        )
        .edited("tools/note.json", "\"description\"", "\"category\": \"text\", \"description\"")
}

#[test]
fn a_selector_grants_the_tools_of_a_category_or_with_a_tag() {
    let granted = |tools: &str| -> Vec<String> {
        let configs = counters(tools).load().unwrap_or_else(|faults| panic!("{faults}"));
        configs.agents["counter"].tools.keys().map(ToString::to_string).collect()
    };
    assert_eq!(granted(r#"["handoff", {"category": "text"}]"#), ["handoff", "note", "word_count"]);
    assert_eq!(granted(r#"["handoff", {"tag": "words"}]"#), ["handoff", "word_count"]);
    assert_eq!(granted(r#"["handoff", {"category": "text", "tag": "count"}]"#), ["handoff", "word_count"]);
}

#[test]
fn a_grant_by_id_outranks_a_selector() {
    let tools =
        r#"[{"category": "text", "approval": "person"}, {"tool": "word_count", "description": "Count for me."}, "handoff"]"#;
    let configs = counters(tools).load().unwrap_or_else(|faults| panic!("{faults}"));
    let counter = &configs.agents["counter"];
    assert_eq!(counter.tools["word_count"].definition.description, "Count for me.");
    assert_eq!(counter.approvals.len(), 0, "the note needs no approval, and word_count is granted without one");
    let configs = counters(r#"[{"category": "text", "approval": "person"}, {"tag": "words"}, "handoff"]"#).load().unwrap();
    let approvals: Vec<&str> = configs.agents["counter"].approvals.keys().map(baton_types::id::ToolId::as_str).collect();
    assert_eq!(approvals, ["word_count"], "the stricter of two selectors counts");
}

#[test]
fn a_selector_without_a_tool_is_a_fault_with_the_nearest_name() {
    let told = counters(r#"[{"category": "texts"}, {"tag": "word"}, {}, {"categry": "text"}, "handoff"]"#).faults();
    assert!(told.contains("no tool has the category \"texts\"") && told.contains("\"text\""), "{told}");
    assert!(told.contains("no tool has the tag \"word\"") && told.contains("\"words\""), "{told}");
    assert!(told.contains("counter.json:6:"), "{told}");
    let told = |selector: &str| {
        let tags = "\"category\": \"text\", \"tags\": [\"wards\"], \"description\"";
        let files = counters(&format!("[{selector}, \"handoff\"]"));
        let files = files.edited("tools/note.json", "\"category\": \"text\", \"description\"", tags);
        files.edited("tools/note.json", "\"category\": \"text\"", "\"category\": \"notes\"").faults()
    };
    // The nearest tag is one of the category.
    for (category, wrong, nearest) in [("text", "wards", "words"), ("notes", "words", "wards")] {
        let told = told(&format!(r#"{{"category": "{category}", "tag": "{wrong}"}}"#));
        assert!(told.contains(&format!("did you mean \"{nearest}\"?")), "{told}");
    }
}

#[test]
fn a_tool_that_describes_others_takes_their_names() {
    let described = r#""description": "Read", "describes_tools": true"#;
    let told = sound().edited("tools/note.json", "\"description\"", &format!("{described}, \"title\"")).faults();
    assert!(told.contains("needs the input \"tools\", an array of strings"), "{told}");
    let told = sound().edited("tool-configs/word_count.json", "\"effect\"", "\"describes_tools\": true, \"effect\"").faults();
    assert!(told.contains("\"describes_tools\" does not apply to a tool of type function_tool"), "{told}");
}

#[test]
fn tools_of_background_tasks_have_their_inputs() {
    let route = |keys: &str| {
        let file = format!(r#"{{ "tool_id": "route_to_counter", {keys} }}"#);
        sound().with(Role::Tool, "tools/route_to_counter.json", &file)
    };
    let configs = route(r#""background": true, "follow_up": true"#).load().unwrap();
    let input = configs.tools["route_to_counter"].definition.input_schema.value();
    assert_eq!(input["properties"]["wait"]["type"], "boolean", "{input}");
    assert_eq!(input["properties"]["continues"]["type"], "string", "{input}");
    let retry = r#""background": true, "on_failure": { "retry": { "times": 1 } }"#;
    let told = route(retry).faults();
    assert!(told.contains("\"background\" and a retry in \"on_failure\" exclude each other"), "{told}");
    let own = r#""background": true, "parameters": {
        "request": { "type": "string", "description": "d", "required": true },
        "wait": { "type": "string", "description": "d", "required": false } }"#;
    let told = route(own).faults();
    assert!(told.contains("a tool with \"background\" needs the input \"wait\" of type boolean"), "{told}");
    let steer = r#""description": "Steer", "manages_tasks": "steer""#;
    let told = sound().edited("tools/note.json", "\"description\"", &format!("{steer}, \"title\"")).faults();
    assert!(told.contains("a tool with \"manages_tasks\" needs the input \"task\" of type string, required"), "{told}");
    let steer = |is_required: &str| {
        let file = r#"{ "tool_id": "steer", "type": "non_function_tool", "description": "d", "manages_tasks": "steer", "parameters": {
            "task": { "type": "string", "description": "d", "required": REQUIRED },
            "message": { "type": "string", "description": "d", "required": true } } }"#;
        sound().with(Role::Tool, "tools/steer.json", file.replace("REQUIRED", is_required)).told()
    };
    assert_eq!(steer("true"), "");
    let told = steer("false");
    assert!(told.contains("needs the input \"task\" of type string, required") && told.ends_with("\n1 error"), "{told}");
    let told = sound().edited("tool-configs/word_count.json", "\"effect\"", "\"manages_tasks\": \"list\", \"effect\"").faults();
    assert!(told.contains("\"manages_tasks\" does not apply to a tool of type function_tool"), "{told}");
    let told = sound().edited("tools/note.json", "\"description\"", "\"background\": true, \"description\"").faults();
    assert!(told.contains("\"background\" does not apply to a tool of type non_function_tool"), "{told}");
}
