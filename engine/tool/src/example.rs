//! Runs the examples of a tool's config against its function, so that what agents are shown is true.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use baton_types::config::{Example, Executor, FunctionName, Tool};
use baton_types::id::{AgentId, CallId};
use baton_types::json::Json;
use baton_types::schema::Schema;
use serde_json::Value;

use crate::ToolFunction;
use crate::context::ToolContext;
use crate::error::{ToolError, ToolErrorKind};
use crate::host::BoxFuture;

/// Largest difference of two numbers that count as the same: sums of decimals differ in their last digits.
const TOLERANCE: f64 = 1e-9;

/// Why an example does not hold.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ExampleFailure {
    /// The tool is run by something else than a Rust function.
    #[error("{tool} has no Rust function, so its examples cannot be run in a test context")]
    NoFunction {
        /// The tool.
        tool: String,
    },
    /// A document that the example begins with has a bad path.
    #[error("the example's document {path:?} cannot be used: {reason}")]
    InvalidDocument {
        /// The path.
        path: String,
        /// Why.
        reason: String,
    },
    /// Input or output breaks the tool's schema.
    #[error("the {what} breaks the tool's schema at {pointer:?}: {message}")]
    Schema {
        /// `input` or `output`.
        what: &'static str,
        /// JSON pointer.
        pointer: String,
        /// Expected and present value.
        message: String,
    },
    /// The function returned an error.
    #[error("the call failed: {0}")]
    Failed(ToolError),
    /// The function panicked.
    #[error("the tool's code panicked: {message}")]
    Panicked {
        /// Message of the panic.
        message: String,
    },
    /// The output differs from the example's.
    #[error("{}", differences(.0))]
    Differs(Vec<Difference>),
}

/// One value that differs from the example's.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// JSON pointer into the output.
    pub pointer: String,
    /// Value in the example.
    pub expected: Value,
    /// Value in the output; `None` if there is none.
    pub found: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "output{} should be {}, ", self.pointer, self.expected)?;
        match &self.found {
            Some(found) => write!(f, "but is {found}"),
            None => f.write_str("but is not there"),
        }
    }
}

fn differences(all: &[Difference]) -> String {
    all.iter().map(Difference::to_string).collect::<Vec<_>>().join("; ")
}

/// Runs `example` of `tool` in a context for tests, with the tool's function from `functions`, and compares the output. The
/// output must contain everything that the example gives, and may contain more.
///
/// Nothing runs for a tool without code, or for an example that needs the web. Whether an example fits the tool's schema is
/// checked when the config is loaded. Code that makes calls needs a run: `baton tool test` makes one.
pub async fn run_example(functions: &[&ToolFunction], tool: &Tool, example: &Example) -> Result<(), ExampleFailure> {
    if !tool.tool_type.behavior().runs_code || !example.runs || !tool.calls.is_empty() {
        return Ok(());
    }
    let named = |name: &FunctionName| functions.iter().find(|function| function.id == name.id);
    let Some(function) = tool.executor.as_ref().and_then(|executor| match executor {
        Executor::Function(name) => named(name),
        Executor::Exec(_) | Executor::Service(_) => None,
    }) else {
        return Err(ExampleFailure::NoFunction { tool: tool.id.to_string() });
    };
    let (agent, call) = (AgentId::from("agent"), CallId::from("0/1.1"));
    let input = tool.effective_input(&Json::from(&example.input), &agent, &call);
    check("input", &tool.input, &input.value())?;
    let mut context = ToolContext::for_test().may_write(tool.writes).with_settings(tool.settings.clone());
    if !example.answers.is_empty() {
        context = context.with_answers(&example.answers);
    }
    for (path, text) in &example.documents {
        baton_types::path::DocumentPath::parse(path)
            .map_err(|error| ExampleFailure::InvalidDocument { path: path.clone(), reason: error.reason.to_owned() })?;
        context = context.with_document(path, text);
    }
    let context = context.build();
    let output = match catching(|| (function.invoke)(&context, &input)).await? {
        Ok(output) => output.value(),
        Err(error) if error.kind == ToolErrorKind::Suspended => {
            // Others deliver the output, unless the code has named it.
            let named = context.take_effects().suspension.and_then(|suspension| suspension.output);
            let Some(output) = named else { return Ok(()) };
            output.value()
        }
        Err(error) => return Err(ExampleFailure::Failed(error)),
    };
    if let Some(schema) = &tool.output {
        check("output", schema, &output)?;
    }
    let mut found = Vec::new();
    if let Some(expected) = &example.output {
        compare(expected, Some(&output), String::new(), &mut found);
    }
    if found.is_empty() { Ok(()) } else { Err(ExampleFailure::Differs(found)) }
}

/// Returns the places where an output lacks or contradicts values of the example.
pub fn compare_output(expected: &Value, found: &Value) -> Vec<Difference> {
    let mut differences = Vec::new();
    compare(expected, Some(found), String::new(), &mut differences);
    differences
}

fn check(what: &'static str, schema: &Schema, value: &Value) -> Result<(), ExampleFailure> {
    schema.check(value).map_err(|faults| {
        let first = faults.into_iter().next();
        let (pointer, message) = first.map(|fault| (fault.pointer, fault.message)).unwrap_or_default();
        ExampleFailure::Schema { what, pointer, message }
    })
}

/// Makes a future and runs it; a panic anywhere in it becomes a failure.
async fn catching<'a, T>(make: impl FnOnce() -> BoxFuture<'a, T>) -> Result<T, ExampleFailure> {
    let mut future = catch_unwind(AssertUnwindSafe(make)).map_err(panicked)?;
    std::future::poll_fn(move |context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(payload) => Poll::Ready(Err(panicked(payload))),
    })
    .await
}

fn panicked(payload: Box<dyn std::any::Any + Send>) -> ExampleFailure {
    let text =
        payload.downcast_ref::<&str>().map(|text| (*text).to_owned()).or_else(|| payload.downcast_ref::<String>().cloned());
    ExampleFailure::Panicked { message: text.unwrap_or_else(|| "without a message".to_owned()) }
}

/// Collects where `found` lacks or contradicts what `expected` gives.
fn compare(expected: &Value, found: Option<&Value>, pointer: String, differences: &mut Vec<Difference>) {
    match (expected, found) {
        (Value::Object(expected), Some(Value::Object(found))) => {
            for (key, value) in expected {
                let step = key.replace('~', "~0").replace('/', "~1");
                compare(value, found.get(key), format!("{pointer}/{step}"), differences);
            }
        }
        (Value::Array(expected), Some(Value::Array(found))) if expected.len() == found.len() => {
            for (index, value) in expected.iter().enumerate() {
                compare(value, found.get(index), format!("{pointer}/{index}"), differences);
            }
        }
        (Value::Number(expected), Some(Value::Number(found))) if same_number(expected, found) => {}
        (expected, Some(found)) if expected == found => {}
        (expected, found) => differences.push(Difference { pointer, expected: expected.clone(), found: found.cloned() }),
    }
}

fn same_number(expected: &serde_json::Number, found: &serde_json::Number) -> bool {
    if expected == found {
        return true;
    }
    match (expected.as_f64(), found.as_f64()) {
        (Some(expected), Some(found)) => (expected - found).abs() <= TOLERANCE * expected.abs().max(found.abs()).max(1.0),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::block_on;
    use serde_json::json;

    fn found(expected: &Value, found: &Value) -> Vec<String> {
        let mut differences = Vec::new();
        compare(expected, Some(found), String::new(), &mut differences);
        differences.iter().map(Difference::to_string).collect()
    }

    #[test]
    fn whatever_the_example_gives_must_come_out_and_more_may() {
        assert!(
            found(&json!({"a": {"b": 1}, "c": [0.3]}), &json!({"a": {"b": 1.0, "x": 0}, "c": [0.1 + 0.2], "d": 1})).is_empty()
        );
        assert_eq!(found(&json!({"a/b": 1}), &json!({})), ["output/a~1b should be 1, but is not there"]);
        assert_eq!(found(&json!({"a": [1, 2]}), &json!({"a": [1]})), ["output/a should be [1,2], but is [1]"]);
        assert_eq!(found(&json!({"a": 1}), &json!({"a": "1"})), ["output/a should be 1, but is \"1\""]);
        assert_eq!(found(&json!(1.000_001), &json!(1)).len(), 1);
        assert_eq!(found(&json!(null), &json!({})).len(), 1);
    }

    #[test]
    fn a_panic_becomes_a_failure_before_and_after_the_first_poll() {
        let at_once = block_on(catching::<()>(|| panic!("at once")));
        assert_eq!(at_once, Err(ExampleFailure::Panicked { message: "at once".to_owned() }));
        let later = block_on(catching::<()>(|| Box::pin(async { panic!("{}", "later") })));
        assert_eq!(later, Err(ExampleFailure::Panicked { message: "later".to_owned() }));
    }
}
