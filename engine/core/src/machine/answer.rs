//! A model answered: what its turn means (rules *arrive*, *start* and *text*).

use std::sync::Arc;

use super::admit::next_fallback;
use super::compact::usable_summary;
use super::{Draft, Task, TaskState, agent};
use crate::call::{AfterExecution, CallError, CallResult, CallStatus, ErrorCode};
use crate::config::{Configs, OnText, Schema};
use crate::entry::{
    CallFinished, CallRefused, Control, ControlAction, Entry, FellBack, FinalState, ForkPoint, ModelAnswered, Output,
    ReminderReason, TaskKind, Waited,
};
use crate::event::Effect;
use crate::id::{ContentHash, TaskId, ToolId};
use crate::json::Json;
use crate::model::{FinishReason, ModelTurn, Usage};
use crate::principal::Principal;
use crate::time::Timestamp;

/// Turns in a row that may miss the point before the task fails: two reminders, then `no_handoff`.
const REMINDERS: u32 = 2;

/// What makes a turn not count, if anything does. Read by `apply` and by `decide`, so they cannot disagree.
pub(super) fn turn_fault(configs: &Configs, task: &Task, answered: &ModelAnswered) -> Option<ReminderReason> {
    match answered.finish {
        FinishReason::Length => return Some(ReminderReason::Cut),
        FinishReason::ContentFilter => return Some(ReminderReason::Filtered),
        FinishReason::Refusal => return Some(ReminderReason::Declined),
        FinishReason::Stop | FinishReason::ToolCalls => {}
    }
    if !answered.calls.is_empty() {
        let none_is_readable = answered.calls.iter().all(|call| call.malformed.is_some());
        return (none_is_readable && task.last_turn.is_none()).then_some(ReminderReason::Malformed);
    }
    let agent = agent(configs, task.agent()?);
    if answered.text.trim().is_empty() {
        Some(ReminderReason::Empty)
    } else if agent.on_text == OnText::Remind && task.kind != TaskKind::Question && task.last_turn.is_none() {
        Some(ReminderReason::TextOnly)
    } else if task.last_turn.is_none() && text_result(configs, task, &answered.text).is_err() {
        Some(ReminderReason::InvalidResult)
    } else {
        None
    }
}

/// The result that a turn's text stands for: the text, or the JSON it holds where a schema asks for more than text.
fn text_result(configs: &Configs, task: &Task, text: &str) -> Result<Json, ()> {
    let plain = serde_json::Value::from(text);
    let read = || serde_json::from_str::<serde_json::Value>(text.trim()).map_err(|_| ());
    let fits = |schema: &Schema| {
        if schema.check(&plain).is_ok() {
            return Ok(Json::from(&plain));
        }
        let value = read()?;
        schema.check(&value).map_err(|_| ())?;
        Ok(Json::from(&value))
    };
    if let Some(question) = &task.question {
        if question.answer_schema.is_null() {
            return Ok(Json::from(&plain));
        }
        return fits(&Schema::compile(&question.answer_schema.value()).map_err(|_| ())?);
    }
    match task.agent().and_then(|id| agent(configs, id).result_schema.as_ref()) {
        Some(schema) => fits(schema),
        None => Ok(Json::from(&plain)),
    }
}

/// Whether a call's result goes to the user: only where the call itself says so, and never a handoff's (rule *route*).
pub(super) fn returns_to_user(asked: &crate::call::ModelCall, tool_type: crate::tool_type::ToolType) -> bool {
    asked.return_to_llm == Some(false) && tool_type.behavior().then != crate::tool_type::Then::Stop
}

impl Draft<'_> {
    /// Decides what a model's turn means for `task`: which calls are refused, logged and begun, or how the task ends.
    pub(super) fn model_answered(
        &mut self,
        id: &TaskId,
        turn: u32,
        request: ContentHash,
        answer: ModelTurn,
        recorded: Option<ForkPoint>,
    ) {
        if !self.awaits_answer(id, turn) {
            self.record_late(id, format!("an answer for turn {turn}"));
            return;
        }
        let ModelTurn { text, calls, finish, usage, reasoning, answered } = answer;
        let summary = usable_summary(&text, &calls, finish);
        let reserved_tokens = self.task(id).reserved_tokens;
        let usage = usage.map_or_else(|| self.estimated_usage(id, &text, &calls), Usage::bounded);
        let cost = self.run.price(id).map(|price| price.cost(&usage));
        self.push(Entry::ModelAnswered(ModelAnswered {
            task: id.clone(),
            turn,
            text,
            calls: calls.into_iter().map(Arc::new).collect(),
            finish,
            request,
            reasoning,
            answered,
            recorded,
        }));
        self.settle_request(id, turn, reserved_tokens, usage, cost, false);
        if self.task(id).is_summarising() {
            self.summarised(id, summary);
        } else if self.task(id).fault.is_some() {
            self.discard_turn(id);
        } else if self.task(id).open.is_none() {
            self.finish_with_text(id);
        } else {
            self.check_turn(id);
        }
    }

    /// A model gave no answer. If it is not available, its next fallback is asked; else the task fails, and its reservation is
    /// settled at the worst case.
    pub(super) fn model_failed(&mut self, id: &TaskId, turn: u32, model: &str, error: CallError, uncharged: bool) {
        if !self.awaits_answer(id, turn) || self.run.asked_model(id) != model {
            self.record_late(id, format!("a failure of the model {model} in turn {turn}"));
            return;
        }
        if error.code == ErrorCode::ModelUnavailable
            && let Some(to) = next_fallback(self.run, id)
        {
            let (from, to) = (self.run.asked_model(id).to_owned(), to.to_owned());
            self.push(Entry::FellBack(Box::new(FellBack { task: id.clone(), turn, from, to, error })));
            self.decision.effects.push(Effect::Prompt { task: id.clone(), turn });
            return;
        }
        if error.code == ErrorCode::ContextExceeded && !self.task(id).is_summarising() && self.shortened(id, turn) {
            return;
        }
        if self.task(id).is_summarising() {
            self.settle_at_worst(id, turn, self.task(id).reserved_tokens);
            self.replace_older(id, None);
            return;
        }
        if uncharged {
            self.settle_at_nothing(id, turn);
        }
        if error.code == ErrorCode::TimedOut {
            return self.request_timed_out(id, error);
        }
        self.end_task(id, FinalState::Failed, CallResult::error(CallStatus::Failed, error), None);
    }

    /// Records how long the open request of `id` waited for its provider: at most for as long as its task has worked.
    pub(super) fn model_waited(&mut self, id: &TaskId, turn: u32, waited: Waited) {
        if !self.awaits_answer(id, turn) {
            return;
        }
        let since = |since: Option<Timestamp>| {
            since.map_or(0, |since| u64::try_from(self.at.since(since).as_millis()).unwrap_or(u64::MAX))
        };
        let (of_task, of_run) = (self.task(id).working_since, self.run.shared.active_since);
        let waited = Waited {
            milliseconds: waited.milliseconds.min(since(of_task)),
            run_milliseconds: waited.run_milliseconds.min(since(of_run)),
            ..waited
        };
        let action = ControlAction::Waited(Box::new(waited));
        self.push(Entry::Control(Control { task: Some(id.clone()), action, by: Principal::Engine }));
    }

    fn awaits_answer(&self, id: &TaskId, turn: u32) -> bool {
        let open = self.run.task(id).and_then(|task| task.open.as_ref());
        open.is_some_and(|open| open.requested && open.turn == turn)
    }

    /// Records what came too late, or from nowhere. Nothing of it is applied.
    pub(super) fn record_late(&mut self, id: &TaskId, what: String) {
        let task = self.run.task(id).map(|task| task.id.clone());
        self.push(Entry::Control(Control { task, action: ControlAction::Late { what }, by: Principal::Engine }));
    }

    fn estimated_usage(&self, id: &TaskId, text: &str, calls: &[crate::call::ModelCall]) -> Usage {
        let bytes = text.len() + calls.iter().map(|call| call.tool.len() + call.input.text().len()).sum::<usize>();
        Usage {
            input_tokens: self.task(id).context_tokens,
            output_tokens: crate::estimate::text_tokens(bytes as u64),
            estimated: true,
            ..Usage::default()
        }
    }

    /// A turn that does not count executes nothing. The next request reminds the agent, twice at most in a row.
    fn discard_turn(&mut self, id: &TaskId) {
        if self.task(id).fault == Some(ReminderReason::Malformed) {
            self.refuse_malformed(id);
        } else {
            self.refuse_all(id, "the turn was cut, withheld or declined, so its calls were not executed");
        }
        if let Some(limit) = self.task(id).last_turn {
            self.end_partial(id, limit, Json::null());
        } else if self.task(id).reminders > REMINDERS {
            let message = "three turns in a row neither used a tool nor gave a usable result";
            let error = CallError::new(ErrorCode::NoHandoff, message);
            self.end_task(id, FinalState::Failed, CallResult::error(CallStatus::Failed, error), None);
        }
    }

    /// Gives every call of a turn of malformed calls alone the error that teaches how to make it.
    fn refuse_malformed(&mut self, id: &TaskId) {
        let calls = self.task(id).open.as_ref().map_or(0, |open| open.calls.len());
        for index in 0..calls {
            if let Err(error) = self.check_call(id, index, 0) {
                self.refuse(id, index, error);
            }
        }
    }

    /// Gives every call of a turn that executes nothing the error that says why.
    pub(super) fn refuse_all(&mut self, id: &TaskId, why: &str) {
        let calls = self.task(id).open.as_ref().map_or(0, |open| open.calls.len());
        for index in 0..calls {
            self.refuse(id, index, CallError::new(ErrorCode::TurnDiscarded, why));
        }
    }

    /// A turn without calls: its text is the task's result (rule *text*).
    fn finish_with_text(&mut self, id: &TaskId) {
        let answered = self.decision.entries.iter().rev().find_map(|recorded| match &recorded.entry {
            Entry::ModelAnswered(answered) if answered.task == *id => Some(answered.text.clone()),
            _ => None,
        });
        let Some(text) = answered else { return };
        let configs = self.configs();
        let result = text_result(&configs, self.task(id), &text).unwrap_or_else(|()| Json::from(serde_json::Value::from(text)));
        match self.task(id).last_turn {
            Some(limit) => self.end_partial(id, limit, result),
            None => self.end_task(id, FinalState::Completed, CallResult::success(result), None),
        }
    }

    /// Checks every call of the turn, answers those that need no executor, and lets the rest proceed.
    fn check_turn(&mut self, id: &TaskId) {
        let calls = self.task(id).open.as_ref().map_or(0, |open| open.calls.len());
        let mut delegations = 0;
        for index in 0..calls {
            match self.check_call(id, index, delegations) {
                Err(error) => self.refuse(id, index, error),
                Ok(tool) => {
                    let row = tool.tool_type.behavior();
                    if row.creates_task {
                        delegations += 1;
                    } else if row.runs_code {
                        // Asked before its place has come, so that whoever approves several calls can do it in one go.
                        self.ask_early(id, index, &tool, delegations);
                    } else if row.then == crate::tool_type::Then::Continue {
                        self.finish_call(id, index, CallResult::success(serde_json::json!({"logged": true})), None, Vec::new());
                    }
                }
            }
        }
        self.changed.push_back(id.clone());
    }

    /// Asks for the approval of a function call, if it needs one; where nobody can be asked, the call is refused.
    fn ask_early(&mut self, id: &TaskId, index: usize, tool: &crate::config::Tool, earlier: u32) {
        let Some(approver) = self.approver(id, index, tool) else { return };
        if let Err(error) = self.ask_approval(id, index, tool, approver, Vec::new(), earlier) {
            self.refuse(id, index, error);
        }
    }

    /// Gives a call the error that it is refused with.
    pub(super) fn refuse(&mut self, id: &TaskId, index: usize, error: CallError) {
        let open = self.task(id).open.as_ref().expect("a call is refused in an open turn");
        let call = &open.calls[index];
        let (tool, tool_type) = (ToolId::new(call.asked.tool.as_str()), call.tool_type);
        let call = open.calls[index].id.clone();
        self.push(Entry::CallRefused(CallRefused { task: id.clone(), call, tool, tool_type, error }));
    }

    /// Gives a call its result, with what decides the end of the turn (rule *after*): envelope > call > config > row.
    pub(super) fn finish_call(
        &mut self,
        id: &TaskId,
        index: usize,
        result: impl Into<Arc<CallResult>>,
        envelope: Option<AfterExecution>,
        conflicts: Vec<crate::entry::Conflict>,
    ) {
        let (configs, result) = (self.configs(), result.into());
        let task = self.task(id);
        let open = task.open.as_ref().expect("a call finishes in an open turn");
        let asked = Arc::clone(&open.calls[index].asked);
        let call = open.calls[index].id.clone();
        let tool = &configs.tools[asked.tool.as_str()];
        let after = envelope.or(asked.after_execution).unwrap_or_else(|| tool.after_by_default());
        let repeat = repeat(task, &asked, &result);
        let said = task.said.iter().filter(|(waiting, _)| *waiting == call).map(|(_, said)| said.clone()).collect();
        let tool_type = tool.tool_type;
        let output = returns_to_user(&asked, tool_type).then(|| Output {
            task: id.clone(),
            call: call.clone(),
            status: result.status,
            output: result.output.clone(),
        });
        let entry =
            CallFinished { task: id.clone(), call, tool: tool.id.clone(), tool_type, result, after, repeat, said, conflicts };
        self.push(Entry::CallFinished(entry));
        if let Some(output) = output {
            self.push(Entry::Output(output));
        }
    }

    /// Whether `id` exists and has not ended.
    pub(super) fn is_live(&self, id: &TaskId) -> bool {
        self.run.task(id).is_some_and(|task| !matches!(task.state, TaskState::Ended(_)))
    }
}

/// How often in a row this call has now given this result for this input.
fn repeat(task: &Task, asked: &crate::call::ModelCall, result: &CallResult) -> u32 {
    match &task.streak {
        Some(streak) if streak.is_of(asked) && streak.is_same(result) => streak.count + 1,
        _ => 1,
    }
}
