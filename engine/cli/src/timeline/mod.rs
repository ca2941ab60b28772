//! The timeline as people and programs read it: one row per entry, the seed's five fields among them.
//!
//! A call's entries have `type` = its tool type, `tool`, `input`, `result` and `timestamp`; every other
//! entry has its own name as `type`. `input` is looked up from the model's answer, where it is kept once.

mod sentence;

use std::collections::HashMap;
use std::sync::Arc;

use baton_core::call::{CallResult, ModelCall};
use baton_core::entry::{ControlAction, Entry, Holder, Notice, QuestionEnd, Recorded};
use baton_core::id::{AgentId, CallId, TaskId};
use baton_core::limits::LimitKind;
use baton_core::tool_type::{Then, ToolType};
use serde::Serialize;
use serde_json::{Value, json};

pub(crate) use sentence::sentence;

/// One entry as a row.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// Its place in the run.
    pub(crate) seq: u64,
    /// The task it belongs to.
    pub(crate) task: Option<String>,
    /// The agent that holds the task; none where a person does.
    pub(crate) agent: Option<AgentId>,
    /// Who holds the task.
    pub(crate) holder: Option<Holder>,
    /// The tool type of a call; else the entry's own name.
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    /// The entry's own name.
    pub(crate) entry: &'static str,
    /// The tool of a call.
    pub(crate) tool: Option<String>,
    /// The call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<String>,
    /// What a call, a task or a request to a model was given.
    pub(crate) input: Value,
    /// What came of it.
    pub(crate) result: Value,
    /// ISO 8601 in UTC.
    pub(crate) timestamp: String,
}

/// Turns entries into rows; fed in order, because inputs and names come from earlier entries.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// The calls of tasks that have not ended, by task.
    inputs: HashMap<TaskId, HashMap<CallId, Arc<ModelCall>>>,
    holders: HashMap<TaskId, Holder>,
}

impl Rows {
    /// The row of the next entry.
    pub(crate) fn row(&mut self, recorded: &Recorded) -> Row {
        if let Entry::TaskCreated(created) = &recorded.entry {
            self.holders.insert(created.task.clone(), created.holder.clone());
        }
        let task = recorded.entry.task();
        let holder = task.and_then(|task| self.holders.get(task).cloned());
        let mut row = Row {
            seq: recorded.seq,
            task: task.map(ToString::to_string),
            agent: holder.as_ref().and_then(Holder::agent).cloned(),
            holder,
            kind: recorded.entry.name(),
            entry: recorded.entry.name(),
            tool: None,
            call: None,
            input: Value::Null,
            result: Value::Null,
            timestamp: recorded.at.to_string(),
        };
        self.fill(&mut row, &recorded.entry);
        row
    }

    fn fill(&mut self, row: &mut Row, entry: &Entry) {
        match entry {
            Entry::RunStarted(started) => {
                row.input = json!({"job": started.job, "request": started.request, "inputs": started.inputs.value()});
            }
            Entry::TaskCreated(created) => {
                row.tool.clone_from(&created.tool);
                row.input = json!({
                    "kind": created.kind, "holder": created.holder, "caller": created.caller,
                    "request": created.request, "documents": names(&created.documents),
                });
                if created.failed_attempts > 0 {
                    row.input["attempt"] = json!(created.failed_attempts + 1);
                }
            }
            Entry::ModelRequested(requested) => {
                row.input = json!({"model": requested.model, "turn": requested.turn, "input_tokens": requested.input_tokens});
                if let Some(Notice::Summarise { through_turn }) = requested.notice {
                    row.input["summarises_through"] = json!(through_turn);
                }
            }
            Entry::FellBack(fell) => {
                row.input = json!({"model": fell.to, "instead_of": fell.from, "turn": fell.turn});
                row.result = json!({"error": fell.error.to_value()});
            }
            Entry::ModelAnswered(answered) => {
                let inputs = self.inputs.entry(answered.task.clone()).or_default();
                for (position, call) in (1..).zip(&answered.calls) {
                    inputs.insert(answered.task.call(answered.turn, position), Arc::clone(call));
                }
                let calls: Vec<&str> = answered.calls.iter().map(|call| call.tool.as_str()).collect();
                row.result = json!({"turn": answered.turn, "text": answered.text, "calls": calls, "finish": answered.finish});
                if let Some(by) = &answered.answered {
                    row.result["answered"] = json!(by);
                }
            }
            Entry::CallRefused(refused) => {
                self.call(row, &refused.call, refused.tool.as_str(), refused.tool_type);
                self.forget(&refused.call);
                row.result = json!({"status": "failed", "error": refused.error.to_value()});
            }
            Entry::CallApproved(approved) => {
                self.call(row, &approved.call, approved.tool.as_str(), None);
                row.result = json!({"approved": true, "binds": approved.binds.to_string()});
            }
            Entry::CallStarted(started) => {
                self.call(row, &started.call, started.tool.as_str(), Some(started.tool_type));
                let target = started.target.as_ref().map(ToString::to_string).unwrap_or_default();
                let verb = if started.tool_type == ToolType::AskMaster { "asked" } else { "delegated to" };
                row.result = match started.tool_type.behavior().then {
                    Then::Block => Value::String(format!("→ {verb} {target} (task {})", started.call.created_task())),
                    _ => Value::Null,
                };
            }
            Entry::CallAskedModel(asked) => {
                row.call = Some(asked.by.call.to_string());
                row.input = json!({
                    "model": asked.model, "request": asked.by.request, "input_tokens": asked.input_tokens,
                    "reserved_tokens": asked.reserved_tokens, "reserved_usd": asked.reserved_cost.map(baton_core::money::Money::as_usd),
                });
            }
            Entry::CallFinished(finished) => {
                self.call(row, &finished.call, finished.tool.as_str(), Some(finished.tool_type));
                self.forget(&finished.call);
                let target = self.holders.get(&finished.call.created_task()).map(ToString::to_string).unwrap_or_default();
                let arrow = match (finished.tool_type.behavior().then, finished.tool_type) {
                    (Then::Block, ToolType::AskMaster) => Some(format!("← answer from {target}")),
                    (Then::Block, _) => Some(format!("← result from {target}")),
                    _ => None,
                };
                row.result = result(&finished.result, arrow);
            }
            Entry::DocumentWritten(version) => {
                row.call = version.call.as_ref().map(ToString::to_string);
                row.result = json!({
                    "path": version.path, "version": version.version, "mime_type": version.content.mime_type,
                    "created_by": version.created_by, "size_bytes": version.content.size_bytes, "token_count": version.content.token_count,
                });
            }
            Entry::QuestionOpened(opened) => {
                let asker = self.holders.get(&opened.asker);
                row.input = json!({"question": format!("Q{}", opened.number), "asker": asker, "holder": opened.holder});
            }
            Entry::QuestionClosed(closed) => {
                row.input = json!({"question": format!("Q{}", closed.number)});
                row.result = match &closed.how {
                    QuestionEnd::Answered { by, answer, recorded } => {
                        let mut result = json!({"answered_by": by, "answer": answer.value()});
                        if let Some(from) = recorded {
                            result["recorded"] = json!(from);
                        }
                        result
                    }
                    QuestionEnd::Expired { default } => json!({"expired": true, "answer": default.value()}),
                    QuestionEnd::Escalated { to, .. } => json!({"escalated_to": to}),
                    QuestionEnd::Failed { reason } => json!({"failed": reason}),
                };
            }
            Entry::Output(output) => {
                row.call = Some(output.call.to_string());
                row.result = json!({"status": output.status, "output": output.output.value()});
            }
            Entry::BudgetSettled(settled) => {
                row.result = json!({
                    "turn": settled.turn, "reserved_tokens": settled.reserved_tokens, "usage": settled.usage,
                    "unknown": settled.unknown,
                    "cost_usd": settled.cost.map(baton_core::money::Money::as_usd),
                });
                if let Some(by) = &settled.by {
                    row.call = Some(by.call.to_string());
                }
            }
            Entry::Compacted(compacted) => {
                row.result = json!({
                    "through_turn": compacted.through_turn, "summary": compacted.summary, "context_tokens": compacted.context_tokens,
                });
            }
            Entry::Control(control) => {
                let action = match &control.action {
                    ControlAction::Paused => json!("paused"),
                    ControlAction::Unpaused => json!("unpaused"),
                    ControlAction::Cancelled { reason } => json!({"cancelled": reason}),
                    ControlAction::Steered { text } => json!({"steered": text}),
                    ControlAction::TakenOver { process } => json!({"taken_over": process}),
                    ControlAction::Adopted(adoption) => {
                        let name = if adoption.fork.is_some() { "forked" } else { "migrated" };
                        json!({name: adoption})
                    }
                    ControlAction::Waited(waited) => json!({"waited": waited}),
                    ControlAction::Late { what } => json!({"late": what}),
                };
                row.input = json!({"by": control.by});
                row.result = action;
            }
            Entry::SubtreeClosed(closed) => {
                closed.tasks.iter().for_each(|task| drop(self.inputs.remove(task)));
                row.result = json!({"reason": closed.reason, "tasks": closed.tasks});
            }
            Entry::TaskEnded(ended) => {
                self.inputs.remove(&ended.task);
                row.result = result(&ended.result, None);
                row.result["state"] = json!(ended.state);
                if let Some(limit) = ended.limit {
                    row.result["limit"] = json!(limit.as_str());
                }
                if let Some(at) = ended.retry_at {
                    row.result["retry_at"] = json!(at.to_string());
                }
            }
            Entry::RunEnded(ended) => {
                row.result = json!({"state": ended.state, "status": ended.status, "limit": ended.limit.map(LimitKind::as_str)});
            }
        }
    }

    fn call(&self, row: &mut Row, call: &CallId, tool: &str, tool_type: Option<ToolType>) {
        row.kind = tool_type.map_or(row.entry, ToolType::as_str);
        row.tool = Some(tool.to_owned());
        row.call = Some(call.to_string());
        let known = self.inputs.get(&call.task()).and_then(|inputs| inputs.get(call));
        row.input = known.map_or(Value::Null, |known| known.input.value());
    }

    /// Nothing further is said of `call`: its input need not be kept.
    fn forget(&mut self, call: &CallId) {
        if let Some(inputs) = self.inputs.get_mut(&call.task()) {
            inputs.remove(call);
        }
    }
}

/// A result as a row shows it; `arrow` is the seed's mark of a result that came back from elsewhere.
fn result(result: &CallResult, arrow: Option<String>) -> Value {
    let mut value = json!({"status": result.status});
    if let Some(arrow) = arrow {
        value["from"] = json!(arrow);
    }
    if !result.output.is_null() {
        value["output"] = result.output.value();
    }
    if let Some(error) = &result.error {
        value["error"] = error.to_value();
    }
    if !result.documents.is_empty() {
        value["documents"] = json!(names(&result.documents));
    }
    value
}

fn names(documents: &[baton_core::document::DocumentRef]) -> Vec<String> {
    documents.iter().map(ToString::to_string).collect()
}
