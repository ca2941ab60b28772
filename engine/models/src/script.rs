//! The script file: what a person writes for the scripted model, its JSON Schema, and everything that can be wrong with it.
//!
//! A file is read strictly: the schema finds wrong keys and types, the compiler finds templates that cannot work.
//! All faults are reported at once, each with its JSON pointer.

use std::collections::{BTreeMap, BTreeSet};

use baton_schema::{Broken, Finding, NAME_PATTERN, Program};
use baton_types::call::AfterExecution;
use baton_types::json;
use baton_types::model::FinishReason;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::scripted::ScriptedModel;

/// Largest number of reported faults of a script.
const MAX_FAULTS: usize = 100;

/// A script (`*.script.json`): the answers of the scripted model for each agent, and for tools that ask models.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Baton model script")]
pub struct ScriptFile {
    /// The schema of this file, for editors.
    #[serde(default, rename = "$schema", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub schema: Option<String>,
    /// Answers for each agent, by its id.
    #[serde(default)]
    pub agents: BTreeMap<String, AgentScript>,
    /// Answers to the requests that a tool's code makes, by the tool's id. A request without an answer fails its call.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, ToolScript>,
}

/// Answers for one agent.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentScript {
    /// The turns of the agent's own tasks, in order. A request beyond the last one fails the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub turns: Vec<TurnScript>,
    /// The turns of a question that the agent answers as a master, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub answers: Vec<TurnScript>,
    /// Turns for particular tasks or questions: the first case whose condition holds replaces `turns` or `answers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub cases: Vec<CaseScript>,
    /// Turns for tasks by their ids, used before all others. An exported script has these.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tasks: BTreeMap<String, Vec<TurnScript>>,
}

/// Answers to the requests that one tool's code makes.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolScript {
    /// The answers to the requests of a call, in order. Each call begins with the first one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub turns: Vec<ReplyScript>,
    /// Answers for particular requests: the first case whose condition holds replaces `turns`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub cases: Vec<ReplyCaseScript>,
}

/// Answers for particular requests of a tool's code.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplyCaseScript {
    /// An expression over `request` (the tool's request) and `inputs`, such as `"price" in request`.
    #[schemars(length(min = 1))]
    pub when: String,
    /// The answers, in order.
    #[schemars(length(min = 1))]
    pub turns: Vec<ReplyScript>,
}

/// One answer to a request of a tool's code, which offers no tools. The text is a template over `request`, `inputs` and `turn`.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplyScript {
    /// Text of the model; a template.
    pub text: String,
    /// Finish reason (default: `stop`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "FinishReason")]
    pub finish: Option<FinishReason>,
    /// Whether the text is literal: nothing is a template then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub literal: bool,
}

/// Turns for particular tasks or questions.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CaseScript {
    /// An expression over `request`, `inputs` and `question`, such as `question and "price" in question.text`.
    #[schemars(length(min = 1))]
    pub when: String,
    /// The turns, in order.
    #[schemars(length(min = 1))]
    pub turns: Vec<TurnScript>,
}

/// One answer of the model. Texts and the strings of inputs are templates.
///
/// Templates see `request`, `inputs` (of the job), `turn`, `results` (the newest output by tool id or by a call's `as`), `calls`, `documents`
/// and, in answers, `question`. A string that is exactly one `{{ expression }}` takes the expression's typed value. An
/// object `{"$lines": […]}` in an input is replaced by these lines, joined.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TurnScript {
    /// Text of the model; a template.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The calls it makes, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub calls: Vec<CallScript>,
    /// Finish reason (default: `tool_calls` if there are calls, otherwise `stop`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "FinishReason")]
    pub finish: Option<FinishReason>,
    /// Whether everything in this turn is literal: nothing is a template then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub literal: bool,
}

/// One call of a turn.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallScript {
    /// The name of the tool, or whatever a model says instead.
    pub tool: String,
    /// A name under which later templates find the output: `results.<name>`.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = NAME_PATTERN))]
    pub name: Option<String>,
    /// The input; every string in it is a template.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub input: Map<String, Value>,
    /// Malformed input, in place of `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "MalformedScript")]
    pub malformed: Option<MalformedScript>,
    /// The id of the call in universal invocation (default: `{tool}-{n}`). A repetition of an earlier call with the same id gets its
    /// stored result. In native invocation it has no effect.
    #[serde(default, rename = "requestId", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub request_id: Option<String>,
    /// `false` sends the result to the user instead of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub return_to_llm: Option<bool>,
    /// Wish of this call for what happens after its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "AfterExecution")]
    pub after_execution: Option<AfterExecution>,
    /// The id of the tool configuration that this call uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub config_id: Option<Box<str>>,
}

/// Arguments that are no object of JSON, as a model may send them.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MalformedScript {
    /// The arguments as far as they can be represented: a text, or JSON that is no object.
    pub arguments: Value,
    /// Why they could not be read, if they could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub reason: Option<String>,
}

/// One thing that is wrong with a script.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{pointer}: {message}")]
pub struct ScriptFault {
    /// JSON pointer to it; empty for the whole file.
    pub pointer: String,
    /// Expected and found values.
    pub message: String,
}

impl ScriptFault {
    pub(crate) fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into() }
    }
}

/// Returns the JSON Schema (2020-12) of a script file.
pub fn schema() -> Value {
    schemars::schema_for!(ScriptFile).to_value()
}

/// Returns everything that is wrong with the script `text`: JSON pointer and message. Empty if it can be used.
pub fn check_script(text: &str) -> Vec<(String, String)> {
    match ScriptedModel::parse(text) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.into_iter().map(|fault| (fault.pointer, fault.message)).collect(),
    }
}

/// Returns the agents of the script `text`; none if it is no script.
pub fn agents(text: &str) -> BTreeSet<String> {
    serde_json::from_str::<ScriptFile>(text).map(|script| script.agents.into_keys().collect()).unwrap_or_default()
}

impl ScriptFile {
    /// Reads `text`, whose faults of structure are all reported at once.
    pub(crate) fn read(text: &str) -> Result<Self, Vec<ScriptFault>> {
        let value: Value = json::read(text).map_err(|error| vec![ScriptFault::new("", error.to_string())])?;
        let program = Program::read(&schema()).expect("the schema of scripts is one");
        let mut faults: Vec<_> = program.findings(&value, MAX_FAULTS).iter().map(explain).collect();
        if faults.is_empty() {
            return serde_json::from_value(value).map_err(|error| vec![ScriptFault::new("", error.to_string())]);
        }
        faults.sort();
        Err(faults)
    }
}

/// Returns a broken rule as a fault. An unknown key is reported with the nearest known one.
fn explain(finding: &Finding<'_>) -> ScriptFault {
    let pointer = finding.pointer.clone();
    match &finding.broken {
        Broken::UnknownKey(key, known) => {
            let escaped = key.replace('~', "~0").replace('/', "~1");
            ScriptFault::new(format!("{pointer}/{escaped}"), format!("unknown key {key:?}{}", suggestion(key, known)))
        }
        _ => ScriptFault::new(pointer, finding.to_string()),
    }
}

/// `; did you mean "turns"?`, when a known name is near.
pub(crate) fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a &'a str>) -> String {
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), *candidate))
        .filter(|(distance, _)| *distance <= 2.max(name.len() / 3))
        .min()
        .map(|(_, candidate)| format!("; did you mean {candidate:?}?"))
        .unwrap_or_default()
}
