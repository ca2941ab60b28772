//! The blocks of JSON: each entry of the top-level object or array, or the one value that there is.
//!
//! Duplicate keys are blocks of their own, numbers keep every digit, and the layout is followed where something is added.

use std::ops::Range;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Block, BlockType, CannotEdit, Change, DocType, Splice, foreign, newline, only_keys, text_of};

const BYTE_ORDER_MARK: &str = "\u{feff}";

pub(super) fn scan(text: &str) -> Result<Vec<Block>, CannotEdit> {
    let start = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(&text[start..]) {
        return CannotEdit::because(format!("it is not valid JSON ({error}); write the whole document with write_file"));
    }
    Ok(entries(text)
        .into_iter()
        .map(|entry| Block { block_type: type_at(text, entry.value.start), range: entry.range() })
        .collect())
}

/// Returns the fields of each entry of a valid JSON text.
pub(super) fn contents(text: &str) -> Vec<Map<String, Value>> {
    let fields = |entry: Entry| {
        // The text is valid, but a number may exceed what a value can hold.
        let raw = &text[entry.value.clone()];
        let value = serde_json::from_str(raw).unwrap_or_else(|_| Value::from(raw));
        let key = entry.name(text).map(|key| ("key".to_owned(), Value::from(key)));
        key.into_iter().chain([("value".to_owned(), value)]).collect()
    };
    entries(text).into_iter().map(fields).collect()
}

/// One entry of the top-level value.
struct Entry {
    key: Option<Range<usize>>,
    value: Range<usize>,
}

impl Entry {
    fn range(&self) -> Range<usize> {
        self.key.as_ref().map_or(self.value.start, |key| key.start)..self.value.end
    }

    /// Returns the key, unescaped.
    fn name(&self, text: &str) -> Option<String> {
        let raw = &text[self.key.clone()?];
        Some(serde_json::from_str(raw).unwrap_or_else(|_| raw.trim_matches('"').to_owned()))
    }
}

/// Returns the entries of a valid JSON text.
fn entries(text: &str) -> Vec<Entry> {
    let bytes = text.as_bytes();
    let start = skip_blank(bytes, opening(text));
    let keyed = match bytes.get(start) {
        Some(b'{') => true,
        Some(b'[') => false,
        _ => return vec![Entry { key: None, value: start..value_end(bytes, start) }],
    };
    let mut found = Vec::new();
    let mut at = skip_blank(bytes, start + 1);
    while !matches!(bytes.get(at), None | Some(b'}' | b']')) {
        let key = keyed.then(|| at..value_end(bytes, at));
        if let Some(key) = &key {
            at = skip_blank(bytes, skip_blank(bytes, key.end) + 1);
        }
        let value = at..value_end(bytes, at);
        at = skip_blank(bytes, value.end);
        if bytes.get(at) == Some(&b',') {
            at = skip_blank(bytes, at + 1);
        }
        found.push(Entry { key, value });
    }
    found
}

/// Returns the start of the text after a byte order mark.
fn opening(text: &str) -> usize {
    if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 }
}

fn skip_blank(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
        at += 1;
    }
    at
}

/// Returns the end of the value that begins at `at` in a valid text.
fn value_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at += 1;
                while !matches!(bytes.get(at), None | Some(b'"')) {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 && matches!(byte, b'"' | b'}' | b']') {
            return at;
        }
    }
    bytes.len()
}

fn type_at(text: &str, at: usize) -> BlockType {
    match text.as_bytes().get(at) {
        Some(b'{') => BlockType::Object,
        Some(b'[') => BlockType::Array,
        _ => BlockType::Value,
    }
}

pub(super) fn splice(text: &str, before: &[Block], change: &Change) -> Result<Splice, CannotEdit> {
    let start = skip_blank(text.as_bytes(), opening(text));
    let document = Document { text, start, shape: type_at(text, start), entries: entries(text) };
    match change {
        Change::Update { id, data } => document.update(*id, data, None),
        Change::Replace { id, block_type, data } => {
            own(*block_type)?;
            document.update(*id, data, Some(*block_type))
        }
        Change::Add { position, block_type, data } => {
            own(*block_type)?;
            document.add(position.unwrap_or(before.len()), *block_type, data)
        }
        Change::Delete { id } => document.delete(*id),
    }
}

fn own(block_type: BlockType) -> Result<(), CannotEdit> {
    match block_type {
        BlockType::Value | BlockType::Object | BlockType::Array => Ok(()),
        other => foreign(other, DocType::Json, "values, objects and arrays"),
    }
}

struct Document<'a> {
    text: &'a str,
    /// Start of the top-level value, and its type.
    start: usize,
    shape: BlockType,
    entries: Vec<Entry>,
}

impl Document<'_> {
    fn update(&self, id: usize, data: &Map<String, Value>, block_type: Option<BlockType>) -> Result<Splice, CannotEdit> {
        let entry = &self.entries[id];
        let key = self.key(data, Some(id))?;
        let value = data.get("value");
        if value.is_none() && (key.is_none() || block_type.is_some()) {
            return CannotEdit::because("new_data must hold the value");
        }
        if let (Some(value), Some(block_type)) = (value, block_type) {
            check_kind(value, block_type)?;
        }
        let value = match value {
            Some(value) => self.written(value)?,
            None => self.text[entry.value.clone()].to_owned(),
        };
        let Some(old_key) = &entry.key else { return Ok(Splice::new(entry.value.clone(), value)) };
        let key = key.map_or_else(|| Ok(self.text[old_key.clone()].to_owned()), compact)?;
        Ok(Splice::new(entry.range(), [&key, &self.text[old_key.end..entry.value.start], &value].concat()))
    }

    fn add(&self, position: usize, block_type: BlockType, data: &Map<String, Value>) -> Result<Splice, CannotEdit> {
        let Some(value) = data.get("value") else { return CannotEdit::because("new_data must hold the value") };
        check_kind(value, block_type)?;
        let value = self.written(value)?;
        let rendered = match (self.shape, self.key(data, None)?) {
            (BlockType::Object, Some(key)) => format!("{}{}{value}", compact(key)?, self.colon()),
            (BlockType::Object, None) => return CannotEdit::because("new_data must hold the key of the new entry"),
            (BlockType::Array, _) => value,
            _ => return CannotEdit::because("the document is one value; there is nothing to add to"),
        };
        Ok(match (self.entries.get(position), self.entries.last()) {
            (Some(next), _) => Splice::insert(next.range().start, format!("{rendered},{}", self.gap())),
            (None, Some(last)) => Splice::insert(last.range().end, format!(",{}{rendered}", self.gap())),
            (None, None) => Splice::insert(self.start + 1, rendered),
        })
    }

    fn delete(&self, id: usize) -> Result<Splice, CannotEdit> {
        if !matches!(self.shape, BlockType::Object | BlockType::Array) {
            return CannotEdit::because("the document is one value, which cannot be deleted");
        }
        let range = self.entries[id].range();
        let range = match (self.entries.get(id + 1), id.checked_sub(1)) {
            (Some(next), _) => range.start..next.range().start,
            (None, Some(previous)) => self.entries[previous].range().end..range.end,
            (None, None) => self.start + 1..skip_blank(self.text.as_bytes(), range.end),
        };
        Ok(Splice::new(range, ""))
    }

    /// Returns the key that `data` gives, if the document may have it.
    fn key<'a>(&self, data: &'a Map<String, Value>, id: Option<usize>) -> Result<Option<&'a str>, CannotEdit> {
        only_keys(data, &["key", "value"], BlockType::Value)?;
        let Some(key) = text_of(data, "key")? else { return Ok(None) };
        if self.shape != BlockType::Object {
            return CannotEdit::because("the values of this document have no keys");
        }
        let taken = self
            .entries
            .iter()
            .enumerate()
            .any(|(other, entry)| Some(other) != id && entry.name(self.text).as_deref() == Some(key));
        if taken {
            return CannotEdit::because(format!("there is already an entry {key:?}; update it instead"));
        }
        Ok(Some(key))
    }

    /// Returns the text between the opening bracket and the first entry.
    fn indentation(&self) -> &str {
        match (self.shape, self.entries.first()) {
            (BlockType::Object | BlockType::Array, Some(first)) => &self.text[self.start + 1..first.range().start],
            _ => "",
        }
    }

    /// Returns the text between two entries, after the comma.
    fn gap(&self) -> &str {
        let Some(first) = self.entries.first() else { return "" };
        let indentation = self.indentation();
        match self.entries.get(1) {
            _ if indentation.contains('\n') => indentation,
            Some(second) => self.text[first.range().end..second.range().start].split_once(',').map_or(" ", |(_, gap)| gap),
            None => " ",
        }
    }

    /// Returns the text between key and value.
    fn colon(&self) -> &'static str {
        let between = self.entries.first().and_then(|entry| Some(&self.text[entry.key.as_ref()?.end..entry.value.start]));
        if between == Some(":") { ":" } else { ": " }
    }

    /// `value` in the document's layout.
    fn written(&self, value: &Value) -> Result<String, CannotEdit> {
        let Some((_, unit)) = self.indentation().rsplit_once('\n').filter(|(_, unit)| !unit.is_empty()) else {
            return compact(value);
        };
        let mut bytes = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(unit.as_bytes());
        value
            .serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, formatter))
            .map_err(|error| CannotEdit(error.to_string()))?;
        // Line breaks are between tokens only: within texts they are escaped.
        let text = String::from_utf8(bytes).map_err(|error| CannotEdit(error.to_string()))?;
        Ok(text.replace('\n', &format!("{}{unit}", newline(self.text))))
    }
}

fn compact<T: Serialize + ?Sized>(value: &T) -> Result<String, CannotEdit> {
    serde_json::to_string(value).map_err(|error| CannotEdit(error.to_string()))
}

fn check_kind(value: &Value, block_type: BlockType) -> Result<(), CannotEdit> {
    let kind = match value {
        Value::Object(_) => BlockType::Object,
        Value::Array(_) => BlockType::Array,
        _ => BlockType::Value,
    };
    if kind == block_type {
        return Ok(());
    }
    CannotEdit::because(format!("new_data.value is of block_type {}, not {}", kind.as_str(), block_type.as_str()))
}
