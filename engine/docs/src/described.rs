//! The values that pages are made of: jobs, and tools with the agents that may use them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_types::config::{Approver, Configs, Tool};
use baton_types::id::{AgentId, JobId, ToolId};
use serde_json::{Map, Value};

/// Declarations of settings by name, by tool.
pub type Settings = BTreeMap<ToolId, Map<String, Value>>;

/// A job whose tools and agents are described.
#[derive(Clone, Copy, Debug)]
pub struct Job<'c> {
    /// The job.
    pub configs: &'c Configs,
    /// The settings that its tools declare.
    pub settings: &'c Settings,
    /// The tools with a config file of the job or of its project.
    pub own: &'c BTreeSet<ToolId>,
}

/// One version of a tool.
#[derive(Clone, Debug)]
pub struct DescribedTool {
    /// The tool.
    pub tool: Arc<Tool>,
    /// The settings that its config declares.
    pub settings: Map<String, Value>,
    /// The jobs that have this version. None for a tool without a job.
    pub jobs: Vec<JobId>,
    /// The agents that may use it.
    pub grants: Vec<Grant>,
}

/// The use of a tool by one agent.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The agent's job.
    pub job: JobId,
    /// The agent.
    pub agent: AgentId,
    /// The tool as the agent sees it.
    pub tool: Arc<Tool>,
    /// The approver that the agent's config names.
    pub approval: Option<Approver>,
}

impl DescribedTool {
    /// Returns a tool that no job has.
    pub fn without_job(tool: Arc<Tool>, settings: Map<String, Value>) -> Self {
        Self { tool, settings, jobs: Vec::new(), grants: Vec::new() }
    }
}
