//! The tools that a `baton tool` command can name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_types::config::{Agent, Tool};
use baton_types::id::{AgentId, ToolId};

use crate::exit::Failure;
use crate::job;
use crate::place::Place;

/// Tools by id, and the job that they come from, if any.
pub(super) struct Tools {
    pub(super) by_id: BTreeMap<ToolId, Arc<Tool>>,
    pub(super) job: Option<PathBuf>,
    agents: BTreeMap<AgentId, Arc<Agent>>,
}

impl Tools {
    /// Loads the program's tools, and those of `job`. Without `job`, it is the job of the current folder, if there is one.
    pub(super) fn load(place: &Place, job: Option<&Path>) -> Result<Self, Failure> {
        let here = place.current.join(crate::place::JOB_FILE).is_file().then_some(Path::new("."));
        match job.or(here) {
            Some(name) => {
                let configs = job::load(place, name)?.configs;
                Ok(Self { by_id: configs.tools.clone(), job: Some(name.to_owned()), agents: configs.agents.clone() })
            }
            None => Ok(Self { by_id: job::tools(place)?, job: None, agents: BTreeMap::new() }),
        }
    }

    /// Returns the tools of one agent of the job, as the agent sees them.
    pub(super) fn of_agent(self, agent: &str) -> Result<Self, Failure> {
        if self.job.is_none() {
            return Err(Failure::Usage("--for names an agent of a job; add --job JOB".to_owned()));
        }
        match self.agents.get(agent) {
            Some(agent) => Ok(Self { by_id: agent.tools.clone(), ..self }),
            None => Err(Failure::not_found("agent", agent, self.agents.keys().map(ToString::to_string))),
        }
    }

    /// Returns the tool with the id `name`.
    pub(super) fn get(&self, name: &str) -> Result<&Arc<Tool>, Failure> {
        self.by_id.get(name).ok_or_else(|| Failure::not_found("tool", name, self.by_id.keys().map(ToString::to_string)))
    }
}
