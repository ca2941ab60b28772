//! The tables of a store and their version.
//!
//! All tables are in the schema `baton` of the database, and statements name them with it. So they do not depend on a setting of the
//! connection, and other tables of the database are not touched.

use tokio_postgres::Client;

use super::pool::Pool;
use super::value::values;
use super::{breadcrumbs, random};
use crate::StoreError;

/// The version of the tables that this program reads and writes.
pub(super) const FORMAT_VERSION: u32 = 1;

/// The tables, in the order in which they are made.
const TABLES: [&str; 2] = [include_str!("schema.sql"), breadcrumbs::TABLES];

/// The oldest server that has what the tables need.
const OLDEST_SERVER: i32 = 130_000;

/// The lock under which tables are made: the first eight bytes of "baton".
const LOCK: i64 = 0x6261_746f_6e00_0000;

/// Makes the tables if there are none; of several processes, one does it.
///
/// Fails with [`StoreError::NewerFormat`] or [`StoreError::OlderFormat`] if another version of the program made them.
pub(super) async fn prepare(pool: &Pool) -> Result<(), StoreError> {
    if version(pool).await?.is_some() {
        return Ok(());
    }
    pool.transaction(|transaction| async move {
        transaction.execute_typed("SELECT pg_advisory_xact_lock($1)", values![LOCK]).await?;
        if !is_there(&transaction).await? {
            make(&transaction).await?;
        }
        Ok(())
    })
    .await?;
    version(pool).await.map(drop)
}

/// Returns the version of the tables; `None` if there are none. Fails with [`StoreError::NewerFormat`] or [`StoreError::OlderFormat`].
pub(super) async fn version(pool: &Pool) -> Result<Option<u32>, StoreError> {
    let is_there =
        pool.read(|client| async move { Ok(client.query_typed_one(IS_THERE, &[]).await?.try_get::<_, bool>(0)?) }).await?;
    if !is_there {
        return Ok(None);
    }
    let version = "SELECT version FROM baton.format";
    let found = pool.read(|client| async move { Ok(client.query_typed_one(version, &[]).await?.try_get::<_, i32>(0)?) }).await?;
    let (found, known, path) = (found as u32, FORMAT_VERSION, || pool.address().shown().into());
    match found.cmp(&known) {
        std::cmp::Ordering::Equal => Ok(Some(found)),
        std::cmp::Ordering::Greater => Err(StoreError::NewerFormat { path: path(), found, known }),
        std::cmp::Ordering::Less => Err(StoreError::OlderFormat { path: path(), found, known }),
    }
}

const IS_THERE: &str = "SELECT to_regclass('baton.format') IS NOT NULL";

async fn is_there(transaction: &Client) -> Result<bool, StoreError> {
    Ok(transaction.query_typed_one(IS_THERE, &[]).await?.try_get(0)?)
}

async fn make(transaction: &Client) -> Result<(), StoreError> {
    let server: i32 = transaction.query_typed_one("SELECT current_setting('server_version_num')::int", &[]).await?.try_get(0)?;
    if server < OLDEST_SERVER {
        let what = format!("the server has version {}, and the store needs version 13 or newer", server / 10_000);
        return Err(StoreError::Postgres { what });
    }
    transaction.batch_execute("CREATE SCHEMA IF NOT EXISTS baton").await?;
    for tables in TABLES {
        transaction.batch_execute(tables).await?;
    }
    // The server's random numbers are cryptographic; a UUID has 122 random bits.
    let secret = "sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || $2)";
    let insert = format!("INSERT INTO baton.format (version, secret) VALUES ($1, {secret})");
    let more = random().to_le_bytes().to_vec();
    transaction.execute_typed(&insert, values![FORMAT_VERSION as i32, more]).await?;
    Ok(())
}
