//! Universal invocation (seeds 000 and 001): any model that can write JSON uses tools.
//!
//! [`Universal`] wraps a model. It sends calls and results as text and offers no tools; it reads calls from the text of
//! the answer. The system prompt explains this to the model: see `baton_config::render_prompt`.
//!
//! JSON that a model copies word for word from a document, a result or a request is *not* an answer and is never executed.

mod copied;
mod envelope;
mod noise;
mod requests;
mod response;

use std::sync::Arc;

use async_trait::async_trait;
use baton_schema::provider::SchemaFault;
use baton_types::call::ModelCall;
use baton_types::json::Json;
use baton_types::message::{Message, Part, Role, framed};
use baton_types::model::{FinishReason, ModelRequest, ModelTurn, ToolDefinition};
use serde_json::Value;

use self::envelope::{Reading, read_answer};
use self::requests::call_of;
use crate::error::ModelError;
use crate::model::{Attempt, ContentSource, Model};

pub(crate) use copied::is_copied;
pub(crate) use noise::{Found, values};

/// The tool name of the malformed call that replaces an answer without a readable envelope.
const UNREADABLE: &str = "agent.response.v1";

/// Number of characters that the call of an unreadable answer repeats. The model sees them as its answer, and a small model
/// that sees a cut answer writes the next one cut.
const PREVIEW_CHARACTERS: usize = 2_000;

/// A model without tool calling, as a model that makes calls.
pub struct Universal(Arc<dyn Model>);

impl Universal {
    /// Returns `model` as a model that makes calls.
    pub fn new(model: Arc<dyn Model>) -> Self {
        Self(model)
    }
}

#[async_trait]
impl Model for Universal {
    fn check_tools(&self, _tools: &[Arc<ToolDefinition>], settings: &Json) -> Result<(), Vec<SchemaFault>> {
        self.0.check_tools(&[], settings)
    }

    async fn answer(&self, request: &ModelRequest, contents: &dyn ContentSource) -> Result<ModelTurn, ModelError> {
        self.attempt(request, contents, Attempt::UNOBSERVED).await
    }

    async fn attempt(
        &self,
        request: &ModelRequest,
        contents: &dyn ContentSource,
        attempt: Attempt<'_>,
    ) -> Result<ModelTurn, ModelError> {
        let answer = self.0.attempt(&as_text(request), contents, attempt).await?;
        // A cut, withheld or declined answer executes nothing. The machine decides what follows.
        if !matches!(answer.finish, FinishReason::Stop | FinishReason::ToolCalls) {
            return Ok(ModelTurn { calls: Vec::new(), items: Json::null(), ..answer });
        }
        turn_of(answer, request, contents).await
    }
}

/// Returns `request` without tools, with calls and results as text.
fn as_text(request: &ModelRequest) -> ModelRequest {
    let messages = request.messages.iter().map(|message| match message.role {
        Role::User => Arc::clone(message),
        Role::Assistant => Arc::new(Message { role: Role::Assistant, parts: vec![Part::Text(answer_text(message))] }),
        Role::Tool => Arc::new(Message { role: Role::User, parts: message.parts.iter().map(result_text).collect() }),
    });
    ModelRequest { messages: Arc::new(messages.collect()), tools: Arc::from([]), result_schema: None, ..request.clone() }
}

/// Returns a turn of the model as text.
fn answer_text(message: &Message) -> String {
    let texts = message.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let calls: Vec<&ModelCall> = calls(message).collect();
    match calls[..] {
        [call] if call.tool == UNREADABLE => call.input.value().as_str().unwrap_or_default().to_owned(),
        _ => response::envelope_text(&texts.collect::<Vec<_>>().join("\n"), &calls),
    }
}

/// Returns a part of the message that answers calls, with a result as text.
fn result_text(part: &Part) -> Part {
    match part {
        Part::Result { asked, result, hint, said, call: _ } => {
            let response = response::response(asked, result.as_deref(), *hint, said);
            Part::Text(framed("tool_response", &response.to_string()))
        }
        other => other.clone(),
    }
}

fn calls(message: &Message) -> impl Iterator<Item = &ModelCall> {
    message.parts.iter().filter_map(|part| match part {
        Part::Call { asked, call: _ } => Some(&**asked),
        _ => None,
    })
}

/// Returns the turn that a model's text means.
async fn turn_of(answer: ModelTurn, request: &ModelRequest, contents: &dyn ContentSource) -> Result<ModelTurn, ModelError> {
    let (text, calls) = match read_answer(&answer.text) {
        Reading::Text => (answer.text, Vec::new()),
        Reading::Fault(reason) => (String::new(), vec![unreadable(&answer.text, reason)]),
        Reading::Envelope { text, object, message, requests } => {
            if !requests.is_empty() && is_copied(text, &object, request, contents).await? {
                let reason = "this JSON is a copy from a document, a result or a request; write your own".to_owned();
                (String::new(), vec![unreadable(text, reason)])
            } else {
                (message, requests.iter().map(|asked| call_of(asked, &request.tools)).collect())
            }
        }
    };
    let finish = if calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    Ok(ModelTurn { text, calls, finish, items: Json::null(), usage: answer.usage, answered: answer.answered })
}

/// Returns a malformed call for an answer that cannot be used.
fn unreadable(text: &str, reason: String) -> ModelCall {
    let mut preview: String = text.chars().take(PREVIEW_CHARACTERS).collect();
    if preview.len() < text.len() {
        preview.push('…');
    }
    ModelCall { malformed: Some(reason.into()), ..ModelCall::new(UNREADABLE, Value::from(preview)) }
}
