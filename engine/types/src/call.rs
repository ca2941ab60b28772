//! One use of a tool: how it was asked for, and the exactly one result it gets.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::document::{ContentFacts, DocumentRef, DocumentVersion};
use crate::json::Json;
use crate::time::Timestamp;

/// A call as a model asked for it, not yet checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ModelCall {
    /// The tool's id, or the name that the model used where no tool has it.
    pub tool: String,
    /// The name that the model used, if the tool's config gives it another name than its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// The arguments; if the model's text was not JSON, a bounded preview of it as a JSON string.
    pub input: Json,
    /// Why the arguments could not be read, when they could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub malformed: Option<Box<str>>,
    /// The id that the provider or, in universal invocation, the model gave this call, to be sent back with its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<Box<str>>,
    /// `false` sends the result to the user instead of the agent (seeds 000 and 001).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_to_llm: Option<bool>,
    /// Wish of this call for the step after its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_execution: Option<AfterExecution>,
    /// The configuration of the tool that this call uses, by its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_id: Option<Box<str>>,
}

impl ModelCall {
    /// Returns a plain native call.
    pub fn new(tool: impl Into<String>, input: impl Into<Json>) -> Self {
        Self {
            tool: tool.into(),
            name: None,
            input: input.into(),
            malformed: None,
            provider_id: None,
            return_to_llm: None,
            after_execution: None,
            config_id: None,
        }
    }

    /// Returns the name that the model used.
    pub fn shown_name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.tool)
    }

    /// Returns the input, or the error of arguments that are not JSON.
    pub fn readable_input(&self) -> Result<&Json, CallError> {
        match &self.malformed {
            None => Ok(&self.input),
            Some(reason) => {
                Err(CallError::new(ErrorCode::MalformedInput, &**reason).with_detail(json!({"received": self.input.value()})))
            }
        }
    }

    /// Whether `other` asks for the same: the tool, the input and the configuration.
    pub fn asks_the_same(&self, other: &Self) -> bool {
        self.tool == other.tool && self.config_id == other.config_id && self.input == other.input
    }
}

/// Next step of the calling task after the turn's last result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AfterExecution {
    /// The agent is asked again.
    Suspend,
    /// The task ends with this call's output.
    Terminate,
}

/// Final status of a call. Other spellings exist only on a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// It did what was asked.
    Success,
    /// It did not; the error has the reason.
    Failed,
    /// Somebody stopped it.
    Cancelled,
    /// It took too long.
    Timeout,
    /// It did a part: a limit was reached.
    Partial,
    /// A crash left it unknown whether the effect happened; it is never run again.
    UnknownOutcome,
}

impl CallStatus {
    /// Returns the name used on timelines.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Timeout => "timeout",
            Self::Partial => "partial",
            Self::UnknownOutcome => "unknown_outcome",
        }
    }
}

/// Why a call has no success, in words that teach the agent to do better.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CallError {
    /// A stable code, such as `invalid_input`.
    pub code: ErrorCode,
    /// One sentence.
    pub message: String,
    /// Expected and received values, where they help.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub detail: Json,
}

impl CallError {
    /// Returns an error without detail.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), detail: Json::null() }
    }

    /// Returns the same error with a detail.
    pub fn with_detail(mut self, detail: impl Into<Json>) -> Self {
        self.detail = detail.into();
        self
    }

    /// Returns the message with the faults that the detail lists.
    pub fn message_with_faults(&self) -> String {
        let detail = self.detail.value();
        let faults = detail["faults"].as_array().into_iter().flatten();
        let faults: Vec<String> = faults.filter_map(|fault| Some(fault["message"].as_str()?.to_owned())).collect();
        if faults.is_empty() { self.message.clone() } else { format!("{}: {}", self.message, faults.join("; ")) }
    }

    /// Returns the error as the JSON an agent reads.
    pub fn to_value(&self) -> Value {
        let mut value = json!({"code": self.code, "message": self.message});
        if !self.detail.is_null() {
            value["detail"] = self.detail.value();
        }
        value
    }
}

/// The closed list of reasons a call or a task has no success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// No tool of this name exists, or the agent was not granted it.
    UnknownTool,
    /// The arguments are not JSON.
    MalformedInput,
    /// The arguments break the tool's schema.
    InvalidInput,
    /// The output breaks the tool's schema.
    InvalidOutput,
    /// A handoff that may not take effect in this turn.
    HandoffRefused,
    /// A document that is not in the workspace, or a path that cannot be one.
    UnknownDocument,
    /// A write whose base is no longer the current version, or a request with the id of another one.
    Conflict,
    /// A limit would be exceeded.
    LimitReached,
    /// The same tool, input and result too often in a row.
    Repeated,
    /// The tool reported a failure.
    ToolFailed,
    /// The tool's code panicked.
    Panicked,
    /// A time limit passed.
    TimedOut,
    /// Somebody stopped it.
    Cancelled,
    /// A crash interrupted a call that must not be repeated.
    UnknownOutcome,
    /// The agent ended without a handoff, three turns in a row.
    NoHandoff,
    /// The model gave no answer.
    ModelFailed,
    /// The model could not be asked: its provider, the key or the way there is at fault.
    ModelUnavailable,
    /// The model takes no request of that length.
    ContextExceeded,
    /// The turn was cut, filtered or refused, so its calls were not executed.
    TurnDiscarded,
    /// No answer came in time.
    Unanswered,
    /// A fork would have had an effect that its original did not have.
    EffectNotAllowed,
    /// The approver refused the call.
    Denied,
    /// The code of a call made another call than in its first execution.
    Diverged,
    /// The acceptor refused the result.
    NotAccepted,
    /// The acceptor gave no verdict about the result.
    AcceptorFailed,
}

impl ErrorCode {
    /// Returns the name used on timelines and in results.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownTool => "unknown_tool",
            Self::MalformedInput => "malformed_input",
            Self::InvalidInput => "invalid_input",
            Self::InvalidOutput => "invalid_output",
            Self::HandoffRefused => "handoff_refused",
            Self::UnknownDocument => "unknown_document",
            Self::Conflict => "conflict",
            Self::LimitReached => "limit_reached",
            Self::Repeated => "repeated",
            Self::ToolFailed => "tool_failed",
            Self::Panicked => "panicked",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::UnknownOutcome => "unknown_outcome",
            Self::NoHandoff => "no_handoff",
            Self::ModelFailed => "model_failed",
            Self::ModelUnavailable => "model_unavailable",
            Self::ContextExceeded => "context_exceeded",
            Self::TurnDiscarded => "turn_discarded",
            Self::Unanswered => "unanswered",
            Self::EffectNotAllowed => "effect_not_allowed",
            Self::Denied => "denied",
            Self::Diverged => "diverged",
            Self::NotAccepted => "not_accepted",
            Self::AcceptorFailed => "acceptor_failed",
        }
    }
}

/// The wait of a call whose code has ended: for a delivery from outside, for a moment, or for the first of both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Suspension {
    /// The moment up to which a result may be delivered. Without it, the call waits as long as its task lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The output that the call has at that moment. Without it, the call then ends as `timeout`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Json>,
}

/// The exactly one result of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CallResult {
    /// Final status.
    pub status: CallStatus,
    /// The output.
    #[serde(default, skip_serializing_if = "CallOutput::is_null")]
    pub output: CallOutput,
    /// Why there is no success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CallError>,
    /// The documents that the result injects into the calling task, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<DocumentRef>,
}

impl CallResult {
    /// Returns a success with `output`.
    pub fn success(output: impl Into<Json>) -> Self {
        Self { status: CallStatus::Success, output: CallOutput::Inline(output.into()), error: None, documents: Vec::new() }
    }

    /// Returns a result without success, for `error`.
    pub fn error(status: CallStatus, error: CallError) -> Self {
        Self { status, output: CallOutput::default(), error: Some(error), documents: Vec::new() }
    }

    /// Adds `value` under `key` to the details of the error.
    pub fn add_detail(&mut self, key: &str, value: Value) {
        let error = self.error.get_or_insert_with(|| CallError::new(ErrorCode::ToolFailed, "the delegated task failed"));
        let mut detail = match error.detail.value() {
            Value::Object(detail) => detail,
            Value::Null => serde_json::Map::new(),
            other => serde_json::Map::from_iter([("detail".to_owned(), other)]),
        };
        detail.insert(key.to_owned(), value);
        error.detail = Value::Object(detail).into();
    }

    /// Returns the message of the error, or the name of the status without one.
    pub fn reason(&self) -> &str {
        self.error.as_ref().map_or(self.status.as_str(), |error| &error.message)
    }
}

/// The output of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallOutput {
    /// The value; `null` when nothing came out.
    Inline(Json),
    /// A document that holds the value, because it is too long for the agent's requests.
    Kept(Box<KeptOutput>),
}

/// A document that holds the output of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct KeptOutput {
    /// The version.
    pub document: DocumentRef,
    /// Its size.
    pub size_bytes: u64,
    /// Its estimated size in tokens.
    pub token_count: u64,
    /// Its summary; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
}

impl CallOutput {
    /// Returns the value that the agent receives: the output, or where the document is.
    pub fn shown(&self) -> Cow<'_, Json> {
        match self {
            Self::Inline(output) => Cow::Borrowed(output),
            Self::Kept(kept) => Cow::Owned(kept.pointer()),
        }
    }

    /// [`CallOutput::shown`] as a tree.
    pub fn value(&self) -> Value {
        self.shown().value()
    }

    /// Returns the JSON text of [`CallOutput::shown`].
    pub fn text(&self) -> Cow<'_, str> {
        match self.shown() {
            Cow::Borrowed(output) => Cow::Borrowed(output.text()),
            Cow::Owned(pointer) => Cow::Owned(pointer.text().to_owned()),
        }
    }

    /// Whether nothing came out.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Inline(output) if output.is_null())
    }

    /// Returns the document that holds the output, if one does.
    pub fn kept(&self) -> Option<&KeptOutput> {
        match self {
            Self::Inline(_) => None,
            Self::Kept(kept) => Some(kept),
        }
    }
}

impl Default for CallOutput {
    fn default() -> Self {
        Self::Inline(Json::null())
    }
}

impl From<Json> for CallOutput {
    fn from(output: Json) -> Self {
        Self::Inline(output)
    }
}

impl KeptOutput {
    /// Returns the output that `version` holds.
    pub fn new(version: &DocumentVersion) -> Self {
        let ContentFacts { size_bytes, token_count, summary, hash: _, mime_type: _ } = &version.content;
        Self { document: version.reference(), size_bytes: *size_bytes, token_count: *token_count, summary: summary.clone() }
    }

    /// Returns the JSON that the agent receives in place of the output.
    fn pointer(&self) -> Json {
        let mut pointer = json!({
            "document": self.document.path, "size_bytes": self.size_bytes, "token_count": self.token_count,
            "note": "the output is too long to be shown here: read or query this document for what you need of it",
        });
        if !self.summary.is_empty() {
            pointer["summary"] = json!(self.summary);
        }
        Json::from(pointer)
    }
}
