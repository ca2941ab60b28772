//! `cargo xtask dist`: the program to distribute, without paths of the machine that built it.
//!
//! The build uses profile-guided optimization: an instrumented program executes the jobs of [`training`] and counts how often each part of
//! its code runs. A second build is optimized by these counts. On `x86_64` Linux, its linker places the functions that ran next to each other.
//!
//! Here this matters more than the speed of single functions. A run of three agents executes 100,000 different instructions. Without the
//! counts they are spread over 640 KB on 970 pages, far more than a processor's first cache of instructions (32 KB) and its first cache of
//! page addresses hold.

mod paths;
mod training;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use self::paths::{Replaced, c_flags, paths_in, replaced, rust_flags, text};
use self::training::Counts;
use crate::project::{cargo, root};

/// The folder of these builds. Other flags than those of everyday builds would otherwise make these build again.
const TARGET: &str = "target/distribution";

/// The profile of both builds. Its settings are part of the names by which the compiler finds counts.
const PROFILE: &str = "dist";

/// The program that measures, which also trains: a package by the same name.
const TRAINING: &str = "baton-bench";

/// The packages of these builds. They are always built together, since the names of the code that they share depend on the features that both
/// ask for.
const PACKAGES: [&str; 2] = ["baton", TRAINING];

/// Packs the table of addresses that the loader adjusts: 25 KB instead of 2 MB. Needs glibc 2.36, of 2022.
const PACKED: &str = "-Clink-arg=-Wl,-z,pack-relative-relocs";

/// Builds the program, and fails if it contains a path of this machine.
pub(crate) fn run() -> anyhow::Result<()> {
    let program = build("baton")?;
    let content = fs::read(&program).with_context(|| format!("{} cannot be read", program.display()))?;
    let found = paths_in(&content, &replaced()?);
    if !found.is_empty() {
        bail!("{} contains paths of this machine:\n  {}", program.display(), found.join("\n  "));
    }
    println!("{}", program.display());
    Ok(())
}

/// Builds `program` of one of [`PACKAGES`] by the counts of a training. Returns its path.
pub(crate) fn build(program: &str) -> anyhow::Result<PathBuf> {
    let builds = Builds::new()?;
    let counting = builds.build(TRAINING, "counting", ["-Cprofile-generate".to_owned()])?;
    let Counts { profile, order } = training::counts(&counting, &root().join(TARGET), &builds.tool)?;
    let profile = format!("-Cprofile-use={}", text(&profile)?);
    // rust-lld, which rustc uses on this platform, knows the option.
    let order = if cfg!(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64")) {
        format!("-Clink-arg=-Wl,--no-warn-symbol-ordering,--symbol-ordering-file={}", text(&order)?)
    } else {
        String::new()
    };
    builds.build(program, "counted", [profile, order])
}

/// The common part of both builds.
struct Builds {
    /// The platform of this machine. Naming it keeps the flags of these builds from build scripts and macros.
    host: String,
    /// `llvm-profdata` of the compiler's own version: no other one reads its counts.
    tool: PathBuf,
    replaced: [Replaced; 2],
}

impl Builds {
    fn new() -> anyhow::Result<Self> {
        let host = rustc(&["-vV"])?.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned);
        let host = host.context("rustc -vV does not name its host")?;
        let name = Path::new("llvm-profdata").with_extension(std::env::consts::EXE_EXTENSION);
        let tool = Path::new(rustc(&["--print", "sysroot"])?.trim()).join("lib/rustlib").join(&host).join("bin").join(name);
        ensure!(tool.exists(), "{} is missing: `rustup component add llvm-tools` installs it", tool.display());
        Ok(Self { host, tool, replaced: replaced()? })
    }

    /// Builds `program` into a folder by the name of this `build`, with more flags of rustc; empty ones are left out. Returns its path.
    fn build(&self, program: &str, build: &str, more: impl IntoIterator<Item = String>) -> anyhow::Result<PathBuf> {
        let target = root().join(TARGET).join(build);
        let mut command = cargo(&["build", "--locked", "--profile", PROFILE, "--target", &self.host, "--bin", program]);
        command.arg("--target-dir").arg(&target).args(PACKAGES.iter().flat_map(|package| ["--package", *package]));
        let mut flags = rust_flags(&self.replaced)?;
        flags.extend(more.into_iter().filter(|flag| !flag.is_empty()));
        if cfg!(all(target_os = "linux", target_env = "gnu")) {
            flags.push(PACKED.to_owned());
        }
        command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}")).env_remove("RUSTFLAGS");
        for variable in ["CFLAGS", "CXXFLAGS"] {
            command.env(variable, c_flags(&self.replaced, &std::env::var(variable).unwrap_or_default())?);
        }
        eprintln!("building {program} ({build})");
        let status = command.status().context("cargo build cannot be started")?;
        ensure!(status.success(), "cargo build failed ({status})");
        Ok(target.join(&self.host).join(PROFILE).join(program).with_extension(std::env::consts::EXE_EXTENSION))
    }
}

/// Returns the output of `rustc`.
fn rustc(arguments: &[&str]) -> anyhow::Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
    let output = Command::new(rustc).current_dir(root()).args(arguments).output().context("rustc cannot be started")?;
    ensure!(output.status.success(), "rustc {} failed ({})", arguments.join(" "), output.status);
    String::from_utf8(output.stdout).context("rustc printed something else than text")
}
