//! Delegations in the background, across restarts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use baton_models::Model;
use baton_runtime::{LoadedJob, RunError, RunOutcome, StartOptions};
use baton_store::{MemoryStore, SqliteStore, Store, StoreError};
use baton_types::entry::Entry;
use baton_types::id::{CallId, RunId, TaskId};
use baton_types::json::Json;
use baton_types::principal::Principal;
use serde_json::json;

use crate::support::failing::{Failing, FailingStore};
use crate::support::{TestJob, call_output, calls, engine, finish, handoff, model, name_of};

/// Returns a job whose root delegates in the background to workers that wait for a delivery, or that hand off at once.
fn job() -> LoadedJob {
    let input = json!({
        "gate": {"type": "string", "description": "Where to wait.", "required": false},
        "milliseconds": {"type": "integer", "description": "How long to wait.", "required": false},
    });
    let config = json!({"effect": "keyed", "suspends": true});
    TestJob::new("root", json!({}))
        .agent("root", &["route_to_worker", "wait_tasks", "list_tasks", "steer_task", "cancel_task", "handoff"])
        .agent("worker", &["hand_over", "handoff"])
        .changed_tool("route_to_worker", json!({"background": true}))
        .built_in("wait_tasks")
        .built_in("list_tasks")
        .built_in("steer_task")
        .built_in("cancel_task")
        .tool("hand_over", input, config)
        .load()
}

/// Returns a model whose root begins two tasks in the background, of which one waits for a delivery. `asked` counts the answers
/// of each turn.
fn researchers(asked: &Arc<Mutex<BTreeMap<(TaskId, u32), u32>>>) -> Arc<dyn Model> {
    let asked = Arc::clone(asked);
    model(move |agent, turn, request| {
        *asked.lock().unwrap().entry((request.task.clone(), turn)).or_default() += 1;
        let begin = |request: &str| ("route_to_worker", json!({"request": request, "wait": false}));
        match (agent, turn, request.task.as_str()) {
            ("root", 1, _) => calls(&[begin("a"), begin("b")]),
            ("root", 2, _) => calls(&[("wait_tasks", json!({"until": "any"}))]),
            ("root", 3, _) => baton_types::model::ModelTurn::text("I wait for the other one."),
            ("root", _, _) => handoff("done", &[]),
            (_, 1, "0/1.1") => calls(&[("hand_over", json!({}))]),
            (_, _, task) => handoff(&format!("answer of {task}"), &[]),
        }
    })
}

fn person() -> Principal {
    Principal::person("ann")
}

fn handed_over() -> CallId {
    CallId::from("0/1.1/1.1")
}

#[tokio::test]
async fn a_background_task_wakes_its_caller_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("baton.db");
    let asked = Arc::default();
    let opened = || engine(Arc::new(SqliteStore::open(&path).unwrap()), &researchers(&asked));
    let first = opened();
    let handle = first.start(job(), StartOptions::default()).await.unwrap();
    let id = handle.id().clone();
    assert!(handle.until_idle().await.is_none(), "the run waits");
    assert!(matches!(handle.stop().await, RunOutcome::Stopped));
    drop((handle, first));
    let engine = opened();
    engine.deliver(&id, &handed_over(), &person(), Ok(Json::from(json!({"by": "ann"})))).await.unwrap();
    let finished = finish(&engine, &engine.resume(&id).await.unwrap()).await;
    assert_eq!(finished.status, "success");
    let waited = call_output(&finished.entries, "0/2.1");
    assert_eq!(waited, json!({"ended": [{"task": "0/1.2", "state": "completed"}], "running": ["0/1.1"]}));
    let reports = finished.entries.iter().filter_map(|recorded| match &recorded.entry {
        Entry::TaskReported(reported) => Some(reported.result.output.value()),
        _ => None,
    });
    let reports: Vec<_> = reports.collect();
    assert_eq!(reports, [json!({"summary": "answer of 0/1.2"}), json!({"summary": "answer of 0/1.1"})]);
    assert!(asked.lock().unwrap().values().all(|times| *times == 1), "no answered turn is asked for again: {asked:?}");
}

/// Runs the job to its end on `store`, with the delivery that it waits for.
async fn to_the_end(store: Arc<dyn Store>, model: &Arc<dyn Model>, id: Option<&RunId>) -> Result<(), RunError> {
    let engine = engine(store, model);
    let handle = match id {
        Some(id) => engine.resume(id).await?,
        None => engine.start(job(), StartOptions::default()).await?,
    };
    if let Some(outcome) = handle.until_idle().await {
        return failed(outcome);
    }
    engine.deliver(handle.id(), &handed_over(), &person(), Ok(Json::from(json!({"by": "ann"})))).await?;
    failed(handle.outcome().await)
}

fn failed(outcome: RunOutcome) -> Result<(), RunError> {
    match outcome {
        RunOutcome::Ended { .. } => Ok(()),
        RunOutcome::Failed(error) => Err(error),
        other => panic!("{}", name_of(&other)),
    }
}

#[tokio::test]
async fn nothing_of_a_background_task_is_lost_wherever_the_process_is_killed() {
    let mut crashes = 0;
    for failing in [Failing::Before, Failing::After] {
        for commits in 0.. {
            let (asked, inner): (_, Arc<dyn Store>) = (Arc::default(), Arc::new(MemoryStore::default()));
            let model = researchers(&asked);
            let store = Arc::new(FailingStore::new(Arc::clone(&inner), commits, failing));
            match to_the_end(store, &model, None).await {
                Ok(()) => break,
                Err(RunError::Store(error)) => assert!(matches!(*error, StoreError::Closed), "{error}"),
                // The delivery came after the failure.
                Err(RunError::NotRunning(_)) => {}
                Err(error) => panic!("crash {failing:?} {commits}: {error}"),
            }
            crashes += 1;
            let id = inner.runs().await.unwrap().first().map(|run| run.id.clone());
            to_the_end(Arc::clone(&inner), &model, id.as_ref()).await.unwrap();
            let run = inner.runs().await.unwrap()[0].id.clone();
            let entries = inner.entries(&run, 0, usize::MAX).await.unwrap();
            let told = entries.iter().filter(|recorded| matches!(recorded.entry, Entry::TaskReported(_))).count();
            assert_eq!(told, 2, "crash {failing:?} {commits}");
        }
    }
    assert!(crashes >= 10, "{crashes} crashes");
}

#[tokio::test]
async fn a_report_that_no_run_could_have_written_is_an_error() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let model = researchers(&Arc::default());
    to_the_end(Arc::clone(&store), &model, None).await.unwrap();
    let engine = engine(Arc::clone(&store), &model);
    let run = store.runs().await.unwrap()[0].id.clone();
    let entries = store.entries(&run, 0, usize::MAX).await.unwrap();
    let place = entries.iter().position(|recorded| matches!(recorded.entry, Entry::TaskReported(_))).unwrap();
    for task in ["0/9.9", "1", "nonsense"] {
        let mut state = engine.unstarted(&run).await.unwrap();
        for recorded in &entries[..place] {
            engine.apply(&mut state, recorded).await.unwrap();
        }
        let mut forged = (*entries[place]).clone();
        if let Entry::TaskReported(reported) = &mut forged.entry {
            reported.task = task.into();
        }
        let error = engine.apply(&mut state, &forged).await.unwrap_err();
        assert!(matches!(error, RunError::BadEntry { .. }), "{task}: {error}");
    }
}
