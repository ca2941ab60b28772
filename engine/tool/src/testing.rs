//! Contexts for tests of tools: a workspace in memory, and a host in which nothing happens by itself.
//!
//! Time is virtual, secrets and earlier calls are what the test gives, and there is no network. The engine does not use
//! this module while it runs jobs.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use baton_types::call::{CallResult, CallStatus, ModelCall};
use baton_types::document::{Content, DocumentVersion, Documents};
use baton_types::id::{AgentId, CallId, ContentHash, RunId, TaskId};
use baton_types::json::Json;
use baton_types::message::Part;
use baton_types::model::{FinishReason, Usage};
use baton_types::money::Money;
use baton_types::path::DocumentPath;
use baton_types::time::Timestamp;

use crate::ask::{ModelAsk, ModelReply};
use crate::context::{Caller, ToolContext};
use crate::error::ToolError;
use crate::host::{BoxFuture, RecallScope, RecalledCall, ToolHost};
use crate::measure::measure;
use crate::scope::RunScope;

/// When a test's time begins: 2026-01-01T00:00:00Z.
const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

impl ToolContext {
    /// Begins a context for a test: an empty workspace that may be written to, and a still host.
    ///
    /// ```
    /// use baton_tool::ToolContext;
    /// let context = ToolContext::for_test().with_document("a.csv", "x\n1\n").build();
    /// assert_eq!(context.document("a.csv").unwrap().version, 1);
    /// ```
    pub fn for_test() -> TestContext {
        TestContext {
            caller: Caller {
                run: RunId::new("test"),
                task: TaskId::root(),
                agent: AgentId::new("tester"),
                call: TaskId::root().call(1, 1),
            },
            documents: Documents::default(),
            may_write: true,
            host: StillHost::default(),
        }
    }
}

/// A context for a test, being described. Made by [`ToolContext::for_test`].
pub struct TestContext {
    caller: Caller,
    documents: Documents,
    may_write: bool,
    host: StillHost,
}

impl TestContext {
    /// Adds a document to the workspace; given again, its next version.
    ///
    /// # Panics
    /// If `path` cannot be the path of a document.
    pub fn with_document(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        self.with_described_document(path, content, "", &[])
    }

    /// Adds a document with a description and tags.
    ///
    /// # Panics
    /// If `path` cannot be the path of a document.
    pub fn with_described_document(mut self, path: &str, content: impl AsRef<[u8]>, description: &str, tags: &[&str]) -> Self {
        let path = DocumentPath::parse(path).expect("the test's document has a good path");
        let content: Content = content.as_ref().into();
        let facts = measure(&path, &content, None);
        self.host.contents.insert(facts.hash, content);
        let base = self.documents.head(&path);
        self.documents.insert(DocumentVersion {
            path,
            version: base.unwrap_or(0) + 1,
            base,
            content: facts,
            description: description.to_owned(),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            task: None,
            call: None,
            created_by: None,
            at: START,
        });
        self
    }

    /// Adds an earlier call of the tool `tool` that succeeded, one second and one turn after the one before. Calls of the task
    /// are also calls of the agent.
    pub fn with_recalled(self, tool: &str, scope: RecallScope, input: impl Into<Json>) -> Self {
        let turn = u32::try_from(self.host.recalled.len()).unwrap_or(u32::MAX).saturating_add(1);
        let call = self.caller.task.call(turn, 1);
        self.with_recalled_call(tool, scope, call, input)
    }

    /// Does the same for the call `call`.
    pub fn with_recalled_call(mut self, tool: &str, scope: RecallScope, call: CallId, input: impl Into<Json>) -> Self {
        let task = match scope {
            RecallScope::Task => self.caller.task.clone(),
            RecallScope::Agent => TaskId::new("0/1.1"),
        };
        let run = match scope {
            RecallScope::Task => self.caller.run.clone(),
            RecallScope::Agent => RunId::new("earlier"),
        };
        let at = START.plus(Duration::from_secs(self.host.recalled.len() as u64));
        self.host.recalled.push((
            tool.to_owned(),
            scope,
            RecalledCall { run, task, call, seq: 0, at, input: input.into(), status: CallStatus::Success },
        ));
        self
    }

    /// Adds a secret that the tool may read.
    pub fn with_secret(mut self, name: &str, value: &str) -> Self {
        self.host.secrets.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Sets the tool's settings: an object.
    pub fn with_settings(mut self, settings: impl Into<Json>) -> Self {
        self.host.settings = settings.into();
        self
    }

    /// Sets the model that answers the tool's requests.
    pub fn with_model(mut self, model: impl Fn(&ModelAsk) -> Result<ModelReply, ToolError> + Send + Sync + 'static) -> Self {
        self.host.model = Some(Box::new(model));
        self
    }

    /// Models that answer these texts, one each time that the tool asks. Each token counts four bytes and costs nothing.
    pub fn with_answers<T: Into<String>>(self, answers: impl IntoIterator<Item = T>) -> Self {
        let answers: Mutex<VecDeque<String>> = Mutex::new(answers.into_iter().map(Into::into).collect());
        self.with_model(move |ask| {
            let answer = answers.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let text = answer.ok_or_else(|| ToolError::new("the test has no further answer of a model"))?;
            let asked: usize = ask.messages.iter().flat_map(|message| &message.parts).map(said).sum();
            let usage = Usage {
                input_tokens: ((ask.system.len() + asked) as u64).div_ceil(4),
                output_tokens: (text.len() as u64).div_ceil(4),
                estimated: true,
                ..Usage::default()
            };
            let (model, finish) = (ask.model.clone(), FinishReason::Stop);
            Ok(ModelReply { text, model, finish, usage, cost: Some(Money::ZERO) })
        })
    }

    /// Sets the results of the calls that the tool makes. Each is there at once.
    pub fn with_calls(self, result: impl Fn(&ModelCall) -> CallResult + Send + Sync + 'static) -> Self {
        self.with_slow_calls(move |asked, _| Some(result(asked)))
    }

    /// Sets the results of the calls that the tool makes. `result` is asked at the first poll of a call, number 0, and at each
    /// further one. `None` leaves the call in progress.
    pub fn with_slow_calls(mut self, result: impl Fn(&ModelCall, u32) -> Option<CallResult> + Send + Sync + 'static) -> Self {
        self.host.calls = Some(Box::new(result));
        self
    }

    /// Sets whether the tool may write documents, like `writes` of its config (default: true).
    pub fn may_write(mut self, may_write: bool) -> Self {
        self.may_write = may_write;
        self
    }

    /// Sets the call, which also seeds tools that use chance.
    pub fn with_call(mut self, call: &str) -> Self {
        self.caller.call = CallId::new(call);
        self.caller.task = self.caller.call.task();
        self
    }

    /// Cancels the call before it begins.
    pub fn cancelled(self) -> Self {
        self.host.cancelled.store(true, Ordering::Relaxed);
        self
    }

    /// Returns the context.
    pub fn build(self) -> ToolContext {
        ToolContext::new(self.caller, self.documents, self.may_write, Arc::new(self.host))
    }
}

/// Model for a tool in a test.
type StillModel = Box<dyn Fn(&ModelAsk) -> Result<ModelReply, ToolError> + Send + Sync>;

/// Results of calls that a tool makes in a test.
type StillCalls = Box<dyn Fn(&ModelCall, u32) -> Option<CallResult> + Send + Sync>;

/// Returns the number of bytes of text in a part.
fn said(part: &Part) -> usize {
    if let Part::Request(text) | Part::Text(text) = part { text.len() } else { 0 }
}

/// A host in which nothing happens by itself. A sleep is over at once and moves the time.
struct StillHost {
    contents: BTreeMap<ContentHash, Content>,
    recalled: Vec<(String, RecallScope, RecalledCall)>,
    secrets: BTreeMap<String, String>,
    settings: Json,
    model: Option<StillModel>,
    calls: Option<StillCalls>,
    cancelled: AtomicBool,
    now: Mutex<Timestamp>,
    scope: Arc<RunScope>,
}

impl Default for StillHost {
    fn default() -> Self {
        Self {
            contents: BTreeMap::new(),
            recalled: Vec::new(),
            secrets: BTreeMap::new(),
            settings: Json::from(serde_json::json!({})),
            model: None,
            calls: None,
            cancelled: AtomicBool::new(false),
            now: Mutex::new(START),
            scope: Arc::default(),
        }
    }
}

impl ToolHost for StillHost {
    fn content(&self, hash: ContentHash) -> BoxFuture<'_, Result<Content, ToolError>> {
        let content = self.contents.get(&hash).cloned().ok_or_else(|| ToolError::new(format!("no content {hash:?} is stored")));
        Box::pin(std::future::ready(content))
    }

    fn now(&self) -> Timestamp {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'_, ()> {
        if !self.is_cancelled() {
            let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
            *now = now.plus(duration);
        }
        Box::pin(std::future::ready(()))
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    fn cancelled(&self) -> BoxFuture<'_, ()> {
        if self.is_cancelled() { Box::pin(std::future::ready(())) } else { Box::pin(std::future::pending()) }
    }

    fn may_suspend(&self) -> bool {
        true
    }

    fn delivery_key(&self) -> BoxFuture<'_, Result<String, ToolError>> {
        Box::pin(std::future::ready(Ok("run:0_1.1:00000000000000000000000000000000".to_owned())))
    }

    fn progress(&self, _: &str) {}

    fn secret(&self, name: &str) -> Option<String> {
        self.secrets.get(name).cloned()
    }

    fn recall(&self, tool: &str, scope: RecallScope) -> BoxFuture<'_, Result<Vec<RecalledCall>, ToolError>> {
        let calls =
            self.recalled.iter().filter(|(called, of, _)| called == tool && (scope == RecallScope::Agent || scope == *of));
        Box::pin(std::future::ready(Ok(calls.map(|(_, _, call)| call.clone()).collect())))
    }

    fn settings(&self) -> Json {
        self.settings.clone()
    }

    fn ask(&self, ask: ModelAsk) -> BoxFuture<'_, Result<ModelReply, ToolError>> {
        let answered = match &self.model {
            Some(model) => model(&ask),
            None => Err(ToolError::new(format!("there is no model {}", ask.model))),
        };
        Box::pin(std::future::ready(answered))
    }

    fn call<'a>(&'a self, _: Option<&'a str>, asked: ModelCall) -> BoxFuture<'a, Result<Arc<CallResult>, ToolError>> {
        let Some(calls) = &self.calls else {
            let error = ToolError::new("the code cannot make calls: its config has no \"calls\"");
            return Box::pin(std::future::ready(Err(error)));
        };
        let mut polls = 0..;
        Box::pin(std::future::poll_fn(move |context| {
            let result = calls(&asked, polls.next().unwrap_or(u32::MAX));
            if result.is_none() {
                context.waker().wake_by_ref();
            }
            result.map_or(Poll::Pending, |result| Poll::Ready(Ok(Arc::new(result))))
        }))
    }

    fn run_scope(&self) -> Arc<RunScope> {
        Arc::clone(&self.scope)
    }

    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'_, ()> {
        work();
        Box::pin(std::future::ready(()))
    }
}

/// Runs a future to its end on this thread, so that the test of an asynchronous tool needs no runtime.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::PendingWrite;
    use crate::error::ToolErrorKind;
    use serde_json::json;

    #[test]
    fn the_workspace_is_read_and_written_as_in_a_run() {
        let context = ToolContext::for_test().with_document("a.md", "one").with_document("a.md", "two").build();
        assert_eq!(context.document("a.md").unwrap().version, 2);
        assert_eq!(block_on(context.read_text("a.md")).unwrap(), "two");
        context.write(PendingWrite::new(DocumentPath::parse("a.md").unwrap(), *b"three")).unwrap();
        assert_eq!(block_on(context.read_text("a.md")).unwrap(), "three");
        assert_eq!(context.document("a.md").unwrap().version, 2, "the snapshot stays as it was");
        assert_eq!(context.take_effects().writes.len(), 1);
        let unknown = block_on(context.read("b.md")).unwrap_err();
        assert_eq!(unknown.kind, ToolErrorKind::UnknownDocument);
        assert_eq!(unknown.detail.value(), json!({"known_documents": ["a.md"]}));
    }

    #[test]
    fn a_tool_that_may_not_write_is_refused() {
        let context = ToolContext::for_test().may_write(false).build();
        assert!(context.write(PendingWrite::new(DocumentPath::parse("a.md").unwrap(), *b"")).is_err());
        assert!(context.take_effects().writes.is_empty());
    }

    #[test]
    fn time_is_virtual_and_stands_still_once_cancelled() {
        let context = ToolContext::for_test().build();
        let before = context.now();
        block_on(context.sleep(Duration::from_hours(1))).unwrap();
        assert_eq!(context.now().since(before), Duration::from_hours(1));
        let cancelled = ToolContext::for_test().cancelled().build();
        assert_eq!(block_on(cancelled.sleep(Duration::from_secs(1))).unwrap_err().kind, ToolErrorKind::Cancelled);
        assert_eq!(cancelled.now(), before);
        block_on(cancelled.cancelled());
    }

    #[test]
    fn calls_of_the_task_are_also_calls_of_the_agent() {
        let context = ToolContext::for_test()
            .with_recalled("note", RecallScope::Task, json!({"n": 1}))
            .with_recalled("note", RecallScope::Agent, json!({"n": 2}))
            .with_recalled("other", RecallScope::Task, json!({"n": 3}))
            .build();
        let inputs = |scope| -> Vec<_> {
            block_on(context.recall("note", scope)).unwrap().into_iter().map(|call| call.input.text().to_owned()).collect()
        };
        assert_eq!(inputs(RecallScope::Task), [r#"{"n":1}"#]);
        assert_eq!(inputs(RecallScope::Agent), [r#"{"n":1}"#, r#"{"n":2}"#]);
    }
}
