//! The processes of a command, and how they end: all of them, whatever they do.
//!
//! A command leads a process group of its own. When its call is stopped or takes too long, the group gets `SIGTERM` and is
//! killed soon after. When the command ends by itself, its remaining processes are killed at once. On Linux this also reaches
//! processes that left the group (`setsid`): they descend from the command, or still have its `BATON_COMMAND_ID` in their
//! environment. A process escapes if it left the group, lost its ancestors *and* cleared its environment. On other systems a
//! process escapes if it left the group. This is not a sandbox.
//!
//! Commands do not outlive their engine: [`guard`] ends them when it dies. If the guard died too, the next owner of
//! the run ends them ([`end_former`]) before it repeats a call or declares it in doubt. [`scratch`] owns the folders that
//! commands work in.

mod guard;
mod scratch;
mod strays;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use baton_store::failpoint;
use baton_types::id::RunId;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

pub(crate) use scratch::{Scratch, remove_abandoned};
use strays::Wanted;

/// Time between asking a command to end and killing it (default).
pub(crate) const COMMAND_GRACE: Duration = Duration::from_secs(1);

/// The variable by which the descendants of one start of a command are known: the engine's name and a number.
const COMMAND_ID: &str = "BATON_COMMAND_ID";

/// The variable that names the call: the run and the call's id in it. Another attempt at the call has the same.
pub(crate) const CALL_ID: &str = "BATON_CALL_ID";

/// The variable that makes a process the guard of the engine it names.
const GUARD_OF: &str = "BATON_GUARD_OF";

/// Number of searches for commands when all are killed.
const LOOKS: usize = 10;
/// Pause between two searches.
const PAUSE: Duration = Duration::from_millis(10);

/// Longest time that a new owner of a run waits until the guard of a dead engine has ended its commands.
const GUARD_PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two checks.
const GUARD_LOOK: Duration = Duration::from_millis(2);

/// The commands that run in this process: the leaders of their groups, and their ids.
static RUNNING: Mutex<BTreeMap<i32, String>> = Mutex::new(BTreeMap::new());

/// Whether this process ends at once. From then on no result of a command is reported, since commands are killed.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Kills every command that runs in this process, with its descendants: for a program that ends at once. Their calls
/// never return here. After a resume they are open, as after any other sudden end.
///
/// On Linux this reaches a command that another thread is just starting; elsewhere only the guard does.
pub fn kill_commands() {
    ENDING.store(true, Ordering::SeqCst);
    let leaders = running().keys().copied().filter_map(Pid::from_raw).collect();
    kill_all(engine(), leaders);
}

/// Kills every command of `engine`: the groups of these leaders and, on Linux, processes with its ids in their
/// environment. Blocks for at least 100 ms: a command that is just being executed has no environment yet and cannot be
/// recognized.
fn kill_all(engine: &str, leaders: Vec<Pid>) {
    let wanted = Wanted::Engine { engine, leaders };
    let mut looks = 0;
    while looks < LOOKS {
        // Descendants first: without their ancestors they could not be recognized.
        looks = if strays::kill(&wanted) { 0 } else { looks + 1 };
        for leader in wanted.leaders() {
            // An error means that the group is empty.
            let _already_gone = kill_process_group(*leader, Signal::KILL);
        }
        std::thread::sleep(PAUSE);
    }
}

/// A started command with its descendants. Dropping it asks them to end, and ends them by force soon after.
pub(crate) struct Processes {
    /// `None` once they are being ended.
    started: Option<Started>,
    endings: Endings,
}

/// Settings for the end of dropped commands.
#[derive(Clone)]
pub(crate) struct Endings {
    /// Tracks it.
    pub(crate) tracker: TaskTracker,
    /// Time between asking a command to end and killing it.
    pub(crate) grace: Duration,
}

/// A command that was started and is not reaped. Dropping it kills it with its descendants at once.
struct Started {
    group: Group,
    /// The process with both outputs, which stay open until it ends. So a process that gets `SIGTERM` can still write.
    child: Child,
    /// Its working folder, removed after its end.
    _place: Scratch,
}

/// A command and its descendants, as the system knows them.
#[derive(Clone)]
pub(crate) struct Group {
    /// Not reaped before its descendants are killed, so that its number cannot have gone to another process.
    leader: Pid,
    id: String,
}

impl Processes {
    /// Starts `command`, which works in `place`.
    pub(crate) fn spawn(mut command: Command, place: Scratch, endings: &Endings) -> io::Result<Self> {
        static STARTS: AtomicU64 = AtomicU64::new(0);
        let id = format!("{}-{}", engine(), STARTS.fetch_add(1, Ordering::Relaxed));
        command.env(COMMAND_ID, &id).process_group(0).kill_on_drop(true);
        guard::announce(&id)?;
        failpoint::pass("exec.start.before");
        let child = command.spawn().inspect_err(|_not_started| guard::ended(&id))?;
        failpoint::pass("exec.start.after");
        let number = child.id().and_then(|number| i32::try_from(number).ok()).and_then(Pid::from_raw);
        let leader = number.ok_or_else(|| io::Error::other("the command has no process number"))?;
        running().insert(leader.as_raw_pid(), id.clone());
        let started = Started { group: Group { leader, id }, child, _place: place };
        // Dropped, and so killed, if the guard cannot learn of it.
        guard::started(&started.group.id, leader)?;
        Ok(Self { started: Some(started), endings: endings.clone() })
    }

    /// Its stdin, the first time it is asked for, its stdout and stderr.
    pub(crate) fn pipes(&mut self) -> (Option<ChildStdin>, Option<&mut ChildStdout>, Option<&mut ChildStderr>) {
        let child = &mut self.started().child;
        (child.stdin.take(), child.stdout.as_mut(), child.stderr.as_mut())
    }

    /// Takes its three pipes, for a program that somebody else talks to. `None` if one of them was taken before.
    pub(crate) fn take_pipes(&mut self) -> io::Result<Option<[OwnedFd; 3]>> {
        let child = &mut self.started().child;
        let taken = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = taken else { return Ok(None) };
        Ok(Some([stdin.into_owned_fd()?, stdout.into_owned_fd()?, stderr.into_owned_fd()?]))
    }

    /// Returns all processes of the command.
    pub(crate) fn group(&mut self) -> Group {
        self.started().group.clone()
    }

    /// Kills the remaining processes, and returns the command's exit status.
    pub(crate) async fn end(mut self) -> io::Result<ExitStatus> {
        failpoint::pass("exec.reap.before");
        let group = self.group();
        group.kill().await;
        guard::ended(&group.id);
        let status = self.started().child.wait().await;
        failpoint::pass("exec.reap.after");
        if ENDING.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if let Some(started) = self.started.take() {
            started.forget();
        }
        status
    }

    fn started(&mut self) -> &mut Started {
        self.started.as_mut().expect("only the end of the command takes it")
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        // Waiting needs a runtime. Without one the command is killed where it is dropped.
        if let Some(started) = self.started.take()
            && tokio::runtime::Handle::try_current().is_ok()
        {
            self.endings.tracker.spawn(started.end_gently(self.endings.grace));
        }
    }
}

impl Started {
    /// Asks the group to end, waits as long as `grace` for the command, then kills what is left.
    async fn end_gently(mut self, grace: Duration) {
        // An error means that the group is empty.
        let _already_gone = kill_process_group(self.group.leader, Signal::TERM);
        let _exited = tokio::time::timeout(grace, self.group.exit()).await;
        self.group.kill().await;
        guard::ended(&self.group.id);
        // One that cannot be reaped leaves nothing to do.
        let _status = self.child.wait().await;
        self.forget();
    }

    /// Forgets the reaped process: its number may be reused from now on.
    fn forget(self) {
        running().remove(&self.group.leader.as_raw_pid());
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if running().remove(&self.group.leader.as_raw_pid()).is_some() {
            kill(self.group.leader, &self.group.id);
            guard::ended(&self.group.id);
        }
    }
}

impl Group {
    /// Completes when the command has exited, without reaping it.
    pub(crate) fn exit(&self) -> JoinHandle<()> {
        let leader = self.leader;
        tokio::task::spawn_blocking(move || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while matches!(waitid(WaitId::Pid(leader), options), Err(rustix::io::Errno::INTR)) {}
        })
    }

    /// Kills the command, if it has not ended, and all its descendants; on a thread where looking for them holds up no task.
    pub(crate) async fn kill(&self) {
        let Self { leader, id } = self.clone();
        let _runtime_ends = tokio::task::spawn_blocking(move || kill(leader, &id)).await;
    }
}

fn running() -> MutexGuard<'static, BTreeMap<i32, String>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the name of this process as an engine: its number, and a suffix that distinguishes it from earlier
/// processes with this number.
fn engine() -> &'static str {
    static ENGINE: OnceLock<String> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros().to_string();
        format!("{}-{}", std::process::id(), strays::own_start().unwrap_or_else(now))
    })
}

/// Kills the group of `leader`, and the processes that left it as far as they can be found.
fn kill(leader: Pid, id: &str) {
    strays::kill(&Wanted::Command { id, leader });
    // An error means that the group is empty.
    let _already_gone = kill_process_group(leader, Signal::KILL);
}

/// Kills the commands of `run` that dead engines left behind, and those of the process `replaced`, from which the run was
/// taken. Another engine that lives keeps its own: it may work on the original of a store of which this is a copy. Blocks.
pub(crate) fn end_former(run: &RunId, replaced: Option<&str>) {
    if failpoint::is_off("exec.former") {
        return;
    }
    let began = Instant::now();
    while !strays::guards_of_the_dead().is_empty() && began.elapsed() < GUARD_PATIENCE {
        std::thread::sleep(GUARD_LOOK);
    }
    let replaced = replaced.and_then(|owner| strays::number_of(owner.rsplit(' ').next()?));
    if strays::kill(&Wanted::Run { run: run.as_str(), replaced }) {
        tracing::warn!(%run, "commands of the run's former owner were still running and have been ended");
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_just_being_started_is_killed_with_the_others() {
        let mut command = std::process::Command::new("sleep");
        command.arg("60").env(COMMAND_ID, format!("{}-0", engine()));
        let mut started = command.spawn().unwrap();
        kill_commands();
        assert!(!started.wait().unwrap().success());
    }
}
