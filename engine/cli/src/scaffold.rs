//! Writes new files for a person to start from, and never replaces existing ones.

use std::path::{Path, PathBuf};

use baton_types::id::is_valid_id;

use crate::exit::Failure;
use crate::place::Place;
use crate::style;
use crate::text::text;

/// Files to write, all or none.
#[derive(Debug)]
pub(crate) struct Scaffold {
    folder: PathBuf,
    files: Vec<(PathBuf, String)>,
}

impl Scaffold {
    /// Returns an empty scaffold below `folder`.
    pub(crate) fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), files: Vec::new() }
    }

    /// Adds a file at `path` below the folder.
    pub(crate) fn add(&mut self, path: impl AsRef<Path>, text: impl Into<String>) {
        self.files.push((self.folder.join(path), text.into()));
    }

    /// Adds the files of a template. `with` converts each path and each text.
    pub(crate) fn add_template(&mut self, files: &[(&str, &str)], with: impl Fn(&str) -> String) {
        for (path, text) in files {
            let path = path.strip_suffix(".template").unwrap_or(path);
            let path = if path == "gitignore" { ".gitignore" } else { path };
            self.add(with(path), with(text));
        }
    }

    /// Leaves out a file that already exists. This is for files that several commands create.
    pub(crate) fn keep_existing(&mut self, name: &str) {
        self.files.retain(|(path, _)| !(path.ends_with(name) && path.exists()));
    }

    /// Writes the files; refuses before the first one if any of them already exists.
    pub(crate) fn write(self, place: &Place) -> Result<Vec<String>, Failure> {
        if let Some((taken, _)) = self.files.iter().find(|(path, _)| path.exists()) {
            return Err(Failure::Usage(format!("{} already exists; nothing was written", place.shown(taken))));
        }
        let mut written = Vec::new();
        for (path, text) in self.files {
            let failed = |error| Failure::File { path: path.display().to_string(), error };
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder).map_err(failed)?;
            }
            std::fs::write(&path, text).map_err(failed)?;
            written.push(place.shown(&path));
        }
        Ok(written)
    }
}

/// Prints the written files, and the commands to type next.
pub(crate) fn report(place: &Place, written: &[String], next: &[String]) -> Result<(), Failure> {
    if !place.screen.is_text() {
        return place.screen.json(&serde_json::json!({"written": written, "next": next}));
    }
    for path in written {
        place.screen.text(&text!("  wrote  {path}"))?;
    }
    for (index, command) in next.iter().enumerate() {
        place.screen.tell(&text!("  {}  {command}", style::faint(if index == 0 { "next: " } else { "      " })));
    }
    Ok(())
}

/// Refuses a name that cannot be the id of `what`.
pub(crate) fn check_id(what: &str, name: &str, most: usize) -> Result<(), Failure> {
    if is_valid_id(name) && name.len() <= most {
        return Ok(());
    }
    let rule = format!("lower-case words and digits joined by single _ or -, at most {most} characters");
    Err(Failure::Usage(format!("{name:?} cannot be the id of {what}: ids are {rule}")))
}
