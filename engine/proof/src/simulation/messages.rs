//! The faults of the bus: messages are lost, doubled and delayed, and acknowledgements are lost.

use std::time::Duration;

use super::bus::Content;
use super::faults::Fault;
use super::world::World;

/// Longest delay of a message, in seconds.
const LONGEST_DELAY: usize = 120;

impl World {
    /// Publishes a message. A message whose `id` the bus has seen is dropped.
    pub(super) fn publish(&mut self, id: Option<String>, content: Content) {
        if self.faulty && self.random.once_in(8) {
            return self.faults.count(Fault::LostMessage);
        }
        if id.is_some_and(|id| !self.bus.keep_id(id)) {
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

    /// Takes the message `number`. Without an acknowledgement in time, the message comes again.
    pub(super) fn take_message(&mut self, number: u64) -> Option<Content> {
        let (content, is_repeated) = self.bus.take(number, self.store.now)?;
        if is_repeated {
            self.faults.count(Fault::Redelivery);
        }
        Some(content)
    }

    /// Removes an acknowledged message, unless the acknowledgement is lost.
    pub(super) fn remove_message(&mut self, number: u64) {
        if self.faulty && self.random.once_in(20) {
            return self.faults.count(Fault::LostAcknowledgement);
        }
        self.bus.remove(number);
    }
}
