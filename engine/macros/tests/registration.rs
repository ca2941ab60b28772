//! Tests that `#[tool]` registers functions, and that registered functions read inputs and write outputs.

use baton_macros::tool;
use baton_tool::testing::block_on;
use baton_tool::{ToolContext, ToolError, ToolErrorKind, ToolFunction, registered_functions};
use baton_types::json::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Range {
    from: u32,
    to: u32,
}

#[derive(Serialize)]
struct Counted {
    words: usize,
    agent: String,
}

/// Has everything: context, a nested struct, an optional parameter, a raw name.
#[tool]
async fn word_count(
    context: &ToolContext,
    text: String,
    range: Option<Range>,
    r#type: Vec<String>,
) -> Result<Counted, ToolError> {
    context.sleep(std::time::Duration::ZERO).await?;
    let range = range.unwrap_or(Range { from: 0, to: 10 });
    if range.from > range.to {
        return Err(ToolError::new("from is after to"));
    }
    Ok(Counted { words: text.split_whitespace().count() + r#type.len(), agent: context.agent().to_string() })
}

#[tool(id = "no-arguments")]
fn nothing() -> Result<(), ToolError> {
    Ok(())
}

fn registered(id: &str) -> &'static ToolFunction {
    registered_functions().into_iter().find(|function| function.id == id).expect("it is registered")
}

#[test]
fn a_function_is_registered_with_its_place_and_kind() {
    let function = registered("word_count");
    assert_eq!(function.name, "word_count");
    assert!(function.file.ends_with("registration.rs"));
    assert!(include_str!("registration.rs").lines().nth(function.line as usize - 1).unwrap().contains("fn word_count"));
    assert!(!function.blocking);
    let other = registered("no-arguments");
    assert_eq!(other.name, "nothing");
    assert!(other.blocking);
}

#[test]
fn a_registered_function_reads_json_and_answers_json() {
    let call = |id: &str, input: serde_json::Value| {
        let context = ToolContext::for_test().build();
        block_on((registered(id).invoke)(&context, &Json::from(input))).map(|output| output.value())
    };
    assert_eq!(call("word_count", json!({"text": "a b", "type": ["x"]})).unwrap(), json!({"words": 3, "agent": "tester"}));
    assert_eq!(call("no-arguments", json!({})).unwrap(), json!(null));
    let said = call("word_count", json!({"text": "a", "type": [], "range": {"from": 2, "to": 1}})).unwrap_err();
    assert_eq!(said, ToolError::new("from is after to"));
    for misfit in [json!({"text": "a"}), json!({"text": 1, "type": []}), json!({"text": "a", "type": [], "more": 1}), json!([])] {
        let refused = call("word_count", misfit).unwrap_err();
        assert_eq!(refused.kind, ToolErrorKind::InvalidInput);
    }
}

#[test]
fn the_schema_holds_the_parameters_and_not_the_context() {
    let schema = (registered("word_count").parameters)();
    let names: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["text", "range", "type"]);
    assert_eq!(schema["required"], json!(["text", "type"]));
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!((registered("no-arguments").parameters)()["type"], "object");
}
