//! Old runs go, and what only they needed.
//!
//! Everything happens in one transaction, which keeps writers waiting: a batch must not name a content that is just removed. What counts
//! as the name of a content is described in [`crate::sqlite`]'s retention; here the server looks for it.

use std::collections::HashMap;

use baton_types::id::RunId;
use baton_types::time::Timestamp;
use tokio_postgres::Client;

use super::lease::{IS_ALIVE, Leases};
use super::pool::Pool;
use super::value::{to_sql, values};
use super::{breadcrumbs, read};
use crate::retention::{Candidate, LAST_ENTRIES, choose, is_end};
use crate::{Collected, Retention, StoreError, failpoint};

/// Keeps writers away until the end of the transaction; readers continue.
const LOCK: &str = "LOCK TABLE baton.runs, baton.commands, baton.entries, baton.contents IN SHARE ROW EXCLUSIVE MODE";

/// Bytes of all tables of the store.
const SIZE: &str = "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'baton' AND c.relkind = 'r'";

/// Every 64 hexadecimal digits without others around them.
const NAME: &str = "(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])";

/// A run's row.
struct Found {
    number: i64,
    past: Option<i64>,
    past_seq: u64,
    last_seq: u64,
    owner: Option<String>,
    is_owner_alive: bool,
    candidate: Candidate,
}

/// See [`crate::Store::collect`].
pub(super) async fn collect(pool: &Pool, leases: &Leases, retention: &Retention, dry_run: bool) -> Result<Collected, StoreError> {
    let mut collected = pool
        .transaction(|client| async move {
            let mut collected = Collected { bytes_before: size(&client).await?, ..Collected::default() };
            if !dry_run {
                client.batch_execute(LOCK).await?;
            }
            remove(&client, leases, retention, dry_run, &mut collected).await?;
            failpoint::pass("store.collect.before");
            Ok(collected)
        })
        .await?;
    failpoint::pass("store.collect.after");
    // The server gives room back later (autovacuum), and uses it again until then.
    collected.bytes_after = pool.read(|client| async move { size(&client).await }).await?;
    Ok(collected)
}

async fn size(client: &Client) -> Result<u64, StoreError> {
    Ok(client.query_typed_one(SIZE, &[]).await?.try_get::<_, i64>(0)? as u64)
}

async fn remove(
    client: &Client,
    leases: &Leases,
    retention: &Retention,
    dry_run: bool,
    collected: &mut Collected,
) -> Result<(), StoreError> {
    let found = runs(client, retention).await?;
    for id in &retention.named {
        let run = found.iter().find(|run| run.candidate.run == *id).ok_or_else(|| StoreError::UnknownRun(id.clone()))?;
        let is_alive = |owner: &&String| run.is_owner_alive || leases.is_there(owner) == Some(true);
        // Its owner would continue, with effects that no timeline holds.
        if let Some(owner) = run.owner.as_ref().filter(is_alive) {
            return Err(StoreError::Held { run: id.clone(), owner: owner.clone() });
        }
    }
    let numbers: HashMap<RunId, i64> = found.iter().map(|run| (run.candidate.run.clone(), run.number)).collect();
    let sizes: HashMap<i64, u64> = found.iter().map(|run| (run.number, run.last_seq - run.past_seq)).collect();
    let candidates: Vec<_> = found.into_iter().map(|run| run.candidate).collect();
    let (leaving, held) = choose(&candidates, retention);
    let gone: Vec<i64> = leaving.iter().filter_map(|run| numbers.get(run)).copied().collect();
    collected.entries = gone.iter().filter_map(|number| sizes.get(number)).sum();
    (collected.kept, collected.held) = ((candidates.len() - leaving.len()) as u64, held);
    collected.runs = leaving;
    if !gone.is_empty() {
        remove_runs(client, &gone, dry_run, collected).await?;
    }
    if !dry_run {
        breadcrumbs::forget_triggers(client).await?;
    }
    Ok(())
}

/// Removes runs, and the contents that only they name.
async fn remove_runs(client: &Client, gone: &Vec<i64>, dry_run: bool, collected: &mut Collected) -> Result<(), StoreError> {
    let named = |condition: &str| {
        format!(
            "SELECT decode(m[1], 'hex') FROM baton.entries e, regexp_matches(e.entries, $2, 'g') AS m WHERE e.run {condition}
             UNION SELECT decode(m[1], 'hex') FROM baton.commands c, regexp_matches(c.body, $2, 'g') AS m WHERE c.run {condition}"
        )
    };
    let condition = format!("hash IN (({}) EXCEPT ({}))", named("= ANY ($1)"), named("<> ALL ($1)"));
    let select = format!("SELECT count(*), coalesce(sum(length(bytes)), 0)::bigint FROM baton.contents WHERE {condition}");
    let contents = client.query_typed_one(&select, values![*gone, NAME]).await?;
    collected.contents = contents.try_get::<_, i64>(0)? as u64;
    collected.content_bytes = contents.try_get::<_, i64>(1)? as u64;
    if dry_run {
        return Ok(());
    }
    client.execute_typed(&format!("DELETE FROM baton.contents WHERE {condition}"), values![*gone, NAME]).await?;
    for table in ["entries", "places", "commands", "waiting", "runs"] {
        client.execute_typed(&format!("DELETE FROM baton.{table} WHERE run = ANY ($1)"), values![*gone]).await?;
    }
    Ok(())
}

/// Returns all runs, the oldest first.
async fn runs(client: &Client, retention: &Retention) -> Result<Vec<Found>, StoreError> {
    let unanswered = breadcrumbs::unanswered_runs(client).await?;
    let has_rules = retention.keep_newest.is_some() || retention.unchanged_since.is_some();
    let query = format!(
        "SELECT r.run, r.id, r.past, r.past_seq, r.last_seq, r.updated, r.owner, {IS_ALIVE}
         FROM baton.runs r LEFT JOIN baton.leases l ON l.owner = r.owner ORDER BY r.run"
    );
    let mut found: Vec<Found> = Vec::new();
    let mut names = HashMap::new();
    for row in client.query_typed(&query, &[]).await? {
        let number: i64 = row.try_get(0)?;
        let (run, past) = (RunId::new(row.try_get::<_, String>(1)?), row.try_get::<_, Option<i64>>(2)?);
        let (past_seq, last_seq) = (row.try_get::<_, i64>(3)? as u64, row.try_get::<_, i64>(4)? as u64);
        names.insert(number, run.clone());
        let has_ended = has_rules && !unanswered.contains(&run) && has_ended(client, number, &run, last_seq).await?;
        found.push(Found {
            number,
            past,
            past_seq,
            last_seq,
            owner: row.try_get(6)?,
            is_owner_alive: row.try_get(7)?,
            candidate: Candidate { run, updated: Timestamp::from_micros(row.try_get(5)?), has_ended, past: None },
        });
    }
    for run in &mut found {
        run.candidate.past = run.past.and_then(|past| names.get(&past)).cloned();
    }
    Ok(found)
}

/// Whether the last entries of a run end it.
async fn has_ended(client: &Client, number: i64, run: &RunId, last_seq: u64) -> Result<bool, StoreError> {
    let query = "SELECT first, last, checksum, link, entries FROM baton.entries WHERE run = $1 AND last > $2 ORDER BY last";
    let after = last_seq.saturating_sub(LAST_ENTRIES as u64);
    let mut entries = Vec::new();
    for row in client.query_typed(query, values![number, to_sql(after)]).await? {
        let row = read::stored(&row)?;
        row.read(run, after + 1..=row.last, &mut entries)?;
    }
    Ok(entries.iter().any(|recorded| is_end(&recorded.entry)))
}
