//! What is left of a provider's limits, as its answers announce it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// The longest that an announcement alone keeps anybody waiting. Clocks are wrong, limits of a day are told like those of a
/// minute, and `Retry-After` is there for whoever means more.
const LONGEST: Duration = Duration::from_mins(1);

/// What a limit is a limit of.
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

/// How much is left of a limit, as an answer tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// Which limit.
    pub(crate) quota: Quota,
    /// How much is left of it.
    pub(crate) amount: u64,
    /// How much there is of it at most, if that is told.
    pub(crate) most: Option<u64>,
    /// How long until there is all of it again, from when the answer came.
    pub(crate) reset: Duration,
}

/// What a request takes (≈).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    /// Tokens that it has.
    pub(crate) input: u64,
    /// Tokens that its answer may have.
    pub(crate) output: u64,
}

impl Demand {
    /// All tokens.
    pub(super) fn tokens(self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// What must be left of `quota` before it is made.
    fn of(self, quota: Quota) -> u64 {
        match quota {
            Quota::Requests | Quota::OutputTokens => 1,
            Quota::Tokens => self.tokens(),
            Quota::InputTokens => self.input,
        }
    }
}

/// What is left of each limit, as far as the last answers say.
///
/// What is let through is taken off until the next answer says more, and after its reset an announcement means nothing.
#[derive(Debug, Default)]
pub(super) struct Announced(BTreeMap<Quota, Level>);

#[derive(Debug)]
struct Level {
    left: u64,
    most: u64,
    until: Instant,
    /// Whether nothing was left when it was told.
    is_empty: bool,
}

impl Level {
    /// How much of it a request takes that needs `amount`: what exceeds all of it is let through once all of it is there.
    fn share(&self, amount: u64) -> u64 {
        amount.min(self.most)
    }
}

impl Announced {
    /// An answer that came at `now` told what is `left`; says whether that is nothing.
    pub(super) fn told(&mut self, now: Instant, left: &Left) -> bool {
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

    /// When there is enough for `demand` again; `None` if there is now, as far as is known.
    pub(super) fn short_until(&self, now: Instant, demand: Demand) -> Option<Instant> {
        let is_short = |quota: &Quota, level: &Level| level.until > now && level.left < level.share(demand.of(*quota));
        self.0.iter().filter(|(quota, level)| is_short(quota, level)).map(|(_, level)| level.until).max()
    }

    /// When something is left again of all that was told to be empty; `None` if nothing is empty now.
    pub(super) fn empty_until(&self, now: Instant) -> Option<Instant> {
        self.0.values().filter(|level| level.is_empty && level.until > now).map(|level| level.until).max()
    }

    /// A request with such a `demand` is let through.
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
            assert!(announced.told(now, &left(quota, 0, 7)));
            assert_eq!(announced.short_until(now, SMALL), Some(now + 7 * SECOND), "{quota:?}");
            assert_eq!(announced.short_until(now + 7 * SECOND, SMALL), None, "{quota:?}");
            assert_eq!(announced.empty_until(now), Some(now + 7 * SECOND), "{quota:?}");
            assert_eq!(announced.empty_until(now + 7 * SECOND), None, "{quota:?}");
            // Whatever was under way before tells of an earlier moment; one that is later counts.
            assert!(!announced.told(now, &left(quota, 100, 1)));
            assert!(announced.told(now, &left(quota, 0, 3)));
            assert_eq!(announced.short_until(now, SMALL), Some(now + 7 * SECOND), "{quota:?}");
            announced.told(now, &Left { reset: Duration::MAX, ..left(quota, 0, 0) });
            assert_eq!(announced.short_until(now, SMALL), Some(now + LONGEST), "{quota:?}");
        }
    }

    #[test]
    fn a_reset_that_is_past_means_nothing() {
        let (now, mut announced) = (Instant::now(), Announced::default());
        assert!(!announced.told(now, &left(Quota::Requests, 0, 0)));
        assert_eq!(announced.short_until(now, SMALL), None);
    }

    #[test]
    fn who_needs_more_tokens_than_are_left_waits_and_the_others_do_not() {
        let (now, mut announced) = (Instant::now(), Announced::default());
        let large = Demand { input: 30, output: 80 };
        announced.told(now, &left(Quota::Tokens, 100, 5));
        assert_eq!((announced.short_until(now, large), announced.short_until(now, SMALL)), (Some(now + 5 * SECOND), None));
        announced.told(now, &left(Quota::Tokens, 1_000, 5));
        announced.told(now, &left(Quota::InputTokens, 29, 6));
        assert_eq!((announced.short_until(now, large), announced.short_until(now, SMALL)), (Some(now + 6 * SECOND), None));
        // An answer's tokens are not set aside by whoever counts them apart.
        announced.told(now, &left(Quota::InputTokens, 30, 6));
        announced.told(now, &left(Quota::OutputTokens, 1, 6));
        assert_eq!(announced.short_until(now, large), None);
    }

    #[test]
    fn what_is_let_through_is_taken_off_until_an_answer_says_more() {
        let (now, mut announced) = (Instant::now(), Announced::default());
        announced.told(now, &left(Quota::Requests, 2, 9));
        (0..2).for_each(|_| announced.take(SMALL));
        assert_eq!(announced.short_until(now, SMALL), Some(now + 9 * SECOND));
        assert_eq!(announced.empty_until(now), None, "nobody said so");
        announced.told(now, &left(Quota::Requests, 1, 4));
        assert_eq!(announced.short_until(now, SMALL), None);
    }

    #[test]
    fn more_than_there_ever_is_passes_once_all_of_it_is_there() {
        let (now, mut announced) = (Instant::now(), Announced::default());
        let huge = Demand { input: 5_000, output: 4_000 };
        announced.told(now, &Left { most: Some(1_000), ..left(Quota::Tokens, 999, 3) });
        assert_eq!(announced.short_until(now, huge), Some(now + 3 * SECOND));
        announced.told(now, &Left { most: Some(1_000), ..left(Quota::Tokens, 1_000, 3) });
        assert_eq!(announced.short_until(now, huge), None);
    }
}
