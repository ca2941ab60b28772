//! The record `tool.catalog.v1` (seed 003): everything that a catalog knows, as data.

use std::sync::Arc;

use baton_types::config::Tool;
use serde_json::{Map, Value, json};

use super::ToolCatalog;

impl ToolCatalog {
    /// Returns the record `tool.catalog.v1`. `totalTools` counts the tools before the selection, `activeTools` the selected ones.
    pub fn record(&self) -> Value {
        json!({
            "schema_name": "tool.catalog.v1",
            "title": "Tool Catalog",
            "tags": ["tool:catalog", "workspace:tools"],
            "context": {
                "tools": self.tools.iter().map(entry).collect::<Vec<_>>(),
                "totalTools": self.total,
                "activeTools": self.tools.len(),
            }
        })
    }
}

/// Returns the entry of one tool. A tool without a schema of its output, or without examples, has no such keys.
fn entry(tool: &Arc<Tool>) -> Value {
    let definition = &tool.definition;
    let mut entry = Map::new();
    let mut put = |key: &str, value: Value| _ = entry.insert(key.to_owned(), value);
    put("name", json!(definition.shown_name()));
    put("description", json!(definition.description));
    if let Some(summary) = &tool.summary {
        put("summary", json!(summary));
    }
    if let Some(category) = &tool.category {
        put("category", json!(category));
    }
    if !tool.tags.is_empty() {
        put("tags", json!(tool.tags));
    }
    put("inputSchema", definition.input_schema.value());
    if let Some(output) = &tool.output {
        put("outputSchema", output.json().value());
    }
    put("capabilities", capabilities(tool));
    if !tool.examples.is_empty() {
        let example = |example: &baton_types::config::Example| {
            let mut shown = json!({"explanation": example.explanation, "input": example.input});
            if let Some(output) = &example.output {
                shown["output"] = output.clone();
            }
            shown
        };
        put("examples", tool.examples.iter().map(example).collect());
    }
    Value::Object(entry)
}

/// Returns what a caller has to expect: whether the result comes later than the turn, and the time limit in milliseconds.
fn capabilities(tool: &Tool) -> Value {
    let row = tool.tool_type.behavior();
    let mut capabilities = json!({"async": row.runs_code || row.blocks_caller});
    if row.runs_code {
        capabilities["timeout"] = json!(u64::try_from(tool.timeout.as_millis()).unwrap_or(u64::MAX));
    }
    capabilities
}
