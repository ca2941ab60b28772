//! Reading of JSON: exact values stay exact, and faults are reported at their place.

use std::collections::BTreeMap;

use baton_config::{MAX_FILE_BYTES, Role, check_inputs, load_project};
use serde_json::{Value, json};

use crate::support::sound;

#[test]
fn a_text_that_breaks_off_is_told_on_its_line() {
    for line in 1..=6 {
        let text = "\n".repeat(line - 1) + "  x";
        let shown = load_project("baton.json", text.as_bytes()).expect_err("it is no JSON").to_string();
        assert!(shown.contains(&format!("baton.json:{line}:3\n {line} │   x\n   │   ^")), "{shown}");
    }
}

#[test]
fn a_file_may_be_as_large_as_is_said_and_no_larger() {
    let padded = |bytes: usize| "{}".to_owned() + &" ".repeat(bytes - 2);
    assert!(load_project("baton.json", padded(MAX_FILE_BYTES).as_bytes()).is_ok());
    let told = load_project("baton.json", padded(MAX_FILE_BYTES + 1).as_bytes()).expect_err("it is too large").to_string();
    assert!(told.contains(&format!("expected at most {MAX_FILE_BYTES} bytes, found {}", MAX_FILE_BYTES + 1)), "{told}");
}

#[test]
fn every_number_that_is_kept_is_kept_exactly() {
    for number in ["-5", "0", "-9223372036854775808", "18446744073709551615", "9007199254740993", "1e20", "-0.5"] {
        let input = format!(
            "\"exact\": {{ \"schema\": {{}}, \"default\": {number} }}, \"beside\": {{ \"schema\": {{}}, \"default\": 1e300 }}"
        );
        let files = sound().edited("job.json", "\"inputs\": {", &format!("\"inputs\": {{ {input},"));
        let configs = files.load().unwrap_or_else(|faults| panic!("{number}: {faults}"));
        let inputs = check_inputs(&configs.job, &BTreeMap::new()).expect("all have defaults");
        assert_eq!(inputs["exact"], serde_json::from_str::<Value>(number).expect("it is a number"), "{number}");
    }
    let tokens = sound().edited("agents/counter.json", "\"turns\": 7", "\"tokens\": 9007199254740993").load().expect("it fits");
    assert_eq!(tokens.agents["counter"].limits.tokens, Some(9_007_199_254_740_993));
}

#[test]
fn null_is_a_value_where_any_value_may_stand() {
    let files = sound().edited("job.json", "\"inputs\": {", "\"inputs\": { \"none\": { \"schema\": {}, \"default\": null },");
    let inputs = check_inputs(&files.load().expect("it is sound").job, &BTreeMap::new()).expect("all have defaults");
    assert_eq!(inputs["none"], json!(null));
}

#[test]
fn faults_in_lists_are_reported_per_element_up_to_a_hundred() {
    let script = |elements: usize| {
        let twice = vec!["{\"a\": 1,\n\"a\": 2}"; elements].join(",\n");
        sound().with(Role::ModelScript, "demo.script.json", format!("[{twice}]")).told()
    };
    let one = script(1);
    assert!(one.contains("demo.script.json:2:1\n 2 │ \"a\": 2}]\n   │ ^^^ (first at 1:3)"), "{one}");
    let hundred = script(100);
    assert!(hundred.contains("demo.script.json:200:1") && hundred.ends_with("\n100 errors"), "{hundred}");
    let more = script(101);
    assert!(more.contains("demo.script.json:200:1") && !more.contains("demo.script.json:202:1"), "{more}");
    assert!(more.contains("the file has more faults than are shown"), "{more}");
}

#[test]
fn a_file_with_more_than_a_hundred_faults_says_that_there_are_more() {
    let grants =
        |count: usize| sound().edited("agents/lead.json", "\"handoff\"]", &format!("{}]", vec!["7"; count].join(","))).told();
    let keys = |count: usize| {
        let keys = (0..count).map(|index| format!("\"unheard_of_{index}\": 1,")).collect::<Vec<_>>().concat();
        sound().edited("agents/lead.json", "\"agent_id\"", &format!("{keys}\"agent_id\"")).told()
    };
    for (what, faults) in [("grants", &grants as &dyn Fn(usize) -> String), ("keys", &keys)] {
        assert!(!faults(100).contains("more faults"), "{what}: {}", faults(100));
        assert!(faults(101).contains("the file has more faults than are shown"), "{what}: {}", faults(101));
    }
}

#[test]
fn faults_are_gone_through_one_by_one() {
    let faults = load_project("baton.json", br#"{"stroe": 1, "jobs": 2}"#).expect_err("two are told");
    let mut codes = Vec::new();
    for fault in &faults {
        codes.push(fault.kind.code());
    }
    assert_eq!(codes, ["B0103", "B0105"]);
}
