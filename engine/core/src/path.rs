//! Paths of documents: relative, normalised, and refused if they could mean two documents or leave the workspace.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization;

/// The path of a document: `/`-separated, relative, in Unicode's NFC.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct DocumentPath(Arc<str>);

/// Why a text cannot be the path of a document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path:?} cannot be a document path: {reason}")]
pub struct PathError {
    /// The refused text, shortened.
    pub path: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// The most bytes a path may have (Linux's `PATH_MAX` less its terminator).
const MAX_PATH_BYTES: usize = 4_095;
/// The most bytes one component may have (`NAME_MAX` of common file systems).
const MAX_COMPONENT_BYTES: usize = 255;
/// Names that Windows gives to devices, with or without an extension.
const DEVICE_NAMES: [&str; 4] = ["con", "prn", "aux", "nul"];

impl DocumentPath {
    /// Reads `text` as a path. A leading `./` is dropped; nothing else is repaired.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let refuse = |reason| Err(PathError { path: text.chars().take(80).collect(), reason });
        let text = text.strip_prefix("./").unwrap_or(text);
        // ASCII is its own normal form in every form.
        let normal: Cow<'_, str> = if text.is_ascii() { text.into() } else { text.nfc().collect() };
        if normal.is_empty() {
            return refuse("it is empty");
        }
        if normal.len() > MAX_PATH_BYTES {
            return refuse("it is longer than 4,095 bytes");
        }
        if normal.starts_with('/') {
            return refuse("it is absolute; paths are relative to the workspace");
        }
        if normal.starts_with('~') || normal.starts_with('$') {
            return refuse("it begins like a home folder or a variable");
        }
        if normal.contains('\\') || normal.contains(':') {
            return refuse("it holds a backslash or a colon");
        }
        if normal.chars().any(is_invisible) {
            return refuse("it holds a control character or an invisible one");
        }
        if holds_percent_encoding(&normal) {
            return refuse("it holds a percent-encoded character");
        }
        let compatible: Cow<'_, str> = if text.is_ascii() { text.into() } else { normal.nfkc().collect() };
        if compatible.matches('/').count() != normal.matches('/').count() || normal.contains(['\u{2215}', '\u{2044}', '\u{29F8}'])
        {
            return refuse("it holds a character that looks like a slash");
        }
        for component in compatible.split('/') {
            if component.is_empty() {
                return refuse("it has an empty component");
            }
            if component.chars().all(|character| character == '.') {
                return refuse("a component consists of dots");
            }
            if component.ends_with('.') || component.ends_with(' ') || component.starts_with(' ') {
                return refuse("a component begins or ends with a space, or ends with a dot");
            }
            let stem = component.split('.').next().unwrap_or_default().to_lowercase();
            let numbered = stem.len() == 4
                && (stem.starts_with("com") || stem.starts_with("lpt"))
                && stem.ends_with(|last: char| last.is_ascii_digit());
            if DEVICE_NAMES.contains(&stem.as_str()) || numbered {
                return refuse("a component is the name of a device on some systems");
            }
            if mixes_scripts(component) {
                return refuse("a word of it mixes Latin letters with look-alikes of another script");
            }
        }
        if normal.split('/').any(|component| component.len() > MAX_COMPONENT_BYTES) {
            return refuse("a component is longer than 255 bytes");
        }
        Ok(Self(normal.as_ref().into()))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the path looks like: two paths with one skeleton would be one file on some systems.
    pub fn skeleton(&self) -> String {
        if self.0.is_ascii() { self.0.to_ascii_lowercase() } else { self.0.nfkc().flat_map(char::to_lowercase).collect() }
    }

    /// The part after the last dot of the last component, in lower case; empty without one.
    pub fn extension(&self) -> String {
        let name = self.0.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').map(|(_, extension)| extension.to_lowercase()).unwrap_or_default()
    }
}

/// Control, format, bidirectional and tag characters, which a reader cannot see.
fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{00AD}' | '\u{061C}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFF0}'..='\u{FFFF}' | '\u{E0000}'..='\u{E0FFF}')
}

/// Whether `text` holds `%` and two hexadecimal digits: some reader down the line would decode it.
fn holds_percent_encoding(text: &str) -> bool {
    text.as_bytes().windows(3).any(|window| window[0] == b'%' && window[1].is_ascii_hexdigit() && window[2].is_ascii_hexdigit())
}

/// Whether a word of `component` has Latin letters beside Cyrillic or Greek ones, whose shapes coincide.
fn mixes_scripts(component: &str) -> bool {
    let look_alike = |character| matches!(character, '\u{0370}'..='\u{03FF}' | '\u{0400}'..='\u{052F}');
    let mut words = component.split(|character: char| !character.is_alphabetic());
    words.any(|word| word.contains(look_alike) && word.contains(|character: char| character.is_ascii_alphabetic()))
}

impl fmt::Display for DocumentPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for DocumentPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for DocumentPath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for DocumentPath {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "DocumentPath".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string" })
    }

    fn inline_schema() -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paths_are_kept() {
        for path in ["a.md", "charts/q3.png", "é.md", "a b.txt", "отчёт.md", "50% done.md", ".hidden"] {
            assert_eq!(DocumentPath::parse(path).unwrap().as_str(), path);
        }
        assert_eq!(DocumentPath::parse("./a.md").unwrap().as_str(), "a.md");
        assert_eq!(DocumentPath::parse("e\u{301}.md").unwrap(), DocumentPath::parse("é.md").unwrap());
    }

    #[test]
    fn paths_that_leave_or_deceive_are_refused() {
        let long = "a".repeat(256);
        let longer = "a/".repeat(2_048) + "a";
        let attacks = [
            "../../etc/passwd",
            "/etc/passwd",
            "a/../../b",
            "..\\..\\x",
            "....//....//x",
            "%2e%2e%2fx",
            "%252e%252e%252fx",
            "..%c0%afx",
            "./a/./../../b",
            "~/.ssh/id_rsa",
            "$HOME/x",
            "file:///etc/passwd",
            "C:\\x",
            "\\\\h\\s",
            "",
            ".",
            "..",
            "a\0.md",
            "a\nb",
            "\u{FF0E}\u{FF0E}\u{FF0F}x",
            "\u{2025}",
            "a\u{2215}b",
            "report\u{202E}fdp.exe",
            "a\u{200B}b",
            "s\u{0430}les_raw.csv",
            "CON",
            "aux.txt",
            "x.",
            "x ",
            "com1.log",
            "a//b",
            "a/",
            &long,
            &longer,
        ];
        for attack in attacks {
            assert!(DocumentPath::parse(attack).is_err(), "{attack:?} was accepted");
        }
    }
}
