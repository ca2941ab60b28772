//! The store in a PostgreSQL database, shared by any number of processes and machines.
//!
//! [`pool`] owns the connections, [`schema`] the tables. A batch changes the run's row only if epoch and last entry are the expected ones,
//! and inserts everything else only if that row was changed. Batches that wait at the same time are one statement ([`groups`]). The default
//! isolation (READ COMMITTED) is enough, since the row is locked by its change and its condition is judged again after a wait.
//!
//! Rows of entries and contents have checksums and are checked when they are read, as in [`crate::SqliteStore`]. Damage of other rows is
//! for the database to notice (`initdb --data-checksums`).

mod address;
mod breadcrumbs;
mod collect;
mod columns;
mod copy;
mod failure;
mod groups;
mod lease;
mod list;
mod listen;
mod pool;
mod read;
mod schema;
mod tls;
mod value;
mod verify;
mod write;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

pub(crate) use address::Address;
use async_trait::async_trait;
use baton_types::document::Content;
use baton_types::entry::Recorded;
use baton_types::id::{AgentId, ContentHash, MemoryId, RunId, TaskId, ToolId};
use baton_types::json::Json;
use baton_types::time::Timestamp;
use groups::Groups;
use lease::Leases;
use listen::Listener;
use pool::Pool;
use tokio::sync::watch;
use write::Links;

use crate::inbox::Subscribers;
use crate::{
    Batch, Breadcrumbs, Collected, Due, LoggedCall, MAX_CONTENT_BYTES, NewRun, Retention, RunRecord, Store, StoreError,
    Verification, check_sizes,
};

/// Keeps runs in a PostgreSQL database: durable when a write returns, shared by processes and machines.
///
/// A write whose connection is lost during its commit fails with [`StoreError::CommitUnknown`]. All other work is repeated for a while when
/// the server cannot be reached.
#[derive(Debug)]
pub struct PostgresStore {
    pool: Pool,
    groups: Groups,
    links: Links,
    leases: Arc<Leases>,
    subscribers: Arc<Subscribers>,
    listener: Listener,
    /// Closes with this store; tasks in the background have receivers of it.
    open: watch::Sender<()>,
}

impl PostgresStore {
    /// Connects to the database with the address `postgres://USER@HOST:PORT/DATABASE`, and makes the tables if there are none.
    ///
    /// The address may name several hosts, and has the parameters of libpq that `tokio_postgres::Config` lists. `direct=HOST:PORT` is the
    /// server itself, for the connection that listens, if the address is that of a pooler. `passfile=FILE` is a password file.
    /// `prepared=on` lets connections keep the plans of frequent statements.
    ///
    /// Fails with [`StoreError::Address`], with [`StoreError::Unreachable`], and with [`StoreError::NewerFormat`] or
    /// [`StoreError::OlderFormat`] if another version of the program made the tables.
    pub async fn connect(address: &str) -> Result<Self, StoreError> {
        let store = Self::reach(address).await?;
        schema::prepare(&store.pool).await?;
        Ok(store)
    }

    /// Connects like [`PostgresStore::connect`], but makes no tables: returns `None` if there are none.
    pub async fn connect_existing(address: &str) -> Result<Option<Self>, StoreError> {
        let store = Self::reach(address).await?;
        if schema::found(&store.pool).await?.is_none() {
            return Ok(None);
        }
        schema::prepare(&store.pool).await?;
        Ok(Some(store))
    }

    /// Whether `text` is the address of a database, as opposed to the path of a file.
    pub fn is_address(text: &str) -> bool {
        Address::is_one(text)
    }

    /// Returns an address as people see it: without a password and parameters. Fails with [`StoreError::Address`].
    pub fn shown(address: &str) -> Result<String, StoreError> {
        Address::read(address).map(|address| address.shown())
    }

    async fn reach(address: &str) -> Result<Self, StoreError> {
        let pool = Pool::new(&Address::read(address)?)?;
        pool.check().await?;
        Ok(Self {
            groups: Groups::new(&pool),
            pool,
            links: Links::default(),
            leases: Arc::new(Leases::new()),
            subscribers: Arc::default(),
            listener: Listener::new(),
            open: watch::Sender::new(()),
        })
    }

    /// Returns the address of the database as people see it: without a password and parameters.
    pub fn address(&self) -> String {
        self.pool.address().shown()
    }

    fn listen(&self) {
        self.listener.listen(&self.pool, &self.subscribers, &self.open.subscribe());
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn create(&self, run: NewRun) -> Result<(), StoreError> {
        write::create(&self.pool, &run).await
    }

    async fn begin(&self, run: NewRun, owner: &str, first: Batch) -> Result<(), StoreError> {
        check_sizes(&first)?;
        self.leases.begin(owner, &self.pool, &self.open.subscribe()).await?;
        write::begin(&self.pool, &self.links, &run, owner, first).await
    }

    async fn take_over(&self, run: &RunId, owner: &str, epoch: u64) -> Result<u64, StoreError> {
        self.leases.begin(owner, &self.pool, &self.open.subscribe()).await?;
        write::take_over(&self.pool, run, owner, epoch).await
    }

    async fn append(&self, batch: Batch) -> Result<(), StoreError> {
        check_sizes(&batch)?;
        write::append(&self.pool, &self.groups, &self.links, batch).await
    }

    async fn entries(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<Arc<Recorded>>, StoreError> {
        read::entries(&self.pool, run, after, limit).await
    }

    async fn task_entries(&self, run: &RunId, task: &TaskId, through: u64) -> Result<Vec<Arc<Recorded>>, StoreError> {
        read::task_entries(&self.pool, run, task, through).await
    }

    async fn content(&self, hash: ContentHash) -> Result<Option<Content>, StoreError> {
        read::content(&self.pool, hash).await
    }

    async fn put_content(&self, hash: ContentHash, content: Content) -> Result<(), StoreError> {
        if content.len() > MAX_CONTENT_BYTES {
            return Err(StoreError::TooLarge { size: content.len(), limit: MAX_CONTENT_BYTES });
        }
        if ContentHash::of(&content) != hash {
            return Err(StoreError::WrongHash { size: content.len() });
        }
        write::put_content(&self.pool, hash, &content).await
    }

    async fn recall(
        &self,
        memory: &MemoryId,
        agent: &AgentId,
        tool: &ToolId,
        limit: usize,
    ) -> Result<Vec<(RunId, LoggedCall)>, StoreError> {
        read::recall(&self.pool, memory, agent, tool, limit).await
    }

    async fn runs(&self) -> Result<Vec<RunRecord>, StoreError> {
        list::runs(&self.pool, &self.leases).await
    }

    async fn runs_after(&self, before: Option<&RunId>, limit: usize) -> Result<Vec<RunRecord>, StoreError> {
        list::runs_after(&self.pool, &self.leases, before, limit).await
    }

    async fn collect(&self, retention: Retention, dry_run: bool) -> Result<Collected, StoreError> {
        collect::collect(&self.pool, &self.leases, &retention, dry_run).await
    }

    async fn verify(&self) -> Result<Verification, StoreError> {
        verify::verify(&self.pool).await
    }

    async fn run(&self, run: &RunId) -> Result<Option<RunRecord>, StoreError> {
        list::run(&self.pool, &self.leases, run).await
    }

    async fn put_command(&self, run: &RunId, command: Json) -> Result<u64, StoreError> {
        let number = write::put_command(&self.pool, run, &command).await?;
        self.subscribers.wake(run, number);
        Ok(number)
    }

    async fn take_commands(&self, run: &RunId, after: u64) -> Result<Vec<(u64, Json)>, StoreError> {
        read::commands(&self.pool, run, after).await
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Due, StoreError> {
        read::due(&self.pool, now, limit).await
    }

    async fn is_due(&self, run: &RunId, now: Timestamp) -> Result<bool, StoreError> {
        read::is_due(&self.pool, run, now).await
    }

    async fn secret(&self) -> Result<[u8; 32], StoreError> {
        read::secret(&self.pool).await
    }

    fn breadcrumbs(&self) -> &dyn Breadcrumbs {
        self
    }

    fn subscribe_to_all(&self) -> watch::Receiver<u64> {
        self.listen();
        self.subscribers.subscribe_to_all()
    }

    fn subscribe(&self, run: &RunId) -> watch::Receiver<u64> {
        self.listen();
        self.subscribers.subscribe(run)
    }

    fn owner(&self) -> String {
        self.leases.name().to_owned()
    }

    fn is_there(&self, owner: &str) -> Option<bool> {
        self.leases.is_there(owner)
    }
}

/// Returns a random number, for names and pauses.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
