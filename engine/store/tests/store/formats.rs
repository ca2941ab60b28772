//! A store that an older program wrote: `format-2.sql` is one, as text.

use baton_core::id::{AgentId, ContentHash, RunId, TaskId, ToolId};
use baton_core::json::Json;
use baton_store::{FORMAT_VERSION, SqliteStore, Store, StoreError};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::support::{batch, sequence};

const FORMAT_2: &str = include_str!("format-2.sql");
const RUN: &str = "gpwqz454jp";

/// A file of format 2 in a folder of its own, and its path.
fn old_store() -> (TempDir, std::path::PathBuf) {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("store.db");
    let file = Connection::open(&path).expect("a new file");
    file.execute_batch(FORMAT_2).expect("a store of format 2");
    file.pragma_update(None, "journal_mode", "WAL").expect("the mode of stores");
    drop(file);
    (folder, path)
}

fn format_of(path: &std::path::Path) -> u32 {
    let file = Connection::open(path).expect("the file");
    file.query_row("PRAGMA user_version", [], |row| row.get(0)).expect("its format")
}

/// Everything that the store of format 2 holds is in `store`.
async fn check(store: &dyn Store) {
    let run = RunId::new(RUN);
    let record = store.run(&run).await.expect("readable").expect("there");
    assert_eq!(
        (record.job.as_str(), record.status.as_str(), record.last_seq, record.epoch),
        ("ask-the-master", "waiting", 56, 1)
    );
    assert_eq!((record.owner.as_deref(), record.past), (Some("process 8377"), None));
    let entries = store.entries(&run, 0, 100).await.expect("readable");
    assert_eq!(entries.len(), 56);
    let texts: Vec<_> = entries.iter().map(|entry| serde_json::to_string(&entry.entry).expect("JSON")).collect();
    assert!(texts.iter().all(|text| FORMAT_2.contains(&text.replace('\'', "''"))), "each entry is as it was");
    let of_root = store.task_entries(&run, &TaskId::root(), u64::MAX).await.expect("readable");
    let expected: Vec<_> = entries.iter().filter(|entry| entry.entry.task() == Some(&TaskId::root())).cloned().collect();
    assert_eq!(of_root, expected);
    let brief = ContentHash::from_hex("ac8c07b2024b987a2db782f745ddd3a814cb90a3bb731916eb0d7440b654ce3b").expect("a hash");
    assert_eq!(store.content(brief).await.expect("readable").map(|content| content.len()), Some(354));
    let calls = store.recall(&AgentId::new("writer"), &ToolId::new("think"), 9).await.expect("readable");
    assert_eq!(
        calls.iter().map(|(run, call)| (run.as_str(), call.input.text())).collect::<Vec<_>>(),
        [(RUN, "{\"thought\":\"1\"}"), (RUN, "{\"thought\":\"2\"}")]
    );
    let commands = store.take_commands(&run, 0).await.expect("readable");
    assert_eq!(
        commands.iter().map(|(number, body)| (*number, body.text())).collect::<Vec<_>>(),
        [(2, "{\"answer\":{\"question\":\"Q4\"}}")]
    );
}

#[tokio::test]
async fn a_store_of_format_2_becomes_one_of_the_present_format_with_all_that_it_held() {
    let (_folder, path) = old_store();
    let store = SqliteStore::open(&path).expect("the migrated store");
    check(&store).await;
    let run = RunId::new(RUN);
    assert_eq!(store.put_command(&run, Json::null()).await.expect("there"), 3, "no number is used twice");
    let epoch = store.take_over(&run, "the next").await.expect("there");
    store.append(baton_store::Batch { epoch, ..batch(&run, 56, 2) }).await.expect("the run goes on");
    assert_eq!(sequence(&store, &run).await.len(), 58);
    drop(store);
    assert_eq!(format_of(&path), FORMAT_VERSION);
    let reopened = SqliteStore::open(&path).expect("the store, again");
    assert_eq!(sequence(&reopened, &run).await.len(), 58);
}

#[tokio::test]
async fn a_store_of_format_2_is_read_without_being_changed() {
    let (_folder, path) = old_store();
    let before = std::fs::read(&path).expect("readable");
    let store = SqliteStore::open_to_read(&path).expect("readable");
    check(&store).await;
    assert_eq!(store.path(), path);
    let refused = store.put_command(&RunId::new(RUN), Json::null()).await.expect_err("it is only read");
    assert!(matches!(&refused, StoreError::ReadOnly { .. }) && refused.to_string().contains("store.db"), "{refused}");
    drop(store);
    assert_eq!(std::fs::read(&path).expect("readable"), before);
}

#[tokio::test]
async fn a_damaged_store_of_format_2_is_not_migrated() {
    for damage in [
        "UPDATE batches SET entries = replace(entries, 'museum', 'Museum') WHERE first = 1",
        "DELETE FROM places WHERE task = 0 AND last = 10",
        "DELETE FROM batches WHERE batch = 11",
    ] {
        let (_folder, path) = old_store();
        Connection::open(&path).expect("the file").execute_batch(damage).expect("somebody's write");
        let before = std::fs::read(&path).expect("readable");
        let refused = SqliteStore::open(&path).expect_err("damaged");
        assert!(matches!(refused, StoreError::Corrupt { .. }), "{damage}: {refused}");
        assert_eq!(format_of(&path), 2);
        assert_eq!(std::fs::read(&path).expect("readable"), before, "{damage}");
    }
}
