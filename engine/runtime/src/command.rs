//! Commands that one process sends to the process that owns a run, through the store's inbox, and their delivery.

use baton_types::call::{AfterExecution, CallError, CallStatus, ErrorCode};
use baton_types::document::Write;
use baton_types::event::{Event, Outcome};
use baton_types::id::{CallId, TaskId};
use baton_types::json::Json;
use baton_types::principal::Principal;
use serde::{Deserialize, Serialize};

/// A command. Kept in the inbox as JSON until the owner has carried it out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// A person answers a question.
    Answer {
        /// The question's task.
        question: TaskId,
        /// Author of the answer.
        by: Principal,
        /// The answer.
        answer: Json,
        /// Documents that come along; their contents are in the store already.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        documents: Vec<Write>,
    },
    /// Somebody delivers the result of a suspended call.
    Deliver {
        /// The call.
        call: CallId,
        /// Author.
        by: Principal,
        /// The result.
        result: Delivered,
    },
    /// Somebody ends a task and all below it.
    Cancel {
        /// The task.
        task: TaskId,
        /// Why.
        reason: String,
        /// Author of the cancellation.
        by: Principal,
    },
    /// Somebody stops the run from taking further steps.
    Pause {
        /// Author of the pause.
        by: Principal,
    },
    /// A paused run continues.
    Unpause {
        /// Author of the command.
        by: Principal,
    },
    /// Somebody sends a message into the next request of a task.
    Steer {
        /// The task.
        task: TaskId,
        /// The message.
        text: String,
        /// Author of the message.
        by: Principal,
    },
}

/// The result of a suspended call, as somebody outside delivers it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delivered {
    /// The status.
    pub status: CallStatus,
    /// The output.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub output: Json,
    /// The error, if the status is not `success`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CallError>,
    /// The next step after the result, if it is not that of the tool's config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<AfterExecution>,
}

impl From<Result<Json, String>> for Delivered {
    /// Returns a success with an output, or a failure with a reason.
    fn from(result: Result<Json, String>) -> Self {
        let (status, output, error) = match result {
            Ok(output) => (CallStatus::Success, output, None),
            Err(reason) => (CallStatus::Failed, Json::null(), Some(CallError::new(ErrorCode::ToolFailed, reason))),
        };
        Self { status, output, error, after: None }
    }
}

impl From<Delivered> for Outcome {
    fn from(Delivered { status, output, error, after }: Delivered) -> Self {
        Self { status, error, after, ..Self::success(output) }
    }
}

impl From<Command> for Event {
    fn from(command: Command) -> Self {
        match command {
            Command::Answer { question, by, answer, documents } => {
                Self::PersonAnswered { question, by, answer, documents, recorded: None }
            }
            Command::Deliver { call, by, result } => Self::ResultDelivered { call, by, outcome: result.into() },
            Command::Cancel { task, reason, by } => Self::CancelRequested { task, reason, by },
            Command::Pause { by } => Self::PauseRequested { by },
            Command::Unpause { by } => Self::UnpauseRequested { by },
            Command::Steer { task, text, by } => Self::Steered { task, text, by },
        }
    }
}
