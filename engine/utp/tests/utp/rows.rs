//! Seed 004, section 2: rows of `resource.tools`.

use baton_types::call::AfterExecution;
use baton_utp::row::{RESERVED_NAMES, Row, RowFault, is_rows};
use serde_json::{Value, json};

use crate::support::{with, without};

fn row() -> Value {
    json!({
        "project_id": "acme", "tool_name": "search", "description": "Search the web.",
        "parameters": {
            "type": "object",
            "properties": {
                "q": {"type": "string"}, "limit": {"type": "integer"}, "region": {"type": "string"}, "key": {"type": "string"}
            },
            "required": ["q", "region", "key"]
        },
        "target_subject": "cg.v1r3.{project_id}.{channel_id}.cmd.tool.search", "after_execution": "suspend",
        "options": {
            "args": {"defaults": {"limit": 5}, "fixed": {"region": "eu"}}, "envs": {"key": "SEARCH_KEY"},
            "suspend_timeout_seconds": 120
        }
    })
}

fn read(value: &Value) -> Result<Row, Vec<RowFault>> {
    Row::read(value, &|_| Vec::new())
}

fn faults(value: &Value) -> Vec<String> {
    read(value).expect_err("the row has faults").iter().map(ToString::to_string).collect()
}

#[test]
fn a_row_has_seven_columns() {
    let read = read(&row()).expect("a row");
    assert_eq!(serde_json::to_value(&read).expect("it serialises"), row(), "it is written as it was read");
    assert_eq!(read.after_execution, AfterExecution::Suspend);
    assert!(read.unused.is_empty());
}

#[test]
fn project_name_subject_and_after_execution_are_required() {
    for column in ["project_id", "tool_name", "target_subject", "after_execution"] {
        for bad in [without(row(), column), with(row(), json!({column: null}))] {
            let found = faults(&bad);
            assert!(found.len() == 1 && found[0].starts_with(&format!("\"{column}\" is missing; expected ")), "{found:?}");
        }
    }
    for column in ["description", "parameters", "options"] {
        let mut bare = without(row(), column);
        if column == "parameters" {
            bare = without(bare, "options");
        }
        read(&bare).unwrap_or_else(|faults| panic!("{column}: {faults:?}"));
    }
}

#[test]
fn the_subject_of_a_row_is_that_of_a_tool_of_its_project() {
    for (subject, expected) in [
        ("cg.v1r3.acme.main.cmd.sys.pmo.internal.search", "is not a subject for the calls of a tool"),
        ("cg.v1r3.acme.main.cmd.agent.lead.wakeup", "is not a subject for the calls of a tool"),
        ("cg.v1r3.other.main.cmd.tool.search", "belongs to project \"other\", and the row to \"acme\""),
        ("search", "begins with \"search\""),
    ] {
        let found = faults(&with(row(), json!({"target_subject": subject})));
        assert!(found.len() == 1 && found[0].starts_with("/target_subject: ") && found[0].contains(expected), "{found:?}");
    }
}

#[test]
fn names_of_builtin_tools_are_reserved() {
    for name in RESERVED_NAMES {
        assert_eq!(
            faults(&with(row(), json!({"tool_name": name}))),
            [format!("/tool_name: the name \"{name}\" belongs to a built-in tool")]
        );
    }
}

#[test]
fn every_array_has_items() {
    let mut bad = row();
    bad["parameters"]["properties"] = json!({
        "q": {"type": "array"}, "limit": {"type": ["array", "null"], "items": {}}, "region": {"anyOf": [{"type": "array"}]},
        "key": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
        "more": {"type": "object", "properties": {"a/b": {"type": "array"}}}
    });
    bad["parameters"]["properties"]["default"] = json!({"type": "string", "default": {"type": "array"}});
    let found: Vec<String> = read(&bad).expect_err("four").into_iter().map(|fault| fault.pointer).collect();
    assert_eq!(
        found,
        [
            "/parameters/properties/q",
            "/parameters/properties/limit",
            "/parameters/properties/region/anyOf/0",
            "/parameters/properties/more/properties/a~1b"
        ]
    );
}

#[test]
fn the_schema_of_a_row_is_judged_like_that_of_a_config() {
    let judge = |schema: &Value| {
        assert_eq!(schema["properties"]["q"]["type"], "string");
        vec![RowFault { pointer: "/required".to_owned(), message: "is not a list".to_owned() }]
    };
    let found = Row::read(&row(), &judge).expect_err("one fault");
    assert_eq!(found[0].to_string(), "/parameters/required: is not a list");
    assert_eq!(
        faults(&with(row(), json!({"parameters": {"type": "array", "items": {"type": "string"}}, "options": null}))).len(),
        1
    );
}

#[test]
fn all_faults_of_a_row_are_reported_with_their_places() {
    let bad = json!({
        "tool_name": "", "description": 7, "target_subject": 1, "after_execution": "stop", "parameters": [],
        "options": {
            "args": {"defaults": {"other": 1}, "fixed": []}, "envs": {"q": "1X"}, "suspend_timeout_seconds": 0,
            "timeout_seconds": "3", "ui_allowed": "yes"
        }
    });
    let mut found: Vec<String> = read(&bad).expect_err("many").into_iter().map(|fault| fault.pointer).collect();
    found.sort();
    assert_eq!(
        found,
        [
            "",
            "/after_execution",
            "/description",
            "/options/args/defaults/other",
            "/options/args/fixed",
            "/options/envs/q",
            "/options/envs/q",
            "/options/suspend_timeout_seconds",
            "/options/timeout_seconds",
            "/options/ui_allowed",
            "/parameters",
            "/target_subject",
            "/tool_name"
        ]
    );
}

#[test]
fn a_parameter_gets_its_value_from_one_place() {
    let mut bad = row();
    bad["options"]["args"]["fixed"]["limit"] = json!(1);
    bad["options"]["args"]["defaults"]["key"] = json!("k");
    assert_eq!(
        faults(&bad),
        [
            "/options/args/fixed/limit: the parameter also has a default",
            "/options/envs/key: the parameter also has a value in \"args\""
        ]
    );
}

#[test]
fn a_placeholder_that_nothing_fills_in_is_refused() {
    let mut bad = row();
    bad["options"]["args"]["fixed"]["region"] = json!("{agent_id} {trace_id}");
    assert_eq!(faults(&bad), ["/options/args/fixed/region: unknown placeholder {trace_id}"]);
}

#[test]
fn suspend_timeout_seconds_has_two_names_and_one_value() {
    let mut own = row();
    own["options"] = json!({"timeout_seconds": 90});
    assert_eq!(read(&own).expect("a row").options.suspend_timeout_seconds, Some(90));
    own["options"] = json!({"timeout_seconds": 90, "suspend_timeout_seconds": 120});
    assert_eq!(faults(&own), ["/options/timeout_seconds: is 90, and \"suspend_timeout_seconds\" is 120; expected one of them"]);
}

#[test]
fn user_interfaces_may_not_call_a_tool_by_default() {
    assert!(!read(&row()).expect("a row").options.ui_allowed);
    let mut open = row();
    open["options"]["ui_allowed"] = json!(true);
    assert!(read(&open).expect("a row").options.ui_allowed);
}

#[test]
fn parts_that_nothing_reads_are_named() {
    let mut more = with(row(), json!({"created_at": "now"}));
    more["options"]["retries"] = json!(3);
    more["options"]["args"]["computed"] = json!({});
    assert_eq!(read(&more).expect("a row").unused, ["/created_at", "/options/retries", "/options/args/computed"]);
}

#[test]
fn rows_are_told_from_other_lists_of_tools() {
    assert!(is_rows(&row()) && is_rows(&json!([row()])));
    for other in [json!([]), json!({}), json!({"tools": []}), json!([{"name": "a"}]), json!([row(), 1])] {
        assert!(!is_rows(&other), "{other}");
    }
}

#[test]
fn a_row_as_a_config_has_the_keys_of_a_service() {
    let config = Value::Object(read(&row()).expect("a row").config());
    assert_eq!(
        config,
        json!({
            "tool_id": "search", "type": "function_tool", "description": "Search the web.", "input_schema": row()["parameters"],
            "effect": "keyed", "after_execution": "suspend", "target_subject": row()["target_subject"],
            "suspend_timeout_seconds": 120, "args": row()["options"]["args"], "envs": {"key": "SEARCH_KEY"}
        })
    );
}

#[test]
fn hostile_rows_never_panic() {
    let values = [json!(null), json!(true), json!(-1), json!(1.5), json!(""), json!([]), json!({}), json!({"a": {"b": []}})];
    let paths = [
        "/project_id",
        "/tool_name",
        "/description",
        "/parameters",
        "/parameters/properties",
        "/parameters/properties/q",
        "/parameters/required",
        "/target_subject",
        "/after_execution",
        "/options",
        "/options/args",
        "/options/args/defaults",
        "/options/args/fixed",
        "/options/envs",
        "/options/envs/key",
        "/options/suspend_timeout_seconds",
    ];
    for path in paths {
        for value in &values {
            let mut changed = row();
            *changed.pointer_mut(path).expect(path) = value.clone();
            if let Err(faults) = read(&changed) {
                assert!(!faults.is_empty(), "{path} is {value}");
            }
        }
    }
    assert_eq!(faults(&json!(1)), ["a row is 1; expected an object"]);
}
