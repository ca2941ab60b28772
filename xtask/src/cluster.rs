//! `cargo xtask cluster`: builds the program and the cluster kit, and starts the kit; all it does is in `xtask/cluster`.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::check::apt_get;
use crate::project::{built, root, run_cargo};
use crate::{nats, postgres};

/// Starts the kit with `arguments`.
pub(crate) fn run(release: bool, arguments: &[String]) -> anyhow::Result<ExitCode> {
    postgres::install_if_missing(&[]);
    nats::install_if_missing(&[]);
    install_faketime();
    // As all of the workspace is built, so that nothing is built twice.
    let mut build = vec!["build", "--workspace", "--bin", "baton", "--bin", "baton-cluster"];
    build.extend(release.then_some("--release"));
    run_cargo(&build)?;
    let program = built("baton-cluster", if release { "release" } else { "debug" })?;
    let mut kit = Command::new(program);
    let status = kit.args(arguments).current_dir(root()).status().context("the cluster kit cannot be started")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Installs the library that shifts the clock of a program. Without it, the kit fails when it comes to the clocks.
fn install_faketime() {
    if Path::new("/usr/bin/faketime").is_file() {
        return;
    }
    let installed = apt_get(&["update", "--quiet"])
        .and_then(|()| apt_get(&["install", "--yes", "--quiet", "--no-install-recommends", "faketime"]));
    if let Err(error) = installed {
        eprintln!("faketime cannot be installed ({error:#}); the trial of clocks needs it");
    }
}
