//! Many seeds, on every processor, and what they come to together.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Faults, Simulated, simulate};

/// Which seeds to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The first.
    pub first: u64,
    /// Number of seeds.
    pub seeds: u64,
    /// Number of threads.
    pub threads: usize,
    /// Once in how many seeds a run is made twice and both timelines are compared; 0 for never.
    pub twice_in: u64,
    /// Stop after this many seeds that break something.
    pub failures: usize,
}

/// Figures of the seeds.
#[derive(Debug, Default)]
pub struct Figures {
    /// Number of simulated seeds.
    pub seeds: u64,
    /// Of those, how many were compared with a run without faults.
    pub straight: u64,
    /// Number of seeds simulated twice.
    pub twice: u64,
    /// Number of steps.
    pub steps: u64,
    /// The most that happened after the last fault, in one run.
    pub most_steps_to_end: u64,
    /// The faults.
    pub faults: Faults,
    /// The entries of all timelines.
    pub entries: u64,
    /// The tasks of all runs.
    pub tasks: u64,
    /// The most tasks of one run.
    pub most_tasks: u64,
    /// Time taken.
    pub took: Duration,
    /// The seeds that break something, lowest first.
    pub broken: Vec<Simulated>,
}

/// Runs the seeds of `plan`.
pub fn many(plan: Plan) -> Figures {
    let began = Instant::now();
    let next = AtomicU64::new(plan.first);
    let figures = Mutex::new(Figures::default());
    let last = plan.first.saturating_add(plan.seeds);
    std::thread::scope(|scope| {
        for _ in 0..plan.threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= last {
                        return;
                    }
                    let simulated = simulate_seed(seed, plan.twice_in);
                    let mut figures = figures.lock().expect("a panic of the machine is caught where it happens");
                    figures.add(simulated, plan.twice_in);
                    if figures.broken.len() >= plan.failures {
                        return;
                    }
                }
            });
        }
    });
    let mut figures = figures.into_inner().expect("a panic of the machine is caught where it happens");
    figures.broken.sort_by_key(|simulated| simulated.seed);
    figures.took = began.elapsed();
    figures
}

fn is_run_twice(seed: u64, twice_in: u64) -> bool {
    twice_in > 0 && seed.is_multiple_of(twice_in)
}

fn simulate_seed(seed: u64, twice_in: u64) -> Simulated {
    let mut simulated = simulate(seed);
    if is_run_twice(seed, twice_in) && simulated.findings.is_empty() && super::run(seed, true).timeline != simulated.timeline {
        simulated.findings.push(crate::Finding {
            invariant: crate::Invariant::StateIsTheFold,
            seq: simulated.entries,
            what: "the same seed makes two timelines".to_owned(),
        });
    }
    simulated
}

impl Figures {
    fn add(&mut self, simulated: Simulated, twice_in: u64) {
        self.seeds += 1;
        self.straight += u64::from(super::is_straight(simulated.seed));
        self.twice += u64::from(is_run_twice(simulated.seed, twice_in));
        self.steps += simulated.steps;
        self.most_steps_to_end = self.most_steps_to_end.max(simulated.steps_to_end);
        self.faults.add(&simulated.faults);
        self.entries += simulated.entries;
        self.tasks += simulated.tasks as u64;
        self.most_tasks = self.most_tasks.max(simulated.tasks as u64);
        if !simulated.findings.is_empty() {
            self.broken.push(simulated);
        }
    }
}
