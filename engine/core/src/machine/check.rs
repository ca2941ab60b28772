//! Whether a call may begin (rule *arrive*): known, granted, readable, valid, within limits.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Draft, Task, agent, task_limits};
use crate::call::{CallError, ErrorCode, ModelCall};
use crate::config::{Schema, Tool};
use crate::document::DocumentRef;
use crate::entry::{Master, TaskKind};
use crate::id::TaskId;
use crate::json::Json;
use crate::limits::LimitKind;
use crate::path::DocumentPath;
use crate::tool_type::Then;

/// What an agent is told about a limit that refuses a call.
pub(super) fn limit_error(limit: LimitKind, allowed: impl Into<Value>) -> CallError {
    let allowed: Value = allowed.into();
    CallError::new(ErrorCode::LimitReached, format!("{limit} is reached: {allowed} allowed"))
        .with_detail(json!({"limit": limit, "allowed": allowed}))
}

impl Draft<'_> {
    /// Checks the call at `index` of the open turn of `id`. `earlier` calls of this turn will create tasks before it.
    pub(super) fn check_call(&self, id: &TaskId, index: usize, earlier: u32) -> Result<Arc<Tool>, CallError> {
        let configs = self.configs();
        let task = self.task(id);
        let open = task.open.as_ref().expect("calls are checked in an open turn");
        let asked = &open.calls[index].asked;
        // First, since whatever else a call is refused for, it counts.
        self.check_calls(task, index)?;
        let agent = agent(&configs, task.agent().expect("only agents make calls"));
        let callable = |tool: &Tool| tool.tool_type.behavior().then != Then::Enter;
        let answers_with = |tool: &Tool| tool.allowed_in_questions(agent.approvals.get(&tool.id).copied());
        let offered = |tool: &Tool| callable(tool) && (task.kind != TaskKind::Question || answers_with(tool));
        let Some(tool) = agent.tools.get(asked.tool.as_str()).filter(|tool| offered(tool)) else {
            let granted: Vec<&str> = agent.tools.values().filter(|tool| offered(tool)).map(|tool| tool.id.as_str()).collect();
            let message = format!("there is no tool {:?} for you", bounded(&asked.tool));
            return Err(CallError::new(ErrorCode::UnknownTool, message).with_detail(json!({"granted_tools": granted})));
        };
        let row = tool.tool_type.behavior();
        if let Some(limit) = task.last_turn
            && row.then != Then::Stop
        {
            let message = format!("{limit} is reached: in this last turn only a handoff is accepted");
            return Err(CallError::new(ErrorCode::LimitReached, message).with_detail(json!({"limit": limit})));
        }
        let input = readable(asked)?;
        if let Err(faults) = tool.input.check(&input) {
            return Err(invalid_input(tool, &faults));
        }
        if row.then == Then::Stop {
            check_result(task, agent.result_schema.as_ref(), &input)?;
        }
        if row.creates_task {
            self.check_creation(task, tool, &input, earlier)?;
        }
        self.check_repeats(task, asked)?;
        Ok(Arc::clone(tool))
    }

    /// Limits on new tasks. Asked when the turn arrives and again when the task is created.
    pub(super) fn check_creation(&self, task: &Task, tool: &Tool, input: &Value, earlier: u32) -> Result<(), CallError> {
        self.check_room(tool.agent.is_some() || task.master != Master::Person, earlier)?;
        if tool.agent.is_none() {
            return check_question(input);
        }
        let configs = self.configs();
        let own = task_limits(&configs, task);
        if let Some(allowed) = own.children.filter(|allowed| task.children + earlier >= *allowed) {
            return Err(limit_error(LimitKind::Children, allowed));
        }
        let depth = [configs.job.limits.depth, own.depth].into_iter().flatten().min();
        if let Some(allowed) = depth.filter(|allowed| task.depth >= *allowed) {
            return Err(limit_error(LimitKind::Depth, allowed));
        }
        Ok(())
    }

    /// Whether one more task may live, and ask its model if it `runs_model`, beside `earlier` ones that this turn creates.
    pub(super) fn check_room(&self, runs_model: bool, earlier: u32) -> Result<(), CallError> {
        let run = &self.run.configs().job.limits;
        let shared = &self.run.shared;
        if let Some(allowed) = run.live_tasks.filter(|allowed| shared.live_tasks + earlier >= *allowed) {
            return Err(limit_error(LimitKind::LiveTasks, allowed));
        }
        // A new task must have its last turn set aside, and the turns set aside for others must stay untouched.
        if let Some(allowed) =
            run.turns.filter(|allowed| runs_model && shared.turns + shared.live_agent_tasks + earlier >= *allowed)
        {
            return Err(limit_error(LimitKind::RunTurns, allowed));
        }
        Ok(())
    }

    /// Whether one more call fits the limits of the task and of the run. The calls of the turn that are yet to be checked,
    /// this one first, are already counted, handoffs apart.
    fn check_calls(&self, task: &Task, index: usize) -> Result<(), CallError> {
        let configs = self.configs();
        let (own, run) = (task_limits(&configs, task).calls, configs.job.limits.calls);
        let open = task.open.as_ref().expect("calls are checked in an open turn");
        if !super::apply::counts(open.calls[index].tool_type) || (own.is_none() && run.is_none()) {
            return Ok(());
        }
        let unchecked = open.calls.iter().skip(index).filter(|call| super::apply::counts(call.tool_type)).count();
        let unchecked = u32::try_from(unchecked).unwrap_or(u32::MAX);
        let of_run = self.run.shared.calls;
        let limits = [(LimitKind::Calls, own, task.calls), (LimitKind::RunCalls, run, of_run)];
        for (limit, allowed, made) in limits {
            if let Some(allowed) = allowed.filter(|allowed| made.saturating_sub(unchecked) >= *allowed) {
                return Err(limit_error(limit, allowed));
            }
        }
        Ok(())
    }

    /// The same tool with the same input gave the same result too often in a row.
    fn check_repeats(&self, task: &Task, asked: &ModelCall) -> Result<(), CallError> {
        let Some(allowed) = task_limits(&self.configs(), task).repeats else { return Ok(()) };
        let repeated = task.streak.as_ref().filter(|streak| streak.count >= allowed && streak.is_of(asked));
        match repeated {
            None => Ok(()),
            Some(streak) => {
                let message = format!(
                    "{} gave the same result for the same input {} times in a row; do something else",
                    asked.tool, streak.count
                );
                Err(CallError::new(ErrorCode::Repeated, message)
                    .with_detail(json!({"limit": "limits.repeats", "allowed": allowed})))
            }
        }
    }

    /// Resolves the documents attached to a call to their newest versions; a missing one is the call's error.
    pub(super) fn pin(&self, input: &Value) -> Result<Vec<DocumentRef>, CallError> {
        let documents = &self.run.shared.documents;
        let mut pinned: Vec<DocumentRef> = Vec::new();
        for path in input.get("documents").and_then(Value::as_array).into_iter().flatten() {
            let text = path.as_str().unwrap_or_default();
            let parsed =
                DocumentPath::parse(text).map_err(|error| CallError::new(ErrorCode::UnknownDocument, error.to_string()))?;
            let Some(version) = documents.head(&parsed) else {
                let known: Vec<&str> = documents.iter().map(|(path, _)| path.as_str()).take(50).collect();
                return Err(CallError::new(ErrorCode::UnknownDocument, format!("there is no document {parsed} to attach"))
                    .with_detail(json!({"path": parsed, "known_documents": known})));
            };
            let reference = DocumentRef { path: parsed, version };
            if !pinned.contains(&reference) {
                pinned.push(reference);
            }
        }
        Ok(pinned)
    }
}

/// A handoff's result must meet what the agent, or the question, promises.
fn check_result(task: &Task, promised: Option<&Schema>, input: &Value) -> Result<(), CallError> {
    let result = input.get("result").unwrap_or(&Value::Null);
    let checked = match &task.question {
        Some(question) if question.answer_schema.is_null() => Ok(()),
        Some(question) => match Schema::compile(&question.answer_schema.value()) {
            Ok(schema) => answer_in(&schema, result).map(|_| ()),
            Err(_) => Ok(()),
        },
        None => promised.map_or(Ok(()), |schema| schema.check(result)),
    };
    checked.map_err(|faults| {
        CallError::new(ErrorCode::InvalidInput, "the result does not meet the schema that is promised for it")
            .with_detail(json!({"pointer": "/result", "faults": faults}))
    })
}

/// An answer as the schema reads it: as it is, or the value under its key `answer`.
pub(super) fn answer_in<'v>(schema: &Schema, result: &'v Value) -> Result<&'v Value, Vec<crate::config::SchemaFault>> {
    match (schema.check(result), result.get("answer")) {
        (Ok(()), _) => Ok(result),
        (Err(faults), Some(inner)) => schema.check(inner).map(|()| inner).map_err(|_| faults),
        (Err(faults), None) => Err(faults),
    }
}

/// A question's own schema, and its default, must make sense before anybody is asked.
fn check_question(input: &Value) -> Result<(), CallError> {
    let refuse = |message: String| Err(CallError::new(ErrorCode::InvalidInput, message));
    let default = input.get("default_answer").filter(|value| !value.is_null());
    if let Some(schema) = input.get("answer_schema").filter(|schema| !schema.is_null()) {
        let compiled = match Schema::compile(schema) {
            Ok(compiled) => compiled,
            Err(error) => return refuse(format!("answer_schema is not a JSON Schema: {error}")),
        };
        if default.is_some_and(|default| compiled.check(default).is_err()) {
            return refuse("default_answer does not meet answer_schema".to_owned());
        }
    }
    let on_deadline = input.get("on_deadline").and_then(Value::as_str);
    if on_deadline == Some("default") && default.is_none() {
        return refuse("on_deadline is \"default\", but there is no default_answer".to_owned());
    }
    Ok(())
}

/// The input as a tree, or the error that says why the model's text is none.
fn readable(asked: &ModelCall) -> Result<Value, CallError> {
    match &asked.malformed {
        None => Ok(asked.input.value()),
        Some(reason) => Err(CallError::new(ErrorCode::MalformedInput, format!("the arguments are not JSON: {reason}"))
            .with_detail(json!({"received": asked.input.value()}))),
    }
}

/// The error for an input that breaks the tool's schema: what was expected, what was found, and an example that holds.
fn invalid_input(tool: &Tool, faults: &[crate::config::SchemaFault]) -> CallError {
    let first = faults.first().map(|fault| fault.message.clone()).unwrap_or_default();
    let mut detail = json!({"faults": faults});
    if let Some(example) = tool.examples.first() {
        detail["valid_example"] = example.input.clone();
    }
    CallError::new(ErrorCode::InvalidInput, format!("the input of {} is invalid: {}", tool.id, bounded(&first)))
        .with_detail(detail)
}

/// At most 200 characters of `text`: what a model said may be very long.
pub(super) fn bounded(text: &str) -> String {
    if text.chars().count() <= 200 { text.to_owned() } else { text.chars().take(200).chain(['…']).collect() }
}

/// The text of a delegation: its `request`, then whatever else the tool's config lets the caller say.
pub(super) fn request_text(input: &Value) -> String {
    let request = input.get("request").or_else(|| input.get("question")).and_then(Value::as_str).unwrap_or_default();
    let rest: serde_json::Map<String, Value> = input
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| !matches!(key.as_str(), "request" | "documents"))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if rest.is_empty() || input.get("question").is_some() {
        request.to_owned()
    } else {
        format!("{request}\n\n{}", Json::from(Value::Object(rest)).text())
    }
}
