//! Tools that delegate to an agent: every agent has one, whether or not a file refines it.

use std::sync::Arc;

use baton_schema::{Others, object_schema};
use baton_types::config::{Arguments, CalleeContext, EffectClass, OnFailure, OnUnknownOutcome, Tool};
use baton_types::id::{AgentId, ROUTE_PREFIX, ToolId};
use baton_types::json::Json;
use baton_types::limits::Limits;
use baton_types::model::ToolDefinition;
use baton_types::tool_type::ToolType;
use serde_json::{Map, Value, json};

use crate::loader::Loader;
use crate::tool::DEFAULT_TIMEOUT;

impl Loader<'_> {
    /// Returns the default config of the tool that delegates to `agent`.
    pub(super) fn route_config(&self, agent: &str) -> Map<String, Value> {
        let known = self.agents.get(agent).and_then(|agent| agent.value.get("description")).and_then(Value::as_str);
        let description = format!("Delegate a task to the agent {agent} and wait for its result. {}", known.unwrap_or_default());
        let config = json!({
            "tool_id": format!("{ROUTE_PREFIX}{agent}"),
            "type": ToolType::AgentAsTool.as_str(),
            "description": description.trim_end(),
            "parameters": {
                "request": {"type": "string", "description": "The task for the agent; it sees only this text and the documents.", "required": true},
                "documents": {
                    "type": "array", "items": {"type": "string"}, "required": false,
                    "description": "Paths of existing documents that the agent receives with the request."
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
    pub(super) fn derive_route(&mut self, id: &str, agent: &str) {
        let config = self.route_config(agent);
        let input = object_schema(config["parameters"].as_object().unwrap_or(&Map::new()), Others::Refused);
        let id = ToolId::new(id);
        let input = baton_schema::derived(&input);
        let description = config["description"].as_str().unwrap_or_default().to_owned();
        let definition = Arc::new(ToolDefinition {
            id: id.clone(),
            name: None,
            description: description.clone(),
            input_schema: input.json().clone(),
        });
        let tool = Tool {
            id: id.clone(),
            tool_type: ToolType::AgentAsTool,
            title: None,
            description,
            summary: None,
            input,
            output: None,
            effect: EffectClass::default(),
            writes: false,
            after: None,
            controls_flow: false,
            suspends: false,
            suspend_timeout: None,
            arguments: Arguments::default(),
            calls: Vec::new(),
            describes_tools: false,
            manages_tasks: None,
            runs_programs: false,
            timeout: DEFAULT_TIMEOUT,
            idle: None,
            agent: Some(AgentId::new(agent)),
            limits: Limits::default(),
            context: CalleeContext::default(),
            background: false,
            follow_up: false,
            on_failure: OnFailure::default(),
            accept: None,
            approval: None,
            on_unknown_outcome: OnUnknownOutcome::default(),
            changes: None,
            executor: None,
            examples: Vec::new(),
            category: None,
            tags: Vec::new(),
            settings: Json::from(json!({})),
            secrets: Vec::new(),
            takes_config_id: false,
            configuration: None,
            reaches: Vec::new(),
            source: None,
            definition,
        };
        self.tools.insert(id, Arc::new(tool));
    }
}
