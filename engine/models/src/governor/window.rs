//! A limit on requests or tokens within any minute.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Period of rate limits.
const MINUTE: Duration = Duration::from_mins(1);

/// The last minute of one limit. No minute ever holds more than the limit, wherever it begins: providers count by fixed
/// windows, sliding windows or buckets, and this limit satisfies all of them. A bucket would permit twice the limit in its
/// first minute.
#[derive(Debug, Default)]
pub(super) struct Window {
    limit: Option<u64>,
    used: u64,
    /// Amounts used, with their moments, oldest first.
    takings: VecDeque<(Instant, u64)>,
    /// Number of forgotten takings, which is the number of the first that is kept.
    forgotten: u64,
}

/// The number of a taking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taking(u64);

impl Window {
    /// Keeps to `limit` from now on.
    pub(super) fn keep(&mut self, limit: u64) {
        self.limit = Some(limit);
    }

    /// Returns the limit, if there is one.
    pub(super) fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// Returns the moment at which to check again for `amount`; `None` if it fits now. An amount above the limit fits
    /// once nothing else is used.
    pub(super) fn full_until(&mut self, now: Instant, amount: u64) -> Option<Instant> {
        let limit = self.limit?;
        while let Some((_, taken)) = self.takings.front().copied().filter(|(at, _)| now.duration_since(*at) >= MINUTE) {
            self.takings.pop_front();
            self.forgotten += 1;
            self.used -= taken;
        }
        let fits = self.used.saturating_add(amount.min(limit)) <= limit;
        // The first to be past may not be enough, but then the next is looked at.
        self.takings.front().filter(|_| !fits).map(|(at, _)| *at + MINUTE)
    }

    /// Takes `amount`; `None` where there is no limit.
    pub(super) fn take(&mut self, now: Instant, amount: u64) -> Option<Taking> {
        let amount = amount.min(self.limit?);
        self.takings.push_back((now, amount));
        self.used += amount;
        Some(Taking(self.forgotten + self.takings.len() as u64 - 1))
    }

    /// Sets the amount of a taking to the `amount` that was really used. Takings of more than a minute ago are
    /// ignored.
    pub(super) fn correct(&mut self, taking: Taking, amount: u64) {
        let index = taking.0.checked_sub(self.forgotten).and_then(|index| usize::try_from(index).ok());
        if let Some((_, taken)) = index.and_then(|index| self.takings.get_mut(index)) {
            self.used = self.used - *taken + amount;
            *taken = amount;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks for `amount` each time there may be room, until `seconds` have passed; returns when it was taken.
    fn taken(window: &mut Window, from: Instant, seconds: u64, amount: u64) -> Vec<Duration> {
        let (mut now, mut taken) = (from, Vec::new());
        while now - from < Duration::from_secs(seconds) {
            if let Some(at) = window.full_until(now, amount) {
                assert!(at > now, "a wait comes to its end");
                now = at;
            } else {
                window.take(now, amount);
                taken.push(now - from);
                // Requests are never made at quite the same moment.
                now += Duration::from_millis(7);
            }
        }
        taken
    }

    #[test]
    fn no_minute_holds_more_than_the_limit_and_every_minute_is_used_up() {
        for limit in [1, 7, 60, 1_000] {
            let mut window = Window::default();
            window.keep(limit);
            let taken = taken(&mut window, Instant::now(), 600, 1);
            for (first, at) in taken.iter().enumerate() {
                let within = taken[first..].iter().take_while(|later| later.saturating_sub(*at) < MINUTE).count();
                assert!(within as u64 <= limit, "{within} requests of {limit} in the minute from {at:?}");
            }
            assert!(taken.len() as u64 >= limit * 10, "{} of {} requests in ten minutes", taken.len(), limit * 10);
        }
    }

    #[test]
    fn what_was_not_used_is_given_back_and_what_was_used_beside_counts() {
        let (now, mut window) = (Instant::now(), Window::default());
        window.keep(100);
        let first = window.take(now, 60).unwrap();
        assert_eq!(window.full_until(now, 41), Some(now + MINUTE));
        window.correct(first, 10);
        assert_eq!(window.full_until(now, 90), None);
        window.correct(first, 95);
        assert_eq!(window.full_until(now, 6), Some(now + MINUTE));
        // What is past is past, and its number does not become another's.
        assert_eq!(window.full_until(now + MINUTE, 100), None);
        window.take(now + MINUTE, 50);
        window.correct(first, 0);
        assert_eq!(window.full_until(now + MINUTE, 51), Some(now + MINUTE * 2));
    }

    #[test]
    fn more_than_a_minute_allows_is_let_through_alone() {
        let (now, mut window) = (Instant::now(), Window::default());
        window.keep(100);
        window.take(now, 1);
        assert_eq!(window.full_until(now, 1_000), Some(now + MINUTE));
        assert_eq!(window.full_until(now + MINUTE, 1_000), None);
        window.take(now + MINUTE, 1_000);
        assert_eq!(window.full_until(now + MINUTE, 1), Some(now + MINUTE * 2));
    }

    #[test]
    fn without_a_limit_nothing_is_counted() {
        let mut window = Window::default();
        assert_eq!((window.take(Instant::now(), 1), window.full_until(Instant::now(), u64::MAX)), (None, None));
        assert!(window.takings.is_empty());
    }
}
