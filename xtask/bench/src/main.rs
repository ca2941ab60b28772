//! One measurement of one benchmark job on Baton, in a process of its own: `cargo xtask bench` starts it many times.
//!
//! The code of the measurements and the contents of documents are files of the floor (`xtask/floor`), so that both programs
//! do and count the same.

#[path = "../../floor/src/contents.rs"]
mod contents;
mod engine;
mod job;
#[path = "../../floor/src/measurement.rs"]
mod measurement;
mod tools;

use std::process::ExitCode;

use anyhow::ensure;
use clap::{Parser, ValueEnum};

use crate::measurement::Measurement;

/// Measures one benchmark job on Baton and prints `RESULT {json}`.
#[derive(Parser)]
#[command(name = "baton-bench")]
struct Arguments {
    /// The job.
    workload: Workload,
    /// Size: runs, children, levels, turns, tools, tasks or entries.
    #[arg(long, default_value_t = 1)]
    n: usize,
    /// Number of concurrent runs; of runs that wait.
    #[arg(long, default_value_t = 1)]
    conc: usize,
    /// Store of the runs.
    #[arg(long, default_value = "memory")]
    store: Kept,
    /// Measures nothing, but makes the store that `resume` or `suspended` opens.
    #[arg(long, hide = true)]
    make: Option<String>,
    /// Measures nothing, but delivers results to the store that `suspended` has opened.
    #[arg(long, hide = true)]
    deliver: Option<String>,
    /// Address of the database, for `--store postgres`. It is empty before `suspended`.
    #[arg(long, required_if_eq("store", "postgres"))]
    database: Option<String>,
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
    /// N calls of a tool and n delegations, by a model and by the code of one call.
    Children,
    /// N calls that wait for deliveries, in as many runs as are asked for, in one store.
    Suspended,
}

/// Returns the number of tool calls in one run of `workload`; 0 if they are not measured.
fn calls(workload: Workload, n: usize) -> usize {
    match workload {
        Workload::Q3 => 8,
        Workload::Wide => 7 * n,
        Workload::Deep => 2 * n + 1,
        Workload::Long => n,
        Workload::Startup => 1,
        Workload::Blocked | Workload::Resume | Workload::Children | Workload::Suspended => 0,
    }
}

/// Store of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kept {
    /// Nowhere: it ends with the process.
    Memory,
    /// In the `SQLite` store.
    Sqlite,
    /// In the database that `--database` names.
    Postgres,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match (&arguments.make, &arguments.deliver) {
        (Some(path), _) => engine::make(arguments.workload, arguments.n, arguments.conc, path),
        (None, Some(path)) => engine::deliver(path),
        (None, None) => measure(&arguments).map(|measurement| println!("RESULT {}", measurement.json())),
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
    let Arguments { workload, n, conc, store, ref database, .. } = *arguments;
    ensure!(n > 0 && conc > 0, "a measurement needs at least one of everything");
    let mut measurement = engine::measure(workload, n, conc, store, database.as_deref())?;
    measurement.name("subject", "engine");
    measurement.name("workload", format!("{workload:?}").to_lowercase());
    measurement.name("store", format!("{store:?}").to_lowercase());
    measurement.set("n", n as f64);
    measurement.set("conc", conc as f64);
    Ok(measurement)
}
