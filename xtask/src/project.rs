//! Where the project is, and how its chores start programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// The folder of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace")
}

/// `cargo` in the workspace's folder, the same that started this program; it gets no input.
///
/// Nor does it get what this program was told of its own package: build scripts that watch those variables, as ring's does, would have
/// themselves and all that depends on them built again, each time.
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

/// The path of `program`, built by `profile`: cargo puts it beside this one's folder.
pub(crate) fn built(program: &str, profile: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("this program's own path is unknown")?;
    let target = own.ancestors().nth(2).context("this program is in no target folder")?;
    Ok(target.join(profile).join(program).with_extension(std::env::consts::EXE_EXTENSION))
}
