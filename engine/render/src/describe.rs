//! Rule *describe*: an agent that discovers its tools receives the definitions that it asks for.
//!
//! In native invocation, the described tools are offered from the next request on, so the result only has their names. In
//! universal invocation, the result is the only place where the model reads the definitions.

use baton_types::call::{CallError, CallResult, ErrorCode};
use baton_types::config::{Agent, Tool};
use baton_types::json::Json;
use serde_json::{Value, json};

/// Returns the result of a call that describes tools of `agent`. Fails if it names none of them.
pub fn describe(agent: &Agent, tool: &Tool, input: &Json) -> Result<CallResult, CallError> {
    let (known, unknown) = tool.described(agent, input);
    if known.is_empty() {
        let granted: Vec<&str> = agent.tools.values().map(|tool| tool.definition.shown_name()).collect();
        let message = "\"tools\" names no tool that you have";
        return Err(CallError::new(ErrorCode::UnknownTool, message).with_detail(json!({"granted_tools": granted})));
    }
    let tools: Vec<Value> = known.iter().map(|tool| definition(tool, agent.is_offered_described_tools())).collect();
    let mut output = json!({"tools": tools});
    if !unknown.is_empty() {
        output["unknown"] = json!(unknown);
    }
    Ok(CallResult::success(output))
}

/// Returns a tool's definition; only its name where requests offer the rest.
fn definition(tool: &Tool, is_offered: bool) -> Value {
    let name = tool.definition.shown_name();
    if is_offered {
        return json!({"tool": name});
    }
    let mut definition = json!({
        "tool": name,
        "description": tool.definition.description,
        "input_schema": tool.definition.input_schema.value(),
    });
    if let Some(output) = &tool.output {
        definition["output_schema"] = output.json().value();
    }
    if let Some(example) = tool.examples.first() {
        definition["example_input"] = example.input.clone();
    }
    definition
}
