//! Limit on concurrent requests, found by additive increase and multiplicative decrease (AIMD).

/// Initial limit: most providers accept this from a new account.
const AT_FIRST: u32 = 16;

/// Largest limit (default).
const MOST: u32 = 256;

/// The requests under way, and how many may be.
///
/// The limit changes as in TCP (RFC 5681). It doubles until the first sign of congestion. From then on it grows by one for
/// each round of answers, and is halved at every further sign. A sign counts once a round, because concurrent requests meet
/// the same congestion.
#[derive(Debug)]
pub(super) struct InFlight {
    used: u32,
    allowed: u32,
    most: u32,
    round: u64,
    /// Answers of this round since there was room for one more.
    answers: u32,
    was_congested: bool,
}

impl Default for InFlight {
    fn default() -> Self {
        Self { used: 0, allowed: AT_FIRST, most: MOST, round: 0, answers: 0, was_congested: false }
    }
}

impl InFlight {
    /// Allows `most` at most.
    pub(super) fn keep(&mut self, most: u32) {
        (self.most, self.allowed) = (most.max(1), self.allowed.min(most.max(1)));
    }

    /// Whether no more may begin.
    pub(super) fn is_full(&self) -> bool {
        self.used >= self.allowed
    }

    /// Whether nothing is under way.
    #[cfg(test)]
    pub(super) fn is_unused(&self) -> bool {
        self.used == 0
    }

    /// Counts a request that begins; returns its round.
    pub(super) fn begin(&mut self) -> u64 {
        self.used += 1;
        self.round
    }

    /// Counts a request that has ended.
    pub(super) fn end(&mut self) {
        self.used -= 1;
    }

    /// Counts an answered request of `round`, which ends in a moment. A limit that is not fully used does not grow.
    pub(super) fn answered(&mut self, round: u64) {
        if round != self.round || !self.is_full() || self.allowed >= self.most {
            return;
        }
        self.answers += 1;
        if !self.was_congested || self.answers >= self.allowed {
            self.allowed += 1;
            self.answers = 0;
        }
    }

    /// Halves the limit after congestion in `round`. Returns false if this round was halved before.
    pub(super) fn congested(&mut self, round: u64) -> bool {
        let is_news = round == self.round;
        if is_news {
            (self.round, self.answers, self.was_congested) = (round + 1, 0, true);
            self.allowed = (self.allowed / 2).max(1);
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many as may be begin, and all are answered; returns how many.
    fn round(in_flight: &mut InFlight) -> u32 {
        let begun: Vec<u64> = std::iter::from_fn(|| (!in_flight.is_full()).then(|| in_flight.begin())).collect();
        for round in &begun {
            in_flight.answered(*round);
            in_flight.end();
        }
        u32::try_from(begun.len()).unwrap()
    }

    #[test]
    fn it_grows_by_one_a_round_and_halves_once_a_round() {
        let mut in_flight = InFlight::default();
        let begun: Vec<u64> = (0..AT_FIRST).map(|_| in_flight.begin()).collect();
        assert!(in_flight.is_full());
        let news: Vec<bool> = begun.iter().map(|round| in_flight.congested(*round)).collect();
        assert_eq!(news.iter().filter(|news| **news).count(), 1, "all of them are the same news");
        for _ in &begun {
            in_flight.end();
        }
        assert_eq!(in_flight.allowed, AT_FIRST / 2);
        let grown: Vec<u32> = (0..6)
            .map(|_| {
                let begun: Vec<u64> = std::iter::from_fn(|| (!in_flight.is_full()).then(|| in_flight.begin())).collect();
                // Each is followed by another at once, so all but the last few are answered while there is no room.
                for round in &begun {
                    in_flight.answered(*round);
                    in_flight.end();
                    let next = in_flight.begin();
                    assert_eq!(next, *round);
                }
                for _ in &begun {
                    in_flight.end();
                }
                in_flight.allowed
            })
            .collect();
        assert_eq!(grown, [9, 10, 11, 12, 13, 14]);
        // Answers to requests from before the decrease prove nothing about the new limit.
        let old = in_flight.begin();
        let newer = in_flight.begin();
        assert!(in_flight.congested(old) && !in_flight.congested(newer));
        in_flight.answered(newer);
        assert_eq!(in_flight.allowed, 7);
        for _ in 0..10 {
            let round = in_flight.round;
            in_flight.congested(round);
        }
        assert_eq!(in_flight.allowed, 1, "one may always be under way");
    }

    #[test]
    fn it_doubles_until_congestion_and_stops_at_its_limit_or_at_what_is_needed() {
        let mut in_flight = InFlight::default();
        in_flight.begin();
        in_flight.answered(0);
        in_flight.end();
        assert_eq!(in_flight.allowed, AT_FIRST, "room that nobody needed");
        assert_eq!(round(&mut in_flight), AT_FIRST);
        let most = (0..300).map(|_| round(&mut in_flight)).max();
        assert!(most <= Some(MOST), "{most:?}");
        let mut few = InFlight::default();
        few.keep(3);
        assert_eq!((round(&mut few), round(&mut few), round(&mut few)), (3, 3, 3));
    }
}
