//! The proof kit: jobs built in code, scripts, a shell without delays, and the books that check every run.
//!
//! The machine's own tests are written with it. Programs that embed the engine and authors of tools can use it to run a
//! job by script and have every invariant checked after every commit.
//!
//! This crate uses no store, no provider and no threads. From the machine it uses only the public interface.

pub mod cancel;
mod caps;
pub mod checker;
mod compare;
mod counters;
mod decision;
mod facts;
pub mod finding;
pub mod jobs;
pub mod ledger;
mod policies;
pub mod print;
pub mod random;
mod recount;
pub mod requests;
pub mod script;
pub mod shapes;
pub mod sim;
pub mod simulation;

use expect_test::Expect;

pub use checker::{Checker, Report, verify};
pub use finding::{Finding, Invariant};
pub use jobs::{agent, function, job, note, started, tool};
pub use script::{
    ask, call, call_with, error, handoff, handoff_with, malformed, route, route_with, says, stopped, then, to_user, turn, write,
    writes,
};
pub use sim::Sim;

/// Asserts that the run has ended and that its timeline reads as `expected`.
///
/// `UPDATE_EXPECT=1 cargo test` writes the actual timeline into the test in place of the expected one.
#[track_caller]
pub fn check(sim: &Sim, expected: Expect) {
    check_so_far(sim, expected);
    sim.assert_over();
}

/// As [`check`], for a run that waits for somebody.
#[track_caller]
pub fn check_so_far(sim: &Sim, expected: Expect) {
    expected.assert_eq(&print::timeline(&sim.timeline));
    assert!(sim.pending.is_empty(), "nothing more happens, yet {:?} runs", sim.pending);
}
