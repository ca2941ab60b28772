//! Discovery: an agent first sees one line for each of its tools, and receives the definitions of those that it asks for.
//!
//! The text of those lines is made elsewhere.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Agent, Tool};
use crate::json::Json;
use crate::model::{Invocation, Offer};
use crate::tool_type::Then;

/// The knowledge of an agent's model about its tools at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Catalog {
    /// The definition of every tool.
    Full,
    /// A line for each tool, and a tool that describes some of them.
    Discover,
}

impl Catalog {
    /// Returns the catalog of agents whose configs name none.
    pub fn of(invocation: Invocation) -> Self {
        match invocation {
            Invocation::Native => Self::Full,
            Invocation::Universal => Self::Discover,
        }
    }
}

/// Greatest number of characters of a description in a catalog.
const DESCRIPTION_CHARACTERS: usize = 300;

/// The input that names tools to describe.
const TOOLS: &str = "tools";

impl Tool {
    /// Returns its line in a catalog: name, purpose, and the names of its outputs in the order of its config.
    pub fn catalog_line(&self) -> String {
        let output = self.output.as_ref().map(|output| output.json().value());
        let outputs = output.as_ref().and_then(|schema| schema.get("properties")?.as_object());
        let outputs: Vec<&str> = outputs.into_iter().flat_map(serde_json::Map::keys).map(String::as_str).collect();
        let arrow = if outputs.is_empty() { "" } else { " → " };
        format!("• {}: {}{arrow}{}", self.id, one_line(&self.definition.description), outputs.join(", "))
    }

    /// Whether agents that discover their tools know its definition at once: it describes others, or it finishes a task.
    pub fn is_known_at_once(&self) -> bool {
        self.describes_tools || self.tool_type.behavior().then == Then::Stop
    }

    /// Returns the tools of `agent` that a call of this tool with `input` describes, and the names without a tool.
    pub fn described<'a>(&self, agent: &'a Agent, input: &Json) -> (Vec<&'a Arc<Tool>>, Vec<String>) {
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        if !self.describes_tools {
            return (known, unknown);
        }
        let input = input.value();
        for name in input.get(TOOLS).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            let is_named = |tool: &&Arc<Tool>| tool.definition.name.as_deref() == Some(name);
            match agent.tools.get(name).or_else(|| agent.tools.values().find(is_named)) {
                Some(tool) => known.push(tool),
                None => unknown.push(name.to_owned()),
            }
        }
        (known, unknown)
    }
}

impl Agent {
    /// Whether its requests offer a tool only once it was described.
    pub fn is_offered_described_tools(&self) -> bool {
        self.catalog == Catalog::Discover && self.invocation == Invocation::Native
    }

    /// Returns the definitions of its tools that `is_offered` selects, ordered by id.
    pub fn offer_of(&self, is_offered: impl Fn(&Tool) -> bool) -> Offer {
        let offered = self.tools.values().filter(|tool| is_offered(tool));
        offered.map(|tool| Arc::clone(&tool.definition)).collect()
    }

    /// Whether it may use `tool` while it answers a question as a master.
    pub fn answers_with(&self, tool: &Tool) -> bool {
        tool.allowed_in_questions(self.approvals.get(&tool.id).copied())
    }
}

/// Returns a description on one line, cut where it is long.
fn one_line(description: &str) -> String {
    let line = description.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(DESCRIPTION_CHARACTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
