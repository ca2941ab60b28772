//! Agents: prompts and models found, tools granted, definitions in the order that models are shown them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_types::config::{
    Agent, AgentProgram, Approver, Catalog, Job, ModelSpec, MoneyHolder, OnText, PROGRAM_MODEL, Tool, output_tokens,
};
use baton_types::id::{AgentId, ContentHash, ToolId};
use baton_types::json::Json;
use baton_types::limits::Limits;
use baton_types::model::{Invocation, Offer, ToolDefinition};
use baton_types::path::DocumentPath;
use baton_types::principal::RESERVED_AGENT_IDS;
use baton_types::schema::Schema;
use baton_types::tool_type::ToolType;
use serde_json::{Map, Value, json};

use crate::configuration::naming;
use crate::fault::{Fault, FaultKind};
use crate::form::{AgentForm, FullGrantForm, GrantForm, PromptForm, SelectorForm};
use crate::handoff::{can_match, with_result_schema};
use crate::loader::{Loader, Read, ReadAgent};
use crate::models::unknown_provider;
use crate::price::money_limit;
use crate::reader::{Spot, Text, pointer};
use crate::shape::show;
use crate::source::Role;
use crate::template;
use crate::template::{Scope, TemplateFault};
use crate::tool::keys::{may_need_approval, unapprovable};

/// The most tokens that an answer may be allowed, so that sums of reservations stay far from where numbers end.
const MAX_OUTPUT_TOKENS: u64 = 1_000_000_000;

impl<'s> Loader<'s> {
    /// Joins the agents with their prompts, models and tools. Without a job, faults that depend on it are not reported
    /// again. Neither are they for an agent of the project that the job does not use: it is no agent of the job.
    pub(crate) fn load_agents(&mut self, job: Option<&Job>) -> BTreeMap<AgentId, Arc<Agent>> {
        let used = self.used_agents(job);
        let read = std::mem::take(&mut self.agents);
        let mut agents = BTreeMap::new();
        for (id, agent) in &read {
            let Some(form) = &agent.form else { continue };
            let (is_used, money_limits) = (used.contains(id), self.money_limits.len());
            let loaded = self.load_agent(form, agent, job.filter(|_| is_used));
            if !is_used {
                self.money_limits.truncate(money_limits);
            } else if let Some(agent) = loaded {
                agents.insert(AgentId::new(id.as_str()), Arc::new(agent));
            }
        }
        self.agents = read;
        agents
    }

    /// Returns the ids of the job's own agents, and of those of the project that they or the root may lead to.
    fn used_agents(&self, job: Option<&Job>) -> BTreeSet<String> {
        let own = self.agents.iter().filter(|(_, agent)| !agent.is_shared()).map(|(id, _)| id.as_str());
        let mut open: Vec<&str> = own.chain(job.map(|job| job.root.as_str())).collect();
        let mut used = BTreeSet::new();
        while let Some(id) = open.pop() {
            if !used.insert(id.to_owned()) {
                continue;
            }
            let grants = self.agents.get(id).and_then(|agent| agent.form.as_ref()).into_iter().flat_map(|form| &form.tools);
            let tools = grants.flat_map(|grant| self.named_by(grant));
            open.extend(tools.filter_map(|tool| Some(tool.agent.as_ref()?.as_str())));
        }
        used
    }

    fn load_agent(&mut self, form: &AgentForm, agent: &ReadAgent<'s>, job: Option<&Job>) -> Option<Agent> {
        if RESERVED_AGENT_IDS.contains(&form.agent_id.as_str()) {
            let id = &form.agent_id;
            let message =
                format!("the agent id \"{id}\" is reserved: Baton shows a person, the engine or a part of a run by that name");
            let fault = agent.text("/agent_id").fault(FaultKind::ReservedName, "/agent_id", Spot::Value, message);
            self.faults
                .push(fault.expected(format!("another id, such as \"{id}_agent\", here and wherever this agent is named")));
        }
        let (mut tools, approvals) = self.granted(form, agent.text("/tools"));
        let own = self.own_program(form, agent, &tools);
        let (model, system_prompt) = match &form.program {
            Some(_) => (PROGRAM_MODEL, Some(String::new())),
            None => (self.model_of(form, agent), self.prompt(form, agent, job)),
        };
        if let Some(AgentProgram { tool, .. }) = &own
            && let Some(tool) = self.tools.get(tool)
        {
            tools.insert(tool.id.clone(), Arc::clone(tool));
        }
        let invocation = form.invocation.or_else(|| job?.invocation(model)).unwrap_or_default();
        let configurations = self.granted_configurations(form, invocation, &tools, agent.text("/configs"));
        tools = naming(tools, &configurations);
        let catalog = form.catalog.unwrap_or_else(|| Catalog::of(invocation));
        if catalog == Catalog::Prompt && invocation == Invocation::Native {
            let text = agent.text("/catalog");
            let message = "the catalog \"prompt\" explains calls by JSON in a text, but the agent is native";
            let fault = text.fault(FaultKind::MisplacedKey, "/catalog", Spot::Value, message);
            self.faults.push(fault.expected("\"invocation\": \"universal\" in the agent, or another catalog"));
        }
        if catalog != Catalog::Full && tools.values().any(|tool| !tool.is_known_at_once()) {
            let describing = self.tools.values().filter(|tool| tool.describes_tools);
            for tool in describing {
                tools.entry(tool.id.clone()).or_insert_with(|| Arc::clone(tool));
            }
        }
        if let (Some(job), Some(model)) = (job, &form.model)
            && form.program.is_none()
            && job.model(model).is_none()
        {
            let text = agent.text("/model");
            let message = format!("agent \"{}\" uses the model \"{model}\", which the job does not define", form.agent_id);
            let fault = text.fault(FaultKind::UnknownModel, "/model", Spot::Value, message);
            self.faults.push(if model.contains(':') {
                unknown_provider(text, "/model", model, &job.provider_names)
            } else {
                fault.near(model, job.models.keys().map(String::as_str))
            });
        }
        if invocation == Invocation::Native
            && let Some(fallback) = job.and_then(|job| job.needs_universal(model))
            && *fallback != *model
        {
            let message = format!(
                "\"{fallback}\", a fallback of the model of agent \"{}\", has \"invocation\": \"universal\", but the agent is native",
                form.agent_id
            );
            let fault = agent.text("/model").fault(FaultKind::MisplacedKey, "/model", Spot::Value, message);
            self.faults.push(fault.expected("\"invocation\": \"universal\" in the agent, or a fallback without it"));
        }
        if form.limits.as_ref().is_some_and(|limits| limits.cost_usd.is_some()) {
            let holder = MoneyHolder::Agent(AgentId::new(form.agent_id.as_str()));
            self.money_limits.push(money_limit(agent.text("/limits"), holder));
        }
        self.check_max_tokens(form, agent.text("/settings"));
        let mut all_settings = match job.and_then(|job| job.models.get(model)) {
            Some(ModelSpec::Provided(model)) => model.settings.clone(),
            Some(ModelSpec::Scripted { .. }) | None => Map::new(),
        };
        all_settings.extend(form.settings.clone().unwrap_or_default());
        if let Some(settings) = &form.settings {
            self.check_settings(settings, "/settings", agent.text("/settings"));
        }
        let result_schema = self.result_schema(form, agent.text("/result_schema"));
        self.check_handed_off(&tools, result_schema.as_ref(), agent.text("/result_schema"));
        let system_prompt = system_prompt?;
        if form.program.is_some() && own.is_none() {
            return None;
        }
        // The identity of a program is a part of its requests, so that a fork with another program does not take the recorded turn.
        let settings = match &own {
            Some(program) => Json::from(json!({"program": ContentHash::of(program.source.as_bytes()).to_string()})),
            None => form.settings.clone().map_or_else(Json::null, |settings| Json::from(Value::Object(settings))),
        };
        let on_text = if own.is_some() { OnText::Remind } else { form.on_text.unwrap_or_default() };
        let agent = Agent {
            id: AgentId::new(form.agent_id.as_str()),
            description: form.description.clone(),
            model: model.to_owned(),
            system_prompt,
            max_output_tokens: if own.is_some() { 1 } else { output_tokens(&all_settings) },
            program: own,
            invocation,
            catalog,
            on_text,
            master: form.master.unwrap_or_default(),
            join: form.join.unwrap_or_default(),
            open_tasks: form.open_tasks.unwrap_or_default(),
            tell_limits: form.tell_limits.unwrap_or_default(),
            summary: form.summary.unwrap_or_default(),
            result_schema,
            limits: form.limits.clone().unwrap_or_default().or(&Limits::task_defaults()).into(),
            sets_output_limit: all_settings.contains_key("max_tokens"),
            settings,
            offered: Offer::default(),
            offered_in_questions: Offer::default(),
            offered_last: Offer::default(),
            offered_last_in_questions: Offer::default(),
            tools,
            configurations,
            approvals,
        };
        Some(agent.offering(with_result_schema))
    }

    fn check_max_tokens(&mut self, form: &AgentForm, text: &Text<'s>) {
        let Some(given) = form.settings.as_ref().and_then(|settings| settings.get("max_tokens")) else { return };
        if !given.as_u64().is_some_and(|tokens| (1..=MAX_OUTPUT_TOKENS).contains(&tokens)) {
            let fault = text.fault(FaultKind::OutOfRange, "/settings/max_tokens", Spot::Value, "\"max_tokens\" is out of range");
            self.faults.push(fault.expected("a whole number of tokens, at least 1 and at most 1000000000").found(show(given)));
        }
    }

    /// Reports a schema of results that no result of the agent's handoff can match.
    fn check_handed_off(&mut self, tools: &BTreeMap<ToolId, Arc<Tool>>, schema: Option<&Schema>, text: &Text<'s>) {
        let Some(schema) = schema else { return };
        let fails = |tool: &&Arc<Tool>| tool.tool_type == ToolType::Handoff && !can_match(tool, schema);
        if let Some(tool) = tools.values().find(fails) {
            let message = format!("no result of tool \"{}\" matches the \"result_schema\"", tool.id);
            let fault = text.fault(FaultKind::BadSchema, "/result_schema/type", Spot::Value, message);
            self.faults
                .push(fault.expected(
                    "the type that this tool's \"result\" has, or an agent without the tool, whose text is the result",
                ));
        }
    }

    fn result_schema(&mut self, form: &AgentForm, text: &Text<'s>) -> Option<Schema> {
        let schema = Value::Object(form.result_schema.clone()?);
        self.compile(&schema, "/result_schema", text)
    }

    /// Returns the template of the system prompt, from the config or its own file.
    fn prompt(&mut self, form: &AgentForm, agent: &ReadAgent<'s>, job: Option<&Job>) -> Option<String> {
        let Read { text, is_shared, .. } = agent.holder("/system_prompt");
        let scope = match job {
            Some(job) => Scope::of_prompt(job.inputs.keys().map(String::as_str)),
            None => Scope::of_prompt([]).with_any_input(),
        };
        let Some(prompt) = &form.system_prompt else {
            self.missing("system_prompt", agent);
            return None;
        };
        match prompt {
            PromptForm::Text(prompt) => {
                self.check_template(prompt, &scope, text, Some("/system_prompt"));
                Some(prompt.clone())
            }
            PromptForm::File(file) => {
                let role = if *is_shared { Role::SharedPrompt } else { Role::Prompt };
                let source = self.find_file(role, &file.file, text, "/system_prompt/file", "prompt")?;
                let prompt = Text::new(self.sources.display(source), &source.text);
                if let Some(at) = source.invalid_at {
                    let fault = Fault::of_file(FaultKind::Syntax, &prompt.file, "the file is not text in UTF-8");
                    self.faults.push(fault.at(prompt.text(), at..at));
                    return None;
                }
                self.check_template(&source.text, &scope, &prompt, None);
                Some(source.text.clone())
            }
        }
    }

    /// Returns the file of `role` that `path` names, or the fault that it is not there.
    pub(crate) fn find_file(
        &mut self,
        role: Role,
        path: &str,
        text: &Text<'s>,
        place: &str,
        what: &str,
    ) -> Option<&'s super::source::Source> {
        let normal = match DocumentPath::parse(path) {
            Ok(normal) => normal,
            Err(error) => {
                let message = format!("{:?} cannot be a {what} file: {}", error.path, error.reason);
                self.faults.push(text.fault(FaultKind::BadPath, place, Spot::Value, message));
                return None;
            }
        };
        let known = self.sources.by_path(role);
        if let Some(source) = known.get(normal.as_str()) {
            return Some(source);
        }
        let message = format!("the {what} file \"{path}\" does not exist");
        let fault = text.fault(FaultKind::MissingFile, place, Spot::Value, message);
        let nearby = self.sources.candidates().filter(|_| !role.is_shared());
        let candidates: Vec<&str> = known.keys().copied().chain(nearby).collect();
        let mut fault = fault.near(path, candidates);
        fault.expected = Some(format!("a file {}", self.sources.display_path(role, path)));
        self.faults.push(fault);
        None
    }

    /// Checks a template. `place` is its place in a JSON file; `None` for a file of its own.
    pub(crate) fn check_template(&mut self, template: &str, scope: &Scope, text: &Text<'s>, place: Option<&str>) {
        for fault in template::check(template, scope) {
            let (kind, message, needle) = match &fault {
                TemplateFault::Syntax { message, range } => {
                    let raw = range.clone().and_then(|range| template.get(range)).unwrap_or_default();
                    (FaultKind::TemplateSyntax, format!("the template cannot be read: {message}"), raw.to_owned())
                }
                TemplateFault::Undefined { name, .. } => {
                    (FaultKind::UndefinedVariable, format!("the template uses \"{name}\", which is not defined"), name.clone())
                }
            };
            let mut placed = match (place, &fault) {
                (Some(place), _) => {
                    let range = text.range_within(place, &needle);
                    let mut placed = Fault::of_file(kind, &text.file, message).at(text.text(), range);
                    place.clone_into(&mut placed.pointer);
                    placed
                }
                (None, TemplateFault::Syntax { range, .. }) => {
                    Fault::of_file(kind, &text.file, message).at(template, range.clone().unwrap_or(0..1))
                }
                (None, TemplateFault::Undefined { name, .. }) => {
                    let at = template.find(name.as_str()).unwrap_or_default();
                    Fault::of_file(kind, &text.file, message).at(template, at..at + name.len())
                }
            };
            if let TemplateFault::Undefined { nearest, expected, .. } = fault {
                placed.nearest = nearest;
                placed.expected = Some(expected);
            }
            self.faults.push(placed);
        }
    }

    fn granted(&mut self, form: &AgentForm, text: &Text<'s>) -> (BTreeMap<ToolId, Arc<Tool>>, BTreeMap<ToolId, Approver>) {
        let (mut granted, mut approvals) = (BTreeMap::new(), BTreeMap::new());
        let (mut seen, mut selectors) = (BTreeSet::new(), Vec::new());
        for (index, grant) in form.tools.iter().enumerate() {
            let at = pointer(&["tools", &index.to_string()]);
            let (id, place, approval) = match grant {
                GrantForm::Tool(id) => (id, at.clone(), None),
                GrantForm::Full(full) => (&full.tool, format!("{at}/tool"), full.approval),
                GrantForm::Selected(selector) => {
                    self.check_selector(selector, &at, text);
                    selectors.push(selector);
                    continue;
                }
            };
            if !seen.insert(id) {
                let message = format!("tool \"{id}\" is granted twice");
                self.faults.push(text.fault(FaultKind::SameId, &place, Spot::Value, message));
                continue;
            }
            if let Some(tool) = self.tools.get(id.as_str()).map(Arc::clone) {
                let offered = match grant {
                    GrantForm::Full(full) => self.reworded(&tool, full, &at, text),
                    GrantForm::Tool(_) | GrantForm::Selected(_) => Arc::clone(&tool),
                };
                granted.insert(tool.id.clone(), offered);
                if let Some(approver) = approval {
                    approvals.insert(tool.id.clone(), approver);
                    if !may_need_approval(tool.tool_type) {
                        let fault = unapprovable(text, &format!("{at}/approval"), tool.tool_type);
                        self.faults.push(fault);
                    }
                }
            } else if id == ToolType::Root.as_str() {
                let message = "\"root\" cannot be granted to an agent: it is the engine's own entry point";
                self.faults.push(text.fault(FaultKind::ReservedName, &place, Spot::Value, message));
            } else if !self.has_tool(id) && !self.routes_to_assumed(id) {
                let message = format!("agent \"{}\" is granted the unknown tool \"{id}\"", form.agent_id);
                let fault = text.fault(FaultKind::UnknownTool, &place, Spot::Value, message);
                let known: BTreeSet<&str> =
                    self.tools.keys().map(ToolId::as_str).chain(self.assumed_tools.iter().map(String::as_str)).collect();
                self.faults.push(fault.near(id, known));
            }
        }
        let by_id: BTreeSet<ToolId> = granted.keys().cloned().collect();
        for selector in selectors {
            for tool in self.selected_by(selector).filter(|tool| !by_id.contains(&tool.id)) {
                granted.insert(tool.id.clone(), Arc::clone(tool));
                let approver = selector.approval.filter(|_| may_need_approval(tool.tool_type));
                if let Some(approver) = approver.max(approvals.get(&tool.id).copied()) {
                    approvals.insert(tool.id.clone(), approver);
                }
            }
        }
        (granted, approvals)
    }

    /// Returns the loaded tools that `grant` names or selects.
    fn named_by(&self, grant: &GrantForm) -> Vec<&Arc<Tool>> {
        match grant {
            GrantForm::Tool(id) => self.tools.get(id.as_str()).into_iter().collect(),
            GrantForm::Full(full) => self.tools.get(full.tool.as_str()).into_iter().collect(),
            GrantForm::Selected(selector) => self.selected_by(selector).collect(),
        }
    }

    fn selected_by(&self, selector: &SelectorForm) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools
            .values()
            .filter(|tool| !tool.runs_programs)
            .filter(|tool| selector.selects(tool.category.as_deref(), tool.tags.iter().map(String::as_str)))
    }

    /// Reports a selector, at `place`, that selects no tool. A tool that could not be loaded may have been meant.
    fn check_selector(&mut self, selector: &SelectorForm, place: &str, text: &Text<'s>) {
        let (key, wanted, known): (&str, &str, BTreeSet<&str>) = match selector {
            SelectorForm { tag: Some(tag), category, .. } => {
                let of_category = self.tools.values().filter(|tool| category.is_none() || tool.category == *category);
                ("tag", tag, of_category.flat_map(|tool| tool.tags.iter().map(String::as_str)).collect())
            }
            SelectorForm { category: Some(category), .. } => {
                ("category", category, self.tools.values().filter_map(|tool| tool.category.as_deref()).collect())
            }
            SelectorForm { .. } => {
                let fault = text.fault(FaultKind::MissingKey, place, Spot::Value, "the grant selects no tool");
                self.faults.push(fault.expected("a \"category\", a \"tag\", or both"));
                return;
            }
        };
        if self.selected_by(selector).next().is_none() && self.assumed_tools.is_empty() {
            let message = format!("no tool has the {key} {}", show(&Value::from(wanted)));
            let fault = text.fault(FaultKind::UnknownTool, &format!("{place}/{key}"), Spot::Value, message);
            self.faults.push(fault.near(wanted, known));
        }
    }

    /// Returns `tool` with the descriptions of `grant`, which is at `place`. Nothing else of the tool changes for the agent.
    fn reworded(&mut self, tool: &Arc<Tool>, grant: &FullGrantForm, place: &str, text: &Text<'s>) -> Arc<Tool> {
        if grant.description.is_none() && grant.parameters.is_empty() {
            return Arc::clone(tool);
        }
        let mut input_schema = tool.definition.input_schema.value();
        for (name, words) in &grant.parameters {
            let parameters = input_schema.get_mut("properties").and_then(Value::as_object_mut);
            let parameter = parameters.and_then(|parameters| parameters.get_mut(name)).and_then(Value::as_object_mut);
            if let Some(parameter) = parameter {
                parameter.insert("description".to_owned(), Value::from(words.description.as_str()));
                continue;
            }
            let place = format!("{place}{}", pointer(&["parameters", name]));
            let message = format!("tool \"{}\" has no parameter {} to describe", tool.id, show(&Value::from(name.as_str())));
            let fault = text.fault(FaultKind::UnknownKey, &place, Spot::Key, message);
            let known = tool.definition.input_schema.value();
            let known = known.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
            self.faults.push(fault.near(name, known.map(String::as_str)));
        }
        let description = grant.description.clone().unwrap_or_else(|| tool.description.clone());
        let summary = tool.summary.clone().filter(|_| grant.description.is_none());
        let (id, name, input_schema) = (tool.id.clone(), tool.definition.name.clone(), Json::from(input_schema));
        let definition = Arc::new(ToolDefinition { id, name, description: description.clone(), input_schema });
        Arc::new(Tool { description, summary, definition, ..Tool::clone(tool) })
    }

    /// Whether the tool delegates to an agent with a broken file, whose fault is reported there.
    fn routes_to_assumed(&self, id: &str) -> bool {
        id.strip_prefix(baton_types::id::ROUTE_PREFIX).is_some_and(|agent| self.assumed_agents.contains(agent))
    }
}
