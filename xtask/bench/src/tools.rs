//! The tool functions of the benchmark jobs.

use baton_macros::tool;
use baton_tool::{BoxFuture, ToolContext, ToolError, ToolFunction};
use baton_types::json::Json;
use serde_json::{Value, json};

use crate::contents::note;
use crate::measurement::first_call;

/// Adds two numbers, with a note that makes the result about 200 bytes long.
#[tool]
#[expect(clippy::unused_async, reason = "a tool that is awaited in place")]
async fn calc(a: u64, b: u64) -> Result<Value, ToolError> {
    first_call();
    Ok(json!({"sum": a + b, "note": note()}))
}

/// Registers one tool per combination of digits: `tool_000` to `tool_999`.
macro_rules! register {
    ($($hundreds:literal)*) => { $(register!(@tens $hundreds; 0 1 2 3 4 5 6 7 8 9);)* };
    (@tens $hundreds:literal; $($tens:literal)*) => { $(register!(@ones $hundreds $tens; 0 1 2 3 4 5 6 7 8 9);)* };
    (@ones $hundreds:literal $tens:literal; $($ones:literal)*) => { $(
        inventory::submit! {
            ToolFunction {
                id: concat!("tool_", $hundreds, $tens, $ones),
                name: concat!("tool_", $hundreds, $tens, $ones),
                file: file!(),
                line: line!(),
                parameters: numbered_parameters,
                blocking: false,
                invoke: numbered,
            }
        }
    )* };
}

register!(0 1 2 3 4 5 6 7 8 9);

fn numbered_parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "count": {"type": "integer", "format": "int64"},
            "exact": {"type": ["boolean", "null"]},
            "names": {"type": ["array", "null"], "items": {"type": "string"}},
        },
        "required": ["path", "count"],
    })
}

fn numbered<'a>(_context: &'a ToolContext, _input: &'a Json) -> BoxFuture<'a, Result<Json, ToolError>> {
    first_call();
    Box::pin(std::future::ready(Ok(Json::from(&json!({"path": "a.md", "found": 1})))))
}
