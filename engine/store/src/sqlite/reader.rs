//! A few connections that read, each on a thread where waiting for the disk holds up no task.
//!
//! A query sees one moment of the file, and what it returns was checked: entries against their checksums and for gaps,
//! contents against their hashes. A reader does *not* take part in writing and never waits for the writer.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use baton_core::entry::{ForkPoint, Recorded};
use baton_core::function::Content;
use baton_core::id::{AgentId, CallId, ContentHash, JobId, RunId, TaskId, ToolId};
use baton_core::json::Json;
use baton_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use tokio::sync::Semaphore;

use super::rows::{self, StoredRow, WHOLE_RUN};
use super::{named, schema, to_sql};
use crate::{LoggedCall, RunRecord, StoreError};

/// How many queries may run at the same time; more of them wait.
const MAX_READERS: usize = 4;

/// The connections that read.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    /// Connections that nobody uses now; opened when first needed.
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), idle: Mutex::default(), permits: Arc::new(Semaphore::new(MAX_READERS)) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `query` on one moment of the file.
    pub(super) async fn read<T, Q>(self: &Arc<Self>, query: Q) -> Result<T, StoreError>
    where
        T: Send + 'static,
        Q: FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let readers = Arc::clone(self);
        let reading = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            readers.read_now(query)
        });
        match reading.await {
            Ok(answer) => answer,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(StoreError::Closed),
        }
    }

    /// Runs `query` on this thread.
    pub(super) fn read_now<T>(&self, query: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = idle.map_or_else(|| schema::open_for_reading(&self.path), Ok)?;
        let answer = connection.transaction().map_err(StoreError::Sqlite).and_then(|transaction| query(&transaction));
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        answer.map_err(|error| match error {
            StoreError::Sqlite(error) => named(&self.path, error),
            other => other,
        })
    }
}

/// The number that stands for a run in the file.
fn find(file: &Transaction<'_>, run: &RunId) -> Result<i64, StoreError> {
    file.prepare_cached("SELECT run FROM runs WHERE id = ?1")?
        .query_row([run.as_str()], |row| row.get(0))
        .optional()?
        .ok_or_else(|| StoreError::UnknownRun(run.clone()))
}

/// Entries of a run's timeline that are filed under one run: it, or one that it begins with.
struct Stretch {
    /// The number of the run that they are filed under.
    number: i64,
    run: RunId,
    /// The sequence number before the first of them.
    after: u64,
    /// That of the last.
    through: u64,
}

/// Where the entries of `run` are, in order.
fn stretches(file: &Transaction<'_>, run: &RunId) -> Result<Vec<Stretch>, StoreError> {
    let mut number = find(file, run)?;
    let mut bound = u64::MAX;
    let mut found = Vec::new();
    loop {
        let (id, last_seq, past, past_seq): (String, i64, Option<i64>, i64) = file
            .prepare_cached("SELECT id, last_seq, past, past_seq FROM runs WHERE run = ?1")?
            .query_row([number], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
            .optional()?
            .ok_or_else(|| StoreError::Corrupt { what: format!("what run {run} begins with is missing") })?;
        let (after, through) = (past_seq as u64, bound.min(last_seq as u64));
        if after < through {
            found.push(Stretch { number, run: RunId::new(id), after, through });
        }
        let Some(past) = past else { break };
        // A past is older than what begins with it, and so has a lower number: no damage makes this walk endless.
        if past >= number {
            return Err(StoreError::Corrupt { what: format!("run {run} begins with a run that came later") });
        }
        (number, bound) = (past, after.min(bound));
    }
    found.reverse();
    Ok(found)
}

/// The rows filed under a key of a run, from the one that ends after an entry, in order.
const ROWS: &str = "SELECT first, last, entries, checksum FROM places CROSS JOIN batches USING (batch)
     WHERE places.run = ?1 AND places.task = ?2 AND places.last > ?3 ORDER BY places.last";

/// Gives the rows filed under `key` that end after entry `after` to `with`, in order, until it has enough.
fn each_row(
    file: &Transaction<'_>,
    number: i64,
    key: i64,
    after: u64,
    mut with: impl FnMut(StoredRow<'_>) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    let mut statement = file.prepare_cached(ROWS)?;
    let mut rows = statement.query(params![number, key, to_sql(after)])?;
    while let Some(row) = rows.next()? {
        let text = row.get_ref(2)?.as_str().map_err(|error| StoreError::Corrupt { what: error.to_string() })?;
        let row =
            StoredRow { first: row.get::<_, i64>(0)? as u64, last: row.get::<_, i64>(1)? as u64, text, checksum: row.get(3)? };
        if !with(row)? {
            break;
        }
    }
    Ok(())
}

/// See [`crate::Store::entries`].
pub(super) fn entries(file: &Transaction<'_>, run: &RunId, after: u64, limit: usize) -> Result<Vec<Arc<Recorded>>, StoreError> {
    let mut found = Vec::new();
    for Stretch { number, run, after: before, through } in stretches(file, run)? {
        let through = through.min(after.saturating_add(limit as u64));
        let mut last = after.max(before);
        if through <= last {
            continue;
        }
        let lacks = |seq| StoreError::Corrupt { what: format!("run {run} lacks entry {seq}") };
        each_row(file, number, WHOLE_RUN, last, |row| {
            if row.first > last + 1 {
                return Err(lacks(last + 1));
            }
            row.read(&run, last + 1..=through, &mut found)?;
            last = row.last;
            Ok(last < through)
        })?;
        if last < through {
            return Err(lacks(last + 1));
        }
    }
    Ok(found)
}

/// See [`crate::Store::task_entries`].
pub(super) fn task_entries(
    file: &Transaction<'_>,
    run: &RunId,
    task: &TaskId,
    through: u64,
) -> Result<Vec<Arc<Recorded>>, StoreError> {
    let mut found = Vec::new();
    for Stretch { number, run, after, through: end } in stretches(file, run)? {
        let through = through.min(end);
        each_row(file, number, rows::task_key(task), after, |row| {
            // A row that is damaged is read whatever it says of its place, and so noticed.
            if through < row.first && row.first <= row.last {
                return Ok(false);
            }
            let before = found.len();
            row.read(&run, row.first..=through, &mut found)?;
            found.extract_if(before.., |recorded| recorded.entry.task() != Some(task)).for_each(drop);
            Ok(row.last < through)
        })?;
    }
    Ok(found)
}

/// See [`crate::Store::content`].
pub(super) fn content(file: &Transaction<'_>, hash: ContentHash) -> Result<Option<Content>, StoreError> {
    let found = file
        .prepare_cached("SELECT bytes FROM contents WHERE hash = ?1")?
        .query_row([hash.as_bytes()], |row| Ok(Content::from(row.get_ref(0)?.as_blob()?)))
        .optional()?;
    match found {
        Some(content) if ContentHash::of(&content) != hash => {
            Err(StoreError::Corrupt { what: format!("content {hash} no longer has that hash") })
        }
        found => Ok(found),
    }
}

/// See [`crate::Store::recall`].
pub(super) fn recall(
    file: &Transaction<'_>,
    agent: &AgentId,
    tool: &ToolId,
    limit: usize,
) -> Result<Vec<(RunId, LoggedCall)>, StoreError> {
    let mut statement = file.prepare_cached(
        "SELECT runs.id, logged.task, logged.call, logged.at, logged.input FROM logged JOIN runs USING (run)
         WHERE logged.agent = ?1 AND logged.tool = ?2 ORDER BY logged.logged DESC LIMIT ?3",
    )?;
    let mut rows = statement.query(params![agent.as_str(), tool.as_str(), to_sql(limit as u64)])?;
    let mut calls = Vec::new();
    while let Some(row) = rows.next()? {
        let call: String = row.get(2)?;
        let input: String = row.get(4)?;
        let input = Json::parse(&input)
            .map_err(|error| StoreError::Corrupt { what: format!("the logged input of call {call}: {error}") })?;
        let logged = LoggedCall {
            agent: agent.clone(),
            tool: tool.clone(),
            task: TaskId::new(row.get::<_, String>(1)?),
            call: CallId::new(call),
            at: Timestamp::from_micros(row.get(3)?),
            input,
        };
        calls.push((RunId::new(row.get::<_, String>(0)?), logged));
    }
    calls.reverse();
    Ok(calls)
}

/// The columns of a [`RunRecord`], in the order of [`record`].
const RECORD_COLUMNS: &str = "id, job, status, created, updated, last_seq, epoch, owner,
     (SELECT other.id FROM runs AS other WHERE other.run = runs.past), past_seq";

/// See [`crate::Store::runs`].
pub(super) fn runs(file: &Transaction<'_>) -> Result<Vec<RunRecord>, StoreError> {
    let mut statement = file.prepare_cached(&format!("SELECT {RECORD_COLUMNS} FROM runs ORDER BY created DESC, run DESC"))?;
    Ok(statement.query_map([], record)?.collect::<Result<_, _>>()?)
}

/// See [`crate::Store::run`].
pub(super) fn run(file: &Transaction<'_>, run: &RunId) -> Result<Option<RunRecord>, StoreError> {
    let mut statement = file.prepare_cached(&format!("SELECT {RECORD_COLUMNS} FROM runs WHERE id = ?1"))?;
    Ok(statement.query_row([run.as_str()], record).optional()?)
}

fn record(row: &Row<'_>) -> rusqlite::Result<RunRecord> {
    Ok(RunRecord {
        id: RunId::new(row.get::<_, String>(0)?),
        job: JobId::new(row.get::<_, String>(1)?),
        status: row.get(2)?,
        created: Timestamp::from_micros(row.get(3)?),
        updated: Timestamp::from_micros(row.get(4)?),
        last_seq: row.get::<_, i64>(5)? as u64,
        epoch: row.get::<_, i64>(6)? as u64,
        owner: row.get(7)?,
        past: match row.get::<_, Option<String>>(8)? {
            Some(run) => Some(ForkPoint { run: RunId::new(run), seq: row.get::<_, i64>(9)? as u64 }),
            None => None,
        },
    })
}

/// See [`crate::Store::take_commands`].
pub(super) fn commands(file: &Transaction<'_>, run: &RunId, after: u64) -> Result<Vec<(u64, Json)>, StoreError> {
    let number = find(file, run)?;
    let mut statement =
        file.prepare_cached("SELECT command, body FROM commands WHERE run = ?1 AND command > ?2 ORDER BY command")?;
    let mut rows = statement.query(params![number, to_sql(after)])?;
    let mut commands = Vec::new();
    while let Some(row) = rows.next()? {
        let command = row.get::<_, i64>(0)? as u64;
        let body: String = row.get(1)?;
        let body = Json::parse(&body)
            .map_err(|error| StoreError::Corrupt { what: format!("command {command} of run {run}: {error}") })?;
        commands.push((command, body));
    }
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_s_entries_are_found_by_their_index() {
        let folder = tempfile::TempDir::new().expect("a temporary folder");
        let connection = schema::open_for_writing(&folder.path().join("store.db")).expect("a new store");
        let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {ROWS}")).expect("a plan");
        let steps = plan.query_map(params![1, 2, 3], |row| row.get("detail")).expect("its steps");
        let steps: Vec<String> = steps.collect::<Result<_, _>>().expect("texts");
        assert_eq!(
            steps,
            [
                "SEARCH places USING PRIMARY KEY (run=? AND task=? AND last>?)",
                "SEARCH batches USING INTEGER PRIMARY KEY (rowid=?)"
            ]
        );
    }

    #[test]
    fn statements_are_compiled_once() {
        let folder = tempfile::TempDir::new().expect("a temporary folder");
        let path = folder.path().join("store.db");
        schema::open_for_writing(&path).expect("a new store");
        let connection = schema::open_for_reading(&path).expect("the same store");
        let mut statement = connection.prepare(ROWS).expect("a statement");
        for after in [0, 1, 1_000] {
            assert!(!statement.exists(params![1, 2, after]).expect("an answer"));
        }
        assert_eq!(statement.get_status(rusqlite::StatementStatus::RePrepare), 0);
    }
}
