//! Errors of tool functions.

use baton_types::json::Json;
use baton_types::path::DocumentPath;

/// Error of a tool function. It becomes a `failed` result that the agent reads.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// One sentence.
    pub message: String,
    /// Expected and received, or whatever helps the agent to do better; `null` without.
    pub detail: Json,
    /// Kind of the failure.
    pub kind: ToolErrorKind,
}

/// Kinds of failure that the engine distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolErrorKind {
    /// The tool reported a failure.
    Failed,
    /// The tool noticed that it was cancelled.
    Cancelled,
    /// A document it needs does not exist.
    UnknownDocument,
    /// The input does not fit the function, although it fits the schema.
    InvalidInput,
    /// A limit of the run leaves no room for what it needs.
    LimitReached,
    /// No failure: the result comes later. Made by the context alone.
    Suspended,
}

impl ToolError {
    /// Returns a failure with a sentence for the agent.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), detail: Json::null(), kind: ToolErrorKind::Failed }
    }

    /// Returns the same failure with a detail.
    pub fn with_detail(mut self, detail: impl Into<Json>) -> Self {
        self.detail = detail.into();
        self
    }

    /// Returns the same failure as another kind.
    pub fn of_kind(mut self, kind: ToolErrorKind) -> Self {
        self.kind = kind;
        self
    }

    /// Returns the error of a function that noticed its cancellation.
    pub fn cancelled() -> Self {
        Self::new("the call was cancelled").of_kind(ToolErrorKind::Cancelled)
    }
}

/// Reads a path given by a model, as the error that teaches it.
pub fn parse_path(path: &str) -> Result<DocumentPath, ToolError> {
    DocumentPath::parse(path).map_err(|error| ToolError::new(error.to_string()).of_kind(ToolErrorKind::InvalidInput))
}
