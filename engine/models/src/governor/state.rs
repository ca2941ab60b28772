//! Who may ask now, and what keeps the next one: arithmetic, to which moments come from outside.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use baton_types::config::ProviderLimits;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Subtree;
use super::announced::{Announced, Demand, Left};
use super::flight::Flight;
use super::gate::Gate;
use super::line::Line;
use super::window::{Taking, Window};
use crate::provider::Retries;

/// What a request costs its line where no limit says what part of a minute it takes.
const ONE: u128 = 1 << 32;

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    /// Rung when there is news for it.
    pub(super) bell: Arc<Notify>,
    /// What it takes.
    pub(super) demand: Demand,
}

/// What a request that was let through has taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    round: u64,
    request: Option<Taking>,
    tokens: Option<Taking>,
}

/// How a request stands.
#[derive(Debug)]
pub(super) enum Standing {
    /// It may be made.
    Granted(Grant),
    /// It waits for its bell; until then, or until this moment, if it is the one that keeps the time.
    Waits(Option<Instant>),
    /// The provider wants to be left alone until then.
    Closed(Instant),
}

/// All that is known of a key.
pub(super) struct State {
    requests: Window,
    tokens: Window,
    flight: Flight,
    announced: Announced,
    pub(super) gate: Gate,
    line: Line<Subtree, Waiting>,
    /// Requests that may be made and have not been told yet.
    granted: BTreeMap<u64, (Grant, Waiting)>,
    /// The one that keeps the time for all, and until when: the rest is woken when it is its turn.
    keeper: Option<(u64, Instant)>,
    /// The shortest that somebody waits at a closed gate.
    patience: Duration,
    tickets: u64,
}

impl State {
    pub(super) fn new(retries: Retries) -> Self {
        Self {
            requests: Window::default(),
            tokens: Window::default(),
            flight: Flight::default(),
            announced: Announced::default(),
            gate: Gate::new(retries),
            line: Line::default(),
            granted: BTreeMap::new(),
            keeper: None,
            patience: Duration::MAX,
            tickets: 0,
        }
    }

    /// Keeps to `limits`; where they say nothing, to what was said before.
    pub(super) fn keep(&mut self, limits: &ProviderLimits) {
        if let Some(limit) = limits.requests_per_minute {
            self.requests.keep(limit.into());
        }
        if let Some(limit) = limits.tokens_per_minute {
            self.tokens.keep(limit.into());
        }
        if let Some(limit) = limits.in_flight {
            self.flight.keep(limit);
        }
    }

    /// A ticket for a request of somebody who waits no longer than `patience` at a closed gate.
    pub(super) fn ticket(&mut self, patience: Duration) -> u64 {
        self.patience = self.patience.min(patience);
        self.tickets += 1;
        self.tickets
    }

    /// A request gets in line: at its end, or before all others if it `was_made` before.
    pub(super) fn enter(&mut self, now: Instant, subtree: &Subtree, ticket: u64, waiting: Waiting, was_made: bool) {
        if was_made {
            self.line.enter_again(ticket, waiting);
        } else {
            self.line.enter(subtree, ticket, waiting);
        }
        self.admit(now);
    }

    /// A request leaves, whether it waits or may be made and was not.
    pub(super) fn leave(&mut self, now: Instant, subtree: &Subtree, ticket: u64) {
        if let Some((grant, _)) = self.granted.remove(&ticket) {
            self.give_back(grant);
        }
        self.line.leave(subtree, ticket);
        self.admit(now);
    }

    /// How the request with `ticket` stands, whose asker waits no longer than `patience` at a closed gate.
    pub(super) fn standing(&mut self, now: Instant, ticket: u64, patience: Duration) -> Standing {
        self.admit(now);
        if let Some((grant, _)) = self.granted.remove(&ticket) {
            return Standing::Granted(grant);
        }
        match self.gate.closed_until(now) {
            Some(until) if until - now > patience => Standing::Closed(until),
            _ => Standing::Waits(self.keeper.filter(|(keeper, _)| *keeper == ticket).map(|(_, at)| at)),
        }
    }

    /// An answer that has begun told how much is `left` of what limits.
    pub(super) fn told(&mut self, now: Instant, left: &[Left]) {
        if left.iter().fold(false, |is_empty, left| self.announced.told(now, left) | is_empty) {
            self.recall();
        }
        self.admit(now);
    }

    /// A request that was made was answered, and used so many tokens, if that is known.
    pub(super) fn answered(&mut self, now: Instant, grant: Grant, tokens: Option<u64>) {
        self.flight.answered(grant.round);
        self.gate.answered(now);
        if let (Some(taking), Some(tokens)) = (grant.tokens, tokens) {
            self.tokens.correct(taking, tokens);
        }
        self.over(now);
    }

    /// A request that was made met congestion. If it `closes` the gate, or the provider `asked` to be left alone, nothing is
    /// asked until the moment that is returned.
    pub(super) fn congested(&mut self, now: Instant, grant: Grant, closes: bool, asked: Option<Duration>) -> Option<Instant> {
        let is_news = self.flight.congested(grant.round);
        if let Some(taking) = grant.tokens {
            self.tokens.correct(taking, 0);
        }
        // Who says that nothing is left until a moment has said how long to wait.
        let empty_for = || self.announced.empty_until(now).filter(|_| closes).map(|until| until - now);
        let asked = asked.or_else(empty_for);
        let until = (closes || asked.is_some()).then(|| self.gate.close(now, asked, is_news));
        if until.is_some_and(|until| until > now) {
            self.recall();
        }
        if until.is_some_and(|until| until - now > self.patience) {
            self.line.iter().for_each(|waiting| waiting.bell.notify_one());
        }
        self.over(now);
        until
    }

    /// Whether nobody waits and nothing is under way.
    #[cfg(test)]
    pub(super) fn is_at_rest(&self) -> bool {
        self.line.head().is_none() && self.granted.is_empty() && self.flight.is_unused() && self.keeper.is_none()
    }

    /// A request that was made is over.
    pub(super) fn over(&mut self, now: Instant) {
        self.flight.end();
        self.admit(now);
    }

    /// Lets nobody ask who may and has not been told yet.
    fn recall(&mut self) {
        for (ticket, (grant, waiting)) in std::mem::take(&mut self.granted) {
            self.give_back(grant);
            self.line.enter_again(ticket, waiting);
        }
    }

    /// Undoes a grant of which no use was made.
    fn give_back(&mut self, grant: Grant) {
        self.flight.end();
        if let Some(taking) = grant.request {
            self.requests.correct(taking, 0);
        }
        if let Some(taking) = grant.tokens {
            self.tokens.correct(taking, 0);
        }
    }

    /// Lets through whoever may ask now, in order: nobody passes the head, so that nothing large waits for ever.
    fn admit(&mut self, now: Instant) {
        self.keeper = loop {
            let Some((ticket, waiting)) = self.line.head() else { break self.keep_time(None) };
            let demand = waiting.demand;
            if self.flight.is_full() {
                // Whoever is under way comes back, and asks again who may.
                break self.keep_time(None);
            }
            if let Some(at) = self.kept_until(now, demand) {
                break self.keep_time(Some((ticket, at)));
            }
            let cost = self.cost(demand.tokens());
            let Some((ticket, waiting)) = self.line.serve(cost) else { break self.keep_time(None) };
            let request = self.requests.take(now, 1);
            self.announced.take(demand);
            let grant = Grant { round: self.flight.begin(), request, tokens: self.tokens.take(now, demand.tokens()) };
            waiting.bell.notify_one();
            self.granted.insert(ticket, (grant, waiting));
        };
    }

    /// Wakes the head to keep the time, if it does not yet.
    fn keep_time(&self, keeper: Option<(u64, Instant)>) -> Option<(u64, Instant)> {
        if keeper.is_some()
            && keeper != self.keeper
            && let Some((_, head)) = self.line.head()
        {
            head.bell.notify_one();
        }
        keeper
    }

    /// What has to pass before a request with this `demand` may be made; `None` if nothing has to.
    fn kept_until(&mut self, now: Instant, demand: Demand) -> Option<Instant> {
        let told = self.gate.closed_until(now).max(self.announced.short_until(now, demand));
        told.max(self.requests.full_until(now, 1)).max(self.tokens.full_until(now, demand.tokens()))
    }

    /// What a request costs its subtree: the part of a minute that it takes, of whichever limit it takes more of.
    fn cost(&self, tokens: u64) -> u128 {
        let part = |window: &Window, amount: u64| Some(ONE * u128::from(amount) / u128::from(window.limit()?.max(1)));
        part(&self.requests, 1).max(part(&self.tokens, tokens)).map_or(ONE, |part| part.max(1))
    }
}
