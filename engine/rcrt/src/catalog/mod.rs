//! The catalog: a selection of tools as text for models and as the record `tool.catalog.v1`.

mod filter;
mod record;

use std::fmt::Write as _;
use std::sync::Arc;

use baton_types::config::{INVOCATION_NOTE, Tool, catalog_header, tool_prompt};
use baton_types::model::ToolDefinition;

pub use filter::{Filter, NoSuchName};

/// The selected tools, in the order of their ids.
#[derive(Clone, Debug)]
pub struct ToolCatalog {
    tools: Vec<Arc<Tool>>,
    total: usize,
}

impl ToolCatalog {
    /// Returns the catalog of those of `tools` that `filter` selects, or the name in the filter that no tool has.
    pub fn of<'t>(tools: impl IntoIterator<Item = &'t Arc<Tool>>, filter: &Filter) -> Result<Self, NoSuchName> {
        let mut tools: Vec<Arc<Tool>> = tools.into_iter().map(Arc::clone).collect();
        tools.sort_by(|one, other| one.id.cmp(&other.id));
        let total = tools.len();
        Ok(Self { tools: filter.selected(tools)?, total })
    }

    /// Returns the selected tools.
    pub fn tools(&self) -> &[Arc<Tool>] {
        &self.tools
    }

    /// Returns the definitions of the selected tools, which requests offer.
    pub fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        self.tools.iter().map(|tool| Arc::clone(&tool.definition)).collect()
    }

    /// Returns the compact form (seed 001): the number of tools, one line for each, `configuration_lines`, and the place of the
    /// instructions for calls.
    pub fn compact(&self, configuration_lines: &str) -> String {
        let mut text = format!("{}\n\n", catalog_header(self.tools.len()));
        for tool in &self.tools {
            let _infallible = writeln!(text, "{}", tool.catalog_line());
        }
        let _infallible = writeln!(text, "{configuration_lines}\n{}", INVOCATION_NOTE.join("\n"));
        text
    }

    /// Returns the prompt of seed 003 (`generateToolPrompt`): names with descriptions, and the form of a call.
    pub fn prompt(&self) -> String {
        tool_prompt(self.tools.iter().map(|tool| &**tool))
    }
}
