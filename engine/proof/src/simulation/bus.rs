//! The simulated bus: keeps messages until they are acknowledged, and promises nothing else.
//!
//! A message may be lost, stored twice, delayed and taken in any order. One that was taken and not acknowledged comes again.

use std::collections::BTreeSet;
use std::time::Duration;

use baton_types::time::Timestamp;

/// Time after which a message that was taken and not acknowledged comes again.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(30);

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

    /// Stores a message that can be taken from `from` on.
    pub(super) fn store(&mut self, content: Content, from: Timestamp) {
        self.last += 1;
        self.messages.push(Message { number: self.last, content, from, was_taken: false });
    }

    /// Keeps the id of a message. Returns false if the bus knows it.
    pub(super) fn keep_id(&mut self, id: String) -> bool {
        self.known.insert(id)
    }

    /// Takes the message `number`, which comes again if it is not acknowledged in time. Returns whether it was taken before, too.
    pub(super) fn take(&mut self, number: u64, now: Timestamp) -> Option<(Content, bool)> {
        let message = self.messages.iter_mut().find(|message| message.number == number)?;
        message.from = now.plus(ACKNOWLEDGED_WITHIN);
        Some((message.content.clone(), std::mem::replace(&mut message.was_taken, true)))
    }

    /// Removes an acknowledged message.
    pub(super) fn remove(&mut self, number: u64) {
        self.messages.retain(|message| message.number != number);
    }

    /// Forgets all messages, as a server does that starts with an empty disk.
    pub(super) fn clear(&mut self) {
        self.messages.clear();
        self.known.clear();
    }
}
