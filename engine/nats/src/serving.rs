//! The loops of a process on the bus: callbacks, and requests for cards.

use std::sync::Arc;

use async_nats::Message;
use baton_runtime::Engine;
use baton_utp::subject::Family;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::join_all;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::messages::{AT_ONCE, PAUSE, WORKERS};
use crate::service::Served;
use crate::streams::Kept;
use crate::{Bus, BusError};

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
