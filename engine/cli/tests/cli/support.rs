//! A folder with jobs, and the program that runs in it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A temporary folder of one test.
pub(crate) struct Folder(TempDir);

/// The outcome of the program.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The exit code.
    pub(crate) code: i32,
    /// The results.
    pub(crate) stdout: String,
    /// All other output.
    pub(crate) stderr: String,
}

/// A process that is killed when the value is dropped.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

impl Folder {
    /// Creates an empty folder.
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Returns a folder in which the run of a [`writing_job`](Self::writing_job) has ended.
    pub(crate) fn with_documents() -> Self {
        let folder = Self::new();
        folder.writing_job();
        folder.baton(&["run", "writing"]).exits(0);
        folder
    }

    /// Returns its path.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file below the folder.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Reads a file below the folder.
    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Returns the program's command in this folder, without variables of the tester's environment that would change its
    /// behaviour.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command.current_dir(self.path()).args(arguments).stdin(Stdio::null());
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "BATON_STORE", "BATON_HOME", "BATON_OUTPUT", "CI"] {
            command.env_remove(name);
        }
        for provider in ["ANTHROPIC", "OPENAI", "OPENROUTER", "VENICE"] {
            command.env_remove(format!("{provider}_API_KEY"));
        }
        command.env("BATON_USER", "ann").env("XDG_CONFIG_HOME", self.path().join("config"));
        command.env("XDG_STATE_HOME", self.path().join("state")).env_remove("BATON_STATE_HOME");
        command
    }

    /// Runs the program.
    pub(crate) fn baton(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments))
    }

    /// Runs the program with `input` on its stdin.
    pub(crate) fn baton_with_input(&self, arguments: &[&str], input: &str) -> Ran {
        let mut command = self.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Ran::from(child.wait_with_output().unwrap())
    }

    /// Writes a job of agents that follow `script`. Each agent has `tools`; the first one is the root.
    pub(crate) fn job(&self, name: &str, agents: &[(&str, &[&str])], script: Value, more: Value) -> PathBuf {
        let mut job = json!({
            "job_id": name, "description": "A job for a test.", "root": agents.first().map(|(agent, _)| agent), "request": "Do it.",
            "models": {"scripted": {"provider": "scripted", "script": "the.script.json"}},
        });
        for (key, value) in more.as_object().unwrap() {
            job[key] = value.clone();
        }
        self.write(&format!("{name}/job.json"), job.to_string());
        self.write(&format!("{name}/the.script.json"), json!({"agents": script}).to_string());
        for (agent, tools) in agents {
            let config = json!({
                "agent_id": agent, "description": "An agent for a test.", "model": "scripted", "system_prompt": "Do it.", "tools": tools,
            });
            self.write(&format!("{name}/agents/{agent}.json"), config.to_string());
        }
        self.path().join(name)
    }

    /// Writes a job that calls `echo` and finishes.
    pub(crate) fn echo_job(&self) {
        let script = json!({"lead": {"turns": [
            {"calls": [{"tool": "echo", "input": {"message": "hello"}}]},
            {"calls": [{"tool": "handoff", "input": {"result": {"said": "{{ results.echo.echo }}"}}}]},
        ]}});
        self.job("echoing", &[("lead", &["echo", "handoff"])], script, json!({}));
    }

    /// Writes a job whose worker writes a document twice and hands it to the lead, which hands it off.
    pub(crate) fn writing_job(&self) {
        let script = json!({
            "lead": {"turns": [
                {"calls": [{"tool": "route_to_worker", "input": {"request": "Write it.", "documents": ["source.csv"]}}]},
                {"calls": [{"tool": "handoff", "input": {"result": {"summary": "written"}, "documents": ["out/page.md"]}}]},
            ]},
            "worker": {"turns": [
                {"calls": [{"tool": "write_file", "input": {"path": "out/page.md", "content": "# One\n\nfirst line\n"}}]},
                {"calls": [{"tool": "write_file", "input": {"path": "out/page.md", "content": "# One\n\nsecond line\n"}}]},
                {"calls": [{"tool": "handoff", "input": {"result": {"summary": "done"}, "documents": ["out/page.md"]}}]},
            ]},
        });
        self.write("writing/documents/source.csv", "a,b\n1,2\n");
        let agents: &[(&str, &[&str])] = &[("lead", &["route_to_worker", "handoff"]), ("worker", &["write_file", "handoff"])];
        self.job("writing", agents, script, json!({"documents": [{"path": "source.csv", "description": "Where it starts"}]}));
    }

    /// Writes a job whose lead asks a person for a choice, and hands off the choice.
    pub(crate) fn asking_job(&self) {
        let script = json!({"lead": {"turns": [
            {"calls": [{"tool": "ask_master", "as": "choice", "input": {
                "question": "Revenue or units?", "answer_schema": {"type": "string", "enum": ["revenue", "units"]},
            }}]},
            {"calls": [{"tool": "handoff", "input": {"result": {"summary": "{{ results.choice }}"}}}]},
        ]}});
        self.job("asking", &[("lead", &["ask_master", "handoff"])], script, json!({}));
    }

    /// Returns the newest run as `ps` lists it.
    #[track_caller]
    pub(crate) fn listed(&self) -> Value {
        self.baton(&["ps", "--output", "json"]).exits(0).json()[0].clone()
    }

    /// Returns the status of the newest run.
    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        self.listed()["status"].clone()
    }

    /// Returns the id of the newest run.
    #[track_caller]
    pub(crate) fn last_run(&self) -> String {
        self.listed()["run"].as_str().expect("there is a run").to_owned()
    }
}

impl Ran {
    fn of(mut command: Command) -> Self {
        Self::from(command.output().unwrap())
    }

    /// Checks the exit code; a failure shows the whole output.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "\nstdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Checks that stdout contains `words`.
    #[track_caller]
    pub(crate) fn says(self, words: &str) -> Self {
        assert!(self.stdout.contains(words), "{words:?} is not in stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Checks that stderr contains `words`.
    #[track_caller]
    pub(crate) fn tells(self, words: &str) -> Self {
        assert!(self.stderr.contains(words), "{words:?} is not in stderr:\n{}\nstdout:\n{}", self.stderr, self.stdout);
        self
    }

    /// Parses stdout as one JSON value.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error} in:\n{}\nstderr:\n{}", self.stdout, self.stderr))
    }

    /// Parses stdout as one JSON value per line.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line:?}"))).collect()
    }
}

impl From<std::process::Output> for Ran {
    fn from(output: std::process::Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Returns the path of this file or folder of the repository.
pub(crate) fn in_repository(path: &str) -> String {
    format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))
}

/// Returns a command that starts `wrapper` with `arguments`, followed by the program and the arguments of `command`. The
/// wrapper has the folder and the environment of `command`.
pub(crate) fn wrapped(wrapper: &str, arguments: &[&str], command: &Command) -> Command {
    let mut wrapped = Command::new(wrapper);
    wrapped.args(arguments).arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    wrapped.current_dir(command.get_current_dir().expect("the program runs in the folder of a test"));
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    wrapped
}

/// Waits until `is_so` returns a value.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut is_so: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(value) = is_so() {
            return value;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a signal to a process, such as `TERM`.
#[track_caller]
pub(crate) fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status().unwrap().success());
}

/// Ends a child process by a signal.
#[track_caller]
pub(crate) fn end(mut child: Child, name: &str) -> ExitStatus {
    signal(name, child.id());
    child.wait().unwrap()
}

/// Returns true if a process exists and is not a zombie.
pub(crate) fn is_alive(process: &str) -> bool {
    let state = Command::new("ps").args(["-o", "stat=", "-p", process]).output().unwrap();
    let state = String::from_utf8(state.stdout).unwrap();
    !state.trim().is_empty() && !state.trim().starts_with(['Z', 'X'])
}

/// Waits until a process has ended, even if it was not reaped yet.
#[track_caller]
pub(crate) fn wait_until_gone(process: &str) {
    let began = Instant::now();
    while is_alive(process) {
        assert!(began.elapsed() < Duration::from_secs(20), "process {process} is still there");
    }
}
