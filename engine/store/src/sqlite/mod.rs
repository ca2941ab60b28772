//! The store on disk: one SQLite file, written by one thread and read by a few connections.
//!
//! [`writer`] owns the connection that writes and puts all waiting writes into one transaction, so throughput grows
//! with load; [`perform`] does one write. [`reader`] owns the connections that read. [`schema`] owns the file's format
//! and [`layout`] compares it. [`rows`] encodes entries and [`packed`] compresses them. [`records`] has the state of
//! runs, with the index of their latest entries ([`recent`]). [`collect`] removes runs,
//! [`copy`] copies all rows, [`verify`] checks everything. No other file contains SQL. [`notifier`] notifies other processes of new commands and
//! reports which owners are alive.
//!
//! A write that was answered is durable if the disk has the properties that SQLite relies on. A flush reaches the medium,
//! sectors of 512 bytes are written whole, and a write changes no neighbouring byte. Damage is noticed in everything that is
//! read, with one exception. If a crash leaves a log behind, and the log is damaged before the store is opened again, the log
//! ends at the damage, as a torn log does.
//!
//! Several processes may open one file. Each has a writer thread, and SQLite lets one of them write at a time. The run's
//! epoch keeps two processes from writing to one run, *not* a lock on the file.

mod breadcrumbs;
mod collect;
mod copy;
mod layout;
mod notifier;
mod packed;
mod perform;
mod reader;
mod recent;
mod records;
mod schema;
mod verify;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use baton_files::private;
use baton_types::document::Content;
use baton_types::entry::Recorded;
use baton_types::id::{AgentId, ContentHash, MemoryId, RunId, TaskId, ToolId};
use baton_types::json::Json;
use baton_types::time::Timestamp;
use notifier::Notifier;
use reader::Readers;
use records::Totals;
use rusqlite::ErrorCode;
use tempfile::TempDir;
use tokio::sync::watch;

use crate::inbox::Subscribers;
use crate::{
    Batch, Breadcrumbs, Collected, Due, LoggedCall, MAX_CONTENT_BYTES, NewRun, Retention, RunRecord, Store, StoreError,
    Verification, check_sizes,
};
pub use schema::FORMAT_VERSION;
use writer::{Write, Writer};

pub(crate) use breadcrumbs::{InMemory, key_hash};
pub(crate) use records::checksum_of;

/// Keeps runs in one SQLite file: durable when a write returns, readable meanwhile, shared by processes.
///
/// Dropping it finishes what was asked for, then closes the file.
#[derive(Debug)]
pub struct SqliteStore {
    /// The store's file.
    path: PathBuf,
    /// `None` if the store is only read.
    writer: Option<Writer>,
    readers: Arc<Readers>,
    subscribers: Arc<Subscribers>,
    notifier: Notifier,
    /// The empty store that the readers read in place of an empty file; dropped after them.
    _empty: Option<TempDir>,
}

/// Numbers of writes and commits since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SqliteStats {
    /// Writes that were asked for and took hold.
    pub writes: u64,
    /// Transactions that were committed for them.
    pub commits: u64,
}

impl SqliteStore {
    /// Opens the store at `path`; makes it, and the folders above it, if there is none.
    ///
    /// Fails with [`StoreError::NewerFormat`] or [`StoreError::OlderFormat`] if another program wrote it, and with
    /// [`StoreError::NotAStore`] if the file is something else. Fails with [`StoreError::ForeignSchema`] if another program
    /// changed its tables, and with [`StoreError::OrphanedLog`] if a log is there whose file is not.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref();
        check_log(path)?;
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            make_folder(folder).map_err(|source| StoreError::Io { path: path.to_owned(), source })?;
        }
        // SQLite gives the files beside it the mode of this one.
        private::make_file(path).map_err(|source| StoreError::Io { path: path.to_owned(), source })?;
        let connection = schema::open_for_writing(path)?;
        let writer = Writer::start(connection, path)?;
        Ok(Self::with(path, Some(writer), None))
    }

    /// Opens the store at `path`, which is there, to be read: every write fails with [`StoreError::ReadOnly`].
    ///
    /// An empty file reads as an empty store, and stays as it is. A store on a read-only file system can be read. Fails like
    /// [`SqliteStore::open`], and with [`StoreError::UnreadableLog`].
    pub fn open_to_read(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref();
        check_log(path)?;
        let file = schema::open_for_reading(path)?;
        if schema::is_store(path, &file)? {
            return Ok(Self::with(path, None, None));
        }
        // The file is empty: nothing is written to it, and an empty store elsewhere is read in its place.
        let io = |source| StoreError::Io { path: path.to_owned(), source };
        let folder = private::scratch_folder("baton-empty-").map_err(io)?;
        let empty = folder.path().join("empty.db");
        schema::open_for_writing(&empty)?;
        Ok(Self::with(path, None, Some((folder, empty))))
    }

    fn with(path: &Path, writer: Option<Writer>, empty: Option<(TempDir, PathBuf)>) -> Self {
        let readers = Arc::new(Readers::new(empty.as_ref().map_or(path, |(_, empty)| empty)));
        let subscribers = Arc::default();
        let notifier = Notifier::new(path, &readers, &subscribers);
        Self { path: path.to_owned(), writer, readers, subscribers, notifier, _empty: empty.map(|(folder, _)| folder) }
    }

    /// Wakes those who listen for triggers, in this process and in others.
    async fn announce_triggers(&self) {
        self.subscribers.wake_all();
        let folder = self.notifier.folder().to_owned();
        // No run has an empty name, so this wakes only those who listen for all of them.
        let _unreachable = tokio::task::spawn_blocking(move || notifier::notify(&folder, &RunId::new(""))).await;
    }

    fn writer(&self) -> Result<&Writer, StoreError> {
        self.writer.as_ref().ok_or_else(|| StoreError::ReadOnly { path: self.path.clone() })
    }

    /// Returns the store's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the numbers of writes and commits since this process opened the store.
    pub fn stats(&self) -> SqliteStats {
        self.writer.as_ref().map(Writer::stats).unwrap_or_default()
    }
}

/// Refuses a log without its file, or with an empty one: SQLite would remove the log, and it may hold the last entries of a file
/// that was moved away.
fn check_log(path: &Path) -> Result<(), StoreError> {
    let length = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
    let log = log_of(path);
    // The log first: another process that makes this store writes the file before it makes the log.
    if length(&log) > 0 && length(path) == 0 {
        return Err(StoreError::OrphanedLog { path: path.to_owned(), log });
    }
    Ok(())
}

/// Returns the log of the store at `path`.
fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// Makes `folder` and those above it, as durable as what will be in them: SQLite syncs the folder of its files, and no other.
fn make_folder(folder: &Path) -> std::io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
    if let Some(above) = above {
        make_folder(above)?;
    }
    private::make_folder(folder)?;
    if cfg!(unix) {
        std::fs::File::open(above.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

#[async_trait]
impl Store for SqliteStore {
    async fn create(&self, run: NewRun) -> Result<(), StoreError> {
        self.writer()?.write(Write::Create(run)).await.map(drop)
    }

    async fn begin(&self, run: NewRun, owner: &str, first: Batch) -> Result<(), StoreError> {
        check_sizes(&first)?;
        self.writer()?.write(Write::begin(run, owner, first)?).await.map(drop)
    }

    async fn take_over(&self, run: &RunId, owner: &str, epoch: u64) -> Result<u64, StoreError> {
        self.writer()?.write(Write::TakeOver { run: run.clone(), owner: owner.to_owned(), epoch }).await
    }

    async fn append(&self, batch: Batch) -> Result<(), StoreError> {
        check_sizes(&batch)?;
        self.writer()?.write(Write::append(batch)?).await.map(drop)
    }

    async fn entries(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<Arc<Recorded>>, StoreError> {
        let run = run.clone();
        self.readers.read(move |file| reader::entries(file, &run, after, limit)).await
    }

    async fn task_entries(&self, run: &RunId, task: &TaskId, through: u64) -> Result<Vec<Arc<Recorded>>, StoreError> {
        let (run, task) = (run.clone(), task.clone());
        self.readers.read(move |file| reader::task_entries(file, &run, &task, through)).await
    }

    async fn content(&self, hash: ContentHash) -> Result<Option<Content>, StoreError> {
        self.readers.read(move |file| reader::content(file, hash)).await
    }

    async fn put_content(&self, hash: ContentHash, content: Content) -> Result<(), StoreError> {
        if content.len() > MAX_CONTENT_BYTES {
            return Err(StoreError::TooLarge { size: content.len(), limit: MAX_CONTENT_BYTES });
        }
        if ContentHash::of(&content) != hash {
            return Err(StoreError::WrongHash { size: content.len() });
        }
        self.writer()?.write(Write::PutContent { hash, content }).await.map(drop)
    }

    async fn recall(
        &self,
        memory: &MemoryId,
        agent: &AgentId,
        tool: &ToolId,
        limit: usize,
    ) -> Result<Vec<(RunId, LoggedCall)>, StoreError> {
        let (memory, agent, tool) = (memory.clone(), agent.clone(), tool.clone());
        self.readers.read(move |file| reader::recall(file, &memory, &agent, &tool, limit)).await
    }

    async fn runs(&self) -> Result<Vec<RunRecord>, StoreError> {
        self.readers.read(reader::runs).await
    }

    async fn collect(&self, retention: Retention, dry_run: bool) -> Result<Collected, StoreError> {
        self.writer()?;
        let (path, owners) = (self.path.clone(), self.notifier.folder().to_owned());
        let is_there = move |owner: &str| notifier::is_there(&owners, owner) == Some(true);
        let collecting = tokio::task::spawn_blocking(move || collect::collect(&path, &retention, &is_there, dry_run));
        collecting.await.map_err(|_| StoreError::Closed)?
    }

    async fn verify(&self) -> Result<Verification, StoreError> {
        self.readers.read(|file| Ok(verify::verify(file))).await
    }

    async fn run(&self, run: &RunId) -> Result<Option<RunRecord>, StoreError> {
        let run = run.clone();
        self.readers.read(move |file| reader::run(file, &run)).await
    }

    async fn put_command(&self, run: &RunId, command: Json) -> Result<u64, StoreError> {
        let number = self.writer()?.write(Write::PutCommand { run: run.clone(), command }).await?;
        self.subscribers.wake(run, number);
        let (folder, run) = (self.notifier.folder().to_owned(), run.clone());
        // A stopped listener may block the notification for a moment. The command is durable either way.
        let _unreachable = tokio::task::spawn_blocking(move || notifier::notify(&folder, &run)).await;
        Ok(number)
    }

    async fn take_commands(&self, run: &RunId, after: u64) -> Result<Vec<(u64, Json)>, StoreError> {
        let run = run.clone();
        self.readers.read(move |file| reader::commands(file, &run, after)).await
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Due, StoreError> {
        self.readers.read(move |file| reader::due(file, now, limit)).await
    }

    async fn is_due(&self, run: &RunId, now: Timestamp) -> Result<bool, StoreError> {
        let run = run.clone();
        self.readers.read(move |file| reader::is_due(file, &run, now)).await
    }

    async fn secret(&self) -> Result<[u8; 32], StoreError> {
        self.readers.read(|file| Ok(Totals::load(file)?.secret)).await
    }

    fn breadcrumbs(&self) -> &dyn Breadcrumbs {
        self
    }

    fn subscribe_to_all(&self) -> watch::Receiver<u64> {
        self.notifier.listen();
        self.subscribers.subscribe_to_all()
    }

    fn subscribe(&self, run: &RunId) -> watch::Receiver<u64> {
        self.notifier.listen();
        self.subscribers.subscribe(run)
    }

    fn owner(&self) -> String {
        notifier::owner(self.notifier.listen())
    }

    fn is_there(&self, owner: &str) -> Option<bool> {
        notifier::is_there(self.notifier.folder(), owner)
    }
}

/// Gives the failures of SQLite that have a meaning here their name.
fn named(path: &Path, error: impl Into<StoreError>) -> StoreError {
    let path: PathBuf = path.to_owned();
    let error = match error.into() {
        StoreError::Sqlite(error) => error,
        named => return named,
    };
    // SQLite may name the file too.
    let cause = error.to_string().replace(&format!(": {}", path.display()), "");
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { path },
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Corrupt { what: format!("{}: {error}", path.display()) },
        Some(ErrorCode::NotADatabase) => StoreError::NotAStore { path },
        Some(ErrorCode::DiskFull) => StoreError::StorageFull { path },
        // A connection has the file open. When it is moved away in the middle of a read, SQLite reports a failure of the disk.
        Some(ErrorCode::SystemIoFailure) if !path.exists() => StoreError::Lost { path },
        Some(ErrorCode::CannotOpen | ErrorCode::SystemIoFailure) => StoreError::Io { path, source: std::io::Error::other(cause) },
        // The tables are strict: what has the wrong type was not written so.
        None if !matches!(error, rusqlite::Error::QueryReturnedNoRows) => {
            StoreError::Corrupt { what: format!("{}: {error}", path.display()) }
        }
        _ => StoreError::Sqlite(error),
    }
}

/// Returns a number as SQLite keeps it: sequence numbers never come near the sign bit, bounds like `u64::MAX` may.
fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn a_failure_to_read_a_file_that_was_moved_away_is_no_failure_of_the_disk() {
        let folder = tempfile::TempDir::new().expect("a temporary folder");
        let path = folder.path().join("store.db");
        let failure = || rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR_READ), None);
        assert!(matches!(named(&path, failure()), StoreError::Lost { .. }));
        std::fs::write(&path, "").expect("a file");
        assert!(matches!(named(&path, failure()), StoreError::Io { .. }));
    }
}
