//! Size of runs on disk: rows for entries, and each content once.

use std::path::Path;
use std::sync::Arc;

use baton_store::{SqliteStore, Store};
use baton_types::entry::Entry;
use rusqlite::Connection;
use serde_json::json;

use crate::support::{TestJob, calls, engine, handoff, model, run_to_end};

/// Returns the result of `query` on the store's file, a number.
fn ask(file: &Path, query: &str) -> u64 {
    let file = Connection::open(file).unwrap();
    file.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap() as u64
}

/// The bytes of all pages of the file but those of contents.
const ROWS: &str = "SELECT sum(pgsize) FROM dbstat WHERE name NOT LIKE '%contents%'";

/// Runs an agent that makes `turns` - 1 calls and hands off; answers how many tokens its largest request had.
async fn walk(file: &Path, turns: u32, document: &str) -> u64 {
    let step = json!({"n": {"type": "integer", "description": "Which.", "required": true}});
    let limits = json!({"limits": {"turns": 10_000, "inject_tokens": 300_000}});
    let job = TestJob::new("walker", json!({}))
        .agent_with("walker", &["step", "handoff"], limits)
        .tool("step", step, json!({"effect": "pure"}))
        .document("book.txt", document)
        .load();
    let answers = model(move |_, turn, _| match turn {
        turn if turn < turns => calls(&[("step", json!({"n": turn}))]),
        _ => handoff("done", &[]),
    });
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(file).unwrap());
    let finished = run_to_end(&engine(store, &answers), job).await;
    assert_eq!(finished.status, "success");
    let requested = |entry: &Entry| if let Entry::ModelRequested(request) = entry { Some(request.input_tokens) } else { None };
    finished.entries.iter().filter_map(|recorded| requested(&recorded.entry)).max().unwrap()
}

#[tokio::test]
async fn a_hundred_calls_over_a_context_of_200_000_tokens_take_little() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.db");
    // About four bytes are a token.
    let book = "It was a long book, and nobody had read it twice. ".repeat(16_000);
    let tokens = walk(&file, 101, &book).await;
    assert!(tokens >= 200_000, "the book is in the requests: {tokens} tokens");
    let rows = ask(&file, ROWS);
    println!("100 calls over a context of {tokens} tokens: {rows} bytes of rows");
    assert!(rows < 5_000_000, "{rows} bytes");
    let contents = ask(&file, "SELECT sum(length(bytes)) FROM contents");
    assert!(contents < 2 * book.len() as u64, "the book is stored once: {contents} bytes");
}

#[tokio::test]
async fn a_turn_takes_as_much_after_thousands_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.db");
    walk(&file, 2_000, "short").await;
    let entries = ask(&file, "SELECT last_seq FROM runs");
    let store = Connection::open(&file).unwrap();
    // Repetition costs little after compression, so the length of the text counts, which is in the first four bytes.
    let mut lengths = store.prepare("SELECT substr(entries, 1, 4) FROM batches WHERE first > ?1 AND first <= ?2").unwrap();
    let mut bytes = |from: u64, to: u64| -> u64 {
        let lengths = lengths.query_map([from as i64, to as i64], |row| row.get::<_, [u8; 4]>(0)).unwrap();
        lengths.map(|length| u64::from(u32::from_le_bytes(length.unwrap()))).sum()
    };
    // Numbers get longer by a digit; nothing else may grow.
    let (early, late) = (bytes(entries / 10, entries / 5), bytes(entries / 10 * 9, entries));
    println!("2,000 turns: {entries} entries, {} bytes of rows; a tenth of them: {early} early, {late} late", ask(&file, ROWS));
    assert!(late * 10 < early * 11, "{early} bytes early, {late} late");
}
