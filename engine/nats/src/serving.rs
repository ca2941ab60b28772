//! The loops of a process on the bus: callbacks, and requests for cards.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Message;
use async_nats::jetstream::{self, AckKind};
use baton_runtime::Engine;
use baton_utp::subject::Family;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::join_all;
use serde::Serialize;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::service::Served;
use crate::streams::Kept;
use crate::{Bus, BusError};

/// Number of messages of one kind that are worked on at the same time.
const AT_ONCE: usize = 64;

/// Pause before a loop that lost its connection begins again.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// Time without a sign of the server after which its consumer is asked for anew: the server may have lost it.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// Time for which the server keeps a request for messages.
const EXPIRES: Duration = Duration::from_secs(20);

/// The name under which all processes that execute runs share the callbacks and the requests of a project.
pub(crate) const WORKERS: &str = "baton-workers";

impl Bus {
    /// Takes the callbacks of the project and answers its requests for cards, until `stop` is cancelled. Several processes share both. If the
    /// server is away, it waits until the server is back.
    pub async fn serve(&self, engine: &Engine, stop: &CancellationToken) {
        let repeat = |what: &'static str| {
            move |ended: Result<(), BusError>| {
                if let Err(error) = ended {
                    tracing::warn!(%error, "{what} wait until the bus is back");
                }
            }
        };
        let callbacks = self.until(stop, || self.take_callbacks(engine, stop), repeat("callbacks"));
        let gets = self.until(stop, || self.answer(engine, stop, Family::CardGet), repeat("requests for cards"));
        let puts = self.until(stop, || self.answer(engine, stop, Family::CardPut), repeat("requests to keep cards"));
        tokio::join!(callbacks, gets, puts);
    }

    /// Executes the commands for tools of this process, until `stop` is cancelled. Several processes that serve a tool share its commands.
    ///
    /// The engine has the model [`crate::service::caller`] under the name that the agents of `tools` ask.
    pub async fn serve_tools(&self, engine: &Engine, tools: &[Served], stop: &CancellationToken) {
        let report = |ended: Result<(), BusError>| {
            if let Err(error) = ended {
                tracing::warn!(%error, "commands wait until the bus is back");
            }
        };
        join_all(tools.iter().map(|served| self.until(stop, || self.take_commands(engine, served, stop), report))).await;
    }

    /// Repeats `work` until `stop` is cancelled.
    async fn until<W: Future<Output = Result<(), BusError>>>(
        &self,
        stop: &CancellationToken,
        work: impl Fn() -> W,
        report: impl Fn(Result<(), BusError>),
    ) {
        while !stop.is_cancelled() {
            report(work().await);
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }

    /// Takes callbacks until the connection is lost or `stop` is cancelled.
    async fn take_callbacks(&self, engine: &Engine, stop: &CancellationToken) -> Result<(), BusError> {
        let subject = Family::ToolResult.in_project(&self.0.address.project);
        self.each_of(Kept::Callbacks, WORKERS, &subject, stop, |message, place| {
            let (bus, engine) = (self.clone(), engine.clone());
            async move { bus.take_callback(&engine, &message, &place).await }
        })
        .await
    }

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
        let consumer = kept.consumer(&self.0.jetstream, project, name, subject).await?;
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
        tracker.close();
        tracker.wait().await;
        ended
    }

    /// Answers requests of a family until the connection is lost or `stop` is cancelled.
    async fn answer(&self, engine: &Engine, stop: &CancellationToken, family: Family) -> Result<(), BusError> {
        let subject = family.in_project(&self.0.address.project);
        let requests = self.0.client.queue_subscribe(subject.clone(), WORKERS.to_owned()).await;
        let mut requests = requests.map_err(|error| BusError::Stream { stream: subject, reason: error.to_string() })?;
        let places = Arc::new(Semaphore::new(AT_ONCE));
        loop {
            let request = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                request = requests.next() => request,
            };
            let Some(request) = request else { return Ok(()) };
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return Ok(()) };
            let (bus, engine) = (self.clone(), engine.clone());
            tokio::spawn(async move {
                let _place = place;
                bus.reply(&engine, family, request).await;
            });
        }
    }

    async fn reply(&self, engine: &Engine, family: Family, request: Message) {
        let Some(to) = request.reply else { return };
        let reply = match family {
            Family::CardPut => text(&self.put_card(engine, &request.payload).await),
            _ => text(&self.get_card(engine, &request.payload).await),
        };
        // The service asks again.
        if let Err(error) = self.0.client.publish(to, reply).await {
            tracing::debug!(%error, "a reply was not sent");
        }
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

fn text(reply: &impl Serialize) -> Bytes {
    serde_json::to_vec(reply).map(Bytes::from).unwrap_or_default()
}
