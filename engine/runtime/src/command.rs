//! Commands: what one process asks of the process that owns a run, by way of the store's inbox.

use baton_core::document::Write;
use baton_core::event::Event;
use baton_core::id::TaskId;
use baton_core::json::Json;
use serde::{Deserialize, Serialize};

/// A command. Kept in the inbox as JSON until the owner has carried it out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// A person answers a question.
    Answer {
        /// The question's task.
        question: TaskId,
        /// How the person is known.
        by: String,
        /// The answer.
        answer: Json,
        /// Documents that come along; their contents are in the store already.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        documents: Vec<Write>,
    },
    /// Somebody ends a task and all below it.
    Cancel {
        /// The task.
        task: TaskId,
        /// Why.
        reason: String,
        /// Who.
        by: String,
    },
    /// Somebody stops the run from taking further steps.
    Pause {
        /// Who.
        by: String,
    },
    /// Somebody lets a paused run go on.
    Unpause {
        /// Who.
        by: String,
    },
    /// Somebody sends a message into the next request of a task.
    Steer {
        /// The task.
        task: TaskId,
        /// The message.
        text: String,
        /// Who.
        by: String,
    },
}

impl From<Command> for Event {
    fn from(command: Command) -> Self {
        match command {
            Command::Answer { question, by, answer, documents } => Self::PersonAnswered { question, by, answer, documents },
            Command::Cancel { task, reason, by } => Self::CancelRequested { task, reason, by },
            Command::Pause { by } => Self::PauseRequested { by },
            Command::Unpause { by } => Self::UnpauseRequested { by },
            Command::Steer { task, text, by } => Self::Steered { task, text, by },
        }
    }
}
