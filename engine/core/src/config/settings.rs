//! What people set of a tool: declared by its config, with defaults, and given values by the job's file of it.

use serde_json::{Map, Value};

use super::Schema;
use super::dialect::{Others, object_schema};
use super::fault::FaultKind;
use super::form::ToolForm;
use super::load::Loader;
use super::reader::{Spot, pointer};
use super::shape::show;
use super::tool::Origin;
use super::tool_schema::check_part;
use crate::json::Json;

impl<'s> Loader<'s> {
    /// The values of a tool's settings, and what of them, and of the secrets that its function may read, a job's own file
    /// says that needs trust.
    pub(super) fn settings(&mut self, form: &ToolForm, origin: &Origin<'_, 's>) -> (Json, Vec<String>) {
        if form.exec.is_some() {
            for key in ["settings", "set", "secrets"].into_iter().filter(|key| says(origin, key)) {
                let message = format!("\"{key}\" is for a function; a command has its arguments, and \"env\"");
                self.faults.push(origin.fault(FaultKind::MisplacedKey, &pointer(&[key]), Spot::Key, message));
            }
        }
        let (declared, set) = (form.settings.clone().unwrap_or_default(), form.set.clone().unwrap_or_default());
        let mut values = Map::new();
        for (name, setting) in &declared {
            check_part(origin.text("/settings"), setting, &pointer(&["settings", name]), &mut self.faults);
            if let Some(default) = setting.get("default") {
                values.insert(name.clone(), default.clone());
            }
        }
        for name in set.keys().filter(|name| !declared.contains_key(*name)) {
            let message = format!("tool \"{}\" has no setting {}", form.tool_id, show(&Value::from(name.as_str())));
            let fault = origin.fault(FaultKind::UnknownKey, &pointer(&["set", name]), Spot::Key, message);
            self.faults.push(fault.near(name, declared.keys().map(String::as_str)));
        }
        let known: Map<_, _> = set.into_iter().filter(|(name, _)| declared.contains_key(name)).collect();
        for wrong in Schema::judge(&object_schema(&plain(&declared), Others::Refused), &Value::Object(known.clone())) {
            let place = format!("/set{}", wrong.pointer);
            self.faults.push(origin.fault(FaultKind::OutOfRange, &place, Spot::Value, wrong.message));
        }
        let mut to_trust = Vec::new();
        if job_says(origin, "set") {
            let needs_trust = |name: &&String| declared[*name].get("needs_trust") == Some(&Value::Bool(true));
            to_trust.extend(known.keys().filter(needs_trust).map(|name| format!("sets {name} to {}", known[name])));
        }
        if job_says(origin, "secrets") {
            to_trust.push(format!("reads the secrets {}", form.secrets.join(", ")));
        }
        values.extend(known);
        (Json::from(Value::Object(values)), to_trust)
    }
}

/// The declarations without what is no word of JSON Schema.
fn plain(declared: &Map<String, Value>) -> Map<String, Value> {
    let mut plain = declared.clone();
    for setting in plain.values_mut().filter_map(Value::as_object_mut) {
        setting.shift_remove("needs_trust");
    }
    plain
}

fn says(origin: &Origin<'_, '_>, key: &str) -> bool {
    [origin.base, origin.over].into_iter().flatten().any(|read| read.value.get(key).is_some())
}

/// Whether a file of the job says it, and not one that comes with the program.
fn job_says(origin: &Origin<'_, '_>, key: &str) -> bool {
    origin.over.is_some_and(|read| read.value.get(key).is_some())
}
