//! Groups: batches that come while others are being written wait for each other, and are written by one statement.
//!
//! A statement costs the server more than the rows of a batch, and a commit waits for the disk. With groups, many runs share both.

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

/// The batches that wait.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    pool: Pool,
    waiting: Arc<Mutex<VecDeque<Pending>>>,
    turns: Arc<Semaphore>,
}

/// A batch that waits, and where its rows go after it was tried.
#[derive(Debug)]
struct Pending {
    rows: Rows,
    answer: oneshot::Sender<(Rows, Result<bool, StoreError>)>,
}

impl Groups {
    pub(super) fn new(pool: &Pool) -> Self {
        Self { pool: pool.clone(), waiting: Arc::default(), turns: Arc::new(Semaphore::new(MAX_AT_ONCE)) }
    }

    /// Writes a batch if its run is as it expects. Returns its rows, and whether it was written.
    ///
    /// The batch may be written although the caller stopped waiting.
    pub(super) async fn write(&self, rows: Rows) -> Result<(Rows, bool), StoreError> {
        let (answer, answered) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(Pending { rows, answer });
        tokio::spawn(self.clone().write_next());
        let lost = |_| StoreError::CommitUnknown { store: self.pool.address().shown() };
        let (rows, written) = answered.await.map_err(lost)?;
        Ok((rows, written?))
    }

    /// Writes the next group. There is none if the batch that began this is in an earlier one.
    async fn write_next(self) {
        let Ok(_turn) = self.turns.acquire().await else { return };
        let (batches, answers): (Vec<Rows>, Vec<_>) =
            self.next_group().into_iter().map(|pending| (pending.rows, pending.answer)).unzip();
        let written = self.write_group(&batches).await;
        for ((rows, answer), written) in batches.into_iter().zip(answers).zip(written) {
            // The caller may have stopped waiting.
            let _unheard = answer.send((rows, written));
        }
    }

    /// Takes the next group, and puts it into the order of the runs.
    fn next_group(&self) -> Vec<Pending> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut group: Vec<Pending> = Vec::new();
        let mut bytes = 0;
        while let Some(next) = waiting.front() {
            let is_full = group.len() == MAX_BATCHES || bytes >= MAX_BYTES;
            // A batch that needs a transaction is alone.
            let is_apart = next.rows.is_large() || group.last().is_some_and(|last| last.rows.is_large());
            if !group.is_empty() && (is_full || is_apart) {
                break;
            }
            bytes += next.rows.bytes();
            group.extend(waiting.pop_front());
        }
        group.sort_by(|one, other| one.rows.batch.run.cmp(&other.rows.batch.run));
        group
    }

    /// Writes a group, or each batch by itself if the group fails because of one of them.
    async fn write_group(&self, batches: &[Rows]) -> Vec<Result<bool, StoreError>> {
        if batches.is_empty() {
            return Vec::new();
        }
        match self.try_group(batches).await {
            Ok(written) => written.into_iter().map(Ok).collect(),
            Err(error) => match concerns_all(&error) {
                _ if batches.len() == 1 => vec![Err(error)],
                Some(_) => batches.iter().filter_map(|_| concerns_all(&error).map(Err)).collect(),
                None => {
                    let mut written = Vec::new();
                    for batch in batches {
                        written.push(self.try_group(std::slice::from_ref(batch)).await.map(|written| written == [true]));
                    }
                    written
                }
            },
        }
    }

    async fn try_group(&self, batches: &[Rows]) -> Result<Vec<bool>, StoreError> {
        let columns = &Columns::of(batches);
        let is_large = batches.iter().any(Rows::is_large);
        self.pool.commit(is_large, |client| async move { columns.append(&client).await }).await
    }
}

/// Returns an error again that each batch of a group has, since the server, the connection or the pool has it.
fn concerns_all(error: &StoreError) -> Option<StoreError> {
    match error {
        StoreError::CommitUnknown { store } => Some(StoreError::CommitUnknown { store: store.clone() }),
        StoreError::Unreachable { store, what } => Some(StoreError::Unreachable { store: store.clone(), what: what.clone() }),
        StoreError::Busy { path } => Some(StoreError::Busy { path: path.clone() }),
        _ => None,
    }
}
