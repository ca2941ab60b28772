//! Scene of a trial: a folder with a store and a ledger, and the processes that work in it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};
use baton_store::failpoint;
use baton_timeline::Line;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde_json::Value;
use tempfile::TempDir;

use crate::ledger::ENV_LEDGER;
use crate::run::Timeline;

/// Longest time that a command may outlive its engine, on a machine under load.
const COMMANDS_END_WITHIN: Duration = Duration::from_secs(30);

/// A job and the program that runs it.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name in tables.
    pub name: String,
    /// The job's folder.
    pub job: PathBuf,
    /// A program with baton's command line and failpoints.
    pub program: PathBuf,
    /// Tool configs, `(file name, text)`, for functions that the program has beside baton's own.
    pub tool_configs: Vec<(String, String)>,
    /// Parent of the trials' folders (default: the system's folder for temporary files).
    pub scratch: Option<PathBuf>,
    /// Safeguards that the program goes without, to see whether the kit notices: `exec.guard` ends commands with their engine,
    /// `exec.former` ends those of a former owner.
    pub without: Vec<String>,
}

/// Returns the tool configs of the ledger's tools, for a [`Case`] whose program links them.
pub fn ledger_configs() -> Vec<(String, String)> {
    let configs = [
        ("ledger_append.json", include_str!("../tool-configs/ledger_append.json")),
        ("ledger_charge.json", include_str!("../tool-configs/ledger_charge.json")),
        ("ledger_set.json", include_str!("../tool-configs/ledger_set.json")),
    ];
    configs.map(|(name, text)| (name.to_owned(), text.replace("../../../generated-docs", "../generated-docs"))).to_vec()
}

/// Purpose of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `baton run`.
    Run,
    /// `baton resume`.
    Resume,
    /// `baton answer` to the question of this number.
    Answer(u32),
    /// `baton steer` of the root with a text of this number.
    Steer(u32),
}

/// Event in the life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// It is killed at its pass of this name.
    Pass(PassName),
    /// It is killed so long after its start.
    Moment(Duration),
}

/// The name of a pass in its process, such as `w12` or `e7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassName {
    /// Whether it is before or after a durable write.
    pub is_write: bool,
    /// Which one of its kind, from 1.
    pub number: u64,
}

impl fmt::Display for PassName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.is_write { 'w' } else { 'e' }, self.number)
    }
}

impl FromStr for PassName {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (is_write, number) = match (text.strip_prefix('w'), text.strip_prefix('e')) {
            (Some(number), _) => (true, number),
            (_, Some(number)) => (false, number),
            _ => bail!("{text:?} is not a pass; expected one such as w12 or e7"),
        };
        Ok(Self { is_write, number: number.parse().with_context(|| format!("{text:?} is not a pass"))? })
    }
}

/// A failpoint that a process passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Which one.
    pub name: PassName,
    /// Microseconds since 1970.
    pub at: u128,
    /// Its name.
    pub place: String,
}

/// A process that is over.
#[derive(Debug)]
pub struct Process {
    /// Its exit status.
    pub status: ExitStatus,
    /// The entries that it printed.
    pub printed: Vec<Line>,
    /// Its stderr.
    pub stderr: String,
    /// The failpoints that it passed.
    pub passes: Vec<Pass>,
    /// When it was started, in microseconds since 1970.
    pub started: u128,
}

impl Process {
    /// Whether SIGKILL ended it.
    pub fn was_killed(&self) -> bool {
        self.status.signal() == Some(Signal::KILL.as_raw())
    }

    /// Returns the milliseconds from its start until its first durable commit to the run.
    pub fn until_durable(&self) -> Option<f64> {
        let pass = self.passes.iter().find(|pass| matches!(pass.place.as_str(), "store.begin.after" | "store.append.after"))?;
        Some(pass.at.saturating_sub(self.started) as f64 / 1_000.0)
    }
}

/// The folder of one trial.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    case: &'a Case,
    folder: TempDir,
    started: AtomicUsize,
}

/// A process that may still be running. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    number: usize,
    started: u128,
}

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            // Only this trial's own process; if it is gone meanwhile, so much the better.
            let _gone = self.child.kill();
            let _reaped = self.child.wait();
        }
    }
}

impl<'a> Scene<'a> {
    pub(crate) fn new(case: &'a Case) -> anyhow::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("baton-crash-");
        let folder = case.scratch.as_ref().map_or_else(|| builder.tempdir(), |scratch| builder.tempdir_in(scratch));
        let folder = folder.context("a folder for a trial cannot be made")?;
        // The folders above belong to somebody else.
        std::fs::write(folder.path().join("baton.json"), "{}")?;
        let configs = folder.path().join("tool-configs");
        std::fs::create_dir(&configs)?;
        for (name, text) in &case.tool_configs {
            std::fs::write(configs.join(name), text)?;
        }
        Ok(Self { case, folder, started: AtomicUsize::new(0) })
    }

    /// Keeps the folder for an investigation.
    pub(crate) fn keep(self) -> PathBuf {
        self.folder.keep()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        self.file("ledger")
    }

    fn store(&self) -> PathBuf {
        self.file("baton.db")
    }

    /// Returns the folder for the temporary files of processes.
    fn temporary(&self) -> anyhow::Result<PathBuf> {
        let folder = self.file("tmp");
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Returns the number of remaining folders of commands.
    pub(crate) fn scratch_folders(&self) -> anyhow::Result<usize> {
        let names = std::fs::read_dir(self.temporary()?)?.flatten().map(|entry| entry.file_name());
        Ok(names.filter(|name| name.to_string_lossy().starts_with("baton-exec-")).count())
    }

    /// Returns the number of calls that ran twice at the same time.
    pub(crate) fn overlaps(&self) -> usize {
        std::fs::read_to_string(self.file("ledger-overlaps")).map_or(0, |text| text.lines().count())
    }

    /// Takes the store's file away, or puts it back.
    pub(crate) fn move_store(&self, away: bool) -> io::Result<()> {
        let (here, there) = (self.store(), self.file("away.db"));
        if away { std::fs::rename(here, there) } else { std::fs::rename(there, here) }
    }

    /// Starts a process for `step`; `asked` are failpoints' variables.
    pub(crate) fn start(&self, step: &Step, asked: &BTreeMap<&str, String>) -> anyhow::Result<Running> {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let mut command = Command::new(&self.case.program);
        match step {
            Step::Run => command.arg("run").arg(&self.case.job).arg("--trust"),
            Step::Resume => command.args(["resume", "@last", "--take-over"]),
            Step::Steer(number) => command.args(["steer", "@last", &steering(*number)]),
            Step::Answer(question) => {
                command.args(["answer", "@last", &format!("Q{question}"), &answer_to(*question), "--no-resume"])
            }
        };
        command.args(["--output", "ndjson", "--no-input", "--store"]).arg(self.store());
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.stdout(File::create(self.file(&format!("{number}.out")))?);
        command.stderr(File::create(self.file(&format!("{number}.err")))?);
        for name in ["BATON_OUTPUT", "BATON_STORE", "COMPLETE", failpoint::ENV_KILL, failpoint::ENV_STOP] {
            command.env_remove(name);
        }
        command.env(failpoint::ENV_WITHOUT, self.case.without.join(","));
        command
            .env("TMPDIR", self.temporary()?)
            .env("BATON_HOME", self.file("home"))
            .env("BATON_STATE_HOME", self.file("state"))
            .env("BATON_USER", "kit")
            .env(ENV_LEDGER, self.ledger());
        command.env(failpoint::ENV_LOG, self.file(&format!("{number}.passes"))).envs(asked);
        let started = now();
        let child = command.spawn().with_context(|| format!("{} cannot be started", self.case.program.display()))?;
        Ok(Running { child, number, started })
    }

    /// Runs a process for `step` to its end, or to `at`.
    pub(crate) fn run(&self, step: &Step, at: Option<At>) -> anyhow::Result<Process> {
        let mut asked = BTreeMap::new();
        if let Some(At::Pass(name)) = at {
            asked.insert(failpoint::ENV_KILL, name.to_string());
        }
        let running = self.start(step, &asked)?;
        if let Some(At::Moment(after)) = at {
            std::thread::sleep(after);
            // Not reaped yet, so its number is still its own, also if it has ended.
            kill_process(running.pid(), Signal::KILL).context("a process cannot be killed")?;
        }
        self.finish(running)
    }

    /// Waits for the end of a process, and reads what it left behind.
    pub(crate) fn finish(&self, mut running: Running) -> anyhow::Result<Process> {
        let status = running.child.wait().context("a process cannot be waited for")?;
        let number = running.number;
        let text = |kind: &str| std::fs::read_to_string(self.file(&format!("{number}.{kind}")));
        let passes = match text("passes") {
            // It may have died before the first.
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        Ok(Process {
            status,
            printed: printed(&text("out")?)?,
            stderr: text("err")?,
            passes: passes.lines().map(pass).collect::<anyhow::Result<_>>()?,
            started: running.started,
        })
    }

    /// Waits until no command that a killed process left behind can have an effect any more.
    ///
    /// The guard of the engine that SIGKILL ended kills them a moment later. They are known by the ledger's path in their
    /// environment.
    pub(crate) fn wait_for_commands(&self) -> anyhow::Result<()> {
        let wanted = self.ledger();
        let wanted = wanted.as_os_str().as_encoded_bytes();
        let begun = Instant::now();
        let works = |process: &Path| {
            // Gone meanwhile, or somebody else's.
            let environment = std::fs::read(process.join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable.ends_with(wanted))
        };
        while self.ledger().exists() && std::fs::read_dir("/proc")?.flatten().any(|process| works(&process.path())) {
            anyhow::ensure!(begun.elapsed() < COMMANDS_END_WITHIN, "a command of a killed process does not end");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Returns the timeline in the store's files, read from a copy, so that the next process finds the files
    /// unchanged.
    pub(crate) fn timeline(&self) -> anyhow::Result<Option<Timeline>> {
        let copy = self.file("copy");
        let _absent = std::fs::remove_dir_all(&copy);
        std::fs::create_dir(&copy)?;
        for name in ["baton.db", "baton.db-wal"] {
            match std::fs::copy(self.file(name), copy.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        let store = copy.join("baton.db");
        if store.is_file() { Timeline::read(&store) } else { Ok(None) }
    }
}

/// Returns the kit's answer to a question: always the same.
pub(crate) fn answer_to(question: u32) -> String {
    format!("the answer to question {question}")
}

/// Returns the kit's steering message.
pub(crate) fn steering(number: u32) -> String {
    format!("steering {number} of the kit")
}

fn now() -> u128 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_micros())
}

impl Running {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits until the process has stopped; false if it ended instead.
    pub(crate) fn has_stopped(&self) -> anyhow::Result<bool> {
        // Looked at without taking it: the end of the process is for `Child`.
        let options = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(self.pid()), options).context("a process cannot be waited for")?;
        Ok(status.is_some_and(|status| status.stopped()))
    }

    /// Continues a stopped process.
    pub(crate) fn resume_process(&self) -> anyhow::Result<()> {
        kill_process(self.pid(), Signal::CONT).context("a process cannot be continued")
    }
}

/// Returns the entries in the complete lines of a process.
fn printed(text: &str) -> anyhow::Result<Vec<Line>> {
    let mut printed = Vec::new();
    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let value: Value = serde_json::from_str(line).with_context(|| format!("a process printed {line:?}"))?;
        if value.get("seq").is_some() {
            printed.push(serde_json::from_str(line).context("a process printed something else than an entry")?);
        }
    }
    Ok(printed)
}

fn pass(line: &str) -> anyhow::Result<Pass> {
    let mut parts = line.splitn(3, ' ');
    let mut next = || parts.next().with_context(|| format!("{line:?} is not a line of failpoints"));
    Ok(Pass { name: next()?.parse()?, at: next()?.parse()?, place: next()?.to_owned() })
}
