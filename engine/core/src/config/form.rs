//! The forms of the files that a person writes: one source for reading, for checking and for the published JSON Schemas.
//!
//! A form says what one file may hold. Rules that join files are the loader's.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use validator::Validate;

use super::{Approver, EffectClass, Join, MasterRule, OnFailure, OnText, OnUnknownOutcome};
use crate::call::AfterExecution;
use crate::id::ID_PATTERN;
use crate::limits::Limits;

/// What names of environment variables match.
pub(crate) const ENV_PATTERN: &str = "^[A-Za-z_][A-Za-z0-9_]{0,127}$";

/// What days match.
pub(crate) const DAY_PATTERN: &str = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$";

/// What names that templates use match.
pub const NAME_PATTERN: &str = "^[a-z][a-z0-9_]*$";

/// Whether `name` matches [`NAME_PATTERN`].
pub(crate) fn is_template_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|each| each.is_ascii_lowercase() || each.is_ascii_digit() || each == b'_')
}

/// Whether `name` matches [`ENV_PATTERN`].
pub(crate) fn is_environment_name(name: &str) -> bool {
    name.len() <= 128
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|each| each.is_ascii_alphanumeric() || each == b'_')
}

/// Whether `text` matches [`DAY_PATTERN`].
pub(crate) fn is_day(text: &str) -> bool {
    let fits = |(place, byte): (usize, u8)| if place == 4 || place == 7 { byte == b'-' } else { byte.is_ascii_digit() };
    text.len() == 10 && text.bytes().enumerate().all(fits)
}

/// The address of a page that says something.
pub(crate) const PAGE_PATTERN: &str = "^https://[^ ]+$";

/// Whether `text` matches [`PAGE_PATTERN`].
pub(crate) fn is_page(text: &str) -> bool {
    text.strip_prefix("https://").is_some_and(|rest| !rest.is_empty() && !rest.contains(' '))
}

/// A tool config: what agents are told about a tool, what its calls take and give, and what runs it.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Baton tool config")]
pub struct ToolForm {
    /// The JSON Schema of this file, for editors.
    #[serde(default, rename = "$schema")]
    pub schema: Option<String>,
    /// The tool's name, as agents call it; the file is named after it.
    #[validate(length(min = 1, max = 64))]
    #[schemars(regex(pattern = ID_PATTERN))]
    pub tool_id: String,
    /// What a call does: run code, log its input, finish the task, delegate to an agent or ask the master.
    #[serde(rename = "type")]
    pub tool_type: ToolTypeForm,
    /// What the tool does and when to use it, for the agent.
    #[validate(length(min = 1, max = 20_000))]
    pub description: String,
    /// The input's parameters by name. Use `input_schema` instead where JSON Schema is needed.
    #[serde(default)]
    #[schemars(with = "Option<BTreeMap<String, ParameterForm>>")]
    pub parameters: Option<Map<String, Value>>,
    /// The input as a JSON Schema (2020-12); stands in place of `parameters`.
    #[serde(default)]
    pub input_schema: Option<Map<String, Value>>,
    /// The output's keys by name: a type, or a type with more. Use `output_schema` instead where JSON Schema is needed.
    #[serde(default)]
    #[schemars(with = "Option<BTreeMap<String, ReturnForm>>")]
    pub returns: Option<Map<String, Value>>,
    /// The output as a JSON Schema (2020-12); stands in place of `returns`.
    #[serde(default)]
    pub output_schema: Option<Map<String, Value>>,
    /// Calls that show how the tool is used; they are checked against its schemas and run as tests.
    #[serde(default)]
    #[validate(nested)]
    pub examples: Vec<ExampleForm>,
    /// What a crash may do to a running call: `pure` and `idempotent` run again, `keyed` runs again under the same key,
    /// `at_most_once` (the default) never runs again.
    #[serde(default)]
    pub effect: Option<EffectClass>,
    /// How long a call may run; 60 unless said.
    #[serde(default)]
    #[validate(range(min = 1, max = 86_400))]
    pub timeout_seconds: Option<u32>,
    /// Whether a call may write documents; `false` unless said.
    #[serde(default)]
    pub writes: Option<bool>,
    /// What kind of tool it is, for people.
    #[serde(default)]
    #[validate(length(min = 1, max = 64))]
    pub category: Option<String>,
    /// Words to find the tool by.
    #[serde(default)]
    #[validate(length(max = 64))]
    pub tags: Vec<String>,
    /// What happens to the calling task after the call: `suspend` asks the agent again, `terminate` ends the task.
    #[serde(default)]
    pub after_execution: Option<AfterExecution>,
    /// The agent that an `agent_as_tool` delegates to.
    #[serde(default)]
    #[validate(length(min = 1, max = 55))]
    #[schemars(regex(pattern = ID_PATTERN))]
    pub agent: Option<String>,
    /// Limits of the tasks that calls of this tool create.
    #[serde(default)]
    #[validate(nested)]
    pub limits: Option<Limits>,
    /// What happens when a task that an `agent_as_tool` delegated fails or times out: its result returns to the caller
    /// (`return`, the default), or a new task tries again.
    #[serde(default)]
    pub on_failure: Option<OnFailure>,
    /// Who must approve each call before it begins: a person, or the calling task's master.
    #[serde(default)]
    pub approval: Option<Approver>,
    /// What happens to an `at_most_once` call of which a crash left it unknown whether it took effect: its result says so
    /// (`return`, the default), or the calling task's master is asked what became of it (`ask`).
    #[serde(default)]
    pub on_unknown_outcome: Option<OnUnknownOutcome>,
    /// The command that runs a function tool which has no Rust function.
    #[serde(default)]
    #[validate(nested)]
    pub exec: Option<ExecForm>,
}

/// The types of tools that a config may have; `root` is the engine's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ToolType")]
pub enum ToolTypeForm {
    /// Runs code and returns its result to the agent.
    FunctionTool,
    /// Records its input: thinking, planning, memory.
    NonFunctionTool,
    /// Finishes the task; result and documents go back to the caller.
    Handoff,
    /// Delegates to another agent and waits for what it hands back.
    AgentAsTool,
    /// Asks the master, an agent or a person, and waits for the answer.
    AskMaster,
}

/// One parameter of a tool.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Parameter")]
pub struct ParameterForm {
    /// The JSON type of the value.
    #[serde(rename = "type")]
    pub kind: TypeName,
    /// What the value means, for the agent.
    pub description: String,
    /// Whether a call must give it.
    pub required: bool,
    /// What the tool assumes when a call does not give it.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Value")]
    pub default: Option<Value>,
    /// The values that are allowed.
    #[serde(default, rename = "enum")]
    #[schemars(length(min = 1))]
    pub allowed: Option<Vec<Value>>,
    /// What the elements of an array are.
    #[serde(default)]
    pub items: Option<Box<PartForm>>,
    /// What an object holds; it holds nothing else.
    #[serde(default)]
    pub properties: Option<BTreeMap<String, PartForm>>,
    /// The least number that is allowed.
    #[serde(default)]
    pub minimum: Option<f64>,
    /// The greatest number that is allowed.
    #[serde(default)]
    pub maximum: Option<f64>,
}

/// A part of a value: an element of an array, a property of an object, an input of a job.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Part")]
pub struct PartForm {
    /// The JSON type of the value.
    #[serde(rename = "type")]
    pub kind: TypeName,
    /// What the value means.
    #[serde(default)]
    pub description: Option<String>,
    /// Whether the object that holds it must have it; `false` unless said.
    #[serde(default)]
    pub required: Option<bool>,
    /// What is assumed when it is not given.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Value")]
    pub default: Option<Value>,
    /// The values that are allowed.
    #[serde(default, rename = "enum")]
    #[schemars(length(min = 1))]
    pub allowed: Option<Vec<Value>>,
    /// What the elements of an array are.
    #[serde(default)]
    pub items: Option<Box<PartForm>>,
    /// What an object holds; it holds nothing else.
    #[serde(default)]
    pub properties: Option<BTreeMap<String, PartForm>>,
    /// The least number that is allowed.
    #[serde(default)]
    pub minimum: Option<f64>,
    /// The greatest number that is allowed.
    #[serde(default)]
    pub maximum: Option<f64>,
}

/// One key of a tool's output: the name of its type, or a type with more.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Return")]
pub enum ReturnForm {
    /// The type alone.
    Name(ReturnTypeName),
    /// The type and more.
    Full(ReturnPartForm),
}

/// A part of an output.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ReturnPart")]
pub struct ReturnPartForm {
    /// The JSON type of the value; `any` where it varies.
    #[serde(rename = "type")]
    pub kind: ReturnTypeName,
    /// What the value means.
    #[serde(default)]
    pub description: Option<String>,
    /// Whether it is always there; `false` unless said.
    #[serde(default)]
    pub required: Option<bool>,
    /// The values that are possible.
    #[serde(default, rename = "enum")]
    #[schemars(length(min = 1))]
    pub allowed: Option<Vec<Value>>,
    /// What the elements of an array are.
    #[serde(default)]
    pub items: Option<Box<ReturnForm>>,
    /// What an object holds, among other things.
    #[serde(default)]
    pub properties: Option<BTreeMap<String, ReturnForm>>,
}

/// The types a parameter can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum TypeName {
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// Names with values.
    Object,
    /// A list.
    Array,
}

/// The types an output can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ReturnTypeName {
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// Names with values.
    Object,
    /// A list.
    Array,
    /// Any JSON value.
    Any,
}

/// An example of a call.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Example")]
pub struct ExampleForm {
    /// What it shows.
    #[validate(length(min = 1))]
    pub explanation: String,
    /// The call's input.
    #[schemars(with = "Map<String, Value>")]
    pub input: Value,
    /// The call's output or a part of it: each key given comes out with that value.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Value")]
    pub output: Option<Value>,
    /// Documents that the workspace holds before the call: text by path.
    #[serde(default)]
    pub documents: BTreeMap<String, String>,
}

/// A command that reads a call's input as JSON on stdin and writes its output as JSON on stdout. No shell is involved.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Exec")]
pub struct ExecForm {
    /// The program and its arguments.
    #[validate(length(min = 1))]
    pub command: Vec<String>,
    /// Names of environment variables that the command may see besides `PATH`, `LANG`, `BATON_CALL_ID` and `BATON_COMMAND_ID`.
    #[serde(default)]
    #[schemars(inner(regex(pattern = ENV_PATTERN)))]
    pub env: Vec<String>,
}

/// An agent config: a prompt, a model, tools and limits.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Baton agent config")]
pub struct AgentForm {
    /// The JSON Schema of this file, for editors.
    #[serde(default, rename = "$schema")]
    pub schema: Option<String>,
    /// The agent's name; the file is named after it.
    #[validate(length(min = 1, max = 55))]
    #[schemars(regex(pattern = ID_PATTERN))]
    pub agent_id: String,
    /// What the agent is good at; agents that may call it read this.
    #[validate(length(min = 1, max = 20_000))]
    pub description: String,
    /// The name of its model among the job's `models`.
    #[validate(length(min = 1))]
    pub model: String,
    /// The system prompt, a template: the text itself, or the file that holds it.
    pub system_prompt: PromptForm,
    /// The tools it may use: their ids, or ids with what is asked of their calls; `route_to_<agent_id>` delegates to an agent.
    #[serde(default)]
    pub tools: Vec<GrantForm>,
    /// What a turn without calls means: its text is the result (`handoff`, the default), or the agent is reminded to use a tool.
    #[serde(default)]
    pub on_text: Option<OnText>,
    /// Who answers its questions: the agent that called it (the default), or a person.
    #[serde(default)]
    pub master: Option<MasterRule>,
    /// What it awaits of the delegations it makes in one turn: the result of each (`all`, the default), the first success,
    /// or a number of successes.
    #[serde(default)]
    pub join: Option<Join>,
    /// Limits of its tasks.
    #[serde(default)]
    #[validate(nested)]
    pub limits: Option<Limits>,
    /// A JSON Schema (2020-12) that its results must meet.
    #[serde(default)]
    pub result_schema: Option<Map<String, Value>>,
    /// Settings for its model, such as `temperature`.
    #[serde(default)]
    pub settings: Option<Map<String, Value>>,
}

/// A tool that an agent may use: its id, or its id and more.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Grant")]
pub enum GrantForm {
    /// Its id.
    Tool(String),
    /// Its id and more.
    Full(FullGrantForm),
}

/// A tool that an agent may use, with what is asked of its calls.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FullGrant")]
pub struct FullGrantForm {
    /// The tool's id.
    pub tool: String,
    /// Who must approve each call by this agent before it begins: a person, or its master. Where the tool's config asks for
    /// an approval as well, a person's counts.
    #[serde(default)]
    pub approval: Option<Approver>,
}

/// A system prompt: the text itself, or the file that holds it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Prompt")]
pub enum PromptForm {
    /// The text.
    Text(#[schemars(length(min = 1))] String),
    /// A file.
    File(FileForm),
}

/// A file that holds a text.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "File")]
pub struct FileForm {
    /// The file's path, relative to the job's folder.
    #[schemars(length(min = 1))]
    pub file: String,
}

/// A job: what is to be done, by which agent, with which documents and models.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Baton job")]
pub struct JobForm {
    /// The JSON Schema of this file, for editors.
    #[serde(default, rename = "$schema")]
    pub schema: Option<String>,
    /// The job's name.
    #[validate(length(min = 1, max = 64))]
    #[schemars(regex(pattern = ID_PATTERN))]
    pub job_id: String,
    /// What the job is for.
    #[validate(length(min = 1, max = 20_000))]
    pub description: String,
    /// The agent that the run begins with.
    #[validate(length(min = 1))]
    pub root: String,
    /// What the root agent is asked, a template: the text, or the text with the inputs that it uses.
    pub request: RequestForm,
    /// The documents that the workspace begins with.
    #[serde(default)]
    pub documents: Vec<DocumentForm>,
    /// The models by the names that agents use.
    #[schemars(extend("minProperties" = 1))]
    pub models: BTreeMap<String, ModelForm>,
    /// Limits of the whole run.
    #[serde(default)]
    #[validate(nested)]
    pub limits: Option<Limits>,
}

/// A request: the text, or the text with the inputs that it uses.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Request")]
pub enum RequestForm {
    /// The text.
    Text(#[schemars(length(min = 1))] String),
    /// The text and its inputs.
    WithInputs(RequestWithInputsForm),
}

/// A request with inputs.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RequestWithInputs")]
pub struct RequestWithInputsForm {
    /// The text, a template.
    #[schemars(length(min = 1))]
    pub text: String,
    /// The inputs by name; the text and the prompts use them as `inputs.<name>`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, InputForm>")]
    pub inputs: Map<String, Value>,
}

/// An input of a job, given on the command line as `--input NAME=VALUE`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Input")]
pub struct InputForm {
    /// The JSON type of the value. Use `schema` instead where JSON Schema is needed.
    #[serde(default, rename = "type")]
    pub kind: Option<TypeName>,
    /// The value as a JSON Schema (2020-12); stands in place of `type` and what goes with it.
    #[serde(default)]
    pub schema: Option<Map<String, Value>>,
    /// What the value means.
    #[serde(default)]
    pub description: Option<String>,
    /// What it is when nobody says; an input without a default must be given.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Value")]
    pub default: Option<Value>,
    /// The values that are allowed.
    #[serde(default, rename = "enum")]
    #[schemars(length(min = 1))]
    pub allowed: Option<Vec<Value>>,
    /// What the elements of an array are.
    #[serde(default)]
    pub items: Option<Box<PartForm>>,
    /// What an object holds; it holds nothing else.
    #[serde(default)]
    pub properties: Option<BTreeMap<String, PartForm>>,
    /// The least number that is allowed.
    #[serde(default)]
    pub minimum: Option<f64>,
    /// The greatest number that is allowed.
    #[serde(default)]
    pub maximum: Option<f64>,
}

/// A document that the workspace begins with: its path, or its path and more.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Document")]
pub enum DocumentForm {
    /// Its path.
    Path(#[schemars(length(min = 1))] String),
    /// Its path and more.
    Full(FullDocumentForm),
}

/// A document with what is said about it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FullDocument")]
pub struct FullDocumentForm {
    /// Its path in the workspace.
    #[schemars(length(min = 1))]
    pub path: String,
    /// The file it is read from, relative to the job's folder; the file of that path in `documents/`, or else in the
    /// folder itself, unless said.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub file: Option<String>,
    /// What it is for.
    #[serde(default)]
    pub description: Option<String>,
    /// Words to find it by.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// What answers for a model name.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Model")]
pub struct ModelForm {
    /// Who provides the model.
    pub provider: ProviderForm,
    /// The script that a `scripted` model follows, relative to the job's folder.
    #[schemars(length(min = 1))]
    pub script: String,
    /// What its tokens cost, in place of what the engine's table of prices says. A script costs nothing unless said.
    #[serde(default)]
    pub price: Option<PriceForm>,
}

/// What the tokens of a model cost, in US dollars for a million of them.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Price")]
pub struct PriceForm {
    /// Tokens of requests.
    #[schemars(range(min = 0.0, max = 1_000.0))]
    pub input: f64,
    /// Tokens of requests that the provider had cached; the same as `input` unless said.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1_000.0))]
    pub cached_input: Option<f64>,
    /// Tokens of answers, reasoning included.
    #[schemars(range(min = 0.0, max = 1_000.0))]
    pub output: f64,
}

/// A table of prices: what models cost, and where that was read.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Baton table of prices")]
pub struct PriceTableForm {
    /// The JSON Schema of this file, for editors.
    #[serde(default, rename = "$schema")]
    pub schema: Option<String>,
    /// The day that the table is of.
    #[schemars(regex(pattern = DAY_PATTERN))]
    pub version: String,
    /// The prices.
    pub prices: Vec<PriceRowForm>,
}

/// What some models cost, in US dollars for a million tokens, and where that was read.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PriceRow")]
pub struct PriceRowForm {
    /// The names of the models, without the date of a version.
    #[schemars(length(min = 1), inner(length(min = 1, max = 128)))]
    pub models: Vec<String>,
    /// Tokens of requests.
    #[schemars(range(min = 0.0, max = 1_000.0))]
    pub input: f64,
    /// Tokens of requests that the provider had cached; the same as `input` unless said.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1_000.0))]
    pub cached_input: Option<f64>,
    /// Tokens of answers, reasoning included.
    #[schemars(range(min = 0.0, max = 1_000.0))]
    pub output: f64,
    /// The page that says so, of whoever sells the model.
    #[schemars(regex(pattern = PAGE_PATTERN))]
    pub source: String,
    /// The day on which it was read.
    #[schemars(regex(pattern = DAY_PATTERN))]
    pub as_of: String,
}

/// Who provides a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Provider")]
pub enum ProviderForm {
    /// A script answers, from a file and without a network.
    Scripted,
}

/// A project: what the command line assumes in a folder and below.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Baton project")]
pub struct ProjectForm {
    /// The JSON Schema of this file, for editors.
    #[serde(default, rename = "$schema")]
    pub schema: Option<String>,
    /// Where runs are kept, relative to this file; `.baton` unless said.
    #[serde(default)]
    #[validate(length(min = 1))]
    pub store: Option<String>,
    /// The folder in which jobs are looked for by name, relative to this file; this folder unless said.
    #[serde(default)]
    #[validate(length(min = 1))]
    pub jobs: Option<String>,
}

/// Keeps a `null` that was written apart from a key that was not.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
