//! The start of an actor.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use baton_machine::Run;
use baton_types::event::Event;
use baton_types::id::RunId;
use baton_types::time::Timestamp;
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::Instrument as _;

use super::outage::Outages;
use super::sending::Sending;
use super::status::status;
use super::work::Work;
use super::{Actor, Commands, Iteration};
use crate::error::RunError;
use crate::handle::{Incoming, Message, RunHandle, RunOutcome, Standing};
use crate::recording::Recording;
use crate::services::{Models, Services};
use crate::transcripts::Transcripts;
use crate::trust::Trusted;
use crate::watchers::Watchers;

/// Number of entries that a live reader may lag behind before it reads the store.
const LIVE_ENTRIES: usize = 128;

/// Number of progress messages that a reader may lag behind before it misses some.
const LIVE_PROGRESS: usize = 256;

/// Parts of a new actor.
pub(crate) struct Parts {
    /// The configs of `run`, checked.
    pub(crate) trusted: Trusted,
    pub(crate) run: Run,
    pub(crate) id: RunId,
    pub(crate) epoch: u64,
    pub(crate) commands: Commands,
    pub(crate) models: Models,
    pub(crate) transcripts: Transcripts,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) last: Timestamp,
    pub(crate) begun: Option<Iteration>,
    pub(crate) recording: Option<Recording>,
    /// Whether its former owner may have left something undone: it did not release the run.
    pub(crate) is_behind: bool,
}

impl Services {
    /// Spawns the actor of a run, whose first event is `first`, and waits until that event is durable. If it ends the actor,
    /// returns its error.
    pub(crate) async fn spawn_with(self: &Arc<Self>, parts: Parts, first: Event) -> Result<RunHandle, RunError> {
        let (reply, answer) = oneshot::channel();
        let handle = self.spawn_after(parts, Some(Message::Event(Incoming { reply: Some(reply), ..first.into() })));
        match answer.await {
            Ok(answer) => answer.map(|()| handle).map_err(RunError::from),
            Err(_) => match handle.outcome().await {
                RunOutcome::Failed(error) => Err(error),
                _ => Err(RunError::NotRunning(handle.id().clone())),
            },
        }
    }

    /// Spawns the actor of a run that has begun.
    pub(crate) fn spawn(self: &Arc<Self>, parts: Parts) -> RunHandle {
        self.spawn_after(parts, None)
    }

    /// Executes, in the calling task, a run that has begun. Returns its outcome. If the future is dropped, a new task executes the
    /// rest.
    pub(crate) async fn execute(self: &Arc<Self>, parts: Parts) -> RunOutcome {
        let (handle, actor) = self.actor(parts, None);
        InPlace { actor: Some(Box::pin(actor)), runtime: Handle::current() }.await;
        handle.outcome().await
    }

    /// Spawns the actor of a run, with `first` in its mailbox.
    fn spawn_after(self: &Arc<Self>, parts: Parts, first: Option<Message>) -> RunHandle {
        let (handle, actor) = self.actor(parts, first);
        tokio::spawn(actor);
        handle
    }

    /// Returns the handle of a run, and its actor with `first` in its mailbox.
    fn actor(self: &Arc<Self>, parts: Parts, first: Option<Message>) -> (RunHandle, impl Future<Output = ()> + Send + use<>) {
        let Parts { trusted, run, id, epoch, commands, models, transcripts, folder, last, begun, recording, is_behind } = parts;
        assert!(trusted.is_of(run.configs()), "a run proceeds by configs that were checked");
        let (sender, mailbox) = mpsc::unbounded_channel();
        if let Some(first) = first {
            sender.send(first).expect("the mailbox is here");
        }
        let (live, progress) = (Arc::new(Watchers::new(LIVE_ENTRIES)), Arc::new(Watchers::new(LIVE_PROGRESS)));
        let (standing, stands) = watch::channel(Standing::Working);
        let durable = watch::Sender::new(run.last_seq());
        let handle = RunHandle {
            id: id.clone(),
            configs: Arc::clone(run.configs()),
            store: Arc::clone(&self.store),
            mailbox: sender.clone(),
            live: Arc::downgrade(&live),
            progress: Arc::downgrade(&progress),
            standing: stands,
        };
        self.running().insert(id.clone(), handle.clone());
        let span = tracing::info_span!("run", %id);
        let actor = Box::new(Actor {
            work: Work::of_run(if begun.is_some() { status(&run) } else { "" }),
            commands,
            transcripts,
            shared: Arc::clone(self),
            id,
            epoch,
            run,
            models,
            folder,
            files: Arc::clone(trusted.files()),
            mailbox,
            sender,
            live,
            progress,
            standing,
            durable,
            last,
            begun,
            recording,
            outages: Outages::default(),
            sending: Sending::new(last, is_behind, self.dispatcher.is_some()),
        });
        (handle, actor.run().instrument(span))
    }
}

/// An actor that the awaiting task executes. If this is dropped before the actor has ended, a new task executes the rest.
struct InPlace {
    /// `None` once it has ended.
    actor: Option<BoxFuture<'static, ()>>,
    runtime: Handle,
}

impl Future for InPlace {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some(actor) = &mut self.actor {
            ready!(actor.as_mut().poll(context));
            self.actor = None;
        }
        Poll::Ready(())
    }
}

impl Drop for InPlace {
    fn drop(&mut self) {
        if let Some(actor) = self.actor.take() {
            self.runtime.spawn(actor);
        }
    }
}
