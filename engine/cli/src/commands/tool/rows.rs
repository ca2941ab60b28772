//! Rows of `resource.tools` (seed 004): imported as tool configs, and exported from them.

use std::fs;
use std::path::{Path, PathBuf};

use baton_files::read;
use baton_schema::{Change, ForeignTool, foreign_tools};
use baton_utp::id::{Name, ProjectName};
use baton_utp::row::{Row, RowFault, is_rows};
use serde_json::{Map, Value, json};

use super::document::{MAX_FILE_BYTES, document};
use super::tools::Tools;
use crate::exit::Failure;
use crate::place::Place;

/// A row as a tool config.
pub(super) struct Imported {
    pub(super) tool: ForeignTool,
    pub(super) config: Value,
}

/// Reads the rows in `source`, a file or a folder with JSON files; `None` if it is a file with tools in another form.
pub(super) fn found(source: &Path, place: &Place) -> Result<Option<Vec<(PathBuf, Value)>>, Failure> {
    let is_folder = source.is_dir();
    let files = if is_folder { files_of(source)? } else { vec![source.to_owned()] };
    if files.is_empty() {
        return Err(Failure::Usage(format!("{} has no JSON files", place.shown(source))));
    }
    let mut rows = Vec::new();
    for file in files {
        let bytes = read(&file, MAX_FILE_BYTES).map_err(|error| Failure::file(&file, error))?;
        let document = document(&bytes).map_err(|error| Failure::Usage(format!("{} {error}", place.shown(&file))))?;
        if !is_rows(&document) {
            if !is_folder {
                return Ok(None);
            }
            let shown = place.shown(&file);
            return Err(Failure::Usage(format!(
                "{shown} has no rows of resource.tools; a folder is imported only with such rows"
            )));
        }
        // A number, a key or a character that the tree above lost is refused here.
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_start_matches('\u{feff}');
        let strict: Value =
            baton_types::json::read(text).map_err(|error| Failure::Usage(format!("{}: {error}", place.shown(&file))))?;
        match strict {
            Value::Array(each) => rows.extend(each.into_iter().map(|row| (file.clone(), row))),
            row => rows.push((file, row)),
        }
    }
    Ok(Some(rows))
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failure = |error| Failure::File { path: folder.display().to_string(), error };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failure)? {
        let path = entry.map_err(failure)?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the configs of `rows`, or the faults of all of them. No tool gets an id that `is_taken`.
pub(super) fn imported(
    rows: &[(PathBuf, Value)],
    is_taken: &dyn Fn(&str) -> bool,
    place: &Place,
) -> Result<Vec<Imported>, Failure> {
    let (mut read, mut faults) = (Vec::new(), Vec::new());
    for (number, (file, value)) in (1..).zip(rows) {
        let named = value.get("tool_name").and_then(Value::as_str).unwrap_or("-");
        match Row::read(value, &schema_faults) {
            Ok(row) => read.push(row),
            Err(found) => {
                let shown = place.shown(file);
                faults.extend(found.iter().map(|fault| format!("{shown}: row {number} ({named:?}): {fault}")));
            }
        }
    }
    if !faults.is_empty() {
        return Err(Failure::Usage(faults.join("\n")));
    }
    // Names and schemas become those of configs as in every import.
    let definition = |row: &Row| {
        let description = row.description.as_deref().unwrap_or(row.tool_name.as_str());
        json!({"name": row.tool_name, "description": description, "inputSchema": row.parameters})
    };
    let tools = json!({"tools": read.iter().map(definition).collect::<Vec<_>>()});
    let foreign = foreign_tools(&tools, is_taken).map_err(Failure::Usage)?;
    if foreign.tools.len() != read.len() {
        let unused: Vec<&str> = foreign.unused.iter().map(|change| change.message.as_str()).collect();
        return Err(Failure::Usage(format!("rows became no tools: {}", unused.join("; "))));
    }
    Ok(foreign.tools.into_iter().zip(read).map(|(tool, row)| as_config(tool, &row)).collect())
}

fn as_config(mut tool: ForeignTool, row: &Row) -> Imported {
    let mut change = |pointer: &str, message: String| tool.changes.push(Change { pointer: pointer.to_owned(), message });
    for pointer in &row.unused {
        change(pointer, "was not used: a tool config has no place for it".to_owned());
    }
    change("/project_id", format!("{:?} was not used: a tool belongs to the project of its job", row.project_id.as_str()));
    if row.options.ui_allowed {
        change("/options/ui_allowed", "was not used: a tool config has no place for it".to_owned());
    }
    let mut config = Map::from_iter([("tool_id".to_owned(), json!(tool.id))]);
    if let Some(name) = &tool.wire_name {
        config.insert("name".to_owned(), json!(name));
    }
    for (key, value) in row.config() {
        let value = if key == "input_schema" { tool.input.clone() } else { value };
        config.entry(key).or_insert(value);
    }
    Imported { config: Value::Object(config), tool }
}

/// Judges a schema as the loader of tool configs does.
fn schema_faults(schema: &Value) -> Vec<RowFault> {
    let faults = baton_schema::read(schema).err().unwrap_or_default();
    faults.into_iter().map(|fault| RowFault { pointer: fault.pointer, message: fault.message }).collect()
}

/// Prints the tools that services execute as rows of `project`: those with `names`, or all.
pub(super) fn export(names: &[String], project: &str, tools: &Tools, place: &Place) -> Result<(), Failure> {
    let project = ProjectName::parse(project).ok_or_else(|| Failure::Usage("--project is empty or too long".to_owned()))?;
    let mut rows = Vec::new();
    if names.is_empty() {
        rows.extend(tools.by_id.values().filter_map(|tool| Row::of_tool(tool, &project)));
    }
    for name in names {
        let tool = tools.get(name)?;
        let row = Row::of_tool(tool, &project);
        rows.push(row.ok_or_else(|| {
            Failure::Usage(format!("tool {name} has no \"target_subject\", so it cannot be a row: no service executes its calls"))
        })?);
    }
    let mut list = place.screen.begin_list();
    rows.iter().try_for_each(|row| list.add(row))?;
    list.end()
}
