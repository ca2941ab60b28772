//! Deterministic simulation: one seed makes one run, with everything that can go wrong round it.
//!
//! The simulated world below the machine has a store whose commits may fail, or succeed without an acknowledgement.
//! Its processes die at any step, or sleep past their lease and wake up. Its clock jumps. Its people cancel, answer,
//! pause and steer at any moment. Answers of its models and tools come late, twice or in another order. Faults stop
//! after a while, and then the run must end.
//!
//! Several workers race for the run. Each has a lease on the clock of the store, and may be late to renew it. A bus carries wake-ups to
//! them, commands to a tool service, and its callbacks. It loses, repeats, delays and reorders messages, and sometimes loses all of
//! them. Workers and the service acknowledge a message after its effect is durable. Workers also look at the store from time to time.
//!
//! After every durable batch a [`Checker`](crate::Checker) looks at the timeline and the state is compared with its fold.
//! Nothing here has a thread, a clock or chance of its own: the same seed gives the same timeline, byte for byte.

mod act;
mod bus;
mod effects;
mod faults;
mod inject;
mod many;
mod messages;
mod owner;
mod race;
mod service;
mod store;
mod worker;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use baton_types::call::CallResult;
use baton_types::config::Configs;
use baton_types::entry::{Entry, Recorded};
use baton_types::id::ContentHash;

pub use faults::{Fault, Faults};
pub use many::{Figures, Plan, many};

use crate::finding::{Finding, Invariant};
use crate::random::Random;
use crate::shapes;
use world::World;

/// Figures of one seed.
#[derive(Debug)]
pub struct Simulated {
    /// The seed.
    pub seed: u64,
    /// Broken invariants; empty if all held.
    pub findings: Vec<Finding>,
    /// Number of steps.
    pub steps: u64,
    /// Number of steps after the faults had stopped.
    pub steps_to_end: u64,
    /// The faults that were injected.
    pub faults: Faults,
    /// Number of entries in the timeline.
    pub entries: u64,
    /// Number of tasks.
    pub tasks: usize,
    /// The hash of the timeline as it is stored.
    pub timeline: ContentHash,
    /// Result of the root, and the documents.
    pub outcome: Outcome,
    /// End of the timeline, for the analysis of a finding.
    pub tail: String,
}

/// Outcome of a run.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    result: Option<Arc<CallResult>>,
    documents: Vec<(String, u32, ContentHash)>,
}

/// Whether the job of `seed` is one in which neither schedule nor crash may change what comes out.
pub const fn is_straight(seed: u64) -> bool {
    seed % 4 == 3
}

/// Runs the job of `seed` with its faults. A straight job is run without faults too, and both must come to the same.
pub fn simulate(seed: u64) -> Simulated {
    let mut simulated = run(seed, true);
    if is_straight(seed) && simulated.findings.is_empty() {
        let calm = run(seed, false);
        simulated.findings.extend(calm.findings);
        if simulated.findings.is_empty() && simulated.outcome != calm.outcome {
            let what = format!("with faults the run comes to {:?}, without to {:?}", simulated.outcome, calm.outcome);
            simulated.findings.push(Finding { invariant: Invariant::AcknowledgedIsDurable, seq: simulated.entries, what });
        }
    }
    simulated
}

/// Returns the timeline that the job of `seed` makes with its faults, and the configs that it is pinned to.
pub fn timeline(seed: u64) -> (Arc<Configs>, Vec<Recorded>) {
    let world = walk(seed, true);
    (Arc::clone(&world.configs), world.store.entries().to_vec())
}

/// Runs the job of `seed`; a panic of the machine is a finding.
pub fn run(seed: u64, faults: bool) -> Simulated {
    let world = walk(seed, faults);
    let entries = world.store.entries();
    let result = entries.iter().rev().find_map(|recorded| match &recorded.entry {
        Entry::TaskEnded(ended) if ended.task.is_root() => Some(Arc::clone(&ended.result)),
        _ => None,
    });
    let stored = serde_json::to_vec(entries).expect("entries always serialise");
    let tail = entries.len().saturating_sub(60);
    Simulated {
        seed,
        steps: world.steps,
        steps_to_end: world.steps_to_end,
        entries: entries.len() as u64,
        tasks: world.checker.ledger().tasks.len(),
        timeline: ContentHash::of(&stored),
        outcome: Outcome { result, documents: world.documents() },
        tail: crate::print::timeline(&entries[tail..]),
        findings: world.findings(),
        faults: world.faults,
    }
}

fn walk(seed: u64, faults: bool) -> World {
    let mut random = Random::seeded(seed);
    let straight = is_straight(seed);
    let draft = if straight { shapes::straight_job(&mut random) } else { shapes::job_of_any_shape(&mut random) };
    let mut world = World::new(seed, draft.build(), random, straight, faults);
    let walked = catch_unwind(AssertUnwindSafe(|| world.run()));
    if let Err(panic) = walked {
        let what = panic.downcast_ref::<String>().cloned();
        let what = what.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        world.broken(Invariant::StateIsTheFold, format!("a panic: {}", what.unwrap_or_default()));
    }
    world
}
