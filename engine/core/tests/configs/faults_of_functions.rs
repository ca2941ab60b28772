//! Faults (2) to (5) of DESIGN §5: configs against functions and their own examples.

use crate::support::{WORD_COUNT, check, sound};

// (2) Configs without an executor, or with more than there may be.

#[test]
fn a_function_tool_that_nothing_runs_is_refused() {
    check(
        sound().functions(&[]),
        r##"
?
"##,
    );
}

#[test]
fn two_executors_are_refused() {
    check(
        sound().edited("tool-configs/word_count.json", "\"effect\": \"pure\"", "\"exec\": { \"command\": [\"wc\"] }"),
        r##"
?
"##,
    );
}

#[test]
fn a_type_that_runs_no_code_has_no_executor() {
    check(
        sound().edited("tools/note.json", "\"input_schema\"", "\"exec\": { \"command\": [\"wc\"] }, \"input_schema\""),
        r##"
?
"##,
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
        r##"
?
"##,
    );
}

// (3) Functions without a config.

#[test]
fn a_function_without_a_config_is_refused() {
    check(
        sound().without("tool-configs/word_count.json").edited("agents/counter.json", "\"word_count\", ", ""),
        r##"
?
"##,
    );
}

#[test]
fn two_functions_of_one_id_are_refused() {
    check(
        sound().functions(&[&WORD_COUNT, &WORD_COUNT]),
        r##"
?
"##,
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
        r##"
?
"##,
    );
}

#[test]
fn a_parameter_of_another_type_or_requiredness_is_refused() {
    check(
        sound()
            .edited("tool-configs/word_count.json", "\"type\": \"integer\"", "\"type\": \"number\"")
            .edited("tool-configs/word_count.json", "\"required\": false", "\"required\": true")
            .edited("tool-configs/word_count.json", "{ \"text\": \"a b\"", "{ \"limit\": 1, \"text\": \"a b\""),
        r##"
?
"##,
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
        r##"
?
"##,
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
        r##"
?
"##,
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
        r##"
?
"##,
    );
}
