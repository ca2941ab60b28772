//! A tool service: gets commands from the bus, executes each call once, and answers with callbacks.
//!
//! The payloads, the card and the meaning of a callback are those of the real wire. Workers carry callbacks out: they put the result
//! into the inbox first, and acknowledge after that.

use baton_machine::CallStage;
use baton_types::call::{CallError, CallStatus, ErrorCode};
use baton_types::entry::{Entry, Recorded};
use baton_types::event::{Event, Outcome, Refusal};
use baton_types::id::{CallId, ContentHash, RunId};
use baton_types::principal::Principal;
use baton_utp::callback::Callback;
use baton_utp::card::{Card, Content as CardContent, Metadata, Role};
use baton_utp::command::ToolCommand;
use baton_utp::error_code::ErrorCode as ServiceError;
use baton_utp::id::{CardId, Name, ToolName, turn_epoch};
use baton_utp::result::{Given, ResultError};
use baton_utp::resume::{Applied, CallState, CardLookup, Decision, Known, Received, TurnState, decide};
use serde_json::json;

use super::bus::Content;
use super::faults::Fault;
use super::owner::repetition_after;
use super::world::{RUN, World};
use crate::finding::Invariant;
use crate::random::Random;

/// The author of the cards.
const SERVICE: &str = "service";

impl World {
    /// Sends the commands of the calls that `entries`, which are durable, suspend.
    pub(super) fn send_commands(&mut self, index: usize, entries: &[Recorded]) {
        for recorded in entries {
            let Entry::CallSuspended(suspended) = &recorded.entry else { continue };
            let again = repetition_after(recorded.at, recorded.at);
            let next = &mut self.owners[index].sending.next;
            *next = Some(next.map_or(again, |next| next.min(again)));
            self.send(index, &suspended.call, false);
        }
    }

    /// Sends again the commands whose moment has come, and those that a former owner may not have sent.
    pub(super) fn repeat_commands(&mut self, index: usize) {
        let (now, owner) = (self.now, &mut self.owners[index]);
        if !owner.has_begun || owner.sending.next.is_none_or(|next| next > now) {
            return;
        }
        let sending = &mut owner.sending;
        let through = std::mem::replace(&mut sending.through, now);
        let is_behind = std::mem::take(&mut sending.is_behind);
        let calls = owner.run.suspended_calls().map(|call| (call.id.clone(), call.suspended_at().unwrap_or(now)));
        let calls: Vec<_> = calls.filter(|(call, _)| is_served(&owner.run, call)).collect();
        sending.next = calls.iter().map(|(_, since)| repetition_after(*since, now)).min();
        for (call, since) in calls {
            if is_behind || repetition_after(since, through) <= now {
                self.send(index, &call, !is_behind);
            }
        }
    }

    /// Sends the command of a call, if a service executes it.
    fn send(&mut self, index: usize, call: &CallId, is_repeated: bool) {
        let run = &self.owners[index].run;
        let open = run.task(&call.task()).and_then(|task| Some((task.agent()?, task.call(call)?)));
        let Some((agent, open)) = open.filter(|(_, open)| open.stage == CallStage::Suspended) else { return };
        let Some(tool) = self.configs.tools.get(open.asked.tool.as_str()).filter(|tool| tool.service().is_some()) else { return };
        let after = tool.after_by_default();
        let command = ToolCommand::of(&RunId::from(RUN), call, agent, &tool.id, turn_epoch(call), after);
        let is_durable = self.known(call).is_some_and(|known| known.call != CallState::Unknown || known.turn == TurnState::Ended);
        if !is_durable {
            let what = format!("the command of {call} is sent before its suspension is durable");
            self.broken(Invariant::AcknowledgedIsDurable, what);
        }
        let id = (!is_repeated).then(|| call.to_string());
        self.publish(id, Content::Command(serde_json::to_vec(&command).expect("a command always serialises")));
    }

    fn known(&self, call: &CallId) -> Option<Known> {
        let entries = self.store.entries().iter().map(|recorded| &recorded.entry);
        Known::of(&RunId::from(RUN), call, entries, &self.configs)
    }

    /// Lets the service execute a command. It answers a repeated command with the card of the first one.
    pub(super) fn serve(&mut self, number: u64) {
        let Some(Content::Command(payload)) = self.take_message(number) else { return };
        let command = ToolCommand::read(&payload).expect("the engine's own command is valid");
        let call = command.control.tool_call_id.named().expect("the engine's own call has a name");
        if self.cards.contains_key(&call) {
            self.faults.count(Fault::RepeatedCommand);
        } else {
            let card = self.card(&command, &call);
            self.cards.insert(call.clone(), card);
            if let Err(what) = self.effects.serve(&call) {
                self.broken(Invariant::NoEffectTwice, what);
            }
        }
        if self.faulty && self.random.once_in(10) {
            // The command comes again.
            return self.faults.count(Fault::ServiceCrash);
        }
        let card = &self.cards[&call];
        let (card_id, status) = (card.card_id.clone(), card.result().expect("the service writes results only").status);
        let mut callback = Callback { control: command.control, step_id: command.step_id, status, tool_result_card_id: card_id };
        let payload = |callback: &Callback| serde_json::to_vec(callback).expect("a callback always serialises");
        let current = payload(&callback);
        if self.faulty && self.random.once_in(6) {
            self.faults.count(Fault::StaleCallback);
            let epoch = callback.control.turn_epoch;
            callback.control.turn_epoch = if self.random.once_in(2) { epoch + 1 } else { epoch.saturating_sub(1) };
            self.publish(None, Content::Callback { payload: payload(&callback), is_stale: true });
        }
        self.publish(None, Content::Callback { payload: current, is_stale: false });
        self.remove_message(number);
    }

    /// Returns the card with the result of a call: the same result each time.
    fn card(&self, command: &ToolCommand, call: &CallId) -> Card {
        let hash = ContentHash::of(format!("service of {call}").as_bytes());
        let number = hash.as_bytes().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
        let mut random = Random::seeded(self.seed ^ number);
        let fails = !self.straight && random.once_in(5);
        let given = if fails {
            Given::failed(ResultError::new(ServiceError::UNKNOWN_ERROR, "it went wrong"))
        } else {
            Given::success(&json!(random.below(1_000)))
        };
        let control = &command.control;
        Card {
            card_id: CardId::parse(&format!("card of {call}")).expect("a card of the service has a name"),
            project_id: Name::parse("default").expect("it is a name"),
            content: CardContent::ToolResult(given.content()),
            created_at: None,
            author_id: Name::parse(SERVICE).expect("it is a name"),
            metadata: Metadata {
                role: Role::Tool,
                agent_turn_id: control.agent_turn_id.clone(),
                step_id: command.step_id.clone(),
                tool_call_id: Some(control.tool_call_id.clone()),
                function_name: Some(command.tool_name.clone().unwrap_or_else(|| ToolName::parse("hire").expect("it is a name"))),
            },
        }
    }

    /// Lets a worker carry a callback out. It is acknowledged later, and comes again if the worker dies before that.
    pub(super) fn carry_out(&mut self, number: u64) {
        let awake: Vec<usize> = (0..self.workers.len()).filter(|index| !self.workers[*index].asleep).collect();
        let worker = *self.random.pick(&awake);
        let Some(Content::Callback { payload, is_stale }) = self.take_message(number) else { return };
        let received = Received::read(&payload).expect("the callback of the service is valid");
        let call = received.tool_call_id.named().expect("the engine's own call has a name");
        let Some(known) = self.known(&call) else {
            return self.broken(Invariant::AcknowledgedIsDurable, format!("a callback names {call}, which is not durable"));
        };
        let card = self.cards.get(&call).map_or(CardLookup::Missing, |card| CardLookup::Found(Box::new(card.clone())));
        match decide(&received, &known, &card) {
            Decision::Apply(_) if is_stale => {
                self.broken(Invariant::OneOwnerOneTurn, format!("a callback of another epoch is the result of {call}"));
            }
            Decision::Apply(applied) => {
                if !self.put_result(&call, &applied) {
                    return;
                }
            }
            Decision::Ignore(_) => {}
            Decision::Defer(pause) => {
                let from = self.store.now.plus(pause);
                return self.bus.put_back(number, from);
            }
            Decision::DeadLetter(reason) => {
                let what = format!("the callback of {call} is refused: {}", reason.reason);
                self.broken(Invariant::EveryCallHasOneResult, what);
            }
        }
        self.workers[worker].carried_out.push_back(number);
    }

    /// Puts the result of a call into the inbox. Returns false if it is not known whether the store has it.
    fn put_result(&mut self, call: &CallId, applied: &Applied) -> bool {
        let result = applied.content.to_result();
        let outcome = Outcome {
            status: result.status,
            error: result.error.clone(),
            after: Some(applied.after_execution),
            ..Outcome::success(result.output.shown().into_owned())
        };
        let event = |outcome| Event::ResultDelivered { call: call.clone(), by: Principal::program(SERVICE), outcome };
        let mut delivery = event(outcome);
        match self.checker.run().check(&delivery) {
            Ok(()) | Err(Refusal::StillRunning { .. }) => {}
            Err(Refusal::InvalidDelivery { reason, .. }) => {
                delivery = event(Outcome::error(CallStatus::Failed, CallError::new(ErrorCode::InvalidOutput, reason)));
            }
            // The callback changes nothing.
            Err(_) => return true,
        }
        if self.faulty && self.random.once_in(40) {
            self.faults.count(Fault::StoreError);
            return false;
        }
        self.send_command(delivery);
        if self.faulty && self.random.once_in(40) {
            self.faults.count(Fault::LostAnswer);
            return false;
        }
        true
    }

    /// Acknowledges a callback that was carried out.
    pub(super) fn acknowledge_callback(&mut self, number: u64) {
        if let Some(message) = self.bus.message(number)
            && let Content::Callback { payload, is_stale: false } = &message.content
            && let Some(call) = Received::read(payload).ok().and_then(|received| received.tool_call_id.named())
        {
            let waits =
                self.known(&call).is_some_and(|known| known.turn == TurnState::Suspended && known.call == CallState::Waiting);
            let is_delivered = |event: &Event| matches!(event, Event::ResultDelivered { call: of, .. } if *of == call);
            if waits && !self.store.commands(0).any(|(_, command)| is_delivered(command)) {
                let what = format!("the callback of {call} is acknowledged, and its result is not durable");
                self.broken(Invariant::AcknowledgedIsDurable, what);
            }
        }
        self.remove_message(number);
    }
}

/// Whether a service executes a call.
fn is_served(run: &baton_machine::Run, call: &CallId) -> bool {
    let asked = run.task(&call.task()).and_then(|task| task.call(call)).map(|open| &open.asked);
    asked.and_then(|asked| run.configs().tools.get(asked.tool.as_str())).is_some_and(|tool| tool.service().is_some())
}
