//! Configurations: values of a tool's settings, and the name of a key, that a call chooses by an id.
//!
//! A configuration is a tool with other settings. So everything that handles a tool also handles a configured one.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::{Agent, Configs, Tool};
use crate::call::ModelCall;
use crate::id::AgentId;
use crate::json::Json;

/// The input of some tools that names a configuration: an alias of the call's own `config_id`.
pub const CONFIG_ID: &str = "config_id";

/// The setting of those tools that holds more configurations, by id.
const CONFIGS: &str = "configs";

/// A configuration of a tool. The tool that has it has its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Its id, by which calls name it.
    pub id: String,
    /// Name of the variable with the key of the tool's requests to models; `None` for each provider's own.
    pub model_key: Option<String>,
    /// Name of the variable that is read in place of the tool's only secret.
    pub secret: Option<String>,
}

/// The configuration that a call names.
#[derive(Clone, Debug)]
pub enum Named<'a> {
    /// The call names none.
    None,
    /// The agent may use it: the tool with its settings.
    Granted(&'a Arc<Tool>),
    /// One of the tool's own setting `configs`, which its function applies.
    OfSetting(Cow<'a, str>),
    /// The agent has no such configuration of the tool.
    Unknown(Cow<'a, str>),
    /// The call and its input name different ones.
    Ambiguous,
}

impl Agent {
    /// Returns the configuration of `tool` that `asked` names.
    pub fn named<'a>(&'a self, tool: &Tool, asked: &'a ModelCall) -> Named<'a> {
        let own = asked.config_id.as_deref();
        // Only a granted configuration is looked for in an input. Others are the function's own.
        let in_input = if tool.takes_config_id && (own.is_some() || self.configurations_of(tool).next().is_some()) {
            let input = asked.input.value();
            input.get(CONFIG_ID).and_then(Value::as_str).map(str::to_owned)
        } else {
            None
        };
        let id = match (own, in_input) {
            (None, None) => return Named::None,
            (Some(own), Some(input)) if own != input => return Named::Ambiguous,
            (Some(own), _) => Cow::Borrowed(own),
            (None, Some(input)) => Cow::Owned(input),
        };
        match self.configurations.get(&*id) {
            Some(configured) if configured.id == tool.id => Named::Granted(configured),
            _ if tool.takes_config_id && tool.has_config_in_setting(&id) => Named::OfSetting(id),
            _ => Named::Unknown(id),
        }
    }

    /// Returns the lines of a catalog about its configurations; empty if it has none.
    pub fn configuration_lines(&self) -> String {
        self.configuration_lines_of(self.tools.values())
    }

    /// Returns those lines about the configurations of `tools`.
    pub fn configuration_lines_of<'t>(&self, tools: impl IntoIterator<Item = &'t Arc<Tool>>) -> String {
        let of_tool = |tool: &Arc<Tool>| {
            let ids: Vec<&str> = self.configurations_of(tool).collect();
            (!ids.is_empty()).then(|| format!("  config_id of {}: {}\n", tool.definition.shown_name(), ids.join(", ")))
        };
        tools.into_iter().filter_map(of_tool).collect()
    }

    /// Returns the ids of the configurations of `tool` that its calls may name.
    pub fn configurations_of(&self, tool: &Tool) -> impl Iterator<Item = &str> {
        let of_tool = self.configurations.iter().filter(|(_, configured)| configured.id == tool.id);
        of_tool.map(|(id, _)| id.as_str())
    }
}

impl Tool {
    /// Returns the ids of the configurations in its setting `configs`.
    pub fn configs_in_setting(&self) -> Vec<String> {
        let settings = self.settings.value();
        let configs = settings.get(CONFIGS).filter(|_| self.takes_config_id).and_then(Value::as_object);
        configs.into_iter().flat_map(serde_json::Map::keys).cloned().collect()
    }

    fn has_config_in_setting(&self, id: &str) -> bool {
        self.configs_in_setting().iter().any(|known| known == id)
    }
}

impl Configs {
    /// Returns the tool that the call `asked` of `agent` uses: with the settings of the granted configuration that the call
    /// names, if it names one.
    pub fn tool_of<'a>(&'a self, agent: Option<&AgentId>, asked: &'a ModelCall) -> Option<&'a Arc<Tool>> {
        let tool = self.tools.get(asked.tool.as_str())?;
        // Tools are looked up often, and most calls cannot name a configuration.
        if asked.config_id.is_none() && !tool.takes_config_id {
            return Some(tool);
        }
        let agent = agent.and_then(|id| self.agents.get(id));
        match agent.map(|agent| agent.named(tool, asked)) {
            Some(Named::Granted(configured)) => Some(configured),
            _ => Some(tool),
        }
    }

    /// Returns that tool with the input that its executor gets. A granted configuration is no part of it any more. One of the
    /// tool's setting is, since the function applies it.
    pub fn applied(&self, agent: &AgentId, asked: &ModelCall) -> Option<(Arc<Tool>, Json)> {
        let tool = self.tool_of(Some(agent), asked)?;
        if !tool.takes_config_id || (tool.configuration.is_none() && asked.config_id.is_none()) {
            return Some((Arc::clone(tool), asked.input.clone()));
        }
        let mut input = asked.input.value();
        if let Some(input) = input.as_object_mut() {
            match &asked.config_id {
                _ if tool.configuration.is_some() => drop(input.shift_remove(CONFIG_ID)),
                Some(id) => drop(input.insert(CONFIG_ID.to_owned(), Value::from(&**id))),
                None => {}
            }
        }
        Some((Arc::clone(tool), Json::from(input)))
    }
}
