//! Faults between configs and code: configs against functions and their own examples.

use crate::support::{WORD_COUNT, check, sound};

// (2) Configs without an executor, or with more than there may be.

#[test]
fn a_function_tool_that_nothing_runs_is_refused() {
    check(
        sound().functions(&[]),
        r#"
error B0110: the function tool "word_count" has no function: this program links none of that name
   ┌─ tool-configs/word_count.json:2:14
 2 │   "tool_id": "word_count",
   │              ^^^^^^^^^^^^ expected a #[tool] function or "exec"
1 error
"#,
    );
}

#[test]
fn two_executors_are_refused() {
    check(
        sound().edited("tool-configs/word_count.json", "\"effect\": \"pure\"", "\"exec\": { \"command\": [\"wc\"] }"),
        r#"
error B0111: tool "word_count" has two executors: "exec" and fn word_count
    ┌─ tool-configs/word_count.json:11:3
 11 │   "exec": { "command": ["wc"] }
    │   ^^^^^^ expected one of them  (tools/src/word_count.rs:4)
1 error
"#,
    );
}

#[test]
fn a_type_that_runs_no_code_has_no_executor() {
    check(
        sound().edited("tools/note.json", "\"input_schema\"", "\"exec\": { \"command\": [\"wc\"] }, \"input_schema\""),
        r#"
error B0111: a tool of type non_function_tool runs no code, so it has no "exec"
   ┌─ demo/tools/note.json:5:3
 5 │   "exec": { "command": ["wc"] }, "input_schema": { "type": "object", "properties": { "text": { "type": "string", "patter
   │   ^^^^^^
1 error
"#,
    );
}

#[test]
fn a_function_of_a_type_that_runs_no_code_is_refused() {
    check(
        sound().edited("tool-configs/word_count.json", "function_tool", "non_function_tool").edited(
            "tool-configs/word_count.json",
            ",\n  \"effect\": \"pure\"",
            "",
        ),
        r#"
error B0111: tool "word_count" is of type non_function_tool, which runs no code, but fn word_count implements it
   ┌─ tool-configs/word_count.json:3:11
 3 │   "type": "non_function_tool",
   │           ^^^^^^^^^^^^^^^^^^^ expected "function_tool"  (tools/src/word_count.rs:4)
1 error
"#,
    );
}

// (3) Functions without a config.

#[test]
fn a_function_without_a_config_is_refused() {
    check(
        sound().without("tool-configs/word_count.json").edited("agents/counter.json", "\"word_count\", ", ""),
        r"
error B0112: fn word_count has no tool config
   ┌─ tools/src/word_count.rs:4
   │ expected a file tool-configs/word_count.json
1 error
",
    );
}

#[test]
fn two_functions_of_one_id_are_refused() {
    check(
        sound().functions(&[&WORD_COUNT, &WORD_COUNT]),
        r"
error B0113: fn word_count implements tool word_count, which another function already implements
   ┌─ tools/src/word_count.rs:4
   │ (tools/src/word_count.rs:4)
1 error
",
    );
}

// (4) Parameters that disagree with the function's signature.

#[test]
fn a_renamed_parameter_is_one_fault() {
    check(
        sound().edited("tool-configs/word_count.json", "\"text\": {", "\"txt\": {").edited(
            "tool-configs/word_count.json",
            "\"text\": \"a b\"",
            "\"txt\": \"a b\"",
        ),
        r#"
error B0102: parameter "txt" is not in fn word_count
   ┌─ tool-configs/word_count.json:6:5
 6 │     "txt": { "type": "string", "description": "Input text", "required": true },
   │     ^^^^^ did you mean "text"?  (tools/src/word_count.rs:4)
1 error
"#,
    );
}

#[test]
fn a_parameter_of_another_type_or_requiredness_is_refused() {
    check(
        sound()
            .edited("tool-configs/word_count.json", "\"type\": \"integer\"", "\"type\": \"number\"")
            .edited("tool-configs/word_count.json", "\"required\": false", "\"required\": true")
            .edited("tool-configs/word_count.json", "{ \"text\": \"a b\"", "{ \"limit\": 1, \"text\": \"a b\""),
        r#"
error B0115: parameter "limit" has another type in fn word_count
   ┌─ tool-configs/word_count.json:7:24
 7 │     "limit": { "type": "number", "description": "At most", "required": true }
   │                        ^^^^^^^^ expected integer, found number  (tools/src/word_count.rs:4)
error B0116: parameter "limit" is optional in fn word_count, but required here
   ┌─ tool-configs/word_count.json:7:72
 7 │     "limit": { "type": "number", "description": "At most", "required": true }
   │                                                                        ^^^^ expected "required": false  (tools/src/word_count.rs:4)
2 errors
"#,
    );
}

#[test]
fn a_parameter_that_the_config_lacks_is_refused() {
    check(
        sound().edited(
            "tool-configs/word_count.json",
            ",\n    \"limit\": { \"type\": \"integer\", \"description\": \"At most\", \"required\": false }",
            "",
        ),
        r#"
error B0114: parameter "limit" of fn word_count is missing
   ┌─ tool-configs/word_count.json:5:3
 5 │   "parameters": {
   │   ^^^^^^^^^^^^ expected "limit" of type integer  (tools/src/word_count.rs:4)
1 error
"#,
    );
}

// (5) Examples that break their own schema.

#[test]
fn an_example_that_breaks_its_schema_is_refused() {
    check(
        sound().edited(
            "tool-configs/word_count.json",
            "{ \"text\": \"a b\" }, \"output\": { \"count\": 2 }",
            "{ \"text\": 7 }, \"output\": { \"count\": \"2\", \"size\": 1 }",
        ),
        r#"
error B0117: the example's input breaks the tool's schema: 7 is not a string
    ┌─ tool-configs/word_count.json:10:65
 10 │   "examples": [{ "explanation": "Two words", "input": { "text": 7 }, "output": { "count": "2", "size": 1 } }],
    │                                                                 ^
error B0117: the example's output breaks the tool's schema: unknown key "size"; the keys are count
    ┌─ tool-configs/word_count.json:10:80
 10 │   "examples": [{ "explanation": "Two words", "input": { "text": 7 }, "output": { "count": "2", "size": 1 } }],
    │                                                                                ^
error B0117: the example's output breaks the tool's schema: "2" is not an integer
    ┌─ tool-configs/word_count.json:10:91
 10 │   "examples": [{ "explanation": "Two words", "input": { "text": 7 }, "output": { "count": "2", "size": 1 } }],
    │                                                                                           ^^^
3 errors
"#,
    );
}

#[test]
fn a_default_that_breaks_its_parameter_is_refused() {
    check(
        sound().edited(
            "tool-configs/word_count.json",
            "\"description\": \"At most\"",
            "\"description\": \"At most\", \"default\": \"x\", \"enum\": [1, \"y\"]",
        ),
        r#"
error B0117: the default does not match its parameter's schema: "x" is not an integer
   ┌─ tool-configs/word_count.json:7:72
 7 │     "limit": { "type": "integer", "description": "At most", "default": "x", "enum": [1, "y"], "required": false }
   │                                                                        ^^^
error B0117: "y" is allowed here, but it is not of type integer
   ┌─ tool-configs/word_count.json:7:89
 7 │     "limit": { "type": "integer", "description": "At most", "default": "x", "enum": [1, "y"], "required": false }
   │                                                                                         ^^^
2 errors
"#,
    );
}
