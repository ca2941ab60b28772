//! Stores for a measurement's runs, and observations of them from outside.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::bail;
use async_trait::async_trait;
use baton_store::{
    Batch, Breadcrumbs, Collected, Due, LoggedCall, MemoryStore, NewRun, PostgresStore, Retention, RunRecord, SqliteStore, Store,
    StoreError, Verification,
};
use baton_types::document::Content;
use baton_types::entry::Recorded;
use baton_types::id::{AgentId, ContentHash, MemoryId, RunId, TaskId, ToolId};
use baton_types::json::Json;
use baton_types::time::Timestamp;
use tokio::sync::watch;

use crate::Kept;

/// Ended runs that a store in memory keeps: what a program that runs job after job would ask for.
const ENDED_RUNS: usize = 16;

/// A store; the folder goes with it.
pub(super) struct Place {
    pub(super) store: Arc<dyn Store>,
    pub(super) sqlite: Option<Arc<SqliteStore>>,
    _folder: Option<tempfile::TempDir>,
}

impl Place {
    /// Returns a new store.
    pub(super) fn new(kept: Kept) -> anyhow::Result<Self> {
        match kept {
            Kept::Memory => Ok(Self { store: Arc::new(MemoryStore::keeping(ENDED_RUNS)), sqlite: None, _folder: None }),
            Kept::Sqlite => {
                let folder = tempfile::tempdir()?;
                let place = Self::of_file(&folder.path().join("bench.db"))?;
                Ok(Self { _folder: Some(folder), ..place })
            }
            Kept::Postgres => bail!("on PostgreSQL, only throughput and suspended calls are measured"),
        }
    }

    /// Returns the store in the file or the database at `address`, which stays.
    pub(super) async fn at(address: &str) -> anyhow::Result<Self> {
        if !PostgresStore::is_address(address) {
            return Self::of_file(Path::new(address));
        }
        Ok(Self { store: Arc::new(PostgresStore::connect(address).await?), sqlite: None, _folder: None })
    }

    fn of_file(path: &Path) -> anyhow::Result<Self> {
        let sqlite = Arc::new(SqliteStore::open(path)?);
        Ok(Self { store: Arc::clone(&sqlite) as Arc<dyn Store>, sqlite: Some(sqlite), _folder: None })
    }
}

/// A store that hands everything on to another and notes what becomes of it.
pub(super) struct Watched {
    store: Arc<dyn Store>,
    entries: AtomicU64,
    appends: Mutex<Appends>,
}

#[derive(Default)]
struct Appends {
    last: Option<Instant>,
    longest_gap: Duration,
}

impl Watched {
    pub(super) fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { store, entries: AtomicU64::new(0), appends: Mutex::default() })
    }

    /// Returns the number of appended entries.
    pub(super) fn entries_appended(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Returns the longest time between two successive appends of any runs, from the moment one was durable to the next.
    pub(super) fn longest_gap(&self) -> Duration {
        self.appends.lock().expect("no holder of the lock panics").longest_gap
    }

    /// Entries have become durable.
    fn note(&self, entries: usize) {
        self.entries.fetch_add(entries as u64, Ordering::Relaxed);
        let mut appends = self.appends.lock().expect("no holder of the lock panics");
        let now = Instant::now();
        let gap = appends.last.map_or(Duration::ZERO, |last| now - last);
        appends.longest_gap = appends.longest_gap.max(gap);
        appends.last = Some(now);
    }
}

#[async_trait]
impl Store for Watched {
    fn breadcrumbs(&self) -> &dyn Breadcrumbs {
        self.store.breadcrumbs()
    }

    async fn append(&self, batch: Batch) -> Result<(), StoreError> {
        let entries = batch.entries.len();
        self.store.append(batch).await?;
        self.note(entries);
        Ok(())
    }

    async fn create(&self, run: NewRun) -> Result<(), StoreError> {
        self.store.create(run).await
    }

    async fn begin(&self, run: NewRun, owner: &str, first: Batch) -> Result<(), StoreError> {
        let entries = first.entries.len();
        self.store.begin(run, owner, first).await?;
        self.note(entries);
        Ok(())
    }

    async fn take_over(&self, run: &RunId, owner: &str, epoch: u64) -> Result<u64, StoreError> {
        self.store.take_over(run, owner, epoch).await
    }

    async fn entries(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<Arc<Recorded>>, StoreError> {
        self.store.entries(run, after, limit).await
    }

    async fn task_entries(&self, run: &RunId, task: &TaskId, through: u64) -> Result<Vec<Arc<Recorded>>, StoreError> {
        self.store.task_entries(run, task, through).await
    }

    async fn content(&self, hash: ContentHash) -> Result<Option<Content>, StoreError> {
        self.store.content(hash).await
    }

    async fn put_content(&self, hash: ContentHash, content: Content) -> Result<(), StoreError> {
        self.store.put_content(hash, content).await
    }

    async fn recall(
        &self,
        memory: &MemoryId,
        agent: &AgentId,
        tool: &ToolId,
        limit: usize,
    ) -> Result<Vec<(RunId, LoggedCall)>, StoreError> {
        self.store.recall(memory, agent, tool, limit).await
    }

    async fn runs(&self) -> Result<Vec<RunRecord>, StoreError> {
        self.store.runs().await
    }

    async fn collect(&self, retention: Retention, dry_run: bool) -> Result<Collected, StoreError> {
        self.store.collect(retention, dry_run).await
    }

    async fn verify(&self) -> Result<Verification, StoreError> {
        self.store.verify().await
    }

    async fn run(&self, run: &RunId) -> Result<Option<RunRecord>, StoreError> {
        self.store.run(run).await
    }

    async fn put_command(&self, run: &RunId, command: Json) -> Result<u64, StoreError> {
        self.store.put_command(run, command).await
    }

    async fn take_commands(&self, run: &RunId, after: u64) -> Result<Vec<(u64, Json)>, StoreError> {
        self.store.take_commands(run, after).await
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Due, StoreError> {
        self.store.due(now, limit).await
    }

    async fn is_due(&self, run: &RunId, now: Timestamp) -> Result<bool, StoreError> {
        self.store.is_due(run, now).await
    }

    async fn secret(&self) -> Result<[u8; 32], StoreError> {
        self.store.secret().await
    }

    fn subscribe_to_all(&self) -> watch::Receiver<u64> {
        self.store.subscribe_to_all()
    }

    fn subscribe(&self, run: &RunId) -> watch::Receiver<u64> {
        self.store.subscribe(run)
    }
}
