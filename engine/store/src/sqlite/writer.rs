//! One thread writes, and everything that waits for it shares a commit.
//!
//! A commit costs a flush of the disk, whatever is in it. So the thread takes all writes that arrived meanwhile, checks each
//! write separately, and commits once. With one run each batch has its own commit. With a thousand runs, many batches share a
//! commit. A refused write has written nothing, so it does not affect the others. Answers are sent after the commit.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use baton_types::document::Content;
use baton_types::id::{ContentHash, RunId};
use baton_types::json::Json;
use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use tokio::sync::oneshot;

use super::packed::{self, PackedRow};
use super::perform::perform;
use super::records::Kept;
use super::{SqliteStats, breadcrumbs, log_of, named};
use crate::{Batch, NewRun, StoreError, Written, failpoint};

/// The most writes in one transaction.
const MAX_GROUP: usize = 1024;

/// A group that holds this many bytes takes no more.
const MAX_GROUP_BYTES: usize = 32 << 20;

/// Something to be written, as far prepared as it can be without the file.
#[derive(Debug)]
pub(super) enum Write {
    /// See [`crate::Store::create`].
    Create(NewRun),
    /// See [`crate::Store::begin`].
    Begin { run: NewRun, owner: String, batch: Batch, rows: Vec<PackedRow> },
    /// See [`crate::Store::take_over`]; answers the epoch.
    TakeOver { run: RunId, owner: String, epoch: u64 },
    /// See [`crate::Store::append`].
    Append { batch: Batch, rows: Vec<PackedRow> },
    /// See [`crate::Store::put_content`]; the hash was checked.
    PutContent { hash: ContentHash, content: Content },
    /// See [`crate::Store::put_command`]; answers its number.
    PutCommand { run: RunId, command: Json },
    /// See [`crate::Breadcrumbs`]; `done` gets the versions that were made.
    Breadcrumb { request: Box<breadcrumbs::Request>, done: Arc<Mutex<Option<Vec<Written>>>> },
}

impl Write {
    /// Returns a batch with its entries encoded as rows, here rather than on the only thread that writes.
    pub(super) fn append(batch: Batch) -> Result<Self, StoreError> {
        let rows = packed::rows_of(&batch)?;
        Ok(Self::Append { batch, rows })
    }

    /// Returns a new run with its first batch.
    pub(super) fn begin(run: NewRun, owner: &str, batch: Batch) -> Result<Self, StoreError> {
        let rows = packed::rows_of(&batch)?;
        Ok(Self::Begin { run, owner: owner.to_owned(), batch, rows })
    }

    /// Returns the failpoints before and after a commit whose first write is this one.
    const fn places(&self) -> (&'static str, &'static str) {
        match self {
            Self::Create(_) => ("store.create.before", "store.create.after"),
            Self::Begin { .. } => ("store.begin.before", "store.begin.after"),
            Self::TakeOver { .. } => ("store.take_over.before", "store.take_over.after"),
            Self::Append { .. } => ("store.append.before", "store.append.after"),
            Self::PutContent { .. } => ("store.put_content.before", "store.put_content.after"),
            Self::PutCommand { .. } => ("store.put_command.before", "store.put_command.after"),
            Self::Breadcrumb { .. } => ("store.breadcrumb.before", "store.breadcrumb.after"),
        }
    }

    /// Returns about the number of bytes that this writes.
    fn size(&self) -> usize {
        match self {
            Self::Create(_) | Self::TakeOver { .. } => 0,
            Self::Append { batch, rows } | Self::Begin { batch, rows, .. } => {
                rows.iter().map(|row| row.text.len()).sum::<usize>()
                    + batch.contents.iter().map(|(_, content)| content.len()).sum::<usize>()
                    + batch.logged.iter().map(|call| call.input.text().len()).sum::<usize>()
            }
            Self::PutContent { content, .. } => content.len(),
            Self::PutCommand { command, .. } => command.text().len(),
            Self::Breadcrumb { request, .. } => request.size(),
        }
    }
}

/// Result of a write: the number that it assigned, if any.
pub(super) type Answer = Result<u64, StoreError>;

/// A write and its reply channel.
struct Request {
    write: Write,
    /// Gets the write back as well: the caller's thread allocated it, and should free it.
    reply: oneshot::Sender<(Answer, Write)>,
}

/// The thread that writes.
#[derive(Debug)]
pub(super) struct Writer {
    /// `None` only while this is dropped.
    requests: Option<Sender<Request>>,
    thread: Option<JoinHandle<()>>,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    writes: AtomicU64,
    commits: AtomicU64,
}

impl Writer {
    /// Starts the thread; from here on it alone has `connection`.
    pub(super) fn start(connection: Connection, path: &Path) -> Result<Self, StoreError> {
        let (sender, requests) = channel();
        let counters = Arc::new(Counters::default());
        let path_of = path.to_owned();
        let files = Files::of(path, &connection)?;
        let mut work = WriterThread {
            connection,
            path: path_of,
            requests,
            counters: Arc::clone(&counters),
            files,
            kept: Kept::default(),
            failed: None,
        };
        let thread = std::thread::Builder::new()
            .name("baton-store".into())
            .spawn(move || work.run())
            .map_err(|source| StoreError::Io { path: path.to_owned(), source })?;
        Ok(Self { requests: Some(sender), thread: Some(thread), counters })
    }

    /// Hands `write` to the thread and waits until it is durable or refused.
    pub(super) async fn write(&self, write: Write) -> Answer {
        let (reply, answer) = oneshot::channel();
        let requests = self.requests.as_ref().ok_or(StoreError::Closed)?;
        requests.send(Request { write, reply }).map_err(|_| StoreError::Closed)?;
        let (answer, _write) = answer.await.map_err(|_| StoreError::Closed)?;
        answer
    }

    /// Returns the numbers of writes and commits.
    pub(super) fn stats(&self) -> SqliteStats {
        SqliteStats {
            writes: self.counters.writes.load(Ordering::Relaxed),
            commits: self.counters.commits.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The thread ends when it has done everything that was sent and no sender is left.
        drop(self.requests.take());
        if let Some(thread) = self.thread.take() {
            // The panic was printed by its own thread. All waiting callers got the error that the store is closed.
            drop(thread.join());
        }
    }
}

/// State of the writer thread.
struct WriterThread {
    connection: Connection,
    path: PathBuf,
    requests: Receiver<Request>,
    counters: Arc<Counters>,
    files: Files,
    kept: Kept,
    /// Why nothing is written any more.
    failed: Option<Failed>,
}

/// Why an opening writes nothing more.
enum Failed {
    /// The I/O error.
    Disk(String),
    /// The file that was moved, removed, replaced or cut short.
    Lost(PathBuf),
}

/// The files that a store was opened with, as the system knows them: by device and inode.
struct Files {
    file: (PathBuf, (u64, u64)),
    /// The largest size that the file was seen with, and the version of its schema then. Only a file that was written anew, for
    /// other runs that were removed, shrinks, and that changes the version.
    size: u64,
    version: i64,
    /// The log, once there is one. It stays until the last connection closes.
    log: (PathBuf, Option<(u64, u64)>),
}

impl Files {
    /// Returns the identity of the files that are at `path` now.
    fn of(path: &Path, connection: &Connection) -> Result<Self, StoreError> {
        let found = std::fs::metadata(path).map_err(|source| StoreError::Io { path: path.to_owned(), source })?;
        let version = version(connection).map_err(|error| named(path, error))?;
        Ok(Self { file: (path.to_owned(), identity(&found)), size: found.len(), version, log: (log_of(path), None) })
    }

    /// Remembers the present sizes and versions, and returns a file that was replaced or truncated since it was opened.
    fn check(&mut self, connection: &Connection) -> Option<PathBuf> {
        let (file, opened) = &self.file;
        let Some(found) = std::fs::metadata(file).ok().filter(|found| identity(found) == *opened) else {
            return Some(file.clone());
        };
        if found.len() < self.size {
            match version(connection) {
                Ok(version) if version > self.version && found.len() > 0 => self.version = version,
                _ => return Some(file.clone()),
            }
        }
        self.size = found.len();
        let (log, opened) = &mut self.log;
        let found = std::fs::metadata(&*log).ok().map(|found| identity(&found));
        if opened.is_none() {
            *opened = found;
        }
        (found != *opened).then(|| log.clone())
    }
}

fn identity(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

/// Returns the version of the file's schema, which rises when the file is rewritten.
fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA schema_version", [], |row| row.get(0))
}

impl WriterThread {
    fn run(&mut self) {
        while let Ok(first) = self.requests.recv() {
            let (before, after) = first.write.places();
            // Before the file is locked: a process that is stopped here holds up no other.
            failpoint::pass(before);
            let (group, answers) = self.commit_group(first);
            failpoint::pass(after);
            for (Request { write, reply }, answer) in group.into_iter().zip(answers) {
                // The caller no longer waits. The write is durable all the same.
                drop(reply.send((answer, write)));
            }
        }
    }

    /// Commits `first` and what waits behind it; answers one for one.
    fn commit_group(&mut self, first: Request) -> (Vec<Request>, Vec<Answer>) {
        if let Some(failing) = self.failing() {
            return (vec![first], vec![Err(failing)]);
        }
        let begun = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        // Only now, so that what came while another process held the file is in this group too.
        let group = collect(first, &self.requests);
        let committed = begun.map_err(StoreError::Sqlite).and_then(|transaction| {
            self.kept.begin(&transaction)?;
            let answers = group
                .iter()
                .map(|request| perform(&transaction, &mut self.kept, &request.write))
                .collect::<Result<Vec<_>, _>>()?;
            transaction.commit()?;
            Ok(answers)
        });
        let answers = match committed {
            Ok(answers) => {
                self.look_for_loss();
                if self.failed.is_some() {
                    let answers = self.failures(&group);
                    return (group, answers);
                }
                self.count(&answers);
                answers
            }
            Err(error) => self.commit_each(&group, error),
        };
        (group, answers)
    }

    /// Gives each write a transaction of its own after a group failed with `error` and was rolled back. So a write
    /// that cannot succeed fails alone.
    fn commit_each(&mut self, group: &[Request], error: StoreError) -> Vec<Answer> {
        self.kept.forget();
        self.look_at(&error);
        if self.failed.is_some() {
            return self.failures(group);
        }
        match named(&self.path, error) {
            // Retrying would wait for the other process once per write, so all writes fail with this error.
            StoreError::Busy { path } => group.iter().map(|_| Err(StoreError::Busy { path: path.clone() })).collect(),
            only if group.len() == 1 => vec![Err(only)],
            _ => group.iter().map(|request| self.commit_one(&request.write)).collect(),
        }
    }

    fn commit_one(&mut self, write: &Write) -> Answer {
        if let Some(failing) = self.failing() {
            return Err(failing);
        }
        let mut commit = || -> Result<Answer, StoreError> {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            self.kept.begin(&transaction)?;
            let answer = perform(&transaction, &mut self.kept, write)?;
            transaction.commit()?;
            Ok(answer)
        };
        let answer = match commit() {
            Ok(answer) => {
                self.look_for_loss();
                self.failing().map_or(answer, Err)
            }
            Err(error) => {
                self.kept.forget();
                self.look_at(&error);
                return Err(self.failing().unwrap_or_else(|| named(&self.path, error)));
            }
        };
        self.count(std::slice::from_ref(&answer));
        answer
    }

    /// Remembers a disk error. After an I/O error the file is considered failed; later flushes are not trusted
    /// (fsyncgate). Files that were moved or removed fail in the same way.
    fn look_at(&mut self, error: &StoreError) {
        if let StoreError::Sqlite(error) = error
            && error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure)
        {
            self.failed = Some(self.files.check(&self.connection).map_or_else(|| Failed::Disk(error.to_string()), Failed::Lost));
        }
    }

    /// Remembers if the commit went to files that were removed or replaced. Called after each commit, before it is answered.
    fn look_for_loss(&mut self) {
        if let Some(path) = self.files.check(&self.connection) {
            self.failed = Some(Failed::Lost(path));
        }
    }

    /// Returns the error of every further write as the answer to each write of `group`.
    fn failures(&self, group: &[Request]) -> Vec<Answer> {
        group.iter().filter_map(|_| self.failing().map(Err)).collect()
    }

    /// Returns the error of every further write once the disk has failed or the files are lost.
    fn failing(&self) -> Option<StoreError> {
        Some(match self.failed.as_ref()? {
            Failed::Disk(what) => StoreError::Failing { path: self.path.clone(), what: what.clone() },
            Failed::Lost(path) => StoreError::Lost { path: path.clone() },
        })
    }

    fn count(&self, answers: &[Answer]) {
        let written = answers.iter().filter(|answer| answer.is_ok()).count();
        if written > 0 {
            self.counters.writes.fetch_add(written as u64, Ordering::Relaxed);
            self.counters.commits.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// `first` and what waits behind it, up to the bounds of a group.
fn collect(first: Request, requests: &Receiver<Request>) -> Vec<Request> {
    let mut bytes = first.write.size();
    let mut group = vec![first];
    while group.len() < MAX_GROUP && bytes < MAX_GROUP_BYTES {
        let Ok(next) = requests.try_recv() else { break };
        bytes += next.write.size();
        group.push(next);
    }
    group
}
