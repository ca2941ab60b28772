//! The built program, started in a folder of its own with a home of its own, within bounds of time, output and memory.
//!
//! What a command leaves is bytes: files, output, the way it ended. No part of the engine is linked here.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Longest time of one command. The suite never measures time: a command that reaches this limit hangs.
const PATIENCE: Duration = Duration::from_mins(1);

/// The most bytes that are kept of one stream of a command.
const MAX_OUTPUT: u64 = 64 * 1_024 * 1_024;

/// A folder with jobs in it and a person's home beside it. Both are removed at the end.
#[derive(Debug)]
pub struct Scene(TempDir);

/// Output of a command.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether it was killed because it took too long.
    pub timed_out: bool,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
}

impl Scene {
    /// Returns an empty folder and an empty home.
    pub fn new() -> anyhow::Result<Self> {
        let scene = Self(tempfile::tempdir()?);
        fs::create_dir(scene.folder())?;
        fs::create_dir(scene.home())?;
        Ok(scene)
    }

    /// Returns the folder in which commands are started.
    pub fn folder(&self) -> PathBuf {
        self.0.path().join("work")
    }

    /// Returns the person's home.
    pub fn home(&self) -> PathBuf {
        self.0.path().join("home")
    }

    /// Writes a file below the folder.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) -> anyhow::Result<()> {
        let file = self.folder().join(path);
        fs::create_dir_all(file.parent().context("a file has a folder")?)?;
        fs::write(&file, content).with_context(|| format!("{} cannot be written", file.display()))
    }

    /// Writes the job `name`: its agents follow `script`. Each agent has `tools`; the first agent is the root. `more` is
    /// added to `job.json`.
    pub fn write_job(&self, name: &str, agents: &[(&str, &[&str])], script: Value, more: Value) -> anyhow::Result<()> {
        let mut job = json!({
            "job_id": name, "description": "A job that somebody sent.", "root": agents[0].0, "request": "Do it.",
            "models": {"scripted": {"provider": "scripted", "script": "the.script.json"}},
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            job[key] = value.clone();
        }
        self.write(&format!("{name}/job.json"), job.to_string())?;
        self.write(&format!("{name}/the.script.json"), json!({"agents": script}).to_string())?;
        for (agent, tools) in agents {
            let config = json!({
                "agent_id": agent, "description": "An agent that somebody sent.", "model": "scripted",
                "system_prompt": "Do it.", "tools": tools,
            });
            self.write(&format!("{name}/agents/{agent}.json"), config.to_string())?;
        }
        Ok(())
    }

    /// Returns the program with `arguments`, in the folder, with the environment of this scene only and no input.
    pub fn command(&self, arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new(program()?);
        command.args(arguments);
        self.place(&mut command);
        Ok(command)
    }

    /// Returns the program with `arguments`, unable to map more than `kilobytes` of memory.
    pub fn limited_command(&self, kilobytes: u64, arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("ulimit -c 0 && ulimit -v {kilobytes} && exec \"$@\""), "sh"])
            .arg(program()?)
            .args(arguments);
        self.place(&mut command);
        Ok(command)
    }

    fn place(&self, command: &mut Command) {
        command.current_dir(self.folder()).env_clear().stdin(Stdio::null());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.home()).env("USER", "ann").env("BATON_USER", "ann").env("LANG", "C.UTF-8").env("TERM", "xterm");
    }

    /// Runs the program with `arguments`.
    pub fn run(&self, arguments: &[&str]) -> anyhow::Result<Ran> {
        run(self.command(arguments)?)
    }

    /// Runs the program with `arguments` on a pseudo-terminal. `stdout` holds every byte that the terminal got.
    pub fn run_on_terminal(&self, arguments: &[&str], keys: &str) -> anyhow::Result<Ran> {
        let mut terminal = Terminal::open(self.command(arguments)?)?;
        terminal.press(keys)?;
        terminal.finish()
    }

    /// Returns every file below the folder and the home, with its content; links are listed by their target.
    pub fn files(&self) -> anyhow::Result<Vec<(PathBuf, Vec<u8>)>> {
        let mut found = Vec::new();
        let mut folders = vec![self.0.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
                if kind.is_dir() {
                    folders.push(path);
                } else if kind.is_symlink() {
                    found.push((path.clone(), fs::read_link(&path)?.into_os_string().into_encoded_bytes()));
                } else if kind.is_file() {
                    let content = fs::read(&path)?;
                    found.push((path, content));
                }
            }
        }
        found.sort();
        Ok(found)
    }
}

impl Ran {
    /// Returns both streams as text.
    pub fn text(&self) -> String {
        format!("{}{}", String::from_utf8_lossy(&self.stdout), String::from_utf8_lossy(&self.stderr))
    }

    /// Describes an end that no input may cause: a signal, a panic, a hang, or memory that ran out.
    pub fn crash(&self) -> Option<String> {
        let text = self.text();
        if self.timed_out {
            return Some("it hangs".to_owned());
        }
        if let Some(signal) = self.signal {
            return Some(format!("signal {signal}: {}", text.lines().last().unwrap_or_default()));
        }
        ["memory allocation of", "has overflowed its stack", "panicked at"]
            .into_iter()
            .find(|words| text.contains(words))
            .map(|words| format!("its output has {words:?}"))
    }
}

/// Returns the built program, beside the folder of this one.
pub fn program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("this program's own path is unknown")?;
    let beside = own.ancestors().skip(1).take(2).map(|folder| folder.join("baton")).find(|program| program.is_file());
    beside.context("the program is not built: cargo build --workspace --bins")
}

/// Runs `command` within the bounds of time and output. It gets a process group of its own, which ends with it.
pub fn run(mut command: Command) -> anyhow::Result<Ran> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn()?;
    let stdout = gather(child.stdout.take().context("a pipe was asked for")?);
    let stderr = gather(child.stderr.take().context("a pipe was asked for")?);
    let (mut ran, deadline) = (Ran::unfinished(), Instant::now() + PATIENCE);
    ran.stdout = take_before(&stdout, deadline, &mut ran.timed_out);
    ran.stderr = take_before(&stderr, deadline, &mut ran.timed_out);
    if ran.timed_out {
        end_group(&child);
    }
    Ok(ran.ended(child.wait()?))
}

impl Ran {
    fn unfinished() -> Self {
        Self { code: None, signal: None, timed_out: false, stdout: Vec::new(), stderr: Vec::new() }
    }

    fn ended(self, status: ExitStatus) -> Self {
        Self { code: status.code(), signal: status.signal(), ..self }
    }
}

/// Reads `stream` to its end on a thread of its own.
fn gather(stream: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut stream = stream;
        let mut bytes = Vec::new();
        let _cut_short = stream.by_ref().take(MAX_OUTPUT).read_to_end(&mut bytes);
        let _drained = std::io::copy(&mut stream, &mut std::io::sink());
        let _nobody_waits = sender.send(bytes);
    });
    receiver
}

fn take_before(stream: &mpsc::Receiver<Vec<u8>>, deadline: Instant, timed_out: &mut bool) -> Vec<u8> {
    stream.recv_timeout(deadline.saturating_duration_since(Instant::now())).unwrap_or_else(|_| {
        *timed_out = true;
        Vec::new()
    })
}

/// Kills the process group of `child`, which was started as one.
fn end_group(child: &Child) {
    let _gone_already = Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).status();
}

/// A program on a pseudo-terminal: what it draws, and keys that are pressed.
pub struct Terminal {
    child: Child,
    drawn: Vec<u8>,
    pieces: mpsc::Receiver<Vec<u8>>,
}

/// Opens a pseudo-terminal, starts its arguments there, and copies both ways.
const PSEUDO_TERMINAL: &str = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";

impl Terminal {
    /// Starts `command` on a terminal of 100 columns and 40 rows.
    pub fn open(command: Command) -> anyhow::Result<Self> {
        let mut outer = Command::new("python3");
        outer.args(["-c", PSEUDO_TERMINAL, "sh", "-c", "stty cols 100 rows 40; exec \"$@\"", "sh"]);
        outer.arg(command.get_program()).args(command.get_args());
        outer.current_dir(command.get_current_dir().unwrap_or_else(|| Path::new("."))).env_clear();
        outer.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let mut child = outer.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).spawn()?;
        let mut stream = child.stdout.take().context("a pipe was asked for")?;
        let (sender, pieces) = mpsc::channel();
        thread::spawn(move || {
            let mut piece = vec![0; 4_096];
            while let Ok(read) = stream.read(&mut piece) {
                if read == 0 || sender.send(piece[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, drawn: Vec::new(), pieces })
    }

    /// Returns every byte that the terminal got so far.
    pub fn drawn(&self) -> &[u8] {
        &self.drawn
    }

    /// Reads until `words` are drawn.
    pub fn wait_for(&mut self, words: &str) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.drawn.windows(words.len()).any(|window| window == words.as_bytes()) {
            match self.pieces.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(piece) => self.drawn.extend(piece),
                Err(_) => bail!("{words:?} was never drawn:\n{}", String::from_utf8_lossy(&self.drawn)),
            }
            ensure!(self.drawn.len() as u64 <= MAX_OUTPUT, "the terminal got more than {MAX_OUTPUT} bytes");
        }
        Ok(())
    }

    /// Presses `keys`.
    pub fn press(&mut self, keys: &str) -> anyhow::Result<()> {
        let stdin = self.child.stdin.as_mut().context("a pipe was asked for")?;
        Ok(stdin.write_all(keys.as_bytes())?)
    }

    /// Waits until the program ends.
    pub fn finish(mut self) -> anyhow::Result<Ran> {
        let deadline = Instant::now() + PATIENCE;
        let mut ran = Ran::unfinished();
        loop {
            match self.pieces.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(piece) => self.drawn.extend(piece),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    ran.timed_out = true;
                    end_group(&self.child);
                    break;
                }
            }
        }
        ran.stdout = self.drawn;
        Ok(ran.ended(self.child.wait()?))
    }
}
