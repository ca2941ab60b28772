//! Places of a run's latest batches, which are kept in the run's row until there are many.
//!
//! A commit writes whole pages. Each place in the tree would be on a page that few runs share, and a batch often has five of them. The run's
//! row is written with every batch anyway. So an append adds its places there, and many are moved into the tree at once.

use baton_types::id::RunId;
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use super::to_sql;
use crate::StoreError;
use crate::rows::{HEADS, WHOLE_RUN};

/// Size in bytes from which the places of a run are moved into the tree.
const MAX_BYTES: usize = 768;

/// The places of one batch: its last entry, its number and the keys of its tasks.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place(pub(super) u64, pub(super) i64, pub(super) Vec<i64>);

impl Place {
    /// Whether the batch is found under `key`.
    pub(super) fn has(&self, key: i64) -> bool {
        key == WHOLE_RUN || self.2.contains(&key)
    }
}

/// The places of a run that are not yet in the tree: `[[last, batch, [task, ...]], ...]`, in order. They are later than those in the tree.
#[derive(Clone, Debug)]
pub(super) struct Recent(String);

impl Default for Recent {
    fn default() -> Self {
        Self("[]".to_owned())
    }
}

impl Recent {
    /// Wraps a stored text, which [`Self::of`] checks.
    pub(super) const fn stored(text: String) -> Self {
        Self(text)
    }

    /// Returns the text to store.
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Returns the places of `run`, in order. A file that was received may have any text here.
    pub(super) fn of(&self, run: &RunId) -> Result<Vec<Place>, StoreError> {
        let damaged = |why: String| StoreError::Corrupt { what: format!("the latest places of run {run}: {why}") };
        let places: Vec<Place> = serde_json::from_str(&self.0).map_err(|error| damaged(error.to_string()))?;
        let mut before = 0;
        for Place(last, _, keys) in &places {
            let mut sorted = keys.clone();
            sorted.sort_unstable();
            if *last <= before || !sorted.is_sorted_by(|one, next| one < next) {
                return Err(damaged(format!("that of entry {last} is out of order or twice there")));
            }
            before = *last;
        }
        Ok(places)
    }

    /// Adds the places of a batch.
    pub(super) fn push(&mut self, place: &Place) {
        let text = serde_json::to_string(place).expect("numbers serialise");
        self.0.pop();
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push_str(&text);
        self.0.push(']');
    }

    /// Moves the places of `run`, which has this `number`, into the tree if they are many. Returns the number of tasks that had no place in
    /// the tree before.
    pub(super) fn move_if_many(&mut self, file: &Connection, run: &RunId, number: i64) -> Result<u64, StoreError> {
        let mut tasks = 0;
        if self.0.len() < MAX_BYTES {
            return Ok(tasks);
        }
        let mut insert = file.prepare_cached("INSERT INTO places (run, task, last, batch) VALUES (?1, ?2, ?3, ?4)")?;
        // Not one upsert with RETURNING: SQLite would allocate a temporary table, about 87 KB, for each execution.
        let mut count = file.prepare_cached("UPDATE places SET batch = batch + 1 WHERE run = ?1 AND task = ?2 AND last = ?3")?;
        for Place(last, batch, keys) in self.of(run)? {
            insert.execute(params![number, WHOLE_RUN, to_sql(last), batch])?;
            for task in keys {
                insert.execute(params![number, task, to_sql(last), batch])?;
                if count.execute([number, HEADS, task])? == 0 {
                    insert.execute([number, HEADS, task, 1])?;
                    tasks += 1;
                }
            }
        }
        *self = Self::default();
        Ok(tasks)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use baton_types::entry::{Control, ControlAction, Entry, Recorded};
    use baton_types::id::TaskId;
    use baton_types::principal::Principal;
    use baton_types::time::Timestamp;

    use super::*;
    use crate::rows::task_key;
    use crate::sqlite::records::RunRow;
    use crate::sqlite::{SqliteStore, schema, verify};
    use crate::{Batch, NewRun, Store};

    #[test]
    fn places_that_no_append_makes_are_refused() {
        let run = RunId::new("a");
        for text in ["", "[", "[[0,1,[]]]", "[[2,1,[]],[2,1,[]]]", "[[4,1,[]],[2,1,[]]]", "[[2,1,[5,6,5]]]", "[[-1,1,[]]]"] {
            let refused = Recent::stored(text.to_owned()).of(&run).expect_err(text);
            assert!(refused.to_string().contains("the latest places of run a"), "{refused}");
        }
        assert_eq!(Recent::stored("[[2,1,[6,5]],[3,2,[]]]".to_owned()).of(&run).expect("in order").len(), 2);
    }

    /// The row of a run has a checksum, but the sender of a file can make one.
    #[tokio::test]
    async fn places_that_do_not_fit_the_batches_are_found() {
        let folder = tempfile::TempDir::new().expect("a temporary folder");
        let path = folder.path().join("store.db");
        let store = SqliteStore::open(&path).expect("a new store");
        let (run, root, other) = (RunId::new("a"), task_key(&"0".into()), task_key(&"0/1.1".into()));
        let new = NewRun { id: run.clone(), job: "job".into(), at: Timestamp::from_micros(1), past: None, trigger: None };
        store.create(new).await.expect("a run");
        store.take_over(&run, "owner", 0).await.expect("a free run");
        for seq in 1..=40_u64 {
            let steered = ControlAction::Steered { text: "look".into() };
            let control = Control { task: Some(TaskId::new("0")), action: steered, by: Principal::program("test") };
            let at = Timestamp::from_micros(seq as i64);
            let entry = Arc::new(Recorded { seq, decision: seq, at, entry: Entry::Control(control) });
            store.append(Batch { entries: vec![entry], ..Batch::new(run.clone(), 1, seq - 1) }).await.expect("an entry");
        }
        let mut file = schema::open_for_writing(&path).expect("the same store");
        let row = RunRow::find(&file, &run).expect("readable").expect("there");
        let first = row.recent.of(&run).expect("as written")[0].0;
        assert!(1 < first && first < 40, "some places are in the tree, and some are not");
        let right: Vec<Place> = (first..=40).map(|last| Place(last, last as i64, vec![root])).collect();
        let changed = |change: &dyn Fn(&mut Vec<Place>)| {
            let mut places: Vec<Place> = (first..=40).map(|last| Place(last, last as i64, vec![root])).collect();
            change(&mut places);
            places
        };
        let wrong = [
            changed(&|places| drop(places.pop())),
            changed(&|places| drop(places.remove(0))),
            changed(&|places| places[1].1 = 1),
            changed(&|places| places[1].2 = vec![]),
            changed(&|places| places[1].2 = vec![root, other]),
            changed(&|places| places[1].0 = 41),
            changed(&|places| places.insert(0, Place(first - 1, first as i64 - 1, vec![root]))),
            changed(&|places| places.push(Place(41, 1, vec![root]))),
        ];
        for (places, is_right) in [(right, true)].into_iter().chain(wrong.map(|places| (places, false))) {
            let text = serde_json::to_string(&places).expect("numbers serialise");
            RunRow { recent: Recent::stored(text.clone()), ..row.clone() }.save(&file).expect("somebody else's write");
            let found = verify::verify(&file.transaction().expect("a transaction"));
            assert_eq!(found.findings.is_empty(), is_right, "{text}: {:?}", found.findings);
        }
        // Entries that are read twice would make an endless timeline.
        let twice = changed(&|places| places.insert(0, Place(first - 1, first as i64 - 1, vec![root])));
        let text = serde_json::to_string(&twice).expect("numbers serialise");
        RunRow { recent: Recent::stored(text), ..row }.save(&file).expect("somebody else's write");
        let read = store.task_entries(&run, &"0".into(), u64::MAX).await;
        assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{read:?}");
    }
}
