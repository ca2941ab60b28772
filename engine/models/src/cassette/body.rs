//! Bodies as cassettes have them: readable, and giving back the bytes that came.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use baton_types::message::relabelled;

use crate::secret::Secrets;

/// The body of a request or an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Body {
    /// JSON that was written without white space.
    Json(Value),
    /// JSON that was written over many lines.
    IndentedJson(Value),
    /// Any other text, by its lines: streams, and JSON that could not be written again to the letter. Calls are sent back as
    /// a provider wrote them, so every digit counts.
    Lines(Vec<String>),
    /// Bytes that are not UTF-8, in base64.
    Base64(String),
}

/// A secret is spread over several pieces of a body, so it cannot be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InPieces;

impl Body {
    /// Returns `bytes` as a body without `secrets`.
    pub(super) fn of(bytes: &[u8], secrets: &Secrets) -> Result<Self, InPieces> {
        let Ok(text) = std::str::from_utf8(bytes) else {
            let scrubbed = secrets.scrubbed_bytes(bytes);
            return Ok(Self::Base64(STANDARD.encode(scrubbed.as_deref().unwrap_or(bytes))));
        };
        if let Ok(mut value) = serde_json::from_str::<Value>(text) {
            let is_text = |again: &str| again == text.trim();
            let indented = is_text(&format!("{value:#}"));
            let is_as_written = indented || is_text(&value.to_string());
            let had_secret = secrets.scrub(&mut value);
            if had_secret {
                // The labels of frames are hashes of their texts, which held the secrets.
                relabel(&mut value);
            }
            if is_as_written || had_secret {
                return Ok(if indented { Self::IndentedJson(value) } else { Self::Json(value) });
            }
        }
        let lines: Vec<String> = text.split('\n').map(|line| scrubbed_line(line, secrets)).collect();
        if is_in_pieces(&lines, secrets) { Err(InPieces) } else { Ok(Self::Lines(lines)) }
    }

    /// Returns the original bytes, except for secrets.
    pub(super) fn bytes(&self) -> Result<Vec<u8>, base64::DecodeError> {
        match self {
            Self::Json(value) => Ok(value.to_string().into_bytes()),
            Self::IndentedJson(value) => Ok(format!("{value:#}").into_bytes()),
            Self::Lines(lines) => Ok(lines.join("\n").into_bytes()),
            Self::Base64(text) => STANDARD.decode(text),
        }
    }
}

/// Returns the field name of a line of a stream, and the JSON behind it.
fn event_of(line: &str) -> (&str, Option<Value>) {
    let start = line.find(['{', '[', '"']).unwrap_or(line.len());
    (&line[..start], serde_json::from_str(&line[start..]).ok())
}

/// Computes the labels of all frames in `value` again.
fn relabel(value: &mut Value) {
    match value {
        Value::String(text) => *text = relabelled(text),
        Value::Array(list) => list.iter_mut().for_each(relabel),
        Value::Object(object) => object.values_mut().for_each(relabel),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns a line of a stream without secrets. Its JSON keeps its spelling, unless a secret is hidden behind escapes.
fn scrubbed_line(line: &str, secrets: &Secrets) -> String {
    let line = secrets.scrubbed(line);
    if let (field, Some(mut value)) = event_of(&line)
        && secrets.scrub(&mut value)
    {
        return format!("{field}{value}");
    }
    line.into_owned()
}

/// Whether texts that a stream sends in pieces, each under the same pointer, contain a secret once they are joined.
fn is_in_pieces(lines: &[String], secrets: &Secrets) -> bool {
    let mut texts: HashMap<String, String> = HashMap::new();
    for line in lines {
        if let (_, Some(value)) = event_of(line) {
            gather(&value, &mut String::new(), &mut texts);
        }
    }
    texts.values().any(|text| secrets.is_in(text))
}

fn gather(value: &Value, pointer: &mut String, texts: &mut HashMap<String, String>) {
    let mut below = |name: &str, value: &Value| {
        let end = pointer.len();
        pointer.push('/');
        pointer.push_str(name);
        gather(value, pointer, texts);
        pointer.truncate(end);
    };
    match value {
        Value::Object(object) => object.iter().for_each(|(name, value)| below(name, value)),
        Value::Array(list) => list.iter().enumerate().for_each(|(at, value)| below(&at.to_string(), value)),
        Value::String(text) => texts.entry(pointer.clone()).or_default().push_str(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SECRET: &str = "sk-1234/+abcd";

    fn body(bytes: &[u8]) -> Result<Body, InPieces> {
        Body::of(bytes, &Secrets::of(SECRET))
    }

    #[test]
    fn a_body_gives_back_the_bytes_it_was_made_of() {
        let value = json!({"a": [1, "ü"], "b": {}});
        let cases: [(Vec<u8>, Body); 7] = [
            (value.to_string().into_bytes(), Body::Json(value.clone())),
            (format!("{value:#}").into_bytes(), Body::IndentedJson(value)),
            (b"{\"n\":1.10}".to_vec(), Body::Lines(vec!["{\"n\":1.10}".to_owned()])),
            (b"{\"a\": 1}".to_vec(), Body::Lines(vec!["{\"a\": 1}".to_owned()])),
            (b"data: {}\r\n\ndata: x".to_vec(), Body::Lines(["data: {}\r", "", "data: x"].map(str::to_owned).to_vec())),
            (Vec::new(), Body::Lines(vec![String::new()])),
            (vec![b'a', 0xff], Body::Base64("Yf8=".to_owned())),
        ];
        for (bytes, expected) in cases {
            let made = body(&bytes).unwrap();
            assert_eq!(made, expected);
            assert_eq!(made.bytes().unwrap(), bytes);
        }
        assert!(Body::Base64("?".to_owned()).bytes().is_err());
    }

    #[test]
    fn no_secret_is_in_a_body_however_it_is_hidden() {
        let cases: [&[u8]; 6] = [
            b"{\"message\":\"no key sk-1234/+abcd\"}",
            b"{\"message\": \"no key sk-1234\\/\\u002babcd\"}",
            b"{\"a\":\"sk-1234/+abcd\",\"a\":1.10}",
            b"data: {\"message\": \"no key sk-1234\\/\\u002babcd\"}\n\n",
            b"<html>sk-1234/+abcd</html>",
            b"\xff sk-1234/+abcd",
        ];
        for bytes in cases {
            let made = body(bytes).unwrap();
            let shown = serde_json::to_string(&made).unwrap() + &String::from_utf8_lossy(&made.bytes().unwrap());
            assert!(!shown.contains("abcd") && !shown.contains("YWJjZ"), "{shown}");
        }
    }

    #[test]
    fn a_secret_that_a_stream_tells_in_pieces_is_noticed() {
        let event = |text: &str| format!("data: {}\n\n", json!({"choices": [{"delta": {"content": text}}]}));
        assert_eq!(body((event("a sk-12") + &event("34/+ab") + &event("cd b")).as_bytes()), Err(InPieces));
        assert!(body((event("a sk-12") + &event("35/+ab") + &event("cd b")).as_bytes()).is_ok());
        let lines = [json!({"message": {"content": "sk-1234"}}), json!({"message": {"content": "/+abcd"}})];
        assert_eq!(body(format!("{}\n{}\n", lines[0], lines[1]).as_bytes()), Err(InPieces));
    }
}
