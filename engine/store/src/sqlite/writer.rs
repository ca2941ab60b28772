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
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior, params};
use tokio::sync::oneshot;

use super::records::{RunRow, Totals, checksum_of, link_at};
use super::rows::{self, EntryRow, HEADS, WHOLE_RUN};
use super::{SqliteStats, named, to_sql};
use crate::{Batch, LoggedCall, NewRun, STATUS_CREATED, StoreError, failpoint};

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
        let committed = begun.map_err(StoreError::Sqlite).and_then(|transaction| {
            let answers = group.iter().map(|request| perform(&transaction, &request.write)).collect::<Result<Vec<_>, _>>()?;
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
    fn commit_each(&mut self, group: &[Request], error: StoreError) -> Vec<Answer> {
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
        let mut commit = || -> Result<Answer, StoreError> {
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
    fn look_at(&mut self, error: &StoreError) {
        if let StoreError::Sqlite(error) = error
            && error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure)
        {
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
fn perform(file: &Transaction<'_>, write: &Write) -> Result<Answer, StoreError> {
    match write {
        Write::Create(run) => insert_run(file, run, &mut |_| Ok(())),
        Write::Begin { run, owner, batch, rows } => begin(file, run, owner, batch, rows),
        Write::TakeOver { run, owner } => take_over(file, run, owner),
        Write::Append { batch, rows } => append(file, batch, rows),
        Write::PutContent { hash, content } => put_content(file, *hash, content).map(|()| Ok(0)),
        Write::PutCommand { run, command } => put_command(file, run, command),
    }
}

/// Makes a run known; `with` adds to it before it is written down for good.
fn insert_run(
    file: &Transaction<'_>,
    run: &NewRun,
    with: &mut dyn FnMut(&mut RunRow) -> Result<(), StoreError>,
) -> Result<Answer, StoreError> {
    let (past, link) = match &run.past {
        None => (None, RunRow::root_link(&run.id)),
        Some(ForkPoint { run: other, seq }) => match RunRow::find(file, other)? {
            None => return Ok(Err(StoreError::UnknownRun(other.clone()))),
            Some(RunRow { last_seq: found, .. }) if found < *seq => {
                return Ok(Err(StoreError::SequenceMismatch { run: other.clone(), expected: *seq, found }));
            }
            Some(other) => (Some(other.number), link_at(file, other, *seq)?),
        },
    };
    let mut row = RunRow {
        number: 0,
        id: run.id.clone(),
        job: run.job.clone(),
        status: STATUS_CREATED.to_owned(),
        created: run.at.as_micros(),
        updated: run.at.as_micros(),
        last_seq: run.past_seq(),
        epoch: 0,
        owner: None,
        past,
        past_seq: run.past_seq(),
        commands: 0,
        tasks: 0,
        link,
    };
    if !row.insert(file)? {
        return Ok(Err(StoreError::RunExists(run.id.clone())));
    }
    let mut totals = Totals::load(file)?;
    totals.runs += 1;
    totals.save(file)?;
    with(&mut row)?;
    row.save(file)?;
    Ok(Ok(0))
}

fn begin(file: &Transaction<'_>, run: &NewRun, owner: &str, batch: &Batch, rows: &[EntryRow]) -> Result<Answer, StoreError> {
    // What the batch could be refused for comes first: a refusal has written nothing.
    if let Err(refused) = batch.check(1, run.past_seq()) {
        return Ok(Err(refused));
    }
    insert_run(file, run, &mut |row| {
        (row.epoch, row.owner) = (1, Some(owner.to_owned()));
        put_parts(file, row, batch, rows)
    })
}

fn take_over(file: &Transaction<'_>, run: &RunId, owner: &str) -> Result<Answer, StoreError> {
    let Some(mut row) = RunRow::find(file, run)? else { return Ok(Err(StoreError::UnknownRun(run.clone()))) };
    (row.epoch, row.owner) = (row.epoch + 1, Some(owner.to_owned()));
    row.save(file)?;
    Ok(Ok(row.epoch))
}

fn append(file: &Transaction<'_>, batch: &Batch, rows: &[EntryRow]) -> Result<Answer, StoreError> {
    let Some(mut row) = RunRow::find(file, &batch.run)? else { return Ok(Err(StoreError::UnknownRun(batch.run.clone()))) };
    if let Err(refused) = batch.check(row.epoch, row.last_seq) {
        return Ok(Err(refused));
    }
    put_parts(file, &mut row, batch, rows)?;
    row.save(file)?;
    Ok(Ok(0))
}

/// Writes what a batch adds to its run, and changes the run's row by it.
fn put_parts(file: &Transaction<'_>, run: &mut RunRow, batch: &Batch, rows: &[EntryRow]) -> Result<(), StoreError> {
    for (hash, content) in &batch.contents {
        debug_assert_eq!(*hash, ContentHash::of(content), "a content of a batch stands under a hash that is not its own");
        put_content(file, *hash, content)?;
    }
    let mut insert =
        file.prepare_cached("INSERT INTO batches (run, first, checksum, link, entries) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    let mut place = file.prepare_cached("INSERT INTO places (run, task, last, batch) VALUES (?1, ?2, ?3, ?4)")?;
    let mut count = file.prepare_cached(
        "INSERT INTO places (run, task, last, batch) VALUES (?1, ?2, ?3, 1) ON CONFLICT DO UPDATE SET batch = batch + 1
         RETURNING batch",
    )?;
    for row in rows {
        run.link = run.link.extended(row.body.as_bytes());
        let checksum = rows::first_eight(row.body);
        let number = insert.insert(params![run.number, to_sql(row.first), checksum, run.link.as_bytes(), row.text])?;
        place.execute([run.number, WHOLE_RUN, to_sql(row.last), number])?;
        for task in &row.tasks {
            place.execute([run.number, *task, to_sql(row.last), number])?;
            if count.query_row([run.number, HEADS, *task], |row| row.get::<_, i64>(0))? == 1 {
                run.tasks += 1;
            }
        }
    }
    for call in &batch.logged {
        insert_logged(file, &run.id, call)?;
    }
    for number in &batch.consumed {
        let consumed = file
            .prepare_cached("DELETE FROM commands WHERE run = ?1 AND command = ?2")?
            .execute([run.number, to_sql(*number)])?;
        run.commands = run.commands.saturating_sub(consumed as u64);
    }
    run.last_seq = batch.last_seq();
    if let Some(last) = batch.entries.last() {
        run.updated = last.at.as_micros();
    }
    if let Some(summary) = &batch.summary {
        run.status.clone_from(&summary.status);
        run.updated = summary.at.as_micros();
    }
    Ok(())
}

fn put_content(file: &Transaction<'_>, hash: ContentHash, content: &Content) -> Result<(), StoreError> {
    file.prepare_cached("INSERT INTO contents (hash, bytes) VALUES (?1, ?2) ON CONFLICT (hash) DO NOTHING")?
        .execute(params![hash.as_bytes(), &content[..]])?;
    Ok(())
}

/// Writes down that `run` made `call`, which only logs.
pub(super) fn insert_logged(file: &Transaction<'_>, run: &RunId, call: &LoggedCall) -> Result<(), StoreError> {
    let LoggedCall { agent, tool, task, call, at, input } = call;
    let nth: i64 = file
        .prepare_cached(
            "INSERT INTO memories (agent, tool, calls) VALUES (?1, ?2, 1) ON CONFLICT DO UPDATE SET calls = calls + 1
             RETURNING calls",
        )?
        .query_row([agent.as_str(), tool.as_str()], |row| row.get(0))?;
    if nth == 1 {
        let mut totals = Totals::load(file)?;
        totals.memories += 1;
        totals.save(file)?;
    }
    file.prepare_cached(
        "INSERT INTO logged (agent, tool, nth, run, task, call, at, input, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        agent.as_str(),
        tool.as_str(),
        nth,
        run.as_str(),
        task.as_str(),
        call.as_str(),
        at.as_micros(),
        input.text(),
        checksum_of(&(agent, tool, nth, run, task, call, at.as_micros(), input.text()))
    ])?;
    Ok(())
}

fn put_command(file: &Transaction<'_>, run: &RunId, command: &Json) -> Result<Answer, StoreError> {
    let Some(mut row) = RunRow::find(file, run)? else { return Ok(Err(StoreError::UnknownRun(run.clone()))) };
    let mut totals = Totals::load(file)?;
    totals.commands += 1;
    totals.save(file)?;
    insert_command(file, &mut row, totals.commands, command.text())?;
    row.save(file)?;
    Ok(Ok(totals.commands))
}

/// Puts a command into the inbox of `run`; the run's row is still to be written.
pub(super) fn insert_command(file: &Transaction<'_>, run: &mut RunRow, number: u64, body: &str) -> Result<(), StoreError> {
    file.prepare_cached("INSERT INTO commands (run, command, body, checksum) VALUES (?1, ?2, ?3, ?4)")?.execute(params![
        run.number,
        to_sql(number),
        body,
        checksum_of(&(&run.id, number, body))
    ])?;
    run.commands += 1;
    Ok(())
}
