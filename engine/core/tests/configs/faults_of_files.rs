//! Faults (1) of DESIGN §5: what one file says wrong by itself.

use crate::support::{check, sound};

// (1) Unknown and duplicate keys, wrong types, values out of range.

#[test]
fn an_unknown_key_names_the_nearest() {
    check(
        sound().edited("agents/lead.json", "\"description\"", "\"descripton\""),
        r##"
?
"##,
    );
}

#[test]
fn a_key_that_stands_twice_names_both_places() {
    check(
        sound().edited("agents/counter.json", "\"turns\": 7", "\"turns\": 7, \"turns\": 8"),
        r##"
?
"##,
    );
}

#[test]
fn a_wrong_type_names_both_types() {
    check(
        sound().edited("job.json", "\"root\": \"lead\"", "\"root\": 7"),
        r##"
?
"##,
    );
}

#[test]
fn a_null_is_no_value() {
    check(
        sound().edited("agents/counter.json", "{ \"turns\": 7 }", "null"),
        r##"
?
"##,
    );
}

#[test]
fn a_value_out_of_range_names_the_bound() {
    check(
        sound().edited("agents/counter.json", "\"turns\": 7", "\"turns\": 0"),
        r##"
?
"##,
    );
}

#[test]
fn a_number_too_large_for_its_type_is_out_of_range() {
    check(
        sound().edited("agents/counter.json", "\"turns\": 7", "\"depth\": 4294967296, \"tokens\": 18446744073709551616"),
        r##"
?
"##,
    );
}

#[test]
fn an_unknown_word_names_the_nearest() {
    check(
        sound().edited("tool-configs/word_count.json", "function_tool", "funtion_tool"),
        r##"
?
"##,
    );
}

#[test]
fn the_engines_own_type_cannot_be_configured() {
    check(
        sound().edited("tool-configs/handoff.json", "\"type\": \"handoff\"", "\"type\": \"root\""),
        r##"
?
"##,
    );
}

#[test]
fn an_id_of_another_form_is_refused() {
    check(
        sound().edited("agents/lead.json", "\"agent_id\": \"lead\"", "\"agent_id\": \"Lead\""),
        r##"
?
"##,
    );
}

#[test]
fn keys_that_exclude_each_other_are_told() {
    check(
        sound().edited("tools/note.json", "\"input_schema\"", "\"parameters\": {}, \"effect\": \"pure\", \"input_schema\""),
        r##"
?
"##,
    );
}

#[test]
fn a_schema_that_is_none_is_told_at_its_place() {
    check(
        sound().edited("tools/note.json", "\"type\": \"string\"", "\"type\": \"strng\""),
        r##"
?
"##,
    );
}

#[test]
fn a_parameter_in_the_wrong_form_is_told_at_its_place() {
    check(
        sound().edited("tool-configs/word_count.json", "\"type\": \"integer\"", "\"type\": \"int\", \"items\": 3"),
        r##"
?
"##,
    );
}
