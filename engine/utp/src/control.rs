//! The next step of the work after a result: who decides it.
//!
//! From the strongest to the weakest: `__cg_control.after_execution` within the result, `after_execution` of the card, that of the
//! callback, and that of the command (seed 004, sections 3.1 and 4.3).

use baton_types::call::AfterExecution;
use baton_types::json::Json;
use serde_json::Value;

use crate::read::after_execution;

/// Field of a result that controls the work.
pub const CONTROL: &str = "__cg_control";

/// Returns the step that `result` sets by `__cg_control.after_execution`.
///
/// A control that is not an object, and a step that is neither `suspend` nor `terminate`, count as absent. So do `""` and `null`.
pub fn set_by_result(result: &Json) -> Option<AfterExecution> {
    // Most results have no such field, and some are long. A backslash may spell any letter.
    if !result.text().contains(CONTROL) && !result.text().contains('\\') {
        return None;
    }
    let result = result.value();
    result.as_object()?.get(CONTROL)?.as_object()?.get("after_execution").and_then(Value::as_str).and_then(after_execution)
}

/// The next steps that the command and the callback of a call request.
#[derive(Clone, Copy, Debug)]
pub struct Requested {
    /// The command.
    pub command: AfterExecution,
    /// The callback.
    pub callback: Option<AfterExecution>,
    /// Whether results of the tool may change the step of the command: `controls_flow` of its config.
    pub controls_flow: bool,
}

impl Requested {
    /// Returns the step that counts, for a card with this `result` and this step.
    pub fn effective(&self, card: Option<AfterExecution>, result: &Json) -> AfterExecution {
        if !self.controls_flow {
            return self.command;
        }
        set_by_result(result).or(card).or(self.callback).unwrap_or(self.command)
    }
}
