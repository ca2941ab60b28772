//! A store that ends with its process: for tests, for benchmarks, and for runs that need not be kept.

mod collect;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use baton_types::document::Content;
use baton_types::entry::{Entry, ForkPoint, Recorded};
use baton_types::id::{AgentId, ContentHash, MemoryId, RunId, TaskId, ToolId};
use baton_types::json::Json;
use baton_types::time::Timestamp;
use rustc_hash::FxHashMap;
use tokio::sync::watch;

use crate::inbox::Subscribers;
use crate::sqlite::InMemory;
use crate::{
    Batch, Breadcrumbs, Collected, Due, LoggedCall, NewRun, RECALLED_CALLS, Retention, RunRecord, STATUS_CREATED, Store,
    StoreError, Verification,
};

/// Keeps everything in memory, with the meaning of the store on disk.
#[derive(Debug)]
pub struct MemoryStore {
    state: Mutex<State>,
    subscribers: Arc<Subscribers>,
    secret: [u8; 32],
    breadcrumbs: InMemory,
}

#[derive(Debug, Default)]
struct State {
    /// Number of ended runs to keep; `None` keeps all.
    keep: Option<usize>,
    /// The ended runs that are kept, oldest first.
    ended: VecDeque<RunId>,
    runs: HashMap<RunId, StoredRun>,
    /// Run ids in the order of their creation.
    created: VecDeque<RunId>,
    /// Each content, and how often batches of kept runs name it.
    contents: HashMap<ContentHash, (Content, usize)>,
    /// Logged calls by memory, agent and tool, oldest first.
    logged: HashMap<(MemoryId, AgentId, ToolId), VecDeque<(RunId, LoggedCall)>>,
    last_command: u64,
}

#[derive(Debug)]
struct StoredRun {
    record: RunRecord,
    /// Entry `seq` is at index `seq - 1`; those of the run's past are shared with the other run.
    entries: Vec<Arc<Recorded>>,
    /// The sequence numbers of each task's entries.
    by_task: FxHashMap<TaskId, Vec<u64>>,
    commands: BTreeMap<u64, Json>,
    /// When it continues by itself, if its last owner released it while it waited.
    wakes: Option<Timestamp>,
    /// The contents that its batches named, and those that its past may name.
    contents: Vec<ContentHash>,
}

/// A forgotten run, and the contents that only it named.
#[derive(Debug)]
struct Forgotten {
    /// The run; `None` if it was unknown.
    _run: Option<StoredRun>,
    /// The contents that only it named.
    contents: Vec<Content>,
}

/// Initial capacity for the entries of a run. A small job needs no more.
const ENTRIES_OF_A_RUN: usize = 64;
/// Initial capacity for the sequence numbers of a task's entries.
const ENTRIES_OF_A_TASK: usize = 8;

impl StoredRun {
    fn push(&mut self, entry: Arc<Recorded>) {
        if let Some(task) = entry.entry.task() {
            if let Some(places) = self.by_task.get_mut(task) {
                places.push(entry.seq);
            } else {
                let mut places = Vec::with_capacity(ENTRIES_OF_A_TASK);
                places.push(entry.seq);
                self.by_task.insert(task.clone(), places);
            }
        }
        self.entries.push(entry);
    }
}

impl MemoryStore {
    /// Returns an empty store.
    pub fn new() -> Self {
        let mut secret = [0; 32];
        for bytes in secret.chunks_exact_mut(8) {
            bytes.copy_from_slice(&RandomState::new().build_hasher().finish().to_ne_bytes());
        }
        let subscribers = Arc::<Subscribers>::default();
        Self { state: Mutex::default(), breadcrumbs: InMemory::new(Arc::clone(&subscribers)), subscribers, secret }
    }

    /// Returns an empty store that forgets the run that ended first when more than `ended` have: for programs that run many.
    ///
    /// The entries, documents and inbox of a forgotten run are gone. The calls that it logged stay, up to the newest [`RECALLED_CALLS`]
    /// of each memory, agent and tool.
    pub fn keeping(ended: usize) -> Self {
        let store = Self::default();
        store.lock().keep = Some(ended);
        store
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    fn run(&self, run: &RunId) -> Result<&StoredRun, StoreError> {
        self.runs.get(run).ok_or_else(|| StoreError::UnknownRun(run.clone()))
    }

    fn run_mut(&mut self, run: &RunId) -> Result<&mut StoredRun, StoreError> {
        self.runs.get_mut(run).ok_or_else(|| StoreError::UnknownRun(run.clone()))
    }

    /// Returns the entries of another run that a new run begins with, and the contents that they may name.
    fn past_of(&self, run: &NewRun) -> Result<(&[Arc<Recorded>], &[ContentHash]), StoreError> {
        if self.runs.contains_key(&run.id) {
            return Err(StoreError::RunExists(run.id.clone()));
        }
        let Some(ForkPoint { run: other, seq }) = &run.past else { return Ok((&[], &[])) };
        let other = self.run(other)?;
        let found = other.record.last_seq;
        let shared = usize::try_from(*seq).ok().and_then(|count| other.entries.get(..count));
        let shared =
            shared.ok_or_else(|| StoreError::SequenceMismatch { run: other.record.id.clone(), expected: *seq, found })?;
        Ok((shared, &other.contents))
    }

    fn create(&mut self, run: NewRun) -> Result<(), StoreError> {
        let last_seq = run.past_seq();
        let (entries, contents) = self.past_of(&run).map(|(entries, contents)| (entries.to_vec(), contents.to_vec()))?;
        for hash in &contents {
            if let Some((_, named)) = self.contents.get_mut(hash) {
                *named += 1;
            }
        }
        let record = RunRecord {
            id: run.id.clone(),
            job: run.job,
            status: STATUS_CREATED.into(),
            created: run.at,
            updated: run.at,
            last_seq,
            past: run.past,
            epoch: 0,
            owner: None,
        };
        self.created.push_back(run.id.clone());
        let mut stored = StoredRun {
            record,
            entries: Vec::with_capacity(ENTRIES_OF_A_RUN + entries.len()),
            by_task: FxHashMap::default(),
            commands: BTreeMap::new(),
            wakes: None,
            contents,
        };
        for entry in entries {
            stored.push(entry);
        }
        self.runs.insert(run.id, stored);
        Ok(())
    }

    /// Appends `batch`, and returns the runs that are forgotten because of it. Dropping them takes long, so the caller does it after
    /// unlocking.
    fn append(&mut self, batch: Batch) -> Result<Vec<Forgotten>, StoreError> {
        let run = self.run_mut(&batch.run)?;
        batch.check(run.record.epoch, run.record.last_seq)?;
        // Every check is above this line, every change below it: a refused batch changes nothing.
        run.record.last_seq = batch.last_seq();
        if let Some(last) = batch.entries.last() {
            run.record.updated = last.at;
        }
        if let Some(summary) = batch.summary {
            run.record.status = summary.status;
            run.record.updated = summary.at;
        }
        if batch.releases {
            run.record.owner = None;
            run.wakes = batch.wakes;
        }
        for number in &batch.consumed {
            run.commands.remove(number);
        }
        let ends = batch.entries.last().is_some_and(|last| matches!(last.entry, Entry::RunEnded(_)));
        for entry in batch.entries {
            run.push(entry);
        }
        run.contents.extend(batch.contents.iter().map(|(hash, _)| *hash));
        for (hash, content) in batch.contents {
            debug_assert_eq!(hash, ContentHash::of(&content), "a content of a batch does not match its hash");
            self.contents.entry(hash).or_insert((content, 0)).1 += 1;
        }
        for call in batch.logged {
            let key = (call.memory.clone(), call.agent.clone(), call.tool.clone());
            let calls = self.logged.entry(key).or_default();
            if self.keep.is_some() && calls.len() == RECALLED_CALLS {
                calls.pop_front();
            }
            calls.push_back((batch.run.clone(), call));
        }
        if ends {
            self.ended.push_back(batch.run);
            return Ok(self.forget_excess());
        }
        Ok(Vec::new())
    }

    /// Forgets the runs that ended first, down to the number that is kept, and returns them.
    fn forget_excess(&mut self) -> Vec<Forgotten> {
        let excess = self.keep.map_or(0, |keep| self.ended.len().saturating_sub(keep));
        let oldest: Vec<_> = self.ended.drain(..excess).collect();
        oldest.iter().map(|run| self.forget(run)).collect()
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn create(&self, run: NewRun) -> Result<(), StoreError> {
        self.lock().create(run)
    }

    async fn begin(&self, run: NewRun, owner: &str, first: Batch) -> Result<(), StoreError> {
        first.check(1, run.past_seq())?;
        let forgotten = {
            let mut state = self.lock();
            state.past_of(&run)?;
            run.trigger.map_or(Ok(()), |trigger| self.breadcrumbs.start(trigger, &run.id))?;
            state.create(run)?;
            let record = &mut state.run_mut(&first.run)?.record;
            (record.epoch, record.owner) = (1, Some(owner.to_owned()));
            state.append(first)?
        };
        drop(forgotten);
        Ok(())
    }

    async fn take_over(&self, id: &RunId, owner: &str, epoch: u64) -> Result<u64, StoreError> {
        let mut state = self.lock();
        let run = state.run_mut(id)?;
        if run.record.epoch != epoch {
            return Err(StoreError::StaleEpoch { run: id.clone(), expected: epoch, found: run.record.epoch });
        }
        run.wakes = run.wakes.map(|_| Timestamp::from_micros(0));
        let record = &mut run.record;
        record.epoch += 1;
        record.owner = Some(owner.to_owned());
        Ok(record.epoch)
    }

    async fn append(&self, batch: Batch) -> Result<(), StoreError> {
        let forgotten = self.lock().append(batch)?;
        drop(forgotten);
        Ok(())
    }

    async fn entries(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<Arc<Recorded>>, StoreError> {
        let state = self.lock();
        let after = usize::try_from(after).unwrap_or(usize::MAX);
        Ok(state.run(run)?.entries.iter().skip(after).take(limit).cloned().collect())
    }

    async fn task_entries(&self, run: &RunId, task: &TaskId, through: u64) -> Result<Vec<Arc<Recorded>>, StoreError> {
        let state = self.lock();
        let run = state.run(run)?;
        let Some(places) = run.by_task.get(task) else { return Ok(Vec::new()) };
        let within = &places[..places.partition_point(|seq| *seq <= through)];
        Ok(within.iter().map(|seq| Arc::clone(&run.entries[*seq as usize - 1])).collect())
    }

    async fn content(&self, hash: ContentHash) -> Result<Option<Content>, StoreError> {
        Ok(self.lock().contents.get(&hash).map(|(content, _)| Arc::clone(content)))
    }

    async fn put_content(&self, hash: ContentHash, content: Content) -> Result<(), StoreError> {
        if ContentHash::of(&content) != hash {
            return Err(StoreError::WrongHash { size: content.len() });
        }
        // The content has no name yet. The additional count keeps it until it is named.
        self.lock().contents.entry(hash).or_insert((content, 0)).1 += 1;
        Ok(())
    }

    async fn recall(
        &self,
        memory: &MemoryId,
        agent: &AgentId,
        tool: &ToolId,
        limit: usize,
    ) -> Result<Vec<(RunId, LoggedCall)>, StoreError> {
        let state = self.lock();
        let calls = state.logged.get(&(memory.clone(), agent.clone(), tool.clone()));
        Ok(calls.map_or_else(Vec::new, |calls| calls.range(calls.len().saturating_sub(limit)..).cloned().collect()))
    }

    async fn runs(&self) -> Result<Vec<RunRecord>, StoreError> {
        let state = self.lock();
        let mut records: Vec<_> = state.created.iter().rev().map(|id| state.runs[id].record.clone()).collect();
        // Stable, so runs of one moment stay in the order of their creation, newest first.
        records.sort_by_key(|record| std::cmp::Reverse(record.created));
        Ok(records)
    }

    async fn collect(&self, retention: Retention, dry_run: bool) -> Result<Collected, StoreError> {
        collect::collect(self, &retention, dry_run)
    }

    async fn verify(&self) -> Result<Verification, StoreError> {
        collect::verify(self)
    }

    async fn run(&self, run: &RunId) -> Result<Option<RunRecord>, StoreError> {
        Ok(self.lock().runs.get(run).map(|run| run.record.clone()))
    }

    async fn put_command(&self, run: &RunId, command: Json) -> Result<u64, StoreError> {
        let number = {
            let mut state = self.lock();
            let number = state.last_command + 1;
            state.run_mut(run)?.commands.insert(number, command);
            state.last_command = number;
            number
        };
        self.subscribers.wake(run, number);
        Ok(number)
    }

    async fn take_commands(&self, run: &RunId, after: u64) -> Result<Vec<(u64, Json)>, StoreError> {
        let state = self.lock();
        let later = state.run(run)?.commands.range((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded));
        Ok(later.map(|(number, command)| (*number, command.clone())).collect())
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Due, StoreError> {
        let state = self.lock();
        let waiting = state.runs.iter().filter_map(|(id, run)| Some((run.wakes?, id, !run.commands.is_empty())));
        let mut waiting: Vec<_> = waiting.collect();
        waiting.sort_unstable();
        let is_due = |(wakes, _, has_commands): &&(Timestamp, &RunId, bool)| *wakes <= now || *has_commands;
        let runs = waiting.iter().filter(is_due).map(|(_, id, _)| (*id).clone()).take(limit).collect();
        let later = waiting.iter().map(|(wakes, ..)| *wakes);
        Ok(Due { runs, next: later.filter(|wakes| *wakes > now && *wakes < Timestamp::MAX).min() })
    }

    async fn is_due(&self, run: &RunId, now: Timestamp) -> Result<bool, StoreError> {
        let state = self.lock();
        let found = state.runs.get(run);
        Ok(found.is_some_and(|run| run.wakes.is_some_and(|wakes| wakes <= now || !run.commands.is_empty())))
    }

    async fn secret(&self) -> Result<[u8; 32], StoreError> {
        Ok(self.secret)
    }

    fn breadcrumbs(&self) -> &dyn Breadcrumbs {
        &self.breadcrumbs
    }

    fn subscribe_to_all(&self) -> watch::Receiver<u64> {
        self.subscribers.subscribe_to_all()
    }

    fn subscribe(&self, run: &RunId) -> watch::Receiver<u64> {
        self.subscribers.subscribe(run)
    }
}

#[cfg(test)]
mod tests {
    use baton_types::call::CallStatus;
    use baton_types::entry::{Control, ControlAction, FinalState, RunEnded};
    use baton_types::id::JobId;

    use super::*;

    #[tokio::test]
    async fn a_forgotten_run_leaves_its_past_to_who_begins_with_it() {
        let store = MemoryStore::keeping(0);
        let id = RunId::new("a");
        let entry = |seq, entry| Arc::new(Recorded { seq, decision: seq, at: Timestamp::default(), entry });
        let end = RunEnded { state: FinalState::Completed, status: CallStatus::Success, limit: None };
        let (hash, bytes) = (ContentHash::of(b"of a"), Content::from(&b"of a"[..]));
        let mut batch = Batch::new(id.clone(), 1, 0);
        let steered = ControlAction::Steered { text: "a step".into() };
        batch.entries.push(entry(
            1,
            Entry::Control(Control { task: None, action: steered, by: baton_types::principal::Principal::program("test") }),
        ));
        batch.contents.push((hash, bytes));
        let new =
            |id: &str, past| NewRun { id: RunId::new(id), job: JobId::new("j"), at: Timestamp::default(), past, trigger: None };
        store.create(new("a", None)).await.expect("a new run");
        store.take_over(&id, "owner", 0).await.expect("there");
        store.append(batch).await.expect("its first entry");
        store.create(new("b", Some(ForkPoint { run: id.clone(), seq: 1 }))).await.expect("a run that begins with it");
        let mut last = Batch::new(id.clone(), 1, 1);
        last.entries.push(entry(2, Entry::RunEnded(end)));
        store.append(last).await.expect("the end of the first");
        assert!(store.run(&id).await.expect("memory never fails").is_none(), "it is forgotten");
        assert_eq!(store.entries(&RunId::new("b"), 0, 9).await.expect("memory never fails").len(), 1);
        assert!(store.content(hash).await.expect("memory never fails").is_some());
    }

    #[tokio::test]
    async fn runs_that_ended_first_are_forgotten_with_what_only_they_held() {
        let store = MemoryStore::keeping(1);
        let content = |text: &str| (ContentHash::of(text.as_bytes()), Content::from(text.as_bytes()));
        for (name, own) in [("a", "of a"), ("b", "of b")] {
            let id = RunId::new(name);
            let end = RunEnded { state: FinalState::Completed, status: CallStatus::Success, limit: None };
            let mut batch = Batch::new(id.clone(), 1, 0);
            batch.entries.push(Arc::new(Recorded { seq: 1, decision: 1, at: Timestamp::default(), entry: Entry::RunEnded(end) }));
            batch.contents = vec![content("shared"), content(own)];
            let run = NewRun { id, job: JobId::new("j"), at: Timestamp::default(), past: None, trigger: None };
            store.begin(run, "owner", batch).await.expect("a new run");
        }
        let held = async |text: &str| store.content(content(text).0).await.expect("memory never fails").is_some();
        assert!(store.run(&RunId::new("a")).await.expect("memory never fails").is_none());
        assert_eq!(store.runs().await.expect("memory never fails").len(), 1);
        assert_eq!((held("of a").await, held("of b").await, held("shared").await), (false, true, true));
    }
}
