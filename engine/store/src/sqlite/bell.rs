//! The bell: how a process learns that another one put a command into an inbox.
//!
//! SQLite tells nobody that a file changed, and asking it again and again would be polling. So whoever puts a command
//! touches the store's file, and whoever owns a run lets the system watch its attributes (`inotify`, so on Linux); reading
//! and writing a store changes its content, not its attributes. A ring is only a hint: the inbox is the truth, and one
//! that is missed costs a delay until the owner looks again. Where the system cannot watch files, only commands of the
//! same process wake.
//!
//! The file is touched by its name and never opened: closing it would drop the locks that SQLite holds on it (POSIX
//! gives locks to processes, not to descriptors).

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, Weak};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};

use super::reader::{self, Readers};
use crate::inbox::Subscribers;

/// Rings at commands of this process, and listens for those of others once somebody subscribes.
#[derive(Debug)]
pub(super) struct Bell {
    /// The store's file.
    path: PathBuf,
    subscribers: Weak<Subscribers>,
    readers: Weak<Readers>,
    listening: Once,
    closed: Arc<AtomicBool>,
}

impl Bell {
    /// The bell of the store at `path` that `readers` read, for these subscribers.
    pub(super) fn new(path: &Path, readers: &Arc<Readers>, subscribers: &Arc<Subscribers>) -> Self {
        Self {
            path: path.to_owned(),
            subscribers: Arc::downgrade(subscribers),
            readers: Arc::downgrade(readers),
            listening: Once::new(),
            closed: Arc::default(),
        }
    }

    /// Tells every process that listens that a command was put.
    pub(super) fn ring(&self) {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        // The command is durable; a process that cannot be told finds it later.
        let _unheard = utimensat(CWD, &self.path, &times, AtFlags::empty());
    }

    /// Wakes subscribers at rings, from now on. Repeating it does nothing.
    pub(super) fn listen(&self) {
        self.listening.call_once(|| {
            let (subscribers, readers) = (Weak::clone(&self.subscribers), Weak::clone(&self.readers));
            let closed = Arc::clone(&self.closed);
            let heard = move || !closed.load(Ordering::SeqCst) && look(&subscribers, &readers).is_some();
            // Without a watch, only commands of this process wake.
            let _deaf = watch::start(&self.path, heard);
        });
    }
}

/// Wakes those whose inbox has a command they were not told of; `None` once the store is closed.
fn look(subscribers: &Weak<Subscribers>, readers: &Weak<Readers>) -> Option<()> {
    let (subscribers, readers) = (subscribers.upgrade()?, readers.upgrade()?);
    for (run, announced) in subscribers.announced() {
        // An inbox that cannot be read now is read when its owner looks again, who can say so.
        let commands = readers.read_now(|file| reader::commands(file, &run, announced)).unwrap_or_default();
        if let Some((newest, _)) = commands.last() {
            subscribers.wake(&run, *newest);
        }
    }
    Some(())
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::SeqCst);
        if self.listening.is_completed() {
            // The thread waits for a ring, so that is how it learns of the end.
            self.ring();
        }
    }
}

/// Watching a file on Linux.
#[cfg(target_os = "linux")]
mod watch {
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::path::Path;

    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

    /// Room for a few events; those of a file that is watched by itself are short.
    const EVENT_BYTES: usize = 1_024;

    /// Calls `heard` at every touch of `path` from now on, on a thread of its own, until it returns false.
    pub(super) fn start(path: &Path, heard: impl Fn() -> bool + Send + 'static) -> io::Result<()> {
        let watch = inotify::init(CreateFlags::CLOEXEC)?;
        inotify::add_watch(&watch, path, WatchFlags::ATTRIB | WatchFlags::DELETE_SELF)?;
        std::thread::Builder::new().name("baton-bell".to_owned()).spawn(move || hear(&watch, heard))?;
        Ok(())
    }

    fn hear(watch: &OwnedFd, heard: impl Fn() -> bool) {
        let mut buffer = [MaybeUninit::uninit(); EVENT_BYTES];
        let mut events = inotify::Reader::new(watch, &mut buffer);
        loop {
            let gone = match events.next() {
                Ok(event) => event.events().contains(ReadFlags::IGNORED),
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => true,
            };
            if gone || !heard() {
                return;
            }
        }
    }
}

/// Elsewhere, only commands of the same process wake.
#[cfg(not(target_os = "linux"))]
mod watch {
    use std::io;
    use std::path::Path;

    /// Watches nothing.
    pub(super) fn start(_path: &Path, _heard: impl Fn() -> bool + Send + 'static) -> io::Result<()> {
        Ok(())
    }
}
