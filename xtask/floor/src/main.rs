//! The benchmark jobs written by hand, in plain Rust with no engine: what they cost at the least.
//!
//! The same agents do the same things as in `baton-bench`. What models say, what tools get and return and what is noted is
//! arbitrary JSON here too: it goes through text both ways. Each agent is a tokio task, each tool call leaves an entry in a
//! timeline, and documents have what lists of documents show. Nothing is looked up in a config, checked, limited or recovered,
//! and no conversation is rendered.
//!
//! It is the baseline of the benchmarks. So it is written as a program for these jobs alone would be: neither tuned nor
//! slowed down. It is also a program without anything of Baton. If it were built together with the engine, it would use the
//! engine's features of `serde_json`, and be slower.

mod agent;
mod contents;
mod disk;
mod measurement;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::ensure;
use clap::{Parser, ValueEnum};
use futures_util::{StreamExt, TryStreamExt};
use serde_json::json;

use crate::agent::Job;
use crate::disk::Disk;
use crate::measurement::{Measurement, Stopwatch, tenths};

/// Measures one benchmark job without an engine and prints `RESULT {json}`.
#[derive(Parser)]
#[command(name = "baton-floor")]
struct Arguments {
    /// The job.
    workload: Workload,
    /// Size: runs, children, levels or turns.
    #[arg(long, default_value_t = 1)]
    n: usize,
    /// Number of concurrent runs.
    #[arg(long, default_value_t = 1)]
    conc: usize,
    /// Store of the runs.
    #[arg(long, default_value = "memory")]
    store: Kept,
}

/// The benchmark jobs that can be done without an engine.
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
    /// From the start of the process to its first tool call.
    Startup,
}

/// Store of a job's entries besides memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kept {
    /// Nowhere.
    Memory,
    /// In a log, one `fdatasync` per group of entries.
    Log,
    /// In `SQLite`, one commit per entry.
    Sqlite,
}

/// Returns the number of tool calls in one run of `workload`.
fn calls(workload: Workload, n: usize) -> usize {
    match workload {
        Workload::Q3 => 8,
        Workload::Wide => 7 * n,
        Workload::Deep => 2 * n + 1,
        Workload::Long => n,
        Workload::Startup => 1,
    }
}

fn main() -> ExitCode {
    match measure(&Arguments::parse()) {
        Ok(measurement) => {
            println!("RESULT {}", measurement.json());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &Arguments) -> anyhow::Result<Measurement> {
    let Arguments { workload, n, conc, store } = *arguments;
    ensure!(n > 0 && conc > 0, "a measurement needs at least one of everything");
    let plain = json!({"b": 0, "a": 0}).as_object().is_some_and(|map| map.keys().is_sorted());
    ensure!(plain, "this floor was built together with the engine: build it with `cargo build --release -p baton-floor`");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let jobs = jobs(workload, n, conc, store);
    // A task of the runtime starts the jobs, as in `baton-bench`.
    let mut measurement =
        runtime.block_on(async { if workload == Workload::Startup { jobs.await } else { tokio::spawn(jobs).await? } })?;
    measurement.name("subject", "floor");
    measurement.name("workload", format!("{workload:?}").to_lowercase());
    measurement.name("store", format!("{store:?}").to_lowercase());
    measurement.set("n", n as f64);
    measurement.set("conc", conc as f64);
    Ok(measurement)
}

async fn jobs(workload: Workload, n: usize, conc: usize, kept: Kept) -> anyhow::Result<Measurement> {
    let disk = Disk::open(kept)?.map(Arc::new);
    let jobs = if workload == Workload::Q3 { n } else { 1 };
    let watch = Stopwatch::start();
    let last = futures_util::stream::iter(0..jobs)
        .map(|_| finish(workload, n, disk.clone()))
        .buffer_unordered(conc)
        .try_fold(None, async |_, job| Ok(Some(job)))
        .await?;
    let mut measurement = watch.stop(jobs * calls(workload, n), jobs);
    if let Some(job) = last {
        tenths(&mut measurement, &job.marks(), n / 10);
    }
    if workload == Workload::Startup {
        measurement.startup()?;
    }
    Ok(measurement)
}

/// Executes one job, from its request to the end of its root.
async fn finish(workload: Workload, n: usize, disk: Option<Arc<Disk>>) -> anyhow::Result<Arc<Job>> {
    let job = Arc::new(Job::new(workload, n, disk));
    tokio::spawn(agent::work(Arc::clone(&job), job.root(), "Do the job.".to_owned())).await??;
    ensure!(job.calls() == calls(workload, n), "{} calls instead of {}", job.calls(), calls(workload, n));
    Ok(job)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_makes_its_calls_wherever_it_is_kept() {
        for kept in [Kept::Memory, Kept::Log, Kept::Sqlite] {
            for (workload, n, expected) in [
                (Workload::Q3, 3, 24),
                (Workload::Wide, 3, 21),
                (Workload::Deep, 3, 7),
                (Workload::Long, 20, 20),
                (Workload::Startup, 1, 1),
            ] {
                let runtime = tokio::runtime::Runtime::new().unwrap();
                let measured = runtime.block_on(jobs(workload, n, 2, kept)).unwrap().json();
                assert_eq!(measured["tools"], expected, "{workload:?} {kept:?}");
                assert_eq!(measured["first_tenth_us"].is_number(), workload == Workload::Long, "{workload:?}");
                // What wakes threads is written too, but is shorter than entries.
                let entries = measured["bytes_written"].as_u64() >= Some(100 * expected);
                assert_eq!(entries, kept != Kept::Memory, "{workload:?} {kept:?}");
            }
        }
    }
}
