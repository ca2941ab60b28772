//! Writes: each is one statement, or one transaction where it needs several.
//!
//! A batch is a call of the function `baton.append`, together with the batches that wait at the same time ([`Groups`]). The function
//! changes the run's row if the batch fits, and inserts everything else only then.

use std::sync::{Mutex, PoisonError};

use baton_types::document::Content;
use baton_types::entry::ForkPoint;
use baton_types::id::{ContentHash, RunId};
use baton_types::json::Json;
use rustc_hash::FxHashMap;
use tokio_postgres::Client;

use super::breadcrumbs;
use super::columns::{Columns, Rows};
use super::groups::Groups;
use super::listen::CHANNEL;
use super::pool::Pool;
use super::read::{self, Line};
use super::value::{to_sql, values};
use crate::rows::root_link;
use crate::{Batch, NewRun, STATUS_CREATED, StoreError, failpoint};

/// Number of runs whose last link is remembered.
const MAX_LINKS: usize = 4096;

/// The last links of runs that this process writes, each with the sequence number that it belongs to. With them, a batch needs no query
/// before it.
///
/// A wrong link does no harm: the statement compares it with the stored one.
#[derive(Debug, Default)]
pub(super) struct Links(Mutex<FxHashMap<RunId, (u64, ContentHash)>>);

impl Links {
    fn find(&self, run: &RunId, seq: u64) -> Option<ContentHash> {
        let links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        links.get(run).filter(|(found, _)| *found == seq).map(|(_, link)| *link)
    }

    fn keep(&self, batch: &Batch, link: ContentHash) {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if batch.releases {
            links.remove(&batch.run);
            return;
        }
        if links.len() >= MAX_LINKS && !links.contains_key(&batch.run) {
            links.clear();
        }
        links.insert(batch.run.clone(), (batch.last_seq(), link));
    }

    fn forget(&self, run: &RunId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(run);
    }
}

/// See [`crate::Store::append`].
pub(super) async fn append(pool: &Pool, groups: &Groups, links: &Links, batch: Batch) -> Result<(), StoreError> {
    // A batch whose entries have gaps is refused, but the reason may be another one.
    let has_gaps = batch.check(batch.epoch, batch.expected_seq).is_err();
    let mut rows = Rows::of(batch);
    failpoint::pass("store.append.before");
    let known = links.find(&rows.batch.run, rows.batch.expected_seq).filter(|_| !has_gaps);
    rows.place(match known {
        Some(link) => link,
        None => current(pool, &rows.batch).await?,
    });
    let (mut rows, mut is_written) = groups.write(rows).await?;
    while !is_written {
        // Another process has written the run, or has locked it.
        links.forget(&rows.batch.run);
        rows.place(current(pool, &rows.batch).await?);
        is_written = groups.write_alone(&rows).await?;
    }
    links.keep(&rows.batch, rows.after);
    failpoint::pass("store.append.after");
    Ok(())
}

/// Returns the last link of the run of `batch`, or the reason for which the batch is refused.
async fn current(pool: &Pool, batch: &Batch) -> Result<ContentHash, StoreError> {
    let found = pool
        .read(|client| async move {
            let query = "SELECT epoch, last_seq, link FROM baton.runs WHERE id = $1";
            Ok(client.query_typed_opt(query, values![batch.run.as_str()]).await?)
        })
        .await?;
    let row = found.ok_or_else(|| StoreError::UnknownRun(batch.run.clone()))?;
    batch.check(row.try_get::<_, i64>(0)? as u64, row.try_get::<_, i64>(1)? as u64)?;
    read::link(&row, 2)
}

/// See [`crate::Store::begin`].
pub(super) async fn begin(pool: &Pool, links: &Links, run: &NewRun, owner: &str, batch: Batch) -> Result<(), StoreError> {
    batch.check(1, run.past_seq())?;
    failpoint::pass("store.begin.before");
    let (past, before) = pool.read(|client| async move { past_of(&client, run).await }).await?;
    let mut rows = Rows::of(batch);
    rows.place(before);
    let rows = &rows;
    pool.transaction(|transaction| async move {
        if let Some(trigger) = run.trigger {
            breadcrumbs::start_trigger(&transaction, trigger, &run.id).await?;
        }
        let (id, job, created) = (run.id.as_str(), run.job.as_str(), run.at.as_micros());
        let (past_seq, link) = (to_sql(run.past_seq()), &before.as_bytes()[..]);
        let insert = "INSERT INTO baton.runs (id, job, created, past, past_seq, last_seq, link, updated, status, owner, epoch)
                      VALUES ($1, $2, $3, $4, $5, $5, $6, $3, $7, $8, 1) ON CONFLICT (id) DO NOTHING";
        let values = values![id, job, created, past, past_seq, link, STATUS_CREATED, owner];
        if transaction.execute_typed(insert, values).await? == 0 {
            return Err(StoreError::RunExists(run.id.clone()));
        }
        let written = Columns::of([rows]).append(&transaction, true).await?;
        debug_assert_eq!(written, [true], "the batch expects the run that was just made");
        Ok(())
    })
    .await?;
    failpoint::pass("store.begin.after");
    links.keep(&rows.batch, rows.after);
    Ok(())
}

/// See [`crate::Store::create`].
pub(super) async fn create(pool: &Pool, run: &NewRun) -> Result<(), StoreError> {
    failpoint::pass("store.create.before");
    pool.commit(run.past.is_some(), |client| async move {
        let (past, link) = past_of(&client, run).await?;
        let (id, job, created) = (run.id.as_str(), run.job.as_str(), run.at.as_micros());
        let (past_seq, link) = (to_sql(run.past_seq()), &link.as_bytes()[..]);
        let insert = "INSERT INTO baton.runs (id, job, created, past, past_seq, last_seq, link, updated, status, epoch)
                      VALUES ($1, $2, $3, $4, $5, $5, $6, $3, $7, 0) ON CONFLICT (id) DO NOTHING";
        match client.execute_typed(insert, values![id, job, created, past, past_seq, link, STATUS_CREATED]).await? {
            0 => Err(StoreError::RunExists(run.id.clone())),
            _ => Ok(()),
        }
    })
    .await?;
    failpoint::pass("store.create.after");
    Ok(())
}

/// Returns the number of the run that a new run begins with, and the link before the new run's first own entry.
async fn past_of(client: &Client, run: &NewRun) -> Result<(Option<i64>, ContentHash), StoreError> {
    let Some(ForkPoint { run: other, seq }) = &run.past else { return Ok((None, root_link(&run.id))) };
    let line = Line::of(client, other).await?;
    let found = line[0].last_seq;
    if found < *seq {
        return Err(StoreError::SequenceMismatch { run: other.clone(), expected: *seq, found });
    }
    Ok((Some(line[0].number), read::link_at(client, &line, *seq).await?))
}

/// See [`crate::Store::take_over`].
pub(super) async fn take_over(pool: &Pool, run: &RunId, owner: &str, epoch: u64) -> Result<u64, StoreError> {
    failpoint::pass("store.take_over.before");
    let taken = pool
        .write(|client| async move {
            // If this owner dies, the run should continue at once.
            let update =
                "WITH hit AS (UPDATE baton.runs SET epoch = epoch + 1, owner = $3 WHERE id = $1 AND epoch = $2 RETURNING run),
                          early AS (UPDATE baton.waiting SET wakes = 0 FROM hit WHERE waiting.run = hit.run)
                          SELECT 1 FROM hit";
            let taken = client.query_typed_opt(update, values![run.as_str(), to_sql(epoch), owner]).await?.is_some();
            if taken {
                return Ok(epoch + 1);
            }
            let found = client.query_typed_opt("SELECT epoch FROM baton.runs WHERE id = $1", values![run.as_str()]).await?;
            let found = found.ok_or_else(|| StoreError::UnknownRun(run.clone()))?.try_get::<_, i64>(0)? as u64;
            Err(StoreError::StaleEpoch { run: run.clone(), expected: epoch, found })
        })
        .await?;
    failpoint::pass("store.take_over.after");
    Ok(taken)
}

/// See [`crate::Store::put_content`]; the hash was checked.
pub(super) async fn put_content(pool: &Pool, hash: ContentHash, content: &Content) -> Result<(), StoreError> {
    failpoint::pass("store.put_content.before");
    pool.commit(false, |client| async move { put_content_by(&client, hash, content).await }).await?;
    failpoint::pass("store.put_content.after");
    Ok(())
}

async fn put_content_by(client: &Client, hash: ContentHash, content: &Content) -> Result<(), StoreError> {
    let insert = "INSERT INTO baton.contents (hash, bytes) VALUES ($1, $2) ON CONFLICT (hash) DO NOTHING";
    client.execute_typed(insert, values![&hash.as_bytes()[..], &content[..]]).await?;
    Ok(())
}

/// See [`crate::Store::put_command`].
///
/// The run's row is locked until the commit, so that the numbers of a run's commands are in the order of their commits.
pub(super) async fn put_command(pool: &Pool, run: &RunId, command: &Json) -> Result<u64, StoreError> {
    failpoint::pass("store.put_command.before");
    let number = pool
        .write(|client| async move {
            let insert = "WITH hit AS (SELECT run FROM baton.runs WHERE id = $1 FOR NO KEY UPDATE),
                          put AS (INSERT INTO baton.commands (run, command, body)
                              SELECT run, nextval('baton.command_numbers'), $2 FROM hit RETURNING command)
                          SELECT command, pg_notify($3, CASE WHEN octet_length($1) > 4000 THEN '' ELSE command || ' ' || $1 END) FROM put";
            let row = client.query_typed_opt(insert, values![run.as_str(), command.text(), CHANNEL]).await?;
            Ok(row.ok_or_else(|| StoreError::UnknownRun(run.clone()))?.try_get::<_, i64>(0)? as u64)
        })
        .await?;
    failpoint::pass("store.put_command.after");
    Ok(number)
}
