//! The store on a disk that loses power and one that fails: a sample for every day; `cargo xtask faults` tries more.

use std::path::Path;

use baton_faults::disk::{Disk, Failure, Fault, Operation};
use baton_faults::trials::{Recording, cut_logs, failing_disks, flipped_bits, scratch};
use baton_faults::workload::{FILE, Plan};
use baton_store::{Batch, SqliteStore, Store, StoreError};
use tokio::runtime::{Builder, Runtime};

fn tokio() -> Runtime {
    Builder::new_current_thread().build().expect("a runtime")
}

#[test]
fn what_was_acknowledged_survives_every_loss_of_power() {
    let tokio = tokio();
    let recording = Recording::new(&tokio, 20_000).expect("the workload on a good disk");
    assert!(recording.log.len() > 300, "the workload writes: {} operations", recording.log.len());
    let report = recording.power_losses(&tokio, 200, 1).expect("the trials");
    assert_eq!((report.trials, report.failures), (200, Vec::new()));
}

#[test]
fn a_store_that_did_not_sync_would_be_found_out() {
    let tokio = tokio();
    let mut recording = Recording::new(&tokio, 1_000).expect("the workload on a good disk");
    // As if every commit but the first dozen had been left to the system, as SQLite does at `synchronous=NORMAL`.
    let mut syncs = 0;
    for operation in &mut recording.log {
        if let Operation::Sync { file, .. } = operation
            && file.ends_with("-wal")
        {
            syncs += 1;
            if syncs > 12 {
                *operation = Operation::Create { file: "nothing".into() };
            }
        }
    }
    let report = recording.power_losses(&tokio, 100, 1).expect("the trials");
    assert!(!report.failures.is_empty());
}

#[test]
fn a_flipped_bit_in_any_page_is_refused_or_harmless() {
    let report = flipped_bits(&tokio(), 3_000, 1, 1).expect("the trials");
    assert!(report.trials > 30, "{}", report.trials);
    assert_eq!(report.failures, Vec::<String>::new());
}

#[test]
fn a_log_that_is_cut_off_leaves_whole_commits() {
    let report = cut_logs(&tokio(), 997).expect("the trials");
    assert_eq!((report.trials, report.failures), (66, Vec::new()));
}

/// Returns the store that the disk of `folder` has, and two batches that follow each other.
async fn begun(folder: &Path) -> (SqliteStore, [Batch; 2]) {
    let plan = Plan::new(1_000);
    let run = &plan.runs[1];
    let store = SqliteStore::open(folder.join(FILE)).expect("a new store");
    store.begin(run.new.clone(), "owner", run.batches[0].clone()).await.expect("a new run");
    (store, [run.batches[1].clone(), run.batches[2].clone()])
}

#[tokio::test]
async fn writing_continues_after_space_is_freed() {
    let folder = scratch().expect("a folder");
    let disk = Disk::watch(folder.path()).expect("a disk");
    let (store, [first, second]) = begun(folder.path()).await;
    disk.fail(Some(Fault { at: disk.operations() + 2, failure: Failure::Full, lasting: true }));
    for _ in 0..2 {
        let refused = store.append(first.clone()).await.expect_err("the disk is full");
        assert!(matches!(refused, StoreError::StorageFull { .. }) && refused.to_string().contains("storage full"), "{refused}");
    }
    disk.fail(None);
    for batch in [first, second] {
        store.append(batch).await.expect("there is room");
    }
    assert_eq!(store.verify().await.expect("readable").findings, Vec::<String>::new());
}

#[tokio::test]
async fn a_flush_that_works_after_one_that_failed_is_not_trusted() {
    let folder = scratch().expect("a folder");
    let disk = Disk::watch(folder.path()).expect("a disk");
    let (store, [first, second]) = begun(folder.path()).await;
    let before = disk.position();
    store.append(first).await.expect("a good disk");
    let commit = disk.take_log().split_off(before);
    assert!(matches!(commit.last(), Some(Operation::Sync { .. })), "a commit ends with a flush: {commit:?}");
    // The flush of the next commit, which writes as much: this once, or its last write if it writes more.
    disk.fail(Some(Fault { at: disk.operations() + commit.len() as u64, failure: Failure::Io, lasting: false }));
    let refused = store.append(second.clone()).await.expect_err("the disk fails");
    assert!(matches!(refused, StoreError::Failing { .. }), "{refused}");
    disk.fail(None);
    let refused = store.append(second.clone()).await.expect_err("the disk is good again, and not believed");
    assert!(matches!(refused, StoreError::Failing { .. }), "{refused}");
    assert_eq!(store.runs().await.expect("reading goes on").len(), 1);
    drop(store);
    let store = SqliteStore::open(folder.path().join(FILE)).expect("the store, again");
    // Whether the batch of the flush that failed is there was not known; now it is, and it is whole.
    let is_there = store.runs().await.expect("readable")[0].last_seq > second.expected_seq;
    assert_eq!(store.append(second).await.is_ok(), !is_there);
    assert_eq!(store.verify().await.expect("readable").findings, Vec::<String>::new());
}

#[test]
fn a_disk_that_fails_or_fills_up_costs_nothing_acknowledged() {
    let report = failing_disks(&tokio(), 3_000, 13).expect("the trials");
    assert!(report.trials > 60, "{}", report.trials);
    assert_eq!(report.failures, Vec::<String>::new());
}
