//! Services of a tool function's context, and the items that the code of `#[tool]` uses.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use baton_tool::{
    BoxFuture, Caller, ModelAsk, ModelReply, PendingWrite, RecallScope, RecalledCall, ToolContext, ToolError, ToolErrorKind,
    ToolFunction, ToolHost, registered_functions, schema_of, to_output,
};
use baton_types::call::AfterExecution;
use baton_types::document::{Content, DocumentRef, Documents};
use baton_types::id::{AgentId, ContentHash, RunId, TaskId};
use baton_types::json::Json;
use baton_types::path::DocumentPath;
use baton_types::time::Timestamp;
use serde_json::json;

/// A host that records its messages and is cancelled on demand.
#[derive(Default)]
struct Watched {
    progress: Mutex<Vec<String>>,
    cancelled: AtomicBool,
}

impl ToolHost for Watched {
    fn content(&self, _: ContentHash) -> BoxFuture<'_, Result<Content, ToolError>> {
        Box::pin(std::future::ready(Ok(Content::from(*b"stored"))))
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(7)
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'_, ()> {
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
        Box::pin(std::future::ready(Ok("key".to_owned())))
    }

    fn progress(&self, message: &str) {
        self.progress.lock().unwrap().push(message.to_owned());
    }

    fn secret(&self, name: &str) -> Option<String> {
        (name == "KEY").then(|| "canary".to_owned())
    }

    fn recall(&self, _: &str, _: RecallScope) -> BoxFuture<'_, Result<Vec<RecalledCall>, ToolError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn settings(&self) -> Json {
        Json::from(json!({"most": 3}))
    }

    fn ask(&self, ask: ModelAsk) -> BoxFuture<'_, Result<ModelReply, ToolError>> {
        Box::pin(std::future::ready(Err(ToolError::new(format!("there is no model {}", ask.model)))))
    }

    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'_, ()> {
        work();
        Box::pin(std::future::ready(()))
    }
}

fn watched(may_write: bool) -> (ToolContext, Arc<Watched>) {
    let host = Arc::new(Watched::default());
    let task = TaskId::root().call(2, 1).task();
    let caller = Caller { run: RunId::new("r"), call: task.call(1, 1), task, agent: AgentId::new("analyst") };
    let given: Arc<dyn ToolHost> = Arc::clone(&host) as _;
    (ToolContext::new(caller, Documents::default(), may_write, given), host)
}

fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

#[test]
fn a_function_knows_who_calls_and_under_which_key() {
    let (context, _) = watched(true);
    assert_eq!(context.run().as_str(), "r");
    assert_eq!(context.agent().as_str(), "analyst");
    assert_eq!(context.call().task(), *context.task());
    assert_eq!(context.idempotency_key(), format!("r/{}", context.call()));
    assert_eq!(context.now(), Timestamp::from_micros(7));
}

#[test]
fn only_a_tool_that_writes_is_told_that_it_may() {
    assert!(watched(true).0.may_write());
    assert!(!watched(false).0.may_write());
}

#[test]
fn progress_reaches_whoever_watches() {
    let (context, host) = watched(true);
    context.progress("half");
    context.progress("all");
    assert_eq!(*host.progress.lock().unwrap(), ["half", "all"]);
}

#[test]
fn a_function_that_waits_for_its_cancellation_goes_on_when_it_comes() {
    let (context, host) = watched(true);
    assert!(context.check_cancelled().is_ok());
    assert_eq!(at_once(context.cancelled()), None);
    host.cancelled.store(true, Ordering::Relaxed);
    assert_eq!(at_once(context.cancelled()), Some(()));
    assert_eq!(context.check_cancelled().unwrap_err().kind, ToolErrorKind::Cancelled);
}

#[test]
fn a_secret_is_given_by_name_and_a_missing_one_is_named() {
    let (context, _) = watched(true);
    assert_eq!(context.secret("KEY").unwrap(), "canary");
    assert_eq!(context.secret("OTHER").unwrap_err().message, "the secret OTHER is not set");
}

#[test]
fn a_function_sees_every_document_of_the_moment_it_began() {
    let context = ToolContext::for_test().with_document("a.md", "one").with_document("b/c.csv", "x\n1\n").build();
    let paths: Vec<&str> = context.documents().iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["a.md", "b/c.csv"]);
}

#[test]
fn a_second_write_to_a_path_replaces_the_first_and_leaves_other_paths_alone() {
    let context = ToolContext::for_test().build();
    let write = |path: &str, text: &str| PendingWrite::new(DocumentPath::parse(path).unwrap(), text.as_bytes());
    context.write(write("a.md", "first")).unwrap();
    context.write(write("b.md", "beside")).unwrap();
    context.write(write("a.md", "second")).unwrap();
    let writes = context.take_effects().writes;
    let written: Vec<(&str, &[u8])> = writes.iter().map(|(write, _)| (write.path.as_str(), &*write.content)).collect();
    assert_eq!(written, [("b.md", &b"beside"[..]), ("a.md", &b"second"[..])]);
}

#[test]
fn a_document_is_asked_for_once_however_often_it_is_loaded() {
    let context = ToolContext::for_test().with_document("a.md", "one").with_document("a.md", "two").build();
    let newest = DocumentRef { path: DocumentPath::parse("a.md").unwrap(), version: 2 };
    assert_eq!(context.load("a.md").unwrap(), newest);
    assert_eq!(context.load("a.md").unwrap(), newest);
    assert_eq!(context.load("missing.md").unwrap_err().kind, ToolErrorKind::UnknownDocument);
    assert_eq!(context.take_effects().loads, [newest]);
    assert!(context.take_effects().loads.is_empty(), "what was taken is gone");
}

#[test]
fn the_last_control_setting_of_a_function_counts() {
    let (context, _) = watched(true);
    assert_eq!(context.take_effects().after, None);
    context.after_execution(AfterExecution::Suspend);
    context.after_execution(AfterExecution::Terminate);
    assert_eq!(context.take_effects().after, Some(AfterExecution::Terminate));
}

#[test]
fn a_path_that_cannot_be_one_is_an_input_that_does_not_fit() {
    let (context, _) = watched(true);
    assert_eq!(context.document("../up").unwrap_err().kind, ToolErrorKind::InvalidInput);
}

inventory::submit! {
    ToolFunction {
        id: "second", name: "second", file: "functions.rs", line: 2, blocking: false,
        parameters: || json!({"type": "object"}), invoke: |_, input| Box::pin(std::future::ready(Ok(input.clone()))),
    }
}

inventory::submit! {
    ToolFunction {
        id: "first", name: "first", file: "functions.rs", line: 1, blocking: false,
        parameters: || json!({"type": "object"}), invoke: |_, input| Box::pin(std::future::ready(Ok(input.clone()))),
    }
}

#[test]
fn linked_functions_are_listed_by_id() {
    let ids: Vec<&str> = registered_functions().iter().map(|function| function.id).collect();
    assert_eq!(ids, ["first", "second"]);
}

#[derive(schemars::JsonSchema)]
#[expect(dead_code, reason = "only its schema is looked at")]
struct Point {
    x: i64,
    within: Option<Box<Inner>>,
}

#[derive(schemars::JsonSchema)]
#[expect(dead_code, reason = "only its schema is looked at")]
struct Inner {
    y: String,
}

#[test]
fn the_schema_of_a_type_has_no_references() {
    let schema = schema_of::<Point>();
    assert_eq!(schema["properties"]["x"]["type"], "integer");
    assert_eq!(schema["required"], json!(["x"]));
    assert!(!schema.to_string().contains("$ref"), "{schema}");
    assert!(schema["properties"]["within"].to_string().contains("\"y\""), "{schema}");
}

#[test]
fn what_a_function_returns_becomes_json_or_an_error_that_says_why_not() {
    assert_eq!(to_output(json!({"a": [1, 2]})).unwrap().text(), r#"{"a":[1,2]}"#);
    let unnamed = std::collections::BTreeMap::from([(vec![1], 2)]);
    assert!(to_output(unnamed).unwrap_err().message.contains("cannot be kept as JSON"));
}

#[test]
fn a_snapshot_of_the_workspace_is_equal_to_itself_alone() {
    let context = ToolContext::for_test().with_document("a.md", "one").build();
    assert_eq!(*context.documents(), context.documents().clone());
    assert_ne!(*context.documents(), Documents::default());
}
