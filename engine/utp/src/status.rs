//! The five statuses of a result, and what they are called on timelines.

use std::fmt;

use baton_types::call::CallStatus;
use schemars::JsonSchema;
use serde::Serialize;

/// Status of a tool's result (seed 004, section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Status {
    /// The tool did what was asked.
    Success,
    /// It did not. The error has the reason.
    Failed,
    /// Somebody stopped it.
    Canceled,
    /// It took too long.
    Timeout,
    /// It did a part.
    Partial,
}

impl Status {
    /// All statuses, in the order of the seed.
    pub const ALL: [Self; 5] = [Self::Success, Self::Failed, Self::Canceled, Self::Timeout, Self::Partial];

    /// Returns the spelling on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Timeout => "timeout",
            Self::Partial => "partial",
        }
    }

    /// Returns the status with this spelling, exactly.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<CallStatus> for Status {
    /// Returns the spelling of a timeline's status. An unknown outcome is `failed`, with the error code `unknown_outcome`.
    fn from(status: CallStatus) -> Self {
        match status {
            CallStatus::Success => Self::Success,
            CallStatus::Failed | CallStatus::UnknownOutcome => Self::Failed,
            CallStatus::Cancelled => Self::Canceled,
            CallStatus::Timeout => Self::Timeout,
            CallStatus::Partial => Self::Partial,
        }
    }
}

impl From<Status> for CallStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Success => Self::Success,
            Status::Failed => Self::Failed,
            Status::Canceled => Self::Cancelled,
            Status::Timeout => Self::Timeout,
            Status::Partial => Self::Partial,
        }
    }
}
