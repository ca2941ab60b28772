//! The state of a worker.

use std::collections::VecDeque;

use baton_types::time::Timestamp;

use super::store::Record;

/// A process that executes the run when it needs an owner.
pub(super) struct Worker {
    pub(super) id: u64,
    pub(super) asleep: bool,
    /// The moment from which it renews its lease, on the clock of the store.
    pub(super) renews_from: Timestamp,
    /// The moment of its next look at the store.
    pub(super) next_look: Timestamp,
    /// Whether it executes the run, or tries to get it.
    pub(super) is_busy: bool,
    /// Whether an outage of the store stopped the run here. The worker still owns the run and does not execute it.
    pub(super) is_left: bool,
    /// The wake-up that it has taken.
    pub(super) announced: Option<Announced>,
    pub(super) attempt: Option<Attempt>,
    /// Callbacks that it has carried out and not acknowledged yet.
    pub(super) carried_out: VecDeque<u64>,
}

/// A wake-up that a worker has taken.
#[derive(Clone, Copy)]
pub(super) struct Announced {
    pub(super) message: u64,
    /// The epoch of the run at that moment.
    pub(super) epoch: u64,
}

/// An attempt to take the run over.
pub(super) struct Attempt {
    pub(super) takes: Takes,
    /// The ownership that it has read, and when.
    pub(super) read: Option<(Record, Timestamp)>,
    /// Whether another process was faster.
    pub(super) is_raced: bool,
}

/// The former owners from which a run may be taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// A dead owner or none. A person asks for it.
    IfFree,
    /// A dead owner or none.
    Unattended,
    /// This process itself, in which an outage stopped the run.
    Left,
}

impl Worker {
    pub(super) fn new(id: u64, now: Timestamp) -> Self {
        Self {
            id,
            asleep: false,
            renews_from: now,
            next_look: now,
            is_busy: false,
            is_left: false,
            announced: None,
            attempt: None,
            carried_out: VecDeque::new(),
        }
    }
}
