//! The state of a run outside its tasks: counters, queues, deadlines, the workspace.

use std::collections::{BTreeMap, BTreeSet};

use crate::approved_class::ApprovedClass;
use crate::prelude::*;

/// The state of a run outside its tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shared {
    /// The last entry's number.
    pub seq: u64,
    /// The last entry's decision.
    pub decision: u64,
    /// The moment of the last entry.
    pub latest: Timestamp,
    /// The first entry, as later adoptions changed it.
    pub started: Option<Arc<RunStarted>>,
    /// The moment of the first entry.
    pub started_at: Timestamp,
    /// The entry that ended the run.
    pub ended: Option<RunEnded>,
    /// The workspace.
    pub documents: Documents,
    /// Whether no further step is taken: a person paused the run, or it is quarantined.
    pub paused: bool,
    /// Whether the run is paused since its owners died. Its work in progress is lost, and begins again when a person unpauses it.
    pub quarantined: bool,
    /// Number of owners that died since a turn or a call last ended.
    pub deaths: u32,
    /// Whether the process that owns the run is about to release it. Not on the timeline.
    pub releasing: bool,
    /// Turns asked for in the whole run.
    pub turns: u32,
    /// Tasks that have not ended and that an agent holds; each has its last turn set aside.
    pub live_agent_tasks: u32,
    /// Tasks that have not ended.
    pub live_tasks: u32,
    /// Tasks that have not ended and that a person holds: questions that wait for an answer.
    pub open_questions: u32,
    /// Tasks that are ready or running.
    pub active_tasks: u32,
    /// Time during which some task was active, up to [`Shared::active_since`].
    pub worked: Duration,
    /// The moment since which some task is active.
    pub active_since: Option<Timestamp>,
    /// Running function calls.
    pub running_functions: u32,
    /// Suspended calls.
    pub suspended_calls: u32,
    /// Tokens used by all requests.
    pub usage: Usage,
    /// Cost of all requests.
    pub cost: Cost,
    /// The amounts reserved for open requests.
    pub reserved: Reservation,
    /// The amounts that the earlier runs of the session used.
    pub before: Before,
    /// For each model, the tokens that its provider counted for estimated ones.
    pub counted: BTreeMap<String, Counted>,
    /// Calls of the whole run, counted as [`Task::calls`] are.
    pub calls: u32,
    /// Ready tasks, by the number of the entry that made them ready.
    pub ready: BTreeMap<u64, TaskIndex>,
    /// Tasks with function calls that have not begun, by the number of the entry that put them into this queue.
    pub waiting_for_calls: BTreeMap<u64, TaskIndex>,
    /// Deadlines of tasks.
    pub deadlines: BTreeSet<(Timestamp, TaskId)>,
    /// Moments of calls: of the next attempts at failed delegations, and of suspended calls.
    pub alarms: BTreeSet<(Timestamp, CallId)>,
    /// The questions, in the order of their numbers.
    pub questions: Vec<TaskId>,
    /// The classes of calls that people approved.
    pub classes: Vec<ApprovedClass>,
    /// Whether a task or the run has a limit of tokens or money, so that reservations above a task must be kept.
    pub has_budgets: bool,
}

/// The amounts that the earlier runs of a session used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// Turns.
    pub turns: u32,
    /// Calls, counted as [`Task::calls`] are.
    pub calls: u32,
    /// Tokens.
    pub tokens: u64,
    /// Cost of the tokens whose price is known.
    pub cost: Money,
}
