//! Tools of a job built in code, and those that every job has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use baton_types::call::AfterExecution;
use baton_types::config::{
    Accept, Acceptor, Approver, Arguments, CalleeContext, EffectClass, ExecSpec, Executor, OnFailure, OnUnknownOutcome,
    ServiceSpec, TaskAction, Tool,
};
use baton_types::id::{AgentId, ToolId};
use baton_types::json::Json;
use baton_types::limits::Limits;
use baton_types::model::ToolDefinition;
use baton_types::tool_type::ToolType;
use serde_json::{Value, json};

/// A tool in the making.
#[derive(Clone)]
pub struct ToolDraft {
    pub(super) id: String,
    tool_type: ToolType,
    input: Value,
    output: Option<Value>,
    effect: EffectClass,
    writes: bool,
    after: Option<AfterExecution>,
    agent: Option<String>,
    limits: Limits,
    context: CalleeContext,
    background: bool,
    follow_up: bool,
    on_failure: OnFailure,
    accept: Option<Accept>,
    approval: Option<Approver>,
    on_unknown_outcome: OnUnknownOutcome,
    describes_tools: bool,
    manages_tasks: Option<TaskAction>,
    suspends: bool,
    is_served: bool,
    suspend_timeout: Option<Duration>,
    arguments: Arguments,
    calls: Vec<String>,
}

/// Returns a tool of `tool_type` whose input is an object with an optional string `x`.
pub fn tool(id: &str, tool_type: ToolType) -> ToolDraft {
    ToolDraft {
        id: id.to_owned(),
        tool_type,
        input: json!({"type": "object", "properties": {"x": {"type": "string"}}}),
        output: None,
        effect: EffectClass::Idempotent,
        writes: false,
        after: None,
        agent: None,
        limits: Limits::default(),
        context: CalleeContext::default(),
        background: false,
        follow_up: false,
        on_failure: OnFailure::Return,
        accept: None,
        approval: None,
        on_unknown_outcome: OnUnknownOutcome::Return,
        describes_tools: false,
        manages_tasks: None,
        suspends: false,
        is_served: false,
        suspend_timeout: None,
        arguments: Arguments::default(),
        calls: Vec::new(),
    }
}

/// Returns a function tool that does not write.
pub fn function(id: &str) -> ToolDraft {
    tool(id, ToolType::FunctionTool)
}

/// Returns a tool that only logs its input.
pub fn note(id: &str) -> ToolDraft {
    tool(id, ToolType::NonFunctionTool)
}

impl ToolDraft {
    /// Requires approval for every call.
    pub fn approved_by(mut self, approver: Approver) -> Self {
        self.approval = Some(approver);
        self
    }

    /// Asks the master after a crash what became of a call.
    pub fn asks_what_became_of_it(mut self) -> Self {
        self.on_unknown_outcome = OnUnknownOutcome::Ask;
        self
    }

    /// Lets the tasks that it delegates begin with the conversation of the caller.
    pub fn forks_context(mut self) -> Self {
        self.context = CalleeContext::Fork;
        self
    }

    /// Sets what happens when a task that it delegated fails.
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Requires that `by` accepts the results of its tasks, which end after `rounds` refusals.
    pub fn accepted_by(mut self, by: Acceptor, rounds: u32) -> Self {
        self.accept = Some(Accept { by, rounds });
        self
    }

    /// Lets it describe other tools of an agent, which its input `tools` names.
    pub fn describing(mut self) -> Self {
        self.input = json!({"type": "object", "properties": {"tools": {"type": "array", "items": {"type": "string"}}}});
        self.describes_tools = true;
        self
    }

    /// Lets its calls delegate without waiting: their input has `wait`.
    pub fn in_background(mut self) -> Self {
        self.input["properties"]["wait"] = json!({"type": "boolean"});
        self.background = true;
        self
    }

    /// Lets its calls continue the conversations of earlier tasks: their input has `continues`.
    pub fn follows_up(mut self) -> Self {
        self.input["properties"]["continues"] = json!({"type": "string"});
        self.follow_up = true;
        self
    }

    /// Lets its calls manage the tasks below the calling one.
    pub fn manages(mut self, action: TaskAction) -> Self {
        self.input = json!({"type": "object", "properties": {
            "task": {"type": "string"}, "tasks": {"type": "array", "items": {"type": "string"}},
            "until": {"enum": ["all", "any"]}, "message": {"type": "string"}, "reason": {"type": "string"},
        }});
        self.manages_tasks = Some(action);
        self
    }

    /// Lets its code end before its result is there.
    pub fn suspending(mut self) -> Self {
        self.suspends = true;
        self
    }

    /// Lets a tool service execute its calls.
    pub fn served(mut self) -> Self {
        (self.suspends, self.is_served) = (true, true);
        self
    }

    /// Ends its suspended calls after `time`.
    pub fn suspended_for(mut self, time: Duration) -> Self {
        self.suspend_timeout = Some(time);
        self
    }

    /// Adds values to the input of each call.
    pub fn arguments(mut self, arguments: Arguments) -> Self {
        self.arguments = arguments;
        self
    }

    /// Lets its code call these tools; `*` for every tool that the calling agent was granted.
    pub fn calls(mut self, tools: &[&str]) -> Self {
        self.calls = tools.iter().map(|tool| (*tool).to_owned()).collect();
        self
    }

    /// Allows it to write documents.
    pub fn writing(mut self) -> Self {
        self.writes = true;
        self
    }

    /// Sets its effect class: what a crash may do to its calls.
    pub fn effect(mut self, effect: EffectClass) -> Self {
        self.effect = effect;
        self
    }

    /// Sets what happens after a call.
    pub fn after(mut self, after: AfterExecution) -> Self {
        self.after = Some(after);
        self
    }

    /// Sets the schema of its output.
    pub fn output(mut self, schema: Value) -> Self {
        self.output = Some(schema);
        self
    }

    /// Sets the schema of its input.
    pub fn input(mut self, schema: Value) -> Self {
        self.input = schema;
        self
    }

    /// Sets the limits of the tasks that a call of it creates.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns a `route_to_` tool that replaces the derived one, with limits for the tasks it creates.
    pub fn route(agent: &str) -> Self {
        let mut draft = tool(&format!("route_to_{agent}"), ToolType::AgentAsTool);
        draft.input = request_schema("request");
        draft.agent = Some(agent.to_owned());
        draft
    }

    fn executor(&self) -> Executor {
        if self.is_served {
            let target_subject = format!("cg.v1r3.default.main.cmd.tool.{}", self.id);
            return Executor::Service(ServiceSpec { target_subject });
        }
        Executor::Exec(ExecSpec { command: vec![self.id.clone()], env: Vec::new(), files: BTreeMap::new(), above: 0 })
    }

    pub(super) fn build(&self) -> Arc<Tool> {
        let id = ToolId::from(self.id.as_str());
        let input = baton_schema::compile(&self.input).expect("the input schema of a test compiles");
        let definition = Arc::new(ToolDefinition {
            id: id.clone(),
            name: None,
            description: format!("What {} does.", self.id),
            input_schema: input.json().clone(),
        });
        Arc::new(Tool {
            tool_type: self.tool_type,
            title: None,
            description: definition.description.clone(),
            summary: None,
            input,
            output: self
                .output
                .as_ref()
                .map(|schema| baton_schema::compile(schema).expect("the output schema of a test compiles")),
            effect: self.effect,
            writes: self.writes,
            after: self.after,
            controls_flow: false,
            suspends: self.suspends,
            suspend_timeout: self.suspend_timeout,
            arguments: self.arguments.clone(),
            calls: self.calls.clone(),
            describes_tools: self.describes_tools,
            manages_tasks: self.manages_tasks,
            runs_programs: false,
            timeout: Duration::from_mins(1),
            idle: None,
            agent: self.agent.as_deref().map(AgentId::from),
            limits: self.limits.clone(),
            context: self.context,
            background: self.background,
            follow_up: self.follow_up,
            on_failure: self.on_failure,
            accept: self.accept.clone(),
            approval: self.approval,
            on_unknown_outcome: self.on_unknown_outcome,
            changes: None,
            executor: self.tool_type.behavior().runs_code.then(|| self.executor()),
            examples: Vec::new(),
            category: None,
            tags: Vec::new(),
            settings: Json::from(json!({})),
            secrets: Vec::new(),
            takes_config_id: self.input.pointer("/properties/config_id").is_some(),
            configuration: None,
            reaches: Vec::new(),
            source: None,
            definition,
            id,
        })
    }
}

/// Returns the tools that every job has.
pub(super) fn flow_tools() -> Vec<ToolDraft> {
    let mut handoff = tool("handoff", ToolType::Handoff);
    handoff.input = json!({
        "type": "object",
        "properties": {"result": {}, "documents": {"type": "array", "items": {"type": "string"}}},
        "required": ["result"],
        "additionalProperties": false,
    });
    let mut ask = tool("ask_master", ToolType::AskMaster);
    ask.input = json!({
        "type": "object",
        "properties": {
            "question": {"type": "string"},
            "documents": {"type": "array", "items": {"type": "string"}},
            "answer_schema": {"type": "object"},
            "deadline_seconds": {"type": "integer", "minimum": 1},
            "on_deadline": {"enum": ["default", "escalate", "fail"]},
            "default_answer": {},
        },
        "required": ["question"],
        "additionalProperties": false,
    });
    vec![handoff, ask]
}

/// Returns the input of a delegation or a question: a text under `key`, and documents.
fn request_schema(key: &str) -> Value {
    json!({
        "type": "object",
        "properties": {
            key: {"type": "string"},
            "documents": {"type": "array", "items": {"type": "string"}},
        },
        "required": [key],
        "additionalProperties": false,
    })
}
