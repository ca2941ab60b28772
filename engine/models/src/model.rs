//! The door between the engine and what thinks.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use baton_schema::provider::SchemaFault;
use baton_types::document::Content;
use baton_types::id::ContentHash;
use baton_types::json::Json;
use baton_types::model::{ModelRequest, ModelTurn, ToolDefinition};

use crate::error::ModelError;

/// A future behind a pointer.
type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A model that answers for an agent.
///
/// The shell asks once per turn of a task. Many tasks ask the same model at the same time, so an implementation keeps
/// what belongs to a conversation in the request and nowhere else.
#[async_trait]
pub trait Model: Send + Sync {
    /// Fails with the faults of `tools` that cannot be offered to this model, before its first request. `settings` are
    /// those of the agent that will offer them.
    fn check_tools(&self, _tools: &[Arc<ToolDefinition>], _settings: &Json) -> Result<(), Vec<SchemaFault>> {
        Ok(())
    }

    /// Whether its answers have calls in universal invocation too, because it writes no text: a script, or a person.
    fn makes_calls_itself(&self) -> bool {
        false
    }

    /// Answers `request`; `contents` resolves the documents that its parts name.
    ///
    /// Dropping the future cancels the request.
    async fn answer(&self, request: &ModelRequest, contents: &dyn ContentSource) -> Result<ModelTurn, ModelError>;

    /// Answers `request` or fails, in one `attempt`. The caller retries failures.
    ///
    /// Implementations that retry in [`Model::answer`] should not do so here.
    async fn attempt(
        &self,
        request: &ModelRequest,
        contents: &dyn ContentSource,
        attempt: Attempt<'_>,
    ) -> Result<ModelTurn, ModelError> {
        within(attempt.limit, self.answer(request, contents)).await
    }
}

/// The time limit of an attempt, and the observer of its pauses.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    /// The time limit of each request that is sent.
    pub limit: Option<Duration>,
    /// Receives each pause before a request is sent, or sent again.
    pub on_pause: &'a (dyn Fn(Pause) + Send + Sync),
}

impl Attempt<'_> {
    /// An attempt without a time limit, whose pauses are not observed.
    pub const UNOBSERVED: Self = Attempt { limit: None, on_pause: &|_| {} };
}

/// A pause within an attempt: the rate limit of a key holds a request back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Number of times that the request was sent before.
    pub sent: u32,
    /// Its length, as far as it is known.
    pub length: Duration,
    /// The provider's last words, or the limit that other requests met.
    pub reason: String,
}

/// Runs `attempt` for at most `limit`.
pub(crate) async fn within<T, E: From<ModelError>>(
    limit: Option<Duration>,
    attempt: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    match limit {
        None => attempt.await,
        Some(limit) => {
            let late = || Err(ModelError::TurnTimedOut { limit }.into());
            tokio::time::timeout(limit, attempt).await.unwrap_or_else(|_| late())
        }
    }
}

/// Source of the bytes of documents.
pub trait ContentSource: Send + Sync {
    /// Returns the content stored under `hash`.
    fn content(&self, hash: ContentHash) -> BoxFuture<'_, Result<Content, ModelError>>;
}

/// A source without contents, for requests without documents.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoContents;

impl ContentSource for NoContents {
    fn content(&self, hash: ContentHash) -> BoxFuture<'_, Result<Content, ModelError>> {
        Box::pin(std::future::ready(Err(ModelError::Content { hash, reason: "this source has no contents".to_owned() })))
    }
}
