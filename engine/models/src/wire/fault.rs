//! Faults that a provider sends instead of an answer.

use std::fmt;
use std::time::Duration;

use baton_types::text::shortened;
use serde_json::Value;

use super::sse::{Events, Lines};
use super::value::{list, text};

/// Number of characters shown of a provider's message.
const MESSAGE_CHARACTERS: usize = 600;

/// A provider's refusal to answer, in its own words. They are whole, and only shortened when they are shown: a secret that was cut
/// in two would not be found any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// The status that the words themselves tell, such as OpenRouter's `code: 429`.
    pub status: Option<u16>,
    /// The code of the error, such as `model_not_found`; its type where it has none.
    pub code: Option<String>,
    /// The type of the error beside its code, such as `invalid_request_error`.
    pub kind: Option<String>,
    /// Its message.
    pub message: String,
    /// Time that the message itself asks to wait.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&line(&self.message))?;
        self.code.as_ref().map_or(Ok(()), |code| write!(f, " ({})", line(code)))
    }
}

impl Fault {
    /// Returns the same fault with messages that `scrubbed` has removed secrets from.
    pub(crate) fn scrubbed(&self, scrubbed: impl Fn(&str) -> String) -> Self {
        let [code, kind] = [&self.code, &self.kind].map(|word| word.as_deref().map(&scrubbed));
        Self { code, kind, message: scrubbed(&self.message), ..*self }
    }

    /// Returns the fault in `value`, if it is an envelope of an error: `{"error": …}` in any of its forms, or an object that names
    /// itself an error, at any status.
    pub(super) fn in_envelope(value: &Value) -> Option<Self> {
        match value.get("error") {
            None | Some(Value::Null | Value::Bool(false)) => {
                (text(value, "/object") == Some("error")).then(|| Self::of_object(value))
            }
            Some(Value::String(message)) => {
                Some(Self { code: text(value, "/code").map(str::to_owned), ..Self::of_text(message) })
            }
            Some(error) => Some(Self::of_object(error)),
        }
    }

    /// Returns the fault in the object of an error. A router's fault is that of its upstream, if it has one.
    pub(super) fn of_object(error: &Value) -> Self {
        let code = error.get("code");
        let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
        let is_status = |number: &u16| (400..600).contains(number);
        let as_status = |value: &Value| number(value).and_then(|number| u16::try_from(number).ok()).filter(is_status);
        let status = ["code", "status_code", "status"].iter().find_map(|key| as_status(error.get(key)?));
        let named = code.filter(|code| as_status(code).is_none());
        let word = named.and_then(|code| code.as_str().map(str::to_owned).or_else(|| number(code).map(|code| code.to_string())));
        // The type of errors of Google is their status, the code a reason in the details.
        let reason = list(error, "/details").iter().find_map(|detail| text(detail, "/reason"));
        let kind = text(error, "/type").or_else(|| text(error, "/status")).map(str::to_owned);
        let code = word.filter(|word| !word.is_empty()).or_else(|| reason.map(str::to_owned));
        let (code, kind) = if code.is_some() { (code, kind) } else { (kind, None) };
        let message = text(error, "/message").or_else(|| text(error, "/Message"));
        let mut message = message.map_or_else(|| error.to_string(), str::to_owned);
        // Groq: the text of the model that its server could not read.
        if let Some(written) = text(error, "/failed_generation") {
            message = format!("{message}: {written}");
        }
        let fault = Self {
            status,
            code,
            kind,
            message,
            retry_after: list(error, "/details").iter().find_map(|detail| retry_delay(text(detail, "/retryDelay")?)),
        };
        fault.with_upstream(error)
    }

    /// Adds the message of a router's upstream (`OpenRouter`'s `metadata`), which the router's own message leaves out.
    fn with_upstream(mut self, error: &Value) -> Self {
        let raw = match error.pointer("/metadata/raw") {
            Some(Value::String(raw)) if !raw.trim().is_empty() => fault_of(raw.as_bytes()),
            Some(raw @ Value::Object(_)) => fault_of(raw.to_string().as_bytes()),
            _ => return self,
        };
        let provider = text(error, "/metadata/provider_name").unwrap_or("upstream");
        self.message = format!("{}: {provider}: {}", self.message, raw.message);
        self.kind = self.kind.or(raw.kind);
        self.code = raw.code.or(self.code);
        self.retry_after = self.retry_after.or(raw.retry_after);
        self
    }

    /// Returns a fault with `message` alone.
    fn of_text(message: &str) -> Self {
        Self { message: message.to_owned(), ..Self::default() }
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
        Ok(value) => Fault::in_envelope(&value).unwrap_or_else(|| match text(&value, "/detail") {
            Some(words) => plain(words),
            None if ["message", "Message"].iter().any(|key| value.get(key).is_some()) => Fault::of_object(&value),
            None => plain(&body),
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

/// Returns the time in `text`, seconds such as `34.4s`.
fn retry_delay(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.strip_suffix('s')?.parse().ok()?).ok()
}

/// Returns at most [`MESSAGE_CHARACTERS`] of `text`, in one line.
fn line(text: &str) -> String {
    shortened(&text.split_whitespace().collect::<Vec<_>>().join(" "), MESSAGE_CHARACTERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_envelope_tells_its_fault() {
        #[rustfmt::skip]
        let cases: [(&str, Option<u16>, Option<&str>, &str); 22] = [
            (r#"{"error":{"message":"no","type":"t","code":"c"}}"#, None, Some("c"), "no"),
            (r#"{"error":{"message":"no","type":"t","code":null}}"#, None, Some("t"), "no"),
            (r#"{"error":{"message":"no","code":429}}"#, Some(429), None, "no"),
            (r#"{"error":{"message":"no","code":"429"}}"#, Some(429), None, "no"),
            (r#"{"type":"error","error":{"type":"overloaded_error","message":"no"}}"#, None, Some("overloaded_error"), "no"),
            (r#"{"error":"no"}"#, None, None, "no"),
            (r#"{"detail":"no"}"#, None, None, "no"),
            // Flat, as Cerebras, Mistral and vLLM have them; with a number that is no status, and with another key for the status.
            (r#"{"message":"no","type":"t","code":"c"}"#, None, Some("c"), "no"),
            (r#"{"object":"error","message":"no","type":"t","code":"1500"}"#, None, Some("1500"), "no"),
            (r#"{"error":{"message":"no","type":"t","code":"c","status_code":400}}"#, Some(400), Some("c"), "no"),
            (r#"{"code":"c","error":"no"}"#, None, Some("c"), "no"),
            (r#"{"error":{"message":"no","code":429,"metadata":{"raw":"{\"error\":{\"message\":\"why\",\"code\":\"c\"}}","provider_name":"P"}}}"#, Some(429), Some("c"), "no: P: why"),
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
            let fault = fault_of(body.as_bytes());
            assert_eq!((fault.status, fault.code.as_deref(), fault.message.as_str()), (status, code, message), "{body}");
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
