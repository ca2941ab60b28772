//! The engine: what a program builds once (see [`crate::EngineBuilder`]), to start, resume and read runs with.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use baton_config::{Faults, Sources, Unconfigured, check_inputs, load_tools, render_request};
use baton_machine::Run;
use baton_store::{NewRun, RunSummaryUpdate, Store, StoreError};
use baton_types::config::{Configs, Tool};
use baton_types::document::Content;
use baton_types::entry::{ForkPoint, Recorded, RunEnded, RunStarted};
use baton_types::event::Event;
use baton_types::id::{ContentHash, MemoryId, RunId, ToolId};
use baton_types::json::Json;
use baton_types::limits::Limits;
use baton_types::time::Timestamp;
use tokio::sync::{mpsc, watch};

use crate::actor::{Commands, Iteration, Parts, STATUS_QUEUED, root_result};
use crate::adopting::Adopting;
use crate::error::RunError;
use crate::handle::{Message, OpenQuestion, RunHandle, RunOutcome, Standing, measured};
use crate::job::{InitialDocument, LoadedJob, StartOptions, typed_inputs};
use crate::processes;
use crate::reading::Reading;
use crate::recording::Recording;
use crate::services::{Models, Services, template};
use crate::transcripts::{Prompts, Transcripts};
use crate::trust::Trusted;

/// Characters of a run's id: 50 random bits, so that a billion runs of one store rarely share one.
const RUN_ID_CHARACTERS: usize = 10;
/// Number of attempts at a new id while ids are taken.
const RUN_ID_ATTEMPTS: usize = 5;
/// Crockford's base 32: no letter looks like a digit.
const RUN_ID_ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Starts, resumes and reads runs. Cheap to clone; many runs proceed at the same time.
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Services>);

/// Owner of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// No owner: the run ended, was stopped, or its process is gone. It can be resumed unless it ended.
    Nobody,
    /// It proceeds in this process.
    Here,
    /// It belongs to another process, which is there.
    Elsewhere {
        /// Name of the owner.
        owner: String,
    },
    /// Its store cannot tell whether its owner is still there.
    Unknown {
        /// Name of the owner.
        owner: String,
    },
}

/// The place of a new run in the store.
pub(crate) struct Wanted<'a> {
    /// Its id.
    pub(crate) id: Option<&'a RunId>,
    /// The past of a fork, or of a run that continues another.
    pub(crate) past: Option<&'a ForkPoint>,
    /// The trigger that it handles.
    pub(crate) trigger: Option<u64>,
    /// The process that executes it first.
    pub(crate) begins: Begins,
}

/// The process that executes a new run first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begins {
    /// This process, which owns it.
    Here,
    /// The first worker that takes it.
    Queued,
}

/// A run whose first decision is durable.
pub(crate) struct NewlyStored {
    pub(crate) id: RunId,
    run: Run,
    /// The moment of the decision.
    at: Timestamp,
    begun: Iteration,
    commands: Commands,
}

impl NewlyStored {
    /// Returns the parts of the actor that executes the run.
    pub(crate) fn parts(
        self,
        trusted: Trusted,
        models: Models,
        transcripts: Transcripts,
        folder: Option<PathBuf>,
        recording: Option<Recording>,
    ) -> Parts {
        let Self { id, run, at, begun, commands } = self;
        let (epoch, last, begun, is_behind) = (1, at, Some(begun), false);
        Parts { trusted, run, id, epoch, commands, models, transcripts, folder, last, begun, recording, is_behind }
    }
}

impl Engine {
    /// Returns the store that the engine keeps runs in.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// Starts a run; returns when its first entries are durable. Nothing is stored if the inputs do not fit.
    ///
    /// Fails with [`RunError::MissingFunctions`] if the job was loaded with functions that this engine does not have.
    pub async fn start(&self, job: LoadedJob, options: StartOptions) -> Result<RunHandle, RunError> {
        let parts = self.begin(job, options, Begins::Here).await?;
        Ok(self.0.spawn(parts))
    }

    /// Starts a run, executes it in the calling task, and returns its outcome. Outside of the runtime's own threads, as in `main`, this
    /// takes less processor time than [`Engine::start`] and [`RunHandle::outcome`], because no other thread must wake to begin the
    /// run. A run that asks a person waits until someone answers.
    ///
    /// The run proceeds only while the future is polled. So a task must not wait for a [`RunHandle`] of this run while it does not
    /// poll the future. Runs that are executed in the same task share one processor. To use several processors, call
    /// [`Engine::start`], or use one task for each run.
    ///
    /// If the future is dropped after the first entries are durable, the run proceeds in a task of the runtime; [`Engine::live`]
    /// returns its handle.
    ///
    /// Fails like [`Engine::start`]. After the first entries are durable, a failure is returned as [`RunOutcome::Failed`].
    pub async fn run(&self, job: LoadedJob, options: StartOptions) -> Result<RunOutcome, RunError> {
        let parts = self.begin(job, options, Begins::Here).await?;
        Ok(self.0.execute(parts).await)
    }

    /// Stores a run that any process with [`Engine::work`] executes, also if that process dies; returns when it is durable. The job,
    /// the inputs and the trust are checked as by [`Engine::start`].
    ///
    /// Fails like [`Engine::start`].
    pub async fn queue(&self, job: LoadedJob, options: StartOptions) -> Result<RunId, RunError> {
        let id = self.begin(job, options, Begins::Queued).await?.id;
        self.0.announce(&id, "queued".to_owned()).await;
        Ok(id)
    }

    /// Stores a run with its first decision.
    async fn begin(&self, job: LoadedJob, options: StartOptions, begins: Begins) -> Result<Parts, RunError> {
        processes::remove_abandoned().await;
        self.0.check_functions(&job.configs)?;
        let job = match &options.limits {
            none if *none == Limits::default() => job,
            limits => job.limited(limits, &self.0.functions).map_err(|faults| RunError::Configs(Arc::new(faults)))?,
        };
        let configs = Arc::clone(&job.configs);
        let trusted = self.0.trusted(&configs, job.folder.as_deref(), options.model.as_deref())?;
        let given = typed_inputs(&configs.job, options.inputs)?;
        let inputs = check_inputs(&configs.job, &given).map_err(|faults| RunError::Inputs(Arc::new(faults)))?;
        let request = match options.request {
            Some(request) => request,
            None => render_request(&configs, &inputs).map_err(|error| template(&error))?,
        };
        let inputs = if inputs.is_empty() { Json::null() } else { Json::of(&inputs).unwrap_or_default() };
        let prompts = Prompts::render(&configs, &inputs).map_err(|error| template(&error))?;
        let models = self.0.models(&trusted, options.model.as_deref(), &inputs)?;
        let prices = self.0.prices(&configs, options.model.as_deref())?;
        let (pinned, sources) = job.pinned;
        let (documents, mut contents) = measured(&merged(job.documents, options.documents));
        contents.push((pinned, sources));

        let folder = job.folder.map(|folder| std::path::absolute(&folder).unwrap_or(folder));
        let folder_text = folder.as_ref().map(|folder| folder.to_string_lossy().into_owned());
        // What the machine refuses is refused before anything is stored, so the id comes last.
        let run = RunStarted {
            run: RunId::new(""),
            job: configs.job.id.clone(),
            configs: pinned,
            memory: job.memory.unwrap_or_else(|| MemoryId::of_job(&configs.job.id, folder.as_deref())),
            folder: folder_text,
            request,
            inputs,
            model: options.model,
            prices,
            engine: env!("CARGO_PKG_VERSION").to_owned(),
            forked_from: None,
            continues: None,
        };
        let now = self.0.clock.now();
        let recorded = self.0.providers.cassettes();
        recorded.map_or(Ok(()), |cassettes| cassettes.claim())?;
        let begin = |id: &RunId| {
            let started = RunStarted { run: id.clone(), ..run.clone() };
            let event = Event::Started { run: started, root: configs.job.root.clone(), documents: documents.clone() };
            let mut run = Run::new(Arc::clone(&configs));
            if begins == Begins::Queued {
                run.hold_requests();
            }
            let begun = Iteration::of(run.handle(now, event)?);
            recorded.map_or(Ok(()), |cassettes| cassettes.label(id))?;
            Ok((run, begun))
        };
        let wanted = Wanted { id: options.run.as_ref(), past: None, trigger: options.trigger, begins };
        let stored = self.0.store_new(wanted, &contents, now, begin).await?;
        let transcripts = self.0.transcripts(&stored.id, prompts);
        Ok(stored.parts(trusted, models, transcripts, folder, None))
    }

    /// Resumes a stopped run with its pinned configs. Returns when the take-over is durable.
    ///
    /// A run that proceeds in another process is taken from it: that process can commit nothing more. An ended run is
    /// not touched; its handle gives its entries and its outcome. Fails with [`RunError::PinnedConfigs`] only if this program
    /// lacks a function that the run's agents were granted, or has it with another signature.
    pub async fn resume(&self, id: &RunId) -> Result<RunHandle, RunError> {
        self.resume_adopting(id, None, Takes::FromAnyone).await
    }

    /// Resumes a run, as [`Engine::resume`], unless a living process owns it. Of several processes that try, one gets the run.
    ///
    /// # Errors
    /// [`RunError::Held`] if a living process owns the run.
    pub async fn resume_free(&self, id: &RunId) -> Result<RunHandle, RunError> {
        self.resume_adopting(id, None, Takes::IfFree).await
    }

    /// Resumes a run, as [`Engine::resume_free`], although no person asks for it. The death of its former owner counts: after three
    /// deaths between which no turn and no call has ended, the run is quarantined, and its handle does nothing.
    ///
    /// # Errors
    /// [`RunError::Held`] if a living process owns the run.
    pub async fn resume_unattended(&self, id: &RunId) -> Result<RunHandle, RunError> {
        self.resume_adopting(id, None, Takes::Unattended).await
    }

    /// Resumes a run that this process owns and does not execute.
    pub(crate) async fn resume_left(&self, id: &RunId) -> Result<RunHandle, RunError> {
        self.resume_adopting(id, None, Takes::FromSelf).await
    }

    /// Resumes a run, with the configs in `adopting` if given.
    pub(crate) async fn resume_adopting(
        &self,
        id: &RunId,
        adopting: Option<Adopting>,
        takes: Takes,
    ) -> Result<RunHandle, RunError> {
        if self.live(id).is_some() {
            return Err(RunError::AlreadyRunning(id.clone()));
        }
        processes::remove_abandoned().await;
        self.0.providers.cassettes().map_or(Ok(()), |cassettes| cassettes.check_run(id))?;
        let (mut reading, prompts) = self.0.read(id).await?;
        let mut transcripts = self.0.transcripts(id, prompts);
        self.0.catch_up(&mut reading, &mut transcripts).await?;
        if let Some(end) = reading.run.ended().cloned() {
            return self.0.ended(id, end, reading.run).await;
        }
        if let Some(lacking) = reading.lacking.take_if(|_| adopting.is_none()) {
            return Err(lacking);
        }
        let wanted = adopting.as_ref().map_or(reading.run.configs(), |adopting| &adopting.configs);
        let started = reading.run.started();
        let folder = started.and_then(|started| started.folder.as_ref().map(PathBuf::from));
        let stand_in = started.and_then(|started| started.model.clone());
        let inputs = started.map(|started| started.inputs.clone()).unwrap_or_default();
        let mut trusted = self.0.trusted(wanted, folder.as_deref(), stand_in.as_deref())?;
        let mut models = self.0.models(&trusted, stand_in.as_deref(), &inputs)?;
        // From here on no other process can append, so the next read reaches the end of the timeline.
        let (epoch, former) = self.0.take_over(id, takes).await?;
        self.0.catch_up(&mut reading, &mut transcripts).await?;
        if let Some(end) = reading.run.ended().cloned() {
            return self.0.ended(id, end, reading.run).await;
        }
        let begun = match adopting {
            Some(adopting) => Some(self.0.adopt(&mut reading, &mut transcripts, epoch, adopting).await?),
            None => None,
        };
        let recording = match &reading.fork {
            Some(fork) => Some(self.0.recording(fork).await?),
            None => None,
        };
        // Its former owner may have let the run adopt others meanwhile.
        if !trusted.is_of(reading.run.configs()) {
            trusted = self.0.trusted(reading.run.configs(), folder.as_deref(), stand_in.as_deref())?;
            models = self.0.models(&trusted, stand_in.as_deref(), &inputs)?;
        }
        let is_begun = begun.is_some();
        let commands = Commands::new(self.0.store.subscribe(id), true, is_begun);
        let (run, id, last) = (reading.run, id.clone(), reading.last);
        let is_behind = former != Former::Released;
        let parts = Parts { trusted, run, id, epoch, commands, models, transcripts, folder, last, begun, recording, is_behind };
        if is_begun {
            return Ok(self.0.spawn(parts));
        }
        let after_death = takes == Takes::Unattended && former == Former::Dead;
        self.0.spawn_with(parts, Event::TakenOver { process: self.0.store.owner(), after_death }).await
    }

    /// Returns the present owner of a run. Another process may take or release the run at any moment.
    pub async fn holder(&self, id: &RunId) -> Result<Holder, RunError> {
        if self.live(id).is_some() {
            return Ok(Holder::Here);
        }
        let record = self.0.store.run(id).await?.ok_or_else(|| RunError::UnknownRun(id.clone()))?;
        Ok(match record.owner {
            None => Holder::Nobody,
            Some(owner) if owner == self.0.store.owner() => Holder::Elsewhere { owner },
            Some(owner) => match self.0.store.is_there(&owner) {
                Some(false) => Holder::Nobody,
                Some(true) => Holder::Elsewhere { owner },
                None => Holder::Unknown { owner },
            },
        })
    }

    /// Loads a job that was made while the engine runs, with the engine's functions: one without a config is no fault of the job.
    ///
    /// # Errors
    /// The faults of the files.
    pub fn load(&self, sources: Sources) -> Result<LoadedJob, Faults> {
        LoadedJob::of(sources, &self.0.functions, Unconfigured::Allowed)
    }

    /// Checks that a job may run here: the program has its functions, tool services can be reached, and the policy trusts it.
    ///
    /// # Errors
    /// The error with which [`Engine::start`] would refuse the job.
    pub fn check(&self, job: &LoadedJob) -> Result<(), RunError> {
        self.0.check_functions(&job.configs)?;
        self.0.trusted(&job.configs, job.folder.as_deref(), None).map(drop)
    }

    /// Loads the tools of a job alone, whether agents are granted them or not.
    ///
    /// # Errors
    /// The faults of the files.
    pub fn load_tools(&self, sources: &Sources) -> Result<BTreeMap<ToolId, Arc<Tool>>, Faults> {
        load_tools(sources, &self.0.functions, Unconfigured::Reading)
    }

    /// Returns the time of the engine's clock.
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Returns the handle of a run that proceeds in this process.
    pub fn live(&self, id: &RunId) -> Option<RunHandle> {
        self.0.running().get(id).filter(|handle| !handle.is_over()).cloned()
    }

    /// Returns the first entry of a run, as a fork of another reads it.
    pub async fn started(&self, id: &RunId) -> Result<RunStarted, RunError> {
        let started = self.0.first_entry(id).await?;
        let past = self.0.store.run(id).await?.and_then(|record| record.past);
        let Some(past) = past else { return Ok(started) };
        let own = self.0.store.entries(id, past.seq, 1).await?;
        let adoption = own.first().and_then(|recorded| recorded.entry.adopts());
        Ok(adoption.map_or(started.clone(), |adoption| adoption.restarted(&started)))
    }

    /// Returns the present state of a run, live or ended, from its timeline. Needs none of its functions and models.
    pub async fn state(&self, id: &RunId) -> Result<Run, RunError> {
        Ok(self.0.state(id).await?.0)
    }

    /// Returns a run before its first entry. [`Engine::apply`] folds its entries one at a time.
    pub async fn unstarted(&self, id: &RunId) -> Result<Run, RunError> {
        let started = self.0.first_entry(id).await?;
        Ok(Run::new(self.0.pinned(id, started.configs).await?.0))
    }

    /// Applies the next entry of a run, with the configs that the entry adopts.
    pub async fn apply(&self, run: &mut Run, recorded: &Recorded) -> Result<(), RunError> {
        if let Some((adoption, started)) = recorded.entry.adopts().zip(run.started()) {
            let configs = self.pinned_configs(&adoption.restarted(started)).await?;
            run.know_configs(adoption.configs, configs);
        }
        crate::reading::apply(run, recorded)
    }

    /// Returns the files that a run is pinned to. The start in its state names the present ones.
    pub async fn pinned_sources(&self, started: &RunStarted) -> Result<Sources, RunError> {
        self.0.sources(&started.run, started.configs).await
    }

    /// Returns the configs that a run is pinned to, loaded again by the same loader. They are good for reading even if
    /// this program lacks some of their functions.
    pub async fn pinned_configs(&self, started: &RunStarted) -> Result<Arc<Configs>, RunError> {
        self.0.pinned(&started.run, started.configs).await.map(|(configs, _)| configs)
    }

    /// Returns the bytes of a document.
    pub async fn content(&self, hash: ContentHash) -> Result<Option<Content>, RunError> {
        Ok(self.0.contents.find(hash).await?)
    }

    /// Returns the questions of a run that wait for a person.
    pub async fn open_questions(&self, id: &RunId) -> Result<Vec<OpenQuestion>, RunError> {
        Ok(OpenQuestion::all(&self.state(id).await?))
    }
}

/// The owners from which a run is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Also living ones.
    FromAnyone,
    /// None, or one that is dead.
    IfFree,
    /// As [`Takes::IfFree`], and no person asks for it.
    Unattended,
    /// As [`Takes::IfFree`], or this process.
    FromSelf,
}

/// The former owner of a run that was taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Former {
    /// It died without releasing the run.
    Dead,
    /// It may live.
    Living,
    /// There was none: the run was released.
    Released,
}

impl Services {
    /// Takes a run over, and ends the commands that its former owner left; returns the new epoch. No other process can append
    /// from here on.
    pub(crate) async fn take_over(&self, id: &RunId, takes: Takes) -> Result<(u64, Former), RunError> {
        let mut is_raced = false;
        let (epoch, former) = loop {
            let record = self.store.run(id).await?.ok_or_else(|| RunError::UnknownRun(id.clone()))?;
            let lives = |owner: &String| is_raced || self.store.is_there(owner) == Some(true);
            let may_take = |owner: &String| match takes {
                Takes::FromAnyone => true,
                Takes::FromSelf if *owner == self.store.owner() => true,
                Takes::IfFree | Takes::Unattended | Takes::FromSelf => !lives(owner),
            };
            let living = record.owner.clone().filter(|owner| !may_take(owner));
            if let Some(owner) = living {
                return Err(RunError::Held { run: id.clone(), owner });
            }
            match self.store.take_over(id, &self.store.owner(), record.epoch).await {
                // Another process was faster.
                Err(StoreError::StaleEpoch { .. }) => is_raced = true,
                taken => break (taken?, record.owner),
            }
        };
        let Some(former) = former else { return Ok((epoch, Former::Released)) };
        let (id, is_dead) = (id.clone(), self.store.is_there(&former) == Some(false));
        let end = move || processes::end_former(&id, (!is_dead).then_some(former.as_str()));
        // It looks at every process of the machine.
        let _runtime_ends = tokio::task::spawn_blocking(end).await;
        Ok((epoch, if is_dead { Former::Dead } else { Former::Living }))
    }

    /// Stores a new run with its first decision and `contents`, under the wanted id or else a random one. While random ids are
    /// taken, it tries others. `begin` makes the run and its first decision for an id.
    pub(crate) async fn store_new(
        &self,
        Wanted { id: wanted, past, trigger, begins }: Wanted<'_>,
        contents: &[(ContentHash, Content)],
        at: Timestamp,
        begin: impl Fn(&RunId) -> Result<(Run, Iteration), RunError>,
    ) -> Result<NewlyStored, RunError> {
        for attempt in 1.. {
            let id = wanted.cloned().unwrap_or_else(random_run_id);
            let (run, begun) = begin(&id)?;
            // Before the run is there, so that no command comes unnoticed, and its empty inbox need not be read.
            let commands = Commands::new(self.store.subscribe(&id), false, false);
            let mut first = begun.first_batch(&id, 1, past.map_or(0, |past| past.seq), &run, at);
            first.contents.extend_from_slice(contents);
            if begins == Begins::Queued {
                (first.releases, first.wakes) = (true, Some(at));
                first.summary = Some(RunSummaryUpdate { status: STATUS_QUEUED.to_owned(), at });
            }
            let new = NewRun { id: id.clone(), job: run.configs().job.id.clone(), at, past: past.cloned(), trigger };
            match self.store.begin(new, &self.store.owner(), first).await {
                Err(StoreError::RunExists(_)) if wanted.is_none() && attempt < RUN_ID_ATTEMPTS => {}
                Err(error) => return Err(error.into()),
                Ok(()) => {
                    self.contents.remember(contents);
                    return Ok(NewlyStored { id, run, at, begun, commands });
                }
            }
        }
        unreachable!("the last attempt returns")
    }

    /// Returns the handle of a run that has ended: its entries and its outcome.
    fn ended_handle(&self, id: &RunId, outcome: RunOutcome) -> RunHandle {
        let configs = match &outcome {
            RunOutcome::Ended { run, .. } => Arc::clone(run.configs()),
            _ => unreachable!("only ended runs have such a handle"),
        };
        RunHandle {
            id: id.clone(),
            configs,
            store: Arc::clone(&self.store),
            mailbox: mpsc::unbounded_channel::<Message>().0,
            live: Weak::new(),
            progress: Weak::new(),
            standing: watch::channel(Standing::Over(outcome)).1,
        }
    }

    /// Folds the stored entries after those already read into the state and its conversations, so that no entry is
    /// read twice.
    async fn catch_up(&self, reading: &mut Reading, transcripts: &mut Transcripts) -> Result<(), RunError> {
        loop {
            let page = self.page(reading, &mut transcripts.prompts).await?;
            if page.is_empty() {
                return Ok(());
            }
            for recorded in &page {
                reading.apply(recorded)?;
            }
            transcripts.absorb(&page, &reading.run);
        }
    }

    /// Returns the handle of a run that was found ended.
    async fn ended(&self, id: &RunId, end: RunEnded, run: Run) -> Result<RunHandle, RunError> {
        let result = root_result(self, id, &run).await?;
        Ok(self.ended_handle(id, RunOutcome::Ended { end, result, run: Arc::new(run) }))
    }
}

/// Returns the job's documents, those at the path of an extra one replaced by it, then the other extra ones.
fn merged(own: Vec<InitialDocument>, extra: Vec<InitialDocument>) -> Vec<InitialDocument> {
    let mut documents = own;
    for document in extra {
        match documents.iter_mut().find(|own| own.path() == document.path()) {
            Some(own) => own.replace_content(document),
            None => documents.push(document),
        }
    }
    documents
}

/// Returns a random run id. Its prefix distinguishes runs, so it has no leading time. Ids of other runs do not help to
/// guess it.
fn random_run_id() -> RunId {
    run_id_of(uuid::Uuid::now_v7().as_bytes())
}

/// Returns the run id that follows from `cause`: the same bytes always give the same id.
pub fn run_id_of(cause: &[u8]) -> RunId {
    let hash = ContentHash::of(cause);
    let characters = hash.as_bytes()[..RUN_ID_CHARACTERS].iter().map(|byte| char::from(RUN_ID_ALPHABET[usize::from(byte % 32)]));
    RunId::new(characters.collect::<String>())
}
