//! The steps of a call in instructions: `cargo bench --workspace --bench instructions --profile dev`.
//!
//! The profile is that of the tests, so that nothing is built for this alone: optimized code would have other counts, but a step that
//! does more has a higher count with both. The counts of `instructions.json` must hold within 3 %, those of the append and of a whole
//! run within 10 %. Unlike times they do not depend on the load of the machine.
//! `BATON_RECORD_INSTRUCTIONS=1` records them again. Needs valgrind, whose callgrind executes this program once per step and
//! counts within [`counted_by_valgrind`] alone.

mod fixtures;
#[path = "fixtures/steps.rs"]
mod steps;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, bail};
use fixtures::EARLIER_CALLS;
use serde::{Deserialize, Serialize};
use steps::Meter;

/// The greatest deviation from the record, in percent. A step that became cheaper is recorded again, so that it stays cheap.
const TOLERANCE: u64 = 3;

/// The greatest deviation of a step that fills new hash maps, whose seeds are random.
const TOLERANCE_OF_SEEDS: u64 = 10;

/// The greatest deviation under another compiler than that of the record.
const TOLERANCE_OF_COMPILERS: u64 = 15;

/// Executions of a step in one process.
const REPEATS: u64 = 100;

/// Executions of a step that takes millions of instructions.
const REPEATS_OF_LONG_STEPS: u64 = 2;

/// Executions of a step whose input takes millions of instructions.
const REPEATS_OF_SEEDS: u64 = 15;

/// Processes per step. The smallest count is used.
const PROCESSES: usize = 3;

/// Processes of a step that fills new hash maps. Of sixteen counts of one program, the greatest was 19 % above the smallest, and the
/// smallest of three was beyond the tolerance about every fourth time.
const PROCESSES_OF_SEEDS: usize = 16;

/// The first argument of a process that valgrind executes. The step's name follows.
const MEASURED: &str = "--measured";

/// The compiler, and the instructions of one execution of each step.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    rustc: String,
    instructions: BTreeMap<String, u64>,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, step] = arguments.as_slice()
        && first == MEASURED
    {
        steps::measure_steps(&mut Selected { step });
        return Ok(ExitCode::SUCCESS);
    }
    let mut names = Names::default();
    steps::measure_steps(&mut names);
    let processes = |step: &str| if fills_maps(step) { PROCESSES_OF_SEEDS } else { PROCESSES };
    let mut instructions = BTreeMap::new();
    for (step, count) in count_all(names.0.iter().flat_map(|step| vec![step.as_str(); processes(step)]))? {
        let smallest = instructions.entry(step.to_owned()).or_insert(u64::MAX);
        *smallest = (*smallest).min(count / repeats(step));
    }
    let record = Record { rustc: rustc()?, instructions };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.json");
    if std::env::var_os("BATON_RECORD_INSTRUCTIONS").is_some() {
        std::fs::write(file, serde_json::to_string_pretty(&record)? + "\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    let recorded: Record = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    Ok(compare(&record, &recorded))
}

/// Prints every step beside its record; fails if one deviates too far.
fn compare(record: &Record, recorded: &Record) -> ExitCode {
    let is_same_compiler = record.rustc == recorded.rustc;
    let tolerance = if is_same_compiler { TOLERANCE } else { TOLERANCE_OF_COMPILERS };
    if !is_same_compiler {
        println!("recorded with {}, counted with {}: {tolerance} % are allowed", recorded.rustc, record.rustc);
    }
    println!("instructions of one execution, after {EARLIER_CALLS} calls:");
    let mut deviates = recorded.instructions.keys().ne(record.instructions.keys());
    for (step, count) in &record.instructions {
        let before = recorded.instructions.get(step).copied().unwrap_or_default();
        let seeds = if fills_maps(step) { TOLERANCE_OF_SEEDS } else { 0 };
        let is_near = count.abs_diff(before) * 100 <= before * tolerance.max(seeds);
        deviates |= !is_near;
        println!("{step:30} {count:>12} recorded {before:>12}{}", if is_near { "" } else { "  deviates" });
    }
    if deviates {
        println!("a step deviates by more than {tolerance} %; if it should, record again with BATON_RECORD_INSTRUCTIONS=1");
    }
    ExitCode::from(u8::from(deviates))
}

/// Whether a step fills new hash maps, whose seeds are random.
fn fills_maps(step: &str) -> bool {
    step.starts_with("append ") || step.starts_with("start ")
}

/// Counts each of `steps` in a process of its own, as many at once as there are processors.
fn count_all<'a>(steps: impl Iterator<Item = &'a str> + Send) -> anyhow::Result<Vec<(&'a str, u64)>> {
    let steps = Mutex::new(steps);
    let next = || steps.lock().unwrap_or_else(PoisonError::into_inner).next();
    let count_some = || std::iter::from_fn(next).map(|step| Ok((step, count(step)?))).collect::<anyhow::Result<Vec<_>>>();
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let counts = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..processors).map(|_| scope.spawn(count_some)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread that counts does not panic")).collect::<Vec<_>>()
    });
    Ok(counts.into_iter().collect::<anyhow::Result<Vec<_>>>()?.concat())
}

/// Counts the instructions of all executions of `step` in one process.
fn count(step: &str) -> anyhow::Result<u64> {
    let program = std::env::current_exe()?;
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            "--collect-atstart=no",
            "--toggle-collect=*counted_by_valgrind*",
        ])
        .arg(program)
        .args([MEASURED, step])
        .output()
        .context("valgrind cannot be started; on Debian: apt-get install valgrind")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let counted = text.lines().find_map(|line| line.split_once("Collected :"));
    match counted.and_then(|(_, number)| number.trim().parse().ok()) {
        Some(count) if output.status.success() && count > 0 => Ok(count),
        _ => bail!("valgrind did not count {step}:\n{text}"),
    }
}

/// Returns the version of the compiler.
fn rustc() -> anyhow::Result<String> {
    let program = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(program).arg("--version").output().context("rustc cannot be started")?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Collects the names of the steps.
#[derive(Default)]
struct Names(Vec<String>);

impl Meter for Names {
    fn measure<I, O>(&mut self, name: &str, _: impl FnMut() -> I, _: impl FnMut(I) -> O) {
        self.0.push(name.to_owned());
    }
}

/// Executes one step.
struct Selected<'a> {
    step: &'a str,
}

impl Meter for Selected<'_> {
    fn measure<I, O>(&mut self, name: &str, mut start: impl FnMut() -> I, mut step: impl FnMut(I) -> O) {
        if name != self.step {
            return;
        }
        // Work that happens once per process is not counted.
        for _ in 0..3 {
            drop(step(start()));
        }
        for _ in 0..repeats(name) {
            let input = start();
            // Freeing memory is not part of a step.
            std::mem::forget(counted_by_valgrind(&mut step, input));
        }
    }
}

fn repeats(step: &str) -> u64 {
    match step {
        step if step.starts_with("load ") => REPEATS_OF_LONG_STEPS,
        step if fills_maps(step) => REPEATS_OF_SEEDS,
        _ => REPEATS,
    }
}

/// Executes a step. Valgrind finds the function by its name.
#[inline(never)]
fn counted_by_valgrind<I, O>(step: &mut impl FnMut(I) -> O, input: I) -> O {
    step(input)
}
