//! Tool configs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use validator::Validate;

use super::{ENV_PATTERN, present};
use crate::call::AfterExecution;
use crate::config::{Approver, EffectClass, OnFailure, OnUnknownOutcome};
use crate::id::ID_PATTERN;
use crate::limits::Limits;

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
    /// What a call does, for people, in a few words on one line: the question whether a call may begin shows it.
    #[serde(default)]
    #[validate(length(min = 1, max = 60))]
    pub title: Option<String>,
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
    /// How long a call may give no sign of life: no progress told, nothing written by its command. Past it, the call ends
    /// as `timeout`. Unless said, silence is no reason.
    #[serde(default)]
    #[validate(range(min = 1, max = 86_400))]
    pub idle_seconds: Option<u32>,
    /// Whether a call may write documents; `false` unless said.
    #[serde(default)]
    pub writes: Option<bool>,
    /// The inputs that say what a call would do to a document. The question whether a call may begin shows that change.
    #[serde(default)]
    pub changes: Option<ChangesForm>,
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
    /// What people may set of the tool, by name: what its function reads beside the input, which agents neither see nor say.
    #[serde(default)]
    #[schemars(with = "Option<BTreeMap<String, SettingForm>>")]
    pub settings: Option<Map<String, Value>>,
    /// Values of the tool's settings.
    #[serde(default)]
    pub set: Option<Map<String, Value>>,
    /// Names of environment variables that hold secrets which the tool's function may read.
    #[serde(default)]
    #[schemars(inner(regex(pattern = ENV_PATTERN)))]
    pub secrets: Vec<String>,
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

/// Something that people may set of a tool.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Setting")]
pub struct SettingForm {
    /// The JSON type of the value.
    #[serde(rename = "type")]
    pub kind: TypeName,
    /// What the value means, for people.
    pub description: String,
    /// What it is when nobody sets it.
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
    /// The least number that is allowed.
    #[serde(default)]
    pub minimum: Option<f64>,
    /// The greatest number that is allowed.
    #[serde(default)]
    pub maximum: Option<f64>,
    /// Whether a job that sets it needs the trust of the person who runs it; `false` unless said.
    #[serde(default)]
    pub needs_trust: Option<bool>,
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
    /// What models answer, one text for each time that the tool asks one.
    #[serde(default)]
    pub answers: Vec<String>,
    /// Whether the example is run as a test; `true` unless said. One that needs the web is only held against the schemas.
    #[serde(default)]
    pub run: Option<bool>,
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

/// The inputs of a call, by name, that say what it would do to a document.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Changes")]
pub struct ChangesForm {
    /// The input with the path of the document.
    pub path: String,
    /// The input with the whole new content.
    #[serde(default)]
    pub content: Option<String>,
    /// The input that says how `content` is written: `utf-8` (default) or `base64`.
    #[serde(default)]
    pub encoding: Option<String>,
    /// The input with the number of the one block that changes.
    #[serde(default)]
    pub block: Option<String>,
    /// The input with what the block shall hold.
    #[serde(default)]
    pub data: Option<String>,
}
