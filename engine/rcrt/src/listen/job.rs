//! The job of an agent that is a record: its config as a file, and those of the agents to which it delegates.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_breadcrumb::AgentDefinition;
use baton_config::{Role, Sources};
use baton_runtime::LoadedJob;
use baton_types::breadcrumb::Breadcrumb;
use baton_types::config::{EffectClass, Tool};
use baton_types::id::{BreadcrumbId, ROUTE_PREFIX};
use baton_types::tool_type::ToolType;
use serde_json::{Map, Value, json};

use super::{Listener, NoRun};

/// The provider of models that are named as OpenRouter names them, such as `google/gemini-2.5-flash` (seed 003).
const PROVIDER_OF_PATHS: &str = "openrouter";

/// Returns the job of an agent. Agents to which it delegates are part of it if they are records too. Faults are `Failed`: the trigger waits
/// until they are mended.
pub(super) fn of_agent(
    listener: &Listener,
    record: &Breadcrumb,
    others: &[(BreadcrumbId, Breadcrumb)],
) -> Result<LoadedJob, NoRun> {
    let definition = AgentDefinition::read(record).map_err(|error| NoRun::Failed(error.to_string()))?;
    let read: BTreeMap<String, AgentDefinition> = others
        .iter()
        .filter_map(|(_, other)| AgentDefinition::read(other).ok())
        .map(|other| (format!("{ROUTE_PREFIX}{}", other.agent), other))
        .collect();
    let job = json!({
        "job_id": definition.agent,
        "description": record.title,
        "root": definition.agent,
        "request": "Process the record.",
    });
    let files = (listener.read_project)(&job.to_string()).map_err(NoRun::Failed)?;
    let mut sources = files.sources;
    let (mut open, mut added) = (vec![&definition], Vec::new());
    while let Some(agent) = open.pop() {
        if added.contains(&agent.agent) {
            continue;
        }
        added.push(agent.agent.clone());
        let tools = match agent.config.get("tools") {
            Some(tools) => tools.clone(),
            None if agent.reads_catalog() => tools_without_effect(listener, &sources)?,
            None => json!([]),
        };
        open.extend(named(&tools).filter_map(|tool| read.get(tool)));
        let config = config_of(agent, tools);
        sources.add(Role::Agent, format!("agents/{}.json", agent.agent), Value::Object(config).to_string());
    }
    let mut job = listener.engine.load(sources.in_order()).map_err(|faults| NoRun::Failed(faults.to_string()))?;
    job.folder = Some(files.folder);
    Ok(job)
}

/// Returns the config of an agent as its file has it.
fn config_of(agent: &AgentDefinition, tools: Value) -> Map<String, Value> {
    let mut config = agent.config.clone();
    config.insert("tools".to_owned(), tools);
    if let Some(Value::String(model)) = config.get_mut("model")
        && model.contains('/')
        && !model.contains(':')
    {
        *model = format!("{PROVIDER_OF_PATHS}:{model}");
    }
    if agent.tool_prompt().is_some() {
        config.entry("invocation").or_insert_with(|| json!("universal"));
        if config["invocation"] == "universal" {
            config.entry("catalog").or_insert_with(|| json!("prompt"));
        }
    }
    config
}

/// Returns the grants of an agent that names no tools and reads the catalog: each tool that has no effect.
fn tools_without_effect(listener: &Listener, sources: &Sources) -> Result<Value, NoRun> {
    let tools = listener.engine.load_tools(sources).map_err(|faults| NoRun::Failed(faults.to_string()))?;
    let is_harmless = |tool: &&Arc<Tool>| {
        tool.tool_type == ToolType::FunctionTool
            && tool.effect == EffectClass::Pure
            && tool.agent.is_none()
            && tool.approval.is_none()
            && tool.calls.is_empty()
    };
    Ok(tools.values().filter(is_harmless).map(|tool| json!(tool.id)).collect())
}

/// Returns the ids of the tools that grants name.
fn named(tools: &Value) -> impl Iterator<Item = &str> {
    tools.as_array().into_iter().flatten().filter_map(|grant| grant.as_str().or_else(|| grant["tool"].as_str()))
}
