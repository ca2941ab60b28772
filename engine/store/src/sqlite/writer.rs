//! One thread writes, and everything that waits for it shares a commit.
//!
//! A commit costs a flush of the disk, whatever is in it. So the thread takes all that was asked for meanwhile, checks each
//! write by itself, and commits once: with one run that is a commit per batch, with a thousand runs a few per flush. A
//! refused write has written nothing, so it spoils no other. Answers are sent after the commit.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use baton_core::entry::ForkPoint;
use baton_core::function::Content;
use baton_core::id::{ContentHash, RunId};
use baton_core::json::Json;
use baton_core::time::Timestamp;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params};
use tokio::sync::oneshot;

use super::rows::{self, EntryRow};
use super::{SqliteStats, named, to_sql};
use crate::{Batch, NewRun, STATUS_CREATED, StoreError, failpoint};

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
    Begin { run: NewRun, owner: String, batch: Batch, rows: Vec<EntryRow> },
    /// See [`crate::Store::take_over`]; answers the epoch.
    TakeOver { run: RunId, owner: String },
    /// See [`crate::Store::append`].
    Append { batch: Batch, rows: Vec<EntryRow> },
    /// See [`crate::Store::put_content`]; the hash was checked.
    PutContent { hash: ContentHash, content: Content },
    /// See [`crate::Store::put_command`]; answers its number.
    PutCommand { run: RunId, command: Json },
}

impl Write {
    /// A batch with its entries made into rows, here rather than on the one thread that writes.
    pub(super) fn append(batch: Batch) -> Self {
        let rows = rows::of_batch(&batch);
        Self::Append { batch, rows }
    }

    /// A new run with its first batch.
    pub(super) fn begin(run: NewRun, owner: &str, batch: Batch) -> Self {
        let rows = rows::of_batch(&batch);
        Self::Begin { run, owner: owner.to_owned(), batch, rows }
    }

    /// The failpoints before and after a commit that begins with this.
    const fn places(&self) -> (&'static str, &'static str) {
        match self {
            Self::Create(_) => ("store.create.before", "store.create.after"),
            Self::Begin { .. } => ("store.begin.before", "store.begin.after"),
            Self::TakeOver { .. } => ("store.take_over.before", "store.take_over.after"),
            Self::Append { .. } => ("store.append.before", "store.append.after"),
            Self::PutContent { .. } => ("store.put_content.before", "store.put_content.after"),
            Self::PutCommand { .. } => ("store.put_command.before", "store.put_command.after"),
        }
    }

    /// About how many bytes this writes.
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
        }
    }
}

/// What a write is answered with: the number it makes known, if any.
type Answer = Result<u64, StoreError>;

/// A write and who waits for it.
struct Request {
    write: Write,
    reply: oneshot::Sender<Answer>,
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
        let mut work = WriterThread { connection, path: path_of, requests, counters: Arc::clone(&counters), failed: None };
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
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// How much was written.
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
            // A panic over there was printed over there; those who waited were told that the store is closed.
            drop(thread.join());
        }
    }
}

/// What the thread owns.
struct WriterThread {
    connection: Connection,
    path: PathBuf,
    requests: Receiver<Request>,
    counters: Arc<Counters>,
    /// What the disk said when it failed. Nothing is written after that.
    failed: Option<String>,
}

impl WriterThread {
    fn run(&mut self) {
        while let Ok(first) = self.requests.recv() {
            let (before, after) = first.write.places();
            // Before the file is locked: a process that is stopped here holds up no other.
            failpoint::pass(before);
            let (group, answers) = self.commit_group(first);
            failpoint::pass(after);
            for (request, answer) in group.into_iter().zip(answers) {
                // Nobody waits any more: the write holds all the same.
                drop(request.reply.send(answer));
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
        let committed = begun.and_then(|transaction| {
            let answers =
                group.iter().map(|request| perform(&transaction, &request.write)).collect::<rusqlite::Result<Vec<_>>>()?;
            transaction.commit()?;
            Ok(answers)
        });
        let answers = match committed {
            Ok(answers) => {
                self.count(&answers);
                answers
            }
            Err(error) => self.commit_each(&group, error),
        };
        (group, answers)
    }

    /// After a group failed with `error` and was rolled back: gives each write a transaction of its own, so that one that
    /// cannot be written fails alone.
    fn commit_each(&mut self, group: &[Request], error: rusqlite::Error) -> Vec<Answer> {
        self.look_at(&error);
        if self.failed.is_some() {
            return group.iter().filter_map(|_| self.failing().map(Err)).collect();
        }
        match named(&self.path, error) {
            // Another process would be waited for once per write; all are told instead.
            StoreError::Busy { path } => group.iter().map(|_| Err(StoreError::Busy { path: path.clone() })).collect(),
            only if group.len() == 1 => vec![Err(only)],
            _ => group.iter().map(|request| self.commit_one(&request.write)).collect(),
        }
    }

    fn commit_one(&mut self, write: &Write) -> Answer {
        if let Some(failing) = self.failing() {
            return Err(failing);
        }
        let mut commit = || -> rusqlite::Result<Answer> {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let answer = perform(&transaction, write)?;
            transaction.commit()?;
            Ok(answer)
        };
        let answer = match commit() {
            Ok(answer) => answer,
            Err(error) => {
                self.look_at(&error);
                return Err(self.failing().unwrap_or_else(|| named(&self.path, error)));
            }
        };
        self.count(std::slice::from_ref(&answer));
        answer
    }

    /// Remembers an error of the disk: whatever it says of later flushes, it is not trusted any more.
    fn look_at(&mut self, error: &rusqlite::Error) {
        if error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure) {
            self.failed = Some(error.to_string());
        }
    }

    /// What every write is answered with once the disk has failed.
    fn failing(&self) -> Option<StoreError> {
        let what = self.failed.clone()?;
        Some(StoreError::Failing { path: self.path.clone(), what })
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

/// Checks one write, then writes it. The inner error is a refusal, which has written nothing; the outer one leaves the
/// transaction fit only for rolling back.
fn perform(transaction: &Transaction<'_>, write: &Write) -> rusqlite::Result<Answer> {
    match write {
        Write::Create(run) => create(transaction, run),
        Write::Begin { run, owner, batch, rows } => begin(transaction, run, owner, batch, rows),
        Write::TakeOver { run, owner } => take_over(transaction, run, owner),
        Write::Append { batch, rows } => append(transaction, batch, rows),
        Write::PutContent { hash, content } => put_content(transaction, *hash, content).map(|()| Ok(0)),
        Write::PutCommand { run, command } => put_command(transaction, run, command),
    }
}

fn create(transaction: &Transaction<'_>, run: &NewRun) -> rusqlite::Result<Answer> {
    let past = match find_past(transaction, run)? {
        Ok(past) => past,
        Err(refused) => return Ok(Err(refused)),
    };
    let written = transaction
        .prepare_cached(
            "INSERT INTO runs (id, job, status, created, updated, last_seq, past, past_seq) VALUES (?1, ?2, ?3, ?4, ?4, ?6, ?5, ?6)
             ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![
            run.id.as_str(),
            run.job.as_str(),
            STATUS_CREATED,
            run.at.as_micros(),
            past,
            to_sql(run.past_seq())
        ])?;
    Ok(if written == 1 { Ok(0) } else { Err(StoreError::RunExists(run.id.clone())) })
}

fn begin(transaction: &Transaction<'_>, run: &NewRun, owner: &str, batch: &Batch, rows: &[EntryRow]) -> rusqlite::Result<Answer> {
    // What the batch could be refused for comes first: a refusal has written nothing.
    if let Err(refused) = batch.check(1, run.past_seq()) {
        return Ok(Err(refused));
    }
    let past = match find_past(transaction, run)? {
        Ok(past) => past,
        Err(refused) => return Ok(Err(refused)),
    };
    let (status, updated) = shown(batch);
    let created = run.at.as_micros();
    let written = transaction
        .prepare_cached(
            "INSERT INTO runs (id, job, status, created, updated, last_seq, epoch, owner, past, past_seq)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7, ?8, ?9)
             ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![
            run.id.as_str(),
            run.job.as_str(),
            status.unwrap_or(STATUS_CREATED),
            created,
            updated.unwrap_or(created),
            to_sql(batch.last_seq()),
            owner,
            past,
            to_sql(run.past_seq())
        ])?;
    if written == 0 {
        return Ok(Err(StoreError::RunExists(run.id.clone())));
    }
    put_parts(transaction, transaction.last_insert_rowid(), batch, rows)?;
    Ok(Ok(0))
}

/// The number of the run that `run` begins with, if it does and that many entries are there.
fn find_past(transaction: &Transaction<'_>, run: &NewRun) -> rusqlite::Result<Result<Option<i64>, StoreError>> {
    let Some(ForkPoint { run: other, seq }) = &run.past else { return Ok(Ok(None)) };
    let known = transaction
        .prepare_cached("SELECT run, last_seq FROM runs WHERE id = ?1")?
        .query_row([other.as_str()], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)))
        .optional()?;
    Ok(match known {
        None => Err(StoreError::UnknownRun(other.clone())),
        Some((_, found)) if found < *seq => Err(StoreError::SequenceMismatch { run: other.clone(), expected: *seq, found }),
        Some((number, _)) => Ok(Some(number)),
    })
}

fn take_over(transaction: &Transaction<'_>, run: &RunId, owner: &str) -> rusqlite::Result<Answer> {
    let epoch = transaction
        .prepare_cached("UPDATE runs SET epoch = epoch + 1, owner = ?2 WHERE id = ?1 RETURNING epoch")?
        .query_row(params![run.as_str(), owner], |row| row.get::<_, i64>(0))
        .optional()?;
    Ok(epoch.map(|epoch| epoch as u64).ok_or_else(|| StoreError::UnknownRun(run.clone())))
}

fn append(transaction: &Transaction<'_>, batch: &Batch, rows: &[EntryRow]) -> rusqlite::Result<Answer> {
    // Only the last of these checks is the file's: a refused batch changes nothing.
    if !batch.may_be_written() {
        return refusal(transaction, batch).map(Err);
    }
    let (status, updated) = shown(batch);
    let run = transaction
        .prepare_cached(
            "UPDATE runs SET last_seq = ?4, status = coalesce(?5, status), updated = coalesce(?6, updated)
             WHERE id = ?1 AND epoch = ?2 AND last_seq = ?3 RETURNING run",
        )?
        .query_row(
            params![
                batch.run.as_str(),
                to_sql(batch.epoch),
                to_sql(batch.expected_seq),
                to_sql(batch.last_seq()),
                status,
                updated
            ],
            |row| row.get(0),
        )
        .optional()?;
    match run {
        Some(run) => put_parts(transaction, run, batch, rows).map(Ok),
        None => refusal(transaction, batch).map(Err),
    }
}

/// Why `batch` does not follow what its run holds.
fn refusal(transaction: &Transaction<'_>, batch: &Batch) -> rusqlite::Result<StoreError> {
    let known: Option<(i64, i64)> = transaction
        .prepare_cached("SELECT epoch, last_seq FROM runs WHERE id = ?1")?
        .query_row([batch.run.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(match known.map(|(epoch, last_seq)| batch.check(epoch as u64, last_seq as u64)) {
        None => StoreError::UnknownRun(batch.run.clone()),
        Some(Err(refused)) => refused,
        Some(Ok(())) => unreachable!("a batch that passes every check was written"),
    })
}

/// What lists of runs show after `batch`: the status and the moment, where it changes them.
fn shown(batch: &Batch) -> (Option<&str>, Option<i64>) {
    let summary = batch.summary.as_ref();
    let at = summary.map(|summary| summary.at).or_else(|| batch.entries.last().map(|entry| entry.at));
    (summary.map(|summary| summary.status.as_str()), at.map(Timestamp::as_micros))
}

/// Writes what a batch adds to its run beside the run's own row.
fn put_parts(transaction: &Transaction<'_>, run: i64, batch: &Batch, rows: &[EntryRow]) -> rusqlite::Result<u64> {
    for (hash, content) in &batch.contents {
        debug_assert_eq!(*hash, ContentHash::of(content), "a content of a batch stands under a hash that is not its own");
        put_content(transaction, *hash, content)?;
    }
    let mut insert = transaction.prepare_cached("INSERT INTO batches (run, first, checksum, entries) VALUES (?1, ?2, ?3, ?4)")?;
    let mut file = transaction.prepare_cached("INSERT INTO places (run, task, last, batch) VALUES (?1, ?2, ?3, ?4)")?;
    for row in rows {
        let number = insert.insert(params![run, to_sql(row.first), row.checksum, row.text])?;
        for key in &row.keys {
            file.execute([run, *key, to_sql(row.last), number])?;
        }
    }
    for call in &batch.logged {
        transaction
            .prepare_cached("INSERT INTO logged (run, agent, tool, task, call, at, input) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
            .execute(params![
                run,
                call.agent.as_str(),
                call.tool.as_str(),
                call.task.as_str(),
                call.call.as_str(),
                call.at.as_micros(),
                call.input.text()
            ])?;
    }
    for number in &batch.consumed {
        transaction
            .prepare_cached("DELETE FROM commands WHERE command = ?1 AND run = ?2")?
            .execute(params![to_sql(*number), run])?;
    }
    Ok(0)
}

fn put_content(transaction: &Transaction<'_>, hash: ContentHash, content: &Content) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("INSERT INTO contents (hash, bytes) VALUES (?1, ?2) ON CONFLICT (hash) DO NOTHING")?
        .execute(params![hash.as_bytes(), &content[..]])?;
    Ok(())
}

fn put_command(transaction: &Transaction<'_>, run: &RunId, command: &Json) -> rusqlite::Result<Answer> {
    let number = transaction
        .prepare_cached("INSERT INTO commands (run, body) SELECT run, ?2 FROM runs WHERE id = ?1 RETURNING command")?
        .query_row(params![run.as_str(), command.text()], |row| row.get::<_, i64>(0))
        .optional()?;
    Ok(number.map(|number| number as u64).ok_or_else(|| StoreError::UnknownRun(run.clone())))
}
