//! `cargo xtask bench`: measures the benchmark jobs, the engine beside floors, and compares with the targets in BENCHMARKS.md.
//!
//! Each measurement is a process of its own: `baton-bench` for the engine, `baton-floor` for the floors. Rounds go through engine and floors in turn, so that
//! what happens to the machine happens to all of them, and a ratio is taken within one round.

mod figures;
mod page;
mod targets;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use anyhow::{Context, bail, ensure};
use clap::Args;
use serde_json::{Map, Value, json};

use self::figures::Measured;
use self::targets::{Case, Subject, Target};
use crate::dist;
use crate::project::{built, root, run_cargo};

/// The program that runs the jobs on Baton, and the one in which they are written by hand: packages by the same names.
const ENGINE: &str = "baton-bench";
const FLOOR: &str = "baton-floor";

/// The profile of the floor. The engine is built as it is distributed, by [`dist::build`].
const PROFILE: &str = "dist";

/// From this size on, one round has to do.
const ONE_ROUND_FROM: usize = 1_000_000;

/// Choice of measurements, and use of their results.
#[derive(Args)]
pub(crate) struct Options {
    /// Only this job.
    #[arg(long, value_parser = ["q3", "wide", "deep", "long", "startup", "blocked", "resume", "children", "suspended"])]
    workload: Option<String>,
    /// Only at this size: runs, children, levels, turns, tools, tasks or entries.
    #[arg(long)]
    n: Option<usize>,
    /// Only with so many runs at the same time.
    #[arg(long)]
    conc: Option<usize>,
    /// Only kept there.
    #[arg(long, value_parser = ["memory", "sqlite"])]
    store: Option<String>,
    /// Number of rounds; medians count.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Also runs another program's floor with the same options; its figures are printed, nothing is compared with them.
    #[arg(long, value_name = "PROGRAM")]
    beside: Option<PathBuf>,
    /// Fails if a target is missed, and names it.
    #[arg(long)]
    check: bool,
    /// Measures the tokens of the catalog of tools instead. Fails if a bound is missed.
    #[arg(long, conflicts_with_all = ["workload", "n", "conc", "store", "beside", "check", "write"])]
    catalog: bool,
    /// Writes the results into BENCHMARKS.md.
    #[arg(long, conflicts_with_all = ["workload", "n", "conc", "store"])]
    write: bool,
}

/// Measures what `options` ask for.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    if options.catalog {
        return run_cargo(&["run", "--quiet", "--package", ENGINE, "--bin", "catalog"]);
    }
    let path = root().join("BENCHMARKS.md");
    let text = std::fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    let targets = targets::parse(&text)?;
    let cases = options.cases(&targets)?;
    // One after the other: built together, the floor would get the engine's features of what both depend on.
    let engine = dist::build(ENGINE)?;
    run_cargo(&["build", "--profile", PROFILE, "-p", FLOOR])?;

    let mut measured = Measured::default();
    let mut failures = 0;
    for case in &cases {
        let rounds = if case.n < ONE_ROUND_FROM { options.rounds } else { 1 };
        let subjects = subjects(case, &targets, options.beside.is_some());
        for _ in 0..rounds {
            for subject in &subjects {
                match measure(case, *subject, &engine, options.beside.as_deref()) {
                    Ok(figures) => measured.add(case, *subject, &figures),
                    Err(error) => {
                        eprintln!("error: {case}, {subject}: {error:#}");
                        failures += 1;
                    }
                }
            }
        }
    }

    let targets: Vec<Target> = targets.into_iter().filter(|target| cases.contains(&target.case)).collect();
    let rows = page::rows(&cases, &targets, &measured);
    eprint!("{}", page::columns(&rows));
    if options.write {
        std::fs::write(&path, page::with_results(&text, &page::results(&rows)?)?).context("BENCHMARKS.md cannot be written")?;
    }
    ensure!(failures == 0, "{failures} measurements failed");
    let missed: Vec<String> = rows.iter().filter(|row| row.missed()).map(ToString::to_string).collect();
    if options.check && !missed.is_empty() {
        bail!("{} targets are missed:\n{}", missed.len(), missed.join("\n"));
    }
    Ok(())
}

impl Options {
    /// Returns the chosen cases that have targets, or a case named alone even if it has none.
    fn cases(&self, targets: &[Target]) -> anyhow::Result<Vec<Case>> {
        let mut cases: Vec<Case> = Vec::new();
        for Target { case, .. } in targets {
            let asked_for = self.workload.as_ref().is_none_or(|workload| *workload == case.workload)
                && self.n.is_none_or(|n| n == case.n)
                && self.conc.is_none_or(|conc| conc == case.conc)
                && self.store.as_ref().is_none_or(|store| *store == case.store);
            if asked_for && !cases.contains(case) {
                cases.push(case.clone());
            }
        }
        if cases.is_empty() {
            let (Some(workload), Some(n)) = (&self.workload, self.n) else {
                bail!("no case in BENCHMARKS.md matches: set at least --workload and --n");
            };
            let usual = if workload == "resume" { "sqlite" } else { "memory" };
            let store = self.store.clone().unwrap_or_else(|| usual.to_owned());
            cases.push(Case { workload: workload.clone(), n, conc: self.conc.unwrap_or(1), store });
        }
        Ok(cases)
    }
}

/// Returns the subjects of `case`: the engine, the floor with the same durability, and every other one that a target
/// names.
fn subjects(case: &Case, targets: &[Target], beside: bool) -> Vec<Subject> {
    let mut subjects = vec![Subject::Engine];
    if !case.has_floor() {
        return subjects;
    }
    let named = targets.iter().filter(|target| target.case == *case).filter_map(|target| target.bound.floor());
    for floor in std::iter::once(case.usual_floor()).chain(named) {
        if !subjects.contains(&Subject::Floor(floor)) {
            subjects.push(Subject::Floor(floor));
            subjects.extend(beside.then_some(Subject::Beside(floor)));
        }
    }
    subjects
}

/// Takes one measurement and prints its line.
fn measure(case: &Case, subject: Subject, engine: &Path, beside: Option<&Path>) -> anyhow::Result<Map<String, Value>> {
    let (program, kept) = match (subject, beside) {
        (Subject::Beside(floor), Some(program)) => (program.to_owned(), ["--variant", floor.variant()]),
        (Subject::Floor(floor), _) => (built(FLOOR, PROFILE)?, ["--store", floor.store()]),
        _ => (engine.to_owned(), ["--store", &case.store]),
    };
    let mut command = Command::new(program);
    command.arg(&case.workload).args(["--n", &case.n.to_string(), "--conc", &case.conc.to_string()]).args(kept);
    let now = SystemTime::UNIX_EPOCH.elapsed().context("the clock is before 1970")?.as_secs_f64();
    command.env("BENCH_T0", now.to_string()).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().context("it cannot be started")?;
    ensure!(output.status.success(), "it failed ({})", output.status);
    let printed = String::from_utf8(output.stdout).context("it printed something else than text")?;
    let line = printed.lines().find_map(|line| line.strip_prefix("RESULT ")).context("it printed no RESULT")?;
    let mut figures: Map<String, Value> = serde_json::from_str(line).context("its RESULT is not a JSON object")?;
    if let Subject::Beside(floor) = subject {
        figures.extend([("subject".to_owned(), json!("beside")), ("store".to_owned(), json!(floor.store()))]);
    }
    println!("RESULT {}", Value::Object(figures.clone()));
    Ok(figures)
}
