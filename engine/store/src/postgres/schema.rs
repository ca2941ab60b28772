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
pub(super) const FORMAT_VERSION: u32 = 3;

/// The tables, in the order in which they are made, and the functions.
const TABLES: [&str; 3] = [include_str!("schema.sql"), breadcrumbs::TABLES, include_str!("functions.sql")];

/// The oldest server that has what the tables need.
const OLDEST_SERVER: i32 = 130_000;

/// The lock under which tables are made: the first eight bytes of "baton".
const LOCK: i64 = 0x6261_746f_6e00_0000;

/// Makes the tables if there are none; of several processes, one does it.
///
/// Fails with [`StoreError::NewerFormat`] or [`StoreError::OlderFormat`] if another version of the program made them.
pub(super) async fn prepare(pool: &Pool) -> Result<(), StoreError> {
    if found(pool).await? == Some(FORMAT_VERSION) {
        return Ok(());
    }
    pool.transaction(|transaction| async move {
        transaction.execute_typed("SELECT pg_advisory_xact_lock($1)", values![LOCK]).await?;
        if version_in(&transaction).await?.is_none() {
            make(&transaction).await?;
        }
        Ok(())
    })
    .await?;
    let (found, known, path) = (found(pool).await?.unwrap_or_default(), FORMAT_VERSION, pool.address().shown().into());
    match found.cmp(&known) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(StoreError::NewerFormat { path, found, known }),
        std::cmp::Ordering::Less => Err(StoreError::OlderFormat { path, found, known }),
    }
}

/// Returns the version of the tables, known or not; `None` if there are none.
pub(super) async fn found(pool: &Pool) -> Result<Option<u32>, StoreError> {
    pool.read(|client| async move { version_in(&client).await }).await
}

async fn version_in(client: &Client) -> Result<Option<u32>, StoreError> {
    // `to_regclass` would answer from the connection's cache of names, which a wait for the lock does not renew.
    let is_there = "SELECT EXISTS (SELECT FROM pg_catalog.pg_tables WHERE schemaname = 'baton' AND tablename = 'format')";
    let is_there = client.query_typed_one(is_there, &[]).await?;
    if !is_there.try_get::<_, bool>(0)? {
        return Ok(None);
    }
    let version = client.query_typed_one("SELECT version FROM baton.format", &[]).await?;
    Ok(Some(version.try_get::<_, i32>(0)? as u32))
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
