//! The simulated bus: keeps messages until they are acknowledged, and promises nothing else.
//!
//! A message may be lost, stored twice, delayed and taken in any order. One that was taken and not acknowledged comes again.

use std::collections::BTreeSet;
use std::time::Duration;

use baton_types::time::Timestamp;

use super::faults::Fault;
use super::world::World;

/// Time after which a message that was taken and not acknowledged comes again.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(30);

/// Longest delay of a message, in seconds.
const LONGEST_DELAY: usize = 120;

/// The messages on the bus.
#[derive(Default)]
pub(super) struct Bus {
    messages: Vec<Message>,
    last: u64,
    /// Ids of messages that were stored. A second message with the same id is dropped.
    known: BTreeSet<String>,
}

/// A message on the bus.
pub(super) struct Message {
    pub(super) number: u64,
    pub(super) content: Content,
    /// The moment from which it can be taken, on the clock of the store.
    from: Timestamp,
    was_taken: bool,
}

/// Content of a message.
#[derive(Clone)]
pub(super) enum Content {
    /// The run needs an owner.
    WakeUp,
    /// A command for the tool service, as its bytes.
    Command(Vec<u8>),
    /// A callback of the tool service, as its bytes.
    Callback {
        payload: Vec<u8>,
        /// Whether it names another epoch than the call has.
        is_stale: bool,
    },
}

impl Bus {
    /// Returns the numbers of the messages that can be taken at `now` and are of the wanted kind.
    pub(super) fn available(&self, now: Timestamp, is_wanted: impl Fn(&Content) -> bool) -> impl Iterator<Item = u64> {
        let available = self.messages.iter().filter(move |message| message.from <= now && is_wanted(&message.content));
        available.map(|message| message.number)
    }

    /// Returns the next moment after `now` from which a message can be taken.
    pub(super) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        self.messages.iter().map(|message| message.from).filter(|from| *from > now).min()
    }

    pub(super) fn message(&self, number: u64) -> Option<&Message> {
        self.messages.iter().find(|message| message.number == number)
    }

    /// Keeps the message `number` from being taken before `from`.
    pub(super) fn put_back(&mut self, number: u64, from: Timestamp) {
        if let Some(message) = self.messages.iter_mut().find(|message| message.number == number) {
            message.from = from;
        }
    }

    fn store(&mut self, content: Content, from: Timestamp) {
        self.last += 1;
        self.messages.push(Message { number: self.last, content, from, was_taken: false });
    }

    /// Forgets all messages, as a server does that starts with an empty disk.
    pub(super) fn clear(&mut self) {
        self.messages.clear();
        self.known.clear();
    }
}

impl World {
    /// Publishes a message. One with an `id` that the bus knows is dropped.
    pub(super) fn publish(&mut self, id: Option<String>, content: Content) {
        if self.faulty && self.random.once_in(8) {
            return self.faults.count(Fault::LostMessage);
        }
        if id.is_some_and(|id| !self.bus.known.insert(id)) {
            return;
        }
        let mut copies = 1;
        if self.faulty && self.random.once_in(8) {
            self.faults.count(Fault::DoubledMessage);
            copies = 2;
        }
        for _ in 0..copies {
            let mut from = self.store.now;
            if self.faulty && self.random.once_in(4) {
                self.faults.count(Fault::DelayedMessage);
                from = from.plus(Duration::from_secs(1 + self.random.below(LONGEST_DELAY) as u64));
            }
            self.bus.store(content.clone(), from);
        }
    }

    /// Takes the message `number`. It comes again if it is not acknowledged in time.
    pub(super) fn take_message(&mut self, number: u64) -> Option<Content> {
        let again = self.store.now.plus(ACKNOWLEDGED_WITHIN);
        let message = self.bus.messages.iter_mut().find(|message| message.number == number)?;
        message.from = again;
        let content = message.content.clone();
        if std::mem::replace(&mut message.was_taken, true) {
            self.faults.count(Fault::Redelivery);
        }
        Some(content)
    }

    /// Removes an acknowledged message, unless the acknowledgement is lost.
    pub(super) fn remove_message(&mut self, number: u64) {
        if self.faulty && self.random.once_in(20) {
            return self.faults.count(Fault::LostAcknowledgement);
        }
        self.bus.messages.retain(|message| message.number != number);
    }
}
