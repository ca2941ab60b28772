//! Simulated runs keep every invariant and end, whatever goes wrong round them, at the size of a test.

use baton_proof::simulation::{Fault, Figures, Plan, many, run};

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn simulated(first: u64, seeds: u64) -> Figures {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    many(Plan { first, seeds, threads, twice_in: 10, failures: 1 })
}

#[test]
fn whatever_goes_wrong_every_invariant_holds_and_every_run_ends() {
    let seeds = number("BATON_SEEDS", 2_000);
    let figures = simulated(number("BATON_FIRST_SEED", 0), seeds);
    if let Some(broken) = figures.broken.first() {
        let findings: Vec<String> = broken.findings.iter().map(ToString::to_string).collect();
        let (seed, tail) = (broken.seed, &broken.tail);
        panic!("seed {seed} breaks {findings:#?}\n{tail}\nagain: cargo xtask simulate --seed {seed}");
    }
    assert_eq!(figures.seeds, seeds);
    assert!(figures.tasks > seeds * 2 && figures.most_tasks >= 10, "the runs went somewhere: {figures:?}");
    let unheard: Vec<Fault> = Fault::ALL.into_iter().filter(|fault| figures.faults.of(*fault) == 0).collect();
    assert_eq!(unheard, [], "every kind of fault was injected");
    println!("{figures:#?}");
}

#[test]
fn one_seed_is_one_run() {
    let (one, again, other) = (run(5, true), run(5, true), run(6, true));
    assert_eq!((one.timeline, one.steps), (again.timeline, again.steps));
    assert_ne!(one.timeline, other.timeline);
}
