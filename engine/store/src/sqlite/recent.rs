//! Places of a run's latest batches, which are kept in the run's row until there are many.
//!
//! A commit writes whole pages. Each place in the tree would be on a page that few runs share, and a batch often has five of them. The run's
//! row is written with every batch anyway. So an append adds its places there, and many are moved into the tree at once.

use std::collections::BTreeSet;

use baton_types::id::RunId;
use rusqlite::{Connection, params};
use serde_json::value::RawValue;

use super::to_sql;
use crate::StoreError;
use crate::rows::{HEADS, WHOLE_RUN};

/// The size in bytes, about, from which the places of a run are moved into the tree.
const MAX_BYTES: usize = 512;

/// The most bytes of a key as JSON.
const KEY_BYTES: usize = 20;

/// The places of one batch: its last entry, its number and the keys of its tasks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place(pub(super) u64, pub(super) i64, pub(super) Vec<i64>);

impl Place {
    /// Whether the batch is found under `key`.
    pub(super) fn has(&self, key: i64) -> bool {
        key == WHOLE_RUN || self.2.contains(&key)
    }
}

/// The places of a run that are not yet in the tree, in order. They are later than those in the tree. The row has them as
/// `[[task, ...], [[last, batch, [position, ...]], ...]]`: a key has up to 20 digits, so each is there once, and places have its position.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent {
    /// The keys of all tasks that have such a place.
    tasks: Vec<i64>,
    /// The places as JSON, with commas between them.
    places: String,
}

impl Recent {
    /// Reads the text of a row, which must be as [`Self::text`] writes it. [`Self::of`] checks the places.
    pub(super) fn stored(text: &str) -> serde_json::Result<Self> {
        let (tasks, places): (_, &RawValue) = serde_json::from_str(text)?;
        let list = places.get().strip_prefix('[').and_then(|places| places.strip_suffix(']'));
        let places = list.ok_or_else(|| serde::de::Error::custom("the places are not a list"))?.to_owned();
        let recent = Self { tasks, places };
        // An append adds to the text, so a blank in it would do harm.
        if recent.text() == text && !text.contains(char::is_whitespace) {
            Ok(recent)
        } else {
            Err(serde::de::Error::custom("they are not written as a store writes them"))
        }
    }

    /// Returns the text to store.
    pub(super) fn text(&self) -> String {
        let tasks = serde_json::to_string(&self.tasks).expect("numbers serialise");
        format!("[{tasks},[{}]]", self.places)
    }

    /// Returns the places of `run`, in order. A file that was received may have any text here.
    pub(super) fn of(&self, run: &RunId) -> Result<Vec<Place>, StoreError> {
        let damaged = |why: String| StoreError::Corrupt { what: format!("the latest places of run {run}: {why}") };
        let stored: Vec<(u64, i64, Vec<usize>)> =
            serde_json::from_str(&format!("[{}]", self.places)).map_err(|error| damaged(error.to_string()))?;
        let mut places = Vec::<Place>::with_capacity(stored.len());
        for (last, batch, positions) in stored {
            let keys: Option<Vec<i64>> = positions.iter().map(|position| self.tasks.get(*position).copied()).collect();
            let keys = keys.ok_or_else(|| damaged(format!("that of entry {last} has a task which is not there")))?;
            let mut sorted = keys.clone();
            sorted.sort_unstable();
            let before = places.last().map_or(0, |place| place.0);
            if last <= before || !sorted.is_sorted_by(|one, next| one < next) {
                return Err(damaged(format!("that of entry {last} is out of order or twice there")));
            }
            places.push(Place(last, batch, keys));
        }
        let used: BTreeSet<i64> = places.iter().flat_map(|place| &place.2).copied().collect();
        if used.len() != self.tasks.len() {
            return Err(damaged("a task is there twice, or has no place".to_owned()));
        }
        Ok(places)
    }

    /// Adds the places of a batch.
    pub(super) fn push(&mut self, Place(last, batch, keys): &Place) {
        let mut position_of = |key: &i64| {
            self.tasks.iter().position(|known| known == key).unwrap_or_else(|| {
                self.tasks.push(*key);
                self.tasks.len() - 1
            })
        };
        let positions: Vec<usize> = keys.iter().map(&mut position_of).collect();
        if !self.places.is_empty() {
            self.places.push(',');
        }
        self.places.push_str(&serde_json::to_string(&(last, batch, positions)).expect("numbers serialise"));
    }

    /// Moves the places of `run`, which has this `number`, into the tree if they are many. Returns the number of tasks that had no place in
    /// the tree before.
    pub(super) fn move_if_many(&mut self, file: &Connection, run: &RunId, number: i64) -> Result<u64, StoreError> {
        let mut tasks = 0;
        if self.places.len() + KEY_BYTES * self.tasks.len() < MAX_BYTES {
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

    fn recent(places: &[Place]) -> Recent {
        let mut recent = Recent::default();
        for place in places {
            recent.push(place);
        }
        recent
    }

    #[test]
    fn places_that_no_append_makes_are_refused() {
        let run = RunId::new("a");
        for text in ["", "[", "[]", "[[],{}]", "[{},[]]", "[[],[],[]]", "[[],[ ]]", "[[5 ],[]]", "[[],[]] "] {
            assert!(Recent::stored(text).is_err(), "{text}");
        }
        for places in
            ["[0,1,[]]", "[2,1,[]],[2,1,[]]", "[4,1,[]],[2,1,[]]", "[2,1,[0,1,0]]", "[2,1,[0,2]]", "[2,1,[3]]", "[-1,1,[]]", "1"]
        {
            let stored = Recent::stored(&format!("[[5,6,5],[{places}]]")).expect("as a store writes it");
            let refused = stored.of(&run).expect_err(places);
            assert!(refused.to_string().contains("the latest places of run a"), "{refused}");
        }
        for unused in ["[[5,6],[[2,1,[0]]]]", "[[5,5],[[2,1,[0]],[3,2,[1]]]]"] {
            let refused = Recent::stored(unused).expect("as a store writes it").of(&run).expect_err(unused);
            assert!(refused.to_string().contains("a task is there twice"), "{refused}");
        }
        let stored = Recent::stored("[[5,6],[[2,1,[1,0]],[3,2,[]]]]").expect("as a store writes it");
        assert_eq!(stored.of(&run).expect("in order"), [Place(2, 1, vec![6, 5]), Place(3, 2, vec![])]);
        assert_eq!(stored.text(), "[[5,6],[[2,1,[1,0]],[3,2,[]]]]");
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
        for seq in 1..=60_u64 {
            let steered = ControlAction::Steered { text: "look".into() };
            let control = Control { task: Some(TaskId::new("0")), action: steered, by: Principal::program("test") };
            let at = Timestamp::from_micros(seq as i64);
            let entry = Arc::new(Recorded { seq, decision: seq, at, entry: Entry::Control(control) });
            store.append(Batch { entries: vec![entry], ..Batch::new(run.clone(), 1, seq - 1) }).await.expect("an entry");
        }
        let mut file = schema::open_for_writing(&path).expect("the same store");
        let row = RunRow::find(&file, &run).expect("readable").expect("there");
        let first = row.recent.of(&run).expect("as written")[0].0;
        assert!(1 < first && first < 60, "some places are in the tree, and some are not");
        let right: Vec<Place> = (first..=60).map(|last| Place(last, last as i64, vec![root])).collect();
        let changed = |change: &dyn Fn(&mut Vec<Place>)| {
            let mut places: Vec<Place> = (first..=60).map(|last| Place(last, last as i64, vec![root])).collect();
            change(&mut places);
            places
        };
        let wrong = [
            changed(&|places| drop(places.pop())),
            changed(&|places| drop(places.remove(0))),
            changed(&|places| places[1].1 = 1),
            changed(&|places| places[1].2 = vec![]),
            changed(&|places| places[1].2 = vec![root, other]),
            changed(&|places| places[1].0 = 61),
            changed(&|places| places.insert(0, Place(first - 1, first as i64 - 1, vec![root]))),
            changed(&|places| places.push(Place(61, 1, vec![root]))),
        ];
        for (places, is_right) in [(right, true)].into_iter().chain(wrong.map(|places| (places, false))) {
            RunRow { recent: recent(&places), ..row.clone() }.save(&file).expect("somebody else's write");
            let found = verify::verify(&file.transaction().expect("a transaction"));
            assert_eq!(found.findings.is_empty(), is_right, "{places:?}: {:?}", found.findings);
        }
        // Entries that are read twice would make an endless timeline.
        let twice = changed(&|places| places.insert(0, Place(first - 1, first as i64 - 1, vec![root])));
        RunRow { recent: recent(&twice), ..row }.save(&file).expect("somebody else's write");
        let read = store.task_entries(&run, &"0".into(), u64::MAX).await;
        assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{read:?}");
    }
}
