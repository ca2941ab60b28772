//! Jobs built in code: what the loader would hand over, without files.

mod agents;
mod tools;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_types::config::{Agent, Configs, Job, Modalities, ModelSpec, ProvidedModel, Tool};
use baton_types::entry::RunStarted;
use baton_types::id::{AgentId, ContentHash, ToolId};
use baton_types::json::Json;
use baton_types::limits::{Limits, SessionLimits};
use baton_types::money::Price;

use self::tools::flow_tools;

pub use self::agents::{AgentDraft, agent};
pub use self::tools::{ToolDraft, function, note, tool};

/// A job in the making. Every agent gets a `route_to_` tool; `handoff` and `ask_master` are always there.
pub struct JobDraft {
    agents: Vec<AgentDraft>,
    tools: Vec<ToolDraft>,
    limits: Limits,
    session_limits: SessionLimits,
    prices: BTreeMap<String, Price>,
    fallbacks: BTreeMap<String, Vec<String>>,
    modalities: BTreeMap<String, Modalities>,
    built: OnceCell<Arc<Configs>>,
}

/// Returns a job whose first agent is the root's.
pub fn job(agents: impl IntoIterator<Item = AgentDraft>) -> JobDraft {
    JobDraft {
        agents: agents.into_iter().collect(),
        tools: Vec::new(),
        limits: Limits::default(),
        session_limits: SessionLimits::default(),
        prices: BTreeMap::new(),
        fallbacks: BTreeMap::new(),
        modalities: BTreeMap::new(),
        built: OnceCell::new(),
    }
}

/// Returns the start of a run named `run` with these configs: without a folder, inputs, a model for all agents or prices.
pub fn started(configs: &Configs) -> RunStarted {
    RunStarted {
        run: "run".into(),
        job: configs.job.id.clone(),
        configs: ContentHash::of(b"configs"),
        folder: None,
        memory: "job".into(),
        request: configs.job.request.clone(),
        inputs: Json::null(),
        model: None,
        prices: BTreeMap::new(),
        engine: "test".to_owned(),
        forked_from: None,
        continues: None,
    }
}

impl JobDraft {
    /// Adds a tool; agents must have been granted it.
    pub fn tool(mut self, tool: ToolDraft) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds tools.
    pub fn tools(mut self, tools: impl IntoIterator<Item = ToolDraft>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Sets the limits of the run.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the limits of a run and of those that it continues, together.
    pub fn session_limits(mut self, limits: SessionLimits) -> Self {
        self.session_limits = limits;
        self
    }

    /// Sets the price of the model named `model` (default: free).
    pub fn price(mut self, model: &str, price: Price) -> Self {
        self.prices.insert(model.to_owned(), price);
        self
    }

    /// Sets the models that are asked in place of the one named `model`, one after the other, when it is not available.
    pub fn fallbacks(mut self, model: &str, fallbacks: &[&str]) -> Self {
        self.fallbacks.insert(model.to_owned(), fallbacks.iter().map(|&name| name.to_owned()).collect());
        self
    }

    /// Sets the documents that the model named `model` takes besides text.
    pub fn takes(mut self, model: &str, images: bool, files: bool) -> Self {
        self.modalities.insert(model.to_owned(), Modalities { images: Some(images), files: Some(files) });
        self
    }

    /// Joins the drafts as the loader would, once.
    pub fn build(&self) -> Arc<Configs> {
        Arc::clone(self.built.get_or_init(|| self.join()))
    }

    fn join(&self) -> Arc<Configs> {
        let derived = self.agents.iter().map(|agent| ToolDraft::route(&agent.id));
        let mut tools: BTreeMap<ToolId, Arc<Tool>> = BTreeMap::new();
        for draft in flow_tools().into_iter().chain(derived).chain(self.tools.iter().cloned()) {
            tools.insert(ToolId::from(draft.id.as_str()), draft.build());
        }
        let agents = self.agents.iter().map(|draft| {
            let agent = Arc::new(draft.build(&tools));
            (agent.id.clone(), agent)
        });
        let agents: BTreeMap<AgentId, Arc<Agent>> = agents.collect();
        Arc::new(Configs {
            job: Job {
                id: "test".into(),
                description: String::new(),
                root: self.agents[0].id.as_str().into(),
                request: "go".to_owned(),
                inputs: BTreeMap::new(),
                documents: Vec::new(),
                models: self.models().map(|name| (name.clone(), self.model(name))).collect(),
                providers: BTreeMap::new(),
                provider_names: BTreeSet::new(),
                media: BTreeMap::new(),
                own_prices: BTreeMap::new(),
                embeddings: None,
                summary_model: None,
                outage: None,
                limits: self.limits.or(&Limits::run_defaults()),
                session_limits: self.session_limits.clone(),
            },
            agents: agents.into_iter().collect(),
            tools: tools.into_iter().collect(),
            money_limits: Vec::new(),
            compile_schema: baton_schema::compile,
        })
    }

    fn models(&self) -> impl Iterator<Item = &String> {
        self.agents.iter().map(|agent| &agent.model).chain(self.fallbacks.values().flatten())
    }

    /// Returns the specification of a model. One without fallbacks follows a script, which has no effect here: the
    /// shell supplies the answers.
    fn model(&self, name: &str) -> ModelSpec {
        let price = self.prices.get(name).cloned();
        let (fallbacks, modalities) = (self.fallbacks.get(name), self.modalities.get(name));
        if fallbacks.is_some() || modalities.is_some() {
            let (provider, model) = ("acme".to_owned(), name.to_owned());
            let price = price.or_else(|| Some(Price::scripted()));
            return ModelSpec::Provided(ProvidedModel {
                provider,
                model,
                price,
                fallbacks: fallbacks.cloned().unwrap_or_default(),
                modalities: modalities.copied().unwrap_or_default(),
                ..ProvidedModel::default()
            });
        }
        ModelSpec::Scripted { file: format!("{name}.json"), text: "{}".into(), price }
    }
}
