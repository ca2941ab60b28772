//! `cargo xtask attack`: runs every area at full size and prints how many attacks were tried and how many escaped.

use std::process::ExitCode;

use baton_attack::{AREAS, Size};
use clap::Parser;

/// Attacks the built program.
#[derive(Parser)]
struct Options {
    /// Runs only the areas of these names.
    areas: Vec<String>,
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    if let Some(unknown) = options.areas.iter().find(|wanted| AREAS.iter().all(|area| area.name != **wanted)) {
        let known: Vec<&str> = AREAS.iter().map(|area| area.name).collect();
        anyhow::bail!("there is no area {unknown}; known: {}", known.join(", "));
    }
    let (mut tried, mut escaped) = (0, 0);
    for area in AREAS.iter().filter(|area| options.areas.is_empty() || options.areas.iter().any(|name| name == area.name)) {
        let tally = (area.attack)(Size::Full)?;
        println!("{:<12} tried {:>6}   escaped {}", area.name, tally.tried, tally.escaped.len());
        tally.escaped.iter().for_each(|escape| println!("  {escape}"));
        tried += tally.tried;
        escaped += tally.escaped.len();
    }
    println!("{:<12} tried {tried:>6}   escaped {escaped}", "all");
    Ok(if escaped == 0 && tried > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
