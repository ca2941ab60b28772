//! When a request is made again.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::time::Instant;

use crate::error::ModelError;
use crate::governor::Pushback;

/// Repeats a request after a temporary failure: with exponential backoff and jitter, or after the time that the
/// provider names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Largest number of repetitions. Rejections because of a rate limit do not count.
    pub most: usize,
    /// The pause before the first of them.
    pub first: Duration,
    /// The longest pause, unless the provider asks for a longer one.
    pub longest: Duration,
    /// Longest time of rejections because of a rate limit while the provider answers no request at all; also the
    /// longest pause that it may ask for.
    pub patience: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { most: 4, first: Duration::from_millis(500), longest: seconds(30), patience: seconds(120) }
    }
}

impl Retries {
    /// Returns the pauses, one before each further request.
    pub fn pauses(&self) -> impl Iterator<Item = Duration> + Send + use<> {
        self.endless_pauses().take(self.most)
    }

    /// Returns the same retries for a caller that repeats failed requests itself. Only rejections because of a limit
    /// are repeated here, while the provider asks for no longer pause than [`Retries::patience`].
    pub(super) fn of_attempt(self) -> Self {
        Self { most: 0, ..self }
    }

    /// Returns the same retries for attempts that may each cost money: pauses grow up to five minutes, so an hour has
    /// about fifteen attempts.
    pub fn of_paid_attempts(self) -> Self {
        Self { longest: Duration::from_mins(5), ..self }
    }

    /// As many pauses as are asked for.
    pub fn endless_pauses(&self) -> impl Iterator<Item = Duration> + Send + use<> {
        let pauses = ExponentialBuilder::new().with_min_delay(self.first).with_max_delay(self.longest);
        pauses.without_max_times().with_jitter().build()
    }

    /// Returns the attempts at one request. While its provider rejects it because of its limits, it may wait for
    /// `total` in all and for `longest` at a time.
    pub(super) fn attempts(&self, total: Duration, longest: Duration) -> Attempts {
        Attempts { pauses: Box::new(self.pauses()), patience: self.patience, total, longest, refused_since: None }
    }
}

/// The attempts at one request.
pub(super) struct Attempts {
    pauses: Box<dyn Iterator<Item = Duration> + Send>,
    patience: Duration,
    total: Duration,
    longest: Duration,
    /// When it was first refused because of a limit.
    refused_since: Option<Instant>,
}

impl Attempts {
    /// Returns the pause before the next attempt after `error`; `None` if no attempt can help. A request rejected
    /// because of a limit is queued again at once: its governor knows from `pushback` when to send it.
    ///
    /// Such a request is made again for as long as its provider answers anybody, and `total` has not passed since it was first
    /// refused. One that wants to be left alone for longer than that is not available.
    pub(super) fn pause(&mut self, error: &ModelError, pushback: Option<Pushback>) -> Option<Duration> {
        if !error.is_retryable() {
            return None;
        }
        let Some(Pushback { pause, last_answer }) = pushback.filter(|_| matches!(error, ModelError::RateLimited { .. })) else {
            return self.pauses.next();
        };
        let refused_for = self.refused_since.get_or_insert_with(Instant::now).elapsed();
        let in_vain = last_answer.map_or(refused_for, |last_answer| last_answer.min(refused_for));
        (pause <= self.longest && refused_for <= self.total && in_vain <= self.patience).then_some(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(pause: u64, last_answer: Option<u64>) -> Pushback {
        let seconds = Duration::from_secs;
        Pushback { pause: seconds(pause), last_answer: last_answer.map(seconds) }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_limit_refuses_is_made_again_while_anybody_is_answered() {
        let limited = || ModelError::RateLimited { provider: "p".to_owned(), message: String::new(), retry_after: None };
        let pass = |seconds| tokio::time::advance(Duration::from_secs(seconds));
        let mut attempts = Retries::default().attempts(Duration::from_mins(30), Duration::from_mins(2));
        for _ in 0..17 {
            assert_eq!(attempts.pause(&limited(), Some(refused(60, Some(1)))), Some(Duration::ZERO));
            pass(100).await;
        }
        pass(101).await;
        assert_eq!(attempts.pause(&limited(), Some(refused(60, Some(1)))), None, "not for ever");

        let mut attempts = Retries::default().attempts(Duration::from_mins(30), Duration::from_mins(2));
        assert_eq!(attempts.pause(&limited(), Some(refused(1, None))), Some(Duration::ZERO));
        pass(120).await;
        assert_eq!(attempts.pause(&limited(), Some(refused(1, None))), Some(Duration::ZERO));
        pass(1).await;
        assert_eq!(attempts.pause(&limited(), Some(refused(1, Some(121)))), None, "nobody has been answered for too long");

        let mut attempts = Retries::default().attempts(Duration::from_mins(30), Duration::from_mins(2));
        assert_eq!(attempts.pause(&limited(), Some(refused(121, None))), None, "longer than a request waits");
    }
}
