//! The notifier: wakes the owner of a run when another process put a command into the run's inbox, and reports whether
//! an owner is alive.
//!
//! SQLite sends no notification when its file changes, and repeated queries would be polling. So an opening that owns
//! runs listens on a socket of its own (a Unix datagram socket), in a folder beside the store's file. A process that
//! puts a command sends the run's name to all these sockets. A notification is only a hint: the inbox is the truth. A
//! lost notification delays the command until the owner reads its inbox again, which it does whenever it wakes.
//!
//! A locked file beside the socket shows that its process is alive. The system releases the lock when the process
//! ends. A stopped process (`SIGSTOP`) keeps its lock. The socket alone is no proof: a forked child holds it until it
//! executes its command, and may outlive a process that is killed at that moment. The lock belongs to the process
//! (`fcntl`), so a child does not inherit it. Names are never reused, so any process may remove the files of a dead
//! one. If the files cannot be created, notifications are lost and the state of the owner is unknown. The epoch keeps
//! two owners apart even then.

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

/// Longest path that every Unix accepts as a socket's address: `sun_path` has 104 bytes on BSD and macOS, 108 on Linux.
const ADDRESS_BYTES: usize = 100;
/// Longest name of a run in a notification. Commands for longer names are found when the owner wakes.
const MESSAGE_BYTES: usize = 256;
/// Longest time that a notification waits for a listener whose queue is full, as that of a stopped process.
const SEND_TIMEOUT: Duration = Duration::from_millis(50);
/// Number of attempts to create a socket while names are taken or the folder is removed.
const ATTEMPTS: usize = 8;
/// Prefix of an owner's name where people read it.
const OWNER: &str = "process ";
/// Suffix of sockets. [`LIFE`] is that of lock files.
const SOCKET: &str = ".sock";
const LIFE: &str = ".life";

/// Names under which openings in this process listen. A process cannot see its own locks, and would lose one by opening
/// and closing its file.
static OWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn own() -> MutexGuard<'static, BTreeSet<String>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens for the runs of one opening of a store, from the first call of [`Notifier::listen`].
#[derive(Debug)]
pub(super) struct Notifier {
    /// Folder with the sockets of all owners of runs in this store.
    folder: PathBuf,
    subscribers: Weak<Subscribers>,
    readers: Weak<Readers>,
    /// The name that this opening listens by; `None` where no socket can be made.
    name: OnceLock<Option<Listening>>,
    closed: Arc<AtomicBool>,
}

/// Socket name and lock of an opening that listens.
#[derive(Debug)]
struct Listening {
    name: String,
    /// Locked until the process ends or this is dropped.
    _life: File,
}

impl Notifier {
    /// Returns the notifier of the store at `path`, for these readers and subscribers.
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

    /// Returns the folder with all sockets.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Listens from now on and returns the name of the socket. Further calls return the same name.
    pub(super) fn listen(&self) -> Option<&str> {
        let start = || self.start().inspect_err(|_error| self.remove_folder()).ok();
        self.name.get_or_init(start).as_ref().map(|listening| listening.name.as_str())
    }

    fn start(&self) -> io::Result<Listening> {
        let (listening, socket) = self.bind()?;
        let (subscribers, readers) = (Weak::clone(&self.subscribers), Weak::clone(&self.readers));
        let closed = Arc::clone(&self.closed);
        let listen = move || {
            let mut message = [0; MESSAGE_BYTES];
            loop {
                let run = match socket.recv(&mut message) {
                    Ok(length) => std::str::from_utf8(&message[..length]).map(RunId::new),
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(_) => return,
                };
                let open = run.map_or(Some(()), |run| announce(&run, &subscribers, &readers));
                if closed.load(Ordering::SeqCst) || open.is_none() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("baton-notifier".to_owned()).spawn(listen)?;
        own().insert(listening.name.clone());
        Ok(listening)
    }

    /// Creates a socket and a locked file under a name that was never used before.
    fn bind(&self) -> io::Result<(Listening, UnixDatagram)> {
        let mut attempts = 0..ATTEMPTS;
        loop {
            baton_files::private::make_folder(&self.folder)?;
            let name = format!("{}-{:08x}", std::process::id(), random() >> 32);
            // A process that finds the socket expects the lock, so the lock is taken first.
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

impl Drop for Notifier {
    fn drop(&mut self) {
        let Some(Some(Listening { name, .. })) = self.name.get() else { return };
        self.closed.store(true, Ordering::SeqCst);
        // The thread waits for a message, so one wakes it to end.
        let _gone = send(&self.folder, &socket_file(name), "");
        remove_files(&self.folder, name);
        own().remove(name);
        self.remove_folder();
    }
}

/// Returns the name of an owner as people read it.
pub(super) fn owner(name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{OWNER}{name}"),
        // Without a socket its state is unknown. A name without a dash marks that.
        None => format!("{OWNER}{}", std::process::id()),
    }
}

/// Returns the name of an owner in another store, as the name of an owner that is not alive in this one.
pub(super) fn dead_owner(owner: &str) -> String {
    let name = owner.strip_prefix(OWNER).unwrap_or(owner);
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    // A name without a dash would be that of an owner whose state is unknown.
    format!("{OWNER}{}{name}", if name.contains('-') { "" } else { "copied-" })
}

/// Notifies all listeners in `folder` of a command for `run`.
pub(super) fn notify(folder: &Path, run: &RunId) {
    // Without the folder there is no listener.
    let listening = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sockets = listening.map(|entry| entry.file_name()).filter(|file| file.to_string_lossy().ends_with(SOCKET));
    for file in sockets {
        // The command is durable; a process that cannot be reached finds it later.
        let _unreachable = send(folder, &file, run.as_str());
    }
}

/// Whether the owner of this name is alive; `None` if that is unknown.
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

/// Creates the lock file, and locks it before it is visible under this name.
fn lock_life(path: &Path) -> io::Result<File> {
    let unlocked = path.with_extension("new");
    let life = baton_files::private::options().write(true).create_new(true).open(&unlocked)?;
    fcntl_lock(&life, FlockOperation::NonBlockingLockExclusive)?;
    std::fs::rename(unlocked, path)?;
    Ok(life)
}

/// Removes the files of an opening of this name.
fn remove_files(folder: &Path, name: &str) {
    for file in [socket_file(name), life_file(name)] {
        let _somebody_else_did = std::fs::remove_file(folder.join(file));
    }
}

fn send(folder: &Path, file: &OsString, text: &str) -> io::Result<()> {
    let sent = at_address(folder, file, |address| {
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(SEND_TIMEOUT))?;
        socket.send_to(text.as_bytes(), address)
    });
    sent.map(drop).inspect_err(|error| {
        // The process behind this socket is gone.
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

/// Calls `with` with an address of the socket `file` in `folder`. If the path is too long for an address, a temporary
/// link with a short name replaces the folder.
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

/// Returns a random number.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Wakes the subscribers of `run` if there is a command that was not announced to them. Returns `None` once the store
/// is closed.
fn announce(run: &RunId, subscribers: &Weak<Subscribers>, readers: &Weak<Readers>) -> Option<()> {
    let (subscribers, readers) = (subscribers.upgrade()?, readers.upgrade()?);
    subscribers.wake_all();
    if let Some(announced) = subscribers.announced(run) {
        // An inbox that cannot be read now is read again by its owner, who can report the error.
        let commands = readers.read_now(|file| reader::commands(file, run, announced)).unwrap_or_default();
        if let Some((newest, _)) = commands.last() {
            subscribers.wake(run, *newest);
        }
    }
    Some(())
}
