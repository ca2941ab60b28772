//! Simulates many seeds and prints what they came to: `cargo xtask simulate`.
//!
//! Exits with 1 if a seed breaks something; each such seed is printed with what it breaks and the command that repeats it.

use std::process::ExitCode;

use baton_proof::simulation::{Fault, Figures, Plan, Simulated, many};

/// Known arguments: each is a name and a number.
const NAMES: &str = "--seeds, --first, --seed, --jobs, --twice-in, --failures";

/// Reads names and numbers. Needs no crate, so that a build of the kit stays small.
fn plan(arguments: impl Iterator<Item = String>) -> Result<Plan, String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut plan = Plan { first: 0, seeds: 2_000, threads, twice_in: 10, failures: 3 };
    let mut arguments = arguments;
    while let Some(name) = arguments.next() {
        let text = arguments.next().unwrap_or_default();
        let number: u64 = text.parse().map_err(|_| format!("{name} needs a number, not {text:?}"))?;
        match name.as_str() {
            "--seeds" => plan.seeds = number,
            "--first" => plan.first = number,
            "--seed" => (plan.first, plan.seeds) = (number, 1),
            "--jobs" => plan.threads = number as usize,
            "--twice-in" => plan.twice_in = number,
            "--failures" => plan.failures = number as usize,
            _ => return Err(format!("{name} is not one of {NAMES}")),
        }
    }
    Ok(plan)
}

fn main() -> ExitCode {
    let plan = match plan(std::env::args().skip(1)) {
        Ok(plan) => plan,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    // Panics of the machine are findings, and are reported as such.
    std::panic::set_hook(Box::new(|_| {}));
    let figures = many(plan);
    print_figures(&figures, plan.threads);
    for simulated in &figures.broken {
        print_broken(simulated);
    }
    if figures.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print_figures(figures: &Figures, threads: usize) {
    let seconds = figures.took.as_secs_f64();
    let per_second = figures.steps as f64 / seconds;
    println!("seeds       {:>12}  ({} twice, {} also without faults)", figures.seeds, figures.twice, figures.straight);
    println!("steps       {:>12}  ({per_second:.0} a second on {threads} threads, {seconds:.1} s)", figures.steps);
    println!("entries     {:>12}", figures.entries);
    println!("tasks       {:>12}  (at most {} in a run)", figures.tasks, figures.most_tasks);
    println!("to the end  {:>12}  steps after the last fault, at most", figures.most_steps_to_end);
    println!("faults      {:>12}", figures.faults.total());
    for fault in Fault::ALL {
        println!("  {:<18}{:>12}", format!("{fault:?}"), figures.faults.of(fault));
    }
    println!("violations  {:>12}", figures.broken.len());
}

fn print_broken(simulated: &Simulated) {
    println!("\nseed {} breaks, after {} steps and {} entries:", simulated.seed, simulated.steps, simulated.entries);
    for finding in &simulated.findings {
        println!("  {finding}");
    }
    println!("the timeline ends:\n{}", simulated.tail);
    println!("again: cargo xtask simulate --seed {}", simulated.seed);
}
