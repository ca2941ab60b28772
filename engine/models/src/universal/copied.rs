//! Detection of copies: envelopes that a document, a result, a request or a question has.

use baton_types::message::{Message, Part, Role, contents_of, message_blocks};
use baton_types::model::ModelRequest;
use serde_json::Value;

use super::envelope::is_envelope;
use super::noise::{Values, values};
use crate::error::ModelError;
use crate::model::ContentSource;

/// Number of brackets within each other that are searched for JSON where they are not JSON themselves.
const PROSE_DEPTH: u32 = 8;

/// Whether an envelope is in a message of `request` that the model did not write.
///
/// `text` is compared without white space, `object` by its values. So a copy with another order of keys, without comments or
/// in another form of the envelope is found as well.
pub(crate) async fn is_copied(
    text: &str,
    object: &Value,
    request: &ModelRequest,
    contents: &dyn ContentSource,
) -> Result<bool, ModelError> {
    let envelope = Envelope { text: without_space(text), object };
    // The error of an unreadable call quotes the model's own text. A model may write that again, and correctly this time.
    let is_own = |part: &Part| matches!(part, Part::Result { asked, .. } if asked.malformed.is_some());
    for message in request.messages.iter().filter(|message| message.role != Role::Assistant) {
        let parts = message.parts.iter().filter(|part| !is_own(part)).cloned().collect();
        let message = Message { role: message.role, parts };
        if envelope.is_in(&message_blocks(&message, &|_| None)) {
            return Ok(true);
        }
        for hash in contents_of(&message) {
            let content = contents.content(hash).await?;
            if std::str::from_utf8(&content).is_ok_and(|text| envelope.is_in_text(text)) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// An envelope to search for.
struct Envelope<'a> {
    /// All of its text, without white space.
    text: String,
    /// Its object that requests calls.
    object: &'a Value,
}

impl Envelope<'_> {
    /// Whether `value` is the envelope, or holds it as a value or within a string.
    fn is_in(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.is_in_text(text),
            Value::Array(values) => values.iter().any(|value| self.is_in(value)),
            Value::Object(object) => {
                (is_envelope(value) && value == self.object) || object.values().any(|value| self.is_in(value))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    fn is_in_text(&self, text: &str) -> bool {
        (text.len() >= self.text.len() && without_space(text).contains(&self.text)) || self.is_in_json(text, PROSE_DEPTH)
    }

    /// Whether the JSON in a text holds the envelope.
    fn is_in_json(&self, text: &str, depth: u32) -> bool {
        let Values { found, unreadable, open, fences: _ } = values(text);
        let within = |bracket: &str| bracket.get(1..).is_some_and(|inner| depth > 0 && self.is_in_json(inner, depth - 1));
        found.iter().any(|found| self.is_in(&found.value)) || unreadable.iter().any(|(text, _)| within(text)) || within(open)
    }
}

fn without_space(text: &str) -> String {
    text.chars().filter(|each| !each.is_whitespace()).collect()
}
