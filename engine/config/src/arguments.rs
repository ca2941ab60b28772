//! `args` and `envs` of a tool's config: values that are added to the input of each call. `target_subject`: the tool service that
//! executes the calls.

use baton_schema::{ENV_PATTERN, is_environment_name, judge};
use baton_types::config::{
    Arguments, CONFIG_ID, OTHER_PLACEHOLDERS, Origin, PLACEHOLDERS, Reach, ServiceSpec, Target, placeholders_in,
};
use baton_types::json::Json;
use baton_types::schema::Schema;
use baton_utp::subject::TargetSubject;
use serde_json::{Map, Value};

use crate::fault::FaultKind;
use crate::form::ToolForm;
use crate::loader::Loader;
use crate::reader::{Spot, pointer};
use crate::shape::show;
use crate::tool::Texts;

/// Keys that mean nothing for a tool whose calls a service executes.
const NOT_FOR_SERVICES: [&str; 8] = ["writes", "idle_seconds", "calls", "runs_programs", "settings", "set", "secrets", "changes"];

impl<'s> Loader<'s> {
    /// Returns the values that the config adds to inputs, whose schema is `schema`.
    pub(super) fn arguments(&mut self, form: &ToolForm, schema: &Value, texts: &Texts<'_, 's>) -> Arguments {
        if form.args.is_none() && form.envs.is_none() {
            return Arguments::default();
        }
        let (defaults, fixed) = form.args.clone().map(|args| (args.defaults, args.fixed)).unwrap_or_default();
        let mut arguments = Arguments { defaults, fixed, envs: form.envs.clone().unwrap_or_default(), parameters: Json::null() };
        if !arguments.is_empty() {
            arguments.parameters = Json::from(schema);
        }
        let known = schema.get("properties").and_then(Value::as_object);
        let names: Vec<&str> = known.into_iter().flat_map(Map::keys).map(String::as_str).collect();
        let places = [("args/defaults", &arguments.defaults), ("args/fixed", &arguments.fixed)];
        let values =
            places.iter().flat_map(|(place, values)| values.iter().map(move |(name, value)| (*place, name, Some(value))));
        let envs = arguments.envs.keys().map(|name| ("envs", name, None));
        let mut seen: Vec<(&str, &String)> = Vec::new();
        for (place, name, value) in values.chain(envs) {
            let keys: Vec<&str> = place.split('/').chain([name.as_str()]).collect();
            let place_of = pointer(&keys);
            let fault = |kind, spot, message: String| texts.fault(kind, &place_of, spot, message);
            if !names.contains(&name.as_str()) {
                let message = format!("the tool has no parameter {}", show(&Value::from(name.as_str())));
                self.faults.push(fault(FaultKind::UnknownKey, Spot::Key, message).near(name, names.iter().copied()));
                continue;
            }
            if name == CONFIG_ID {
                let message = format!("\"{CONFIG_ID}\" names a configuration, which only the call chooses");
                self.faults.push(fault(FaultKind::ReservedName, Spot::Key, message));
            }
            if let Some((earlier, _)) = seen.iter().find(|(_, other)| *other == name) {
                let message = format!("the parameter \"{name}\" is also in \"{}\"", earlier.replace('/', "."));
                self.faults.push(fault(FaultKind::MisplacedKey, Spot::Key, message).expected("one of the two"));
            }
            seen.push((place, name));
            let Some(value) = value else { continue };
            for placeholder in placeholders_in(value, &OTHER_PLACEHOLDERS) {
                let message = format!("unknown placeholder {{{placeholder}}}");
                let known: Vec<String> = PLACEHOLDERS.iter().map(|name| format!("{{{name}}}")).collect();
                self.faults.push(fault(FaultKind::UnknownValue, Spot::Value, message).expected(known.join(", ")));
            }
            let mut alone = schema.clone();
            alone.as_object_mut().and_then(|keys| keys.shift_remove("required"));
            for wrong in judge(&alone, &Value::Object(Map::from_iter([(name.clone(), value.clone())]))) {
                let message = format!("the value breaks the schema of the parameter: {}", wrong.message);
                self.faults.push(fault(FaultKind::OutOfRange, Spot::Value, message));
            }
        }
        for (name, variable) in arguments.envs.iter().filter(|(_, variable)| !is_environment_name(variable)) {
            let message = format!("{} is not the name of a variable", show(&Value::from(variable.as_str())));
            let fault = texts.fault(FaultKind::OutOfRange, &pointer(&["envs", name]), Spot::Value, message);
            self.faults.push(fault.expected(format!("a name that matches {ENV_PATTERN}")));
        }
        arguments
    }

    /// Reports what cannot be in the config of a tool service, and a time for calls that are never suspended.
    pub(super) fn check_service(&mut self, form: &ToolForm, value: &Value, texts: &Texts<'_, 's>) {
        let Some(subject) = &form.target_subject else {
            if form.suspend_timeout_seconds.is_some() && !form.suspends.unwrap_or_default() {
                let message = "\"suspend_timeout_seconds\" does not apply here: no call is suspended";
                let fault = texts.fault(FaultKind::MisplacedKey, "/suspend_timeout_seconds", Spot::Key, message);
                self.faults.push(fault.expected("this key only with \"suspends\": true or a \"target_subject\""));
            }
            return;
        };
        if let Err(error) = TargetSubject::parse(subject) {
            let fault = texts.fault(FaultKind::OutOfRange, "/target_subject", Spot::Value, error.to_string());
            self.faults.push(fault.expected("cg.v1r3.PROJECT.CHANNEL.cmd.tool.TARGET"));
        }
        for key in NOT_FOR_SERVICES.into_iter().filter(|key| value.get(key).is_some()) {
            let message = format!("\"{key}\" does not apply to a tool with \"target_subject\": a service executes its calls");
            self.faults.push(texts.fault(FaultKind::MisplacedKey, &pointer(&[key]), Spot::Key, message));
        }
        if form.suspends == Some(false) {
            let message = "calls of a tool with \"target_subject\" are suspended until the service answers";
            let fault = texts.fault(FaultKind::MisplacedKey, "/suspends", Spot::Value, message);
            self.faults.push(fault.expected("true, or no such key"));
        }
        for (index, _) in form.examples.iter().enumerate().filter(|(_, example)| example.run != Some(false)) {
            let message = "an example of a tool service cannot run as a test";
            let place = pointer(&["examples", &index.to_string()]);
            self.faults.push(texts.fault(FaultKind::MisplacedKey, &place, Spot::Value, message).expected("\"run\": false"));
        }
    }

    /// Returns the executor of a tool with a `target_subject`.
    pub(super) fn service_of(form: &ToolForm) -> Option<ServiceSpec> {
        form.target_subject.clone().map(|target_subject| ServiceSpec { target_subject })
    }

    /// Returns what the calls reach besides: the service, and variables of the environment.
    pub(super) fn reaches_of<'f>(form: &'f ToolForm, texts: &Texts<'_, '_>) -> impl Iterator<Item = Reach> + 'f {
        let (serves, reads) = (texts.origin("target_subject"), texts.origin("envs"));
        let reach = move |target, origin: Origin| Reach { holder: form.tool_id.clone(), target, origin };
        let service = form.target_subject.iter().map(move |subject| reach(Target::Service(subject.clone()), serves));
        let variables = form.envs.iter().flat_map(|envs| envs.values());
        service.chain(variables.map(move |variable| reach(Target::Secret(variable.clone()), reads)))
    }

    /// Returns the schema by which effective inputs are judged, and the one that models see.
    ///
    /// The first lacks the parameters from the environment: their values come later. The second lacks all that the config decides.
    /// Parameters with a default are not required there.
    pub(super) fn schemas_of(schema: &Value, own: Schema, arguments: &Arguments) -> (Schema, Schema) {
        if arguments.is_empty() {
            return (own.clone(), own);
        }
        let judged = without(schema, |name| arguments.envs.contains_key(name), |_| false);
        let seen = without(schema, |name| arguments.is_hidden(name), |name| arguments.defaults.contains_key(name));
        (baton_schema::derived(&judged), baton_schema::derived(&seen))
    }
}

/// Returns the schema of an object without the properties that `is_hidden`, and with those that are `optional` not required.
fn without(schema: &Value, is_hidden: impl Fn(&str) -> bool, is_optional: impl Fn(&str) -> bool) -> Value {
    let mut schema = schema.clone();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.retain(|name, _| !is_hidden(name));
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name.as_str().is_none_or(|name| !is_hidden(name) && !is_optional(name)));
        if required.is_empty()
            && let Some(keys) = schema.as_object_mut()
        {
            keys.shift_remove("required");
        }
    }
    schema
}
