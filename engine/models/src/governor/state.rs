//! Decides which request is next and what delays it: arithmetic on moments that are passed in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use baton_types::config::ProviderLimits;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Subtree;
use super::announced::{Announced, Demand, Left};
use super::backoff::Backoff;
use super::in_flight::InFlight;
use super::queue::FairQueue;
use super::window::{Taking, Window};
use crate::provider::Retries;

/// Cost of a request for its queue where no limit sets its share of a minute.
const ONE: u128 = 1 << 32;

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    /// Rung when there is news for it.
    pub(super) notifier: Arc<Notify>,
    /// Estimated cost.
    pub(super) demand: Demand,
}

/// Resources that an admitted request has taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    round: u64,
    request: Option<Taking>,
    tokens: Option<Taking>,
}

/// State of a queued request.
#[derive(Debug)]
pub(super) enum Status {
    /// It may be made.
    Granted(Grant),
    /// It waits for its notifier. With a moment, it also wakes by itself then: it is the timer.
    Waits(Option<Instant>),
    /// The provider asks for a pause until then.
    Paused(Instant),
}

/// State of a key's rate limits.
pub(super) struct State {
    requests: Window,
    tokens: Window,
    in_flight: InFlight,
    announced: Announced,
    pub(super) backoff: Backoff,
    queue: FairQueue<Subtree, Waiting>,
    /// Admitted requests that have not been picked up yet.
    granted: BTreeMap<u64, (Grant, Waiting)>,
    /// Ticket of the request that acts as timer for all, and its moment. The other requests are woken in their turn.
    timer: Option<(u64, Instant)>,
    /// Shortest patience of any request.
    patience: Duration,
    tickets: u64,
}

impl State {
    pub(super) fn new(retries: Retries) -> Self {
        Self {
            requests: Window::default(),
            tokens: Window::default(),
            in_flight: InFlight::default(),
            announced: Announced::default(),
            backoff: Backoff::new(retries),
            queue: FairQueue::default(),
            granted: BTreeMap::new(),
            timer: None,
            patience: Duration::MAX,
            tickets: 0,
        }
    }

    /// Applies `limits`. Limits that are not set keep their earlier value.
    pub(super) fn keep(&mut self, limits: &ProviderLimits) {
        if let Some(limit) = limits.requests_per_minute {
            self.requests.keep(limit.into());
        }
        if let Some(limit) = limits.tokens_per_minute {
            self.tokens.keep(limit.into());
        }
        if let Some(limit) = limits.in_flight {
            self.in_flight.keep(limit);
        }
    }

    /// Returns a ticket for a request that waits at most for `patience` while requests are paused.
    pub(super) fn ticket(&mut self, patience: Duration) -> u64 {
        self.patience = self.patience.min(patience);
        self.tickets += 1;
        self.tickets
    }

    /// Queues a request: at the end, or before all others if it `was_made` before.
    pub(super) fn enter(&mut self, now: Instant, subtree: &Subtree, ticket: u64, waiting: Waiting, was_made: bool) {
        if was_made {
            self.queue.enter_again(ticket, waiting);
        } else {
            self.queue.enter(subtree, ticket, waiting);
        }
        self.admit(now);
    }

    /// Removes a request that waits, or that was admitted and not made.
    pub(super) fn leave(&mut self, now: Instant, subtree: &Subtree, ticket: u64) {
        if let Some((grant, _)) = self.granted.remove(&ticket) {
            self.give_back(grant);
        }
        self.queue.leave(subtree, ticket);
        self.admit(now);
    }

    /// Returns the state of the request with `ticket`, which waits at most for `patience` while requests are paused.
    pub(super) fn status(&mut self, now: Instant, ticket: u64, patience: Duration) -> Status {
        self.admit(now);
        if let Some((grant, _)) = self.granted.remove(&ticket) {
            return Status::Granted(grant);
        }
        match self.backoff.paused_until(now) {
            Some(until) if until - now > patience => Status::Paused(until),
            _ => Status::Waits(self.timer.filter(|(timer, _)| *timer == ticket).map(|(_, at)| at)),
        }
    }

    /// Records that an answer announced what is `left` of each limit.
    pub(super) fn announce(&mut self, now: Instant, left: &[Left]) {
        if left.iter().fold(false, |is_empty, left| self.announced.update(now, left) | is_empty) {
            self.recall();
        }
        self.admit(now);
    }

    /// Records that a request was answered and used this number of tokens, if known.
    pub(super) fn answered(&mut self, now: Instant, grant: Grant, tokens: Option<u64>) {
        self.in_flight.answered(grant.round);
        self.backoff.answered(now);
        if let (Some(taking), Some(tokens)) = (grant.tokens, tokens) {
            self.tokens.correct(taking, tokens);
        }
        self.over(now);
    }

    /// Records that a request met congestion. If it `pauses` the queue, or the provider `asked` for a pause, returns
    /// the end of the pause.
    pub(super) fn congested(&mut self, now: Instant, grant: Grant, pauses: bool, asked: Option<Duration>) -> Option<Instant> {
        let is_news = self.in_flight.congested(grant.round);
        if let Some(taking) = grant.tokens {
            self.tokens.correct(taking, 0);
        }
        // An exhausted limit with a reset time implies a retry delay.
        let empty_for = || self.announced.empty_until(now).filter(|_| pauses).map(|until| until - now);
        let asked = asked.or_else(empty_for);
        let until = (pauses || asked.is_some()).then(|| self.backoff.pause(now, asked, is_news));
        if until.is_some_and(|until| until > now) {
            self.recall();
        }
        if until.is_some_and(|until| until - now > self.patience) {
            self.queue.iter().for_each(|waiting| waiting.notifier.notify_one());
        }
        self.over(now);
        until
    }

    /// Whether no request waits or is in flight.
    #[cfg(test)]
    pub(super) fn is_at_rest(&self) -> bool {
        self.queue.head().is_none() && self.granted.is_empty() && self.in_flight.is_unused() && self.timer.is_none()
    }

    /// Records that a request has ended.
    pub(super) fn over(&mut self, now: Instant) {
        self.in_flight.end();
        self.admit(now);
    }

    /// Revokes grants that have not been picked up yet.
    fn recall(&mut self) {
        for (ticket, (grant, waiting)) in std::mem::take(&mut self.granted) {
            self.give_back(grant);
            self.queue.enter_again(ticket, waiting);
        }
    }

    /// Undoes a grant of which no use was made.
    fn give_back(&mut self, grant: Grant) {
        self.in_flight.end();
        if let Some(taking) = grant.request {
            self.requests.correct(taking, 0);
        }
        if let Some(taking) = grant.tokens {
            self.tokens.correct(taking, 0);
        }
    }

    /// Admits requests in order. No request passes the head of the queue, so large requests are not starved.
    fn admit(&mut self, now: Instant) {
        self.timer = loop {
            let Some((ticket, waiting)) = self.queue.head() else { break self.set_timer(None) };
            let demand = waiting.demand;
            if self.in_flight.is_full() {
                // A request in flight calls this again when it ends.
                break self.set_timer(None);
            }
            if let Some(at) = self.kept_until(now, demand) {
                break self.set_timer(Some((ticket, at)));
            }
            let cost = self.cost(demand.tokens());
            let Some((ticket, waiting)) = self.queue.serve(cost) else { break self.set_timer(None) };
            let request = self.requests.take(now, 1);
            self.announced.take(demand);
            let grant = Grant { round: self.in_flight.begin(), request, tokens: self.tokens.take(now, demand.tokens()) };
            waiting.notifier.notify_one();
            self.granted.insert(ticket, (grant, waiting));
        };
    }

    /// Wakes the head to keep the time, if it does not yet.
    fn set_timer(&self, timer: Option<(u64, Instant)>) -> Option<(u64, Instant)> {
        if timer.is_some()
            && timer != self.timer
            && let Some((_, head)) = self.queue.head()
        {
            head.notifier.notify_one();
        }
        timer
    }

    /// Returns the moment until which a request with this `demand` must wait; `None` if it need not wait.
    fn kept_until(&mut self, now: Instant, demand: Demand) -> Option<Instant> {
        let paused = self.backoff.paused_until(now).max(self.announced.short_until(now, demand));
        paused.max(self.requests.full_until(now, 1)).max(self.tokens.full_until(now, demand.tokens()))
    }

    /// Returns the cost of a request for its subtree: its share of a minute, under the limit that it uses most.
    fn cost(&self, tokens: u64) -> u128 {
        let part = |window: &Window, amount: u64| Some(ONE * u128::from(amount) / u128::from(window.limit()?.max(1)));
        part(&self.requests, 1).max(part(&self.tokens, tokens)).map_or(ONE, |part| part.max(1))
    }
}
