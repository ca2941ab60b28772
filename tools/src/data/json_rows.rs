//! Rows from JSON: an array of objects, an object of columns, an object that wraps one array, or a value per line.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::table::{Cell, Column, Inference, Kind, column_names};

/// Rows read from JSON, with the keys of their columns in the order of first appearance.
pub(super) struct JsonRows {
    keys: Vec<String>,
    rows: Vec<Map<String, Value>>,
}

/// The column of values that have no name of their own.
const UNNAMED: &str = "value";

impl JsonRows {
    /// Reads `text`; with `lines`, each line is a value. A text of several lines that are each a value is read so too.
    pub(super) fn read(text: &str, lines: bool) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("it is empty".to_owned());
        }
        let values = if lines {
            read_lines(text)?
        } else {
            match serde_json::from_str::<Value>(text) {
                Ok(value) => return Self::of(unwrap(value)?),
                Err(whole) => read_lines(text).map_err(|_| format!("it is not JSON: {whole}"))?,
            }
        };
        Self::of(values)
    }

    fn of(values: Vec<Value>) -> Result<Self, String> {
        let mut keys = Vec::new();
        let mut known = HashMap::new();
        let mut rows = Vec::with_capacity(values.len());
        for (index, value) in values.into_iter().enumerate() {
            let row = match value {
                Value::Object(row) => row,
                Value::Array(_) => return Err(format!("row {} is an array; each row must be an object", index + 1)),
                scalar => Map::from_iter([(UNNAMED.to_owned(), scalar)]),
            };
            for key in row.keys() {
                if !known.contains_key(key) {
                    known.insert(key.clone(), keys.len());
                    keys.push(key.clone());
                }
            }
            rows.push(row);
        }
        Ok(Self { keys, rows })
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the columns, with types inferred over all rows.
    pub(super) fn columns(&self) -> Vec<Column> {
        let names = column_names(self.keys.iter().map(String::as_str));
        let column = |(name, key): (String, &String)| {
            let mut inference = Inference::default();
            for row in &self.rows {
                match row.get(key) {
                    None | Some(Value::Null) => {}
                    Some(Value::Bool(_)) => inference.learn_integer(),
                    Some(Value::Number(number)) if number.is_i64() => inference.learn_integer(),
                    // Beyond 64 bits with a sign, only text keeps every digit.
                    Some(Value::Number(number)) if number.is_u64() => inference.learn_other(),
                    Some(Value::Number(_)) => inference.learn_real(),
                    Some(_) => inference.learn_other(),
                }
            }
            Column { name, kind: inference.kind() }
        };
        names.into_iter().zip(&self.keys).map(column).collect()
    }

    /// Hands each row to `each`.
    pub(super) fn for_each(
        &self,
        columns: &[Column],
        mut each: impl FnMut(&[Cell<'_>]) -> Result<(), String>,
    ) -> Result<(), String> {
        for row in &self.rows {
            let cells: Vec<Cell<'_>> =
                self.keys.iter().zip(columns).map(|(key, column)| cell(row.get(key), column.kind)).collect();
            each(&cells)?;
        }
        Ok(())
    }
}

fn cell(value: Option<&Value>, kind: Kind) -> Cell<'_> {
    match (value, kind) {
        (None | Some(Value::Null), _) => Cell::Null,
        (Some(Value::String(text)), _) => Cell::Text(Cow::Borrowed(text)),
        (Some(Value::Bool(truth)), Kind::Integer) => Cell::Integer(i64::from(*truth)),
        (Some(Value::Bool(truth)), Kind::Real) => Cell::Real(f64::from(u8::from(*truth))),
        (Some(Value::Number(number)), Kind::Integer) => number.as_i64().map_or(Cell::Null, Cell::Integer),
        (Some(Value::Number(number)), Kind::Real) => number.as_f64().map_or(Cell::Null, Cell::Real),
        (Some(other), _) => Cell::Text(Cow::Owned(other.to_string())),
    }
}

/// Returns the rows in a whole JSON text.
fn unwrap(value: Value) -> Result<Vec<Value>, String> {
    match value {
        Value::Array(rows) => Ok(rows),
        Value::Object(object) if object.is_empty() => Err("it is an empty object".to_owned()),
        Value::Object(object) if object.values().all(Value::is_array) => {
            let wraps_rows = |value: &Value| value.as_array().is_some_and(|rows| rows.iter().any(Value::is_object));
            if object.len() == 1 && object.values().all(wraps_rows) {
                return Ok(object.into_iter().next().and_then(|(_, value)| into_array(value)).unwrap_or_default());
            }
            transpose(object)
        }
        Value::Object(object) => Ok(vec![Value::Object(object)]),
        _ => Err("it is a single value; rows are an array of objects or an object of arrays".to_owned()),
    }
}

fn into_array(value: Value) -> Option<Vec<Value>> {
    if let Value::Array(values) = value { Some(values) } else { None }
}

/// Rows from an object whose values are columns of one length.
fn transpose(columns: Map<String, Value>) -> Result<Vec<Value>, String> {
    let mut rows: Vec<Map<String, Value>> = Vec::new();
    for (index, (name, values)) in columns.into_iter().enumerate() {
        let values = into_array(values).unwrap_or_default();
        if index == 0 {
            rows.resize_with(values.len(), Map::new);
        }
        if values.len() != rows.len() {
            return Err(format!("column {name} has {} values, the first column has {}", values.len(), rows.len()));
        }
        for (row, value) in rows.iter_mut().zip(values) {
            row.insert(name.clone(), value);
        }
    }
    Ok(rows.into_iter().map(Value::Object).collect())
}

/// Returns a value per line; blank lines do not count.
fn read_lines(text: &str) -> Result<Vec<Value>, String> {
    let filled = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    filled
        .map(|(index, line)| serde_json::from_str(line).map_err(|error| format!("line {} is not JSON: {error}", index + 1)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(text: &str) -> String {
        let rows = JsonRows::read(text, false).unwrap();
        let columns = rows.columns();
        let mut lines: Vec<String> =
            vec![columns.iter().map(|column| format!("{} {}", column.name, column.kind.as_sql())).collect::<Vec<_>>().join(", ")];
        rows.for_each(&columns, |cells| {
            lines.push(format!("{cells:?}"));
            Ok(())
        })
        .unwrap();
        lines.join("\n")
    }

    #[test]
    fn an_array_of_objects_has_a_row_per_object() {
        let expected = "a INTEGER, b TEXT, c REAL\n[Integer(1), Text(\"x\"), Null]\n[Null, Text(\"{\\\"k\\\":1}\"), Real(2.0)]\n\
                        [Integer(1), Null, Real(0.5)]";
        assert_eq!(print(r#"[{"a":1,"b":"x"},{"b":{"k":1},"c":2},{"a":true,"c":0.5}]"#), expected);
    }

    #[test]
    fn an_object_of_arrays_has_a_column_per_key() {
        assert_eq!(
            print(r#"{"a":[1,2],"b":["x","y"]}"#),
            "a INTEGER, b TEXT\n[Integer(1), Text(\"x\")]\n[Integer(2), Text(\"y\")]"
        );
        assert_eq!(
            JsonRows::read(r#"{"a":[1,2],"b":[1]}"#, false).err().unwrap(),
            "column b has 1 values, the first column has 2"
        );
    }

    #[test]
    fn an_object_round_one_array_of_objects_is_looked_through() {
        assert_eq!(print(r#"{"data":[{"a":1}]}"#), "a INTEGER\n[Integer(1)]");
        assert_eq!(print(r#"{"a":1}"#), "a INTEGER\n[Integer(1)]");
    }

    #[test]
    fn a_value_per_line_is_a_row_per_line() {
        assert_eq!(print("{\"a\":1}\n\n{\"a\":2.5}\n"), "a REAL\n[Real(1.0)]\n[Real(2.5)]");
        assert!(JsonRows::read("{\"a\":1}\n{\"a\":\n", true).err().unwrap().starts_with("line 2 is not JSON"));
    }

    #[test]
    fn what_has_no_rows_is_refused() {
        for text in ["", "3", "{}", "[[1,2]]", "{\"a\":", "nonsense"] {
            assert!(JsonRows::read(text, false).is_err(), "{text} was accepted");
        }
        let deep = "[".repeat(100_000);
        assert!(JsonRows::read(&deep, false).err().unwrap().contains("not JSON"));
    }

    #[test]
    fn numbers_and_texts_in_one_column_are_text() {
        assert_eq!(print(r#"[{"a":1},{"a":"x"}]"#), "a TEXT\n[Text(\"1\")]\n[Text(\"x\")]");
    }
}
