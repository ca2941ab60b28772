//! `baton-cluster`: the trials, and the checker alone.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use baton_cluster::{Fault, Fleet, Lengths, Trial, checker, table};
use clap::{Parser, ValueEnum};

/// Cuts off, stops and restarts parts of a cluster while runs are queued. Fails if a run is lost or an effect is doubled.
#[derive(Parser)]
#[command(name = "cargo xtask cluster --")]
struct Options {
    /// The faults, in this order; all without one.
    #[arg(value_enum, value_name = "FAULT")]
    faults: Vec<Fault>,
    /// Number of times that each fault happens.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Seconds for which a node is cut off.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=600))]
    cut: u64,
    /// The program, in place of the one beside this one.
    #[arg(long, value_name = "PROGRAM")]
    program: Option<PathBuf>,
    /// Folder for histories, ledger and logs; it is emptied first.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Starts nothing, and judges the folder of an earlier trial.
    #[arg(long, value_name = "FOLDER", exclusive = true)]
    check: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> anyhow::Result<()> {
    if let Some(folder) = &options.check {
        let findings = checker::check(folder)?;
        println!("{} runs, {} calls, {} effects", findings.runs, findings.calls, findings.effects);
        ensure!(findings.is_clean(), "{}", findings.faults().join("\n"));
        return Ok(());
    }
    let own = std::env::current_exe().context("this program's own path is unknown")?;
    let beside = own.parent().context("this program is in no folder")?;
    let program = options.program.clone().unwrap_or_else(|| beside.join("baton"));
    let folder = match &options.folder {
        Some(folder) => folder.clone(),
        None => beside.parent().context("this program is in no target folder")?.join("cluster"),
    };
    if folder.exists() {
        let is_own = folder.join("ledger.ndjson").exists() || folder.read_dir()?.next().is_none();
        ensure!(is_own, "{} has other files; name another folder", folder.display());
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let faults = if options.faults.is_empty() { Fault::value_variants() } else { &options.faults };
    let lengths = Lengths { cut: Duration::from_secs(options.cut), ..Lengths::default() };
    let mut fleet = Fleet::start(&program, &folder)?;
    let (mut rows, mut failed) = (Vec::new(), 0);
    for (number, fault) in (0..options.rounds).flat_map(|_| faults).enumerate() {
        let row = match (Trial { number: number + 1, fault: *fault, lengths }).run(&mut fleet) {
            Ok(row) => row,
            Err(error) => {
                println!("{}: the trial failed: {error:#}", fault.name());
                failed += 1;
                continue;
            }
        };
        print!("{}", table(std::slice::from_ref(&row)));
        for fault in row.findings.faults() {
            println!("     {fault}");
        }
        rows.push(row);
    }
    drop(fleet);
    println!("\n{}", table(&rows));
    println!("histories, ledger and logs are in {}", folder.display());
    let unclean = rows.iter().filter(|row| !row.findings.is_clean()).count();
    ensure!(unclean + failed == 0, "{failed} trials failed; {unclean} others lost a run, doubled an effect or broke a history");
    Ok(())
}
