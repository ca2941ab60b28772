//! Detection of copies: envelopes whose text comes from a document, a result, a request or a question.

use baton_types::message::{Message, Part, Role, contents_of};
use baton_types::model::ModelRequest;
use serde_json::Value;

use super::envelope::is_envelope;
use crate::error::ModelError;
use crate::model::ContentSource;

/// Whether `envelope` is in a text of `request` that the model did not write. White space is not compared.
pub(crate) async fn is_copied(envelope: &str, request: &ModelRequest, contents: &dyn ContentSource) -> Result<bool, ModelError> {
    let envelope = without_space(envelope);
    for message in request.messages.iter().filter(|message| message.role != Role::Assistant) {
        if texts(message).any(|text| holds(text, &envelope)) {
            return Ok(true);
        }
        for hash in contents_of(message) {
            let content = contents.content(hash).await?;
            let Ok(text) = std::str::from_utf8(&content) else { continue };
            let holds_it = |value: Value| output_holds(&value, &envelope);
            if holds(text, &envelope) || serde_json::from_str(text).is_ok_and(holds_it) {
                return Ok(true);
            }
        }
    }
    let results = request.messages.iter().flat_map(|message| &message.parts).filter_map(|part| match part {
        Part::Result { result: Some(result), .. } => Some(result.output.value()),
        _ => None,
    });
    Ok(results.into_iter().any(|output| output_holds(&output, &envelope)))
}

/// Returns the texts of a message, without those of documents and results.
fn texts(message: &Message) -> impl Iterator<Item = &str> {
    message.parts.iter().filter_map(|part| match part {
        Part::Request(text) | Part::Text(text) | Part::Summary { text, .. } => Some(text.as_str()),
        Part::Question { question, .. } => Some(question.as_str()),
        Part::Attempt { reason, .. } => Some(reason.as_str()),
        _ => None,
    })
}

/// Whether an output is the envelope, or holds it as a value or within a string.
fn output_holds(output: &Value, envelope: &str) -> bool {
    let holds_it = |value: &Value| match value {
        Value::String(text) => holds(text, envelope),
        Value::Object(_) => is_envelope(value) && without_space(&value.to_string()) == envelope,
        _ => false,
    };
    holds_it(output)
        || match output {
            Value::Array(values) => values.iter().any(|value| output_holds(value, envelope)),
            Value::Object(object) => object.values().any(|value| output_holds(value, envelope)),
            _ => false,
        }
}

fn holds(text: &str, envelope: &str) -> bool {
    text.len() >= envelope.len() && without_space(text).contains(envelope)
}

fn without_space(text: &str) -> String {
    text.chars().filter(|each| !each.is_whitespace()).collect()
}
