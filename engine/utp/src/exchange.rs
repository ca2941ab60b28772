//! Requests for cards with their replies, and dead letters.

use schemars::JsonSchema;
use serde::Serialize;

use crate::card::{Card, raw_at};
use crate::error_code::ErrorCode;
use crate::id::{CardId, NAME_RULE};
use crate::read::{Fields, PayloadError, object};
use crate::{MAX_CARD_BYTES, MAX_PAYLOAD_BYTES};

/// A request for a card, on `cmd.sys.card.get`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(title = "UTP request for a card")]
pub struct CardGet {
    /// The card.
    pub card_id: CardId,
}

impl CardGet {
    /// Reads a request of at most [`MAX_PAYLOAD_BYTES`]. Unknown fields are ignored.
    ///
    /// # Errors
    /// The id is missing or is not a name.
    pub fn read(bytes: &[u8]) -> Result<Self, PayloadError> {
        let object = object(bytes, MAX_PAYLOAD_BYTES)?;
        let mut fields = Fields::of(&object);
        let card = fields.name("card_id");
        fields.finish(card.map(|card_id| Self { card_id }))
    }
}

/// A request to keep a card, on `cmd.sys.card.put`. Only `tool.result` cards are taken.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CardPut {
    /// The card.
    pub card: Card,
}

impl CardPut {
    /// Reads a request of at most [`MAX_CARD_BYTES`]. Unknown fields are ignored.
    ///
    /// # Errors
    /// All faults of the card.
    pub fn read(bytes: &[u8]) -> Result<Self, PayloadError> {
        let object = object(bytes, MAX_CARD_BYTES)?;
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        let mut fields = Fields::of(&object);
        let raw = |path: &[&str]| raw_at(text, &[&["card"], path].concat());
        let card = fields.object("card", |fields| Card::result_of(fields, raw));
        fields.finish(card.map(|card| Self { card }))
    }
}

/// Reply to [`CardGet`]: the card, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CardGetReply {
    /// `{"card": …}`
    Card(Box<Card>),
    /// `{"error": …}`
    Error(ExchangeError),
}

/// Reply to [`CardPut`]: what became of the card, or the reason why it is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CardPutReply {
    /// `{"kept": …}`
    Kept(Kept),
    /// `{"error": …}`
    Error(ExchangeError),
}

/// A card that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Kept {
    /// The card.
    pub card_id: CardId,
    /// Whether this request created it. `false` if the same card was there: cards never change.
    pub created: bool,
}

/// Why a request for a card, or to keep one, was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct ExchangeError {
    /// `bad_request`, `not_found`, or `conflict` for a card with the id of another one. The set is open.
    pub code: ErrorCode,
    /// One sentence.
    pub message: String,
}

impl ExchangeError {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let code = fields.choice("code", NAME_RULE, ErrorCode::parse);
        let message = fields.choice("message", "a text", |text| Some(text.to_owned()));
        Some(Self { code: code?, message: message? })
    }
}

impl CardPutReply {
    /// Reads a reply of at most [`MAX_PAYLOAD_BYTES`].
    ///
    /// # Errors
    /// It has neither `kept` nor `error`, or one of their fields is wrong.
    pub fn read(bytes: &[u8]) -> Result<Self, PayloadError> {
        let object = object(bytes, MAX_PAYLOAD_BYTES)?;
        let mut fields = Fields::of(&object);
        let reply = if fields.optional("error").is_some() {
            fields.object("error", ExchangeError::read).map(Self::Error)
        } else {
            let kept = fields.object("kept", |fields| {
                let card = fields.name("card_id");
                let created = fields.value("created").and_then(serde_json::Value::as_bool);
                if created.is_none() {
                    fields.fault("created", "expected true or false");
                }
                Some(Kept { card_id: card?, created: created? })
            });
            kept.map(Self::Kept)
        };
        fields.finish(reply)
    }
}

/// A message that was refused, on `evt.sys.dead_letter`. The call that it was for stays as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(title = "UTP dead letter")]
pub struct DeadLetter {
    /// The subject of the message.
    pub subject: String,
    /// A stable code of the reason, such as `missing_tool_result_card`.
    pub code: String,
    /// The reason as a sentence.
    pub reason: String,
    /// The message as text: bytes that are not UTF-8 are replaced, and the rest after 4 KiB is cut.
    pub message: String,
}

/// Most bytes of the message that a dead letter quotes.
pub const MAX_QUOTED_BYTES: usize = 4 * 1024;

impl DeadLetter {
    /// Returns the dead letter of `message`, which came to `subject`.
    pub fn of(subject: &str, code: &str, reason: &str, message: &[u8]) -> Self {
        let quoted = &message[..message.len().min(MAX_QUOTED_BYTES)];
        Self {
            subject: subject.to_owned(),
            code: code.to_owned(),
            reason: reason.to_owned(),
            message: String::from_utf8_lossy(quoted).into_owned(),
        }
    }
}
