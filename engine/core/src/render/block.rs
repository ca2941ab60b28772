//! Parts as JSON blocks: what a provider's codec, `baton show --messages` and the request's hash are made of.
//!
//! A document's text is always a JSON string inside a typed block, so nothing in it can end the block or begin another.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::{Message, Part};
use crate::call::CallResult;
use crate::document::DocumentVersion;
use crate::entry::{Notice, ReminderReason};
use crate::function::Content;
use crate::id::ContentHash;

/// The contents that `message` names: whoever sends it must resolve these.
pub fn contents_of(message: &Message) -> Vec<ContentHash> {
    let mut hashes = Vec::new();
    for part in &message.parts {
        match part {
            Part::Document(version) => hashes.push(version.content.hash),
            Part::Conflict { base, current } => {
                hashes.extend(base.iter().map(|base| base.content.hash));
                hashes.push(current.content.hash);
            }
            Part::Request(_)
            | Part::Question { .. }
            | Part::Text(_)
            | Part::Call { .. }
            | Part::Result { .. }
            | Part::Pointer(_)
            | Part::Notice(_) => {}
        }
    }
    hashes
}

/// `message` as typed content blocks, documents resolved through `content`.
pub fn message_blocks(message: &Message, content: &dyn Fn(ContentHash) -> Option<Content>) -> Value {
    let blocks: Vec<Value> = message
        .parts
        .iter()
        .map(|part| {
            let mut block = plain_part(part);
            match part {
                Part::Document(version) => block["source"] = source(version, content(version.content.hash)),
                Part::Conflict { base, current } => {
                    let before = base.as_ref().and_then(|base| content(base.content.hash));
                    block["diff"] = diff(before, content(current.content.hash));
                }
                _ => {}
            }
            block
        })
        .collect();
    json!({"role": message.role, "content": blocks})
}

/// A part without the bytes of documents, which stand there by hash.
pub(super) fn plain_part(part: &Part) -> Value {
    match part {
        Part::Request(text) | Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Question { asker, question, answer_schema } => {
            let mut block = json!({
                "type": "question",
                "asker": asker,
                "text": question,
                "instruction": "You are asked this as the master of the agent named in asker. Your next text, or a handoff, is the answer.",
            });
            if !answer_schema.is_null() {
                block["answer_schema"] = answer_schema.value();
            }
            block
        }
        Part::Call { provider_id, tool, input, call: _ } => {
            json!({"type": "tool_call", "id": provider_id, "tool": tool, "input": input.value()})
        }
        Part::Result { provider_id, tool, result, repeat, said, call: _ } => {
            let mut block = result_block(tool, result.as_ref(), *repeat);
            block["id"] = json!(provider_id);
            if !said.is_empty() {
                block["answered_in_your_name"] = json!(said);
            }
            block
        }
        Part::Document(version) => {
            let mut block = record(version);
            block["type"] = json!(if is_image(version) { "image" } else { "document" });
            block["hash"] = json!(version.content.hash);
            block
        }
        Part::Pointer(version) => {
            let mut block = record(version);
            block["type"] = json!("document_pointer");
            block["note"] = json!("too long to be shown here; load it if you need more than this summary");
            block
        }
        Part::Conflict { base, current } => json!({
            "type": "conflict",
            "path": current.path,
            "base_version": base.as_ref().map(|base| base.version),
            "current_version": current.version,
            "current_hash": current.content.hash,
        }),
        Part::Notice(notice) => json!({"type": "notice", "text": notice_text(notice)}),
    }
}

fn result_block(tool: &str, result: Option<&CallResult>, repeat: u32) -> Value {
    let Some(result) = result else {
        return json!({"type": "tool_result", "tool": tool, "status": "waiting"});
    };
    let mut block = json!({"type": "tool_result", "tool": tool, "status": result.status});
    if !result.output.is_null() {
        block["output"] = result.output.value();
    }
    if let Some(error) = &result.error {
        block["error"] = error.to_value();
    }
    if repeat >= 2 {
        block["hint"] =
            json!(format!("the same result for the same input, {repeat} times in a row: doing it again will not help"));
    }
    block
}

/// A document's record, as a model sees it.
fn record(version: &DocumentVersion) -> Value {
    let mut block = json!({
        "title": format!("{}@v{}", version.path, version.version),
        "path": version.path,
        "version": version.version,
        "media_type": version.content.mime_type,
        "size_bytes": version.content.size_bytes,
    });
    for (key, text) in [("summary", &version.content.summary), ("description", &version.description)] {
        if !text.is_empty() {
            block[key] = json!(text);
        }
    }
    block
}

fn is_image(version: &DocumentVersion) -> bool {
    version.content.mime_type.starts_with("image/") && version.content.mime_type != "image/svg+xml"
}

/// The bytes of a document as a typed source: text where they are UTF-8, base64 elsewhere.
fn source(version: &DocumentVersion, content: Option<Content>) -> Value {
    let media_type = &version.content.mime_type;
    match content {
        None => json!({"type": "missing", "media_type": media_type}),
        Some(content) => match std::str::from_utf8(&content) {
            Ok(text) if !is_image(version) => json!({"type": "text", "media_type": media_type, "data": text}),
            _ => json!({"type": "base64", "media_type": media_type, "data": BASE64.encode(&content)}),
        },
    }
}

/// What changed between the version a writer knew and the one that stands, as a unified diff.
fn diff(before: Option<Content>, current: Option<Content>) -> Value {
    let text =
        |content: &Option<Content>| content.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default();
    let (before, current) = (text(&before), text(&current));
    let unified =
        similar::TextDiff::from_lines(&before, &current).unified_diff().context_radius(3).header("known", "current").to_string();
    Value::from(unified)
}

/// What the engine tells an agent, in words.
fn notice_text(notice: &Notice) -> String {
    match notice {
        Notice::Reminder { count, reason } => {
            let what = match reason {
                ReminderReason::Empty => "Your last turn was empty",
                ReminderReason::TextOnly => "Your last turn was text only",
                ReminderReason::InvalidResult => {
                    "Your last turn's text does not meet the schema that is promised for your result"
                }
                ReminderReason::Cut => "Your last turn was cut because it was too long; nothing of it was executed",
                ReminderReason::Filtered => "Your last turn was withheld by the provider; nothing of it was executed",
                ReminderReason::Declined => "Your last turn was a refusal",
            };
            format!("{what}. Use a tool, and finish with a handoff. Reminder {count} of 2: after that the task fails.")
        }
        Notice::LastTurn { limit } => {
            format!("{limit} is reached. This is your last turn: hand off what you have now. No other tool is accepted.")
        }
        Notice::Steer { text } => format!("A person says: {text}"),
    }
}
