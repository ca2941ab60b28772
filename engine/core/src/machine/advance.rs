//! A turn's calls proceed: functions in call order, then what acts last, then the end of the turn (rules *start* and *end*).

use std::sync::Arc;

use serde_json::json;

use super::answer::returns_to_user;
use super::{CallStage, Draft, Task, agent, task_limits};
use crate::call::{AfterExecution, CallError, CallOutput, CallResult, CallStatus, ErrorCode, KeptOutput};
use crate::config::Tool;
use crate::document::Write;
use crate::entry::{CallStarted, Conflict, Entry, FinalState};
use crate::event::{Effect, Outcome, Produced};
use crate::id::{CallId, TaskId};
use crate::json::Json;
use crate::limits::LimitKind;
use crate::tool_type::Then;

impl Draft<'_> {
    /// Lets the open turn of `id` proceed as far as it can.
    pub(super) fn advance(&mut self, id: &TaskId) {
        if !self.is_live(id) || self.task(id).open.as_ref().is_none_or(|open| open.requested) {
            return;
        }
        self.start_functions(id);
        let open = self.task(id).open.as_ref().expect("starting functions closes no turn");
        if open.waiting_functions + open.running_functions + open.doubtful > 0 {
            return;
        }
        // What neither has a result nor is awaited has yet to act.
        if open.unfinished > open.awaited + open.asking {
            self.act(id);
        }
        self.join(id);
        let open = self.task(id).open.as_ref().expect("acting closes no turn");
        if open.unfinished == 0 {
            self.close_turn(id);
        }
    }

    /// Starts function calls in call order: neighbours that do not write together, a writer alone.
    fn start_functions(&mut self, id: &TaskId) {
        let configs = self.configs();
        let limits = task_limits(&configs, self.task(id));
        loop {
            let task = self.task(id);
            let open = task.open.as_ref().expect("the turn is open");
            if open.waiting_functions == 0 || open.writer_runs || open.doubtful > 0 {
                return;
            }
            let full = limits.parallel_calls.is_some_and(|allowed| open.running_functions >= allowed)
                || configs.job.limits.parallel_calls.is_some_and(|allowed| self.run.shared.running_functions >= allowed);
            if full {
                return;
            }
            // A call that waits for its approval holds those behind it: calls begin in call order.
            let next = open
                .calls
                .iter()
                .position(|call| call.is_function() && matches!(call.stage, CallStage::Waiting | CallStage::Approval));
            let Some(index) = next.filter(|index| open.calls[*index].stage == CallStage::Waiting) else { return };
            let asked = std::sync::Arc::clone(&open.calls[index].asked);
            let tool = &configs.tools[asked.tool.as_str()];
            if tool.writes && open.running_functions > 0 {
                return;
            }
            if let Some(approver) = self.approver(id, index, tool) {
                if let Err(error) = self.ask_approval(id, index, tool, approver, Vec::new(), 0) {
                    self.refuse(id, index, error);
                }
                continue;
            }
            let (task, open) = (self.task(id), self.task(id).open.as_ref().expect("the turn is open"));
            let call = open.calls[index].id.clone();
            let agent = task.agent().expect("only agents make calls").clone();
            self.push(Entry::CallStarted(CallStarted {
                task: id.clone(),
                call: call.clone(),
                tool: tool.id.clone(),
                tool_type: tool.tool_type,
                documents: Vec::new(),
                target: None,
            }));
            self.decision.effects.push(Effect::Execute {
                task: id.clone(),
                agent,
                call,
                tool: tool.id.clone(),
                input: asked.input.clone(),
            });
        }
    }

    /// Starts calls of other tasks that waited for a place among the run's parallel calls; says whether any began.
    pub(super) fn start_waiting_calls(&mut self) -> bool {
        let shared = &self.run.shared;
        let full = self.configs().job.limits.parallel_calls.is_some_and(|allowed| shared.running_functions >= allowed);
        if full || shared.waiting_for_calls.is_empty() {
            return false;
        }
        // Each waiting task that cannot begin runs a call of its own, so at most `parallel_calls` of them are passed over.
        let waiting: Vec<TaskId> =
            shared.waiting_for_calls.values().take(1 + shared.running_functions as usize).cloned().collect();
        let before = self.decision.entries.len();
        for id in waiting {
            self.start_functions(&id);
        }
        self.decision.entries.len() > before
    }

    /// An executor answered. Writes are committed with the result, all or none.
    pub(super) fn call_returned(&mut self, call: &CallId, outcome: Outcome) {
        let Some((id, index)) = self.run.running_function(call) else {
            self.record_late(&call.task(), format!("a result for call {call}"));
            return;
        };
        self.settle_asks(&id, Some(call));
        let configs = self.configs();
        let asked = std::sync::Arc::clone(&self.task(&id).open.as_ref().expect("just seen").calls[index].asked);
        let tool = &configs.tools[asked.tool.as_str()];
        let after = outcome.after;
        let ends = after.or(asked.after_execution).unwrap_or_else(|| tool.after_by_default()) == AfterExecution::Terminate;
        let to_agent = !ends && !returns_to_user(&asked, tool.tool_type);
        let (result, conflicts) = self.judge(&id, call, tool, outcome, to_agent);
        self.finish_call(&id, index, result, after, conflicts);
        self.changed.push_back(id);
    }

    /// Turns the outcome of an executor into the call's result, and its writes into versions. An output that is too long for the
    /// agent that receives it is written as a document.
    fn judge(
        &mut self,
        id: &TaskId,
        call: &CallId,
        tool: &Tool,
        outcome: Outcome,
        to_agent: bool,
    ) -> (CallResult, Vec<Conflict>) {
        let configs = self.configs();
        let failed = |error| (CallResult::error(CallStatus::Failed, error), Vec::new());
        let Outcome { status, output, error, writes, loads, after: _ } = outcome;
        let (output, kept) = match output {
            Produced::Inline(output) => (Some(output), None),
            Produced::Long { output, document } => (Some(output), Some(document).filter(|_| to_agent)),
            Produced::Kept(document) => (None, Some(document)),
        };
        let size = output.as_ref().map_or(0, |output| output.text().len() as u64);
        if let Some(allowed) = task_limits(&configs, self.task(id)).result_bytes.filter(|allowed| size > *allowed) {
            return failed(
                super::check::limit_error(LimitKind::ResultBytes, allowed)
                    .with_detail(json!({"received_bytes": size, "allowed_bytes": allowed})),
            );
        }
        if status != CallStatus::Success {
            let output = CallOutput::Inline(output.unwrap_or_default());
            return (CallResult { status, output, error, documents: Vec::new() }, Vec::new());
        }
        let checked = output.as_ref().and_then(|output| Some(tool.output.as_ref()?.check(&output.value())));
        if let Some(Err(faults)) = checked {
            let message = format!("the output of {} breaks its own schema", tool.id);
            return failed(CallError::new(ErrorCode::InvalidOutput, message).with_detail(json!({"faults": faults})));
        }
        if !writes.is_empty() && !tool.writes {
            let message = format!("{} may not write documents: its config lacks \"writes\": true", tool.id);
            return failed(CallError::new(ErrorCode::ToolFailed, message));
        }
        let task = self.task(id);
        let documents = &self.run.shared.documents;
        let present = kept.as_ref().and_then(|kept| documents.get(&kept.path)).map(|document| Arc::clone(document.current()));
        let differs = |kept: &Write| present.as_ref().is_some_and(|present| present.content.hash != kept.content.hash);
        if let Some(kept) = &kept
            && (documents.twin(&kept.path).is_some() || differs(kept))
        {
            let message = format!("the output is too long to be shown, and something else stands at {}", kept.path);
            return failed(CallError::new(ErrorCode::LimitReached, message));
        }
        let mut conflicts = Vec::new();
        let mut names = documents.names().clone();
        for write in &writes {
            if let Some(twin) = names.twin(&write.path) {
                let message = format!("path {} could be taken for the document {twin}, or lies in it", write.path);
                return failed(CallError::new(ErrorCode::InvalidInput, message));
            }
            names.insert(&write.path);
            let (base, head) = (task.known(&write.path), documents.head(&write.path));
            if let Some(current) = head.filter(|_| base != head) {
                conflicts.push(Conflict { path: write.path.clone(), base, current });
            }
        }
        if let Some(conflict) = conflicts.first() {
            let known = conflict.base.map_or("you knew no version of it".to_owned(), |base| format!("you knew version {base}"));
            let mut message = format!(
                "{} is at version {} and {known}; nothing was written. Read what stands and write again",
                conflict.path, conflict.current
            );
            let output = CallOutput::Inline(output.filter(|_| kept.is_none()).unwrap_or_default());
            if kept.is_some() {
                // Not even the document of the output is written.
                message.push_str("; what it returned is too long to be shown");
            }
            let error = CallError::new(ErrorCode::Conflict, message).with_detail(json!({"conflicts": conflicts}));
            return (CallResult { status: CallStatus::Failed, output, error: Some(error), documents: Vec::new() }, conflicts);
        }
        let output = match kept {
            None => CallOutput::Inline(output.unwrap_or_default()),
            Some(kept) => {
                let version = present.unwrap_or_else(|| self.write_document_of_call(kept, id, call));
                CallOutput::Kept(Box::new(KeptOutput::new(&version)))
            }
        };
        for write in writes {
            self.write_document_of_call(write, id, call);
        }
        let documents = &self.run.shared.documents;
        let documents = loads.into_iter().filter(|load| documents.version(load).is_some()).collect();
        (CallResult { status, output, error: None, documents }, Vec::new())
    }

    /// The turn's last result is in: the first rule that applies decides, once (rule *end*).
    fn close_turn(&mut self, id: &TaskId) {
        let task = self.task(id);
        let open = task.open.as_ref().expect("the turn is open");
        let finishes = || {
            open.calls.iter().filter_map(|call| match &call.stage {
                CallStage::Finished(finish) => Some((call, finish)),
                _ => None,
            })
        };
        let handed_off = finishes().find(|(call, _)| call.tool_type.is_some_and(|kind| kind.behavior().then == Then::Stop));
        if let Some((_, finish)) = handed_off {
            let result = finish.result.clone().expect("a handoff's result is kept");
            match task.last_turn {
                Some(limit) => self.end_partial_with(id, limit, result.output.shown().into_owned(), result.documents.clone()),
                None => self.end_task(id, FinalState::Completed, result, None),
            }
            return;
        }
        if let Some(limit) = task.last_turn {
            let text = open.text.clone();
            let output = if text.is_empty() { Json::null() } else { Json::from(serde_json::Value::from(&*text)) };
            self.end_partial(id, limit, output);
            return;
        }
        if let Some(result) = terminating_result(task) {
            let state = state_of(result.status);
            self.end_task(id, state, result, None);
            return;
        }
        let all_to_user = open.calls.iter().all(|call| matches!(&call.stage, CallStage::Finished(finish) if finish.to_user));
        if all_to_user {
            let outputs: Vec<serde_json::Value> =
                finishes().filter_map(|(_, finish)| finish.result.as_ref().map(|result| result.output.value())).collect();
            let result = CallResult::success(json!({"message": &*open.text, "outputs": outputs}));
            self.end_task(id, FinalState::Completed, result, None);
        }
        // Otherwise the agent is asked again: the task is ready, and `settle` admits it.
    }
}

/// The result that a terminating turn ends with: the first terminating call's output, and the first status of the
/// terminating calls, in call order, that is no success (rule *end*).
fn terminating_result(task: &Task) -> Option<CallResult> {
    let open = task.open.as_ref()?;
    let mut terminating = open.calls.iter().filter_map(|call| match &call.stage {
        CallStage::Finished(finish) if finish.after == AfterExecution::Terminate => finish.result.as_deref(),
        _ => None,
    });
    let mut result = terminating.next()?.clone();
    if result.status == CallStatus::Success
        && let Some(other) = terminating.find(|other| other.status != CallStatus::Success)
    {
        result.status = other.status;
        result.error.clone_from(&other.error);
    }
    Some(result)
}

/// The final state that a status stands for.
pub(super) const fn state_of(status: CallStatus) -> FinalState {
    match status {
        CallStatus::Success | CallStatus::Partial => FinalState::Completed,
        CallStatus::Failed | CallStatus::UnknownOutcome => FinalState::Failed,
        CallStatus::Cancelled => FinalState::Cancelled,
        CallStatus::Timeout => FinalState::TimedOut,
    }
}

/// The agent of a task that makes calls.
pub(super) fn calling_agent(task: &Task, configs: &crate::config::Configs) -> std::sync::Arc<crate::config::Agent> {
    std::sync::Arc::clone(agent(configs, task.agent().expect("only agents make calls")))
}
