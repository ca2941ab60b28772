//! Messages of forms: every kind of slip, with the message that helps to correct it.

use baton_config::Role;

use crate::support::{check, sound};

/// Expects the one fault of a lead whose `piece` is replaced to hold `words`.
#[track_caller]
fn check_lead(piece: &str, by: &str, words: &[&str]) {
    let told = sound().edited("agents/lead.json", piece, by).faults();
    for words in words {
        assert!(told.contains(words), "{by}: {words} is not in\n{told}");
    }
    assert!(told.ends_with("\n1 error"), "{by}:\n{told}");
}

#[test]
fn a_missing_key_is_told_at_the_object_that_lacks_it() {
    check(
        sound().edited("agents/lead.json", "  \"model\": \"scripted\",\n", ""),
        r#"
error B0106: key "model" is missing
   ┌─ demo/agents/lead.json:1:1
 1 │ {
   │ ^ expected "model" and "system_prompt", or "program"
1 error
"#,
    );
}

#[test]
fn a_misspelt_key_that_is_needed_is_one_fault_and_a_missing_one_beside_it_another() {
    check(
        sound().edited("agents/lead.json", "\"model\"", "\"modle\"").edited(
            "agents/lead.json",
            "  \"description\": \"Leads\",\n",
            "",
        ),
        r#"
error B0106: key "description" is missing
   ┌─ demo/agents/lead.json:1:1
 1 │ {
   │ ^
error B0103: unknown key "modle"
   ┌─ demo/agents/lead.json:3:3
 3 │   "modle": "scripted",
   │   ^^^^^^^ did you mean "model"?
2 errors
"#,
    );
}

#[test]
fn every_bound_is_told_in_words_and_holds_on_both_sides() {
    let text = |length: usize| format!("\"{}\"", "é".repeat(length));
    let tags = |count: usize| format!("[{}]", vec!["\"t\""; count].join(","));
    let tool = |key: &str, value: &str| {
        sound().edited("tool-configs/word_count.json", "\"effect\"", &format!("\"{key}\": {value}, \"effect\"")).told()
    };
    for (key, right, wrong, words) in [
        ("timeout_seconds", "1", "0", "expected at least 1, found 0"),
        ("timeout_seconds", "86400", "86401", "expected at most 86400, found 86401"),
        ("category", &text(1), &text(0), "expected a text that is not empty, found \"\""),
        ("category", &text(64), &text(65), "expected at most 64 characters"),
        ("tags", &tags(64), &tags(65), "expected at most 64 elements"),
    ] {
        assert_eq!(tool(key, right), "", "{key}: {right}");
        let told = tool(key, wrong);
        assert!(told.contains(&format!("\"{key}\" is out of range")) && told.contains(words), "{key}: {told}");
    }
    let listed = sound().edited("tool-configs/word_count.json", "\"At most\"", "\"At most\", \"enum\": []").faults();
    assert!(listed.contains("\"enum\" is out of range") && listed.contains("expected at least 1 elements, found []"), "{listed}");
    let nameless = sound()
        .edited("job.json", "{ \"scripted\": { \"provider\": \"scripted\", \"script\": \"demo.script.json\" } }", "{}")
        .faults();
    assert!(
        nameless.contains("\"models\" is out of range") && nameless.contains("expected at least 1 keys, found {}"),
        "{nameless}"
    );
}

#[test]
fn a_number_with_a_fraction_is_no_integer() {
    check(
        sound().edited("agents/counter.json", "\"turns\": 7", "\"turns\": 7.5"),
        r#"
error B0105: "turns" is of the wrong type
   ┌─ demo/agents/counter.json:7:24
 7 │   "limits": { "turns": 7.5 }
   │                        ^^^ expected an integer, found a number
1 error
"#,
    );
    let whole = sound().edited("agents/counter.json", "\"turns\": 7", "\"turns\": 7.0").faults();
    assert!(whole.contains("demo/agents/counter.json:7:24") && whole.contains("7.0"), "{whole}");
}

#[test]
fn of_several_forms_the_one_that_was_meant_is_explained() {
    check_lead(
        "\"tools\"",
        "\"join\": 7, \"tools\"",
        &["\"join\" is of the wrong type", "expected an object or a string, found an integer"],
    );
    check_lead(
        "\"tools\"",
        "\"join\": \"any\", \"tools\"",
        &["\"join\" cannot be \"any\"", "expected one of \"all\", \"first_success\""],
    );
    check_lead(
        "{ \"file\": \"prompts/lead.md\" }",
        "{ \"file\": 7 }",
        &["\"file\" is of the wrong type", "lead.json:5:30", "expected a string, found an integer"],
    );
    check_lead(
        "{ \"file\": \"prompts/lead.md\" }",
        "7",
        &["\"system_prompt\" is of the wrong type", "expected an object or a string, found an integer"],
    );
    check_lead("\"handoff\"]", "7]", &["element 1 of \"tools\" is of the wrong type", "lead.json:6:33"]);
    let returned =
        sound().edited("tool-configs/word_count.json", "{ \"count\": \"integer\" }", "{ \"count\": \"integr\" }").faults();
    assert!(returned.contains("\"count\" cannot be \"integr\"") && returned.contains("did you mean \"integer\"?"), "{returned}");
}

#[test]
fn one_slip_is_told_once_whatever_depends_on_what_it_spoils() {
    let inputs = sound().edited(
        "job.json",
        "{ \"year\": { \"type\": \"integer\", \"description\": \"Which year\", \"default\": 2024 } }",
        "5",
    );
    let told = inputs.faults();
    assert!(told.contains("\"inputs\" is of the wrong type") && told.ends_with("\n1 error"), "{told}");
    let broken = sound().with(Role::Agent, "agents/counter.json", "{");
    let told = broken.faults();
    assert!(told.contains("demo/agents/counter.json") && told.ends_with("\n1 error"), "{told}");
    let refined =
        broken.with(Role::Tool, "tools/route_to_counter.json", r#"{ "tool_id": "route_to_counter", "description": "d" }"#);
    assert!(refined.faults().ends_with("\n1 error"), "{}", refined.faults());
    let misnamed = sound().without("tools/note.json").with(
        Role::Tool,
        "tools/note.json",
        crate::support::NOTE.replace("\"note\"", "\"memo\""),
    );
    assert!(
        misnamed.faults().contains("the file is named note.json") && misnamed.faults().ends_with("\n1 error"),
        "{}",
        misnamed.faults()
    );
}

#[test]
fn what_nothing_can_be_proposed_for_is_told_without_a_proposal() {
    check(
        sound().without("job.json"),
        "
error B0127: the job has no job.json
  ┌─ demo/job.json
1 error
",
    );
    check(
        sound().without("agents/lead.json").without("agents/counter.json"),
        r#"
error B0120: the root agent "lead" is unknown
   ┌─ demo/job.json:4:11
 4 │   "root": "lead",
   │           ^^^^^^
1 error
"#,
    );
}

#[test]
fn a_file_that_nothing_names_is_proposed_for_one_that_is_not_there() {
    let files = sound().without("prompts/lead.md");
    let mut sources = files.sources();
    sources.add_nearby("prompts/leed.md");
    let told = files.load_from(&sources).expect_err("the prompt is missing").to_string();
    assert!(told.contains("did you mean \"prompts/leed.md\"?"), "{told}");
    assert!(!files.faults().contains("did you mean"), "{}", files.faults());
}

#[test]
fn the_values_that_a_part_lists_are_of_its_type() {
    let limit = |kind: &str, listed: &str| {
        let part = format!("\"limit\": {{ \"type\": \"{kind}\", \"enum\": {listed},");
        let edited = sound().functions(&[]).edited("tool-configs/word_count.json", "\"limit\": { \"type\": \"integer\",", &part);
        edited.edited("tool-configs/word_count.json", "\"effect\": \"pure\"", "\"exec\": { \"command\": [\"wc\"] }").told()
    };
    for (kind, listed) in [("number", "[1, 1.5]"), ("integer", "[1, -1]"), ("string", "[\"a\"]"), ("boolean", "[true]")] {
        assert_eq!(limit(kind, listed), "", "{kind}: {listed}");
    }
    for (kind, listed) in [("number", "[\"1\"]"), ("integer", "[1.5]"), ("string", "[1]"), ("boolean", "[1]"), ("object", "[1]")]
    {
        let told = limit(kind, listed);
        assert!(told.contains(&format!("is allowed here, but it is not of type {kind}")), "{kind}: {told}");
    }
    let returned = |kind: &str| {
        let part = format!("{{ \"count\": {{ \"type\": \"{kind}\", \"enum\": [2, \"many\"] }} }}");
        sound().edited("tool-configs/word_count.json", "{ \"count\": \"integer\" }", &part).told()
    };
    assert_eq!(returned("any"), "");
    assert!(returned("integer").contains("\"many\" is allowed here, but it is not of type integer"));
}
