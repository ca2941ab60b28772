//! The JSON in a model's text: top-level values among prose and code fences, without comments, trailing commas and escaped
//! apostrophes.

use baton_types::json::{self, JsonError};
use serde_json::Value;

/// A top-level object or array in a text.
#[derive(Debug, PartialEq)]
pub(crate) struct Found<'a> {
    /// Its text, as the model wrote it.
    pub text: &'a str,
    pub value: Value,
    /// Whether it is within quotation marks.
    pub is_quoted: bool,
}

/// The JSON values of a text, and the prose around them.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Values<'a> {
    pub found: Vec<Found<'a>>,
    /// Number of code fences outside of the values.
    pub fences: usize,
    /// Texts in brackets that are not JSON, each with the reason.
    pub unreadable: Vec<(&'a str, String)>,
    /// The text after the first bracket that is never closed; empty if all are.
    pub open: &'a str,
}

/// Returns the objects and arrays of `text` that are within no other. Takes time linear in the text.
pub(crate) fn values(text: &str) -> Values<'_> {
    let mut values = Values::default();
    let mut at = 0;
    while let Some(offset) = text[at..].find(['{', '[']) {
        let start = at + offset;
        values.fences += text[at..start].matches("```").count();
        let Some(length) = balanced(&text[start..]) else {
            values.open = &text[start..];
            break;
        };
        let end = start + length;
        // Prose may have brackets too. What they enclose is prose as well: nothing within it is at the top level.
        match read(&text[start..end]) {
            Ok(value) => {
                let before = text[..start].trim_end().chars().next_back();
                let is_quoted = matches!(before, Some(mark @ ('"' | '\'')) if text[end..].trim_start().starts_with(mark));
                values.found.push(Found { text: &text[start..end], value, is_quoted });
            }
            Err(reason) => values.unreadable.push((&text[start..end], reason)),
        }
        at = end;
    }
    if values.open.is_empty() {
        values.fences += text[at..].matches("```").count();
    }
    values.fences = values.fences.div_ceil(2);
    values
}

/// Returns the value of `text`, or the reason why it is not JSON.
fn read(text: &str) -> Result<Value, String> {
    let text = strict(text);
    json::read(&text).map_err(|error| match &error {
        JsonError::Unreadable(fault) if let Some(advice) = advice(&text, fault) => format!("{error}; {advice}"),
        _ => error.to_string(),
    })
}

/// Returns the correction of a frequent mistake, if `error` in `text` is one.
fn advice(text: &str, error: &serde_json::Error) -> Option<&'static str> {
    const QUOTES: &str = "write keys and strings in double quotes";
    // Lines and columns count from 1. The column is that of the byte that cannot be there; 0 is the line break before.
    let start = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
    let at = (start + error.column()).checked_sub(1)?;
    match text.as_bytes().get(at)? {
        b'\n' | b'\r' => Some("write a line break within a string as \\n"),
        b'\t' => Some("write a tab within a string as \\t"),
        b'#' => Some("leave out comments that begin with #"),
        b'\'' => Some(QUOTES),
        byte if !byte.is_ascii_punctuation() && error.to_string().starts_with("key must be a string") => Some(QUOTES),
        _ => None,
    }
}

/// Returns the number of bytes up to the end of the value that begins `text`; `None` if it has no end.
fn balanced(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for token in tokens(text) {
        if token.kind != Kind::Code {
            continue;
        }
        for (at, byte) in token.text.bytes().enumerate() {
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(token.start + at + 1);
                    }
                }
                _ => {}
            }
        }
    }
    None
}

/// Returns `text` without comments, without commas before a closing bracket, and with `'` for `\'`.
///
/// JSON5 and JavaScript know `\'`, JSON does not. Models write it in SQL.
fn strict(text: &str) -> String {
    let mut strict = String::with_capacity(text.len());
    for token in tokens(text) {
        match token.kind {
            Kind::String => push_string(&mut strict, token.text),
            Kind::Comment => strict.push(' '),
            Kind::Code => {
                for each in token.text.chars() {
                    if matches!(each, '}' | ']') {
                        let kept = strict.trim_end().len();
                        // Without an element before it, the comma is a fault.
                        let before = strict[..kept].strip_suffix(',').map(str::trim_end);
                        if before.is_some_and(|before| !before.ends_with([',', '[', '{', ':'])) {
                            strict.truncate(kept - 1);
                        }
                    }
                    strict.push(each);
                }
            }
        }
    }
    strict
}

/// Appends a string without the backslashes that escape apostrophes.
fn push_string(strict: &mut String, string: &str) {
    let mut rest = string;
    while let Some(at) = rest.find('\\') {
        let end = rest[at + 1..].chars().next().map_or(rest.len(), |escaped| at + 1 + escaped.len_utf8());
        let kept = if rest[at..end] == *"\\'" { &[&rest[..at], "'"] } else { &[&rest[..at], &rest[at..end]] };
        strict.extend(kept.iter().copied());
        rest = &rest[end..];
    }
    strict.push_str(rest);
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    String,
    Comment,
}

#[derive(Clone, Copy)]
struct Token<'a> {
    kind: Kind,
    start: usize,
    text: &'a str,
}

/// Returns the strings and comments of `text`, and everything between them.
fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = &text[at..];
        let (kind, length) = match rest.as_bytes() {
            [] => return None,
            [b'"', ..] => (Kind::String, string_length(rest)),
            [b'/', b'/', ..] => (Kind::Comment, rest.find('\n').unwrap_or(rest.len())),
            [b'/', b'*', ..] => (Kind::Comment, rest.find("*/").map_or(rest.len(), |end| end + 2)),
            // A token has one bracket at most, so that a search that ends at a bracket reads nothing behind it.
            [_, ..] => {
                let first = rest.chars().next().map_or(0, char::len_utf8);
                (Kind::Code, rest[first..].find(['"', '/', '{', '}', '[', ']']).map_or(rest.len(), |next| first + next))
            }
        };
        let token = Token { kind, start: at, text: &rest[..length] };
        at += length;
        Some(token)
    })
}

/// Returns the number of bytes of the string that begins `text`, with its quotation marks.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let is_end = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        is_end
    });
    end.map_or(text.len(), |end| end + 2)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::values;

    #[test]
    fn comments_commas_and_prose_are_noise() {
        let text = "I call {it} now [1].\n```json\n{\"a\": \"// {\", /* } */ \"b\": [1, 2,], // end }\n}\n```\nDone.";
        let values = values(text);
        let found: Vec<_> = values.found.iter().map(|found| found.value.clone()).collect();
        assert_eq!(found, [json!([1]), json!({"a": "// {", "b": [1, 2]})]);
        assert_eq!((values.fences, values.open), (1, ""));
    }

    #[test]
    fn escaped_apostrophes_are_apostrophes() {
        let found = |text: &str| values(text).found.into_iter().map(|found| found.value).collect::<Vec<_>>();
        assert_eq!(found(r#"{"sql": "city = \'Cairo\'", "a": "\\'\"\n"}"#), [json!({"sql": "city = 'Cairo'", "a": "\\'\"\n"})]);
        assert!(found(r#"{"a": "\é"}"#).is_empty() && found(r#"{"a": "\"#).is_empty());
    }

    #[test]
    fn no_key_and_no_element_is_lost() {
        for text in [r#"{"a": 1, "b": {"c": [], "c": 2}}"#, r#"{"a": [,]}"#, r#"{"a": [1,,]}"#, r"{,}"] {
            let values = values(text);
            assert_eq!((values.found.len(), values.unreadable.len()), (0, 1), "{text}");
        }
    }

    #[test]
    fn open_brackets_take_linear_time() {
        let text = "{".repeat(200_000);
        assert_eq!(values(&text).open, text);
        let text = "{/".repeat(200_000);
        assert_eq!(values(&text).open, text);
        let text = "{a} ".repeat(100_000);
        assert!(values(&text).found.is_empty());
    }
}
