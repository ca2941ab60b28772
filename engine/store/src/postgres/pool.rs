//! The connections of a store: at most [`MAX_CONNECTIONS`], each held for one statement or one transaction.
//!
//! [`Pool::transaction`], [`Pool::read`] and [`Pool::write`] are the only ways to the database. They repeat work that the server ended
//! because of other transactions, and work that never reached the server. They do *not* repeat a write whose commit may have taken hold.
//!
//! Work gets its connection as an owned value. An async closure that borrows it would be simpler, but the compiler cannot prove that its
//! future can be sent to another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, PoolError, RecyclingMethod};
use tokio::time::Instant;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::address::Address;
use super::failure::Failure;
use super::value::Parameter;
use crate::StoreError;

/// The most connections of one store, in addition to the one that listens.
const MAX_CONNECTIONS: usize = 16;

/// Longest wait for a free connection.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest time for which work is repeated while the server cannot be reached.
const OUTAGE_TIMEOUT: Duration = Duration::from_secs(10);

/// Pauses between attempts: the first and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

/// The most attempts of work that conflicts with other transactions.
const MAX_CONFLICTS: u32 = 20;

/// Shared connections to one database.
#[derive(Clone)]
pub(super) struct Pool {
    connections: deadpool_postgres::Pool,
    address: Address,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Pool {
    /// Returns a pool without connections: they are made on first use.
    pub(super) fn new(address: &Address) -> Result<Self, StoreError> {
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(address.config().clone(), address.tls()?, recycling);
        let connections = deadpool_postgres::Pool::builder(manager)
            .max_size(MAX_CONNECTIONS)
            .wait_timeout(Some(BUSY_TIMEOUT))
            .runtime(deadpool_postgres::Runtime::Tokio1)
            .build()
            .map_err(|error| StoreError::Postgres { what: error.to_string() })?;
        Ok(Self { connections, address: address.clone() })
    }

    /// Returns the address of the database.
    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Fails at once if no connection can be made.
    pub(super) async fn check(&self) -> Result<(), StoreError> {
        self.connection().await.map(drop).map_err(Failure::into_error)
    }

    /// Runs `work` in a transaction of isolation READ COMMITTED and commits it. An error of `work` rolls everything back.
    ///
    /// `work` runs again if the server ended the transaction because of another one (40001, 40P01), or if the connection was lost before
    /// its commit was sent.
    ///
    /// Fails with [`StoreError::CommitUnknown`] if the connection is lost during the commit, and with [`StoreError::Unreachable`].
    pub(super) async fn transaction<T, F>(&self, work: impl Fn(Arc<Connection>) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let mut attempts = Attempts::new();
        loop {
            match self.try_transaction(&work).await {
                Ok(done) => return Ok(done),
                Err(failure) => attempts.pause(failure).await?,
            }
        }
    }

    /// Runs `work` like [`Pool::transaction`], but only once.
    pub(super) async fn transaction_once<T, F>(&self, work: impl FnOnce(Arc<Connection>) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        self.try_transaction(work).await.map_err(Failure::into_error)
    }

    async fn try_transaction<T, F>(&self, work: impl FnOnce(Arc<Connection>) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let connection = self.connection().await?;
        connection.is_in_transaction.store(true, Ordering::SeqCst);
        let begin = connection.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await;
        begin.map_err(|error| self.address.failure(&error))?;
        match work(Arc::clone(&connection)).await {
            Ok(done) => match connection.batch_execute("COMMIT").await {
                Ok(()) => {
                    connection.is_in_transaction.store(false, Ordering::SeqCst);
                    Ok(done)
                }
                Err(error) => Err(match self.address.failure(&error) {
                    Failure::Away(_) => Failure::Final(StoreError::CommitUnknown { store: self.address.shown() }),
                    other => other,
                }),
            },
            Err(error) => {
                if connection.batch_execute("ROLLBACK").await.is_ok() {
                    connection.is_in_transaction.store(false, Ordering::SeqCst);
                }
                Err(self.address.classified(error))
            }
        }
    }

    /// Runs `work` with statements that commit by themselves. If it `reads` only, it runs again after a lost connection.
    async fn statement<T, F>(&self, reads: bool, work: impl Fn(Arc<Connection>) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let mut attempts = Attempts::new();
        loop {
            let failure = match self.connection().await {
                Ok(connection) => match work(connection).await {
                    Ok(done) => return Ok(done),
                    Err(error) => match self.address.classified(error) {
                        Failure::Away(_) if !reads => Failure::Final(StoreError::CommitUnknown { store: self.address.shown() }),
                        failure => failure,
                    },
                },
                Err(failure) => failure,
            };
            attempts.pause(failure).await?;
        }
    }

    /// Runs `work`, which reads, or writes what may be written twice. It runs again after a lost connection.
    ///
    /// Fails with [`StoreError::Unreachable`].
    pub(super) async fn read<T, F>(&self, work: impl Fn(Arc<Connection>) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        self.statement(true, work).await
    }

    /// Runs `work`, which has one statement that writes, and commits with it.
    ///
    /// Fails like [`Pool::transaction`].
    pub(super) async fn write<T, F>(&self, work: impl Fn(Arc<Connection>) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        self.statement(false, work).await
    }

    /// Runs `work` like [`Pool::transaction`] if it has `several` statements that write, and like [`Pool::write`] otherwise.
    pub(super) async fn commit<T, F>(&self, several: bool, work: impl Fn(Arc<Connection>) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        if several { self.transaction(work).await } else { self.write(work).await }
    }

    async fn connection(&self) -> Result<Arc<Connection>, Failure> {
        let object = self.connections.get().await.map_err(|error| match error {
            PoolError::Backend(error) => self.address.failure(&error),
            PoolError::Timeout(_) => Failure::Final(StoreError::Busy { path: self.address.shown().into() }),
            other => Failure::Final(StoreError::Postgres { what: other.to_string() }),
        })?;
        let is_prepared = self.address.is_prepared();
        Ok(Arc::new(Connection { object: Some(object), is_prepared, is_in_transaction: AtomicBool::new(false) }))
    }
}

/// A connection that some work has for itself.
pub(super) struct Connection {
    /// `None` only while this is dropped.
    object: Option<Object>,
    is_prepared: bool,
    is_in_transaction: AtomicBool,
}

impl Connection {
    /// Executes a statement that returns one row, and that is executed often: the connection may keep its plan.
    pub(super) async fn frequent(&self, text: &str, parameters: &[Parameter<'_>]) -> Result<Row, StoreError> {
        let Some(object) = self.object.as_ref().filter(|_| self.is_prepared) else {
            return Ok(self.query_typed_one(text, parameters).await?);
        };
        let types: Vec<Type> = parameters.iter().map(|(_, of)| of.clone()).collect();
        let statement = object.prepare_typed_cached(text, &types).await?;
        let values: Vec<_> = parameters.iter().map(|(value, _)| *value).collect();
        Ok(object.query_one(&statement, &values).await?)
    }
}

impl std::ops::Deref for Connection {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.object.as_ref().unwrap_or_else(|| unreachable!("the connection is used after its end"))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The caller stopped waiting in the middle of the work. The server rolls back when the connection closes.
        if self.is_in_transaction.load(Ordering::SeqCst) {
            drop(self.object.take().map(Object::take));
        }
    }
}

/// Counts the attempts of one piece of work.
struct Attempts {
    begun: Instant,
    conflicts: u32,
    pause: Duration,
}

impl Attempts {
    fn new() -> Self {
        Self { begun: Instant::now(), conflicts: 0, pause: PAUSES.0 }
    }

    /// Waits before the next attempt, or returns the error if there is none.
    async fn pause(&mut self, failure: Failure) -> Result<(), StoreError> {
        match failure {
            Failure::Final(error) => return Err(error),
            Failure::Conflict(error) => {
                self.conflicts += 1;
                if self.conflicts > MAX_CONFLICTS {
                    return Err(error);
                }
            }
            Failure::Away(error) if self.begun.elapsed() > OUTAGE_TIMEOUT => return Err(error),
            Failure::Away(_) => {}
        }
        // Two transactions that met once would otherwise meet again.
        let spread = 1.0 + f64::from(super::random() as u32) / f64::from(u32::MAX);
        tokio::time::sleep(self.pause.mul_f64(spread)).await;
        self.pause = (self.pause * 2).min(PAUSES.1);
        Ok(())
    }
}
