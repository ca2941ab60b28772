//! The bell: how the owner of a run hears of a command that another process put into the run's inbox, and how others see
//! whether an owner is still there.
//!
//! SQLite tells nobody that a file changed, and asking it again and again would be polling. So an opening that owns runs
//! listens at a socket of its own (a Unix datagram socket), in a folder beside the store's file; whoever puts a command
//! sends the run's name to all of them. A ring is only a hint: the inbox is the truth, and a ring that is lost costs a
//! delay until the owner looks again, which it does whenever it wakes.
//!
//! A file beside the socket is the sign of life: its process has a lock on it, which the system ends with the process. A
//! process that is stopped (`SIGSTOP`) still has its own. The socket alone is no such sign: a child that was just forked holds
//! it until it executes its command, and may outlive a process that is killed at that moment. The lock is one of the
//! process (`fcntl`), which no child inherits. Names are never used twice, so the files of a dead process are removed by
//! whoever finds them. Where none can be made, nobody hears, and whether the owner is there cannot be told; the epoch
//! keeps two owners apart all the same.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use baton_types::id::RunId;
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Flock, FlockType, fcntl_getlk};

use super::reader::{self, Readers};
use crate::inbox::Subscribers;

/// The longest path that every Unix takes as a socket's address: `sun_path` has 104 bytes on BSD and macOS, 108 on Linux.
const ADDRESS_BYTES: usize = 100;
/// The longest name of a run that is rung for; a longer one is found when its owner wakes.
const RING_BYTES: usize = 256;
/// How long a ring waits for a listener whose queue is full, which happens when its process is stopped.
const RING_PATIENCE: Duration = Duration::from_millis(50);
/// How often a socket is tried to be made, should its name be taken or its folder be removed meanwhile.
const ATTEMPTS: usize = 8;
/// What stands before an owner's name where people read it.
const OWNER: &str = "process ";
/// How the names of sockets, and of files that are signs of life, end.
const SOCKET: &str = ".sock";
const LIFE: &str = ".life";

/// The names that openings in this process listen by. A process cannot see its own locks, and would lose one by opening
/// and closing its file.
static OWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn own() -> MutexGuard<'static, BTreeSet<String>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens for the runs of one opening of a store, once somebody asks for it.
#[derive(Debug)]
pub(super) struct Bell {
    /// Where the sockets of all who own runs of this store are.
    folder: PathBuf,
    subscribers: Weak<Subscribers>,
    readers: Weak<Readers>,
    /// The name that this opening listens by; `None` where no socket can be made.
    name: OnceLock<Option<Listening>>,
    closed: Arc<AtomicBool>,
}

/// What an opening that listens has.
#[derive(Debug)]
struct Listening {
    name: String,
    /// Locked until the process ends or this is dropped.
    _life: File,
}

impl Bell {
    /// The bell of the store at `path` that `readers` read, for these subscribers.
    pub(super) fn new(path: &Path, readers: &Arc<Readers>, subscribers: &Arc<Subscribers>) -> Self {
        let mut folder = path.as_os_str().to_owned();
        folder.push("-owners");
        Self {
            folder: PathBuf::from(folder),
            subscribers: Arc::downgrade(subscribers),
            readers: Arc::downgrade(readers),
            name: OnceLock::new(),
            closed: Arc::default(),
        }
    }

    /// Where all who listen have their sockets.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Listens from now on, and says by which name; repeating it only says it again.
    pub(super) fn listen(&self) -> Option<&str> {
        let start = || self.start().inspect_err(|_deaf| self.remove_folder()).ok();
        self.name.get_or_init(start).as_ref().map(|listening| listening.name.as_str())
    }

    fn start(&self) -> io::Result<Listening> {
        let (listening, socket) = self.bind()?;
        let (subscribers, readers) = (Weak::clone(&self.subscribers), Weak::clone(&self.readers));
        let closed = Arc::clone(&self.closed);
        let hear = move || {
            let mut ring = [0; RING_BYTES];
            loop {
                let run = match socket.recv(&mut ring) {
                    Ok(length) => std::str::from_utf8(&ring[..length]).map(RunId::new),
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(_) => return,
                };
                let heard = run.map_or(Some(()), |run| look(&run, &subscribers, &readers));
                if closed.load(Ordering::SeqCst) || heard.is_none() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("baton-bell".to_owned()).spawn(hear)?;
        own().insert(listening.name.clone());
        Ok(listening)
    }

    /// Makes a socket and a sign of life under a name that was never used before.
    fn bind(&self) -> io::Result<(Listening, UnixDatagram)> {
        let mut attempts = 0..ATTEMPTS;
        loop {
            baton_files::private::make_folder(&self.folder)?;
            let name = format!("{}-{:08x}", std::process::id(), random() >> 32);
            // Whoever finds the socket finds the lock, so that one is taken first.
            let made = lock_life(&self.folder.join(life_file(&name))).and_then(|life| {
                let socket = at_address(&self.folder, &socket_file(&name), |address| UnixDatagram::bind(address))?;
                Ok((life, socket))
            });
            match made {
                Ok((life, socket)) => return Ok((Listening { name, _life: life }, socket)),
                // The last of the others has closed and removed the folder, or the name is taken.
                Err(error) => {
                    remove_files(&self.folder, &name);
                    if attempts.next().is_none() || !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AddrInUse) {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Fails, and changes nothing, while others listen.
    fn remove_folder(&self) {
        let _others_listen = std::fs::remove_dir(&self.folder);
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let Some(Some(Listening { name, .. })) = self.name.get() else { return };
        self.closed.store(true, Ordering::SeqCst);
        // The thread waits for a ring, so that is how it learns of the end.
        let _gone = send(&self.folder, &socket_file(name), "");
        remove_files(&self.folder, name);
        own().remove(name);
        self.remove_folder();
    }
}

/// The name of an owner as people read it.
pub(super) fn owner(name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{OWNER}{name}"),
        // Without a socket nobody can tell whether it lives, and a name without a dash says so.
        None => format!("{OWNER}{}", std::process::id()),
    }
}

/// Tells all who listen in `folder` that a command for `run` was put.
pub(super) fn ring(folder: &Path, run: &RunId) {
    // No folder: nobody listens.
    let listening = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sockets = listening.map(|entry| entry.file_name()).filter(|file| file.to_string_lossy().ends_with(SOCKET));
    for file in sockets {
        // The command is durable; a process that cannot be told finds it later.
        let _unheard = send(folder, &file, run.as_str());
    }
}

/// Whether the owner of this name is there; `None` where that cannot be told.
pub(super) fn is_there(folder: &Path, owner: &str) -> Option<bool> {
    let name = owner.strip_prefix(OWNER).filter(|name| name.contains('-'))?;
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return None;
    }
    if own().contains(name) {
        return Some(true);
    }
    match File::open(folder.join(life_file(name))) {
        Ok(life) => {
            let is_locked = fcntl_getlk(&life, &Flock::from(FlockType::WriteLock)).ok()?.is_some();
            if !is_locked {
                remove_files(folder, name);
            }
            Some(is_locked)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Some(false),
        Err(_) => None,
    }
}

/// Makes the file that is a sign of life, and locks it before anybody can look at it under this name.
fn lock_life(path: &Path) -> io::Result<File> {
    let unlocked = path.with_extension("new");
    let life = baton_files::private::options().write(true).create_new(true).open(&unlocked)?;
    fcntl_lock(&life, FlockOperation::NonBlockingLockExclusive)?;
    std::fs::rename(unlocked, path)?;
    Ok(life)
}

/// Removes what an opening of this name left.
fn remove_files(folder: &Path, name: &str) {
    for file in [socket_file(name), life_file(name)] {
        let _somebody_else_did = std::fs::remove_file(folder.join(file));
    }
}

fn send(folder: &Path, file: &OsString, text: &str) -> io::Result<()> {
    let sent = at_address(folder, file, |address| {
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(RING_PATIENCE))?;
        socket.send_to(text.as_bytes(), address)
    });
    sent.map(drop).inspect_err(|error| {
        // Nobody can be reached there any more.
        let name = file.to_str().and_then(|file| file.strip_suffix(SOCKET));
        if let (ErrorKind::ConnectionRefused, Some(name)) = (error.kind(), name) {
            remove_files(folder, name);
        }
    })
}

fn socket_file(name: &str) -> OsString {
    format!("{name}{SOCKET}").into()
}

fn life_file(name: &str) -> OsString {
    format!("{name}{LIFE}").into()
}

/// Gives `with` an address of the socket `file` in `folder`. Where the path is too long for one, a link with a short name
/// stands for the folder meanwhile.
fn at_address<T>(folder: &Path, file: &OsString, with: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let address = folder.join(file);
    if address.as_os_str().len() <= ADDRESS_BYTES {
        return with(&address);
    }
    let link = std::env::temp_dir().join(format!("baton-{:016x}", random()));
    std::os::unix::fs::symlink(std::path::absolute(folder)?, &link)?;
    let answer = with(&link.join(file));
    let _left_behind = std::fs::remove_file(&link);
    answer
}

/// A number that nobody else has.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Wakes those who wait for commands of `run`, if there is one they were not told of; `None` once the store is closed.
fn look(run: &RunId, subscribers: &Weak<Subscribers>, readers: &Weak<Readers>) -> Option<()> {
    let (subscribers, readers) = (subscribers.upgrade()?, readers.upgrade()?);
    if let Some(announced) = subscribers.announced(run) {
        // An inbox that cannot be read now is read when its owner looks again, who can say so.
        let commands = readers.read_now(|file| reader::commands(file, run, announced)).unwrap_or_default();
        if let Some((newest, _)) = commands.last() {
            subscribers.wake(run, *newest);
        }
    }
    Some(())
}
