//! `breadcrumb import`: creates or updates the records that the files of a folder contain.
//!
//! A record is known by its schema and its title, so a folder may be moved, and importing it again changes nothing. All files are read
//! and checked for their form before the first record is written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use baton_store::{Creation, Update};
use baton_types::breadcrumb::{Breadcrumb, BreadcrumbChange, NewBreadcrumb};
use baton_types::json;
use serde_json::json;

use super::{Desk, new_id};
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::terminal;
use crate::text::text;

/// The most bytes of a file: a record of the largest context, with its other fields.
const MAX_FILE_BYTES: u64 = 2 << 20;
/// The most files of a folder.
const MAX_FILES: usize = 10_000;
/// The most folders inside each other.
const MAX_DEPTH: usize = 16;

/// The schema of records with code.
const CODE: &str = "tool.code.v1";

/// Imports the records.
pub(super) async fn run(folder: &Path, place: &Place) -> Result<Exit, Failure> {
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
    for (file, record) in records {
        let file = place.shown(&file);
        let note = (record.schema_name.as_deref() == Some(CODE))
            .then_some("its code does not run; a tool config with \"exec\" runs a command in its place");
        match import(&desk, record).await {
            Ok((id, status)) => {
                if place.screen.is_text() {
                    place.screen.text(&text!("{status:<10} {file}   {id}"))?;
                    if let Some(note) = note {
                        place.screen.tell(&text!("{file}: {note}"));
                    }
                }
                listed.push(json!({"file": file, "id": id, "status": status, "note": note}));
            }
            Err(error) => faults.push(format!("{file}: {error}")),
        }
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
        let record = baton_files::read(file, MAX_FILE_BYTES)
            .map_err(|error| error.to_string())
            .and_then(|bytes| String::from_utf8(bytes).map_err(|error| error.to_string()))
            .and_then(|text| json::read::<NewBreadcrumb>(&text).map_err(|error| error.to_string()));
        match record {
            Err(error) => faults.push(format!("{shown}: {error}")),
            Ok(record) => match known.insert(key(&record), file) {
                Some(other) => faults.push(format!("{shown}: {} has the same schema and title", place.shown(other))),
                None => records.push((file.clone(), record)),
            },
        }
    }
    if faults.is_empty() { Ok(records) } else { Err(Failure::Faults(faults.join("\n"))) }
}

/// Returns the key by which a record is known when it is imported again.
fn key(record: &NewBreadcrumb) -> String {
    format!("import\n{}\n{}", record.schema_name.as_deref().unwrap_or_default(), record.title)
}

/// Creates or updates one record; returns its id and what was done.
async fn import(desk: &Desk, new: NewBreadcrumb) -> Result<(String, &'static str), Failure> {
    let Desk { store, author } = desk;
    let (breadcrumbs, key, at) = (store.breadcrumbs(), key(&new), terminal::now());
    let project = &author.viewer.project;
    let known = breadcrumbs.keyed(project, &key, at).await.map_err(Failure::of_store)?;
    let Some(known) = known else {
        let creation = Creation { id: new_id(), new, by: author.clone(), key: Some(key), at };
        let written = breadcrumbs.create(creation).await.map_err(Failure::of_store)?;
        return Ok((written.breadcrumb.id.to_string(), "created"));
    };
    let change = difference(&known, new);
    if change == BreadcrumbChange::default() {
        return Ok((known.id.to_string(), "unchanged"));
    }
    let update = Update { id: known.id, change, expected: Some(known.version), by: author.clone(), key: None, at };
    let written = breadcrumbs.change(update).await.map_err(Failure::of_store)?;
    Ok((written.breadcrumb.id.to_string(), "updated"))
}

/// Returns the change after which `known` is as the file describes it. Tags that the record got since stay, an approval too.
fn difference(known: &Breadcrumb, new: NewBreadcrumb) -> BreadcrumbChange {
    let differs = |value: &Option<String>, before: &Option<String>| value.clone().filter(|_| value != before);
    BreadcrumbChange {
        context: Some(new.context).filter(|context| *context != known.context),
        add_tags: new.tags.into_iter().filter(|tag| !known.tags.contains(tag)).collect(),
        description: differs(&new.description, &known.description),
        semantic_version: differs(&new.semantic_version, &known.semantic_version),
        llm_hints: new.llm_hints.filter(|hints| known.llm_hints.as_ref() != Some(hints)),
        visibility: Some(new.visibility).filter(|visibility| *visibility != known.visibility),
        sensitivity: Some(new.sensitivity).filter(|sensitivity| *sensitivity != known.sensitivity),
        ttl: new.ttl.filter(|ttl| new.ttl_config.is_none() && known.ttl != Some(*ttl)),
        ttl_config: new.ttl_config.filter(|config| known.ttl_config != Some(*config)),
        ttl_type: None,
        ..BreadcrumbChange::default()
    }
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
