//! Values that a tool's config adds to the input of each call: `args` and `envs`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Configs, Tool};
use crate::call::ModelCall;
use crate::id::{AgentId, CallId};
use crate::json::Json;

/// Placeholders in texts of `args`: the agent, the turn and the call. Seed 004's systems have more, which need a bus.
pub const PLACEHOLDERS: [&str; 3] = ["agent_id", "step_id", "tool_call_id"];

/// Other placeholders of the systems of seed 004. Nothing fills them in here, so a config that has one is refused.
pub const OTHER_PLACEHOLDERS: [&str; 7] =
    ["project_id", "channel_id", "agent_turn_id", "parent_step_id", "trace_id", "turn_epoch", "context_box_id"];

/// The values that a tool's config adds to the input of each call (seed 004: `options` of a row of `resource.tools`).
///
/// Models see neither parameters with a fixed value nor parameters from the environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Arguments {
    /// Values of parameters that the call leaves out. An explicit `null` is a value.
    pub defaults: Map<String, Value>,
    /// Values that replace those of the call.
    pub fixed: Map<String, Value>,
    /// Variables of the environment by parameter. The executor gets their values as texts. Values of the call are removed.
    pub envs: BTreeMap<String, String>,
    /// The schema of the input with all parameters, as the config has it; `null` if the config adds no values.
    pub parameters: Json,
}

impl Arguments {
    /// Whether inputs stay as they are.
    pub fn is_empty(&self) -> bool {
        self.defaults.is_empty() && self.fixed.is_empty() && self.envs.is_empty()
    }

    /// Whether models do not see the parameter `name`.
    pub fn is_hidden(&self, name: &str) -> bool {
        self.fixed.contains_key(name) || self.envs.contains_key(name)
    }

    /// Returns the effective input of `call` of `agent`, without values from the environment. An input that is not an object stays as it is.
    pub fn applied_to(&self, input: &Json, agent: &AgentId, call: &CallId) -> Json {
        if self.is_empty() {
            return input.clone();
        }
        let Value::Object(mut keys) = input.value() else { return input.clone() };
        let filled = |value: &Value| filled(value, agent, call);
        for (name, value) in &self.defaults {
            if !keys.contains_key(name) {
                keys.insert(name.clone(), filled(value));
            }
        }
        for (name, value) in &self.fixed {
            keys.insert(name.clone(), filled(value));
        }
        for name in self.envs.keys() {
            keys.shift_remove(name);
        }
        Json::from(Value::Object(keys))
    }
}

/// Returns `value` with the placeholders in its texts replaced. Names of keys stay as they are.
fn filled(value: &Value, agent: &AgentId, call: &CallId) -> Value {
    match value {
        Value::String(text) if text.contains('{') => {
            let mut outermost = call.clone();
            while let Some((outer, _)) = outermost.outer() {
                outermost = outer;
            }
            let step = outermost.position().map(|(turn, _)| turn.to_string()).unwrap_or_default();
            // One pass: a value that is filled in is not read again.
            Value::from(replaced(text, |name| match name {
                "agent_id" => Some(agent.as_str()),
                "step_id" => Some(&step),
                "tool_call_id" => Some(call.as_str()),
                _ => None,
            }))
        }
        Value::Array(items) => items.iter().map(|item| filled(item, agent, call)).collect(),
        Value::Object(keys) => {
            keys.iter().map(|(key, value)| (key.clone(), filled(value, agent, call))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

/// Replaces each `{name}` for which `value` has a text.
fn replaced<'v>(text: &str, value: impl Fn(&str) -> Option<&'v str>) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let (before, from) = rest.split_at(open);
        result.push_str(before);
        let named = from[1..].split_once('}').and_then(|(name, behind)| Some((value(name)?, behind)));
        if let Some((value, behind)) = named {
            result.push_str(value);
            rest = behind;
        } else {
            result.push('{');
            rest = &from[1..];
        }
    }
    result + rest
}

/// Returns the placeholders in the texts of `value` that are among `names`.
pub fn placeholders_in<'n>(value: &Value, names: &[&'n str]) -> Vec<&'n str> {
    let text = value.to_string();
    names.iter().filter(|name| text.contains(&format!("{{{name}}}"))).copied().collect()
}

impl Tool {
    /// Returns the input with which `call` of `agent` is checked, recorded and executed, without values from the environment.
    pub fn effective_input(&self, input: &Json, agent: &AgentId, call: &CallId) -> Json {
        self.arguments.applied_to(input, agent, call)
    }
}

impl Configs {
    /// Returns the tool of `asked` and the input that its executor gets for `call` of `agent`, without values from the environment.
    pub fn executed(&self, agent: &AgentId, call: &CallId, asked: &ModelCall) -> Option<(std::sync::Arc<Tool>, Json)> {
        let (tool, input) = self.applied(agent, asked)?;
        let input = tool.effective_input(&input, agent, call);
        Some((tool, input))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn applied(arguments: Value, input: Value) -> Value {
        let keys = |name: &str| arguments[name].as_object().cloned().unwrap_or_default();
        let envs = keys("envs").into_iter().map(|(name, value)| (name, value.as_str().unwrap_or_default().to_owned())).collect();
        let arguments = Arguments { defaults: keys("defaults"), fixed: keys("fixed"), envs, parameters: Json::null() };
        let call = CallId::from("0/1.1/3.2:fetch");
        arguments.applied_to(&Json::from(input), &AgentId::from("lead"), &call).value()
    }

    #[test]
    fn a_default_counts_only_for_a_key_that_the_call_leaves_out() {
        let arguments = json!({"defaults": {"limit": 5}});
        assert_eq!(applied(arguments.clone(), json!({"q": "a"})), json!({"q": "a", "limit": 5}));
        assert_eq!(applied(arguments.clone(), json!({"limit": 9})), json!({"limit": 9}));
        assert_eq!(applied(arguments, json!({"limit": null})), json!({"limit": null}), "an explicit null is a value");
    }

    #[test]
    fn a_fixed_value_replaces_that_of_the_call() {
        assert_eq!(applied(json!({"fixed": {"region": "eu"}}), json!({"region": "us"})), json!({"region": "eu"}));
    }

    #[test]
    fn a_value_of_the_call_for_a_parameter_from_the_environment_is_removed() {
        assert_eq!(applied(json!({"envs": {"key": "SEARCH_KEY"}}), json!({"q": 1, "key": "mine"})), json!({"q": 1}));
    }

    #[test]
    fn placeholders_are_filled_in_once_and_only_in_texts_of_the_config() {
        let fixed = json!({"fixed": {"by": ["{agent_id} in {step_id}: {tool_call_id}", 1], "no": "{other} {", "{agent_id}": "{{agent_id}}"}});
        assert_eq!(
            applied(fixed, json!({"q": "{agent_id}"})),
            json!({"q": "{agent_id}", "by": ["lead in 3: 0/1.1/3.2:fetch", 1], "no": "{other} {", "{agent_id}": "{lead}"})
        );
    }
}
