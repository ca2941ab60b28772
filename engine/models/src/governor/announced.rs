//! Remaining limits of a provider, as its answers announce them.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Longest wait that an announcement alone can cause. Clocks differ, and daily limits are announced like those of a
/// minute. A provider that needs a longer pause sends `Retry-After`.
const LONGEST: Duration = Duration::from_mins(1);

/// A kind of limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Quota {
    /// Requests.
    Requests,
    /// Tokens of requests and their answers together.
    Tokens,
    /// Tokens of requests.
    InputTokens,
    /// Tokens of answers, counted as they are made: the most that an answer may have is not set aside.
    OutputTokens,
}

/// Remaining amount of a limit, as announced by an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// Which limit.
    pub(crate) quota: Quota,
    /// Remaining amount.
    pub(crate) amount: u64,
    /// Full amount, if announced.
    pub(crate) most: Option<u64>,
    /// Time until the full amount is available again, from the arrival of the answer.
    pub(crate) reset: Duration,
}

/// Estimated cost of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    /// Tokens that it has.
    pub(crate) input: u64,
    /// Tokens that its answer may have.
    pub(crate) output: u64,
}

impl Demand {
    /// Returns all tokens.
    pub(super) fn tokens(self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Returns the amount of `quota` that must remain before the request is made.
    fn of(self, quota: Quota) -> u64 {
        match quota {
            Quota::Requests | Quota::OutputTokens => 1,
            Quota::Tokens => self.tokens(),
            Quota::InputTokens => self.input,
        }
    }
}

/// Remaining amount of each limit, as far as known from the last answers.
///
/// Admitted requests are subtracted until the next answer announces more. An announcement expires at its reset.
#[derive(Debug, Default)]
pub(super) struct Announced(BTreeMap<Quota, Level>);

#[derive(Debug)]
struct Level {
    left: u64,
    most: u64,
    until: Instant,
    /// Whether nothing was left when it was announced.
    is_empty: bool,
}

impl Level {
    /// Returns the share that a request of `amount` takes. A request that exceeds the limit is admitted once the full
    /// amount is available.
    fn share(&self, amount: u64) -> u64 {
        amount.min(self.most)
    }
}

impl Announced {
    /// Records that an answer at `now` announced `left`. Returns true if nothing is left.
    pub(super) fn update(&mut self, now: Instant, left: &Left) -> bool {
        let (until, is_empty) = (now + left.reset.min(LONGEST), left.amount == 0);
        match self.0.get_mut(&left.quota).filter(|level| level.is_empty && level.until > now) {
            // What was under way at the same time is answered in any order: no answer opens what another one closed.
            Some(level) if is_empty => level.until = level.until.max(until),
            Some(_) => {}
            None => {
                let most = left.most.unwrap_or(u64::MAX).max(1);
                self.0.insert(left.quota, Level { left: left.amount, most, until, is_empty });
            }
        }
        is_empty && until > now
    }

    /// Returns the moment at which `demand` fits again; `None` if it fits now, as far as is known.
    pub(super) fn short_until(&self, now: Instant, demand: Demand) -> Option<Instant> {
        let is_short = |quota: &Quota, level: &Level| level.until > now && level.left < level.share(demand.of(*quota));
        self.0.iter().filter(|(quota, level)| is_short(quota, level)).map(|(_, level)| level.until).max()
    }

    /// Returns the moment at which every empty limit has some amount again; `None` if no limit is empty now.
    pub(super) fn empty_until(&self, now: Instant) -> Option<Instant> {
        self.0.values().filter(|level| level.is_empty && level.until > now).map(|level| level.until).max()
    }

    /// Subtracts an admitted request of this `demand`.
    pub(super) fn take(&mut self, demand: Demand) {
        for (quota, level) in &mut self.0 {
            level.left = level.left.saturating_sub(level.share(demand.of(*quota)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const SMALL: Demand = Demand { input: 10, output: 10 };

    fn left(quota: Quota, amount: u64, seconds: u32) -> Left {
        Left { quota, amount, most: None, reset: SECOND * seconds }
    }

    #[test]
    fn nothing_is_asked_until_the_reset_and_never_for_longer_than_a_minute() {
        for quota in [Quota::Requests, Quota::Tokens, Quota::InputTokens, Quota::OutputTokens] {
            let (now, mut announced) = (Instant::now(), Announced::default());
            assert!(announced.update(now, &left(quota, 0, 7)));
            assert_eq!(announced.short_until(now, SMALL), Some(now + 7 * SECOND), "{quota:?}");
            assert_eq!(announced.short_until(now + 7 * SECOND, SMALL), None, "{quota:?}");
            assert_eq!(announced.empty_until(now), Some(now + 7 * SECOND), "{quota:?}");
            assert_eq!(announced.empty_until(now + 7 * SECOND), None, "{quota:?}");
            // Answers to earlier requests announce an earlier state. The later reset counts.
            assert!(!announced.update(now, &left(quota, 100, 1)));
            assert!(announced.update(now, &left(quota, 0, 3)));
            assert_eq!(announced.short_until(now, SMALL), Some(now + 7 * SECOND), "{quota:?}");
            announced.update(now, &Left { reset: Duration::MAX, ..left(quota, 0, 0) });
            assert_eq!(announced.short_until(now, SMALL), Some(now + LONGEST), "{quota:?}");
        }
    }

    #[test]
    fn a_reset_that_is_past_means_nothing() {
        let (now, mut announced) = (Instant::now(), Announced::default());
        assert!(!announced.update(now, &left(Quota::Requests, 0, 0)));
        assert_eq!(announced.short_until(now, SMALL), None);
    }

    #[test]
    fn a_request_beyond_the_remaining_tokens_waits_and_others_proceed() {
        let (now, mut announced) = (Instant::now(), Announced::default());
        let large = Demand { input: 30, output: 80 };
        announced.update(now, &left(Quota::Tokens, 100, 5));
        assert_eq!((announced.short_until(now, large), announced.short_until(now, SMALL)), (Some(now + 5 * SECOND), None));
        announced.update(now, &left(Quota::Tokens, 1_000, 5));
        announced.update(now, &left(Quota::InputTokens, 29, 6));
        assert_eq!((announced.short_until(now, large), announced.short_until(now, SMALL)), (Some(now + 6 * SECOND), None));
        // Output tokens are not reserved for a provider that counts them separately.
        announced.update(now, &left(Quota::InputTokens, 30, 6));
        announced.update(now, &left(Quota::OutputTokens, 1, 6));
        assert_eq!(announced.short_until(now, large), None);
    }

    #[test]
    fn admitted_requests_are_subtracted_until_an_answer_reports_more() {
        let (now, mut announced) = (Instant::now(), Announced::default());
        announced.update(now, &left(Quota::Requests, 2, 9));
        (0..2).for_each(|_| announced.take(SMALL));
        assert_eq!(announced.short_until(now, SMALL), Some(now + 9 * SECOND));
        assert_eq!(announced.empty_until(now), None, "nobody said so");
        announced.update(now, &left(Quota::Requests, 1, 4));
        assert_eq!(announced.short_until(now, SMALL), None);
    }

    #[test]
    fn more_than_there_ever_is_passes_once_all_of_it_is_there() {
        let (now, mut announced) = (Instant::now(), Announced::default());
        let huge = Demand { input: 5_000, output: 4_000 };
        announced.update(now, &Left { most: Some(1_000), ..left(Quota::Tokens, 999, 3) });
        assert_eq!(announced.short_until(now, huge), Some(now + 3 * SECOND));
        announced.update(now, &Left { most: Some(1_000), ..left(Quota::Tokens, 1_000, 3) });
        assert_eq!(announced.short_until(now, huge), None);
    }
}
