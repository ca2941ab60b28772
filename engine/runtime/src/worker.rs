//! A worker: executes the runs of a store that need an owner. A run continues when a delivery or an answer is in its inbox, or when its
//! moment has come, and is released as soon as it waits again.
//!
//! A run needs an owner if it was queued, if it was released while it waited and is due, or if the worker that executed it was stopped
//! or died. A run that a person stopped in the middle of its work is not continued, since that may have been on purpose. Waiting runs
//! cost nothing here: the store knows which of them are due. The ticks of schedules are published in the same loop.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use baton_store::{Due, StoreError};
use baton_types::id::RunId;
use baton_types::time::Timestamp;
use futures_util::FutureExt;
use futures_util::future::OptionFuture;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::actor::{STATUS_PAUSED, STATUS_QUARANTINED, STATUS_WAITING};
use crate::bus::Announced;
use crate::clock::sleep_until;
use crate::engine::{Engine, Holder};
use crate::error::{RunError, panic_message};
use crate::handle::{RunHandle, RunOutcome};
use crate::schedules::SchedulePass;

/// The most runs that a worker executes at the same time, unless its options say otherwise.
const SLOTS: usize = 64;

/// Time after which a run that could not be continued is tried again.
const TRY_AGAIN: Duration = Duration::from_mins(1);

/// Time after which a run that another process holds is looked at again: not every store announces its release.
const HELD: Duration = Duration::from_secs(1);

/// Longest time between two looks at the store: not every store announces queued runs, and an announcement may be lost.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The same for a worker with a bus: each run is announced to one worker, and this finds those whose announcement was lost.
const LONGEST_PAUSE_WITH_BUS: Duration = Duration::from_secs(10);

/// Longest time between two passes over the schedules.
const SCHEDULE_PAUSE: Duration = Duration::from_secs(10);

/// Options of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkOptions {
    /// The most runs that it executes at the same time, at least 1.
    pub slots: usize,
}

impl Default for WorkOptions {
    fn default() -> Self {
        Self { slots: SLOTS }
    }
}

/// Outcome of a run that was due.
pub enum Continued {
    /// It waits again.
    Waits,
    /// It is paused until a person resumes it, since three processes that executed it died.
    Quarantined,
    /// It is over, or stopped.
    Over(RunOutcome),
    /// It cannot be continued now. It is tried again in a minute.
    Failed(RunError),
}

/// Why a released run does not proceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// It waits for a person, a delivery or a moment, or a person paused it.
    Waits,
    /// It is paused until a person resumes it, since three processes that executed it died.
    Quarantined,
}

impl Continued {
    /// Returns the error that stopped the run, or kept it from continuing. This process may still own the run then.
    fn error(&self) -> Option<&RunError> {
        match self {
            Self::Failed(error) | Self::Over(RunOutcome::Failed(error)) => Some(error),
            Self::Waits | Self::Quarantined | Self::Over(_) => None,
        }
    }

    /// Returns the time after which a run with this outcome is tried again; `None` if it is not.
    fn pause(&self) -> Option<Duration> {
        match self.error()? {
            // Another process was faster.
            RunError::Held { .. } => Some(HELD),
            error if error.is_outage() => Some(HELD),
            // Another process has taken it over.
            RunError::Store(error) if matches!(**error, StoreError::StaleEpoch { .. }) => None,
            _ => Some(TRY_AGAIN),
        }
    }
}

/// A report of what was done.
pub enum WorkReport<'a> {
    /// A run was continued.
    Run(&'a RunId, &'a Continued),
    /// The store cannot be used now. Reported once until it can be used again.
    StoreAway(&'a RunError),
    /// Ticks of schedules were published, or could not be.
    Schedules(&'a SchedulePass),
}

/// Acknowledges the announcement of a run, if it was announced.
fn acknowledge(announced: Option<oneshot::Sender<()>>) {
    if let Some(announced) = announced {
        // The bus may be gone; the announcement comes again then.
        let _gone = announced.send(());
    }
}

impl Engine {
    /// Executes the runs of the store that need an owner, and publishes the ticks of its schedules, until `stop` completes. Runs that
    /// proceed then are released for other workers. `report` is called with each run that was continued, and with each pass over schedules that
    /// published a tick or failed.
    ///
    /// Several processes may work on one store: only one of them gets a run, and a tick is published once.
    ///
    /// If the store cannot be used for a while, the worker waits until it can, and continues the runs that this stopped.
    ///
    /// # Errors
    /// If the store is damaged or closed, or has another format.
    pub async fn work(
        &self,
        options: WorkOptions,
        stop: impl Future<Output = ()>,
        report: impl Fn(WorkReport<'_>),
    ) -> Result<(), RunError> {
        let slots = options.slots.max(1);
        let (stopped, mut stop) = (CancellationToken::new(), std::pin::pin!(stop));
        let mut announced = self.0.store.subscribe_to_all();
        let mut working: JoinSet<(RunId, Continued)> = JoinSet::new();
        let (mut busy, mut passed_over) = (HashSet::new(), HashMap::<RunId, Timestamp>::new());
        let (mut next_pass, mut failed) = (Timestamp::from_micros(0), Vec::new());
        // Runs that this process may own, and does not execute since an error stopped them.
        let (mut left, mut is_away) = (HashSet::new(), false);
        let (bus, mut asked) = (self.0.bus.as_ref(), None);
        let longest_pause = if bus.is_some() { LONGEST_PAUSE_WITH_BUS } else { LONGEST_PAUSE };
        let (mut next_look, mut candidates) = (Timestamp::from_micros(0), Vec::<(RunId, Option<oneshot::Sender<()>>)>::new());
        while !stopped.is_cancelled() {
            announced.mark_unchanged();
            let now = self.0.clock.now();
            // The bus gives each run to one worker. If all looked at the store as often, all would try to get the same runs.
            let looks_at_store = bus.is_none() || next_look <= now;
            let limit = slots + busy.len() + passed_over.len();
            let looked = self.look(now, next_pass <= now, looks_at_store, limit).await;
            let (pass, due) = match looked {
                Err(error) if error.may_pass() => {
                    if !std::mem::replace(&mut is_away, true) {
                        report(WorkReport::StoreAway(&error));
                    }
                    tokio::select! {
                        () = &mut stop => stopped.cancel(),
                        () = sleep_until(&*self.0.clock, Some(now.plus(LONGEST_PAUSE))) => {}
                    }
                    continue;
                }
                looked => looked?,
            };
            is_away = false;
            if let Some(pass) = pass {
                // A schedule that fails again is not reported again.
                if !pass.published.is_empty() || pass.failed != failed {
                    report(WorkReport::Schedules(&pass));
                }
                next_pass = now.plus(SCHEDULE_PAUSE).min(pass.next.unwrap_or(Timestamp::MAX));
                failed = pass.failed;
            }
            passed_over.retain(|_, again| *again > now);
            let (may_be_more, passed_before) = (due.runs.len() == limit, passed_over.len());
            if looks_at_store {
                next_look = due.next.into_iter().chain([now.plus(longest_pause)]).min().unwrap_or(now);
                // They may not be due, and no other process takes them.
                for id in left.iter().cloned().collect::<Vec<RunId>>() {
                    match self.holder(&id).await {
                        Ok(Holder::Elsewhere { owner }) if owner == self.0.store.owner() => candidates.push((id, None)),
                        Ok(_) => _ = left.remove(&id),
                        Err(_) => {}
                    }
                }
            }
            candidates.extend(due.runs.into_iter().map(|id| (id, None)));
            let mut later = Vec::new();
            for (id, announced) in candidates.drain(..) {
                if announced.is_none() && (working.len() >= slots || busy.contains(&id) || passed_over.contains_key(&id)) {
                    continue;
                }
                let holder = match self.holder_if_due(&id, announced.is_some(), now).await {
                    Ok(holder) => holder,
                    Err(error) if error.may_pass() => continue,
                    Err(error) => return Err(error),
                };
                let Some(holder) = holder else {
                    acknowledge(announced);
                    continue;
                };
                // Another process that has the run finds the work in the inbox.
                let is_left =
                    left.contains(&id) && matches!(&holder, Holder::Elsewhere { owner } if *owner == self.0.store.owner());
                let is_free = is_left || matches!(holder, Holder::Nobody);
                if busy.contains(&id) {
                    if is_free {
                        // It was released a moment ago.
                        later.push((id, announced));
                    } else {
                        acknowledge(announced);
                    }
                    continue;
                }
                // An announced run may be free again a moment after another process had it. A run that failed has a longer pause.
                let is_paused = passed_over.get(&id).is_some_and(|again| *again > now.plus(HELD));
                if !is_free || is_paused {
                    acknowledge(announced);
                    passed_over.entry(id).or_insert_with(|| now.plus(HELD));
                    continue;
                }
                if working.len() >= slots {
                    continue;
                }
                left.remove(&id);
                busy.insert(id.clone());
                let (engine, stop) = (self.clone(), stopped.clone());
                working.spawn(async move {
                    let continued =
                        AssertUnwindSafe(engine.continue_waiting(&id, is_left, announced, &stop)).catch_unwind().await;
                    let panicked = |panic: Box<dyn Any + Send>| Err(RunError::Fault { message: panic_message(&*panic) });
                    let outcome = continued.unwrap_or_else(panicked).unwrap_or_else(Continued::Failed);
                    (id, outcome)
                });
            }
            candidates = later;
            // Runs that others hold must not hide the due runs after them.
            if may_be_more && passed_over.len() > passed_before && working.len() < slots {
                continue;
            }
            let latest = if bus.is_some() { next_look } else { now.plus(longest_pause) };
            let wake = due.next.into_iter().chain(passed_over.values().copied()).chain([latest, next_pass]).min();
            // A worker asks the bus for a run only if it can execute it.
            if let (Some(bus), None, true) = (bus, &asked, working.len() < slots) {
                asked = Some(Arc::clone(bus).next());
            }
            tokio::select! {
                Some(Announced { run, acknowledge }) = OptionFuture::from(asked.as_mut()), if working.len() < slots => {
                    asked = None;
                    candidates.push((run, Some(acknowledge)));
                }
                () = &mut stop => stopped.cancel(),
                Some(done) = working.join_next() => {
                    let Ok((id, outcome)) = done else { continue };
                    busy.remove(&id);
                    if outcome.error().is_some() {
                        left.insert(id.clone());
                    }
                    if bus.is_some() && matches!(outcome, Continued::Waits) {
                        // It may continue by itself before the next look.
                        let waiting = self.0.store.due(now, 0).await.unwrap_or_default();
                        next_look = waiting.next.into_iter().chain([next_look]).min().unwrap_or(next_look);
                    }
                    let pause = outcome.pause().map(|pause| (pause, self.0.clock.now().plus(pause)));
                    if pause.is_none_or(|(pause, _)| pause != HELD) {
                        report(WorkReport::Run(&id, &outcome));
                    }
                    if let Some((_, again)) = pause {
                        next_look = next_look.min(again);
                        passed_over.insert(id, again);
                    }
                }
                Ok(()) = announced.changed(), if bus.is_none() => {}
                () = sleep_until(&*self.0.clock, wake) => {}
            }
        }
        while let Some(done) = working.join_next().await {
            if let Ok((id, outcome)) = done
                && !matches!(outcome, Continued::Failed(RunError::Held { .. }))
            {
                report(WorkReport::Run(&id, &outcome));
            }
        }
        Ok(())
    }

    /// Publishes the ticks that are due, if `publishes`, and returns the runs that need an owner, if `looks_at_store`.
    async fn look(
        &self,
        now: Timestamp,
        publishes: bool,
        looks_at_store: bool,
        limit: usize,
    ) -> Result<(Option<SchedulePass>, Due), RunError> {
        let pass = if publishes { Some(self.publish_ticks().await?) } else { None };
        Ok((pass, if looks_at_store { self.0.store.due(now, limit).await? } else { Due::default() }))
    }

    /// Returns the owner of a run that needs one; `None` if it needs none. A run that the store has just reported does, but an
    /// announcement may be an old one.
    async fn holder_if_due(&self, id: &RunId, is_announced: bool, now: Timestamp) -> Result<Option<Holder>, RunError> {
        if is_announced && !self.0.store.is_due(id, now).await? {
            return Ok(None);
        }
        self.holder(id).await.map(Some)
    }

    /// Continues a run until it waits again, is over, or `stop` is cancelled. Another process may have continued it to its end meanwhile.
    /// `is_left` if this process still owns the run, and does not execute it. An announcement is acknowledged when the run has its owner.
    async fn continue_waiting(
        &self,
        id: &RunId,
        is_left: bool,
        announced: Option<oneshot::Sender<()>>,
        stop: &CancellationToken,
    ) -> Result<Continued, RunError> {
        let taken = if is_left { self.resume_left(id).await } else { self.resume_unattended(id).await };
        if !matches!(&taken, Err(error) if error.may_pass()) {
            acknowledge(announced);
        }
        Ok(self.work_on(&taken?, stop).await)
    }

    /// Returns why a released run does not proceed. `None` if it has an owner, has ended, or may be continued at once.
    pub async fn idle_state(&self, id: &RunId) -> Result<Option<Idle>, RunError> {
        let record = self.0.store.run(id).await?.ok_or_else(|| RunError::UnknownRun(id.clone()))?;
        Ok(match &*record.status {
            _ if record.owner.is_some() => None,
            STATUS_WAITING | STATUS_PAUSED => Some(Idle::Waits),
            STATUS_QUARANTINED => Some(Idle::Quarantined),
            _ => None,
        })
    }

    /// Lets a run proceed until it waits, is over, or `stop` is cancelled. If it waits, it is released: [`Engine::work`]
    /// continues it. A quarantined run is released too, and only a person continues it.
    pub async fn work_on(&self, handle: &RunHandle, stop: &CancellationToken) -> Continued {
        handle.unattended();
        let outcome = tokio::select! {
            outcome = handle.until_idle() => outcome,
            () = stop.cancelled() => None,
        };
        match outcome {
            Some(outcome) => Continued::Over(outcome),
            None => match handle.stop().await {
                RunOutcome::Stopped if !stop.is_cancelled() => match self.idle_state(handle.id()).await {
                    Ok(Some(Idle::Quarantined)) => Continued::Quarantined,
                    // It was released, whether or not the store can tell more.
                    Ok(Some(Idle::Waits) | None) | Err(_) => Continued::Waits,
                },
                outcome => Continued::Over(outcome),
            },
        }
    }
}
