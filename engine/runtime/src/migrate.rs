//! `resume --migrate`: continues a run with the present configs of its job, after showing the differences.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_config::{Sources, Unconfigured};
use baton_machine::Run;
use baton_types::config::{Agent, Configs, Tool};
use baton_types::entry::Adoption;
use baton_types::event::{Event, Refusal};
use baton_types::id::{AgentId, ContentHash, RunId, TaskId};
use baton_types::principal::Principal;

use crate::adopting::Adopting;
use crate::engine::{Engine, Takes};
use crate::error::RunError;
use crate::handle::RunHandle;
use crate::job::{load_configs, pinned};
use crate::services::template;
use crate::transcripts::Prompts;

/// Differences that other configs would make for a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Migration {
    /// The files that differ, and how.
    pub files: Vec<String>,
    /// Unfinished tasks that would continue differently.
    pub tasks: Vec<Divergence>,
    /// Reasons why the run cannot continue with these configs; empty if it can.
    pub hindrances: Vec<String>,
}

/// A task that would continue differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The task.
    pub task: TaskId,
    /// The agent that holds it.
    pub agent: AgentId,
    /// Its differences.
    pub changes: Vec<String>,
    /// Whether the beginning of its next request changes, so that a provider's prompt cache no longer helps.
    pub new_prefix: bool,
}

impl Engine {
    /// Continues a run with the configs in `sources`, from here on. Returns when that is durable. Refuses a run that
    /// has ended.
    pub async fn migrate(&self, id: &RunId, sources: &Sources, by: &Principal) -> Result<RunHandle, RunError> {
        let before = self.0.sources(id, self.present_configs(id).await?).await?;
        let mut sources = sources.clone();
        sources.keep_of_start(&before);
        let sources = &sources;
        let configs = Arc::new(self.loaded(sources)?);
        let changes = sources.changes_from(&before);
        let adopting = Adopting { configs, pinned: pinned(sources), changes, by: by.clone() };
        self.resume_adopting(id, Some(adopting), Takes::FromAnyone).await
    }

    /// Returns the differences that the configs in `sources` would make. Changes nothing.
    pub async fn migration(&self, id: &RunId, sources: &Sources) -> Result<Migration, RunError> {
        let mut run = self.state(id).await?;
        let started = run.started().cloned().ok_or_else(|| RunError::NeverStarted(id.clone()))?;
        let before = self.0.sources(id, started.configs).await?;
        let mut sources = sources.clone();
        sources.keep_of_start(&before);
        let sources = &sources;
        let now = Arc::new(self.loaded(sources)?);
        let prompts = |configs| Prompts::render(configs, &started.inputs).map_err(|error| template(&error));
        let (was, is) = (prompts(run.configs())?, prompts(&now)?);
        let files = sources.changes_from(&before);
        let live = run.graph().iter().filter(|task| task.is_live());
        let tasks = live.filter_map(|task| divergence(&run, &now, task, &was, &is)).collect();
        let (hash, _) = pinned(sources);
        run.know_configs(hash, Arc::clone(&now));
        let (prices, unpriced) = match self.0.prices(&now, started.model.as_deref()) {
            Ok(prices) => (prices, None),
            Err(error) => (BTreeMap::new(), Some(error.to_string())),
        };
        let adoption = Adoption { configs: hash, model: started.model, prices, changes: Vec::new(), fork: None, follow_up: None };
        let event = Event::Adopted { adoption, documents: Vec::new(), by: Principal::Engine };
        let mut hindrances = match run.check(&event) {
            Err(Refusal::CannotAdopt { reasons }) => reasons,
            Err(refusal) => vec![refusal.to_string()],
            Ok(()) => Vec::new(),
        };
        hindrances.extend(unpriced);
        Ok(Migration { files, tasks, hindrances })
    }

    async fn present_configs(&self, id: &RunId) -> Result<ContentHash, RunError> {
        let run = self.state(id).await?;
        run.started().map(|started| started.configs).ok_or_else(|| RunError::NeverStarted(id.clone()))
    }

    fn loaded(&self, sources: &Sources) -> Result<Configs, RunError> {
        let loaded = load_configs(sources, &self.0.functions, Unconfigured::Allowed);
        loaded.map_err(|faults| RunError::Configs(Arc::new(faults)))
    }
}

/// Returns the differences for `task`, if any.
fn divergence(run: &Run, now: &Configs, task: &baton_machine::Task, was: &Prompts, is: &Prompts) -> Option<Divergence> {
    let id = task.agent()?;
    let before = run.configs().agents.get(id)?;
    let mut changes = Vec::new();
    let mut new_prefix = false;
    match now.agents.get(id) {
        None => changes.push("its agent was removed".to_owned()),
        Some(agent) => {
            if was.of_agent(id) != is.of_agent(id) {
                changes.push("system prompt".to_owned());
            }
            let stands_in = run.started().is_some_and(|started| started.model.is_some());
            if before.model != agent.model && !stands_in {
                changes.push(format!("model {} → {}", before.model, agent.model));
            }
            let source = |agent: &Agent| agent.program.as_ref().map(|program| Arc::clone(&program.source));
            if source(before) != source(agent) {
                // The text is the input of a call, which is on the timeline.
                let this = if task.turns == 0 { "" } else { "; this task continues with the text with which it began" };
                changes.push(format!("the program{this}"));
            } else if before.settings != agent.settings {
                changes.push("settings".to_owned());
            }
            changes.extend(tools(before, agent));
            changes.extend(configurations(before, agent));
            // What the model sees beside the conversation comes first in a request.
            new_prefix = !changes.is_empty();
            if *task.limits() != *task.limits_under(now) {
                changes.push("limits".to_owned());
            }
            let schema = |agent: &Agent| agent.result_schema.as_ref().map(|schema| schema.json().clone());
            if schema(before) != schema(agent) {
                changes.push("the schema of its result".to_owned());
            }
            if (before.on_text, before.master) != (agent.on_text, agent.master) {
                changes.push("its rule for a turn without calls, or its master for questions".to_owned());
            }
        }
    }
    (!changes.is_empty()).then(|| Divergence { task: task.id.clone(), agent: id.clone(), changes, new_prefix })
}

/// Tools that an agent has more, fewer, or described otherwise.
fn tools(before: &Agent, now: &Agent) -> Vec<String> {
    let ids: BTreeSet<_> = before.tools.keys().chain(now.tools.keys()).collect();
    let change = |id| match (before.tools.get(id), now.tools.get(id)) {
        (None, Some(_)) => Some(format!("tool {id} is new")),
        (Some(_), None) => Some(format!("tool {id} was removed")),
        (Some(was), Some(is)) if !is_same(was, is) => Some(format!("tool {id} changed")),
        _ => None,
    };
    ids.into_iter().filter_map(change).collect()
}

/// Configurations of tools that an agent has more, fewer, or with other values.
fn configurations(before: &Agent, now: &Agent) -> Vec<String> {
    let ids: BTreeSet<_> = before.configurations.keys().chain(now.configurations.keys()).collect();
    let change = |id| match (before.configurations.get(id), now.configurations.get(id)) {
        (None, Some(_)) => Some(format!("configuration {id} is new")),
        (Some(_), None) => Some(format!("configuration {id} was removed")),
        (Some(was), Some(is)) => {
            let is_same = (&was.id, &was.settings, &was.configuration) == (&is.id, &is.settings, &is.configuration);
            (!is_same).then(|| format!("configuration {id} changed"))
        }
        (None, None) => None,
    };
    ids.into_iter().filter_map(change).collect()
}

fn is_same(was: &Tool, is: &Tool) -> bool {
    was.definition == is.definition
        && was.tool_type == is.tool_type
        && was.effect == is.effect
        && was.writes == is.writes
        && was.after == is.after
        && was.controls_flow == is.controls_flow
        && was.suspends == is.suspends
        && was.suspend_timeout == is.suspend_timeout
        && was.arguments == is.arguments
        && was.timeout == is.timeout
        && was.idle == is.idle
        && was.limits == is.limits
        && format!("{:?}", was.executor) == format!("{:?}", is.executor)
}
