//! Looking into JSON whose shape nobody promises.

use std::collections::HashMap;

use baton_types::model::Usage;
use serde_json::Value;
use serde_json::value::RawValue;

/// The text at `pointer`, if there is one that is not empty.
pub(super) fn text<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
}

/// The elements at `pointer`; none where there is no list.
pub(super) fn list<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The count at `pointer`. Some servers write whole numbers as `7.0`.
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

/// The JSON text that stands in `json` where `path` leads, as it was written: numbers keep every digit.
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

/// The usage that the two counts and their parts tell; `None` where neither is there.
pub(super) fn usage(input: Option<u64>, output: Option<u64>, cached: Option<u64>, reasoning: Option<u64>) -> Option<Usage> {
    if input.is_none() && output.is_none() {
        return None;
    }
    let (input_tokens, output_tokens) = (input.unwrap_or(0), output.unwrap_or(0));
    Some(Usage {
        input_tokens,
        output_tokens,
        cached_tokens: cached.unwrap_or(0).min(input_tokens),
        reasoning_tokens: reasoning.unwrap_or(0).min(output_tokens),
        estimated: false,
    })
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
