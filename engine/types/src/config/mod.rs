//! Configs, checked and joined: what a run is pinned to.
//!
//! The files a person writes are read by the loader, which gathers *all* faults; what is here is consistent,
//! so the machine looks things up without asking whether they exist.

mod arguments;
mod catalog;
mod check;
mod configuration;
mod model;
mod money;
mod policy;
mod reach;
mod tool;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::{AgentId, JobId, ToolId};
use crate::json::Json;
use crate::limits::{Limits, SessionLimits};
use crate::model::Offer;
use crate::money::Price;
use crate::path::DocumentPath;
use crate::schema::{CompileSchema, Schema};

pub use crate::model::Invocation;
pub use arguments::{Arguments, OTHER_PLACEHOLDERS, PLACEHOLDERS, placeholders_in};
pub use catalog::{Catalog, INVOCATION_NOTE, catalog_header, first_sentence, one_line, tool_prompt};
pub use configuration::{CONFIG_ID, Configuration, Named};
pub use model::{
    Embeddings, IMAGES, Media, Modalities, ModelSpec, ProvidedModel, ProviderLimits, ProviderSettings, may_hold_key, provided,
};
pub use money::{MoneyHolder, MoneyLimit, Place};
pub use policy::{
    Accept, Acceptor, Approver, CalleeContext, Join, JoinState, OnFailure, OnUnknownOutcome, OpenTasks, Retry, Tally, TaskAction,
};
pub use reach::{Origin, Reach, Target};
pub use tool::{ALL_GRANTED, Changes, EffectClass, Example, ExecSpec, Executor, FunctionName, NewContent, ServiceSpec, Tool};

/// Agents or tools by id, found by a hash since each call looks up many. Code that makes a map inserts them in the order of their ids.
pub type ById<Id, T> = IndexMap<Id, Arc<T>, FxBuildHasher>;

/// The job, agents and tools of a run.
#[derive(Debug)]
pub struct Configs {
    /// The job.
    pub job: Job,
    /// The agents of the job.
    pub agents: ById<AgentId, Agent>,
    /// All tools, including built-in ones and those that delegate to an agent.
    pub tools: ById<ToolId, Tool>,
    /// The limits of money in their files. The loader refuses those that nothing can keep.
    pub money_limits: Vec<MoneyLimit>,
    /// Compiles the schemas that models write at run time, such as those of answers to questions.
    pub compile_schema: CompileSchema,
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
    /// The documents that the models of each provider take.
    pub media: BTreeMap<String, Media>,
    /// Prices set by the person, by `PROVIDER:MODEL`.
    pub own_prices: BTreeMap<String, Price>,
    /// The model that makes vectors of breadcrumbs; without one, they are searched by words.
    pub embeddings: Option<Embeddings>,
    /// The model that summarises texts written by tools.
    pub summary_model: Option<String>,
    /// The time for which a request is retried while its provider is away, unless its model or provider sets another.
    pub outage: Option<std::time::Duration>,
    /// The limits of a run, with defaults.
    pub limits: Limits,
    /// The limits of a run and of those that it continues, together.
    pub session_limits: SessionLimits,
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

/// The name of the model that follows the script given at the start of a run. No config can define a model of this name.
pub const RUN_SCRIPT: &str = "--script";

/// The name of the model that a person plays. Programs bring it; no config can define a model of this name.
pub const PERSON_MODEL: &str = "person";

/// The name of the model of agents that are programs. No config can define a model of this name.
pub const PROGRAM_MODEL: &str = "--program";

/// The program of an agent, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentProgram {
    /// Its file, as messages show it.
    pub file: String,
    /// Its text.
    pub source: Arc<str>,
    /// The tool that runs it.
    pub tool: ToolId,
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
    /// The program that works in place of a model.
    pub program: Option<AgentProgram>,
    /// Its granted tools, by id.
    pub tools: BTreeMap<ToolId, Arc<Tool>>,
    /// Its granted configurations by id: each is a tool of [`Agent::tools`] with other settings.
    pub configurations: BTreeMap<String, Arc<Tool>>,
    /// The approvers that its grants name, by tool.
    pub approvals: BTreeMap<ToolId, Approver>,
    /// Its way to call tools.
    pub invocation: Invocation,
    /// The knowledge of its model about its tools at first.
    pub catalog: Catalog,
    /// The meaning of a turn without calls.
    pub on_text: OnText,
    /// The master of its questions.
    pub master: MasterRule,
    /// The join policy of its turns.
    pub join: Join,
    /// The policy for background tasks when it wants to end the task that began them.
    pub open_tasks: OpenTasks,
    /// Whether its requests end with what is left of its limits.
    pub tell_limits: bool,
    /// The kind of summary that replaces older turns of its tasks.
    pub summary: Summary,
    /// The schema of its results.
    pub result_schema: Option<Schema>,
    /// The limits of its tasks, with defaults.
    pub limits: Arc<Limits>,
    /// Settings for its model.
    pub settings: Json,
    /// The token limit of one answer ([`output_tokens`]). Part of a request's worst case.
    pub max_output_tokens: u64,
    /// Whether the settings name that limit.
    pub sets_output_limit: bool,
    /// The definitions that every request offers, ordered by id: all of [`Agent::tools`], unless it discovers them.
    pub offered: Offer,
    /// Definitions of the tools that it may use while it answers a question as a master.
    pub offered_in_questions: Offer,
    /// Definitions of the tools that finish a task: the only ones in a last turn.
    pub offered_last: Offer,
    /// Definitions of these tools without [`Agent::result_schema`], which does not apply to answers to questions.
    pub offered_last_in_questions: Offer,
}

/// The token limit of an answer without `settings.max_tokens`, without reasoning, and where the model's own limit does not apply.
pub const DEFAULT_MAX_OUTPUT_TOKENS: u64 = 4_000;

/// Returns the token limit of an answer under `settings`: `max_tokens`, or [`DEFAULT_MAX_OUTPUT_TOKENS`] and what the settings let the
/// model reason. Providers count reasoning as output, so that it would otherwise leave nothing for the answer.
///
/// `OpenAI` advises to reserve 25,000 tokens for reasoning and answer together
/// (<https://platform.openai.com/docs/guides/reasoning>), which is the effort `medium` here. Anthropic's budgets are the settings' own.
pub fn output_tokens(settings: &Map<String, Value>) -> u64 {
    if let Some(limit) = settings.get("max_tokens").and_then(Value::as_u64) {
        return limit;
    }
    let at = |key: &str, inner: &str| settings.get(key).and_then(|value| value.get(inner));
    let budget = at("thinking", "budget_tokens").or_else(|| at("reasoning", "max_tokens")).and_then(Value::as_u64);
    let effort = at("reasoning", "effort").or_else(|| at("output_config", "effort")).or_else(|| settings.get("reasoning_effort"));
    let room = match effort.and_then(Value::as_str) {
        Some("none") => 0,
        Some("minimal" | "low") => 6_000,
        Some("medium") => 21_000,
        Some(_) => 44_000,
        None if at("thinking", "type").is_some_and(|kind| kind == "adaptive") => 44_000,
        None => 0,
    };
    DEFAULT_MAX_OUTPUT_TOKENS.saturating_add(budget.unwrap_or(room))
}

/// Upper bound of the bytes of the text that explains universal invocation, without the list of tools.
pub const STANDARD_BYTES: usize = 2_000;

/// Upper bound of the bytes of the text around the list of tools in a prompt.
pub const CATALOG_BYTES: usize = 400;

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

impl Configs {
    /// Compiles a schema that a model wrote; the error names the place where it is none.
    pub fn compile(&self, schema: &Value) -> Result<Schema, String> {
        (self.compile_schema)(schema)
    }
}

impl Agent {
    /// Returns the approver of its calls of `tool`, if any: a person if the tool's config or the grant requires one.
    pub fn approver(&self, tool: &Tool) -> Option<Approver> {
        tool.approval.max(self.approvals.get(&tool.id).copied())
    }
}
