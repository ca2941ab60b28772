//! The proof kit: jobs built in code, scripts, a shell without delays, and the books that check every run.
//!
//! The machine's own tests are written with it. Programs that embed the engine and authors of tools can use it to run a
//! job by script and have every invariant checked after every commit.
//!
//! What it is not: it names no store, no provider and no thread, and it takes nothing from the machine but its doors.

pub mod cancel;
mod caps;
pub mod checker;
mod compare;
mod counters;
pub mod finding;
pub mod jobs;
pub mod ledger;
mod policies;
pub mod print;
pub mod random;
pub mod requests;
pub mod script;
pub mod shapes;
pub mod sim;
pub mod simulation;
mod told;

pub use checker::{Checker, Report, verify};
pub use finding::{Finding, Invariant};
pub use jobs::{agent, function, job, note, tool};
pub use script::{
    ask, call, call_with, error, handoff, handoff_with, malformed, route, route_with, says, stopped, then, to_user, turn, write,
    writes,
};
pub use sim::Sim;

/// Asserts that the run has ended and that its timeline reads as `expected`, indentation of the whole aside.
#[track_caller]
pub fn check(sim: &Sim, expected: &str) {
    check_so_far(sim, expected);
    sim.assert_over();
}

/// As [`check`], for a run that waits for somebody.
#[track_caller]
pub fn check_so_far(sim: &Sim, expected: &str) {
    let actual = print::timeline(&sim.timeline);
    let expected = dedent(expected);
    if actual.trim_end() != expected.trim_end() {
        let differs = actual.lines().zip(expected.lines()).position(|(actual, expected)| actual != expected);
        let line = differs.map_or_else(|| "the length".to_owned(), |line| format!("line {}", line + 1));
        panic!("the timeline differs from {line} on; it is\n{actual}\nand was expected to be\n{expected}");
    }
    assert!(sim.pending.is_empty(), "nothing more happens, yet {:?} runs", sim.pending);
}

/// `text` without the indentation that its lines share, and without a blank first line.
fn dedent(text: &str) -> String {
    let lines: Vec<&str> = text.lines().skip_while(|line| line.trim().is_empty()).collect();
    let indents = lines.iter().filter(|line| !line.trim().is_empty()).map(|line| line.len() - line.trim_start().len());
    let shared = indents.min().unwrap_or(0);
    lines.iter().map(|line| line.get(shared..).unwrap_or("")).collect::<Vec<_>>().join("\n")
}
