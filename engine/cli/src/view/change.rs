//! The change that a pending approval would make to a document, as lines and as JSON.
//!
//! It is computed from the call's input and the current stored version. The tool's config defines the meaning of the inputs
//! ([`Changes`]). The call itself is not executed. A tool function may register a preview, which returns the new text. Without a
//! preview, the current block and the block in the call are shown one after the other.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use baton_tool::measure::measure;
use baton_tool::{PreviewText, registered_preview};
use baton_types::config::{Changes, Executor, NewContent, Tool};
use baton_types::document::{DocumentRef, DocumentVersion};
use baton_types::path::DocumentPath;
use serde::Serialize;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::extent::{Extent, block, pieces, pretty};
use crate::style;
use crate::text::{Text, text};
use crate::words;

/// Largest size of both versions together, in bytes, and longest time of a comparison by lines. After that time, the comparison
/// is coarser.
const COMPARED_BYTES: usize = 2 << 20;
const COMPARING: Duration = Duration::from_millis(500);

/// Number of unchanged lines around a change.
const CONTEXT: usize = 3;

/// A change of one document.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Change {
    /// The document.
    document: DocumentPath,
    /// The version that it replaces; `None` if the document is new.
    from: Option<DocumentRef>,
    /// The version at the time of the question, if it differs from the current one; 0 if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked_about: Option<u32>,
    /// The kind of change.
    #[serde(flatten)]
    kind: Kind,
    /// The input field that is shown as the change.
    #[serde(skip)]
    shows: Option<String>,
}

/// The kind of a change.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Kind {
    /// A new text for the document.
    Text {
        /// The unified diff.
        diff: String,
        #[serde(skip)]
        lines: Vec<Line>,
    },
    /// No change.
    Same,
    /// A call that cannot make its change, and would change nothing.
    Refused {
        /// The reason.
        reason: String,
    },
    /// A content that is not text, or that is too large for a comparison.
    Bytes {
        /// The reason why no lines are shown.
        reason: &'static str,
        /// The current content.
        before: Option<Size>,
        /// The new content.
        after: Size,
    },
    /// A change of one block, whose result only the tool knows.
    Block {
        /// The block's number, as the call has it.
        block: Option<String>,
        /// The block's current text; `None` if there is no such block.
        before: Option<String>,
        /// The block's new content, as the call has it.
        after: Option<String>,
    },
    /// A change that is unknown until the call has run.
    Unknown,
}

/// Size and type of a content.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Size {
    size_bytes: u64,
    mime_type: String,
}

/// A line of a diff.
#[derive(Clone, Debug, PartialEq)]
enum Line {
    /// The position of the next lines.
    Place(String),
    /// A line without its line break, and whether it has one.
    Of(ChangeTag, String, bool),
}

impl Change {
    /// Returns the document that a call with `input` would change.
    pub(crate) fn document(changes: &Changes, input: &Value) -> Option<DocumentPath> {
        DocumentPath::parse(input.get(&changes.path)?.as_str()?).ok()
    }

    /// Returns the change that a call of `tool` with `input` would make to `document`, whose current version is `before`.
    ///
    /// `None` if the input does not define the change: such a call fails.
    pub(crate) fn of(
        tool: &Tool,
        changes: &Changes,
        input: &Value,
        document: DocumentPath,
        before: Option<(&DocumentVersion, &[u8])>,
    ) -> Option<Self> {
        let (kind, shows) = match &changes.content {
            NewContent::Unknown => (Kind::Unknown, None),
            NewContent::Whole { content, encoding } => {
                let given = input.get(content)?.as_str()?;
                let is_encoded = encoding.as_ref().is_some_and(|key| input.get(key).is_some_and(|value| value == "base64"));
                let after = if is_encoded { BASE64.decode(given).ok()? } else { given.as_bytes().to_vec() };
                let kind = Kind::between(&document, before, &after);
                let is_shown = matches!(kind, Kind::Text { .. } | Kind::Same) || is_encoded;
                (kind, is_shown.then(|| content.clone()))
            }
            NewContent::Block { block, data } => {
                let kind = match before.zip(preview_of(tool)) {
                    Some(((version, content), text)) => match text(input, version, content) {
                        Ok(after) => Kind::between(&document, before, after.as_bytes()),
                        Err(reason) => Kind::Refused { reason },
                    },
                    None => Kind::block(input, block, data.as_ref(), before),
                };
                let is_shown = matches!(kind, Kind::Block { after: Some(_), .. });
                (kind, data.clone().filter(|_| is_shown))
            }
        };
        let from = before.map(|(version, _)| version.reference());
        Some(Self { document, from, asked_about: None, kind, shows })
    }

    /// Returns the change, given the version `asked` that was current at the time of the question.
    pub(crate) fn since(mut self, asked: Option<u32>) -> Self {
        let is_other = asked != self.from.as_ref().map(|from| from.version);
        self.asked_about = is_other.then(|| asked.unwrap_or_default());
        self
    }

    /// Returns true if the input field `name` is shown as the change.
    pub(crate) fn shows(&self, name: &str) -> bool {
        self.shows.as_deref() == Some(name)
    }

    /// Renders the change as lines of at most `width` characters.
    ///
    /// Lines of an input begin with the name of a field or with `│`, so they cannot imitate these lines.
    pub(crate) fn lines(&self, width: usize, extent: Extent<'_>) -> Vec<Text> {
        let (path, from) = (&self.document, self.from.as_ref());
        let now = from.map_or_else(|| text!("{path}, which is new"), |from| text!("{from}"));
        let mut lines = Vec::new();
        match &self.kind {
            Kind::Text { lines: of, .. } => {
                let count = |tag| of.iter().filter(|line| matches!(line, Line::Of(of, ..) if *of == tag)).count();
                let (added, removed) = (count(ChangeTag::Insert), count(ChangeTag::Delete));
                lines.push(match from {
                    Some(from) => {
                        text!(
                            "→ changes {from}: {} removed, {} added",
                            words::counted(removed, "line"),
                            words::count(added as u64)
                        )
                    }
                    None => text!("→ creates the document {path}: {}", words::counted(added, "line")),
                });
                lines.extend(extent.of(of.iter().map(|line| line.shown(width))));
            }
            Kind::Same => lines.push(text!("→ keeps {} unchanged", now)),
            Kind::Refused { reason } => lines.push(text!("→ would change nothing: {}", Text::line(reason))),
            Kind::Bytes { reason, before, after } => lines.push(match before {
                Some(before) => text!("→ writes {} over {}, {}: {reason}", after.shown(), now, before.shown()),
                None => text!("→ writes {} as {}: {reason}", after.shown(), now),
            }),
            Kind::Block { block: number, before, after } => {
                lines.push(match (number, before) {
                    (Some(number), Some(_)) => text!("→ changes block {} of {}, which is now:", words::preview(number, 20), now),
                    (Some(number), None) => text!("→ changes {}, which has no block {} now", now, words::preview(number, 20)),
                    (None, _) => text!("→ changes {}; the call names no block", now),
                });
                lines.extend(before.iter().flat_map(|before| extent.of(block(before, "│ ", width))));
                if let Some(after) = after {
                    lines.push(text!("→ the call's data for it:"));
                    lines.extend(extent.of(block(after, "│ ", width)));
                }
            }
            Kind::Unknown => lines.push(text!("→ writes {}; its content is known once the call has run", now)),
        }
        lines.extend(self.asked_about.map(|version| match version {
            0 => text!("→ {path} did not exist when this question was asked"),
            version => text!("→ {path} has changed since this question was asked; it was v{version} then"),
        }));
        lines
    }
}

impl Kind {
    /// Computes the change of `document` from `before` to the content `after`.
    fn between(document: &DocumentPath, before: Option<(&DocumentVersion, &[u8])>, after: &[u8]) -> Self {
        let (from, content) = before.unzip();
        if content == Some(after) {
            return Self::Same;
        }
        let bytes = |reason| Self::Bytes {
            reason,
            before: from.map(|from| Size { size_bytes: from.content.size_bytes, mime_type: from.content.mime_type.clone() }),
            after: Size { size_bytes: after.len() as u64, mime_type: measure(document, after, None).mime_type },
        };
        let (Ok(old), Ok(new)) = (std::str::from_utf8(content.unwrap_or_default()), std::str::from_utf8(after)) else {
            return bytes("not text");
        };
        if [old, new].iter().any(|text| text.contains('\0')) {
            return bytes("not text");
        }
        if old.len() + new.len() > COMPARED_BYTES {
            return bytes("too long to be compared line by line");
        }
        let diff = TextDiff::configure().timeout(COMPARING).diff_lines(old, new);
        let mut unified = diff.unified_diff();
        unified.context_radius(CONTEXT);
        let mut lines = Vec::new();
        for hunk in unified.iter_hunks() {
            if content.is_some() {
                lines.push(Line::Place(hunk.header().to_string()));
            }
            lines.extend(hunk.iter_changes().map(|change| {
                let line = change.value();
                Line::Of(change.tag(), line.strip_suffix('\n').unwrap_or(line).to_owned(), !change.missing_newline())
            }));
        }
        let from = from.map_or_else(|| "/dev/null".to_owned(), |from| from.reference().to_string());
        Self::Text { diff: unified.header(&from, document.as_str()).to_string(), lines }
    }

    /// Returns the change of the block that the input field `block` names, as far as the input defines it.
    fn block(input: &Value, block: &str, data: Option<&String>, before: Option<(&DocumentVersion, &[u8])>) -> Self {
        let given = |name: &str| input.get(name).filter(|value| !value.is_null()).map(shown);
        let number = given(block);
        let found = before.zip(number.as_ref()).and_then(|((version, content), number)| {
            let text = std::str::from_utf8(content).ok()?;
            baton_tools::block_text(text, &version.content.mime_type, number.trim().parse().ok()?)
        });
        Self::Block { block: number, before: found.map(str::to_owned), after: data.and_then(|data| given(data)) }
    }
}

impl Size {
    fn shown(&self) -> Text {
        text!("{} of {}", words::size(self.size_bytes), self.mime_type)
    }
}

/// Returns the preview that the function of `tool` has registered.
fn preview_of(tool: &Tool) -> Option<PreviewText> {
    match &tool.executor {
        Some(Executor::Function(function)) => registered_preview(function.id),
        _ => None,
    }
}

impl Line {
    /// Splits the line into pieces of at most `width` characters, each after the sign of the line.
    fn shown(&self, width: usize) -> Vec<Text> {
        let (tag, line, is_ended) = match self {
            Self::Place(place) => return vec![style::faint(text!("{}", Text::line(place)))],
            Self::Of(tag, line, is_ended) => (*tag, line, *is_ended),
        };
        let mut lines: Vec<Text> = pieces(line, width.saturating_sub(2))
            .iter()
            .enumerate()
            .map(|(index, piece)| {
                // A continued line looks different from all others, which have a space here.
                let between = if index == 0 { ' ' } else { '↪' };
                match tag {
                    ChangeTag::Delete => style::bad(text!("-{between}{}", piece)),
                    ChangeTag::Insert => style::good(text!("+{between}{}", piece)),
                    ChangeTag::Equal => text!(" {between}{}", piece),
                }
            })
            .collect();
        if !is_ended {
            lines.push(style::faint("\\ no line break at the end"));
        }
        lines
    }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| pretty(value), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Renders the change from `before` to `after`.
    fn shown(before: &str, after: &str, width: usize, extent: Extent<'_>) -> Vec<String> {
        let path = DocumentPath::parse("a.md").unwrap();
        let content = measure(&path, before.as_bytes(), None);
        let version =
            serde_json::from_value(serde_json::json!({"path": path, "version": 3, "content": content, "at": 0})).unwrap();
        let change = Change {
            document: path.clone(),
            from: Some(DocumentRef { path: path.clone(), version: 3 }),
            asked_about: None,
            kind: Kind::between(&path, Some((&version, before.as_bytes())), after.as_bytes()),
            shows: None,
        };
        let lines = change.lines(width, extent);
        lines.iter().map(plain).collect()
    }

    /// Returns a line without its style.
    fn plain(line: &Text) -> String {
        let parts = line.as_str().split('\u{1b}').enumerate();
        parts.map(|(index, part)| if index == 0 { part } else { part.split_once('m').unwrap_or_default().1 }).collect()
    }

    #[test]
    fn the_lines_of_a_diff_have_their_signs_and_their_places() {
        let before = "one\ntwo\nthree\nfour\nfive\nsix\nseven";
        let lines = shown(before, "one\ntwo\nthree\nfour\n5\nsix\nseven\n", 60, Extent::Whole);
        let expected = [
            "→ changes a.md v3: 2 lines removed, 2 added",
            "@@ -2,6 +2,6 @@",
            "  two",
            "  three",
            "  four",
            "- five",
            "+ 5",
            "  six",
            "- seven",
            "\\ no line break at the end",
            "+ seven",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_long_line_is_continued_behind_its_sign_and_a_long_diff_is_counted() {
        let lines = shown("a\n", &format!("{}\n", "x".repeat(25)), 12, Extent::Whole);
        assert_eq!(lines[2..], ["- a", "+ xxxxxxxxxx", "+↪xxxxxxxxxx", "+↪xxxxx"]);
        let lines = shown("", &"+x\n".repeat(100), 60, Extent::Bounded("baton show RUN --question Q1"));
        assert_eq!((lines.len(), lines[2].as_str()), (62, "+ +x"));
        assert_eq!(lines[61], "… 41 more lines; show all: baton show RUN --question Q1");
    }

    #[test]
    fn what_differs_only_in_what_nobody_sees_is_shown_escaped() {
        let lines = shown("a b\nc\n", "a\u{a0}b\r\n\u{200b}c\n", 60, Extent::Whole);
        let changed: Vec<&str> = lines.iter().map(String::as_str).filter(|line| line.starts_with('+')).collect();
        assert_eq!(changed[0], "+ a\u{a0}b\\r", "a no-break space is printable");
        assert_eq!(changed[1], "+ \\u{200b}c");
    }
}
