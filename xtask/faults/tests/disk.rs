//! The store on a disk that loses power and one that fails: a sample for every day; `cargo xtask faults` tries more.

use baton_faults::disk::Operation;
use baton_faults::trials::{Recording, cut_logs, failing_disks, flipped_bits, interrupted_migrations};
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

#[test]
fn a_loss_of_power_during_a_migration_leaves_the_old_format_or_the_new_one() {
    let report = interrupted_migrations(&tokio(), 100, 1).expect("the trials");
    assert_eq!((report.trials, report.failures), (100, Vec::new()));
}

#[test]
fn a_disk_that_fails_or_fills_up_costs_nothing_acknowledged() {
    let report = failing_disks(&tokio(), 3_000, 13).expect("the trials");
    assert!(report.trials > 60, "{}", report.trials);
    assert_eq!(report.failures, Vec::<String>::new());
}
