//! Calls tools as an engine does: by id, with JSON.

use baton_tool::testing::block_on;
use baton_tool::{ToolContext, ToolError, registered_functions};
use baton_tools as _;
use baton_types::json::Json;
use serde_json::Value;

/// Calls the function of tool `id`.
pub(crate) fn call(context: &ToolContext, id: &str, input: &Value) -> Result<Value, ToolError> {
    let function = registered_functions().into_iter().find(|function| function.id == id).expect("the tool is linked");
    block_on((function.invoke)(context, &Json::from(input))).map(|output| output.value())
}

/// Calls the function of tool `id`, which succeeds.
pub(crate) fn output(context: &ToolContext, id: &str, input: &Value) -> Value {
    call(context, id, input).unwrap_or_else(|error| panic!("{id} {input}: {error}"))
}
