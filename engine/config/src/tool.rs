//! Tools: configs of a program, refined by a project's and a job's, joined with the functions that run them.

mod executor;
pub(crate) mod keys;
mod refine;
mod route;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use baton_types::config::{CONFIG_ID, Changes, Executor, MoneyHolder, Origin, Tool};
use baton_types::id::{AgentId, ROUTE_PREFIX, ToolId};
use baton_types::model::ToolDefinition;
use baton_types::tool_type::ToolType;
use serde_json::{Map, Value};

use self::refine::merge;
use crate::fault::{Fault, FaultKind};
use crate::form::{ToolForm, ToolTypeForm};
use crate::load::Unconfigured;
use crate::loader::{Loader, Read, fault_of_function, holder, place, same_id, stem, twin_key};
use crate::needed::{called_by, ids_of, is_needed, runs_programs};
use crate::price::money_limit;
use crate::reader::{Spot, Text};
use crate::shape::TOOL;
use crate::source::Role;

/// Longest time of a call (default).
pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(1);

/// Config files of a tool, the most general first: the program's, the project's and the job's. Each refines the ones
/// before it.
pub(super) struct Texts<'t, 's> {
    pub(super) files: Vec<&'t Read<'s>>,
    pub(super) function: Option<&'static baton_tool::ToolFunction>,
}

impl<'t, 's> Texts<'t, 's> {
    /// Returns the text that holds what is at `pointer`.
    pub(super) fn text(&self, pointer: &str) -> &'t Text<'s> {
        &holder(self.files.iter().copied(), pointer).text
    }

    /// Returns the origin of `key` of the tool: that of the text which holds it.
    pub(super) fn origin(&self, key: &str) -> Origin {
        let holds = |read: &&&Read<'_>| read.value.get(key).is_some();
        let said = self.files.iter().rfind(holds).or_else(|| self.files.first());
        said.map_or(Origin::default(), |read| read.origin)
    }

    /// Returns the pointer whose key is in the newest file. Of two keys in one file it is the first.
    pub(super) fn newest_of<'p>(&self, pointers: [&'p str; 2]) -> &'p str {
        let has = |read: &Read<'_>, pointer: &str| read.value.pointer(pointer).is_some();
        let newest = self.files.iter().rev().find_map(|read| pointers.into_iter().find(|pointer| has(read, pointer)));
        newest.unwrap_or(pointers[0])
    }

    pub(super) fn fault(&self, kind: FaultKind, pointer: &str, spot: Spot, message: impl Into<String>) -> Fault {
        self.text(pointer).fault(kind, pointer, spot, message)
    }
}

impl<'s> Loader<'s> {
    /// Loads every tool: those of the program, of the project and of the job, and one that delegates to each agent.
    pub(crate) fn load_tools(&mut self, unconfigured: Unconfigured) {
        let mut files = [Role::BuiltinTool, Role::SharedTool, Role::Tool].map(|role| self.read_tools(role));
        if unconfigured == Unconfigured::Allowed {
            let grants = self.grants();
            let has_program = self.agents.values().filter_map(|agent| agent.form.as_ref()).any(|form| form.program.is_some());
            let is_kept = |id: &&String| is_needed(id, &files, &grants) || (has_program && runs_programs(id, &files));
            let mut kept: BTreeSet<String> = ids_of(&files).filter(is_kept).cloned().collect();
            let mut left: Vec<String> = kept.iter().cloned().collect();
            while let Some(id) = left.pop() {
                let called = called_by(&id, &files);
                left.extend(called.into_iter().filter(|called| kept.insert(called.clone())));
            }
            for tools in &mut files {
                tools.retain(|id, _| kept.contains(id));
            }
        }
        self.check_twins(&files);
        self.check_names(&files);
        let ids: BTreeSet<&String> = ids_of(&files).collect();
        for id in &ids {
            let of_tool: Vec<_> = files.iter().filter_map(|tools| tools.get(*id)).collect();
            let text = &holder(of_tool.iter().copied(), "/tool_id").text;
            match id.strip_prefix(ROUTE_PREFIX) {
                None => self.load_tool(id, of_tool, None),
                Some(_) if files[0].contains_key(*id) => {
                    let message = format!("names with {ROUTE_PREFIX} belong to agents");
                    let text = &files[0][*id].text;
                    self.faults.push(text.fault(FaultKind::ReservedName, "/tool_id", Spot::Value, message));
                }
                Some(agent) if self.agents.contains_key(agent) => {
                    let derived = self.route_config(agent);
                    self.load_tool(id, of_tool, Some(derived));
                }
                Some(agent) if self.assumed_agents.contains(agent) => {}
                Some(agent) => {
                    let message = format!("tool \"{id}\" delegates to the unknown agent \"{agent}\"");
                    let fault = text.fault(FaultKind::UnknownAgent, "/tool_id", Spot::Value, message);
                    self.faults.push(fault.near(agent, self.agents.keys().map(String::as_str)));
                }
            }
        }
        let agents: Vec<String> = self.agents.keys().cloned().collect();
        for agent in &agents {
            let id = format!("{ROUTE_PREFIX}{agent}");
            if files[1..].iter().all(|tools| !tools.contains_key(&id)) && !self.assumed_tools.contains(&id) {
                self.derive_route(&id, agent);
            }
        }
        self.check_named_calls();
        self.check_acceptors();
        if unconfigured == Unconfigured::Refused {
            let lonely = self.functions.values().filter(|function| files.iter().all(|tools| !tools.contains_key(function.id)));
            let lonely: Vec<_> = lonely.filter(|function| !self.assumed_tools.contains(function.id)).copied().collect();
            for function in lonely {
                let message = format!("fn {} has no tool config", function.name);
                let expected = format!("a file tool-configs/{}.json", function.id);
                self.faults.push(fault_of_function(FaultKind::FunctionWithoutConfig, function, message).expected(expected));
            }
        }
    }

    fn read_tools(&mut self, role: Role) -> BTreeMap<String, Read<'s>> {
        let mut tools: BTreeMap<String, Read<'s>> = BTreeMap::new();
        for source in self.sources.of(role) {
            let stem = stem(&source.path).to_owned();
            let Some(read) = self.read(source) else {
                self.assumed_tools.insert(stem);
                continue;
            };
            let id = match read.value.get("tool_id").and_then(Value::as_str) {
                Some(id) => {
                    self.check_name(&read, "/tool_id", id, &stem);
                    id.to_owned()
                }
                None => stem.clone(),
            };
            if id != stem {
                self.assumed_tools.insert(stem);
            }
            if id == ToolType::Root.as_str() {
                let message = "tool \"root\" cannot be configured: it is the engine's own entry point";
                self.faults.push(read.text.fault(FaultKind::ReservedName, "/tool_id", Spot::Value, message));
            }
            if let Some(earlier) = tools.get(&id) {
                let note = format!("the other at {}", earlier.text.place("/tool_id", Spot::Value));
                self.faults.push(same_id(&read.text, "/tool_id", "tool", &id).note(note));
            } else {
                tools.insert(id, read);
            }
        }
        tools
    }

    /// Reports tools whose ids differ only by `-` and `_`.
    fn check_twins(&mut self, files: &[BTreeMap<String, Read<'s>>]) {
        let mut seen: HashMap<String, (&str, &Read<'s>)> = HashMap::new();
        for (id, read) in files.iter().flatten() {
            match seen.get(&twin_key(id)) {
                Some((earlier, first)) if earlier != id => {
                    let note = format!("the other at {}", first.text.place("/tool_id", Spot::Value));
                    self.faults.push(same_id(&read.text, "/tool_id", "tool", id).note(note));
                }
                Some(_) => {}
                None => {
                    seen.insert(twin_key(id), (id, read));
                }
            }
        }
    }

    /// Reports names that models could not tell from the id or the name of another tool.
    fn check_names(&mut self, files: &[BTreeMap<String, Read<'s>>]) {
        let ids: BTreeSet<&String> = files.iter().flat_map(BTreeMap::keys).collect();
        let mut taken: HashMap<String, &str> = ids.iter().map(|id| (twin_key(id), id.as_str())).collect();
        for id in ids {
            let read = holder(files.iter().filter_map(|tools| tools.get(id)), "/name");
            let Some(name) = read.value.get("name").and_then(Value::as_str) else { continue };
            let fault = |kind, message: String| read.text.fault(kind, "/name", Spot::Value, message);
            if name.starts_with(ROUTE_PREFIX) || name == ToolType::Root.as_str() {
                self.faults
                    .push(fault(FaultKind::ReservedName, format!("the name \"{name}\" is reserved for the engine's tools")));
                continue;
            }
            match taken.get(&twin_key(name)) {
                Some(other) if other != id => {
                    let message =
                        format!("models cannot tell the name \"{name}\" from the tool \"{other}\"; - and _ count as the same");
                    self.faults
                        .push(fault(FaultKind::SameId, message).expected("another \"name\", or none: then it is the tool's id"));
                }
                _ => _ = taken.insert(twin_key(name), id),
            }
        }
    }

    /// Loads the tool `id` from its files. `derived` is the config that they refine, if they refine one that no file holds.
    fn load_tool(&mut self, id: &str, files: Vec<&Read<'s>>, derived: Option<Map<String, Value>>) {
        let function = self.functions.get(id).copied();
        let texts = Texts { files, function };
        let mut merged = Cow::Owned(derived.map_or(Value::Null, Value::Object));
        for over in &texts.files {
            merged = match (&*merged, &over.value) {
                (Value::Object(below), Value::Object(_)) => {
                    let kept = self.check_refinement(below, over);
                    let mut merged = merge(below.clone(), &over.value);
                    merged.extend(kept);
                    Cow::Owned(Value::Object(merged))
                }
                _ => Cow::Borrowed(&over.value),
            };
        }
        match TOOL.read::<ToolForm>(&merged) {
            Ok(form) => self.build_tool(form, &merged, &texts),
            Err(faults) => {
                self.faults.extend(faults.into_iter().map(|fault| place(texts.text(&fault.pointer), fault)));
            }
        }
        if !self.tools.contains_key(id) {
            self.assumed_tools.insert(id.to_owned());
        }
    }

    fn build_tool(&mut self, form: ToolForm, value: &Value, texts: &Texts<'_, 's>) {
        let tool_type = match form.tool_type {
            ToolTypeForm::FunctionTool => ToolType::FunctionTool,
            ToolTypeForm::NonFunctionTool => ToolType::NonFunctionTool,
            ToolTypeForm::Handoff => ToolType::Handoff,
            ToolTypeForm::AgentAsTool => ToolType::AgentAsTool,
            ToolTypeForm::AskMaster => ToolType::AskMaster,
        };
        let before = self.faults.len();
        self.check_keys(tool_type, value, texts);
        self.check_agent(tool_type, &form, texts);
        self.check_questions(tool_type, &form, texts);
        self.check_describes(tool_type, &form, value, texts);
        self.check_background(tool_type, &form, texts);
        self.check_runs_programs(tool_type, &form, value, texts);
        self.check_line("title", form.title.as_deref(), texts);
        self.check_line("summary", form.summary.as_deref(), texts);
        let executor = self.executor(tool_type, &form, texts);
        let input = self.input_schema(&form, texts).map(|input| Self::with_inputs(tool_type, &form, input));
        if let Some((schema, _)) = &input {
            self.check_type_inputs(tool_type, schema, form.parameters.is_some(), texts);
            self.check_task_inputs(&form, schema, texts);
            self.check_changes(&form, schema, texts);
            if let (Some(Executor::Function(_)), Some(function)) = (&executor, texts.function) {
                self.check_signature(function, schema, form.parameters.is_some(), texts);
            }
        }
        let arguments = input.as_ref().map(|(schema, _)| self.arguments(&form, schema, texts)).unwrap_or_default();
        let input = input.map(|(schema, own)| Self::schemas_of(&schema, own, &arguments));
        if tool_type.behavior().runs_code {
            self.check_service(&form, value, texts);
        }
        self.check_inner_calls(tool_type, &form, executor.as_ref(), texts);
        let accept = self.accept(tool_type, &form, texts);
        let (output_tree, output) = self.output_schema(&form, texts).unzip();
        let (settings, reaches) = self.settings(&form, texts);
        let properties = || form.input_schema.as_ref()?.get("properties")?.as_object();
        let inputs = form.parameters.as_ref().or_else(properties);
        let takes_config_id = inputs.is_some_and(|inputs| inputs.contains_key(CONFIG_ID));
        let examples = self.examples(&form, input.as_ref().map(|(judged, _)| (judged, &arguments)), output_tree, texts);
        if form.limits.as_ref().is_some_and(|limits| limits.cost_usd.is_some()) {
            let holder = MoneyHolder::Tool(ToolId::new(form.tool_id.as_str()));
            self.money_limits.push(money_limit(texts.text("/limits/cost_usd"), holder));
        }
        let (Some((input, seen)), true) = (input, self.faults.len() == before) else { return };
        let id = ToolId::new(form.tool_id.as_str());
        let definition = Arc::new(ToolDefinition {
            id: id.clone(),
            name: form.name.filter(|name| *name != form.tool_id),
            description: form.description.clone(),
            input_schema: seen.json().clone(),
        });
        let is_service = form.target_subject.is_some();
        let tool = Tool {
            id: id.clone(),
            tool_type,
            title: form.title,
            description: form.description,
            summary: form.summary,
            input,
            output,
            effect: form.effect.unwrap_or_default(),
            writes: form.writes.unwrap_or_default(),
            after: form.after_execution,
            controls_flow: form.controls_flow.unwrap_or(is_service),
            suspends: form.suspends.unwrap_or(is_service),
            suspend_timeout: form.suspend_timeout_seconds.map(|seconds| Duration::from_secs(u64::from(seconds))),
            arguments,
            calls: form.calls.unwrap_or_default(),
            describes_tools: form.describes_tools.unwrap_or_default(),
            manages_tasks: form.manages_tasks,
            runs_programs: form.runs_programs.unwrap_or_default(),
            timeout: form.timeout_seconds.map_or(DEFAULT_TIMEOUT, |seconds| Duration::from_secs(u64::from(seconds))),
            idle: form.idle_seconds.map(|seconds| Duration::from_secs(u64::from(seconds))),
            agent: form.agent.as_deref().map(AgentId::from),
            limits: form.limits.unwrap_or_default(),
            context: form.context.unwrap_or_default(),
            background: form.background.unwrap_or_default(),
            follow_up: form.follow_up.unwrap_or_default(),
            on_failure: form.on_failure.unwrap_or_default(),
            accept,
            approval: form.approval,
            on_unknown_outcome: form.on_unknown_outcome.unwrap_or_default(),
            changes: form.changes.map(Changes::from),
            executor,
            examples,
            category: form.category,
            tags: form.tags,
            settings,
            secrets: form.secrets,
            takes_config_id,
            configuration: None,
            reaches,
            source: Some(texts.text("").file.clone()),
            definition,
        };
        self.tools.insert(id, Arc::new(tool));
    }
}
