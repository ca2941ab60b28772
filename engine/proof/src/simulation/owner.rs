//! A process that owns the run, or believes it does: the three steps of the shell, without threads.

use std::collections::VecDeque;

use baton_machine::Run;
use baton_types::event::{Effect, Event};
use baton_types::id::TaskId;
use baton_types::time::Timestamp;

use super::store::Batch;
use crate::script::Execution;

/// One process.
pub(super) struct Owner {
    pub(super) id: u64,
    pub(super) epoch: u64,
    /// The run in memory, ahead of the store while a commit is under way.
    pub(super) run: Run,
    /// Entries never step back in time, whatever the clock does.
    pub(super) last: Timestamp,
    pub(super) mailbox: VecDeque<Event>,
    /// The last command that it took from the inbox.
    pub(super) taken: u64,
    /// Commit that it waits for.
    pub(super) commit: Option<Commit>,
    pub(super) asleep: bool,
    /// The moment that it was last woken for.
    pub(super) woken_for: Option<Timestamp>,
}

/// A batch on its way to the store, and what is to be done once it is durable.
pub(super) struct Commit {
    pub(super) batch: Batch,
    pub(super) effects: Vec<Effect>,
}

/// Something that a process has others do.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// A model answers.
    Prompt { task: TaskId, turn: u32 },
    /// A tool runs.
    Execute(Execution),
}

impl Work {
    pub(super) fn task(&self) -> &TaskId {
        match self {
            Self::Prompt { task, .. } => task,
            Self::Execute(execution) => &execution.task,
        }
    }
}

impl Owner {
    /// Whether there is something for it to decide at `now`.
    pub(super) fn has_events(&self, now: Timestamp, commands: bool) -> bool {
        self.commit.is_none() && (!self.mailbox.is_empty() || commands || self.due(now).is_some())
    }

    /// Returns the passed deadline that was not reported yet.
    pub(super) fn due(&self, now: Timestamp) -> Option<Timestamp> {
        self.run.next_wake().filter(|wake| *wake <= now && self.woken_for != Some(*wake))
    }
}
