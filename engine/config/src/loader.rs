//! The files of a job as they were read so far, and their faults.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use baton_tool::ToolFunction;
use baton_types::config::{Acceptor, MoneyLimit, Origin, Tool};
use baton_types::id::ToolId;
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use validator::Validate;

use crate::fault::{Fault, FaultKind};
use crate::form::{AgentForm, GrantForm};
use crate::reader::{Spot, Text};
use crate::shape;
use crate::shape::{Shape, ShapeFault};
use crate::source::{Role, Source, Sources};

/// A file that is JSON.
pub(crate) struct Read<'s> {
    pub(crate) text: Text<'s>,
    pub(crate) value: Value,
    /// Origin of the file.
    pub(crate) origin: Origin,
    /// Whether it is a file of the project, which its jobs share.
    pub(crate) is_shared: bool,
}

/// Returns the file that holds what is at `pointer`, among those of one tool or agent, the most general first: the last one with
/// that key, or else the last one.
pub(crate) fn holder<'t, 's: 't>(
    mut files: impl DoubleEndedIterator<Item = &'t Read<'s>> + Clone,
    pointer: &str,
) -> &'t Read<'s> {
    let key = pointer.split('/').nth(1).unwrap_or_default();
    let found = files.clone().rfind(|read| !key.is_empty() && read.value.get(key).is_some());
    found.or_else(|| files.next_back()).expect("a tool or an agent comes from at least one file")
}

/// An agent's files; the form is there if it has no fault of its own.
pub(crate) struct ReadAgent<'s> {
    /// The project's file and the job's that refines it, or one of them.
    files: Vec<Read<'s>>,
    /// The keys of all files.
    pub(crate) value: Value,
    pub(crate) form: Option<AgentForm>,
}

impl<'s> ReadAgent<'s> {
    /// Returns the file that holds what is at `pointer`.
    pub(crate) fn holder(&self, pointer: &str) -> &Read<'s> {
        holder(self.files.iter(), pointer)
    }

    /// Returns the text that holds what is at `pointer`.
    pub(crate) fn text(&self, pointer: &str) -> &Text<'s> {
        &self.holder(pointer).text
    }

    /// Whether it is an agent of the project that the job does not refine.
    pub(crate) fn is_shared(&self) -> bool {
        self.files.iter().all(|read| read.is_shared)
    }
}

pub(crate) struct Loader<'s> {
    pub(crate) sources: &'s Sources,
    pub(crate) functions: BTreeMap<&'static str, &'static ToolFunction>,
    pub(crate) faults: Vec<Fault>,
    /// Agents that were read, by the id they were meant to have.
    pub(crate) agents: BTreeMap<String, ReadAgent<'s>>,
    /// Ids that a broken file was meant for.
    pub(crate) assumed_agents: BTreeSet<String>,
    pub(crate) assumed_tools: BTreeSet<String>,
    pub(crate) tools: BTreeMap<ToolId, Arc<Tool>>,
    /// The declared settings of the tools, with the origin of the declaration.
    pub(crate) declared: BTreeMap<ToolId, (Map<String, Value>, Origin)>,
    /// The tools that code calls, each with the fault of an unknown name.
    pub(crate) inner_calls: Vec<(String, Fault)>,
    /// The acceptors of delegations, each with a fault at its place.
    pub(crate) acceptors: Vec<(Acceptor, Fault)>,
    /// The configurations of tools, by id: each is a tool with other settings.
    pub(crate) configurations: BTreeMap<String, Arc<Tool>>,
    /// Ids of configurations with faults.
    pub(crate) assumed_configurations: BTreeSet<String>,
    /// Whether tools may be without an executor.
    pub(crate) reading: bool,
    /// Settings that are the engine's to say.
    pub(crate) own_settings: BTreeSet<String>,
    /// Settings for the engine that are booleans.
    pub(crate) boolean_settings: BTreeSet<String>,
    /// Settings that cannot be used, each with the reason.
    pub(crate) refused_settings: BTreeMap<String, String>,
    pub(crate) money_limits: Vec<MoneyLimit>,
}

impl<'s> Loader<'s> {
    pub(crate) fn new(sources: &'s Sources, functions: &[&'static ToolFunction]) -> Self {
        let mut loader = Self {
            sources,
            functions: BTreeMap::new(),
            faults: Vec::new(),
            agents: BTreeMap::new(),
            assumed_agents: BTreeSet::new(),
            assumed_tools: BTreeSet::new(),
            tools: BTreeMap::new(),
            declared: BTreeMap::new(),
            inner_calls: Vec::new(),
            acceptors: Vec::new(),
            configurations: BTreeMap::new(),
            assumed_configurations: BTreeSet::new(),
            reading: false,
            own_settings: BTreeSet::new(),
            boolean_settings: BTreeSet::new(),
            refused_settings: BTreeMap::new(),
            money_limits: Vec::new(),
        };
        for function in functions {
            if let Some(first) = loader.functions.insert(function.id, function) {
                let message =
                    format!("fn {} implements tool {}, which another function already implements", function.name, function.id);
                loader.faults.push(fault_of_function(FaultKind::FunctionTwice, function, message).note(place_of(first)));
            }
        }
        loader
    }

    /// Reads `source` as JSON; its faults are kept.
    pub(crate) fn read(&mut self, source: &'s Source) -> Option<Read<'s>> {
        let text = Text::new(self.sources.display(source), &source.text);
        let value = text.read(source.invalid_at, &mut self.faults)?;
        Some(Read { text, value, origin: source.origin, is_shared: source.role.is_shared() })
    }

    /// Reads `value` as a form and keeps its faults. A form with a simple slip is read without the slip, so that other
    /// faults in the file are reported at the same time.
    pub(crate) fn form<T: DeserializeOwned + Validate>(&mut self, shape: &Shape, text: &Text<'s>, value: &Value) -> Option<T> {
        self.form_of(shape, |_| text, value)
    }

    /// Reads `value` like [`Self::form`]; `text` returns the text that holds what is at a pointer.
    pub(crate) fn form_of<'t, T: DeserializeOwned + Validate>(
        &mut self,
        shape: &Shape,
        text: impl Fn(&str) -> &'t Text<'s>,
        value: &Value,
    ) -> Option<T>
    where
        's: 't,
    {
        match shape.read(value) {
            Ok(form) => Some(form),
            Err(faults) => {
                let repaired = shape::repaired(value, &faults);
                self.faults.extend(faults.into_iter().map(|fault| place(text(&fault.pointer), fault)));
                repaired.and_then(|value| shape.read(&value).ok())
            }
        }
    }

    /// Reads the agents of the project and of the job. A job's file refines the project's of the same id.
    pub(crate) fn read_agents(&mut self) {
        let mut known: HashMap<String, (String, Role, String)> = HashMap::new();
        let mut agents: BTreeMap<String, Vec<Read<'s>>> = BTreeMap::new();
        for source in [Role::SharedAgent, Role::Agent].into_iter().flat_map(|role| self.sources.of(role)) {
            let stem = stem(&source.path).to_owned();
            let Some(read) = self.read(source) else {
                self.assumed_agents.insert(stem);
                continue;
            };
            let id = read.value.get("agent_id").and_then(Value::as_str).unwrap_or(&stem).to_owned();
            let (key, place) = (twin_key(&id), read.text.place("/agent_id", Spot::Value));
            match known.get(&key) {
                Some((earlier, role, at)) if *earlier != id || *role == source.role => {
                    self.faults.push(same_id(&read.text, "/agent_id", "agent", &id).note(format!("the other at {at}")));
                    let _faults_of_its_own: Option<AgentForm> = self.form(&shape::AGENT, &read.text, &read.value);
                }
                _ => {
                    known.insert(key, (id.clone(), source.role, place));
                    agents.entry(id).or_default().push(read);
                }
            }
        }
        for (id, files) in agents {
            let agent = self.read_agent(&id, files);
            self.agents.insert(id, agent);
        }
    }

    /// Reads the form of an agent from its files, the project's first.
    fn read_agent(&mut self, id: &str, files: Vec<Read<'s>>) -> ReadAgent<'s> {
        let mut value = Value::Null;
        for read in &files {
            match (&mut value, &read.value) {
                (Value::Object(below), Value::Object(over)) => {
                    if over.get("agent_id").is_none() {
                        let message = "key \"agent_id\" is missing";
                        self.faults.push(read.text.fault(FaultKind::MissingKey, "/agent_id", Spot::Key, message));
                    }
                    below.extend(over.clone());
                }
                (below, only) => *below = only.clone(),
            }
        }
        let mut agent = ReadAgent { files, value, form: None };
        agent.form = self.form_of(&shape::AGENT, |pointer| agent.text(pointer), &agent.value);
        for read in &agent.files {
            let stem = stem(&read.text.file);
            if agent.form.is_some() {
                self.check_name(read, "/agent_id", id, stem);
            } else {
                self.assumed_agents.extend([stem.to_owned(), id.to_owned()]);
            }
        }
        agent
    }

    /// Reports a file that is not named after its id.
    pub(crate) fn check_name(&mut self, read: &Read<'s>, pointer: &str, id: &str, stem: &str) {
        if id != stem {
            let message = format!("the file is named {stem}.json, but its id is \"{id}\"");
            let fault = read.text.fault(FaultKind::FileName, pointer, Spot::Value, message);
            self.faults.push(fault.expected(format!("\"{stem}\", or a file named {id}.json")));
        }
    }

    /// Returns the grants of all agents, before their forms are read.
    pub(crate) fn grants(&self) -> Vec<GrantForm> {
        let lists = self.agents.values().filter_map(|agent| agent.value.get("tools")?.as_array());
        lists.flatten().filter_map(|grant| GrantForm::deserialize(grant).ok()).collect()
    }

    /// Whether an agent of that id exists or was meant to.
    pub(crate) fn has_agent(&self, id: &str) -> bool {
        self.agents.contains_key(id) || self.assumed_agents.contains(id)
    }

    /// Whether a tool of that id exists or was meant to.
    pub(crate) fn has_tool(&self, id: &str) -> bool {
        self.tools.contains_key(id) || self.assumed_tools.contains(id)
    }
}

/// Places a fault of a form in the text.
pub(crate) fn place(text: &Text<'_>, fault: ShapeFault) -> Fault {
    let mut placed = text.fault(fault.kind, &fault.pointer, fault.spot, fault.message);
    placed.expected = fault.expected;
    placed.nearest = fault.nearest;
    let placed = match fault.found {
        Some(found) => placed.found(found),
        None => placed,
    };
    if fault.is_secret { placed.without_line() } else { placed }
}

/// Returns the file's name without folder and `.json`.
pub(crate) fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".json").unwrap_or(name)
}

/// Ids with one key are too similar to be used together.
pub(crate) fn twin_key(id: &str) -> String {
    id.replace('-', "_").to_lowercase()
}

pub(crate) fn same_id(text: &Text<'_>, pointer: &str, what: &str, id: &str) -> Fault {
    let message = format!("{what} \"{id}\" has the id of another one; - and _ count as the same");
    text.fault(FaultKind::SameId, pointer, Spot::Value, message)
}

pub(crate) fn fault_of_function(kind: FaultKind, function: &ToolFunction, message: String) -> Fault {
    let mut fault = Fault::of_file(kind, function.file, message);
    fault.line = function.line as usize;
    fault
}

/// `file:line` of a function.
pub(crate) fn place_of(function: &ToolFunction) -> String {
    format!("{}:{}", function.file, function.line)
}
