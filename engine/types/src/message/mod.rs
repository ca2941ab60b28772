//! Messages: what a model is sent, without any vendor's words.
//!
//! A part names documents by hash. [`part_block`] resolves them and makes the JSON of a part.

mod block;
mod frame;
mod weight;

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::call::{CallResult, ModelCall};
use crate::document::DocumentVersion;
use crate::entry::{Notice, Said};
use crate::id::{AgentId, CallId, TaskId, ToolId};
use crate::json::Json;

pub use block::{contents_of, conversation_hash, message_blocks, part_block};
pub use frame::{FRAME_NOTE, framed, relabelled};
pub use weight::{FRAME_BYTES, part_bytes, request_tokens};

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Message {
    /// Role of the author.
    pub role: Role,
    /// Content, in order.
    pub parts: Vec<Part>,
}

/// Role of a message's author.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The engine, on behalf of the requester.
    User,
    /// The model.
    Assistant,
    /// The results of the calls of the message before.
    Tool,
}

/// A hint for an agent whose call repeats an earlier one. Models receive its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepeatHint {
    /// The same result came so many times in a row.
    Same(u32),
    /// The result is the stored one of an earlier call.
    Stored,
}

impl fmt::Display for RepeatHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same(times) => {
                write!(f, "the same result for the same input, {times} times in a row: doing it again will not help")
            }
            Self::Stored => f.write_str(
                "the stored result of your earlier call: use it and continue. Only to call again, use a new requestId",
            ),
        }
    }
}

impl Serialize for RepeatHint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A piece of a message. Documents are named by hash; the sender of the request resolves them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The request of a task.
    Request(String),
    /// A question to the agent as a master.
    Question {
        /// The agent that asks.
        asker: AgentId,
        /// The question.
        question: String,
        /// The JSON Schema that the answer must meet; `null` without.
        #[serde(skip_serializing_if = "Json::is_null")]
        answer_schema: Json,
    },
    /// The number of this attempt at a delegation, and why the one before failed. It follows the request.
    Attempt {
        /// From 2.
        number: u32,
        /// The error message of the attempt before.
        reason: String,
    },
    /// The model's own text.
    Text(String),
    /// The model's own turn as its vendor's list of items. The vendor gets this list back, with the texts and calls that it refers to.
    /// Every other vendor gets the text and the calls alone.
    Items(Json),
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
        /// A hint for the agent about a repeated call.
        hint: Option<RepeatHint>,
        /// Questions and answers on the agent's behalf meanwhile.
        said: Vec<Said>,
    },
    /// A document, whole.
    Document(Arc<DocumentVersion>),
    /// The record of a document whose content did not fit. Tools read the content.
    Pointer(Arc<DocumentVersion>),
    /// The record of a document whose content is in an earlier part of the conversation.
    Repeated(Arc<DocumentVersion>),
    /// Conflict of a stale write: the current version beside the one that the writer knew.
    Conflict {
        /// The version the writer knew.
        base: Option<Arc<DocumentVersion>>,
        /// The current version.
        current: Arc<DocumentVersion>,
        /// Whether there is room for the changes.
        with_changes: bool,
    },
    /// Replacement of the turns up to one, which are no longer sent.
    Summary {
        /// The last of them.
        through_turn: u32,
        /// The summary.
        text: String,
    },
    /// A notice of the engine to the agent.
    Notice(Notice),
    /// The result of a background task that the agent began.
    TaskResult(Box<TaskResult>),
    /// A message from an agent above, which delegated the work or a task around it.
    Instruction {
        /// The agent.
        from: AgentId,
        /// The message.
        text: String,
    },
}

/// The result of a background task, as the agent that began it reads it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskResult {
    /// The call that began it.
    pub call: CallId,
    /// The task.
    pub task: TaskId,
    /// The tool of that call.
    pub tool: ToolId,
    /// The result.
    pub result: Arc<CallResult>,
    /// Questions and answers on the agent's behalf meanwhile.
    pub said: Vec<Said>,
}
