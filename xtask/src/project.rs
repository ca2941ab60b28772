//! Where the project is, and how its chores start programs.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// The folder of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace")
}

/// `cargo` in the workspace's folder, the same that started this program; it gets no input.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments).stdin(Stdio::null());
    command
}

/// Runs `cargo`, its output shown; an error if it fails.
pub(crate) fn run_cargo(arguments: &[&str]) -> anyhow::Result<()> {
    let line = format!("cargo {}", arguments.join(" "));
    eprintln!("$ {line}");
    let status = cargo(arguments).status().with_context(|| format!("{line} cannot be started"))?;
    if !status.success() {
        bail!("{line} failed ({status})");
    }
    Ok(())
}
