//! `baton tool import`: writes the tools of another system as tool configs, and reports every change.

use std::path::{Path, PathBuf};

use baton_files::read;
use baton_schema::{Change, ForeignTool, foreign_tools};
use serde_json::{Map, Value, json};

use super::document::{MAX_FILE_BYTES, document};
use super::rows;
use crate::exit::{Exit, Failure};
use crate::export::Target;
use crate::place::Place;
use crate::text::{Text, text};

/// Longest title of a tool.
const MAX_TITLE: usize = 60;

/// Longest description of a tool.
const MAX_DESCRIPTION: usize = 20_000;

/// Writes the tools of `file` into `folder`, a file each. `exec` is the command that runs them; it gets a tool's original
/// name as its last argument.
pub(super) fn run(file: &Path, folder: &Path, exec: &[String], is_forced: bool, place: &Place) -> Result<Exit, Failure> {
    let source = place.current.join(file);
    if let Some(rows) = rows::found(&source, place)? {
        return run_rows(&rows, folder, exec, is_forced, place);
    }
    let bytes = read(&source, MAX_FILE_BYTES).map_err(|error| Failure::file(&source, error))?;
    let document = document(&bytes).map_err(|error| Failure::Usage(format!("{} {error}", place.shown(&source))))?;
    let own = own_ids(place)?;
    let foreign = foreign_tools(&document, &|id| own.contains(&twin(id)));
    let foreign = foreign.map_err(|error| Failure::Usage(format!("{}: {error}", place.shown(&source))))?;
    if let Some(tool) = foreign.tools.iter().find(|tool| !exec.is_empty() && !is_argument(&tool.name)) {
        let name = &tool.name;
        return Err(Failure::Usage(format!(
            "the tool {name:?} cannot be the last argument of --exec: commands read such a name as an option, or not at all; import it without --exec, or rename it"
        )));
    }
    let target = Target::checked(place.current.join(folder), is_forced, place)?;
    let mut reports = Vec::new();
    for (index, tool) in foreign.tools.iter().enumerate() {
        let mut changes = tool.changes.clone();
        let config = format!("{:#}\n", config(tool, exec, &mut changes));
        let name = format!("{}.json", tool.id);
        let written = target.write(&name, config.as_bytes(), index);
        let written = written.map_err(|error| Failure::File { path: name, error })?;
        let shown = place.shown(&written);
        report(&shown, Some(tool), &changes, &mut reports, place)?;
    }
    if !foreign.unused.is_empty() {
        report(&place.shown(&source), None, &foreign.unused, &mut reports, place)?;
    }
    if !place.screen.is_text() {
        place.screen.json_list(&reports)?;
    }
    if exec.is_empty() {
        place.screen.tell(&text!("calls of these tools are only recorded; --exec COMMAND makes a command run them"));
    }
    Ok(Exit::Done)
}

/// Returns the ids of the program's tools in their normal form.
fn own_ids(place: &Place) -> Result<Vec<String>, Failure> {
    Ok(crate::job::tools(place)?.keys().map(|id| twin(id.as_str())).collect())
}

/// Writes the tools of `rows`, which services execute. Nothing is written if a row has a fault.
fn run_rows(rows: &[(PathBuf, Value)], folder: &Path, exec: &[String], is_forced: bool, place: &Place) -> Result<Exit, Failure> {
    if !exec.is_empty() {
        let message = "--exec does not apply to rows of resource.tools: services execute their calls";
        return Err(Failure::Usage(message.to_owned()));
    }
    let own = own_ids(place)?;
    let imported = rows::imported(rows, &|id| own.contains(&twin(id)), place)?;
    let target = Target::checked(place.current.join(folder), is_forced, place)?;
    let mut reports = Vec::new();
    for (index, rows::Imported { tool, config }) in imported.iter().enumerate() {
        let name = format!("{}.json", tool.id);
        let written = target.write(&name, format!("{config:#}\n").as_bytes(), index);
        let written = written.map_err(|error| Failure::File { path: name, error })?;
        report(&place.shown(&written), Some(tool), &tool.changes, &mut reports, place)?;
    }
    if !place.screen.is_text() {
        place.screen.json_list(&reports)?;
    }
    Ok(Exit::Done)
}

/// Whether a command reads `name` as an argument of its own.
fn is_argument(name: &str) -> bool {
    !name.starts_with('-') && !name.contains(char::is_control)
}

/// Returns `id` in a normal form: two ids clash if their normal forms are equal.
fn twin(id: &str) -> String {
    id.replace('-', "_").to_lowercase()
}

/// Reports the changes of `tool`, or of the document, whose file is `shown`.
fn report(
    shown: &str,
    tool: Option<&ForeignTool>,
    changes: &[Change],
    reports: &mut Vec<Value>,
    place: &Place,
) -> Result<(), Failure> {
    if place.screen.is_text() {
        place.screen.text(&text!("{shown}"))?;
        for change in changes {
            place.screen.text(&line(change))?;
        }
    }
    let changed: Vec<Value> = changes.iter().map(|change| json!({"pointer": change.pointer, "change": change.message})).collect();
    let (id, name) = (tool.map(|tool| &tool.id), tool.map(|tool| &tool.name));
    reports.push(json!({"tool": id, "name": name, "file": shown, "changed": changed}));
    Ok(())
}

fn line(change: &Change) -> Text {
    let at = if change.pointer.is_empty() { String::new() } else { format!("{}: ", change.pointer) };
    text!("  {at}{}", change.message)
}

/// Returns the config of a tool.
fn config(tool: &ForeignTool, exec: &[String], changes: &mut Vec<Change>) -> Value {
    let mut change = |message: String| changes.push(Change { pointer: String::new(), message });
    let mut config = Map::new();
    config.insert("tool_id".to_owned(), json!(tool.id));
    if let Some(name) = &tool.wire_name {
        config.insert("name".to_owned(), json!(name));
    }
    config.insert("type".to_owned(), json!(if exec.is_empty() { "non_function_tool" } else { "function_tool" }));
    let is_title = |title: &String| title.chars().count() <= MAX_TITLE && !title.contains(char::is_control);
    match &tool.title {
        Some(title) if is_title(title) => _ = config.insert("title".to_owned(), json!(title)),
        Some(_) => change(format!("its title was not used: it has several lines, or more than {MAX_TITLE} characters")),
        None => {}
    }
    let mut description = tool.description.clone();
    if let Some((end, _)) = description.char_indices().nth(MAX_DESCRIPTION) {
        description.truncate(end);
        change(format!("the description was cut to {MAX_DESCRIPTION} characters"));
    }
    config.insert("description".to_owned(), json!(description));
    config.insert("input_schema".to_owned(), tool.input.clone());
    match &tool.output {
        Some(output) if !exec.is_empty() => _ = config.insert("output_schema".to_owned(), output.clone()),
        Some(_) => change("the schema of the output was not used: without --exec a call has no output".to_owned()),
        None => {}
    }
    if !exec.is_empty() {
        let command: Vec<&str> = exec.iter().map(String::as_str).chain([tool.name.as_str()]).collect();
        config.insert("exec".to_owned(), json!({ "command": command }));
    }
    Value::Object(config)
}
