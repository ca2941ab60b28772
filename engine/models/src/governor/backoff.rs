//! Pauses that a provider asks for, and exponential backoff where it names none.

use std::time::Duration;

use tokio::time::Instant;

use crate::provider::Retries;

/// Longest pause. A provider that asks for more means for ever.
const LONGEST: Duration = Duration::from_hours(24 * 365);

/// Pause until the time that a provider asked for has passed.
pub(super) struct Backoff {
    retries: Retries,
    until: Option<Instant>,
    /// Further pauses, while refusal follows refusal.
    pauses: Option<Box<dyn Iterator<Item = Duration> + Send>>,
    served: Option<Instant>,
}

impl Backoff {
    /// Returns a backoff without a pause; later pauses follow `retries`.
    pub(super) fn new(retries: Retries) -> Self {
        Self { retries, until: None, pauses: None, served: None }
    }

    /// Returns the end of the pause at `now`, if there is one.
    pub(super) fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }

    /// Returns the moment of the last answer.
    pub(super) fn served(&self) -> Option<Instant> {
        self.served
    }

    /// Records an answer at `now`.
    pub(super) fn answered(&mut self, now: Instant) {
        (self.served, self.pauses) = (Some(now), None);
    }

    /// Starts a pause of at least the time that the provider `asked` for. The pause is chosen here, with exponential
    /// backoff and jitter, if the provider names no time or rejects a request again after the time that it named. If
    /// `is_news` is false, only the time that the provider named extends the pause. Returns the end of the pause.
    pub(super) fn pause(&mut self, now: Instant, asked: Option<Duration>, is_news: bool) -> Instant {
        let is_first = self.pauses.is_none();
        let pauses = self.pauses.get_or_insert_with(|| Box::new(self.retries.endless_pauses()));
        let own = match asked {
            Some(_) if is_first => None,
            _ => is_news.then(|| pauses.next()).flatten(),
        };
        let pause = asked.max(own).unwrap_or_default().min(LONGEST);
        let until = self.until.map_or(now + pause, |until| until.max(now + pause));
        self.until = Some(until);
        until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn new_backoff() -> Backoff {
        Backoff::new(Retries { most: 2, first: SECOND, longest: 8 * SECOND, patience: SECOND })
    }

    #[test]
    fn what_a_provider_asks_for_is_kept_to_the_moment() {
        let (now, mut backoff) = (Instant::now(), new_backoff());
        assert_eq!(backoff.pause(now, Some(3 * SECOND), true), now + 3 * SECOND);
        // Others that were under way tell of an earlier end, or of a later one.
        assert_eq!(backoff.pause(now + SECOND, Some(SECOND), false), now + 3 * SECOND);
        assert_eq!(backoff.pause(now + SECOND, Some(4 * SECOND), false), now + 5 * SECOND);
        assert_eq!(backoff.paused_until(now + 4 * SECOND), Some(now + 5 * SECOND));
        assert_eq!(backoff.paused_until(now + 5 * SECOND), None);
        let far = backoff.pause(now, Some(Duration::MAX), true);
        assert_eq!(far, now + LONGEST);
    }

    #[test]
    fn pauses_double_with_jitter_until_something_is_answered() {
        let mut backoff = new_backoff();
        let mut now = Instant::now();
        let mut refused = |backoff: &mut Backoff, asked| {
            let pause = backoff.pause(now, asked, true) - now;
            now += pause;
            pause
        };
        for (first, bound) in [(1, 2), (2, 4), (4, 8), (8, 16), (8, 16)] {
            let pause = refused(&mut backoff, None);
            assert!(first * SECOND <= pause && pause < bound * SECOND, "{pause:?} is not from {first} to {bound} s");
        }
        backoff.answered(Instant::now());
        // A provider that asks for 0 seconds and rejects again does not get a request at once.
        let zero = Some(Duration::ZERO);
        assert_eq!(refused(&mut backoff, zero), Duration::ZERO);
        assert!(refused(&mut backoff, zero) >= SECOND && refused(&mut backoff, zero) >= 2 * SECOND);
    }
}
