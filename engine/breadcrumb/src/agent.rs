//! `agent.definition.v1`: a record that is an agent (seed 003).
//!
//! The record has the keys of an agent's config, and besides them what starts the agent and what it reads first. Only the form is
//! checked here, so that a faulty record is refused when it is written. The config loader checks the rest.

use std::collections::BTreeMap;

use baton_types::breadcrumb::Breadcrumb;
use baton_types::id::{AgentId, is_valid_id};
use baton_types::principal::RESERVED_AGENT_IDS;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::BreadcrumbError;
use crate::selector::{CATALOG_SCHEMA, Selector};

/// The schema of agents.
pub const AGENT_SCHEMA: &str = "agent.definition.v1";

/// Greatest number of triggers in a chain, if a definition does not set it.
pub const DEFAULT_TRIGGER_DEPTH: u32 = 8;
/// The most that a definition may set.
const MAX_TRIGGER_DEPTH: u32 = 100;
/// The most selectors, and the most builders.
const MAX_PARTS: usize = 32;

/// The keys of an agent's config that a definition may have. Those that name files are not among them: a record has no folder.
const CONFIG_KEYS: [&str; 16] = [
    "agent_id",
    "description",
    "model",
    "system_prompt",
    "tools",
    "configs",
    "invocation",
    "catalog",
    "on_text",
    "join",
    "open_tasks",
    "tell_limits",
    "summary",
    "limits",
    "result_schema",
    "settings",
];

/// An agent, read from its record.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentDefinition {
    /// The agent.
    pub agent: AgentId,
    /// Its config, without the keys that only definitions have.
    pub config: Map<String, Value>,
    /// The records that start it, and those that it gets as context.
    pub selectors: Vec<Selector>,
    /// Searches whose results it gets, by name.
    pub builders: BTreeMap<String, ContextBuilder>,
    /// Greatest number of triggers in a chain that ends with it.
    pub trigger_depth: u32,
}

/// A search whose result an agent gets when it starts.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextBuilder {
    /// The kind of builder.
    #[serde(rename = "type")]
    pub kind: BuilderKind,
    /// The schema of the records. The catalog of tools is derived from the agent's tools.
    #[serde(default)]
    pub schema_name: Option<String>,
    /// The tags of the records.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The words of a search.
    #[serde(default)]
    pub query: Option<String>,
    /// The most records (default: 10).
    #[serde(default)]
    pub limit: Option<usize>,
    /// The form in which the agent gets them (default: as data).
    #[serde(default)]
    pub transform: Option<Transform>,
}

/// Kind of a builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BuilderKind {
    /// A search for records.
    BreadcrumbSearch,
}

/// Form in which an agent gets records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transform {
    /// The catalog of tools as a prompt: a second system message.
    PromptAdapter,
}

/// The keys that only definitions have.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    #[serde(default)]
    subscriptions: Subscriptions,
    #[serde(default)]
    context_builders: BTreeMap<String, ContextBuilder>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Subscriptions {
    #[serde(default)]
    selectors: Vec<Selector>,
}

impl AgentDefinition {
    /// Reads an agent from its record.
    ///
    /// # Errors
    /// If the context has an unknown key, or a selector or builder that cannot be meant.
    pub fn read(record: &Breadcrumb) -> Result<Self, BreadcrumbError> {
        Self::of(record).map_err(|reason| BreadcrumbError::invalid("context", reason))
    }

    fn of(record: &Breadcrumb) -> Result<Self, String> {
        let Value::Object(context) = record.context.value() else { return Err("expected an object with agent_id".to_owned()) };
        let (mut config, mut own) = (Map::new(), Map::new());
        for (key, value) in context {
            if CONFIG_KEYS.contains(&key.as_str()) {
                config.insert(key, value);
            } else if matches!(key.as_str(), "subscriptions" | "context_builders") {
                own.insert(key, value);
            } else {
                let known = CONFIG_KEYS.join(", ");
                return Err(format!("an agent has no key {key:?}; its keys are {known}, subscriptions and context_builders"));
            }
        }
        let agent = text(&config, "agent_id")?;
        if !is_valid_id(&agent) || RESERVED_AGENT_IDS.contains(&agent.as_str()) {
            return Err(format!("agent_id: {agent:?} cannot name an agent; use lowercase letters, digits, - and _"));
        }
        text(&config, "system_prompt")?;
        text(&config, "model")?;
        config.entry("description").or_insert_with(|| record.description.clone().unwrap_or_else(|| record.title.clone()).into());
        let trigger_depth = trigger_depth(&mut config)?;
        let Form { subscriptions, context_builders } =
            serde_json::from_value(Value::Object(own)).map_err(|error| format!("the agent cannot be read: {error}"))?;
        let selectors = subscriptions.selectors;
        if selectors.len() > MAX_PARTS || context_builders.len() > MAX_PARTS {
            return Err(format!("an agent has {MAX_PARTS} selectors and {MAX_PARTS} context_builders at most"));
        }
        for (at, selector) in selectors.iter().enumerate() {
            selector.check().map_err(|reason| format!("subscriptions.selectors[{at}]: {reason}"))?;
        }
        for (name, builder) in &context_builders {
            builder.check().map_err(|reason| format!("context_builders.{name}: {reason}"))?;
        }
        Ok(Self { agent: AgentId::new(agent), config, selectors, builders: context_builders, trigger_depth })
    }

    /// Checks a record that is an agent: that it can be read.
    pub(crate) fn check(record: &Breadcrumb) -> Result<(), BreadcrumbError> {
        if record.schema_name.as_deref() == Some(AGENT_SCHEMA) { Self::read(record).map(drop) } else { Ok(()) }
    }

    /// Whether the record starts the agent: the first selector that it meets is a trigger.
    pub fn selects(&self, record: &Breadcrumb) -> bool {
        let context = record.context.value();
        self.selectors.iter().find(|selector| selector.matches(record, &context)).is_some_and(Selector::is_trigger)
    }

    /// Returns the tags with which it asks for the catalog of tools as a prompt, if it does.
    pub fn tool_prompt(&self) -> Option<&[String]> {
        let asks = |builder: &&ContextBuilder| builder.transform == Some(Transform::PromptAdapter);
        self.builders.values().find(asks).map(|builder| builder.tags.as_slice())
    }

    /// Whether it reads the catalog of tools.
    pub fn reads_catalog(&self) -> bool {
        let schemas = self.selectors.iter().map(|selector| &selector.schema_name);
        let schemas = schemas.chain(self.builders.values().map(|builder| &builder.schema_name));
        schemas.flatten().any(|schema| schema == CATALOG_SCHEMA)
    }
}

impl ContextBuilder {
    fn check(&self) -> Result<(), String> {
        let is_catalog = self.schema_name.as_deref() == Some(CATALOG_SCHEMA);
        if self.transform == Some(Transform::PromptAdapter) && !is_catalog {
            return Err(format!("prompt_adapter makes a prompt of {CATALOG_SCHEMA} alone"));
        }
        if self.schema_name.is_none() && self.tags.is_empty() && self.query.is_none() {
            return Err("it has no condition; name schema_name, tags or query".to_owned());
        }
        match self.limit {
            Some(limit) if !(1..=100).contains(&limit) => Err(format!("limit is 1 to 100, not {limit}")),
            _ => Ok(()),
        }
    }
}

/// Takes the depth of chains out of the limits.
fn trigger_depth(config: &mut Map<String, Value>) -> Result<u32, String> {
    let Some(Value::Object(limits)) = config.get_mut("limits") else { return Ok(DEFAULT_TRIGGER_DEPTH) };
    let Some(depth) = limits.remove("trigger_depth") else { return Ok(DEFAULT_TRIGGER_DEPTH) };
    let depth =
        depth.as_u64().and_then(|depth| u32::try_from(depth).ok()).filter(|depth| (1..=MAX_TRIGGER_DEPTH).contains(depth));
    depth.ok_or_else(|| format!("limits.trigger_depth is 1 to {MAX_TRIGGER_DEPTH}"))
}

fn text(config: &Map<String, Value>, key: &str) -> Result<String, String> {
    match config.get(key) {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(text.clone()),
        Some(other) => Err(format!("{key} is a text, not {other}")),
        None => Err(format!("{key} is missing")),
    }
}
