//! The tests against one mutant: caught by the first test that fails, or by taking far too long.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::plant::Planted;

/// Time limit of a trial beyond a multiple of the tests' time without a mutant.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time limit of tests that run together without a mutant.
const TOGETHER: Duration = Duration::from_secs(1);

/// Time limit of a test while it is measured.
const MEASURING: Duration = Duration::from_mins(10);

/// The memory that a mutant may allocate, in KiB. This stops a mutant that allocates without end.
const MEMORY_KIB: u64 = 6_000_000;

/// One test of the crate.
pub(crate) struct Test {
    program: PathBuf,
    folder: PathBuf,
    name: String,
    /// Its time without a mutant.
    pub(crate) takes: Duration,
    /// The mutants that it reaches; it cannot catch another.
    reaches: BTreeSet<u32>,
}

/// End of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// By this test, or by time.
    Caught(String),
    /// Every test passed.
    Survived,
    /// No test reaches it.
    Unreached,
}

/// Message of cargo during the build.
#[derive(Deserialize)]
struct CargoMessage {
    reason: String,
    #[serde(default)]
    executable: Option<PathBuf>,
    #[serde(default)]
    manifest_path: Option<PathBuf>,
    #[serde(default)]
    profile: Option<Profile>,
    #[serde(default)]
    message: Option<Complaint>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Message of the compiler.
#[derive(Deserialize)]
struct Complaint {
    level: String,
    #[serde(rename = "message")]
    text: String,
    spans: Vec<ComplaintSpan>,
}

#[derive(Deserialize)]
struct ComplaintSpan {
    file_name: String,
    byte_start: usize,
    is_primary: bool,
}

/// Builds the tests of `packages`, each with the folder in which it runs. Leaves out mutants that the compiler refuses, until
/// the rest compiles.
pub(crate) fn build(planted: &mut Planted, packages: &[String], target: &Path) -> anyhow::Result<Vec<(PathBuf, PathBuf)>> {
    loop {
        planted.write()?;
        let started = Instant::now();
        let built = Command::new("cargo")
            .args(["test", "--no-run", "--message-format=json", "--lib", "--tests"])
            .args(packages.iter().flat_map(|package| ["--package", package.as_str()]))
            .current_dir(&planted.tree)
            .env("CARGO_TARGET_DIR", target)
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
            .env("RUSTFLAGS", "--cap-lints=allow")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .context("cargo cannot be started")?;
        let messages: Vec<CargoMessage> =
            built.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
        if built.status.success() {
            eprintln!("built in {:.0} s", started.elapsed().as_secs_f64());
            let tests = messages.into_iter().filter(|message| message.profile.as_ref().is_some_and(|profile| profile.test));
            let folder = |message: &CargoMessage| Some(message.manifest_path.as_ref()?.parent()?.to_owned());
            return Ok(tests.filter_map(|message| Some((message.executable.clone()?, folder(&message)?))).collect());
        }
        let errors: Vec<Complaint> = messages
            .into_iter()
            .filter(|message| message.reason == "compiler-message")
            .filter_map(|message| message.message)
            .filter(|message| message.level == "error")
            .collect();
        let mut refused = 0;
        let before = planted.left_out.len();
        for error in &errors {
            let primary = error.spans.iter().filter(|span| span.is_primary).chain(error.spans.iter());
            for span in primary {
                if planted.refuse(&span.file_name, span.byte_start, &format!("does not compile: {}", error.text)) {
                    refused += 1;
                    break;
                }
            }
        }
        eprintln!("{} mutants do not compile ({} errors)", planted.left_out.len() - before, errors.len());
        let said: Vec<&str> = errors.iter().map(|error| error.text.as_str()).collect();
        ensure!(refused > 0, "the copy does not compile, and no mutant is the reason:\n{}", said.join("\n"));
    }
}

impl Test {
    /// Runs every test of `program` alone and without a mutant: it must pass. Notes its time and the mutants that it
    /// reaches.
    pub(crate) fn measured(program: &Path, folder: &Path, trace: &Path) -> anyhow::Result<Vec<Self>> {
        let listed = Command::new(program).args(["--list", "--format", "terse"]).current_dir(folder).output()?;
        ensure!(listed.status.success(), "the tests of {} cannot be listed", program.display());
        let names = String::from_utf8(listed.stdout)?;
        let names = names.lines().filter_map(|line| line.strip_suffix(": test"));
        names.map(|name| Self::measure(program, name, folder, trace)).collect()
    }

    fn measure(program: &Path, name: &str, folder: &Path, trace: &Path) -> anyhow::Result<Self> {
        // What is not there yet need not be removed.
        let _absent = std::fs::remove_file(trace);
        let started = Instant::now();
        let mut command = command(program, &[name], folder);
        command.env("BATON_MUTANTS_REACHED", trace);
        let caught = outcome(command, MEASURING)?;
        ensure!(caught.is_none(), "without a mutant, {name} of {} fails", program.display());
        let reached = std::fs::read_to_string(trace).unwrap_or_default();
        Ok(Self {
            program: program.to_owned(),
            folder: folder.to_owned(),
            name: name.to_owned(),
            takes: started.elapsed(),
            reaches: reached.lines().filter_map(|line| line.parse().ok()).collect(),
        })
    }
}

/// Tries `mutant` with the tests that reach it, of `tests` in their order.
///
/// Short tests of one program run together, since they catch most mutants. Longer tests run one by one.
pub(crate) fn tried(mutant: u32, tests: &[Test]) -> anyhow::Result<Verdict> {
    let mut rest: Vec<&Test> = tests.iter().filter(|test| test.reaches.contains(&mutant)).collect();
    if rest.is_empty() {
        return Ok(Verdict::Unreached);
    }
    while let Some(first) = rest.first().copied() {
        let mut takes = Duration::ZERO;
        let (now, later): (Vec<&Test>, Vec<&Test>) = rest.into_iter().partition(|test| {
            let joins = test.program == first.program && (takes.is_zero() || takes + test.takes <= TOGETHER);
            takes += if joins { test.takes } else { Duration::ZERO };
            joins
        });
        let names: Vec<&str> = now.iter().map(|test| test.name.as_str()).collect();
        let mut command = command(&first.program, &names, &first.folder);
        command.env("BATON_MUTANT", mutant.to_string());
        if let Some(test) = outcome(command, takes * 5 + PATIENCE)? {
            return Ok(Verdict::Caught(test));
        }
        rest = later;
    }
    Ok(Verdict::Survived)
}

fn command(program: &Path, tests: &[&str], folder: &Path) -> Command {
    let mut command = Command::new("sh");
    let run = format!("ulimit -v {MEMORY_KIB}; exec \"$0\" --test-threads=1 --exact \"$@\"");
    command.args(["-c", &run]).arg(program).args(tests).current_dir(folder);
    // A tenth of the random money jobs is enough: a fault that a few of them miss is missed by many.
    command.env("CARGO_MANIFEST_DIR", folder).env("RUST_BACKTRACE", "0").env("BATON_BUDGET_RUNS", "10");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    command
}

/// Returns the first test that fails, or that the program itself fails or hangs.
fn outcome(mut command: Command, patience: Duration) -> anyhow::Result<Option<String>> {
    let mut child = command.spawn().context("the tests cannot be started")?;
    let output = child.stdout.take().context("the tests have no output")?;
    let (sender, failed) = mpsc::channel();
    // The thread ends with the program's output.
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some(test) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
                // The receiver only waits for the first.
                let _late = sender.send(test.to_owned());
            }
        }
    });
    match failed.recv_timeout(patience) {
        Ok(test) => {
            stop(&mut child);
            Ok(Some(test))
        }
        Err(mpsc::RecvTimeoutError::Timeout) => {
            stop(&mut child);
            Ok(Some("it takes far too long".to_owned()))
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            let status = child.wait().context("the tests cannot be waited for")?;
            Ok((!status.success()).then(|| format!("the tests ended with {status}")))
        }
    }
}

/// Ends a program that this one started.
fn stop(child: &mut Child) {
    // One that has ended by itself needs no end.
    let _ended = child.kill();
    let _reaped = child.wait();
}
