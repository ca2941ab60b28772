//! Faults that a provider sends instead of an answer.

use std::fmt;

use serde_json::Value;

use super::sse::{Events, Lines};
use super::value::text;

/// Number of characters shown of a provider's message.
const MESSAGE_CHARACTERS: usize = 600;

/// A provider's refusal to answer, in its own words. They are whole, and only shortened when they are shown: a secret that was cut
/// in two would not be found any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// The status that the words themselves tell, such as OpenRouter's `code: 429`.
    pub status: Option<u16>,
    /// The kind of error, such as `overloaded_error` or `model_not_found`.
    pub code: Option<String>,
    /// Its message.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shortened(&self.message))?;
        self.code.as_ref().map_or(Ok(()), |code| write!(f, " ({})", shortened(code)))
    }
}

impl Fault {
    /// Returns the same fault with messages that `scrubbed` has removed secrets from.
    pub(crate) fn scrubbed(&self, scrubbed: impl Fn(&str) -> String) -> Self {
        Self { status: self.status, code: self.code.as_deref().map(&scrubbed), message: scrubbed(&self.message) }
    }

    /// Whether the request is longer than the model's window: judged by the code, or by known phrases. `OpenAI` and
    /// those like it have a code, Anthropic's `prompt is too long` and vLLM's and OpenRouter's
    /// `maximum context length` are phrases only, and llama.cpp has both.
    pub(crate) fn tells_of_length(&self) -> bool {
        let code = self.code.as_deref().unwrap_or_default();
        let words = self.message.to_lowercase();
        matches!(code, "context_length_exceeded" | "exceed_context_size_error" | "model_max_prompt_tokens_exceeded")
            || ["prompt is too long", "maximum context length", "exceeds the available context size", "context window"]
                .iter()
                .any(|phrase| words.contains(phrase))
    }

    /// Returns the fault in `value`, if it is an envelope of an error: `{"error": …}` in any of its forms, at any
    /// status.
    pub(super) fn in_envelope(value: &Value) -> Option<Self> {
        match value.get("error") {
            None | Some(Value::Null | Value::Bool(false)) => None,
            Some(Value::String(message)) => Some(Self::of_text(message)),
            Some(error) => Some(Self::of_object(error)),
        }
    }

    /// Returns the fault in the object of an error.
    pub(super) fn of_object(error: &Value) -> Self {
        let code = error.get("code");
        let number = code.and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()));
        let word = code.and_then(Value::as_str).filter(|code| !code.is_empty() && number.is_none());
        let message = text(error, "/message").map_or_else(|| error.to_string(), str::to_owned);
        Self {
            status: number.and_then(|number| u16::try_from(number).ok()).filter(|status| (400..600).contains(status)),
            code: word.or_else(|| text(error, "/type")).map(str::to_owned),
            message,
        }
    }

    /// Returns a fault with `message` alone.
    fn of_text(message: &str) -> Self {
        Self { status: None, code: None, message: message.to_owned() }
    }

    /// Returns a fault with `code` and `message`.
    pub(super) fn of_words(code: &str, message: &str) -> Self {
        Self { code: Some(code.to_owned()), ..Self::of_text(message) }
    }
}

/// Returns the fault in the body of an answer with an error status: an envelope, other JSON, a stream of events, a
/// page, or nothing.
pub fn fault_of(body: &[u8]) -> Fault {
    let body = String::from_utf8_lossy(body);
    let plain = Fault::of_text;
    match serde_json::from_str::<Value>(body.trim()) {
        Ok(Value::Array(list)) if !list.is_empty() => fault_of(list[0].to_string().as_bytes()),
        Ok(value) => Fault::in_envelope(&value).unwrap_or_else(|| {
            let words = text(&value, "/message").or_else(|| text(&value, "/detail"));
            plain(words.unwrap_or(&body))
        }),
        Err(_) if body.trim().is_empty() => plain("without a word of explanation"),
        Err(_) if body.trim_start().starts_with('<') => plain("with a page instead of an answer"),
        Err(_) => in_stream(&body).unwrap_or_else(|| plain(&body)),
    }
}

/// Returns the first fault in an event of the stream `body`: servers send faults as events when a stream was
/// requested. A line that is no event may be JSON itself, as Ollama's are.
fn in_stream(body: &str) -> Option<Fault> {
    let (mut lines, mut events, mut found) = (Lines::new(body.len()), Events::default(), None);
    let mut find = |data: &str| {
        let value: Option<Value> = serde_json::from_str(data).ok();
        found = found.take().or_else(|| in_event(&value?));
        Ok(())
    };
    let mut line = |line: &str| {
        if line.starts_with('{') { find(line) } else { events.line(line, body.len(), |_, data| find(data)) }
    };
    // An empty line ends the last event. Nothing here exceeds the body itself.
    let read = lines.push(body.as_bytes(), &mut line).and_then(|()| lines.finish(&mut line)).and_then(|()| line(""));
    read.ok().and(found)
}

/// Returns the fault in an event, if any: in an envelope, in that of its response, or the event itself.
fn in_event(event: &Value) -> Option<Fault> {
    let enveloped = Fault::in_envelope(event).or_else(|| Fault::in_envelope(event.get("response")?));
    enveloped.or_else(|| (text(event, "/type") == Some("error")).then(|| Fault::of_object(event)))
}

/// Returns at most [`MESSAGE_CHARACTERS`] of `text`, in one line.
fn shortened(text: &str) -> String {
    let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = words.char_indices().nth(MESSAGE_CHARACTERS) {
        words.truncate(end);
        words.push('…');
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_envelope_tells_its_fault() {
        #[rustfmt::skip]
        let cases: [(&str, Option<u16>, Option<&str>, &str); 17] = [
            (r#"{"error":{"message":"no","type":"t","code":"c"}}"#, None, Some("c"), "no"),
            (r#"{"error":{"message":"no","type":"t","code":null}}"#, None, Some("t"), "no"),
            (r#"{"error":{"message":"no","code":429}}"#, Some(429), None, "no"),
            (r#"{"error":{"message":"no","code":"429"}}"#, Some(429), None, "no"),
            (r#"{"type":"error","error":{"type":"overloaded_error","message":"no"}}"#, None, Some("overloaded_error"), "no"),
            (r#"{"error":"no"}"#, None, None, "no"),
            (r#"{"detail":"no"}"#, None, None, "no"),
            ("", None, None, "without a word of explanation"),
            ("<html><h1>502</h1>", None, None, "with a page instead of an answer"),
            // The same fault as a stream, whole or cut, in every dialect.
            ("data: {\"error\":{\"message\":\"no\",\"code\":429}}\n\ndata: [DONE]\n\n", Some(429), None, "no"),
            (": wait\r\n\r\ndata: {\"id\":1}\r\n\r\ndata: {\"error\":\"no\"}", None, None, "no"),
            ("event: error\ndata: {\"type\":\"error\",\ndata: \"error\":{\"type\":\"t\",\"message\":\"no\"}}\n\n", None, Some("t"), "no"),
            ("data: {\"type\":\"error\",\"code\":\"c\",\"message\":\"no\"}\n\n", None, Some("c"), "no"),
            ("data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"c\",\"message\":\"no\"}}}\n\n", None, Some("c"), "no"),
            ("{\"model\":\"m\"}\n{\"error\":\"no\"}\n", None, None, "no"),
            ("data: {\"id\":1}\n\n", None, None, "data: {\"id\":1}\n\n"),
            ("data: [DONE", None, None, "data: [DONE"),
        ];
        for (body, status, code, message) in cases {
            let expected = Fault { status, code: code.map(str::to_owned), message: message.to_owned() };
            assert_eq!(fault_of(body.as_bytes()), expected, "{body}");
        }
    }

    #[test]
    fn words_are_shortened_when_they_are_shown_and_not_before() {
        let (long, shown) = ("x y\n".repeat(1_000), MESSAGE_CHARACTERS + 1);
        let fault = fault_of(long.as_bytes());
        assert_eq!((fault.message.as_str(), fault.to_string().chars().count()), (long.as_str(), shown));
        let fault = Fault::of_words(&long, &long);
        assert_eq!(fault.to_string().chars().count(), 2 * shown + " ()".len());
    }
}
