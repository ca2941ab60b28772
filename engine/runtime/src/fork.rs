//! `fork` and `continue`: a new run that shares the past of another by reference. A fork begins at a point in the past, with other
//! configs or documents; a continuation begins at the end, with a new request.

use std::path::PathBuf;
use std::sync::Arc;

use baton_config::{Sources, Unconfigured};
use baton_types::config::Job;
use baton_types::entry::{Adoption, Entry, Fork, ForkPoint, ForkedEffects, Recorded};
use baton_types::event::{Event, Refusal};
use baton_types::id::RunId;
use baton_types::principal::Principal;

use crate::actor::Iteration;
use crate::engine::{Begins, Engine, Wanted};
use crate::error::RunError;
use crate::handle::{RunHandle, measured};
use crate::job::{InitialDocument, load_configs, pinned};
use crate::reading::PAGE;
use crate::services::template;

/// Place and changes of a fork.
#[derive(Clone, Debug, Default)]
pub struct ForkOptions {
    /// The last entry of the original that the fork may share: its past ends with the last decision that is complete by then.
    /// Default: the first decision of the run, so that everything is done again. Unchanged requests take their recorded answers.
    pub at: Option<u64>,
    /// Files that replace the original's.
    pub sources: Option<Sources>,
    /// Description of the changes for people.
    pub changes: Vec<String>,
    /// Model that replaces every agent's own, and the original's replacement.
    pub model: Option<String>,
    /// Documents that the person writes at the fork: a first version, or a next one.
    pub documents: Vec<InitialDocument>,
    /// Treatment of calls with effects.
    pub effects: ForkedEffects,
    /// The fork's id; made up when absent.
    pub run: Option<RunId>,
}

/// The next request of a conversation, and what goes with it.
#[derive(Clone, Debug, Default)]
pub struct FollowUp {
    /// The request.
    pub request: String,
    /// The configs that hold from here on; those of the run before if absent.
    pub sources: Option<Sources>,
    /// Description of the changes for people.
    pub changes: Vec<String>,
    /// Model that replaces every agent's own, and the replacement in the run before.
    pub model: Option<String>,
    /// Documents that go with the request: a first version, or a next one.
    pub documents: Vec<InitialDocument>,
    /// The new run's id; made up when absent.
    pub run: Option<RunId>,
    /// The trigger of a breadcrumb that the run handles.
    pub trigger: Option<u64>,
}

/// Checks that `job` has the beginning of `original`. Every fork begins after the root's task was created with its request and
/// documents, so other ones would have no effect.
fn check_past(original: &Job, job: &Job) -> Result<(), RunError> {
    let differs = [
        ("job.root", original.root != job.root),
        ("job.request", original.request != job.request),
        ("job.documents", original.documents != job.documents),
    ];
    match differs.into_iter().find(|(_, differs)| *differs) {
        Some((field, _)) => Err(RunError::ChangesThePast { field }),
        None => Ok(()),
    }
}

impl Engine {
    /// Starts a run that begins with the first entries of `original`, which stays as it is; returns when its own first entries
    /// are durable.
    ///
    /// From there on a model request identical to one of the original takes its recorded answer, and no model is
    /// asked. Calls of `pure` tools are executed again. `options.effects` decides for other calls. A person's answer
    /// to the same question is taken over. Other actions of people on the original (cancel, pause, steer) are not
    /// repeated.
    ///
    /// Fails with [`RunError::NoSuchDecision`] if no decision is complete by then, with [`RunError::NoSuchEntry`] if the original
    /// has not come as far, and with [`RunError::PastTheEnd`] if it has ended by then. Fails with
    /// [`RunError::ChangesThePast`] if the configs change the root agent, the request or the initial documents. Fails with
    /// [`baton_types::event::Refusal::CannotAdopt`] if the configs lack what the shared past is in the middle of.
    pub async fn fork(&self, original: &RunId, by: &Principal, options: ForkOptions) -> Result<RunHandle, RunError> {
        let seq = self.fork_place(original, options.at).await?;
        self.branch(original, seq, by, options, None).await
    }

    /// Starts a run that continues `before`, which must have ended; returns when its own first entries are durable.
    ///
    /// Its root task begins with the conversation of the root before, and `follow_up.request` is its request. It has the
    /// same workspace. What counts for the limits of a run begins at zero.
    ///
    /// Fails with [`baton_types::event::Refusal::NotEnded`] if the run has not ended, and with
    /// [`baton_types::event::Refusal::CannotAdopt`] if the configs lack the agent of the conversation.
    pub async fn continue_run(&self, before: &RunId, by: &Principal, follow_up: FollowUp) -> Result<RunHandle, RunError> {
        let (run, _) = self.0.state(before).await?;
        if run.ended().is_none() {
            return Err(Refusal::NotEnded.into());
        }
        let FollowUp { request, sources, changes, model, documents, run: id, trigger } = follow_up;
        // Nothing of the run before happens again, so that every call is a new one.
        let options = ForkOptions { at: None, sources, changes, model, documents, effects: ForkedEffects::All, run: id };
        self.branch(before, run.last_seq(), by, options, Some((request, trigger))).await
    }

    /// Starts a run that shares the entries of `original` up to `seq`: a fork, or with `follow_up` a continuation.
    async fn branch(
        &self,
        original: &RunId,
        seq: u64,
        by: &Principal,
        options: ForkOptions,
        follow_up: Option<(String, Option<u64>)>,
    ) -> Result<RunHandle, RunError> {
        let shared = &self.0;
        let (follow_up, trigger) = follow_up.map_or((None, None), |(request, trigger)| (Some(request), trigger));
        let (mut reading, mut prompts) = shared.read(original).await?;
        reading.through = seq;
        while reading.run.last_seq() < seq {
            for recorded in &shared.page(&mut reading, &mut prompts).await? {
                reading.apply(recorded)?;
            }
        }
        let mut run = reading.run;
        let started = run.started().cloned().ok_or_else(|| RunError::NeverStarted(original.clone()))?;
        let sources = match options.sources {
            Some(sources) => sources,
            None => shared.sources(original, started.configs).await?,
        };
        let loaded = load_configs(&sources, &shared.functions, Unconfigured::Allowed);
        let configs = Arc::new(loaded.map_err(|faults| RunError::Configs(Arc::new(faults)))?);
        if follow_up.is_none() {
            check_past(&run.configs().job, &configs.job)?;
        }
        let (pinned, text) = pinned(&sources);
        prompts.adopt(seq + 1, &configs).map_err(|error| template(&error))?;
        run.know_configs(pinned, Arc::clone(&configs));
        let model = options.model.or(started.model);
        let folder = started.folder.as_ref().map(PathBuf::from);
        let trusted = shared.trusted(&configs, folder.as_deref(), model.as_deref())?;
        let models = shared.models(&trusted, model.as_deref(), &started.inputs)?;
        let prices = shared.prices(&configs, model.as_deref())?;
        let (documents, mut contents) = measured(&options.documents);
        contents.push((pinned, text));

        let now = shared.clock.now().max(reading.last);
        let from = ForkPoint { run: original.clone(), seq };
        let forked = |run: &RunId| Fork { run: run.clone(), from: from.clone(), at: reading.last, effects: options.effects };
        let begin = |id: &RunId| {
            // Its past is not in any recording of it.
            shared.providers.cassettes().map_or(Ok(()), |cassettes| cassettes.check_run(id))?;
            let adoption = Adoption {
                configs: pinned,
                model: model.clone(),
                prices: prices.clone(),
                changes: options.changes.clone(),
                fork: Some(forked(id)),
                follow_up: follow_up.clone(),
            };
            let mut run = run.clone();
            let decision = run.handle(now, Event::Adopted { adoption, documents: documents.clone(), by: by.clone() })?;
            Ok((run, Iteration::of(decision)))
        };
        let wanted = Wanted { id: options.run.as_ref(), past: Some(&from), trigger, begins: Begins::Here };
        let stored = shared.store_new(wanted, &contents, now, begin).await?;
        let transcripts = shared.transcripts(&stored.id, prompts);
        let recording = Some(shared.recording(&forked(&stored.id)).await?);
        let parts = stored.parts(trusted, models, transcripts, folder, recording);
        Ok(shared.spawn(parts))
    }

    /// Returns the last entry that a fork of `original` can share if it may share those up to `at`. Without `at`, returns
    /// the first possible one; of a run that continues another, the first one of its own.
    ///
    /// It is the last entry of a decision: between two decisions a run is at rest. No fork begins where a run has ended.
    pub async fn fork_place(&self, original: &RunId, at: Option<u64>) -> Result<u64, RunError> {
        let (mut part, mut decision, mut last) = (SessionPart::default(), 0, 0);
        'pages: loop {
            let page: Vec<Arc<Recorded>> = self.0.store.entries(original, last, PAGE).await?;
            if page.is_empty() {
                break;
            }
            for recorded in &page {
                let begins = std::mem::replace(&mut decision, recorded.decision) != recorded.decision;
                if begins && part.end.is_some() {
                    if at.is_some_and(|at| at <= last) {
                        break 'pages;
                    }
                    part = SessionPart::default();
                } else if begins && last > 0 {
                    part.add(last, at);
                    if let Some(at) = at.filter(|at| *at < last) {
                        return part.place_for(at);
                    }
                }
                if matches!(recorded.entry, Entry::RunEnded(_)) {
                    part.end = Some(recorded.seq);
                }
                last = recorded.seq;
            }
        }
        if last == 0 {
            return Err(RunError::NeverStarted(original.clone()));
        }
        if part.end.is_none() {
            part.add(last, at);
        }
        let past_the_end = |end| RunError::PastTheEnd { run: original.clone(), end, last: part.place };
        match (at, part.end) {
            (None, _) if part.first > 0 => Ok(part.first),
            (Some(at), Some(end)) if at < end && part.first > 0 => part.place_for(at),
            (_, Some(end)) => Err(past_the_end(end)),
            (Some(at), None) if at > last => Err(RunError::NoSuchEntry { run: original.clone(), at, first: part.first, last }),
            (Some(at), None) => part.place_for(at),
            (None, None) => Ok(last),
        }
    }
}

/// The entries of one run of a session, as far as they were read.
#[derive(Default)]
struct SessionPart {
    /// The end of its first decision; 0 if there is none before its end.
    first: u64,
    /// The end of the last decision that a fork may share.
    place: u64,
    /// The entry that ended the run.
    end: Option<u64>,
}

impl SessionPart {
    /// Takes in a decision whose last entry is `ends`.
    fn add(&mut self, ends: u64, at: Option<u64>) {
        if self.first == 0 {
            self.first = ends;
        }
        if at.is_none_or(|at| ends <= at) {
            self.place = ends;
        }
    }

    fn place_for(&self, at: u64) -> Result<u64, RunError> {
        if self.place == 0 { Err(RunError::NoSuchDecision { at, first: self.first }) } else { Ok(self.place) }
    }
}
