//! Checks everything in the database that has checksums, and reports every fault.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use baton_types::id::{ContentHash, RunId};
use baton_types::json::Json;
use tokio_postgres::Client;

use super::breadcrumbs;
use super::pool::Pool;
use super::read::{self, Line};
use super::value::values;
use crate::retention::{hashes_in, needed_content};
use crate::{StoreError, Verification, rows};

/// Number of rows that are read at once: a row of entries has 32 KB, and a content may have much more.
const PAGE: i64 = 256;

/// Largest number of reported findings of one kind.
const MAX_FINDINGS: usize = 100;

/// See [`crate::Store::verify`].
pub(super) async fn verify(pool: &Pool) -> Result<Verification, StoreError> {
    pool.transaction(|client| async move { at_one_moment(&client).await }).await
}

/// Verifies everything in a transaction that has just begun. Its later queries see the same moment.
pub(super) async fn at_one_moment(client: &Client) -> Result<Verification, StoreError> {
    client.batch_execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    everything(client).await
}

/// Verifies everything as a transaction sees it.
pub(super) async fn everything(client: &Client) -> Result<Verification, StoreError> {
    let (mut look, mut found) = (Look::default(), Verification::default());
    for run in client.query_typed("SELECT id FROM baton.runs ORDER BY run", &[]).await? {
        found.runs += 1;
        let run = RunId::new(run.try_get::<_, String>(0)?);
        note(one_run(client, &run, &mut look, &mut found).await, &mut found)?;
    }
    contents(client, &mut look, &mut found).await?;
    counts(client, &look, &mut found).await?;
    let answer = breadcrumbs::verify(client, &mut found).await;
    note(answer, &mut found)?;
    Ok(found)
}

/// Adds damage to the findings. Other errors end the verification.
fn note(answer: Result<(), StoreError>, found: &mut Verification) -> Result<(), StoreError> {
    match answer {
        Err(StoreError::Client(error)) => Err(StoreError::Client(error)),
        Err(error) => {
            found.findings.push(error.to_string());
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Results of one check for the next ones.
#[derive(Default)]
struct Look {
    /// Number of rows in places.
    places: u64,
    /// Contents that an entry cannot do without, and what for.
    needed: BTreeMap<ContentHash, String>,
    /// Contents that something may name.
    named: HashSet<ContentHash>,
}

/// Checks the entries of a run, their places, their chain, its past and its inbox.
async fn one_run(client: &Client, id: &RunId, look: &mut Look, found: &mut Verification) -> Result<(), StoreError> {
    let line = Line::of(client, id).await?;
    let Some(run) = line.first() else { return Ok(()) };
    let (mut last, mut link) = (run.past_seq, read::link_at(client, &line, run.past_seq).await?);
    let mut places = BTreeSet::new();
    let page =
        "SELECT first, last, checksum, link, entries FROM baton.entries WHERE run = $1 AND last > $2 ORDER BY last LIMIT $3";
    loop {
        let rows = client.query_typed(page, values![run.number, last as i64, PAGE]).await?;
        for row in &rows {
            let row = read::stored(row)?;
            if row.first != last + 1 {
                return Err(StoreError::Corrupt { what: format!("run {id} lacks entry {}", last + 1) });
            }
            let mut entries = Vec::new();
            link = link.extended(row.read(id, row.first..=row.last, &mut entries)?.as_bytes());
            if link != row.link {
                return Err(row.damaged(id, &"they do not follow the entries before them"));
            }
            hashes_in(row.text, &mut look.named);
            for recorded in &entries {
                places.extend(recorded.entry.task().map(|task| (rows::task_key(task), row.last as i64)));
                look.needed.extend(needed_content(&recorded.entry).map(|(hash, what)| (hash, format!("run {id}: {what}"))));
            }
            found.batches += 1;
            found.entries += entries.len() as u64;
            last = row.last;
        }
        if rows.len() < PAGE as usize {
            break;
        }
    }
    if last != run.last_seq || link != run.link {
        let what = format!("run {id} ends with entry {last}, but {} was written last", run.last_seq);
        return Err(StoreError::Corrupt { what });
    }
    for row in client.query_typed("SELECT task, last FROM baton.places WHERE run = $1", values![run.number]).await? {
        look.places += 1;
        let place: (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        if !places.remove(&place) {
            found.findings.push(format!("run {id}: a place of task key {} is wrong: {}", place.0, place.1));
        }
    }
    for (task, last) in places.iter().take(MAX_FINDINGS) {
        found.findings.push(format!("run {id}: a place of task key {task} is missing: {last}"));
    }
    for row in client.query_typed("SELECT command, body FROM baton.commands WHERE run = $1", values![run.number]).await? {
        let (number, body): (i64, &str) = (row.try_get(0)?, row.try_get(1)?);
        if let Err(error) = Json::stored(body) {
            found.findings.push(format!("the inbox of run {id}: command {number}: {error}"));
        }
        hashes_in(body, &mut look.named);
        found.commands += 1;
    }
    Ok(())
}

async fn contents(client: &Client, look: &mut Look, found: &mut Verification) -> Result<(), StoreError> {
    let page = "SELECT hash, bytes FROM baton.contents WHERE hash > $1 ORDER BY hash LIMIT $2";
    let mut last: Vec<u8> = Vec::new();
    loop {
        // A few at a time: one may have hundreds of megabytes.
        let rows = client.query_typed(page, values![last, PAGE / 32]).await?;
        let Some(newest) = rows.last() else { break };
        last = newest.try_get(0)?;
        for row in &rows {
            let (hash, bytes): (_, &[u8]) = (read::link(row, 0)?, row.try_get(1)?);
            found.contents += 1;
            found.content_bytes += bytes.len() as u64;
            if ContentHash::of(bytes) != hash {
                found.findings.push(format!("content {hash} no longer has that hash"));
            }
            found.unnamed += u64::from(!look.named.contains(&hash));
            look.needed.remove(&hash);
        }
    }
    found.findings.extend(look.needed.iter().map(|(hash, what)| format!("{what} is missing: content {hash}")));
    Ok(())
}

/// Rows that nothing leads to.
async fn counts(client: &Client, look: &Look, found: &mut Verification) -> Result<(), StoreError> {
    for (table, reached) in [("entries", found.batches), ("places", look.places), ("commands", found.commands)] {
        let query = format!("SELECT count(*) FROM baton.{table}");
        let there = client.query_typed_one(&query, &[]).await?.try_get::<_, i64>(0)? as u64;
        if there != reached {
            found.findings.push(format!("{table} has {there} rows, but only {reached} are in use"));
        }
    }
    found.logged = client.query_typed_one("SELECT count(*) FROM baton.logged", &[]).await?.try_get::<_, i64>(0)? as u64;
    Ok(())
}
