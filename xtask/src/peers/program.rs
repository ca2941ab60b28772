//! The program as a person starts it: with a home, a store and an environment of its own, watched, and asked what it did.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use crate::project::root;

/// Longest time of a run, unless a peer sets another.
const PATIENCE: Duration = Duration::from_mins(5);

/// The exit code of a run that waits for its provider.
const WAITING: i32 = 5;

/// The variables that hold the right key and a wrong one.
pub(crate) const KEY: &str = "PEER_KEY";
pub(crate) const WRONG_KEY: &str = "PEER_WRONG_KEY";

/// Value of the keys.
pub(crate) const KEY_VALUE: &str = "sk-peers-0123456789";

/// The program, and the folder that its runs are in.
pub(crate) struct Program {
    path: PathBuf,
    folder: PathBuf,
    /// Longest time of a run.
    patience: Duration,
}

/// Access of a case to its model.
pub(crate) struct Access<'a> {
    /// Name in the case.
    pub(crate) name: &'a str,
    /// Name at the server.
    pub(crate) model: &'a str,
    /// The provider that the server is asked like.
    pub(crate) like: &'a str,
    pub(crate) address: String,
    /// The variable that holds the key.
    pub(crate) key: &'a str,
    pub(crate) settings: Value,
}

/// The program at work.
pub(crate) struct Running<'a> {
    program: &'a Program,
    name: String,
    child: Child,
    began: Instant,
    stdout: PathBuf,
    stderr: PathBuf,
}

/// A run, from the program's output.
pub(crate) struct FinishedRun {
    /// The code that the program ended with; `None` if it did not end by itself.
    pub(crate) exit: Option<i32>,
    /// Output of `--output json`.
    pub(crate) report: Value,
    /// Its stderr.
    pub(crate) stderr: String,
    /// The run's timeline, row by row.
    pub(crate) timeline: Vec<Value>,
    /// Findings of `baton verify`.
    pub(crate) findings: Vec<String>,
    /// The documents that were handed off, by path.
    pub(crate) documents: BTreeMap<String, Vec<u8>>,
}

impl Program {
    /// Returns the program at `path`, with an empty `folder`.
    pub(crate) fn afresh(path: &Path, folder: &Path) -> anyhow::Result<Self> {
        if folder.exists() {
            std::fs::remove_dir_all(folder).with_context(|| format!("{} cannot be removed", folder.display()))?;
        }
        std::fs::create_dir_all(folder)?;
        Ok(Self { path: path.to_owned(), folder: folder.to_owned(), patience: PATIENCE })
    }

    /// Sets the longest time of a run.
    pub(crate) fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Returns the folder of its runs.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes the person's own `models.json`: each access under its name, with a provider of its own, so that one's limits are no
    /// other's.
    pub(crate) fn write_models(&self, accesses: &[Access<'_>]) -> anyhow::Result<()> {
        let mut models = json!({"models": {}, "providers": {}});
        for Access { name, model, like, address, key, settings } in accesses {
            let provider = format!("peer-{name}");
            models["models"][name] = json!({"model": format!("{provider}:{model}"), "settings": settings});
            models["providers"][provider] = json!({"like": like, "base_url": address, "key": {"env": key}});
        }
        write_json(&self.folder.join("config/baton/models.json"), &models)
    }

    /// Runs `job` with `arguments`, in a store that is called `name`.
    pub(crate) fn run(&self, name: &str, job: &Path, arguments: &[&str]) -> anyhow::Result<FinishedRun> {
        self.begin(name, job, arguments)?.finished()
    }

    /// Begins what [`run`](Self::run) runs to its end.
    pub(crate) fn begin(&self, name: &str, job: &Path, arguments: &[&str]) -> anyhow::Result<Running<'_>> {
        let mut run = self.command(name);
        run.arg("run").arg(job).args(arguments).arg("--out").arg(self.folder.join(name).join("out"));
        self.start(run, name, "run")
    }

    /// Resumes the last run in the store `name`.
    pub(crate) fn resume(&self, name: &str) -> anyhow::Result<FinishedRun> {
        let mut resume = self.command(name);
        resume.args(["resume", "@last", "--out"]).arg(self.folder.join(name).join("out"));
        self.start(resume, name, "resume")?.finished()
    }

    /// Returns the program's answer to a query about the runs in the store `name`.
    pub(crate) fn asked(&self, name: &str, arguments: &[&str]) -> anyhow::Result<Value> {
        let mut command = self.command(name);
        command.args(arguments);
        let (exit, stdout, stderr) = self.start(command, name, "asked")?.ended()?;
        serde_json::from_str(&stdout).with_context(|| format!("baton {} ended with {exit:?}: {stderr}", arguments.join(" ")))
    }

    /// Returns the program with nothing of the environment that it is started from.
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&self.path);
        command.env_clear().envs([(KEY, KEY_VALUE), (WRONG_KEY, "sk-somebody-else")]).current_dir(root());
        command.env("XDG_CONFIG_HOME", self.folder.join("config")).env("HOME", &self.folder);
        command.args(["--no-input", "--output", "json", "--store"]).arg(self.folder.join(name).join("baton.db"));
        command
    }

    /// Starts `command`, whose words go to files called `what` beside the store `name`.
    fn start(&self, mut command: Command, name: &str, what: &str) -> anyhow::Result<Running<'_>> {
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder)?;
        // Files instead of pipes, which would fill up while the program is awaited.
        let [stdout, stderr] = ["stdout", "stderr"].map(|stream| folder.join(format!("{what}.{stream}")));
        command.stdin(Stdio::null()).stdout(File::create(&stdout)?).stderr(File::create(&stderr)?);
        let child = command.spawn().with_context(|| format!("{} cannot be started", self.path.display()))?;
        Ok(Running { program: self, name: name.to_owned(), child, began: Instant::now(), stdout, stderr })
    }
}

impl Running<'_> {
    /// Waits for the end, and asks what there was.
    pub(crate) fn finished(self) -> anyhow::Result<FinishedRun> {
        let (program, name) = (self.program, self.name.clone());
        let (exit, stdout, stderr) = self.ended()?;
        ensure!(!stderr.contains("panicked"), "{name}: the program panicked:\n{stderr}");
        let mut finished = FinishedRun {
            exit,
            report: serde_json::from_str(&stdout).unwrap_or_default(),
            stderr,
            timeline: Vec::new(),
            findings: Vec::new(),
            documents: documents(&program.folder.join(&name).join("out"))?,
        };
        if finished.report["run"].is_null() {
            return Ok(finished);
        }
        let rows = program.asked(&name, &["timeline", "@last"])?;
        finished.timeline = rows.as_array().cloned().context("a timeline is a list")?;
        let verified = program.asked(&name, &["verify", "@last"])?;
        finished.findings =
            verified["findings"].as_array().context("what verify found is a list")?.iter().map(Value::to_string).collect();
        Ok(finished)
    }

    /// Ends the program as a power cut would.
    pub(crate) fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Waits for the end, or kills the program after a time limit. Returns the code, stdout and stderr.
    fn ended(mut self) -> anyhow::Result<(Option<i32>, String, String)> {
        let code = loop {
            if let Some(status) = self.child.try_wait()? {
                break status.code();
            }
            if self.began.elapsed() > self.program.patience {
                break None;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        Ok((code, std::fs::read_to_string(&self.stdout)?, std::fs::read_to_string(&self.stderr)?))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended_before = self.child.kill();
        let _waited_before = self.child.wait();
    }
}

impl FinishedRun {
    /// Returns the rows of entries of this name.
    pub(crate) fn entries(&self, entry: &str) -> impl Iterator<Item = &Value> {
        self.timeline.iter().filter(move |row| row["entry"] == entry)
    }

    /// Returns the tools of calls that ended in success, in the order of their ends.
    pub(crate) fn executed(&self) -> Vec<&str> {
        let finished = self.entries("call_finished").filter(|row| row["result"]["status"] == "success");
        finished.filter_map(|row| row["tool"].as_str()).collect()
    }

    /// Returns the inputs of the calls of `tool` that ended in success.
    pub(crate) fn inputs<'a>(&'a self, tool: &'a str) -> impl Iterator<Item = &'a Value> {
        let finished = self.entries("call_finished").filter(move |row| row["tool"] == tool);
        finished.filter(|row| row["result"]["status"] == "success").map(|row| &row["input"])
    }

    /// Returns the number of calls by the model, whatever their outcome.
    pub(crate) fn calls_made(&self) -> usize {
        self.entries("model_answered").filter_map(|row| row["data"]["calls"].as_array()).map(Vec::len).sum()
    }

    /// Returns the number of calls refused with the error `code`.
    pub(crate) fn refused_as(&self, code: &str) -> usize {
        self.entries("call_refused").filter(|row| row["result"]["error"]["code"] == code).count()
    }

    /// Returns the run's facts in a row.
    pub(crate) fn seen(&self) -> String {
        let usage = if self.usage_is_reported() { "reported" } else { "not reported" };
        let (exit, made, answers) = (self.exit.unwrap_or(-1), self.calls_made(), self.entries("model_answered").count());
        format!("exit {exit}, {answers} answers, {} of {made} calls succeeded, usage {usage}", self.executed().len())
    }

    /// Whether the server reported every answer's usage, so that no usage is an estimate.
    pub(crate) fn usage_is_reported(&self) -> bool {
        let usage = &self.report["usage"]["used"];
        usage["estimated"] == false && usage["input_tokens"] != 0 && usage["output_tokens"] != 0
    }

    /// Returns everything that must hold of a run, however it ended: an end unless it waits, a timeline that keeps the invariants, one result for every call.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = self.findings.clone();
        if self.exit.is_none() {
            faults.push("it did not end in time".to_owned());
        }
        if self.report["run"].is_null() {
            faults.push(format!("there is no run: {}", self.stderr.trim()));
            return faults;
        }
        // A provider that is away ends no run.
        let ends = usize::from(self.exit != Some(WAITING));
        let found = self.entries("run_ended").count();
        if found != ends {
            faults.push(format!("its timeline has {found} ends instead of {ends}"));
        }
        let made = self.calls_made();
        let mut results = BTreeMap::new();
        for row in self.entries("call_refused").chain(self.entries("call_finished")) {
            *results.entry(row["call"].to_string()).or_insert(0_u32) += 1;
        }
        faults.extend(
            results.iter().filter(|(_, count)| **count != 1).map(|(call, count)| format!("call {call} has {count} results")),
        );
        if results.len() != made {
            faults.push(format!("{made} calls were made, {} have results", results.len()));
        }
        faults
    }
}

/// Writes `value` to `path`, with the folders above it.
pub(crate) fn write_json(path: &Path, value: &Value) -> anyhow::Result<()> {
    std::fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
    std::fs::write(path, serde_json::to_vec_pretty(value)?).with_context(|| format!("{} cannot be written", path.display()))
}

/// Returns the files in `folder`, which are few and have no subfolders; none, if the program did not come as far as to make it.
fn documents(folder: &Path) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let mut documents = BTreeMap::new();
    if !folder.exists() {
        return Ok(documents);
    }
    for file in std::fs::read_dir(folder)? {
        let file = file?;
        if file.file_type()?.is_dir() {
            bail!("{} is a folder", file.path().display());
        }
        documents.insert(file.file_name().to_string_lossy().into_owned(), std::fs::read(file.path())?);
    }
    Ok(documents)
}
