//! The derived view of a text document: blocks, counted from 0 in reading order.
//!
//! The bytes are the truth. A block is a range of them, and a change replaces a range, so that whatever it does not
//! touch survives exactly: blank lines, line endings, quoting, indentation. The systems this view comes from wrote
//! documents back from their blocks and lost all of that.
//!
//! Every change is checked by reading its outcome again: the block is there with its type, and all others are as they
//! were. So a change can be refused, but it cannot quietly do more than was asked.
//!
//! This module knows texts, *not* documents: paths, versions and conflicts are the engine's.

mod json;
mod line;
mod markdown;
mod table;

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Kind of a document's blocks, by its media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DocType {
    /// Headings, paragraphs, lists, code.
    Markdown,
    /// A header and rows, with fields separated by this byte.
    Csv(u8),
    /// Top-level entries.
    Json,
    /// Lines.
    Text,
    /// None.
    Binary,
}

impl DocType {
    /// Returns the kind for a media type; parameters such as `charset` do not matter.
    pub(crate) fn of(mime_type: &str) -> Self {
        let essence = mime_type.split(';').next().unwrap_or_default().trim();
        match essence {
            "text/markdown" | "text/x-markdown" => Self::Markdown,
            "text/csv" => Self::Csv(b','),
            "text/tab-separated-values" => Self::Csv(b'\t'),
            "application/json" => Self::Json,
            "image/svg+xml" => Self::Text,
            "application/octet-stream" | "application/pdf" | "application/zip" | "application/gzip" => Self::Binary,
            _ if essence.ends_with("+json") => Self::Json,
            // A small picture may happen to be valid UTF-8.
            _ if ["image/", "audio/", "video/", "font/"].iter().any(|kind| essence.starts_with(kind)) => Self::Binary,
            _ => Self::Text,
        }
    }

    /// Returns the name that agents see.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Markdown => "markdown",
            Self::Csv(_) => "csv",
            Self::Json => "json",
            Self::Text => "text",
            Self::Binary => "binary",
        }
    }
}

/// The type of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BlockType {
    /// Markdown: `{level, text}`.
    Heading,
    /// Markdown: `{text}`; tables, quotes and rules are paragraphs too.
    Paragraph,
    /// Markdown: `{items, ordered}`.
    List,
    /// Markdown: `{text, language}`, fenced.
    Code,
    /// CSV: `{columns}`.
    Header,
    /// CSV: `{values}`.
    Row,
    /// JSON: `{key, value}` with a text, number, boolean or null.
    Value,
    /// JSON: `{key, value}` with an object.
    Object,
    /// JSON: `{key, value}` with an array.
    Array,
    /// Text: `{text}`.
    Line,
}

impl BlockType {
    /// Returns the name that agents see.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Heading => "heading",
            Self::Paragraph => "paragraph",
            Self::List => "list",
            Self::Code => "code",
            Self::Header => "header",
            Self::Row => "row",
            Self::Value => "value",
            Self::Object => "object",
            Self::Array => "array",
            Self::Line => "line",
        }
    }
}

/// One block: its id is its place in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Its type.
    pub(crate) block_type: BlockType,
    /// Its bytes, without what separates it from its neighbours.
    pub(crate) range: Range<usize>,
}

/// Why a change cannot be made; an agent reads it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct CannotEdit(pub(crate) String);

impl CannotEdit {
    pub(super) fn because<T>(reason: impl Into<String>) -> Result<T, Self> {
        Err(Self(reason.into()))
    }
}

/// A change to one block. Ids and positions count from 0.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// Gives fields of a block new values; the block keeps its type.
    Update {
        /// The block.
        id: usize,
        /// The fields.
        data: Map<String, Value>,
    },
    /// Puts a new block at a place.
    Add {
        /// The id that it shall have; behind the last without one.
        position: Option<usize>,
        /// Its type.
        block_type: BlockType,
        /// Its fields.
        data: Map<String, Value>,
    },
    /// Puts another block in a block's place.
    Replace {
        /// The block.
        id: usize,
        /// The new type.
        block_type: BlockType,
        /// The new fields.
        data: Map<String, Value>,
    },
    /// Removes a block.
    Delete {
        /// The block.
        id: usize,
    },
}

/// A text after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Changed {
    /// The whole text.
    pub(crate) text: String,
    /// The block that was changed, added or removed.
    pub(crate) id: usize,
    /// Number of blocks after the change.
    pub(crate) count: usize,
}

/// A replacement of bytes.
#[derive(Clone, Debug)]
pub(super) struct Splice {
    pub(super) range: Range<usize>,
    pub(super) text: String,
}

impl Splice {
    pub(super) fn new(range: Range<usize>, text: impl Into<String>) -> Self {
        Self { range, text: text.into() }
    }

    pub(super) fn insert(at: usize, text: impl Into<String>) -> Self {
        Self::new(at..at, text)
    }

    fn apply(&self, text: &str) -> String {
        [&text[..self.range.start], &self.text, &text[self.range.end..]].concat()
    }
}

/// Returns the blocks of `text`; an error if the text is not of its kind.
pub(crate) fn blocks(text: &str, doc_type: DocType) -> Result<Vec<Block>, CannotEdit> {
    match doc_type {
        DocType::Markdown => Ok(markdown::scan(text)),
        DocType::Csv(delimiter) => Ok(table::scan(text, delimiter)),
        DocType::Json => json::scan(text),
        DocType::Text => Ok(line::scan(text)),
        DocType::Binary => CannotEdit::because("it is not text, so it has no blocks"),
    }
}

/// The kind of a block, and its fields.
pub(crate) type BlockContent = (BlockType, Map<String, Value>);

/// Returns the blocks of `text` with their fields, as [`BlockType`] names them.
pub(crate) fn contents(text: &str, doc_type: DocType) -> Result<Vec<BlockContent>, CannotEdit> {
    let found = blocks(text, doc_type)?;
    let entries = if doc_type == DocType::Json { json::contents(text) } else { Vec::new() };
    let mut entries = entries.into_iter();
    let contents = found.into_iter().map(|block| {
        let raw = &text[block.range];
        let data = match doc_type {
            DocType::Markdown => markdown::read(raw, block.block_type),
            DocType::Csv(delimiter) => table::content(raw, delimiter, block.block_type),
            DocType::Json => entries.next().unwrap_or_default(),
            DocType::Text | DocType::Binary => Map::from_iter([("text".to_owned(), raw.into())]),
        };
        (block.block_type, data)
    });
    Ok(contents.collect())
}

/// Returns the number of blocks in `content`; zero if it is not of its kind.
pub(crate) fn count(content: &[u8], mime_type: &str) -> usize {
    match std::str::from_utf8(content) {
        Ok(text) => blocks(text, DocType::of(mime_type)).map_or(0, |blocks| blocks.len()),
        Err(_) => 0,
    }
}

/// Makes `change` and proves that it changed nothing else.
pub(crate) fn edit(text: &str, doc_type: DocType, change: &Change) -> Result<Changed, CannotEdit> {
    let before = blocks(text, doc_type)?;
    let (id, expected) = target(&before, doc_type, change)?;
    let candidates = match doc_type {
        DocType::Markdown => markdown::splices(text, &before, change)?,
        DocType::Csv(delimiter) => vec![table::splice(text, delimiter, &before, change)?],
        DocType::Json => vec![json::splice(text, &before, change)?],
        DocType::Text => vec![line::splice(text, &before, change)?],
        DocType::Binary => Vec::new(),
    };
    let mut refusal = None;
    for candidate in candidates {
        let changed = candidate.apply(text);
        match check(text, &before, &changed, doc_type, change, expected) {
            Ok(count) => return Ok(Changed { text: changed, id, count }),
            Err(reason) => refusal = refusal.or(Some(reason)),
        }
    }
    Err(refusal.unwrap_or_else(|| CannotEdit("it cannot be changed block by block".to_owned())))
}

/// Returns the block that `change` is about and the type it will have; `None` if any.
fn target(before: &[Block], doc_type: DocType, change: &Change) -> Result<(usize, Option<BlockType>), CannotEdit> {
    let exists = |id: usize| before.get(id).map(|block| block.block_type).ok_or_else(|| no_block(id, before.len()));
    match *change {
        Change::Update { id, .. } => {
            let block_type = exists(id)?;
            // A JSON value may become an object under the same key.
            Ok((id, (doc_type != DocType::Json).then_some(block_type)))
        }
        Change::Replace { id, block_type, .. } => exists(id).map(|_| (id, Some(block_type))),
        Change::Delete { id } => exists(id).map(|_| (id, None)),
        Change::Add { position, block_type, .. } => {
            let position = position.unwrap_or(before.len());
            if position > before.len() {
                return CannotEdit::because(format!("there is no position {position}; positions are 0 to {}", before.len()));
            }
            Ok((position, Some(block_type)))
        }
    }
}

fn no_block(id: usize, count: usize) -> CannotEdit {
    CannotEdit(match count {
        0 => format!("there is no block {id}; the document has no blocks"),
        _ => format!("there is no block {id}; the blocks are 0 to {}", count - 1),
    })
}

/// Reads the outcome again: all other blocks must be as they were, and the changed one what it was meant to be.
fn check(
    text: &str,
    before: &[Block],
    changed: &str,
    doc_type: DocType,
    change: &Change,
    expected: Option<BlockType>,
) -> Result<usize, CannotEdit> {
    let after = blocks(changed, doc_type)?;
    let (kept_front, kept_back) = match *change {
        Change::Update { id, .. } | Change::Replace { id, .. } | Change::Delete { id } => (id, before.len() - id - 1),
        Change::Add { position, .. } => {
            let position = position.unwrap_or(before.len());
            (position, before.len() - position)
        }
    };
    let same =
        |old: &Block, new: &Block| old.block_type == new.block_type && text[old.range.clone()] == changed[new.range.clone()];
    let front = before.iter().zip(&after).take(kept_front).take_while(|(old, new)| same(old, new)).count();
    let back = before.iter().rev().zip(after.iter().rev()).take(kept_back).take_while(|(old, new)| same(old, new)).count();
    if front < kept_front || back < kept_back || front + back > after.len() {
        return CannotEdit::because(
            "the change would join or split the blocks around it; use another text, or write the whole document with write_file",
        );
    }
    let made = &after[front..after.len() - back];
    let wanted = usize::from(!matches!(change, Change::Delete { .. }));
    let fits = made.len() == wanted && made.iter().all(|block| expected.is_none_or(|expected| block.block_type == expected));
    if fits {
        return Ok(after.len());
    }
    let names: Vec<&str> = made.iter().map(|block| block.block_type.as_str()).take(5).collect();
    let meant = expected.map_or("block", BlockType::as_str);
    CannotEdit::because(match names.len() {
        0 => format!("new_data does not make a {meant}: it would be read as nothing"),
        _ => format!("new_data would read as {} instead of one {meant}; make one change per block", names.join(", ")),
    })
}

/// Returns the line ending that `text` uses, by its first one.
pub(super) fn newline(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// `text` with the line endings of the document.
pub(super) fn with_newlines(text: &str, newline: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', newline)
}

/// Returns the text under `key`.
pub(super) fn text_of<'a>(data: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>, CannotEdit> {
    match data.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => CannotEdit::because(format!("new_data.{key} must be a text, not {}", kind_of(other))),
    }
}

/// Returns the JSON type of a value, for messages.
pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Refuses keys that a block of this type does not have, and names those it has.
pub(super) fn only_keys(data: &Map<String, Value>, known: &[&str], block_type: BlockType) -> Result<(), CannotEdit> {
    match data.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(unknown) => CannotEdit::because(format!(
            "new_data has the unknown key {unknown:?}; a {} has {}",
            block_type.as_str(),
            known.join(" and ")
        )),
    }
}

/// Returns the error for a type of block that this kind of document does not have.
pub(super) fn foreign<T>(block_type: BlockType, doc_type: DocType, own: &str) -> Result<T, CannotEdit> {
    CannotEdit::because(format!("a {} document has no {} blocks; it has {own}", doc_type.as_str(), block_type.as_str()))
}

#[cfg(test)]
mod tests;
