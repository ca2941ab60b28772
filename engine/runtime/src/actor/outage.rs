//! Requests whose provider is away: each stays open as a record here, and is made again when its back-off ends.
//!
//! The machine knows nothing of an outage until it is over, or the run stops because of it. No future and no thread waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use baton_models::provider::Retries;
use baton_models::{ModelError, Outage, Pause};
use baton_types::call::{CallError, ErrorCode};
use baton_types::entry::Waited;
use baton_types::event::Event;
use baton_types::id::TaskId;
use baton_types::time::Timestamp;

use super::Actor;
use crate::clock::Clock;
use crate::handle::{BackOff, NextAttempt, Progress, ProviderAway, Unanswered};
use crate::watchers::Watchers;

/// The open requests that had no answer so far, and the providers that are away.
#[derive(Default)]
pub(crate) struct Outages {
    requests: BTreeMap<TaskId, Request>,
    /// Providers that are away, and since when.
    away: BTreeMap<String, Timestamp>,
    /// Since when every request of the run waits for a provider, and nothing else works.
    idle_since: Option<Timestamp>,
    /// Time in which that was so, and which no entry has recorded yet.
    idle: Duration,
}

/// An open request that had no answer so far.
struct Request {
    turn: u32,
    model: String,
    provider: String,
    reason: String,
    /// When the first attempt began that met an outage.
    away_since: Option<Timestamp>,
    /// Attempts at this model.
    failed: usize,
    /// Number of times that the request was sent to this model.
    sent: u32,
    pauses: Box<dyn Iterator<Item = Duration> + Send>,
    /// Whether an attempt met a broken answer, so that the pauses grow longer.
    is_paid: bool,
    /// Whether a provider may have charged for an attempt.
    charged: bool,
    state: State,
}

/// State of an open request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// An attempt that began then is under way.
    Asking(Timestamp),
    /// The next attempt begins then. If it is `held`, its window has ended.
    Waiting { until: Timestamp, held: bool },
    /// Nothing is tried again until a person has acted and the run is resumed.
    NeedsPerson,
}

impl Outages {
    /// Returns the moment of the next attempt.
    pub(crate) fn next_wake(&self) -> Option<Timestamp> {
        let waits = |request: &Request| match request.state {
            State::Waiting { until, .. } => Some(until),
            State::Asking(_) | State::NeedsPerson => None,
        };
        self.requests.values().filter_map(waits).min()
    }

    /// Returns the requests whose next attempt begins at `now`.
    pub(crate) fn due(&mut self, now: Timestamp) -> Vec<(TaskId, u32)> {
        let mut due = Vec::new();
        for (task, request) in &mut self.requests {
            if matches!(request.state, State::Waiting { until, .. } if until <= now) {
                request.state = State::Asking(now);
                due.push((task.clone(), request.turn));
            }
        }
        due
    }

    /// Drops the request of `task`.
    pub(crate) fn forget(&mut self, task: &TaskId) {
        self.requests.remove(task);
    }

    /// Returns the number of requests that wait for a person, the provider or time: their window has ended, or a
    /// person must act.
    fn held(&self) -> usize {
        let is_held = |request: &&Request| match request.state {
            State::Waiting { held, .. } => held,
            State::NeedsPerson => true,
            State::Asking(_) => false,
        };
        self.requests.values().filter(is_held).count()
    }

    /// Returns the providers that held requests wait for.
    pub(crate) fn providers(&self) -> BTreeSet<&str> {
        let away = self.requests.values().filter(|request| request.away_since.is_some());
        away.map(|request| request.provider.as_str()).collect()
    }

    /// Returns the outages that held requests wait for.
    pub(crate) fn away(&self) -> Vec<ProviderAway> {
        let away = self.requests.iter().filter(|(_, request)| request.away_since.is_some());
        let away = away.map(|(task, request)| ProviderAway {
            task: task.clone(),
            provider: request.provider.clone(),
            reason: request.reason.clone(),
        });
        away.collect()
    }

    /// Counts the time up to `now` as idle, if the run has been idle; it is idle from then on if it `is_idle`.
    fn count_idle(&mut self, now: Timestamp, is_idle: bool) {
        if let Some(since) = self.idle_since.take() {
            self.idle += now.since(since);
        }
        self.idle_since = is_idle.then_some(now);
    }
}

impl Request {
    fn new(turn: u32, model: String, provider: String, began: Timestamp) -> Self {
        let pauses = Box::new(Retries::default().endless_pauses());
        let (reason, away_since, state) = (String::new(), None, State::Asking(began));
        Self { turn, model, provider, reason, away_since, failed: 0, sent: 0, pauses, is_paid: false, charged: false, state }
    }
}

impl Actor {
    /// Handles a model's failure to answer: returns an event for the machine, or keeps the request waiting.
    pub(crate) fn unanswered(&mut self, unanswered: Unanswered) -> Option<Event> {
        let Unanswered { task, turn, model, error, sent, began } = unanswered;
        let now = self.shared.clock.now();
        let (falls_back, provider) =
            (self.run.next_fallback(&task).is_some(), self.run.configs().job.provider_of(&model).to_owned());
        let window = self.run.configs().job.outage(&model);
        let is_played = self.shared.providers.cassettes().is_some_and(|cassettes| cassettes.is_played());
        let request = self.outages.requests.entry(task.clone());
        let request = request.or_insert_with(|| Request::new(turn, model.clone(), provider.clone(), began));
        if (request.turn, &request.model) != (turn, &model) {
            let charged = request.charged && request.turn == turn;
            *request = Request { charged, ..Request::new(turn, model.clone(), provider, began) };
        }
        request.charged |= error.may_cost();
        request.failed += 1;
        request.sent += sent;
        request.reason = error.to_string();
        let may_pass = request.failed <= Retries::default().most && !is_played;
        if error.outage() == Some(Outage::Broken) && !request.is_paid {
            request.is_paid = true;
            request.pauses = Box::new(Retries::default().of_paid_attempts().endless_pauses());
        }
        let state = match error.outage() {
            // A fallback answers sooner than a provider comes back. What fails for a moment is still tried again first, unless
            // each attempt may have to be paid for.
            Some(Outage::Failing) if falls_back && may_pass && !matches!(error, ModelError::TimedOut { .. }) => {
                request.pauses.next().map(|pause| State::Waiting { until: now.plus(pause), held: false })
            }
            Some(_) if falls_back => None,
            None => None,
            Some(outage) => {
                let since = *request.away_since.get_or_insert(began);
                let asked = if let Outage::Limited { retry_after } = outage { retry_after } else { None };
                let pause = request.pauses.next().max(asked).filter(|_| outage != Outage::NeedsPerson && !is_played);
                Some(pause.map_or(State::NeedsPerson, |pause| {
                    let until = now.plus(pause);
                    State::Waiting { until, held: until.since(since) > window }
                }))
            }
        };
        let Some(state) = state else { return Some(self.fails(&task, turn, model, &error, falls_back)) };
        request.state = state;
        if let Some(since) = request.away_since {
            self.outages.away.entry(request.provider.clone()).or_insert(since);
        }
        self.report(&task);
        None
    }

    /// Fails the request of `task` for good, or replaces its model by the next one.
    fn fails(&mut self, task: &TaskId, turn: u32, model: String, error: &ModelError, falls_back: bool) -> Event {
        let charged = self.outages.requests.get(task).is_some_and(|request| request.charged);
        if !(falls_back && error.is_unavailable()) {
            self.outages.forget(task);
        }
        let code = match error {
            ModelError::ContextExceeded { .. } => ErrorCode::ContextExceeded,
            ModelError::TurnTimedOut { .. } => ErrorCode::TimedOut,
            error if error.is_unavailable() => ErrorCode::ModelUnavailable,
            _ => ErrorCode::ModelFailed,
        };
        let error = CallError::new(code, error.to_string());
        Event::ModelFailed { task: task.clone(), turn, model, error, uncharged: !charged }
    }

    /// Records that an attempt at the request of `task` begins. Returns the observer of its pauses.
    pub(crate) fn attempt_begins(&mut self, task: &TaskId, turn: u32, model: &str) -> Pauses {
        let now = self.shared.clock.now();
        let mut sent_before = 0;
        if let Some(request) = self.outages.requests.get_mut(task) {
            request.state = State::Asking(now);
            sent_before = if (request.turn, request.model.as_str()) == (turn, model) { request.sent } else { 0 };
        }
        let provider = self.run.configs().job.provider_of(model).to_owned();
        Pauses { task: task.clone(), turn, provider, sent_before, sent: AtomicU32::new(0), watchers: Arc::clone(&self.progress) }
    }

    /// Records that a model answered for `task`. Returns the waiting time as an event, if there was any.
    pub(crate) fn answered(&mut self, task: &TaskId) -> Option<Event> {
        let request = self.outages.requests.remove(task)?;
        let now = self.shared.clock.now();
        let since = request.away_since?;
        if let Some(since) = self.outages.away.remove(&request.provider) {
            self.progress.send(Arc::new(Progress::Returned { provider: request.provider.clone(), away: now.since(since) }));
        }
        let until = if let State::Asking(began) = request.state { began } else { now };
        // What the attempt that succeeded took was work.
        if self.outages.idle_since.is_some() {
            self.outages.count_idle(until, false);
        }
        Some(self.waited(task.clone(), &request, since, until, false))
    }

    fn waited(&mut self, task: TaskId, request: &Request, since: Timestamp, until: Timestamp, stops: bool) -> Event {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let idle = std::mem::take(&mut self.outages.idle);
        let waited = Waited {
            provider: request.provider.clone(),
            reason: request.reason.clone(),
            milliseconds: milliseconds(until.since(since)),
            run_milliseconds: milliseconds(idle),
            stops,
            uncharged: !request.charged,
        };
        Event::ModelWaited { task, turn: request.turn, waited }
    }

    /// Returns the waiting times of open requests as events, since the run stops.
    pub(crate) fn waits_end(&mut self) -> Vec<Event> {
        let now = self.shared.clock.now();
        self.outages.count_idle(now, false);
        let requests = std::mem::take(&mut self.outages.requests).into_iter();
        let waiting = requests.filter(|(_, request)| !matches!(request.state, State::Asking(_)));
        let events = waiting.filter_map(|(task, request)| {
            let since = request.away_since?;
            Some(self.waited(task, &request, since, now, true))
        });
        events.collect()
    }

    /// Whether nothing in the run can proceed but requests whose provider is away.
    pub(crate) fn is_held_up(&self) -> bool {
        let (shared, held) = (self.run.totals(), self.outages.held());
        held > 0
            && held == self.working()
            && !shared.paused
            && shared.alarms.is_empty()
            && self.run.ended().is_none()
            && self.work.is_quiet()
            && self.work.to_ask.is_empty()
    }

    /// Returns the number of tasks that wait for their model or for their calls. Ready tasks wait for room that these
    /// take.
    fn working(&self) -> usize {
        let shared = self.run.totals();
        usize::try_from(shared.active_tasks).unwrap_or(usize::MAX).saturating_sub(shared.ready.len())
    }

    /// Keeps count of the time in which the run only waits for providers.
    pub(crate) fn count_idle(&mut self) {
        if self.outages.requests.is_empty() && self.outages.idle_since.is_none() {
            return;
        }
        let away = self.outages.requests.values().filter(|request| request.away_since.is_some()).count();
        let now = self.shared.clock.now();
        self.outages.count_idle(now, away > 0 && away == self.working());
    }

    /// Notifies watchers of the pause before the next attempt at the request of `task`.
    fn report(&self, task: &TaskId) {
        let Some(request) = self.outages.requests.get(task) else { return };
        let next = match request.state {
            State::Waiting { until, held: false } => NextAttempt::At(until),
            State::Waiting { until, held: true } => NextAttempt::AfterWindow(until),
            State::NeedsPerson => NextAttempt::OnResume,
            State::Asking(_) => return,
        };
        tracing::warn!(%task, provider = request.provider, reason = request.reason, ?next, "the request failed");
        let (provider, reason) = (request.provider.clone(), request.reason.clone());
        let back_off = BackOff { task: task.clone(), turn: request.turn, provider, attempt: request.sent + 1, next, reason };
        self.progress.send(Arc::new(Progress::BacksOff(back_off)));
    }
}

/// Observer of the pauses within one attempt.
pub(crate) struct Pauses {
    task: TaskId,
    turn: u32,
    provider: String,
    /// Number of times that the request was sent in earlier attempts.
    sent_before: u32,
    /// Number of times that this attempt sent it, before its last pause.
    sent: AtomicU32,
    watchers: Arc<Watchers<Arc<Progress>>>,
}

impl Pauses {
    /// Notifies watchers of a pause.
    pub(crate) fn report(&self, pause: Pause, clock: &dyn Clock) {
        self.sent.store(pause.sent, Ordering::Relaxed);
        let back_off = BackOff {
            task: self.task.clone(),
            turn: self.turn,
            provider: self.provider.clone(),
            attempt: self.sent_before + pause.sent + 1,
            next: NextAttempt::At(clock.now().plus(pause.length)),
            reason: pause.reason,
        };
        self.watchers.send(Arc::new(Progress::BacksOff(back_off)));
    }

    /// Returns the number of times that this attempt sent the request before its last pause.
    pub(crate) fn sent(&self) -> u32 {
        self.sent.load(Ordering::Relaxed)
    }
}
