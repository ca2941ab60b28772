//! The agents that a task has provisioned or delegated to, by id.
//!
//! Nothing is stored: the calls of earlier turns on the timeline are the register. Calls of the same turn do not count, so code that
//! runs again after a crash sees the same register.

use std::collections::{BTreeMap, BTreeSet};

use baton_tool::{RecallScope, RecalledCall, ToolContext, ToolError};
use baton_types::call::{CallStatus, ModelCall};
use baton_types::id::{CallId, ROUTE_PREFIX};
use baton_types::spelling::nearest;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::provision::Provisioned;
use super::{delegation, invalid, with};

/// The call of a delegation that has no number.
pub(super) const ONLY: &str = "task";

/// The agent that is to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum TargetStrategy {
    /// A fresh conversation of an agent of the job.
    New,
    /// The conversation of an earlier agent goes on.
    Reuse,
    /// A new agent begins with the conversation of an earlier one.
    Clone,
}

/// The agent that is to work, and its work.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Instruction {
    pub(super) target_strategy: TargetStrategy,
    pub(super) target_ref: String,
    pub(super) instruction: String,
}

/// The input of `fork_join`, as far as it names agents.
#[derive(Deserialize)]
struct Joined {
    tasks: Vec<Instruction>,
}

/// The input of `launch_principal`.
#[derive(Deserialize)]
struct Launched {
    profile_name: String,
    instruction: String,
}

/// An agent with an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// The agent of the job that it is.
    pub(super) profile: String,
    /// Its newest task.
    newest: Option<CallId>,
}

/// The agents with an id. Agents that were not provisioned have the id of their first task.
#[derive(Debug, Default)]
pub(super) struct Agents(BTreeMap<String, Known>);

impl Agents {
    /// Reads the calls of earlier turns.
    pub(super) async fn read(context: &ToolContext) -> Result<Self, ToolError> {
        let turn = turn_of(context.call());
        let mut calls = Vec::new();
        for tool in ["provision_agent", "delegate_async", "launch_principal", "fork_join"] {
            let recalled = context.recall(tool, RecallScope::Task).await?.into_iter();
            calls.extend(recalled.filter(|call| turn_of(&call.call) < turn).map(|call| (tool, call)));
        }
        calls.sort_by(|(_, a), (_, b)| (a.at, &a.call).cmp(&(b.at, &b.call)));
        let mut agents = Self::default();
        let mut begun = BTreeMap::new();
        for (tool, call) in calls {
            if tool == "provision_agent" {
                if let Some(wanted) = input::<Provisioned>(&call).filter(|_| call.status == CallStatus::Success) {
                    agents.insert(&wanted);
                }
                continue;
            }
            for (name, instruction) in delegations(tool, &call) {
                let Ok((profile, _)) = agents.target(&instruction) else { continue };
                let task = call.call.inner(&name);
                if !begun.contains_key(&profile) {
                    let route = context.recall(&format!("{ROUTE_PREFIX}{profile}"), RecallScope::Task).await?;
                    begun.insert(profile.clone(), route.into_iter().map(|call| call.call).collect::<BTreeSet<_>>());
                }
                if begun[&profile].contains(&task) {
                    agents.begun(&instruction, &profile, task);
                }
            }
        }
        Ok(agents)
    }

    /// Returns the agent with the id `id`: that of `provision_agent`, or an `agent_turn_id`.
    pub(super) fn find(&self, id: &str) -> Option<&Known> {
        // A task has the same id in a fork, whose run has another one.
        self.0.get(id).or_else(|| self.0.get(id.split_once('/')?.1))
    }

    /// Adds an agent that was provisioned, or changes nothing if there is one with its id.
    fn insert(&mut self, wanted: &Provisioned) {
        let (derived, profile) = (wanted.derived_from.as_deref().and_then(|id| self.find(id)), wanted.profile_name.clone());
        let known = match (derived, profile) {
            (Some(derived), None) => derived.clone(),
            (_, Some(profile)) => Known { profile, newest: None },
            (None, None) => return,
        };
        self.0.entry(wanted.agent_id.clone()).or_insert(known);
    }

    fn begun(&mut self, instruction: &Instruction, profile: &str, task: CallId) {
        let id = match instruction.target_strategy {
            TargetStrategy::Reuse => match self.0.contains_key(&instruction.target_ref) {
                true => instruction.target_ref.clone(),
                false => instruction.target_ref.split_once('/').map(|(_, task)| task.to_owned()).unwrap_or_default(),
            },
            TargetStrategy::New | TargetStrategy::Clone => task.created_task().to_string(),
        };
        self.0.insert(id, Known { profile: profile.to_owned(), newest: Some(task) });
    }

    /// Returns the agent of the job that is to work, and the task whose conversation goes on.
    fn target(&self, instruction: &Instruction) -> Result<(String, Option<CallId>), ToolError> {
        let id = &instruction.target_ref;
        if instruction.target_strategy == TargetStrategy::New {
            return Ok((id.clone(), None));
        }
        match self.find(id) {
            Some(known) => Ok((known.profile.clone(), known.newest.clone())),
            None => {
                let known: Vec<&String> = self.0.keys().collect();
                let near = nearest(id, self.0.keys().map(String::as_str))
                    .map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
                let message = format!("{id:?} is no agent that you provisioned or delegated to in an earlier turn{near}");
                Err(invalid(message).with_detail(json!({"agents": known})))
            }
        }
    }

    /// Returns the agent of the job that is to work, and the call that delegates to it.
    pub(super) fn call(&self, instruction: &Instruction) -> Result<(String, ModelCall), ToolError> {
        let (profile, continued) = self.target(instruction)?;
        let call = delegation(&profile, &instruction.instruction);
        let continued = continued.map(|task| ("continues", json!(task.created_task())));
        Ok((profile, with(call, continued)))
    }
}

/// Returns the delegations that a call has made, with the names of their calls.
fn delegations(tool: &str, call: &RecalledCall) -> Vec<(String, Instruction)> {
    let only = |instruction: Instruction| vec![(ONLY.to_owned(), instruction)];
    let launched = |Launched { profile_name: target_ref, instruction }| {
        only(Instruction { target_strategy: TargetStrategy::New, target_ref, instruction })
    };
    let found = match tool {
        "delegate_async" => input::<Instruction>(call).map(only),
        "launch_principal" => input::<Launched>(call).map(launched),
        _ => input::<Joined>(call).map(|joined| (1..).map(|number: u32| number.to_string()).zip(joined.tasks).collect()),
    };
    found.unwrap_or_default()
}

/// Returns the input of a call; none if it does not have the form of its tool (a job may refine the tool's config).
fn input<T: DeserializeOwned>(call: &RecalledCall) -> Option<T> {
    serde_json::from_value(call.input.value()).ok()
}

/// Returns the turn of a call, also of one that code made.
fn turn_of(call: &CallId) -> u32 {
    let place = call.as_str().rsplit_once('/').map_or("", |(_, place)| place);
    place.split('.').next().and_then(|turn| turn.parse().ok()).unwrap_or_default()
}
