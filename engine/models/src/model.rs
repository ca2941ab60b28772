//! The door between the engine and what thinks.

use async_trait::async_trait;
use baton_core::function::{BoxFuture, Content};
use baton_core::id::{AgentId, ContentHash};
use baton_core::model::{ModelRequest, ModelTurn};

/// What answers for an agent.
///
/// The shell asks once per turn of a task. Many tasks ask the same model at the same time, so an implementation keeps
/// what belongs to a conversation in the request and nowhere else.
#[async_trait]
pub trait Model: Send + Sync {
    /// Answers `request`; `contents` resolves the documents that its parts name.
    ///
    /// Dropping the future cancels the request.
    async fn answer(&self, request: &ModelRequest, contents: &dyn ContentSource) -> Result<ModelTurn, ModelError>;
}

/// Where the bytes of documents come from.
pub trait ContentSource: Send + Sync {
    /// The content stored under `hash`.
    fn content(&self, hash: ContentHash) -> BoxFuture<'_, Result<Content, ModelError>>;
}

/// A source without contents, for requests without documents.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoContents;

impl ContentSource for NoContents {
    fn content(&self, hash: ContentHash) -> BoxFuture<'_, Result<Content, ModelError>> {
        Box::pin(std::future::ready(Err(ModelError::Content { hash, reason: "this source holds nothing".to_owned() })))
    }
}

/// Why a model gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// A script was asked something it has no answer for: the agents did something that its writer did not foresee.
    #[error("the script has no answer for agent {agent} at turn {turn}: {reason}")]
    Unexpected {
        /// The agent.
        agent: AgentId,
        /// The turn of its task, from 1.
        turn: u32,
        /// What the script does have.
        reason: String,
    },
    /// A template of a script could not be filled.
    #[error("the template at {place} cannot be filled: {message}")]
    Template {
        /// JSON pointer into the script.
        place: String,
        /// Why.
        message: String,
    },
    /// The content of a document could not be read.
    #[error("content {hash} cannot be read: {reason}")]
    Content {
        /// The content.
        hash: ContentHash,
        /// Why.
        reason: String,
    },
    /// Nothing answered.
    #[error("the model is not available: {reason}")]
    Unavailable {
        /// Why.
        reason: String,
    },
}

impl ModelError {
    /// Whether the error means that a script and the run have parted ways, so that going on would only hide it.
    ///
    /// The shell then ends the whole run, not only the task.
    pub fn fails_run(&self) -> bool {
        match self {
            Self::Unexpected { .. } | Self::Template { .. } => true,
            Self::Content { .. } | Self::Unavailable { .. } => false,
        }
    }
}
