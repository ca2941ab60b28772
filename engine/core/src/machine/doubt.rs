//! Calls of which nobody knows whether they took effect: a crash interrupted them, and they must not be repeated.
//!
//! Where the tool's config says so (`on_unknown_outcome`), the calling task's master is asked before the agent is told
//! anything. The answer is the call's one result. An answer that does not come leaves the result what it would have been
//! without the question: `unknown_outcome`.

use serde_json::{Value, json};

use super::{CallStage, Draft};
use crate::call::{CallError, CallResult, CallStatus, ErrorCode};
use crate::config::{OnUnknownOutcome, Tool};
use crate::entry::Concern;
use crate::id::TaskId;

impl Draft<'_> {
    /// A crash interrupted the call at `index`, which is never run again: its master is asked, or its result says so.
    pub(super) fn interrupted(&mut self, id: &TaskId, index: usize, tool: &Tool) {
        let asks = tool.on_unknown_outcome == OnUnknownOutcome::Ask;
        if asks && self.ask_outcome(id, index, tool).is_ok() {
            return;
        }
        self.finish_call(id, index, unknown(None), None, Vec::new());
        self.changed.push_back(id.clone());
    }

    fn ask_outcome(&mut self, id: &TaskId, index: usize, tool: &Tool) -> Result<(), CallError> {
        let call = &self.task(id).open.as_ref().expect("the turn is open").calls[index];
        let (task, input) = (call.id.outcome(), super::approval::shown(&call.asked.input));
        let request = format!(
            "A crash interrupted a call of {}. Whether it took effect is not known, and it is not repeated. What became of it?\n\n{}\n\nIts input:\n{input}",
            tool.id, tool.description
        );
        let schema = json!({
            "type": "object",
            "properties": {
                "outcome": {"enum": ["done", "not_done", "unknown"], "description": "Whether it took effect."},
                "output": output_schema(tool),
                "note": {"type": "string", "description": "What else the caller should know."}
            },
            "required": ["outcome"],
            "additionalProperties": false
        });
        let asked_of = self.master_of(id);
        self.ask_about_call(id, task, Concern::Outcome, asked_of, request, Vec::new(), schema, 0)
    }

    /// The question what became of the call at `index` has ended with `result`.
    pub(super) fn outcome_told(&mut self, id: &TaskId, index: usize, result: &CallResult) {
        let open = self.task(id).open.as_ref().expect("a call waits in an open turn");
        if open.calls[index].stage != CallStage::Doubt {
            return;
        }
        let told = if result.status == CallStatus::Success { result.output.value() } else { Value::Null };
        let note = told.get("note").and_then(Value::as_str);
        let result = match told.get("outcome").and_then(Value::as_str) {
            Some("done") => {
                let without_output = || json!({"outcome": "done", "note": note.unwrap_or("the call took effect before a crash; its output is lost")});
                CallResult::success(told.get("output").cloned().unwrap_or_else(without_output))
            }
            Some("not_done") => {
                let note = note.map(|note| format!(": {note}")).unwrap_or_default();
                let message = format!("a crash interrupted the call before it took effect{note}");
                CallResult::error(CallStatus::Failed, CallError::new(ErrorCode::ToolFailed, message))
            }
            _ => unknown(note),
        };
        self.finish_call(id, index, result, None, Vec::new());
        self.changed.push_back(id.clone());
    }
}

/// The result of a call of which nobody knows whether it took effect.
pub(super) fn unknown(note: Option<&str>) -> CallResult {
    let note = note.map(|note| format!(": {note}")).unwrap_or_default();
    let message = format!("a crash interrupted the call; whether it took effect is not known, and it is not repeated{note}");
    CallResult::error(CallStatus::UnknownOutcome, CallError::new(ErrorCode::UnknownOutcome, message))
}

/// What an output that is told must meet: the tool's own schema, unless it refers to parts of itself, which would be parts
/// of another schema here.
fn output_schema(tool: &Tool) -> Value {
    let own = tool.output.as_ref().map(|schema| schema.json().value());
    own.filter(|schema| !schema.to_string().contains("\"$")).unwrap_or_else(|| json!({}))
}
