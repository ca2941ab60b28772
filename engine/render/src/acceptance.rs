//! The question whether a result is accepted, and the verdict in its answer.

use baton_types::call::{CallResult, CallStatus};
use baton_types::json::Json;
use baton_types::text::shortened;
use serde_json::{Value, json};

use crate::QuestionText;

/// Returns the question to an acceptor. `input` holds the request, the result and the documents of the result.
pub fn question(input: &Json) -> QuestionText {
    let request = format!(
        "Do you accept this result? It takes effect only if you do. If you refuse it, your reason goes to the agent that gave it.\n\n\
         The request, the result and the documents of the result, as JSON:\n{}",
        input.text()
    );
    let answer_schema = json!({
        "type": "object",
        "properties": {
            "accepted": {"type": "boolean", "description": "Whether the result is accepted."},
            "reason": {"type": "string", "description": "The reason. After a refusal, the part that must change."}
        },
        "required": ["accepted", "reason"],
        "additionalProperties": false
    });
    QuestionText { request, answer_schema }
}

/// Maximum number of characters of a reason that an agent reads.
const REASON_SHOWN: usize = 2_000;

/// The verdict of an acceptor.
#[derive(Debug)]
pub enum Judgement {
    /// The result is accepted.
    Yes,
    /// A refusal, with its reason.
    No(String),
    /// No verdict, with the reason why there is none.
    Missing(String),
}

impl Judgement {
    /// Reads the verdict in the result of an acceptor's call.
    pub fn of(result: &CallResult) -> Self {
        if result.status != CallStatus::Success {
            return Self::Missing(shortened(result.reason(), REASON_SHOWN));
        }
        let answer = result.output.value();
        let reason = answer.get("reason").and_then(Value::as_str).map(str::trim).filter(|reason| !reason.is_empty());
        match answer.get("accepted") {
            Some(Value::Bool(true)) => Self::Yes,
            Some(Value::Bool(false)) => {
                Self::No(reason.map_or_else(|| "no reason was given".to_owned(), |reason| shortened(reason, REASON_SHOWN)))
            }
            _ => Self::Missing("its result has no boolean \"accepted\"".to_owned()),
        }
    }
}
