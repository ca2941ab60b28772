//! `cargo xtask planted`: tests the tests. Bugs are planted in a copy of the real source, and each must be caught.
//!
//! The list is `planted/bugs.json`. Every bug of it goes into one copy, each behind a switch that is off until
//! `BATON_PLANTED` names it, so that all of them cost one build. Without a named bug, every test must pass: a copy that fails
//! anyway would seem to catch every bug.

mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Args;
use serde::Deserialize;
use serde_json::Value;

use crate::project::root;

/// The list.
const BUGS: &str = include_str!("../planted/bugs.json");

/// The variable that switches a bug on.
const SWITCH: &str = "BATON_PLANTED";

/// The simulation: the name of its suite and of its program.
const SIMULATE: &str = "simulate";

/// Number of seeds for the simulation to catch a bug.
const SEEDS: &str = "4000";

/// The test programs beside the simulation: their names here and for cargo.
const TESTS: [(&str, &str); 7] = [
    ("machine", "machine"),
    ("schema", "oracle"),
    ("store", "store"),
    ("universal", "universal"),
    ("program", "program"),
    ("cli", "cli"),
    ("runs", "main"),
];

/// The unit tests of the crate `baton-template`: the name of their suite and of their program.
const TEMPLATE: (&str, &str) = ("template", "baton_template");

/// Number of times that a bug is tried if its tests do not catch it. A bug in concurrent processes shows only in a certain
/// order of events, and on a busy machine this order may not happen at the first try.
const ATTEMPTS: usize = 3;

/// Number of test programs that run at once: most tests wait for processes or for time to pass.
const AT_ONCE: usize = 2;

/// Time limit of a suite. A bug that makes it run for ever is caught then.
const TIME_LIMIT: Duration = Duration::from_mins(3);

/// The selection of bugs.
#[derive(Args, Default)]
pub(crate) struct Options {
    /// Only this one; may be repeated.
    #[arg(long)]
    only: Vec<String>,
}

/// One bug.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bug {
    /// Its name.
    name: String,
    /// Consequence of the bug.
    breaks: String,
    /// Its file.
    file: String,
    /// Text that it replaces: an expression, or statements, which the file has exactly once.
    find: String,
    /// The bug.
    plant: String,
    /// Suite that must catch it: `simulate`, or one of [`TESTS`] or [`TEMPLATE`] and a filter, such as `machine:mixtures`.
    caught_by: String,
}

impl Bug {
    /// Returns the test program that must catch it, and the filter of its tests; no filter for the simulation.
    fn suite(&self) -> (&str, &str) {
        self.caught_by.split_once(':').unwrap_or((&self.caught_by, ""))
    }
}

/// Plants each bug and prints the outcome. Fails if a bug is not caught, or if the list is out of date.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    plant_each(options, |line| println!("{line}"))
}

/// Plants each bug and passes a line for each to `report`. Fails, and names the bugs, if some are not caught.
fn plant_each(options: &Options, report: impl Fn(&str) + Sync) -> anyhow::Result<()> {
    let bugs: Vec<Bug> = serde_json::from_str(BUGS).context("xtask/planted/bugs.json")?;
    if let Some(unknown) = options.only.iter().find(|only| bugs.iter().all(|bug| bug.name != **only)) {
        bail!("no bug is called {unknown}; there are {}", names(&bugs));
    }
    let chosen: Vec<&Bug> = bugs.iter().filter(|bug| options.only.is_empty() || options.only.contains(&bug.name)).collect();
    let tree = tree::plant(&bugs)?;
    let mut suites: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for bug in &chosen {
        let (program, filter) = bug.suite();
        suites.entry(program).or_default().insert(filter);
    }
    let suites: Vec<_> = suites.into_iter().collect();
    let programs = Programs::build(&tree, &suites.iter().map(|(program, _)| *program).collect::<Vec<_>>())?;
    in_parallel(&suites, |(program, filters)| {
        let tried = programs.run(program, filters.iter().copied(), None)?;
        ensure!(!tried.caught, "{program} fails although nothing is planted:\n{}", tried.output);
        Ok(())
    })?;
    let outcomes = in_parallel(&chosen, |bug| {
        let began = Instant::now();
        let tried = programs.try_often(bug)?;
        let how = match (tried.caught, tried.seeds) {
            (false, _) => "LIVES".to_owned(),
            (true, Some(count)) => format!("caught after {count} seeds"),
            (true, None) => format!("caught by {}", bug.caught_by),
        };
        report(&format!("{:<36} {how} ({:.1} s): {}", bug.name, began.elapsed().as_secs_f64(), bug.breaks));
        Ok((bug.name.as_str(), tried))
    })?;
    let mut alive = Vec::new();
    let mut seeds = Vec::new();
    for (name, tried) in outcomes {
        if tried.caught { seeds.extend(tried.seeds) } else { alive.push(name) }
    }
    seeds.sort_unstable();
    let median = seeds.get(seeds.len() / 2).map_or_else(|| "no".to_owned(), ToString::to_string);
    let caught = chosen.len() - alive.len();
    report(&format!("{} planted, {caught} caught; by the simulation after {median} seeds (median)", chosen.len()));
    if alive.is_empty() { Ok(()) } else { bail!("these bugs live: {}", alive.join(", ")) }
}

/// Calls `each` for all `items`, [`AT_ONCE`] at a time, until one fails. Returns the results in any order.
fn in_parallel<T: Sync, R: Send>(items: &[T], each: impl Fn(&T) -> anyhow::Result<R> + Sync) -> anyhow::Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let call_some = || {
        let mut results = Vec::new();
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            // After a failure, the other threads find no item any more.
            results.push(each(item).inspect_err(|_| next.store(items.len(), Ordering::Relaxed))?);
        }
        anyhow::Ok(results)
    };
    let results: anyhow::Result<Vec<_>> = std::thread::scope(|scope| {
        let threads = [(); AT_ONCE].map(|()| scope.spawn(call_some));
        threads.map(|thread| thread.join().expect("a thread that runs tests does not panic")).into_iter().collect()
    });
    Ok(results?.into_iter().flatten().collect())
}

fn names(bugs: &[Bug]) -> String {
    bugs.iter().map(|bug| bug.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Output of a suite.
struct Tried {
    caught: bool,
    /// Number of seeds that the simulation ran.
    seeds: Option<u64>,
    output: String,
}

/// The programs that catch bugs, built from the copy, by their names.
struct Programs(BTreeMap<&'static str, PathBuf>);

impl Programs {
    /// Builds those that are `named`, however long that takes.
    fn build(tree: &Path, named: &[&str]) -> anyhow::Result<Self> {
        let wanted = |name: &str| named.contains(&name);
        let tests: Vec<(&str, &str)> = TESTS.into_iter().filter(|(name, _)| wanted(name)).collect();
        let mut programs = BTreeMap::new();
        // All of the workspace in one build: with fewer packages, most crates would have other features than in the project's
        // own build, and be built again.
        if !tests.is_empty() {
            let mut what = vec!["test", "--no-run", "--workspace"];
            what.extend(tests.iter().flat_map(|(_, target)| ["--test", *target]));
            let built = build(tree, &what)?;
            for (name, target) in tests {
                programs.insert(name, program(&built, target)?);
            }
        }
        if wanted(SIMULATE) {
            let built = build(tree, &["build", "--workspace", "--example", SIMULATE])?;
            programs.insert(SIMULATE, program(&built, SIMULATE)?);
        }
        let (name, target) = TEMPLATE;
        if wanted(name) {
            programs.insert(name, program(&build(tree, &["test", "--no-run", "-p", "baton-template", "--lib"])?, target)?);
        }
        Ok(Self(programs))
    }

    /// Runs the tests of `bug` with it switched on, again if they pass, at most [`ATTEMPTS`] times.
    fn try_often(&self, bug: &Bug) -> anyhow::Result<Tried> {
        let (program, filter) = bug.suite();
        let mut last = self.run(program, [filter], Some(bug))?;
        for _ in 1..ATTEMPTS {
            if last.caught {
                break;
            }
            last = self.run(program, [filter], Some(bug))?;
        }
        Ok(last)
    }

    /// Runs the tests of `program` that match one of `filters`, with `bug` switched on, or with none.
    fn run<'f>(&self, program: &str, filters: impl IntoIterator<Item = &'f str>, bug: Option<&Bug>) -> anyhow::Result<Tried> {
        let unknown = || {
            let tests: Vec<&str> = TESTS.iter().map(|(name, _)| *name).chain([TEMPLATE.0]).collect();
            format!(
                "{program} is not a test program; expected {SIMULATE}, or one of {} and a filter: machine:FILTER",
                tests.join(", ")
            )
        };
        let mut command = Command::new(self.0.get(program).with_context(unknown)?);
        if program == SIMULATE {
            command.args(["--failures", "1", "--twice-in", "0", "--seeds", SEEDS]);
        } else {
            command.args(filters);
        }
        command.env(SWITCH, bug.map_or("", |bug| &bug.name)).env("RUST_BACKTRACE", "0").current_dir(root());
        let (code, output) = run_with_limit(command)?;
        let seeds = output.lines().find_map(|line| line.strip_prefix("seeds ")?.split_whitespace().next()?.parse().ok());
        let tests = output.lines().filter_map(|line| line.strip_prefix("running ")).any(|line| !line.starts_with("0 "));
        ensure!(seeds.is_some() || tests || code != Some(0), "{program} ran nothing:\n{output}");
        Ok(Tried { caught: code != Some(0), seeds, output })
    }
}

/// Builds `what` in the copy. Returns cargo's messages.
fn build(tree: &Path, what: &[&str]) -> anyhow::Result<Vec<Value>> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(tree).stdin(Stdio::null()).args(what).args(["-q", "--message-format", "json"]);
    if std::env::var_os("CARGO_TARGET_DIR").is_none() {
        // What the copy depends on is what the project depends on, and is built once. The programs have another place than
        // those of the project.
        command.env("CARGO_BUILD_BUILD_DIR", root().join("target")).env("CARGO_TARGET_DIR", tree.join("target"));
    }
    let output = command.output().context("cargo cannot be started")?;
    let messages = output.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    let messages: Vec<Value> = messages.collect();
    if output.status.success() {
        return Ok(messages);
    }
    let errors = messages.iter().filter(|line| line["message"]["level"] == "error");
    let errors: Vec<&str> = errors.filter_map(|line| line["message"]["rendered"].as_str()).collect();
    let stderr = String::from_utf8_lossy(&output.stderr);
    bail!("the list is not true any more: what it plants does not compile\n{}\n{stderr}", errors.join("\n"));
}

/// Returns the path of the program `name`.
fn program(messages: &[Value], name: &str) -> anyhow::Result<PathBuf> {
    let built = messages.iter().filter(|line| line["target"]["name"] == name);
    let found = built.filter_map(|line| line["executable"].as_str()).next_back();
    found.map(PathBuf::from).with_context(|| format!("cargo built no {name}"))
}

/// Runs `command` to its end or to a time limit. Returns its exit code, if it ended, and its output.
fn run_with_limit(mut command: Command) -> anyhow::Result<(Option<i32>, String)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("the suite cannot be started")?;
    let (mut stdout, mut stderr) = (child.stdout.take().context("no output")?, child.stderr.take().context("no output")?);
    let read = |stream: &mut dyn Read| {
        let mut bytes = Vec::new();
        // Unreadable output counts as empty.
        let _unread = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let began = Instant::now();
    std::thread::scope(|scope| {
        let printed = scope.spawn(move || read(&mut stdout));
        let errors = scope.spawn(move || read(&mut stderr));
        let code = loop {
            if let Some(status) = child.try_wait().context("it cannot be waited for")? {
                break status.code();
            }
            if began.elapsed() > TIME_LIMIT {
                child.kill().context("it cannot be stopped")?;
                child.wait().context("it cannot be waited for")?;
                break None;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let output = printed.join().unwrap_or_default() + &errors.join().unwrap_or_default();
        Ok((code, output))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_planted_bug_is_caught() {
        // Without the lines of the bugs that are caught, a failure names the others where they are seen.
        plant_each(&Options::default(), |_| ()).expect("the tests catch what is planted");
    }
}
