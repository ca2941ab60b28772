//! The allocations of a call's steps must not grow unnoticed: the counts of `allocations.json` hold within 3 %.
//!
//! Unlike times these counts do not depend on the load of the machine. `BATON_RECORD_ALLOCATIONS=1` records them anew.

#[path = "../benches/fixtures/mod.rs"]
mod fixtures;
#[path = "../benches/fixtures/steps.rs"]
mod steps;

use std::collections::BTreeMap;
use std::path::Path;

use fixtures::EARLIER_CALLS;
use serde::{Deserialize, Serialize};
use steps::Meter;

/// Allowed difference of a count from the recorded one, in percent. The count of a step that has become cheaper is
/// recorded anew, so that it stays so.
const TOLERANCE: u64 = 3;

/// Allocations of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Count {
    allocations: u64,
    bytes: u64,
}

/// Counts the allocations of each step, after rehearsals: what happens only once in a process is not in the count.
#[derive(Default)]
struct Counts(BTreeMap<String, Count>);

impl Meter for Counts {
    fn measure<I, O>(&mut self, name: &str, mut start: impl FnMut() -> I, mut step: impl FnMut(I) -> O) {
        for _ in 0..3 {
            drop(step(start()));
        }
        let (mut input, mut output) = (Some(start()), None);
        let counted = allocation_counter::measure(|| output = input.take().map(&mut step));
        self.0.insert(name.to_owned(), Count { allocations: counted.count_total, bytes: counted.bytes_total });
    }
}

#[test]
fn no_step_of_a_call_allocates_more_than_recorded() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("allocations.json");
    let mut counts = Counts::default();
    steps::measure_steps(&mut counts);
    let counts = counts.0;
    if std::env::var_os("BATON_RECORD_ALLOCATIONS").is_some() {
        let text = serde_json::to_string_pretty(&counts).unwrap() + "\n";
        return std::fs::write(file, text).unwrap();
    }
    let recorded: BTreeMap<String, Count> = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let is_near = |count: u64, recorded: u64| count.abs_diff(recorded) * 100 <= recorded * TOLERANCE;
    let differ = |step: &String, count: &Count| {
        recorded
            .get(step)
            .is_none_or(|recorded| !is_near(count.allocations, recorded.allocations) || !is_near(count.bytes, recorded.bytes))
    };
    let differing: Vec<_> = counts
        .iter()
        .filter(|(step, count)| differ(step, count))
        .map(|(step, count)| (step, count, recorded.get(step)))
        .collect();
    assert!(differing.is_empty(), "after {EARLIER_CALLS} calls, step, count and record: {differing:#?}");
    assert_eq!(recorded.len(), counts.len(), "a step that is not counted any more is still recorded");
}
