//! Faults of the files a person writes: what is wrong, where, and what was probably meant.

use std::fmt::{self, Write as _};

use baton_types::spelling::nearest;
use serde::Serialize;

use crate::secrecy::is_secret_line;

/// Largest number of reported faults of one file.
pub(crate) const MAX_FAULTS_PER_FILE: usize = 100;

/// Declares the kinds of fault with their stable codes, so that no two kinds share one.
macro_rules! fault_kinds {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// Kind of a fault. Codes are stable: scripts and people may look them up.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FaultKind {
            $($(#[$doc])* $name,)*
        }

        impl FaultKind {
            /// Every kind, by code.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Returns the stable code, such as `B0102`.
            pub const fn code(self) -> &'static str {
                match self {
                    $(Self::$name => $code,)*
                }
            }
        }
    };
}

fault_kinds! {
    /// The text is not one JSON value in UTF-8, or it is too large or too deep.
    Syntax = "B0101",
    /// A config's parameter that the function does not have.
    ParameterNotInFunction = "B0102",
    /// A key that no feature of this version reads.
    UnknownKey = "B0103",
    /// A duplicate key in an object.
    DuplicateKey = "B0104",
    /// A value of another type than the key takes.
    WrongType = "B0105",
    /// A key that must be there.
    MissingKey = "B0106",
    /// A value that is too small, too large, too long or of the wrong form.
    OutOfRange = "B0107",
    /// A word that is none of those the key takes.
    UnknownValue = "B0108",
    /// A key that does not belong beside another one or to this type of tool.
    MisplacedKey = "B0109",
    /// A function tool that nothing runs.
    NoExecutor = "B0110",
    /// A tool with two executors, or of a type that has none.
    TooManyExecutors = "B0111",
    /// A registered function that no config describes.
    FunctionWithoutConfig = "B0112",
    /// Two registered functions for one tool.
    FunctionTwice = "B0113",
    /// A parameter of the function that the config does not have.
    ParameterNotInConfig = "B0114",
    /// A parameter whose type differs between config and function.
    ParameterType = "B0115",
    /// A parameter that one side requires and the other does not.
    ParameterRequired = "B0116",
    /// An example, a default or a listed value that breaks its own schema.
    BrokenExample = "B0117",
    /// A JSON Schema that is none, or that refers outside itself.
    BadSchema = "B0118",
    /// A tool without a config.
    UnknownTool = "B0119",
    /// An agent without a config.
    UnknownAgent = "B0120",
    /// A model that the job does not name.
    UnknownModel = "B0121",
    /// A name that the engine keeps for itself.
    ReservedName = "B0122",
    /// Two things with one id, or with ids that differ only by `-` and `_`.
    SameId = "B0123",
    /// A file that is not named after the id in it.
    FileName = "B0124",
    /// A template that cannot be read.
    TemplateSyntax = "B0125",
    /// A template that uses a variable which does not exist.
    UndefinedVariable = "B0126",
    /// A document, prompt, script or program that is not there.
    MissingFile = "B0127",
    /// A model script that cannot be followed.
    BadScript = "B0128",
    /// A limit that nothing can keep.
    UnkeepableLimit = "B0129",
    /// A path that is none, or that could mean two files.
    BadPath = "B0130",
    /// An input that tools of this type need.
    MissingInput = "B0131",
    /// A field of a tool's input or output without a type.
    UntypedField = "B0132",
    /// A field of a tool's input or output without a description.
    UndescribedField = "B0133",
    /// A field in an example that the tool's input or output does not have.
    UnknownExampleField = "B0134",
    /// A tool configuration without a file.
    UnknownConfiguration = "B0135",
    /// A program that cannot be run.
    BadProgram = "B0136",
    /// An acceptor that cannot accept results.
    UnusableAcceptor = "B0137",
}

impl Serialize for FaultKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

/// One fault in one place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fault {
    /// Its kind, serialised as the code.
    #[serde(rename = "code")]
    pub kind: FaultKind,
    /// The file as a person would type it.
    pub file: String,
    /// From 1; 0 when the fault is the file itself.
    pub line: usize,
    /// From 1, in characters; 0 when the fault is the file itself or a whole line.
    pub column: usize,
    /// JSON pointer of the value or key.
    pub pointer: String,
    /// Description of the fault, as a lowercase fragment.
    pub message: String,
    /// Correct value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// Present value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// The known name that is nearest to the one found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
    /// Another place that matters: a function, an earlier key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The line of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_line: Option<String>,
    /// Number of marked characters of the line.
    #[serde(skip)]
    pub width: usize,
    /// Whether the value may be a key, so that it is not shown.
    #[serde(skip)]
    pub is_secret: bool,
}

impl Fault {
    /// Returns a fault of a whole file.
    pub fn of_file(kind: FaultKind, file: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind,
            file: file.into(),
            line: 0,
            column: 0,
            pointer: String::new(),
            message: message.into(),
            expected: None,
            found: None,
            nearest: None,
            note: None,
            source_line: None,
            width: 1,
            is_secret: false,
        }
    }

    /// Returns the same fault at the bytes `range` of `text`. A line that may hold a key is not shown.
    pub fn at(mut self, text: &str, range: std::ops::Range<usize>) -> Self {
        let start = floor_boundary(text, range.start);
        let end = floor_boundary(text, range.end.max(start));
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
        self.line = text[..start].matches('\n').count() + 1;
        self.column = text[line_start..start].chars().count() + 1;
        self.width = text[start..end.min(line_end).max(start)].chars().count().max(1);
        let line: String = text[line_start..line_end].chars().take(MAX_LINE_KEPT).collect();
        self.source_line = Some(line.trim_end_matches('\r').to_owned()).filter(|line| !is_secret_line(line));
        self
    }

    /// Returns the same fault with the correct value.
    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    /// Returns the same fault with the present value, unless it may be a key.
    pub fn found(mut self, found: impl Into<String>) -> Self {
        self.found = Some(found.into()).filter(|_| !self.is_secret);
        self
    }

    /// Returns the same fault with a related place.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Returns the same fault without its line, because the line may hold a key. Other faults do not show the line either, once
    /// they are reported together.
    pub fn without_line(mut self) -> Self {
        self.source_line = None;
        self
    }

    /// Returns the same fault without `value`, which may be a key, and without its line.
    pub(crate) fn without_value(mut self, value: &str) -> Self {
        let quoted = serde_json::Value::from(value).to_string();
        for text in [shorten(&quoted), quoted] {
            self.message = self.message.replace(&text, "the value");
        }
        if !value.is_empty() {
            self.message = self.message.replace(value, "…");
        }
        self.is_secret = true;
        self.without_line()
    }

    /// Returns the same fault with the name among `known` that is nearest to `name`, or, without one, all of `known`.
    pub fn near<'k>(mut self, name: &str, known: impl IntoIterator<Item = &'k str>) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        self.nearest = nearest(name, known.iter().copied()).map(str::to_owned);
        if self.expected.is_none() && !known.is_empty() {
            self.expected = Some(one_of(&known));
        }
        self
    }

    /// Returns the hint: the nearest name or the correct value, then the related place.
    fn hint(&self) -> String {
        let mut hint = match (&self.nearest, &self.expected, &self.found) {
            (Some(nearest), _, _) => format!("did you mean \"{nearest}\"?"),
            (None, Some(expected), Some(found)) => format!("expected {expected}, found {found}"),
            (None, Some(expected), None) => format!("expected {expected}"),
            (None, None, Some(found)) => format!("found {found}"),
            (None, None, None) => String::new(),
        };
        if let Some(note) = &self.note {
            let gap = if hint.is_empty() { "" } else { "  " };
            let _ = write!(hint, "{gap}({note})");
        }
        hint
    }
}

/// The most characters of a source line that are kept, and shown round a fault.
const MAX_LINE_KEPT: usize = 4_000;
const MAX_LINE_SHOWN: usize = 120;

impl fmt::Display for Fault {
    /// Writes code and message, place, line, and carets with a hint.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error {}: {}", self.kind.code(), clean(&self.message))?;
        let number = if self.line == 0 { String::new() } else { self.line.to_string() };
        let margin = " ".repeat(number.len() + 2);
        write!(f, "{margin}┌─ {}", clean(&self.file))?;
        match (self.line, self.column) {
            (0, _) => writeln!(f)?,
            (line, 0) => writeln!(f, ":{line}")?,
            (line, column) => writeln!(f, ":{line}:{column}")?,
        }
        let hint = clean(&self.hint());
        match &self.source_line {
            Some(line) => {
                let (shown, column) = window(line, self.column);
                let room = shown.chars().count().saturating_sub(column - 1).max(1);
                let carets = "^".repeat(self.width.min(room));
                writeln!(f, " {number} │ {}", clean(&shown))?;
                let gap = if hint.is_empty() { "" } else { " " };
                writeln!(f, "{margin}│ {}{carets}{gap}{hint}", " ".repeat(column - 1))
            }
            None if hint.is_empty() => Ok(()),
            None => writeln!(f, "{margin}│ {hint}"),
        }
    }
}

/// Returns the part of a long line round `column`, and the column in it.
fn window(line: &str, column: usize) -> (String, usize) {
    let column = column.max(1);
    if line.chars().count() <= MAX_LINE_SHOWN {
        return (line.to_owned(), column);
    }
    let skip = column.saturating_sub(MAX_LINE_SHOWN / 3);
    (line.chars().skip(skip).take(MAX_LINE_SHOWN).collect(), column - skip)
}

/// Returns the text with every control character made visible, so that a file cannot write to the terminal.
fn clean(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            '\t' => ' ',
            hidden
                if hidden.is_control()
                    || ('\u{202A}'..='\u{202E}').contains(&hidden)
                    || ('\u{2066}'..='\u{2069}').contains(&hidden) =>
            {
                '\u{FFFD}'
            }
            shown => shown,
        })
        .collect()
}

fn floor_boundary(text: &str, offset: usize) -> usize {
    text.floor_char_boundary(offset.min(text.len()))
}

/// All faults of a job, ordered by file and place.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// Orders `faults`, drops duplicates and hides each line that one of its faults does not show; `Ok` when there is none.
    pub fn none_of(mut faults: Vec<Fault>) -> Result<(), Self> {
        if faults.is_empty() {
            return Ok(());
        }
        faults.sort_by(|left, right| {
            (&left.file, left.line, left.column, left.kind, &left.message).cmp(&(
                &right.file,
                right.line,
                right.column,
                right.kind,
                &right.message,
            ))
        });
        faults.dedup();
        for lines in faults.chunk_by_mut(|one, next| (&one.file, one.line) == (&next.file, next.line)) {
            if lines.iter().any(|fault| fault.source_line.is_none()) {
                for fault in lines {
                    fault.source_line = None;
                }
            }
        }
        Err(Self(bounded(faults)))
    }

    /// Returns the faults.
    pub fn iter(&self) -> std::slice::Iter<'_, Fault> {
        self.0.iter()
    }

    /// Returns the number of faults, which is at least 1.
    #[expect(clippy::len_without_is_empty, reason = "there is always at least one fault")]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fault in &self.0 {
            write!(f, "{fault}")?;
        }
        match self.0.len() {
            1 => write!(f, "1 error"),
            many => write!(f, "{many} errors"),
        }
    }
}

impl std::error::Error for Faults {}

impl<'a> IntoIterator for &'a Faults {
    type Item = &'a Fault;
    type IntoIter = std::slice::Iter<'a, Fault>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Returns a bounded number of faults of each file, with a note if there are more.
fn bounded(faults: Vec<Fault>) -> Vec<Fault> {
    let mut kept: Vec<Fault> = Vec::new();
    for group in faults.chunk_by(|left, right| left.file == right.file) {
        if group.len() <= MAX_FAULTS_PER_FILE {
            kept.extend_from_slice(group);
            continue;
        }
        // Faults that were not placed come first, at line 0.
        kept.extend_from_slice(&group[group.len() - MAX_FAULTS_PER_FILE..]);
        kept.push(Fault::of_file(group[0].kind, group[0].file.as_str(), "the file has more faults than are shown"));
    }
    kept
}

/// `"a"`, `one of "a", "b"`; long lists are cut.
pub(crate) fn one_of(known: &[&str]) -> String {
    const SHOWN: usize = 12;
    let listed = known.iter().take(SHOWN).map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    match known.len() {
        1 => listed,
        many if many > SHOWN => format!("one of {listed} and {} more", many - SHOWN),
        _ => format!("one of {listed}"),
    }
}

/// Returns at most the first 60 characters of `text`, with a mark if it was cut.
pub(crate) fn shorten(text: &str) -> String {
    const SHOWN: usize = 60;
    baton_types::text::shortened(text, SHOWN)
}
