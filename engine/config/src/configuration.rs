//! Configurations of tools: files in `configs/` that set other values, or name another key, for the calls that choose them.
//!
//! A job's file refines the project's of the same id, key by key. A configuration becomes a copy of its tool with other settings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_types::config::{CONFIG_ID, Configuration, Invocation, Reach, Target, Tool};
use baton_types::id::{ToolId, is_valid_id};
use baton_types::json::Json;
use serde_json::{Map, Value};

use crate::fault::FaultKind;
use crate::form::{AgentForm, ToolConfigurationForm};
use crate::load::Unconfigured;
use crate::loader::{Loader, Read, holder, stem};
use crate::reader::{Spot, Text, pointer};
use crate::settings::needs_trust;
use crate::shape;
use crate::source::Role;

/// The setting that a tool which asks models has.
const MODEL: &str = "model";

impl<'s> Loader<'s> {
    /// Loads the configurations of the project and of the job. A run that continues needs those that an agent is granted only.
    pub(crate) fn load_configurations(&mut self, unconfigured: Unconfigured) {
        let mut files: BTreeMap<String, Vec<Read<'s>>> = BTreeMap::new();
        for source in [Role::SharedConfiguration, Role::Configuration].into_iter().flat_map(|role| self.sources.of(role)) {
            let id = stem(&source.path).to_owned();
            if unconfigured == Unconfigured::Allowed && !self.is_granted_configuration(&id) {
                continue;
            }
            let Some(read) = self.read(source) else {
                self.assumed_configurations.insert(id);
                continue;
            };
            if is_valid_id(&id) {
                files.entry(id).or_default().push(read);
            } else {
                let message = format!("the file name {id:?} cannot be the id of a configuration");
                let fault = read.text.fault(FaultKind::FileName, "", Spot::Value, message);
                self.faults.push(fault.expected("small letters and digits, joined by single _ or -"));
                self.assumed_configurations.insert(id);
            }
        }
        for (id, files) in files {
            let faults = self.faults.len();
            match self.configured(&id, &files).filter(|_| self.faults.len() == faults) {
                Some(tool) => drop(self.configurations.insert(id, Arc::new(tool))),
                None => drop(self.assumed_configurations.insert(id)),
            }
        }
    }

    /// Whether some agent names the configuration `id`.
    fn is_granted_configuration(&self, id: &str) -> bool {
        let lists = self.agents.values().filter_map(|agent| agent.value.get("configs")?.as_array());
        lists.flatten().any(|granted| granted == id)
    }

    /// Returns the tool with the configuration of `files`.
    fn configured(&mut self, id: &str, files: &[Read<'s>]) -> Option<Tool> {
        let mut merged = Value::Null;
        for read in files {
            match (&mut merged, &read.value) {
                (Value::Object(below), Value::Object(over)) => below.extend(over.clone()),
                (below, only) => *below = only.clone(),
            }
        }
        let text = |pointer: &str| &holder(files.iter(), pointer).text;
        let form: ToolConfigurationForm = self.form_of(&shape::CONFIGURATION, text, &merged)?;
        let Some(tool) = self.tools.get(form.tool.as_str()).map(Arc::clone) else {
            if !self.has_tool(&form.tool) {
                let message = format!("the configuration \"{id}\" is for the unknown tool \"{}\"", form.tool);
                let fault = text("/tool").fault(FaultKind::UnknownTool, "/tool", Spot::Value, message);
                self.faults.push(fault.near(&form.tool, self.tools.keys().map(ToolId::as_str)));
            }
            return None;
        };
        let (declared, declares) = self.declared.get(&tool.id).cloned().unwrap_or_default();
        let takes_key = declared.contains_key(MODEL) || tool.secrets.len() == 1;
        if declared.is_empty() && !takes_key {
            let message = format!("tool \"{}\" has no settings and no key, so it has no configurations", tool.id);
            self.faults.push(text("/tool").fault(FaultKind::MisplacedKey, "/tool", Spot::Value, message));
            return None;
        }
        if form.key.is_some() && !takes_key {
            let message = format!("tool \"{}\" takes no \"key\"", tool.id);
            let fault = text("/key").fault(FaultKind::MisplacedKey, "/key", Spot::Key, message);
            self.faults.push(fault.expected("this key only for a tool with the setting \"model\", or with one secret"));
        }
        if form.key.is_none() && form.set.as_ref().is_none_or(Map::is_empty) {
            let message = format!("the configuration \"{id}\" changes nothing");
            let fault = text("").fault(FaultKind::MissingKey, "", Spot::Value, message);
            self.faults.push(fault.expected("\"set\" with a value, \"key\", or both"));
        }
        let set = self.judged(tool.id.as_str(), &declared, form.set.unwrap_or_default(), text("/set"));
        let reach = |target, origin| Reach { holder: format!("{} with configuration {id}", tool.id), target, origin };
        let origin = |key: &str| holder(files.iter(), key).origin;
        // As in a tool's own file, a declaration that needs trust itself cannot grant any.
        let origin_of = |name: &str| if needs_trust(&declared[name]) { declares.max(origin("/set")) } else { declares };
        let sets = set.iter().map(|(name, value)| {
            let target = Target::Setting { name: name.clone(), value: value.clone() };
            reach(target, origin_of(name))
        });
        let key = form.key.iter().map(|variable| reach(Target::Secret(variable.clone()), origin("/key")));
        let reaches = sets.chain(key).collect();
        let mut settings = match tool.settings.value() {
            Value::Object(settings) => settings,
            _ => Map::new(),
        };
        settings.extend(set);
        let (model_key, secret) = if declared.contains_key(MODEL) { (form.key, None) } else { (None, form.key) };
        let configuration = Some(Configuration { id: id.to_owned(), model_key, secret });
        Some(Tool { settings: Json::from(Value::Object(settings)), configuration, reaches, ..Tool::clone(&tool) })
    }

    /// Returns the configurations that `form` grants for calls of `tools`.
    pub(crate) fn granted_configurations(
        &mut self,
        form: &AgentForm,
        invocation: Invocation,
        tools: &BTreeMap<ToolId, Arc<Tool>>,
        text: &Text<'s>,
    ) -> BTreeMap<String, Arc<Tool>> {
        let (mut granted, mut seen) = (BTreeMap::new(), BTreeSet::new());
        for (index, id) in form.configs.iter().enumerate() {
            let place = pointer(&["configs", &index.to_string()]);
            let fault = |kind, message: String| text.fault(kind, &place, Spot::Value, message);
            if !seen.insert(id) {
                self.faults.push(fault(FaultKind::SameId, format!("configuration \"{id}\" is granted twice")));
                continue;
            }
            let Some(configured) = self.configurations.get(id) else {
                if !self.assumed_configurations.contains(id) {
                    let message = format!("agent \"{}\" is granted the unknown configuration \"{id}\"", form.agent_id);
                    let known: BTreeSet<&str> =
                        self.configurations.keys().chain(&self.assumed_configurations).map(String::as_str).collect();
                    let fault = fault(FaultKind::UnknownConfiguration, message).expected(format!("a file configs/{id}.json"));
                    self.faults.push(fault.near(id, known));
                }
                continue;
            };
            let tool = &configured.id;
            if !tools.contains_key(tool) {
                let message =
                    format!("configuration \"{id}\" is of tool \"{tool}\", which agent \"{}\" is not granted", form.agent_id);
                self.faults.push(fault(FaultKind::UnknownTool, message).near(tool.as_str(), tools.keys().map(ToolId::as_str)));
            } else if invocation == Invocation::Native && !configured.takes_config_id {
                let message =
                    format!("tool \"{tool}\" has no input \"config_id\", so a native agent cannot use configuration \"{id}\"");
                let fault = fault(FaultKind::MisplacedKey, message);
                self.faults.push(fault.expected("\"invocation\": \"universal\", or a tool with the input \"config_id\""));
            } else {
                granted.insert(id.clone(), Arc::clone(configured));
            }
        }
        granted
    }
}

/// Returns `tools` with the granted configurations in the description of their input `config_id`, so that a model with tool
/// calls knows them.
pub(crate) fn naming(
    mut tools: BTreeMap<ToolId, Arc<Tool>>,
    configurations: &BTreeMap<String, Arc<Tool>>,
) -> BTreeMap<ToolId, Arc<Tool>> {
    let mut ids: BTreeMap<&ToolId, Vec<&str>> = BTreeMap::new();
    for (id, configured) in configurations.iter().filter(|(_, configured)| configured.takes_config_id) {
        ids.entry(&configured.id).or_default().push(id);
    }
    for (tool, ids) in ids {
        let Some(tool) = tools.get_mut(tool) else { continue };
        let mut schema = tool.definition.input_schema.value();
        let Some(input) = schema.pointer_mut(&pointer(&["properties", CONFIG_ID])).and_then(Value::as_object_mut) else {
            continue;
        };
        let said = input.get("description").and_then(Value::as_str).map(|said| format!("{said}. ")).unwrap_or_default();
        input.insert("description".to_owned(), Value::from(format!("{said}Granted: {}", ids.join(", "))));
        let definition = Arc::new(tool.definition.with_input_schema(Json::from(schema)));
        *tool = Arc::new(Tool { definition, ..Tool::clone(tool) });
    }
    tools
}
