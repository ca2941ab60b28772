//! What a provider says instead of an answer.

use serde_json::Value;

use super::value::text;

/// How much of a provider's own words is kept, in characters.
const MESSAGE_CHARACTERS: usize = 600;

/// A provider's refusal to answer, in its own words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// The status that the words themselves tell, such as OpenRouter's `code: 429`.
    pub status: Option<u16>,
    /// The kind of error, such as `overloaded_error` or `model_not_found`.
    pub code: Option<String>,
    /// What it says, shortened.
    pub message: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.code {
            Some(code) => write!(f, "{} ({code})", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl Fault {
    /// Whether it says that the request is longer than the model's window: by its code, or in the words that providers have
    /// for it. `OpenAI` and those like it have a code, Anthropic's `prompt is too long` and vLLM's and OpenRouter's
    /// `maximum context length` are words only, and llama.cpp has both.
    pub(crate) fn tells_of_length(&self) -> bool {
        let code = self.code.as_deref().unwrap_or_default();
        let words = self.message.to_lowercase();
        matches!(code, "context_length_exceeded" | "exceed_context_size_error" | "model_max_prompt_tokens_exceeded")
            || ["prompt is too long", "maximum context length", "exceeds the available context size", "context window"]
                .iter()
                .any(|told| words.contains(told))
    }

    /// The fault that `value` tells, if it is an envelope of an error: `{"error": …}` in any of its forms, at any status.
    pub(super) fn in_envelope(value: &Value) -> Option<Self> {
        match value.get("error") {
            None | Some(Value::Null | Value::Bool(false)) => None,
            Some(Value::String(message)) => Some(Self { status: None, code: None, message: shortened(message) }),
            Some(error) => Some(Self::of_object(error)),
        }
    }

    /// The fault that the object of an error tells.
    pub(super) fn of_object(error: &Value) -> Self {
        let code = error.get("code");
        let number = code.and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()));
        let word = code.and_then(Value::as_str).filter(|code| !code.is_empty() && number.is_none());
        let message = text(error, "/message").map_or_else(|| error.to_string(), str::to_owned);
        Self {
            status: number.and_then(|number| u16::try_from(number).ok()).filter(|status| (400..600).contains(status)),
            code: word.or_else(|| text(error, "/type")).map(str::to_owned),
            message: shortened(&message),
        }
    }

    /// The fault that is told by `code` and `message`.
    pub(super) fn of_words(code: &str, message: &str) -> Self {
        Self { status: None, code: Some(code.to_owned()), message: shortened(message) }
    }
}

/// The fault that the body of an answer with an error status tells, whatever it is: an envelope, other JSON, a page, nothing.
pub fn fault_of(body: &[u8]) -> Fault {
    let body = String::from_utf8_lossy(body);
    let plain = |message: &str| Fault { status: None, code: None, message: shortened(message) };
    match serde_json::from_str::<Value>(body.trim()) {
        Ok(Value::Array(list)) if !list.is_empty() => fault_of(list[0].to_string().as_bytes()),
        Ok(value) => Fault::in_envelope(&value).unwrap_or_else(|| {
            let words = text(&value, "/message").or_else(|| text(&value, "/detail"));
            plain(words.unwrap_or(&body))
        }),
        Err(_) if body.trim().is_empty() => plain("without a word of explanation"),
        Err(_) if body.trim_start().starts_with('<') => plain("with a page instead of an answer"),
        Err(_) => plain(&body),
    }
}

/// At most [`MESSAGE_CHARACTERS`] of `text`, in one line.
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
        let cases: [(&str, Option<u16>, Option<&str>, &str); 9] = [
            (r#"{"error":{"message":"no","type":"t","code":"c"}}"#, None, Some("c"), "no"),
            (r#"{"error":{"message":"no","type":"t","code":null}}"#, None, Some("t"), "no"),
            (r#"{"error":{"message":"no","code":429}}"#, Some(429), None, "no"),
            (r#"{"error":{"message":"no","code":"429"}}"#, Some(429), None, "no"),
            (r#"{"type":"error","error":{"type":"overloaded_error","message":"no"}}"#, None, Some("overloaded_error"), "no"),
            (r#"{"error":"no"}"#, None, None, "no"),
            (r#"{"detail":"no"}"#, None, None, "no"),
            ("", None, None, "without a word of explanation"),
            ("<html><h1>502</h1>", None, None, "with a page instead of an answer"),
        ];
        for (body, status, code, message) in cases {
            let expected = Fault { status, code: code.map(str::to_owned), message: message.to_owned() };
            assert_eq!(fault_of(body.as_bytes()), expected, "{body}");
        }
        assert_eq!(fault_of("x y\n".repeat(1_000).as_bytes()).message.chars().count(), MESSAGE_CHARACTERS + 1);
    }
}
