//! Each workload runs and reports, so that a change of the engine cannot break a benchmark unseen.

use std::process::Command;

use serde_json::Value;

#[test]
fn each_workload_runs_and_reports() {
    let workloads = [
        ("q3", "2"),
        ("wide", "3"),
        ("deep", "3"),
        ("long", "3"),
        ("startup", "3"),
        ("blocked", "3"),
        ("resume", "50"),
        ("children", "3"),
        ("suspended", "3"),
    ];
    for (workload, n) in workloads {
        // Other processes cannot reach runs in memory.
        let stores = if matches!(workload, "resume" | "suspended") { ["sqlite"].as_slice() } else { &["memory", "sqlite"] };
        for store in stores {
            let program = env!("CARGO_BIN_EXE_baton-bench");
            let ran = Command::new(program).args([workload, "--n", n, "--store", store]).output().unwrap();
            let (output, failed) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
            let report = output.lines().find_map(|line| line.strip_prefix("RESULT ")).map(serde_json::from_str::<Value>);
            assert!(ran.status.success() && report.is_some_and(|report| report.is_ok()), "{workload} {store}: {output}{failed}");
        }
    }
}
