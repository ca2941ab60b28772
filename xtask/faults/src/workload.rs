//! The workload of the trials, and the required state afterwards.
//!
//! Six runs proceed at the same time and share commits. They have small and large contents, logged calls and commands.
//! One is taken over by a second opening of the file, one begins with entries of another. An older run is removed, and
//! the file rewritten without it. The log is checkpointed in every way, and the store is closed and opened again. Each
//! acknowledgement is noted with its place in the disk's log.

use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;

use baton_store::{Batch, LoggedCall, NewRun, Retention, RunSummaryUpdate, SqliteStore, Store, StoreError};
use baton_types::document::Content;
use baton_types::entry::{Control, ControlAction, Entry, ForkPoint, Recorded};
use baton_types::id::{AgentId, ContentHash, MemoryId, RunId, TaskId, ToolId};
use baton_types::json::Json;
use baton_types::principal::Principal;
use baton_types::time::Timestamp;
use futures_util::future::join_all;

use crate::disk::Disk;
use crate::random::Random;

/// The file of the store in its folder.
pub const FILE: &str = "store.db";

const RUNS: usize = 6;
/// Batches of each run.
const ROUNDS: usize = 10;
/// The round after which the second opening takes the first run over.
const TAKE_OVER: usize = 4;
/// The run that begins with entries of the one before it, and when it does.
const FORKED: usize = 5;
const FORK: usize = 5;

/// The run that is removed, after which round, and how many bytes it named.
const REMOVED: &str = "removed";
const REMOVAL: usize = 6;
const REMOVED_BYTES: usize = 50_000;

/// The data to write: always the same.
#[derive(Debug)]
pub struct Plan {
    /// The runs, each with its batches in order.
    pub runs: Vec<PlannedRun>,
}

/// A run and its batches.
#[derive(Debug)]
pub struct PlannedRun {
    /// Its first record.
    pub new: NewRun,
    /// The entries that it begins with.
    pub past: Vec<Arc<Recorded>>,
    /// Its own batches; the first makes it known. [`Batch::consumed`] is left to the one who performs them.
    pub batches: Vec<Batch>,
}

/// Something that the store has acknowledged.
#[derive(Clone, Debug, PartialEq)]
pub enum Acknowledged {
    /// The run has this many of its batches.
    Batches(RunId, usize),
    /// The run that is removed is there.
    Kept,
    /// It is not there any more.
    Removed,
    /// The run was taken over: it has this epoch at least.
    Epoch(RunId, u64),
    /// A command waits for the run, until the batch of this number takes it.
    Command {
        /// The run.
        run: RunId,
        /// The command's number.
        number: u64,
        /// The command.
        body: Json,
        /// The number of the batch that takes it.
        until: usize,
    },
}

/// Acknowledgements, each with the length of the disk's log at that moment.
pub type Acknowledgements = Vec<(usize, Acknowledged)>;

impl Plan {
    /// Returns the plan. `bytes` is the size of the largest content.
    pub fn new(bytes: usize) -> Self {
        let mut runs: Vec<PlannedRun> = Vec::new();
        for index in 0..RUNS {
            let id = RunId::new(format!("run {index}"));
            let (past, past_entries) = if index == FORKED {
                let other = &runs[index - 1];
                let entries: Vec<_> = other.entries().take(7).cloned().collect();
                (Some(ForkPoint { run: other.new.id.clone(), seq: entries.len() as u64 }), entries)
            } else {
                (None, Vec::new())
            };
            let new = NewRun { id: id.clone(), job: "job".into(), at: Timestamp::from_micros(index as i64), past, trigger: None };
            let mut seq = past_entries.len() as u64;
            let mut batches = Vec::new();
            for round in 0..ROUNDS {
                batches.push(planned_batch(&id, index, round, seq, bytes));
                seq = batches[round].entries.last().map_or(seq, |entry| entry.seq);
            }
            runs.push(PlannedRun { new, past: past_entries, batches });
        }
        Self { runs }
    }
}

impl PlannedRun {
    /// Returns all entries, those of the past first.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<Recorded>> {
        self.past.iter().chain(self.batches.iter().flat_map(|batch| &batch.entries))
    }

    /// Returns the number of batches if the last entry has this number; `None` if that is inside a batch.
    pub fn batches_through(&self, last_seq: u64) -> Option<usize> {
        if last_seq == self.past.len() as u64 {
            return Some(0);
        }
        self.batches.iter().position(|batch| batch.entries.last().map(|entry| entry.seq) == Some(last_seq)).map(|at| at + 1)
    }
}

fn planned_batch(run: &RunId, index: usize, round: usize, after: u64, bytes: usize) -> Batch {
    let mut random = Random::new((index * 100 + round) as u64);
    let epoch = if index == 0 && round > TAKE_OVER { 2 } else { 1 };
    let mut batch = Batch::new(run.clone(), epoch, after);
    let at = Timestamp::from_micros(1_000 * round as i64);
    for step in 1..=1 + random.below(4) {
        let task = TaskId::new(if random.coin() { "0".to_owned() } else { format!("0/1.{}", 1 + random.below(3)) });
        let text = format!("{run}, round {round}, step {step}: {}", "words ".repeat(random.below(40) as usize));
        let control = Control { task: Some(task), action: ControlAction::Steered { text }, by: Principal::program("trial") };
        batch.entries.push(Arc::new(Recorded { seq: after + step, decision: after + step, at, entry: Entry::Control(control) }));
    }
    let size = if round.is_multiple_of(3) { bytes } else { bytes / 100 + 1 };
    let own: Vec<u8> = (0..size).map(|_| random.number() as u8).collect();
    let shared = format!("shared by all runs of round {round}").into_bytes();
    batch.contents = [own, shared].map(|bytes| (ContentHash::of(&bytes), Content::from(bytes))).to_vec();
    batch.logged = vec![LoggedCall {
        memory: memory(),
        agent: agent(),
        tool: tool(),
        task: TaskId::root(),
        call: TaskId::root().call(round as u32 + 1, 1),
        at,
        input: Json::of(&format!("{run} thinks in round {round}")).expect("a text is JSON"),
    }];
    batch.summary = Some(RunSummaryUpdate { status: format!("round {round}"), at });
    batch
}

/// Returns the run that is removed, with its batch.
fn removed_run() -> (NewRun, Batch) {
    let id = RunId::new(REMOVED);
    let bytes = vec![7; REMOVED_BYTES];
    let hash = ContentHash::of(&bytes);
    let action = ControlAction::Steered { text: hash.to_string() };
    let control = Control { task: None, action, by: Principal::program("trial") };
    let mut batch = Batch::new(id.clone(), 1, 0);
    batch.entries.push(Arc::new(Recorded { seq: 1, decision: 1, at: Timestamp::default(), entry: Entry::Control(control) }));
    batch.contents.push((hash, Content::from(bytes)));
    (NewRun { id, job: "job".into(), at: Timestamp::default(), past: None, trigger: None }, batch)
}

fn memory() -> MemoryId {
    MemoryId::new("job trial")
}

fn agent() -> AgentId {
    AgentId::new("analyst")
}

fn tool() -> ToolId {
    ToolId::new("think")
}

/// Does all that is planned with the store in `folder`, until something fails; notes what was acknowledged.
pub async fn perform(plan: &Plan, folder: &Path, disk: &Disk, acknowledged: &Mutex<Acknowledgements>) -> Result<(), StoreError> {
    let path = folder.join(FILE);
    let note = |what| acknowledged.lock().expect("no holder of the lock panics").push((disk.position(), what));
    let mut store = Arc::new(SqliteStore::open(&path)?);
    let mut second = None;
    let mut consumed: Vec<Vec<u64>> = vec![Vec::new(); RUNS];
    let (new, batch) = removed_run();
    store.begin(new, "first owner", batch).await?;
    note(Acknowledged::Kept);
    for round in 0..ROUNDS {
        // All runs at the same time: they share commits.
        let steps = plan.runs.iter().enumerate().map(|(index, run)| {
            let by = if index == 0 && round > TAKE_OVER { second.as_ref().unwrap_or(&store) } else { &store };
            let mut batch = run.batches[round].clone();
            batch.consumed = std::mem::take(&mut consumed[index]);
            async move {
                match (index, round) {
                    (FORKED, ..FORK) => return Ok(()),
                    (FORKED, FORK) => {
                        // It begins late, and does what it missed at once.
                        by.begin(run.new.clone(), "first owner", run.batches[0].clone()).await?;
                        for batch in &run.batches[1..=round] {
                            by.append(batch.clone()).await?;
                        }
                    }
                    (_, 0) => by.begin(run.new.clone(), "first owner", batch).await?,
                    _ => by.append(batch).await?,
                }
                note(Acknowledged::Batches(run.new.id.clone(), round + 1));
                Ok::<_, StoreError>(())
            }
        });
        for done in join_all(steps).await {
            done?;
        }
        if round == REMOVAL {
            let retention = Retention { named: vec![RunId::new(REMOVED)], ..Retention::default() };
            store.collect(retention, false).await?;
            note(Acknowledged::Removed);
        }
        match round {
            1 | 3 | 6 | 9 => {
                for (index, run) in plan.runs.iter().enumerate().take(3) {
                    let body = Json::of(&format!("command of round {round}")).expect("a text is JSON");
                    let number = store.put_command(&run.new.id, body.clone()).await?;
                    consumed[index].push(number);
                    // The batch of the next round takes it.
                    note(Acknowledged::Command { run: run.new.id.clone(), number, body, until: round + 2 });
                }
            }
            2 => checkpoint(&path, "PASSIVE"),
            TAKE_OVER => {
                let other = Arc::new(SqliteStore::open(&path)?);
                let id = &plan.runs[0].new.id;
                let before = other.run(id).await?.map_or(0, |record| record.epoch);
                let epoch = other.take_over(id, "second owner", before).await?;
                note(Acknowledged::Epoch(plan.runs[0].new.id.clone(), epoch));
                second = Some(other);
            }
            7 => {
                // Everybody leaves: the log is written back and deleted.
                second = None;
                drop(store);
                store = Arc::new(SqliteStore::open(&path)?);
            }
            8 => checkpoint(&path, "TRUNCATE"),
            _ => {}
        }
    }
    Ok(())
}

/// Writes the log back, as a stranger, whose failure is no failure of the store.
fn checkpoint(path: &Path, how: &str) {
    let written = rusqlite::Connection::open(path)
        .and_then(|stranger| stranger.query_row(&format!("PRAGMA wal_checkpoint({how})"), [], |_| Ok(())));
    drop(written);
}

/// Whether the removal may have begun before this was acknowledged.
fn ends_removed(what: &Acknowledged) -> bool {
    matches!(what, Acknowledged::Removed) || matches!(what, Acknowledged::Batches(_, count) if *count > REMOVAL)
}

/// Printed answer of a store to a query.
pub type Answer = Result<String, String>;

/// Asks `store` everything that one can ask about what is planned.
pub async fn ask_everything(store: &SqliteStore, plan: &Plan) -> Vec<Answer> {
    fn said<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> Answer {
        answer.map(|answer| format!("{answer:?}")).map_err(|error| error.to_string())
    }
    let mut answers = vec![said(store.runs().await), said(store.recall(&memory(), &agent(), &tool(), usize::MAX).await)];
    answers.push(said(store.recall(&memory(), &agent(), &tool(), 3).await));
    for run in &plan.runs {
        let id = &run.new.id;
        answers.push(said(store.run(id).await));
        answers.push(said(store.entries(id, 0, usize::MAX).await));
        answers.push(said(store.entries(id, 9, 4).await));
        for task in ["0", "0/1.1", "0/1.2", "0/1.3", "0/9.9"] {
            answers.push(said(store.task_entries(id, &TaskId::new(task), u64::MAX).await));
        }
        answers.push(said(store.take_commands(id, 0).await));
        for (hash, _) in run.batches.iter().flat_map(|batch| &batch.contents) {
            // The hash is as good as the content, and shorter.
            answers.push(said(store.content(*hash).await.map(|content| content.map(|content| ContentHash::of(&content)))));
        }
    }
    answers.push(said(store.run(&RunId::new("nobody")).await));
    answers
}

/// Checks the store in `folder`, which must have `acknowledged`: it opens, each run is whole up to one of its batches,
/// and each run can be continued.
pub async fn check(plan: &Plan, folder: &Path, acknowledged: &[Acknowledged]) -> Result<(), String> {
    let store = SqliteStore::open(folder.join(FILE)).map_err(|error| format!("it does not open: {error}"))?;
    let said = |error: StoreError| format!("it fails: {error}");
    let found = store.verify().await.map_err(said)?.findings;
    if !found.is_empty() {
        return Err(format!("it is not whole: {found:?}"));
    }
    // Whole or gone, with all that it named.
    let (removed, batch) = removed_run();
    let is_there = store.run(&removed.id).await.map_err(said)?.is_some();
    let has_content = store.content(batch.contents[0].0).await.map_err(said)?.is_some();
    let may_be_there = !acknowledged.contains(&Acknowledged::Removed);
    let must_be_there = acknowledged.contains(&Acknowledged::Kept) && acknowledged.iter().all(|what| !ends_removed(what));
    if is_there != has_content || (is_there && !may_be_there) || (!is_there && must_be_there) {
        return Err(format!("the run that is removed: there {is_there}, its content {has_content}"));
    }
    for run in &plan.runs {
        let id = &run.new.id;
        let mine = |what: &&Acknowledged| match what {
            Acknowledged::Kept | Acknowledged::Removed => false,
            Acknowledged::Batches(run, _) | Acknowledged::Epoch(run, _) | Acknowledged::Command { run, .. } => run == id,
        };
        let owed: Vec<_> = acknowledged.iter().filter(mine).collect();
        let Some(record) = store.run(id).await.map_err(said)? else {
            if owed.is_empty() {
                continue;
            }
            return Err(format!("{id} is gone, with {owed:?}"));
        };
        let batches =
            run.batches_through(record.last_seq).ok_or_else(|| format!("{id} ends inside a batch, at {}", record.last_seq))?;
        let entries = store.entries(id, 0, usize::MAX).await.map_err(said)?;
        if !entries.iter().eq(run.entries().take(entries.len())) || entries.len() as u64 != record.last_seq {
            return Err(format!("{id}: its entries are others"));
        }
        let status = run.batches[..batches].last().and_then(|batch| batch.summary.as_ref());
        if status.is_some_and(|status| status.status != record.status) {
            return Err(format!("{id}: its status is {}, after {batches} batches", record.status));
        }
        for batch in &run.batches[..batches] {
            for (hash, content) in &batch.contents {
                if store.content(*hash).await.map_err(said)?.as_ref() != Some(content) {
                    return Err(format!("{id} lacks content {hash}"));
                }
            }
        }
        let logged = store.recall(&memory(), &agent(), &tool(), usize::MAX).await.map_err(said)?;
        let logged: Vec<_> = logged.into_iter().filter(|(by, _)| by == id).map(|(_, call)| call).collect();
        if !logged.iter().eq(run.batches[..batches].iter().flat_map(|batch| &batch.logged)) {
            return Err(format!("{id}: its logged calls are others after {batches} batches"));
        }
        let waiting = store.take_commands(id, 0).await.map_err(said)?;
        for what in owed {
            let kept = match what {
                Acknowledged::Kept | Acknowledged::Removed => true,
                Acknowledged::Batches(_, count) => batches >= *count,
                Acknowledged::Epoch(_, epoch) => record.epoch >= *epoch,
                Acknowledged::Command { number, body, until, .. } => {
                    waiting.contains(&(*number, body.clone())) == (batches < *until)
                }
            };
            if !kept {
                return Err(format!("{id}: {what:?} does not hold after {batches} batches at epoch {}", record.epoch));
            }
        }
        let epoch = store.take_over(id, "who comes after", record.epoch).await.map_err(said)?;
        let text = "it continues".to_owned();
        let control = Control { task: None, action: ControlAction::Steered { text }, by: Principal::program("trial") };
        let next = Recorded {
            seq: record.last_seq + 1,
            decision: record.last_seq + 1,
            at: Timestamp::default(),
            entry: Entry::Control(control),
        };
        let mut batch = Batch::new(id.clone(), epoch, record.last_seq);
        batch.entries.push(Arc::new(next));
        store.append(batch.clone()).await.map_err(said)?;
        if store.entries(id, record.last_seq, 9).await.map_err(said)? != batch.entries {
            return Err(format!("{id} does not continue"));
        }
    }
    Ok(())
}
