//! Settings of a tool: declared by its config, with defaults, and set by the job's file of it or by a configuration.

use std::collections::{BTreeMap, BTreeSet};

use baton_schema::{Others, object_schema};
use baton_types::config::{Origin, Reach, Target};
use baton_types::id::ToolId;
use baton_types::json::Json;
use serde_json::{Map, Value};

use crate::fault::FaultKind;
use crate::form::ToolForm;
use crate::loader::{Loader, stem};
use crate::reader::{Spot, Text, pointer};
use crate::shape::show;
use crate::source::{Role, Sources};
use crate::tool::Texts;
use crate::tool_schema::check_part;

impl<'s> Loader<'s> {
    /// Returns the values of a tool's settings, and the outside reach of its calls, with origins.
    pub(super) fn settings(&mut self, form: &ToolForm, texts: &Texts<'_, 's>) -> (Json, Vec<Reach>) {
        if form.exec.is_some() {
            for key in ["settings", "set", "secrets"].into_iter().filter(|key| says(texts, key)) {
                let message = format!("\"{key}\" is for a function; a command has its arguments, and \"env\"");
                self.faults.push(texts.fault(FaultKind::MisplacedKey, &pointer(&[key]), Spot::Key, message));
            }
        }
        let (declared, set) = (form.settings.clone().unwrap_or_default(), form.set.clone().unwrap_or_default());
        let mut values = Map::new();
        for (name, setting) in &declared {
            check_part(texts.text("/settings"), setting, &pointer(&["settings", name]), &mut self.faults);
            self.check_object(name, setting, texts);
            if let Some(default) = setting.get("default") {
                values.insert(name.clone(), default.clone());
            }
        }
        let known = self.judged(&form.tool_id, &declared, set, texts.text("/set"));
        let explicit: BTreeSet<String> = known.keys().cloned().collect();
        values.extend(known);
        let (declares, sets) = (texts.origin("settings"), texts.origin("set"));
        let mut reaches = command_reaches(form, texts.origin("exec"));
        // A declaration decides which settings need trust, so a declaration that needs trust itself cannot grant any.
        reaches.extend(values.iter().map(|(name, value)| {
            let is_set = explicit.contains(name) && needs_trust(&declared[name]);
            let origin = if is_set { declares.max(sets) } else { declares };
            let target = Target::Setting { name: name.clone(), value: value.clone() };
            Reach { holder: form.tool_id.clone(), target, origin }
        }));
        let reads = texts.origin("secrets");
        reaches.extend(form.secrets.iter().map(|variable| Reach {
            holder: form.tool_id.clone(),
            target: Target::Secret(variable.clone()),
            origin: reads,
        }));
        reaches.extend(Self::reaches_of(form, texts));
        self.declared.insert(ToolId::new(form.tool_id.as_str()), (declared, declares));
        (Json::from(Value::Object(values)), reaches)
    }

    /// Judges the values that `text` sets under `set`, and returns those of settings that the tool `id` declares.
    pub(super) fn judged(
        &mut self,
        id: &str,
        declared: &Map<String, Value>,
        set: Map<String, Value>,
        text: &Text<'s>,
    ) -> Map<String, Value> {
        for name in set.keys().filter(|name| !declared.contains_key(*name)) {
            let message = format!("tool \"{id}\" has no setting {}", show(&Value::from(name.as_str())));
            let fault = text.fault(FaultKind::UnknownKey, &pointer(&["set", name]), Spot::Key, message);
            self.faults.push(fault.near(name, declared.keys().map(String::as_str)));
        }
        let known: Map<_, _> = set.into_iter().filter(|(name, _)| declared.contains_key(name)).collect();
        for wrong in baton_schema::judge(&object_schema(&plain(declared), Others::Refused), &Value::Object(known.clone())) {
            let place = format!("/set{}", wrong.pointer);
            self.faults.push(text.fault(FaultKind::OutOfRange, &place, Spot::Value, wrong.message));
        }
        for (name, value) in &known {
            let Some(schema) = declared[name].get("schema").filter(|schema| baton_schema::read(schema).is_ok()) else { continue };
            for wrong in baton_schema::judge(schema, value) {
                let place = format!("{}{}", pointer(&["set", name]), wrong.pointer);
                self.faults.push(text.fault(FaultKind::OutOfRange, &place, Spot::Value, wrong.message));
            }
        }
        known
    }

    /// Reports an object without a schema, faults of the schema, and a default that breaks it.
    fn check_object(&mut self, name: &str, setting: &Value, texts: &Texts<'_, 's>) {
        let place = pointer(&["settings", name]);
        let Some(schema) = setting.get("schema") else {
            if setting.get("type").is_some_and(|kind| kind == "object") {
                let message = format!("the setting \"{name}\" is an object and needs a \"schema\" of its fields");
                let fault = texts.fault(FaultKind::MissingKey, &format!("{place}/schema"), Spot::Key, message);
                self.faults.push(fault.expected("\"schema\" with a JSON Schema"));
            }
            return;
        };
        let compiled = self.compile(schema, &format!("{place}/schema"), texts.text("/settings"));
        if let (Some(compiled), Some(default)) = (compiled, setting.get("default")) {
            for wrong in compiled.check(default).err().into_iter().flatten() {
                let message = format!("the default does not match the setting's schema: {}", wrong.message);
                let place = format!("{place}/default{}", wrong.pointer);
                self.faults.push(texts.fault(FaultKind::BrokenExample, &place, Spot::Value, message));
            }
        }
    }
}

/// Returns the declarations of settings by name, for each tool of `sources` that has any, for pages about tools. Tools themselves
/// hold values only. A file that refines a tool cannot change its declarations, so the first file with any has them.
pub fn declared_settings(sources: &Sources) -> BTreeMap<ToolId, Map<String, Value>> {
    let mut loader = Loader::new(sources, &[]);
    let mut declared = BTreeMap::new();
    for source in [Role::BuiltinTool, Role::SharedTool, Role::Tool].into_iter().flat_map(|role| sources.of(role)) {
        if let Some(Value::Object(settings)) = loader.read(source).and_then(|read| read.value.get("settings").cloned()) {
            declared.entry(ToolId::new(stem(&source.path))).or_insert(settings);
        }
    }
    declared
}

/// Whether a job that sets the setting needs trust.
pub(super) fn needs_trust(setting: &Value) -> bool {
    setting.get("needs_trust") == Some(&Value::Bool(true))
}

/// Returns the command of a tool, and the variables that it sees.
fn command_reaches(form: &ToolForm, origin: Origin) -> Vec<Reach> {
    let Some(exec) = &form.exec else { return Vec::new() };
    let variables = exec.env.iter().cloned().map(Target::Environment);
    let targets = std::iter::once(Target::Command(exec.command.clone())).chain(variables);
    targets.map(|target| Reach { holder: form.tool_id.clone(), target, origin }).collect()
}

/// Returns the declarations without what is no word of JSON Schema.
fn plain(declared: &Map<String, Value>) -> Map<String, Value> {
    let mut plain = declared.clone();
    for setting in plain.values_mut().filter_map(Value::as_object_mut) {
        setting.shift_remove("needs_trust");
        setting.shift_remove("schema");
    }
    plain
}

fn says(texts: &Texts<'_, '_>, key: &str) -> bool {
    texts.files.iter().any(|read| read.value.get(key).is_some())
}
