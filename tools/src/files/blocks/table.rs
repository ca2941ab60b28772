//! The blocks of CSV and TSV: the header, which is block 0, and each row.
//!
//! Records are found as RFC 4180 and the `csv` crate find them: quoted fields may hold line breaks, empty lines count for
//! nothing. Fields that a change does not touch keep their bytes, quotes included.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::{Map, Value};

use super::{Block, BlockType, CannotEdit, Change, DocType, Splice, foreign, kind_of, line, only_keys};

const BYTE_ORDER_MARK: &str = "\u{feff}";

pub(super) fn scan(text: &str, delimiter: u8) -> Vec<Block> {
    let bytes = text.as_bytes();
    let mut at = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    let mut found: Vec<Block> = Vec::new();
    loop {
        while matches!(bytes.get(at), Some(b'\r' | b'\n')) {
            at += 1;
        }
        if at >= bytes.len() {
            return found;
        }
        let start = at;
        while field_end(bytes, delimiter, &mut at) {}
        let block_type = if found.is_empty() { BlockType::Header } else { BlockType::Row };
        found.push(Block { block_type, range: start..at });
    }
}

/// Moves `at` behind one field; whether another follows, `at` then being its beginning.
fn field_end(bytes: &[u8], delimiter: u8, at: &mut usize) -> bool {
    if bytes.get(*at) == Some(&b'"') {
        *at += 1;
        while let Some(byte) = bytes.get(*at) {
            *at += 1;
            if *byte == b'"' {
                if bytes.get(*at) != Some(&b'"') {
                    break;
                }
                *at += 1;
            }
        }
    }
    while let Some(byte) = bytes.get(*at) {
        if *byte == delimiter {
            *at += 1;
            return true;
        }
        if matches!(byte, b'\r' | b'\n') {
            break;
        }
        *at += 1;
    }
    false
}

/// Returns the fields of one record as they are written.
fn fields(record: &str, delimiter: u8) -> Vec<&str> {
    let bytes = record.as_bytes();
    let (mut start, mut found) = (0, Vec::new());
    loop {
        let mut at = start;
        let more = field_end(bytes, delimiter, &mut at);
        found.push(&record[start..at - usize::from(more)]);
        if !more {
            return found;
        }
        start = at;
    }
}

/// Returns the value of a field.
fn value(raw: &str) -> Cow<'_, str> {
    let Some(quoted) = raw.strip_prefix('"') else { return Cow::Borrowed(raw) };
    let mut text = String::with_capacity(quoted.len());
    let mut characters = quoted.chars().peekable();
    let mut inside = true;
    while let Some(character) = characters.next() {
        if inside && character == '"' {
            if characters.peek() == Some(&'"') {
                characters.next();
                text.push('"');
            } else {
                inside = false;
            }
        } else {
            text.push(character);
        }
    }
    Cow::Owned(text)
}

/// Returns the fields of a block: a header or a row.
pub(super) fn content(record: &str, delimiter: u8, block_type: BlockType) -> Map<String, Value> {
    let values = fields(record, delimiter).into_iter().map(|raw| Value::from(value(raw))).collect();
    let name = if block_type == BlockType::Header { "columns" } else { "values" };
    Map::from_iter([(name.to_owned(), Value::Array(values))])
}

/// Returns the spelling of a value.
fn written(value: &str, delimiter: u8) -> String {
    let special =
        |character: char| character == '"' || character == '\n' || character == '\r' || character == char::from(delimiter);
    if value.contains(special) { format!("\"{}\"", value.replace('"', "\"\"")) } else { value.to_owned() }
}

pub(super) fn splice(text: &str, delimiter: u8, before: &[Block], change: &Change) -> Result<Splice, CannotEdit> {
    let table = Table { text, delimiter, before };
    match change {
        Change::Update { id, data } => Ok(Splice::new(table.range(*id), table.record(*id, data, Some(*id))?)),
        Change::Replace { id, block_type, data } => {
            table.check_type(*id, *block_type)?;
            Ok(Splice::new(table.range(*id), table.record(*id, data, None)?))
        }
        Change::Add { position, block_type, data } => {
            let position = position.unwrap_or(before.len());
            if position == 0 && !before.is_empty() {
                return CannotEdit::because("position 0 is the header's; rows begin at 1");
            }
            table.check_type(position, *block_type)?;
            Ok(line::insertion(text, before, position, &table.record(position, data, None)?))
        }
        Change::Delete { id: 0 } if before.len() > 1 => {
            CannotEdit::because("the header cannot be deleted while there are rows: the first row would become the header")
        }
        Change::Delete { id } => Ok(line::deletion(text, before, *id)),
    }
}

struct Table<'a> {
    text: &'a str,
    delimiter: u8,
    before: &'a [Block],
}

impl Table<'_> {
    fn range(&self, id: usize) -> Range<usize> {
        self.before[id].range.clone()
    }

    fn raw_fields(&self, id: usize) -> Vec<&str> {
        self.before.get(id).map(|block| fields(&self.text[block.range.clone()], self.delimiter)).unwrap_or_default()
    }

    /// Checks that block 0 is the header and every other one a row.
    fn check_type(&self, id: usize, block_type: BlockType) -> Result<(), CannotEdit> {
        match (id, block_type) {
            (0, BlockType::Header) | (1.., BlockType::Row) => Ok(()),
            (0, BlockType::Row) => CannotEdit::because("block 0 is the header; add or replace it as a header"),
            (_, BlockType::Header) => CannotEdit::because("a table has one header, block 0"),
            (_, other) => foreign(other, DocType::Csv(self.delimiter), "a header and rows"),
        }
    }

    /// Returns the new text of the record at `id`, with the fields of record `base` where `data` gives none.
    fn record(&self, id: usize, data: &Map<String, Value>, base: Option<usize>) -> Result<String, CannotEdit> {
        let (block_type, key) = if id == 0 { (BlockType::Header, "columns") } else { (BlockType::Row, "values") };
        only_keys(data, &[key], block_type)?;
        let given = data.get(key).ok_or_else(|| CannotEdit(format!("new_data must hold {key}")))?;
        let columns: Vec<String> = self.raw_fields(0).into_iter().map(|raw| value(raw).into_owned()).collect();
        let old = base.map(|base| self.raw_fields(base)).unwrap_or_default();
        let width = if id == 0 { old.len() } else { columns.len().max(old.len()) };
        let given = match given {
            Value::Array(values) => listed(id, values, width)?,
            Value::Object(values) => named(id, values, &columns, width)?,
            other => return CannotEdit::because(format!("new_data.{key} must be a list or an object, not {}", kind_of(other))),
        };
        let length =
            given.iter().map(|(place, _)| place + 1).max().unwrap_or_default().max(if id == 0 { old.len() } else { width });
        if id == 0 && self.before.len() > 1 && length != columns.len() {
            return CannotEdit::because(format!("the header has {} columns and the rows must fit it", columns.len()));
        }
        let mut written_fields: Vec<String> = old.iter().map(|raw| (*raw).to_owned()).collect();
        written_fields.resize(length.max(written_fields.len()), String::new());
        for (place, text) in given {
            if old.get(place).is_none_or(|raw| value(raw) != text) {
                written_fields[place] = written(&text, self.delimiter);
            }
        }
        // An empty line would be no record at all.
        if written_fields.iter().all(String::is_empty) && written_fields.len() <= 1 {
            return Ok("\"\"".to_owned());
        }
        Ok(written_fields.join(&char::from(self.delimiter).to_string()))
    }
}

fn listed(id: usize, values: &[Value], width: usize) -> Result<Vec<(usize, String)>, CannotEdit> {
    if id > 0 && values.len() != width {
        return CannotEdit::because(format!("new_data.values has {} values, but the table has {width} columns", values.len()));
    }
    values.iter().enumerate().map(|(place, value)| Ok((place, scalar(value)?))).collect()
}

/// Values by column name, or by column number counted from 0.
fn named(id: usize, values: &Map<String, Value>, columns: &[String], width: usize) -> Result<Vec<(usize, String)>, CannotEdit> {
    let mut found = Vec::new();
    for (name, value) in values {
        let by_name = columns.iter().position(|column| column == name).filter(|_| id > 0);
        let by_number = || name.parse::<usize>().ok().filter(|place| *place < width || (id == 0 && *place < values.len()));
        let Some(place) = by_name.or_else(by_number) else {
            let known = if columns.is_empty() { "none".to_owned() } else { columns.join(", ") };
            return CannotEdit::because(format!("there is no column {name:?}; the columns are {known}"));
        };
        if found.iter().any(|(taken, _)| *taken == place) {
            return CannotEdit::because(format!("column {name:?} is given twice, by name and by number"));
        }
        found.push((place, scalar(value)?));
    }
    Ok(found)
}

fn scalar(value: &Value) -> Result<String, CannotEdit> {
    match value {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        Value::Array(_) | Value::Object(_) => {
            CannotEdit::because(format!("a field of a table is a text, number, boolean or null, not {}", kind_of(value)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{fields, scan, value};

    /// Records and fields as the `csv` crate reads them.
    fn reference(text: &str) -> Vec<Vec<String>> {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
        reader.records().map(|record| record.unwrap().iter().map(str::to_owned).collect()).collect()
    }

    #[test]
    fn records_and_fields_are_those_of_the_csv_crate() {
        let texts = [
            "a,b\n1,2\n",
            "a,b\r\n1,2\r\n\r\n\r\n3,4",
            "a\rb\r",
            "\"x\ny\",\"q\"\"q\"\nz,\n",
            ",\n,",
            "a,\"b",
            "\"a\"b,c\n",
            "a\"b\"c,d\n",
            "\"\"\n",
            "\n\n",
            "",
            "\"",
            "\"\"\"\"",
            "é,\"ü,ö\"\nß,\n",
            " \"a\" ,b\n",
            "a,b\n\"1\r\n2\",3\r\n",
        ];
        for text in texts {
            let ours: Vec<Vec<String>> = scan(text, b',')
                .into_iter()
                .map(|block| fields(&text[block.range], b',').into_iter().map(|raw| value(raw).into_owned()).collect())
                .collect();
            assert_eq!(ours, reference(text), "{text:?}");
        }
    }
}
