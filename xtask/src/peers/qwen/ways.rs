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
const PROMPT: &str = "You do small tasks with tools. Use a tool for every computation, search and document. If a task needs no other \
    tool, call handoff at once. Each answer is one step. Its results come in the next message. Call handoff alone, in the answer \
    after the last result, with the values of the results. Round numbers there, if the task asks for it. Never repeat a call whose \
    result you have.";

/// A worked example for the agents that have its tool. Its task is none of those that are judged.
struct Example {
    tool: &'static str,
    task: &'static str,
    /// Message of the model beside the call.
    message: &'static str,
    input: &'static str,
    result: &'static str,
    handoff: &'static str,
}

/// The examples. An agent has the first whose tool it is granted.
const EXAMPLES: [Example; 6] = [
    Example {
        tool: "query_data",
        task: "How many people in the table people (people.csv) are older than 30?",
        message: "I count them in the table people with SQL.",
        input: r#"{"sql": "SELECT COUNT(*) AS older FROM people WHERE age > 30"}"#,
        result: r#"{"rows": [{"older": 4}]}"#,
        handoff: r#"{"result": {"answer": 4}}"#,
    },
    Example {
        tool: "json-transform",
        task: "Use the operation extract and the path a.b on the data {\"a\": {\"b\": 5}}.",
        message: "I extract a.b from the data.",
        input: r#"{"data": {"a": {"b": 5}}, "operation": "extract", "path": "a.b"}"#,
        result: r#"{"result": 5}"#,
        handoff: r#"{"result": {"answer": 5}}"#,
    },
    Example {
        tool: "calculator",
        task: "What is ((2 + 3) * 4 - 5) / 3?",
        message: "I compute ((2 + 3) * 4 - 5) / 3.",
        input: r#"{"expression": "((2 + 3) * 4 - 5) / 3"}"#,
        result: r#"{"result": 5}"#,
        handoff: r#"{"result": {"answer": 5}}"#,
    },
    Example {
        tool: "write_file",
        task: "Write the document a.txt with the text: one two",
        message: "I write a.txt.",
        input: r#"{"path": "a.txt", "content": "one two"}"#,
        result: r#"{"path": "a.txt", "version": 1}"#,
        handoff: r#"{"result": {"path": "a.txt"}, "documents": ["a.txt"]}"#,
    },
    Example {
        tool: "route_to_adder",
        task: "Let the agent adder add 2 and 3.",
        message: "The agent adder adds 2 and 3.",
        input: r#"{"request": "Add 2 and 3."}"#,
        result: r#"{"sum": 5}"#,
        handoff: r#"{"result": {"answer": 5}}"#,
    },
    Example {
        tool: "route_to_writer",
        task: "Let the agent writer write the document a.txt with exactly this text: one two",
        message: "The agent writer writes a.txt.",
        input: r#"{"request": "Write the document a.txt with exactly this text: one two"}"#,
        result: r#"{"path": "a.txt"}"#,
        handoff: r#"{"result": {"path": "a.txt"}, "documents": ["a.txt"]}"#,
    },
];

/// Ends an answer after its first line: small models write the answers of all steps at once, with invented results.
const STOP: [&str; 1] = ["\n"];

/// Ends a native answer after its text: this model writes its call as text, and then newlines until it is cut.
const NATIVE_STOP: [&str; 1] = ["\n\n\n"];

impl Example {
    /// Returns the example as a part of a prompt.
    fn text(&self, is_universal: bool) -> String {
        let Self { tool, task, message, input, result, handoff } = self;
        let answer = |message: &str, tool: &str, input: &str| {
            if is_universal {
                format!(
                    r#"{{"message": "{message}", "tool_requests": [{{"tool": "{tool}", "input": {input}, "requestId": "{tool}-1", "return_to_llm": true}}]}}"#
                )
            } else {
                format!("a call of {tool} with {input}")
            }
        };
        let line = if is_universal { "Each answer is on one line. " } else { "" };
        let (first, second) = (answer(message, tool, input), answer("I have the result.", "handoff", handoff));
        format!(
            "{line}Example. The task: {task}\nFirst answer: {first}\nNext answer, after the result {result} has come: {second}"
        )
    }
}

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
        let example = EXAMPLES.iter().find(|example| tools.contains(&example.tool)).map(|example| example.text(is_universal));
        json!({
            "agent_id": id, "description": description, "tools": tools, "catalog": "full",
            "system_prompt": format!("{PROMPT}\n\n{}", example.unwrap_or_default()),
            "invocation": if is_universal { "universal" } else { "native" },
            "settings": self.settings(tools),
        })
    }

    /// Returns the settings of an agent with these tools.
    fn settings(self, tools: &[&str]) -> Value {
        match self {
            Self::Universal => json!({ "stop": STOP }),
            Self::Native => json!({"calls_in_text": false, "stop": NATIVE_STOP}),
            Self::NativeCallsInText => json!({"calls_in_text": true, "stop": NATIVE_STOP}),
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
