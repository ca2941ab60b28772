//! The one check of JSON that comes from outside: from models, commands, functions, deliveries, files and the command line.
//!
//! Valid JSON may still describe no value. Readers lose a number such as `1e400` and half a surrogate pair, and of equal
//! keys they keep one. So a text that has one of them is refused here, before anything is decided by it.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::text::shortened;

/// The most objects and arrays inside each other. `serde_json` reads no more.
pub const MAX_DEPTH: usize = 127;

/// The most keys that are compared in pairs. More are sorted first.
const PAIRED: usize = 16;

/// The most bytes of a number that is finite whatever its digits are, if it has no exponent.
const SURELY_FINITE: usize = 300;

/// The most characters of a key or a number in a message.
const SHOWN: usize = 60;

/// Beginning of the keys by which `serde_json` marks its own types. It reads an object with such a key as another value.
const RESERVED: &str = "$serde_json::private::";

/// Why a text was not read as JSON.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The text is not JSON, or not the JSON that is expected.
    #[error(transparent)]
    Unreadable(#[from] serde_json::Error),
    /// The text is JSON, but readers would lose a part of it.
    #[error("{reason} at line {line} column {column}")]
    NoValue {
        /// The reason.
        reason: String,
        /// The line, from 1.
        line: usize,
        /// The byte within the line, from 1.
        column: usize,
    },
}

/// Reads a text from outside.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, JsonError> {
    let read = serde_json::from_str(text);
    // The places in errors of the raw reader are less exact.
    if read.is_ok() || serde_json::from_str::<&RawValue>(text).is_ok() {
        check(text)?;
    }
    Ok(read?)
}

/// Reads a text from outside. A text that is not JSON becomes a string. JSON that is not a value is refused.
pub fn read_or_text(text: &str) -> Result<Value, JsonError> {
    match read(text) {
        Err(JsonError::Unreadable(_)) => Ok(Value::from(text)),
        read => read,
    }
}

/// Checks that `text`, which is valid JSON, is read as the value that it describes.
///
/// Takes one pass, and time linear in the text except for the sorting of an object's keys.
pub(super) fn check(text: &str) -> Result<(), JsonError> {
    let bytes = text.as_bytes();
    // The keys of all open objects, each with its place.
    let mut keys: Vec<(Cow<'_, str>, usize)> = Vec::new();
    // For each open object the number of keys before its own, and nothing for each open array.
    let mut open: Vec<Option<usize>> = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let Text { end, escapes } = text_at(bytes, at);
                let is_key = bytes[end..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
                if is_key || escapes == Escapes::Surrogates {
                    let value = match escapes {
                        Escapes::None => Cow::Borrowed(&text[at + 1..end - 1]),
                        _ => Cow::Owned(serde_json::from_str(&text[at..end]).map_err(|_| {
                            fault(text, at, "half a surrogate pair, such as \\ud800 alone, is not a character in a text")
                        })?),
                    };
                    if is_key {
                        if value.starts_with(RESERVED) {
                            return Err(fault(text, at, &format!("the key {:?} is reserved", shortened(&value, SHOWN))));
                        }
                        keys.push((value, at));
                    }
                }
                at = end;
            }
            b'-' | b'0'..=b'9' => {
                let is_part = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
                let number = &text[at..at + bytes[at..].iter().take_while(is_part).count()];
                let is_surely_finite = number.len() <= SURELY_FINITE && !number.contains(['e', 'E']);
                if !is_surely_finite && serde_json::from_str::<f64>(number).is_err() {
                    return Err(fault(text, at, &format!("the number {} is out of range", shortened(number, SHOWN))));
                }
                at += number.len();
            }
            b'{' | b'[' => {
                if open.len() == MAX_DEPTH {
                    return Err(fault(text, at, &format!("objects and arrays are nested deeper than {MAX_DEPTH}")));
                }
                open.push((*byte == b'{').then_some(keys.len()));
                at += 1;
            }
            b'}' | b']' => {
                if let Some(Some(first)) = open.pop() {
                    if let Some((key, place)) = repeated(&mut keys[first..]) {
                        return Err(fault(
                            text,
                            *place,
                            &format!("the key {:?} occurs twice in an object", shortened(key, SHOWN)),
                        ));
                    }
                    keys.truncate(first);
                }
                at += 1;
            }
            _ => at += 1,
        }
    }
    Ok(())
}

/// A text within JSON.
struct Text {
    /// The place behind its closing quotation mark.
    end: usize,
    escapes: Escapes,
}

/// The escape sequences of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escapes {
    None,
    Harmless,
    /// Among them may be halves of surrogate pairs.
    Surrogates,
}

/// Finds the end of the text that begins at `start`.
fn text_at(bytes: &[u8], start: usize) -> Text {
    let (mut at, mut escapes) = (start + 1, Escapes::None);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => break,
            b'\\' => {
                let is_surrogate = matches!(&bytes[at + 1..], [b'u', b'd' | b'D', ..]);
                if is_surrogate {
                    escapes = Escapes::Surrogates;
                } else if escapes == Escapes::None {
                    escapes = Escapes::Harmless;
                }
                at += 2;
            }
            _ => at += 1,
        }
    }
    Text { end: at + 1, escapes }
}

/// Returns the key of an object that occurs twice, with the later of its places.
fn repeated<'k, 't>(keys: &'k mut [(Cow<'t, str>, usize)]) -> Option<&'k (Cow<'t, str>, usize)> {
    if keys.len() > PAIRED {
        keys.sort_unstable();
        return keys.windows(2).find(|pair| pair[0].0 == pair[1].0).map(|pair| &pair[1]);
    }
    (1..keys.len()).find(|&later| keys[..later].iter().any(|(key, _)| *key == keys[later].0)).map(|later| &keys[later])
}

fn fault(text: &str, at: usize, reason: &str) -> JsonError {
    let before = &text[..at];
    let line = 1 + before.matches('\n').count();
    let column = 1 + at - before.rfind('\n').map_or(0, |end| end + 1);
    JsonError::NoValue { reason: reason.to_owned(), line, column }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;

    fn reason(text: &str) -> String {
        Json::parse(text).expect_err(text).to_string()
    }

    #[test]
    fn json_that_readers_would_change_is_refused_with_its_place() {
        let deep = format!("{}{}", "[".repeat(128), "]".repeat(128));
        for (text, expected) in [
            ("{\"a\": 1e400}", "the number 1e400 is out of range at line 1 column 7"),
            ("[\n  -1.5E+999]", "the number -1.5E+999 is out of range at line 2 column 3"),
            (r#"["x\ud800"]"#, "half a surrogate pair, such as \\ud800 alone, is not a character in a text at line 1 column 2"),
            (r#"{"\udC00": 1}"#, "half a surrogate pair, such as \\ud800 alone, is not a character in a text at line 1 column 2"),
            (r#"{"accepted":false,"accepted":true}"#, r#"the key "accepted" occurs twice in an object at line 1 column 19"#),
            (r#"[{"a": {"b": 1}, "\u0061" : 2}]"#, r#"the key "a" occurs twice in an object at line 1 column 18"#),
            (&deep, "objects and arrays are nested deeper than 127 at line 1 column 128"),
            (
                r#"{"$serde_json::private::RawValue": "{\"accepted\": true}"}"#,
                r#"the key "$serde_json::private::RawValue" is reserved at line 1 column 2"#,
            ),
        ] {
            assert_eq!(reason(text), expected);
        }
        let digits = format!("1{}", "0".repeat(400));
        assert!(
            reason(&digits).starts_with("the number 1000") && reason(&digits).ends_with("… is out of range at line 1 column 1")
        );
        let keys: Vec<String> = (0..100).chain([57]).map(|key| format!("\"k{key}\":0")).collect();
        assert!(reason(&format!("{{{}}}", keys.join(","))).starts_with("the key \"k57\" occurs twice"));
    }

    #[test]
    fn json_that_is_a_value_is_kept_as_it_was_written() {
        let deep = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        for text in [
            "null",
            "true",
            "-0",
            "1e308",
            "5e-400",
            "123456789012345678901234567890.10",
            "\"\"",
            "[]",
            "{}",
            &deep,
            r#"{"a": {"a": [{"a": 1}, {"a": 2}]}, "b": "a", "A": ":"}"#,
            r#"["\ud83d\ude00", "\\ud800", "\"", "a\\", "{\"a\":1,\"a\":2}", "1e400", ":"]"#,
            r#"{"":1," ":2,"\u0000":3,"\u0061":4,"b":5}"#,
        ] {
            assert_eq!(Json::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).text(), text);
            assert!(serde_json::from_str::<Value>(text).is_ok(), "{text}");
        }
    }

    /// Accepted texts are values for the reader, and refused ones are not, except for repeated keys.
    #[test]
    fn the_check_agrees_with_the_reader_on_every_short_text() {
        let parts = [
            "{",
            "}",
            "[",
            "]",
            "\"a\"",
            "\"\\ud800\"",
            "\"\\udc00\\ud800\"",
            "\"\\ud800\\udc00\"",
            ":",
            ",",
            "1e999",
            "-1e-999",
            "7",
            " ",
        ];
        let mut texts = vec![String::new()];
        for _ in 0..5 {
            texts = texts.iter().flat_map(|text| parts.map(|part| format!("{text}{part}"))).collect();
            for text in &texts {
                let is_value = serde_json::from_str::<Value>(text).is_ok();
                match Json::parse(text) {
                    Ok(_) => assert!(is_value, "{text}"),
                    Err(error) => assert!(!is_value || error.to_string().contains("twice"), "{text}: {error}"),
                }
            }
            // Most texts cannot be continued to JSON.
            texts.retain(|text| {
                let error = serde_json::from_str::<serde::de::IgnoredAny>(text).err();
                error.is_none_or(|error| error.is_eof()) && text.len() < 40
            });
        }
    }

    #[test]
    fn text_that_is_not_json_is_a_string_but_a_lost_value_is_refused() {
        assert_eq!(read_or_text("paid").unwrap(), Value::from("paid"));
        assert_eq!(read_or_text("3").unwrap(), Value::from(3));
        assert!(matches!(read_or_text("1e400"), Err(JsonError::NoValue { .. })));
    }
}
