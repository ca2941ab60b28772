//! The tools that a `baton tool` command can name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_types::config::{Agent, Configs, ModelSpec, Tool};
use baton_types::id::ToolId;
use serde_json::{Map, Value};

use crate::exit::Failure;
use crate::job;
use crate::place::Place;

/// Tools by id, and the job that they come from, if any.
pub(super) struct Tools {
    pub(super) by_id: BTreeMap<ToolId, Arc<Tool>>,
    pub(super) job: Option<PathBuf>,
    /// The settings of requests that offer the tools: those of one agent and its model, if they are the tools of an agent.
    pub(super) settings: Map<String, Value>,
    /// The agent that they are granted to, if they are the tools of an agent.
    pub(super) agent: Option<Arc<Agent>>,
    configs: Option<Arc<Configs>>,
}

impl Tools {
    /// Loads the program's tools, and those of `job`. Without `job`, it is the job of the current folder, if there is one.
    pub(super) fn load(place: &Place, job: Option<&Path>) -> Result<Self, Failure> {
        let here = place.current.join(crate::place::JOB_FILE).is_file().then_some(Path::new("."));
        let settings = Map::new();
        match job.or(here) {
            Some(name) => {
                let configs = job::load(place, name)?.configs;
                let by_id = configs.tools.clone().into_iter().collect();
                Ok(Self { by_id, job: Some(name.to_owned()), settings, agent: None, configs: Some(configs) })
            }
            None => Ok(Self { by_id: job::tools(place)?, job: None, settings, agent: None, configs: None }),
        }
    }

    /// Returns the tools of one agent of the job, as the agent sees them, or all tools if `agent` is `None`.
    pub(super) fn seen_by(self, agent: Option<&str>) -> Result<Self, Failure> {
        let Some(agent) = agent else { return Ok(self) };
        let Some(configs) = &self.configs else {
            return Err(Failure::Usage("--for names an agent of a job; add --job JOB".to_owned()));
        };
        let Some(agent) = configs.agents.get(agent) else {
            return Err(Failure::not_found("agent", agent, configs.agents.keys().map(ToString::to_string)));
        };
        let mut settings = match configs.job.model(&agent.model) {
            Some(ModelSpec::Provided(model)) => model.settings,
            Some(ModelSpec::Scripted { .. }) | None => Map::new(),
        };
        settings.extend(agent.settings.value().as_object().cloned().unwrap_or_default());
        Ok(Self { by_id: agent.tools.clone(), settings, agent: Some(Arc::clone(agent)), ..self })
    }

    /// Returns the tool with the id `name`.
    pub(super) fn get(&self, name: &str) -> Result<&Arc<Tool>, Failure> {
        self.by_id.get(name).ok_or_else(|| Failure::not_found("tool", name, self.by_id.keys().map(ToString::to_string)))
    }
}
