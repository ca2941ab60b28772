//! Messages: what a model is sent, without any vendor's words.
//!
//! A part names documents by hash. [`part_block`] resolves them and makes the JSON of a part.

mod block;
mod weight;

use std::sync::Arc;

use serde::Serialize;

use crate::call::{CallResult, ModelCall};
use crate::document::DocumentVersion;
use crate::entry::{Notice, Said};
use crate::id::{AgentId, CallId};
use crate::json::Json;

pub use block::{contents_of, message_blocks, part_block, repeat_hint, write_hashed_form};
pub use weight::{FRAME_BYTES, part_bytes, request_tokens};

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub parts: Vec<Part>,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The engine, for whoever made the request.
    User,
    /// The model.
    Assistant,
    /// The results of the calls of the message before.
    Tool,
}

/// A piece of a message. Documents are named by hash; whoever sends the request resolves them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The request of a task.
    Request(String),
    /// A question to the agent as a master.
    Question {
        /// The agent that asks.
        asker: AgentId,
        /// What it asks.
        question: String,
        /// The JSON Schema that the answer must meet; `null` without.
        #[serde(skip_serializing_if = "Json::is_null")]
        answer_schema: Json,
    },
    /// The model's own text.
    Text(String),
    /// What its vendor wants back unchanged before the model's own text and calls; nobody else is sent it.
    Reasoning(Json),
    /// A call that the model made.
    Call {
        /// Its id.
        call: CallId,
        /// As the model asked for it.
        asked: Arc<ModelCall>,
    },
    /// The result of a call.
    Result {
        /// The call.
        call: CallId,
        /// As the model asked for it.
        asked: Arc<ModelCall>,
        /// The result; `None` while the call still waits, which only a question sees.
        result: Option<Arc<CallResult>>,
        /// How often in a row the same came out; from 2 on the agent gets a hint.
        repeat: u32,
        /// What was said in the agent's name meanwhile.
        said: Vec<Said>,
    },
    /// A document, whole.
    Document(Arc<DocumentVersion>),
    /// A document that exceeds the token budget: its record only; `load_to_context` and the like bring the rest.
    Pointer(Arc<DocumentVersion>),
    /// What a stale write collided with: the current version beside the one the writer knew.
    Conflict {
        /// The version the writer knew.
        base: Option<Arc<DocumentVersion>>,
        /// The version that stands.
        current: Arc<DocumentVersion>,
    },
    /// What stands for the turns up to one, which are no longer sent.
    Summary {
        /// The last of them.
        through_turn: u32,
        /// The summary.
        text: String,
    },
    /// What the engine tells the agent.
    Notice(Notice),
}
