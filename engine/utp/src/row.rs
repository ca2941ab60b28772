//! Rows of `resource.tools`, and their form as tool configs (seed 004, section 2).
//!
//! A row is a tool like any other once it is a config. What only the table has is not kept: the project, and whether user interfaces
//! may call the tool.

mod reading;

use std::collections::BTreeMap;

use baton_types::call::AfterExecution;
use baton_types::config::{Executor, Tool};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::id::{Name, ProjectName, ToolName};
use crate::subject::TargetSubject;

/// Names of the built-in tools of the original system. A row may not have them.
pub const RESERVED_NAMES: [&str; 6] =
    ["delegate_async", "launch_principal", "ask_expert", "fork_join", "provision_agent", "submit_result"];

/// Longest time that a call may be suspended, in seconds: a year.
pub const MAX_SUSPEND_SECONDS: u32 = 31_536_000;

/// A row of `resource.tools`, checked. Project and name together are its key.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The project.
    pub project_id: ProjectName,
    /// The name of the tool.
    pub tool_name: ToolName,
    /// Its purpose, for agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The schema of its input: an object.
    pub parameters: Map<String, Value>,
    /// The subject of its commands.
    #[serde(serialize_with = "subject_text")]
    pub target_subject: TargetSubject,
    /// Next step of the work after its results.
    pub after_execution: AfterExecution,
    /// The rest.
    pub options: Options,
    /// Columns and options that nothing here reads, as pointers into the row.
    #[serde(skip)]
    pub unused: Vec<String>,
}

/// Options of a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Options {
    /// Values that are added to the input of each call.
    #[serde(skip_serializing_if = "Args::is_empty")]
    pub args: Args,
    /// Environment variables by parameter. The service reads their values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub envs: BTreeMap<String, String>,
    /// Seconds after which a call without a result ends as `timeout`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend_timeout_seconds: Option<u32>,
    /// Whether a result may change the next step. `None` is `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controls_flow: Option<bool>,
    /// Whether user interfaces may call the tool.
    #[serde(skip_serializing_if = "is_false")]
    pub ui_allowed: bool,
}

/// Values that are added to the input of each call.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Args {
    /// Values of parameters that the call leaves out.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub defaults: Map<String, Value>,
    /// Values that replace those of the call.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub fixed: Map<String, Value>,
}

impl Args {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.defaults.is_empty() && self.fixed.is_empty()
    }
}

/// One fault of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFault {
    /// JSON pointer into the row.
    pub pointer: String,
    /// The fault, and the expected value.
    pub message: String,
}

impl std::fmt::Display for RowFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.pointer.is_empty() { f.write_str(&self.message) } else { write!(f, "{}: {}", self.pointer, self.message) }
    }
}

/// Judges a JSON Schema: the faults, each with a pointer into the schema. The engine gives the judge of tool configs.
pub type JudgeSchema<'j> = &'j dyn Fn(&Value) -> Vec<RowFault>;

/// Whether `document` is a row, or a list of rows, rather than tools in another form.
pub fn is_rows(document: &Value) -> bool {
    let is_row = |value: &Value| value.get("tool_name").is_some();
    match document {
        Value::Array(rows) => !rows.is_empty() && rows.iter().all(is_row),
        other => is_row(other),
    }
}

impl Row {
    /// Reads a row.
    ///
    /// # Errors
    /// All faults, each with its place.
    pub fn read(value: &Value, judge: JudgeSchema<'_>) -> Result<Self, Vec<RowFault>> {
        reading::row(value, judge)
    }

    /// Returns the row as a tool config. A repeated command of a call has one effect, so the effect class is `keyed`.
    pub fn config(&self) -> Map<String, Value> {
        let Options { args, envs, suspend_timeout_seconds, controls_flow, ui_allowed: _ } = &self.options;
        let mut config = Map::new();
        let mut set = |key: &str, value: Value| _ = config.insert(key.to_owned(), value);
        set("tool_id", json!(self.tool_name));
        set("type", json!("function_tool"));
        set("description", json!(self.description.as_deref().unwrap_or(self.tool_name.as_str())));
        set("input_schema", Value::Object(self.parameters.clone()));
        set("effect", json!("keyed"));
        set("after_execution", json!(self.after_execution));
        set("target_subject", json!(self.target_subject.as_str()));
        if let Some(controls_flow) = controls_flow {
            set("controls_flow", json!(controls_flow));
        }
        if let Some(seconds) = suspend_timeout_seconds {
            set("suspend_timeout_seconds", json!(seconds));
        }
        if !args.is_empty() {
            set("args", json!(args));
        }
        if !envs.is_empty() {
            set("envs", json!(envs));
        }
        config
    }

    /// Returns the row of a loaded `tool` for `project`; `None` if no service executes its calls.
    pub fn of_tool(tool: &Tool, project: &ProjectName) -> Option<Self> {
        let Some(Executor::Service(service)) = &tool.executor else { return None };
        let arguments = &tool.arguments;
        let whole = if arguments.parameters.is_null() { tool.input.json() } else { &arguments.parameters };
        Some(Self {
            project_id: project.clone(),
            tool_name: ToolName::parse(tool.definition.shown_name())?,
            description: Some(tool.description.clone()),
            parameters: whole.value().as_object().cloned().unwrap_or_default(),
            target_subject: TargetSubject::parse(&service.target_subject).ok()?,
            after_execution: tool.after_by_default(),
            options: Options {
                args: Args { defaults: arguments.defaults.clone(), fixed: arguments.fixed.clone() },
                envs: arguments.envs.clone(),
                suspend_timeout_seconds: tool.suspend_timeout.and_then(|time| u32::try_from(time.as_secs()).ok()),
                controls_flow: (!tool.controls_flow).then_some(false),
                ui_allowed: false,
            },
            unused: Vec::new(),
        })
    }
}

fn subject_text<S: serde::Serializer>(subject: &TargetSubject, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(subject.as_str())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}
