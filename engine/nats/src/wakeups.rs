//! Wake-ups: each sends one worker to a run that needs an owner.

use std::sync::Arc;

use async_nats::jetstream::Message;
use baton_runtime::Announced;
use baton_types::id::{RunId, TaskId};
use baton_utp::callback::Wakeup;
use baton_utp::id::{AgentName, AgentTurnId};
use baton_utp::subject::{Family, Kind, Token};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::oneshot;

use crate::messages::{EXPIRES, PAUSE, WORKERS, acknowledge};
use crate::streams::Kept;
use crate::{Bus, BusError};

/// The target of the wake-ups of runs.
const TARGET: &str = "baton";

impl baton_runtime::Bus for Bus {
    fn announce(self: Arc<Self>, run: RunId, wake: String) -> BoxFuture<'static, ()> {
        async move {
            if let Err(reason) = self.publish_wakeup(&run, &wake).await {
                tracing::warn!(%run, %reason, "a run was not announced; a worker finds it within ten seconds");
            }
        }
        .boxed()
    }

    fn next(self: Arc<Self>) -> BoxFuture<'static, Announced> {
        async move {
            loop {
                match self.next_wakeup().await {
                    Ok(Some(announced)) => return announced,
                    Ok(None) => {}
                    Err(error) => {
                        tracing::warn!(%error, "wake-ups wait until the bus is back");
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        }
        .boxed()
    }
}

impl Bus {
    async fn publish_wakeup(&self, run: &RunId, wake: &str) -> Result<(), String> {
        let target = Token::parse(TARGET).ok_or("the target cannot be part of a subject")?;
        let subject = self.subject(Kind::Wakeup(target));
        let wakeup = Wakeup { agent_id: AgentName::engine(), agent_turn_id: Some(AgentTurnId::of(run, &TaskId::root())) };
        self.publish(Kept::Wakeups, subject, Some(format!("{run}:{wake}")), &wakeup).await
    }

    /// Waits a while for a wake-up.
    async fn next_wakeup(&self) -> Result<Option<Announced>, BusError> {
        let (kept, project) = (Kept::Wakeups, &self.0.address.project);
        let lost = |reason: String| BusError::Stream { stream: kept.name(project), reason };
        let consumer = self.consumer(kept, WORKERS, &Family::Wakeup.in_project(project)).await?;
        let batch = consumer.batch().max_messages(1).expires(EXPIRES).messages().await;
        let mut batch = batch.map_err(|error| lost(error.to_string()))?;
        // A server that was killed does not end the request.
        let Ok(message) = tokio::time::timeout(EXPIRES + PAUSE, batch.next()).await else { return Ok(None) };
        let Some(message) = message else { return Ok(None) };
        let message = message.map_err(|error| lost(error.to_string()))?;
        let run = Wakeup::read(&message.payload).ok().and_then(|wakeup| Some(wakeup.agent_turn_id?.named()?.0));
        let Some(run) = run else {
            // Another program's wake-up, or a forged one.
            acknowledge(&message).await;
            return Ok(None);
        };
        let (sender, acknowledged) = oneshot::channel();
        tokio::spawn(acknowledge_when(message, acknowledged));
        Ok(Some(Announced { run, acknowledge: sender }))
    }
}

/// Acknowledges a message when its run has an owner.
async fn acknowledge_when(message: Message, acknowledged: oneshot::Receiver<()>) {
    if acknowledged.await.is_ok() {
        acknowledge(&message).await;
    }
}
