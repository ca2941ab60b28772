//! Faults of a single file.

use crate::support::{check, sound};

// (1) Unknown and duplicate keys, wrong types, values out of range.

#[test]
fn an_unknown_key_names_the_nearest() {
    check(
        sound().edited("agents/lead.json", "\"description\"", "\"descripton\""),
        r#"
error B0103: unknown key "descripton"
   ┌─ demo/agents/lead.json:3:3
 3 │   "descripton": "Leads",
   │   ^^^^^^^^^^^^ did you mean "description"?
1 error
"#,
    );
}

#[test]
fn a_key_that_stands_twice_names_both_places() {
    check(
        sound().edited("agents/counter.json", "\"turns\": 7", "\"turns\": 7, \"turns\": 8"),
        r#"
error B0104: key "turns" is used twice
   ┌─ demo/agents/counter.json:7:27
 7 │   "limits": { "turns": 7, "turns": 8 }
   │                           ^^^^^^^ (first at 7:15)
1 error
"#,
    );
}

#[test]
fn a_wrong_type_names_both_types() {
    check(
        sound().edited("job.json", "\"root\": \"lead\"", "\"root\": 7"),
        r#"
error B0105: "root" is of the wrong type
   ┌─ demo/job.json:4:11
 4 │   "root": 7,
   │           ^ expected a string, found an integer
1 error
"#,
    );
}

#[test]
fn a_null_is_no_value() {
    check(
        sound().edited("agents/counter.json", "{ \"turns\": 7 }", "null"),
        r#"
error B0105: "limits" is of the wrong type
   ┌─ demo/agents/counter.json:7:13
 7 │   "limits": null
   │             ^^^^ expected an object, found null
1 error
"#,
    );
}

#[test]
fn a_value_out_of_range_names_the_bound() {
    check(
        sound().edited("agents/counter.json", "\"turns\": 7", "\"turns\": 0"),
        r#"
error B0107: "turns" is out of range
   ┌─ demo/agents/counter.json:7:24
 7 │   "limits": { "turns": 0 }
   │                        ^ expected at least 1, found 0
1 error
"#,
    );
}

#[test]
fn a_number_too_large_for_its_type_is_out_of_range() {
    check(
        sound().edited("agents/counter.json", "\"turns\": 7", "\"depth\": 4294967296, \"tokens\": 18446744073709551616"),
        r#"
error B0107: "depth" is out of range
   ┌─ demo/agents/counter.json:7:24
 7 │   "limits": { "depth": 4294967296, "tokens": 18446744073709551616 }
   │                        ^^^^^^^^^^ expected at most 10000, found 4294967296
error B0107: the integer is too large to be kept exactly
   ┌─ demo/agents/counter.json:7:46
 7 │   "limits": { "depth": 4294967296, "tokens": 18446744073709551616 }
   │                                              ^^^^^^^^^^^^^^^^^^^^ expected an integer of 64 bits
2 errors
"#,
    );
}

#[test]
fn an_unknown_word_names_the_nearest() {
    check(
        sound().edited("tool-configs/word_count.json", "function_tool", "funtion_tool"),
        r#"
error B0108: "type" cannot be "funtion_tool"
   ┌─ tool-configs/word_count.json:3:11
 3 │   "type": "funtion_tool",
   │           ^^^^^^^^^^^^^^ did you mean "function_tool"?
1 error
"#,
    );
}

#[test]
fn the_engines_own_type_cannot_be_configured() {
    check(
        sound().edited("tool-configs/handoff.json", "\"type\": \"handoff\"", "\"type\": \"root\""),
        r#"
error B0108: "type" cannot be "root"
   ┌─ tool-configs/handoff.json:3:11
 3 │   "type": "root",
   │           ^^^^^^ expected one of "function_tool", "non_function_tool", "handoff", "agent_as_tool", "ask_master"
1 error
"#,
    );
}

#[test]
fn an_id_of_another_form_is_refused() {
    check(
        sound().edited("agents/lead.json", "\"agent_id\": \"lead\"", "\"agent_id\": \"Lead\""),
        r#"
error B0107: "agent_id" is not well-formed
   ┌─ demo/agents/lead.json:2:15
 2 │   "agent_id": "Lead",
   │               ^^^^^^ expected small letters and digits in words joined by _ or -, found "Lead"
1 error
"#,
    );
}

#[test]
fn keys_that_exclude_each_other_are_told() {
    check(
        sound().edited("tools/note.json", "\"input_schema\"", "\"parameters\": {}, \"effect\": \"pure\", \"input_schema\""),
        r#"
error B0109: "effect" does not apply to a tool of type non_function_tool
   ┌─ demo/tools/note.json:5:21
 5 │   "parameters": {}, "effect": "pure", "input_schema": { "type": "object", "properties": { "text": { "type": "string", "p
   │                     ^^^^^^^^ expected this key only in a function_tool
error B0109: "parameters" and "input_schema" exclude each other
   ┌─ demo/tools/note.json:5:39
 5 │   "parameters": {}, "effect": "pure", "input_schema": { "type": "object", "properties": { "text": { "type": "string", "p
   │                                       ^^^^^^^^^^^^^^
2 errors
"#,
    );
}

#[test]
fn a_schema_that_is_none_is_told_at_its_place() {
    check(
        sound().edited("tools/note.json", "\"type\": \"string\"", "\"type\": \"strng\""),
        r#"
error B0118: `strng` is not a JSON type; did you mean `string`?
   ┌─ demo/tools/note.json:5:73
 5 │   "input_schema": { "type": "object", "properties": { "text": { "type": "strng", "pattern": "^[a-z ]+$" } } }
   │                                                                         ^^^^^^^
1 error
"#,
    );
}

#[test]
fn all_faults_of_a_schema_are_told_at_once_also_below_a_root_of_a_wrong_type() {
    check(
        sound().edited(
            "tools/note.json",
            "\"type\": \"object\", \"properties\": { \"text\": { \"type\": \"string\"",
            "\"type\": \"dict\", \"properties\": { \"a\": { \"$ref\": \"#/$defs/b\" }, \"text\": { \"type\": \"String\"",
        ),
        r##"
error B0118: `dict` is not a JSON type; did you mean `object`?
   ┌─ demo/tools/note.json:5:29
 5 │   "input_schema": { "type": "dict", "properties": { "a": { "$ref": "#/$defs/b" }, "text": { "type": "String", "pattern":
   │                             ^^^^^^
error B0118: "#/$defs/b" names no place in this schema
   ┌─ demo/tools/note.json:5:68
 5 │ "dict", "properties": { "a": { "$ref": "#/$defs/b" }, "text": { "type": "String", "pattern": "^[a-z ]+$" } } }
   │                                        ^^^^^^^^^^^
error B0118: `String` is not a JSON type; did you mean `string`?
   ┌─ demo/tools/note.json:5:101
 5 │ ref": "#/$defs/b" }, "text": { "type": "String", "pattern": "^[a-z ]+$" } } }
   │                                        ^^^^^^^^
3 errors
"##,
    );
}

#[test]
fn a_parameter_in_the_wrong_form_is_told_at_its_place() {
    check(
        sound().edited("tool-configs/word_count.json", "\"type\": \"integer\"", "\"type\": \"int\", \"items\": 3"),
        r#"
error B0108: "type" cannot be "int"
   ┌─ tool-configs/word_count.json:7:24
 7 │     "limit": { "type": "int", "items": 3, "description": "At most", "required": false }
   │                        ^^^^^ expected one of "string", "integer", "number", "boolean", "object", "array"
error B0105: "items" is of the wrong type
   ┌─ tool-configs/word_count.json:7:40
 7 │     "limit": { "type": "int", "items": 3, "description": "At most", "required": false }
   │                                        ^ expected an object, found an integer
2 errors
"#,
    );
}

/// Returns every fault of `files`, as people see them.
fn faults(files: crate::support::Files) -> String {
    files.load().expect_err("the files have a fault").to_string()
}

#[test]
fn a_join_that_is_none_says_where_it_stands() {
    for (written, named) in
        [("{ \"quorum\": 0 }", "quorum"), ("\"some\"", "first_success"), ("{ \"quorum\": \"two\" }", "quorum")]
    {
        let edited = sound().edited("agents/lead.json", "\"handoff\"]", &format!("\"handoff\"],\n  \"join\": {written}"));
        let told = faults(edited);
        assert!(told.contains("demo/agents/lead.json:7:") && told.contains(named) && told.contains("1 error"), "{told}");
    }
}

#[test]
fn a_grant_is_an_id_or_an_id_with_an_approval() {
    for (written, named) in [
        ("{ \"tool\": \"handoff\", \"approval\": \"nobody\" }", "master"),
        ("{ \"toll\": \"handoff\" }", "toll"),
        ("{ \"tool\": \"handof\" }", "did you mean \"handoff\""),
    ] {
        let told = faults(sound().edited("agents/lead.json", "\"handoff\"]", &format!("{written}]")));
        assert!(told.contains("demo/agents/lead.json:6:") && told.contains(named), "{told}");
    }
}

#[test]
fn what_a_tool_cannot_be_asked_about_is_told() {
    let note = sound().edited("tools/note.json", "\"description\"", "\"approval\": \"person\",\n  \"description\"");
    assert!(faults(note).contains("\"approval\" does not apply to a tool of type non_function_tool"));
    let granted = sound().edited("agents/counter.json", "\"note\"]", "{ \"tool\": \"note\", \"approval\": \"person\" }]");
    assert!(faults(granted).contains("\"approval\" does not apply to a tool of type non_function_tool"));
    let pure = sound().edited("tool-configs/word_count.json", "\"effect\"", "\"on_unknown_outcome\": \"ask\",\n  \"effect\"");
    assert!(faults(pure).contains("\"on_unknown_outcome\" does not apply here"));
    let retried = sound().edited("tool-configs/word_count.json", "\"effect\"", "\"on_failure\": \"return\",\n  \"effect\"");
    assert!(faults(retried).contains("\"on_failure\" does not apply to a tool of type function_tool"));
}

#[test]
fn a_list_with_a_key_is_not_shown() {
    for value in [r#"["sk-hush"]"#, r#"{"a": ["sk-hush"]}"#, r#"{"api_key": "hush"}"#] {
        for (path, piece) in
            [("agents/counter.json", r#""Counts""#), ("agents/counter.json", r#""scripted""#), ("job.json", r#""lead""#)]
        {
            let told = sound().edited(path, piece, value).faults();
            assert!(!told.contains("hush"), "{told}");
        }
    }
}

#[test]
fn an_element_of_a_list_that_may_be_a_key_is_not_shown() {
    let told = sound().edited("agents/counter.json", "\"note\"", "\"sk-hush\"").faults();
    assert!(told.contains("agent \"counter\" is granted the unknown tool the value") && !told.contains("hush"), "{told}");
}
