//! The services of the shell that a running function may use.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use baton_types::call::{CallResult, CallStatus, ModelCall};
use baton_types::document::Content;
use baton_types::id::{CallId, ContentHash, RunId, TaskId};
use baton_types::json::Json;
use baton_types::time::Timestamp;

use crate::ask::{ModelAsk, ModelReply};
use crate::breadcrumb::{BreadcrumbAsk, BreadcrumbReply};
use crate::error::ToolError;
use crate::scope::{Arrange, RunProgram, RunScope};

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
    /// Whether the tool's config has `"suspends": true`.
    fn may_suspend(&self) -> bool;
    /// Returns the key for the delivery of the call's result.
    fn delivery_key(&self) -> BoxFuture<'_, Result<String, ToolError>>;
    /// Reports the progress of the call to watchers.
    fn progress(&self, message: &str);
    /// Returns the secret of that name, if the tool's config names it and it is set.
    fn secret(&self, name: &str) -> Option<String>;
    /// Returns earlier calls of a tool, oldest first.
    fn recall(&self, tool: &str, scope: RecallScope) -> BoxFuture<'_, Result<Vec<RecalledCall>, ToolError>>;
    /// Returns the tool's settings: an object.
    fn settings(&self) -> Json;
    /// Asks a model once.
    fn ask(&self, ask: ModelAsk) -> BoxFuture<'_, Result<ModelReply, ToolError>>;
    /// Reads or writes breadcrumbs in the name of the calling agent.
    fn breadcrumbs(&self, ask: BreadcrumbAsk, may_read_pii: bool) -> BoxFuture<'_, Result<BreadcrumbReply, ToolError>> {
        drop((ask, may_read_pii));
        Box::pin(std::future::ready(Err(ToolError::new("there is no store of breadcrumbs here"))))
    }
    /// Makes another call of a tool and waits for its result. Without a name it has its number among such calls of this code.
    fn call<'a>(&'a self, name: Option<&'a str>, asked: ModelCall) -> BoxFuture<'a, Result<Arc<CallResult>, ToolError>> {
        drop((name, asked));
        Box::pin(std::future::ready(Err(ToolError::new("the code cannot make calls here"))))
    }
    /// Checks whether the limits leave room for these calls, all together.
    fn check_ahead(&self, calls: Vec<ModelCall>) -> BoxFuture<'_, Result<(), ToolError>> {
        drop(calls);
        Box::pin(std::future::ready(Ok(())))
    }
    /// Returns the values that tools keep for the run.
    fn run_scope(&self) -> Arc<RunScope> {
        Arc::default()
    }
    /// Starts `program` for the run, with the changes that `arrange` makes to its command.
    fn start_program(&self, program: &str, arrange: Arrange<'_>) -> io::Result<RunProgram> {
        drop((program, arrange));
        Err(io::Error::new(io::ErrorKind::Unsupported, "programs cannot be started here"))
    }
    /// Runs work that would hold up other tasks on a thread of its own.
    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'_, ()>;
}

/// Scope of recalled calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecallScope {
    /// Calls of the calling task that were accepted and have a result.
    Task,
    /// Calls of the calling agent in every run of its job, or of its project if that shares its memory. The tool only logs its input.
    Agent,
}

/// An earlier call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct RecalledCall {
    /// The run it was made in.
    pub run: RunId,
    /// The task that made it.
    pub task: TaskId,
    /// The call.
    pub call: CallId,
    /// The number of the entry with its result; 0 for a call of another task.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// Its input; that with which it was executed, for a call of the calling task.
    pub input: Json,
    /// Its status.
    pub status: CallStatus,
}
