//! Turns names of documents into names of files that are visible, and valid on Linux, macOS and Windows.

use std::collections::BTreeSet;

/// The largest number of bytes in one component of a path.
const MAX_COMPONENT_BYTES: usize = 255;

/// Device names on Windows, which are reserved with any extension.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// Returns the file name for each of `paths`, in their order. On every system, the names are distinct, and none is a folder of
/// another.
///
/// A name that is valid as a file name is kept. Any other name is changed, always in the same way.
pub(super) fn files(paths: &[&str]) -> Vec<String> {
    let wanted: Vec<String> = paths.iter().map(|path| path.split('/').map(portable).collect::<Vec<_>>().join("/")).collect();
    let mut files = vec![String::new(); paths.len()];
    let mut taken = Taken::default();
    // Names that need no change come first, so a changed name never takes another document's name.
    for is_kept in [true, false] {
        for (index, (path, wanted)) in paths.iter().zip(&wanted).enumerate() {
            if (path == wanted) == is_kept {
                files[index] = taken.claim(wanted);
            }
        }
    }
    files
}

/// The assigned file names and the folders in them, in lower case.
#[derive(Default)]
struct Taken {
    files: BTreeSet<String>,
    folders: BTreeSet<String>,
}

impl Taken {
    /// Assigns `wanted`, or the first of its numbered variants that is free.
    fn claim(&mut self, wanted: &str) -> String {
        let (first, rest) = wanted.split_once('/').map_or((wanted, None), |(first, rest)| (first, Some(rest)));
        let numbered = |number: usize| {
            let first = if number == 1 { first.to_owned() } else { with_end(first, &format!("-{number}")) };
            rest.map_or_else(|| first.clone(), |rest| format!("{first}/{rest}"))
        };
        let tries = 1..=self.files.len() + self.folders.len() + 1;
        let file = tries.map(numbered).find(|name| self.is_free(name)).unwrap_or_default();
        let key = file.to_lowercase();
        self.folders.extend(key.match_indices('/').map(|(end, _)| key[..end].to_owned()));
        self.files.insert(key);
        file
    }

    fn is_free(&self, name: &str) -> bool {
        let key = name.to_lowercase();
        let is_below_file = key.match_indices('/').any(|(end, _)| self.files.contains(&key[..end]));
        !self.files.contains(&key) && !self.folders.contains(&key) && !is_below_file
    }
}

/// Returns `name` with `end` before its extension.
fn with_end(name: &str, end: &str) -> String {
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => shortened(&format!("{stem}{end}.{extension}")),
        _ => shortened(&format!("{name}{end}")),
    }
}

/// Converts one component into a visible name that is valid on every system.
fn portable(component: &str) -> String {
    let is_forbidden = |character: char| character.is_control() || "<>:\"|?*\\".contains(character);
    let mut name: String = component.chars().map(|character| if is_forbidden(character) { '_' } else { character }).collect();
    // This covers `.git` and its short name on Windows, `GIT~1`.
    if let Some(visible) = name.strip_prefix(is_dot) {
        name = format!("dot-{}", visible.trim_start_matches(is_dot));
    }
    let is_short_name = |(at, _): (usize, &str)| name[at + 1..].starts_with(|next: char| next.is_ascii_digit());
    if name.match_indices('~').any(is_short_name) {
        name = name.replace('~', "-");
    }
    if name.ends_with(['.', ' ']) {
        name = format!("{}_", name.trim_end_matches(['.', ' ']));
    }
    if name.starts_with(' ') {
        name = format!("_{}", name.trim_start());
    }
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_lowercase();
    let port = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt"));
    if DEVICES.contains(&stem.as_str()) || port.is_some_and(|port| port.chars().count() == 1 && port.contains(is_digit)) {
        name = format!("_{name}");
    }
    shortened(&name)
}

/// Returns true for a dot, or a character that some systems convert into a dot.
fn is_dot(character: char) -> bool {
    matches!(character, '.' | '\u{FF0E}' | '\u{2024}' | '\u{FE52}')
}

/// Returns true for the digits that Windows accepts in the names of ports.
fn is_digit(character: char) -> bool {
    character.is_ascii_digit() || matches!(character, '\u{B9}' | '\u{B2}' | '\u{B3}')
}

/// Returns `name`. If it is too long, it is cut before its extension and gets a hash of the whole name.
fn shortened(name: &str) -> String {
    if name.len() <= MAX_COMPONENT_BYTES {
        return name.to_owned();
    }
    let hash = baton_types::id::ContentHash::of(name.as_bytes()).to_string();
    let extension = name.rsplit_once('.').map(|(_, extension)| extension).filter(|extension| extension.len() <= 16);
    let end = format!("-{}{}", &hash[..8], extension.map(|extension| format!(".{extension}")).unwrap_or_default());
    let begin = name.floor_char_boundary(MAX_COMPONENT_BYTES - end.len());
    format!("{}{end}", &name[..begin])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_files_everywhere_are_kept() {
        let paths = ["a.md", "charts/q3.png", "отчёт.md", "a b.txt", "x~y", "50% done.md", "company.md", "lpt10.txt"];
        assert_eq!(files(&paths), paths);
    }

    #[test]
    fn names_that_cannot_be_files_are_changed() {
        for (path, file) in [
            (".git/config", "dot-git/config"),
            (".GIT/hooks/pre-commit", "dot-GIT/hooks/pre-commit"),
            ("a/.env", "a/dot-env"),
            ("..x", "dot-x"),
            ("GIT~1/config", "GIT-1/config"),
            ("AUX .txt", "_AUX .txt"),
            ("CONIN$", "_CONIN$"),
            ("com1", "_com1"),
            ("lpt².log", "_lpt².log"),
            ("a*.md", "a_.md"),
            ("a|b", "a_b"),
            ("what?<x>\"y\"", "what__x__y_"),
            ("end.", "end_"),
            (" begin", "_begin"),
        ] {
            assert_eq!(files(&[path]), [file]);
        }
    }

    #[test]
    fn no_two_documents_become_one_file() {
        assert_eq!(files(&["a*.md", "a?.md", "a_.md"]), ["a_-2.md", "a_-3.md", "a_.md"]);
        assert_eq!(files(&[".git", "dot-git/config"]), ["dot-git-2", "dot-git/config"]);
        assert_eq!(files(&["a|/b", "A_/B", "a_/b|"]), ["a_-2/b", "A_/B", "a_/b_"]);
        assert_eq!(files(&["dot-x", ".x/y"]), ["dot-x", "dot-x-2/y"]);
    }

    #[test]
    fn long_names_stay_apart() {
        let long = |end: &str| format!(".{}{end}", "n".repeat(250));
        let files = files(&[&long("1.md"), &long("2.md"), &"é".repeat(127)]);
        assert!(files.iter().all(|file| file.len() <= 255), "{files:?}");
        assert!(files[0] != files[1] && files[0].rsplit('.').next() == Some("md"), "{files:?}");
    }
}
