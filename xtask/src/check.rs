//! `cargo xtask check`: what can be said of the code without running it. Every check runs, whatever the others said.

use anyhow::bail;

use crate::project::{cargo, run_cargo};
use crate::rules_page;
use crate::{dependencies, gen_docs};

/// Runs all checks; an error names those that failed.
pub(crate) fn run() -> anyhow::Result<()> {
    let checks = [
        run_cargo(&["fmt", "--all", "--check"]),
        run_cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        // Its programs are only built with this feature.
        run_cargo(&["clippy", "-p", "baton-crash", "--features", "failpoints", "--all-targets", "--", "-D", "warnings"]),
        gen_docs::check(),
        rules_page::check(),
        dependencies::check(),
        advisories(),
    ];
    let failures: Vec<String> = checks.into_iter().filter_map(Result::err).map(|error| format!("{error:#}")).collect();
    if failures.is_empty() {
        eprintln!("all checks passed");
        return Ok(());
    }
    bail!("{} of the checks failed:\n{}", failures.len(), failures.join("\n"))
}

/// Known faults of dependencies, where cargo-deny is installed and its database can be had.
fn advisories() -> anyhow::Result<()> {
    let succeeds = |arguments: &[&str]| cargo(arguments).output().is_ok_and(|output| output.status.success());
    if !succeeds(&["deny", "--version"]) {
        eprintln!("skipped advisories: cargo-deny is not installed (cargo install cargo-deny)");
        return Ok(());
    }
    if !succeeds(&["deny", "fetch", "db"]) {
        eprintln!("skipped advisories: their database cannot be fetched; is there a network?");
        return Ok(());
    }
    run_cargo(&["deny", "--offline", "check", "advisories"])
}
