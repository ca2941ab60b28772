//! Agents of a job built in code.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_types::config::{
    Agent, AgentProgram, Approver, Catalog, Configuration, DEFAULT_MAX_OUTPUT_TOKENS, Invocation, Join, MasterRule, OnText,
    OpenTasks, Summary, Tool,
};
use baton_types::id::ToolId;
use baton_types::json::Json;
use baton_types::limits::Limits;
use baton_types::model::Offer;
use serde_json::{Value, json};

/// An agent in the making.
#[derive(Clone)]
pub struct AgentDraft {
    pub(super) id: String,
    pub(super) model: String,
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

    /// Joins the draft with the `tools` of its job that it was granted.
    pub(super) fn build(&self, tools: &BTreeMap<ToolId, Arc<Tool>>) -> Agent {
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
            limits: self.limits.or(&Limits::task_defaults()).into(),
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

/// Returns `tool` with the configuration `id`, whose only setting is its id.
fn configured(tool: &Tool, id: &str) -> Arc<Tool> {
    let configuration = Configuration { id: id.to_owned(), model_key: None, secret: None };
    Arc::new(Tool { settings: json!({"of": id}).into(), configuration: Some(configuration), ..tool.clone() })
}
