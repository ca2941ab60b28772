//! Error codes of results: an open set. The seed names five, and services may use others.

use std::borrow::Cow;
use std::fmt;

use baton_types::call::ErrorCode as TimelineCode;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use crate::id::{MAX_NAME_LENGTH, is_name};

/// The code of an error: any name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct ErrorCode(Cow<'static, str>);

impl ErrorCode {
    /// A time limit passed.
    pub const TOOL_TIMEOUT: Self = Self(Cow::Borrowed("tool_timeout"));
    /// The service has no valid credentials for what it calls.
    pub const AUTH_FAILED: Self = Self(Cow::Borrowed("auth_failed"));
    /// The input is wrong.
    pub const BAD_REQUEST: Self = Self(Cow::Borrowed("bad_request"));
    /// Something that the service needs does not answer.
    pub const UPSTREAM_UNAVAILABLE: Self = Self(Cow::Borrowed("upstream_unavailable"));
    /// A defect of the service.
    pub const INTERNAL_ERROR: Self = Self(Cow::Borrowed("internal_error"));
    /// The five codes of seed 004, section 5.
    pub const OF_SEED: [Self; 5] =
        [Self::TOOL_TIMEOUT, Self::AUTH_FAILED, Self::BAD_REQUEST, Self::UPSTREAM_UNAVAILABLE, Self::INTERNAL_ERROR];
    /// A result had an unknown status.
    pub const INVALID_STATUS: Self = Self(Cow::Borrowed("invalid_status"));
    /// A result without success had no error.
    pub const UNKNOWN_ERROR: Self = Self(Cow::Borrowed("unknown_error"));
    /// A result could not be written as JSON.
    pub const RESULT_NOT_SERIALIZABLE: Self = Self(Cow::Borrowed("result_not_serializable"));
    /// A crash left it unknown whether the call had its effect.
    pub const UNKNOWN_OUTCOME: Self = Self(Cow::Borrowed("unknown_outcome"));
    /// A call was cancelled.
    pub const CANCELED: Self = Self(Cow::Borrowed("canceled"));

    /// Takes `text` as a code, if it is a name.
    pub fn parse(text: &str) -> Option<Self> {
        is_name(text).then(|| Self(Cow::Owned(text.to_owned())))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the code of a timeline that comes closest. The message and the detail keep the rest.
    pub fn on_timeline(&self) -> TimelineCode {
        match self.as_str() {
            "tool_timeout" => TimelineCode::TimedOut,
            "bad_request" => TimelineCode::InvalidInput,
            "canceled" => TimelineCode::Cancelled,
            "unknown_outcome" => TimelineCode::UnknownOutcome,
            _ => TimelineCode::ToolFailed,
        }
    }
}

impl From<TimelineCode> for ErrorCode {
    /// Returns the code of the seed with the same meaning, or else a code of the same name: the set is open.
    fn from(code: TimelineCode) -> Self {
        match code {
            TimelineCode::TimedOut => Self::TOOL_TIMEOUT,
            TimelineCode::InvalidInput | TimelineCode::MalformedInput => Self::BAD_REQUEST,
            TimelineCode::Panicked => Self::INTERNAL_ERROR,
            TimelineCode::ModelUnavailable => Self::UPSTREAM_UNAVAILABLE,
            TimelineCode::Cancelled => Self::CANCELED,
            other => Self(Cow::Borrowed(other.as_str())),
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JsonSchema for ErrorCode {
    fn schema_name() -> Cow<'static, str> {
        "ErrorCode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let known: Vec<String> = Self::OF_SEED.into_iter().map(|code| code.0.into_owned()).collect();
        json_schema!({"type": "string", "minLength": 1, "maxLength": MAX_NAME_LENGTH, "examples": known})
    }

    fn inline_schema() -> bool {
        true
    }
}
