//! A watched folder: what was done to its files, in order, and where doing it fails.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rusqlite::ffi;

use crate::vfs;

/// Something that was done to a file of the folder, and that a loss of power may undo until the file is synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The file came into being, empty.
    Create {
        /// Its name.
        file: String,
    },
    /// Bytes were written.
    Write {
        /// The file's name.
        file: String,
        /// Position in the file.
        offset: u64,
        /// Written bytes.
        bytes: Vec<u8>,
    },
    /// The file was cut or grown.
    Truncate {
        /// Its name.
        file: String,
        /// Its length since.
        size: u64,
    },
    /// All that was done to the file before is durable.
    Sync {
        /// Its name.
        file: String,
        /// Whether the folder was synced with it: what files there are in it is durable then, not what is in them.
        folder: bool,
    },
    /// The file is gone.
    Delete {
        /// Its name.
        file: String,
        /// Whether its folder was synced too, so that it does not come back.
        durable: bool,
    },
}

/// Error of a failing operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An error of the device, by any operation.
    Io,
    /// No room, by writes only: the other operations need none.
    Full,
}

/// A planned failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The operation that fails, counted from 1 since the disk was watched. One that cannot fail so is passed over.
    pub at: u64,
    /// The failure.
    pub failure: Failure,
    /// Whether all later ones fail too.
    pub lasting: bool,
}

/// A folder whose files are watched, as far as SQLite opens them after this was made.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    log: Vec<Operation>,
    operations: u64,
    fault: Option<Fault>,
    failed: u64,
}

/// All folders that are watched.
static WATCHED: Mutex<Vec<Weak<Disk>>> = Mutex::new(Vec::new());

impl Disk {
    /// Watches the files of `folder`, which exists.
    pub fn watch(folder: &Path) -> std::io::Result<Arc<Self>> {
        vfs::install();
        let disk = Arc::new(Self { folder: folder.canonicalize()?, state: Mutex::default() });
        let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|disk| disk.strong_count() > 0);
        watched.push(Arc::downgrade(&disk));
        Ok(disk)
    }

    /// Takes the log of all operations so far.
    pub fn take_log(&self) -> Vec<Operation> {
        std::mem::take(&mut self.lock().log)
    }

    /// Returns the number of entries in the log.
    pub fn position(&self) -> usize {
        self.lock().log.len()
    }

    /// Returns the number of attempted operations that can fail.
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// Returns the number of operations that failed as planned.
    pub fn failed(&self) -> u64 {
        self.lock().failed
    }

    /// Fails at `fault` from here on; without one, nowhere.
    pub fn fail(&self, fault: Option<Fault>) {
        self.lock().fault = fault;
    }

    /// Returns the disk that watches the file at `path`, and the file's name there.
    pub(crate) fn of(path: &Path) -> Option<(Arc<Self>, String)> {
        let (folder, name) = (path.parent()?, path.file_name()?.to_str()?);
        let watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        let disk = watched.iter().filter_map(Weak::upgrade).find(|disk| disk.folder == folder)?;
        Some((disk, name.to_owned()))
    }

    /// Lets `perform` do `operation`. If it must fail now, calls `fail` with the code, and returns the code for
    /// SQLite.
    pub(crate) fn attempt(&self, operation: Operation, perform: impl FnOnce() -> i32, fail: impl FnOnce(i32) -> i32) -> i32 {
        // Held meanwhile, so that the log has the order in which things happened.
        let mut state = self.lock();
        state.operations += 1;
        if let Some(code) = state.due(&operation) {
            state.failed += 1;
            return fail(code);
        }
        let code = perform();
        if code == ffi::SQLITE_OK {
            state.log.push(operation);
        }
        code
    }

    /// Notes what has been done and cannot be made to fail.
    pub(crate) fn note(&self, operation: Operation) {
        self.lock().log.push(operation);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the planned error code of `operation`, the newest.
    fn due(&mut self, operation: &Operation) -> Option<i32> {
        let fault = self.fault?;
        if self.operations < fault.at {
            return None;
        }
        let code = match (fault.failure, operation) {
            (Failure::Full, Operation::Write { .. }) => ffi::SQLITE_FULL,
            (Failure::Full, _) | (Failure::Io, Operation::Create { .. }) => return None,
            (Failure::Io, Operation::Write { .. }) => ffi::SQLITE_IOERR_WRITE,
            (Failure::Io, Operation::Truncate { .. }) => ffi::SQLITE_IOERR_TRUNCATE,
            (Failure::Io, Operation::Sync { .. }) => ffi::SQLITE_IOERR_FSYNC,
            (Failure::Io, Operation::Delete { .. }) => ffi::SQLITE_IOERR_DELETE,
        };
        if !fault.lasting {
            self.fault = None;
        }
        Some(code)
    }
}
