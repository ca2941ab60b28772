//! Names and words of a certain form: what is allowed and what is not, on both sides of each bound.

use baton_config::{PriceTable, Role};

use crate::support::{Files, sound};

/// Expects every valid name to be accepted and every invalid one to be reported once, with this message.
fn check_names(named: impl Fn(&str) -> Files, right: &[&str], wrong: &[&str], words: &str) {
    for name in right {
        assert_eq!(named(name).told(), "", "{name}");
    }
    for name in wrong {
        let told = named(name).told();
        assert!(told.contains(words) && told.ends_with("\n1 error"), "{name:?}: {told}");
    }
}

#[test]
fn a_parameter_has_a_name_that_models_can_write() {
    let note = |name: &str| {
        let parameters = format!("\"{name}\": {{\"type\": \"string\", \"description\": \"d\", \"required\": true}}");
        let tool = r#"{"tool_id": "note", "type": "non_function_tool", "description": "d", "parameters": {"#;
        sound().with(Role::Tool, "tools/note.json", format!("{tool}{parameters}}}}}"))
    };
    check_names(
        note,
        &["a", "_", "_a", "A1", "a_b-C9", &"a".repeat(64)],
        &["", "1a", "-a", "a b", "a.b", "é", "aé", &"a".repeat(65)],
        "has a name that is not allowed",
    );
}

#[test]
fn a_tool_has_a_name_for_models_that_no_other_tool_has() {
    let config = |id: &str, name: &str| {
        format!(r#"{{"tool_id": "{id}", "name": "{name}", "type": "non_function_tool", "description": "d", "parameters": {{}}}}"#)
    };
    let note = |name: &str| sound().with(Role::Tool, "tools/note.json", config("note", name));
    for name in ["note", "Note", "sendMessage", "mcp__gh__list", "a-b", &"n".repeat(64)] {
        let loaded = note(name).load().unwrap();
        let expected = (name != "note").then_some(name);
        assert_eq!(loaded.tools["note"].definition.name.as_deref(), expected, "{name}");
    }
    check_names(note, &[], &["1a", "_a", "a.b", "a b", "é"], "is not well-formed");
    check_names(note, &[], &[&"n".repeat(65)], "is out of range");
    check_names(note, &[], &["root", "route_to_lead"], "is reserved for the engine's tools");
    let both = |name: &str| {
        note("shared").with(Role::Tool, "tools/other.json", config("other", name)).with(
            Role::Tool,
            "tools/third.json",
            config("third", "x"),
        )
    };
    assert_eq!(both("apart").told(), "");
    let told = both("sharED").told();
    assert!(told.contains("models cannot tell the name \"sharED\" from the tool \"note\""), "{told}");
}

#[test]
fn an_input_has_a_name_that_templates_can_use() {
    check_names(
        |name| {
            sound().edited(
                "job.json",
                "\"inputs\": {",
                &format!("\"inputs\": {{ \"{name}\": {{ \"type\": \"string\", \"default\": \"\" }},"),
            )
        },
        &["a", "_a", "a_1", &"a".repeat(64)],
        &["", "a-b", "1a", "a b", &"a".repeat(65)],
        "has a name that a template cannot use",
    );
}

#[test]
fn a_model_has_a_name_as_vendors_write_them() {
    check_names(
        |name| {
            let other = format!("\"models\": {{ \"{name}\": {{ \"provider\": \"scripted\", \"script\": \"demo.script.json\" }},");
            sound().edited("job.json", "\"models\": {", &other)
        },
        &["m", "4o", "vendor/model-4.5:free_1", &"m".repeat(128)],
        &["", "-m", "/m", "a b", "é", &"m".repeat(129)],
        "has a name that is not allowed",
    );
}

#[test]
fn an_environment_variable_has_a_name_that_shells_can_set() {
    check_names(
        |name| {
            let exec = format!("\"exec\": {{ \"command\": [\"wc\"], \"env\": [\"{name}\"] }}");
            sound().functions(&[]).edited("tool-configs/word_count.json", "\"effect\": \"pure\"", &exec)
        },
        &["A", "_", "_a9", "PATH_2", &"A".repeat(128)],
        &["", "9A", "A-B", "A B", "É", &"A".repeat(129)],
        "is not well-formed",
    );
}

#[test]
fn a_table_of_prices_is_of_a_day_and_its_prices_of_pages() {
    let table = |day: &str, page: &str| {
        let row = format!(r#"{{"models": ["m"], "input": 1, "output": 2, "source": "{page}", "as_of": "{day}"}}"#);
        let loaded = PriceTable::load("prices.json", format!(r#"{{"version": "{day}", "prices": [{row}]}}"#).as_bytes());
        loaded.map(|table| table.version().to_owned()).map_err(|faults| faults.to_string())
    };
    let page = "https://example.com/prices";
    assert_eq!(table("2026-01-31", page), Ok("2026-01-31".to_owned()));
    for day in
        ["", "2026-1-31", "2026-01-311", "2026010131", "2026x01x31", "----1-----", "-------1--", "20260-01-3", "2o26-01-31"]
    {
        let told = table(day, page).expect_err("it is no day");
        assert!(told.contains("\"version\" is not well-formed"), "{day}: {told}");
    }
    for page in ["https://", "https://a b", "http://example.com", "example.com", ""] {
        let told = table("2026-01-31", page).expect_err("it is no page");
        assert!(told.contains("\"source\" is not well-formed"), "{page}: {told}");
    }
}

#[test]
fn a_long_list_of_known_names_is_cut() {
    let models = |count: usize| {
        let entry =
            |index: usize| format!("\"m{index:02}\": {{ \"provider\": \"scripted\", \"script\": \"demo.script.json\" }},");
        let models: String = (1..count).map(entry).collect();
        let files = sound().edited("job.json", "\"models\": {", &format!("\"models\": {{ {models}"));
        files.edited("agents/lead.json", "\"model\": \"scripted\"", "\"model\": \"unheard-of\"").faults()
    };
    let listed = |last: usize| (1..=last).map(|index| format!("\"m{index:02}\"")).collect::<Vec<_>>().join(", ");
    assert!(models(1).contains("expected \"scripted\"\n"), "{}", models(1));
    assert!(models(2).contains("expected one of \"m01\", \"scripted\"\n"), "{}", models(2));
    assert!(models(12).contains(&format!("expected one of {}, \"scripted\"\n", listed(11))), "{}", models(12));
    assert!(models(13).contains(&format!("expected one of {} and 1 more\n", listed(12))), "{}", models(13));
}
