//! Discovery: an agent first sees one line for each of its tools, and receives the definitions of those that it asks for.
//!
//! The lines and the words around them are defined here once: prompts and the command line print the same catalog.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Agent, Tool};
use crate::json::Json;
use crate::model::{Invocation, Offer, ToolDefinition};
use crate::schema::Schema;
use crate::tool_type::Then;

/// The knowledge of an agent's model about its tools at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Catalog {
    /// The definition of every tool.
    Full,
    /// A line for each tool, and a tool that describes some of them.
    Discover,
    /// As `discover`, in the short form of seed 003: a system message of its own, for models that call tools by JSON in their text.
    Prompt,
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

/// Greatest number of characters of a description in a catalog: for a tool without a summary, and for the agent of a delegation.
const DESCRIPTION_CHARACTERS: usize = 160;
const DELEGATION_CHARACTERS: usize = 300;

/// Text after the lines of a catalog (seed 001): the place of the instructions for calls. The first line also ends the catalog in
/// prompts of universal invocation.
pub const INVOCATION_NOTE: [&str; 2] = [
    "INVOCATION: See \"Tool Invocation Format\" in your system prompt above.",
    "ALL details for input schemas, examples, and error handling are defined in the standard.",
];

/// The input that names tools to describe.
const TOOLS: &str = "tools";

/// Returns the first line of a catalog of `count` tools (seed 001).
pub fn catalog_header(count: usize) -> String {
    format!("=== TOOLS ({count} available) ===")
}

/// Returns the prompt of seed 003 (`generateToolPrompt`): names with descriptions, and the form of a call.
pub fn tool_prompt<'t>(tools: impl Iterator<Item = &'t Tool>) -> String {
    let line = |tool: &Tool| format!("- {}: {}", tool.definition.shown_name(), one_line(&tool.definition.description));
    let lines: Vec<String> = tools.map(line).collect();
    format!(
        "\nYou have access to the following tools:\n{}\n\n\
         To use a tool, respond with JSON in this format:\n\
         {{\n  \"action\": \"invoke_tool\",\n  \"tool\": \"tool_name\",\n  \"input\": {{ /* tool-specific parameters */ }}\n}}\n",
        lines.join("\n")
    )
}

impl Tool {
    /// Returns its line in a catalog: name, purpose, and the names of its outputs in the order of its config.
    pub fn catalog_line(&self) -> String {
        let output = self.output.as_ref().map(|output| output.json().value());
        let outputs = output.as_ref().and_then(|schema| schema.get("properties")?.as_object());
        let outputs: Vec<&str> = outputs.into_iter().flat_map(serde_json::Map::keys).map(String::as_str).collect();
        let arrow = if outputs.is_empty() { "" } else { " → " };
        format!("• {}: {}{arrow}{}", self.definition.shown_name(), self.purpose(), one_line(&outputs.join(", ")))
    }

    /// Returns its purpose on one line: the summary, or the beginning of its description.
    ///
    /// The first sentence about a delegation only names the agent, so more of that description is kept.
    pub fn purpose(&self) -> String {
        let description = self.definition.description.as_str();
        match &self.summary {
            Some(summary) => one_line(summary),
            None if self.agent.is_some() => cut(one_line(description), DELEGATION_CHARACTERS),
            None => {
                let sentence = cut(one_line(first_sentence(description.trim())), DESCRIPTION_CHARACTERS);
                sentence.trim_end_matches('.').to_owned()
            }
        }
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
                Some(tool) if known.iter().any(|other: &&Arc<Tool>| other.id == tool.id) => {}
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

    /// Returns this agent with its offers, which follow from its other fields.
    ///
    /// `with_result` returns the definition of a tool that finishes a task with the schema of the agent's results.
    pub fn offering(mut self, with_result: impl Fn(&Tool, &Schema) -> Option<Arc<ToolDefinition>>) -> Self {
        let finishes = |tool: &Tool| tool.tool_type.behavior().then == Then::Stop;
        self.offered_last_in_questions = self.offer_of(finishes);
        if let Some(schema) = &self.result_schema {
            for tool in self.tools.values_mut().filter(|tool| finishes(tool)) {
                let definition = with_result(tool, schema).unwrap_or_else(|| Arc::clone(&tool.definition));
                *tool = Arc::new(Tool { definition, ..Tool::clone(tool) });
            }
        }
        let discovers = self.is_offered_described_tools();
        let is_known = |tool: &Tool| !discovers || tool.is_known_at_once();
        self.offered = self.offer_of(is_known);
        self.offered_in_questions = self.offer_in_questions(is_known);
        self.offered_last = self.offer_of(finishes);
        self
    }

    /// Returns the definitions of its tools that `is_offered` selects, ordered by id.
    pub fn offer_of(&self, is_offered: impl Fn(&Tool) -> bool) -> Offer {
        let offered = self.tools.values().filter(|tool| is_offered(tool));
        offered.map(|tool| Arc::clone(&tool.definition)).collect()
    }

    /// Returns the definitions that [`Agent::offer_of`] returns, for answers to questions.
    pub fn offer_in_questions(&self, is_offered: impl Fn(&Tool) -> bool) -> Offer {
        let plain = |tool: &ToolDefinition| self.offered_last_in_questions.iter().find(|plain| plain.id == tool.id);
        let offered = self.tools.values().filter(|tool| is_offered(tool) && self.answers_with(tool));
        offered.map(|tool| Arc::clone(plain(&tool.definition).unwrap_or(&tool.definition))).collect()
    }

    /// Whether it may use `tool` while it answers a question as a master.
    pub fn answers_with(&self, tool: &Tool) -> bool {
        tool.allowed_in_questions(self.approvals.get(&tool.id).copied())
    }
}

/// Returns `text` up to the end of its first sentence.
pub fn first_sentence(text: &str) -> &str {
    let end = text.match_indices(['.', '\n']).find(|(at, _)| text[at + 1..].chars().next().is_none_or(char::is_whitespace));
    end.map_or(text, |(at, _)| text[..=at].trim_end())
}

/// Returns `text` on one line without control characters, so that a description cannot look like another line of a catalog.
pub fn one_line(text: &str) -> String {
    let words = text.split(|each: char| each.is_whitespace() || each.is_control()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// Returns `line` without what exceeds `most` characters.
fn cut(line: String, most: usize) -> String {
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line,
    }
}
