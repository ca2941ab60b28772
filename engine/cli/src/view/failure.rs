//! The failure of a run: its first cause, the place of the cause, and the command that shows more.
//!
//! `run`, `show`, `timeline` and the JSON of a run take it from here, so all of them report the same.

use baton_machine::{OpenCall, Task};
use baton_types::call::{CallError, CallStatus, ErrorCode};
use baton_types::id::{AgentId, CallId, TaskId};
use baton_types::json::Json;
use baton_types::limits::LimitKind;
use baton_types::money::Price;
use serde::Serialize;
use serde_json::Value;

use super::RunView;
use crate::shell::baton;
use crate::style;
use crate::text::{Text, text};
use crate::words;

/// Largest number of fields, and of effects, in a card.
const SHOWN: usize = 4;

/// An error of a task or of one of its calls.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    task: TaskId,
    turn: u32,
    /// The call; `None` for the end of the task.
    call: Option<CallId>,
    tool: Option<String>,
    error: CallError,
}

impl Problem {
    /// Returns the problem of a call.
    pub(super) fn of_call(task: &TaskId, call: &CallId, tool: &str, error: &CallError) -> Self {
        let turn = call.position().map_or(0, |(turn, _)| turn);
        Self { task: task.clone(), turn, call: Some(call.clone()), tool: Some(tool.to_owned()), error: error.clone() }
    }

    /// Returns the problem that ended `task` in `turn`.
    pub(super) fn of_end(task: &TaskId, turn: u32, error: &CallError) -> Self {
        Self { task: task.clone(), turn, call: None, tool: None, error: error.clone() }
    }

    /// Returns the problem in the task that its error names. A model that fails ends the whole run, so the error is the root's.
    fn located(&self) -> Option<Self> {
        let detail = self.error.detail.value();
        let turn = u32::try_from(detail["turn"].as_u64()?).ok()?;
        Some(Self { task: TaskId::new(detail["task"].as_str()?), turn, ..self.clone() })
    }

    /// Returns the message without the place that a card names anyway.
    fn message(&self) -> String {
        let prefix = self.error.message.split_once(&format!(" in task {}, turn {}: ", self.task, self.turn));
        let message = prefix.filter(|(agent, _)| agent.starts_with("agent ")).map(|(_, message)| message);
        message.unwrap_or(&self.error.message).to_owned()
    }

    fn is_like(&self, other: &Self) -> bool {
        self.error.code == other.error.code && self.error.message == other.error.message
    }
}

/// The failure of a run that ended without a success.
#[derive(Debug, Serialize)]
pub(crate) struct Failure {
    /// The task in which the first cause is.
    task: TaskId,
    /// Its agent; `null` if a person holds the task.
    agent: Option<AgentId>,
    /// The turn of the task.
    turn: u32,
    /// The call at fault, if it was a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<CallId>,
    /// The tool of that call.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    code: ErrorCode,
    message: String,
    /// The fields of the input or result at fault.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fields: Vec<Field>,
    /// Number of times that the same error occurred in the run.
    times: usize,
    /// The errors that followed, up to the one of the root.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    then: Vec<Effect>,
    /// The command that shows the task's conversation.
    command: String,
}

/// A field at fault.
#[derive(Debug, Serialize)]
struct Field {
    pointer: String,
    message: String,
}

/// An error that the cause led to.
#[derive(Debug, Serialize)]
struct Effect {
    task: TaskId,
    agent: Option<AgentId>,
    message: String,
}

impl RunView {
    /// Returns a line for each call that the end of its process interrupts, and that does not run again.
    pub(crate) fn interrupted_lines(&self) -> Vec<Text> {
        let line = |(task, call): (&Task, &OpenCall)| {
            let (tool, holder) = (&call.asked.tool, &task.holder);
            text!("{} {tool} of {holder} ({}) was interrupted: whether it took effect is unknown", style::bad("!"), call.id)
        };
        self.run.interruptible().map(line).collect()
    }

    /// Returns the failure of a run that ended without a success.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let ended = self.run.ended().filter(|ended| ended.status != CallStatus::Success)?;
        let root = self.problems.iter().rfind(|problem| problem.call.is_none() && problem.task.is_root())?;
        let located = root.located();
        let mut end = located.as_ref().unwrap_or(root);
        let mut then = Vec::new();
        // Each step leads to a task that ended earlier, so the walk ends.
        let cause = loop {
            let cause = self.cause_in(end, ended.limit);
            if !cause.is_like(end) {
                then.push(Effect { task: end.task.clone(), agent: self.agent(&end.task), message: end.message() });
            }
            let callee = cause.call.as_ref().map(CallId::created_task);
            let of_callee = |problem: &&Problem| problem.call.is_none() && Some(&problem.task) == callee.as_ref();
            match self.problems.iter().rfind(of_callee) {
                Some(deeper) => end = deeper,
                None => break cause,
            }
        };
        then.reverse();
        let command = match (&cause.call, self.run.task(&cause.task).is_some_and(|task| task.turns > 0)) {
            (_, false) => baton("show").value(self.id()).option("--task", &cause.task),
            (_, true) => baton("show").value(self.id()).option("--task", &cause.task).flag("--messages"),
        };
        Some(Failure {
            task: cause.task.clone(),
            agent: self.agent(&cause.task),
            turn: cause.turn,
            call: cause.call.clone(),
            tool: cause.tool.clone(),
            code: cause.error.code,
            message: cause.message(),
            fields: fields(&cause.error.detail),
            times: self
                .problems
                .iter()
                .filter(|problem| problem.is_like(cause) && problem.call.is_some() == cause.call.is_some())
                .count(),
            then,
            command: command.to_string(),
        })
    }

    /// Returns the first cause of a task's end, among the errors of its last turns. Errors before a turn without errors are
    /// left out, because the agent continued after them.
    fn cause_in<'a>(&'a self, end: &'a Problem, limit: Option<LimitKind>) -> &'a Problem {
        let calls = || self.problems.iter().filter(|problem| problem.task == end.task && problem.call.is_some());
        // The task may have ended with the result of a call.
        if let Some(same) = calls().rfind(|problem| problem.turn == end.turn && problem.is_like(end)) {
            return same;
        }
        let is_stuck = match end.error.code {
            ErrorCode::NoHandoff => true,
            ErrorCode::LimitReached => {
                let of_turns = matches!(limit, Some(LimitKind::Turns | LimitKind::RunTurns | LimitKind::SessionTurns));
                of_turns || matches!(limit, Some(LimitKind::Calls | LimitKind::RunCalls | LimitKind::SessionCalls))
            }
            // A script has no answer for a turn that its author did not expect.
            ErrorCode::ModelFailed => self.is_scripted(),
            _ => false,
        };
        if !is_stuck {
            return end;
        }
        let (mut cause, mut turn) = (end, end.turn);
        for problem in calls().rev() {
            if problem.turn + 1 < turn {
                break;
            }
            (cause, turn) = (problem, problem.turn);
        }
        cause
    }

    /// Returns true if only scripts answered.
    pub(super) fn is_scripted(&self) -> bool {
        let prices = self.run.started().map(|started| &started.prices);
        let scripted =
            |model: &String| prices.and_then(|prices| prices.get(model)).is_some_and(|it| it.source == Price::SCRIPTED);
        !self.models.is_empty() && self.models.iter().all(scripted)
    }

    fn agent(&self, task: &TaskId) -> Option<AgentId> {
        self.run.task(task)?.agent().cloned()
    }

    /// Renders the failure as lines of at most `width` characters.
    pub(crate) fn failure_lines(&self, width: usize) -> Vec<Text> {
        let Some(failure) = self.failure() else { return Vec::new() };
        let who = |agent: &Option<AgentId>| agent.as_ref().map_or_else(|| "you".to_owned(), ToString::to_string);
        let turn = if failure.turn > 0 { format!(", turn {}", failure.turn) } else { String::new() };
        let tool = failure.tool.as_ref().map(|tool| format!(", {tool}")).unwrap_or_default();
        let mut lines = words::labelled(
            style::bad("cause"),
            &format!("{} ({}{turn}{tool}): {} ({})", who(&failure.agent), failure.task, failure.message, failure.code.as_str()),
            width,
        );
        // The message of one fault is the message of the error.
        let is_new = |field: &&Field| !field.pointer.is_empty() || !failure.message.contains(&field.message);
        for field in failure.fields.iter().take(SHOWN).filter(is_new) {
            let pointer = if field.pointer.is_empty() { "the whole value" } else { &field.pointer };
            lines.extend(words::labelled(text!("field"), &format!("{pointer}: {}", field.message), width));
        }
        if failure.fields.len() > SHOWN {
            let more = words::counted(failure.fields.len() - SHOWN, "more field");
            lines.extend(words::labelled(Text::default(), &format!("… {more}"), width));
        }
        if failure.times > 1 {
            lines.extend(words::labelled(
                text!("repeated"),
                &format!("{} times in this run", words::count(failure.times as u64)),
                width,
            ));
        }
        let hidden = failure.then.len().saturating_sub(SHOWN);
        for (index, effect) in failure.then.iter().enumerate() {
            // The first effects and the one of the root are shown.
            if index + 1 < failure.then.len() && index + 1 >= SHOWN {
                continue;
            }
            if hidden > 0 && index + 1 == failure.then.len() {
                lines.extend(words::labelled(Text::default(), &format!("… {}", words::counted(hidden, "more task")), width));
            }
            lines.extend(words::labelled(
                text!("then"),
                &format!("{} ({}): {}", who(&effect.agent), effect.task, effect.message),
                width,
            ));
        }
        lines.extend(words::commands(text!("look"), &[failure.command], width));
        lines
    }
}

/// Returns the fields in the detail of an error about a schema.
fn fields(detail: &Json) -> Vec<Field> {
    let detail = detail.value();
    let base = detail["pointer"].as_str().unwrap_or_default();
    let faults = detail["faults"].as_array().into_iter().flatten();
    let field = |fault: &Value| {
        let message = fault["message"].as_str()?.to_owned();
        Some(Field { pointer: format!("{base}{}", fault["pointer"].as_str().unwrap_or_default()), message })
    };
    faults.filter_map(field).collect()
}
