//! The steps of a call in instructions, the same on every run: `cargo bench -p baton-bench --bench instructions`.
//!
//! Needs valgrind, and gungraun-runner in the version of the gungraun that Cargo.lock names, in the path or at
//! `GUNGRAUN_RUNNER`; without them it says so and counts nothing. Appending to `SQLite` is not here: the store writes
//! on a thread of its own, and counts follow the thread that was measured.

mod fixtures;

use std::process::{Command, Stdio};

/// Valgrind starts this program once per step, with this as the first argument.
const MEASURED: &str = "--gungraun-run";

fn main() {
    let is_measured = std::env::args().nth(1).is_some_and(|argument| argument == MEASURED);
    let needed = ["valgrind", option_env!("GUNGRAUN_RUNNER").unwrap_or("gungraun-runner")];
    match needed.iter().find(|program| !is_measured && !is_installed(program)) {
        Some(program) => eprintln!("skipped instruction counts: {program} is not installed"),
        None => steps::run(),
    }
}

fn is_installed(program: &str) -> bool {
    let version = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// The steps. What one takes is made before its count begins, what it gives is dropped after it.
mod steps {
    use baton_runtime::LoadedJob;
    use baton_store::{Batch, MemoryStore};
    use baton_types::model::{ModelRequest, ModelTurn};
    use futures_util::FutureExt;
    use gungraun::{library_benchmark, library_benchmark_group, main};
    use serde_json::Value;

    use crate::fixtures::{self, Asked, Batches, Called, Given, History, MANY_TOOLS, NextCall, Rendering, Unread};

    library_benchmark_group!(
        name = calls,
        benchmarks = [
            decide_and_apply_one_call,
            validate_an_input,
            render_the_next_request,
            fill_a_scripts_templates,
            append_a_batch_to_memory,
            load_a_thousand_tools
        ]
    );

    main!(library_benchmark_groups = calls);

    /// Starts valgrind for each step, or is one that valgrind started.
    pub(super) fn run() {
        main();
    }

    /// What `step` is to be counted with, after rehearsals: the count has neither what happens only once nor what the
    /// allocator still has to tidy up.
    fn rehearsed<I, O>(start: impl Fn(&History) -> I, step: impl Fn(I) -> O) -> I {
        let history = History::new();
        for _ in 0..3 {
            drop(step(start(&history)));
        }
        let input = start(&history);
        // Dropped here, it would be tidied up in the count.
        std::mem::forget(history);
        input
    }

    #[library_benchmark]
    #[bench::after_twenty(rehearsed(History::next_call, fixtures::one_call))]
    fn decide_and_apply_one_call(call: NextCall) -> Called {
        fixtures::one_call(call)
    }

    #[library_benchmark]
    #[bench::typical(rehearsed(History::next_input, |given| fixtures::validate(&given)))]
    fn validate_an_input(input: Given) -> (Value, Given) {
        (fixtures::validate(&input), input)
    }

    #[library_benchmark]
    #[bench::after_twenty(rehearsed(History::next_result, fixtures::render))]
    fn render_the_next_request(rendering: Rendering) -> (Rendering, ModelRequest) {
        fixtures::render(rendering)
    }

    #[library_benchmark]
    #[bench::after_twenty(rehearsed(History::next_request, |asked| fixtures::answer(&asked)))]
    fn fill_a_scripts_templates(asked: Asked) -> (ModelTurn, Asked) {
        (fixtures::answer(&asked), asked)
    }

    /// A store with some batches, where the next one makes no list grow.
    fn memory() -> (MemoryStore, Batch) {
        let store = MemoryStore::new();
        let mut batches = Batches::new(&store).now_or_never().expect("memory never waits");
        for _ in 0..3 {
            fixtures::append(&store, batches.next_batch()).now_or_never().expect("memory never waits");
        }
        (store, batches.next_batch())
    }

    #[library_benchmark]
    #[bench::of_five(memory())]
    fn append_a_batch_to_memory((store, batch): (MemoryStore, Batch)) -> MemoryStore {
        fixtures::append(&store, batch).now_or_never().expect("memory never waits");
        store
    }

    #[library_benchmark]
    #[bench::at_start(fixtures::unread_job(MANY_TOOLS))]
    fn load_a_thousand_tools(job: Unread) -> LoadedJob {
        fixtures::load(job)
    }
}
