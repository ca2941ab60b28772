//! Memory: the calls of the tools that only log are the memory, and are read back across runs.

use std::sync::Arc;

use baton_runtime::LoadedJob;
use baton_store::{MemoryStore, SqliteStore, Store};
use baton_tools as _;
use baton_types::entry::Entry;
use serde_json::{Value, json};

use crate::support::{TestJob, call_output, calls, engine, handoff, model, run_to_end};

fn shipped(config: &str) -> Value {
    let mut config: Value = serde_json::from_str(config).unwrap();
    config.as_object_mut().unwrap().remove("$schema");
    config
}

/// Returns a job whose agent saves to its memories and recalls them, with the shipped tools.
fn remembering_job() -> LoadedJob {
    TestJob::new("solo", json!({}))
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
