//! Entries of questions.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ForkPoint, Holder};
use crate::document::DocumentRef;
use crate::id::TaskId;
use crate::json::Json;
use crate::principal::Principal;

/// A question waits for its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct QuestionOpened {
    /// The question's task.
    pub task: TaskId,
    /// Its number in the run, from 1: people say `Q1`.
    pub number: u32,
    /// The task that asked.
    pub asker: TaskId,
    /// Recipient of the question.
    pub holder: Holder,
    /// The question.
    pub question: String,
    /// The documents that came with it, pinned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<DocumentRef>,
    /// The JSON Schema that an answer must meet.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub answer_schema: Json,
    /// Step to take if no answer comes before the deadline of the task.
    #[serde(alias = "otherwise")]
    pub on_deadline: OnDeadline,
}

/// Step to take for a question without an answer in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDeadline {
    /// This answer is taken.
    Default(Json),
    /// The question goes to the next master; from a person it fails.
    Escalate,
    /// The asker gets a `timeout` result.
    Fail,
}

impl OnDeadline {
    /// Returns the policy that the input of a question asks for.
    pub fn of(input: &Value) -> Self {
        let default = input.get("default_answer").filter(|value| !value.is_null());
        match (input.get("on_deadline").and_then(Value::as_str), default) {
            (Some("escalate"), _) => Self::Escalate,
            (Some("default") | None, Some(default)) => Self::Default(Json::from(default)),
            _ => Self::Fail,
        }
    }
}

/// A question was answered, expired or was withdrawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct QuestionClosed {
    /// The question's task.
    pub task: TaskId,
    /// Its number.
    pub number: u32,
    /// End of the question.
    pub how: QuestionEnd,
}

/// Ways in which a question ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuestionEnd {
    /// Somebody answered.
    Answered {
        /// Author of the answer.
        by: Principal,
        /// The answer.
        answer: Json,
        /// The entry of another run that a fork took the answer from; `None` for an answer given to this run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recorded: Option<ForkPoint>,
    },
    /// The deadline passed; the default was used, if there is one.
    Expired {
        /// The default that was taken.
        #[serde(default, skip_serializing_if = "Json::is_null")]
        default: Json,
    },
    /// The deadline passed, and the question was escalated to the next master.
    Escalated {
        /// New recipient.
        to: Holder,
        /// By which task.
        task: TaskId,
    },
    /// The task that should have answered it ended without an answer.
    Failed {
        /// Why.
        reason: String,
    },
}

/// The end in words, for an answer that came too late.
impl std::fmt::Display for QuestionEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Answered { by, answer, .. } => write!(f, "{by} answered {}", answer.text()),
            Self::Expired { .. } => f.write_str("its deadline passed"),
            Self::Escalated { to, .. } => write!(f, "it was passed on to {to}"),
            Self::Failed { reason } => f.write_str(reason),
        }
    }
}
