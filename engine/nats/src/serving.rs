//! The loops of a process on the bus: callbacks, and requests for cards.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Message;
use baton_runtime::Engine;
use baton_utp::subject::Family;
use bytes::Bytes;
use futures_util::StreamExt;
use serde::Serialize;
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::streams::Kept;
use crate::{Bus, BusError};

/// Number of messages of one kind that are worked on at the same time.
const AT_ONCE: usize = 64;

/// Pause before a loop that lost its connection begins again.
const PAUSE: Duration = Duration::from_secs(1);

/// Time without a sign of the server after which its consumer is asked for anew: the server may have lost it.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// Time for which the server keeps a request for messages.
const EXPIRES: Duration = Duration::from_secs(20);

/// The name under which all processes that execute runs share the callbacks and the requests of a project.
const WORKERS: &str = "baton-workers";

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

    /// Takes callbacks until the connection is lost or `stop` is cancelled. Those that are worked on are carried out before it returns.
    async fn take_callbacks(&self, engine: &Engine, stop: &CancellationToken) -> Result<(), BusError> {
        let filter = Family::ToolResult.in_project(&self.0.address.project);
        let consumer = Kept::Callbacks.consumer(&self.0.jetstream, &self.0.address.project, WORKERS, &filter).await?;
        let lost = |reason: String| BusError::Stream { stream: Kept::Callbacks.name(&self.0.address.project), reason };
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
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { break Ok(()) };
            let (bus, engine, places, stop) = (self.clone(), engine.clone(), Arc::clone(&places), stop.clone());
            tracker.spawn(async move {
                // A message that waits for its work or its card holds no place.
                let place = Mutex::new(Some(place));
                let (place, places) = (&place, &places);
                let wait = |pause| async move {
                    *place.lock().await = None;
                    tokio::time::sleep(pause).await;
                    *place.lock().await = Arc::clone(places).acquire_owned().await.ok();
                };
                tokio::select! {
                    () = bus.take_callback(&engine, &message, wait) => {}
                    // It comes again.
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

fn text(reply: &impl Serialize) -> Bytes {
    serde_json::to_vec(reply).map(Bytes::from).unwrap_or_default()
}
