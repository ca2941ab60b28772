//! `cargo xtask peers`: jobs against servers of other projects, which the chore installs and starts itself.
//!
//! All its files are in `target/peers`, a folder for each server: its Python environment, its logs, the stores of the
//! runs. Packages are pinned in `xtask/peers/` and come from the package index that pip is set up for. The chore fails
//! if a server cannot be installed or started.

mod environment;
mod litellm;
mod llama_server;
mod llamacpp;
mod program;
mod qwen;
mod server;

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};

use self::environment::Installer;
use self::program::Program;
use crate::project::{built, run_cargo};

/// Choice of servers, and options.
#[derive(Args)]
pub(crate) struct Options {
    /// A program with baton's command line, in place of the one that is built from here.
    #[arg(long, value_name = "PROGRAM")]
    program: Option<PathBuf>,
    /// Tries one server alone.
    #[arg(long, value_enum, value_name = "SERVER")]
    only: Option<Peer>,
    /// The Python that environments are made with, 3.10 or newer.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: String,
    #[command(flatten)]
    qwen: qwen::Draws,
}

/// A server that is tried.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Peer {
    /// LiteLLM's proxy, whose answers a config defines.
    Litellm,
    /// llama.cpp's own server, with a model of random weights.
    Llamacpp,
    /// The same server with a small real model; only if it is named, because it takes hours.
    Qwen,
}

/// Tries the servers; an error if one could not be had, or if anything was not as it must be.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let built = built("baton", "debug")?;
    let work = built.ancestors().nth(2).context("the program is in no target folder")?.join("peers");
    let baton = if let Some(program) = &options.program {
        program.canonicalize().with_context(|| format!("{} cannot be found", program.display()))?
    } else {
        // As all of the workspace is built, so that nothing is built twice.
        run_cargo(&["build", "--workspace", "--bin", "baton"])?;
        built
    };
    let installer = Installer { python: &options.python, work: &work };
    let mut failures = Vec::new();
    for peer in Peer::value_variants().iter().filter(|peer| options.only.map_or(**peer != Peer::Qwen, |only| only == **peer)) {
        let name = peer.name();
        let program = Program::afresh(&baton, &work.join(name).join("runs"))?;
        let began = Instant::now();
        let Checked { rows, summary } = peer.check(&installer, program, options).context(name)?;
        for Row { case, saw, faults } in &rows {
            println!("{} {name} {case:<20} {saw}", if faults.is_empty() { "ok  " } else { "FAIL" });
            for fault in faults {
                println!("     {fault}");
                failures.push(format!("{name} {case}: {fault}"));
            }
        }
        println!("{summary} in {} s; logs and stores are in {}", began.elapsed().as_secs(), work.join(name).display());
    }
    ensure!(failures.is_empty(), "{} things are not as they must be:\n{}", failures.len(), failures.join("\n"));
    Ok(())
}

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Self::Litellm => litellm::NAME,
            Self::Llamacpp => llamacpp::NAME,
            Self::Qwen => qwen::NAME,
        }
    }

    fn check(self, installer: &Installer<'_>, program: Program, options: &Options) -> anyhow::Result<Checked> {
        match self {
            Self::Litellm => litellm::check(installer, &program),
            Self::Llamacpp => llamacpp::check(installer, &program),
            Self::Qwen => qwen::check(installer, &program.with_patience(options.qwen.patience()), &options.qwen),
        }
    }
}

/// Findings about a server.
struct Checked {
    rows: Vec<Row>,
    summary: String,
}

/// One case: what was seen, and what of it must not be.
struct Row {
    case: String,
    saw: String,
    faults: Vec<String>,
}

impl Row {
    /// Notes a fault unless `found` is what is `expected`.
    fn expect<T: PartialEq + std::fmt::Debug>(&mut self, what: impl Display, found: &T, expected: &T) {
        if found != expected {
            self.faults.push(format!("{what}: expected {expected:?}, found {found:?}"));
        }
    }
}
