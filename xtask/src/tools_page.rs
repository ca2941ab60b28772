//! generated-docs/TOOLS.md: every built-in tool, as the program's own page of tools describes it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use baton_config::{Role, Sources, Unconfigured, declared_settings, load_tools};
use baton_docs::{DescribedTool, Introduction, tools_of, tools_page};
use baton_types::config::Tool;
use baton_types::id::{ROUTE_PREFIX, ToolId};
use serde_json::json;

const TEXT: &str = "What a call does follows from the tool's type, not from code written for it. Every tool below is a JSON file in\n\
    [`tool-configs/`](../tool-configs), and a job may refine it by a file of the same `tool_id` in its own `tools/` folder.";

/// Returns the page of the tool configs in `folder`.
pub(crate) fn page(folder: &Path, first_line: &str) -> anyhow::Result<String> {
    let mut sources = Sources::new("");
    for file in fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let text = fs::read(&path).with_context(|| format!("{} cannot be read", path.display()))?;
            sources.add(Role::BuiltinTool, format!("tool-configs/{name}"), text);
        }
    }
    let agent = json!({
        "agent_id": "other", "model": "any", "system_prompt": "Work.",
        "description": "The description in the agent's config follows this sentence; a job's file of this name may refine the tool."
    });
    sources.add(Role::Agent, "agents/other.json", agent.to_string());
    let settings = declared_settings(&sources);
    let tools = load_tools(&sources, &[], Unconfigured::Reading).map_err(|faults| anyhow!("{faults}"))?;
    let described = |tool: Arc<Tool>| {
        let settings = settings.get(&tool.id).cloned().unwrap_or_default();
        DescribedTool::without_job(if tool.agent.is_some() { delegation(&tool) } else { tool }, settings)
    };
    let tools = tools_of(&[], tools.into_values().map(described).collect());
    Ok(tools_page(&Introduction { first_line, text: TEXT, overview: "All built-in tools" }, &tools))
}

/// Returns the tool that the engine makes of every agent, from the one that it made of the example agent.
fn delegation(tool: &Tool) -> Arc<Tool> {
    let id = ToolId::new(format!("{ROUTE_PREFIX}<agent_id>"));
    let description = tool.description.replace(" other ", " `<agent_id>` ");
    Arc::new(Tool { id, description, category: Some("flow".to_owned()), ..tool.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_each_config_and_the_delegation_to_an_agent() {
        let folder = tempfile::TempDir::new().expect("a temporary folder");
        let config = json!({
            "tool_id": "shout", "type": "function_tool", "category": "text", "description": "Make text loud.",
            "parameters": {}, "settings": {"volume": {"type": "integer", "description": "How loud"}},
        });
        fs::write(folder.path().join("shout.json"), config.to_string()).expect("a file");
        let page = page(folder.path(), "<!-- first -->").expect("a page");
        assert!(page.contains("| `function_tool` | [`shout`](#shout) | text | Make text loud. |\n"), "{page}");
        assert!(page.contains("| `volume` | integer |  | How loud |\n"), "{page}");
        let route = "| `agent_as_tool` | [`route_to_<agent_id>`](#route_to_agent_id) | flow | Delegate a task to the agent `<agent_id>` and wait for its result. |\n";
        assert!(page.contains(route), "{page}");
    }
}
