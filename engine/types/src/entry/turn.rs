//! Entries of turns: what a model is asked, what it answers, what that cost.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ForkPoint;
use crate::call::{CallError, KeptOutput, ModelCall};
use crate::document::DocumentRef;
use crate::id::{CallId, ContentHash, TaskId};
use crate::json::Json;
use crate::limits::LimitKind;
use crate::model::{Answered, FinishReason, Usage};
use crate::money::Money;

/// A model is about to be asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ModelRequested {
    /// The task whose turn it is.
    pub task: TaskId,
    /// Which of its turns, from 1.
    pub turn: u32,
    /// The model's name in the job.
    pub model: String,
    /// Tokens of the request (≈).
    pub input_tokens: u64,
    /// Tokens reserved on this task, every task above it and the run: the worst case.
    pub reserved_tokens: u64,
    /// Money reserved there: the most that those tokens can cost. Nothing where the price is not known.
    #[serde(default, skip_serializing_if = "Money::is_zero")]
    pub reserved_cost: Money,
    /// Whether the request has the schema that its text must meet. Requests of older programs never have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub says_result_schema: bool,
    /// Messages from people since the task's last request, in order. They precede the notice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steers: Vec<String>,
    /// The engine's notice at the head of the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<Notice>,
    /// The rest of the limits, for an agent with `"tell_limits": true`. It is the end of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits_left: Option<Box<LimitsLeft>>,
    /// Documents that are new in this request and did not fit: it has their records in place of their contents, unless `bundle`
    /// has the records, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pointers: Vec<DocumentRef>,
    /// Documents whose changes after a conflict did not fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<DocumentRef>,
    /// Results that are new in this request and whose outputs did not fit: documents hold the outputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptResult>,
    /// New results and records that share one document, because not even they fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<Box<Bundle>>,
}

/// Results and records of documents for which a request has no room: one document holds them, and the request has its record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Bundle {
    /// The calls whose results the document holds. The request has their status alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<CallId>,
    /// The documents whose records the document holds. The request does not name them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<DocumentRef>,
    /// The document.
    pub document: DocumentRef,
}

/// A result whose output a document holds, because a request has no room for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct KeptResult {
    /// The call.
    pub call: CallId,
    /// The document.
    pub output: KeptOutput,
}

/// The engine's notice to an agent at the head of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    /// The turn before did not count; the number counts such turns in a row.
    Reminder {
        /// 1 or 2.
        count: u32,
        /// Why the turn did not count.
        reason: ReminderReason,
    },
    /// A limit was reached: this is the last turn and only a handoff is offered.
    LastTurn {
        /// Which limit.
        limit: LimitKind,
    },
    /// The agent's older turns are about to be replaced. This turn writes their summary.
    Summarise {
        /// The last turn that the summary will replace.
        through_turn: u32,
    },
    /// A person approved a call of the turn before with another input. Entries have it in [`CallApproved::input`](super::CallApproved).
    InputChanged(Box<InputChange>),
    /// The result of the turn before was refused. Entries have the refusal as the result of the acceptor's call.
    NotAccepted {
        /// The acceptor's reason.
        reason: String,
    },
    /// The rest of the limits. Entries have it in [`ModelRequested::limits_left`].
    LimitsLeft(Box<LimitsLeft>),
    /// A person sent a message into the running task. Entries have it in [`ModelRequested::steers`]; only the first
    /// ones of format 1 have it here.
    Steer {
        /// The message.
        text: String,
    },
}

/// The input of an agent's call, and the one with which a person approved it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct InputChange {
    /// The tool, as the model knows it.
    pub tool: String,
    /// The input of the agent.
    pub asked: Json,
    /// The input of the person.
    pub approved: Json,
}

/// The rest of a task's limits before a request: the least of its own limits, of those of the tasks above it, of the run and of its session. A field
/// without a limit is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LimitsLeft {
    /// Turns, including that of this request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// Seconds until a deadline or the end of the working time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Tokens that are neither used nor reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money that is neither spent nor reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
}

/// Why a turn counted as a reminder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReminderReason {
    /// Neither text nor calls.
    Empty,
    /// Text, where the agent must use a tool.
    TextOnly,
    /// Text that breaks the result schema of the agent, or the answer schema of the question.
    InvalidResult,
    /// Calls alone, and the arguments of none of them could be read.
    Malformed,
    /// Cut by the length of the answer.
    Cut,
    /// Withheld by the provider.
    Filtered,
    /// Declined by the model.
    Declined,
}

/// The model answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ModelAnswered {
    /// The task whose turn it is.
    pub task: TaskId,
    /// Which of its turns.
    pub turn: u32,
    /// The text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The calls. The call at index `i` has the id `<task>/<turn>.<i + 1>`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Arc<ModelCall>>,
    /// Why it stopped.
    pub finish: FinishReason,
    /// Role of the turn in its task.
    #[serde(default, skip_serializing_if = "TurnKind::is_work")]
    pub kind: TurnKind,
    /// The hash of the request it answered, so that replay can prove byte-identical requests.
    pub request: ContentHash,
    /// The answer as its vendor's own list of items, sent back unchanged to that vendor only. A text of an item is a range of
    /// bytes of `text`, and a call lacks what `calls` has. Absent if text and calls are all of the answer.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub items: Json,
    /// The provider's description of its answer; `None` for models without a provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<Box<Answered>>,
    /// The entry of another run that this answer was taken from, because a fork asked the same; `None` if a model gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<ForkPoint>,
}

/// The role of a turn in its task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnKind {
    /// A turn of the work. Without calls, its text is the task's result.
    #[default]
    Work,
    /// A summary of older turns.
    Summary,
    /// A turn that does not count, for this reason.
    Discarded(ReminderReason),
    /// A turn without calls while background tasks run, or before their results were shown. The task continues after them.
    Rest,
}

impl TurnKind {
    /// Whether it is a turn of the work.
    pub fn is_work(&self) -> bool {
        *self == Self::Work
    }

    /// Returns the reason why the turn does not count.
    pub const fn discarded(self) -> Option<ReminderReason> {
        match self {
            Self::Discarded(reason) => Some(reason),
            Self::Work | Self::Summary | Self::Rest => None,
        }
    }
}

impl ModelAnswered {
    /// Returns the turn's message to the user: its text, unless it is blank, a summary, or the result of the task.
    pub fn message(&self) -> Option<&str> {
        let is_message = match self.kind {
            TurnKind::Work => !self.calls.is_empty(),
            TurnKind::Summary => false,
            TurnKind::Discarded(_) | TurnKind::Rest => true,
        };
        Some(&*self.text).filter(|text| is_message && !text.trim().is_empty())
    }
}

/// The model is not available: the next of its fallbacks is asked the same, within what was reserved for the turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FellBack {
    /// The task whose turn it is.
    pub task: TaskId,
    /// Which of its turns.
    pub turn: u32,
    /// The model that gave no answer, by its name in the job.
    pub from: String,
    /// The model that is asked from here on.
    pub to: String,
    /// Why the first gave none.
    pub error: CallError,
}

/// The code of a running call is about to ask a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CallAskedModel {
    /// The task whose call it is.
    pub task: TaskId,
    /// The request of the call.
    #[serde(flatten)]
    pub by: CallRequest,
    /// The model, as the code names it.
    pub model: String,
    /// Tokens of the request (≈).
    pub input_tokens: u64,
    /// Tokens reserved on the task, every task above it and the run: the worst case.
    pub reserved_tokens: u64,
    /// Money reserved there: the most that those tokens can cost. Absent where the price is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_cost: Option<Money>,
}

/// A request that the code of a call makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CallRequest {
    /// The call.
    pub call: CallId,
    /// Which of its requests, from 1; again from 1 when the call runs again.
    pub request: u32,
}

/// The settled usage of a model request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct BudgetSettled {
    /// The task.
    pub task: TaskId,
    /// Its turn.
    pub turn: u32,
    /// The request, where the code of a call made it; absent for the request of the turn itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Box<CallRequest>>,
    /// The reserved tokens.
    pub reserved_tokens: u64,
    /// The used tokens.
    pub usage: Usage,
    /// Whether the usage is unknown: the request was open in a crash, or was cancelled. `usage` and `cost` are then
    /// the whole reservation, which limits count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
    /// The cost at the pinned price; absent if the price is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
}

/// Older turns are replaced by a summary in later requests, which begin a new prefix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Compacted {
    /// The task.
    pub task: TaskId,
    /// The last turn in the summary.
    pub through_turn: u32,
    /// Summary of those turns by the agent's model. `None` for a digest, which rendering computes: the texts and calls
    /// of the turns, shortened, of which the newest stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The most tokens (≈) that the summary takes.
    pub summary_tokens: u64,
    /// Tokens (≈) of the task's next request with the summary.
    pub context_tokens: u64,
}
