//! Configs, checked and joined: what a run is pinned to.
//!
//! The files a person writes are read by the loader, which gathers *all* faults; what comes out here is consistent,
//! so the machine looks things up without asking whether they exist.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::AfterExecution;
use crate::function::ToolFunction;
use crate::id::{AgentId, ContentHash, JobId, ToolId};
use crate::json::Json;
use crate::limits::Limits;
use crate::model::{Offer, ToolDefinition};
use crate::money::Price;
use crate::path::DocumentPath;
use crate::tool_type::ToolType;

mod agent;
mod dialect;
mod edit;
mod fault;
pub mod form;
mod job;
mod keywords;
mod load;
mod models;
mod plain;
mod policy;
mod price;
mod reach;
mod reader;
mod schema;
mod settings;
mod shape;
mod shown;
mod signature;
mod source;
mod template;
mod tool;
mod tool_schema;

pub use edit::EditFault;
pub use fault::{Fault, FaultKind, Faults, nearest};
pub use form::{Modalities, ProjectForm as Project};
pub use load::{ScriptCheck, Unconfigured, load, load_project, load_tools};
pub use models::{ModelRules, ProvidedModel, ProviderLimits, ProviderSettings, may_hold_key};
pub use policy::{Approver, Join, OnFailure, OnUnknownOutcome, Retry};
pub use price::{MoneyLimit, PriceTable};
pub use reach::{Origin, Reach, Target};
pub use reader::MAX_FILE_BYTES;
pub use schema::{Schema, SchemaFault};
pub use shape::{schema_of, schemas};
pub use shown::{Changes, NewContent};
pub use source::{Role, Source, Sources};
pub use template::TemplateError;
pub use tool::DEFAULT_TIMEOUT;

/// The job, agents and tools of a run.
#[derive(Debug)]
pub struct Configs {
    /// The job.
    pub job: Job,
    /// The agents of the job.
    pub agents: BTreeMap<AgentId, Arc<Agent>>,
    /// All tools, including built-in ones and those that delegate to an agent.
    pub tools: BTreeMap<ToolId, Arc<Tool>>,
    /// The limits of money in their files; see [`Configs::check_money`].
    pub money_limits: Vec<MoneyLimit>,
}

/// A job, checked.
#[derive(Debug)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// Its purpose.
    pub description: String,
    /// The agent of the root task.
    pub root: AgentId,
    /// The request's template; its variables are `inputs`.
    pub request: String,
    /// The inputs of the request and the prompts.
    pub inputs: BTreeMap<String, JobInput>,
    /// The initial documents of the workspace.
    pub documents: Vec<JobDocument>,
    /// Models by name; [`Job::model`] also finds those that need no config.
    pub models: BTreeMap<String, ModelSpec>,
    /// Settings of providers from files.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// The names of all providers.
    pub provider_names: BTreeSet<String>,
    /// Prices set by the person, by `PROVIDER:MODEL`.
    pub own_prices: BTreeMap<String, Price>,
    /// The model that summarises texts written by tools.
    pub summary_model: Option<String>,
    /// The time for which a request is retried while its provider is away, unless its model or provider sets another.
    pub outage: Option<std::time::Duration>,
    /// The limits of a run, with defaults.
    pub limits: Limits,
}

/// A typed input of a job.
#[derive(Debug)]
pub struct JobInput {
    /// Its meaning.
    pub description: String,
    /// The schema of its values.
    pub schema: Schema,
    /// The default; `None` for a required input.
    pub default: Option<Value>,
}

/// An initial document of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct JobDocument {
    /// Its path in the workspace.
    pub path: DocumentPath,
    /// Its file, relative to the job's folder.
    pub file: String,
    /// Its purpose.
    pub description: String,
    /// Search terms.
    pub tags: Vec<String>,
}

/// The name of the model that follows the script of [`Role::RunScript`]. No config can define a model of this name.
pub const RUN_SCRIPT: &str = "--script";

/// The model behind a model name.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelSpec {
    /// A script.
    Scripted {
        /// The script's file, relative to the job's folder.
        file: String,
        /// The script, checked.
        text: Arc<str>,
        /// The price of its tokens, if the job sets one.
        price: Option<Price>,
    },
    /// A provider's model.
    Provided(ProvidedModel),
}

/// An agent, checked. Its tools exist and its prompt renders.
#[derive(Debug)]
pub struct Agent {
    /// Its id.
    pub id: AgentId,
    /// Its abilities, for agents that may call it.
    pub description: String,
    /// Its model's name, for [`Job::model`].
    pub model: String,
    /// The system prompt's template.
    pub system_prompt: String,
    /// Its granted tools, by id.
    pub tools: BTreeMap<ToolId, Arc<Tool>>,
    /// The approvers that its grants name, by tool.
    pub approvals: BTreeMap<ToolId, Approver>,
    /// The meaning of a turn without calls.
    pub on_text: OnText,
    /// The master of its questions.
    pub master: MasterRule,
    /// The join policy of its turns.
    pub join: Join,
    /// The kind of summary that replaces older turns of its tasks.
    pub summary: Summary,
    /// The schema of its results.
    pub result_schema: Option<Schema>,
    /// The limits of its tasks, with defaults.
    pub limits: Limits,
    /// Settings for its model.
    pub settings: Json,
    /// The token limit of one answer: `settings.max_tokens`, or [`DEFAULT_MAX_OUTPUT_TOKENS`]. Part of a request's worst case.
    pub max_output_tokens: u64,
    /// The definitions of [`Agent::tools`], ordered by id.
    pub offered: Offer,
    /// Definitions of the tools that it may use while it answers a question as a master.
    pub offered_in_questions: Offer,
    /// Definitions of the tools that finish a task: the only ones in a last turn.
    pub offered_last: Offer,
}

/// The token limit of an answer without `settings.max_tokens`: 4096, as in the original tools.
pub const DEFAULT_MAX_OUTPUT_TOKENS: u64 = 4_000;

/// The meaning of a turn without calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnText {
    /// The text is the task's result.
    #[default]
    Handoff,
    /// The agent is reminded to use a tool.
    Remind,
}

/// The kind of summary that replaces older turns when a conversation comes near the end of its window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Summary {
    /// A digest of texts and calls, made without a model.
    #[default]
    Digest,
    /// A summary by the agent's model, in a separate turn.
    Model,
}

/// The master of an agent's questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MasterRule {
    /// The agent of the calling task; a person for the root.
    #[default]
    Caller,
    /// A person.
    Person,
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

/// A tool, checked. A function tool has exactly one executor; the other types have none.
#[derive(Debug)]
pub struct Tool {
    /// Its id.
    pub id: ToolId,
    /// Its type; the machine reads the row, never the type.
    pub tool_type: ToolType,
    /// A call in a few words, for people.
    pub title: Option<String>,
    /// The description for agents.
    pub description: String,
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
    /// The time limit of a call.
    pub timeout: Duration,
    /// The time limit without a sign of life.
    pub idle: Option<Duration>,
    /// The agent of a delegation.
    pub agent: Option<AgentId>,
    /// Limits of the tasks created by its calls.
    pub limits: Limits,
    /// The policy for failed delegations.
    pub on_failure: OnFailure,
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
    /// The outside resources of its calls, with the origin of each setting.
    pub reaches: Vec<Reach>,
    /// Its file, as shown in messages; `None` for a tool that the engine derived from an agent.
    pub source: Option<String>,
    /// The definition that models receive.
    pub definition: Arc<ToolDefinition>,
}

impl Tool {
    /// The end of a turn after a result of this tool, unless the executor or the call sets it (rule *after* of docs/RULES.md).
    pub fn after_by_default(&self) -> AfterExecution {
        self.after.unwrap_or(match self.tool_type.behavior().then {
            crate::tool_type::Then::Stop => AfterExecution::Terminate,
            _ => AfterExecution::Suspend,
        })
    }

    /// The hash of all that decides what a call with `input` would do: what an approval binds. The input counts as it is
    /// written, byte for byte, so no two ways of reading it can differ.
    ///
    /// The title and the change count too, although they decide nothing: the person said yes to what they were shown. Where
    /// a config has neither, the hash is that of the versions which knew neither.
    pub fn bound_hash(&self, input: &Json) -> ContentHash {
        let executor = self.executor.as_ref().map(|executor| format!("{executor:?}"));
        let definition = (&*self.definition, self.tool_type, self.effect, self.writes, &self.agent, executor);
        let mut tool = serde_json::to_vec(&definition).expect("a definition always serialises");
        if self.title.is_some() || self.changes.is_some() {
            tool.extend(serde_json::to_vec(&(&self.title, &self.changes)).expect("names always serialise"));
        }
        ContentHash::of(&tool).extended(input.text().as_bytes())
    }

    /// Whether an agent that answers a question may use it: `pure` tools, questions and handoffs, but nothing
    /// that must be approved first, by its own config or by the agent's grant of it.
    pub fn allowed_in_questions(&self, granted: Option<Approver>) -> bool {
        let row = self.tool_type.behavior();
        match row.then {
            crate::tool_type::Then::Continue if self.approval.max(granted).is_some() => false,
            crate::tool_type::Then::Continue => !row.runs_code || (self.effect == EffectClass::Pure && !self.writes),
            crate::tool_type::Then::Stop => true,
            crate::tool_type::Then::Block => self.agent.is_none(),
            crate::tool_type::Then::Enter => false,
        }
    }
}

impl Agent {
    /// Who must approve its calls of `tool`, if anybody: a person where the tool's config or the grant asks for one.
    pub fn approver(&self, tool: &Tool) -> Option<Approver> {
        tool.approval.max(self.approvals.get(&tool.id).copied())
    }
}

/// The executor of a function tool.
#[derive(Clone)]
pub enum Executor {
    /// A registered Rust function.
    Function(&'static ToolFunction),
    /// A command that reads JSON and writes JSON.
    Exec(ExecSpec),
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Function(function) => write!(f, "fn {}", function.name),
            Self::Exec(exec) if exec.files.is_empty() => write!(f, "exec {:?} with {:?}", exec.command, exec.env),
            Self::Exec(exec) => write!(f, "exec {:?} with {:?} of {:?}", exec.command, exec.env, exec.files),
        }
    }
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
