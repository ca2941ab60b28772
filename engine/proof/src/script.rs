//! Scripts of models and tools.

use std::collections::BTreeMap;

use baton_types::call::{AfterExecution, CallError, ErrorCode, ModelCall};
use baton_types::document::{ContentFacts, Write};
use baton_types::event::Outcome;
use baton_types::id::{AgentId, CallId, ContentHash, TaskId, ToolId};
use baton_types::json::Json;
use baton_types::model::{FinishReason, ModelRequest, ModelTurn};
use baton_types::path::DocumentPath;
use serde_json::{Value, json};

/// A model's request.
pub struct Prompted<'a> {
    /// Its task.
    pub task: &'a TaskId,
    /// Which of its turns.
    pub turn: u32,
    /// The request.
    pub request: &'a ModelRequest,
    /// The tokens that were reserved for the answer and its request.
    pub reserved: u64,
    /// The tokens that the request was estimated at.
    pub input: u64,
}

/// A call for an executor.
#[derive(Clone, Debug, PartialEq)]
pub struct Execution {
    /// The task whose agent called.
    pub task: TaskId,
    /// The agent that called.
    pub agent: AgentId,
    /// The call, which is also its idempotency key.
    pub call: CallId,
    /// Its tool.
    pub tool: ToolId,
    /// The input, which meets the tool's schema.
    pub input: Json,
}

/// A model's answer, or none.
pub type Answer = Result<ModelTurn, CallError>;
type Model = Box<dyn FnMut(&Prompted<'_>) -> Answer>;
type Executor = Box<dyn FnMut(&Execution) -> Outcome>;

/// Models by agent and by whether the task is a question, executors by tool.
#[derive(Default)]
pub struct Script {
    turns: BTreeMap<String, Model>,
    answers: BTreeMap<String, Model>,
    tools: BTreeMap<String, Executor>,
}

impl Script {
    /// `model` answers for `agent`, in the questions it answers or in its own tasks.
    pub fn model(&mut self, agent: &str, in_questions: bool, model: impl FnMut(&Prompted<'_>) -> Answer + 'static) {
        let table = if in_questions { &mut self.answers } else { &mut self.turns };
        table.insert(agent.to_owned(), Box::new(model));
    }

    /// `executor` runs the calls of `tool`.
    pub fn executor(&mut self, tool: &str, executor: impl FnMut(&Execution) -> Outcome + 'static) {
        self.tools.insert(tool.to_owned(), Box::new(executor));
    }

    /// Returns the answer of the prompted agent's model.
    pub fn answer(&mut self, prompted: &Prompted<'_>) -> Answer {
        let agent = prompted.request.agent.as_str();
        let table = if prompted.request.is_question { &mut self.answers } else { &mut self.turns };
        let model = table.get_mut(agent).unwrap_or_else(|| panic!("no script for {agent}, asked for {}", prompted.task));
        model(prompted)
    }

    /// Executes a call of a tool without an executor of its own: it succeeds with its call's id, so that no two
    /// results are alike.
    pub fn execute(&mut self, execution: &Execution) -> Outcome {
        match self.tools.get_mut(execution.tool.as_str()) {
            Some(executor) => executor(execution),
            None => Outcome::success(json!(execution.call.as_str())),
        }
    }
}

/// Returns a model that gives `turns`, one after the other, in every task.
pub fn table(agent: &str, turns: Vec<ModelTurn>) -> impl FnMut(&Prompted<'_>) -> Answer + 'static {
    let agent = agent.to_owned();
    move |prompted| {
        let turn = turns.get(prompted.turn as usize - 1);
        Ok(turn.unwrap_or_else(|| panic!("{agent} has no turn {} for task {}", prompted.turn, prompted.task)).clone())
    }
}

/// Returns a turn that makes `calls`.
pub fn turn(calls: impl IntoIterator<Item = ModelCall>) -> ModelTurn {
    ModelTurn::calls(calls.into_iter().collect())
}

/// Returns a turn with `text`.
pub fn says(text: &str) -> ModelTurn {
    ModelTurn::text(text)
}

/// Returns a turn that stopped for `finish`.
pub fn stopped(turn: ModelTurn, finish: FinishReason) -> ModelTurn {
    ModelTurn { finish, ..turn }
}

/// Returns a call of `tool` with an input that differs from every other marked differently.
pub fn call(tool: &str, mark: &str) -> ModelCall {
    ModelCall::new(tool, json!({"x": mark}))
}

/// Returns a call of `tool` with `input`.
pub fn call_with(tool: &str, input: Value) -> ModelCall {
    ModelCall::new(tool, input)
}

/// Returns a delegation of `request` to `agent`.
pub fn route(agent: &str, request: &str) -> ModelCall {
    ModelCall::new(format!("route_to_{agent}"), json!({"request": request}))
}

/// Returns a delegation that attaches `documents`.
pub fn route_with(agent: &str, request: &str, documents: &[&str]) -> ModelCall {
    ModelCall::new(format!("route_to_{agent}"), json!({"request": request, "documents": documents}))
}

/// Returns a question to the master.
pub fn ask(question: &str) -> ModelCall {
    ModelCall::new("ask_master", json!({"question": question}))
}

/// Returns a handoff of `result`.
pub fn handoff(result: impl Into<Value>) -> ModelCall {
    ModelCall::new("handoff", json!({"result": result.into()}))
}

/// Returns a handoff that attaches `documents`.
pub fn handoff_with(result: impl Into<Value>, documents: &[&str]) -> ModelCall {
    ModelCall::new("handoff", json!({"result": result.into(), "documents": documents}))
}

/// Returns `call` with the id that its model gives it.
pub fn with_id(id: &str, call: ModelCall) -> ModelCall {
    ModelCall { provider_id: Some(id.into()), ..call }
}

/// `call`, its result going to the user.
pub fn to_user(call: ModelCall) -> ModelCall {
    ModelCall { return_to_llm: Some(false), ..call }
}

/// Lets the call use a configuration of its tool.
pub fn configured(config_id: &str, call: ModelCall) -> ModelCall {
    ModelCall { config_id: Some(config_id.into()), ..call }
}

/// `call`, asking for `after` itself.
pub fn then(call: ModelCall, after: AfterExecution) -> ModelCall {
    ModelCall { after_execution: Some(after), ..call }
}

/// Returns a call whose arguments are no JSON.
pub fn malformed(tool: &str) -> ModelCall {
    ModelCall { malformed: Some("expected value at line 1 column 2".into()), ..ModelCall::new(tool, json!("{x")) }
}

/// Returns an error as an executor or a model reports it.
pub fn error(code: ErrorCode) -> CallError {
    CallError::new(code, "it went wrong")
}

/// Returns a write of `text` to `path`.
pub fn write(path: &str, text: &str) -> Write {
    Write { path: document_path(path), content: facts(text), description: None, tags: None }
}

/// `path` as documents have it.
pub fn document_path(path: &str) -> DocumentPath {
    DocumentPath::parse(path).expect("the path of a test is good")
}

/// Returns the facts that the shell would measure of `text`.
pub fn facts(text: &str) -> ContentFacts {
    ContentFacts {
        hash: ContentHash::of(text.as_bytes()),
        size_bytes: text.len() as u64,
        mime_type: "text/plain".to_owned(),
        token_count: baton_types::estimate::text_tokens(text.len() as u64),
        summary: text.chars().take(20).collect(),
    }
}

/// Returns a success that writes.
pub fn writes(output: Value, writes: Vec<Write>) -> Outcome {
    Outcome { writes, ..Outcome::success(output) }
}
