//! The text about tools that follows a system prompt, by invocation and catalog.

use baton_config::{Role, check_inputs, render_prompt};
use baton_types::config::{Configs, INVOCATION_NOTE};
use baton_types::id::ToolId;

use crate::support::{Files, sound};

const READ_TOOLS: &str = r#"{ "tool_id": "read_tools", "type": "non_function_tool", "description": "Describes tools", "describes_tools": true,
  "parameters": { "tools": { "type": "array", "items": { "type": "string" }, "description": "Names", "required": true } } }"#;

/// Returns the job with a tool that describes others, which no agent is granted. Its counter has these keys.
fn counting(keys: &str) -> Files {
    let files = sound().with(Role::BuiltinTool, "tool-configs/read_tools.json", READ_TOOLS);
    files.edited("agents/counter.json", "\"agent_id\": \"counter\"", &format!("\"agent_id\": \"counter\"{keys}"))
}

/// Returns the text that follows the own prompt of the counter, from its list of tools on, and the number of system messages.
fn about_tools(configs: &Configs) -> (String, usize) {
    let inputs = check_inputs(&configs.job, &std::collections::BTreeMap::new()).expect("the input has a default");
    let prompt = render_prompt(configs, &configs.agents["counter"], &inputs).expect("it renders");
    let text = prompt.strip_prefix("You are counter. The year is 2024.").expect("the own prompt is first");
    let list = text.find("=== TOOLS").map_or(text, |at| &text[at..]);
    (list.to_owned(), if prompt.messages().1.is_empty() { 1 } else { 2 })
}

/// Returns the line with the input of a tool, as the files have it.
fn input(configs: &Configs, tool: &str) -> String {
    format!("  input: {}\n", configs.tools[tool].definition.input_schema.text())
}

/// Returns the sentence about the tool that describes others.
fn describing(next: &str) -> String {
    format!(
        "\nBefore you first call a tool whose input is not shown above, call read_tools with {{\"tools\": [\"name\"]}}.{next}\n"
    )
}

#[test]
fn a_native_agent_reads_a_list_only_of_the_tools_that_requests_do_not_offer_yet() {
    for keys in ["", r#", "invocation": "native", "catalog": "full""#] {
        let configs = counting(keys).load().expect("it is sound");
        assert_eq!(about_tools(&configs), (String::new(), 1), "{keys}");
    }
    let configs = counting(r#", "catalog": "discover""#).load().expect("it is sound");
    let next = describing(" The described tools can be called from your next answer on.");
    let expected = format!(
        "=== TOOLS (3 available) ===\n\n• ask_master: Ask\n• note: Note something\n• word_count: Counts words → count\n{next}"
    );
    assert_eq!(about_tools(&configs), (expected, 1));
    let alone = sound().edited("agents/counter.json", "\"agent_id\"", "\"catalog\": \"discover\", \"agent_id\"");
    let (text, _) = about_tools(&alone.load().expect("it is sound"));
    assert!(text.ends_with("• word_count: Counts words → count\n"), "no tool describes the others: {text}");
}

#[test]
fn a_universal_agent_reads_inputs_as_its_catalog_decides() {
    let schema = r#""result_schema": { "type": "object", "properties": { "sum": { "type": "integer" } } }"#;
    let result = "  schema of your result: {\"type\":\"object\",\"properties\":{\"sum\":{\"type\":\"integer\"}}}. An answer to a question has the \
                  schema of the question instead.\n";
    let note = format!("\n{}\n", INVOCATION_NOTE[0]);
    for (keys, with_result) in [(String::new(), ""), (format!(", {schema}"), result)] {
        let universal = |catalog: &str| {
            counting(&format!(", \"invocation\": \"universal\", \"catalog\": \"{catalog}\"{keys}")).load().expect("it is sound")
        };
        let configs = universal("full");
        let of = |tool: &str| input(&configs, tool);
        // The result of a handoff is described apart, since it is that of tasks and of questions.
        let expected = format!(
            "=== TOOLS (4 available) ===\n\n• ask_master: Ask\n{}• handoff: Finish\n{}{with_result}• note: Note something\n{}\
             • word_count: Counts words → count\n{}{note}",
            of("ask_master"),
            of("handoff"),
            of("note"),
            of("word_count")
        );
        assert_eq!(about_tools(&configs), (expected, 1));
        let expected = format!(
            "=== TOOLS (5 available) ===\n\n• ask_master: Ask\n• handoff: Finish\n{}{with_result}• note: Note something\n\
             • read_tools: Describes tools\n{}• word_count: Counts words → count\n{note}{}",
            of("handoff"),
            of("read_tools"),
            describing("")
        );
        assert_eq!(about_tools(&universal("discover")), (expected, 1));
    }
}

#[test]
fn the_short_catalog_is_a_message_of_its_own_for_universal_agents() {
    let configs = counting(r#", "invocation": "universal", "catalog": "prompt""#).load().expect("it is sound");
    let (text, messages) = about_tools(&configs);
    assert_eq!(messages, 2);
    let list = "\nYou have access to the following tools:\n- ask_master: Ask\n- handoff: Finish\n- note: Note something\n\
                - read_tools: Describes tools\n- word_count: Counts words\n";
    assert!(text.starts_with(list), "{text}");
    let end = "\nAfter a result, use the next tool or answer. An answer in plain text, without JSON, ends your work.\n";
    assert!(text.ends_with(&format!("{}{end}", describing(""))), "{text}");
    for keys in [r#", "catalog": "prompt""#, r#", "invocation": "native", "catalog": "prompt""#] {
        let told = counting(keys).faults();
        let expected = "error B0109: the catalog \"prompt\" explains calls by JSON in a text, but the agent is native";
        assert!(told.contains(expected) && told.contains("agents/counter.json:2:") && told.ends_with("\n1 error"), "{told}");
    }
}

#[test]
fn an_agent_is_granted_the_tool_that_describes_others_where_it_lacks_definitions() {
    let granted = |keys: &str, tools: &str| {
        let all = r#"["word_count", "handoff", "ask_master", "note"]"#;
        let configs = counting(keys).edited("agents/counter.json", all, tools).load().expect("it is sound");
        configs.agents["counter"].tools.keys().map(ToolId::as_str).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(granted(r#", "catalog": "discover""#, r#"["note", "handoff"]"#), "handoff note read_tools");
    assert_eq!(granted(r#", "catalog": "discover""#, r#"["handoff"]"#), "handoff", "it is known at once");
    assert_eq!(granted(r#", "catalog": "full""#, r#"["note", "handoff"]"#), "handoff note");
}
