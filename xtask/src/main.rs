//! The project's chores, started with `cargo xtask`. Each has a file here, and leaves the working tree as it found it
//! unless writing is what it is for.

mod architecture;
mod bench;
mod browser;
mod check;
mod cluster;
mod crash;
mod dependencies;
mod dist;
mod gen_docs;
mod layers;
mod nats;
mod peers;
mod planted;
mod postgres;
mod project;
mod prose;
mod rules_page;
mod test;
mod tools_page;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

/// The chores of this project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
enum Chore {
    /// Writes generated-docs/: TOOLS.md and the JSON Schemas of every file that a person writes.
    GenDocs {
        /// Writes nothing; fails if anything would change.
        #[arg(long)]
        check: bool,
    },
    /// Runs all tests; the last line is their sum.
    Test {
        /// Handed to `cargo test`, such as `-p baton-machine` or the name of a test.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measures the benchmark jobs, the engine beside a hand-written floor, and compares with the targets in BENCHMARKS.md.
    Bench(bench::Options),
    /// Builds the program to distribute, without paths of this machine. Fails if it contains one.
    Dist,
    /// Attacks the built program: hostile folders, documents, addresses and texts. Fails if anything escapes.
    Attack {
        /// Names of areas; all without one.
        areas: Vec<String>,
    },
    /// Tries the store on a disk that loses power, fails and fills up: the trials of every day, more of them.
    Faults {
        /// Numbers of trials, such as `--images 20000`; see `--help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Kills the program at every durable step, resumes the run, and compares the ends; `-- --help` lists the options.
    Crash {
        /// Builds the programs for speed.
        #[arg(long)]
        release: bool,
        /// Handed to the crash kit: jobs, `--shapes`, `--nested`, `--random`, `--zombies`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Cuts off, stops and restarts workers, NATS servers and the database in network namespaces; needs root. `-- --help` lists the options.
    Cluster {
        /// Builds the programs for speed.
        #[arg(long)]
        release: bool,
        /// Handed to the cluster kit: names of faults, `--rounds`, `--cut`, `--check`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Simulates runs of random jobs with everything that can go wrong round them; a seed that breaks something is printed.
    Simulate {
        /// Names and numbers: `--seeds 100000`, `--seed 7`, `--first 0`, `--jobs 2`, `--twice-in 10`, `--failures 3`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Compares the judgement of values with the JSON Schema Test Suite: agree, disagree and refused for each draft.
    SchemaSuite {
        /// A copy of <https://github.com/json-schema-org/JSON-Schema-Test-Suite>.
        folder: PathBuf,
    },
    /// Sends inputs of foreign tools to the form of strict schemas and back; each must come back as it was.
    ToolTrips {
        /// A folder with `tool-definitions/*.json`: lists of objects with `name` and `inputSchema`.
        folder: PathBuf,
    },
    /// Cancels runs at their steps and measures how long they take to be quiet.
    Cancel {
        /// Builds the program for speed.
        #[arg(long)]
        release: bool,
        /// Numbers of trials, such as `--steps 500`; see `-- --help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Runs jobs against servers of other projects, a LiteLLM proxy and llama.cpp, which it installs and starts.
    Peers(peers::Options),
    /// Reads recorded exchanges with providers, and sends each answer back to its vendor item by item.
    Recordings {
        /// Folder with a folder of recordings for each provider: YAML files of `when` (the request) and `then` (the answer).
        #[arg(long)]
        folder: PathBuf,
    },
    /// Plants bugs in a copy of the source, one at a time; the tests must catch each.
    Planted(planted::Options),
    /// Changes the core in every way that `cargo mutants` knows, and reports the changes that its tests miss.
    Mutants {
        /// Which of them, such as `--file machine/`; see `--help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Checks that comments, pages, descriptions and help texts are plain English.
    Prose(prose::Options),
    /// Checks form, lints, generated files, and what deny.toml asks of dependencies; advisories if cargo-deny is there.
    Check,
}

fn main() -> ExitCode {
    let done = match Chore::parse() {
        Chore::GenDocs { check: false } => gen_docs::write(),
        Chore::GenDocs { check: true } => gen_docs::check(),
        Chore::Test { arguments } => return test::run(&arguments),
        Chore::Bench(options) => bench::run(&options),
        Chore::Dist => dist::run(),
        Chore::Attack { areas } => {
            // The suite starts the program that this builds.
            let run = ["run", "--quiet", "--package", "baton-attack", "--"];
            let arguments = run.into_iter().chain(areas.iter().map(String::as_str)).collect::<Vec<_>>();
            project::run_cargo(&["build", "--quiet", "--bin", "baton"]).and_then(|()| project::run_cargo(&arguments))
        }
        Chore::Faults { arguments } => {
            let run = ["run", "--quiet", "--package", "baton-faults", "--"];
            project::run_cargo(&run.into_iter().chain(arguments.iter().map(String::as_str)).collect::<Vec<_>>())
        }
        Chore::Crash { release, arguments } => {
            return crash::run(release, &arguments).unwrap_or_else(|error| failed(&error));
        }
        Chore::Cluster { release, arguments } => {
            return cluster::run(release, &arguments).unwrap_or_else(|error| failed(&error));
        }
        Chore::Simulate { arguments } => {
            let run = ["run", "--quiet", "--release", "--package", "baton-proof", "--example", "simulate", "--"];
            project::run_cargo(&run.into_iter().chain(arguments.iter().map(String::as_str)).collect::<Vec<_>>())
        }
        Chore::SchemaSuite { folder } => {
            let run = ["run", "--quiet", "--package", "baton-schema", "--example", "schema_suite", "--"];
            let folder = folder.display().to_string();
            project::run_cargo(&run.into_iter().chain([folder.as_str()]).collect::<Vec<_>>())
        }
        Chore::ToolTrips { folder } => tool_trips(&folder),
        Chore::Cancel { release, arguments } => {
            let profile = if release { "release" } else { "dev" };
            let run = ["run", "--quiet", "--profile", profile, "--package", "baton-bench", "--bin", "cancel", "--"];
            project::run_cargo(&run.into_iter().chain(arguments.iter().map(String::as_str)).collect::<Vec<_>>())
        }
        Chore::Peers(options) => peers::run(&options),
        Chore::Recordings { folder } => recordings(&folder),
        Chore::Planted(options) => planted::run(&options),
        Chore::Mutants { arguments } => {
            let run = ["run", "--quiet", "--package", "baton-mutants", "--"];
            project::run_cargo(&run.into_iter().chain(arguments.iter().map(String::as_str)).collect::<Vec<_>>())
        }
        Chore::Prose(options) => prose::run(&options),
        Chore::Check => check::run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

/// Runs the tests of recordings over those in `folder`.
fn recordings(folder: &Path) -> anyhow::Result<()> {
    let folder = folder.canonicalize().with_context(|| format!("{} cannot be read", folder.display()))?;
    let mut tests =
        project::cargo(&["test", "--quiet", "--package", "baton-models", "--test", "recordings", "--", "--nocapture"]);
    let status = tests.env("BATON_FIXTURES", folder).status().context("cargo test cannot be started")?;
    anyhow::ensure!(status.success(), "an answer is not read, or does not go back, as it came");
    Ok(())
}

/// Runs the round trips of tools with those of `folder`.
fn tool_trips(folder: &Path) -> anyhow::Result<()> {
    let folder = folder.canonicalize().with_context(|| format!("{} cannot be read", folder.display()))?;
    let arguments = ["test", "--quiet", "--package", "baton-schema", "--test", "providers", "offered", "--", "--nocapture"];
    let status = project::cargo(&arguments).env("BATON_FIXTURES", folder).status().context("cargo cannot be started")?;
    anyhow::ensure!(status.success(), "an input did not come back as it was");
    Ok(())
}

/// Prints the error of a chore.
fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}
