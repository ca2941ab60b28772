//! The folders that commands work in, each below one folder of their engine's process.
//!
//! That folder holds the file `owner`, on which the process has a lock. The lock is one of the process (`fcntl`), not of an
//! open file (`flock`): no child inherits it, so it is gone with the process. A folder whose lock is free belongs to
//! a process that died; the next one to start removes it.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Flock, FlockType, fcntl_getlk, geteuid};
use tempfile::TempDir;

use super::{engine, strays};

/// Prefix of the names of these folders.
const PREFIX: &str = "baton-exec-";
/// File whose lock shows that the folder's process is alive.
const OWNER: &str = "owner";
/// Number of attempts to create a folder while another process removes it as abandoned.
const ATTEMPTS: usize = 5;

/// The folder of this process, while a command has a folder in it.
static PRESENT: Mutex<Weak<Process>> = Mutex::new(Weak::new());

/// Whether abandoned folders were looked for.
static LOOKED: AtomicBool = AtomicBool::new(false);

/// A folder for one command. Dropping it removes it.
pub(crate) struct Scratch {
    folder: TempDir,
    /// Dropped after the folder in it.
    _process: Arc<Process>,
}

/// The folder of a process.
struct Process {
    folder: TempDir,
    /// Opened once: closing any opening of the file ends the lock.
    _owner: File,
}

impl Scratch {
    /// Makes a folder that only this user can read.
    pub(crate) fn new() -> io::Result<Self> {
        let mut present = PRESENT.lock().unwrap_or_else(PoisonError::into_inner);
        let process = match present.upgrade() {
            Some(process) => process,
            None => Arc::new(Process::new()?),
        };
        *present = Arc::downgrade(&process);
        let folder = private("call-").tempdir_in(process.folder.path())?;
        Ok(Self { folder, _process: process })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Process {
    fn new() -> io::Result<Self> {
        let mut attempts = 1..ATTEMPTS;
        loop {
            match Self::try_new() {
                Err(error) if error.kind() == io::ErrorKind::NotFound && attempts.next().is_some() => {}
                made => return made,
            }
        }
    }

    fn try_new() -> io::Result<Self> {
        let prefix = format!("{PREFIX}{}-", engine());
        let folder = private(&prefix).tempdir()?;
        // The file gets its name once it is locked. An unlocked file with this name means that its process died.
        let unnamed = folder.path().join("new");
        let owner = File::create_new(&unnamed)?;
        fcntl_lock(&owner, FlockOperation::NonBlockingLockExclusive)?;
        std::fs::rename(unnamed, folder.path().join(OWNER))?;
        Ok(Self { folder, _owner: owner })
    }
}

fn private(prefix: &str) -> tempfile::Builder<'_, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix).permissions(Permissions::from_mode(0o700));
    builder
}

/// Removes the folders that commands of dead processes left behind. Only the first call of a process does something.
pub(crate) async fn remove_abandoned() {
    if !LOOKED.swap(true, Ordering::Relaxed) {
        let _runtime_ends = tokio::task::spawn_blocking(look_for_abandoned).await;
    }
}

/// Looks through the folder for temporary files.
fn look_for_abandoned() {
    let listed = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    for entry in listed {
        let name = entry.file_name();
        let Some(owner) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        // Without a link being followed: the folder for temporary files belongs to everybody.
        let is_own = entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == geteuid().as_raw());
        if is_own && is_abandoned(&entry.path(), owner) {
            let _somebody_else_did = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether the process that made `folder`, by the name in it, is gone.
fn is_abandoned(folder: &Path, owner: &str) -> bool {
    if owner.starts_with(&format!("{}-", engine())) {
        return false;
    }
    match File::open(folder.join(OWNER)) {
        Ok(owner) => matches!(fcntl_getlk(&owner, &Flock::from(FlockType::WriteLock)), Ok(None)),
        // It was just made, or its process died at that moment. A name of another form is not ours.
        Err(error) if error.kind() == io::ErrorKind::NotFound => strays::number_of(owner).is_some() && !strays::is_living(owner),
        Err(_) => false,
    }
}
