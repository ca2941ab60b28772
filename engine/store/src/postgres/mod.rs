//! The store in a PostgreSQL database, shared by any number of processes and machines.
//!
//! [`pool`] owns the connections, [`schema`] the tables. A batch is one statement: it changes the run's row only if epoch and last entry
//! are the expected ones, and inserts everything else only if that row was changed. The default isolation (READ COMMITTED) is enough,
//! since the row is locked by its change and its condition is judged again after a wait.
//!
//! Rows of entries and contents have checksums and are checked when they are read, as in [`crate::SqliteStore`]. Damage of other rows is
//! for the database to notice (`initdb --data-checksums`).

mod address;
mod breadcrumbs;
mod pool;
mod schema;
mod tls;
mod value;

use std::hash::{BuildHasher, Hasher, RandomState};

pub(crate) use address::Address;
use pool::Pool;

use crate::StoreError;

/// Keeps runs in a PostgreSQL database.
#[derive(Debug)]
pub struct PostgresStore {
    pool: Pool,
}

impl PostgresStore {
    /// Connects to the database with the address `postgres://USER@HOST:PORT/DATABASE`, and makes the tables if there are none.
    ///
    /// Fails with [`StoreError::Address`], with [`StoreError::Unreachable`], and with [`StoreError::NewerFormat`] or
    /// [`StoreError::OlderFormat`] if another version of the program made the tables.
    pub async fn connect(address: &str) -> Result<Self, StoreError> {
        let pool = Pool::new(&Address::read(address)?)?;
        pool.check().await?;
        schema::prepare(&pool).await?;
        Ok(Self { pool })
    }
}

/// Returns a random number, for names and pauses.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
