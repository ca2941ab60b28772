//! `baton listen`: each trigger of a project gets one run, and each run one answer.
//!
//! A run's id follows from its trigger, and the store begins the run and takes the trigger in one transaction. The answer and the end of
//! the trigger are one transaction too. So after a crash at any moment, and with any number of listeners, there is one run and one
//! answer. Triggers of one agent in one session wait for each other, and each continues the run of the one before.

mod answer;
mod context;
mod job;
mod request;

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use baton_breadcrumb::{Handler, Trigger, TriggerState};
use baton_config::Sources;
use baton_models::Embedder;
use baton_runtime::{
    Continued, Engine, FollowUp, Holder, Idle, InitialDocument, LoadedJob, RunError, RunHandle, RunOutcome, StartOptions,
    run_id_of,
};
use baton_store::{NextTrigger, Settlement, Store, StoreError};
use baton_types::id::{BreadcrumbId, ProjectId, RunId};
use baton_types::principal::Principal;
use futures_util::FutureExt;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The most triggers that are handled at the same time.
const AT_ONCE: usize = 64;

/// Longest time between two looks at the store, since a notification may be lost.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Time after which a trigger whose run waits, or is elsewhere, is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Time after which a trigger that could not be handled is tried again.
const TRY_AGAIN: Duration = Duration::from_mins(1);

/// Name of the program that continues sessions.
const PROGRAM: &str = "listen";

/// The files of a project.
pub struct ProjectFiles {
    /// The files that a job in the project's folder has.
    pub sources: Sources,
    /// The project's folder.
    pub folder: PathBuf,
}

/// Reads the files of the project with this text as `job.json`.
pub type ReadProject = Box<dyn Fn(&str) -> Result<ProjectFiles, String> + Send + Sync>;

/// Handles the triggers of a project.
pub struct Listener {
    engine: Engine,
    project: ProjectId,
    read_project: ReadProject,
    /// The model that answers for all agents, if there is one.
    model: Option<String>,
    /// Makes the vectors of searches by meaning; see [`baton_runtime::search_breadcrumbs`].
    embedder: Result<Option<Embedder>, String>,
}

/// A report about one trigger.
#[derive(Debug)]
pub struct Heard {
    /// The trigger.
    pub trigger: Trigger,
    /// Its run, if it has one.
    pub run: Option<RunId>,
    /// The outcome.
    pub outcome: Outcome,
}

/// Outcome of one attempt to handle a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is answered by this record.
    Answered(BreadcrumbId),
    /// Refused. The text is the reason.
    Refused(String),
    /// Its run waits for a person, a delivery or a moment.
    Waits,
    /// Its run is paused until a person resumes it, since three processes that executed it died.
    Quarantined,
    /// Its run was stopped. A later listener continues it.
    Stopped,
    /// Another process handles it.
    Elsewhere,
    /// It cannot be handled now. It is tried again in a minute.
    Failed(String),
}

/// A run for a trigger, or the outcome of a trigger that needs no run.
enum Begun {
    Run(Box<RunHandle>),
    Done(Outcome),
}

/// A run to be started.
struct Planned {
    job: LoadedJob,
    request: String,
    documents: Vec<InitialDocument>,
    /// The model that answers for all agents.
    model: Option<String>,
}

/// Reason for a missing run.
enum NoRun {
    /// Permanent. The text is the answer to a request of a tool.
    Refused(String),
    /// Temporary: tried again in a minute.
    Failed(String),
}

impl From<RunError> for NoRun {
    fn from(error: RunError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<StoreError> for NoRun {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Listener {
    /// Returns a listener for the triggers of `project`, whose files `read_project` reads.
    pub fn new(
        engine: Engine,
        project: ProjectId,
        read_project: ReadProject,
        model: Option<String>,
        embedder: Result<Option<Embedder>, String>,
    ) -> Arc<Self> {
        Arc::new(Self { engine, project, read_project, model, embedder })
    }

    /// Returns the faults of the agents of the project, with their names. Their triggers wait until the faults are mended.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn faults(&self) -> Result<Vec<(String, String)>, StoreError> {
        let agents = self.store().breadcrumbs().agents(&self.project, self.engine.now()).await?;
        let mut faults = Vec::new();
        for (id, record) in &agents {
            let checked = job::of_agent(self, record, &agents);
            if let Err(NoRun::Refused(fault) | NoRun::Failed(fault)) = checked {
                faults.push((format!("{} (breadcrumb {id})", record.title), fault));
            }
        }
        Ok(faults)
    }

    /// Handles triggers until `stop` completes. `report` is called with each trigger whose outcome is new.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn listen(self: &Arc<Self>, stop: impl Future<Output = ()>, report: impl Fn(&Heard)) -> Result<(), RunError> {
        let (stopped, mut stop) = (CancellationToken::new(), std::pin::pin!(stop));
        let mut announced = self.store().subscribe_to_all();
        // Tasks of their own: a future that only this loop polls would keep its place at the store while the loop waits for one.
        let mut handling: JoinSet<Heard> = JoinSet::new();
        let (mut in_progress, mut postponed) = (HashSet::<u64>::new(), HashMap::<u64, (Instant, Outcome)>::new());
        while !stopped.is_cancelled() {
            announced.mark_unchanged();
            let now = Instant::now();
            let waiting = postponed.values().filter(|(again, _)| *again > now).count();
            let limit = AT_ONCE + in_progress.len() + waiting;
            let next = self.store().breadcrumbs().next_triggers(&self.project, limit, self.engine.now()).await?;
            postponed.retain(|number, _| next.len() == limit || next.iter().any(|next| next.trigger.number == *number));
            for next in next {
                let number = next.trigger.number;
                let is_postponed = postponed.get(&number).is_some_and(|(again, _)| *again > now);
                if handling.len() >= AT_ONCE || is_postponed || !in_progress.insert(number) {
                    continue;
                }
                let (listener, stopped) = (Arc::clone(self), stopped.clone());
                handling.spawn(async move { listener.guarded(next, &stopped).await });
            }
            let wake =
                postponed.values().map(|(again, _)| *again).filter(|again| *again > now).chain([now + LONGEST_PAUSE]).min();
            tokio::select! {
                () = &mut stop => stopped.cancel(),
                Some(handled) = handling.join_next() => {
                    let Ok(heard) = handled else { continue };
                    let number = heard.trigger.number;
                    in_progress.remove(&number);
                    let pause = match heard.outcome {
                        Outcome::Waits | Outcome::Quarantined | Outcome::Elsewhere | Outcome::Stopped => Some(LOOK_AGAIN),
                        Outcome::Failed(_) => Some(TRY_AGAIN),
                        Outcome::Answered(_) | Outcome::Refused(_) => None,
                    };
                    let is_known = postponed.get(&number).is_some_and(|(_, before)| *before == heard.outcome);
                    if !is_known && heard.outcome != Outcome::Elsewhere {
                        report(&heard);
                    }
                    match pause {
                        Some(pause) => drop(postponed.insert(number, (Instant::now() + pause, heard.outcome))),
                        None => drop(postponed.remove(&number)),
                    }
                }
                Ok(()) = announced.changed() => {}
                () = tokio::time::sleep_until(wake.unwrap_or(now + LONGEST_PAUSE)) => {}
            }
        }
        while let Some(handled) = handling.join_next().await {
            if let Ok(heard) = handled
                && heard.outcome != Outcome::Elsewhere
            {
                report(&heard);
            }
        }
        Ok(())
    }

    fn store(&self) -> &Arc<dyn Store> {
        self.engine.store()
    }

    /// Handles a trigger until it is settled or has to wait. A panic does not end the listener.
    async fn guarded(&self, next: NextTrigger, stop: &CancellationToken) -> Heard {
        let trigger = next.trigger.clone();
        let handled = AssertUnwindSafe(self.handle(next, stop)).catch_unwind().await;
        let (run, outcome) = handled.unwrap_or_else(|_| (None, Outcome::Failed("the engine's own code panicked".to_owned())));
        Heard { trigger, run, outcome }
    }

    async fn handle(&self, next: NextTrigger, stop: &CancellationToken) -> (Option<RunId>, Outcome) {
        let begun = match &next.trigger.state {
            TriggerState::Waiting => self.begin(&next).await,
            TriggerState::Started { run } => self.resume(run).await,
            TriggerState::Settled { .. } => Ok(Begun::Done(Outcome::Elsewhere)),
        };
        let run = next.trigger.state.run().cloned();
        let handle = match begun {
            Ok(Begun::Run(handle)) => handle,
            Ok(Begun::Done(outcome)) => return (run, outcome),
            Err(NoRun::Failed(reason)) => return (run, Outcome::Failed(reason)),
            Err(NoRun::Refused(reason)) => {
                let record = next.record.as_ref().or(next.trigger.record.as_deref());
                let answer = record.and_then(|record| answer::of_refusal(&next.trigger, record, &reason, self.engine.now()));
                return (run, self.settle(&next, answer, Some(reason)).await);
            }
        };
        let run = Some(handle.id().clone());
        let outcome = match self.engine.work_on(&handle, stop).await {
            Continued::Waits | Continued::Over(RunOutcome::WaitingForPerson) => Outcome::Waits,
            Continued::Quarantined => Outcome::Quarantined,
            Continued::Over(RunOutcome::Stopped) => Outcome::Stopped,
            Continued::Over(RunOutcome::ProviderAway(away)) => Outcome::Failed(
                away.first()
                    .map_or_else(|| "a provider is unavailable".to_owned(), |away| format!("{}: {}", away.provider, away.reason)),
            ),
            Continued::Over(RunOutcome::Failed(error)) | Continued::Failed(error) => Outcome::Failed(error.to_string()),
            Continued::Over(RunOutcome::Ended { result, .. }) => match answer::of_run(self, &next, handle.id(), &result).await {
                Ok(Some(answer)) => self.settle(&next, Some(answer), None).await,
                Ok(None) => self.settle(&next, None, Some("its record has ended, so nothing can be answered".to_owned())).await,
                Err(error) => Outcome::Failed(error.to_string()),
            },
        };
        (run, outcome)
    }

    /// Starts the run of a trigger that has none.
    async fn begin(&self, next: &NextTrigger) -> Result<Begun, NoRun> {
        if let Some(reason) = &next.trigger.refused {
            return Err(NoRun::Refused(reason.clone()));
        }
        let Some(record) = &next.record else { return Err(NoRun::Refused("the record had ended".to_owned())) };
        let planned = match &next.trigger.handler {
            Handler::ToolRequest => request::plan(self, &next.trigger, record).await?,
            Handler::Agent(_) => {
                let Some(definition) = &next.definition else {
                    return Err(NoRun::Refused("no version of the agent's definition counts".to_owned()));
                };
                let agents = self.store().breadcrumbs().agents(&self.project, self.engine.now()).await?;
                let job = job::of_agent(self, definition, &agents)?;
                let (request, documents) = context::request(self, definition, record).await?;
                Planned { job, request, documents, model: self.model.clone() }
            }
        };
        let Trigger { number, handler, breadcrumb, version, .. } = &next.trigger;
        let id = run_id_of(format!("{handler:?}\n{breadcrumb}\n{version}").as_bytes());
        let started = match &next.previous {
            Some(previous) => self.continue_session(previous, &id, *number, planned).await,
            None => self.start(&id, *number, planned).await,
        };
        match started {
            Ok(handle) => Ok(Begun::Run(Box::new(handle))),
            Err(RunError::Store(error)) if matches!(*error, StoreError::TriggerTaken(_) | StoreError::RunExists(_)) => {
                Ok(Begun::Done(Outcome::Elsewhere))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn start(&self, id: &RunId, trigger: u64, planned: Planned) -> Result<RunHandle, RunError> {
        let Planned { job, request, documents, model } = planned;
        let options = StartOptions {
            request: Some(request),
            documents,
            model,
            run: Some(id.clone()),
            trigger: Some(trigger),
            ..StartOptions::default()
        };
        self.engine.start(job, options).await
    }

    /// Continues the session of the trigger before. If that is not possible, a new session begins: its run was removed, or the agent of its
    /// conversation has another name by now.
    async fn continue_session(
        &self,
        previous: &RunId,
        id: &RunId,
        trigger: u64,
        planned: Planned,
    ) -> Result<RunHandle, RunError> {
        let follow_up = FollowUp {
            request: planned.request.clone(),
            sources: Some(planned.job.sources().clone()),
            changes: Vec::new(),
            model: planned.model.clone(),
            documents: planned.documents.clone(),
            run: Some(id.clone()),
            trigger: Some(trigger),
        };
        match self.engine.continue_run(previous, &Principal::program(PROGRAM), follow_up).await {
            Err(RunError::UnknownRun(_) | RunError::NeverStarted(_) | RunError::Refused(_)) => {
                self.start(id, trigger, planned).await
            }
            continued => continued,
        }
    }

    /// Continues the run of a trigger, unless it proceeds elsewhere or waits.
    async fn resume(&self, run: &RunId) -> Result<Begun, NoRun> {
        match self.engine.holder(run).await {
            Ok(Holder::Nobody) => {}
            Ok(Holder::Here | Holder::Elsewhere { .. } | Holder::Unknown { .. }) => return Ok(Begun::Done(Outcome::Elsewhere)),
            Err(RunError::UnknownRun(_)) => return Err(NoRun::Refused(format!("its run {run} was removed"))),
            Err(error) => return Err(error.into()),
        }
        match self.engine.idle_state(run).await? {
            Some(Idle::Quarantined) => return Ok(Begun::Done(Outcome::Quarantined)),
            Some(Idle::Waits) => return Ok(Begun::Done(Outcome::Waits)),
            None => {}
        }
        match self.engine.resume_unattended(run).await {
            Ok(handle) => Ok(Begun::Run(Box::new(handle))),
            Err(RunError::Held { .. } | RunError::AlreadyRunning(_)) => Ok(Begun::Done(Outcome::Elsewhere)),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends a trigger, with its answer if it has one. An answer that breaks a rule is left out, and the reason is kept.
    async fn settle(&self, next: &NextTrigger, answer: Option<baton_store::Creation>, refused: Option<String>) -> Outcome {
        let trigger = next.trigger.number;
        let settled = self.store().breadcrumbs().settle(Settlement { trigger, answer, refused: refused.clone() }).await;
        match (settled, refused) {
            (Ok(Some(answer)), None) => Outcome::Answered(answer.id),
            (Ok(_), Some(reason)) => Outcome::Refused(reason),
            (Ok(None), None) => Outcome::Elsewhere,
            (Err(StoreError::Breadcrumb(error)), before) => {
                let reason = format!("the answer could not be written: {error}");
                let reason = before.map_or(reason.clone(), |before| format!("{before}; {reason}"));
                let end = Settlement { trigger, answer: None, refused: Some(reason.clone()) };
                match self.store().breadcrumbs().settle(end).await {
                    Ok(_) => Outcome::Refused(reason),
                    Err(error) => Outcome::Failed(error.to_string()),
                }
            }
            (Err(error), _) => Outcome::Failed(error.to_string()),
        }
    }
}
