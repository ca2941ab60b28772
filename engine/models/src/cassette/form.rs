//! The form of a cassette, and what of an exchange goes into it.

use std::time::Duration;

use baton_types::id::{AgentId, CallId, TaskId};
use baton_types::model::ModelRequest;
use serde::{Deserialize, Serialize};

use super::body::Body;

/// One exchange with a provider, as its file has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cassette {
    pub(super) occasion: Occasion,
    /// Which request on this occasion it was, from 1: those that were made again, and those to fallbacks, count.
    pub(super) attempt: u32,
    pub(super) request: Sent,
    /// Received answer; missing if none came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) answer: Option<Came>,
    /// Why there is no whole answer; missing if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<NoAnswer>,
    /// When the answer was given up: the task or the call that waited for it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) given_up_after_milliseconds: Option<u64>,
}

/// Reason for a request: a turn of a task, or a question from the code of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Occasion {
    task: TaskId,
    /// The call whose tool asks; missing where the agent itself does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call: Option<CallId>,
    /// The agent, or the tool.
    agent: AgentId,
    /// The task's turn, or how often the call has asked, this time included.
    turn: u32,
    /// The model, by the job's name for it.
    pub(super) model: String,
}

/// A request, without its headers and without the provider's address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sent {
    pub(super) provider: String,
    pub(super) path: String,
    pub(super) body: Body,
}

/// An answer, as far as it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Came {
    pub(super) status: u16,
    pub(super) content_type: String,
    /// For how long the provider asked to be left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) retry_after_milliseconds: Option<u64>,
    pub(super) body: Body,
}

/// Why there is no whole answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum NoAnswer {
    /// Nothing could be sent, or nothing came back.
    Unreachable {
        /// Why, without an address.
        reason: String,
    },
    /// The connection broke in the middle of the answer.
    Broke {
        /// Why, without an address.
        reason: String,
    },
    /// The provider took too long.
    TimedOut {
        /// For what.
        waiting_for: Wait,
    },
    /// Nothing was sent, because the provider had asked to be left alone.
    LeftAlone {
        /// For how much longer.
        milliseconds: u64,
    },
}

/// A step of an exchange that has a time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Wait {
    /// A connection.
    Connection,
    /// The beginning of an answer.
    FirstByte,
    /// The next bytes of one.
    NextBytes,
    /// The end of one.
    WholeAnswer,
}

/// Answer to a request, recorded while it arrives.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Status, type of the content, and for how long the provider asked to be left alone.
    pub(crate) head: Option<(u16, String, Option<Duration>)>,
    pub(crate) body: Vec<u8>,
    pub(crate) no_answer: Option<NoAnswer>,
}

impl NoAnswer {
    /// Records that the provider had asked for a pause, of which `left` remained.
    pub(crate) fn left_alone(left: Duration) -> Self {
        Self::LeftAlone { milliseconds: milliseconds(left) }
    }
}

impl Occasion {
    pub(crate) fn of(request: &ModelRequest) -> Self {
        Self {
            task: request.task.clone(),
            call: request.call.clone(),
            agent: request.agent.clone(),
            turn: request.turn,
            model: request.model.clone(),
        }
    }

    /// Returns the file name of its request number `attempt`. Names sort by task and turn.
    pub(super) fn file(&self, attempt: u32) -> String {
        let (place, what) = match &self.call {
            Some(call) => (call.as_str(), "ask"),
            None => (self.task.as_str(), "turn"),
        };
        // Ids are made of small letters, digits, points and slashes, so no two become one.
        format!("{}.{what}-{:03}.{attempt}.json", place.replace('/', "-"), self.turn)
    }
}

/// `duration` in whole milliseconds.
pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
