//! A short trial of the cluster: parts are cut off for seconds, and no run is lost.
//!
//! Where the machine permits no network namespaces, the test passes without a trial. It writes a line that begins with `SKIPPED:` past the
//! capture of the test runner, and `cargo xtask test` repeats the line at its end.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use baton_cluster::{Fault, Fleet, Lengths, Trial, Unavailable};

/// Returns the program, which cargo puts beside the folder of this one.
fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.ancestors().nth(2).unwrap().join("baton")
}

#[test]
fn no_run_is_lost_while_the_leader_of_the_bus_and_a_worker_are_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let mut fleet = match Fleet::start(&program(), folder.path()) {
        Err(error) if error.is::<Unavailable>() => {
            let notice = format!("SKIPPED: the trial of a cluster: {error:#}\n");
            std::io::stdout().write_all(notice.as_bytes()).unwrap();
            return;
        }
        fleet => fleet.unwrap(),
    };
    let lengths = Lengths { cut: Duration::from_secs(5), load: Duration::from_secs(5) };
    let row = Trial { number: 1, fault: Fault::LeaderAndWorkerCut, lengths }.run(&mut fleet).unwrap();
    assert_eq!(row.findings.faults(), Vec::<String>::new(), "{row:?}");
    assert!(row.findings.runs > 3 && row.findings.effects > 10, "{row:?}");
}
