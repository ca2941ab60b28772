//! Codecs of the providers: pure functions on bytes, one module per dialect.
//!
//! Answers are read leniently: every field may be missing, `null` or of another type, and unknown fields are ignored.
//! Two things are strict: a stream that ends without its last event is an error, and arguments that are not JSON never
//! become a call's input. This module does *not* send, retry or judge: the client and the machine do.

mod answer;
pub mod anthropic;
mod arguments;
pub mod chat;
mod class;
mod content;
mod fault;
mod grown;
pub(crate) mod items;
mod message;
pub mod ollama;
mod parallel;
mod place;
pub mod responses;
mod sse;
mod stream;
mod usage;
mod value;

pub use answer::{Answer, AnsweredCall, Restored};
pub use arguments::call_of;
pub(crate) use class::{Class, class_of};
pub use content::{Document, Piece, Said};
pub use fault::{Fault, fault_of};
pub use grown::Grown;
pub use stream::StreamDecoder;

use std::sync::Arc;

use baton_schema::provider::{CompiledTool, Target};
use baton_types::config::{Media, Modalities};
use baton_types::message::FRAME_NOTE;
use serde_json::{Map, Value, json};

/// Largest number of bytes of one answer, streamed or not (default).
pub const MAX_ANSWER_BYTES: usize = 32 << 20;

/// Keys of requests that the engine sets itself, in some dialect. A setting with such a name would have no effect.
pub const OWN_SETTINGS: [&str; 11] = [
    "model",
    "messages",
    "input",
    "tools",
    "system",
    "instructions",
    "stream_options",
    "max_completion_tokens",
    "max_output_tokens",
    "num_predict",
    "previous_response_id",
];

/// Keys of requests that must not be set unless they are `false` or `null`, each with the reason.
pub const REFUSED_SETTINGS: [(&str, &str); 1] =
    [("background", "Baton waits for each answer on its connection, and does not fetch answers later")];

/// A way to ask for an answer and to give one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `OpenAI`'s chat completions, which many servers speak.
    Chat,
    /// `OpenAI`'s responses.
    Responses,
    /// Anthropic's messages.
    Anthropic,
    /// Ollama's own `/api/chat`.
    Ollama,
}

/// Features of a provider's server, beyond its dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Key of the output limit in tokens.
    pub output_limit: &'static str,
    /// Whether a stream reports its usage only on request (`stream_options`).
    pub asks_for_usage: bool,
    /// Whether images are sent as images.
    pub images: bool,
    /// Whether PDF documents are sent as files.
    pub files: bool,
    /// Whether every message of a model has a content, and texts come as one string. There are servers whose templates fail
    /// without a content, and pass over parts of one without a word.
    pub plain_contents: bool,
    /// Whether ids of calls are nine letters or digits.
    pub has_short_ids: bool,
    /// Beginnings of the names of models that do not reason, at a server whose other models do.
    pub without_reasoning: &'static [&'static str],
    /// The marks after which the server keeps a request for the next one.
    pub cache: Cache,
    /// Whether requests are framed and frames are explained. The messages of a tool's code go as the code wrote them.
    pub frames: bool,
}

/// For how long a server keeps what ends with a mark, where it has marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// No marks.
    Unmarked,
    /// Its usual time.
    Usual,
    /// An hour.
    Hour,
}

impl Cache {
    /// Returns the mark.
    fn mark(self) -> Option<Value> {
        match self {
            Self::Unmarked => None,
            Self::Usual => Some(json!({"type": "ephemeral"})),
            Self::Hour => Some(json!({"type": "ephemeral", "ttl": "1h"})),
        }
    }
}

impl Features {
    /// Returns the same features for a model whose config declares its modalities.
    pub fn of_model(self, modalities: Modalities) -> Self {
        let Media { images, files } = Media { images: self.images, files: self.files }.with(modalities);
        Self { images, files, ..self }
    }

    /// Returns the same features for requests with `settings`: their `cache_control` is that of every mark, since a server refuses
    /// a longer time after a shorter one.
    pub fn of_settings(self, settings: &Map<String, Value>) -> Self {
        let cache = match settings.get("cache_control") {
            None => self.cache,
            Some(Value::Null | Value::Bool(false)) => Cache::Unmarked,
            Some(mark) if mark["ttl"] == "1h" => Cache::Hour,
            Some(_) => Cache::Usual,
        };
        Self { cache, ..self }
    }

    /// Whether `model` may reason, as far as its name shows.
    pub fn reasons(self, model: &str) -> bool {
        let name = model.rsplit('/').next().unwrap_or(model);
        let name = name.strip_prefix("ft:").unwrap_or(name);
        !self.without_reasoning.iter().any(|older| name.starts_with(older))
    }
}

/// One request, before it is encoded in a dialect, without the conversation.
#[derive(Debug)]
pub struct WireRequest<'a> {
    /// The model, as the provider calls it.
    pub model: &'a str,
    /// The system prompt, and a second one that may be empty.
    pub system: (&'a str, &'a str),
    /// The tools offered, in the dialect of who is asked.
    pub tools: &'a [Arc<CompiledTool>],
    /// Schema that the text must match, in the dialect of the provider. A setting of the same meaning overrides it.
    pub result: Option<&'a Value>,
    /// Settings from a config. Keys that the engine sets itself override them.
    pub settings: &'a Map<String, Value>,
    /// The most tokens that the answer may have; `None` for as many as the model can give.
    pub max_output_tokens: Option<u64>,
    /// Whether the answer shall come as a stream.
    pub stream: bool,
    /// Features of the server.
    pub features: Features,
}

impl WireRequest<'_> {
    /// Returns the system prompts as one text, with the explanation of frames if there are frames.
    fn prompt(&self) -> Option<String> {
        let (first, second) = self.system;
        self.with_note(format!("{first}{second}"))
    }

    /// Returns the texts of the system messages, where there may be several.
    fn prompts(&self) -> impl Iterator<Item = String> {
        let (first, second) = self.system;
        self.with_note(first.to_owned()).into_iter().chain((!second.is_empty()).then(|| second.to_owned()))
    }

    fn with_note(&self, system: String) -> Option<String> {
        let parts = [Some(system).filter(|system| !system.is_empty()), self.features.frames.then(|| FRAME_NOTE.to_owned())];
        let prompt = parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
        (!prompt.is_empty()).then_some(prompt)
    }
}

/// Why bytes were not an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The provider refused to answer.
    #[error("{0}")]
    Fault(Fault),
    /// It is no answer in this dialect.
    #[error("the answer cannot be read: {reason}")]
    Unreadable {
        /// Description of the fault.
        reason: String,
    },
    /// It exceeds what an answer may have.
    #[error("the answer exceeds {most} bytes")]
    TooLong {
        /// The most that is taken.
        most: usize,
    },
    /// It ended before its end.
    #[error("the stream ended without {expected}")]
    Cut {
        /// Expected event.
        expected: &'static str,
    },
}

impl Dialect {
    /// Returns the body of `request` after `said`, the bytes of a conversation from [`Grown`]. The conversation comes
    /// last in the body, so a later request of the same task repeats all bytes before its end.
    pub fn encode(self, request: &WireRequest<'_>, said: &[u8]) -> Vec<u8> {
        let (head, list) = match self {
            Self::Chat => (chat::preamble(request), "messages"),
            Self::Responses => (responses::preamble(request), "input"),
            Self::Anthropic => (anthropic::preamble(request), "messages"),
            Self::Ollama => (ollama::preamble(request), "messages"),
        };
        let mut body = serde_json::to_vec(&head).expect("a JSON tree always serialises");
        body.reserve(said.len() + request.system.0.len() + request.system.1.len() + 64);
        body.pop();
        body.extend_from_slice(format!(",\"{list}\":[").as_bytes());
        // Where the head has no place for system prompts, they are the first messages.
        let prompts = matches!(self, Self::Chat | Self::Ollama).then(|| request.prompts());
        for prompt in prompts.into_iter().flatten() {
            let message = json!({"role": "system", "content": prompt});
            serde_json::to_writer(&mut body, &message).expect("a JSON tree always serialises");
            body.push(b',');
        }
        if said.is_empty() && body.ends_with(b",") {
            body.pop();
        }
        body.extend_from_slice(said);
        body.extend_from_slice(b"]}");
        body
    }

    /// Whether a request must name the limit of its answer.
    pub(crate) const fn needs_output_limit(self) -> bool {
        matches!(self, Self::Anthropic)
    }

    /// Encodes `said` as items of the conversation.
    fn word(self, said: &Said<'_>, vendor: &str, features: Features) -> Vec<Value> {
        let mut items = Vec::new();
        match self {
            Self::Chat => chat::word(said, vendor, features, &mut items),
            Self::Responses => responses::word(said, vendor, features, &mut items),
            Self::Anthropic => anthropic::word(said, vendor, features, &mut items),
            Self::Ollama => ollama::word(said, vendor, features, &mut items),
        }
        items
    }

    /// Decodes a whole `body`.
    pub fn decode(self, body: &[u8]) -> Result<Answer, WireError> {
        let text = std::str::from_utf8(body).map_err(|_| WireError::unreadable("it is not text in UTF-8"))?;
        match self {
            Self::Chat => chat::decode(text),
            Self::Responses => responses::decode(text),
            Self::Anthropic => anthropic::decode(text),
            Self::Ollama => ollama::decode(text),
        }
    }

    /// Reads an answer that comes as a stream, of at most `most` bytes.
    pub fn decoder(self, most: usize) -> StreamDecoder {
        StreamDecoder::new(self, most)
    }
}

/// Returns the definition of `tool` for requests to `target`.
pub fn encode_tool(target: Target, tool: &CompiledTool) -> Value {
    match target {
        Target::OpenAi | Target::Compatible | Target::Ollama => chat::tool(tool),
        Target::Anthropic => anthropic::tool(tool),
        Target::Mcp => json!({"name": tool.name, "description": tool.description, "inputSchema": tool.parameters}),
    }
}

/// Sets `body[place][key] = value` unless the settings already set it.
fn within(body: &mut Map<String, Value>, place: &str, key: &str, value: Value) {
    if let Some(place) = body.entry(place).or_insert_with(|| json!({})).as_object_mut() {
        place.entry(key).or_insert(value);
    }
}

impl WireError {
    pub(crate) fn unreadable(reason: impl Into<String>) -> Self {
        Self::Unreadable { reason: reason.into() }
    }
}
