//! The services of the shell that a running function may use.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use baton_types::document::Content;
use baton_types::id::{ContentHash, RunId, TaskId};
use baton_types::json::Json;
use baton_types::time::Timestamp;

use crate::ask::{ModelAsk, ModelReply};
use crate::error::ToolError;

/// A boxed future, so that functions and hosts can be used behind pointers.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Services of the shell for a running function. Implemented by the runtime, and by a test host.
pub trait ToolHost: Send + Sync {
    /// Returns the bytes stored under `hash`.
    fn content(&self, hash: ContentHash) -> BoxFuture<'_, Result<Content, ToolError>>;
    /// Returns the moment now.
    fn now(&self) -> Timestamp;
    /// Waits; returns early when the call is cancelled.
    fn sleep(&self, duration: Duration) -> BoxFuture<'_, ()>;
    /// Whether the call was cancelled or timed out.
    fn is_cancelled(&self) -> bool;
    /// Completes when the call is cancelled or times out.
    fn cancelled(&self) -> BoxFuture<'_, ()>;
    /// Reports the progress of the call to watchers.
    fn progress(&self, message: &str);
    /// Returns the secret of that name, if the tool's config names it and it is set.
    fn secret(&self, name: &str) -> Option<String>;
    /// Returns earlier calls of a tool that only logs its input, oldest first.
    fn recall(&self, tool: &str, scope: RecallScope) -> BoxFuture<'_, Result<Vec<RecalledCall>, ToolError>>;
    /// Returns the tool's settings: an object.
    fn settings(&self) -> Json;
    /// Asks a model once.
    fn ask(&self, ask: ModelAsk) -> BoxFuture<'_, Result<ModelReply, ToolError>>;
    /// Runs work that would hold up other tasks on a thread of its own.
    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'_, ()>;
}

/// Scope of recalled calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecallScope {
    /// Calls of the calling task.
    Task,
    /// Calls of the calling agent in every run of its job, or of its project if that shares its memory.
    Agent,
}

/// An earlier call of a tool that only logs its input.
#[derive(Clone, Debug, PartialEq)]
pub struct RecalledCall {
    /// The run it was made in.
    pub run: RunId,
    /// The task that made it.
    pub task: TaskId,
    /// When.
    pub at: Timestamp,
    /// Its input.
    pub input: Json,
}
