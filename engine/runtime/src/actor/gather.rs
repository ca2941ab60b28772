//! Gather: turns all sources of events into one list, without deciding anything.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use baton_store::StoreError;
use baton_types::event::{Event, Refusal};
use futures_util::StreamExt;

use super::{Actor, MESSAGES_PER_COMMIT};
use crate::clock::sleep_until;
use crate::command::Command;
use crate::handle::{Incoming, Message, OpenQuestion};

/// Time after which an owner that wakes for another reason reads its inbox again, since a notification may be lost.
const INBOX_INTERVAL: Duration = Duration::from_secs(1);

impl Actor {
    /// Waits for an event, then takes all that are there. Also returns the numbers of unreadable commands.
    pub(super) async fn gather(&mut self) -> Result<(VecDeque<Incoming>, Vec<u64>), StoreError> {
        if !self.work.undecided.is_empty() {
            // Other runs must still have their turn.
            tokio::task::coop::consume_budget().await;
            return Ok((std::mem::take(&mut self.work.undecided), Vec::new()));
        }
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
        let mut incoming = VecDeque::with_capacity(messages.len());
        for (position, message) in messages.into_iter().enumerate() {
            self.take(message, position < done_at_once, &mut incoming);
        }
        let consumed = self.take_commands(&mut incoming).await?;
        let due = self.outages.due(self.shared.clock.now());
        self.work.to_ask.extend(due);
        if let Some(wake) = wake.filter(|wake| *wake <= self.shared.clock.now()) {
            self.work.woken_for = Some(wake);
            incoming.push_back(Event::TimePassed.into());
        }
        Ok((incoming, consumed))
    }

    /// Takes a message, and appends the events in it to `incoming`. Work that was `done_at_once` is not counted as running.
    pub(super) fn take(&mut self, message: Message, done_at_once: bool, incoming: &mut VecDeque<Incoming>) {
        match message {
            Message::Event(next) => {
                if !done_at_once {
                    self.work.note_done(&next.event);
                }
                if let Event::CallReturned { call, .. } | Event::CallSuspended { call, .. } = &*next.event {
                    self.work.forget_call(call);
                }
                let before = if let Event::ModelAnswered { task, .. } = &*next.event { self.answered(task) } else { None };
                incoming.extend(before.map(Incoming::from));
                incoming.push_back(next);
            }
            Message::Unanswered(unanswered) => {
                if !done_at_once {
                    self.work.note_done_for(unanswered.task.clone());
                }
                let failed = self.unanswered(*unanswered);
                incoming.extend(failed.map(Incoming::from));
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

    /// Takes the commands that other processes put into the inbox. Returns the numbers of those that cannot be read.
    async fn take_commands(&mut self, incoming: &mut VecDeque<Incoming>) -> Result<Vec<u64>, StoreError> {
        let mut unreadable = Vec::new();
        for (number, event) in std::mem::take(&mut self.commands.early) {
            self.take_command(number, event, incoming);
        }
        if !std::mem::take(&mut self.commands.waiting) && self.commands.looked.elapsed() < INBOX_INTERVAL {
            return Ok(unreadable);
        }
        self.commands.looked = Instant::now();
        for (number, text) in self.shared.store.take_commands(&self.id, self.commands.taken).await? {
            self.commands.taken = number;
            match serde_json::from_str::<Command>(text.text()) {
                Ok(command) => self.take_command(number, command.into(), incoming),
                Err(error) => {
                    unreadable.push(number);
                    tracing::warn!(run = %self.id, number, %error, "a command in the inbox cannot be read");
                }
            }
        }
        Ok(unreadable)
    }

    /// Takes the command `number`. A delivery for a call whose code is still running is kept for later.
    fn take_command(&mut self, number: u64, event: Event, incoming: &mut VecDeque<Incoming>) {
        if self.is_early(&event) {
            return self.commands.early.push((number, event));
        }
        incoming.push_back(Incoming { command: Some(number), ..event.into() });
    }

    fn is_early(&self, event: &Event) -> bool {
        matches!(event, Event::ResultDelivered { .. }) && matches!(self.run.check(event), Err(Refusal::StillRunning { .. }))
    }

    pub(super) fn has_ended_early_call(&self) -> bool {
        self.commands.early.iter().any(|(_, event)| !self.is_early(event))
    }
}
