//! Compares the judgement of values with the expectations of the JSON Schema Test Suite.
//!
//! Its argument is a copy of <https://github.com/json-schema-org/JSON-Schema-Test-Suite>: the folder that holds `tests`.
//! Remote references and vocabularies are left out, since nothing is ever fetched.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use baton_schema::compile;
use serde_json::Value;

/// Files about schemas that have to be fetched.
const LEFT_OUT: [&str; 2] = ["refRemote", "vocabulary"];

/// The drafts, each with the `$schema` of its tests.
const DRAFTS: [(&str, &str); 2] =
    [("draft2020-12", "https://json-schema.org/draft/2020-12/schema"), ("draft7", "http://json-schema.org/draft-07/schema#")];

#[derive(Default)]
struct Row {
    groups: usize,
    tests: usize,
    agree: usize,
    disagree: usize,
    refused: usize,
}

fn main() -> ExitCode {
    let Some(folder) = std::env::args().nth(1).map(PathBuf::from) else {
        eprintln!("usage: schema_suite FOLDER");
        return ExitCode::FAILURE;
    };
    let (mut rows, mut notes) = (BTreeMap::new(), BTreeMap::<String, usize>::new());
    for (draft, address) in DRAFTS {
        let root = folder.join("tests").join(draft);
        for (part, folder) in
            [("core", root.clone()), ("optional", root.join("optional")), ("format", root.join("optional/format"))]
        {
            for file in files(&folder) {
                let row: &mut Row = rows.entry((draft, part)).or_default();
                try_file(&file, address, &format!("{draft} {part}"), row, &mut notes);
            }
        }
    }
    if rows.is_empty() {
        eprintln!("{} has no folder tests/draft2020-12 or tests/draft7", folder.display());
        return ExitCode::FAILURE;
    }
    println!("| draft | part | groups | tests | agree | disagree | refused |\n| --- | --- | --- | --- | --- | --- | --- |");
    for ((draft, part), Row { groups, tests, agree, disagree, refused }) in &rows {
        println!("| {draft} | {part} | {groups} | {tests} | {agree} | {disagree} | {refused} |");
    }
    println!();
    for (note, times) in &notes {
        println!("{times:>4} {note}");
    }
    ExitCode::SUCCESS
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    let is_kept = |file: &PathBuf| {
        let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        file.extension().is_some_and(|extension| extension == "json") && !LEFT_OUT.contains(&name)
    };
    let mut files: Vec<PathBuf> = entries.filter(is_kept).collect();
    files.sort();
    files
}

fn try_file(file: &Path, address: &str, part: &str, row: &mut Row, notes: &mut BTreeMap<String, usize>) {
    let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    let text = std::fs::read_to_string(file).expect("the file is read");
    let groups: Vec<Value> = serde_json::from_str(&text).expect("the file is a list of groups");
    for group in groups {
        let mut schema = group["schema"].clone();
        if let Some(keywords) = schema.as_object_mut() {
            keywords.entry("$schema").or_insert_with(|| address.into());
        }
        let tests = group["tests"].as_array().expect("a group has tests");
        row.groups += 1;
        row.tests += tests.len();
        let compiled = match compile(&schema) {
            Ok(compiled) => compiled,
            Err(error) => {
                row.refused += tests.len();
                *notes.entry(format!("refused  {part} {name}: {}: {error}", group["description"])).or_default() += tests.len();
                continue;
            }
        };
        for test in tests {
            if compiled.check(&test["data"]).is_ok() == test["valid"].as_bool().expect("a test has its verdict") {
                row.agree += 1;
            } else {
                row.disagree += 1;
                let what = if part.ends_with("format") {
                    String::new()
                } else {
                    format!(": {}: {}", group["description"], test["description"])
                };
                *notes.entry(format!("disagree {part} {name}{what}")).or_default() += 1;
            }
        }
    }
}
