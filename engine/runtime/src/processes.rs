//! The processes of a command, and how they end: all of them, whatever they do.
//!
//! A command leads a process group of its own. When its call is stopped or takes too long, the group is asked to end
//! (`SIGTERM`) and killed soon after; when the command ends by itself, what is left of it is killed at once. On Linux that
//! reaches those who left the group (`setsid`) too: they descend from the command, or still have its `BATON_COMMAND_ID`
//! in their environment. Who has left the group, lost its ancestors *and* cleared its environment escapes, and so does
//! whoever left the group on another system. Children outlive a process that is killed itself (`kill -9`): a command
//! should end when its stdin or stdout closes. This is no sandbox.

use std::collections::BTreeMap;
use std::io;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_store::failpoint;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tempfile::TempDir;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

/// How long a command that is asked to end may take before it is killed, unless a program says otherwise.
pub(crate) const COMMAND_GRACE: Duration = Duration::from_secs(1);

/// The variable by which the descendants of one start of a command are known.
const COMMAND_ID: &str = "BATON_COMMAND_ID";

/// The commands that run in this process: the leaders of their groups, and their ids.
static RUNNING: Mutex<BTreeMap<i32, String>> = Mutex::new(BTreeMap::new());

/// Whether this process ends at once: from then on nobody learns how a command ended, for it was killed.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Kills every command that runs in this process, with its descendants: for a program that ends at once. Their calls never
/// return here; whoever resumes their runs finds them open, as after any other sudden end.
pub fn kill_commands() {
    ENDING.store(true, Ordering::SeqCst);
    let running = running().clone();
    for (leader, id) in running {
        if let Some(leader) = Pid::from_raw(leader) {
            kill(leader, &id);
        }
    }
}

/// A started command with its descendants. Dropping it asks them to end, and ends them by force soon after.
pub(crate) struct Processes {
    /// `None` once they are being ended.
    started: Option<Started>,
    endings: Endings,
}

/// How those that are dropped come to their end.
#[derive(Clone)]
pub(crate) struct Endings {
    /// Tracks it.
    pub(crate) tracker: TaskTracker,
    /// How long a command that is asked to end may take, before it is killed.
    pub(crate) grace: Duration,
}

/// A command that was started and is not reaped. Dropping it kills it with its descendants at once.
struct Started {
    group: Group,
    /// With both outputs, which stay open to its end: one that is asked to end may say a last word without dying of it.
    child: Child,
    /// Where it works; removed after its end.
    _place: TempDir,
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
    pub(crate) fn spawn(mut command: Command, place: TempDir, endings: &Endings) -> io::Result<Self> {
        // The folder is fresh, and so its name is nobody else's.
        let id = place.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        command.env(COMMAND_ID, &id).process_group(0).kill_on_drop(true);
        failpoint::pass("exec.start.before");
        let child = command.spawn()?;
        failpoint::pass("exec.start.after");
        let number = child.id().and_then(|number| i32::try_from(number).ok()).and_then(Pid::from_raw);
        let leader = number.ok_or_else(|| io::Error::other("the command has no process number"))?;
        running().insert(leader.as_raw_pid(), id.clone());
        Ok(Self { started: Some(Started { group: Group { leader, id }, child, _place: place }), endings: endings.clone() })
    }

    /// Its stdin, the first time it is asked for, its stdout and stderr.
    pub(crate) fn pipes(&mut self) -> (Option<ChildStdin>, Option<&mut ChildStdout>, Option<&mut ChildStderr>) {
        let child = &mut self.started().child;
        (child.stdin.take(), child.stdout.as_mut(), child.stderr.as_mut())
    }

    /// All of it, as the system knows it.
    pub(crate) fn group(&mut self) -> Group {
        self.started().group.clone()
    }

    /// Kills what is left, and says how the command ended.
    pub(crate) async fn end(mut self) -> io::Result<ExitStatus> {
        failpoint::pass("exec.reap.before");
        self.group().kill().await;
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
        // Without a runtime nobody could wait: then it is killed where it is dropped.
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
        // An error means that nobody is left in the group.
        let _already_gone = kill_process_group(self.group.leader, Signal::TERM);
        let _exited = tokio::time::timeout(grace, self.group.exit()).await;
        self.group.kill().await;
        // One that cannot be reaped leaves nothing to do.
        let _status = self.child.wait().await;
        self.forget();
    }

    /// It is reaped: its number may be another's from now on.
    fn forget(self) {
        running().remove(&self.group.leader.as_raw_pid());
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if running().remove(&self.group.leader.as_raw_pid()).is_some() {
            kill(self.group.leader, &self.group.id);
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

/// Kills the group of `leader`, and whoever left it as far as they can be found.
fn kill(leader: Pid, id: &str) {
    strays::kill(leader, id);
    // An error means that nobody is left in the group.
    let _already_gone = kill_process_group(leader, Signal::KILL);
}

/// Descendants that left the group, by what the kernel tells of them.
#[cfg(target_os = "linux")]
mod strays {
    use std::collections::{BTreeMap, BTreeSet};

    use rustix::process::{Pid, Signal, kill_process};

    use super::COMMAND_ID;

    /// How often they are looked for: each time only those are found who were started while the others were killed.
    const ROUNDS: usize = 16;

    /// Kills the descendants of `leader`, and all who have `id` in their environment.
    pub(super) fn kill(leader: Pid, id: &str) {
        let mark = format!("{COMMAND_ID}={id}");
        for _ in 0..ROUNDS {
            let found = find(leader.as_raw_pid(), mark.as_bytes());
            if found.is_empty() {
                return;
            }
            for process in found.into_iter().filter_map(Pid::from_raw) {
                // It may have ended meanwhile.
                let _gone = kill_process(process, Signal::KILL);
            }
        }
    }

    fn find(leader: i32, mark: &[u8]) -> BTreeSet<i32> {
        let own = i32::try_from(std::process::id()).unwrap_or_default();
        let (mut callers, mut found) = (BTreeMap::new(), BTreeSet::new());
        let listed = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        for process in listed.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
            let Some(caller) = caller_of_living(process).filter(|_| process != own) else { continue };
            callers.insert(process, caller);
            // What belongs to somebody else cannot be read, and is not ours.
            let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
            if environment.split(|byte| *byte == 0).any(|variable| variable == mark) {
                found.insert(process);
            }
        }
        let mut grown = true;
        while grown {
            let below = callers.iter().filter(|(_, caller)| **caller == leader || found.contains(*caller));
            let more: Vec<i32> = below.map(|(process, _)| *process).filter(|process| !found.contains(process)).collect();
            grown = !more.is_empty();
            found.extend(more);
        }
        found
    }

    /// The process that `process` was started by or came to; `None` if it has ended.
    fn caller_of_living(process: i32) -> Option<i32> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name in the second field may hold anything, brackets and spaces too.
        let mut fields = stat.rsplit(") ").next()?.split(' ');
        let state = fields.next()?;
        if matches!(state, "Z" | "X") { None } else { fields.next()?.parse().ok() }
    }
}

/// Elsewhere nobody tells whose descendant a process is.
#[cfg(not(target_os = "linux"))]
mod strays {
    use rustix::process::Pid;

    /// Kills nobody.
    pub(super) fn kill(_leader: Pid, _id: &str) {}
}
