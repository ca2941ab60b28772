//! Tool functions: what `#[tool]` registers, and the context that a function is given.
//!
//! A function sees a snapshot of the workspace. What it writes is collected and committed with its result as one
//! entry batch, so a function that fails has written nothing.

mod ask;
mod example;
pub mod signature;
pub mod testing;

pub use ask::{ModelAsk, ModelReply};
pub use example::{Difference, ExampleFailure, compare_output, run_example};

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::call::AfterExecution;
use crate::document::{ContentFacts, DocumentRef, DocumentVersion, Documents};
use crate::id::{AgentId, CallId, ContentHash, RunId, TaskId};
use crate::json::Json;
use crate::measure::measure;
use crate::path::DocumentPath;
use crate::time::Timestamp;

/// A boxed future, so that functions and hosts can stand behind pointers.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The bytes of a document, shared.
pub type Content = Arc<[u8]>;

/// A registered tool function. Written by `#[tool]`; collected by `inventory` in no particular order.
///
/// A crate that nobody names is not linked and its functions vanish: whoever lists tools writes
/// `use my_tools as _;`. A config without its function is a start-up fault, so the absence cannot be silent.
pub struct ToolFunction {
    /// The tool id it serves.
    pub id: &'static str,
    /// Its name in Rust.
    pub name: &'static str,
    /// Where it is written.
    pub file: &'static str,
    /// The line of its signature.
    pub line: u32,
    /// The JSON Schema of its parameters, from the Rust types; an object schema with `properties` and `required`.
    pub parameters: fn() -> Value,
    /// Whether it is a plain `fn`, which may block its thread; the shell gives it one of its own.
    pub blocking: bool,
    /// Runs it with a checked input.
    pub invoke: for<'a> fn(&'a ToolContext, &'a Json) -> BoxFuture<'a, Result<Json, ToolError>>,
}

inventory::collect!(ToolFunction);

/// All linked functions, ordered by id. Two of one id are both listed: the loader refuses them.
pub fn registered_functions() -> Vec<&'static ToolFunction> {
    let mut functions: Vec<_> = inventory::iter::<ToolFunction>.into_iter().collect();
    functions.sort_by_key(|function| (function.id, function.file, function.line));
    functions
}

/// What a tool function says when it cannot do what was asked. It becomes a `failed` result that the agent reads.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// One sentence.
    pub message: String,
    /// Expected and received, or whatever helps the agent to do better; `null` without.
    pub detail: Json,
    /// What kind of failure it is.
    pub kind: ToolErrorKind,
}

/// The kinds of failure that the engine tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolErrorKind {
    /// The tool said no.
    Failed,
    /// The tool noticed that it was cancelled.
    Cancelled,
    /// A document it needs does not exist.
    UnknownDocument,
    /// The input does not fit the function, although it fits the schema.
    InvalidInput,
    /// A limit of the run leaves no room for what it needs.
    LimitReached,
}

impl ToolError {
    /// A failure with a sentence for the agent.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), detail: Json::null(), kind: ToolErrorKind::Failed }
    }

    /// The same failure with a detail.
    pub fn with_detail(mut self, detail: impl Into<Json>) -> Self {
        self.detail = detail.into();
        self
    }

    /// The same failure as another kind.
    pub fn of_kind(mut self, kind: ToolErrorKind) -> Self {
        self.kind = kind;
        self
    }

    /// The function noticed its cancellation.
    pub fn cancelled() -> Self {
        Self::new("the call was cancelled").of_kind(ToolErrorKind::Cancelled)
    }
}

/// What a running function may ask of the shell. Implemented by the runtime, and by a still one for tests.
pub trait ToolHost: Send + Sync {
    /// The bytes stored under `hash`.
    fn content(&self, hash: ContentHash) -> BoxFuture<'_, Result<Content, ToolError>>;
    /// The moment now.
    fn now(&self) -> Timestamp;
    /// Waits; returns early when the call is cancelled.
    fn sleep(&self, duration: Duration) -> BoxFuture<'_, ()>;
    /// Whether the call was cancelled or timed out.
    fn is_cancelled(&self) -> bool;
    /// Completes when the call is cancelled or times out.
    fn cancelled(&self) -> BoxFuture<'_, ()>;
    /// Tells whoever watches how far the call is.
    fn progress(&self, message: &str);
    /// The secret of that name, if the tool's config names it and it is set.
    fn secret(&self, name: &str) -> Option<String>;
    /// Earlier calls of a tool that only logs its input, oldest first.
    fn recall(&self, tool: &str, scope: RecallScope) -> BoxFuture<'_, Result<Vec<RecalledCall>, ToolError>>;
    /// What people set of the tool: an object.
    fn settings(&self) -> Json;
    /// Asks a model once.
    fn ask(&self, ask: ModelAsk) -> BoxFuture<'_, Result<ModelReply, ToolError>>;
    /// Runs work that would hold up other tasks on a thread of its own.
    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'_, ()>;
}

/// Whose calls are recalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecallScope {
    /// Those of the calling task.
    Task,
    /// Those of the calling agent in every run of the store.
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

/// Who calls, for [`ToolContext::new`].
#[derive(Clone, Debug)]
pub struct Caller {
    /// The run.
    pub run: RunId,
    /// The calling task.
    pub task: TaskId,
    /// The calling agent.
    pub agent: AgentId,
    /// The call.
    pub call: CallId,
}

/// What a tool function is given: the workspace as it was when the call began, and the shell's services.
pub struct ToolContext {
    caller: Caller,
    documents: Documents,
    may_write: bool,
    host: Arc<dyn ToolHost>,
    effects: Mutex<CollectedEffects>,
}

/// What a function did through its context, taken by the shell when it returns.
#[derive(Debug, Default)]
pub struct CollectedEffects {
    /// Its writes with their facts, in order; at most one per path.
    pub writes: Vec<(PendingWrite, ContentFacts)>,
    /// The documents it asked to inject into the calling task.
    pub loads: Vec<DocumentRef>,
    /// What it asked to happen after the result.
    pub after: Option<AfterExecution>,
}

/// A document that a function wants to write.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingWrite {
    /// Where.
    pub path: DocumentPath,
    /// What.
    pub content: Content,
    /// Such as `text/csv`; worked out from path and content when absent.
    pub mime_type: Option<String>,
    /// What the document is for; kept from the version before when absent.
    pub description: Option<String>,
    /// Words to find it by; kept from the version before when absent.
    pub tags: Option<Vec<String>>,
}

impl PendingWrite {
    /// A write of `content` to `path`, the rest worked out or kept.
    pub fn new(path: DocumentPath, content: impl Into<Content>) -> Self {
        Self { path, content: content.into(), mime_type: None, description: None, tags: None }
    }
}

impl ToolContext {
    /// A context for one call. `documents` is the snapshot that the function sees.
    pub fn new(caller: Caller, documents: Documents, may_write: bool, host: Arc<dyn ToolHost>) -> Self {
        Self { caller, documents, may_write, host, effects: Mutex::default() }
    }

    /// The run that the call belongs to.
    pub fn run(&self) -> &RunId {
        &self.caller.run
    }

    /// The calling task.
    pub fn task(&self) -> &TaskId {
        &self.caller.task
    }

    /// The calling agent.
    pub fn agent(&self) -> &AgentId {
        &self.caller.agent
    }

    /// The call.
    pub fn call(&self) -> &CallId {
        &self.caller.call
    }

    /// The key under which a service must do this call's effect once only: the run and the call.
    pub fn idempotency_key(&self) -> String {
        format!("{}/{}", self.caller.run, self.caller.call)
    }

    /// The documents as they were when the call began, without the function's own writes.
    pub fn documents(&self) -> &Documents {
        &self.documents
    }

    /// The newest version of the document at `path`.
    pub fn document(&self, path: &str) -> Result<&Arc<DocumentVersion>, ToolError> {
        let parsed = parse_path(path)?;
        self.documents.get(&parsed).map(|document| document.current()).ok_or_else(|| self.unknown_document(path))
    }

    /// The bytes of the document at `path`: the function's own write if it made one, else the newest version.
    pub async fn read(&self, path: &str) -> Result<Content, ToolError> {
        let parsed = parse_path(path)?;
        if let Some((write, _)) = self.lock().writes.iter().find(|(write, _)| write.path == parsed) {
            return Ok(Arc::clone(&write.content));
        }
        let hash = self.document(path)?.content.hash;
        self.host.content(hash).await
    }

    /// The text of the document at `path`; an error if it is not UTF-8.
    pub async fn read_text(&self, path: &str) -> Result<String, ToolError> {
        let content = self.read(path).await?;
        String::from_utf8(content.to_vec()).map_err(|_| ToolError::new(format!("document {path} is not text in UTF-8")))
    }

    /// Whether the tool's config says `"writes": true`.
    pub fn may_write(&self) -> bool {
        self.may_write
    }

    /// Collects a write and measures it; it becomes a version when the call succeeds. A second write to one path replaces
    /// the first.
    ///
    /// Refused unless the tool's config says `"writes": true`, and for a path that another document's path looks like.
    pub fn write(&self, write: PendingWrite) -> Result<ContentFacts, ToolError> {
        if !self.may_write {
            return Err(ToolError::new("this tool may not write documents: its config lacks \"writes\": true"));
        }
        if let Some(twin) = self.documents.twin(&write.path) {
            return Err(ToolError::new(format!(
                "path {} could be taken for the existing document {twin}, or lies in it",
                write.path
            )));
        }
        let facts = measure(&write.path, &write.content, write.mime_type.as_deref());
        let mut effects = self.lock();
        effects.writes.retain(|(earlier, _)| earlier.path != write.path);
        effects.writes.push((write, facts.clone()));
        Ok(facts)
    }

    /// Asks that the newest version of `path` be injected into the calling task with the result.
    pub fn load(&self, path: &str) -> Result<DocumentRef, ToolError> {
        let reference = self.document(path)?.reference();
        let mut effects = self.lock();
        if !effects.loads.contains(&reference) {
            effects.loads.push(reference.clone());
        }
        Ok(reference)
    }

    /// Asks for what shall happen once the turn's last result is in; outranks the call and the config.
    pub fn after_execution(&self, after: AfterExecution) {
        self.lock().after = Some(after);
    }

    /// The moment now.
    pub fn now(&self) -> Timestamp {
        self.host.now()
    }

    /// Waits for `duration`; an error if the call is cancelled meanwhile.
    pub async fn sleep(&self, duration: Duration) -> Result<(), ToolError> {
        self.host.sleep(duration).await;
        self.check_cancelled()
    }

    /// An error if the call was cancelled. Long loops ask now and then.
    pub fn check_cancelled(&self) -> Result<(), ToolError> {
        if self.host.is_cancelled() { Err(ToolError::cancelled()) } else { Ok(()) }
    }

    /// Completes when the call is cancelled or times out.
    pub async fn cancelled(&self) {
        self.host.cancelled().await;
    }

    /// Tells whoever watches how far the call is.
    pub fn progress(&self, message: &str) {
        self.host.progress(message);
    }

    /// The secret of that name.
    pub fn secret(&self, name: &str) -> Result<String, ToolError> {
        self.host.secret(name).ok_or_else(|| ToolError::new(format!("the secret {name} is not set")))
    }

    /// What people set of the tool, as its config declares it.
    pub fn settings<T: serde::de::DeserializeOwned>(&self) -> Result<T, ToolError> {
        serde_json::from_str(self.host.settings().text())
            .map_err(|error| ToolError::new(format!("the tool's settings do not fit its function: {error}")))
    }

    /// Asks a model once, by any name that an agent of the job could use. It is asked as agents' models are: with the same
    /// keys, the same retries and the same scripts, and within the same limits. The most that it may use is reserved on the
    /// calling task and all above it: this waits while others' reservations leave no room, and counts what it used, or all that
    /// was reserved where nobody says or nobody waits for the answer any more.
    ///
    /// # Errors
    ///
    /// [`ToolErrorKind::LimitReached`] where a limit leaves no room for the request, or holds money and the model's price is not
    /// known; [`ToolErrorKind::Failed`] if the model gives no answer.
    pub async fn ask(&self, ask: ModelAsk) -> Result<ModelReply, ToolError> {
        self.host.ask(ask).await
    }

    /// Earlier calls of the logging tool `tool`, oldest first.
    pub async fn recall(&self, tool: &str, scope: RecallScope) -> Result<Vec<RecalledCall>, ToolError> {
        self.host.recall(tool, scope).await
    }

    /// Runs CPU-heavy `work` where it holds up no other task.
    pub async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, ToolError> {
        let slot = Arc::new(Mutex::new(None));
        let filled = Arc::clone(&slot);
        self.host
            .run_blocking(Box::new(move || {
                let value = work();
                *filled.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
            }))
            .await;
        let value = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        value.ok_or_else(|| ToolError::new("the tool's code panicked"))
    }

    /// Takes what the function did; called once, by the shell.
    pub fn take_effects(&self) -> CollectedEffects {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, CollectedEffects> {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unknown_document(&self, path: &str) -> ToolError {
        let known: Vec<&str> = self.documents.iter().map(|(known, _)| known.as_str()).take(50).collect();
        ToolError::new(format!("there is no document {path}"))
            .with_detail(serde_json::json!({ "known_documents": known }))
            .of_kind(ToolErrorKind::UnknownDocument)
    }
}

/// Reads a path given by a model, as the error that teaches it.
pub fn parse_path(path: &str) -> Result<DocumentPath, ToolError> {
    DocumentPath::parse(path).map_err(|error| ToolError::new(error.to_string()).of_kind(ToolErrorKind::InvalidInput))
}

/// The JSON Schema of `T` without references, so that its properties can be compared; used by the code that `#[tool]` writes.
pub fn schema_of<T: schemars::JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// Serialises what a function returned; used by the code that `#[tool]` writes.
pub fn to_output<T: Serialize>(value: T) -> Result<Json, ToolError> {
    Json::of(&value).map_err(|error| ToolError::new(format!("the tool's output is not JSON: {error}")))
}

/// Reads the arguments; used by the code that `#[tool]` writes.
pub fn from_input<T: serde::de::DeserializeOwned>(input: &Json) -> Result<T, ToolError> {
    serde_json::from_str(input.text())
        .map_err(|error| ToolError::new(format!("the input does not fit: {error}")).of_kind(ToolErrorKind::InvalidInput))
}
