//! One run, proceeding: the three steps of its loop.
//!
//! *Gather* turns all sources of events into one list, without deciding anything. *Decide* lets the core handle each
//! event and applies the entries in memory. *Commit* makes the entries durable as one batch. Only then are they
//! published, callers answered, and the effects performed. A failed commit ends the actor at once: it performs nothing
//! more, its memory is lost, and the store alone has the state of the run.
//!
//! There are two exceptions, for functions of this process without effects: they may begin before the commit, and their code gets
//! results and decisions about its calls. If the commit fails, nothing of that remains.

mod commit;
mod decide;
mod gather;
mod outage;
mod sending;
mod spawn;
mod status;
mod work;

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use baton_machine::Run;
use baton_store::{Batch, RunSummaryUpdate, StoreError};
use baton_types::call::CallResult;
use baton_types::document::Content;
use baton_types::entry::{Entry, Recorded, RunEnded};
use baton_types::event::{Decision, Effect, Event, Refusal};
use baton_types::id::{ContentHash, MemoryId, RunId};
use baton_types::time::Timestamp;
use futures_util::FutureExt;
use tokio::sync::{mpsc, watch};

use self::outage::Outages;
use self::sending::Sending;
pub(crate) use self::spawn::Parts;
use self::status::status;
pub(crate) use self::status::{STATUS_PAUSED, STATUS_QUARANTINED, STATUS_QUEUED, STATUS_WAITING};
use self::work::Work;
use crate::error::RunError;
use crate::error::panic_message;
use crate::handle::{Message, Progress, Reply, RunOutcome, Standing};
use crate::recording::Recording;
use crate::services::{Models, Services};
use crate::transcripts::Transcripts;
use crate::trust::CommandFiles;
use crate::watchers::Watchers;

/// The most messages that become one commit, so that a flood cannot starve the store of its turn.
const MESSAGES_PER_COMMIT: usize = 1_024;

/// The actor of one run.
pub(crate) struct Actor {
    pub(crate) shared: Arc<Services>,
    pub(crate) id: RunId,
    pub(crate) epoch: u64,
    pub(crate) run: Run,
    pub(crate) models: Models,
    pub(crate) folder: Option<PathBuf>,
    /// The files that commands may run.
    pub(crate) files: Arc<CommandFiles>,
    pub(crate) mailbox: mpsc::UnboundedReceiver<Message>,
    /// For those who work for the run.
    pub(crate) sender: mpsc::UnboundedSender<Message>,
    pub(crate) live: Arc<Watchers<Arc<Recorded>>>,
    pub(crate) progress: Arc<Watchers<Arc<Progress>>>,
    pub(crate) standing: watch::Sender<Standing>,
    pub(crate) commands: Commands,
    pub(crate) transcripts: Transcripts,
    pub(crate) work: Work,
    /// The number of the last entry that is durable, for calls that were begun before their batch was.
    pub(crate) durable: watch::Sender<u64>,
    /// The moment of the last batch: entries never step back in time.
    pub(crate) last: Timestamp,
    /// The iteration that began the run, durable already.
    pub(crate) begun: Option<Iteration>,
    /// For a fork: recorded answers and results of its original.
    pub(crate) recording: Option<Recording>,
    /// The requests whose provider is away.
    pub(crate) outages: Outages,
    /// The commands for tool services.
    pub(crate) sending: Sending,
}

/// The run's inbox in the store.
pub(crate) struct Commands {
    pub(crate) notifications: watch::Receiver<u64>,
    /// The last command that was taken.
    pub(crate) taken: u64,
    /// Whether there may be commands to take.
    pub(crate) waiting: bool,
    /// Whether they are taken before anything else happens.
    pub(crate) at_once: bool,
    /// When they were looked for last.
    pub(crate) looked: Instant,
    /// Deliveries for calls whose code is still running. They stay in the inbox until it has ended.
    pub(crate) early: Vec<(u64, Event)>,
}

impl Commands {
    /// Returns the inbox of a run. It is read if `waiting`, and before anything else happens if `at_once`.
    pub(crate) fn new(notifications: watch::Receiver<u64>, waiting: bool, at_once: bool) -> Self {
        Self { notifications, taken: 0, waiting, at_once, looked: Instant::now(), early: Vec::new() }
    }
}

/// Everything decided in one iteration.
#[derive(Default)]
pub(crate) struct Iteration {
    pub(crate) entries: Vec<Arc<Recorded>>,
    pub(crate) effects: Vec<Effect>,
    contents: Vec<(ContentHash, Content)>,
    replies: Vec<(Reply, Result<(), Refusal>)>,
    consumed: Vec<u64>,
}

impl Iteration {
    /// Returns the entries and effects of `decision`.
    pub(crate) fn of(decision: Decision) -> Self {
        let Decision { entries, effects, contents } = decision;
        Self { entries, effects, contents, ..Self::default() }
    }

    /// Returns the batch with which an owner's first iteration becomes durable; `run` is as it leaves it.
    pub(crate) fn first_batch(&self, id: &RunId, epoch: u64, before: u64, run: &Run, at: Timestamp) -> Batch {
        let mut batch = Batch::new(id.clone(), epoch, before);
        batch.entries.clone_from(&self.entries);
        batch.contents.clone_from(&self.contents);
        batch.summary = Some(RunSummaryUpdate { status: status(run).to_owned(), at });
        batch.releases = run.ended().is_some();
        batch
    }
}

impl Actor {
    /// Proceeds until the run ends, is stopped or fails.
    pub(crate) async fn run(mut self: Box<Self>) {
        let outcome = match AssertUnwindSafe(self.proceed()).catch_unwind().await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => {
                tracing::error!(run = %self.id, %error, "the run stopped");
                RunOutcome::Failed(error.into())
            }
            Err(panic) => RunOutcome::Failed(RunError::Fault { message: panic_message(&*panic) }),
        };
        self.work.end(self.shared.command_grace).await;
        self.shared.forget(&self.id);
        // A program may exit as soon as it sees that the run is over, so the store is released before and can close.
        let standing = self.standing.clone();
        drop(self);
        standing.send_replace(Standing::Over(outcome));
    }

    async fn proceed(&mut self) -> Result<RunOutcome, StoreError> {
        if let Some(begun) = self.begun.take() {
            self.publish(begun).await?;
            // Limits may leave no room for a first turn.
            if let Some(end) = self.run.ended() {
                return self.ended(end.clone(), None).await;
            }
            // A fork or a migration may begin with a question, after which nothing happens by itself.
            self.publish_standing();
        }
        loop {
            let (incoming, consumed) = self.gather().await?;
            let iteration = self.handle(incoming, consumed);
            let result = self.run.ended().and_then(|_| iteration.entries.iter().rev().find_map(result_of_root));
            self.commit(iteration).await?;
            if let Some(end) = self.run.ended() {
                return self.ended(end.clone(), result).await;
            }
            self.count_idle();
            // Undecided events would be lost when the run is released, so they are decided first.
            if self.work.stopping && self.work.undecided.is_empty() && !self.has_unrepeatable_work() {
                self.release().await?;
                return Ok(RunOutcome::Stopped);
            }
            if self.is_held_up() && self.run.totals().open_questions == 0 {
                let away = self.outages.away();
                self.work.stopping = true;
                self.release().await?;
                return Ok(RunOutcome::ProviderAway(away));
            }
            self.publish_standing();
        }
    }

    /// Returns the owner of the run's long-term memories.
    pub(crate) fn memory(&self) -> MemoryId {
        let started = self.run.started().expect("a run proceeds after its first entry");
        started.memory.clone()
    }

    fn publish_standing(&mut self) {
        // What a fork knows the answer to does not wait.
        let is_quiet = self.work.is_quiet();
        let waits = self.waits_for_people() && is_quiet;
        // Its inbox is read first: what is in there may be what the run waits for. A worker releases a suspended run, which ends code
        // that waits for its calls. So that code must have nothing else to do.
        let is_suspended = !waits
            && is_quiet
            && self.run.is_idle()
            && !self.commands.waiting
            && self.work.code_waits()
            && !self.has_ended_early_call();
        if waits || is_suspended {
            // People take their time: until one answers, the run holds nothing but its records.
            self.transcripts.clear();
        }
        self.standing.send_if_modified(|standing| match standing {
            Standing::WaitingForPeople(since) if waits && *since == self.run.last_seq() => false,
            Standing::Suspended if is_suspended => false,
            Standing::Working if !waits && !is_suspended => false,
            standing => {
                *standing = match (waits, is_suspended) {
                    (true, _) => Standing::WaitingForPeople(self.run.last_seq()),
                    (false, true) => Standing::Suspended,
                    (false, false) => Standing::Working,
                };
                true
            }
        });
    }

    /// Whether nothing can proceed until a person answers; requests whose provider is away do not proceed either.
    fn waits_for_people(&self) -> bool {
        self.run.waits_only_for_people() || (self.is_held_up() && self.run.totals().open_questions > 0)
    }

    /// Returns the outcome of the ended run, with the root's result and the whole state, which the actor no longer
    /// needs.
    async fn ended(&mut self, end: RunEnded, result: Option<Arc<CallResult>>) -> Result<RunOutcome, StoreError> {
        let result = match result {
            Some(result) => result,
            None => root_result(&self.shared, &self.id, &self.run).await?,
        };
        let nothing = Run::new(Arc::clone(self.run.configs()));
        Ok(RunOutcome::Ended { end, result, run: Arc::new(std::mem::replace(&mut self.run, nothing)) })
    }
}

/// Returns the result of the root task of the ended run `id`, whose state is `run`.
pub(crate) async fn root_result(shared: &Services, id: &RunId, run: &Run) -> Result<Arc<CallResult>, StoreError> {
    let corrupt = |what: &str| StoreError::Corrupt { what: format!("run {id} has ended, {what}") };
    let root = run.root().ok_or_else(|| corrupt("and has no root task"))?;
    let entries = shared.store.task_entries(id, &root.id, run.last_seq()).await?;
    let ended = entries.iter().rev().find_map(result_of_root);
    ended.ok_or_else(|| corrupt("its root task has not"))
}

/// Returns the result of the root task, if `recorded` is its end.
fn result_of_root(recorded: &Arc<Recorded>) -> Option<Arc<CallResult>> {
    match &recorded.entry {
        Entry::TaskEnded(entry) if entry.task.is_root() => Some(Arc::clone(&entry.result)),
        _ => None,
    }
}
