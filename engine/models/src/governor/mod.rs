//! Rate limits of a provider's key, and the order of its requests.
//!
//! Each key has one governor, shared by all runs and models. It keeps the configured limits and finds the limit on
//! concurrent requests. It pauses while the provider asks for that or announces that nothing is left, and serves the
//! subtrees of runs in turn. The arithmetic is in the other files of this folder, which get every moment as an
//! argument. This file does the waiting.
//!
//! This module does not judge errors: a request's model decides whether it is repeated.

mod announced;
mod backoff;
mod in_flight;
mod queue;
mod state;
#[cfg(test)]
mod tests;
mod window;

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_types::config::ProviderLimits;
use baton_types::id::{RunId, TaskId};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

pub(crate) use self::announced::{Demand, Left, Quota};

use self::state::{Grant, State, Status, Waiting};
use crate::provider::Retries;

/// Admits requests.
pub(crate) struct Governor(Mutex<State>);

/// Identifies the requests of one run, from its start or resumption on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunKey(u64);

impl RunKey {
    /// Returns a key that no other run of this process has.
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the key for tools of `run` that ask models which none of its agents use.
    pub fn of_tools(run: &RunId) -> Self {
        let mut hasher = DefaultHasher::new();
        run.hash(&mut hasher);
        // Unique ones count up from nothing, and come nowhere near this half.
        Self(hasher.finish() | 1 << 63)
    }
}

/// A child of a run's root with all below it, or the root alone: what shares a key alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Subtree {
    run: RunKey,
    top: TaskId,
}

impl Subtree {
    /// Returns the subtree of `run` that `task` belongs to: task ids are paths from the root.
    pub(crate) fn of(run: RunKey, task: &TaskId) -> Self {
        let end = task.as_str().match_indices('/').nth(1).map(|(end, _)| end);
        Self { run, top: end.map_or_else(|| task.clone(), |end| TaskId::new(&task.as_str()[..end])) }
    }
}

/// A queued request, until it is answered. Dropping it removes it from the queue.
pub(crate) struct Queued {
    governor: Arc<Governor>,
    subtree: Subtree,
    ticket: u64,
    notifier: Arc<Notify>,
    demand: Demand,
    patience: Duration,
    was_made: bool,
}

/// Leave to make one request, given back when it is dropped.
pub(crate) struct Permit {
    governor: Arc<Governor>,
    grant: Option<Grant>,
}

/// The provider asks for a pause that is longer than the request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paused {
    /// Length of the pause.
    pub(crate) left: Duration,
}

/// Effects of a rejected request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pushback {
    /// Length of the pause.
    pub(crate) pause: Duration,
    /// Time since the last answer.
    pub(crate) last_answer: Option<Duration>,
}

impl fmt::Debug for Governor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Governor").finish_non_exhaustive()
    }
}

impl Governor {
    /// Returns a governor without limits. `retries` sets the pauses where a provider names none.
    pub(crate) fn new(retries: Retries) -> Self {
        Self(Mutex::new(State::new(retries)))
    }

    /// Applies `limits` from now on. Limits that are not set keep their earlier value.
    pub(crate) fn keep(&self, limits: &ProviderLimits) {
        self.state().keep(limits);
    }

    /// Queues a request with this `demand`, which waits at most for `patience` while requests are paused.
    pub(crate) fn enqueue(self: &Arc<Self>, subtree: Subtree, demand: Demand, patience: Duration) -> Queued {
        let (ticket, notifier) = (self.state().ticket(patience), Arc::default());
        Queued { governor: Arc::clone(self), subtree, ticket, notifier, demand, patience, was_made: false }
    }

    /// Returns the rest of the pause that the provider asked for, if there is one.
    pub(crate) fn pause(&self) -> Option<Duration> {
        let now = Instant::now();
        self.state().backoff.paused_until(now).map(|until| until - now)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queued {
    /// Waits until the request may be made. It is queued at the end the first time, and before all others when repeated.
    pub(crate) async fn admitted(&mut self) -> Result<Permit, Paused> {
        let waiting = Waiting { notifier: Arc::clone(&self.notifier), demand: self.demand };
        self.governor.state().enter(Instant::now(), &self.subtree, self.ticket, waiting, self.was_made);
        loop {
            let status = self.governor.state().status(Instant::now(), self.ticket, self.patience);
            match status {
                Status::Granted(grant) => {
                    self.was_made = true;
                    return Ok(Permit { governor: Arc::clone(&self.governor), grant: Some(grant) });
                }
                Status::Paused(until) => return Err(Paused { left: until - Instant::now() }),
                Status::Waits(Some(at)) => tokio::select! {
                    () = self.notifier.notified() => {}
                    () = sleep_until(at) => {}
                },
                Status::Waits(None) => self.notifier.notified().await,
            }
        }
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.governor.state().leave(Instant::now(), &self.subtree, self.ticket);
    }
}

impl Permit {
    /// Records that the answer has begun and announced what is `left` of each limit.
    pub(crate) fn announce(&self, left: &[Left]) {
        if !left.is_empty() {
            self.governor.state().announce(Instant::now(), left);
        }
    }

    /// Records that the request was answered and used this number of tokens, if known.
    pub(crate) fn answered(mut self, tokens: Option<u64>) {
        if let Some(grant) = self.grant.take() {
            self.governor.state().answered(Instant::now(), grant, tokens);
        }
    }

    /// Records that the request met congestion: fewer requests run concurrently. If the rate was the reason, or the
    /// provider `asked` for a pause, no request is made for some time, and the pushback is returned.
    pub(crate) fn congested(mut self, is_rate: bool, asked: Option<Duration>) -> Option<Pushback> {
        let grant = self.grant.take()?;
        let mut state = self.governor.state();
        let now = Instant::now();
        let last_answer = state.backoff.served().map(|at| now - at);
        let until = state.congested(now, grant, is_rate, asked)?;
        Some(Pushback { pause: until.saturating_duration_since(now), last_answer })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.grant.take().is_some() {
            self.governor.state().over(Instant::now());
        }
    }
}
