//! The ledger of effects: a file outside the store that records each effect as it happens.
//!
//! Every line is one JSON object, appended with one write and flushed to the disk before the tool continues. A process
//! that is killed between two pages of that write leaves a torn line, which is no note; the next note begins on a line
//! of its own. A tool that has an effect notes an [`Kind::Attempt`] for every request that reaches it, and an
//! [`Kind::Effect`] for each irreversible action.
//!
//! The three tools here behave like the services that real tools call. `ledger_append` repeats its effect for each
//! request (`at_most_once`). `ledger_charge` has one effect per key (`keyed`). `ledger_set` leaves the same state
//! behind after each request (`idempotent`). A program links them with `use baton_crash as _;` and finds their file in
//! the environment variable [`ENV_LEDGER`].

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use baton::{ToolContext, ToolError, tool};
use baton_store::failpoint;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Names the ledger's file to the tools.
pub const ENV_LEDGER: &str = "BATON_LEDGER";

/// One line of a ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Kind of the note.
    pub kind: Kind,
    /// The idempotency key: run id and call id.
    pub key: String,
    /// The tool.
    pub tool: String,
    /// The process.
    pub process: u32,
}

/// Kinds of notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A request reached the tool.
    Attempt,
    /// The effect took place.
    Effect,
}

/// A ledger, open for notes. Several processes may have the same one open, and none waits for another: a process that
/// is stopped in the middle of a note blocks no other.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    file: File,
}

impl Ledger {
    /// Opens the ledger at `path`, or begins it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Notes `kind` for `key`; returns when the note is on the disk.
    pub fn note(&mut self, kind: Kind, tool: &str, key: &str) -> io::Result<()> {
        self.file.write_all(&line(kind, tool, key)?)?;
        self.file.sync_data()
    }

    /// Notes the effect of `key` unless it is noted already. Returns true if it was new.
    ///
    /// Such a note is a file of its own that appears whole under the key's name, or already exists.
    pub fn note_once(&mut self, tool: &str, key: &str) -> io::Result<bool> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let folder = once(&self.path);
        std::fs::create_dir_all(&folder)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let unfinished = folder.join(format!("{UNFINISHED}{}-{number}", std::process::id()));
        let mut file = File::create(&unfinished)?;
        file.write_all(&line(Kind::Effect, tool, key)?)?;
        file.sync_data()?;
        let noted = match std::fs::hard_link(&unfinished, folder.join(key.replace('/', "_"))) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            linked => linked.map(|()| true),
        };
        std::fs::remove_file(&unfinished)?;
        noted
    }
}

/// Prefix of the name of a note that may not be whole.
const UNFINISHED: &str = "unfinished-";

/// Returns the folder of notes that are made once per key.
fn once(ledger: &Path) -> PathBuf {
    ledger.with_extension("once")
}

fn line(kind: Kind, tool: &str, key: &str) -> io::Result<Vec<u8>> {
    let note = Note { kind, key: key.to_owned(), tool: tool.to_owned(), process: std::process::id() };
    Ok(format!("\n{}\n", serde_json::to_string(&note)?).into_bytes())
}

/// Returns the number of effects by tool and key. Unfinished notes are not counted.
pub fn effects(path: &Path) -> io::Result<BTreeMap<(String, String), usize>> {
    let absent_is_empty = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Ok(String::new()),
        _ => Err(error),
    };
    let mut text = std::fs::read_to_string(path).or_else(absent_is_empty)?;
    if once(path).is_dir() {
        for note in std::fs::read_dir(once(path))? {
            let note = note?;
            if !note.file_name().to_string_lossy().starts_with(UNFINISHED) {
                text.push_str(&std::fs::read_to_string(note.path())?);
            }
        }
    }
    let mut counts = BTreeMap::new();
    for note in notes(&text)?.into_iter().filter(|note| note.kind == Kind::Effect) {
        *counts.entry((note.tool, note.key)).or_default() += 1;
    }
    Ok(counts)
}

fn notes(text: &str) -> io::Result<Vec<Note>> {
    let lines = text.lines().filter(|line| !line.is_empty()).map(serde_json::from_str);
    let whole = lines.filter(|note| !note.as_ref().is_err_and(serde_json::Error::is_eof));
    whole.map(|note| note.map_err(io::Error::from)).collect()
}

fn open() -> Result<Ledger, ToolError> {
    let path = std::env::var_os(ENV_LEDGER).ok_or_else(|| ToolError::new(format!("{ENV_LEDGER} names no ledger")))?;
    Ledger::open(Path::new(&path)).map_err(|error| ToolError::new(format!("the ledger cannot be opened: {error}")))
}

fn unwritable(error: io::Error) -> ToolError {
    ToolError::new(format!("the ledger cannot be written: {error}"))
}

/// Notes an effect, whatever is noted already.
#[tool]
fn ledger_append(context: &ToolContext, n: u64) -> Result<Value, ToolError> {
    let (mut ledger, key) = (open()?, context.idempotency_key());
    ledger.note(Kind::Attempt, "ledger_append", &key).map_err(unwritable)?;
    failpoint::pass("tool.effect.before");
    ledger.note(Kind::Effect, "ledger_append", &key).map_err(unwritable)?;
    failpoint::pass("tool.effect.after");
    Ok(json!({"n": n}))
}

/// Notes an effect once for each key.
#[tool]
fn ledger_charge(context: &ToolContext, n: u64) -> Result<Value, ToolError> {
    let (mut ledger, key) = (open()?, context.idempotency_key());
    ledger.note(Kind::Attempt, "ledger_charge", &key).map_err(unwritable)?;
    failpoint::pass("tool.effect.before");
    ledger.note_once("ledger_charge", &key).map_err(unwritable)?;
    failpoint::pass("tool.effect.after");
    Ok(json!({"n": n}))
}

/// Sets the state that belongs to `n`: a file beside the ledger, replaced whole.
#[tool]
fn ledger_set(context: &ToolContext, n: u64) -> Result<Value, ToolError> {
    let key = context.idempotency_key();
    open()?.note(Kind::Attempt, "ledger_set", &key).map_err(unwritable)?;
    let ledger = std::env::var_os(ENV_LEDGER).unwrap_or_default();
    let state = Path::new(&ledger).with_extension(format!("state-{n}"));
    let unfinished = state.with_extension(format!("unfinished-{n}-{}", std::process::id()));
    failpoint::pass("tool.effect.before");
    let set = || {
        let mut file = File::create(&unfinished)?;
        file.write_all(key.as_bytes())?;
        file.sync_data()?;
        std::fs::rename(&unfinished, &state)
    };
    set().map_err(unwritable)?;
    failpoint::pass("tool.effect.after");
    Ok(json!({"n": n}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_is_noted_once_for_a_key_and_as_often_as_it_happens_without() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        assert_eq!(effects(&path).unwrap(), BTreeMap::new());
        // A line that was being written when its process died, before and after the notes of others.
        let tear = || Ledger::open(&path).unwrap().file.write_all(b"{\"kind\":\"effect\",\"key").unwrap();
        for _ in 0..2 {
            let mut ledger = Ledger::open(&path).unwrap();
            ledger.note(Kind::Attempt, "a", "r/0/1.1").unwrap();
            tear();
            ledger.note(Kind::Effect, "a", "r/0/1.1").unwrap();
        }
        assert!(Ledger::open(&path).unwrap().note_once("b", "r/0/1.2").unwrap());
        assert!(!Ledger::open(&path).unwrap().note_once("b", "r/0/1.2").unwrap());
        tear();
        let expected = [(("a", "r/0/1.1"), 2), (("b", "r/0/1.2"), 1)];
        let expected = expected.map(|((tool, key), count)| ((tool.to_owned(), key.to_owned()), count));
        assert_eq!(effects(&path).unwrap(), BTreeMap::from(expected));
    }
}
