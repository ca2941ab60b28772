//! A store that stops working at a chosen commit: what a process that dies there leaves behind.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use baton_store::{
    Batch, Breadcrumbs, Collected, Due, LoggedCall, NewRun, Retention, RunRecord, Store, StoreError, Verification,
};
use baton_types::document::Content;
use baton_types::entry::Recorded;
use baton_types::id::{AgentId, ContentHash, MemoryId, RunId, TaskId, ToolId};
use baton_types::json::Json;
use baton_types::time::Timestamp;
use tokio::sync::{OwnedMutexGuard, watch};

/// When the failing commit fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failing {
    /// Before it is durable.
    Before,
    /// After it took hold, before anybody learns of it.
    After,
    /// Because the store is full. Later commits have room.
    Full,
}

/// Passes everything on to `inner`. A commit fails.
pub(crate) struct FailingStore {
    inner: Arc<dyn Store>,
    left: AtomicI64,
    failing: Failing,
    /// The last entry of every commit that took hold, in order.
    commits: Mutex<Vec<u64>>,
    /// Held during each commit.
    lock: Arc<tokio::sync::Mutex<()>>,
}

impl FailingStore {
    /// Returns a store whose commit number `commits + 1` fails, and every later one unless the store is only full.
    pub(crate) fn new(inner: Arc<dyn Store>, commits: i64, failing: Failing) -> Self {
        Self { inner, left: AtomicI64::new(commits), failing, commits: Mutex::default(), lock: Arc::default() }
    }

    /// Returns a store that never fails, to observe its commits.
    pub(crate) fn watching(inner: Arc<dyn Store>) -> Self {
        Self::new(inner, i64::MAX, Failing::Before)
    }

    /// Returns the number of the commit, from 0, that entry `seq` came with.
    pub(crate) fn commit_of(&self, seq: u64) -> usize {
        self.commits.lock().unwrap().partition_point(|last| *last < seq)
    }

    /// Makes commits wait until the guard is dropped. None may be in progress.
    pub(crate) fn hold_commits(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.lock).try_lock_owned().expect("no commit is in progress")
    }

    /// Lets `commit` take place, or not, or take place and look as if it had not.
    async fn commit(&self, last: u64, commit: impl Future<Output = Result<(), StoreError>>) -> Result<(), StoreError> {
        let _lock = self.lock.lock().await;
        let left = self.left.fetch_sub(1, Ordering::SeqCst);
        let is_full = self.failing == Failing::Full;
        if left > 0 || (left == 0 && self.failing == Failing::After) || (left < 0 && is_full) {
            commit.await?;
            self.commits.lock().unwrap().push(last);
        }
        match left {
            ..0 if is_full => Ok(()),
            0 if is_full => Err(StoreError::StorageFull { path: "store".into() }),
            ..=0 => Err(StoreError::Closed),
            _ => Ok(()),
        }
    }
}

/// Returns the run's last entry after `batch` is committed.
fn last_seq(batch: &Batch) -> u64 {
    batch.entries.last().map_or(batch.expected_seq, |recorded| recorded.seq)
}

#[async_trait]
impl Store for FailingStore {
    fn breadcrumbs(&self) -> &dyn Breadcrumbs {
        self.inner.breadcrumbs()
    }

    async fn create(&self, run: NewRun) -> Result<(), StoreError> {
        self.inner.create(run).await
    }

    async fn begin(&self, run: NewRun, owner: &str, first: Batch) -> Result<(), StoreError> {
        self.commit(last_seq(&first), self.inner.begin(run, owner, first)).await
    }

    async fn take_over(&self, run: &RunId, owner: &str, epoch: u64) -> Result<u64, StoreError> {
        self.inner.take_over(run, owner, epoch).await
    }

    async fn append(&self, batch: Batch) -> Result<(), StoreError> {
        self.commit(last_seq(&batch), self.inner.append(batch)).await
    }

    async fn entries(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<Arc<Recorded>>, StoreError> {
        self.inner.entries(run, after, limit).await
    }

    async fn task_entries(&self, run: &RunId, task: &TaskId, through: u64) -> Result<Vec<Arc<Recorded>>, StoreError> {
        self.inner.task_entries(run, task, through).await
    }

    async fn content(&self, hash: ContentHash) -> Result<Option<Content>, StoreError> {
        self.inner.content(hash).await
    }

    async fn put_content(&self, hash: ContentHash, content: Content) -> Result<(), StoreError> {
        self.inner.put_content(hash, content).await
    }

    async fn recall(
        &self,
        memory: &MemoryId,
        agent: &AgentId,
        tool: &ToolId,
        limit: usize,
    ) -> Result<Vec<(RunId, LoggedCall)>, StoreError> {
        self.inner.recall(memory, agent, tool, limit).await
    }

    async fn runs(&self) -> Result<Vec<RunRecord>, StoreError> {
        self.inner.runs().await
    }

    async fn collect(&self, retention: Retention, dry_run: bool) -> Result<Collected, StoreError> {
        self.inner.collect(retention, dry_run).await
    }

    async fn verify(&self) -> Result<Verification, StoreError> {
        self.inner.verify().await
    }

    async fn run(&self, run: &RunId) -> Result<Option<RunRecord>, StoreError> {
        self.inner.run(run).await
    }

    async fn put_command(&self, run: &RunId, command: Json) -> Result<u64, StoreError> {
        self.inner.put_command(run, command).await
    }

    async fn take_commands(&self, run: &RunId, after: u64) -> Result<Vec<(u64, Json)>, StoreError> {
        self.inner.take_commands(run, after).await
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Due, StoreError> {
        self.inner.due(now, limit).await
    }

    async fn is_due(&self, run: &RunId, now: Timestamp) -> Result<bool, StoreError> {
        self.inner.is_due(run, now).await
    }

    async fn secret(&self) -> Result<[u8; 32], StoreError> {
        self.inner.secret().await
    }

    fn subscribe_to_all(&self) -> watch::Receiver<u64> {
        self.inner.subscribe_to_all()
    }

    fn subscribe(&self, run: &RunId) -> watch::Receiver<u64> {
        self.inner.subscribe(run)
    }
}
