//! Acting on a run that proceeds: pause, steer, and a cancellation that reaches what runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use baton_models::{ContentSource, Model, ModelError};
use baton_runtime::{Delivery, Engine, Holder, RunError, RunOutcome, StartOptions};
use baton_store::{MemoryStore, SqliteStore, Store};
use baton_types::entry::{ControlAction, Entry};
use baton_types::model::{ModelRequest, ModelTurn};
use baton_types::principal::Principal;
use serde_json::json;
use tokio::sync::Notify;

use crate::support::{TestJob, calls, finish, handoff, model};

/// A model that is asked and never answers.
#[derive(Default)]
struct Silent {
    asked: Notify,
    in_flight: AtomicU32,
}

/// Counts a request for as long as it is in flight.
struct InFlight<'a>(&'a AtomicU32);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Model for Silent {
    async fn answer(&self, _request: &ModelRequest, _contents: &dyn ContentSource) -> Result<ModelTurn, ModelError> {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        let _in_flight = InFlight(&self.in_flight);
        self.asked.notify_one();
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_cancellation_drops_the_model_request_that_is_in_flight() {
    let silent = Arc::new(Silent::default());
    let engine = Engine::builder()
        .trust(baton_runtime::TrustEverything)
        .store(Arc::new(MemoryStore::default()))
        .model("m", Arc::clone(&silent) as Arc<dyn Model>)
        .build()
        .unwrap();
    let job = TestJob::new("solo", json!({})).agent("solo", &["handoff"]).load();
    let handle = engine.start(job, StartOptions::default()).await.unwrap();
    silent.asked.notified().await;
    assert_eq!(silent.in_flight.load(Ordering::SeqCst), 1);
    handle.cancel("0".into(), "enough", &Principal::person("ann")).await.unwrap();
    assert!(matches!(handle.outcome().await, RunOutcome::Ended { .. }));
    assert_eq!(silent.in_flight.load(Ordering::SeqCst), 0, "nothing of the run is left when it is over");
}

#[tokio::test]
async fn a_stop_drops_the_model_request_and_the_next_owner_asks_again() {
    let silent = Arc::new(Silent::default());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let engine = Engine::builder()
        .trust(baton_runtime::TrustEverything)
        .store(Arc::clone(&store))
        .model("m", Arc::clone(&silent) as Arc<dyn Model>)
        .build()
        .unwrap();
    let job = TestJob::new("solo", json!({})).agent("solo", &["handoff"]).load();
    let handle = engine.start(job, StartOptions::default()).await.unwrap();
    silent.asked.notified().await;
    assert!(matches!(handle.stop().await, RunOutcome::Stopped));
    assert_eq!(silent.in_flight.load(Ordering::SeqCst), 0);
    assert_eq!(engine.holder(handle.id()).await.unwrap(), Holder::Nobody, "whoever stops lets go of the run");
    let next = Engine::builder()
        .trust(baton_runtime::TrustEverything)
        .store(store)
        .model("m", model(|_, _, _| handoff("done", &[])))
        .build()
        .unwrap();
    let resumed = next.resume(handle.id()).await.unwrap();
    assert_eq!(finish(&next, &resumed).await.result, json!({"summary": "done"}));
}

#[tokio::test]
async fn commands_of_another_process_reach_a_run_wherever_it_proceeds() {
    let folder = tempfile::tempdir().unwrap();
    // A path that is too long for a socket's address.
    let path = folder.path().join("a-folder-with-a-very-long-name".repeat(5)).join("runs.db");
    let connect = || -> Arc<dyn Store> { Arc::new(SqliteStore::open(&path).unwrap()) };
    let silent = Arc::new(Silent::default());
    let owner = Engine::builder()
        .trust(baton_runtime::TrustEverything)
        .store(connect())
        .model("m", Arc::clone(&silent) as Arc<dyn Model>)
        .build()
        .unwrap();
    let other = Engine::builder().trust(baton_runtime::TrustEverything).store(connect()).build().unwrap();
    let job = TestJob::new("solo", json!({})).agent("solo", &["handoff"]).load();
    let handle = owner.start(job, StartOptions::default()).await.unwrap();
    let id = handle.id().clone();
    silent.asked.notified().await;
    assert!(matches!(other.holder(&id).await.unwrap(), Holder::Elsewhere { .. }));
    assert_eq!(owner.holder(&id).await.unwrap(), Holder::Here);
    for text in ["one", "two"] {
        assert_eq!(other.steer(&id, "0".into(), text, &Principal::person("ann")).await.unwrap(), Delivery::Done);
    }
    assert_eq!(other.pause(&id, &Principal::person("ann")).await.unwrap(), Delivery::Done);
    assert_eq!(other.store().run(&id).await.unwrap().unwrap().status, "paused");
    assert_eq!(other.unpause(&id, &Principal::person("ann")).await.unwrap(), Delivery::Done);
    assert_eq!(other.store().run(&id).await.unwrap().unwrap().status, "running");
    assert_eq!(other.cancel(&id, "0".into(), "enough", &Principal::person("ann")).await.unwrap(), Delivery::Done);
    assert!(matches!(handle.outcome().await, RunOutcome::Ended { .. }));
    assert!(matches!(other.steer(&id, "0".into(), "late", &Principal::person("ann")).await, Err(RunError::Refused(_))));
    let entries = other.store().entries(&id, 0, 100).await.unwrap();
    let actions: Vec<ControlAction> = entries
        .iter()
        .filter_map(|recorded| match &recorded.entry {
            Entry::Control(control) => Some(control.action.clone()),
            _ => None,
        })
        .collect();
    let steered = |text: &str| ControlAction::Steered { text: text.to_owned() };
    let cancelled = ControlAction::Cancelled { reason: "enough".to_owned() };
    assert_eq!(actions, [steered("one"), steered("two"), ControlAction::Paused, ControlAction::Unpaused, cancelled]);
}

#[tokio::test]
async fn a_pause_outlives_its_process() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let answers = model(|_, turn, _| match turn {
        1 => calls(&[("ask_master", json!({"question": "Shall I?"}))]),
        _ => handoff("done", &[]),
    });
    let engine =
        Engine::builder().trust(baton_runtime::TrustEverything).store(Arc::clone(&store)).model("m", answers).build().unwrap();
    let job = TestJob::new("solo", json!({})).agent("solo", &["ask_master", "handoff"]).load();
    let handle = engine.start(job, StartOptions::default()).await.unwrap();
    handle.outcome_without_people().await;
    handle.pause(&Principal::person("ann")).await.unwrap();
    let question = handle.open_questions().await[0].task.clone();
    handle.answer(question, &Principal::person("ann"), json!("yes").into(), Vec::new()).await.unwrap();
    assert!(matches!(handle.stop().await, RunOutcome::Stopped));
    assert_eq!(store.run(handle.id()).await.unwrap().unwrap().status, "paused");
    let resumed = engine.resume(handle.id()).await.unwrap();
    assert!(engine.state(handle.id()).await.unwrap().totals().paused, "a take-over changes nothing of it");
    resumed.unpause(&Principal::person("ann")).await.unwrap();
    assert_eq!(finish(&engine, &resumed).await.status, "success");
}
