//! Errors of a store.

use std::path::PathBuf;

use baton_breadcrumb::BreadcrumbError;
use baton_types::id::RunId;

/// Reasons why a store refused or failed an operation. Nothing was changed, unless the variant's comment names an
/// exception.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A run of this id is already there.
    #[error("run {0} already exists")]
    RunExists(RunId),
    /// Another run handles the trigger, or it is settled.
    #[error("trigger {0} is handled already")]
    TriggerTaken(u64),
    /// No run of this id is there.
    #[error("there is no run {0}")]
    UnknownRun(RunId),
    /// The run has another epoch than its writer knows: another process took it over, or (epoch 0) the run has no owner.
    #[error("run {run} has epoch {found}, and its writer knows epoch {expected}: the writer does not own the run")]
    StaleEpoch {
        /// The run.
        run: RunId,
        /// The epoch of the batch.
        expected: u64,
        /// The epoch of the run.
        found: u64,
    },
    /// The batch does not follow the run's last entry.
    #[error("run {run}: expected entry {expected}, found {found}")]
    SequenceMismatch {
        /// The run.
        run: RunId,
        /// The sequence number that the batch counted on.
        expected: u64,
        /// The one that is there.
        found: u64,
    },
    /// A content was given under a hash that is not its own.
    #[error("a content of {size} bytes does not match the hash that was given for it")]
    WrongHash {
        /// Its length.
        size: usize,
    },
    /// A content is larger than the store can keep.
    #[error("a content of {size} bytes is larger than the store's limit of {limit}")]
    TooLarge {
        /// Its length in bytes.
        size: usize,
        /// The most that can be kept.
        limit: usize,
    },
    /// An entry is longer than the store can keep.
    #[error("an entry of {size} bytes is longer than the store's limit of {limit}: keep long outputs as documents")]
    TooLong {
        /// Its length in bytes, as JSON.
        size: usize,
        /// The most that can be kept.
        limit: usize,
    },
    /// Another process held the store for too long.
    #[error("another process is writing to the store {} and did not finish in time", path.display())]
    Busy {
        /// The store's file.
        path: PathBuf,
    },
    /// The store was written by a newer program.
    #[error("the store {} has format {found}, but this program reads format {known}: use a newer version of baton", path.display())]
    NewerFormat {
        /// The store's file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The format that this program knows.
        known: u32,
    },
    /// The store was written by an older program, whose format is not read.
    #[error("the store {} has format {found}, but this program reads format {known}: use the version of baton that wrote it", path.display())]
    OlderFormat {
        /// The store's file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The format that this program knows.
        known: u32,
    },
    /// The store was opened to be read.
    #[error("the store {} was opened for reading only", path.display())]
    ReadOnly {
        /// The store's file.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("{} is not a Baton store", path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
    },
    /// The file has the mark of a store, and other tables, views or triggers than a store has.
    #[error("the store {} was changed by another program: {what}. It is not opened", path.display())]
    ForeignSchema {
        /// The file.
        path: PathBuf,
        /// The first difference.
        what: String,
    },
    /// A log is there, and its file is not, or is empty.
    #[error(
        "there is a log {} without its store {}: if the store was moved, move it back together with its -wal and -shm files; \
         otherwise remove the log",
        log.display(),
        path.display()
    )]
    OrphanedLog {
        /// The store's file, which is missing or empty.
        path: PathBuf,
        /// The log.
        log: PathBuf,
    },
    /// Something stored is no longer what was written.
    #[error("the store is damaged: {what}")]
    Corrupt {
        /// Description of the damage, with the name of the damaged part.
        what: String,
    },
    /// The file or its folder cannot be used.
    #[error("the store {} cannot be used: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The store's file, or its log, was moved, removed, replaced or cut short while this opening used it: what is written here
    /// can no longer be found there. This opening writes nothing more.
    #[error(
        "the store {} was moved, removed, replaced or truncated while it was in use; nothing more is written to it. Its last \
         entries may be in its log: if the store was moved, move it back together with its -wal and -shm files",
        path.display()
    )]
    Lost {
        /// The file that is not what was opened.
        path: PathBuf,
    },
    /// A run that was to be removed belongs to a process that is there.
    #[error("{owner} owns run {run} and is still running")]
    Held {
        /// The run.
        run: RunId,
        /// Name of the owner.
        owner: String,
    },
    /// A store that was to get a copy has rows already.
    #[error("the store {store} is not empty, and nothing was copied: name a new file, or a database without a store")]
    NotEmpty {
        /// The store.
        store: String,
    },
    /// A run of a store that was to be copied belongs to a process that is there, or may be.
    #[error(
        "{owner} owns run {run} and may still be running, so nothing was copied: stop that process. If it is gone, continue the run with \
         baton resume --take-over. Then copy again"
    )]
    InUse {
        /// The run.
        run: RunId,
        /// Name of the owner.
        owner: String,
    },
    /// Runs of a store changed while it was copied.
    #[error(
        "runs of the store {store} changed while it was copied, so nothing was copied: stop the processes that use it, then copy again"
    )]
    Changed {
        /// The store.
        store: String,
    },
    /// A copy is not like its source. It was not committed.
    #[error("the copy differs from its source, so nothing was copied: {what}")]
    CopyDiffers {
        /// The counts and findings of both.
        what: String,
    },
    /// Commits wait in the store's log, which cannot be read here.
    #[error(
        "the store {} cannot be read: its log {}-wal holds commits, and reading them needs a writable folder; \
         copy both files into one",
        path.display(),
        path.display()
    )]
    UnreadableLog {
        /// The store's file.
        path: PathBuf,
    },
    /// The disk has no room for the write. Writes succeed again once there is room.
    #[error("storage full: no disk space is left for the store {}", path.display())]
    StorageFull {
        /// The store's file.
        path: PathBuf,
    },
    /// The disk failed, now or at an earlier write. This opening of the store writes nothing more: after a failed
    /// flush, a later successful flush does not prove that the earlier data is durable (fsyncgate). Open the store
    /// again to find out whether the failed write was committed.
    #[error("the disk of the store {} failed ({what}); nothing is written until the store is opened again", path.display())]
    Failing {
        /// The store's file.
        path: PathBuf,
        /// First error of the operating system.
        what: String,
    },
    /// A breadcrumb was not created, changed or read.
    #[error(transparent)]
    Breadcrumb(#[from] BreadcrumbError),
    /// SQLite failed.
    #[error("SQLite failed: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The address of a database is not one. The message has no password.
    #[error("the address of the database is wrong: {what}")]
    Address {
        /// Description of the fault.
        what: String,
    },
    /// The database cannot be reached, or refuses the connection. Nothing was written.
    #[error("the database {store} cannot be reached: {what}")]
    Unreachable {
        /// Address of the database, without a password.
        store: String,
        /// Error of the connection.
        what: String,
    },
    /// The connection was lost during a commit: the write may have taken hold. Read the run again before another write.
    #[error("the connection to the database {store} was lost during a commit; it is not known whether the write was committed")]
    CommitUnknown {
        /// Address of the database, without a password.
        store: String,
    },
    /// PostgreSQL refused a statement.
    #[error("PostgreSQL failed: {what}")]
    Postgres {
        /// The server's message.
        what: String,
    },
    /// An error of the client for PostgreSQL that was not given a meaning yet. A store returns one of the other errors in its place.
    #[error("PostgreSQL failed: {0}")]
    Client(#[from] tokio_postgres::Error),
    /// The store was closed, or its writer stopped, before it answered. It is not known whether the write took effect.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// Whether the store may work again without anybody doing anything about it: its database cannot be reached now, or was lost during
    /// a commit.
    pub const fn is_outage(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::CommitUnknown { .. })
    }

    /// Whether the store may work again later: after an outage, or once it has room, may be written or is not busy. The server refused a
    /// statement, which may have been one with a time limit.
    pub const fn may_pass(&self) -> bool {
        self.is_outage()
            || matches!(self, Self::Busy { .. } | Self::StorageFull { .. } | Self::ReadOnly { .. } | Self::Postgres { .. })
    }
}
