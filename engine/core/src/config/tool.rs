//! Tools: configs of a program, refined by a job's, joined with the functions that run them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::dialect::{Others, object_schema, part_schema};
use super::fault::{Fault, FaultKind};
use super::form::{ToolForm, ToolTypeForm};
use super::load::{Loader, Read, Unconfigured, fault_of_function, place, place_of, same_id, stem, twin_key};
use super::reader::{Spot, Text, pointer};
use super::shape::{TOOL, show, type_of};
use super::source::Role;
use super::{EffectClass, Example, ExecSpec, Executor, Schema, Tool};
use crate::id::{AgentId, ROUTE_PREFIX, ToolId};
use crate::limits::Limits;
use crate::model::ToolDefinition;
use crate::path::DocumentPath;
use crate::tool_type::ToolType;

/// How long a call may run when its config does not say.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(1);

/// Keys that stand in place of each other.
const ALTERNATIVES: [(&str, &str); 2] = [("parameters", "input_schema"), ("returns", "output_schema")];

/// The texts that say what a tool is: a config, and the job's that refines it.
struct Origin<'t, 's> {
    base: Option<&'t Read<'s>>,
    over: Option<&'t Read<'s>>,
    function: Option<&'static crate::function::ToolFunction>,
}

impl<'t, 's> Origin<'t, 's> {
    /// The text that holds what is at `pointer`.
    fn text(&self, pointer: &str) -> &'t Text<'s> {
        let key = pointer.split('/').nth(1).unwrap_or_default();
        let chosen = match (self.over, self.base) {
            (Some(over), Some(base)) if !key.is_empty() && over.value.get(key).is_none() && base.value.get(key).is_some() => base,
            (Some(over), _) => over,
            (None, Some(base)) => base,
            (None, None) => unreachable!("a tool comes from at least one text"),
        };
        &chosen.text
    }

    fn fault(&self, kind: FaultKind, pointer: &str, spot: Spot, message: impl Into<String>) -> Fault {
        self.text(pointer).fault(kind, pointer, spot, message)
    }
}

impl<'s> Loader<'s> {
    /// Loads every tool: those of the program, those of the job, and one that delegates to each agent.
    pub(crate) fn load_tools(&mut self, unconfigured: Unconfigured) {
        let base = self.read_tools(Role::BuiltinTool);
        let over = self.read_tools(Role::Tool);
        self.check_twins(&base, &over);
        for (id, read) in &base {
            if id.starts_with(ROUTE_PREFIX) {
                self.faults.push(read.text.fault(
                    FaultKind::ReservedName,
                    "/tool_id",
                    Spot::Value,
                    format!("names with {ROUTE_PREFIX} belong to agents"),
                ));
            } else {
                self.load_tool(id, Some(read), over.get(id), None);
            }
        }
        for (id, read) in over.iter().filter(|(id, _)| !base.contains_key(*id)) {
            match id.strip_prefix(ROUTE_PREFIX) {
                None => self.load_tool(id, None, Some(read), None),
                Some(agent) if self.agents.contains_key(agent) => {
                    let derived = self.route_config(agent);
                    self.load_tool(id, None, Some(read), Some(derived));
                }
                Some(agent) if self.assumed_agents.contains(agent) => {}
                Some(agent) => {
                    let message = format!("tool \"{id}\" delegates to the unknown agent \"{agent}\"");
                    let fault = read.text.fault(FaultKind::UnknownAgent, "/tool_id", Spot::Value, message);
                    self.faults.push(fault.near(agent, self.agents.keys().map(String::as_str)));
                }
            }
        }
        let agents: Vec<String> = self.agents.keys().cloned().collect();
        for agent in &agents {
            let id = format!("{ROUTE_PREFIX}{agent}");
            if !over.contains_key(&id) && !self.assumed_tools.contains(&id) {
                self.derive_route(&id, agent);
            }
        }
        if unconfigured == Unconfigured::Refused {
            let lonely =
                self.functions.values().filter(|function| !base.contains_key(function.id) && !over.contains_key(function.id));
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

    /// Tells tools whose ids differ only by `-` and `_`.
    fn check_twins(&mut self, base: &BTreeMap<String, Read<'s>>, over: &BTreeMap<String, Read<'s>>) {
        let mut seen: HashMap<String, (&str, &Read<'s>)> = HashMap::new();
        for (id, read) in base.iter().chain(over.iter()) {
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

    /// The config that a tool which delegates to `agent` has when nobody writes one.
    fn route_config(&self, agent: &str) -> Map<String, Value> {
        let known = self.agents.get(agent).and_then(|agent| agent.read.value.get("description")).and_then(Value::as_str);
        let description = format!("Delegate a task to the agent {agent} and wait for its result. {}", known.unwrap_or_default());
        let config = json!({
            "tool_id": format!("{ROUTE_PREFIX}{agent}"),
            "type": ToolType::AgentAsTool.as_str(),
            "description": description.trim_end(),
            "parameters": {
                "request": {"type": "string", "description": "What the agent shall do; it sees nothing but this and the documents.", "required": true},
                "documents": {
                    "type": "array", "items": {"type": "string"}, "required": false,
                    "description": "Paths of documents that the agent receives with the request."
                }
            },
            "agent": agent
        });
        match config {
            Value::Object(config) => config,
            _ => unreachable!("the literal is an object"),
        }
    }

    /// Makes the tool that delegates to `agent`, which no file refines.
    fn derive_route(&mut self, id: &str, agent: &str) {
        let config = self.route_config(agent);
        let input = object_schema(config["parameters"].as_object().unwrap_or(&Map::new()), Others::Refused);
        let id = ToolId::new(id);
        let input = Schema::derived(&input);
        let description = config["description"].as_str().unwrap_or_default().to_owned();
        let definition =
            Arc::new(ToolDefinition { id: id.clone(), description: description.clone(), input_schema: input.json().clone() });
        let tool = Tool {
            id: id.clone(),
            tool_type: ToolType::AgentAsTool,
            description,
            input,
            output: None,
            effect: EffectClass::default(),
            writes: false,
            after: None,
            timeout: DEFAULT_TIMEOUT,
            agent: Some(AgentId::new(agent)),
            limits: Limits::default(),
            executor: None,
            examples: Vec::new(),
            category: None,
            tags: Vec::new(),
            source: None,
            definition,
        };
        self.tools.insert(id, Arc::new(tool));
    }

    /// Loads the tool `id` from its config, the job's refinement of it, or both.
    fn load_tool(&mut self, id: &str, base: Option<&Read<'s>>, over: Option<&Read<'s>>, derived: Option<Map<String, Value>>) {
        let function = self.functions.get(id).copied();
        let origin = Origin { base, over, function };
        let before = self.faults.len();
        let below = base.map(|base| &base.value).and_then(Value::as_object).cloned().or(derived);
        let merged = match (below, over) {
            (Some(below), Some(over)) if over.value.is_object() => {
                let kept = self.check_refinement(&origin, &below, over);
                let mut merged = merge(below, &over.value);
                merged.extend(kept);
                Value::Object(merged)
            }
            (_, Some(over)) => over.value.clone(),
            (below, None) => below.map_or_else(|| base.map_or(Value::Null, |base| base.value.clone()), Value::Object),
        };
        match TOOL.read::<ToolForm>(&merged) {
            Ok(form) => self.build_tool(form, &merged, &origin),
            Err(faults) => {
                self.faults.extend(faults.into_iter().map(|fault| place(origin.text(&fault.pointer), fault)));
            }
        }
        if self.faults.len() > before {
            self.assumed_tools.insert(id.to_owned());
        }
    }

    /// A refinement may say other things of a tool, but it stays what it is. Returns what it may not change.
    fn check_refinement(&mut self, origin: &Origin<'_, 's>, below: &Map<String, Value>, over: &Read<'s>) -> Map<String, Value> {
        let mut unchanged = Map::new();
        if over.value.get("tool_id").is_none() {
            self.faults.push(over.text.fault(FaultKind::MissingKey, "/tool_id", Spot::Key, "key \"tool_id\" is missing"));
        }
        for key in ["type", "agent"] {
            if let (Some(refined), Some(kept)) = (over.value.get(key), below.get(key))
                && refined != kept
                && refined.is_string()
            {
                let message = format!("a config that refines a tool cannot change its \"{key}\"");
                let fault = origin.fault(FaultKind::ReservedName, &pointer(&[key]), Spot::Value, message);
                self.faults.push(fault.expected(show(kept)).found(show(refined)));
                unchanged.insert(key.to_owned(), kept.clone());
            }
        }
        unchanged
    }

    fn build_tool(&mut self, form: ToolForm, value: &Value, origin: &Origin<'_, 's>) {
        let tool_type = match form.tool_type {
            ToolTypeForm::FunctionTool => ToolType::FunctionTool,
            ToolTypeForm::NonFunctionTool => ToolType::NonFunctionTool,
            ToolTypeForm::Handoff => ToolType::Handoff,
            ToolTypeForm::AgentAsTool => ToolType::AgentAsTool,
            ToolTypeForm::AskMaster => ToolType::AskMaster,
        };
        let before = self.faults.len();
        self.check_keys(tool_type, value, origin);
        self.check_agent(tool_type, &form, origin);
        let executor = self.executor(tool_type, &form, origin);
        let input = self.input_schema(&form, origin);
        if let Some((schema, _)) = &input {
            self.check_type_inputs(tool_type, schema, form.parameters.is_some(), origin);
            if let Some(Executor::Function(function)) = &executor {
                self.check_signature(function, schema, form.parameters.is_some(), origin);
            }
        }
        let output = self.output_schema(&form, origin);
        let examples = self.examples(&form, input.as_ref().map(|(_, schema)| schema), output.as_ref(), origin);
        if form.limits.as_ref().is_some_and(|limits| limits.cost_usd.is_some()) {
            self.faults.push(unkeepable_cost(origin.text("/limits/cost_usd")));
        }
        let (Some((_, input)), true) = (input, self.faults.len() == before) else { return };
        let id = ToolId::new(form.tool_id.as_str());
        let definition = Arc::new(ToolDefinition {
            id: id.clone(),
            description: form.description.clone(),
            input_schema: input.json().clone(),
        });
        let tool = Tool {
            id: id.clone(),
            tool_type,
            description: form.description,
            input,
            output: output.map(|(_, schema)| schema),
            effect: form.effect.unwrap_or_default(),
            writes: form.writes.unwrap_or_default(),
            after: form.after_execution,
            timeout: form.timeout_seconds.map_or(DEFAULT_TIMEOUT, |seconds| Duration::from_secs(u64::from(seconds))),
            agent: form.agent.as_deref().map(AgentId::from),
            limits: form.limits.unwrap_or_default(),
            executor,
            examples,
            category: form.category,
            tags: form.tags,
            source: Some(origin.text("").file.clone()),
            definition,
        };
        self.tools.insert(id, Arc::new(tool));
    }

    /// Tells keys that exclude each other or mean nothing for this type.
    fn check_keys(&mut self, tool_type: ToolType, value: &Value, origin: &Origin<'_, 's>) {
        let row = tool_type.behavior();
        for (short, full) in ALTERNATIVES {
            if value.get(short).is_some() && value.get(full).is_some() {
                let message = format!("\"{short}\" and \"{full}\" exclude each other");
                self.faults.push(origin.fault(FaultKind::MisplacedKey, &pointer(&[full]), Spot::Key, message));
            }
        }
        let mut misplaced = |key: &str, meant: &str| {
            if value.get(key).is_some() {
                let message = format!("\"{key}\" means nothing for a tool of type {tool_type}");
                let fault = origin.fault(FaultKind::MisplacedKey, &pointer(&[key]), Spot::Key, message);
                self.faults.push(fault.expected(format!("it in {meant}")));
            }
        };
        if !row.runs_code {
            for key in ["effect", "timeout_seconds", "writes"] {
                misplaced(key, "a function_tool");
            }
        }
        if !row.creates_task {
            misplaced("limits", "an agent_as_tool or ask_master");
        }
        if tool_type != ToolType::AgentAsTool {
            misplaced("agent", "an agent_as_tool");
        }
    }

    fn check_agent(&mut self, tool_type: ToolType, form: &ToolForm, origin: &Origin<'_, 's>) {
        match &form.agent {
            None if tool_type == ToolType::AgentAsTool => {
                let message = "a tool of type agent_as_tool needs \"agent\"";
                self.faults.push(origin.fault(FaultKind::MissingKey, "/agent", Spot::Key, message));
            }
            Some(agent) if !self.has_agent(agent) => {
                let message = format!("tool \"{}\" delegates to the unknown agent \"{agent}\"", form.tool_id);
                let fault = origin.fault(FaultKind::UnknownAgent, "/agent", Spot::Value, message);
                self.faults.push(fault.near(agent, self.agents.keys().map(String::as_str)));
            }
            _ => {}
        }
    }

    /// What runs the tool. A function tool has exactly one executor, the others have none.
    fn executor(&mut self, tool_type: ToolType, form: &ToolForm, origin: &Origin<'_, 's>) -> Option<Executor> {
        let id = &form.tool_id;
        let exec = form.exec.as_ref().map(|exec| ExecSpec { command: exec.command.clone(), env: exec.env.clone() });
        match (tool_type.behavior().runs_code, origin.function, exec) {
            (true, Some(function), None) => Some(Executor::Function(function)),
            (true, None, Some(exec)) => Some(Executor::Exec(exec)),
            (true, Some(function), Some(_)) => {
                let message = format!("tool \"{id}\" has two executors: \"exec\" and fn {}", function.name);
                let fault = origin.fault(FaultKind::TooManyExecutors, "/exec", Spot::Key, message);
                self.faults.push(fault.expected("one of them").note(place_of(function)));
                None
            }
            (true, None, None) => {
                let message = format!("nothing runs the function tool \"{id}\": no function of that name is linked");
                let fault = origin.fault(FaultKind::NoExecutor, "/tool_id", Spot::Value, message);
                self.faults.push(fault.near(id, self.functions.keys().copied()).expected("a #[tool] function or \"exec\""));
                None
            }
            (false, Some(function), _) => {
                let message =
                    format!("tool \"{id}\" is of type {tool_type}, which runs no code, but fn {} serves it", function.name);
                let fault = origin.fault(FaultKind::TooManyExecutors, "/type", Spot::Value, message);
                self.faults.push(fault.expected("\"function_tool\"").note(place_of(function)));
                None
            }
            (false, None, Some(_)) => {
                let message = format!("a tool of type {tool_type} runs no code, so it has no \"exec\"");
                self.faults.push(origin.fault(FaultKind::TooManyExecutors, "/exec", Spot::Key, message));
                None
            }
            (false, None, None) => None,
        }
    }

    fn input_schema(&mut self, form: &ToolForm, origin: &Origin<'_, 's>) -> Option<(Value, Schema)> {
        match (&form.parameters, &form.input_schema) {
            (Some(parameters), _) => {
                let before = self.faults.len();
                for (name, parameter) in parameters {
                    let place = pointer(&["parameters", name]);
                    if !is_name(name) {
                        let message = format!("parameter {} has a name that is not allowed", show(&json!(name)));
                        let fault = origin.fault(FaultKind::OutOfRange, &place, Spot::Key, message);
                        self.faults.push(fault.expected("letters, digits, _ and -, at most 64"));
                    }
                    check_part(origin.text("/parameters"), parameter, &place, &mut self.faults);
                }
                let schema = object_schema(parameters, Others::Refused);
                (self.faults.len() == before).then(|| (schema.clone(), Schema::derived(&schema)))
            }
            (None, Some(schema)) => {
                let schema = Value::Object(schema.clone());
                if schema.get("type").is_none_or(|name| name != "object") {
                    let message = "the schema of an input must be that of an object";
                    let fault = origin.fault(FaultKind::BadSchema, "/input_schema/type", Spot::Value, message);
                    self.faults.push(fault.expected("\"type\": \"object\""));
                    return None;
                }
                let compiled = self.compile(&schema, "/input_schema", origin.text("/input_schema"))?;
                Some((schema, compiled))
            }
            (None, None) => {
                let message = "key \"parameters\" is missing";
                let fault = origin.fault(FaultKind::MissingKey, "/parameters", Spot::Key, message);
                self.faults.push(fault.expected("\"parameters\" or \"input_schema\""));
                None
            }
        }
    }

    fn output_schema(&mut self, form: &ToolForm, origin: &Origin<'_, 's>) -> Option<(Value, Schema)> {
        match (&form.returns, &form.output_schema) {
            (Some(returns), _) => {
                let before = self.faults.len();
                for (name, part) in returns {
                    check_part(origin.text("/returns"), part, &pointer(&["returns", name]), &mut self.faults);
                }
                let schema = object_schema(returns, Others::Allowed);
                (self.faults.len() == before).then(|| (schema.clone(), Schema::derived(&schema)))
            }
            (None, Some(schema)) => {
                let schema = Value::Object(schema.clone());
                let compiled = self.compile(&schema, "/output_schema", origin.text("/output_schema"))?;
                Some((schema, compiled))
            }
            (None, None) => None,
        }
    }

    /// Compiles a schema that a person wrote at `place`.
    pub(crate) fn compile(&mut self, schema: &Value, place: &str, text: &Text<'s>) -> Option<Schema> {
        let slips = super::keywords::check(schema);
        for slip in &slips {
            let mut fault = text.fault(slip.kind, &format!("{place}{}", slip.pointer), slip.spot, slip.message.as_str());
            fault.nearest.clone_from(&slip.nearest);
            self.faults.push(fault);
        }
        match Schema::compile(schema) {
            Ok(compiled) => slips.is_empty().then_some(compiled),
            Err(message) => {
                // The message ends with the pointer of the fault, which becomes the fault's place.
                let (reason, inner) = message.rsplit_once(" (at \"").unwrap_or((&message, ""));
                let inner = inner.strip_suffix("\")").unwrap_or_default();
                let message = format!("this is not a JSON Schema (2020-12): {reason}");
                self.faults.push(text.fault(FaultKind::BadSchema, &format!("{place}{inner}"), Spot::Value, message));
                None
            }
        }
    }

    /// Tells inputs that calls of the type are read for.
    fn check_type_inputs(&mut self, tool_type: ToolType, schema: &Value, short: bool, origin: &Origin<'_, 's>) {
        let needed: &[(&str, Option<&str>, bool)] = match tool_type {
            ToolType::AgentAsTool => &[("request", Some("string"), true), ("documents", Some("array"), false)],
            ToolType::AskMaster => &[("question", Some("string"), true)],
            ToolType::Handoff => &[("result", None, true)],
            ToolType::FunctionTool | ToolType::NonFunctionTool | ToolType::Root => &[],
        };
        let mut wrong = |name: &str, kind: FaultKind, message: String| {
            let place = if short { pointer(&["parameters", name]) } else { pointer(&["input_schema", "properties", name]) };
            self.faults.push(origin.fault(kind, &place, Spot::Key, message));
        };
        let given = |name: &str| schema.get("properties").and_then(|properties| properties.get(name));
        for (name, kind, required) in needed {
            let Some(parameter) = given(name) else {
                wrong(name, FaultKind::MissingInput, format!("a tool of type {tool_type} needs the input \"{name}\""));
                continue;
            };
            if let Some(kind) = kind
                && parameter.get("type").is_none_or(|name| name != kind)
            {
                wrong(
                    name,
                    FaultKind::MissingInput,
                    format!("the input \"{name}\" of a tool of type {tool_type} must be of type {kind}"),
                );
            }
            let is_required =
                schema.get("required").and_then(Value::as_array).is_some_and(|names| names.iter().any(|each| each == name));
            if *required && !is_required {
                wrong(
                    name,
                    FaultKind::MissingInput,
                    format!("the input \"{name}\" of a tool of type {tool_type} must be required"),
                );
            }
        }
        if tool_type.behavior().passes_documents
            && let Some(documents) = given("documents")
        {
            let lists_paths = documents["type"] == "array" && documents["items"]["type"] == "string";
            if !lists_paths {
                let message = format!("the input \"documents\" of a tool of type {tool_type} must be an array of strings: paths");
                wrong("documents", FaultKind::MissingInput, message);
            }
        }
    }

    fn check_signature(
        &mut self,
        function: &crate::function::ToolFunction,
        schema: &Value,
        short: bool,
        origin: &Origin<'_, 's>,
    ) {
        for mismatch in super::signature::compare(schema, &(function.parameters)(), function.name) {
            let place = match mismatch.pointer.strip_prefix("/properties") {
                Some(rest) if short => format!("/parameters{rest}"),
                _ => format!("/input_schema{}", mismatch.pointer),
            };
            let mut fault = origin.fault(mismatch.kind, &place, mismatch.spot, mismatch.message).note(place_of(function));
            fault.expected = mismatch.expected;
            fault.found = mismatch.found;
            fault.nearest = mismatch.nearest;
            self.faults.push(fault);
        }
    }

    fn examples(
        &mut self,
        form: &ToolForm,
        input: Option<&Schema>,
        output: Option<&(Value, Schema)>,
        origin: &Origin<'_, 's>,
    ) -> Vec<Example> {
        // An example shows a part of an output, so nothing is required; but it shows no key that is not declared.
        let partial = output.filter(|_| form.examples.iter().any(|example| example.output.is_some())).map(|(schema, _)| {
            let mut schema = schema.clone();
            if let Some(object) = schema.as_object_mut() {
                object.remove("required");
                if form.returns.is_some() {
                    object.insert("additionalProperties".to_owned(), json!(false));
                }
            }
            Schema::derived(&schema)
        });
        let mut examples = Vec::with_capacity(form.examples.len());
        for (index, example) in form.examples.iter().enumerate() {
            let place = pointer(&["examples", &index.to_string()]);
            let mut check = |schema: Option<&Schema>, value: &Value, key: &str| {
                for wrong in schema.and_then(|schema| schema.check(value).err()).into_iter().flatten() {
                    let message = format!("the example's {key} breaks the tool's schema: {}", wrong.message);
                    let place = format!("{place}/{key}{}", wrong.pointer);
                    self.faults.push(origin.fault(FaultKind::BrokenExample, &place, Spot::Value, message));
                }
            };
            check(input, &example.input, "input");
            if let Some(output) = &example.output {
                check(partial.as_ref(), output, "output");
            }
            for path in example.documents.keys() {
                if let Err(error) = DocumentPath::parse(path) {
                    let place = format!("{place}{}", pointer(&["documents", path]));
                    self.faults.push(origin.fault(FaultKind::BadPath, &place, Spot::Key, error.to_string()));
                }
            }
            examples.push(Example {
                explanation: example.explanation.clone(),
                input: example.input.clone(),
                output: example.output.clone(),
                documents: example.documents.clone(),
            });
        }
        examples
    }
}

/// The keys of `below`, replaced by those of `over`; a key also replaces the one it stands in place of.
fn merge(mut below: Map<String, Value>, over: &Value) -> Map<String, Value> {
    for (key, value) in over.as_object().into_iter().flatten() {
        for (short, full) in ALTERNATIVES {
            if key == short {
                below.shift_remove(full);
            } else if key == full {
                below.shift_remove(short);
            }
        }
        below.insert(key.clone(), value.clone());
    }
    below
}

/// A limit of money, which no model of this version has a price for.
pub(crate) fn unkeepable_cost(text: &Text<'_>) -> Fault {
    let message = "\"cost_usd\" cannot be kept: no model of the job has a price";
    text.fault(FaultKind::UnkeepableLimit, "/limits/cost_usd", Spot::Key, message).expected("\"tokens\" instead")
}

pub(crate) fn is_name(name: &str) -> bool {
    let mut characters = name.chars();
    name.len() <= 64
        && characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|each| each.is_ascii_alphanumeric() || each == '_' || each == '-')
}

/// Tells what of a part's keys does not go with its type, and values that break it.
pub(crate) fn check_part(text: &Text<'_>, part: &Value, place: &str, faults: &mut Vec<Fault>) {
    let Some(keys) = part.as_object() else { return };
    let kind = keys.get("type").and_then(Value::as_str).unwrap_or_default();
    for (key, fitting) in [
        ("items", &["array"][..]),
        ("properties", &["object"]),
        ("minimum", &["integer", "number"]),
        ("maximum", &["integer", "number"]),
    ] {
        if keys.contains_key(key) && !fitting.contains(&kind) {
            let message = format!("\"{key}\" does not go with type {kind}");
            let fault = text.fault(FaultKind::MisplacedKey, &format!("{place}/{key}"), Spot::Key, message);
            faults.push(fault.expected(format!("type {}", fitting.join(" or "))));
        }
    }
    for (index, value) in keys.get("enum").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let found = type_of(value);
        if found != kind && !(kind == "number" && found == "integer") && kind != "any" {
            let message = format!("{} is allowed here, but it is not of type {kind}", show(value));
            faults.push(text.fault(FaultKind::BrokenExample, &format!("{place}/enum/{index}"), Spot::Value, message));
        }
    }
    if let Some(default) = keys.get("default") {
        let schema = Schema::derived(&part_schema(part, Others::Refused));
        for wrong in schema.check(default).err().into_iter().flatten() {
            let message = format!("the default breaks its own parameter: {}", wrong.message);
            let place = format!("{place}/default{}", wrong.pointer);
            faults.push(text.fault(FaultKind::BrokenExample, &place, Spot::Value, message));
        }
    }
    if let Some(items) = keys.get("items") {
        check_part(text, items, &format!("{place}/items"), faults);
    }
    for (name, property) in keys.get("properties").and_then(Value::as_object).into_iter().flatten() {
        check_part(text, property, &format!("{place}{}", pointer(&["properties", name])), faults);
    }
}
