//! What the steps of a call allocate must not grow unseen: the counts of `allocations.json` hold within 3 %.
//!
//! Unlike times these counts do not depend on the load of the machine. `BATON_RECORD_ALLOCATIONS=1` records them anew.

#[path = "../benches/fixtures/mod.rs"]
mod fixtures;

use std::collections::BTreeMap;
use std::path::Path;

use baton_store::MemoryStore;
use fixtures::{Batches, EARLIER_CALLS, History, MANY_TOOLS};
use futures_util::FutureExt;
use serde::{Deserialize, Serialize};

/// How far a count may be from the recorded one, in percent. A step that has become cheaper is recorded anew, so that it stays so.
const TOLERANCE: u64 = 3;

/// What one step allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Count {
    allocations: u64,
    bytes: u64,
}

/// Counts what `step` allocates, after rehearsals: what happens only once in a process is not in the count.
fn count<I, O>(start: impl Fn() -> I, step: impl Fn(I) -> O) -> Count {
    for _ in 0..3 {
        drop(step(start()));
    }
    let (mut input, mut output) = (Some(start()), None);
    let counted = allocation_counter::measure(|| output = input.take().map(&step));
    Count { allocations: counted.count_total, bytes: counted.bytes_total }
}

fn counts() -> BTreeMap<String, Count> {
    let history = History::new();
    let (asked, input) = (history.next_request(), history.next_input());
    let store = || {
        let store = MemoryStore::new();
        let mut batches = Batches::new(&store).now_or_never().expect("memory never waits");
        let batch = batches.next_batch();
        (store, batch)
    };
    let append = |(store, batch)| {
        fixtures::append(&store, batch).now_or_never().expect("memory never waits");
        store
    };
    let counts = [
        ("handle one call".to_owned(), count(|| history.next_call(), fixtures::one_call)),
        ("check an input".to_owned(), count(|| (), |()| fixtures::validate(&input))),
        ("render the next request".to_owned(), count(|| history.next_result(), fixtures::render)),
        ("fill the templates of a turn".to_owned(), count(|| (), |()| fixtures::answer(&asked))),
        ("append a batch to memory".to_owned(), count(store, append)),
        (format!("load {} tools", MANY_TOOLS / 10), count(|| fixtures::unread_job(MANY_TOOLS / 10), fixtures::load)),
    ];
    counts.into()
}

#[test]
fn no_step_of_a_call_allocates_more_than_recorded() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("allocations.json");
    let counts = counts();
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
