//! The services of an engine, shared by its runs: store, clock, contents, models, prices and tool functions.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_config::{PriceTable, TemplateError, check_money, prices};
use baton_models::{Model, OwnPrograms, Providers, RunKey, ScriptFault, ScriptedModel, runs_here};
use baton_store::{Store, StoreError};
use baton_tool::ToolFunction;
use baton_types::config::{Configs, Executor, FunctionName, ModelSpec, PROGRAM_MODEL, ProviderSettings, RUN_SCRIPT, ServiceSpec};
use baton_types::id::{CallId, ProjectId, RunId, ToolId};
use baton_types::json::Json;
use baton_types::model::Invocation;
use baton_types::money::Price;
use tokio::sync::{OnceCell, Semaphore};

use crate::bus::Bus;
use crate::clock::Clock;
use crate::contents::Contents;
use crate::error::RunError;
use crate::fit::unfit_tools;
use crate::handle::RunHandle;
use crate::loaded::Loaded;
use crate::suspended;
use crate::tool_services::ToolServices;
use crate::transcripts::{Prompts, Transcripts};
use crate::trust::{TrustPolicy, Trusted, asked_models};

/// Longest time for a connection where a fallback exists: the fallback is used within two seconds.
const CONNECT_IN_TURN: Duration = Duration::from_millis(1_500);

/// Longest time for the announcement of a run.
const ANNOUNCE_PATIENCE: Duration = Duration::from_secs(2);

/// Looks up a variable of the environment.
pub(crate) type Variable = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Finds the project that a job's folder belongs to, as breadcrumbs name it.
pub(crate) type ProjectOf = Arc<dyn Fn(&Path) -> Option<ProjectId> + Send + Sync>;

/// Models, by the names that agents use.
pub(crate) type Models = Arc<BTreeMap<String, Arc<dyn Model>>>;

/// State shared by all runs of an engine.
pub(crate) struct Services {
    pub(crate) store: Arc<dyn Store>,
    /// Decides which configs may run.
    pub(crate) trust: Arc<dyn TrustPolicy>,
    pub(crate) contents: Contents,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) variable: Variable,
    /// Finds the project of a job's folder.
    pub(crate) project_of: ProjectOf,
    /// Bounds the threads that tools may block.
    pub(crate) blocking: Arc<Semaphore>,
    /// Time between asking commands to end and killing them.
    pub(crate) command_grace: Duration,
    pub(crate) models: Models,
    /// Makes the models of providers.
    pub(crate) providers: Providers,
    /// Prices that replace the engine's own table.
    pub(crate) price_table: Option<PriceTable>,
    /// Sends calls to tool services.
    pub(crate) dispatcher: Option<Arc<dyn ToolServices>>,
    /// Announces runs that need an owner to workers.
    pub(crate) bus: Option<Arc<dyn Bus>>,
    /// Ordered by id.
    pub(crate) functions: Vec<&'static ToolFunction>,
    pub(crate) transcript_bytes: usize,
    pub(crate) running: Mutex<HashMap<RunId, RunHandle>>,
    /// Configs of runs that were read.
    pub(crate) loaded: Loaded,
    /// The store's secret, once it was needed.
    pub(crate) secret: OnceCell<suspended::Secret>,
}

pub(crate) fn template(error: &TemplateError) -> RunError {
    RunError::Template { reason: error.to_string() }
}

impl Services {
    /// Returns the key with which the result of `call` in `run` is delivered.
    pub(crate) async fn delivery_key(&self, run: &RunId, call: &CallId) -> Result<String, StoreError> {
        let secret = self.secret.get_or_try_init(|| self.store.secret()).await?;
        Ok(suspended::key(secret, run, call))
    }

    /// Announces that a run needs an owner. Without an answer of the bus, a worker finds the run in the store.
    pub(crate) fn announce(&self, run: &RunId, wake: String) -> impl Future<Output = ()> + Send + 'static {
        let announced = self.bus.clone().map(|bus| bus.announce(run.clone(), wake));
        async move {
            if let Some(announced) = announced {
                let _late = tokio::time::timeout(ANNOUNCE_PATIENCE, announced).await;
            }
        }
    }

    /// Returns the function of that name, if the program has it.
    pub(crate) fn function(&self, name: FunctionName) -> Option<&'static ToolFunction> {
        self.functions.binary_search_by_key(&name.id, |function| function.id).ok().map(|place| self.functions[place])
    }

    /// Reports functions of granted tools that the program lacks, and tool services that it cannot reach. Tools that no agent is
    /// granted need none.
    pub(crate) fn check_functions(&self, configs: &Configs) -> Result<(), RunError> {
        let (mut missing, mut served): (BTreeMap<&ToolId, FunctionName>, BTreeMap<&ToolId, &ServiceSpec>) = Default::default();
        for tool in configs.agents.values().flat_map(|agent| agent.tools.values()) {
            match &tool.executor {
                Some(Executor::Function(name)) if self.function(*name).is_none() => drop(missing.insert(&tool.id, *name)),
                Some(Executor::Service(service)) => drop(served.insert(&tool.id, service)),
                Some(Executor::Function(_) | Executor::Exec(_)) | None => {}
            }
        }
        if !missing.is_empty() {
            return Err(RunError::MissingFunctions(missing.into_values().collect()));
        }
        let Some(services) = &self.dispatcher else {
            let unserved: Vec<ToolId> = served.into_keys().cloned().collect();
            return if unserved.is_empty() { Ok(()) } else { Err(RunError::NoServices(unserved)) };
        };
        let wrong = served.into_iter().filter_map(|(tool, service)| Some((tool.clone(), services.check(service).err()?)));
        let wrong: Vec<(ToolId, String)> = wrong.collect();
        if wrong.is_empty() { Ok(()) } else { Err(RunError::Unreachable(wrong)) }
    }

    /// Returns an empty cache of conversations for a run.
    pub(crate) fn transcripts(&self, id: &RunId, prompts: Prompts) -> Transcripts {
        Transcripts::new(Arc::clone(&self.store), id.clone(), prompts, self.transcript_bytes)
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

    /// Returns the models that a run with `inputs` may ask: the job's and the engine's. `stand_in` must be one of them.
    pub(crate) fn models(&self, configs: &Trusted, stand_in: Option<&str>, inputs: &Json) -> Result<Models, RunError> {
        let configs = configs.configs();
        let (mut models, run) = (BTreeMap::new(), RunKey::unique());
        // A key that no agent needs need not be there; a script needs nothing.
        let used = asked_models(configs, stand_in);
        let fallbacks = used.iter().flat_map(|name| configs.job.fallbacks(name)).map(String::as_str);
        let with_fallbacks = used.iter().copied().filter(|name| !configs.job.fallbacks(name).is_empty());
        let in_turn: BTreeSet<&str> = with_fallbacks.chain(fallbacks).collect();
        let named = configs.job.models.keys().map(String::as_str);
        for name in named.chain(used.iter().copied()).collect::<BTreeSet<_>>() {
            // The script of another start, such as that of a fork's original, has no part in this run.
            if self.models.contains_key(name) || (name == RUN_SCRIPT && stand_in != Some(RUN_SCRIPT)) {
                continue;
            }
            let refused = |error| RunError::Model { name: name.to_owned(), error };
            let model: Arc<dyn Model> = match configs.job.model(name) {
                Some(ModelSpec::Scripted { text, .. }) => {
                    let scripted = ScriptedModel::parse(&text).map_err(|error| refused(faults(&error)))?;
                    Arc::new(scripted.with_inputs(inputs.clone()))
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
        if configs.agents.values().any(|agent| agent.program.is_some()) {
            models.insert(PROGRAM_MODEL.to_owned(), Arc::new(OwnPrograms::of(configs, inputs.clone())));
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
                check_invocation(configs, stand_in)?;
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

    pub(crate) fn running(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, RunHandle>> {
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

/// Refuses a model in place of all others that needs universal invocation, if an agent is native.
fn check_invocation(configs: &Configs, stand_in: Option<&str>) -> Result<(), RunError> {
    let mut native = configs.agents.values().filter(|agent| agent.invocation == Invocation::Native && agent.program.is_none());
    let (Some(universal), Some(agent)) = (stand_in.and_then(|name| configs.job.needs_universal(name)), native.next()) else {
        return Ok(());
    };
    Err(RunError::Invocation { model: universal.to_owned(), agent: agent.id.clone() })
}

/// Reports tools of agents that their models cannot be offered.
fn check_tools(configs: &Configs, stand_in: Option<&str>, models: &Models) -> Result<(), RunError> {
    let unfit = unfit_tools(configs, stand_in, |name, tools, settings| {
        models.get(name).and_then(|model| model.check_tools(tools, settings).err()).unwrap_or_default()
    });
    if unfit.is_empty() { Ok(()) } else { Err(RunError::Tools(unfit.into_iter().map(|unfit| unfit.fault).collect())) }
}

fn faults(faults: &[ScriptFault]) -> String {
    faults.iter().map(|fault| format!("{} {}", fault.pointer, fault.message)).collect::<Vec<_>>().join("; ")
}
