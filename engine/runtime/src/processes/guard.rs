//! The guard: a process that ends an engine's commands when the engine ends first, however it ends.
//!
//! It is started with the first command and holds the read end of a pipe. Only the engine holds the write end, and
//! announces each command there before it starts it, so the end of the pipe is the end of the engine. Then the guard kills
//! the groups that were announced and, on Linux, every process with a command id of the engine in its environment. A
//! child that was just forked holds a copy of the write end until it executes its command: when the pipe ends, every command
//! that was started can be seen.
//!
//! A thread of the engine waits for the end of the guard. A guard that dies while the engine lives is replaced at once by another
//! one, which learns of all commands that are there.
//!
//! The guard is the engine's program, executed again. A constructor, which runs before `main`, checks the variable
//! [`GUARD_OF`] and does not return. So programs that embed the engine need no hook in their `main`, no second file is
//! installed, and no process with threads is forked. A constructor of a shared library does not run when the program
//! is executed again, so an engine in one (a module of an interpreter) has no guard.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use baton_files::own_program;
use baton_store::failpoint;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::{GUARD_OF, engine, kill_all};

/// The name that lists of processes show.
const NAME: &str = "baton-guard";

/// A guard that lived for less time than this is not replaced before it has passed: it may never live longer.
const LEAST_LIFE: Duration = Duration::from_secs(1);

/// The guard of this process, once a command ran, and what it knows.
static WATCH: Mutex<Watch> = Mutex::new(Watch { guard: None, commands: BTreeMap::new() });

/// The commands that a guard has to end, by id: the leader of each that was started.
type Commands = BTreeMap<String, Option<Pid>>;

/// The engine's side.
struct Watch {
    guard: Option<Guard>,
    commands: Commands,
}

/// The engine's end of a guard.
struct Guard {
    process: Child,
    /// Never blocks: a guard that reads nothing is replaced.
    pipe: ChildStdin,
}

/// Announces the command with this id, before it is started. Starts the guard if there is none.
pub(super) fn announce(id: &str) -> io::Result<()> {
    let sent = watch().send(&begin(id), |commands| _ = commands.insert(id.to_owned(), None));
    sent.inspect_err(|_not_started| _ = watch().commands.remove(id))
}

/// Reports the group of a command that was announced and started.
pub(super) fn started(id: &str, leader: Pid) -> io::Result<()> {
    watch().send(&group(id, leader), |commands| _ = commands.insert(id.to_owned(), Some(leader)))
}

/// Reports that a command is gone with all that it started, before its number can be another's.
pub(super) fn ended(id: &str) {
    // A guard that could not be reached knows nothing of the command, or looks for it in vain.
    let _no_guard = watch().send(&format!("end {id}\n"), |commands| _ = commands.remove(id));
}

fn begin(id: &str) -> String {
    format!("begin {id}\n")
}

fn group(id: &str, leader: Pid) -> String {
    format!("group {id} {}\n", leader.as_raw_pid())
}

fn watch() -> MutexGuard<'static, Watch> {
    WATCH.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// Makes `change` here, and sends `line` to the guard.
    fn send(&mut self, line: &str, change: impl FnOnce(&mut Commands)) -> io::Result<()> {
        if failpoint::is_off("exec.guard") {
            return Ok(());
        }
        change(&mut self.commands);
        let is_sent = self.guard.as_mut().is_some_and(|guard| guard.pipe.write_all(line.as_bytes()).is_ok());
        if is_sent { Ok(()) } else { self.renew() }
    }

    /// Starts a guard in place of the one that is gone, and sends it the whole state.
    fn renew(&mut self) -> io::Result<()> {
        if let Some(mut former) = self.guard.take() {
            tracing::warn!("the guard process of commands has ended unexpectedly and is started again");
            let _gone = former.process.kill();
            let _reaped = former.process.wait();
        }
        let Some(program) = own_program()? else { return Ok(()) };
        let mut next = Guard::start(&program, engine())?;
        for (id, leader) in &self.commands {
            next.pipe.write_all(leader.map_or_else(|| begin(id), |leader| group(id, leader)).as_bytes())?;
        }
        let process = Pid::from_child(&next.process);
        std::thread::Builder::new().name("baton-guard".to_owned()).spawn(move || keep_alive(process))?;
        self.guard = Some(next);
        Ok(())
    }

    /// Whether this process is the guard.
    fn is_guarded_by(&self, process: Pid) -> bool {
        self.guard.as_ref().is_some_and(|guard| Pid::from_child(&guard.process) == process)
    }
}

/// Waits for the end of the guard, and replaces it if there are commands for it. The first one to replace it has it
/// reaped.
fn keep_alive(process: Pid) {
    let began = Instant::now();
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(waitid(WaitId::Pid(process), options), Err(rustix::io::Errno::INTR)) {}
    if let Some(rest) = LEAST_LIFE.checked_sub(began.elapsed()) {
        std::thread::sleep(rest);
    }
    let mut watch = watch();
    if !watch.is_guarded_by(process) {
        return;
    }
    if watch.commands.is_empty() {
        // The next command starts the next guard.
        let former = watch.guard.take();
        let _reaped = former.map(|mut former| former.process.wait());
    } else if let Err(error) = watch.renew() {
        tracing::warn!(%error, "the guard process of commands has ended unexpectedly and cannot be started again");
    }
}

impl Guard {
    /// Starts a guard of the commands of `engine`, which `program` is.
    fn start(program: &Path, engine: &str) -> io::Result<Self> {
        let mut command = Command::new(program);
        // It keeps no folder, no pipe, no terminal and no secret.
        command.arg0(NAME).env_clear().env(GUARD_OF, engine).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // A group of its own from its first instant: Ctrl-C and the hang-up of a terminal go to the group of the engine.
        command.process_group(0);
        let mut process = command.spawn()?;
        let pipe = process.stdin.take().ok_or_else(|| io::Error::other("the guard of commands has no pipe"))?;
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Self { process, pipe })
    }
}

// The macro writes the `unsafe` that a constructor needs. Nothing here needs what `main` sets up: no threads, no arguments,
// no output.
ctor::declarative::ctor! {
    #[ctor(unsafe)]
    fn before_main() {
        if let Some(engine) = std::env::var_os(GUARD_OF) {
            keep_guard(&engine.to_string_lossy());
            std::process::exit(0);
        }
    }
}

/// Runs the guard from its start to its end.
fn keep_guard(engine: &str) {
    // The program was executed by a link of another name. This cannot fail in a way that matters.
    let _unnamed = cfg!(target_os = "linux").then(|| std::fs::write("/proc/self/comm", NAME));
    // Signals that a supervisor sends to all processes are not for the guard.
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP] {
        let _not_ignored = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
    let mut commands = Commands::new();
    // A guard that replaces another may lose its engine before it learns of the commands that are there.
    let mut knows_commands = false;
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        knows_commands = true;
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["begin", id] => drop(commands.insert(id.to_owned(), None)),
            ["group", id, leader] => drop(commands.insert(id.to_owned(), leader.parse().ok().and_then(Pid::from_raw))),
            ["end", id] => drop(commands.remove(id)),
            _ => {}
        }
    }
    if knows_commands && commands.is_empty() {
        return;
    }
    kill_all(engine, commands.into_values().flatten().collect());
}

#[cfg(test)]
mod tests {
    use rustix::process::getpgid;

    use super::*;

    #[test]
    fn the_guard_is_never_in_the_group_that_ctrl_c_goes_to() {
        let mut guard = Guard::start(&own_program().unwrap().unwrap(), engine()).unwrap();
        let process = Pid::from_child(&guard.process);
        assert_eq!(getpgid(Some(process)).unwrap(), process, "before it could do anything itself");
        drop(guard.pipe);
        guard.process.wait().unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_guard_ends_commands_that_nobody_announced_to_it() {
        let other = format!("{}x", engine());
        let mut command = Command::new("sleep").arg("60").env(super::super::COMMAND_ID, format!("{other}-0")).spawn().unwrap();
        let mut guard = Guard::start(&own_program().unwrap().unwrap(), &other).unwrap();
        drop(guard.pipe);
        guard.process.wait().unwrap();
        let ended = command.try_wait().unwrap();
        let _gone = command.kill();
        assert!(ended.is_some_and(|status| !status.success()), "the command is still there");
    }
}
