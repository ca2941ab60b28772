//! Writes that wait together are committed together, and a write that fails does not affect the others of its group.
//!
//! Another connection holds the file's write lock while the writes are sent, so they all wait. When it releases the
//! lock, the writer finds them together. On the single thread of these tests, a yield lets some 60 spawned writes be
//! sent.

use std::sync::Arc;

use baton_store::{Batch, SqliteStore, Store, StoreError};
use baton_types::id::RunId;
use tokio::task::JoinSet;

use crate::support::{OnDisk, batch, content, logged, new_run, owned_run, sequence};

/// Sends all `batches` while another connection holds the write lock, then releases it. Returns the answers in order.
async fn append_together(disk: &OnDisk, store: &Arc<SqliteStore>, batches: Vec<Batch>) -> Vec<Result<(), StoreError>> {
    let stranger = rusqlite::Connection::open(store.path()).expect("a connection to the store's file");
    stranger.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
    let mut writes = JoinSet::new();
    for (index, batch) in batches.into_iter().enumerate() {
        let store = Arc::clone(store);
        writes.spawn(async move { (index, store.append(batch).await) });
    }
    for _ in 0..=writes.len() / 32 {
        tokio::task::yield_now().await;
    }
    stranger.execute_batch("COMMIT").expect("letting go");
    let mut answers = writes.join_all().await;
    answers.sort_by_key(|(index, _)| *index);
    assert!(disk.folder.path().exists());
    answers.into_iter().map(|(_, answer)| answer).collect()
}

async fn runs(store: &dyn Store, count: usize) -> Vec<RunId> {
    let mut runs = Vec::new();
    for index in 0..count {
        runs.push(owned_run(store, &format!("run {index}")).await);
    }
    runs
}

#[tokio::test]
async fn waiting_batches_share_one_commit() {
    let disk = OnDisk::new();
    let store = Arc::new(SqliteStore::open(disk.store.path()).expect("a second opening"));
    let runs = runs(&*store, 64).await;
    let before = store.stats();
    let answers = append_together(&disk, &store, runs.iter().map(|run| batch(run, 0, 3)).collect()).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let after = store.stats();
    assert_eq!((after.writes - before.writes, after.commits - before.commits), (64, 1));
    for run in &runs {
        assert_eq!(sequence(&*store, run).await, [1, 2, 3]);
    }
}

#[tokio::test]
async fn a_run_s_waiting_batches_follow_each_other_in_one_commit() {
    let disk = OnDisk::new();
    let store = Arc::new(SqliteStore::open(disk.store.path()).expect("a second opening"));
    let run = owned_run(&*store, "a").await;
    let before = store.stats();
    let answers = append_together(&disk, &store, (0..10).map(|step| batch(&run, step * 2, 2)).collect()).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(store.stats().commits - before.commits, 1);
    assert_eq!(sequence(&*store, &run).await, (1..=20).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_refused_batch_does_not_spoil_its_group() {
    let disk = OnDisk::new();
    let store = Arc::new(SqliteStore::open(disk.store.path()).expect("a second opening"));
    let runs = runs(&*store, 3).await;
    let before = store.stats();
    let stale = Batch { epoch: 7, ..batch(&runs[1], 0, 1) };
    let unknown = batch(&RunId::new("nobody"), 0, 1);
    let misplaced = batch(&runs[0], 0, 1);
    let group = vec![batch(&runs[0], 0, 2), stale, batch(&runs[1], 0, 1), unknown, misplaced, batch(&runs[2], 0, 1)];
    let answers = append_together(&disk, &store, group).await;
    assert!(matches!(answers[1], Err(StoreError::StaleEpoch { .. })), "{answers:?}");
    assert!(matches!(answers[3], Err(StoreError::UnknownRun(_))), "{answers:?}");
    assert!(matches!(answers[4], Err(StoreError::SequenceMismatch { .. })), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 3);
    let after = store.stats();
    assert_eq!((after.writes - before.writes, after.commits - before.commits), (3, 1));
    assert_eq!(sequence(&*store, &runs[0]).await, [1, 2]);
    assert_eq!(sequence(&*store, &runs[1]).await, [1]);
}

#[tokio::test]
async fn a_batch_that_cannot_be_written_fails_alone() {
    let disk = OnDisk::new();
    let store = Arc::new(SqliteStore::open(disk.store.path()).expect("a second opening"));
    let runs = runs(&*store, 3).await;
    // Fails in the middle of a batch, after some of it was written, as a full disk does.
    let logging = logged("analyst", "save", "kept");
    let in_the_way = "INSERT INTO logged VALUES (99, ?1, 'analyst', 'save', 1, '', '', '', 0, '', 0)";
    disk.stranger().execute(in_the_way, [logging.memory.as_str()]).expect("a row in the way");
    let (hash, bytes) = content(b"of the batch that fails");
    let failing = Batch { contents: vec![(hash, bytes)], logged: vec![logging], ..batch(&runs[1], 0, 3) };
    let answers = append_together(&disk, &store, vec![batch(&runs[0], 0, 2), failing, batch(&runs[2], 0, 1)]).await;
    assert!(matches!(&answers[1], Err(StoreError::Sqlite(error)) if error.to_string().contains("logged.nth")), "{answers:?}");
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
    disk.stranger().execute("DELETE FROM logged", []).expect("out of the way");
    assert_eq!(sequence(&*store, &runs[0]).await, [1, 2]);
    assert!(sequence(&*store, &runs[1]).await.is_empty());
    assert_eq!(store.content(hash).await.expect("readable"), None);
    store.append(batch(&runs[1], 0, 2)).await.expect("the store goes on, and the run is where it was");
}

#[tokio::test]
async fn a_write_that_nobody_waits_for_any_more_is_finished_before_the_store_closes() {
    let disk = OnDisk::new();
    let path = disk.store.path().to_owned();
    let store = Arc::new(SqliteStore::open(&path).expect("a second opening"));
    let asking = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.create(new_run("asked for", 1)).await }
    });
    tokio::task::yield_now().await;
    asking.abort();
    drop(asking.await);
    drop(Arc::into_inner(store).expect("the last owner"));
    let record = disk.store.run(&RunId::new("asked for")).await.expect("readable");
    assert!(record.is_some(), "what was asked for is there once the store is closed");
}
