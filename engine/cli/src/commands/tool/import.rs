//! `baton tool import`: writes the tools of another system as tool configs, and reports every change.

use std::path::Path;

use baton_files::read;
use baton_schema::{Change, ForeignTool, foreign_tools};
use serde_json::{Map, Value, json};

use crate::exit::{Exit, Failure};
use crate::export::Target;
use crate::place::Place;
use crate::text::{Text, text};

/// The most bytes of a file with definitions.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Longest title of a tool.
const MAX_TITLE: usize = 60;

/// Longest description of a tool.
const MAX_DESCRIPTION: usize = 20_000;

/// Writes the tools of `file` into `folder`, a file each. `exec` is the command that runs them; it gets a tool's original
/// name as its last argument.
pub(super) fn run(file: &Path, folder: &Path, exec: &[String], is_forced: bool, place: &Place) -> Result<Exit, Failure> {
    let source = place.current.join(file);
    let bytes = read(&source, MAX_FILE_BYTES).map_err(|error| Failure::file(&source, error))?;
    let document: Value = serde_json::from_slice(&bytes)
        .map_err(|error| Failure::Usage(format!("{} is not JSON: {error}", place.shown(&source))))?;
    let tools = foreign_tools(&document).map_err(|error| Failure::Usage(format!("{}: {error}", place.shown(&source))))?;
    let target = Target::checked(place.current.join(folder), is_forced, place)?;
    let mut reports = Vec::new();
    for (index, tool) in tools.iter().enumerate() {
        let mut changes = tool.changes.clone();
        let config = format!("{:#}\n", config(tool, exec, &mut changes));
        let name = format!("{}.json", tool.id);
        let written = target.write(&name, config.as_bytes(), index);
        let written = written.map_err(|error| Failure::File { path: name, error })?;
        let shown = place.shown(&written);
        if place.screen.is_text() {
            place.screen.text(&text!("{shown}"))?;
            for change in &changes {
                place.screen.text(&line(change))?;
            }
        }
        let changed: Vec<Value> =
            changes.iter().map(|change| json!({"pointer": change.pointer, "change": change.message})).collect();
        reports.push(json!({"tool": tool.id, "name": tool.name, "file": shown, "changes": changed}));
    }
    if !place.screen.is_text() {
        place.screen.json_list(&reports)?;
    }
    if exec.is_empty() {
        place.screen.tell(&text!("calls of these tools are only recorded; --exec COMMAND makes a command run them"));
    }
    Ok(Exit::Done)
}

fn line(change: &Change) -> Text {
    let at = if change.pointer.is_empty() { String::new() } else { format!("{}: ", change.pointer) };
    text!("  {at}{}", change.message)
}

/// Returns the config of a tool.
fn config(tool: &ForeignTool, exec: &[String], changes: &mut Vec<Change>) -> Value {
    let mut config = Map::new();
    config.insert("tool_id".to_owned(), json!(tool.id));
    config.insert("type".to_owned(), json!(if exec.is_empty() { "non_function_tool" } else { "function_tool" }));
    let is_title = |title: &&String| title.chars().count() <= MAX_TITLE && !title.contains(char::is_control);
    if let Some(title) = tool.title.as_ref().filter(is_title) {
        config.insert("title".to_owned(), json!(title));
    }
    let mut description = tool.description.clone();
    if description.len() > MAX_DESCRIPTION {
        description = description.chars().take(MAX_DESCRIPTION / 4).collect();
        let message = format!("the description was cut to {} characters", MAX_DESCRIPTION / 4);
        changes.push(Change { pointer: String::new(), message });
    }
    config.insert("description".to_owned(), json!(description));
    config.insert("input_schema".to_owned(), tool.input.clone());
    if let Some(output) = tool.output.as_ref().filter(|_| !exec.is_empty()) {
        config.insert("output_schema".to_owned(), output.clone());
    }
    if !exec.is_empty() {
        let command: Vec<&str> = exec.iter().map(String::as_str).chain([tool.name.as_str()]).collect();
        config.insert("exec".to_owned(), json!({ "command": command }));
    }
    Value::Object(config)
}
