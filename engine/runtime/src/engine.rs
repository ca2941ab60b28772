//! The engine: what a program builds once (see [`crate::EngineBuilder`]), to start, resume and read runs with.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_config::{PriceTable, TemplateError, check_inputs, check_money, prices, render_request};
use baton_machine::Run;
use baton_models::{Model, Providers, RunKey, ScriptFault, ScriptedModel, runs_here};
use baton_store::{NewRun, Store, StoreError};
use baton_tool::ToolFunction;
use baton_types::config::{Configs, FunctionName, ModelSpec, ProviderSettings};
use baton_types::document::Content;
use baton_types::entry::{RunEnded, RunStarted};
use baton_types::event::Event;
use baton_types::id::{ContentHash, RunId};
use baton_types::json::Json;
use baton_types::limits::Limits;
use baton_types::money::Price;
use baton_types::time::Timestamp;
use tokio::sync::{Semaphore, broadcast, mpsc, watch};
use tracing::Instrument as _;

use crate::actor::{Actor, Commands, Step, root_result, status};
use crate::clock::Clock;
use crate::contents::Contents;
use crate::error::RunError;
use crate::fit::unfit_tools;
use crate::handle::{Message, OpenQuestion, RunHandle, RunOutcome, Standing, measured};
use crate::job::{InitialDocument, LoadedJob, StartOptions, typed_inputs};
use crate::migrate::Adopting;
use crate::outage::Outages;
use crate::processes;
use crate::reading::Reading;
use crate::recording::Recording;
use crate::transcripts::{Prompts, Transcripts};
use crate::trust::{TrustPolicy, Trusted, asked_models};
use crate::work::Work;

/// Number of entries that a live reader may lag behind before it reads the store.
const LIVE_ENTRIES: usize = 128;
/// Number of progress messages that a reader may lag behind before it misses some.
const LIVE_PROGRESS: usize = 32;
/// Characters of a run's id: 50 random bits, so that a billion runs of one store rarely share one.
const RUN_ID_CHARACTERS: usize = 10;
/// Number of attempts at a new id while ids are taken.
pub(crate) const RUN_ID_ATTEMPTS: usize = 5;
/// Crockford's base 32: no letter looks like a digit.
const RUN_ID_ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Longest time for a connection where a fallback exists: the fallback is used within two seconds.
const CONNECT_IN_TURN: Duration = Duration::from_millis(1_500);

/// Looks up a variable of the environment.
pub(crate) type Variable = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Models, by the names that agents use.
pub(crate) type Models = Arc<BTreeMap<String, Arc<dyn Model>>>;

/// Starts, resumes and reads runs. Cheap to clone; many runs proceed at the same time.
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Shared>);

/// State shared by all runs of an engine.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    /// Decides which configs may run.
    pub(crate) trust: Arc<dyn TrustPolicy>,
    pub(crate) contents: Contents,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) variable: Variable,
    /// Bounds the threads that tools may block.
    pub(crate) blocking: Arc<Semaphore>,
    /// Time between asking commands to end and killing them.
    pub(crate) command_grace: Duration,
    pub(crate) models: Models,
    /// Makes the models of providers.
    pub(crate) providers: Providers,
    /// Prices that replace the engine's own table.
    pub(crate) price_table: Option<PriceTable>,
    /// Ordered by id.
    pub(crate) functions: Vec<&'static ToolFunction>,
    pub(crate) transcript_bytes: usize,
    pub(crate) running: Mutex<HashMap<RunId, RunHandle>>,
}

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

impl Engine {
    /// Returns the store that the engine keeps runs in.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// Starts a run; returns when its first entries are durable. Nothing is stored if the inputs do not fit.
    pub async fn start(&self, job: LoadedJob, options: StartOptions) -> Result<RunHandle, RunError> {
        remove_abandoned().await;
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
        let models = self.0.models(&trusted, options.model.as_deref())?;
        let prices = self.0.prices(&configs, options.model.as_deref())?;
        let (pinned, sources) = job.pinned;
        let (documents, mut contents) = measured(&merged(job.documents, options.documents));
        contents.push((pinned, sources));

        let folder = job.folder.map(|folder| std::path::absolute(&folder).unwrap_or(folder));
        // What the machine refuses is refused before anything is stored, so the id comes last.
        let run = RunStarted {
            run: RunId::new(""),
            job: configs.job.id.clone(),
            configs: pinned,
            folder: folder.as_ref().map(|folder| folder.to_string_lossy().into_owned()),
            request,
            inputs,
            model: options.model,
            prices,
            engine: env!("CARGO_PKG_VERSION").to_owned(),
            forked_from: None,
        };
        let (now, wanted) = (self.0.clock.now(), options.run);
        let recorded = self.0.providers.cassettes();
        recorded.map_or(Ok(()), |cassettes| cassettes.claim())?;
        for attempt in 1.. {
            let id = wanted.clone().unwrap_or_else(random_run_id);
            let started = RunStarted { run: id.clone(), ..run.clone() };
            let event = Event::Started { run: started, root: configs.job.root.clone(), documents: documents.clone() };
            let mut run = Run::new(Arc::clone(&configs));
            let decision = run.handle(now, event)?;
            let begun = Step::of(decision);
            recorded.map_or(Ok(()), |cassettes| cassettes.label(&id))?;
            // Before the run is there, so that no command comes unnoticed, and its empty inbox need not be read.
            let commands = Commands::new(self.0.store.subscribe(&id), false, false);
            match self.store_first(&id, &run, &begun, &contents, now).await {
                Err(StoreError::RunExists(_)) if wanted.is_none() && attempt < RUN_ID_ATTEMPTS => {}
                Err(error) => return Err(error.into()),
                Ok(()) => {
                    let transcripts = self.0.transcripts(&id, prompts);
                    let parts = Parts {
                        trusted,
                        run,
                        id,
                        epoch: 1,
                        commands,
                        models,
                        transcripts,
                        folder,
                        last: now,
                        begun: Some(begun),
                        recording: None,
                    };
                    return Ok(self.0.spawn(parts));
                }
            }
        }
        unreachable!("the last attempt returns")
    }

    /// Makes a run known to the store with its first step.
    async fn store_first(
        &self,
        id: &RunId,
        run: &Run,
        begun: &Step,
        contents: &[(ContentHash, Content)],
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let mut first = begun.first_batch(id, 1, 0, run, at);
        first.contents = contents.to_vec();
        let owner = self.0.store.owner();
        self.0.store.begin(NewRun { id: id.clone(), job: run.configs().job.id.clone(), at, past: None }, &owner, first).await?;
        self.0.contents.remember(contents);
        Ok(())
    }

    /// Resumes a stopped run with its pinned configs. Returns when the take-over is durable.
    ///
    /// A run that proceeds in another process is taken from it: that process can commit nothing more. An ended run is
    /// not touched; its handle gives its entries and its outcome. Fails with [`RunError::PinnedConfigs`] only if this program
    /// lacks a function that the run's agents were granted, or has it with another signature.
    pub async fn resume(&self, id: &RunId) -> Result<RunHandle, RunError> {
        self.resume_adopting(id, None).await
    }

    /// Resumes a run, with the configs in `adopting` if given.
    pub(crate) async fn resume_adopting(&self, id: &RunId, adopting: Option<Adopting>) -> Result<RunHandle, RunError> {
        if self.live(id).is_some() {
            return Err(RunError::AlreadyRunning(id.clone()));
        }
        remove_abandoned().await;
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
        let (folder, stand_in) = reading
            .run
            .started()
            .map_or((None, None), |started| (started.folder.as_ref().map(PathBuf::from), started.model.clone()));
        let mut trusted = self.0.trusted(wanted, folder.as_deref(), stand_in.as_deref())?;
        let mut models = self.0.models(&trusted, stand_in.as_deref())?;
        // From here on no other process can append, so the next read reaches the end of the timeline.
        let owner = self.0.store.owner();
        let former = self.0.store.run(id).await?.and_then(|record| record.owner);
        let epoch = self.0.store.take_over(id, &owner).await?;
        if let Some(former) = former {
            let (id, is_dead) = (id.clone(), self.0.store.is_there(&former) == Some(false));
            let end = move || processes::end_former(&id, (!is_dead).then_some(former.as_str()));
            // It looks at every process of the machine.
            let _runtime_ends = tokio::task::spawn_blocking(end).await;
        }
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
            models = self.0.models(&trusted, stand_in.as_deref())?;
        }
        let is_begun = begun.is_some();
        let commands = Commands::new(self.0.store.subscribe(id), true, is_begun);
        let (run, id, last) = (reading.run, id.clone(), reading.last);
        let handle =
            self.0.spawn(Parts { trusted, run, id, epoch, commands, models, transcripts, folder, last, begun, recording });
        if is_begun {
            return Ok(handle);
        }
        begin(handle, Event::TakenOver { process: owner }, Vec::new()).await
    }

    /// Returns the present owner of a run. Another process may take or release the run at any moment.
    pub async fn holder(&self, id: &RunId) -> Result<Holder, RunError> {
        if self.live(id).is_some() {
            return Ok(Holder::Here);
        }
        let record = self.0.store.run(id).await?.ok_or_else(|| RunError::UnknownRun(id.clone()))?;
        Ok(match record.owner {
            None => Holder::Nobody,
            Some(owner) => match self.0.store.is_there(&owner) {
                Some(false) => Holder::Nobody,
                Some(true) => Holder::Elsewhere { owner },
                None => Holder::Unknown { owner },
            },
        })
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

    /// Returns the bytes of a document.
    pub async fn content(&self, hash: ContentHash) -> Result<Option<Content>, RunError> {
        Ok(self.0.contents.find(hash).await?)
    }

    /// Returns the questions of a run that wait for a person.
    pub async fn open_questions(&self, id: &RunId) -> Result<Vec<OpenQuestion>, RunError> {
        Ok(OpenQuestion::all(&self.state(id).await?))
    }
}

/// Removes the folders that commands of processes that died left behind.
async fn remove_abandoned() {
    let _runtime_ends = tokio::task::spawn_blocking(processes::remove_abandoned).await;
}

/// Sends an actor its first event. If that ends the actor, returns its error.
async fn begin(handle: RunHandle, first: Event, contents: Vec<(ContentHash, Content)>) -> Result<RunHandle, RunError> {
    match handle.ask(first, contents).await {
        Ok(()) => Ok(handle),
        Err(RunError::NotRunning(id)) => match handle.outcome().await {
            RunOutcome::Failed(error) => Err(error),
            _ => Err(RunError::NotRunning(id)),
        },
        Err(error) => Err(error),
    }
}

/// Parts of a new actor.
pub(crate) struct Parts {
    /// The configs of `run`, checked.
    pub(crate) trusted: Trusted,
    pub(crate) run: Run,
    pub(crate) id: RunId,
    pub(crate) epoch: u64,
    pub(crate) commands: Commands,
    pub(crate) models: Models,
    pub(crate) transcripts: Transcripts,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) last: Timestamp,
    pub(crate) begun: Option<Step>,
    pub(crate) recording: Option<Recording>,
}

pub(crate) fn template(error: &TemplateError) -> RunError {
    RunError::Template { reason: error.to_string() }
}

impl Shared {
    /// Returns the function of that name, if the program has it.
    pub(crate) fn function(&self, name: FunctionName) -> Option<&'static ToolFunction> {
        self.functions.binary_search_by_key(&name.id, |function| function.id).ok().map(|place| self.functions[place])
    }

    /// Spawns the actor of a run. Its first event comes with the handle.
    pub(crate) fn spawn(self: &Arc<Self>, parts: Parts) -> RunHandle {
        let Parts { trusted, run, id, epoch, commands, models, transcripts, folder, last, begun, recording } = parts;
        assert!(trusted.is_of(run.configs()), "a run proceeds by configs that were checked");
        let (sender, mailbox) = mpsc::unbounded_channel();
        let (live, _) = broadcast::channel(LIVE_ENTRIES);
        let (progress, _) = broadcast::channel(LIVE_PROGRESS);
        let (standing, stands) = watch::channel(Standing::Working);
        let durable = watch::Sender::new(run.last_seq());
        let handle = RunHandle {
            id: id.clone(),
            configs: Arc::clone(run.configs()),
            store: Arc::clone(&self.store),
            mailbox: sender.clone(),
            live: live.downgrade(),
            progress: progress.downgrade(),
            standing: stands,
        };
        self.running().insert(id.clone(), handle.clone());
        let span = tracing::info_span!("run", %id);
        let actor = Actor {
            work: Work::of_run(if begun.is_some() { status(&run) } else { "" }),
            commands,
            transcripts,
            shared: Arc::clone(self),
            id,
            epoch,
            run,
            models,
            folder,
            files: Arc::clone(trusted.files()),
            mailbox,
            sender,
            live,
            progress,
            standing,
            durable,
            last,
            begun,
            recording,
            outages: Outages::default(),
        };
        tokio::spawn(actor.run().instrument(span));
        handle
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
            live: broadcast::channel(1).0.downgrade(),
            progress: broadcast::channel(1).0.downgrade(),
            standing: watch::channel(Standing::Over(outcome)).1,
        }
    }

    /// Returns an empty cache of conversations for a run.
    pub(crate) fn transcripts(&self, id: &RunId, prompts: Prompts) -> Transcripts {
        Transcripts::new(Arc::clone(&self.store), id.clone(), prompts, self.transcript_bytes)
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
                reading.apply(recorded);
            }
            transcripts.absorb(&page, &reading.run);
        }
    }

    /// Returns the handle of a run that was found ended.
    async fn ended(&self, id: &RunId, end: RunEnded, run: Run) -> Result<RunHandle, RunError> {
        let result = root_result(self, id, run.last_seq()).await?;
        Ok(self.ended_handle(id, RunOutcome::Ended { end, result, run: Arc::new(run) }))
    }

    /// `configs`, if the engine's policy lets them run.
    pub(crate) fn trusted(
        &self,
        configs: &Arc<Configs>,
        folder: Option<&Path>,
        stand_in: Option<&str>,
    ) -> Result<Trusted, RunError> {
        Trusted::check(configs, folder, stand_in, &*self.trust)
    }

    /// Returns the models that a run may ask: the job's and the engine's. `stand_in` must be one of them.
    pub(crate) fn models(&self, configs: &Trusted, stand_in: Option<&str>) -> Result<Models, RunError> {
        let configs = configs.configs();
        let (mut models, run) = (BTreeMap::new(), RunKey::unique());
        // A key that no agent needs need not be there; a script needs nothing.
        let used = asked_models(configs, stand_in);
        let fallbacks = used.iter().flat_map(|name| configs.job.fallbacks(name)).map(String::as_str);
        let with_fallbacks = used.iter().copied().filter(|name| !configs.job.fallbacks(name).is_empty());
        let in_turn: BTreeSet<&str> = with_fallbacks.chain(fallbacks).collect();
        let named = configs.job.models.keys().map(String::as_str);
        for name in named.chain(used.iter().copied()).collect::<BTreeSet<_>>() {
            if self.models.contains_key(name) {
                continue;
            }
            let refused = |error| RunError::Model { name: name.to_owned(), error };
            let model: Arc<dyn Model> = match configs.job.model(name) {
                Some(ModelSpec::Scripted { text, .. }) => {
                    Arc::new(ScriptedModel::parse(&text).map_err(|error| refused(faults(&error)))?)
                }
                Some(ModelSpec::Provided(provided)) if used.contains(name) => {
                    let settings = configs.job.providers.get(&provided.provider);
                    let hurried = in_turn.contains(name).then(|| hurried(&provided.provider, settings));
                    let model = self.providers.model(run, &provided, hurried.as_ref().or(settings), &*self.variable);
                    model.map_err(|error| refused(error.to_string()))?
                }
                Some(ModelSpec::Provided(_)) | None => continue,
            };
            models.insert(name.to_owned(), model);
        }
        models.extend(self.models.iter().map(|(name, model)| (name.clone(), Arc::clone(model))));
        match stand_in {
            Some(name) if !models.contains_key(name) => {
                let providers = configs.job.provider_names.iter().map(|provider| format!("{provider}:MODEL"));
                let known = configs.job.models.keys().cloned().chain(self.models.keys().cloned());
                let known: BTreeSet<String> = known.chain(providers).collect();
                Err(RunError::UnknownModel { name: name.to_owned(), known: known.into_iter().collect() })
            }
            _ => {
                let models = Arc::new(models);
                check_tools(configs, stand_in, &models).map(|()| models)
            }
        }
    }

    /// Returns the prices of a run's models, which stay fixed from now on. Refuses a money limit that these prices
    /// cannot enforce.
    pub(crate) fn prices(&self, configs: &Configs, stand_in: Option<&str>) -> Result<BTreeMap<String, Price>, RunError> {
        let table = || self.price_table.as_ref().unwrap_or_else(|| PriceTable::embedded());
        let mut prices = prices(configs, stand_in, |name| self.models.contains_key(name), table);
        self.add_local_prices(configs, stand_in, &mut prices);
        check_money(configs, stand_in, &prices).map_err(|faults| RunError::Unpriced(Arc::new(faults)))?;
        Ok(prices)
    }

    /// Adds the price of the models that servers on this machine run, which is nothing.
    fn add_local_prices(&self, configs: &Configs, stand_in: Option<&str>, prices: &mut BTreeMap<String, Price>) {
        let job = &configs.job;
        let of_agents = configs.agents.values().map(|agent| agent.model.as_str());
        let used: BTreeSet<&str> = of_agents.chain(stand_in).chain(job.summary_model.as_deref()).collect();
        let fallbacks = used.iter().flat_map(|name| job.fallbacks(name)).map(String::as_str);
        for name in used.iter().copied().chain(fallbacks) {
            if prices.get(name).is_some_and(|price| !price.is_estimate) || self.models.contains_key(name) {
                continue;
            }
            if let Some(ModelSpec::Provided(provided)) = job.model(name)
                && runs_here(&provided.provider, job.providers.get(&provided.provider), &*self.variable)
            {
                prices.insert(name.to_owned(), Price::local());
            }
        }
    }

    pub(crate) fn forget(&self, id: &RunId) {
        self.running().remove(id);
    }

    fn running(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, RunHandle>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the settings of a provider with a fallback: the connection timeout is short.
fn hurried(provider: &str, settings: Option<&ProviderSettings>) -> ProviderSettings {
    let usual = || ProviderSettings { like: provider.to_owned(), ..ProviderSettings::default() };
    let settings = settings.cloned().unwrap_or_else(usual);
    let connect = settings.connect.unwrap_or(CONNECT_IN_TURN).min(CONNECT_IN_TURN);
    ProviderSettings { connect: Some(connect), ..settings }
}

/// Reports tools of agents that their models cannot be offered.
fn check_tools(configs: &Configs, stand_in: Option<&str>, models: &Models) -> Result<(), RunError> {
    let unfit = unfit_tools(configs, stand_in, |name, tools, settings| {
        models.get(name).and_then(|model| model.check_tools(tools, settings).err()).unwrap_or_default()
    });
    if unfit.is_empty() { Ok(()) } else { Err(RunError::Tools(unfit.into_iter().map(|unfit| unfit.fault).collect())) }
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

fn faults(faults: &[ScriptFault]) -> String {
    faults.iter().map(|fault| format!("{} {}", fault.pointer, fault.message)).collect::<Vec<_>>().join("; ")
}

/// Returns a random run id. Its prefix distinguishes runs, so it has no leading time. Ids of other runs do not help to
/// guess it.
pub(crate) fn random_run_id() -> RunId {
    let hash = ContentHash::of(uuid::Uuid::now_v7().as_bytes());
    let characters = hash.as_bytes()[..RUN_ID_CHARACTERS].iter().map(|byte| char::from(RUN_ID_ALPHABET[usize::from(byte % 32)]));
    RunId::new(characters.collect::<String>())
}
