//! Places of a run's latest batches, kept in the run's row until there are many of them.
//!
//! A commit writes whole pages. Each row in the tree of places would be on a page of its own, and each batch has up to five of
//! them. The run's row is written with every batch anyway. So an append adds its places there, and many are moved into the tree at once.

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use super::to_sql;
use crate::StoreError;
use crate::rows::{HEADS, WHOLE_RUN};

/// Size in bytes from which the places of a run are moved into the tree.
const MAX_BYTES: usize = 768;

/// A batch of a run: its last entry, its number and the keys of its tasks.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place(pub(super) u64, pub(super) i64, pub(super) Vec<i64>);

impl Place {
    /// Whether the batch is found under `key`.
    pub(super) fn has(&self, key: i64) -> bool {
        key == WHOLE_RUN || self.2.contains(&key)
    }
}

/// The batches of a run that are not in the tree of places: `[[last, batch, [task, ...]], ...]`, in order, later than those in the tree.
#[derive(Clone, Debug)]
pub(super) struct Recent(String);

impl Default for Recent {
    fn default() -> Self {
        Self("[]".to_owned())
    }
}

impl Recent {
    /// Returns what was stored; checked by [`Self::places`].
    pub(super) const fn stored(text: String) -> Self {
        Self(text)
    }

    /// Returns the text to store.
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Returns the batches, in order.
    pub(super) fn places(&self) -> Result<Vec<Place>, StoreError> {
        let damaged = |error: serde_json::Error| StoreError::Corrupt { what: format!("the latest places of a run: {error}") };
        serde_json::from_str(&self.0).map_err(damaged)
    }

    /// Adds a batch.
    pub(super) fn push(&mut self, place: &Place) {
        let text = serde_json::to_string(place).expect("numbers serialise");
        self.0.pop();
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push_str(&text);
        self.0.push(']');
    }

    /// Moves the batches of the run with this number into the tree of places if they are many. Returns the number of tasks that had no place
    /// there before.
    pub(super) fn file(&mut self, file: &Connection, run: i64) -> Result<u64, StoreError> {
        let mut tasks = 0;
        if self.0.len() < MAX_BYTES {
            return Ok(tasks);
        }
        let mut insert = file.prepare_cached("INSERT INTO places (run, task, last, batch) VALUES (?1, ?2, ?3, ?4)")?;
        // Not one upsert with RETURNING: SQLite would allocate a temporary table, about 87 KB, for each execution.
        let mut count = file.prepare_cached("UPDATE places SET batch = batch + 1 WHERE run = ?1 AND task = ?2 AND last = ?3")?;
        for Place(last, batch, keys) in self.places()? {
            insert.execute(params![run, WHOLE_RUN, to_sql(last), batch])?;
            for task in keys {
                insert.execute(params![run, task, to_sql(last), batch])?;
                if count.execute([run, HEADS, task])? == 0 {
                    insert.execute([run, HEADS, task, 1])?;
                    tasks += 1;
                }
            }
        }
        *self = Self::default();
        Ok(tasks)
    }
}
