//! Rows from text with delimiters: CSV and TSV.
//!
//! The text is read twice, once for the types and once for the values, so a big document is never held as cells.

use std::borrow::Cow;

use csv::{ByteRecord, ReaderBuilder};

use super::table::{Cell, Column, Inference, Kind, column_names, number};

/// A text with delimiters and a header line.
pub(super) struct Delimited<'a> {
    text: &'a str,
    delimiter: u8,
}

impl<'a> Delimited<'a> {
    /// Wraps `text`. Without a `delimiter`, it is the most frequent of `,` `;` tab and `|` in the header line.
    pub(super) fn new(text: &'a str, delimiter: Option<u8>) -> Self {
        Self { text, delimiter: delimiter.unwrap_or_else(|| sniff(text)) }
    }

    fn reader(&self) -> csv::Reader<&'a [u8]> {
        ReaderBuilder::new().delimiter(self.delimiter).has_headers(true).flexible(true).from_reader(self.text.as_bytes())
    }

    /// Returns the columns and the number of rows. A row of another length than the header is refused with its line.
    pub(super) fn scan(&self) -> Result<(Vec<Column>, usize), String> {
        let mut reader = self.reader();
        let header = reader.headers().map_err(|error| error.to_string())?.clone();
        if header.is_empty() {
            return Err("it is empty".to_owned());
        }
        let names = column_names(header.iter());
        let mut inferences = vec![Inference::default(); names.len()];
        let mut record = ByteRecord::new();
        let mut count = 0;
        while reader.read_byte_record(&mut record).map_err(|error| error.to_string())? {
            if record.len() != names.len() {
                let line = record.position().map_or(0, csv::Position::line);
                return Err(format!("line {line} has {} fields, the header has {}", record.len(), names.len()));
            }
            for (inference, field) in inferences.iter_mut().zip(&record) {
                inference.learn_text(text_of(field));
            }
            count += 1;
        }
        let columns = names.into_iter().zip(inferences).map(|(name, inference)| Column { name, kind: inference.kind() });
        Ok((columns.collect(), count))
    }

    /// Hands each row to `each`.
    pub(super) fn for_each(
        &self,
        columns: &[Column],
        mut each: impl FnMut(&[Cell<'_>]) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut reader = self.reader();
        let mut record = ByteRecord::new();
        while reader.read_byte_record(&mut record).map_err(|error| error.to_string())? {
            let cells: Vec<Cell<'_>> =
                record.iter().zip(columns).map(|(field, column)| cell(text_of(field), column.kind)).collect();
            each(&cells)?;
        }
        Ok(())
    }
}

/// Returns a field as text. The whole text is UTF-8 and the delimiters are ASCII, so every field is UTF-8 too.
fn text_of(field: &[u8]) -> &str {
    std::str::from_utf8(field).unwrap_or_default()
}

/// Returns the value of a field in a column of that type.
fn cell(field: &str, kind: Kind) -> Cell<'_> {
    match (kind, number(field)) {
        (Kind::Text, _) if field.is_empty() => Cell::Null,
        (Kind::Text, _) => Cell::Text(Cow::Borrowed(field)),
        (Kind::Real, Cell::Integer(whole)) => Cell::Real(whole as f64),
        (_, value) => value,
    }
}

/// Returns the delimiter that the header line uses most; quoted parts do not count.
fn sniff(text: &str) -> u8 {
    let mut counts = [(b',', 0_u32), (b';', 0), (b'\t', 0), (b'|', 0)];
    let mut quoted = false;
    for byte in text.bytes() {
        match byte {
            b'"' => quoted = !quoted,
            b'\n' if !quoted => break,
            _ if !quoted => {
                if let Some((_, count)) = counts.iter_mut().find(|(delimiter, _)| *delimiter == byte) {
                    *count += 1;
                }
            }
            _ => {}
        }
    }
    // On a tie the earlier one wins, so a header of one column is read with commas.
    counts.iter().rev().max_by_key(|(_, count)| *count).map_or(b',', |(delimiter, _)| *delimiter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::table::{Format, Table};

    fn rows(text: &str) -> Vec<Vec<String>> {
        let table = Table::read(Format::Comma, text.as_bytes()).unwrap();
        let mut rows = Vec::new();
        let print = |cell: &Cell<'_>| match cell {
            Cell::Null => "NULL".to_owned(),
            Cell::Integer(whole) => whole.to_string(),
            Cell::Real(real) => format!("{real:?}"),
            Cell::Text(text) => format!("'{text}'"),
        };
        table
            .for_each(|cells| {
                rows.push(cells.iter().map(print).collect());
                Ok(())
            })
            .unwrap();
        rows
    }

    #[test]
    fn quoted_fields_keep_delimiters_quotes_and_line_breaks() {
        let text = "name,n\r\n\"Smith, \"\"Jo\"\"\",1\r\n\"two\r\nlines\",2\r\n";
        assert_eq!(rows(text), [["'Smith, \"Jo\"'", "1"], ["'two\r\nlines'", "2"]]);
    }

    #[test]
    fn empty_fields_are_null_and_a_missing_last_line_break_is_fine() {
        assert_eq!(rows("a,b,c\n,x,1.5\n2,,2"), [["NULL", "'x'", "1.5"], ["2", "NULL", "2.0"]]);
    }

    #[test]
    fn a_ragged_row_is_refused_with_its_line() {
        let message = Table::read(Format::Comma, b"a,b\n\"x\ny\",2\n1,2,3\n").err().unwrap();
        assert_eq!(message, "line 4 has 3 fields, the header has 2");
    }

    #[test]
    fn the_delimiter_is_found_in_the_header() {
        assert_eq!(rows("a;b\n1;x,y\n"), [["1", "'x,y'"]]);
        assert_eq!(rows("\"a;;;;b\",c\n1,2\n"), [["1", "2"]]);
        assert_eq!(rows("only\n1\n"), [["1"]]);
    }

    #[test]
    fn blank_lines_are_no_rows() {
        assert_eq!(rows("a,b\n\n1,2\n\n"), [["1", "2"]]);
    }
}
