//! A process that owns the run, or believes it does: the three steps of the shell, without threads.

use std::collections::VecDeque;
use std::time::Duration;

use baton_machine::Run;
use baton_types::event::{Effect, Event};
use baton_types::id::TaskId;
use baton_types::time::Timestamp;

use super::store::Batch;
use crate::script::Execution;

/// Time between two commands of a suspended call.
const REPEATED_AFTER: Duration = Duration::from_mins(1);

/// The run in one process.
pub(super) struct Owner {
    pub(super) id: u64,
    /// The worker whose process it is in.
    pub(super) worker: u64,
    /// Whether a person started it. It keeps the run while the run waits.
    pub(super) is_attended: bool,
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
    /// Whether its take-over is durable.
    pub(super) has_begun: bool,
    /// The moment that it was last woken for.
    pub(super) woken_for: Option<Timestamp>,
    pub(super) sending: Sending,
}

/// The state of the commands for tool services.
pub(super) struct Sending {
    /// The moment up to which commands that had to be repeated were sent.
    pub(super) through: Timestamp,
    /// The next moment at which a command may have to be repeated.
    pub(super) next: Option<Timestamp>,
    /// Whether a former owner may not have sent its commands: it did not release the run.
    pub(super) is_behind: bool,
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
        let sends = self.sending.next.is_some_and(|next| next <= now);
        self.commit.is_none() && (!self.mailbox.is_empty() || commands || sends || self.due(now).is_some())
    }

    /// Returns the passed deadline that was not reported yet.
    pub(super) fn due(&self, now: Timestamp) -> Option<Timestamp> {
        self.run.next_wake().filter(|wake| *wake <= now && self.woken_for != Some(*wake))
    }

    /// Whether it releases the run as soon as nothing runs for it.
    pub(super) fn releases(&self) -> bool {
        let run = &self.run;
        run.started().is_some() && run.ended().is_none() && (run.totals().releasing || (run.is_idle() && !self.is_attended))
    }
}

/// Returns the first moment after `after` at which the command of a call that was suspended at `since` is repeated.
pub(super) fn repetition_after(since: Timestamp, after: Timestamp) -> Timestamp {
    let passed = after.since(since).as_secs() / REPEATED_AFTER.as_secs() + 1;
    since.plus(REPEATED_AFTER.saturating_mul(u32::try_from(passed).unwrap_or(u32::MAX)))
}
