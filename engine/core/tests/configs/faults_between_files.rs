//! Faults (6) to (9) of DESIGN §5: what files say of each other.

use baton_core::config::Role;

use crate::support::{NOTE, check, sound};

// (6) Names that nobody has, that the engine keeps, or that two have.

#[test]
fn an_unknown_tool_names_the_nearest() {
    check(
        sound().edited("agents/counter.json", "\"word_count\"", "\"wordcount\", \"root\", \"note\""),
        r##"
?
"##,
    );
}

#[test]
fn an_unknown_agent_names_the_nearest() {
    check(
        sound().edited("job.json", "\"root\": \"lead\"", "\"root\": \"led\"").edited("agents/lead.json", "route_to_counter", "route_to_couter").with(Role::Tool, "tools/ask_counter.json", r#"{ "tool_id": "ask_counter", "type": "agent_as_tool", "description": "d", "agent": "conter", "input_schema": { "type": "object", "properties": { "documents": { "type": "array" } } } }"#),
        r##"
?
"##,
    );
}

#[test]
fn an_unknown_model_names_the_nearest() {
    check(
        sound().edited("agents/lead.json", "\"model\": \"scripted\"", "\"model\": \"script\""),
        r##"
?
"##,
    );
}

#[test]
fn reserved_names_are_refused() {
    check(
        sound()
            .with(Role::Tool, "tools/route_to_nobody.json", r#"{ "tool_id": "route_to_nobody" }"#)
            .with(Role::Tool, "tools/root.json", NOTE.replace("note", "root"))
            .with(
                Role::Tool,
                "tools/route_to_counter.json",
                r#"{ "tool_id": "route_to_counter", "agent": "lead", "type": "handoff" }"#,
            ),
        r##"
?
"##,
    );
}

#[test]
fn ids_that_differ_only_by_dashes_are_refused() {
    check(
        sound().with(Role::Tool, "tools/word-count.json", NOTE.replace("\"note\"", "\"word-count\"")),
        r##"
?
"##,
    );
}

#[test]
fn a_file_is_named_after_its_id() {
    check(
        sound().with(Role::Tool, "tools/notes.json", NOTE.replace("\"note\"", "\"memo\"")),
        r##"
?
"##,
    );
}

#[test]
fn types_need_the_inputs_that_they_are_read_for() {
    check(
        sound().edited("tool-configs/handoff.json", "\"result\"", "\"outcome\"").edited(
            "tool-configs/ask_master.json",
            "\"required\": true",
            "\"required\": false",
        ),
        r##"
?
"##,
    );
}

// (7) Templates.

#[test]
fn a_template_that_cannot_be_read_is_told_at_its_place() {
    check(
        sound().edited("prompts/lead.md", "{% endfor %}", "\n{% endfr %}"),
        r##"
?
"##,
    );
}

#[test]
fn an_undefined_variable_names_the_nearest() {
    check(
        sound().edited("job.json", "inputs.year", "inputs.yaer").edited("agents/counter.json", "agent.id", "agent.name").edited(
            "prompts/lead.md",
            "job.id",
            "\n jobs.id",
        ),
        r##"
?
"##,
    );
}

// (8) Files that are missing.

#[test]
fn missing_files_are_told_together() {
    check(
        sound().without("documents/notes.txt").without("prompts/lead.md").without("demo.script.json"),
        r##"
?
"##,
    );
}

#[test]
fn a_path_that_leaves_the_folder_is_refused() {
    check(
        sound().edited("job.json", "notes.txt", "../notes.txt").edited("agents/lead.json", "prompts/lead.md", "/etc/passwd"),
        r##"
?
"##,
    );
}

#[test]
fn a_script_that_cannot_be_followed_is_told_at_its_place() {
    check(
        sound().with(Role::ModelScript, "demo.script.json", "{\n  \"bad\": 1\n}"),
        r##"
?
"##,
    );
}

// (9) Limits that cannot be kept.

#[test]
fn a_limit_of_money_without_a_price_is_refused() {
    check(
        sound().edited("agents/counter.json", "\"turns\": 7", "\"cost_usd\": 1.5"),
        r##"
?
"##,
    );
}
