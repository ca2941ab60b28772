//! Messages as dialects word them: texts, calls, results and documents, with every content at hand.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use baton_types::call::{CallError, CallStatus, ModelCall};
use baton_types::config::IMAGES;
use baton_types::document::{Content, DocumentVersion};
use baton_types::entry::{Notice, Said as SaidMeanwhile};
use baton_types::id::{CallId, ContentHash};
use baton_types::json::Json;
use baton_types::message::{Message, Part, RepeatHint, Role, framed, part_block};
use serde::Serialize;
use serde_json::{Value, json};

use super::items;

/// The longest name of a tool, and the longest id of a call, that providers take.
const MAX_NAME: usize = 64;

/// The length of an id of a call where ids are short (<https://docs.mistral.ai/api>: "a-z, A-Z, 0-9, with a length of 9").
const SHORT_ID: usize = 9;

/// Beginnings of the media types of documents that tools read as text.
const HAVE_TEXT: [&str; 2] = ["application/pdf", "application/vnd.openxmlformats-officedocument."];

/// Advice for a model without input of this type.
const READ_BY_PARTS: &str =
    "you are not shown documents of this type; the tool that loads documents returns their text by page, by lines or by block";

/// One message.
#[derive(Debug)]
pub struct Said<'a> {
    /// Role of the author.
    pub role: Role,
    /// Whether it is the request of a task, with which a conversation begins.
    pub opens: bool,
    /// Content, in order.
    pub pieces: Vec<Piece<'a>>,
}

/// A piece of a message.
#[derive(Debug)]
pub enum Piece<'a> {
    /// Text: the model's own, or a part in its frame.
    Text(Cow<'a, str>),
    /// A call that the model made.
    Call {
        /// Its id on the wire.
        id: Arc<str>,
        /// The tool, by a name that providers take.
        tool: Cow<'a, str>,
        /// The JSON text of its input, always an object.
        input: &'a str,
    },
    /// The result of a call.
    Result {
        /// The call's id on the wire.
        id: Arc<str>,
        /// The tool, by a name that providers take.
        tool: Cow<'a, str>,
        /// The JSON text of the result.
        body: String,
        /// Whether it is an error.
        is_error: bool,
    },
    /// A document.
    Document(Document<'a>),
    /// The turn as its vendor's own items, for that vendor alone.
    Items(&'a Json),
}

/// A document with its bytes.
#[derive(Debug)]
pub struct Document<'a> {
    /// The version.
    pub version: &'a DocumentVersion,
    /// It as a JSON block: record and bytes, text where they are text and base64 elsewhere.
    block: Value,
}

impl Document<'_> {
    /// `report.md v2`.
    pub fn title(&self) -> String {
        self.version.reference().to_string()
    }

    /// Returns the block as text in its frame, for a model that does not accept the document's type. Bytes that are no text
    /// are left out.
    pub fn envelope(&self) -> String {
        if self.data("base64").is_none() {
            return framed("document", &self.block.to_string());
        }
        let mut record = self.block.clone();
        let has_text = HAVE_TEXT.iter().any(|readable| self.media_type().starts_with(readable));
        let reason = if has_text { READ_BY_PARTS } else { "you are not shown documents of this type; tools can read them" };
        record["source"] = json!({"type": "omitted", "media_type": self.media_type(), "reason": reason});
        framed("document", &record.to_string())
    }

    /// Returns the text, if it is one.
    pub fn text(&self) -> Option<&str> {
        self.data("text")
    }

    /// Returns the base64 of an image that providers can look at.
    pub fn image(&self) -> Option<&str> {
        self.data("base64").filter(|_| IMAGES.contains(&self.media_type()))
    }

    /// Returns the base64 of a PDF.
    pub fn pdf(&self) -> Option<&str> {
        self.data("base64").filter(|_| self.media_type() == "application/pdf")
    }

    /// Returns the media type, such as `image/png`.
    pub fn media_type(&self) -> &str {
        &self.version.content.mime_type
    }

    /// `data:image/png;base64,…` for `data`.
    pub fn data_url(&self, data: &str) -> String {
        format!("data:{};base64,{data}", self.media_type())
    }

    fn data(&self, kind: &str) -> Option<&str> {
        let source = self.block.get("source")?;
        (source["type"] == kind).then(|| source["data"].as_str())?
    }
}

/// A result as a model reads it.
#[derive(Serialize)]
struct ResultBody<'a> {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Cow<'a, Json>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<RepeatHint>,
    #[serde(skip_serializing_if = "<[SaidMeanwhile]>::is_empty")]
    answered_in_your_name: &'a [SaidMeanwhile],
}

impl<'a> Said<'a> {
    /// Returns the content of `message`, with the bytes of its documents from `contents`; `None` for a turn of
    /// reasoning alone, which has nothing that a provider would accept.
    ///
    /// A call keeps the id that a provider gave it, if all providers accept that id: unique in the conversation, and
    /// of common characters. Other calls get an id by their place, the same in every later request. The request's text
    /// follows its documents, so tasks with the same documents share all bytes before it.
    /// Calls that `vendor` gets back as one call have one id, and their results are one result.
    pub(super) fn of(
        message: &'a Message,
        vendor: &str,
        ids: &mut Ids,
        contents: &HashMap<ContentHash, Content>,
        frames: bool,
    ) -> Option<Self> {
        let kept = message.parts.iter().find_map(|part| if let Part::Items(kept) = part { Some(kept) } else { None });
        if let Some(folded) = kept.and_then(|kept| items::folded(kept, vendor)) {
            ids.join(&message.parts, &folded);
        }
        let mut pieces: Vec<Piece<'a>> = message.parts.iter().map(|part| piece(part, ids, contents, frames)).collect();
        join_results(&mut pieces);
        let opens = message.parts.iter().any(|part| matches!(part, Part::Request(_)));
        if opens {
            pieces.sort_by_key(|piece| !matches!(piece, Piece::Document(_)));
        }
        let said = Self { role: message.role, opens, pieces };
        (!said.is_reasoning_only()).then_some(said)
    }
}

impl Said<'_> {
    fn is_reasoning_only(&self) -> bool {
        self.pieces.iter().all(|piece| match piece {
            Piece::Items(_) => true,
            Piece::Text(text) => text.trim().is_empty(),
            Piece::Call { .. } | Piece::Result { .. } | Piece::Document(_) => false,
        })
    }
}

/// Makes one result of neighbours with one id: a list of their bodies.
fn join_results(pieces: &mut Vec<Piece<'_>>) {
    let mut joined: Vec<Piece<'_>> = Vec::with_capacity(pieces.len());
    for piece in pieces.drain(..) {
        match (joined.last_mut(), piece) {
            (Some(Piece::Result { id, body, is_error, .. }), Piece::Result { id: next, body: other, is_error: failed, .. })
                if *id == next =>
            {
                let all = body.strip_prefix('[').and_then(|body| body.strip_suffix(']')).unwrap_or(body);
                *body = format!("[{all},{other}]");
                *is_error &= failed;
            }
            (_, piece) => joined.push(piece),
        }
    }
    *pieces = joined;
}

fn piece<'a>(part: &'a Part, ids: &mut Ids, contents: &HashMap<ContentHash, Content>, frames: bool) -> Piece<'a> {
    let block = |part| part_block(part, &|hash| contents.get(&hash).cloned());
    let framed_block = |kind| Piece::Text(Cow::Owned(framed(kind, &block(part).to_string())));
    match part {
        Part::Request(text) if frames => Piece::Text(Cow::Owned(framed("request", text))),
        Part::Text(text) | Part::Request(text) => Piece::Text(Cow::Borrowed(text)),
        Part::Items(items) => Piece::Items(items),
        Part::Call { call, asked } => Piece::Call { id: ids.of(call, asked), tool: tool_name(asked), input: input(asked) },
        Part::Result { call, asked, result, hint, said } => {
            let result = result.as_deref();
            let body = ResultBody {
                status: result.map_or("waiting", |result| result.status.as_str()),
                output: result.map(|result| result.output.shown()).filter(|output| !output.is_null()),
                error: result.and_then(|result| result.error.as_ref()).map(CallError::to_value),
                hint: *hint,
                answered_in_your_name: said,
            };
            Piece::Result {
                id: ids.of(call, asked),
                tool: tool_name(asked),
                body: serde_json::to_string(&body).expect("a result always serialises"),
                is_error: result.is_some_and(|result| !matches!(result.status, CallStatus::Success | CallStatus::Partial)),
            }
        }
        Part::Document(version) => Piece::Document(Document { version, block: block(part) }),
        Part::Notice(Notice::Steer { text }) => Piece::Text(Cow::Owned(framed("person", text))),
        Part::Notice(notice) => Piece::Text(Cow::Owned(framed("notice", &notice.text()))),
        Part::Question { .. } => framed_block("question"),
        Part::Attempt { .. } => framed_block("attempt"),
        Part::Pointer(_) | Part::Repeated(_) => framed_block("record"),
        Part::Conflict { .. } => framed_block("conflict"),
        Part::Summary { .. } => framed_block("summary"),
        Part::TaskResult(_) => framed_block("task_result"),
        Part::Instruction { .. } => framed_block("instruction"),
    }
}

/// Returns the JSON text of a call's input for the provider. A malformed input is not repeated; the call's result
/// describes it.
fn input(asked: &ModelCall) -> &str {
    let text = asked.input.text().trim_start();
    if asked.malformed.is_none() && text.starts_with('{') { text } else { "{}" }
}

/// Returns the name that the model used for a tool, in characters that providers accept: a model may have made up any name.
fn tool_name(asked: &ModelCall) -> Cow<'_, str> {
    let name = asked.name.as_deref().unwrap_or(&asked.tool);
    if is_plain(name) {
        return Cow::Borrowed(name);
    }
    let plain: String = name.chars().map(|each| if is_plain_char(each) { each } else { '_' }).take(MAX_NAME).collect();
    Cow::Owned(if plain.is_empty() { "_".to_owned() } else { plain })
}

fn is_plain(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_plain_char)
}

fn is_plain_char(each: char) -> bool {
    each.is_ascii_alphanumeric() || each == '_' || each == '-'
}

/// Ids of calls on the wire, as far as a conversation has come.
#[derive(Debug, Default)]
pub(super) struct Ids {
    given: HashMap<CallId, Arc<str>>,
    taken: HashSet<Arc<str>>,
    order: Vec<CallId>,
    /// Whether every id has nine letters or digits.
    are_short: bool,
}

impl Ids {
    /// Returns no ids yet; each will have nine letters or digits if they `are_short`.
    pub(super) fn new(are_short: bool) -> Self {
        Self { are_short, ..Self::default() }
    }

    /// Returns the number of ids.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Forgets all but the first `kept`.
    pub(super) fn truncate(&mut self, kept: usize) {
        for call in self.order.drain(kept.min(self.order.len())..) {
            if let Some(id) = self.given.remove(&call) {
                self.taken.remove(&id);
            }
        }
    }

    fn of(&mut self, call: &CallId, asked: &ModelCall) -> Arc<str> {
        if let Some(id) = self.given.get(call) {
            return Arc::clone(id);
        }
        let own = asked.provider_id.as_deref().filter(|id| self.fits(id) && !self.taken.contains(*id));
        let id: Arc<str> = own.map_or_else(|| self.made_up(), Arc::from);
        self.given.insert(call.clone(), Arc::clone(&id));
        self.taken.insert(Arc::clone(&id));
        self.order.push(call.clone());
        id
    }

    /// Gives the calls among `parts` ids: calls that are `folded` into one share an id.
    fn join(&mut self, parts: &[Part], folded: &[usize]) {
        let calls =
            parts.iter().filter_map(|part| if let Part::Call { call, asked } = part { Some((call, asked)) } else { None });
        let mut calls = calls;
        for number in folded {
            let Some((first, asked)) = calls.next() else { return };
            let id = self.of(first, asked);
            for (call, _) in calls.by_ref().take(number.saturating_sub(1)) {
                self.given.insert(call.clone(), Arc::clone(&id));
                self.order.push(call.clone());
            }
        }
    }

    fn fits(&self, id: &str) -> bool {
        let is_short = id.len() == SHORT_ID && id.chars().all(|each| each.is_ascii_alphanumeric());
        is_plain(id) && (is_short || !self.are_short)
    }

    /// Returns an id by the call's place in the conversation.
    fn made_up(&self) -> Arc<str> {
        let from = self.given.len() + 1;
        let id = |number| if self.are_short { format!("call{number:05}") } else { format!("call_{number}") };
        let mut ids = (from..=from + self.taken.len()).map(|number| Arc::from(id(number)));
        ids.find(|id| !self.taken.contains(id)).expect("of more ids than are taken, one is free")
    }
}
