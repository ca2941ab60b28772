//! A batch's entries as rows of a store, and back.
//!
//! A row holds neighbouring entries as one JSON text, `[[decision, moment, entry], …]`, under one checksum: a batch is one row unless it
//! is large. A row per entry would cost a tree insertion, an index insertion and a hash each, and a commit would touch a page
//! per run instead of filling pages that all runs share.

use std::ops::RangeInclusive;
use std::sync::Arc;

use baton_types::entry::{Entry, Recorded};
use baton_types::id::{ContentHash, RunId, TaskId};
use baton_types::time::Timestamp;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::{Batch, StoreError};

/// Size in bytes from which a row takes no further entry. Reading one entry reads its whole row.
const ROW_BYTES: usize = 32 << 10;

/// The room that a row's text gets at first: a turn with a few calls needs less.
const USUAL_ROW_BYTES: usize = 2 << 10;

/// The key under which all rows of a run are filed in SQLite, beside those of its tasks.
pub(crate) const WHOLE_RUN: i64 = 0;

/// The key under which it is filed how many rows each task has, by the tasks' keys.
pub(crate) const HEADS: i64 = 1;

/// Neighbouring entries of one run, ready to be written.
#[derive(Debug)]
pub(crate) struct EntryRow<T = String> {
    /// The sequence number of its first entry.
    pub(crate) first: u64,
    /// Sequence number of the last entry.
    pub(crate) last: u64,
    /// Keys that the row is filed under besides the run: the tasks of its entries, each once.
    pub(crate) tasks: Vec<i64>,
    /// The entries, as a store keeps them.
    pub(crate) text: T,
    /// See [`body`].
    pub(crate) body: ContentHash,
}

/// Returns the entries of `batch` as rows, in order.
pub(crate) fn of_batch(batch: &Batch) -> Vec<EntryRow> {
    let mut rows = Vec::new();
    let mut rest = batch.entries.iter().peekable();
    while let Some(first) = rest.peek().map(|first| first.seq) {
        let (mut last, mut tasks, mut text) = (first, Vec::new(), Vec::with_capacity(USUAL_ROW_BYTES));
        text.push(b'[');
        let mut task = None;
        while text.len() < ROW_BYTES
            && let Some(recorded) = rest.next()
        {
            text.extend_from_slice(if recorded.seq == first { b"[" } else { b",[" });
            serde_json::to_writer(&mut text, &recorded.decision).expect("a number serialises");
            text.push(b',');
            serde_json::to_writer(&mut text, &recorded.at.as_micros()).expect("a number serialises");
            text.push(b',');
            serde_json::to_writer(&mut text, &recorded.entry).expect("an entry has only string keys and always serialises");
            text.push(b']');
            last = recorded.seq;
            if recorded.entry.task() != task {
                task = recorded.entry.task();
                tasks.extend(task.map(task_key).filter(|key| !tasks.contains(key)));
            }
        }
        text.push(b']');
        let text = String::from_utf8(text).expect("JSON is UTF-8");
        let body = body(&batch.run, first, &text);
        rows.push(EntryRow { first, last, tasks, text, body });
    }
    rows
}

/// Returns the key under which rows with entries of `task` are filed. Two tasks may share a key, so readers compare
/// the entries too.
///
/// Neighbours in the task graph have neighbouring keys, so what a commit writes for many of them is on few pages. From its highest
/// bit, the key consists of:
/// - 1, which keeps it apart from [`WHOLE_RUN`] and [`HEADS`],
/// - the turn (5 bits) and the position (18 bits) of the call below the root,
/// - those of the next call (6 and 18 bits),
/// - 16 bits of a hash of the whole id.
pub(crate) fn task_key(task: &TaskId) -> i64 {
    let mut calls = task.as_str().split('/').skip(1).map(|call| {
        let (turn, position) = call.split_once('.')?;
        Some(turn.parse::<u64>().ok()? << 18 | position.parse::<u64>().ok()? & 0x3_ffff)
    });
    let mut call = || calls.next().flatten().unwrap_or_default() & 0xff_ffff;
    let (first, second) = (call(), call());
    let [high, low, ..] = *ContentHash::of(task.as_str().as_bytes()).as_bytes();
    (1 << 63 | first << 40 | second << 16 | u64::from(u16::from_be_bytes([high, low]))) as i64
}

/// Returns a hash over a row's place and its text. Its first eight bytes are the row's checksum: a row that was changed or moved does
/// not fit it. The link before the row, extended by it, is the row's own link: a row that follows others than those it was
/// written after does not fit that.
pub(crate) fn body(run: &RunId, first: u64, text: &str) -> ContentHash {
    let place = format!("{run}\n{first}\n");
    ContentHash::of(place.as_bytes()).extended(text.as_bytes())
}

/// Returns the link before the first entry of the run called `id`.
pub(crate) fn root_link(id: &RunId) -> ContentHash {
    ContentHash::of(id.as_str().as_bytes())
}

/// Returns the first eight bytes of a hash as a number.
pub(crate) fn first_eight(hash: ContentHash) -> i64 {
    let mut first = [0; 8];
    first.copy_from_slice(&hash.as_bytes()[..8]);
    i64::from_le_bytes(first)
}

/// A row as stored.
pub(crate) struct StoredRow<'a> {
    pub(crate) first: u64,
    /// The last sequence number, as it is filed.
    pub(crate) last: u64,
    pub(crate) text: &'a str,
    pub(crate) checksum: i64,
    pub(crate) link: ContentHash,
}

impl StoredRow<'_> {
    /// Checks the row, adds those of its entries that are `wanted` to `found` and returns its body.
    pub(crate) fn read(
        &self,
        run: &RunId,
        wanted: RangeInclusive<u64>,
        found: &mut Vec<Arc<Recorded>>,
    ) -> Result<ContentHash, StoreError> {
        let body = self.check(run)?;
        self.each(Wanted::Numbers(wanted), found).map_err(|error| self.damaged(run, &error))?;
        Ok(body)
    }

    /// Checks the row, and adds those of its entries to `found` that are of `task` and not after entry `through`.
    ///
    /// A row may hold entries of many tasks. Only those that contain the id of the task as a text are parsed.
    pub(crate) fn read_task(
        &self,
        run: &RunId,
        task: &TaskId,
        through: u64,
        found: &mut Vec<Arc<Recorded>>,
    ) -> Result<(), StoreError> {
        self.check(run)?;
        self.each(Wanted::Task { task, through, id: format!("\"{task}\"") }, found).map_err(|error| self.damaged(run, &error))
    }

    /// Adds the entries that are `wanted` to `found`. The text must have exactly those from the first to the last.
    fn each(&self, wanted: Wanted<'_>, found: &mut Vec<Arc<Recorded>>) -> serde_json::Result<()> {
        let mut json = serde_json::Deserializer::from_str(self.text);
        Entries { numbers: self.first..=self.last, wanted, found }.deserialize(&mut json)
    }

    /// Checks that the row is as it was written, and returns its body.
    pub(crate) fn check(&self, run: &RunId) -> Result<ContentHash, StoreError> {
        // An entry has more than one byte. A file that was received may have any numbers.
        if self.last.checked_sub(self.first).is_none_or(|further| further >= ROW_BYTES as u64) {
            return Err(self.damaged(run, &"no row has so many entries"));
        }
        let body = body(run, self.first, self.text);
        if first_eight(body) == self.checksum {
            Ok(body)
        } else {
            Err(self.damaged(run, &"the stored bytes do not match their checksum"))
        }
    }

    /// Names the row and what is wrong with it.
    pub(crate) fn damaged(&self, run: &RunId, why: &dyn std::fmt::Display) -> StoreError {
        let Self { first, last, .. } = self;
        let place = if first == last { format!("entry {first}") } else { format!("entries {first} to {last}") };
        StoreError::Corrupt { what: format!("{place} of run {run}: {why}") }
    }
}

/// The entries of a row that are wanted.
enum Wanted<'a> {
    /// Entries with these sequence numbers.
    Numbers(RangeInclusive<u64>),
    /// Entries of a task up to a sequence number. Each contains `id`, the id of the task in quotes.
    Task { task: &'a TaskId, through: u64, id: String },
}

impl Wanted<'_> {
    /// Reads the next entry, which is number `seq`.
    fn next<'de, A: SeqAccess<'de>>(&self, list: &mut A, seq: u64) -> Result<Next, A::Error> {
        match self {
            Self::Numbers(wanted) if wanted.contains(&seq) => Ok(list.next_element()?.map_or(Next::End, Next::Wanted)),
            Self::Numbers(_) => Ok(list.next_element::<IgnoredAny>()?.map_or(Next::End, |_| Next::Other)),
            Self::Task { task, through, id } => {
                let Some(text) = list.next_element::<&RawValue>()? else { return Ok(Next::End) };
                if seq > *through || !text.get().contains(id) {
                    return Ok(Next::Other);
                }
                let stored: Stored = serde_json::from_str(text.get()).map_err(serde::de::Error::custom)?;
                Ok(if stored.2.task() == Some(task) { Next::Wanted(stored) } else { Next::Other })
            }
        }
    }
}

/// The next entry of a row.
enum Next {
    /// There is none.
    End,
    /// It is not wanted.
    Other,
    /// It is wanted.
    Wanted(Stored),
}

/// An entry in the text of a row: its decision, its moment and itself.
type Stored = (u64, i64, Entry);

/// Reads the text of a row.
struct Entries<'a> {
    /// The sequence numbers of its entries.
    numbers: RangeInclusive<u64>,
    wanted: Wanted<'a>,
    found: &'a mut Vec<Arc<Recorded>>,
}

impl<'de> DeserializeSeed<'de> for Entries<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of decisions, moments and entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self { numbers, wanted, found } = self;
        let last = *numbers.end();
        for seq in numbers {
            match wanted.next(&mut list, seq)? {
                Next::End => return Err(serde::de::Error::custom(format!("the stored entries end before entry {seq}"))),
                Next::Other => {}
                Next::Wanted((decision, at, entry)) => {
                    found.push(Arc::new(Recorded { seq, decision, at: Timestamp::from_micros(at), entry }));
                }
            }
        }
        match list.next_element::<IgnoredAny>()? {
            None => Ok(()),
            Some(_) => Err(serde::de::Error::custom(format!("there are more entries after entry {last}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_types::id::TaskId;

    use super::*;

    fn key(task: &str) -> i64 {
        task_key(&TaskId::new(task))
    }

    #[test]
    fn tasks_have_their_keys_in_the_order_in_which_a_caller_creates_them() {
        let children: Vec<String> = (1..=300_u32).map(|position| format!("0/1.{position}")).collect();
        let tasks = children
            .iter()
            .flat_map(|child| [child.clone(), format!("{child}/1.1"), format!("{child}/1.2"), format!("{child}/2.1")]);
        let keys: Vec<i64> = ["0/1.0".to_owned()].into_iter().chain(tasks).map(|task| key(&task)).collect();
        assert!(keys.is_sorted_by(|one, next| one < next));
        assert!(key("0/1.300/2.1") < key("0/2.1"));
        // The tasks below one of these are near it, and differ by their hashes.
        let below: Vec<i64> = (1..=9).map(|turn| key(&format!("0/1.7/1.1/{turn}.1")) - (key("0/1.7/1.1") & !0xffff)).collect();
        assert!(below.iter().all(|key| (0..=0xffff).contains(key)), "{below:?}");
        assert!(below.iter().any(|key| *key != below[0]));
    }

    #[test]
    fn a_row_with_impossible_numbers_is_damaged() {
        let run = RunId::new("a");
        for (first, last, text) in
            [(u64::MAX, u64::MAX, "[1]"), (u64::MAX, 0, "[1,2]"), (5, 3, "[1]"), (5, 6, "[1]"), (0, u64::MAX, "[]")]
        {
            let checksum = first_eight(body(&run, first, text));
            let row = StoredRow { first, last, text, checksum, link: root_link(&run) };
            let read = row.read(&run, 1..=u64::MAX, &mut Vec::new()).map(drop);
            assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{first} to {last}: {read:?}");
            // The texts have no entry of the task, so only the numbers count.
            let of_task = row.read_task(&run, &TaskId::new("0"), u64::MAX, &mut Vec::new());
            assert_eq!(of_task.is_ok(), first == last, "{first} to {last}");
        }
    }

    #[test]
    fn a_row_has_no_more_entries_than_a_store_puts_there() {
        let (run, mut found) = (RunId::new("a"), Vec::new());
        for (count, is_read) in [(ROW_BYTES, true), (ROW_BYTES + 1, false)] {
            let text = format!("[{}1]", "1,".repeat(count - 1));
            let checksum = first_eight(body(&run, 1, &text));
            let row = StoredRow { first: 1, last: count as u64, text: &text, checksum, link: root_link(&run) };
            assert_eq!(row.read_task(&run, &TaskId::new("0"), u64::MAX, &mut found).is_ok(), is_read, "{count}");
        }
    }

    #[test]
    fn a_task_has_another_key_than_the_rows_of_the_whole_run() {
        for task in ["0", "1", "0/approval", "0/1.1/retry.2", "0/99.4294967295/99.4294967295", "0/0.0", "x/y.z"] {
            assert!(key(task) < WHOLE_RUN.min(HEADS), "{task}");
        }
    }
}
