//! Tables: what a document's rows look like, whatever format they are written in.
//!
//! Types are inferred over *all* rows, so an early guess cannot mangle a value late in the file. A column is a number
//! only if every value that is not empty is one. Codes such as `00123` stay text.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Serialize;

use super::{delimited, json_rows};
use crate::reading::Format as Readable;

/// The most columns a table may have (SQLite's default limit).
pub(super) const MAX_COLUMNS: usize = 2_000;

/// The rows of one document, with their columns' names and types.
pub(super) struct Table<'a> {
    pub(super) columns: Vec<Column>,
    pub(super) row_count: usize,
    rows: Rows<'a>,
}

/// A column as an agent is told about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Column {
    /// Its name in SQL; quote it when it is not a plain word.
    pub name: String,
    /// `INTEGER`, `REAL` or `TEXT`.
    #[serde(rename = "type")]
    pub kind: Kind,
}

/// The types that a column can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Kind {
    /// Whole numbers that fit 64 bits; JSON's booleans are 0 and 1.
    Integer,
    /// Numbers with a fraction or an exponent.
    Real,
    /// Everything else, dates and nested JSON included.
    Text,
}

impl Kind {
    /// Returns the type's name in SQL.
    pub(super) const fn as_sql(self) -> &'static str {
        match self {
            Self::Integer => "INTEGER",
            Self::Real => "REAL",
            Self::Text => "TEXT",
        }
    }
}

/// One value on its way into SQLite.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(Cow<'a, str>),
}

impl Cell<'_> {
    /// Returns about the number of bytes of the value.
    pub(super) fn size(&self) -> usize {
        if let Self::Text(text) = self { text.len() + 9 } else { 9 }
    }
}

/// The formats, recognized by a document's name and mime type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Comma,
    Tab,
    Json,
    JsonLines,
    /// A workbook: each of its sheets is a table.
    Sheets,
    /// A sheet of a workbook, as CSV.
    Sheet,
}

impl Format {
    /// Returns the format of a document; `None` for one that holds no rows.
    pub(super) fn of(extension: &str, mime_type: &str) -> Option<Self> {
        match extension {
            "csv" => Some(Self::Comma),
            "tsv" | "tab" => Some(Self::Tab),
            "json" => Some(Self::Json),
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            "xlsx" | "xlsm" => Some(Self::Sheets),
            _ => match mime_type.split(';').next().unwrap_or_default().trim() {
                "text/csv" => Some(Self::Comma),
                "text/tab-separated-values" => Some(Self::Tab),
                "application/json" => Some(Self::Json),
                "application/x-ndjson" | "application/jsonl" => Some(Self::JsonLines),
                other => (Readable::of(other) == Some(Readable::Xlsx)).then_some(Self::Sheets),
            },
        }
    }
}

enum Rows<'a> {
    Delimited(delimited::Delimited<'a>),
    Json(json_rows::JsonRows),
}

impl<'a> Table<'a> {
    /// Reads the columns and infers their types. The error is one sentence that names the line where it can.
    pub(super) fn read(format: Format, bytes: &'a [u8]) -> Result<Self, String> {
        let text = decode(bytes)?;
        let (columns, row_count, rows) = match format {
            Format::Sheets => return Err("its sheets are tables of their own".to_owned()),
            Format::Comma | Format::Tab | Format::Sheet => {
                let delimiter = match format {
                    Format::Tab => Some(b'\t'),
                    Format::Sheet => Some(b','),
                    _ => None,
                };
                let delimited = delimited::Delimited::new(text, delimiter);
                let (columns, row_count) = delimited.scan()?;
                (columns, row_count, Rows::Delimited(delimited))
            }
            Format::Json | Format::JsonLines => {
                let rows = json_rows::JsonRows::read(text, format == Format::JsonLines)?;
                (rows.columns(), rows.len(), Rows::Json(rows))
            }
        };
        if columns.is_empty() {
            return Err("it has no columns".to_owned());
        }
        if columns.len() > MAX_COLUMNS {
            return Err(format!("it has {} columns; at most {MAX_COLUMNS} can be queried", columns.len()));
        }
        Ok(Self { columns, row_count, rows })
    }

    /// Hands each row to `each`, in order.
    pub(super) fn for_each(&self, each: impl FnMut(&[Cell<'_>]) -> Result<(), String>) -> Result<(), String> {
        match &self.rows {
            Rows::Delimited(delimited) => delimited.for_each(&self.columns, each),
            Rows::Json(rows) => rows.for_each(&self.columns, each),
        }
    }
}

/// Returns the text without its byte order mark; the error names the line of the first byte that is not UTF-8.
fn decode(bytes: &[u8]) -> Result<&str, String> {
    if bytes.starts_with(&[0xFF, 0xFE]) || bytes.starts_with(&[0xFE, 0xFF]) {
        return Err("it is text in UTF-16; save it as UTF-8".to_owned());
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let line = bytes[..at].split(|byte| *byte == b'\n').count();
        format!("line {line} is not text in UTF-8 (byte {at} of the document)")
    })?;
    Ok(text.strip_prefix('\u{FEFF}').unwrap_or(text))
}

/// Makes the names of columns usable: trimmed, none empty, none twice (SQLite ignores case).
pub(super) fn column_names<'n>(given: impl Iterator<Item = &'n str>) -> Vec<String> {
    let given: Vec<&str> = given.map(str::trim).collect();
    let mut taken = BTreeSet::new();
    let mut names = Vec::with_capacity(given.len());
    for (index, name) in given.iter().enumerate() {
        let base = if name.is_empty() { format!("column_{}", index + 1) } else { name.replace('\0', "") };
        let mut name = base.clone();
        let mut count = 1;
        while !taken.insert(name.to_lowercase()) {
            count += 1;
            name = format!("{base}_{count}");
        }
        names.push(name);
    }
    names
}

/// Knowledge about a column's type after some of its values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inference {
    integers: bool,
    reals: bool,
    texts: bool,
}

impl Inference {
    /// Learns from a value written as text; an empty one is ignored.
    pub(super) fn learn_text(&mut self, value: &str) {
        if self.texts {
            return;
        }
        match number(value) {
            Cell::Integer(_) => self.integers = true,
            Cell::Real(_) => self.reals = true,
            Cell::Text(_) => self.texts = true,
            Cell::Null => {}
        }
    }

    /// Learns that a value is a whole number.
    pub(super) fn learn_integer(&mut self) {
        self.integers = true;
    }

    /// Learns that a value is a number with a fraction.
    pub(super) fn learn_real(&mut self) {
        self.reals = true;
    }

    /// Learns that a value is no number.
    pub(super) fn learn_other(&mut self) {
        self.texts = true;
    }

    /// Returns the narrowest type that holds every value seen.
    pub(super) fn kind(self) -> Kind {
        match (self.texts, self.reals, self.integers) {
            (true, ..) | (false, false, false) => Kind::Text,
            (false, true, _) => Kind::Real,
            (false, false, true) => Kind::Integer,
        }
    }
}

/// Reads `text` as a number if it is written like one; white space around it does not count.
///
/// Text stay: codes with leading zeros (`007`), signs in front (`+49…`), whole numbers beyond 64 bits, `NaN`, `inf`,
/// hexadecimal digits, thousands separators.
pub(super) fn number(text: &str) -> Cell<'_> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Cell::Null;
    }
    let as_text = || Cell::Text(Cow::Borrowed(text));
    let digits = trimmed.strip_prefix('-').unwrap_or(trimmed);
    let whole = digits.bytes().take_while(u8::is_ascii_digit).count();
    let code_like = whole > 1 && digits.starts_with('0');
    let number_like = digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    if code_like || !number_like || !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return as_text();
    }
    if whole == digits.len() {
        return trimmed.parse().map_or_else(|_| as_text(), Cell::Integer);
    }
    match trimmed.parse::<f64>() {
        Ok(real) if real.is_finite() => Cell::Real(real),
        _ => as_text(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types_of(csv: &str) -> Vec<Kind> {
        Table::read(Format::Comma, csv.as_bytes()).unwrap().columns.into_iter().map(|column| column.kind).collect()
    }

    #[test]
    fn types_are_inferred_over_all_rows() {
        let csv = "code,count,price,day,late\n007,1,2,2024-01-01,1\n008,2,2.5,2024-01-02,2\n009,,-1e3,2024-01-03,x\n";
        assert_eq!(types_of(csv), [Kind::Text, Kind::Integer, Kind::Real, Kind::Text, Kind::Text]);
    }

    #[test]
    fn what_only_looks_like_a_number_stays_text() {
        for value in
            ["007", "+49", "1,5", "0x1F", "NaN", "inf", "-", ".", "e5", "1e999", "99999999999999999999", "1_000", "1e", "--1"]
        {
            assert!(matches!(number(value), Cell::Text(_)), "{value} was read as {:?}", number(value));
        }
        assert_eq!(number("0"), Cell::Integer(0));
        assert_eq!(number("-9223372036854775808"), Cell::Integer(i64::MIN));
        assert_eq!(number(" 12 "), Cell::Integer(12));
        assert_eq!(number("0.5"), Cell::Real(0.5));
        assert_eq!(number(".5"), Cell::Real(0.5));
        assert_eq!(number("  "), Cell::Null);
    }

    #[test]
    fn a_column_without_values_is_text() {
        assert_eq!(types_of("a,b\n,\n,\n"), [Kind::Text, Kind::Text]);
    }

    #[test]
    fn names_of_columns_are_trimmed_filled_and_made_unique() {
        assert_eq!(column_names(["a", " A ", "", "a", "a_2"].into_iter()), ["a", "A_2", "column_3", "a_3", "a_2_2"]);
    }

    #[test]
    fn text_that_is_not_utf_8_is_refused_with_its_line() {
        let message = Table::read(Format::Comma, b"a,b\n1,2\n\xff,3\n").err().unwrap();
        assert_eq!(message, "line 3 is not text in UTF-8 (byte 8 of the document)");
        assert!(Table::read(Format::Comma, b"\xff\xfea\0").err().unwrap().contains("UTF-16"));
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_name() {
        let table = Table::read(Format::Comma, "\u{FEFF}a,b\r\n1,2\r\n".as_bytes()).unwrap();
        assert_eq!(table.columns[0].name, "a");
    }

    #[test]
    fn a_document_without_columns_is_refused() {
        assert_eq!(Table::read(Format::Comma, b"").err().unwrap(), "it is empty");
        let wide = "a,".repeat(2_001);
        assert!(Table::read(Format::Comma, wide.as_bytes()).err().unwrap().contains("at most 2000"));
    }
}
