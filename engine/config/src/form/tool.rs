//! Tool configs.

use std::collections::BTreeMap;

use baton_schema::ENV_PATTERN;
use baton_types::call::AfterExecution;
use baton_types::config::{Approver, CalleeContext, EffectClass, OnFailure, OnUnknownOutcome, TaskAction};
use baton_types::id::{ID_PATTERN, TOOL_NAME_PATTERN};
use baton_types::limits::Limits;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use validator::Validate;

use super::present;

/// A tool config: description, input, output and executor of a tool.
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
    /// The name that models see and use (default: `tool_id`), for a tool that is known elsewhere by a name that is no id: letters, digits,
    /// `_` and `-`.
    #[serde(default)]
    #[validate(length(min = 1, max = 64))]
    #[schemars(regex(pattern = TOOL_NAME_PATTERN))]
    pub name: Option<String>,
    /// The tool type: run code, log the input, finish the task, delegate to an agent or ask the master.
    #[serde(rename = "type")]
    pub tool_type: ToolTypeForm,
    /// A call in a few words on one line, for people. Approval questions show it.
    #[serde(default)]
    #[validate(length(min = 1, max = 60))]
    pub title: Option<String>,
    /// The tool's purpose and when to use it, for the agent.
    #[validate(length(min = 1, max = 20_000))]
    pub description: String,
    /// The tool's purpose in a few words on one line, for lists of tools (default: the first sentence of `description`). A config that
    /// refines a tool and changes its `description` also replaces its summary.
    #[serde(default)]
    #[validate(length(min = 1, max = 60))]
    pub summary: Option<String>,
    /// The input's parameters by name. Use `input_schema` instead where JSON Schema is needed.
    #[serde(default)]
    #[schemars(with = "Option<BTreeMap<String, ParameterForm>>")]
    pub parameters: Option<Map<String, Value>>,
    /// The input as a JSON Schema (2020-12, or the draft that its `$schema` names), instead of `parameters`.
    #[serde(default)]
    pub input_schema: Option<Map<String, Value>>,
    /// The output's keys by name: a type, or a type with details. Use `output_schema` instead where JSON Schema is needed.
    #[serde(default)]
    #[schemars(with = "Option<BTreeMap<String, ReturnForm>>")]
    pub returns: Option<Map<String, Value>>,
    /// The output as a JSON Schema (2020-12, or the draft that its `$schema` names), instead of `returns`.
    #[serde(default)]
    pub output_schema: Option<Map<String, Value>>,
    /// Calls that show how the tool is used; they are checked against its schemas and run as tests.
    #[serde(default)]
    #[validate(nested)]
    pub examples: Vec<ExampleForm>,
    /// The effect class: whether a call that a crash interrupted runs again. `pure` and `idempotent` do, `keyed` does under the
    /// same key, `at_most_once` (default) does not.
    #[serde(default)]
    pub effect: Option<EffectClass>,
    /// The time limit of a call (default: 60).
    #[serde(default)]
    #[validate(range(min = 1, max = 86_400))]
    pub timeout_seconds: Option<u32>,
    /// Longest time without a sign of life of a call: no progress report, no output of its command. After it, the call
    /// ends as `timeout` (default: no limit).
    #[serde(default)]
    #[validate(range(min = 1, max = 86_400))]
    pub idle_seconds: Option<u32>,
    /// Whether a call may write documents (default: `false`).
    #[serde(default)]
    pub writes: Option<bool>,
    /// The inputs that describe a change of a document. Approval questions show that change.
    #[serde(default)]
    pub changes: Option<ChangesForm>,
    /// The category, for people.
    #[serde(default)]
    #[validate(length(min = 1, max = 64))]
    pub category: Option<String>,
    /// Search terms.
    #[serde(default)]
    #[validate(length(max = 64))]
    pub tags: Vec<String>,
    /// Next step of the calling task after the call: `suspend` asks the agent again, `terminate` ends the task.
    #[serde(default)]
    pub after_execution: Option<AfterExecution>,
    /// Whether the result of a call may set that next step, as `__cg_control.after_execution` of its output or as
    /// `after_execution` of a command's envelope (default: `false`).
    #[serde(default)]
    pub controls_flow: Option<bool>,
    /// Whether the code of a call may end before its result is there (default: `false`). The result is then delivered from
    /// outside, with `baton deliver`, or comes at a moment that the code sets.
    #[serde(default)]
    pub suspends: Option<bool>,
    /// Seconds after which a suspended call ends as `timeout`, unless its code sets a moment (default: no limit). Only for a tool with
    /// `suspends` or `target_subject`.
    #[serde(default)]
    #[validate(range(min = 1, max = 31_536_000))]
    pub suspend_timeout_seconds: Option<u32>,
    /// The subject of the tool service that executes the calls: `cg.v1r3.PROJECT.CHANNEL.cmd.tool.TARGET`. The project may be
    /// `{project_id}` and the channel `{channel_id}`. Only for a `function_tool` without a function and without `exec`. Its calls are
    /// suspended, and `controls_flow` is `true` by default.
    #[serde(default)]
    #[validate(length(min = 1, max = 512))]
    pub target_subject: Option<String>,
    /// Values that are added to the input of each call.
    #[serde(default)]
    pub args: Option<ArgsForm>,
    /// Environment variables whose values the code of a call gets as parameters: the variable by the parameter. Models do not see these
    /// parameters. The timeline records only the name of the variable.
    #[serde(default)]
    pub envs: Option<BTreeMap<String, String>>,
    /// The tools that the code of a call may call: tool ids, or `*` for every tool that the calling agent was granted. Only for a
    /// command, or for a function that is `pure` and asynchronous. Code that runs again after a crash takes the results of the calls that
    /// it made.
    #[serde(default)]
    #[validate(length(min = 1, max = 64))]
    pub calls: Option<Vec<String>>,
    /// Whether a call describes other tools of the calling agent, which its input `tools` names (default: `false`). Only for a
    /// `non_function_tool`. Agents with the catalog `discover` have every such tool.
    #[serde(default)]
    pub describes_tools: Option<bool>,
    /// Action of a call on tasks below the calling one: `wait` until background tasks have ended, `list` the tasks, `steer` one
    /// of them or `cancel` it. Only for a `non_function_tool`. The input `task` names a task.
    #[serde(default)]
    pub manages_tasks: Option<TaskAction>,
    /// Whether it runs the programs of agents (default: `false`). Only for a function with `calls` and the inputs `name`, `code`, `request`,
    /// `inputs` and `schema`. Agents with a `program` have this tool. No selector grants it.
    #[serde(default)]
    pub runs_programs: Option<bool>,
    /// The agent that an `agent_as_tool` delegates to.
    #[serde(default)]
    #[validate(length(min = 1, max = 55))]
    #[schemars(regex(pattern = ID_PATTERN))]
    pub agent: Option<String>,
    /// Limits of the tasks that calls of this tool create.
    #[serde(default)]
    pub limits: Option<Limits>,
    /// Beginning of the conversation of a task that an `agent_as_tool` delegates: its request alone (`request`, the default), or
    /// the caller's conversation up to the call and then the request (`fork`).
    #[serde(default)]
    pub context: Option<CalleeContext>,
    /// Whether calls of an `agent_as_tool` may delegate without waiting (default: `false`). Their input then has `wait`, and with
    /// `false` the result is the id of the task. Its own result follows in a later request of the caller.
    #[serde(default)]
    pub background: Option<bool>,
    /// Whether calls of an `agent_as_tool` may continue the conversation of an earlier task (default: `false`). Their input then has
    /// `continues`: the id of a task that the caller began with this tool and that has ended.
    #[serde(default)]
    pub follow_up: Option<bool>,
    /// Consequence when a task that an `agent_as_tool` delegated fails or times out: its result returns to the caller
    /// (`return`, the default), or a new task tries again.
    #[serde(default)]
    pub on_failure: Option<OnFailure>,
    /// Acceptance of the results of tasks that an `agent_as_tool` delegates (default: none). A result takes effect once its acceptor has
    /// accepted it.
    #[serde(default)]
    #[validate(nested)]
    pub accept: Option<AcceptForm>,
    /// Approver of each call before it begins: a person, or the calling task's master.
    #[serde(default)]
    pub approval: Option<Approver>,
    /// Consequence for an `at_most_once` call whose effect is unknown after a crash: its result reports that
    /// (`return`, the default), or the calling task's master is asked about it (`ask`).
    #[serde(default)]
    pub on_unknown_outcome: Option<OnUnknownOutcome>,
    /// The command that runs a function tool which has no Rust function.
    #[serde(default)]
    #[validate(nested)]
    pub exec: Option<ExecForm>,
    /// Settings of the tool, by name. Its function reads them beside the input. Agents cannot see or set them.
    #[serde(default)]
    #[schemars(with = "Option<BTreeMap<String, SettingForm>>")]
    pub settings: Option<Map<String, Value>>,
    /// Values of the tool's settings.
    #[serde(default)]
    pub set: Option<Map<String, Value>>,
    /// Names of environment variables with secrets that the tool's function may read.
    #[serde(default)]
    #[schemars(inner(regex(pattern = ENV_PATTERN)))]
    pub secrets: Vec<String>,
}

/// Values that are added to the input of each call. Texts may have the placeholders `{agent_id}`, `{step_id}` (the number of the turn)
/// and `{tool_call_id}`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Args")]
pub struct ArgsForm {
    /// Values of parameters that a call leaves out. An explicit `null` counts as a value.
    #[serde(default)]
    pub defaults: Map<String, Value>,
    /// Values that replace those of the call. Models do not see these parameters.
    #[serde(default)]
    pub fixed: Map<String, Value>,
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

/// The acceptance of the results of delegated tasks.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Accept")]
pub struct AcceptForm {
    /// The acceptor: `agent:` and an agent, or `tool:` and a function tool. A tool gets `request`, `result` and `documents` as its input.
    #[validate(length(min = 1, max = 80))]
    #[schemars(regex(pattern = ACCEPTOR_PATTERN))]
    pub by: String,
    /// Number of refusals that end the task as `failed` with `not_accepted` (default: 3).
    #[serde(default)]
    #[validate(range(min = 1, max = 20))]
    pub rounds: Option<u32>,
}

/// Pattern of an acceptor.
const ACCEPTOR_PATTERN: &str = "^(agent|tool):[a-z][a-z0-9]*([_-][a-z0-9]+)*$";

/// One parameter of a tool.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Parameter")]
pub struct ParameterForm {
    /// The JSON type of the value.
    #[serde(rename = "type")]
    pub kind: TypeName,
    /// The meaning of the value, for the agent.
    pub description: String,
    /// Whether the parameter is required.
    pub required: bool,
    /// The default value.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Value")]
    pub default: Option<Value>,
    /// The allowed values.
    #[serde(default, rename = "enum")]
    #[schemars(length(min = 1))]
    pub allowed: Option<Vec<Value>>,
    /// The elements of an array.
    #[serde(default)]
    pub items: Option<Box<PartForm>>,
    /// The properties of an object. Others are refused.
    #[serde(default)]
    pub properties: Option<BTreeMap<String, PartForm>>,
    /// The least allowed number.
    #[serde(default)]
    pub minimum: Option<f64>,
    /// The greatest allowed number.
    #[serde(default)]
    pub maximum: Option<f64>,
}

/// One setting of a tool.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Setting")]
pub struct SettingForm {
    /// The JSON type of the value.
    #[serde(rename = "type")]
    pub kind: TypeName,
    /// The meaning of the value, for people.
    pub description: String,
    /// The default value.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Value")]
    pub default: Option<Value>,
    /// The allowed values.
    #[serde(default, rename = "enum")]
    #[schemars(length(min = 1))]
    pub allowed: Option<Vec<Value>>,
    /// The elements of an array.
    #[serde(default)]
    pub items: Option<Box<PartForm>>,
    /// The least allowed number.
    #[serde(default)]
    pub minimum: Option<f64>,
    /// The greatest allowed number.
    #[serde(default)]
    pub maximum: Option<f64>,
    /// The JSON Schema of the value (2020-12, or the draft that its `$schema` names). An object must have one.
    #[serde(default)]
    pub schema: Option<Map<String, Value>>,
    /// Whether a job that sets it needs the trust of the person who runs it (default: `false`).
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
    /// The meaning of the value.
    #[serde(default)]
    pub description: Option<String>,
    /// Whether it is required (default: `false`).
    #[serde(default)]
    pub required: Option<bool>,
    /// The default value.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Value")]
    pub default: Option<Value>,
    /// The allowed values.
    #[serde(default, rename = "enum")]
    #[schemars(length(min = 1))]
    pub allowed: Option<Vec<Value>>,
    /// The elements of an array.
    #[serde(default)]
    pub items: Option<Box<PartForm>>,
    /// The properties of an object. Others are refused.
    #[serde(default)]
    pub properties: Option<BTreeMap<String, PartForm>>,
    /// The least allowed number.
    #[serde(default)]
    pub minimum: Option<f64>,
    /// The greatest allowed number.
    #[serde(default)]
    pub maximum: Option<f64>,
}

/// One key of a tool's output: the name of its type, or a type with details.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Return")]
pub enum ReturnForm {
    /// The type alone.
    Name(ReturnTypeName),
    /// The type with details.
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
    /// The meaning of the value.
    #[serde(default)]
    pub description: Option<String>,
    /// Whether it is always present (default: `false`).
    #[serde(default)]
    pub required: Option<bool>,
    /// The possible values.
    #[serde(default, rename = "enum")]
    #[schemars(length(min = 1))]
    pub allowed: Option<Vec<Value>>,
    /// The elements of an array.
    #[serde(default)]
    pub items: Option<Box<ReturnForm>>,
    /// Properties of an object. Others are allowed.
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
    /// An explanation of the example.
    #[validate(length(min = 1))]
    pub explanation: String,
    /// The call's input.
    #[schemars(with = "Map<String, Value>")]
    pub input: Value,
    /// The call's output, or a part of it. Each given key must have that value.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Value")]
    pub output: Option<Value>,
    /// Documents of the workspace before the call: text by path.
    #[serde(default)]
    pub documents: BTreeMap<String, String>,
    /// Answers of models, one text for each request of the tool.
    #[serde(default)]
    pub answers: Vec<String>,
    /// Whether the example runs as a test (default: `true`). `false` only checks it against the schemas, for tools that need the web.
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
    /// Environment variables that the command receives besides `PATH`, `LANG`, `BATON_CALL_ID` and `BATON_COMMAND_ID`.
    #[serde(default)]
    #[schemars(inner(regex(pattern = ENV_PATTERN)))]
    pub env: Vec<String>,
}

/// The names of the inputs that describe a change of a document.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Changes")]
pub struct ChangesForm {
    /// The input with the path of the document.
    pub path: String,
    /// The input with the whole new content.
    #[serde(default)]
    pub content: Option<String>,
    /// The input with the encoding of `content`: `utf-8` (default) or `base64`.
    #[serde(default)]
    pub encoding: Option<String>,
    /// The input with the number of the changed block.
    #[serde(default)]
    pub block: Option<String>,
    /// The input with the block's new content.
    #[serde(default)]
    pub data: Option<String>,
}
