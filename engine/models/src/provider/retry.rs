//! When a request is made again.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

use crate::error::ModelError;

/// How a request that failed for the moment is made again: after pauses that double, with jitter, or after what the
/// provider asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// How many more requests there are at most.
    pub most: usize,
    /// The pause before the first of them.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
    /// The longest pause that a provider may ask for. One that wants to be left alone for longer is not available.
    pub longest_asked: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { most: 4, first: Duration::from_millis(500), longest: seconds(30), longest_asked: seconds(120) }
    }
}

impl Retries {
    /// The pauses, one before each further request.
    pub(super) fn pauses(&self) -> impl Iterator<Item = Duration> + use<> {
        let pauses = ExponentialBuilder::new().with_min_delay(self.first).with_max_delay(self.longest);
        pauses.with_max_times(self.most).with_jitter().build()
    }

    /// How long to wait before asking again after `error`; `None` if asking again is no use.
    pub(super) fn pause(&self, error: &ModelError, next: Option<Duration>) -> Option<Duration> {
        let next = next.filter(|_| error.is_retryable())?;
        match error {
            ModelError::RateLimited { retry_after: Some(asked), .. } if *asked > self.longest_asked => None,
            ModelError::RateLimited { retry_after: Some(asked), .. } => Some(next.max(*asked)),
            _ => Some(next),
        }
    }
}
