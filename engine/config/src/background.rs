//! Configs of background delegations, and of the tools that manage tasks.

use baton_types::config::{OnFailure, TaskAction};
use baton_types::schema::Schema;
use baton_types::tool_type::{Then, ToolType};
use serde_json::{Value, json};

use crate::fault::FaultKind;
use crate::form::ToolForm;
use crate::loader::Loader;
use crate::reader::{Spot, pointer};
use crate::tool::Texts;

/// The input of a background delegation for whether the caller waits.
const WAIT: &str = "wait";

/// The input of a delegation that names an earlier task.
const CONTINUES: &str = "continues";

impl<'s> Loader<'s> {
    /// Adds the inputs `wait` and `continues` to the schema of a tool that may delegate so.
    pub(crate) fn with_inputs(tool_type: ToolType, form: &ToolForm, (mut schema, compiled): (Value, Schema)) -> (Value, Schema) {
        if tool_type != ToolType::AgentAsTool {
            return (schema, compiled);
        }
        let wait = "Whether you wait for the result (default). With false you continue at once with the id of the task, and a later \
                    message has its result.";
        let continues = "The id of a task that you gave to this agent before and that has ended. It remembers that task; your request \
                         follows it.";
        let inputs = [
            (form.background, WAIT, json!({"type": "boolean", "default": true, "description": wait})),
            (form.follow_up, CONTINUES, json!({"type": "string", "description": continues})),
        ];
        let mut is_changed = false;
        for (is_allowed, name, input) in inputs {
            let is_new = is_allowed.unwrap_or_default() && schema["properties"].get(name).is_none();
            if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut).filter(|_| is_new) {
                properties.insert(name.to_owned(), input);
                is_changed = true;
            }
        }
        let compiled = if is_changed { baton_schema::derived(&schema) } else { compiled };
        (schema, compiled)
    }

    /// Reports keys about background tasks that have no meaning for this tool.
    pub(crate) fn check_background(&mut self, tool_type: ToolType, form: &ToolForm, texts: &Texts<'_, 's>) {
        let row = tool_type.behavior();
        let mut misplaced = |key: &str, message: &str, expected: &str| {
            let fault = texts.fault(FaultKind::MisplacedKey, &pointer(&[key]), Spot::Key, message);
            self.faults.push(fault.expected(expected));
        };
        if form.background.unwrap_or_default() && matches!(form.on_failure, Some(OnFailure::Retry(_))) {
            let message = "\"background\" and a retry in \"on_failure\" exclude each other: the caller decides after each result";
            misplaced("background", message, "a tool of its own for each");
        }
        if form.manages_tasks.is_some() && (row.runs_code || row.then != Then::Continue) {
            let message = format!("\"manages_tasks\" does not apply to a tool of type {tool_type}");
            misplaced("manages_tasks", &message, "this key only in a non_function_tool");
        }
        if form.manages_tasks.is_some() && form.describes_tools.unwrap_or_default() {
            let message = "\"manages_tasks\" and \"describes_tools\" exclude each other";
            misplaced("manages_tasks", message, "a tool of its own for each");
        }
    }

    /// Reports inputs of background delegations and of tools that manage tasks that are missing or of another type.
    pub(crate) fn check_task_inputs(&mut self, form: &ToolForm, schema: &Value, texts: &Texts<'_, 's>) {
        let managing: &[(&str, &str, bool)] = match form.manages_tasks {
            Some(TaskAction::Wait) => &[("tasks", "array", false), ("until", "string", false)],
            Some(TaskAction::Steer) => &[("task", "string", true), ("message", "string", true)],
            Some(TaskAction::Cancel) => &[("task", "string", true), ("reason", "string", false)],
            Some(TaskAction::List) | None => &[],
        };
        let background = form.background.unwrap_or_default().then_some((WAIT, "boolean", false));
        let follow_up = form.follow_up.unwrap_or_default().then_some((CONTINUES, "string", false));
        let needed = managing.iter().map(|input| ("manages_tasks", input));
        let needed = needed.chain(background.iter().map(|input| ("background", input)));
        for (key, (name, kind, is_required)) in needed.chain(follow_up.iter().map(|input| ("follow_up", input))) {
            let given = &schema["properties"][*name];
            let names = schema["required"].as_array().into_iter().flatten();
            let is_missing = given.is_null() || names.filter(|required| *required == name).count() == 0;
            if (given.is_null() || given["type"] == *kind) && !(*is_required && is_missing) {
                continue;
            }
            let required = if *is_required { ", required" } else { "" };
            let message = format!("a tool with \"{key}\" needs the input \"{name}\" of type {kind}{required}");
            self.faults.push(texts.fault(FaultKind::MissingInput, &pointer(&[key]), Spot::Value, message));
        }
    }
}
