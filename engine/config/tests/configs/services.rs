//! Tools with values of their own for the inputs of calls, and tools that a service executes.

use std::time::Duration;

use baton_config::Role;
use baton_types::call::AfterExecution;
use baton_types::config::{Executor, Target, Tool};
use serde_json::{Value, json};

use crate::support::{Files, sound};

const SUBJECT: &str = "cg.v1r3.{project_id}.{channel_id}.cmd.tool.search";

fn search() -> Value {
    json!({
        "tool_id": "search", "type": "function_tool", "description": "Searches.",
        "input_schema": {
            "type": "object",
            "properties": {
                "q": {"type": "string"}, "limit": {"type": "integer"}, "region": {"type": "string"}, "key": {"type": "string"}
            },
            "required": ["q", "limit", "region", "key"], "additionalProperties": false
        },
        "target_subject": SUBJECT,
        "suspend_timeout_seconds": 120,
        "args": {"defaults": {"limit": 5}, "fixed": {"region": "eu {agent_id}"}},
        "envs": {"key": "SEARCH_KEY"}
    })
}

fn with(changes: Value) -> Files {
    let mut config = search();
    for (key, value) in changes.as_object().expect("an object") {
        match value {
            Value::Null => _ = config.as_object_mut().and_then(|config| config.shift_remove(key)),
            value => config[key] = value.clone(),
        }
    }
    sound().with(Role::Tool, "tools/search.json", config.to_string())
}

fn loaded(changes: Value) -> Tool {
    let configs = with(changes).load().expect("it is sound");
    Tool::clone(&configs.tools["search"])
}

#[test]
fn a_tool_with_a_target_subject_is_suspended_and_controls_the_flow() {
    let tool = loaded(json!({}));
    assert!(matches!(&tool.executor, Some(Executor::Service(service)) if service.target_subject == SUBJECT));
    assert!(tool.suspends && tool.controls_flow);
    assert_eq!((tool.suspend_timeout, tool.after_by_default()), (Some(Duration::from_mins(2)), AfterExecution::Suspend));
    assert!(!loaded(json!({"controls_flow": false})).controls_flow, "unless its config does not allow it");
}

#[test]
fn models_see_no_fixed_value_no_variable_and_no_required_default() {
    let tool = loaded(json!({}));
    assert_eq!(
        tool.definition.input_schema.value(),
        json!({
            "type": "object", "properties": {"q": {"type": "string"}, "limit": {"type": "integer"}}, "required": ["q"],
            "additionalProperties": false
        })
    );
    assert!(tool.input.check(&json!({"q": "a", "limit": 5, "region": "eu"})).is_ok());
    assert!(tool.input.check(&json!({"q": "a", "limit": 5})).is_err(), "the effective input is complete");
    assert_eq!(tool.arguments.parameters.value(), search()["input_schema"], "the schema of all parameters is kept");
    let none = loaded(json!({"args": {}, "envs": null}));
    assert_eq!((none.arguments.parameters.value(), none.input.json().value()), (Value::Null, search()["input_schema"].clone()));
    let all = loaded(json!({"args": {"fixed": {"q": "a", "limit": 1, "region": "eu"}}}));
    assert_eq!(all.definition.input_schema.value(), json!({"type": "object", "properties": {}, "additionalProperties": false}));
}

#[test]
fn a_service_and_a_variable_need_trust() {
    let tool = loaded(json!({}));
    let targets: Vec<&Target> = tool.reaches.iter().map(|reach| &reach.target).collect();
    assert_eq!(targets, [&Target::Service(SUBJECT.to_owned()), &Target::Secret("SEARCH_KEY".to_owned())]);
    assert!(tool.reaches.iter().all(|reach| reach.origin.needs_trust()));
}

#[test]
fn a_slip_in_a_service_or_its_values_is_one_fault() {
    for (changes, expected) in [
        (json!({"target_subject": "cg.v1r3.a.b.cmd.agent.lead.wakeup"}), "is not a subject for the calls of a tool"),
        (json!({"target_subject": "cg.v1r3.a.b.cmd.tool.a b"}), "token 7 of the subject is \"a b\""),
        (json!({"target_subject": 7}), "\"target_subject\" is of the wrong type"),
        (json!({"exec": {"command": ["true"]}}), "has two executors: \"exec\" and \"target_subject\""),
        (json!({"writes": true}), "\"writes\" does not apply to a tool with \"target_subject\""),
        (json!({"suspends": false}), "are suspended until the service answers"),
        (json!({"suspend_timeout_seconds": 0}), "\"suspend_timeout_seconds\" is out of range"),
        (json!({"args": {"fixed": {"regoin": "eu"}}}), "the tool has no parameter \"regoin\""),
        (json!({"args": {"fixed": {"region": 7}}}), "the value breaks the schema of the parameter"),
        (json!({"args": {"defaults": {"limit": "many"}}}), "the value breaks the schema of the parameter"),
        (
            json!({"args": {"defaults": {"limit": 1}, "fixed": {"limit": 2}}}),
            "the parameter \"limit\" is also in \"args.defaults\"",
        ),
        (json!({"args": {"defaults": {"key": "k"}}}), "the parameter \"key\" is also in \"args.defaults\""),
        (json!({"args": {"fixed": {"region": "{trace_id}"}}}), "unknown placeholder {trace_id}"),
        (json!({"args": {"fix": {}}}), "unknown key"),
        (json!({"envs": {"key": "SEARCH-KEY"}}), "the value is not the name of a variable"),
        (json!({"envs": {"key": 1}}), "of the wrong type"),
        (
            json!({"type": "non_function_tool", "args": null, "envs": null, "suspend_timeout_seconds": null}),
            "\"target_subject\" does not apply to a tool of type non_function_tool",
        ),
        (json!({"examples": [{"explanation": "e", "input": {"q": "a"}}]}), "an example of a tool service cannot run as a test"),
    ] {
        let told = with(changes.clone()).faults();
        assert!(told.contains(expected) && told.ends_with("\n1 error"), "{changes}: {told}");
    }
}

#[test]
fn a_time_for_suspended_calls_needs_suspended_calls() {
    let command = json!({"target_subject": null, "exec": {"command": ["true"]}});
    let told = with(command.clone()).faults();
    assert!(told.contains("\"suspend_timeout_seconds\" does not apply here") && told.ends_with("\n1 error"), "{told}");
    let mut suspends = command;
    suspends["suspends"] = json!(true);
    let tool = loaded(suspends);
    assert_eq!((tool.suspend_timeout, tool.controls_flow), (Some(Duration::from_mins(2)), false), "for every executor");
}

#[test]
fn an_example_shows_the_input_of_a_model() {
    let example = |input: Value| json!({"examples": [{"explanation": "e", "input": input, "run": false}]});
    assert_eq!(loaded(example(json!({"q": "a"}))).examples.len(), 1);
    let told = with(example(json!({"limit": 3}))).faults();
    assert!(told.contains("the example's input breaks the tool's schema"), "{told}");
}

#[test]
fn a_function_may_have_values_too() {
    let args = "\"effect\": \"pure\", \"args\": {\"fixed\": {\"limit\": 3}}";
    let configs = sound().edited("tool-configs/word_count.json", "\"effect\": \"pure\"", args).load().expect("it is sound");
    let tool = &configs.tools["word_count"];
    assert_eq!(tool.definition.input_schema.value()["properties"].get("limit"), None);
    assert!(tool.input.check(&json!({"text": "a", "limit": 3})).is_ok());
}
