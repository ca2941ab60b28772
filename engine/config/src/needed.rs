//! The tools that the agents of a job need, by their files alone.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::form::GrantForm;
use crate::loader::Read;

/// Beginning of an acceptor that is a tool.
pub(crate) const OF_TOOL: &str = "tool:";

/// Returns the ids of tools in `files`, in the order of the files.
pub(crate) fn ids_of<'a>(files: &'a [BTreeMap<String, Read<'_>>; 3]) -> impl Iterator<Item = &'a String> {
    files.iter().flat_map(BTreeMap::keys)
}

/// Whether the tool `id` runs the programs of agents.
pub(crate) fn runs_programs(id: &str, files: &[BTreeMap<String, Read<'_>>; 3]) -> bool {
    files.iter().rev().find_map(|tools| tools.get(id)?.value.get("runs_programs")) == Some(&Value::Bool(true))
}

/// Whether an agent has the tool `id`: `grants` name or select it, or it describes other tools.
pub(crate) fn is_needed(id: &str, files: &[BTreeMap<String, Read<'_>>; 3], grants: &[GrantForm]) -> bool {
    // The last file with a key sets it.
    let value = |key: &str| files.iter().rev().find_map(|tools| tools.get(id)?.value.get(key));
    let tags = || value("tags").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let is_granted = grants.iter().any(|grant| match grant {
        GrantForm::Tool(granted) => granted == id,
        GrantForm::Full(full) => full.tool == id,
        GrantForm::Selected(selector) => selector.selects(value("category").and_then(Value::as_str), tags()),
    });
    is_granted || value("describes_tools") == Some(&Value::Bool(true))
}

/// Returns the tools that the config of the tool `id` names in `calls` or as an acceptor.
pub(crate) fn called_by(id: &str, files: &[BTreeMap<String, Read<'_>>; 3]) -> Vec<String> {
    let calls = files.iter().rev().find_map(|tools| tools.get(id)?.value.get("calls")?.as_array());
    let by = files.iter().rev().find_map(|tools| tools.get(id)?.value.pointer("/accept/by")?.as_str());
    let acceptor = by.and_then(|by| by.strip_prefix(OF_TOOL));
    calls.into_iter().flatten().filter_map(Value::as_str).chain(acceptor).map(str::to_owned).collect()
}
