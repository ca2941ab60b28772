//! Memory: the calls of the tools that only log are the memory, and are read back across runs.

use std::sync::Arc;

use baton_runtime::{ForkOptions, LoadedJob};
use baton_store::{MemoryStore, SqliteStore, Store};
use baton_tools as _;
use baton_types::entry::Entry;
use baton_types::principal::Principal;
use serde_json::{Value, json};

use crate::support::{TestJob, call_output, calls, engine, handoff, model, run_to_end};

fn shipped(config: &str) -> Value {
    let mut config: Value = serde_json::from_str(config).unwrap();
    config.as_object_mut().unwrap().remove("$schema");
    config
}

/// Returns a job whose agent saves to its memories and recalls them, with the shipped tools.
fn remembering_job() -> LoadedJob {
    remembering("solo")
}

fn remembering(job: &str) -> LoadedJob {
    TestJob::new("solo", json!({"job_id": job}))
        .agent("solo", &["save_to_short_term_memory", "save_to_long_term_memory", "recall_memory", "handoff"])
        .tool("recall_memory", json!({}), shipped(include_str!("../../tool-configs/recall_memory.json")))
        .tool_by_schema("save_to_short_term_memory", shipped(include_str!("../../tool-configs/save_to_short_term_memory.json")))
        .tool_by_schema("save_to_long_term_memory", shipped(include_str!("../../tool-configs/save_to_long_term_memory.json")))
        .load()
}

/// Runs the same job twice on `store`: each run saves to both memories, then recalls both.
async fn two_runs(store: Arc<dyn Store>) -> Vec<Value> {
    let mut recalled = Vec::new();
    for note in ["first", "second"] {
        let answers = model(move |_, turn, _| match turn {
            1 => calls(&[
                ("save_to_short_term_memory", json!({"memory": format!("short {note}")})),
                ("save_to_long_term_memory", json!({"memory": format!("long {note}")})),
            ]),
            2 => calls(&[("recall_memory", json!({"scope": "all"}))]),
            _ => handoff("done", &[]),
        });
        let finished = run_to_end(&engine(Arc::clone(&store), &answers), remembering_job()).await;
        let result = finished.entries.iter().find_map(|recorded| match &recorded.entry {
            Entry::CallFinished(entry) if entry.tool == "recall_memory" => Some(entry.result.output.value()),
            _ => None,
        });
        recalled.push(result.expect("the memory was read"));
    }
    recalled
}

fn in_folder(mut job: LoadedJob, folder: &str) -> LoadedJob {
    job.folder = Some(folder.into());
    job
}

/// Runs `job`, whose agent saves `note` and then recalls its long-term notes.
async fn notes_after(store: &Arc<dyn Store>, job: LoadedJob, note: &'static str) -> Vec<String> {
    let answers = model(move |_, turn, _| match turn {
        1 => calls(&[("save_to_long_term_memory", json!({"memory": note}))]),
        2 => calls(&[("recall_memory", json!({"scope": "long_term"}))]),
        _ => handoff("done", &[]),
    });
    let finished = run_to_end(&engine(Arc::clone(store), &answers), job).await;
    let mut notes: Vec<String> = memories(&call_output(&finished.entries, "0/2.1")).into_iter().map(str::to_owned).collect();
    notes.sort_unstable();
    notes
}

/// Runs an agent that saves to both memories and recalls both in the same turn.
async fn recalled_at_once(store: Arc<dyn Store>) -> Value {
    let answers = model(move |_, turn, _| match turn {
        1 => calls(&[
            ("save_to_short_term_memory", json!({"memory": "short"})),
            ("save_to_long_term_memory", json!({"memory": "long"})),
            ("recall_memory", json!({"scope": "all"})),
        ]),
        _ => handoff("done", &[]),
    });
    let finished = run_to_end(&engine(store, &answers), remembering_job()).await;
    call_output(&finished.entries, "0/1.3")
}

fn memories(recalled: &Value) -> Vec<&str> {
    recalled["memories"].as_array().unwrap().iter().map(|memory| memory["memory"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn long_term_memory_outlives_the_run_and_short_term_memory_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = SqliteStore::open(folder.path().join("baton.db")).unwrap();
    let stores: [Arc<dyn Store>; 2] = [Arc::new(MemoryStore::default()), Arc::new(sqlite)];
    for store in stores {
        let runs = two_runs(store).await;
        let mut first = memories(&runs[0]);
        let mut second = memories(&runs[1]);
        first.sort_unstable();
        second.sort_unstable();
        assert_eq!(first, ["long first", "short first"]);
        assert_eq!(second, ["long first", "long second", "short second"]);
    }
}

fn both_stores(folder: &tempfile::TempDir) -> [Arc<dyn Store>; 2] {
    let sqlite = SqliteStore::open(folder.path().join("baton.db")).unwrap();
    [Arc::new(MemoryStore::default()), Arc::new(sqlite)]
}

#[tokio::test]
async fn a_job_does_not_read_the_memories_of_a_namesake_s_agent() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| in_folder(remembering("first"), path);
    for store in both_stores(&folder) {
        assert_eq!(notes_after(&store, remembering("first"), "a").await, ["a"]);
        assert_eq!(notes_after(&store, remembering("second"), "b").await, ["b"], "another job with an agent of that id");
        assert_eq!(notes_after(&store, at("/jobs/first"), "c").await, ["c"], "a folder whose job has the same id");
        assert_eq!(notes_after(&store, at("/received/first"), "d").await, ["d"], "a copy of that folder");
        assert_eq!(notes_after(&store, at("/jobs/first"), "e").await, ["c", "e"], "the same job again");
        assert_eq!(notes_after(&store, remembering("first"), "f").await, ["a", "f"]);
    }
}

#[tokio::test]
async fn jobs_with_one_memory_share_their_notes() {
    let folder = tempfile::tempdir().unwrap();
    let shared = |job| {
        let mut job = remembering(job);
        job.memory = Some("project /p".into());
        job
    };
    for store in both_stores(&folder) {
        assert_eq!(notes_after(&store, shared("first"), "a").await, ["a"]);
        assert_eq!(notes_after(&store, shared("second"), "b").await, ["a", "b"]);
    }
}

#[tokio::test]
async fn a_fork_keeps_the_memory_of_its_original() {
    let folder = tempfile::tempdir().unwrap();
    for store in both_stores(&folder) {
        let job = in_folder(remembering("first"), "/jobs/first");
        assert_eq!(notes_after(&store, job, "a").await, ["a"]);
        let original = store.runs().await.unwrap()[0].id.clone();
        let answers = model(move |_, turn, _| match turn {
            1 => calls(&[("recall_memory", json!({"scope": "long_term"}))]),
            _ => handoff("done", &[]),
        });
        let engine = engine(Arc::clone(&store), &answers);
        let mut sources = engine.pinned_sources(&engine.started(&original).await.unwrap()).await.unwrap();
        // Other settings, so that no recorded answer fits, and another name of the job.
        sources.set("agents.solo.settings.temperature", json!(0.5)).unwrap();
        sources.set("job.job_id", json!("renamed")).unwrap();
        let options = ForkOptions { sources: Some(sources), ..ForkOptions::default() };
        let fork = engine.fork(&original, &Principal::person("ada"), options).await.unwrap();
        fork.outcome().await;
        let entries = store.entries(fork.id(), 0, usize::MAX).await.unwrap();
        assert_eq!(memories(&call_output(&entries, "0/1.1")), ["a"]);
    }
}

#[tokio::test]
async fn what_a_turn_saves_the_calls_after_it_in_the_same_turn_recall() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = SqliteStore::open(folder.path().join("baton.db")).unwrap();
    let stores: [Arc<dyn Store>; 2] = [Arc::new(MemoryStore::default()), Arc::new(sqlite)];
    for store in stores {
        let recalled = recalled_at_once(store).await;
        let mut memories = memories(&recalled);
        memories.sort_unstable();
        assert_eq!(memories, ["long", "short"]);
    }
}
