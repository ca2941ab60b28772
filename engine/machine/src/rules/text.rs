//! Rule *text*: a turn without calls, and a turn that does not count.
//!
//! With `"on_text": "handoff"` the text is the task's result; with `"remind"` the agent is reminded to use a tool. A turn that
//! is empty, cut, filtered or declined executes nothing and counts as a reminder. So does a text that does not meet the schema,
//! and a turn of malformed calls alone. After two reminders in a row the third such turn fails the task.

use baton_types::config::OnText;
use baton_types::entry::{ReminderReason, TurnKind};
use baton_types::json;
use baton_types::model::FinishReason;

use crate::agent;
use crate::prelude::*;

/// Number of reminders in a row. The next turn that does not count fails the task with `no_handoff`.
const REMINDERS: u32 = 2;

/// Handles a turn that does not count, or ends the task with the text of a turn without calls.
pub(crate) fn text(draft: &mut Draft<'_>, task: TaskIndex) {
    match draft.task(task).work().missed {
        Some(missed) => discard(draft, task, missed),
        None => finish(draft, task),
    }
}

/// Discards a turn that does not count. Nothing of it is executed. The next request reminds the agent, at most twice in a
/// row.
fn discard(draft: &mut Draft<'_>, task: TaskIndex, missed: Missed) {
    if missed.reason == ReminderReason::Malformed {
        // No call passes the checks. Each gets the error that explains its fault.
        draft.then(Step::Arrive { task, from: 0, creating: 0 });
    } else {
        draft.refuse_all(task, "the turn was cut, withheld or declined, so its calls were not executed");
    }
    if let Some(limit) = draft.task(task).last_turn() {
        draft.then_end_partial(task, limit, Json::null());
    } else if missed.count > REMINDERS {
        let message = "three turns in a row neither used a tool nor gave a usable result";
        let error = CallError::new(ErrorCode::NoHandoff, message);
        draft.then(Step::end(task, CallResult::error(CallStatus::Failed, error)));
    }
}

/// Ends the task with the text of its turn.
fn finish(draft: &mut Draft<'_>, task: TaskIndex) {
    let (of, text) = (draft.task(task), &*draft.calls(task).text);
    let result = text_result(draft.run.configs(), of, text);
    let is_whole = match of.last_turn() {
        None => true,
        // The last allowed turn may end the task like any other turn.
        Some(LimitKind::Turns) => result.is_ok() && (of.question.is_some() || draft.agent(task).on_text == OnText::Handoff),
        Some(_) => false,
    };
    let result = result.unwrap_or_else(|()| Json::from(Value::from(text)));
    match of.last_turn() {
        Some(limit) if !is_whole => draft.then_end_partial(task, limit, result),
        Some(_) | None => draft.then(Step::Conclude { task, result: CallResult::success(result).into() }),
    }
}

/// Returns what the turn `answered` is for `task`.
pub(crate) fn turn_kind(run: &Run, index: TaskIndex, answered: &ModelAnswered) -> TurnKind {
    let task = &run.graph[index];
    if task.is_summarising() {
        return TurnKind::Summary;
    }
    if answered.calls.is_empty() && answered.finish == FinishReason::Stop && run.waits_for_background(index) {
        return TurnKind::Rest;
    }
    turn_fault(run.configs(), task, answered).map_or(TurnKind::Work, TurnKind::Discarded)
}

/// Returns the reason why a turn does not count, if there is one.
fn turn_fault(configs: &Configs, task: &Task, answered: &ModelAnswered) -> Option<ReminderReason> {
    match answered.finish {
        FinishReason::Length => return Some(ReminderReason::Cut),
        FinishReason::ContentFilter => return Some(ReminderReason::Filtered),
        FinishReason::Refusal => return Some(ReminderReason::Declined),
        FinishReason::Stop | FinishReason::ToolCalls => {}
    }
    if !answered.calls.is_empty() {
        let none_is_readable = answered.calls.iter().all(|call| call.malformed.is_some());
        return (none_is_readable && task.last_turn().is_none()).then_some(ReminderReason::Malformed);
    }
    let agent = agent(configs, task.agent()?);
    if answered.text.trim().is_empty() {
        Some(ReminderReason::Empty)
    } else if agent.on_text == OnText::Remind && task.kind != TaskKind::Question && task.last_turn().is_none() {
        Some(ReminderReason::TextOnly)
    } else if task.last_turn().is_none() && text_result(configs, task, &answered.text).is_err() {
        Some(ReminderReason::InvalidResult)
    } else {
        None
    }
}

/// Returns the result in a turn's text: the text itself, or the JSON that it holds if a schema asks for more than text.
fn text_result(configs: &Configs, task: &Task, text: &str) -> Result<Json, ()> {
    let plain = Value::from(text);
    let read = || json::read::<Value>(text.trim()).map_err(|_| ());
    let fits = |schema: &Schema| {
        if schema.check(&plain).is_ok() {
            return Ok(Json::from(&plain));
        }
        let value = read()?;
        schema.check(&value).map_err(|_| ())?;
        Ok(Json::from(&value))
    };
    if let Some(question) = &task.question {
        return question.schema(configs).map_or_else(|| Ok(Json::from(&plain)), |schema| fits(&schema.map_err(|_| ())?));
    }
    match task.agent().and_then(|id| agent(configs, id).result_schema.as_ref()) {
        Some(schema) => fits(schema),
        None => Ok(Json::from(&plain)),
    }
}
