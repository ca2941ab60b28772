//! Reads: each query sees one moment, and what it returns was checked.
//!
//! Entries never change, so several queries of one read need no common moment.

use std::sync::Arc;

use baton_types::document::Content;
use baton_types::entry::Recorded;
use baton_types::id::{AgentId, CallId, ContentHash, MemoryId, RunId, TaskId, ToolId};
use baton_types::json::Json;
use baton_types::time::Timestamp;
use tokio_postgres::{Client, Row};

use super::lease::IS_ALIVE;
use super::pool::{Connection, Pool};
use super::value::{to_sql, values};
use crate::rows::{self, StoredRow};
use crate::{Due, LoggedCall, StoreError};

/// A run on the way from a run to the run that it begins with, and so on.
pub(super) struct Line {
    pub(super) number: i64,
    pub(super) id: RunId,
    pub(super) past_seq: u64,
    pub(super) last_seq: u64,
    pub(super) link: ContentHash,
    pub(super) has_past: bool,
}

impl Line {
    /// Returns the run `id` and the runs that it begins with, the oldest last.
    pub(super) async fn of(client: &Client, id: &RunId) -> Result<Vec<Self>, StoreError> {
        // A past is older than what begins with it, and so has a lower number: the walk ends.
        let query = "WITH RECURSIVE line AS (
                         SELECT run, id, past, past_seq, last_seq, link FROM baton.runs WHERE id = $1
                         UNION ALL SELECT r.run, r.id, r.past, r.past_seq, r.last_seq, r.link
                         FROM baton.runs r JOIN line ON r.run = line.past AND r.run < line.run)
                     SELECT run, id, past, past_seq, last_seq, link FROM line ORDER BY run DESC";
        let mut line = Vec::new();
        let mut expected = None;
        for row in client.query_typed(query, values![id.as_str()]).await? {
            let past: Option<i64> = row.try_get(2)?;
            line.push(Self {
                number: row.try_get(0)?,
                id: RunId::new(row.try_get::<_, String>(1)?),
                past_seq: row.try_get::<_, i64>(3)? as u64,
                last_seq: row.try_get::<_, i64>(4)? as u64,
                link: link(&row, 5)?,
                has_past: past.is_some(),
            });
            expected = past;
        }
        match (line.last(), expected) {
            (None, _) => Err(StoreError::UnknownRun(id.clone())),
            (Some(last), Some(_)) => Err(StoreError::Corrupt { what: format!("the past of run {} is missing", last.id) }),
            (Some(_), None) => Ok(line),
        }
    }
}

/// Returns the link in a column.
pub(super) fn link(row: &Row, column: usize) -> Result<ContentHash, StoreError> {
    let bytes: &[u8] = row.try_get(column)?;
    let bytes = bytes.try_into().map_err(|_| StoreError::Corrupt { what: format!("a hash has {} bytes", bytes.len()) })?;
    Ok(ContentHash::from_bytes(bytes))
}

/// Returns the link of the row that has entry `seq` of the timeline of the first run of `line`.
pub(super) async fn link_at(client: &Client, line: &[Line], seq: u64) -> Result<ContentHash, StoreError> {
    let Some(run) = line.iter().find(|run| seq > run.past_seq || !run.has_past) else {
        return Err(StoreError::Corrupt { what: "a run has no beginning".to_owned() });
    };
    if seq == 0 {
        return Ok(rows::root_link(&run.id));
    }
    let query = "SELECT link FROM baton.entries WHERE run = $1 AND last >= $2 ORDER BY last LIMIT 1";
    let found = client.query_typed_opt(query, values![run.number, to_sql(seq)]).await?;
    let row = found.ok_or_else(|| StoreError::Corrupt { what: format!("run {} lacks entry {seq}", run.id) })?;
    link(&row, 0)
}

/// Returns a row of entries: its columns are `first`, `last`, `checksum`, `link`, `entries`.
pub(super) fn stored(row: &Row) -> Result<StoredRow<'_>, StoreError> {
    Ok(StoredRow {
        first: row.try_get::<_, i64>(0)? as u64,
        last: row.try_get::<_, i64>(1)? as u64,
        checksum: row.try_get(2)?,
        link: link(row, 3)?,
        text: row.try_get(4)?,
    })
}

/// See [`crate::Store::entries`].
pub(super) async fn entries(pool: &Pool, run: &RunId, after: u64, limit: usize) -> Result<Vec<Arc<Recorded>>, StoreError> {
    let work = |client: Arc<Connection>| async move {
        let line = Line::of(&client, run).await?;
        let mut found = Vec::new();
        let mut bound = line[0].last_seq;
        // From the oldest entries on, each run up to where the next one begins.
        let mut stretches = Vec::new();
        for (index, of) in line.iter().enumerate() {
            let through = bound.min(of.last_seq);
            bound = bound.min(of.past_seq);
            stretches.push((index, through));
        }
        for (index, through) in stretches.into_iter().rev() {
            let through = through.min(after.saturating_add(limit as u64));
            own_entries(&client, &line[index..], after, through, &mut found).await?;
        }
        Ok(found)
    };
    pool.read(work).await
}

/// Adds the own entries of the first run of `line` that come after `after`, up to `through`.
async fn own_entries(
    client: &Client,
    line: &[Line],
    after: u64,
    through: u64,
    found: &mut Vec<Arc<Recorded>>,
) -> Result<(), StoreError> {
    let Some(run) = line.first() else { return Ok(()) };
    let mut last = after.max(run.past_seq);
    if through <= last {
        return Ok(());
    }
    let lacks = |seq| StoreError::Corrupt { what: format!("run {} lacks entry {seq}", run.id) };
    let query = "SELECT first, last, checksum, link, entries FROM baton.entries
                 WHERE run = $1 AND last > $2 AND first <= $3 ORDER BY last";
    let mut before = None;
    for row in client.query_typed(query, values![run.number, to_sql(last), to_sql(through)]).await? {
        let row = stored(&row)?;
        if row.first > last + 1 {
            return Err(lacks(last + 1));
        }
        let body = row.read(&run.id, last + 1..=through, found)?;
        let link = match before {
            Some(link) => link,
            // The link before the run's first own row is that of its past.
            None => link_at(client, line, row.first - 1).await?,
        };
        if row.link != link.extended(body.as_bytes()) {
            return Err(row.damaged(&run.id, &"they do not follow the entries before them"));
        }
        before = Some(row.link);
        last = row.last;
    }
    if last < through {
        return Err(lacks(last + 1));
    }
    if last == run.last_seq && before != Some(run.link) {
        return Err(StoreError::Corrupt { what: format!("the timeline of run {} ends with another entry {last}", run.id) });
    }
    Ok(())
}

/// See [`crate::Store::task_entries`].
pub(super) async fn task_entries(
    pool: &Pool,
    run: &RunId,
    task: &TaskId,
    through: u64,
) -> Result<Vec<Arc<Recorded>>, StoreError> {
    let key = rows::task_key(task);
    let query = "SELECT e.first, e.last, e.checksum, e.link, e.entries
                 FROM baton.places p LEFT JOIN baton.entries e ON e.run = p.run AND e.last = p.last
                 WHERE p.run = $1 AND p.task = $2 AND (e.first <= $3 OR e.first IS NULL) ORDER BY p.last";
    pool.read(|client| async move {
        let line = Line::of(&client, run).await?;
        let (mut parts, mut bound) = (Vec::new(), through.min(line[0].last_seq));
        for of in &line {
            let through = bound.min(of.last_seq);
            bound = bound.min(of.past_seq);
            if through <= of.past_seq {
                continue;
            }
            let mut part = Vec::new();
            for row in client.query_typed(query, values![of.number, key, to_sql(through)]).await? {
                if row.try_get::<_, Option<i64>>(0)?.is_none() {
                    return Err(StoreError::Corrupt { what: format!("run {} lacks entries of task {task}", of.id) });
                }
                let row = stored(&row)?;
                row.read_task(&of.id, task, through, &mut part)?;
            }
            parts.push(part);
        }
        Ok(parts.into_iter().rev().flatten().collect())
    })
    .await
}

/// See [`crate::Store::content`].
pub(super) async fn content(pool: &Pool, hash: ContentHash) -> Result<Option<Content>, StoreError> {
    let query = "SELECT bytes FROM baton.contents WHERE hash = $1";
    pool.read(|client| async move {
        let Some(row) = client.query_typed_opt(query, values![&hash.as_bytes()[..]]).await? else { return Ok(None) };
        let content = Content::from(row.try_get::<_, &[u8]>(0)?);
        if ContentHash::of(&content) == hash {
            Ok(Some(content))
        } else {
            Err(StoreError::Corrupt { what: format!("content {hash} no longer has that hash") })
        }
    })
    .await
}

/// See [`crate::Store::recall`].
pub(super) async fn recall(
    pool: &Pool,
    memory: &MemoryId,
    agent: &AgentId,
    tool: &ToolId,
    limit: usize,
) -> Result<Vec<(RunId, LoggedCall)>, StoreError> {
    let query = "SELECT run, task, call, at, input FROM baton.logged
                 WHERE memory = $1 AND agent = $2 AND tool = $3 ORDER BY logged DESC LIMIT $4";
    let values = (memory.as_str(), agent.as_str(), tool.as_str(), to_sql(limit as u64));
    pool.read(|client| async move {
        let rows = client.query_typed(query, values![values.0, values.1, values.2, values.3]).await?;
        let calls = rows.iter().rev().map(|row| {
            let input = Json::stored(row.try_get(4)?)
                .map_err(|error| StoreError::Corrupt { what: format!("a call of {tool} in the memory of {memory}: {error}") })?;
            let (task, call) = (TaskId::new(row.try_get::<_, String>(1)?), CallId::new(row.try_get::<_, String>(2)?));
            let at = Timestamp::from_micros(row.try_get(3)?);
            let (memory, agent, tool) = (memory.clone(), agent.clone(), tool.clone());
            Ok((RunId::new(row.try_get::<_, String>(0)?), LoggedCall { memory, agent, tool, task, call, at, input }))
        });
        calls.collect()
    })
    .await
}

/// See [`crate::Store::take_commands`].
pub(super) async fn commands(pool: &Pool, run: &RunId, after: u64) -> Result<Vec<(u64, Json)>, StoreError> {
    let query = "SELECT c.command, c.body FROM baton.runs r LEFT JOIN baton.commands c ON c.run = r.run AND c.command > $2
                 WHERE r.id = $1 ORDER BY c.command";
    pool.read(|client| async move {
        let rows = client.query_typed(query, values![run.as_str(), to_sql(after)]).await?;
        if rows.is_empty() {
            return Err(StoreError::UnknownRun(run.clone()));
        }
        let mut commands = Vec::new();
        for row in rows {
            let Some(number) = row.try_get::<_, Option<i64>>(0)? else { continue };
            let command = Json::stored(row.try_get(1)?)
                .map_err(|error| StoreError::Corrupt { what: format!("the inbox of run {run}: command {number}: {error}") })?;
            commands.push((number as u64, command));
        }
        Ok(commands)
    })
    .await
}

/// See [`crate::Store::due`].
pub(super) async fn due(pool: &Pool, now: Timestamp, limit: usize) -> Result<Due, StoreError> {
    // Each part has an index of its own, so that runs that are not due cost nothing. Runs of living owners are due as soon as these die.
    let query = &format!(
        "SELECT r.id FROM (
             (SELECT w.run, w.wakes FROM baton.waiting w JOIN baton.runs r USING (run) LEFT JOIN baton.leases l ON l.owner = r.owner
              WHERE w.wakes <= $1 AND NOT {IS_ALIVE} ORDER BY w.wakes LIMIT $2)
             UNION (SELECT w.run, w.wakes FROM (SELECT DISTINCT run FROM baton.commands) c
                    JOIN baton.waiting w USING (run) JOIN baton.runs r USING (run) LEFT JOIN baton.leases l ON l.owner = r.owner
                    WHERE NOT {IS_ALIVE} LIMIT $2)
         ) d JOIN baton.runs r USING (run) ORDER BY d.wakes, r.run LIMIT $2"
    );
    let next = "SELECT min(wakes) FROM baton.waiting WHERE wakes > $1 AND wakes < $2";
    let limit = to_sql(limit as u64);
    pool.read(|client| async move {
        let rows = client.query_typed(query, values![now.as_micros(), limit]).await?;
        let runs = rows.iter().map(|row| Ok(RunId::new(row.try_get::<_, String>(0)?))).collect::<Result<_, StoreError>>()?;
        let next = client.query_typed_one(next, values![now.as_micros(), Timestamp::MAX.as_micros()]).await?;
        Ok(Due { runs, next: next.try_get::<_, Option<i64>>(0)?.map(Timestamp::from_micros) })
    })
    .await
}

/// See [`crate::Store::is_due`].
pub(super) async fn is_due(pool: &Pool, run: &RunId, now: Timestamp) -> Result<bool, StoreError> {
    let query = "SELECT EXISTS (SELECT 1 FROM baton.runs r JOIN baton.waiting w USING (run)
                                 WHERE r.id = $1 AND (w.wakes <= $2 OR EXISTS (SELECT 1 FROM baton.commands c WHERE c.run = r.run)))";
    pool.read(|client| async move {
        let found = client.query_typed_one(query, values![run.as_str(), now.as_micros()]).await?;
        Ok(found.try_get(0)?)
    })
    .await
}

/// See [`crate::Store::secret`].
pub(super) async fn secret(pool: &Pool) -> Result<[u8; 32], StoreError> {
    pool.read(|client| async move {
        let row = client.query_typed_one("SELECT secret FROM baton.format", &[]).await?;
        Ok(*link(&row, 0)?.as_bytes())
    })
    .await
}
