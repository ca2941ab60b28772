//! When a provider wants to be left alone, and for how long.

use std::time::Duration;

use tokio::time::Instant;

use crate::provider::Retries;

/// The longest that a gate is closed for. Whoever asks for more means: not at all.
const LONGEST: Duration = Duration::from_hours(24 * 365);

/// Closed until what a provider asked for has passed.
pub(super) struct Gate {
    retries: Retries,
    until: Option<Instant>,
    /// Further pauses, while refusal follows refusal.
    pauses: Option<Box<dyn Iterator<Item = Duration> + Send>>,
    served: Option<Instant>,
}

impl Gate {
    /// Open; pauses are as `retries` say.
    pub(super) fn new(retries: Retries) -> Self {
        Self { retries, until: None, pauses: None, served: None }
    }

    /// Until when it is closed at `now`.
    pub(super) fn closed_until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }

    /// When something was last answered.
    pub(super) fn served(&self) -> Option<Instant> {
        self.served
    }

    /// Something was answered at `now`.
    pub(super) fn answered(&mut self, now: Instant) {
        (self.served, self.pauses) = (Some(now), None);
    }

    /// Closes for as long as the provider `asked`, never for less. Where it does not say, and where it refuses again what
    /// waited for as long as it said, the gate closes for pauses that double, with jitter. What `is_news` no more closes it no
    /// longer than it says itself. Returns when it opens.
    pub(super) fn close(&mut self, now: Instant, asked: Option<Duration>, is_news: bool) -> Instant {
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

    fn gate() -> Gate {
        Gate::new(Retries { most: 2, first: SECOND, longest: 8 * SECOND, patience: SECOND })
    }

    #[test]
    fn what_a_provider_asks_for_is_kept_to_the_moment() {
        let (now, mut gate) = (Instant::now(), gate());
        assert_eq!(gate.close(now, Some(3 * SECOND), true), now + 3 * SECOND);
        // Others that were under way tell of an earlier end, or of a later one.
        assert_eq!(gate.close(now + SECOND, Some(SECOND), false), now + 3 * SECOND);
        assert_eq!(gate.close(now + SECOND, Some(4 * SECOND), false), now + 5 * SECOND);
        assert_eq!(gate.closed_until(now + 4 * SECOND), Some(now + 5 * SECOND));
        assert_eq!(gate.closed_until(now + 5 * SECOND), None);
        let far = gate.close(now, Some(Duration::MAX), true);
        assert_eq!(far, now + LONGEST);
    }

    #[test]
    fn pauses_double_with_jitter_until_something_is_answered() {
        let mut gate = gate();
        let mut now = Instant::now();
        let mut refused = |gate: &mut Gate, asked| {
            let pause = gate.close(now, asked, true) - now;
            now += pause;
            pause
        };
        for (first, bound) in [(1, 2), (2, 4), (4, 8), (8, 16), (8, 16)] {
            let pause = refused(&mut gate, None);
            assert!(first * SECOND <= pause && pause < bound * SECOND, "{pause:?} is not from {first} to {bound} s");
        }
        gate.answered(Instant::now());
        // A provider that says 0 and refuses again is not asked again at once.
        let zero = Some(Duration::ZERO);
        assert_eq!(refused(&mut gate, zero), Duration::ZERO);
        assert!(refused(&mut gate, zero) >= SECOND && refused(&mut gate, zero) >= 2 * SECOND);
    }
}
