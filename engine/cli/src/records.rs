//! Records of the trust that a person gave: one file per yes, in the person's own state folder and never in a project.
//!
//! The files are named with a keyed hash whose key only this person has, so a project cannot bring its own. A file contains the
//! trusted lines. Its name must match its text, so a changed file is ignored.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use baton_files::private;

use crate::exit::Failure;

/// The environment variable with the folder of the person's state.
pub(crate) const STATE_VARIABLE: &str = "BATON_STATE_HOME";
/// The file of the key.
const KEY_FILE: &str = "key";
/// The largest size of a record in bytes.
const MAX_RECORD_BYTES: u64 = 8 << 20;

/// A person's records.
#[derive(Debug)]
pub(crate) struct Records {
    folder: PathBuf,
    key: [u8; 32],
}

impl Records {
    /// Opens the records of the person who runs the program; `None` if the environment names no folder for them.
    pub(crate) fn open() -> Result<Option<Self>, Failure> {
        let Some(folder) = state_folder().map(|state| state.join("trust")) else { return Ok(None) };
        let failed = |error| Failure::File { path: folder.display().to_string(), error };
        private::make_folder(&folder).map_err(failed)?;
        let key = key(&folder.join(KEY_FILE)).map_err(failed)?;
        Ok(Some(Self { folder, key }))
    }

    /// Returns the folder of the records.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns true if one yes for `place` covers all of `lines`.
    pub(crate) fn hold(&self, place: &str, lines: &BTreeSet<String>) -> bool {
        let files = fs::read_dir(self.of_place(place)).into_iter().flatten().flatten();
        files.map(|file| file.path()).any(|file| self.read(place, &file).is_some_and(|known| known.is_superset(lines)))
    }

    /// Stores a yes for `lines` at `place`.
    pub(crate) fn keep(&self, place: &str, lines: &BTreeSet<String>) -> io::Result<()> {
        let folder = self.of_place(place);
        private::make_folder(&folder)?;
        let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        let file = folder.join(self.name(&format!("{place}\n{text}")));
        let aside = folder.join(format!(".{}.part", std::process::id()));
        let _left_by_a_crash = fs::remove_file(&aside);
        private::write_new(&aside, text.as_bytes())?;
        fs::rename(&aside, &file)
    }

    /// Reads the lines of a record; `None` if its name does not match its text.
    fn read(&self, place: &str, file: &Path) -> Option<BTreeSet<String>> {
        let text = String::from_utf8(baton_files::read(file, MAX_RECORD_BYTES).ok()?).ok()?;
        let is_own = file.file_name().is_some_and(|name| name == self.name(&format!("{place}\n{text}")).as_str());
        is_own.then(|| text.lines().map(str::to_owned).collect())
    }

    fn of_place(&self, place: &str) -> PathBuf {
        self.folder.join(self.name(place))
    }

    fn name(&self, text: &str) -> String {
        blake3::keyed_hash(&self.key, text.as_bytes()).to_hex().to_string()
    }
}

/// Returns the folder of the person's state: [`STATE_VARIABLE`], or else the folder of the XDG base directory specification
/// (<https://specifications.freedesktop.org/basedir-spec/latest/>). Relative paths are ignored, since they would depend on the
/// folder of a job.
fn state_folder() -> Option<PathBuf> {
    let named = |variable: &str| std::env::var_os(variable).map(PathBuf::from).filter(|folder| folder.is_absolute());
    named(STATE_VARIABLE)
        .or_else(|| Some(named("XDG_STATE_HOME")?.join("baton")))
        .or_else(|| Some(named("HOME")?.join(".local/state/baton")))
}

/// Reads the person's key, and creates a random one if there is none.
fn key(file: &Path) -> io::Result<[u8; 32]> {
    if !baton_files::is_there(file) {
        let mut random = [0; 32];
        fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
        // The key is complete before the file gets its name. If two processes create a key at the same time, the first one
        // counts.
        let aside = file.with_extension(format!("{}.part", std::process::id()));
        let _left_by_a_crash = fs::remove_file(&aside);
        private::write_new(&aside, &random)?;
        let linked = fs::hard_link(&aside, file);
        fs::remove_file(&aside)?;
        if let Err(error) = linked
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(error);
        }
    }
    let content = baton_files::read(file, 32)?;
    content.try_into().map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidData, "the key is not 32 bytes long; remove the file to create a new key")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_holds_for_its_place_its_lines_and_its_key_alone() {
        let folder = tempfile::tempdir().unwrap();
        let records = |key| Records { folder: folder.path().to_owned(), key: [key; 32] };
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<BTreeSet<_>>();
        let mine = records(1);
        mine.keep("job /a", &lines(&["x", "y"])).unwrap();
        mine.keep("job /a", &lines(&["z"])).unwrap();
        assert!(mine.hold("job /a", &lines(&["x"])) && mine.hold("job /a", &lines(&["x", "y"])));
        assert!(!mine.hold("job /a", &lines(&["x", "z"])), "two yeses do not add up to a third");
        assert!(!mine.hold("job /b", &lines(&["x"])) && !records(2).hold("job /a", &lines(&["x"])));
        let place = mine.of_place("job /a");
        for file in fs::read_dir(&place).unwrap() {
            fs::write(file.unwrap().path(), "x\ny\nz\nw\n").unwrap();
        }
        assert!(!mine.hold("job /a", &lines(&["w"])), "a record that was changed is none");
    }

    #[test]
    fn a_key_is_made_once_and_is_its_owners() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(KEY_FILE);
        let first = key(&file).unwrap();
        assert_eq!(key(&file).unwrap(), first);
        assert_ne!(first, [0; 32]);
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions()) & 0o777, 0o600);
    }
}
