//! The project's folder, and programs started by chores.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// Returns the folder of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace")
}

/// `cargo` in the workspace's folder, the same that started this program; it gets no input.
///
/// Variables about this program's own package are removed: build scripts that watch them, as ring's does, would be
/// rebuilt each time, with everything that depends on them.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments).stdin(Stdio::null());
    let own = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(own)) {
        command.env_remove(name);
    }
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

/// Returns the path of `program`, built by `profile`: cargo puts it beside this one's folder.
pub(crate) fn built(program: &str, profile: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("this program's own path is unknown")?;
    let target = own.ancestors().nth(2).context("this program is in no target folder")?;
    Ok(target.join(profile).join(program).with_extension(std::env::consts::EXE_EXTENSION))
}
