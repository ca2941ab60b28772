//! Moments as the timeline records them. The core never reads a clock: moments arrive with events.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment, in microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The last moment.
    pub const MAX: Self = Self(i64::MAX);

    /// Returns a moment from microseconds since 1970.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Returns the moment that `text` names in ISO 8601 with its offset, such as `2027-01-31T09:00:00Z`.
    pub fn parse(text: &str) -> Result<Self, jiff::Error> {
        text.parse::<jiff::Timestamp>().map(|moment| Self(moment.as_microsecond()))
    }

    /// Microseconds since 1970.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Returns the moment `duration` later; at most the end of time.
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Returns the time from `earlier` to this moment; zero if it is before (clocks may step back).
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    /// Writes ISO 8601 in UTC with microseconds: `2026-11-21T09:30:00.000000Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(moment) => write!(f, "{moment:.6}"),
            Err(_) => write!(f, "{}µs", self.0),
        }
    }
}
