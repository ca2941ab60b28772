//! The steps of a call by the clock: `cargo bench -p baton-bench --bench wall_clock [-- <filter>]`.
//!
//! Instruction counts of the same steps, which do not vary with the machine's load, are in `instructions.rs`.

mod fixtures;

use baton_store::{MemoryStore, SqliteStore};
use divan::Bencher;
use fixtures::{Batches, History, MANY_TOOLS, Runs};
use futures_util::FutureExt;

fn main() {
    divan::main();
}

#[divan::bench]
fn decide_and_apply_one_call(bencher: Bencher<'_, '_>) {
    let history = History::new();
    bencher.with_inputs(|| history.next_call()).bench_local_values(fixtures::one_call);
}

#[divan::bench]
fn validate_an_input(bencher: Bencher<'_, '_>) {
    let input = History::new().next_input();
    bencher.bench_local(|| fixtures::validate(divan::black_box(&input)));
}

#[divan::bench]
fn render_the_next_request(bencher: Bencher<'_, '_>) {
    let history = History::new();
    bencher.with_inputs(|| history.next_result()).bench_local_values(fixtures::render);
}

#[divan::bench]
fn fill_a_scripts_templates(bencher: Bencher<'_, '_>) {
    let asked = History::new().next_request();
    bencher.bench_local(|| fixtures::answer(divan::black_box(&asked)));
}

#[divan::bench]
fn append_a_batch_to_memory(bencher: Bencher<'_, '_>) {
    let store = MemoryStore::new();
    let mut batches = Batches::new(&store).now_or_never().expect("memory never waits");
    bencher
        .with_inputs(|| batches.next_batch())
        .bench_local_values(|batch| fixtures::append(&store, batch).now_or_never().expect("memory never waits"));
}

/// Measures one batch per commit, each of them awaited: the time of the disk is included.
#[divan::bench]
fn append_a_batch_to_sqlite(bencher: Bencher<'_, '_>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = SqliteStore::open(folder.path().join("bench.db")).expect("a new store");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let mut batches = runtime.block_on(Batches::new(&store));
    bencher.with_inputs(|| batches.next_batch()).bench_local_values(|batch| runtime.block_on(fixtures::append(&store, batch)));
}

#[divan::bench]
fn start_and_end_a_run(bencher: Bencher<'_, '_>) {
    let runs = Runs::with_calls(0);
    bencher.bench_local(|| runs.complete());
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn load_a_thousand_tools(bencher: Bencher<'_, '_>) {
    let job = fixtures::unread_job(MANY_TOOLS);
    bencher.with_inputs(|| job.clone()).bench_local_values(fixtures::load);
}
