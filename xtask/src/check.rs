//! `cargo xtask check`: static checks. All of them run, even after a failure.

use std::process::{Command, Stdio};

use anyhow::bail;

use crate::project::{cargo, run_cargo};
use crate::{architecture, dependencies, gen_docs, layers, prose, rules_page};

/// Runs all checks; an error names those that failed.
pub(crate) fn run() -> anyhow::Result<()> {
    let checks = [
        run_cargo(&["fmt", "--all", "--check"]),
        // The programs of the crash kit are only built with this feature.
        run_cargo(&["clippy", "--workspace", "--features", "baton-crash/failpoints", "--all-targets", "--", "-D", "warnings"]),
        // Alone, as `cargo run` builds it: the other packages could turn on a feature that it needs and does not name.
        run_cargo(&["check", "--quiet", "-p", "baton"]),
        gen_docs::check(),
        rules_page::check(),
        layers::check(),
        architecture::check(),
        prose::check(),
        dependencies::check(),
        instructions(),
        advisories(),
    ];
    let failures: Vec<String> = checks.into_iter().filter_map(Result::err).map(|error| format!("{error:#}")).collect();
    if failures.is_empty() {
        eprintln!("all checks passed");
        return Ok(());
    }
    bail!("{} of the checks failed:\n{}", failures.len(), failures.join("\n"))
}

/// Compares the instructions of each step of a call with the record. Needs valgrind: installed if `CI` is set, else skipped
/// with a notice.
fn instructions() -> anyhow::Result<()> {
    let is_installed = || Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !is_installed() && std::env::var_os("CI").is_some() {
        apt_get(&["update", "--quiet"])?;
        apt_get(&["install", "--yes", "--quiet", "--no-install-recommends", "valgrind"])?;
    }
    if !is_installed() {
        eprintln!("skipped instruction counts: valgrind is not installed");
        return Ok(());
    }
    run_cargo(&["bench", "--quiet", "--workspace", "--bench", "instructions", "--profile", "dev"])
}

/// Runs Debian's package manager, as root or by `sudo`.
pub(crate) fn apt_get(arguments: &[&str]) -> anyhow::Result<()> {
    let run = |program: &str, before: &[&str]| {
        let mut command = Command::new(program);
        command.args(before).args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if run("apt-get", &[]) || run("sudo", &["--non-interactive", "apt-get"]) {
        return Ok(());
    }
    bail!("apt-get {} failed", arguments.join(" "))
}

/// Checks dependencies for known vulnerabilities, where cargo-deny is installed and its database is available.
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
