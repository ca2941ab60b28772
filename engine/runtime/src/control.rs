//! The next step that a result sets: only for a tool whose config has `"controls_flow": true`.
//!
//! Results hold texts of others. So without that key, a control field of an output is content and controls nothing.

use baton_types::call::AfterExecution;
use baton_types::config::{Executor, Tool};
use baton_types::json::Json;
use serde_json::Value;

/// The field of an output that controls the run.
const CONTROL: &str = "__cg_control";
/// Its field with the next step.
const AFTER: &str = "after_execution";

/// Returns the next step that a result of `tool` sets. `given` is that of the tool's code, or of the envelope of a command.
///
/// # Errors
///
/// The reason, as a sentence, if the envelope of a command sets a step and the tool's config does not allow it, or if the step in the
/// output is none.
pub(crate) fn after(tool: &Tool, output: &Json, given: Option<AfterExecution>) -> Result<Option<AfterExecution>, String> {
    if !tool.controls_flow {
        let is_command = matches!(tool.executor, Some(Executor::Exec(_)));
        return match given {
            Some(_) if is_command => Err(format!(
                "the command of {} sets {AFTER:?}, but its config lacks \"controls_flow\": true",
                tool.definition.shown_name()
            )),
            given => Ok(given),
        };
    }
    let value = output.value();
    let control = value.get(CONTROL).filter(|control| !control.is_null());
    let step = match control {
        None => None,
        Some(Value::Object(control)) => control.get(AFTER).filter(|step| !step.is_null()),
        Some(other) => {
            return Err(format!(
                "{CONTROL} of the output of {} is {other}; expected an object with {AFTER}",
                tool.definition.shown_name()
            ));
        }
    };
    let in_output = step.map(|step| {
        serde_json::from_value(step.clone()).map_err(|_| {
            format!(
                "{CONTROL}.{AFTER} of the output of {} is {step}; expected \"suspend\" or \"terminate\"",
                tool.definition.shown_name()
            )
        })
    });
    Ok(given.or(in_output.transpose()?))
}
