//! Stores timelines, contents of documents, memories, commands and breadcrumbs: in memory, in one SQLite file, or in a PostgreSQL
//! database.
//!
//! The unit of durability is a [`Batch`]: the entries of one or more decisions, with the contents that they name. A
//! batch is committed completely or not at all, and only for the run's present owner: [`Store::append`] compares the
//! owner's epoch and the last sequence number before it writes. A former owner is refused there, so no other code
//! checks ownership.
//!
//! A store does *not* understand entries: it keeps them in order and gives them back. What they mean is the core's.

mod breadcrumbs;
mod copy;
mod error;
pub mod failpoint;
mod inbox;
mod memory;
mod postgres;
mod retention;
mod rows;
mod sqlite;

use std::sync::Arc;

use async_trait::async_trait;
use baton_types::document::Content;
use baton_types::entry::{ForkPoint, Recorded};
use baton_types::id::{AgentId, CallId, ContentHash, JobId, MemoryId, RunId, TaskId, ToolId};
use baton_types::json::Json;
use baton_types::time::Timestamp;
use tokio::sync::watch;

pub use breadcrumbs::{Breadcrumbs, Creation, NextTrigger, ScheduleRecord, Settlement, Update, Written};
pub use copy::{CopiedStore, copy};
pub use error::StoreError;
pub use memory::MemoryStore;
pub use postgres::PostgresStore;
pub use retention::{Collected, Retention, Verification};
pub use sqlite::{FORMAT_VERSION, SqliteStats, SqliteStore};

/// Keeps runs. Shared by every run of a process, and for a store on disk by several processes.
///
/// A future of a writing method that is dropped before it completes may still take effect.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Creates a run without entries of its own, at epoch 0: it has no owner until [`Store::take_over`].
    ///
    /// Fails with [`StoreError::RunExists`] if the id is taken. If its past is not there, fails with
    /// [`StoreError::UnknownRun`] or [`StoreError::SequenceMismatch`], which name the other run.
    async fn create(&self, run: NewRun) -> Result<(), StoreError>;

    /// Makes a run known, owned by `owner` at epoch 1, with its first batch: all in one write, so that no crash leaves a
    /// run without entries.
    ///
    /// Fails like [`Store::create`], and like [`Store::append`] if `first` is not a batch of epoch 1 after the last entry of
    /// the run's past (entry 0 if it has none). Fails with [`StoreError::TriggerTaken`] if another run handles its trigger.
    async fn begin(&self, run: NewRun, owner: &str, first: Batch) -> Result<(), StoreError>;

    /// Makes `owner` the owner of `run`, which has the epoch `epoch`, and returns the new epoch, one higher. Every batch of an older
    /// epoch is refused from here on.
    ///
    /// Fails with [`StoreError::UnknownRun`], and with [`StoreError::StaleEpoch`] if another owner took the run over since `epoch`: of
    /// several processes that find a run without an owner, one gets it.
    async fn take_over(&self, run: &RunId, owner: &str, epoch: u64) -> Result<u64, StoreError>;

    /// Appends a batch: all of it or, on any error, nothing. When this returns, the batch is durable.
    ///
    /// Fails with [`StoreError::UnknownRun`]; with [`StoreError::StaleEpoch`] if another owner took the run over;
    /// with [`StoreError::SequenceMismatch`] if the run's last entry is not [`Batch::expected_seq`] or the entries do
    /// not follow it without gaps.
    async fn append(&self, batch: Batch) -> Result<(), StoreError>;

    /// Returns the entries of `run` after sequence number `after`, in order, at most `limit` of them; those of its past are among
    /// them.
    ///
    /// Fails with [`StoreError::UnknownRun`], or with [`StoreError::Corrupt`] if an entry is missing or was changed.
    async fn entries(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<Arc<Recorded>>, StoreError>;

    /// Returns the entries of one task of `run`, in order, up to and including sequence number `through`. Costs what it returns.
    ///
    /// Fails like [`Store::entries`].
    async fn task_entries(&self, run: &RunId, task: &TaskId, through: u64) -> Result<Vec<Arc<Recorded>>, StoreError>;

    /// Returns the content stored under `hash`, if there is one.
    ///
    /// Fails with [`StoreError::Corrupt`] if the stored bytes no longer have that hash.
    async fn content(&self, hash: ContentHash) -> Result<Option<Content>, StoreError>;

    /// Stores `content` under `hash`, which must be its hash; storing it again changes nothing.
    ///
    /// Contents that entries name travel in their batch; this is for what must be there before the first entry.
    async fn put_content(&self, hash: ContentHash, content: Content) -> Result<(), StoreError>;

    /// Returns the newest `limit` calls of the logging tool `tool` that `agent` made in any run with the memory `memory`,
    /// oldest of them first.
    async fn recall(
        &self,
        memory: &MemoryId,
        agent: &AgentId,
        tool: &ToolId,
        limit: usize,
    ) -> Result<Vec<(RunId, LoggedCall)>, StoreError>;

    /// Returns all runs, newest first.
    async fn runs(&self) -> Result<Vec<RunRecord>, StoreError>;

    /// Returns the newest `limit` runs, or those that [`Store::runs`] lists after `before`.
    ///
    /// Fails with [`StoreError::UnknownRun`] if `before` is not there.
    async fn runs_after(&self, before: Option<&RunId>, limit: usize) -> Result<Vec<RunRecord>, StoreError> {
        let runs = self.runs().await?;
        let first = match before {
            None => 0,
            Some(before) => {
                1 + runs.iter().position(|run| run.id == *before).ok_or_else(|| StoreError::UnknownRun(before.clone()))?
            }
        };
        Ok(runs.into_iter().skip(first).take(limit).collect())
    }

    /// Removes the runs that `retention` selects, with the contents that only they name, and frees their space. With `dry_run` it
    /// only reports them. Runs that are the past of other runs stay. Logged calls of removed runs can still be recalled.
    ///
    /// Other processes may use the store meanwhile. They wait while it works, and may get [`StoreError::Busy`].
    ///
    /// Fails, having removed nothing, with [`StoreError::UnknownRun`] if a run that is named is not there, with
    /// [`StoreError::Held`] if a process that is there holds it, and with [`StoreError::Corrupt`] if what stays cannot be read.
    async fn collect(&self, retention: Retention, dry_run: bool) -> Result<Collected, StoreError>;

    /// Looks at everything in the store, as it is at one moment: every row of entries against its checksum, the chain of every
    /// timeline, every content against its hash, and that nothing is missing or left over.
    async fn verify(&self) -> Result<Verification, StoreError>;

    /// Returns one run, if it is known.
    async fn run(&self, run: &RunId) -> Result<Option<RunRecord>, StoreError>;

    /// Puts a command into the inbox of `run` and returns its number. Numbers rise and are never used twice. Any
    /// process may put commands; the owner executes them. Wakes the subscribers in this process.
    ///
    /// Fails with [`StoreError::UnknownRun`].
    async fn put_command(&self, run: &RunId, command: Json) -> Result<u64, StoreError>;

    /// Returns the commands of `run` with a number above `after`, in order. They stay in the inbox until a batch
    /// names them in [`Batch::consumed`], so a crash between the two loses nothing.
    ///
    /// Fails with [`StoreError::UnknownRun`].
    async fn take_commands(&self, run: &RunId, after: u64) -> Result<Vec<(u64, Json)>, StoreError>;

    /// Returns the runs that were released while they waited and that should continue: their moment has come, a command is
    /// in their inbox, or another owner took them over since. At most `limit` of them, the earliest first. They may have an
    /// owner, but a store that has leases leaves out the runs of owners that are alive.
    async fn due(&self, now: Timestamp, limit: usize) -> Result<Due, StoreError>;

    /// Whether [`Store::due`] lists a run. `false` for one that is not there.
    async fn is_due(&self, run: &RunId, now: Timestamp) -> Result<bool, StoreError>;

    /// Returns 32 random bytes that the store got when it was made, for keys that only this store can make.
    async fn secret(&self) -> Result<[u8; 32], StoreError>;

    /// Returns the breadcrumbs of the store.
    fn breadcrumbs(&self) -> &dyn Breadcrumbs;

    /// Returns a receiver that changes at every new command in any inbox, as [`Store::subscribe`] for one, and at every new trigger.
    fn subscribe_to_all(&self) -> watch::Receiver<u64>;

    /// Returns a receiver for the number of the newest command in the inbox of `run`. `changed()` completes at every
    /// new command of this process and, where the store supports it, of other processes. Read earlier commands with
    /// [`Store::take_commands`].
    fn subscribe(&self, run: &RunId) -> watch::Receiver<u64>;

    /// Returns the name under which this process owns runs. Where the store supports it, other processes can check by
    /// this name whether the process is alive.
    fn owner(&self) -> String {
        format!("process {}", std::process::id())
    }

    /// Whether the process with the name `owner` from [`Store::owner`] is alive. A stopped process is alive. `None` if
    /// that is unknown.
    fn is_there(&self, _owner: &str) -> Option<bool> {
        None
    }
}

/// A run that does not exist yet.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRun {
    /// Its id, unique within the store.
    pub id: RunId,
    /// The job it executes.
    pub job: JobId,
    /// When it was asked for.
    pub at: Timestamp,
    /// The entries of another run that it begins with, by reference: they are read as its own, and its first own entry
    /// follows them. The other run is kept as long as this one.
    pub past: Option<ForkPoint>,
    /// The trigger that it handles; see [`Store::begin`].
    pub trigger: Option<u64>,
}

impl NewRun {
    /// Returns the sequence number that its first own entry follows.
    pub(crate) fn past_seq(&self) -> u64 {
        self.past.as_ref().map_or(0, |past| past.seq)
    }
}

/// Content of one commit: entries, and everything that becomes durable with them.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The run.
    pub run: RunId,
    /// The epoch that [`Store::take_over`] gave the writer.
    pub epoch: u64,
    /// The sequence number of the run's last entry before this batch, or of the last one of its past; 0 if there is none.
    pub expected_seq: u64,
    /// The entries, numbered from `expected_seq + 1` without gaps.
    pub entries: Vec<Arc<Recorded>>,
    /// The contents that the entries name, each under its hash. One that is stored already is stored once.
    pub contents: Vec<(ContentHash, Content)>,
    /// Calls of tools that only log their input: what [`Store::recall`] finds.
    pub logged: Vec<LoggedCall>,
    /// New summary of the run for lists of runs.
    pub summary: Option<RunSummaryUpdate>,
    /// The numbers of the commands that the entries carried out; they leave the inbox.
    pub consumed: Vec<u64>,
    /// Whether the owner releases the run with this batch. The run then has no owner until the next
    /// [`Store::take_over`].
    pub releases: bool,
    /// If the owner releases the run while it waits: when it continues by itself, or [`Timestamp::MAX`] if only a command can wake
    /// it. See [`Store::due`].
    pub wakes: Option<Timestamp>,
}

impl Batch {
    /// Returns an empty batch.
    pub fn new(run: RunId, epoch: u64, expected_seq: u64) -> Self {
        Self {
            run,
            epoch,
            expected_seq,
            entries: Vec::new(),
            contents: Vec::new(),
            logged: Vec::new(),
            summary: None,
            consumed: Vec::new(),
            releases: false,
            wakes: None,
        }
    }

    /// Returns the sequence number of the run's last entry after this batch.
    pub(crate) fn last_seq(&self) -> u64 {
        self.entries.last().map_or(self.expected_seq, |entry| entry.seq)
    }

    /// Checks that this batch may follow the present state of `run`: first its owner's epoch, then its place.
    pub(crate) fn check(&self, epoch: u64, last_seq: u64) -> Result<(), StoreError> {
        if epoch == 0 || epoch != self.epoch {
            return Err(StoreError::StaleEpoch { run: self.run.clone(), expected: self.epoch, found: epoch });
        }
        if last_seq != self.expected_seq {
            return Err(StoreError::SequenceMismatch { run: self.run.clone(), expected: self.expected_seq, found: last_seq });
        }
        for (expected, entry) in (self.expected_seq + 1..).zip(&self.entries) {
            if entry.seq != expected {
                return Err(StoreError::SequenceMismatch { run: self.run.clone(), expected, found: entry.seq });
            }
        }
        Ok(())
    }
}

/// Runs that should continue. See [`Store::due`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// The runs.
    pub runs: Vec<RunId>,
    /// The moment of the next run, if it is known.
    pub next: Option<Timestamp>,
}

/// The most calls that an engine recalls for one memory, agent and tool: the newest.
pub const RECALLED_CALLS: usize = 1_000;

/// One call of a tool that only logs its input: the calls are the memory.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedCall {
    /// The memory of the run.
    pub memory: MemoryId,
    /// The agent that made it.
    pub agent: AgentId,
    /// The tool.
    pub tool: ToolId,
    /// The task that made it.
    pub task: TaskId,
    /// The call.
    pub call: CallId,
    /// When.
    pub at: Timestamp,
    /// Input of the call.
    pub input: Json,
}

/// Facts about a run for lists of runs, which would otherwise have to read its entries.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummaryUpdate {
    /// Such as `running`, `waiting`, `completed`; the runtime's word.
    pub status: String,
    /// When it became so.
    pub at: Timestamp,
}

/// A run as lists show it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// Its id.
    pub id: RunId,
    /// The job it executes.
    pub job: JobId,
    /// The status of the last [`RunSummaryUpdate`]; `created` before the first.
    pub status: String,
    /// When it was created.
    pub created: Timestamp,
    /// When its last entry was decided or its status changed.
    pub updated: Timestamp,
    /// The sequence number of its last entry; 0 if it has none.
    pub last_seq: u64,
    /// The entries of another run that it begins with.
    pub past: Option<ForkPoint>,
    /// Number of take-overs; 0 if the run never had an owner.
    pub epoch: u64,
    /// Process that took the run over last and has not released it. [`Store::is_there`] reports whether that process
    /// is alive.
    pub owner: Option<String>,
}

/// The status of a run that has no summary yet.
const STATUS_CREATED: &str = "created";

/// The largest content in bytes: the length limit of a row that SQLite is built with, and just below PostgreSQL's limit of 1 GB.
const MAX_CONTENT_BYTES: usize = 999_000_000;

/// Refuses a batch with a content that fits into no row.
fn check_sizes(batch: &Batch) -> Result<(), StoreError> {
    match batch.contents.iter().find(|(_, content)| content.len() > MAX_CONTENT_BYTES) {
        Some((_, content)) => Err(StoreError::TooLarge { size: content.len(), limit: MAX_CONTENT_BYTES }),
        None => Ok(()),
    }
}
