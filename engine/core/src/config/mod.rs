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

/// Everything a run needs to know about its job, agents and tools.
#[derive(Debug)]
pub struct Configs {
    /// The job.
    pub job: Job,
    /// The agents of the job.
    pub agents: BTreeMap<AgentId, Arc<Agent>>,
    /// All tools, built-in ones and those that delegate to an agent included.
    pub tools: BTreeMap<ToolId, Arc<Tool>>,
    /// The limits of money that are written in their files; see [`Configs::check_money`].
    pub money_limits: Vec<MoneyLimit>,
}

/// A job, checked.
#[derive(Debug)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// What it is for.
    pub description: String,
    /// The agent of the root task.
    pub root: AgentId,
    /// The request's template; its variables are `inputs`.
    pub request: String,
    /// The inputs that the request and the prompts may use.
    pub inputs: BTreeMap<String, JobInput>,
    /// The documents that the workspace begins with.
    pub documents: Vec<JobDocument>,
    /// Models by the names that agents use; [`Job::model`] knows those that need none, too.
    pub models: BTreeMap<String, ModelSpec>,
    /// How providers are reached, where a file says so.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// The names of all providers.
    pub provider_names: BTreeSet<String>,
    /// Prices that the person sets, by `PROVIDER:MODEL`.
    pub own_prices: BTreeMap<String, Price>,
    /// The model that summarises texts which tools write.
    pub summary_model: Option<String>,
    /// How long a request is retried while its provider is away, where no model and no provider says so.
    pub outage: Option<std::time::Duration>,
    /// The limits of a run, defaults filled in.
    pub limits: Limits,
}

/// A typed input of a job.
#[derive(Debug)]
pub struct JobInput {
    /// What it means.
    pub description: String,
    /// What a value must meet.
    pub schema: Schema,
    /// What it is when nobody says; `None` makes the input required.
    pub default: Option<Value>,
}

/// A document that a run begins with.
#[derive(Clone, Debug, PartialEq)]
pub struct JobDocument {
    /// Its path in the workspace.
    pub path: DocumentPath,
    /// The file it is read from, relative to the job's folder.
    pub file: String,
    /// What it is for.
    pub description: String,
    /// Words to find it by.
    pub tags: Vec<String>,
}

/// The name of the model that follows the script of [`Role::RunScript`]. No config can name a model of its own like this.
pub const RUN_SCRIPT: &str = "--script";

/// What answers for a model name.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelSpec {
    /// A script: `file` is where it came from, relative to the job's folder; `text` is what it says.
    Scripted {
        /// The script's file.
        file: String,
        /// The script, checked.
        text: Arc<str>,
        /// What its tokens cost, if the job says so.
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
    /// What it is good at.
    pub description: String,
    /// Its model's name, as [`Job::model`] takes it.
    pub model: String,
    /// The system prompt's template.
    pub system_prompt: String,
    /// The tools it was granted, by id.
    pub tools: BTreeMap<ToolId, Arc<Tool>>,
    /// Who must approve its calls, where its grant of a tool says so.
    pub approvals: BTreeMap<ToolId, Approver>,
    /// What a turn without calls means.
    pub on_text: OnText,
    /// Who answers its questions.
    pub master: MasterRule,
    /// What the delegations of one of its turns are awaited for.
    pub join: Join,
    /// What stands for older turns of its tasks.
    pub summary: Summary,
    /// What its results must meet.
    pub result_schema: Option<Schema>,
    /// The limits of its tasks, defaults filled in.
    pub limits: Limits,
    /// Settings for its model.
    pub settings: Json,
    /// The most tokens one answer may have: `settings.max_tokens`, else [`DEFAULT_MAX_OUTPUT_TOKENS`]. Part of a request's worst case.
    pub max_output_tokens: u64,
    /// The definitions of [`Agent::tools`], ordered by id.
    pub offered: Offer,
    /// Those of them that it may use while it answers a question as a master.
    pub offered_in_questions: Offer,
    /// Those of them that finish a task: all that a last turn offers.
    pub offered_last: Offer,
}

/// What an answer is taken to use at most where `settings.max_tokens` is absent (default: 4096, as in the original tools).
pub const DEFAULT_MAX_OUTPUT_TOKENS: u64 = 4_000;

/// What a turn without calls means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnText {
    /// The text is the task's result.
    #[default]
    Handoff,
    /// The agent is reminded to use a tool.
    Remind,
}

/// What stands for older turns once a conversation comes near the end of its window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Summary {
    /// What was said and called, in short.
    #[default]
    Digest,
    /// What the agent's model writes, in a turn of its own.
    Model,
}

/// Who answers an agent's questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MasterRule {
    /// The agent of the calling task; a person for the root.
    #[default]
    Caller,
    /// A person.
    Person,
}

/// What a crash may do to a call that was running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// It changes nothing; it is run again.
    Pure,
    /// Twice is the same as once; it is run again.
    Idempotent,
    /// It is run again under the same idempotency key.
    Keyed,
    /// It is never run again; its result is `unknown_outcome`.
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
    /// What a call does, as people read it.
    pub title: Option<String>,
    /// What agents are told.
    pub description: String,
    /// What an input must meet.
    pub input: Schema,
    /// What an output must meet.
    pub output: Option<Schema>,
    /// What a crash may do to a call.
    pub effect: EffectClass,
    /// Whether a call may write documents.
    pub writes: bool,
    /// What the config says about the end of the turn.
    pub after: Option<AfterExecution>,
    /// How long a call may run.
    pub timeout: Duration,
    /// How long a call may give no sign of life.
    pub idle: Option<Duration>,
    /// The agent that a delegation goes to.
    pub agent: Option<AgentId>,
    /// Limits of the tasks that its calls create.
    pub limits: Limits,
    /// What happens when a task that it delegated fails.
    pub on_failure: OnFailure,
    /// Who must approve its calls, whoever makes them.
    pub approval: Option<Approver>,
    /// What happens to a call of which a crash left it unknown whether it took effect.
    pub on_unknown_outcome: OnUnknownOutcome,
    /// What of an input says what a call would do to a document.
    pub changes: Option<Changes>,
    /// What runs a call.
    pub executor: Option<Executor>,
    /// Examples, which hold by its schemas and run as tests.
    pub examples: Vec<Example>,
    /// What kind of tool it is, for people.
    pub category: Option<String>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// What people set of it, defaults filled in: an object that its function reads.
    pub settings: Json,
    /// The environment variables with secrets that its function may read.
    pub secrets: Vec<String>,
    /// What its calls reach outside of a run, and who said so.
    pub reaches: Vec<Reach>,
    /// The file it was read from, as messages show it; `None` for a tool that the engine derived from an agent.
    pub source: Option<String>,
    /// What a model is told.
    pub definition: Arc<ToolDefinition>,
}

impl Tool {
    /// What the end of the turn does after a result of this tool, when nobody outranks the config (rule *after* of docs/RULES.md).
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

/// What runs a call of a function tool.
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
    /// What it shows.
    pub explanation: String,
    /// The input.
    pub input: Value,
    /// The output, or a part of it: every key given must come out with that value.
    pub output: Option<Value>,
    /// Documents that the workspace holds before, path → text.
    pub documents: BTreeMap<String, String>,
    /// What models answer, in order.
    pub answers: Vec<String>,
    /// Whether it is run as a test.
    pub runs: bool,
}
