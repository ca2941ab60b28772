//! `cargo xtask crash`: builds the crash kit with failpoints and starts it; all it does is in `xtask/crash`.

use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::project::{built, root, run_cargo};

/// Starts the kit with `arguments`.
pub(crate) fn run(release: bool, arguments: &[String]) -> anyhow::Result<ExitCode> {
    let mut build = vec!["build", "-p", "baton-crash", "--features", "failpoints"];
    build.extend(release.then_some("--release"));
    run_cargo(&build)?;
    let program = built("baton-crash", if release { "release" } else { "debug" })?;
    let mut kit = Command::new(program);
    let status = kit.args(arguments).current_dir(root()).status().context("the crash kit cannot be started")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
