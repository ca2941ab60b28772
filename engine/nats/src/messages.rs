//! Messages of a stream: taken, worked on, acknowledged.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{self, AckKind};
use futures_util::StreamExt;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::streams::Kept;
use crate::{Bus, BusError};

/// Number of messages of one kind that are worked on at the same time.
pub(crate) const AT_ONCE: usize = 64;

/// Pause before a loop that lost its connection begins again.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// Time without a sign of the server after which its consumer is asked for anew: the server may have lost it.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// Time for which the server keeps a request for messages.
pub(crate) const EXPIRES: Duration = Duration::from_secs(20);

/// The name under which all processes that execute runs share the callbacks, the wake-ups and the requests of a project.
pub(crate) const WORKERS: &str = "baton-workers";

/// The next step for a message.
pub(crate) enum Next {
    /// It is done.
    Acknowledge,
    /// It is looked at again after this time.
    After(Duration),
}

impl Bus {
    /// Lets `work` carry out each message of a stream with the subject, until the connection is lost or `stop` is cancelled. All processes
    /// that give the same `name` share the messages. What is left undone at the end comes again.
    pub(crate) async fn each_of<W: Future<Output = ()> + Send + 'static>(
        &self,
        kept: Kept,
        name: &str,
        subject: &str,
        stop: &CancellationToken,
        work: impl Fn(jetstream::Message, Place) -> W,
    ) -> Result<(), BusError> {
        let project = &self.0.address.project;
        let lost = |reason: String| BusError::Stream { stream: kept.name(project), reason };
        let consumer = self.consumer(kept, name, subject).await?;
        let messages = consumer.stream().max_messages_per_batch(AT_ONCE).heartbeat(HEARTBEAT).expires(EXPIRES).messages().await;
        let mut messages = messages.map_err(|error| lost(error.to_string()))?;
        let (places, tracker) = (Arc::new(Semaphore::new(AT_ONCE)), TaskTracker::new());
        let ended = loop {
            let message = tokio::select! {
                () = stop.cancelled() => break Ok(()),
                message = messages.next() => message,
            };
            let message = match message {
                None => break Ok(()),
                Some(Err(error)) => break Err(lost(error.to_string())),
                Some(Ok(message)) => message,
            };
            let Ok(held) = Arc::clone(&places).acquire_owned().await else { break Ok(()) };
            let place = Place { places: Arc::clone(&places), held: Mutex::new(Some(held)) };
            let (working, stop) = (work(message, place), stop.clone());
            tracker.spawn(async move {
                tokio::select! {
                    () = working => {}
                    () = stop.cancelled() => {}
                }
            });
        };
        // Where the connection was lost, long work must not keep new messages waiting.
        if stop.is_cancelled() {
            tracker.close();
            tracker.wait().await;
        }
        ended
    }
}

/// The place of a message among those that are worked on at the same time.
pub(crate) struct Place {
    places: Arc<Semaphore>,
    held: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Place {
    /// Waits without the place, so that messages that wait hold no others up.
    pub(crate) async fn wait(&self, pause: Duration) {
        *self.held.lock().await = None;
        tokio::time::sleep(pause).await;
        *self.held.lock().await = Arc::clone(&self.places).acquire_owned().await.ok();
    }
}

/// Acknowledges a message and waits for the confirmation. Without one, the message comes again.
pub(crate) async fn acknowledge(message: &jetstream::Message) {
    if let Err(error) = message.double_ack().await {
        tracing::debug!(%error, "an acknowledgement was not confirmed");
    }
}

/// Asks the server to wait longer for an acknowledgement.
pub(crate) async fn still_working(message: &jetstream::Message) {
    if let Err(error) = message.ack_with(AckKind::Progress).await {
        tracing::debug!(%error, "the server was not asked to wait for a message");
    }
}
