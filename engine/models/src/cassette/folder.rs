//! The folder of a recording: its label, and its files, each written whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use baton_files::private;
use baton_types::id::RunId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::CassetteError;

/// The file that makes a folder a recording.
const LABEL_FILE: &str = "recording.json";

/// The most bytes of a cassette: more than a request and an answer within their own bounds.
const MAX_CASSETTE_BYTES: u64 = 256 << 20;

/// The form of cassettes that this program writes and reads.
const FORMAT: u32 = 1;

/// Content of the file that labels a recording.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Label {
    format: u32,
    pub(super) run: String,
    /// The version of the program that began it.
    baton: String,
}

impl Label {
    pub(super) fn of(run: &RunId) -> Self {
        Self { format: FORMAT, run: run.to_string(), baton: env!("CARGO_PKG_VERSION").to_owned() }
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), CassetteError> {
        write(folder, LABEL_FILE, self)
    }

    /// Returns the label of the recording in `folder`.
    pub(super) fn read(folder: &Path) -> Result<Self, CassetteError> {
        let label: Option<Self> = read(folder, LABEL_FILE)?;
        let label = label.ok_or_else(|| CassetteError::NoRecording { folder: folder.to_owned() })?;
        if label.format == FORMAT {
            return Ok(label);
        }
        let reason = format!("it has format {}, and this program knows format {FORMAT}", label.format);
        Err(CassetteError::Unreadable { file: folder.join(LABEL_FILE), reason })
    }
}

/// Makes `folder`, unless it is there and empty.
pub(super) fn make_empty(folder: &Path) -> Result<(), CassetteError> {
    let made = private::make_folder(folder).and_then(|()| Ok(fs::read_dir(folder)?.next().is_none()));
    match made {
        Ok(true) => Ok(()),
        Ok(false) => Err(CassetteError::NotEmpty { folder: folder.to_owned() }),
        Err(error) => Err(unwritten(folder, &error)),
    }
}

/// Returns the number of cassettes in `folder`.
pub(super) fn count(folder: &Path) -> usize {
    let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter(|name| Path::new(name).extension().is_some_and(|kind| kind == "json") && name != LABEL_FILE).count()
}

/// Writes `value` to a temporary file and renames it to `name`, so that no reader sees half a file.
pub(super) fn write(folder: &Path, name: &str, value: &impl Serialize) -> Result<(), CassetteError> {
    let (file, aside) = (folder.join(name), folder.join(format!(".{name}.part")));
    let mut text = serde_json::to_vec_pretty(value).expect("a tree of JSON always serialises");
    text.push(b'\n');
    let part = private::options().write(true).create(true).truncate(true).open(&aside);
    let written = part.and_then(|mut part| part.write_all(&text)).and_then(|()| fs::rename(&aside, &file));
    written.map_err(|error| {
        let _best_effort = fs::remove_file(&aside);
        unwritten(&file, &error)
    })
}

/// Reads the file `name`; `None` if there is none.
pub(super) fn read<T: DeserializeOwned>(folder: &Path, name: &str) -> Result<Option<T>, CassetteError> {
    let file = folder.join(name);
    let unreadable = |reason: String| CassetteError::Unreadable { file: file.clone(), reason };
    match baton_files::read(&file, MAX_CASSETTE_BYTES) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|error| unreadable(error.to_string())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(error.to_string())),
    }
}

/// Removes the file `name`. Returns true if it existed.
pub(super) fn remove(folder: &Path, name: &str) -> Result<bool, CassetteError> {
    let file = folder.join(name);
    match fs::remove_file(&file) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(unwritten(&file, &error)),
    }
}

fn unwritten(file: &Path, error: &io::Error) -> CassetteError {
    CassetteError::Unwritten { file: file.to_owned(), reason: error.to_string() }
}
