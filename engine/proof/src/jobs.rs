//! Jobs built in code: what the loader would hand over, without files.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use baton_types::call::AfterExecution;
use baton_types::config::{
    Accept, Acceptor, Agent, AgentProgram, Approver, Arguments, CalleeContext, Catalog, Configs, Configuration,
    DEFAULT_MAX_OUTPUT_TOKENS, EffectClass, ExecSpec, Executor, Invocation, Job, Join, MasterRule, Modalities, ModelSpec,
    OnFailure, OnText, OnUnknownOutcome, OpenTasks, ProvidedModel, ServiceSpec, Summary, TaskAction, Tool,
};
use baton_types::id::{AgentId, ToolId};
use baton_types::json::Json;
use baton_types::limits::{Limits, SessionLimits};
use baton_types::model::{Offer, ToolDefinition};
use baton_types::money::Price;
use baton_types::tool_type::ToolType;
use serde_json::{Value, json};

/// A job in the making. Every agent gets a `route_to_` tool; `handoff` and `ask_master` are always there.
pub struct JobDraft {
    agents: Vec<AgentDraft>,
    tools: Vec<ToolDraft>,
    limits: Limits,
    session_limits: SessionLimits,
    prices: BTreeMap<String, Price>,
    fallbacks: BTreeMap<String, Vec<String>>,
    modalities: BTreeMap<String, Modalities>,
    built: OnceCell<Arc<Configs>>,
}

/// An agent in the making.
#[derive(Clone)]
pub struct AgentDraft {
    id: String,
    model: String,
    tools: Vec<String>,
    catalog: Catalog,
    on_text: OnText,
    master: MasterRule,
    join: Join,
    open_tasks: OpenTasks,
    tell_limits: bool,
    summary: Summary,
    approvals: BTreeMap<ToolId, Approver>,
    configurations: BTreeMap<String, String>,
    result_schema: Option<Value>,
    limits: Limits,
    system_prompt: String,
    settings: Value,
    invocation: Invocation,
    is_program: bool,
}

/// A tool in the making.
#[derive(Clone)]
pub struct ToolDraft {
    id: String,
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

/// Returns a job whose first agent is the root's.
pub fn job(agents: impl IntoIterator<Item = AgentDraft>) -> JobDraft {
    JobDraft {
        agents: agents.into_iter().collect(),
        tools: Vec::new(),
        limits: Limits::default(),
        session_limits: SessionLimits::default(),
        prices: BTreeMap::new(),
        fallbacks: BTreeMap::new(),
        modalities: BTreeMap::new(),
        built: OnceCell::new(),
    }
}

/// Returns an agent that was granted `tools`, separated by spaces, besides `handoff`.
pub fn agent(id: &str, tools: &str) -> AgentDraft {
    AgentDraft {
        id: id.to_owned(),
        model: "script".to_owned(),
        tools: tools.split_whitespace().chain(["handoff"]).map(str::to_owned).collect(),
        catalog: Catalog::Full,
        on_text: OnText::Handoff,
        master: MasterRule::Caller,
        join: Join::All,
        open_tasks: OpenTasks::Wait,
        tell_limits: false,
        summary: Summary::Digest,
        approvals: BTreeMap::new(),
        configurations: BTreeMap::new(),
        result_schema: None,
        limits: Limits::default(),
        system_prompt: format!("You are {id}."),
        settings: Value::Null,
        invocation: Invocation::Native,
        is_program: false,
    }
}

impl AgentDraft {
    /// Sets the name of its model; the default is `script`.
    pub fn model(mut self, model: &str) -> Self {
        model.clone_into(&mut self.model);
        self
    }

    /// Lets it discover its tools: its requests offer a tool once it was described.
    pub fn discovers(mut self) -> Self {
        self.catalog = Catalog::Discover;
        self
    }

    /// Sets its system prompt; the default is `You are <id>.`.
    pub fn prompt(mut self, prompt: &str) -> Self {
        prompt.clone_into(&mut self.system_prompt);
        self
    }

    /// Lets its model call tools in its text, so that the ids of its calls are requests.
    pub fn universal(mut self) -> Self {
        self.invocation = Invocation::Universal;
        self
    }

    /// Lets a program work in place of its model. The script gives its turns all the same.
    pub fn works_by_program(mut self) -> Self {
        self.is_program = true;
        self
    }

    /// Requires approval for its calls of `tool`.
    pub fn needs_approval(mut self, tool: &str, approver: Approver) -> Self {
        self.approvals.insert(ToolId::from(tool), approver);
        self
    }

    /// Grants the configuration `id` of `tool`.
    pub fn configures(mut self, tool: &str, id: &str) -> Self {
        self.configurations.insert(id.to_owned(), tool.to_owned());
        self
    }

    /// Sets the join policy of its turns.
    pub fn join(mut self, join: Join) -> Self {
        self.join = join;
        self
    }

    /// Lets its tasks end before their background tasks, which are cancelled.
    pub fn cancels_open_tasks(mut self) -> Self {
        self.open_tasks = OpenTasks::Cancel;
        self
    }

    /// Lets its requests end with what is left of its limits.
    pub fn tells_limits(mut self) -> Self {
        self.tell_limits = true;
        self
    }

    /// Lets its model write the summary of older turns.
    pub fn summarises(mut self) -> Self {
        self.summary = Summary::Model;
        self
    }

    /// Reminds the agent to use a tool after a turn of text alone, instead of taking the text as result.
    pub fn reminded_on_text(mut self) -> Self {
        self.on_text = OnText::Remind;
        self
    }

    /// Sends its questions to a person, whatever task called it.
    pub fn asks_a_person(mut self) -> Self {
        self.master = MasterRule::Person;
        self
    }

    /// Sets the schema of its result.
    pub fn result_schema(mut self, schema: Value) -> Self {
        self.result_schema = Some(schema);
        self
    }

    /// Sets the limits of each of its tasks.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the settings of its requests; `max_tokens` bounds its turns.
    pub fn settings(mut self, settings: Value) -> Self {
        self.settings = settings;
        self
    }
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

    /// Limits of the tasks that a call of it creates.
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

    fn build(&self) -> Arc<Tool> {
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

/// Returns `tool` with the configuration `id`, whose only setting is its id.
fn configured(tool: &Tool, id: &str) -> Arc<Tool> {
    let configuration = Configuration { id: id.to_owned(), model_key: None, secret: None };
    Arc::new(Tool { settings: json!({"of": id}).into(), configuration: Some(configuration), ..tool.clone() })
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

/// Returns the tools that every job has.
fn flow_tools() -> Vec<ToolDraft> {
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

impl JobDraft {
    /// Adds a tool; agents must have been granted it.
    pub fn tool(mut self, tool: ToolDraft) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds tools.
    pub fn tools(mut self, tools: impl IntoIterator<Item = ToolDraft>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Limits of the run.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Limits of a run and of those that it continues, together.
    pub fn session_limits(mut self, limits: SessionLimits) -> Self {
        self.session_limits = limits;
        self
    }

    /// Sets the price of the model named `model` (default: free).
    pub fn price(mut self, model: &str, price: Price) -> Self {
        self.prices.insert(model.to_owned(), price);
        self
    }

    /// Returns the models that are asked in place of the one named `model`, one after the other, when it is not available.
    pub fn fallbacks(mut self, model: &str, fallbacks: &[&str]) -> Self {
        self.fallbacks.insert(model.to_owned(), fallbacks.iter().map(|&name| name.to_owned()).collect());
        self
    }

    /// Sets the documents that the model named `model` takes besides text.
    pub fn takes(mut self, model: &str, images: bool, files: bool) -> Self {
        self.modalities.insert(model.to_owned(), Modalities { images: Some(images), files: Some(files) });
        self
    }

    /// Joins the drafts as the loader would, once.
    pub fn build(&self) -> Arc<Configs> {
        Arc::clone(self.built.get_or_init(|| self.join()))
    }

    fn join(&self) -> Arc<Configs> {
        let derived = self.agents.iter().map(|agent| ToolDraft::route(&agent.id));
        let mut tools: BTreeMap<ToolId, Arc<Tool>> = BTreeMap::new();
        for draft in flow_tools().into_iter().chain(derived).chain(self.tools.iter().cloned()) {
            tools.insert(ToolId::from(draft.id.as_str()), draft.build());
        }
        let agents = self.agents.iter().map(|draft| {
            let agent = Arc::new(draft.build(&tools));
            (agent.id.clone(), agent)
        });
        Arc::new(Configs {
            job: Job {
                id: "test".into(),
                description: String::new(),
                root: self.agents[0].id.as_str().into(),
                request: "go".to_owned(),
                inputs: BTreeMap::new(),
                documents: Vec::new(),
                models: self.models().map(|name| (name.clone(), self.model(name))).collect(),
                providers: BTreeMap::new(),
                provider_names: BTreeSet::new(),
                media: BTreeMap::new(),
                own_prices: BTreeMap::new(),
                embeddings: None,
                summary_model: None,
                outage: None,
                limits: self.limits.or(&Limits::run_defaults()),
                session_limits: self.session_limits.clone(),
            },
            agents: agents.collect(),
            tools,
            money_limits: Vec::new(),
            compile_schema: baton_schema::compile,
        })
    }

    fn models(&self) -> impl Iterator<Item = &String> {
        self.agents.iter().map(|agent| &agent.model).chain(self.fallbacks.values().flatten())
    }

    /// Returns the specification of a model. One without fallbacks follows a script, which has no effect here: the
    /// shell supplies the answers.
    fn model(&self, name: &str) -> ModelSpec {
        let price = self.prices.get(name).cloned();
        let (fallbacks, modalities) = (self.fallbacks.get(name), self.modalities.get(name));
        if fallbacks.is_some() || modalities.is_some() {
            let (provider, model) = ("acme".to_owned(), name.to_owned());
            let price = price.or_else(|| Some(Price::scripted()));
            return ModelSpec::Provided(ProvidedModel {
                provider,
                model,
                price,
                fallbacks: fallbacks.cloned().unwrap_or_default(),
                modalities: modalities.copied().unwrap_or_default(),
                ..ProvidedModel::default()
            });
        }
        ModelSpec::Scripted { file: format!("{name}.json"), text: "{}".into(), price }
    }
}

impl AgentDraft {
    fn build(&self, tools: &BTreeMap<ToolId, Arc<Tool>>) -> Agent {
        let granted: BTreeMap<ToolId, Arc<Tool>> = self
            .tools
            .iter()
            .map(|id| tools.get(id.as_str()).unwrap_or_else(|| panic!("agent {} names the unknown tool {id}", self.id)))
            .map(|tool| (tool.id.clone(), Arc::clone(tool)))
            .collect();
        let agent = Agent {
            invocation: self.invocation,
            catalog: self.catalog,
            id: self.id.as_str().into(),
            description: format!("{} works.", self.id),
            model: self.model.clone(),
            system_prompt: self.system_prompt.clone(),
            program: self.is_program.then(|| AgentProgram {
                file: format!("{}.py", self.id),
                source: "".into(),
                tool: ToolId::from("run_program"),
            }),
            on_text: self.on_text,
            master: self.master,
            join: self.join,
            open_tasks: self.open_tasks,
            tell_limits: self.tell_limits,
            summary: self.summary,
            approvals: self.approvals.clone(),
            configurations: self
                .configurations
                .iter()
                .map(|(id, tool)| (id.clone(), configured(&granted[tool.as_str()], id)))
                .collect(),
            result_schema: self
                .result_schema
                .as_ref()
                .map(|schema| baton_schema::compile(schema).expect("the result schema of a test compiles")),
            limits: self.limits.or(&Limits::task_defaults()),
            settings: Json::from(&self.settings),
            max_output_tokens: self.settings["max_tokens"].as_u64().unwrap_or(DEFAULT_MAX_OUTPUT_TOKENS),
            sets_output_limit: self.settings["max_tokens"].is_u64(),
            offered: Offer::default(),
            offered_in_questions: Offer::default(),
            offered_last: Offer::default(),
            offered_last_in_questions: Offer::default(),
            tools: granted,
        };
        agent.offering(|_, _| None)
    }
}
