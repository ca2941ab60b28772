//! `cargo xtask planted`: tests the tests. Bugs are planted in a copy of the real source, and each must be caught.
//!
//! The list is `planted/bugs.json`. Every bug of it goes into one copy, each behind a switch that is off until
//! `BATON_PLANTED` names it, so that all of them cost one build. With no bug named, everything must pass: a copy that
//! fails by itself would catch whatever is planted in it.

mod tree;

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Args;
use serde::Deserialize;

use crate::project::root;

/// The list.
const BUGS: &str = include_str!("../planted/bugs.json");

/// The variable that switches a bug on.
const SWITCH: &str = "BATON_PLANTED";

/// How many seeds the simulation gets to catch a bug.
const SEEDS: &str = "4000";

/// A bug that keeps the machine busy for ever is caught when this is over.
const PATIENCE: Duration = Duration::from_mins(3);

/// Which bugs.
#[derive(Args, Default)]
pub(crate) struct Options {
    /// Only this one.
    #[arg(long)]
    only: Option<String>,
}

/// One bug.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bug {
    /// What it is called.
    name: String,
    /// What goes wrong.
    breaks: String,
    /// Where it is planted.
    file: String,
    /// The text it stands in place of: an expression, or statements, that the file holds exactly once.
    find: String,
    /// The bug.
    plant: String,
    /// What must catch it: `simulate`, or a test program and a filter, such as `machine:mixtures`.
    caught_by: String,
}

/// Plants each bug in turn; an error if one lives, or if the list is not true any more.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let bugs: Vec<Bug> = serde_json::from_str(BUGS).context("xtask/planted/bugs.json")?;
    let chosen: Vec<&Bug> = bugs.iter().filter(|bug| options.only.as_ref().is_none_or(|only| *only == bug.name)).collect();
    ensure!(!chosen.is_empty(), "no bug is called {}; there are {}", options.only.as_deref().unwrap_or_default(), names(&bugs));
    let tree = tree::plant(&bugs)?;
    let mut suites: Vec<&str> = chosen.iter().map(|bug| bug.caught_by.as_str()).collect();
    suites.sort_unstable();
    suites.dedup();
    for suite in suites {
        build(&tree, suite)?;
        let (_, tried) = try_suite(&tree, suite, None)?;
        ensure!(!tried.caught, "{suite} fails although nothing is planted:\n{}", tried.output);
    }
    let mut alive = Vec::new();
    let mut seeds = Vec::new();
    for bug in &chosen {
        let (took, tried) = try_suite(&tree, &bug.caught_by, Some(bug))?;
        let how = match (tried.caught, tried.seeds) {
            (false, _) => "LIVES".to_owned(),
            (true, Some(count)) => format!("caught after {count} seeds"),
            (true, None) => format!("caught by {}", bug.caught_by),
        };
        println!("{:<36} {how} ({:.1} s): {}", bug.name, took.as_secs_f64(), bug.breaks);
        if tried.caught { seeds.extend(tried.seeds) } else { alive.push(bug.name.as_str()) }
    }
    seeds.sort_unstable();
    let median = seeds.get(seeds.len() / 2).map_or_else(|| "no".to_owned(), ToString::to_string);
    println!("{} planted, {} caught; by the simulation after {median} seeds (median)", chosen.len(), chosen.len() - alive.len());
    if alive.is_empty() { Ok(()) } else { bail!("these bugs live: {}", alive.join(", ")) }
}

fn names(bugs: &[Bug]) -> String {
    bugs.iter().map(|bug| bug.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// What a suite said.
struct Tried {
    caught: bool,
    /// How many seeds the simulation ran.
    seeds: Option<u64>,
    output: String,
}

/// How cargo runs `suite`.
fn suite_arguments(suite: &str) -> anyhow::Result<Vec<&str>> {
    let simulate =
        ["run", "-q", "-p", "baton-proof", "--example", "simulate", "--", "--failures", "1", "--twice-in", "0", "--seeds", SEEDS];
    Ok(match suite.split_once(':') {
        None if suite == "simulate" => simulate.to_vec(),
        Some(("machine", filter)) => vec!["test", "-q", "-p", "baton-core", "--test", "machine", filter],
        Some(("store", filter)) => vec!["test", "-q", "-p", "baton-store", "--test", "store", filter],
        _ => bail!("{suite} is no suite: simulate, machine:FILTER and store:FILTER are"),
    })
}

fn cargo_in(tree: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(tree).env("RUST_BACKTRACE", "0").stdin(Stdio::null());
    if std::env::var_os("CARGO_TARGET_DIR").is_none() {
        // What the copy depends on is what the project depends on, and is built once.
        command.env("CARGO_TARGET_DIR", root().join("target"));
    }
    command
}

/// Builds what `suite` runs, however long that takes.
fn build(tree: &Path, suite: &str) -> anyhow::Result<()> {
    let arguments = suite_arguments(suite)?;
    let what: &[&str] = if arguments[0] == "run" {
        &["build", "-q", "-p", "baton-proof", "--example", "simulate"]
    } else {
        &[&arguments[..arguments.len() - 1], &["--no-run"]].concat()
    };
    let output = cargo_in(tree).args(what).output().context("cargo cannot be started")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the list is not true any more: what it plants does not compile\n{said}");
    Ok(())
}

/// Runs `suite` in the copy with `bug` switched on, or with none.
fn try_suite(tree: &Path, suite: &str, bug: Option<&Bug>) -> anyhow::Result<(Duration, Tried)> {
    let arguments = suite_arguments(suite)?;
    let began = Instant::now();
    let mut command = cargo_in(tree);
    command.args(arguments).env(SWITCH, bug.map_or("", |bug| &bug.name));
    let (code, output) = run_patiently(command)?;
    let ran = output.lines().find_map(|line| line.strip_prefix("seeds ")?.split_whitespace().next()?.parse().ok());
    let tests = output.lines().filter_map(|line| line.strip_prefix("running ")).any(|line| !line.starts_with("0 "));
    ensure!(ran.is_some() || tests || code.is_none(), "{suite} did not run:\n{output}");
    Ok((began.elapsed(), Tried { caught: code != Some(0), seeds: ran, output }))
}

/// Runs `command` to its end or to the end of patience; its code, if it came to one, and what it said.
fn run_patiently(mut command: Command) -> anyhow::Result<(Option<i32>, String)> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("cargo cannot be started")?;
    let (mut stdout, mut stderr) = (child.stdout.take().context("no output")?, child.stderr.take().context("no output")?);
    let read = |stream: &mut dyn Read| {
        let mut bytes = Vec::new();
        // What cannot be read was not said.
        let _unread = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let began = Instant::now();
    std::thread::scope(|scope| {
        let said = scope.spawn(move || read(&mut stdout));
        let complained = scope.spawn(move || read(&mut stderr));
        let code = loop {
            if let Some(status) = child.try_wait().context("cargo cannot be waited for")? {
                break status.code();
            }
            if began.elapsed() > PATIENCE {
                child.kill().context("cargo cannot be stopped")?;
                child.wait().context("cargo cannot be waited for")?;
                break None;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let output = said.join().unwrap_or_default() + &complained.join().unwrap_or_default();
        Ok((code, output))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_planted_bug_is_caught() {
        run(&Options::default()).expect("the tests catch what is planted");
    }
}
