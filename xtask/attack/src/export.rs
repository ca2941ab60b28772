//! Documents that a model named, written out into folders where something is: nothing that is there may change, and
//! nothing hidden may appear.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use serde_json::{Value, json};

use crate::{Scene, Size, Tally};

/// Document names with which a model may try to reach a person's files.
const NAMES: [&str; 22] = [
    ".git/config",
    ".git/hooks/pre-commit",
    "a/.GIT/config",
    "b/.Git/config",
    "GIT~1/config",
    ".env",
    "c/.ENV",
    "baton.json",
    "notes.md",
    ".baton/trusted/x",
    ".baton/baton.db",
    ".ssh/authorized_keys",
    ".config/baton/models.json",
    "sub/.hidden",
    "sub/.git/config",
    "linked/file.txt",
    "link.txt",
    "dangling.txt",
    ".bashrc",
    "..x",
    "AUX .txt",
    "a*.md",
];

/// Files of the person's, in the folder that documents are written into.
const MINE: [&str; 8] = [
    ".git/config",
    ".git/hooks/pre-commit",
    ".env",
    ".baton/baton.db",
    ".ssh/authorized_keys",
    ".bashrc",
    "notes.md",
    "baton.json",
];

/// Tries every way out.
pub fn attack(size: Size) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    let all: [&[&str]; 7] = [
        &["doc", "export", "@last", "--out", "mine"],
        &["doc", "export", "@last", "--out", "mine", "--force"],
        &["doc", "export", "@last", "--out", "mine", "--force", "--dry-run"],
        &["run", "writing", "--out", "mine"],
        &["run", "writing", "--out", "mine", "--force"],
        &["fork", "@last", "--out", "mine", "--force"],
        &["doc", "export", "@last", "--out", "fresh"],
    ];
    let commands = all.iter().skip(if size == Size::Full { 0 } else { 4 });
    for command in commands {
        let scene = scene()?;
        let first = scene.run(&["run", "writing"])?;
        ensure!(first.code == Some(0), "the job does not run: {}", first.text());
        let mine = scene.folder().join("mine");
        let before = kept(&mine)?;
        let ran = scene.run(command)?;
        ensure!(ran.crash().is_none(), "{command:?}: {}", ran.text());
        let is_forced = command.contains(&"--force") && !command.contains(&"--dry-run");
        for (file, content) in &before {
            // With --force a visible file may be replaced; that is what a person asked for.
            let is_visible = !is_hidden(file);
            let now = fs::read(mine.join(file)).unwrap_or_default();
            let changed = now != *content && !(is_forced && is_visible);
            tally.count(changed.then(|| format!("{command:?} changed {}", file.display())));
        }
        let outside = fs::read(scene.folder().join("outside/file.txt")).unwrap_or_default();
        tally.count((outside != b"mine").then(|| format!("{command:?} wrote through a link")));
        let made = scene.folder().join("outside/made.txt").exists();
        tally.count(made.then(|| format!("{command:?} wrote where a dangling link leads")));
        for folder in ["mine", "fresh"] {
            for file in kept(&scene.folder().join(folder))?.iter().map(|(file, _)| file) {
                let is_new = folder == "fresh" || !before.iter().any(|(known, _)| known == file);
                let is_bad = is_new && (is_hidden(file) || is_no_file(file));
                tally.count(is_bad.then(|| format!("{command:?} made {}", file.display())));
            }
        }
    }
    Ok(tally)
}

/// Returns a job that writes every name, and a folder with things of the person's.
fn scene() -> anyhow::Result<Scene> {
    let scene = Scene::new()?;
    let calls = NAMES.map(|name| json!({"tool": "write_file", "input": {"path": name, "content": "theirs"}}));
    let writing: Vec<Value> = calls.chunks(8).map(|calls| json!({"calls": calls, "literal": true})).collect();
    let handoff = json!({"calls": [{"tool": "handoff", "input": {"result": {}, "documents": NAMES}}], "literal": true});
    let turns: Vec<Value> = writing.into_iter().chain([handoff]).collect();
    let tools: &[&str] = &["write_file", "handoff"];
    scene.write_job("writing", &[("lead", tools)], json!({"lead": {"turns": turns}}), json!({}))?;
    for file in MINE {
        scene.write(&format!("mine/{file}"), "mine")?;
    }
    scene.write("outside/file.txt", "mine")?;
    let mine = scene.folder().join("mine");
    symlink(scene.folder().join("outside"), mine.join("linked"))?;
    symlink(scene.folder().join("outside/file.txt"), mine.join("link.txt"))?;
    symlink(scene.folder().join("outside/made.txt"), mine.join("dangling.txt"))?;
    Ok(scene)
}

/// Returns the files below `folder`, by their names in it; links are left out.
fn kept(folder: &Path) -> anyhow::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let Ok(entries) = fs::read_dir(&next) else { continue };
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                found.push((entry.path().strip_prefix(folder)?.to_owned(), fs::read(entry.path())?));
            }
        }
    }
    Ok(found)
}

fn is_hidden(file: &Path) -> bool {
    file.iter().any(|component| component.to_string_lossy().starts_with('.'))
}

/// Whether a component cannot be a file on Windows, or is one under its short name.
fn is_no_file(file: &Path) -> bool {
    file.iter().any(|component| {
        let name = component.to_string_lossy().to_lowercase();
        let stem = name.split('.').next().unwrap_or_default().trim_end().to_owned();
        name.contains(['<', '>', ':', '"', '|', '?', '*'])
            || name.ends_with(['.', ' '])
            || ["aux", "con", "nul", "prn", "conin$", "conout$", "git~1"].contains(&&*stem)
    })
}
