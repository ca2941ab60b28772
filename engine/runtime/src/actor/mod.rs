//! One run, proceeding: the three steps of its loop.
//!
//! *Gather* turns all sources of events into one list, without deciding anything. *Decide* lets the core handle each
//! event and applies the entries in memory. *Commit* makes the entries durable as one batch. Only then are they
//! published, callers answered, and the effects performed. A failed commit ends the actor at once: it performs nothing
//! more, its memory is lost, and the store alone has the state of the run.
//!
//! There are two exceptions, for functions of this process without effects: they may begin before the commit, and their code gets
//! results and decisions about its calls. If the commit fails, nothing of that remains.

mod decide;
mod outage;
mod sending;
mod spawn;
mod work;

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_machine::{Run, Task};
use baton_store::{Batch, LoggedCall, RunSummaryUpdate, StoreError};
use baton_types::call::{CallResult, CallStatus};
use baton_types::document::Content;
use baton_types::entry::{Entry, Recorded, RunEnded};
use baton_types::event::{Decision, Effect, Event, Refusal};
use baton_types::id::{CallId, ContentHash, MemoryId, ProjectId, RunId, ToolId};
use baton_types::json::Json;
use baton_types::time::Timestamp;
use baton_types::tool_type::Logs;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::{broadcast, mpsc, watch};

use self::outage::Outages;
use self::sending::Sending;
pub(crate) use self::spawn::Parts;
use self::work::Work;
use crate::clock::sleep_until;
use crate::command::Command;
use crate::error::RunError;
use crate::error::panic_message;
use crate::handle::{Message, OpenQuestion, Progress, Reply, RunOutcome, Standing};
use crate::recording::Recording;
use crate::services::{Models, Services};
use crate::transcripts::Transcripts;
use crate::trust::CommandFiles;

/// The most messages that become one commit, so that a flood cannot starve the store of its turn.
const MESSAGES_PER_COMMIT: usize = 1_024;

/// Time after which an owner that wakes for another reason reads its inbox again, since a notification may be lost.
const INBOX_INTERVAL: Duration = Duration::from_secs(1);

/// Time after which [`Engine::work`](crate::Engine::work) tries a run again whose provider is away.
const AWAY_PAUSE: Duration = Duration::from_mins(1);

/// Status of a run that proceeds, in lists of runs.
const STATUS_RUNNING: &str = "running";
/// Status of a run that can continue only with a person's answer.
pub(crate) const STATUS_WAITING: &str = "waiting";
/// Status of a paused run.
pub(crate) const STATUS_PAUSED: &str = "paused";
/// Status of a run that is paused since its owners died.
pub(crate) const STATUS_QUARANTINED: &str = "quarantined";
/// Status of a run that no process has executed yet.
pub(crate) const STATUS_QUEUED: &str = "queued";

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
    pub(crate) live: broadcast::Sender<Arc<Recorded>>,
    pub(crate) progress: broadcast::Sender<Arc<Progress>>,
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

/// An event to be decided, and what belongs to it.
struct Incoming {
    event: Event,
    contents: Vec<(ContentHash, Content)>,
    reply: Option<Reply>,
}

impl Incoming {
    /// Returns the input in a message from a model request or a call.
    fn from_work(message: Message) -> Option<Self> {
        match message {
            Message::Event { event, contents, reply } => Some(Self { event, contents, reply }),
            Message::Unanswered(_)
            | Message::CheckAhead { .. }
            | Message::Questions(_)
            | Message::Panicked(_)
            | Message::CodeWaits
            | Message::Stop
            | Message::Unattended => None,
        }
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
        let entries = decision.entries.into_iter().map(Arc::new).collect();
        Self { entries, effects: decision.effects, contents: decision.contents, ..Self::default() }
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
    pub(crate) async fn run(mut self) {
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
            if self.work.stopping && !self.has_unrepeatable_work() {
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

    // ---- Gather.

    /// Waits until something happened, then takes all of it.
    async fn gather(&mut self) -> Result<(Vec<Incoming>, Vec<u64>), StoreError> {
        let wake = self.run.next_wake().filter(|wake| self.work.woken_for != Some(*wake));
        self.repeat_commands().await;
        let next = [wake, self.outages.next_wake(), self.sending.next()].into_iter().flatten().min();
        let at_once = self.work.arrived.len().min(MESSAGES_PER_COMMIT);
        let mut messages: Vec<Message> = self.work.arrived.drain(..at_once).collect();
        if messages.is_empty() {
            messages.extend(self.next_before_code().and_then(|seq| self.work.take(seq)));
        }
        let mut done_at_once = messages.len();
        if messages.is_empty() && !std::mem::take(&mut self.commands.at_once) && !self.has_ended_early_call() {
            let taken = self.next_taken();
            tokio::select! {
                // A process takes a run over before it looks at the time or the inbox.
                biased;
                // First, since its calls are in the mailbox then.
                Some(done) = self.work.code.next() => messages.extend(done),
                _ = self.mailbox.recv_many(&mut messages, MESSAGES_PER_COMMIT) => {}
                Ok(()) = self.commands.notifications.changed() => self.commands.waiting = true,
                () = std::future::ready(()), if taken.is_some() => {
                    messages.extend(taken.and_then(|seq| self.work.take(seq)));
                    done_at_once = messages.len();
                }
                () = sleep_until(&*self.shared.clock, next) => {}
            }
        } else {
            // A run whose work is always done at once must still let others have their turn.
            tokio::task::coop::consume_budget().await;
            while messages.len() < MESSAGES_PER_COMMIT
                && let Ok(message) = self.mailbox.try_recv()
            {
                messages.push(message);
            }
        }
        if self.commands.notifications.has_changed().unwrap_or(false) {
            self.commands.notifications.mark_unchanged();
            self.commands.waiting = true;
        }
        let mut incoming = Vec::with_capacity(messages.len());
        for (position, message) in messages.into_iter().enumerate() {
            self.take(message, position < done_at_once, &mut incoming);
        }
        let consumed = self.take_commands(&mut incoming).await?;
        let due = self.outages.due(self.shared.clock.now());
        self.work.to_ask.extend(due);
        if let Some(wake) = wake.filter(|wake| *wake <= self.shared.clock.now()) {
            self.work.woken_for = Some(wake);
            incoming.push(Incoming { event: Event::TimePassed, contents: Vec::new(), reply: None });
        }
        Ok((incoming, consumed))
    }

    /// Takes a message, and appends the events in it to `incoming`. Work that was `done_at_once` is not counted as running.
    fn take(&mut self, message: Message, done_at_once: bool, incoming: &mut impl Extend<Incoming>) {
        match message {
            Message::Event { event, contents, reply } => {
                if !done_at_once {
                    self.work.note_done(&event);
                }
                if let Event::CallReturned { call, .. } | Event::CallSuspended { call, .. } = &event {
                    self.work.forget_call(call);
                }
                let before = if let Event::ModelAnswered { task, .. } = &event { self.answered(task) } else { None };
                incoming.extend(before.map(|event| Incoming { event, contents: Vec::new(), reply: None }));
                incoming.extend([Incoming { event, contents, reply }]);
            }
            Message::Unanswered(unanswered) => {
                if !done_at_once {
                    self.work.note_done_for(unanswered.task.clone());
                }
                let failed = self.unanswered(unanswered);
                incoming.extend(failed.map(|event| Incoming { event, contents: Vec::new(), reply: None }));
            }
            Message::CheckAhead { by, calls, reply } => {
                // The code may have ended.
                let _gone = reply.send(self.run.check_ahead(&by, &calls));
            }
            Message::Questions(reply) => {
                // The receiver may have been dropped.
                let _gone = reply.send(OpenQuestion::all(&self.run));
            }
            // A fault of the engine ends this process's work on the run, as a panic of the actor itself does.
            Message::Panicked(panic) => std::panic::resume_unwind(panic),
            Message::Stop => {
                self.work.stopping = true;
                self.run.hold_requests();
            }
            Message::Unattended => self.work.due_when_stopped = true,
            // It only lets the standing be published again.
            Message::CodeWaits => {}
        }
    }

    /// Takes the commands that other processes put into the inbox.
    async fn take_commands(&mut self, incoming: &mut Vec<Incoming>) -> Result<Vec<u64>, StoreError> {
        let mut consumed = Vec::new();
        for (number, event) in std::mem::take(&mut self.commands.early) {
            self.take_command(number, event, incoming, &mut consumed);
        }
        if !std::mem::take(&mut self.commands.waiting) && self.commands.looked.elapsed() < INBOX_INTERVAL {
            return Ok(consumed);
        }
        self.commands.looked = Instant::now();
        for (number, text) in self.shared.store.take_commands(&self.id, self.commands.taken).await? {
            self.commands.taken = number;
            match serde_json::from_str::<Command>(text.text()) {
                Ok(command) => self.take_command(number, command.into(), incoming, &mut consumed),
                Err(error) => {
                    consumed.push(number);
                    tracing::warn!(run = %self.id, number, %error, "a command in the inbox cannot be read");
                }
            }
        }
        Ok(consumed)
    }

    /// Takes the command `number`. A delivery for a call whose code is still running is kept for later.
    fn take_command(&mut self, number: u64, event: Event, incoming: &mut Vec<Incoming>, consumed: &mut Vec<u64>) {
        if self.is_early(&event) {
            return self.commands.early.push((number, event));
        }
        consumed.push(number);
        incoming.push(Incoming { event, contents: Vec::new(), reply: None });
    }

    fn is_early(&self, event: &Event) -> bool {
        matches!(event, Event::ResultDelivered { .. }) && matches!(self.run.check(event), Err(Refusal::StillRunning { .. }))
    }

    fn has_ended_early_call(&self) -> bool {
        self.commands.early.iter().any(|(_, event)| !self.is_early(event))
    }

    // ---- Commit.

    /// Makes an iteration durable, then lets it be seen and performs its effects.
    async fn commit(&mut self, iteration: Iteration) -> Result<(), StoreError> {
        let mut iteration = iteration;
        let (mut contents, consumed) = (std::mem::take(&mut iteration.contents), std::mem::take(&mut iteration.consumed));
        let entries = &iteration.entries;
        if let Some(first) = entries.first() {
            if !contents.is_empty() {
                let named: HashSet<ContentHash> = entries.iter().filter_map(|recorded| recorded.entry.content()).collect();
                contents.retain(|(hash, _)| named.contains(hash));
            }
            let mut batch = Batch::new(self.id.clone(), self.epoch, first.seq - 1);
            batch.logged = self.logged(entries);
            batch.entries.clone_from(entries);
            batch.contents = contents;
            batch.summary = self.summary();
            batch.consumed = consumed;
            batch.releases = self.run.ended().is_some();
            self.shared.store.append(batch).await?;
        } else if !consumed.is_empty() {
            let mut batch = Batch::new(self.id.clone(), self.epoch, self.run.last_seq());
            batch.consumed = consumed;
            self.shared.store.append(batch).await?;
        }
        self.publish(iteration).await
    }

    /// Lets a durable iteration be seen and performs its effects.
    async fn publish(&mut self, iteration: Iteration) -> Result<(), StoreError> {
        let Iteration { entries, effects, replies, .. } = iteration;
        // Sent even without listeners: a call that begins below asks for the durable sequence number.
        self.durable.send_replace(self.run.last_seq());
        self.transcripts.absorb(&entries, &self.run);
        if self.live.receiver_count() > 0 {
            for recorded in &entries {
                // The listeners may be gone.
                let _unheard = self.live.send(Arc::clone(recorded));
            }
        }
        self.send_commands(&entries).await;
        for (reply, decided) in replies {
            // The receiver may have been dropped.
            let _gone = reply.send(decided);
        }
        for effect in effects {
            self.perform(effect);
        }
        while self.work.arrived.len() < MESSAGES_PER_COMMIT
            && let Some((task, turn)) = self.work.to_ask.pop_front()
        {
            if !self.work.stopping && self.run.task(&task).is_some_and(Task::is_live) {
                self.prompt(task, turn).await?;
            }
        }
        for recorded in &entries {
            match &recorded.entry {
                Entry::TaskEnded(entry) => self.stop(&entry.task),
                Entry::SubtreeClosed(entry) => entry.tasks.iter().for_each(|task| self.stop(task)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the calls among `entries` that only log their input.
    fn logged(&self, entries: &[Arc<Recorded>]) -> Vec<LoggedCall> {
        let mut logged = Vec::new();
        for recorded in entries {
            let Entry::CallFinished(entry) = &recorded.entry else { continue };
            let row = entry.tool_type.behavior();
            if row.logs != Logs::InputOnly || row.runs_code {
                continue;
            }
            let Some(agent) = self.run.task(&entry.task).and_then(|task| task.agent().cloned()) else { continue };
            let tool = ToolId::new(entry.tool.as_str());
            let input = self.input_of(&entry.call, entries);
            let (memory, task, call) = (self.memory(), entry.task.clone(), entry.call.clone());
            logged.push(LoggedCall { memory, agent, tool, task, call, at: recorded.at, input });
        }
        logged
    }

    /// Returns the owner of the run's long-term memories.
    pub(crate) fn memory(&self) -> MemoryId {
        let started = self.run.started().expect("a run proceeds after its first entry");
        started.memory.clone()
    }

    /// Returns the project whose breadcrumbs the run shares.
    pub(crate) fn project(&self) -> ProjectId {
        let started = self.run.started().expect("a run proceeds after its first entry");
        let of_folder = started.folder.as_deref().and_then(|folder| (self.shared.project_of)(Path::new(folder)));
        of_folder.unwrap_or_else(|| ProjectId::of(&started.memory))
    }

    /// Returns the input of a call that was just made: from the answer in the same batch, or from the turn still open.
    fn input_of(&self, call: &CallId, entries: &[Arc<Recorded>]) -> Json {
        let task = call.task();
        let (turn, position) = call.position().unwrap_or_default();
        let answered = entries.iter().find_map(|recorded| match &recorded.entry {
            Entry::ModelAnswered(entry) if entry.task == task && entry.turn == turn => {
                entry.calls.get((position as usize).checked_sub(1)?)
            }
            Entry::CallMade(entry) if entry.call == *call => Some(&entry.asked),
            _ => None,
        });
        let open = || Some(Arc::clone(&self.run.task(&task)?.call(call)?.asked));
        answered.map(|call| call.input.clone()).or_else(|| open().map(|call| call.input.clone())).unwrap_or_default()
    }

    /// Returns the new summary for lists of runs, if it changed.
    fn summary(&mut self) -> Option<RunSummaryUpdate> {
        let status = status(&self.run);
        (status != self.work.status).then(|| {
            self.work.status = status;
            RunSummaryUpdate { status: status.to_owned(), at: self.last }
        })
    }

    /// Releases the run: lists show its status, and it has no owner until it is resumed. Requests whose provider is
    /// away are recorded as such.
    async fn release(&mut self) -> Result<(), StoreError> {
        let waits_for_people = self.waits_for_people();
        let is_held_up = self.is_held_up();
        let away: Vec<String> = self.outages.providers().into_iter().map(str::to_owned).collect();
        let waits = self.waits_end().into_iter();
        let iteration =
            self.handle(waits.map(|event| Incoming { event, contents: Vec::new(), reply: None }).collect(), Vec::new());
        self.commit(iteration).await?;
        let status = match idle_status(&self.run) {
            _ if waits_for_people => STATUS_WAITING.to_owned(),
            Some(status) => status.to_owned(),
            None if is_held_up => format!("waiting for {}", away.join(", ")),
            None => "stopped".to_owned(),
        };
        let mut batch = Batch::new(self.id.clone(), self.epoch, self.run.last_seq());
        batch.summary = Some(RunSummaryUpdate { status, at: self.last });
        batch.releases = true;
        let again = if is_held_up { AWAY_PAUSE } else { Duration::ZERO };
        let at_once = self.work.due_when_stopped && self.run.ended().is_none() && !self.run.totals().paused;
        let wakes = wakes(&self.run).or_else(|| at_once.then(|| self.last.plus(again)));
        batch.wakes = wakes.map(|wakes| self.sending.next().map_or(wakes, |next| wakes.min(next)));
        let is_due = batch.wakes.is_some_and(|wakes| wakes <= self.last);
        self.shared.store.append(batch).await?;
        // A delivery that came just before saw an owner, and announced nothing.
        if is_due || (self.shared.bus.is_some() && self.shared.store.is_due(&self.id, self.last).await?) {
            self.shared.announce(&self.id, format!("released {}", self.epoch)).await;
        }
        Ok(())
    }

    // ---- What the handle sees.

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

/// Returns the status of `run` for lists of runs while it has an owner.
pub(crate) fn status(run: &Run) -> &'static str {
    match run.ended() {
        Some(end) if end.status == CallStatus::Partial => end.status.as_str(),
        Some(end) => end.state.as_str(),
        None => idle_status(run).unwrap_or(STATUS_RUNNING),
    }
}

/// Returns the status of a `run` that cannot proceed. It does not depend on the owner.
fn idle_status(run: &Run) -> Option<&'static str> {
    if run.waits_only_for_people() && !run.totals().quarantined {
        return Some(STATUS_WAITING);
    }
    if run.totals().paused {
        return Some(if run.totals().quarantined { STATUS_QUARANTINED } else { STATUS_PAUSED });
    }
    (run.is_idle() && run.totals().suspended_calls > 0).then_some(STATUS_WAITING)
}

/// Returns when the waiting `run` continues by itself, or the last moment if only others can wake it. `None` if it does not wait: it
/// has ended, is paused, or has work in progress.
pub(crate) fn wakes(run: &Run) -> Option<Timestamp> {
    (run.is_idle() && !run.totals().paused).then(|| run.next_wake().unwrap_or(Timestamp::MAX))
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
