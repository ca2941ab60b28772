//! `cargo xtask faults`: the store on disks that lose power, fail and rot, at length.

use std::process::ExitCode;

use baton_faults::trials::{Recording, Report, cut_logs, failing_disks, flipped_bits};
use clap::Parser;

/// Tries the store on faulty disks, and reports losses.
#[derive(Parser)]
#[command(name = "cargo xtask faults", disable_help_subcommand = true)]
struct Options {
    /// Number of losses of power, spread over the workload.
    #[arg(long, default_value_t = 5_000)]
    images: u64,
    /// Which of what a loss of power may leave is tried.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The disk fails at every STEP-th of the workload's operations; 1 is all of them.
    #[arg(long, default_value_t = 1)]
    step: usize,
    /// Number of flipped bits in each page of the store's file.
    #[arg(long, default_value_t = 10)]
    flips: u64,
    /// The log is cut off at every CUT-th of its last 65,536 bytes.
    #[arg(long, default_value_t = 13)]
    cut: usize,
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let tokio = tokio::runtime::Builder::new_current_thread().build()?;
    let recording = Recording::new(&tokio, 200_000)?;
    println!("the workload: {} operations on files", recording.log.len());
    let Options { images, seed, step, flips, cut } = options;
    let mut good = true;
    // Each is reported as soon as it is done: some take minutes.
    let mut print = |what: &str, Report { trials, failures }: Report| {
        println!("{what}: {trials} tried, {} failed", failures.len());
        for failure in &failures {
            println!("  {failure}");
        }
        good &= failures.is_empty();
    };
    print("losses of power", recording.power_losses(&tokio, images, seed)?);
    print("flipped bits, in every page", flipped_bits(&tokio, 3_000, flips, seed)?);
    print("failing operations (i/o errors and full disks, once and lasting)", failing_disks(&tokio, 3_000, step.max(1))?);
    print("logs cut off", cut_logs(&tokio, cut.max(1))?);
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
