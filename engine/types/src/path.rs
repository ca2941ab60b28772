//! Paths of documents: relative, normalised, and refused if they could mean two documents or leave the workspace.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization;

use crate::id::{ContentHash, ToolId};

/// The path of a document: `/`-separated, relative, in Unicode's NFC.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct DocumentPath(Arc<str>);

/// Why a text cannot be the path of a new document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path:?} cannot be a document path: {reason}")]
pub struct PathError {
    /// The refused text, shortened.
    pub path: String,
    /// Description of the fault.
    pub reason: &'static str,
}

/// The most bytes a path may have (Linux's `PATH_MAX` less its terminator).
const MAX_PATH_BYTES: usize = 4_095;
/// The most bytes one component may have (`NAME_MAX` of common file systems).
const MAX_COMPONENT_BYTES: usize = 255;
/// Names that Windows gives to devices, with or without an extension.
const DEVICE_NAMES: [&str; 4] = ["con", "prn", "aux", "nul"];

/// Hexadecimal digits of the content's hash in the path of a kept output.
const KEPT_OUTPUT_DIGITS: usize = 16;

/// Iterates over the paths for an output of `tool` that is kept as a document: the usual one, then further ones in case that
/// another document has the path. The path follows from the content, so the same output is the same document.
pub fn kept_output_paths(tool: &ToolId, content: ContentHash, ending: &'static str) -> impl Iterator<Item = DocumentPath> {
    let hash = content.to_string();
    let digits = &hash[hash.len().saturating_sub(KEPT_OUTPUT_DIGITS)..];
    let stem = format!("results/{tool}-{digits}");
    let path = move |number: u32| match number {
        1 => format!("{stem}.{ending}"),
        _ => format!("{stem}-{number}.{ending}"),
    };
    (1..).map(move |number| DocumentPath::parse(&path(number)).expect("ids and digits make a path"))
}

impl DocumentPath {
    /// Reads `text` as a path. A leading `./` is dropped; nothing else is repaired.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let path = Self::recorded(text)?;
        let refuse = |reason| Err(PathError { path: text.chars().take(80).collect(), reason });
        if reads_as_version(path.as_str()) {
            return refuse("its end reads as a version, as in NAME@2; versions are numbered by the engine");
        }
        if !path.0.is_ascii() && path.0.chars().any(is_blank) {
            return refuse("it holds an invisible character, or white space other than a space");
        }
        Ok(path)
    }

    /// Reads `text` as a path that a timeline holds already. Older versions accepted names that mislead; they stay readable.
    fn recorded(text: &str) -> Result<Self, PathError> {
        if is_usual(text) { Ok(Self(text.into())) } else { Self::judged(text) }
    }

    /// Judges `text` by every rule.
    fn judged(text: &str) -> Result<Self, PathError> {
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

    /// Returns the path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the skeleton of the path. Two paths with one skeleton would be one file on some systems, or one name to
    /// a reader.
    pub fn skeleton(&self) -> String {
        if self.0.is_ascii() {
            return self.0.to_ascii_lowercase();
        }
        self.0.split('/').map(component_skeleton).collect::<Vec<_>>().join("/")
    }

    /// Returns the part after the last dot of the last component, in lower case; empty without one.
    pub fn extension(&self) -> String {
        let name = self.0.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').map(|(_, extension)| extension.to_lowercase()).unwrap_or_default()
    }
}

/// Whether no rule refuses or changes a path, since it has only usual characters. Most paths are of this kind.
fn is_usual(text: &str) -> bool {
    let in_names = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    // The names of devices have at most four characters.
    let is_name = |component: &[u8]| {
        component.len() > 4 && component[..5].iter().all(|byte| in_names(*byte)) && component.last() != Some(&b'.')
    };
    text.len() <= MAX_COMPONENT_BYTES
        && text.bytes().all(|byte| in_names(byte) || byte == b'.' || byte == b'/')
        && text.as_bytes().split(|byte| *byte == b'/').all(is_name)
}

/// Returns the skeleton of one component. A component whose letters all look like ASCII letters is these letters.
fn component_skeleton(component: &str) -> String {
    let normal: String = component.nfkc().collect();
    let folded: String = normal.chars().flat_map(char::to_lowercase).collect();
    if folded.is_ascii() {
        return folded;
    }
    // Capitals may look like others than their small letters do.
    let shapes = [shapes_of(&normal), shapes_of(&folded)];
    shapes.into_iter().find(|shapes| shapes.is_ascii()).map_or(folded, |shapes| shapes.to_ascii_lowercase())
}

/// Returns the shapes of `text` by the table of Unicode's report 39. What is ASCII is itself: the table would make `m` two letters.
fn shapes_of(text: &str) -> String {
    let mut shapes = String::new();
    for character in text.chars() {
        if character.is_ascii() {
            shapes.push(character);
        } else {
            shapes.extend(unicode_security::confusable_detection::skeleton(character.encode_utf8(&mut [0; 4])));
        }
    }
    shapes
}

/// Whether the last component ends like a version's name: `@2`, `@v2`.
fn reads_as_version(path: &str) -> bool {
    let end = path.rsplit_once('@').map(|(_, end)| end);
    let digits = end.map(|end| end.strip_prefix(['v', 'V']).unwrap_or(end));
    digits.is_some_and(|digits| !digits.is_empty() && digits.chars().all(char::is_numeric))
}

/// Characters that are drawn as nothing or as a blank: those that Unicode lets a renderer ignore, fillers, and spaces that
/// are not U+0020. The two joiners are needed by no file name.
pub fn is_blank(character: char) -> bool {
    is_invisible(character)
        || (character.is_whitespace() && character != ' ')
        || matches!(character, '\u{034F}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{180B}'..='\u{180F}'
            | '\u{2065}' | '\u{2800}' | '\u{3164}' | '\u{FFA0}' | '\u{0600}'..='\u{0605}' | '\u{06DD}' | '\u{070F}'
            | '\u{0890}' | '\u{0891}' | '\u{08E2}' | '\u{110BD}' | '\u{110CD}' | '\u{13430}'..='\u{1343F}'
            | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}' | '\u{16FE4}' | '\u{E000}'..='\u{F8FF}'
            | '\u{F0000}'..='\u{10FFFF}')
}

/// Whether `character` is invisible: control, format, bidirectional and tag characters.
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
        Self::recorded(&text).map_err(serde::de::Error::custom)
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
    fn every_rule_accepts_a_usual_path_as_it_is() {
        let components =
            ["report.md", "sales_raw", "A-b_9.c.d", "long.", "report.", "a..b", "..", "", "con", "com12", "aux.txt", "x y", "é"];
        let texts = components.iter().flat_map(|one| components.iter().map(move |two| format!("{one}/{two}")));
        let texts: Vec<String> = texts.chain(components.map(str::to_owned)).chain(["a".repeat(256)]).collect();
        let usual: Vec<&String> = texts.iter().filter(|text| is_usual(text)).collect();
        assert_eq!(usual.len(), 4 * 4 + 4, "{usual:?}");
        for text in usual {
            assert_eq!(DocumentPath::judged(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn a_path_never_reads_as_a_version() {
        for path in ["report.md@1", "report.md@v1", "a/report@007", "x@V2", "x@١"] {
            assert!(DocumentPath::parse(path).unwrap_err().to_string().contains("NAME@2"), "{path}");
        }
        for path in ["ann@example.org.txt", "x@", "x@1.md", "v@x", "x@1/y.md"] {
            assert_eq!(DocumentPath::parse(path).unwrap().as_str(), path);
        }
        let recorded: DocumentPath = serde_json::from_str("\"report.md@1\"").unwrap();
        assert_eq!(recorded.as_str(), "report.md@1", "what an older version wrote stays readable");
    }

    #[test]
    fn characters_that_nobody_sees_are_refused() {
        for character in
            "\u{34F}\u{115F}\u{1160}\u{3164}\u{2800}\u{FFA0}\u{A0}\u{3000}\u{2003}\u{17B4}\u{180B}\u{E000}\u{1D173}".chars()
        {
            assert!(DocumentPath::parse(&format!("a{character}.md")).is_err(), "{character:?} was accepted");
        }
        for path in ["報告 1.md", "ไทย.md", "مستند.md", "ひらがな.md", "नमस्ते.md", "emoji 🦀.md"]
        {
            assert_eq!(DocumentPath::parse(path).unwrap().as_str(), path);
        }
    }

    #[test]
    fn names_of_one_look_have_one_skeleton() {
        let skeleton = |path: &str| DocumentPath::parse(path).unwrap().skeleton();
        for (ascii, other) in [("cop.md", "сор.md"), ("a/Cape.txt", "a/Саре.txt"), ("x", "х"), ("ABC", "АВС"), ("OK", "ΟΚ")]
        {
            assert_eq!(skeleton(ascii), skeleton(other), "{ascii} and {other}");
        }
        for (one, other) in [("отчёт.md", "отчет.md"), ("file1.md", "filel.md"), ("modern", "modem"), ("é.md", "e.md")]
        {
            assert_ne!(skeleton(one), skeleton(other), "{one} and {other}");
        }
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
