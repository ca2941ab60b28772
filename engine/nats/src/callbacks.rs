//! Callbacks: each is decided by [`baton_utp::resume::decide`], and acknowledged when its effect is durable.
//!
//! A callback that a worker has taken and not acknowledged comes again, to any worker. So a death between the delivery and the
//! acknowledgement repeats the callback, and the second one finds that the call has its result.

use std::time::{Duration, Instant};

use async_nats::jetstream::Message;
use baton_runtime::{Delivered, Engine, RunError};
use baton_types::call::{CallError, CallStatus, ErrorCode};
use baton_types::config::Configs;
use baton_types::entry::Entry;
use baton_types::event::Refusal;
use baton_types::id::{CallId, RunId};
use baton_types::json::Json;
use baton_types::principal::Principal;
use baton_utp::exchange::DeadLetter;
use baton_utp::resume::{Applied, CallState, CardLookup, DeadCode, DeadReason, Decision, Known, Received, TurnState, decide};
use baton_utp::subject::Kind;

use crate::Bus;
use crate::messages::{Next, Place, acknowledge, still_working};
use crate::streams::Kept;

/// Time for which a callback waits for work that is not known. A command is sent after its call is stored, so such work is of no
/// store here, or was removed.
const PATIENCE_FOR_WORK: Duration = Duration::from_secs(10);

/// Time for which a callback waits for its card.
const PATIENCE_FOR_CARD: Duration = Duration::from_mins(2);

/// Pause after which a callback is looked at again if the store is away.
const AWAY_PAUSE: Duration = Duration::from_secs(2);

impl Bus {
    /// Carries out a callback to its end.
    pub(crate) async fn take_callback(&self, engine: &Engine, message: &Message, place: &Place) {
        let began = Instant::now();
        loop {
            let pause = match self.look_at(engine, message, began.elapsed()).await {
                Ok(Next::Acknowledge) => return acknowledge(message).await,
                Ok(Next::After(pause)) => pause,
                Err(error) => {
                    tracing::warn!(%error, "a callback cannot be carried out yet");
                    AWAY_PAUSE
                }
            };
            // Otherwise another worker would get it meanwhile.
            still_working(message).await;
            place.wait(pause).await;
        }
    }

    async fn look_at(&self, engine: &Engine, message: &Message, waited: Duration) -> Result<Next, RunError> {
        let received = match Received::read(&message.payload) {
            Ok(received) => received,
            Err(reason) => return Ok(self.refuse(message, &reason).await),
        };
        let found = self.known(engine, &received).await?;
        let card = match received.card_id() {
            Some(id) => self.card(engine, &id).await?.map_or(CardLookup::Missing, |card| CardLookup::Found(Box::new(card))),
            None => CardLookup::Missing,
        };
        let unknown = || Known {
            turn: TurnState::Unknown,
            agent_turn_id: received.agent_turn_id.clone(),
            turn_epoch: received.turn_epoch,
            call: CallState::Unknown,
            command_after: baton_types::call::AfterExecution::Suspend,
            controls_flow: false,
        };
        let decision = decide(&received, found.as_ref().map_or(&unknown(), |(known, ..)| known), &card);
        match (decision, found) {
            (Decision::Apply(applied), Some((_, run, call))) => self.apply(engine, &run, &call, *applied, &card).await,
            (Decision::Defer(_), None) if waited > PATIENCE_FOR_WORK => {
                let reason = format!("there was no such work for {} s", PATIENCE_FOR_WORK.as_secs());
                Ok(self.refuse(message, &DeadReason { code: DeadCode::NotFound, reason }).await)
            }
            (Decision::Defer(_), _) if waited > PATIENCE_FOR_CARD => {
                let reason = format!("the card was not there for {} s", PATIENCE_FOR_CARD.as_secs());
                Ok(self.refuse(message, &DeadReason { code: DeadCode::NotFound, reason }).await)
            }
            (Decision::Defer(pause), _) => Ok(Next::After(pause)),
            (Decision::DeadLetter(reason), _) => Ok(self.refuse(message, &reason).await),
            (Decision::Ignore(reason), _) => {
                tracing::debug!(turn = %received.agent_turn_id, call = %received.tool_call_id, %reason, "a callback changed nothing");
                Ok(Next::Acknowledge)
            }
            (Decision::Apply(_), None) => Ok(Next::Acknowledge),
        }
    }

    /// Delivers a result into the inbox of its run.
    async fn apply(
        &self,
        engine: &Engine,
        run: &RunId,
        call: &CallId,
        applied: Applied,
        card: &CardLookup,
    ) -> Result<Next, RunError> {
        let result = applied.content.to_result();
        let delivered = Delivered {
            status: result.status,
            output: result.output.shown().into_owned(),
            error: result.error,
            after: Some(applied.after_execution),
        };
        let author = match card {
            CardLookup::Found(card) => card.author_id.as_str(),
            CardLookup::Missing => "tool service",
        };
        let by = Principal::program(author);
        let mut done = engine.deliver(run, call, &by, delivered).await;
        if let Err(RunError::Refused(Refusal::InvalidDelivery { reason, .. })) = &done {
            // Cards never change, so no later callback could mend it. An agent can.
            let error = CallError::new(ErrorCode::InvalidOutput, reason.as_str());
            let failed = Delivered { status: CallStatus::Failed, output: Json::null(), error: Some(error), after: None };
            done = engine.deliver(run, call, &by, failed).await;
        }
        match done {
            Ok(_) => Ok(Next::Acknowledge),
            Err(RunError::Refused(refusal)) => {
                tracing::debug!(%run, %call, %refusal, "a callback changed nothing");
                Ok(Next::Acknowledge)
            }
            Err(error) => Err(error),
        }
    }

    /// Publishes a message that is refused, with the reason.
    pub(crate) async fn refuse(&self, message: &Message, reason: &DeadReason) -> Next {
        let letter = DeadLetter::of(&message.subject, reason.code.as_str(), &reason.reason, &message.payload);
        tracing::warn!(subject = %message.subject, code = reason.code.as_str(), reason = %reason.reason, "a message was refused");
        match self.publish(Kept::DeadLetters, self.subject(Kind::DeadLetter), None, &letter).await {
            Ok(()) => Next::Acknowledge,
            // The reason must not be lost with its message.
            Err(error) => {
                tracing::warn!(%error, "a dead letter was not kept");
                Next::After(AWAY_PAUSE)
            }
        }
    }

    /// Returns what the timeline knows about the call of a callback; `None` if it has no such call.
    async fn known(&self, engine: &Engine, received: &Received) -> Result<Option<(Known, RunId, CallId)>, RunError> {
        let Some(((run, _), call)) = received.agent_turn_id.named().zip(received.tool_call_id.named()) else { return Ok(None) };
        let Some(record) = engine.store().run(&run).await?.filter(|record| record.last_seq > 0) else { return Ok(None) };
        let entries = self.entries(engine, &run, &call.task(), record.last_seq).await?;
        let of = |configs: &Configs| Known::of(&run, &call, entries.iter().map(|recorded| &recorded.entry), configs);
        let mut known = of(&*engine.pinned_configs(&engine.started(&run).await?).await?);
        let is_call = |entry: &Entry| matches!(entry, Entry::CallStarted(started) if started.call == call);
        if known.is_none() && entries.iter().any(|recorded| is_call(&recorded.entry)) {
            // The tool came with configs that the run has adopted since.
            known = of(engine.state(&run).await?.configs());
        }
        Ok(known.map(|known| (known, run, call)))
    }
}
