//! The context of one call: the workspace as it was when the call began, and the shell's services.

use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_types::call::{AfterExecution, CallResult, ModelCall, Suspension};
use baton_types::document::{Content, ContentFacts, DocumentRef, DocumentVersion, Documents};
use baton_types::id::{AgentId, CallId, RunId, TaskId};
use baton_types::json::Json;
use baton_types::path::DocumentPath;
use baton_types::time::Timestamp;

use crate::ask::{ModelAsk, ModelReply};
use crate::breadcrumb::{BreadcrumbAsk, BreadcrumbReply};
use crate::error::{ToolError, ToolErrorKind, parse_path};
use crate::host::{RecallScope, RecalledCall, ToolHost};
use crate::measure::{check_declared, measure_checked};
use crate::scope::RunProgram;

/// Caller of a function, for [`ToolContext::new`].
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

/// Context of a tool function: the workspace at the beginning of the call, and the shell's services.
pub struct ToolContext {
    caller: Caller,
    documents: Documents,
    may_write: bool,
    host: Arc<dyn ToolHost>,
    effects: Mutex<CollectedEffects>,
}

/// Effects of a function through its context, taken by the shell when it returns.
#[derive(Debug, Default)]
pub struct CollectedEffects {
    /// Its writes with their facts, in order; at most one per path.
    pub writes: Vec<(PendingWrite, ContentFacts)>,
    /// The documents it asked to inject into the calling task.
    pub loads: Vec<DocumentRef>,
    /// The documents of which its output shows a part.
    pub reads: Vec<DocumentRef>,
    /// Wish for the step after the result.
    pub after: Option<AfterExecution>,
    /// The moment and the output that the call waits for, if its code ended without a result.
    pub suspension: Option<Suspension>,
    /// The text that it printed.
    pub printed: String,
}

/// The most bytes of printed text that a call keeps.
const PRINTED_BYTES: usize = 64 << 10;

/// A document that a function wants to write.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingWrite {
    /// Path.
    pub path: DocumentPath,
    /// Content.
    pub content: Content,
    /// Such as `text/csv`. It is kept, or the write is refused. Without it, path and content decide.
    pub mime_type: Option<String>,
    /// Purpose of the document; kept from the version before when absent.
    pub description: Option<String>,
    /// Words to find it by; kept from the version before when absent.
    pub tags: Option<Vec<String>>,
}

impl PendingWrite {
    /// Returns a write of `content` to `path`, the rest worked out or kept.
    pub fn new(path: DocumentPath, content: impl Into<Content>) -> Self {
        Self { path, content: content.into(), mime_type: None, description: None, tags: None }
    }
}

impl ToolContext {
    /// Returns a context for one call. `documents` is the snapshot that the function sees.
    pub fn new(caller: Caller, documents: Documents, may_write: bool, host: Arc<dyn ToolHost>) -> Self {
        Self { caller, documents, may_write, host, effects: Mutex::default() }
    }

    /// Returns the run that the call belongs to.
    pub fn run(&self) -> &RunId {
        &self.caller.run
    }

    /// Returns the calling task.
    pub fn task(&self) -> &TaskId {
        &self.caller.task
    }

    /// Returns the calling agent.
    pub fn agent(&self) -> &AgentId {
        &self.caller.agent
    }

    /// Returns the call.
    pub fn call(&self) -> &CallId {
        &self.caller.call
    }

    /// Returns the idempotency key of this call's effect: the run and the call.
    pub fn idempotency_key(&self) -> String {
        format!("{}/{}", self.caller.run, self.caller.call)
    }

    /// Returns the documents as they were when the call began, without the function's own writes.
    pub fn documents(&self) -> &Documents {
        &self.documents
    }

    /// Returns the newest version of the document at `path`.
    pub fn document(&self, path: &str) -> Result<&Arc<DocumentVersion>, ToolError> {
        let parsed = parse_path(path)?;
        self.documents.get(&parsed).map(|document| document.current()).ok_or_else(|| self.unknown_document(path))
    }

    /// Returns the bytes of the document at `path`: the function's own write if it made one, else the newest version.
    pub async fn read(&self, path: &str) -> Result<Content, ToolError> {
        let parsed = parse_path(path)?;
        if let Some((write, _)) = self.lock().writes.iter().find(|(write, _)| write.path == parsed) {
            return Ok(Arc::clone(&write.content));
        }
        let hash = self.document(path)?.content.hash;
        self.host.content(hash).await
    }

    /// Returns the text of the document at `path`; an error if it is not UTF-8.
    pub async fn read_text(&self, path: &str) -> Result<String, ToolError> {
        let content = self.read(path).await?;
        String::from_utf8(content.to_vec()).map_err(|_| ToolError::new(format!("document {path} is not text in UTF-8")))
    }

    /// Whether the tool's config has `"writes": true`.
    pub fn may_write(&self) -> bool {
        self.may_write
    }

    /// Collects a write and measures it; it becomes a version when the call succeeds. A second write to one path replaces
    /// the first.
    ///
    /// Refused unless the tool's config has `"writes": true`, for a path that could be confused with another
    /// document's, and for a media type that the content does not have.
    pub fn write(&self, write: PendingWrite) -> Result<ContentFacts, ToolError> {
        if !self.may_write {
            return Err(ToolError::new("this tool cannot write documents: its config lacks \"writes\": true"));
        }
        if let Some(twin) = self.documents.twin(&write.path) {
            return Err(ToolError::new(format!(
                "path {} could be mistaken for the existing document {twin}, or one of them would be a folder of the other",
                write.path
            )));
        }
        if let Some(declared) = &write.mime_type {
            check_declared(&write.content, declared)
                .map_err(|reason| ToolError::new(reason).of_kind(ToolErrorKind::InvalidInput))?;
        }
        let facts = measure_checked(&write.path, &write.content, write.mime_type.as_deref());
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

    /// Records that the output shows a part of the newest version of `path`. So the calling task may write a new version.
    pub fn note_read(&self, path: &str) -> Result<DocumentRef, ToolError> {
        let reference = self.document(path)?.reference();
        let mut effects = self.lock();
        if !effects.reads.contains(&reference) {
            effects.reads.push(reference.clone());
        }
        Ok(reference)
    }

    /// Asks for what shall happen once the turn's last result is in; outranks the call and the config.
    pub fn after_execution(&self, after: AfterExecution) {
        self.lock().after = Some(after);
    }

    /// Whether the tool's config has `"suspends": true`.
    pub fn may_suspend(&self) -> bool {
        self.host.may_suspend()
    }

    /// Returns the key with which somebody outside can deliver the result of this call, once its code has ended. It is the same
    /// whenever the call runs. Who knows it can deliver this result, and nothing else.
    ///
    /// # Errors
    /// If the tool's config lacks `"suspends": true`.
    pub async fn delivery_key(&self) -> Result<String, ToolError> {
        self.host.delivery_key().await
    }

    /// Ends the code of this call without a result, which somebody delivers later. Return the error:
    /// `return Err(context.wait_for_delivery(None))`. The call waits any number of restarts, and no process is needed for it. At
    /// the moment `until` it ends as `timeout`. What the code wrote so far is an error.
    ///
    /// The tool's config must have `"suspends": true`.
    pub fn wait_for_delivery(&self, until: Option<Timestamp>) -> ToolError {
        self.suspend(Suspension { until, output: None })
    }

    /// Ends the code of this call, whose result is `output` at the moment `until`. Nothing of it runs meanwhile. A result can be
    /// delivered earlier, as after [`ToolContext::wait_for_delivery`]. Return the error.
    pub fn wait_until(&self, until: Timestamp, output: impl Into<Json>) -> ToolError {
        self.suspend(Suspension { until: Some(until), output: Some(output.into()) })
    }

    fn suspend(&self, suspension: Suspension) -> ToolError {
        self.lock().suspension = Some(suspension);
        ToolError::new("the call is suspended; its code must return this error").of_kind(ToolErrorKind::Suspended)
    }

    /// Returns the moment now.
    pub fn now(&self) -> Timestamp {
        self.host.now()
    }

    /// Waits for `duration`; an error if the call is cancelled meanwhile.
    pub async fn sleep(&self, duration: Duration) -> Result<(), ToolError> {
        self.host.sleep(duration).await;
        self.check_cancelled()
    }

    /// Fails if the call was cancelled. Long loops check now and then.
    pub fn check_cancelled(&self) -> Result<(), ToolError> {
        if self.host.is_cancelled() { Err(ToolError::cancelled()) } else { Ok(()) }
    }

    /// Completes when the call is cancelled or times out.
    pub async fn cancelled(&self) {
        self.host.cancelled().await;
    }

    /// Reports the progress of the call to watchers.
    pub fn progress(&self, message: &str) {
        self.host.progress(message);
    }

    /// Keeps `text` with the result, for the people who operate the run. No model reads it. The first 64 KiB of a call are kept.
    pub fn print(&self, text: &str) {
        let printed = &mut self.lock().printed;
        let room = PRINTED_BYTES.saturating_sub(printed.len());
        printed.push_str(&text[..text.floor_char_boundary(room)]);
    }

    /// Returns the secret of that name.
    pub fn secret(&self, name: &str) -> Result<String, ToolError> {
        self.host.secret(name).ok_or_else(|| ToolError::new(format!("the secret {name} is not set")))
    }

    /// Returns the tool's settings, in the form that its config declares.
    pub fn settings<T: serde::de::DeserializeOwned>(&self) -> Result<T, ToolError> {
        serde_json::from_str(self.host.settings().text())
            .map_err(|error| ToolError::new(format!("the tool's settings do not fit its function: {error}")))
    }

    /// Asks a model once, by any name that an agent of the job could use. The request has the same keys, retries,
    /// scripts and limits as agents' requests. Its largest possible usage is reserved on the calling task and all
    /// tasks above it. This waits while the reservations of others leave no room. Afterwards the real usage counts, or
    /// the whole reservation if the usage is unknown or the call no longer waits for the answer.
    ///
    /// # Errors
    ///
    /// [`ToolErrorKind::LimitReached`] where a limit leaves no room for the request, or holds money and the model's price is not
    /// known; [`ToolErrorKind::Failed`] if the model gives no answer.
    pub async fn ask(&self, ask: ModelAsk) -> Result<ModelReply, ToolError> {
        self.host.ask(ask).await
    }

    /// Reads or writes breadcrumbs in the name of the calling agent, with the agent's rights. The function decides by its settings
    /// whether the call may read personal data (`may_read_pii`).
    ///
    /// A write has the call's idempotency key, so a call makes one write at most, and makes it once even if it runs again after a crash. An
    /// approval needs a tool whose calls a person approves.
    ///
    /// # Errors
    ///
    /// [`ToolErrorKind::InvalidInput`] if the write breaks a rule of records; [`ToolErrorKind::Failed`] if the record is unknown to the
    /// agent or has another version.
    pub async fn breadcrumbs(&self, ask: BreadcrumbAsk, may_read_pii: bool) -> Result<BreadcrumbReply, ToolError> {
        self.host.breadcrumbs(ask, may_read_pii).await
    }

    /// Calls the tool `tool` with `input`, and waits for the result. The call belongs to the calling task. It is checked, approved,
    /// limited and recorded as a call of the agent is. A result without success is a value, not an error.
    ///
    /// After a crash this code runs again, and a call that has its result is not made a second time. So the code must make the
    /// same calls again: it must depend on its input, its documents and the results alone. `name` identifies the call among the
    /// calls of this code: 1 to 64 letters of ASCII, digits, `.`, `_`, `-` or `%`. Without a name the call is numbered, in the order
    /// of the calls.
    ///
    /// The tool's config must name the called tool in `"calls"`.
    ///
    /// # Errors
    ///
    /// If the config allows no calls, the name is used twice or is no name, or the code makes another call under this name than
    /// in its first execution. [`ToolErrorKind::Cancelled`] if the call is stopped.
    pub async fn call_tool(&self, name: Option<&str>, tool: &str, input: impl Into<Json>) -> Result<Arc<CallResult>, ToolError> {
        self.host.call(name, ModelCall::new(tool, input)).await
    }

    /// Checks whether the limits leave room for calls that this code is about to make: the calls, the tasks that they create, and the
    /// first request of each task. More may be needed, and nothing is reserved. It makes no call. Watchers see the least that the
    /// calls take.
    ///
    /// # Errors
    ///
    /// [`ToolErrorKind::LimitReached`] with the limit and the amounts.
    pub async fn check_ahead(&self, calls: Vec<ModelCall>) -> Result<(), ToolError> {
        self.host.check_ahead(calls).await
    }

    /// Returns earlier calls of the tool `tool`, oldest first.
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

    /// Returns the value of type `T` that the calls of this run share, such as a connection. It is made with its default by the first
    /// call that asks for it. It is dropped when this process stops proceeding with the run, so the next process begins with a new one.
    pub fn run_value<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.host.run_scope().value()
    }

    /// Starts `program`, which may outlive this call if its handle is kept in a [`run_value`](Self::run_value). It ends with all its
    /// processes when the handle is dropped, and when the engine is killed.
    ///
    /// The program works in a fresh private folder. Its environment has `PATH`, `LANG` and what the engine needs to find its processes.
    /// `arrange` adds arguments and variables.
    ///
    /// # Errors
    ///
    /// If the program cannot be started, or there are no processes here, as in a test of a single function.
    pub fn start_program(&self, program: &str, arrange: impl FnOnce(&Path, &mut Command) + Send) -> io::Result<RunProgram> {
        self.host.start_program(program, Box::new(arrange))
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
