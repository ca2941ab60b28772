//! One measurement of one benchmark job, in a process of its own: `cargo xtask bench` starts it many times.

mod engine;
mod floor;
mod job;
mod measurement;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::ensure;
use clap::{Parser, ValueEnum};

use crate::measurement::Measurement;

/// Measures one benchmark job and prints `RESULT {json}`.
#[derive(Parser)]
#[command(name = "baton-bench")]
struct Arguments {
    /// Who runs the job.
    subject: Subject,
    /// The job.
    workload: Workload,
    /// How large it is: runs, children, levels, turns, tools, tasks or entries.
    #[arg(long, default_value_t = 1)]
    n: usize,
    /// How many runs proceed at the same time.
    #[arg(long, default_value_t = 1)]
    conc: usize,
    /// Where it is kept.
    #[arg(long, default_value = "memory")]
    store: Kept,
    /// Measures nothing, but makes the store that `resume` opens.
    #[arg(long, hide = true)]
    make: Option<PathBuf>,
}

/// Who runs a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// Baton.
    Engine,
    /// The same job, written by hand without an engine.
    Floor,
}

/// The benchmark jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// N runs of the sales job: three agents, eight calls.
    Q3,
    /// One run whose root has n children.
    Wide,
    /// One run of n nested delegations.
    Deep,
    /// One agent with n turns.
    Long,
    /// From the start of the process to its first tool call, with n tools.
    Startup,
    /// N tasks blocked on questions to a person.
    Blocked,
    /// A stored run of n entries, continued.
    Resume,
}

/// Tool calls of one run of `workload`; 0 where they are not what is measured.
fn calls(workload: Workload, n: usize) -> usize {
    match workload {
        Workload::Q3 => 8,
        Workload::Wide => 7 * n,
        Workload::Deep => 2 * n + 1,
        Workload::Long => n,
        Workload::Startup => 1,
        Workload::Blocked | Workload::Resume => 0,
    }
}

/// Where a job is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kept {
    /// Nowhere: it ends with the process.
    Memory,
    /// For the engine its `SQLite` store; for the floor one `SQLite` commit per entry.
    Sqlite,
    /// For the floor only: a log, one `fdatasync` per group of entries.
    Log,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.make {
        Some(path) => engine::make(arguments.n, path),
        None => measure(&arguments).map(|measurement| println!("RESULT {}", measurement.json())),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &Arguments) -> anyhow::Result<Measurement> {
    let Arguments { subject, workload, n, conc, store, .. } = *arguments;
    ensure!(n > 0 && conc > 0, "a measurement needs at least one of everything");
    let mut measurement = match subject {
        Subject::Engine => engine::measure(workload, n, conc, store),
        Subject::Floor => floor::measure(workload, n, conc, store),
    }?;
    measurement.name("subject", format!("{subject:?}").to_lowercase());
    measurement.name("workload", format!("{workload:?}").to_lowercase());
    measurement.name("store", format!("{store:?}").to_lowercase());
    measurement.set("n", n as f64);
    measurement.set("conc", conc as f64);
    Ok(measurement)
}
