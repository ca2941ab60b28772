//! `cargo xtask dist`: the program to distribute, without paths of the machine that built it.
//!
//! It is built twice. The first build counts how often each part of its code runs, while it executes the jobs of [`training`]. By
//! these counts the compiler puts code that runs together side by side, and code that rarely runs apart from it. This matters more than
//! the speed of single functions: one run of three agents executes 640 KB of code, which would otherwise lie on 970 pages. No
//! cache of instructions and no cache of page addresses holds that.

mod paths;
mod training;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use self::paths::{Replaced, c_flags, paths_in, replaced, rust_flags, text};
use crate::project::{cargo, root};

/// The folder of these builds. Other flags than those of everyday builds would otherwise make these build again.
const TARGET: &str = "target/distribution";

/// The profile of both builds. Its name and its settings are part of the names by which the compiler finds counts.
const PROFILE: &str = "dist";

/// The program that is distributed, and the one that measures it: packages by the same names.
const PROGRAMS: [&str; 2] = ["baton", "baton-bench"];

/// Lets the linker put together what the compiler marks by the counts: functions that run often, and functions that never ran.
const GROUPED: &str = "-Clink-arg=-Wl,-z,keep-text-section-prefix";

/// Lets the addresses that the loader adjusts take 25 KB instead of 2 MB. Needs glibc 2.36, of 2022.
const PACKED: &str = "-Clink-arg=-Wl,-z,pack-relative-relocs";

/// Whether the linker knows these two flags.
const HAS_FLAGS: bool = cfg!(all(target_os = "linux", target_env = "gnu"));

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

/// Builds `program`, one of [`PROGRAMS`], by the counts of a training. Returns its path.
pub(crate) fn build(program: &str) -> anyhow::Result<PathBuf> {
    let builds = Builds::new()?;
    let [baton, bench] = builds.build(PROGRAMS, "counting", vec!["-Cprofile-generate"])?;
    let counts = training::counts(&baton, &bench, &root().join(TARGET), &builds.tool)?;
    let counted = format!("-Cprofile-use={}", text(&counts)?);
    let flags = std::iter::once(counted.as_str()).chain(HAS_FLAGS.then_some(GROUPED)).collect();
    let [program] = builds.build([program], "counted", flags)?;
    Ok(program)
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

    /// Builds `programs` into a folder by the name of this `build`, with more flags of rustc. Returns their paths.
    fn build<const N: usize>(&self, programs: [&str; N], build: &str, more: Vec<&str>) -> anyhow::Result<[PathBuf; N]> {
        let target = root().join(TARGET).join(build);
        let mut command = cargo(&["build", "--locked", "--profile", PROFILE, "--target", &self.host]);
        command.arg("--target-dir").arg(&target).args(programs.iter().flat_map(|program| ["--bin", *program]));
        // Always both packages: the features of what they share are then the same in each build, and with them the names of its code.
        command.args(PROGRAMS.iter().flat_map(|program| ["--package", *program]));
        let mut flags = rust_flags(&self.replaced)?;
        flags.extend(more.into_iter().chain(HAS_FLAGS.then_some(PACKED)).map(str::to_owned));
        command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}")).env_remove("RUSTFLAGS");
        for variable in ["CFLAGS", "CXXFLAGS"] {
            command.env(variable, c_flags(&self.replaced, &std::env::var(variable).unwrap_or_default())?);
        }
        eprintln!("building {} ({build})", programs.join(", "));
        let status = command.status().context("cargo build cannot be started")?;
        ensure!(status.success(), "cargo build failed ({status})");
        let folder = target.join(&self.host).join(PROFILE);
        Ok(programs.map(|program| folder.join(program).with_extension(std::env::consts::EXE_EXTENSION)))
    }
}

/// Returns the output of `rustc`.
fn rustc(arguments: &[&str]) -> anyhow::Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
    let output = Command::new(rustc).current_dir(root()).args(arguments).output().context("rustc cannot be started")?;
    ensure!(output.status.success(), "rustc {} failed ({})", arguments.join(" "), output.status);
    String::from_utf8(output.stdout).context("rustc printed something else than text")
}
