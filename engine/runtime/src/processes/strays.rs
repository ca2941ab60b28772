//! Processes of commands by what `/proc` shows: those that left their group, and those that outlived their engine.
//!
//! Other systems do not show whose descendant a process is, so there this finds nothing.

use rustix::process::Pid;

use super::{CALL_ID, COMMAND_ID, GUARD_OF};

/// Which processes are to be killed.
pub(super) enum Wanted<'a> {
    /// Processes of the command with this id, and the descendants of its leader.
    Command { id: &'a str, leader: Pid },
    /// Processes of any command of this engine, and the descendants of these leaders.
    Engine { engine: &'a str, leaders: Vec<Pid> },
    /// Processes of commands of this run, unless a living engine other than process `replaced` has them.
    Run { run: &'a str, replaced: Option<i32> },
}

impl Wanted<'_> {
    pub(super) fn leaders(&self) -> &[Pid] {
        match self {
            Self::Command { leader, .. } => std::slice::from_ref(leader),
            Self::Engine { leaders, .. } => leaders,
            Self::Run { .. } => &[],
        }
    }

    /// Whether a process with this environment is wanted.
    fn takes(&self, environment: &Environment) -> bool {
        let Some(id) = environment.get(COMMAND_ID) else { return false };
        match self {
            Self::Command { id: wanted, .. } => id == *wanted,
            Self::Engine { engine, .. } => engine_of(id) == *engine,
            Self::Run { run, replaced } => {
                let call = environment.get(CALL_ID).and_then(|call| call.strip_prefix(run));
                let engine = engine_of(id);
                let is_replaced = replaced.is_some() && number_of(engine) == *replaced;
                call.is_some_and(|call| call.starts_with('/')) && (is_replaced || !is_living(engine))
            }
        }
    }
}

/// Returns the engine that gave this id to a command.
fn engine_of(id: &str) -> &str {
    id.rsplit_once('-').map_or(id, |(engine, _)| engine)
}

/// Returns the process number in an engine's name.
pub(super) fn number_of(engine: &str) -> Option<i32> {
    engine.split('-').next()?.parse().ok()
}

/// The environment that a process was started with.
struct Environment(Vec<u8>);

impl Environment {
    fn get(&self, name: &str) -> Option<&str> {
        let of_name = |variable| str::from_utf8(variable).ok()?.strip_prefix(name)?.strip_prefix('=');
        self.0.split(|byte| *byte == 0).find_map(of_name)
    }
}

#[cfg(target_os = "linux")]
pub(super) use linux::{guards_of_the_dead, is_living, kill, own_start};

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, kill_process};

    use super::{Environment, GUARD_OF, Wanted, number_of};

    /// Longest search. Each round finds only processes that were started while the others were killed, or that have
    /// not died yet.
    const PATIENCE: Duration = Duration::from_secs(5);
    /// Number of rounds without a pause, and the pause before each further one.
    const QUICK_LOOKS: usize = 4;
    const PAUSE: Duration = Duration::from_millis(1);

    /// Kills what is wanted; returns whether there was anything.
    pub(in super::super) fn kill(wanted: &Wanted<'_>) -> bool {
        let began = Instant::now();
        let mut looks = 0;
        while began.elapsed() < PATIENCE {
            let found = find(wanted);
            if found.is_empty() {
                return looks > 0;
            }
            looks += 1;
            if looks > QUICK_LOOKS {
                std::thread::sleep(PAUSE);
            }
            for process in found.into_iter().filter_map(Pid::from_raw) {
                // It may have ended meanwhile.
                let _gone = kill_process(process, Signal::KILL);
            }
        }
        true
    }

    fn find(wanted: &Wanted<'_>) -> BTreeSet<i32> {
        let own = i32::try_from(std::process::id()).unwrap_or_default();
        let (mut callers, mut found) = (BTreeMap::new(), BTreeSet::new());
        for process in processes().filter(|process| *process != own) {
            let Some(caller) = stat(process).map(|stat| stat.caller) else { continue };
            let environment = environment(process);
            // The guard of another engine ends by itself, once it has ended that engine's commands.
            if environment.get(GUARD_OF).is_some() {
                continue;
            }
            callers.insert(process, caller);
            if wanted.takes(&environment) {
                found.insert(process);
            }
        }
        let leaders: BTreeSet<i32> = wanted.leaders().iter().map(|leader| leader.as_raw_pid()).collect();
        let mut grown = true;
        while grown {
            let below = callers.iter().filter(|(_, caller)| leaders.contains(*caller) || found.contains(*caller));
            let more: Vec<i32> = below.map(|(process, _)| *process).filter(|process| !found.contains(process)).collect();
            grown = !more.is_empty();
            found.extend(more);
        }
        found
    }

    /// The guards whose engine is gone: they are ending its commands.
    pub(in super::super) fn guards_of_the_dead() -> Vec<i32> {
        let is_one = |process: &i32| {
            stat(*process).is_some() && environment(*process).get(GUARD_OF).is_some_and(|engine| !is_living(engine))
        };
        processes().filter(is_one).collect()
    }

    /// Whether the process that has the name `engine` runs.
    pub(in super::super) fn is_living(engine: &str) -> bool {
        let Some((number, start)) = number_of(engine).zip(engine.split('-').nth(1)) else { return false };
        stat(number).is_some_and(|stat| stat.start == start)
    }

    /// When this process was started, in a form that no other process of the same number has.
    pub(in super::super) fn own_start() -> Option<String> {
        stat(i32::try_from(std::process::id()).ok()?).map(|stat| stat.start)
    }

    fn processes() -> impl Iterator<Item = i32> {
        let listed = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
    }

    /// Returns the environment of a process. Empty for a process of another user: its environment cannot be read, and
    /// it is not ours.
    fn environment(process: i32) -> Environment {
        Environment(std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default())
    }

    struct Stat {
        /// The process that started it, or that it came to.
        caller: i32,
        start: String,
    }

    /// `None` if the process has ended.
    fn stat(process: i32) -> Option<Stat> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name in the second field may hold anything, brackets and spaces too.
        let fields: Vec<&str> = stat.rsplit(") ").next()?.split(' ').collect();
        let [state, caller, ..] = fields[..] else { return None };
        let (start, memory) = ((*fields.get(19)?).to_owned(), *fields.get(20)?);
        // A process that exits has no memory any more before it closes its files, and so before anybody can see it is gone.
        if matches!(state, "Z" | "X") || memory == "0" { None } else { Some(Stat { caller: caller.parse().ok()?, start }) }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::{guards_of_the_dead, is_living, kill, own_start};

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use rustix::process::{Pid, test_kill_process};

    use super::{Wanted, number_of};

    pub(in super::super) fn kill(_wanted: &Wanted<'_>) -> bool {
        false
    }

    pub(in super::super) fn guards_of_the_dead() -> Vec<i32> {
        Vec::new()
    }

    pub(in super::super) fn is_living(engine: &str) -> bool {
        number_of(engine).and_then(Pid::from_raw).is_some_and(|process| test_kill_process(process).is_ok())
    }

    pub(in super::super) fn own_start() -> Option<String> {
        None
    }
}
