//! Lenient access to JSON of unknown shape.

use std::collections::HashMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// Returns the text at `pointer`, if there is one that is not empty.
pub(super) fn text<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
}

/// Returns the elements at `pointer`; none if there is no list.
pub(super) fn list<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the count at `pointer`. Some servers write whole numbers as `7.0`.
pub(super) fn count(value: &Value, pointer: &str) -> Option<u64> {
    let number = value.pointer(pointer)?;
    number.as_u64().or_else(|| number.as_f64().filter(|number| *number >= 0.0).map(|number| number as u64))
}

/// A step down into a JSON text.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'a> {
    Key(&'a str),
    At(usize),
}

/// Returns the JSON text at `path` in `json`, as it was written: numbers keep every digit.
pub(super) fn raw_text<'j>(json: &'j str, path: &[Step<'_>]) -> Option<&'j str> {
    let mut here = json;
    for step in path {
        here = match step {
            Step::Key(key) => {
                let object: HashMap<String, &'j RawValue> = serde_json::from_str(here).ok()?;
                object.get(*key)?.get()
            }
            Step::At(index) => {
                let list: Vec<&'j RawValue> = serde_json::from_str(here).ok()?;
                list.get(*index)?.get()
            }
        };
    }
    Some(here)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_text_keeps_its_digits() {
        let json = r#"{"a": [{"b": {"n": 123456789012345678901234567890.10, "b": 1}}]}"#;
        let found = raw_text(json, &[Step::Key("a"), Step::At(0), Step::Key("b")]);
        assert_eq!(found, Some(r#"{"n": 123456789012345678901234567890.10, "b": 1}"#));
        assert_eq!(raw_text(json, &[Step::Key("a"), Step::At(1)]), None);
        assert_eq!(raw_text(json, &[Step::At(0)]), None);
    }
}
