//! Tools, checked, and what runs their calls.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::arguments::Arguments;
use super::configuration::Configuration;
use super::policy::{Accept, Approver, CalleeContext, OnFailure, OnUnknownOutcome, TaskAction};
use super::reach::Reach;
use super::{Agent, Configs};
use crate::call::AfterExecution;
use crate::id::{AgentId, ContentHash, TaskId, ToolId};
use crate::json::Json;
use crate::limits::Limits;
use crate::model::ToolDefinition;
use crate::schema::Schema;
use crate::tool_type::{Then, ToolType};

/// A tool, checked. A function tool has exactly one executor; the other types have none.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Its id.
    pub id: ToolId,
    /// Its type; the machine reads the row, never the type.
    pub tool_type: ToolType,
    /// A call in a few words, for people.
    pub title: Option<String>,
    /// The description for agents.
    pub description: String,
    /// Its purpose in a few words, for catalogs.
    pub summary: Option<String>,
    /// The schema of its input.
    pub input: Schema,
    /// The schema of its output.
    pub output: Option<Schema>,
    /// Its effect class.
    pub effect: EffectClass,
    /// Whether a call may write documents.
    pub writes: bool,
    /// The config's rule for the end of the turn.
    pub after: Option<AfterExecution>,
    /// Whether a result may set the next step after the turn.
    pub controls_flow: bool,
    /// Whether its code may end without a result, which comes later.
    pub suspends: bool,
    /// Time after which a suspended call ends as `timeout`, unless its code sets a moment.
    pub suspend_timeout: Option<Duration>,
    /// Values that the config adds to the input of each call.
    pub arguments: Arguments,
    /// The tools that its code may call: ids, or [`ALL_GRANTED`] for those that the calling agent was granted. Empty for none.
    pub calls: Vec<String>,
    /// Whether a call describes other tools of the agent, which its input `tools` names.
    pub describes_tools: bool,
    /// The action of its calls on tasks below the calling one; `None` for a tool that does nothing with them.
    pub manages_tasks: Option<TaskAction>,
    /// Whether it runs the programs of agents.
    pub runs_programs: bool,
    /// The time limit of a call.
    pub timeout: Duration,
    /// The time limit without a sign of life.
    pub idle: Option<Duration>,
    /// The agent of a delegation.
    pub agent: Option<AgentId>,
    /// Limits of the tasks created by its calls.
    pub limits: Limits,
    /// The beginning of the conversations of delegated tasks.
    pub context: CalleeContext,
    /// Whether a call may delegate without waiting for the result.
    pub background: bool,
    /// Whether a call may continue the conversation of an earlier task of the caller.
    pub follow_up: bool,
    /// The policy for failed delegations.
    pub on_failure: OnFailure,
    /// The acceptance of the results of delegations.
    pub accept: Option<Accept>,
    /// The approver of its calls, for every agent.
    pub approval: Option<Approver>,
    /// The policy for calls whose outcome a crash left unknown.
    pub on_unknown_outcome: OnUnknownOutcome,
    /// The inputs that describe a change of a document.
    pub changes: Option<Changes>,
    /// The executor of its calls.
    pub executor: Option<Executor>,
    /// Examples, which match its schemas and run as tests.
    pub examples: Vec<Example>,
    /// The category, for people.
    pub category: Option<String>,
    /// Search terms.
    pub tags: Vec<String>,
    /// Its settings with defaults: an object that its function reads.
    pub settings: Json,
    /// The environment variables with secrets that its function may read.
    pub secrets: Vec<String>,
    /// Whether its input has a `config_id`, which names a configuration as the call's own `config_id` does.
    pub takes_config_id: bool,
    /// The configuration whose settings it has; `None` for a tool as its own config defines it.
    pub configuration: Option<Configuration>,
    /// The outside resources of its calls, with the origin of each setting.
    pub reaches: Vec<Reach>,
    /// Its file, as shown in messages; `None` for a tool that the engine derived from an agent.
    pub source: Option<String>,
    /// The definition that models receive.
    pub definition: Arc<ToolDefinition>,
}

/// In [`Tool::calls`]: every tool that the calling agent was granted.
pub const ALL_GRANTED: &str = "*";

impl Configs {
    /// Returns the tool `id` if a call of `agent` may name it, or a call that the code of `outer` makes for this agent.
    pub fn callable<'a>(&'a self, agent: &'a Agent, outer: Option<&Tool>, id: &str) -> Option<&'a Arc<Tool>> {
        let then = |tool: &Tool| tool.tool_type.behavior().then;
        let Some(outer) = outer else { return agent.tools.get(id).filter(|tool| then(tool) != Then::Enter) };
        let names = |called: &str| outer.calls.iter().any(|named| named == called);
        let tool = if names(id) { self.tools.get(id) } else { agent.tools.get(id).filter(|_| names(ALL_GRANTED)) };
        tool.filter(|tool| then(tool) != Then::Enter && !tool.is_for_models_only())
    }

    /// Returns all those tools.
    pub fn all_callable<'a>(&'a self, agent: &'a Agent, outer: Option<&Tool>) -> Vec<&'a Arc<Tool>> {
        let is_callable = |id: &ToolId| self.callable(agent, outer, id.as_str());
        self.tools.keys().filter_map(is_callable).collect()
    }
}

impl Tool {
    /// Whether code cannot call it. Code cannot hand off, waits for its own calls, and has no use for descriptions of tools.
    pub fn is_for_models_only(&self) -> bool {
        self.describes_tools || self.manages_tasks.is_some() || self.tool_type.behavior().then == Then::Stop
    }

    /// Returns the tool service that executes its calls, if one does.
    pub fn service(&self) -> Option<&ServiceSpec> {
        match &self.executor {
            Some(Executor::Service(service)) => Some(service),
            Some(Executor::Function(_) | Executor::Exec(_)) | None => None,
        }
    }

    /// Whether a crash during a call leaves it unknown whether the call had its effect. A tool service gets its command only when the
    /// call is suspended, so a call of a service that still runs has had none.
    pub fn is_lost_in_crash(&self) -> bool {
        self.effect == EffectClass::AtMostOnce && self.service().is_none()
    }

    /// Returns the next step after a result of this tool, unless the executor or the call sets it (rule *after* of
    /// docs/RULES.md).
    pub fn after_by_default(&self) -> AfterExecution {
        self.after.unwrap_or(match self.tool_type.behavior().then {
            Then::Stop => AfterExecution::Terminate,
            _ => AfterExecution::Suspend,
        })
    }

    /// Returns the hash of all that decides what a call with `input` would do: what an approval covers. The input
    /// counts as it is written, byte for byte, so no two ways of reading it can differ.
    ///
    /// The title and the change count too, although they decide nothing: the person said yes to what they were shown. Where
    /// a config has neither, the hash is that of the versions which knew neither. The same holds for values that the config adds to
    /// inputs. Of a configured tool, the configuration and the resulting settings count as well.
    pub fn call_hash(&self, input: &Json) -> ContentHash {
        let executor = self.executor.as_ref().map(|executor| format!("{executor:?}"));
        let definition = (&*self.definition, self.tool_type, self.effect, self.writes, &self.agent, executor);
        let mut tool = serde_json::to_vec(&definition).expect("a definition always serialises");
        if self.title.is_some() || self.changes.is_some() {
            tool.extend(serde_json::to_vec(&(&self.title, &self.changes)).expect("names always serialise"));
        }
        if !self.arguments.is_empty() {
            tool.extend(serde_json::to_vec(&self.arguments).expect("names and values always serialise"));
        }
        if let Some(Configuration { id, model_key, secret }) = &self.configuration {
            let configured = (id, model_key, secret, self.settings.text());
            tool.extend(serde_json::to_vec(&configured).expect("names and texts always serialise"));
        }
        ContentHash::of(&tool).extended(input.text().as_bytes())
    }

    /// Whether a call with `input` delegates without waiting for the result.
    pub fn is_background(&self, input: &Json) -> bool {
        self.background && input.value().get("wait") == Some(&Value::Bool(false))
    }

    /// Whether a call with `input` delegates and waits for the result.
    pub fn delegates(&self, input: &Json) -> bool {
        self.agent.is_some() && !self.is_background(input)
    }

    /// Returns the earlier task whose conversation a call with `input` continues.
    pub fn continued_task(&self, input: &Json) -> Option<TaskId> {
        if !self.follow_up {
            return None;
        }
        input.value().get("continues").and_then(Value::as_str).map(TaskId::from)
    }

    /// Whether an agent that answers a question may use it: `pure` tools, questions and handoffs, but nothing
    /// that must be approved first, by its own config or by the agent's grant of it.
    pub fn allowed_in_questions(&self, granted: Option<Approver>) -> bool {
        let row = self.tool_type.behavior();
        match row.then {
            Then::Continue if self.approval.max(granted).is_some() => false,
            Then::Continue if self.manages_tasks.is_some() => false,
            Then::Continue => !row.runs_code || (self.effect == EffectClass::Pure && !self.writes),
            Then::Stop => true,
            Then::Block => self.agent.is_none(),
            Then::Enter => false,
        }
    }
}

/// The effect class: whether a call that a crash interrupted may run again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// The call changes nothing, and runs again.
    Pure,
    /// Two executions have the effect of one. The call runs again.
    Idempotent,
    /// The call runs again under the same idempotency key.
    Keyed,
    /// The call never runs again. Its result is `unknown_outcome`.
    #[default]
    AtMostOnce,
}

impl EffectClass {
    /// Whether a second call has the effect a second time. The idempotency key is one call's own, so it holds for `keyed` too.
    pub const fn acts_each_time(self) -> bool {
        matches!(self, Self::Keyed | Self::AtMostOnce)
    }
}

/// The executor of a function tool.
#[derive(Clone)]
pub enum Executor {
    /// A registered Rust function. The runtime holds the function itself.
    Function(FunctionName),
    /// A command that reads JSON and writes JSON.
    Exec(ExecSpec),
    /// A tool service on a bus.
    Service(ServiceSpec),
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Function(function) => write!(f, "fn {}", function.name),
            Self::Exec(exec) if exec.files.is_empty() => write!(f, "exec {:?} with {:?}", exec.command, exec.env),
            Self::Exec(exec) => write!(f, "exec {:?} with {:?} of {:?}", exec.command, exec.env, exec.files),
            Self::Service(service) => write!(f, "service {:?}", service.target_subject),
        }
    }
}

/// A tool service, which gets a command for each call and delivers the result later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSpec {
    /// The subject of the commands (seed 004): `cg.v1r3.PROJECT.CHANNEL.cmd.tool.TARGET…`. The project may be `{project_id}` and the
    /// channel `{channel_id}`.
    pub target_subject: String,
}

/// The name of a registered Rust function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionName {
    /// The tool that it serves: what it is found by.
    pub id: &'static str,
    /// Its name in Rust, for people.
    pub name: &'static str,
}

/// A command that reads a call's input as JSON on stdin and writes its output as JSON on stdout. No shell is involved.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecSpec {
    /// Program and arguments; an argument that names a file of the job's folder is made absolute by the shell.
    pub command: Vec<String>,
    /// Names of environment variables it may see besides `PATH`, `LANG`, `BATON_CALL_ID` and `BATON_COMMAND_ID`.
    pub env: Vec<String>,
    /// The files of the job's folder that the command names, by argument, with the hashes of their contents when the folder was
    /// read.
    pub files: BTreeMap<String, String>,
    /// Number of folders from the job's folder up to the folder of the files in `command`: 0, unless the command is a project's.
    pub above: usize,
}

impl ExecSpec {
    /// Returns the folder whose files the command may name, for a job in `folder`.
    pub fn folder<'f>(&self, folder: Option<&'f Path>) -> Option<&'f Path> {
        folder.and_then(|folder| folder.ancestors().nth(self.above))
    }
}

/// An example of a tool's config.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// An explanation.
    pub explanation: String,
    /// The input.
    pub input: Value,
    /// The output, or a part of it. Each given key must have that value.
    pub output: Option<Value>,
    /// Initial documents: text by path.
    pub documents: BTreeMap<String, String>,
    /// Answers of models, in order.
    pub answers: Vec<String>,
    /// Whether it is run as a test.
    pub runs: bool,
}

/// The names of the inputs that describe a change of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// The path of the document.
    pub path: String,
    /// The inputs with its new content.
    pub content: NewContent,
}

/// The part of a document's new content that inputs give.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum NewContent {
    /// All of it.
    Whole {
        /// The content.
        content: String,
        /// Encoding of the content: `base64`, else text.
        encoding: Option<String>,
    },
    /// One block of it.
    Block {
        /// The block's number.
        block: String,
        /// New content of the block.
        data: Option<String>,
    },
    /// Nothing: it is known once the call has run.
    Unknown,
}
