//! Long documents and results never end a task: everything new in a request shares the window, and stays readable by tools.

use std::sync::Arc;

use baton_store::{MemoryStore, SqliteStore, Store};
use baton_types::entry::{Entry, ModelRequested};
use baton_types::id::ContentHash;
use baton_types::model::ModelTurn;
use serde_json::{Value, json};

use crate::support::{Finished, TestJob, calls, engine, handoff, model, run_to_end};

/// Returns a job whose root has a window of so many tokens, and whose children write notes.
fn job(window: u64) -> TestJob {
    let limits = json!({"limits": {"context_tokens": window, "children": 1_000, "parallel_calls": 1_000}});
    let writes = json!({
        "path": {"type": "string", "description": "Path.", "required": true},
        "content": {"type": "string", "description": "Text.", "required": true},
    });
    let reads = json!({"path": {"type": "string", "description": "Path.", "required": true}});
    TestJob::new("root", json!({"limits": {"live_tasks": 1_000, "context_tokens": 1_000_000_000_u64}}))
        .agent_with("root", &["route_to_child", "load_note", "handoff"], limits)
        .agent_with("child", &["write_note", "handoff"], json!({}))
        .tool("write_note", writes, json!({"writes": true}))
        .tool("load_note", reads, json!({"effect": "pure"}))
}

fn delegations(count: usize) -> ModelTurn {
    let all: Vec<(&str, Value)> = (0..count).map(|number| ("route_to_child", json!({"request": number.to_string()}))).collect();
    calls(&all)
}

fn requests_of_root(finished: &Finished) -> Vec<ModelRequested> {
    let requests = finished.entries.iter().filter_map(|recorded| match &recorded.entry {
        Entry::ModelRequested(requested) if requested.task.as_str() == "0" => Some(requested.clone()),
        _ => None,
    });
    requests.collect()
}

/// Runs `job` with children that each hand off a document of `bytes` bytes; all in one turn, or one after the other.
async fn gather(job: TestJob, store: Arc<dyn Store>, children: usize, bytes: usize, together: bool) -> Finished {
    let answers = model(move |agent, turn, request| match (agent, turn) {
        ("root", 1) if together => delegations(children),
        ("root", turn) if !together && (turn as usize) <= children => delegations(1),
        ("root", _) => handoff("gathered", &[]),
        (_, 1) => {
            let text = format!("{} ", request.task).repeat(bytes / (request.task.as_str().len() + 1) + 1);
            calls(&[("write_note", json!({"path": format!("{}.txt", request.task.as_str().replace('/', "-")), "content": text}))])
        }
        _ => handoff("written", &[&format!("{}.txt", request.task.as_str().replace('/', "-"))]),
    });
    run_to_end(&engine(store, &answers), job.load()).await
}

#[tokio::test]
async fn eight_reports_of_70_kilobytes_end_with_success() {
    for together in [true, false] {
        let finished = gather(job(128_000), Arc::new(MemoryStore::default()), 8, 70_000, together).await;
        assert_eq!((finished.status, &finished.result["summary"]), ("success", &json!("gathered")), "together: {together}");
        let requests = requests_of_root(&finished);
        assert!(requests.iter().all(|request| request.reserved_tokens <= 128_000));
        assert_eq!(finished.run.documents().len(), 8, "each report is in the workspace");
        let left_out: usize = requests.iter().map(|request| request.pointers.len()).sum();
        assert_eq!(left_out > 0, together, "one after the other, older turns are replaced by a summary");
    }
}

#[tokio::test]
async fn twelve_results_of_40_kilobytes_fit_a_window_of_60_000_tokens() {
    let answers = model(|agent, turn, request| match (agent, turn) {
        ("root", 1) => delegations(12),
        ("root", _) => handoff("gathered", &[]),
        _ => calls(&[("handoff", json!({"result": {"summary": format!("{} ", request.task).repeat(6_000)}, "documents": []}))]),
    });
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let engine = engine(Arc::clone(&store), &answers);
    let finished = run_to_end(&engine, job(60_000).load()).await;
    assert_eq!(finished.status, "success");
    let kept = requests_of_root(&finished)[1].kept.clone();
    assert!(!kept.is_empty() && kept.len() < 12, "{} of 12 have no room", kept.len());
    for kept in kept {
        let version = finished.run.documents().version(&kept.output.document).expect("the document exists");
        let content = engine.content(version.content.hash).await.unwrap().expect("its content is stored");
        assert_eq!(ContentHash::of(&content), version.content.hash);
        let output: Value = serde_json::from_slice(&content).unwrap();
        assert!(output["summary"].as_str().unwrap().starts_with("0/1."), "{output}");
    }
}

#[tokio::test]
async fn a_result_of_more_than_a_megabyte_is_an_error_for_the_child() {
    let answers = model(|agent, turn, _| match (agent, turn) {
        ("root", 1) => delegations(1),
        ("root", _) => handoff("gathered", &[]),
        (_, 1) => calls(&[("handoff", json!({"result": {"summary": "x".repeat(1_200_000)}, "documents": []}))]),
        _ => handoff("shorter", &[]),
    });
    let finished = run_to_end(&engine(Arc::new(MemoryStore::default()), &answers), job(128_000).load()).await;
    assert_eq!(finished.status, "success");
    assert_eq!(crate::support::call_result(&finished.entries, "0/1.1/1.1"), "refused limit_reached");
}

#[tokio::test]
async fn a_job_document_longer_than_the_window_is_shown_as_its_record() {
    let answers = model(|_, _, _| handoff("done", &[]));
    let job = job(8_000).document("long.txt", &"long ".repeat(8_000));
    let finished = run_to_end(&engine(Arc::new(MemoryStore::default()), &answers), job.load()).await;
    assert_eq!(finished.status, "success");
    assert_eq!(requests_of_root(&finished)[0].pointers.len(), 1);
}

#[tokio::test]
async fn loads_beyond_the_window_are_errors_or_records() {
    let answers = model(|_, turn, _| match turn {
        1 => calls(&[
            ("load_note", json!({"path": "a.txt"})),
            ("load_note", json!({"path": "b.txt"})),
            ("load_note", json!({"path": "c.txt"})),
        ]),
        2 => calls(&[("load_note", json!({"path": "long.txt"}))]),
        _ => handoff("done", &[]),
    });
    let text = "word ".repeat(8_800);
    let mut job = job(32_000).document("long.txt", &"long ".repeat(60_000));
    for name in ["a.txt", "b.txt", "c.txt"] {
        job = job.document(name, &format!("{name} {text}"));
    }
    let finished = run_to_end(&engine(Arc::new(MemoryStore::default()), &answers), job.load()).await;
    assert_eq!(finished.status, "success");
    assert_eq!(crate::support::call_result(&finished.entries, "0/2.1"), "failed limit_reached");
    let requests = requests_of_root(&finished);
    assert!(requests.iter().all(|request| request.reserved_tokens <= 32_000));
}

#[tokio::test]
async fn two_hundred_children_with_a_megabyte_each_end_with_success() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.path().join("runs.db")).unwrap());
    let finished = gather(job(128_000), store, 200, 1_000_000, true).await;
    assert_eq!(finished.status, "success");
    let newest = requests_of_root(&finished).pop().unwrap();
    assert_eq!(newest.pointers.len(), 200, "each has its record");
    assert!(newest.input_tokens < 64_000, "{} tokens", newest.input_tokens);
    let sizes = finished.run.documents().iter().map(|(_, document)| document.current().content.size_bytes);
    assert!(sizes.sum::<u64>() >= 200_000_000);
}
