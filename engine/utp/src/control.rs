//! The next step of the work after a result: who decides it.
//!
//! From the strongest to the weakest: `__cg_control.after_execution` within the result, `after_execution` of the card, that of the
//! callback, and that of the command (seed 004, sections 3.1 and 4.3).

use baton_types::call::AfterExecution;
use baton_types::json::Json;
use serde_json::Value;

use crate::card::ToolResultContent;
use crate::read::after_execution;

/// Field of a result that controls the work.
pub const CONTROL: &str = "__cg_control";

/// Returns the step that `result` sets by `__cg_control.after_execution`.
///
/// A control that is no object, and a step that is neither `suspend` nor `terminate`, count as absent. So do `""` and `null`.
pub fn set_by_result(result: &Json) -> Option<AfterExecution> {
    // Most results have no such field, and some are long. A backslash may spell any letter.
    if !result.text().contains(CONTROL) && !result.text().contains('\\') {
        return None;
    }
    let result = result.value();
    result.as_object()?.get(CONTROL)?.as_object()?.get("after_execution").and_then(Value::as_str).and_then(after_execution)
}

/// What the parties of a call say about the next step.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    /// The command.
    pub command: AfterExecution,
    /// The callback.
    pub callback: Option<AfterExecution>,
    /// Whether results of the tool may change the step of the command: `controls_flow` of its config.
    pub controls_flow: bool,
}

impl Said {
    /// Returns the step that counts, for the result in `card`.
    pub fn effective(&self, card: &ToolResultContent) -> AfterExecution {
        if !self.controls_flow {
            return self.command;
        }
        set_by_result(&card.result).or(card.after_execution).or(self.callback).unwrap_or(self.command)
    }
}
