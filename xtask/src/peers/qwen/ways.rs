//! The ways in which the agents of a job call tools.

use clap::ValueEnum;
use serde_json::{Value, json};

/// A way to call tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Way {
    /// Calls in the text of answers.
    Universal,
    /// Calls of the provider, and nothing else.
    Native,
    /// Calls of the provider, and texts that are exactly one call.
    NativeCallsInText,
    /// Calls in the text of answers, which the server holds to the schema of the envelope.
    UniversalConstrained,
}

/// The instructions of every agent, whatever its task.
const PROMPT: &str = "You do small tasks with tools. Do not compute or guess: first call the right tool. Its result comes in the next \
    message. Then finish with handoff. Never send a call again whose result you have.\n\nExample, for the task to add 2 and 3.\n";

/// An example, as universal invocation has it.
const EXAMPLE: &str = r#"First answer: {"message": "I add the numbers.", "tool_requests": [{"tool": "calculator", "input": {"expression": "2 + 3"}, "requestId": "calculator-1", "return_to_llm": true}]}
Next answer, after its result 5 has come: {"message": "I have the sum.", "tool_requests": [{"tool": "handoff", "input": {"result": {"answer": 5}}, "requestId": "handoff-1", "return_to_llm": true}]}"#;

/// The same example for native calls.
const NATIVE_EXAMPLE: &str = r#"First call: calculator with {"expression": "2 + 3"}.
Next call, after its result 5 has come: handoff with {"result": {"answer": 5}}."#;

/// Ends an answer before a second object: small models write the answers of all steps at once.
const STOP: [&str; 1] = ["\n\n{"];

impl Way {
    /// Returns its name in options and tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Universal => "universal",
            Self::Native => "native",
            Self::NativeCallsInText => "native-calls-in-text",
            Self::UniversalConstrained => "universal-constrained",
        }
    }

    /// Returns the number of draws in a full measurement.
    pub(super) fn draws(self) -> usize {
        if self == Self::Universal { 3 } else { 1 }
    }

    /// Returns an agent that calls these tools in this way.
    pub(super) fn agent(self, id: &str, description: &str, tools: &[&str]) -> Value {
        let is_universal = matches!(self, Self::Universal | Self::UniversalConstrained);
        let example = if is_universal { EXAMPLE } else { NATIVE_EXAMPLE };
        json!({
            "agent_id": id, "description": description, "tools": tools, "catalog": "full",
            "system_prompt": format!("{PROMPT}{example}"),
            "invocation": if is_universal { "universal" } else { "native" },
            "settings": self.settings(tools),
        })
    }

    /// Returns the settings of an agent with these tools.
    fn settings(self, tools: &[&str]) -> Value {
        match self {
            Self::Universal => json!({ "stop": STOP }),
            Self::Native => json!({"calls_in_text": false}),
            Self::NativeCallsInText => json!({"calls_in_text": true}),
            Self::UniversalConstrained => json!({
                "response_format": {"type": "json_schema", "json_schema": {"name": "envelope", "schema": envelope(tools)}},
            }),
        }
    }
}

/// Returns the schema of an envelope in its short form, with calls of these tools.
fn envelope(tools: &[&str]) -> Value {
    let call = json!({
        "type": "object",
        "properties": {
            "tool": {"enum": tools},
            "input": {"type": "object"},
            "requestId": {"type": "string"},
            "return_to_llm": {"const": true},
        },
        "required": ["tool", "input", "requestId", "return_to_llm"],
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "properties": {"message": {"type": "string"}, "tool_requests": {"type": "array", "items": call, "minItems": 1, "maxItems": 4}},
        "required": ["message", "tool_requests"],
        "additionalProperties": false,
    })
}
