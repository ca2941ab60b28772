//! How often a key of a provider is used, and by whom next.
//!
//! One governor stands before each key, whatever runs and models use it. It keeps the limits that a config says, finds out
//! how many requests may be under way, leaves the provider alone for as long as it asks or says that nothing is left, and
//! lets the subtrees of runs ask in turn. The arithmetic is in the files beside this one, which get every moment from outside;
//! here is the waiting.
//!
//! It is not where an error is judged: whether a request is made again, and when it is given up, its model says.

mod announced;
mod flight;
mod gate;
mod line;
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

use self::state::{Grant, Standing, State, Waiting};
use crate::provider::Retries;

/// What lets requests through.
pub(crate) struct Governor(Mutex<State>);

/// Whose requests share a place in line: those of one run, from its start or resumption on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunKey(u64);

impl RunKey {
    /// One that no other run of this process has.
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// That of the tools of `run`, which ask models that none of its agents asks.
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
    /// The subtree of `run` that `task` belongs to: task ids are paths from the root.
    pub(crate) fn of(run: RunKey, task: &TaskId) -> Self {
        let end = task.as_str().match_indices('/').nth(1).map(|(end, _)| end);
        Self { run, top: end.map_or_else(|| task.clone(), |end| TaskId::new(&task.as_str()[..end])) }
    }
}

/// A request's place in line, from before it is made until it is answered. Who drops it leaves.
pub(crate) struct Place {
    governor: Arc<Governor>,
    subtree: Subtree,
    ticket: u64,
    bell: Arc<Notify>,
    demand: Demand,
    patience: Duration,
    was_made: bool,
}

/// Leave to make one request, given back when it is dropped.
pub(crate) struct Permit {
    governor: Arc<Governor>,
    grant: Option<Grant>,
}

/// The provider wants to be left alone for longer than the request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed {
    /// For how long.
    pub(crate) left: Duration,
}

/// What a refusal did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pushback {
    /// How long nothing is asked.
    pub(crate) pause: Duration,
    /// How long ago something was last answered.
    pub(crate) last_answer: Option<Duration>,
}

impl fmt::Debug for Governor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Governor").finish_non_exhaustive()
    }
}

impl Governor {
    /// One that keeps no limit yet; where a provider does not say for how long it wants to be left alone, `retries` do.
    pub(crate) fn new(retries: Retries) -> Self {
        Self(Mutex::new(State::new(retries)))
    }

    /// Keeps to `limits` from now on; where they say nothing, to what was said before.
    pub(crate) fn keep(&self, limits: &ProviderLimits) {
        self.state().keep(limits);
    }

    /// A place for a request that takes what `demand` says, and waits at a closed gate for `patience` at most.
    pub(crate) fn place(self: &Arc<Self>, subtree: Subtree, demand: Demand, patience: Duration) -> Place {
        let (ticket, bell) = (self.state().ticket(patience), Arc::default());
        Place { governor: Arc::clone(self), subtree, ticket, bell, demand, patience, was_made: false }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Waits until the request may be made: behind those before it the first time, before all others when it is made again.
    pub(crate) async fn admitted(&mut self) -> Result<Permit, Closed> {
        let waiting = Waiting { bell: Arc::clone(&self.bell), demand: self.demand };
        self.governor.state().enter(Instant::now(), &self.subtree, self.ticket, waiting, self.was_made);
        loop {
            let standing = self.governor.state().standing(Instant::now(), self.ticket, self.patience);
            match standing {
                Standing::Granted(grant) => {
                    self.was_made = true;
                    return Ok(Permit { governor: Arc::clone(&self.governor), grant: Some(grant) });
                }
                Standing::Closed(until) => return Err(Closed { left: until - Instant::now() }),
                Standing::Waits(Some(at)) => tokio::select! {
                    () = self.bell.notified() => {}
                    () = sleep_until(at) => {}
                },
                Standing::Waits(None) => self.bell.notified().await,
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.governor.state().leave(Instant::now(), &self.subtree, self.ticket);
    }
}

impl Permit {
    /// The answer to the request has begun, and told how much is `left` of what limits.
    pub(crate) fn told(&self, left: &[Left]) {
        if !left.is_empty() {
            self.governor.state().told(Instant::now(), left);
        }
    }

    /// The request was answered, and used so many tokens, if the provider said so.
    pub(crate) fn answered(mut self, tokens: Option<u64>) {
        if let Some(grant) = self.grant.take() {
            self.governor.state().answered(Instant::now(), grant, tokens);
        }
    }

    /// The request met congestion: less is asked at a time. If the rate was the reason, or the provider `asked` to be left
    /// alone, nothing is asked for a while; then that is returned.
    pub(crate) fn congested(mut self, is_rate: bool, asked: Option<Duration>) -> Option<Pushback> {
        let grant = self.grant.take()?;
        let mut state = self.governor.state();
        let now = Instant::now();
        let last_answer = state.gate.served().map(|at| now - at);
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
