//! Runs as lists show them. Each is read with the state of its owner's lease.

use baton_types::entry::ForkPoint;
use baton_types::id::{JobId, RunId};
use baton_types::time::Timestamp;
use tokio_postgres::Row;

use super::lease::{IS_ALIVE, Leases};
use super::pool::Pool;
use super::value::{Parameter, to_sql, values};
use crate::{RunRecord, StoreError};

/// See [`crate::Store::runs`].
pub(super) async fn runs(pool: &Pool, leases: &Leases) -> Result<Vec<RunRecord>, StoreError> {
    select(pool, leases, "ORDER BY r.created DESC, r.run DESC", &[]).await
}

/// See [`crate::Store::runs_after`].
pub(super) async fn runs_after(
    pool: &Pool,
    leases: &Leases,
    before: Option<&RunId>,
    limit: usize,
) -> Result<Vec<RunRecord>, StoreError> {
    let limit = to_sql(limit as u64);
    let Some(before) = before else {
        return select(pool, leases, "ORDER BY r.created DESC, r.run DESC LIMIT $1", values![limit]).await;
    };
    let last = pool
        .read(|client| async move {
            let query = "SELECT created, run FROM baton.runs WHERE id = $1";
            Ok(client.query_typed_opt(query, values![before.as_str()]).await?)
        })
        .await?
        .ok_or_else(|| StoreError::UnknownRun(before.clone()))?;
    let (created, number): (i64, i64) = (last.try_get(0)?, last.try_get(1)?);
    let conditions = "WHERE (r.created, r.run) < ($2, $3) ORDER BY r.created DESC, r.run DESC LIMIT $1";
    select(pool, leases, conditions, values![limit, created, number]).await
}

/// See [`crate::Store::run`].
pub(super) async fn run(pool: &Pool, leases: &Leases, run: &RunId) -> Result<Option<RunRecord>, StoreError> {
    Ok(select(pool, leases, "WHERE r.id = $1", values![run.as_str()]).await?.pop())
}

/// Returns the runs of a query that ends with `conditions`.
async fn select(pool: &Pool, leases: &Leases, conditions: &str, values: &[Parameter<'_>]) -> Result<Vec<RunRecord>, StoreError> {
    let query = &format!(
        "SELECT r.id, r.job, r.status, r.created, r.updated, r.last_seq, p.id, r.past_seq, r.epoch, r.owner, {IS_ALIVE}
         FROM baton.runs r LEFT JOIN baton.runs p ON p.run = r.past LEFT JOIN baton.leases l ON l.owner = r.owner {conditions}"
    );
    let rows = pool.read(|client| async move { Ok(client.query_typed(query, values).await?) }).await?;
    rows.iter()
        .map(|row| {
            let record = record(row)?;
            if let Some(owner) = &record.owner {
                leases.learn(owner, row.try_get(10)?);
            }
            Ok(record)
        })
        .collect()
}

fn record(row: &Row) -> Result<RunRecord, StoreError> {
    let past = row.try_get::<_, Option<String>>(6)?.map(RunId::new);
    let past_seq = row.try_get::<_, i64>(7)? as u64;
    Ok(RunRecord {
        id: RunId::new(row.try_get::<_, String>(0)?),
        job: JobId::new(row.try_get::<_, String>(1)?),
        status: row.try_get(2)?,
        created: Timestamp::from_micros(row.try_get(3)?),
        updated: Timestamp::from_micros(row.try_get(4)?),
        last_seq: row.try_get::<_, i64>(5)? as u64,
        past: past.map(|run| ForkPoint { run, seq: past_seq }),
        epoch: row.try_get::<_, i64>(8)? as u64,
        owner: row.try_get(9)?,
    })
}
