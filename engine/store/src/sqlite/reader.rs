//! A few connections that read, each on a thread where waiting for the disk holds up no task.
//!
//! A query sees one moment of the file, and what it returns was checked: entries against their checksums and for gaps,
//! contents against their hashes. A reader does *not* take part in writing and never waits for the writer.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use baton_types::document::Content;
use baton_types::entry::Recorded;
use baton_types::id::{AgentId, CallId, ContentHash, MemoryId, RunId, TaskId, ToolId};
use baton_types::json::Json;
use baton_types::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use tokio::sync::Semaphore;

use super::packed::unpack;
use super::recent::Place;
use super::records::{RunRow, Totals, checksum_of, link_at};
use super::{named, schema, to_sql};
use crate::rows::{self, HEADS, StoredRow, WHOLE_RUN};
use crate::{Due, LoggedCall, RunRecord, StoreError};

/// Largest number of concurrent queries. Further queries wait.
const MAX_READERS: usize = 4;

/// The connections that read.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    /// Idle connections; opened on first use.
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), idle: Mutex::default(), permits: Arc::new(Semaphore::new(MAX_READERS)) }
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
        answer.map_err(|error| named(&self.path, error))
    }
}

/// Returns the row of a run.
fn find(file: &Transaction<'_>, run: &RunId) -> Result<RunRow, StoreError> {
    RunRow::find(file, run)?.ok_or_else(|| StoreError::UnknownRun(run.clone()))
}

/// Entries of a timeline that are stored under one run: the requested run, or a run with whose entries it begins.
struct Stretch {
    run: RunRow,
    /// The sequence number before the first of them.
    after: u64,
    /// Sequence number of the last entry.
    through: u64,
}

/// Returns the places of the entries of `run`, in order.
fn stretches(file: &Transaction<'_>, run: &RunId) -> Result<Vec<Stretch>, StoreError> {
    let mut run = find(file, run)?;
    let mut bound = u64::MAX;
    let mut found = Vec::new();
    loop {
        let past = run.past;
        // A past is older than what begins with it, and so has a lower number: no damage makes this walk endless.
        if past.is_some_and(|past| past >= run.number) {
            return Err(StoreError::Corrupt { what: format!("run {} refers to a later run as its past", run.id) });
        }
        let (after, through) = (run.past_seq, bound.min(run.last_seq));
        bound = after.min(bound);
        if after < through {
            found.push(Stretch { run, after, through });
        }
        let Some(past) = past else { break };
        run = RunRow::load(file, past)?;
    }
    found.reverse();
    Ok(found)
}

/// The rows filed under a key of a run, from the one that ends after an entry to the one that begins by another, in order. A
/// row that is filed and not there is all nulls; that one and a row whose places contradict each other always come, so that
/// they are noticed.
const ROWS: &str = "SELECT first, last, entries, checksum, link, batch FROM places LEFT JOIN batches USING (batch)
     WHERE places.run = ?1 AND places.task = ?2 AND places.last > ?3
     AND (first <= ?4 OR first > last OR first IS NULL) ORDER BY places.last";

/// The row of one of the latest batches of a run, under the conditions of [`ROWS`]. Parameters: its last entry, its number, and the last entry
/// by which it may begin.
const RECENT_ROW: &str = "SELECT first, last, entries, checksum, link, place.batch FROM (SELECT ?1 AS last, ?2 AS batch) AS place
     LEFT JOIN batches USING (batch) WHERE first <= ?3 OR first > last OR first IS NULL";

/// Gives the rows filed under `key` that end after entry `after` and begin by entry `by` to `with`, in order and with their numbers,
/// until it has enough.
fn each_row(
    file: &Transaction<'_>,
    run: &RunRow,
    key: i64,
    after: u64,
    by: u64,
    mut with: impl FnMut(StoredRow<'_>, i64) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    let mut statement = file.prepare_cached(ROWS)?;
    let mut rows = statement.query(params![run.number, key, to_sql(after), to_sql(by)])?;
    let mut before = after;
    while let Some(row) = rows.next()? {
        before = row.get::<_, i64>(1)? as u64;
        if !one_row(run, row, &mut with)? {
            return Ok(());
        }
    }
    let mut statement = file.prepare_cached(RECENT_ROW)?;
    for Place(last, batch, _) in run.recent.of(&run.id)?.into_iter().filter(|place| place.has(key) && place.0 > after) {
        if last <= before {
            return Err(StoreError::Corrupt { what: format!("run {} has the entries that end with {last} twice", run.id) });
        }
        let mut rows = statement.query(params![to_sql(last), batch, to_sql(by)])?;
        if let Some(row) = rows.next()?
            && !one_row(run, row, &mut with)?
        {
            return Ok(());
        }
    }
    Ok(())
}

/// Gives a row of [`ROWS`] to `with`, with its number.
fn one_row(
    run: &RunRow,
    row: &Row<'_>,
    with: &mut impl FnMut(StoredRow<'_>, i64) -> Result<bool, StoreError>,
) -> Result<bool, StoreError> {
    let last = row.get::<_, i64>(1)? as u64;
    let Some(first) = row.get::<_, Option<i64>>(0)? else {
        return Err(StoreError::Corrupt { what: format!("run {} lacks the entries that end with {last}", run.id) });
    };
    let link = ContentHash::from_bytes(row.get(4)?);
    let stored = StoredRow { first: first as u64, last, text: "", checksum: row.get(3)?, link };
    let text = unpack(row.get_ref(2)?).map_err(|why| stored.damaged(&run.id, &why))?;
    with(StoredRow { text: &text, ..stored }, row.get(5)?)
}

/// See [`crate::Store::entries`].
pub(super) fn entries(file: &Transaction<'_>, run: &RunId, after: u64, limit: usize) -> Result<Vec<Arc<Recorded>>, StoreError> {
    let mut found = Vec::new();
    for Stretch { run, after: before, through } in stretches(file, run)? {
        let through = through.min(after.saturating_add(limit as u64));
        let mut last = after.max(before);
        if through <= last {
            continue;
        }
        let lacks = |seq| StoreError::Corrupt { what: format!("run {} lacks entry {seq}", run.id) };
        let mut link = None;
        each_row(file, &run, WHOLE_RUN, last, u64::MAX, |row, _| {
            if last == run.last_seq {
                return Err(row.damaged(&run.id, &"the run ended before"));
            }
            if row.first > last + 1 {
                return Err(lacks(last + 1));
            }
            let body = row.read(&run.id, last + 1..=through, &mut found)?;
            let before = match link {
                Some(link) => link,
                None if row.first == before + 1 => run.first_link(file)?,
                None => link_at(file, run.clone(), row.first - 1)?,
            };
            if row.link != before.extended(body.as_bytes()) {
                return Err(row.damaged(&run.id, &"they do not follow the entries before them"));
            }
            link = Some(row.link);
            last = row.last;
            // At the end of the run there must be nothing more.
            Ok(last < through || last == run.last_seq)
        })?;
        if last < through {
            return Err(lacks(last + 1));
        }
        if last == run.last_seq && link != Some(run.link) {
            return Err(StoreError::Corrupt { what: format!("the timeline of run {} ends with another entry {last}", run.id) });
        }
    }
    Ok(found)
}

/// Gives every row of a run's own entries to `with`, with its number, after a look at its text, its place and its link.
pub(super) fn each_own_row(
    file: &Transaction<'_>,
    run: &RunRow,
    mut with: impl FnMut(&StoredRow<'_>, i64) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let (mut last, mut link) = (run.past_seq, run.first_link(file)?);
    each_row(file, run, WHOLE_RUN, 0, u64::MAX, |row, number| {
        if row.first != last + 1 {
            return Err(StoreError::Corrupt { what: format!("run {} lacks entry {}", run.id, last + 1) });
        }
        link = link.extended(row.check(&run.id)?.as_bytes());
        if link != row.link {
            return Err(row.damaged(&run.id, &"they do not follow the entries before them"));
        }
        last = row.last;
        with(&row, number).map(|()| true)
    })?;
    if last == run.last_seq && link == run.link {
        Ok(())
    } else {
        Err(StoreError::Corrupt { what: format!("run {} ends with entry {last}, but {} was written last", run.id, run.last_seq) })
    }
}

/// See [`crate::Store::task_entries`].
pub(super) fn task_entries(
    file: &Transaction<'_>,
    run: &RunId,
    task: &TaskId,
    through: u64,
) -> Result<Vec<Arc<Recorded>>, StoreError> {
    let key = rows::task_key(task);
    let mut found = Vec::new();
    for Stretch { run, after, through: end } in stretches(file, run)? {
        count_places(file, &run, key, after, task)?;
        let through = through.min(end);
        each_row(file, &run, key, after, through, |row, _| {
            row.read_task(&run.id, task, through, &mut found)?;
            Ok(true)
        })?;
    }
    Ok(found)
}

/// Checks that `run` has as many places after entry `after`, its first, for the task of `key` as were made.
fn count_places(file: &Transaction<'_>, run: &RunRow, key: i64, after: u64, task: &TaskId) -> Result<(), StoreError> {
    let there: i64 = file
        .prepare_cached("SELECT count(*) FROM places WHERE run = ?1 AND task = ?2 AND last > ?3")?
        .query_row([run.number, key, to_sql(after)], |row| row.get(0))?;
    let expected: Option<i64> = file
        .prepare_cached("SELECT batch FROM places WHERE run = ?1 AND task = ?2 AND last = ?3")?
        .query_row([run.number, HEADS, key], |row| row.get(0))
        .optional()?;
    let fits = if let Some(expected) = expected {
        there == expected
    } else {
        // The task is unknown, unless a damaged index hides it. A scan of all tasks of the run decides.
        let (tasks, is_known): (i64, bool) = file
            .prepare_cached("SELECT count(*), coalesce(max(+last = ?3), 0) FROM places WHERE run = ?1 AND task = ?2")?
            .query_row([run.number, HEADS, key], |row| Ok((row.get(0)?, row.get(1)?)))?;
        there == 0 && tasks as u64 == run.tasks && !is_known
    };
    if fits { Ok(()) } else { Err(StoreError::Corrupt { what: format!("run {} lacks places of task {task}", run.id) }) }
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
        Some(content) => Ok(Some(content)),
        // Contents that were never stored are not requested in normal operation, so this may scan all contents.
        None if file.prepare_cached("SELECT 1 FROM contents NOT INDEXED WHERE hash = ?1")?.exists([hash.as_bytes()])? => {
            Err(StoreError::Corrupt { what: format!("the index of contents lacks {hash}") })
        }
        None => Ok(None),
    }
}

/// See [`crate::Store::recall`].
pub(super) fn recall(
    file: &Transaction<'_>,
    memory: &MemoryId,
    agent: &AgentId,
    tool: &ToolId,
    limit: usize,
) -> Result<Vec<(RunId, LoggedCall)>, StoreError> {
    let damaged =
        |why: String| StoreError::Corrupt { what: format!("the calls of {tool} by {agent} in the memory of {memory}: {why}") };
    let calls: Option<i64> = file
        .prepare_cached("SELECT calls FROM memories WHERE memory = ?1 AND agent = ?2 AND tool = ?3")?
        .query_row([memory.as_str(), agent.as_str(), tool.as_str()], |row| row.get(0))
        .optional()?;
    if calls.is_none() {
        // Nothing was logged, unless a damaged index hides it.
        let (memories, is_known): (i64, bool) = file
            .prepare_cached("SELECT count(*), coalesce(max(+memory = ?1 AND +agent = ?2 AND +tool = ?3), 0) FROM memories")?
            .query_row([memory.as_str(), agent.as_str(), tool.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if is_known || memories as u64 != Totals::load(file)?.memories {
            return Err(damaged("their number is missing".to_owned()));
        }
    }
    let mut expected = calls.unwrap_or(0);
    let mut statement = file.prepare_cached(
        "SELECT nth, run, task, call, at, input, checksum FROM logged
         WHERE memory = ?1 AND agent = ?2 AND tool = ?3 ORDER BY nth DESC LIMIT ?4",
    )?;
    let mut rows = statement.query(params![memory.as_str(), agent.as_str(), tool.as_str(), to_sql(limit as u64)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let text = |index| row.get::<_, String>(index);
        let (nth, run) = (row.get::<_, i64>(0)?, RunId::new(text(1)?));
        let (task, call) = (TaskId::new(text(2)?), CallId::new(text(3)?));
        let (at, input) = (row.get(4)?, text(5)?);
        if nth != expected || row.get::<_, i64>(6)? != checksum_of(&(memory, agent, tool, nth, &run, &task, &call, at, &input)) {
            return Err(damaged(format!("number {expected} is missing or was changed")));
        }
        expected -= 1;
        let input = Json::stored(&input).map_err(|error| damaged(error.to_string()))?;
        let at = Timestamp::from_micros(at);
        let (memory, agent, tool) = (memory.clone(), agent.clone(), tool.clone());
        found.push((run, LoggedCall { memory, agent, tool, task, call, at, input }));
    }
    if expected > 0 && found.len() < limit {
        return Err(damaged(format!("number {expected} is missing")));
    }
    found.reverse();
    Ok(found)
}

/// See [`crate::Store::runs`].
pub(super) fn runs(file: &Transaction<'_>) -> Result<Vec<RunRecord>, StoreError> {
    let mut rows = RunRow::all(file)?;
    rows.sort_by_key(|row| std::cmp::Reverse((row.created, row.number)));
    rows.into_iter().map(|row| row.into_record(file)).collect()
}

/// See [`crate::Store::run`].
pub(super) fn run(file: &Transaction<'_>, run: &RunId) -> Result<Option<RunRecord>, StoreError> {
    RunRow::find(file, run)?.map(|row| row.into_record(file)).transpose()
}

/// See [`crate::Store::due`].
pub(super) fn due(file: &Transaction<'_>, now: Timestamp, limit: usize) -> Result<Due, StoreError> {
    // Each part has an index of its own, so that runs that are not due cost nothing.
    let mut due = file.prepare_cached(
        "SELECT id FROM runs WHERE run IN (
             SELECT run FROM (SELECT run FROM runs WHERE wakes <= ?1 ORDER BY wakes LIMIT ?2)
             UNION SELECT run FROM (SELECT run FROM runs WHERE wakes IS NOT NULL AND commands > 0 LIMIT ?2)
         ) ORDER BY wakes LIMIT ?2",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let runs = due.query_map(params![now.as_micros(), limit], |row| row.get::<_, String>(0))?;
    let runs = runs.map(|id| id.map(RunId::new)).collect::<Result<_, _>>()?;
    let next: Option<i64> = file
        .prepare_cached("SELECT min(wakes) FROM runs WHERE wakes > ?1 AND wakes < ?2")?
        .query_row([now.as_micros(), Timestamp::MAX.as_micros()], |row| row.get(0))?;
    Ok(Due { runs, next: next.map(Timestamp::from_micros) })
}

/// See [`crate::Store::is_due`].
pub(super) fn is_due(file: &Transaction<'_>, run: &RunId, now: Timestamp) -> Result<bool, StoreError> {
    let query = "SELECT count(*) FROM runs WHERE id = ?1 AND wakes IS NOT NULL AND (wakes <= ?2 OR commands > 0)";
    let found: i64 = file.prepare_cached(query)?.query_row(params![run.as_str(), now.as_micros()], |row| row.get(0))?;
    Ok(found > 0)
}

/// See [`crate::Store::take_commands`].
pub(super) fn commands(file: &Transaction<'_>, run: &RunId, after: u64) -> Result<Vec<(u64, Json)>, StoreError> {
    let run = find(file, run)?;
    let damaged = |why: String| StoreError::Corrupt { what: format!("the inbox of run {}: {why}", run.id) };
    let mut statement = file.prepare_cached("SELECT command, body, checksum FROM commands WHERE run = ?1 ORDER BY command")?;
    let mut rows = statement.query([run.number])?;
    let mut commands = Vec::new();
    while let Some(row) = rows.next()? {
        let (command, body) = (row.get::<_, i64>(0)? as u64, row.get::<_, String>(1)?);
        if row.get::<_, i64>(2)? != checksum_of(&(&run.id, command, &body)) {
            return Err(damaged(format!("command {command} does not match its checksum")));
        }
        commands.push((command, Json::stored(&body).map_err(|error| damaged(error.to_string()))?));
    }
    if commands.len() as u64 != run.commands {
        return Err(damaged(format!("{} commands are stored, expected {}", commands.len(), run.commands)));
    }
    commands.retain(|(command, _)| *command > after);
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
        let steps = plan.query_map(params![1, 2, 3, 4], |row| row.get("detail")).expect("its steps");
        let steps: Vec<String> = steps.collect::<Result<_, _>>().expect("texts");
        assert_eq!(
            steps,
            [
                "SEARCH places USING PRIMARY KEY (run=? AND task=? AND last>?)",
                "SEARCH batches USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN"
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
            assert!(!statement.exists(params![1, 2, after, 4]).expect("an answer"));
        }
        assert_eq!(statement.get_status(rusqlite::StatementStatus::RePrepare), 0);
    }
}
