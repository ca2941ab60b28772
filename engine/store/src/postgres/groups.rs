//! Groups of batches: a batch waits while earlier groups are written, and is then written together with the others that wait.
//!
//! A statement costs the server more than the rows of a batch, and a commit waits for the disk. In a group, many runs share both.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Semaphore, oneshot};

use super::columns::{Columns, Rows};
use super::pool::Pool;
use crate::StoreError;

/// The most groups that are written at the same time.
const MAX_AT_ONCE: usize = 4;

/// The most batches of a group.
const MAX_BATCHES: usize = 64;

/// A group with this many bytes takes no more.
const MAX_BYTES: usize = 1 << 20;

/// The batches that wait for their group.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    pool: Pool,
    waiting: Arc<Mutex<VecDeque<Pending>>>,
    permits: Arc<Semaphore>,
}

/// The outcome of a batch: its rows again, and whether they were written.
type Outcome = (Rows, Result<bool, StoreError>);

/// A waiting batch and the channel for its outcome.
#[derive(Debug)]
struct Pending {
    rows: Rows,
    answer: oneshot::Sender<Outcome>,
}

impl Groups {
    pub(super) fn new(pool: &Pool) -> Self {
        Self { pool: pool.clone(), waiting: Arc::default(), permits: Arc::new(Semaphore::new(MAX_AT_ONCE)) }
    }

    /// Writes a batch together with others. Returns its rows, and whether it was written: not if its run is another one than it expects, or
    /// if another transaction has locked the run.
    ///
    /// If the caller stops waiting, the batch may be written later.
    pub(super) async fn write(&self, rows: Rows) -> Result<(Rows, bool), StoreError> {
        let (answer, answered) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(Pending { rows, answer });
        tokio::spawn(self.clone().write_next());
        let unanswered = |_| StoreError::CommitUnknown { store: self.pool.address().shown() };
        let (rows, written) = answered.await.map_err(unanswered)?;
        Ok((rows, written?))
    }

    /// Writes a batch by itself. It waits for other transactions that have locked its run. Returns whether it was written.
    pub(super) async fn write_alone(&self, rows: &Rows) -> Result<bool, StoreError> {
        self.try_group(std::slice::from_ref(rows), true).await.map(|written| written == [true])
    }

    /// Writes the group that waits now. An earlier group may have taken all batches.
    async fn write_next(self) {
        let Ok(_permit) = self.permits.acquire().await else { return };
        let (batches, answers): (Vec<Rows>, Vec<_>) =
            self.next_group().into_iter().map(|pending| (pending.rows, pending.answer)).unzip();
        let written = self.write_group(&batches).await;
        for ((rows, answer), written) in batches.into_iter().zip(answers).zip(written) {
            // The caller may have stopped waiting.
            let _ignored = answer.send((rows, written));
        }
    }

    /// Takes the next group out of the queue. Its batches are sorted by run.
    fn next_group(&self) -> Vec<Pending> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut group: Vec<Pending> = Vec::new();
        let mut bytes = 0;
        while let Some(next) = waiting.front() {
            let is_full = group.len() == MAX_BATCHES || bytes >= MAX_BYTES;
            // A batch with several statements is a group of its own.
            let has_large = next.rows.is_large() || group.last().is_some_and(|last| last.rows.is_large());
            if !group.is_empty() && (is_full || has_large) {
                break;
            }
            bytes += next.rows.bytes();
            group.extend(waiting.pop_front());
        }
        group.sort_by(|one, other| one.rows.batch.run.cmp(&other.rows.batch.run));
        group
    }

    /// Writes a group. If it fails because of one of its batches, each is written by itself.
    async fn write_group(&self, batches: &[Rows]) -> Vec<Result<bool, StoreError>> {
        let mut failed = match self.try_group(batches, false).await {
            Ok(written) => return written.into_iter().map(Ok).collect(),
            Err(only) if batches.len() == 1 => return vec![Err(only)],
            Err(error) => shared(&error),
        };
        let mut outcomes = Vec::new();
        for batch in batches {
            outcomes.push(match failed.as_ref().and_then(shared) {
                Some(error) => Err(error),
                None => self.write_alone(batch).await,
            });
            if let Some(Err(error)) = outcomes.last() {
                failed = failed.or_else(|| shared(error));
            }
        }
        outcomes
    }

    async fn try_group(&self, batches: &[Rows], waits: bool) -> Result<Vec<bool>, StoreError> {
        if batches.is_empty() {
            return Ok(Vec::new());
        }
        let columns = &Columns::of(batches);
        let is_large = batches.iter().any(Rows::is_large);
        self.pool.commit(is_large, |client| async move { columns.append(&client, waits).await }).await
    }
}

/// Returns a copy of an error of the server, the connection or the pool, which every batch of a group has; `None` for another error.
fn shared(error: &StoreError) -> Option<StoreError> {
    Some(match error {
        StoreError::CommitUnknown { store } => StoreError::CommitUnknown { store: store.clone() },
        StoreError::Unreachable { store, what } => StoreError::Unreachable { store: store.clone(), what: what.clone() },
        StoreError::Busy { path } => StoreError::Busy { path: path.clone() },
        StoreError::StorageFull { path } => StoreError::StorageFull { path: path.clone() },
        StoreError::ReadOnly { path } => StoreError::ReadOnly { path: path.clone() },
        _ => return None,
    })
}
