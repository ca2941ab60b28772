//! The phase of a task. Each phase owns the fields that only it has.
//!
//! Waiting is a phase of its own, although it follows from the calls. A task waits only for something that the phase names,
//! so the type rules out a task that waits for nothing. Two phases hold more than their names suggest. A ready task keeps the
//! calls of the turn before, because rule *end* reads their results after the last one made the task ready. A request without
//! an answer leaves its purpose behind, because the same turn is asked for again.

use crate::prelude::*;

/// The phase of a task. Only [`Phase::Ended`] is final.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// It may ask its model, as soon as limits admit the request.
    Ready(Next),
    /// A request is open.
    Asking(Request),
    /// Calls of its turn are in progress.
    Acting(Box<OpenCalls>),
    /// It can do nothing until others act.
    Waiting(Wait),
    /// It has its one result.
    Ended(FinalState),
}

/// The next request of a ready task.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Its first turn, or a turn after a summary.
    Turn,
    /// The turn after these calls, which all have results.
    After(Box<OpenCalls>),
    /// The newest turn once more: its request got no answer.
    Again(Purpose),
}

/// The reason why a task waits.
#[derive(Clone, Debug, PartialEq)]
pub enum Wait {
    /// Delegations, questions, approvals or unknown outcomes of its turn.
    Calls(Box<OpenCalls>),
    /// The answer of the person that holds it.
    Person,
    /// The task of the next master, to which its question was escalated.
    Escalated(TaskId),
    /// The end of a background task that it began.
    BackgroundTasks,
}

/// An open request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Its purpose.
    pub purpose: Purpose,
    /// The fallback model of this turn, if the task's own is not available.
    pub fallback: Option<Arc<str>>,
    /// Whether it has cost nothing, because its provider was unavailable when the run stopped.
    pub uncharged: bool,
}

/// The purpose of a request to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A turn of the work.
    Turn,
    /// The last turn of the work, because this limit is reached.
    LastTurn(LimitKind),
    /// A summary of older turns.
    Summary {
        /// The last turn that it replaces.
        through_turn: u32,
    },
}

impl Phase {
    /// Returns the name of the phase.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Ready(_) => "ready",
            Self::Asking(_) => "asking",
            Self::Acting(_) => "acting",
            Self::Waiting(_) => "waiting",
            Self::Ended(state) => state.as_str(),
        }
    }

    /// Whether it counts as work: the task can proceed without others.
    pub const fn is_active(&self) -> bool {
        matches!(self, Self::Ready(_) | Self::Asking(_) | Self::Acting(_))
    }

    /// Whether the model may be asked.
    pub const fn is_ready(&self) -> bool {
        matches!(self, Self::Ready(_))
    }

    /// Returns the open request.
    pub const fn request(&self) -> Option<&Request> {
        match self {
            Self::Asking(request) => Some(request),
            _ => None,
        }
    }

    /// Returns the calls of the newest turn, until the next request.
    pub fn calls(&self) -> Option<&OpenCalls> {
        match self {
            Self::Ready(Next::After(calls)) | Self::Acting(calls) | Self::Waiting(Wait::Calls(calls)) => Some(calls),
            _ => None,
        }
    }

    /// Returns the calls of the newest turn, for `apply` to change.
    pub(super) fn calls_mut(&mut self) -> Option<&mut OpenCalls> {
        match self {
            Self::Ready(Next::After(calls)) | Self::Acting(calls) | Self::Waiting(Wait::Calls(calls)) => Some(calls),
            _ => None,
        }
    }

    /// Returns the phase that follows from the calls of the turn. It is ready if each call has its result, waiting if the
    /// turn cannot proceed without others, and acting otherwise.
    pub(super) fn after_change(self) -> Self {
        match self {
            // Also of a turn that was over: the engine may make a call after the last result.
            Self::Ready(Next::After(calls)) | Self::Acting(calls) | Self::Waiting(Wait::Calls(calls)) => {
                if calls.counts().unfinished == 0 {
                    Self::Ready(Next::After(calls))
                } else if calls.waits() {
                    Self::Waiting(Wait::Calls(calls))
                } else {
                    Self::Acting(calls)
                }
            }
            other => other,
        }
    }

    /// Returns the purpose of the newest request, until its turn is over.
    pub fn purpose(&self) -> Purpose {
        match self {
            Self::Ready(Next::Again(purpose)) => *purpose,
            Self::Asking(request) => request.purpose,
            other => other.calls().map_or(Purpose::Turn, |calls| calls.purpose),
        }
    }

    /// Returns the task to which the question was escalated, and which answers in place of this one.
    pub const fn escalated(&self) -> Option<&TaskId> {
        match self {
            Self::Waiting(Wait::Escalated(task)) => Some(task),
            _ => None,
        }
    }
}

impl Purpose {
    /// Whether the request is for a summary alone.
    pub const fn is_summary(self) -> bool {
        matches!(self, Self::Summary { .. })
    }

    /// Returns the limit that makes the turn the last one.
    pub const fn last_turn(self) -> Option<LimitKind> {
        match self {
            Self::LastTurn(limit) => Some(limit),
            Self::Turn | Self::Summary { .. } => None,
        }
    }
}
