//! Parts as JSON blocks: what a provider's codec, `baton show --messages` and the request's hash are made of.
//!
//! A document's text is always a JSON string inside a typed block, so nothing in it can end the block or begin another.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Message, Part, RepeatHint};
use crate::call::CallError;
use crate::document::Content;
use crate::document::{DocumentRef, DocumentVersion, may_be_text};
use crate::entry::{LimitsLeft, Notice, ReminderReason, Said};
use crate::id::{AgentId, ContentHash, TaskId, ToolId};
use crate::json::Json;
use crate::path::DocumentPath;

/// Maximum number of characters of an input in a notice.
const INPUT_SHOWN: usize = 2_000;

/// Returns the contents that `message` names, which the sender must resolve.
pub fn contents_of(message: &Message) -> Vec<ContentHash> {
    let mut hashes = Vec::new();
    for part in &message.parts {
        match part {
            Part::Document(version) => hashes.push(version.content.hash),
            Part::Conflict { base, current, with_changes: true } => {
                hashes.extend(base.iter().map(|base| base.content.hash));
                hashes.push(current.content.hash);
            }
            Part::Request(_)
            | Part::Question { .. }
            | Part::Attempt { .. }
            | Part::Text(_)
            | Part::Items(_)
            | Part::Call { .. }
            | Part::Result { .. }
            | Part::Pointer(_)
            | Part::Repeated(_)
            | Part::Conflict { with_changes: false, .. }
            | Part::Summary { .. }
            | Part::Notice(_)
            | Part::TaskResult(_)
            | Part::Instruction { .. } => {}
        }
    }
    hashes
}

/// `message` as typed content blocks, documents resolved through `content`.
pub fn message_blocks(message: &Message, content: &dyn Fn(ContentHash) -> Option<Content>) -> Value {
    let blocks: Vec<Value> = message.parts.iter().map(|part| part_block(part, content)).collect();
    json!({"role": message.role, "content": blocks})
}

/// `part` as a typed content block, its document resolved through `content`.
pub fn part_block(part: &Part, content: &dyn Fn(ContentHash) -> Option<Content>) -> Value {
    let mut block = serde_json::to_value(Block::of(part)).expect("a part always serialises");
    match part {
        Part::Document(version) => block["source"] = source(version, content(version.content.hash)),
        Part::Conflict { base, current, with_changes: true } => {
            let before = base.as_ref().and_then(|base| content(base.content.hash));
            block["diff"] = diff(before, content(current.content.hash));
        }
        _ => {}
    }
    block
}

/// A part as a JSON block, without the bytes of documents, which are named by hash. Borrowed, so that hashing a
/// message or sending it copies nothing first.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: &'a str,
    },
    Question {
        asker: &'a AgentId,
        text: &'a str,
        instruction: &'static str,
        #[serde(skip_serializing_if = "Json::is_null")]
        answer_schema: &'a Json,
    },
    Attempt {
        number: u32,
        reason: &'a str,
        note: &'static str,
    },
    VendorItems {
        kept: &'a Json,
    },
    ToolCall {
        id: &'a Option<Box<str>>,
        tool: &'a str,
        input: &'a Json,
    },
    ToolResult {
        tool: &'a str,
        status: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        output: Option<Cow<'a, Json>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        hint: Option<RepeatHint>,
        id: &'a Option<Box<str>>,
        #[serde(skip_serializing_if = "<[Said]>::is_empty")]
        answered_in_your_name: &'a [Said],
    },
    Document(Record<'a>),
    Image(Record<'a>),
    DocumentPointer(Record<'a>),
    Conflict {
        path: &'a DocumentPath,
        base_version: Option<u32>,
        current_version: u32,
        current_hash: &'a ContentHash,
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<&'static str>,
    },
    Summary {
        through_turn: u32,
        text: &'a str,
        note: &'static str,
    },
    Notice {
        text: String,
    },
    TaskResult {
        task: &'a TaskId,
        tool: &'a ToolId,
        status: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        output: Option<Cow<'a, Json>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Value>,
        #[serde(skip_serializing_if = "<[Said]>::is_empty")]
        answered_in_your_name: &'a [Said],
        note: &'static str,
    },
    Instruction {
        from: &'a AgentId,
        text: &'a str,
    },
}

/// Note on a document whose content did not fit into the request.
const TOO_LONG: &str = "there is no room for the content here; read the parts that you need";

/// Note on a document that is not text: there is no room for it, or a model does not take its type.
const FOR_TOOLS: &str = "the content is not shown here; tools can read it, some as text by page, lines or block";

/// Note on a document whose content the conversation has already.
const REPEATED: &str = "the content of this version is in an earlier part of this conversation";

/// A document's record, as a model sees it.
#[derive(Serialize)]
struct Record<'a> {
    title: DocumentRef,
    path: &'a DocumentPath,
    version: u32,
    media_type: &'a str,
    size_bytes: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    summary: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<&'a ContentHash>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

impl<'a> Block<'a> {
    fn of(part: &'a Part) -> Self {
        match part {
            Part::Request(text) | Part::Text(text) => Self::Text { text },
            Part::Question { asker, question, answer_schema } => Self::Question {
                asker,
                text: question,
                instruction: "You are asked this as the master of the agent named in asker. Your next text, or a handoff, is the answer.",
                answer_schema,
            },
            Part::Attempt { number, reason } => Self::Attempt {
                number: *number,
                reason,
                note: "the attempt before failed for this reason; the documents that it wrote, if any, are attached",
            },
            Part::Items(kept) => Self::VendorItems { kept },
            Part::Call { asked, call: _ } => Self::ToolCall { id: &asked.provider_id, tool: &asked.tool, input: &asked.input },
            Part::Result { asked, result, hint, said, call: _ } => Self::ToolResult {
                tool: asked.shown_name(),
                status: result.as_ref().map_or("waiting", |result| result.status.as_str()),
                output: result.as_ref().map(|result| result.output.shown()).filter(|output| !output.is_null()),
                error: result.as_ref().and_then(|result| result.error.as_ref()).map(CallError::to_value),
                hint: *hint,
                id: &asked.provider_id,
                answered_in_your_name: said,
            },
            Part::Document(version) if is_image(version) => Self::Image(Record::of(version, None)),
            Part::Document(version) => Self::Document(Record::of(version, None)),
            Part::Pointer(version) if !may_be_text(&version.content.mime_type) => {
                Self::DocumentPointer(Record::of(version, Some(FOR_TOOLS)))
            }
            Part::Pointer(version) => Self::DocumentPointer(Record::of(version, Some(TOO_LONG))),
            Part::Repeated(version) => Self::DocumentPointer(Record::of(version, Some(REPEATED))),
            Part::Conflict { base, current, with_changes } => Self::Conflict {
                path: &current.path,
                note: (!with_changes).then_some(TOO_LONG),
                base_version: base.as_ref().map(|base| base.version),
                current_version: current.version,
                current_hash: &current.content.hash,
            },
            Part::Summary { through_turn, text } => Self::Summary {
                through_turn: *through_turn,
                text,
                note: "replaces your turns up to through_turn; documents can be loaded again",
            },
            Part::Notice(notice) => Self::Notice { text: notice.text() },
            Part::TaskResult(ended) => Self::TaskResult {
                task: &ended.task,
                tool: &ended.tool,
                status: ended.result.status.as_str(),
                output: Some(ended.result.output.shown()).filter(|output| !output.is_null()),
                error: ended.result.error.as_ref().map(CallError::to_value),
                answered_in_your_name: &ended.said,
                note: "this task, which you began in the background, has ended",
            },
            Part::Instruction { from, text } => Self::Instruction { from, text },
        }
    }
}

impl<'a> Record<'a> {
    fn of(version: &'a DocumentVersion, note: Option<&'static str>) -> Self {
        Self {
            title: version.reference(),
            path: &version.path,
            version: version.version,
            media_type: &version.content.mime_type,
            size_bytes: version.content.size_bytes,
            summary: &version.content.summary,
            description: &version.description,
            hash: note.is_none().then_some(&version.content.hash),
            note,
        }
    }

    /// Appends the record, which is shown as a block of this `kind`.
    fn put(&self, kind: &str, form: &mut Vec<u8>) {
        let Self { title: _, path, version, media_type, size_bytes, summary, description, hash, note } = self;
        put([kind, path.as_str(), media_type, summary, description, note.unwrap_or_default()], form);
        form.extend_from_slice(&version.to_le_bytes());
        form.extend_from_slice(&size_bytes.to_le_bytes());
        form.extend_from_slice(hash.map_or(&[], |hash| hash.as_bytes()));
    }
}

/// Returns the hash of a conversation as a provider sees it: `before` is the hash of all messages but the last, which is `message`. Call ids
/// are left out, since they hold the task's path. A document that is shown whole counts by the hash of its content.
pub fn conversation_hash(before: ContentHash, message: &Message) -> ContentHash {
    ContentHash::of_written(|form| {
        form.extend_from_slice(before.as_bytes());
        put_json(&message.role, form);
        for part in &message.parts {
            match Block::of(part) {
                Block::Text { text } => put(["text", text], form),
                Block::Image(record) => record.put("image", form),
                Block::Document(record) => record.put("document", form),
                Block::DocumentPointer(record) => record.put("pointer", form),
                Block::ToolCall { id: Some(id), tool, input } => put(["call", id, tool, input.text()], form),
                Block::ToolCall { id: None, tool, input } => put(["call without id", tool, input.text()], form),
                Block::ToolResult {
                    tool,
                    status,
                    output: Some(output),
                    error: None,
                    hint: None,
                    id,
                    answered_in_your_name: [],
                } => match id {
                    Some(id) => put(["result", tool, status, output.text(), id], form),
                    None => put(["result without id", tool, status, output.text()], form),
                },
                block => put_json(&block, form),
            }
            // A provider may see what has changed since this version.
            if let Part::Conflict { base: Some(base), .. } = part {
                form.extend_from_slice(base.content.hash.as_bytes());
            }
        }
    })
}

/// Appends `texts`, each after its length, so that no other texts have the same bytes.
fn put<const N: usize>(texts: [&str; N], form: &mut Vec<u8>) {
    for text in texts {
        form.extend_from_slice(&(text.len() as u64).to_le_bytes());
        form.extend_from_slice(text.as_bytes());
    }
}

fn put_json(value: &impl Serialize, form: &mut Vec<u8>) {
    serde_json::to_writer(form, value).expect("a message always serialises");
}

fn is_image(version: &DocumentVersion) -> bool {
    version.content.mime_type.starts_with("image/") && version.content.mime_type != "image/svg+xml"
}

/// Returns the bytes of a document as a typed source: text where they are UTF-8, base64 elsewhere.
fn source(version: &DocumentVersion, content: Option<Content>) -> Value {
    let media_type = &version.content.mime_type;
    match content {
        None => json!({"type": "missing", "media_type": media_type}),
        Some(content) => match std::str::from_utf8(&content) {
            // A PDF may happen to be valid UTF-8.
            Ok(text) if !is_image(version) && media_type != "application/pdf" => {
                json!({"type": "text", "media_type": media_type, "data": text})
            }
            _ => json!({"type": "base64", "media_type": media_type, "data": BASE64.encode(&content)}),
        },
    }
}

/// Returns the changes between the version that a writer knew and the current one, as a unified diff.
fn diff(before: Option<Content>, current: Option<Content>) -> Value {
    let text =
        |content: &Option<Content>| content.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default();
    let (before, current) = (text(&before), text(&current));
    let unified =
        similar::TextDiff::from_lines(&before, &current).unified_diff().context_radius(3).header("known", "current").to_string();
    Value::from(unified)
}

impl Notice {
    /// Returns the text.
    pub fn text(&self) -> String {
        match self {
            Self::Reminder { count, reason } => {
                let what = match reason {
                    ReminderReason::Empty => "Your last turn was empty",
                    ReminderReason::TextOnly => "Your last turn was text only",
                    ReminderReason::InvalidResult => {
                        "Your last turn's text does not meet the schema that is promised for your result"
                    }
                    ReminderReason::Malformed => {
                        "The arguments of no call of your last turn could be read; nothing of it was executed"
                    }
                    ReminderReason::Cut => "Your last turn was cut because it was too long; nothing of it was executed",
                    ReminderReason::Filtered => "Your last turn was withheld by the provider; nothing of it was executed",
                    ReminderReason::Declined => "Your last turn was a refusal",
                };
                format!("{what}. Call a tool, or give your result. Reminder {count} of 2: after that the task fails.")
            }
            Self::LastTurn { limit } => {
                format!("{limit} is reached. This is your last turn: hand off what you have now. No other tool is accepted.")
            }
            Self::Summarise { through_turn } => format!(
                "Your conversation comes near the end of what can be sent. Your turns up to turn {through_turn} are about to be \
                 replaced by your next text: write down what you need of them to continue (what was asked, decided and found, which \
                 documents matter, what is left to do). Call no tool in this turn."
            ),
            Self::Steer { text } => format!("A person says: {text}"),
            Self::NotAccepted { reason } => {
                format!(
                    "Your result was not accepted, so your task continues. Improve it and hand off again. The reason: {reason}"
                )
            }
            Self::LimitsLeft(left) => left.text(),
            Self::InputChanged(change) => format!(
                "A person approved your call of {} with another input. Your input was {}. The call has this one: {}",
                change.tool,
                bounded(change.asked.text()),
                bounded(change.approved.text())
            ),
        }
    }
}

/// Returns the beginning of an input.
fn bounded(input: &str) -> String {
    match input.char_indices().nth(INPUT_SHOWN) {
        None => input.to_owned(),
        Some((end, _)) => format!("{}… ({} bytes in all)", &input[..end], input.len()),
    }
}

impl LimitsLeft {
    /// Returns the text.
    pub fn text(&self) -> String {
        let Self { turns, seconds, tokens, cost } = self;
        let counted = |number: u64, unit: &str| format!("{number} {unit}{}", if number == 1 { "" } else { "s" });
        let left = [
            turns.map(|turns| counted(turns.into(), "turn")),
            seconds.map(|seconds| counted(seconds, "second")),
            tokens.map(|tokens| counted(tokens, "token")),
            cost.map(|cost| cost.to_string()),
        ];
        let left: Vec<String> = left.into_iter().flatten().collect();
        format!("Left of your limits, with this turn: {}.", left.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use super::*;
    use crate::call::{CallResult, ModelCall};
    use crate::id::TaskId;
    use crate::message::Role;

    fn version(summary: &str) -> DocumentVersion {
        let content = json!({"hash": ContentHash::of(b"text"), "size_bytes": 4, "mime_type": "text/plain", "token_count": 1, "summary": summary});
        serde_json::from_value(json!({"path": "a.txt", "version": 1, "content": content, "at": 1})).unwrap()
    }

    fn hash_of(part: Part) -> ContentHash {
        conversation_hash(ContentHash::of(b""), &Message { role: Role::User, parts: vec![part] })
    }

    /// A model may have written the summary, so it does not follow from the content.
    #[test]
    fn a_message_with_another_summary_of_a_document_has_another_hash() {
        for part in [Part::Document, Part::Pointer, Part::Repeated] {
            let of = |summary| hash_of(part(version(summary).into()));
            assert_ne!(of("one"), of("another"));
            assert_eq!(of("one"), of("one"));
        }
    }

    #[test]
    fn each_fact_of_a_call_and_of_its_result_counts_for_the_hash() {
        let asked = |provider_id: Option<&str>, tool: &str, input: Value| {
            Arc::new(ModelCall { provider_id: provider_id.map(Into::into), ..ModelCall::new(tool, input) })
        };
        let mut hashes = HashSet::new();
        for (id, tool, text) in
            [(None, "a", "1"), (Some(""), "a", "1"), (Some("1"), "a", "1"), (None, "b", "1"), (None, "a", "2")]
        {
            let (call, asked) = (TaskId::from("r").call(1, 1), asked(id, tool, json!(text)));
            for result in [None, Some(CallResult::success(json!(text))), Some(CallResult::success(json!(null)))] {
                let result = result.map(Arc::new);
                hashes.insert(hash_of(Part::Result {
                    call: call.clone(),
                    asked: Arc::clone(&asked),
                    result,
                    hint: None,
                    said: Vec::new(),
                }));
            }
            hashes.insert(hash_of(Part::Call { call, asked }));
        }
        assert_eq!(hashes.len(), 18, "a result without output does not depend on the input of its call");
    }

    #[test]
    fn a_document_that_is_shown_in_another_way_has_another_hash() {
        let hashes = [Part::Document, Part::Pointer, Part::Repeated].map(|part| hash_of(part(version("").into())));
        assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2] && hashes[0] != hashes[2], "{hashes:?}");
    }
}
