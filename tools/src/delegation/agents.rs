//! The agents that a task has provisioned or delegated to.
//!
//! Nothing is stored: the calls of earlier turns on the timeline are the register. Calls of the same turn do not count, so code that
//! runs again after a crash sees the same register.

use std::collections::{BTreeMap, BTreeSet};

use baton_tool::{RecallScope, RecalledCall, ToolContext, ToolError};
use baton_types::call::{CallStatus, ModelCall};
use baton_types::id::{CallId, ROUTE_PREFIX, TaskId};
use baton_types::spelling::nearest;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{delegation, invalid, with_fields};

/// The name of the only delegation of a call.
pub(super) const ONLY_DELEGATION: &str = "task";

/// The way to choose the agent of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum TargetStrategy {
    /// A fresh conversation of an agent of the job.
    New,
    /// The newest conversation of an earlier agent continues.
    Reuse,
    /// A new agent begins with the conversation of an earlier one.
    Clone,
}

/// A task with the agent for it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "the inputs of the tools")]
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

/// The fields of the input of `provision_agent` that later calls need.
#[derive(Deserialize)]
struct Provisioned {
    agent_id: String,
    profile_name: Option<String>,
    derived_from: Option<String>,
}

/// An agent that was provisioned or delegated to.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// The id of its agent in the job.
    pub(super) profile: String,
    /// Its newest task.
    newest: Option<TaskId>,
}

/// The agents of a task. Each has the id under which it was provisioned, and the ids of its tasks.
#[derive(Debug, Default)]
pub(super) struct Agents {
    known: Vec<Known>,
    places: BTreeMap<String, usize>,
}

impl Agents {
    /// Reads the calls of earlier turns.
    pub(super) async fn read(context: &ToolContext) -> Result<Self, ToolError> {
        let turn = turn_of(context.call());
        let mut calls = Vec::new();
        for tool in ["provision_agent", "delegate_async", "launch_principal", "fork_join"] {
            let recalled = context.recall(tool, RecallScope::Task).await?.into_iter();
            calls.extend(recalled.filter(|call| turn_of(&call.call) < turn).map(|call| (tool, call)));
        }
        calls.sort_by_key(|(_, call)| call.seq);
        let (mut agents, mut delegated) = (Self::default(), BTreeMap::new());
        for (tool, call) in calls {
            if tool == "provision_agent" {
                if let Some(provisioned) = input::<Provisioned>(&call).filter(|_| call.status == CallStatus::Success) {
                    agents.add_provisioned(&provisioned);
                }
                continue;
            }
            for (name, instruction) in delegations(tool, &call) {
                let Ok(target) = agents.target(&instruction) else { continue };
                let call = call.call.inner(&name);
                if !delegated.contains_key(&target.profile) {
                    let route = context.recall(&format!("{ROUTE_PREFIX}{}", target.profile), RecallScope::Task).await?;
                    delegated.insert(target.profile.clone(), route.into_iter().map(|call| call.call).collect::<BTreeSet<_>>());
                }
                // A delegation that was refused has no task.
                if delegated[&target.profile].contains(&call) {
                    agents.add_task(&instruction, target, call.created_task());
                }
            }
        }
        Ok(agents)
    }

    /// Returns the agent with the id `id`: that of `provision_agent`, or of a task.
    pub(super) fn find(&self, id: &str) -> Option<&Known> {
        Some(&self.known[*self.places.get(id)?])
    }

    /// Adds an agent that was provisioned, or changes nothing if there is one with its id.
    fn add_provisioned(&mut self, provisioned: &Provisioned) {
        let known = match (&provisioned.profile_name, provisioned.derived_from.as_deref().and_then(|id| self.find(id))) {
            (Some(profile), _) => Known { profile: profile.clone(), newest: None },
            (None, Some(derived)) => derived.clone(),
            (None, None) => return,
        };
        if !self.places.contains_key(&provisioned.agent_id) {
            self.places.insert(provisioned.agent_id.clone(), self.known.len());
            self.known.push(known);
        }
    }

    /// Adds a task that was delegated to an agent.
    fn add_task(&mut self, instruction: &Instruction, target: Target, task: TaskId) {
        let earlier = self.places.get(&instruction.target_ref).copied();
        let reused = earlier.filter(|_| instruction.target_strategy == TargetStrategy::Reuse);
        let place = reused.unwrap_or_else(|| {
            self.known.push(Known { profile: target.profile, newest: None });
            self.known.len() - 1
        });
        self.places.insert(task.to_string(), place);
        self.known[place].newest = Some(task);
    }

    /// Returns the agent for an instruction.
    fn target(&self, instruction: &Instruction) -> Result<Target, ToolError> {
        let id = &instruction.target_ref;
        if instruction.target_strategy == TargetStrategy::New {
            return Ok(Target { profile: id.clone(), continues: None, reused: None });
        }
        let Some(known) = self.find(id) else {
            let near = nearest(id, self.places.keys().map(String::as_str));
            let near = near.map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
            let message = format!("{id:?} is not an agent that you provisioned or delegated to in an earlier turn{near}");
            return Err(invalid(message).with_detail(json!({"agents": self.places.keys().collect::<Vec<_>>()})));
        };
        let reused = self.places.get(id).copied().filter(|_| instruction.target_strategy == TargetStrategy::Reuse);
        Ok(Target { profile: known.profile.clone(), continues: known.newest.clone(), reused })
    }

    /// Returns the delegations for `instructions`: each with the agent of the job that it is for.
    ///
    /// # Errors
    /// An agent is unknown, or two of them would continue one conversation.
    pub(super) fn delegations(&self, instructions: &[Instruction]) -> Result<Vec<(String, ModelCall)>, ToolError> {
        let mut reused = BTreeSet::new();
        let delegation = |instruction: &Instruction| {
            let target = self.target(instruction)?;
            if target.reused.is_some_and(|place| !reused.insert(place)) {
                let message =
                    format!("the agent {:?} is reused twice: its conversation can continue only once", instruction.target_ref);
                return Err(invalid(message));
            }
            let call = delegation(&target.profile, &instruction.instruction);
            let continues = target.continues.map(|task| ("continues", json!(task)));
            Ok((target.profile, with_fields(call, continues)))
        };
        instructions.iter().map(delegation).collect()
    }
}

/// The agent for a task.
struct Target {
    profile: String,
    /// The task whose conversation is continued.
    continues: Option<TaskId>,
    /// The place of the agent, if its conversation is reused.
    reused: Option<usize>,
}

/// Returns the delegations that a call has made, with the names of their calls.
fn delegations(tool: &str, call: &RecalledCall) -> Vec<(String, Instruction)> {
    let only = |instruction: Instruction| vec![(ONLY_DELEGATION.to_owned(), instruction)];
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
