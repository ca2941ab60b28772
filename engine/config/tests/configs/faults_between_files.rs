//! Faults between files: what files say of each other.

use baton_config::Role;

use crate::support::{NOTE, check, sound};

// (6) Names that are unknown, reserved by the engine, or used twice.

#[test]
fn an_unknown_tool_names_the_nearest() {
    check(
        sound().edited("agents/counter.json", "\"word_count\"", "\"wordcount\", \"root\", \"note\""),
        r#"
error B0119: agent "counter" is granted the unknown tool "wordcount"
   ┌─ demo/agents/counter.json:6:13
 6 │   "tools": ["wordcount", "root", "note", "handoff", "ask_master", "note"],
   │             ^^^^^^^^^^^ did you mean "word_count"?
error B0122: "root" cannot be granted to an agent: it is the engine's own entry point
   ┌─ demo/agents/counter.json:6:26
 6 │   "tools": ["wordcount", "root", "note", "handoff", "ask_master", "note"],
   │                          ^^^^^^
error B0123: tool "note" is granted twice
   ┌─ demo/agents/counter.json:6:67
 6 │   "tools": ["wordcount", "root", "note", "handoff", "ask_master", "note"],
   │                                                                   ^^^^^^
3 errors
"#,
    );
}

#[test]
fn a_slip_of_the_pen_hides_nothing_else_that_is_wrong_in_the_file() {
    let faulty = sound()
        .edited("agents/counter.json", "\"word_count\"", "\"wordcount\"")
        .edited("agents/counter.json", "\"description\"", "\"descripton\"")
        .edited("agents/counter.json", "\"turns\": 7", "\"turns\": \"7\"");
    let shown = faulty.faults();
    for fault in ["unknown tool \"wordcount\"", "unknown key \"descripton\"", "\"turns\" is of the wrong type", "3 errors"] {
        assert!(shown.contains(fault), "{fault} is missing:\n{shown}");
    }
}

#[test]
fn an_unknown_agent_names_the_nearest() {
    check(
        sound().edited("job.json", "\"root\": \"lead\"", "\"root\": \"led\"").edited("agents/lead.json", "route_to_counter", "route_to_couter").with(Role::Tool, "tools/ask_counter.json", r#"{ "tool_id": "ask_counter", "type": "agent_as_tool", "description": "d", "agent": "conter", "input_schema": { "type": "object", "properties": { "documents": { "type": "array" } } } }"#),
        r#"
error B0119: agent "lead" is granted the unknown tool "route_to_couter"
   ┌─ demo/agents/lead.json:6:13
 6 │   "tools": ["route_to_couter", "handoff"]
   │             ^^^^^^^^^^^^^^^^^ did you mean "route_to_counter"?
error B0120: the root agent "led" is unknown
   ┌─ demo/job.json:4:11
 4 │   "root": "led",
   │           ^^^^^ did you mean "lead"?
error B0120: tool "ask_counter" delegates to the unknown agent "conter"
   ┌─ demo/tools/ask_counter.json:1:83
 1 │ as_tool", "description": "d", "agent": "conter", "input_schema": { "type": "object", "properties": { "documents": { "typ
   │                                        ^^^^^^^^ did you mean "counter"?
error B0131: a tool of type agent_as_tool needs the input "request"
   ┌─ demo/tools/ask_counter.json:1:129
 1 │ ", "input_schema": { "type": "object", "properties": { "documents": { "type": "array" } } } }
   │                                        ^^^^^^^^^^^^
error B0131: the input "documents" of a tool of type agent_as_tool must be an array of strings: paths
   ┌─ demo/tools/ask_counter.json:1:145
 1 │ ": { "type": "object", "properties": { "documents": { "type": "array" } } } }
   │                                        ^^^^^^^^^^^
5 errors
"#,
    );
}

#[test]
fn an_unknown_model_names_the_nearest() {
    check(
        sound().edited("agents/lead.json", "\"model\": \"scripted\"", "\"model\": \"script\""),
        r#"
error B0121: agent "lead" uses the model "script", which the job does not define
   ┌─ demo/agents/lead.json:4:12
 4 │   "model": "script",
   │            ^^^^^^^^ did you mean "scripted"?
1 error
"#,
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
        r#"
error B0122: tool "root" cannot be configured: it is the engine's own entry point
   ┌─ demo/tools/root.json:2:14
 2 │   "tool_id": "root",
   │              ^^^^^^
error B0122: a config that refines a tool cannot change its "agent"
   ┌─ demo/tools/route_to_counter.json:1:43
 1 │ { "tool_id": "route_to_counter", "agent": "lead", "type": "handoff" }
   │                                           ^^^^^^ expected "counter", found "lead"
error B0122: a config that refines a tool cannot change its "type"
   ┌─ demo/tools/route_to_counter.json:1:59
 1 │ { "tool_id": "route_to_counter", "agent": "lead", "type": "handoff" }
   │                                                           ^^^^^^^^^ expected "agent_as_tool", found "handoff"
error B0120: tool "route_to_nobody" delegates to the unknown agent "nobody"
   ┌─ demo/tools/route_to_nobody.json:1:14
 1 │ { "tool_id": "route_to_nobody" }
   │              ^^^^^^^^^^^^^^^^^ expected one of "counter", "lead"
4 errors
"#,
    );
}

#[test]
fn ids_that_differ_only_by_dashes_are_refused() {
    check(
        sound().with(Role::Tool, "tools/word-count.json", NOTE.replace("\"note\"", "\"word-count\"")),
        r#"
error B0123: tool "word-count" has the id of another one; - and _ count as the same
   ┌─ demo/tools/word-count.json:2:14
 2 │   "tool_id": "word-count",
   │              ^^^^^^^^^^^^ (the other at tool-configs/word_count.json:2:14)
1 error
"#,
    );
}

#[test]
fn agents_have_ids_of_their_own_in_the_job_and_in_its_project() {
    let agent = |id: &str| crate::support::COUNTER.replace("\"counter\"", &format!("\"{id}\""));
    let told = |role: Role, id: &str, file: &str| {
        let files = sound().with(Role::Agent, "agents/word_counter.json", agent("word_counter"));
        files.with(role, file, agent(id)).told()
    };
    let same = |id: &str| format!("error B0123: agent \"{id}\" has the id of another one; - and _ count as the same");
    let twin = told(Role::Agent, "word-counter", "agents/word-counter.json");
    assert!(twin.contains(&same("word-counter")) && twin.contains("(the other at demo/agents/word_counter.json:2:15)"), "{twin}");
    let shared = told(Role::SharedAgent, "word-counter", "agents/word-counter.json");
    assert!(shared.contains(&same("word_counter")) && shared.ends_with("\n1 error"), "{shared}");
    let again = told(Role::Agent, "word_counter", "agents/again.json");
    assert!(again.contains(&same("word_counter")) && again.contains("agents/again.json:2:15"), "{again}");
    assert_eq!(told(Role::SharedAgent, "word_counter", "agents/shared/word_counter.json"), "", "the job's file refines it");
}

#[test]
fn a_file_is_named_after_its_id() {
    check(
        sound().with(Role::Tool, "tools/notes.json", NOTE.replace("\"note\"", "\"memo\"")),
        r#"
error B0124: the file is named notes.json, but its id is "memo"
   ┌─ demo/tools/notes.json:2:14
 2 │   "tool_id": "memo",
   │              ^^^^^^ expected "notes", or a file named memo.json
1 error
"#,
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
        r#"
error B0131: the input "question" of a tool of type ask_master must be required
   ┌─ tool-configs/ask_master.json:5:19
 5 │   "parameters": { "question": { "type": "string", "description": "The question", "required": false } }
   │                   ^^^^^^^^^^
error B0131: a tool of type handoff needs the input "result"
   ┌─ tool-configs/handoff.json:5:3
 5 │   "parameters": {
   │   ^^^^^^^^^^^^
2 errors
"#,
    );
}

// (7) Templates.

#[test]
fn a_template_that_cannot_be_read_is_told_at_its_place() {
    check(
        sound().edited("prompts/lead.md", "{% endfor %}", "\n{% endfr %}"),
        r"
error B0125: the template cannot be read: unknown statement endfr
   ┌─ demo/prompts/lead.md:2:4
 2 │ {% endfr %}in {{ job.id }}.
   │    ^^^^^
1 error
",
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
        r#"
error B0126: the template uses "agent.name", which is not defined
   ┌─ demo/agents/counter.json:5:32
 5 │   "system_prompt": "You are {{ agent.name }}. The year is {{ inputs.year }}.",
   │                                ^^^^^^^^^^ expected one of "job.id", "job.description", "agents", "inputs.year", "agent.id", "agent.description", "tools"
error B0126: the template uses "inputs.yaer", which is not defined
   ┌─ demo/job.json:6:36
 6 │     "text": "Count the words of {{ inputs.yaer }}.",
   │                                    ^^^^^^^^^^^ did you mean "inputs.year"?
error B0126: the template uses "jobs.id", which is not defined
   ┌─ demo/prompts/lead.md:2:2
 2 │  jobs.id }}.
   │  ^^^^^^^ did you mean "job.id"?
3 errors
"#,
    );
}

// (8) Files that are missing.

#[test]
fn missing_files_are_told_together() {
    check(
        sound().without("documents/notes.txt").without("prompts/lead.md").without("demo.script.json"),
        r#"
error B0127: the prompt file "prompts/lead.md" does not exist
   ┌─ demo/agents/lead.json:5:30
 5 │   "system_prompt": { "file": "prompts/lead.md" },
   │                              ^^^^^^^^^^^^^^^^^ expected a file demo/prompts/lead.md
error B0127: the document "notes.txt" does not exist
   ┌─ demo/job.json:9:17
 9 │   "documents": ["notes.txt"],
   │                 ^^^^^^^^^^^ expected a file demo/documents/notes.txt or demo/notes.txt
error B0127: the script file "demo.script.json" does not exist
    ┌─ demo/job.json:10:63
 10 │   "models": { "scripted": { "provider": "scripted", "script": "demo.script.json" } }
    │                                                               ^^^^^^^^^^^^^^^^^^ expected a file demo/demo.script.json
3 errors
"#,
    );
}

#[test]
fn a_path_that_leaves_the_folder_is_refused() {
    check(
        sound().edited("job.json", "notes.txt", "../notes.txt").edited("agents/lead.json", "prompts/lead.md", "/etc/passwd"),
        r#"
error B0130: "/etc/passwd" cannot be a prompt file: it is absolute; paths are relative to the workspace
   ┌─ demo/agents/lead.json:5:30
 5 │   "system_prompt": { "file": "/etc/passwd" },
   │                              ^^^^^^^^^^^^^
error B0130: "../notes.txt" cannot be a document path: a component consists of dots
   ┌─ demo/job.json:9:17
 9 │   "documents": ["../notes.txt"],
   │                 ^^^^^^^^^^^^^^
2 errors
"#,
    );
}

#[test]
fn a_script_that_cannot_be_followed_is_told_at_its_place() {
    check(
        sound().with(Role::ModelScript, "demo.script.json", "{\n  \"bad\": 1\n}"),
        r#"
error B0128: this script cannot be followed
   ┌─ demo/demo.script.json:2:10
 2 │   "bad": 1
   │          ^
1 error
"#,
    );
}

// What people are shown of a call.

/// Returns a tool that writes documents, with `title` and `changes`.
fn publishing(title: &str, changes: &str) -> String {
    format!(
        r#"{{
  "tool_id": "publish",
  "type": "function_tool",
  "title": {title},
  "description": "d",
  "input_schema": {{ "type": "object", "properties": {{ "path": {{ "type": "string" }}, "rows": {{ "type": "array" }}, "at": {{ "type": "integer" }} }} }},
  "writes": true,
  "changes": {changes},
  "exec": {{ "command": ["cat"] }}
}}"#
    )
}

#[test]
fn a_title_is_one_line_and_changes_name_inputs_of_the_right_type() {
    let with = |title: &str, changes: &str| sound().with(Role::Tool, "tools/publish.json", publishing(title, changes));
    with("\"Publish\"", r#"{ "path": "path", "block": "at", "data": "rows" }"#).load().expect("it is sound");
    check(
        with(r#""Publish\nall""#, r#"{ "path": "pth", "content": "rows", "block": "at", "encoding": "path" }"#),
        r#"
error B0107: "title" is not well-formed
   ┌─ demo/tools/publish.json:4:12
 4 │   "title": "Publish\nall",
   │            ^^^^^^^^^^^^^^ expected one line without spaces around it, found "Publish\nall"
error B0131: the tool has no input "pth"
   ┌─ demo/tools/publish.json:8:24
 8 │   "changes": { "path": "pth", "content": "rows", "block": "at", "encoding": "path" },
   │                        ^^^^^ expected the name of an input
error B0115: the input "rows" is of another type
   ┌─ demo/tools/publish.json:8:42
 8 │   "changes": { "path": "pth", "content": "rows", "block": "at", "encoding": "path" },
   │                                          ^^^^^^ expected an input of type string
error B0109: "content" and "block" exclude each other
   ┌─ demo/tools/publish.json:8:50
 8 │   "changes": { "path": "pth", "content": "rows", "block": "at", "encoding": "path" },
   │                                                  ^^^^^^^ expected one of them
4 errors
"#,
    );
}

#[test]
fn changes_belong_to_a_tool_that_writes_and_a_refinement_keeps_them() {
    let publish = publishing("\"Publish\"", r#"{ "path": "path", "encoding": "path", "data": "rows" }"#);
    check(
        sound().with(Role::Tool, "tools/publish.json", publish.replace("\"writes\": true", "\"writes\": false")),
        r#"
error B0109: "changes" does not apply to a tool that writes no documents
   ┌─ demo/tools/publish.json:8:3
 8 │   "changes": { "path": "path", "encoding": "path", "data": "rows" },
   │   ^^^^^^^^^ expected this key only with "writes": true
error B0109: "encoding" needs "content"
   ┌─ demo/tools/publish.json:8:32
 8 │   "changes": { "path": "path", "encoding": "path", "data": "rows" },
   │                                ^^^^^^^^^^ expected both or neither
error B0109: "data" needs "block"
   ┌─ demo/tools/publish.json:8:52
 8 │   "changes": { "path": "path", "encoding": "path", "data": "rows" },
   │                                                    ^^^^^^ expected both or neither
3 errors
"#,
    );
    let built_in = |changes: &str| sound().edited("tool-configs/word_count.json", "\"effect\"", &format!("{changes}\"effect\""));
    let refining = r#"{ "tool_id": "word_count", "writes": true, "changes": { "path": "text" } }"#;
    let refined = |changes: &str| built_in(changes).with(Role::Tool, "tools/word_count.json", refining);
    refined(r#""writes": true, "changes": { "path": "text" }, "#).load().expect("it says the same");
    check(
        refined(r#""writes": true, "changes": { "path": "text", "content": "text" }, "#),
        r#"
error B0122: a config that refines a tool cannot change its "changes"
   ┌─ demo/tools/word_count.json:1:55
 1 │ { "tool_id": "word_count", "writes": true, "changes": { "path": "text" } }
   │                                                       ^ expected {"path":"text","content":"text"}, found {"path":"text"}
1 error
"#,
    );
    check(
        refined(""),
        r#"
error B0122: a config that refines a tool cannot change its "changes"
   ┌─ demo/tools/word_count.json:1:55
 1 │ { "tool_id": "word_count", "writes": true, "changes": { "path": "text" } }
   │                                                       ^ expected none
1 error
"#,
    );
}
