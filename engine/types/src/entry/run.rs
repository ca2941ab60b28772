//! Entries of the whole run: its start, its end, and what people do to it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::FinalState;
use crate::call::CallStatus;
use crate::id::{ContentHash, JobId, MemoryId, RunId, TaskId};
use crate::json::Json;
use crate::limits::LimitKind;
use crate::money::Price;
use crate::principal::Principal;
use crate::time::Timestamp;

/// The run exists. Always entry 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RunStarted {
    /// Its id.
    pub run: RunId,
    /// The job it executes.
    pub job: JobId,
    /// The stored sources of every config it is pinned to.
    pub configs: ContentHash,
    /// The folder the job was read from, for `exec` tools and for saying that it changed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The owner of its agents' long-term memories. Forks and resumed runs keep it.
    pub memory: MemoryId,
    /// The request of the root task, rendered.
    pub request: String,
    /// The typed inputs of the job.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub inputs: Json,
    /// The model that replaces every agent's own, if one was named at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The known prices of the models, by name. The run keeps them when prices change later.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<String, Price>,
    /// The version of the engine that started it.
    pub engine: String,
    /// The run that this run continues. Never in a stored entry; set as `forked_from` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<RunId>,
    /// Origin of the fork. Never in a stored entry: a fork shares the first entry of its original, and
    /// [`Adoption::restarted`] sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkPoint>,
}

/// A place in another run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ForkPoint {
    /// The other run.
    pub run: RunId,
    /// Its last entry that is shared.
    pub seq: u64,
}

/// New configs of a run: the first own entry of a fork, or a migration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Adoption {
    /// The stored sources of every config that holds from here on.
    pub configs: ContentHash,
    /// The model that replaces every agent's own from here on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The known prices of the models from here on, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<String, Price>,
    /// The changes, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// The run that begins here, when it is a fork: all entries before are another run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Fork>,
    /// The request of a new root task, whose conversation begins with that of the root before. It continues a run that has
    /// ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_up: Option<String>,
}

impl Adoption {
    /// Returns the adoption of `configs` by a run that stays what it is: without a model for all agents, prices or changes.
    pub fn of(configs: ContentHash) -> Self {
        Self { configs, model: None, prices: BTreeMap::new(), changes: Vec::new(), fork: None, follow_up: None }
    }

    /// Returns the first entry of the run with the values that hold from here on.
    pub fn restarted(&self, started: &RunStarted) -> RunStarted {
        let (model, prices) = (self.model.clone(), self.prices.clone());
        let mut started = RunStarted { configs: self.configs, model, prices, ..started.clone() };
        if let Some(fork) = &self.fork {
            started.run = fork.run.clone();
            (started.forked_from, started.continues) = match &self.follow_up {
                None => (Some(fork.from.clone()), None),
                Some(_) => (None, Some(fork.from.run.clone())),
            };
        }
        if let Some(request) = &self.follow_up {
            started.request.clone_from(request);
        }
        started
    }
}

/// A run that shares the past of another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Fork {
    /// Its id.
    pub run: RunId,
    /// The last shared entry.
    pub from: ForkPoint,
    /// The moment of the last entry that both share. The time since then did not pass for the fork: deadlines and working
    /// times move by it.
    pub at: Timestamp,
    /// The policy for its calls with effects.
    pub effects: ForkedEffects,
}

/// The policy for calls of tools that are not `pure`. The fork's original may have made the same calls already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ForkedEffects {
    /// They take the result that the same call has in the original; without one they get an error result.
    #[default]
    Recorded,
    /// They take the result that the same call has in the original; without one they are executed.
    New,
    /// They are executed, whatever the original did.
    All,
}

/// Somebody outside the task graph acted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Control {
    /// The task acted on; `None` for the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The action.
    pub action: ControlAction,
    /// The principal of the action.
    pub by: Principal,
}

/// An action from outside the task graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ControlAction {
    /// No further step is taken.
    Paused,
    /// Steps are taken again.
    Unpaused,
    /// The task and all below it end.
    Cancelled {
        /// Why.
        reason: String,
    },
    /// A message enters the task's next request.
    Steered {
        /// The message.
        text: String,
    },
    /// A process took the run over after another stopped.
    TakenOver {
        /// The name of the process.
        process: String,
        /// Whether the former owner died, and no person asked for the take-over.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        after_death: bool,
    },
    /// No further step is taken until a person unpauses the run, since each process that continues it dies. Work in progress begins
    /// again after that.
    Quarantined {
        /// Number of owners that died since a turn or a call last ended.
        deaths: u32,
    },
    /// The run continues with these configs. Work in flight begins again, as after a take-over.
    Adopted(Box<Adoption>),
    /// The request of a task waited while the provider of its model was away. It stays open.
    Waited(Box<Waited>),
    /// Something came too late, or twice, or from nowhere: recorded and not applied.
    Late {
        /// The late event.
        what: String,
    },
}

/// The time that a request waited for its provider. It is not worked time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Waited {
    /// The provider.
    pub provider: String,
    /// Why it did not answer.
    pub reason: String,
    /// For how long, in milliseconds.
    pub milliseconds: u64,
    /// For how much of that nothing else in the run worked, in milliseconds.
    pub run_milliseconds: u64,
    /// Whether the run stops because of it. The process that resumes the run makes the request again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stops: bool,
    /// Whether the provider is known to have charged nothing for the request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncharged: bool,
}

/// The run has its one end: that of its root task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RunEnded {
    /// The final state of the root task.
    pub state: FinalState,
    /// The status of its result.
    pub status: CallStatus,
    /// The limit that ended it, when one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitKind>,
}
