//! Failpoints: named places where a process can be made to die, so that a crash can be tried at each of them.
//!
//! The engine passes a failpoint before and after each durable step: each commit of the store, each request to a
//! model, each call. Tools may pass failpoints of their own. Without the feature `failpoints` a program has none of
//! this: [`pass`] is empty. With it, these environment variables apply. They are read once:
//!
//! - `BATON_FAILPOINT_LOG=FILE` appends a line for every pass: its name, the microseconds since 1970, the place.
//! - `BATON_FAILPOINT_KILL=NAME` ends the process at that pass with SIGKILL: nothing is flushed or dropped.
//! - `BATON_FAILPOINT_STOP=NAME` stops it there with SIGSTOP until it gets SIGCONT.
//! - `BATON_FAILPOINT_WITHOUT=GUARD,…` switches safeguards off, so that a test can show that it notices their absence.
//!
//! The name of a pass at a place of the store is `w` and its number among such passes of this process, from 1. The name of
//! any other pass is `e` and its number among the others. The two kinds are counted separately, so writes keep their names
//! when calls come in another order.
//!
//! `cargo xtask crash` reads the places from the log of one run and then kills other runs at each of them. What a failpoint
//! does *not* imitate is a loss of power: what the process gave to the system survives it.

#[cfg(feature = "failpoints")]
pub use active::{is_off, pass};

/// Names the file that passes are appended to.
pub const ENV_LOG: &str = "BATON_FAILPOINT_LOG";
/// Variable that names the pass at which the process is killed.
pub const ENV_KILL: &str = "BATON_FAILPOINT_KILL";
/// Variable that names the pass at which the process is stopped.
pub const ENV_STOP: &str = "BATON_FAILPOINT_STOP";

/// Names the safeguards that the process goes without.
pub const ENV_WITHOUT: &str = "BATON_FAILPOINT_WITHOUT";

/// Whether the environment switches this safeguard off. Without the feature `failpoints`, as here, nothing can.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub const fn is_off(_safeguard: &str) -> bool {
    false
}

/// Passes `place`. Without the feature `failpoints`, as here, nothing happens.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub const fn pass(_place: &'static str) {}

#[cfg(feature = "failpoints")]
mod active {
    use std::fs::File;
    use std::io::Write;
    use std::sync::{LazyLock, Mutex, PoisonError};
    use std::time::{Duration, SystemTime};

    use rustix::process::{Signal, getpid, kill_process};

    use super::{ENV_KILL, ENV_LOG, ENV_STOP, ENV_WITHOUT};

    /// Longest time until all threads of a stopped process have stopped.
    const STOPS_WITHIN: Duration = Duration::from_millis(300);

    /// Settings from the environment, and the number of failpoints passed so far.
    struct Asked {
        log: Option<File>,
        kill: Option<String>,
        stop: Option<String>,
        writes: u64,
        others: u64,
    }

    /// One lock for number and line, so that the log is in the order of the numbers.
    static ASKED: LazyLock<Mutex<Asked>> = LazyLock::new(|| Mutex::new(Asked::from_environment()));

    impl Asked {
        fn from_environment() -> Self {
            let log = std::env::var_os(ENV_LOG).map(|path| {
                let opened = File::options().create(true).append(true).open(&path);
                opened.unwrap_or_else(|error| panic!("{ENV_LOG} {} cannot be written: {error}", path.display()))
            });
            Self { log, kill: std::env::var(ENV_KILL).ok(), stop: std::env::var(ENV_STOP).ok(), writes: 0, others: 0 }
        }
    }

    /// Whether the environment switches this safeguard off.
    pub fn is_off(safeguard: &str) -> bool {
        std::env::var(ENV_WITHOUT).is_ok_and(|named| named.split(',').any(|name| name == safeguard))
    }

    /// Passes `place`: counts it, writes it down, and dies or stops here if that was asked for.
    pub fn pass(place: &'static str) {
        let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
        let name = if place.starts_with("store.") {
            asked.writes += 1;
            format!("w{}", asked.writes)
        } else {
            asked.others += 1;
            format!("e{}", asked.others)
        };
        if let Some(log) = &mut asked.log {
            let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_micros());
            // One write per line: what is written before the process dies is there afterwards.
            let line = format!("{name} {now} {place}\n");
            log.write_all(line.as_bytes()).unwrap_or_else(|error| panic!("the log of failpoints cannot be written: {error}"));
        }
        let signal = match Some(&name) {
            wanted if asked.kill.as_ref() == wanted => Signal::KILL,
            wanted if asked.stop.as_ref() == wanted => Signal::STOP,
            _ => return,
        };
        // No other thread passes a failpoint meanwhile: the lock is held.
        kill_process(getpid(), signal).unwrap_or_else(|error| panic!("the process cannot end itself: {error}"));
        if signal == Signal::STOP {
            // Another thread may get the signal, which stops this one only later. This thread must not continue until
            // then.
            std::thread::sleep(STOPS_WITHIN);
        }
    }
}
