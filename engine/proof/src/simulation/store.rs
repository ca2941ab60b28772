//! The simulated store: one timeline, an owner with an epoch, an inbox, leases. It keeps the promises of a store, and no others.

use std::collections::BTreeMap;
use std::time::Duration;

use baton_types::entry::Recorded;
use baton_types::event::Event;
use baton_types::time::Timestamp;

/// Time for which a process is alive after it has renewed its lease.
pub(super) const LEASE: Duration = Duration::from_secs(20);

/// Durable state.
pub(super) struct Store {
    /// The clock of the store. Unlike the clocks of processes it never steps back.
    pub(super) now: Timestamp,
    entries: Vec<Recorded>,
    record: Record,
    /// When the run continues by itself, if its last owner released it while it waited.
    wakes: Option<Timestamp>,
    commands: Vec<(u64, Event)>,
    last_command: u64,
    leases: BTreeMap<u64, Lease>,
}

/// The ownership of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Number of take-overs.
    pub(super) epoch: u64,
    /// Process that took the run over last and has not released it.
    pub(super) owner: Option<u64>,
}

/// The lease of a process.
struct Lease {
    until: Timestamp,
    /// When it was renewed last after it had ended.
    revived: Option<Timestamp>,
}

/// Content of one commit.
pub(super) struct Batch {
    pub(super) epoch: u64,
    pub(super) expected_seq: u64,
    pub(super) entries: Vec<Recorded>,
    /// The commands that the entries carried out.
    pub(super) consumed: Vec<u64>,
    /// Whether the owner releases the run.
    pub(super) releases: bool,
    /// If the owner releases the run while it waits: when it continues by itself.
    pub(super) wakes: Option<Timestamp>,
}

impl Store {
    /// Returns a store with one run, which has no entries. A run that is queued is due at once.
    pub(super) fn new(now: Timestamp, is_queued: bool) -> Self {
        Self {
            now,
            entries: Vec::new(),
            record: Record { epoch: 0, owner: None },
            wakes: is_queued.then_some(Timestamp::default()),
            commands: Vec::new(),
            last_command: 0,
            leases: BTreeMap::new(),
        }
    }

    pub(super) fn entries(&self) -> &[Recorded] {
        &self.entries
    }

    pub(super) fn last_seq(&self) -> u64 {
        self.entries.len() as u64
    }

    pub(super) fn epoch(&self) -> u64 {
        self.record.epoch
    }

    pub(super) fn record(&self) -> Record {
        self.record
    }

    /// Gives the run, which has the epoch `epoch`, to `owner`, and returns its former owner. An error if another process was faster.
    pub(super) fn take_over(&mut self, owner: u64, epoch: u64) -> Result<Option<u64>, ()> {
        if self.record.epoch != epoch {
            return Err(());
        }
        let former = self.record.owner;
        self.record = Record { epoch: self.record.epoch + 1, owner: Some(owner) };
        // If this owner dies, the run should continue at once.
        self.wakes = self.wakes.map(|_| Timestamp::default());
        Ok(former)
    }

    /// Appends all of `batch`, or nothing and false: a compare-and-swap on epoch and sequence.
    pub(super) fn append(&mut self, batch: &Batch) -> bool {
        if batch.epoch != self.record.epoch || batch.expected_seq != self.last_seq() {
            return false;
        }
        self.entries.extend(batch.entries.iter().cloned());
        self.commands.retain(|(number, _)| !batch.consumed.contains(number));
        if batch.releases {
            (self.record.owner, self.wakes) = (None, batch.wakes);
        }
        true
    }

    /// Puts a command into the inbox and returns its number.
    pub(super) fn put_command(&mut self, command: Event) -> u64 {
        self.last_command += 1;
        self.commands.push((self.last_command, command));
        self.last_command
    }

    /// Returns the commands after number `after`; they stay until a batch has consumed them.
    pub(super) fn commands(&self, after: u64) -> impl Iterator<Item = &(u64, Event)> {
        self.commands.iter().filter(move |(number, _)| *number > after)
    }

    /// Whether the run was released while it waited and should continue, or an owner that took it over since may be dead.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.wakes.is_some_and(|wakes| wakes <= now || !self.commands.is_empty())
    }

    /// Returns when the run continues by itself, if workers may continue it at all.
    pub(super) fn wakes(&self) -> Option<Timestamp> {
        self.wakes
    }

    /// Queues another run, which continues this one.
    pub(super) fn queue(&mut self) {
        self.wakes = Some(Timestamp::default());
    }

    /// Renews the lease of a process.
    pub(super) fn renew(&mut self, process: u64) {
        let (now, until) = (self.now, self.now.plus(LEASE));
        let lease = self.leases.entry(process).or_insert(Lease { until, revived: None });
        if lease.until <= now {
            lease.revived = Some(now);
        }
        lease.until = until;
    }

    pub(super) fn is_alive(&self, process: u64) -> bool {
        self.alive_until(process) > self.now
    }

    /// Returns the end of the lease of a process.
    pub(super) fn alive_until(&self, process: u64) -> Timestamp {
        self.leases.get(&process).map_or(Timestamp::default(), |lease| lease.until)
    }

    /// Whether a process was alive at every moment since `since`, on this clock.
    pub(super) fn is_alive_since(&self, process: u64, since: Timestamp) -> bool {
        let revived = self.leases.get(&process).and_then(|lease| lease.revived);
        self.is_alive(process) && revived.is_none_or(|revived| revived < since)
    }
}
