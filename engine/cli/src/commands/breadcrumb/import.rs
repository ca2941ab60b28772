//! `breadcrumb import`: creates or updates the records that the files of a folder contain.
//!
//! A record is known by its schema and its title, so a folder may be moved. A file that has not changed since its last import changes
//! nothing. All files are read and checked for their form before the first record is written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use baton_breadcrumb::{BreadcrumbError, hint_warning};
use baton_store::{Creation, StoreError, Written};
use baton_types::breadcrumb::NewBreadcrumb;
use baton_types::json;
use serde_json::json;

use super::{Desk, new_id};
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::terminal;
use crate::text::{Text, text};

/// The most bytes of a file: a record of the largest context, with its other fields.
const MAX_FILE_BYTES: u64 = 2 << 20;
/// The most files of a folder.
const MAX_FILES: usize = 10_000;
/// The most folders inside each other.
const MAX_DEPTH: usize = 16;

/// The schema of records with code.
const CODE: &str = "tool.code.v1";
/// The note about such a record.
const CODE_NOTE: &str = "its code does not run; a tool config with \"exec\" runs a command in its place";

/// Imports the records.
pub(super) async fn run(folder: &Path, replaces: bool, place: &Place) -> Result<Exit, Failure> {
    let folder = place.current.join(folder);
    let mut files = Vec::new();
    collect(&folder, 0, &mut files)?;
    files.sort();
    if files.is_empty() {
        return Err(Failure::Usage(format!("{} has no JSON files", place.shown(&folder))));
    }
    let records = read_all(&files, place)?;
    let desk = Desk::open(place)?;
    let mut listed = Vec::new();
    let mut faults = Vec::new();
    for (file, new) in records {
        let file = place.shown(&file);
        let is_code = new.schema_name.as_deref() == Some(CODE);
        let key = Some(key(&new));
        let creation = Creation { id: new_id(), new, by: desk.author.clone(), key, at: terminal::now() };
        let (id, status, notes) = match desk.store.breadcrumbs().import(creation, replaces).await {
            Ok(Written { breadcrumb, repeated, .. }) => {
                let status = match (repeated, breadcrumb.version) {
                    (true, _) => "unchanged",
                    (false, 1) => "created",
                    (false, _) => "updated",
                };
                let code = is_code.then(|| CODE_NOTE.to_owned());
                (Some(breadcrumb.id.to_string()), status, code.into_iter().chain(hint_warning(&breadcrumb)).collect())
            }
            Err(error) => {
                let is_conflict = matches!(error, StoreError::Breadcrumb(BreadcrumbError::ImportConflict { .. }));
                let reason = Failure::of_store(error).to_string();
                faults.push(format!("{file}: {reason}"));
                (None, if is_conflict { "conflict" } else { "refused" }, vec![reason])
            }
        };
        if place.screen.is_text()
            && let Some(id) = &id
        {
            place.screen.text(&text!("{status:<10} {file}   {id}"))?;
            for note in &notes {
                place.screen.tell(&text!("{file}: {}", Text::line(note)));
            }
        }
        listed.push(json!({"file": file, "id": id, "status": status, "notes": notes}));
    }
    if !place.screen.is_text() {
        place.screen.json_list(&listed)?;
    }
    if faults.is_empty() { Ok(Exit::Done) } else { Err(Failure::Refused(faults.join("\n"))) }
}

/// Adds the JSON files of `folder` and of the folders in it. Links are left out: they may lead anywhere.
fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    if depth > MAX_DEPTH {
        return Err(Failure::Usage(format!("{}: folders are nested deeper than {MAX_DEPTH}", folder.display())));
    }
    for entry in std::fs::read_dir(folder).map_err(|error| Failure::file(folder, error))? {
        let entry = entry.map_err(|error| Failure::file(folder, error))?;
        let kind = entry.file_type().map_err(|error| Failure::file(folder, error))?;
        let path = entry.path();
        if kind.is_dir() {
            collect(&path, depth + 1, files)?;
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
        if files.len() > MAX_FILES {
            return Err(Failure::Usage(format!("there are more than {MAX_FILES} files; import parts of the folder")));
        }
    }
    Ok(())
}

/// Returns the records of all files, or all their faults.
fn read_all(files: &[PathBuf], place: &Place) -> Result<Vec<(PathBuf, NewBreadcrumb)>, Failure> {
    let (mut records, mut faults) = (Vec::new(), Vec::new());
    let mut known: BTreeMap<String, &Path> = BTreeMap::new();
    for file in files {
        let shown = place.shown(file);
        match read(file) {
            Err(error) => faults.push(format!("{shown}: {error}")),
            Ok(record) => match known.insert(key(&record), file) {
                Some(other) => faults.push(format!("{shown}: {} has the same schema and title", place.shown(other))),
                None => records.push((file.clone(), record)),
            },
        }
    }
    if faults.is_empty() { Ok(records) } else { Err(Failure::Faults(faults.join("\n"))) }
}

/// Reads the record of a file, or returns its fault.
fn read(file: &Path) -> Result<NewBreadcrumb, String> {
    let bytes = baton_files::read(file, MAX_FILE_BYTES).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
    // The derived reader would take a list for an object.
    if text.trim_start().starts_with('[') {
        return Err("a record is an object, and this file has a list; write one file for each record".to_owned());
    }
    json::read(&text).map_err(|error| error.to_string())
}

/// Returns the key by which a record is known when it is imported again.
fn key(record: &NewBreadcrumb) -> String {
    format!("import\n{}\n{}", record.schema_name.as_deref().unwrap_or_default(), record.title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_program_is_read_with_its_hints() {
        let file = json!({
            "schema_name": "schema.def.v1", "title": "Tool Catalog Schema Definition", "tags": ["schema:definition"],
            "context": {"defines_schema": "tool.catalog.v1"}, "llm_hints": {"mode": "replace"}
        });
        let record: NewBreadcrumb = serde_json::from_str(&file.to_string()).unwrap();
        assert_eq!(record.llm_hints.unwrap().value(), json!({"mode": "replace"}));
        assert!(serde_json::from_str::<NewBreadcrumb>(r#"{"title": "a", "titel": "b"}"#).is_err());
    }
}
