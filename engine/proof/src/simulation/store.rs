//! The simulated store: one timeline, an epoch, an inbox. It keeps the promises of a store, and no others.

use baton_types::entry::Recorded;
use baton_types::event::Event;

/// Durable state.
#[derive(Default)]
pub(super) struct Store {
    entries: Vec<Recorded>,
    epoch: u64,
    commands: Vec<(u64, Event)>,
    last_command: u64,
}

/// Content of one commit.
pub(super) struct Batch {
    pub(super) epoch: u64,
    pub(super) expected_seq: u64,
    pub(super) entries: Vec<Recorded>,
    /// The commands that the entries carried out.
    pub(super) consumed: Vec<u64>,
}

impl Store {
    pub(super) fn entries(&self) -> &[Recorded] {
        &self.entries
    }

    pub(super) fn last_seq(&self) -> u64 {
        self.entries.len() as u64
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Gives the run to a new owner.
    pub(super) fn take_over(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch
    }

    /// Appends all of `batch`, or nothing and false: a compare-and-swap on epoch and sequence.
    pub(super) fn append(&mut self, batch: &Batch) -> bool {
        if batch.epoch != self.epoch || batch.expected_seq != self.last_seq() {
            return false;
        }
        self.entries.extend(batch.entries.iter().cloned());
        self.commands.retain(|(number, _)| !batch.consumed.contains(number));
        true
    }

    pub(super) fn put_command(&mut self, command: Event) {
        self.last_command += 1;
        self.commands.push((self.last_command, command));
    }

    /// Returns the commands after number `after`; they stay until a batch has consumed them.
    pub(super) fn commands(&self, after: u64) -> impl Iterator<Item = &(u64, Event)> {
        self.commands.iter().filter(move |(number, _)| *number > after)
    }
}
