//! Exports documents from the workspace into a folder, following a plan, with file names that are valid on every system.
//!
//! Models choose the names of documents. Therefore an export writes no hidden file and writes nothing through a link. It
//! replaces existing files only on a person's request.

mod names;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_store::Store;
use baton_types::document::DocumentVersion;
use serde::Serialize;

use crate::exit::Failure;
use crate::place::Place;

/// The files that an export writes, planned before the first one.
pub(crate) struct Plan<'v> {
    target: &'v Target,
    steps: Vec<Step<'v>>,
}

/// One document of a plan.
struct Step<'v> {
    version: &'v DocumentVersion,
    /// The path of its file, relative to the folder.
    file: String,
    replaces: bool,
}

/// One document of a plan, as JSON shows it.
#[derive(Serialize)]
struct StepReport {
    document: String,
    file: String,
    renamed: bool,
    replaces: bool,
}

/// The outcome of an export.
#[derive(Debug, Default)]
pub(crate) struct Exported {
    /// The files that were written.
    pub(crate) written: Vec<PathBuf>,
    /// The documents that could not be written, and why.
    pub(crate) failed: Vec<(String, io::Error)>,
}

/// A folder for exported documents.
#[derive(Debug)]
pub(crate) struct Target {
    folder: PathBuf,
    is_forced: bool,
}

impl Target {
    /// Returns `folder` as a target if it is new or empty, or if `is_forced` allows to replace files in it.
    pub(crate) fn checked(folder: PathBuf, is_forced: bool, place: &Place) -> Result<Self, Failure> {
        let shown = place.shown(&folder);
        if folder.exists() && !folder.is_dir() {
            return Err(Failure::Usage(format!("--out {shown} is a file; expected a folder")));
        }
        let is_empty = match fs::read_dir(&folder) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(Failure::File { path: shown, error }),
        };
        if is_empty || is_forced {
            return Ok(Self { folder, is_forced });
        }
        Err(Failure::Usage(format!("{shown} is not empty; expected a new or empty folder, or --force to replace files in it")))
    }
}

impl Target {
    /// Writes one file of the folder, and creates the folder if needed. `index` numbers the files of one command.
    pub(crate) fn write(&self, file: &str, content: &[u8], index: usize) -> io::Result<PathBuf> {
        fs::create_dir_all(&self.folder)?;
        let file = place_for(&self.folder, file)?;
        if self.is_forced {
            replace_file(&file, content, index)?;
        } else {
            write_new_file(&file, content)?;
        }
        Ok(file)
    }
}

impl<'v> Plan<'v> {
    /// Plans the export of `versions` into the folder of `target`.
    pub(crate) fn new(versions: &[&'v DocumentVersion], target: &'v Target) -> Self {
        let paths: Vec<&str> = versions.iter().map(|version| version.path.as_str()).collect();
        let steps = versions.iter().zip(names::files(&paths)).map(|(version, file)| {
            let replaces = fs::symlink_metadata(target.folder.join(&file)).is_ok();
            Step { version, file, replaces }
        });
        Self { target, steps: steps.collect() }
    }

    /// Renders the plan as one line.
    pub(crate) fn headline(&self, place: &Place) -> String {
        let noun = if self.steps.len() == 1 { "document" } else { "documents" };
        format!("exports {} {noun} into {}", self.steps.len(), place.shown(&self.target.folder))
    }

    /// Renders the plan, one line per document.
    pub(crate) fn lines(&self, place: &Place) -> Vec<String> {
        let line = |step: &Step<'_>| {
            let file = place.shown(&self.target.folder.join(&step.file));
            let path = &step.version.path;
            let is_renamed = step.file != path.as_str();
            let renamed =
                if is_renamed { format!("   (renamed: {path} is not a valid file name on every system)") } else { String::new() };
            let replaces = if step.replaces { "   (replaces a file)" } else { "" };
            format!("{file}{renamed}{replaces}")
        };
        self.steps.iter().map(line).collect()
    }

    /// Returns the lines that a person reads before the export: changed names and replaced files.
    pub(crate) fn notices(&self, place: &Place) -> Vec<String> {
        let lines = self.lines(place).into_iter().zip(&self.steps);
        lines.filter(|(_, step)| step.replaces || step.file != step.version.path.as_str()).map(|(line, _)| line).collect()
    }

    /// Returns the plan as values for JSON.
    pub(crate) fn report(&self, place: &Place) -> Vec<impl Serialize + use<>> {
        let report = |step: &Step<'_>| StepReport {
            document: step.version.reference().to_string(),
            file: place.shown(&self.target.folder.join(&step.file)),
            renamed: step.file != step.version.path.as_str(),
            replaces: step.replaces,
        };
        self.steps.iter().map(report).collect()
    }

    /// Writes the documents. A document that cannot be written does not stop the others.
    pub(crate) async fn carry_out(&self, store: &Arc<dyn Store>) -> Result<Exported, Failure> {
        let folder = &self.target.folder;
        fs::create_dir_all(folder).map_err(|error| Failure::File { path: folder.display().to_string(), error })?;
        let mut exported = Exported::default();
        for (index, step) in self.steps.iter().enumerate() {
            let content = content(store, step.version).await?;
            match self.target.write(&step.file, &content, index) {
                Ok(file) => exported.written.push(file),
                Err(error) => exported.failed.push((step.version.path.to_string(), error)),
            }
        }
        Ok(exported)
    }
}

impl Exported {
    /// Returns the written files, or a failure that names every document that could not be written.
    pub(crate) fn files(self) -> Result<Vec<PathBuf>, Failure> {
        let mut failed = self.failed.into_iter();
        let Some((path, error)) = failed.next() else { return Ok(self.written) };
        let others: Vec<String> = failed.map(|(path, error)| format!("\n{path}: {error}")).collect();
        let error = if others.is_empty() { error } else { io::Error::other(format!("{error}{}", others.concat())) };
        Err(Failure::File { path, error })
    }
}

/// Reads the content of a document's version.
pub(crate) async fn content(store: &Arc<dyn Store>, version: &DocumentVersion) -> Result<Arc<[u8]>, Failure> {
    let found = store.content(version.content.hash).await.map_err(Failure::of_store)?;
    found.ok_or_else(|| Failure::Store(format!("the content of {} is missing", version.reference())))
}

/// Returns the path of `file` below `folder`, and creates missing folders on the way. A link on the way is refused, because it
/// may lead outside of the folder.
fn place_for(folder: &Path, file: &str) -> io::Result<PathBuf> {
    let mut place = folder.to_owned();
    let mut components = file.split('/').peekable();
    while let Some(component) = components.next() {
        place.push(component);
        let found = fs::symlink_metadata(&place);
        if found.as_ref().is_ok_and(fs::Metadata::is_symlink) {
            return Err(io::Error::other(format!("{} is a link; documents are not written through links", place.display())));
        }
        if components.peek().is_some() && found.is_err() {
            fs::create_dir(&place)?;
        }
    }
    Ok(place)
}

/// Writes a new file. A file or link that another process created in the meantime is left alone.
fn write_new_file(file: &Path, content: &[u8]) -> io::Result<()> {
    let mut new = fs::File::create_new(file)?;
    new.write_all(content).inspect_err(|_| {
        let _best_effort = fs::remove_file(file);
    })
}

/// Writes a temporary file next to `file` and renames it. A reader sees the old file or the new one, and links are not followed.
fn replace_file(file: &Path, content: &[u8], index: usize) -> io::Result<()> {
    let aside = file.with_file_name(format!(".baton-{}-{index}", std::process::id()));
    let written = write_new_file(&aside, content).and_then(|()| fs::rename(&aside, file));
    if written.is_err() {
        let _best_effort = fs::remove_file(&aside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_on_the_way_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("charts")).unwrap();
        let refused = place_for(folder.path(), "charts/q3.png");
        assert!(refused.unwrap_err().to_string().contains("is a link"));
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_is_replaced_whole_and_only_if_that_was_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = place_for(folder.path(), "a/b/c.txt").unwrap();
        write_new_file(&file, b"one").unwrap();
        assert_eq!(write_new_file(&file, b"two").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&file).unwrap(), b"one");
        replace_file(&file, b"two", 0).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"two");
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing is left aside");
    }

    #[test]
    fn the_longest_name_is_replaced_too() {
        let folder = tempfile::tempdir().unwrap();
        let file = place_for(folder.path(), &"n".repeat(255)).unwrap();
        replace_file(&file, b"long", 0).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"long");
    }
}
