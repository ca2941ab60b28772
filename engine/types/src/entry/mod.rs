//! The timeline: the ordered facts of a run. State is their fold, and nothing else is true.
//!
//! The list of entries is closed and exhaustive on purpose: a reader that forgets a case must not compile.
//! Entries are stored as externally tagged JSON, because payloads are kept raw ([`Json`]).
//!
//! An entry is *not* a log line: nothing here is for people alone, and nothing that replay needs is missing.

mod call;
mod question;
mod run;
mod task;
mod turn;

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use call::{CallApproved, CallFinished, CallMade, CallRefused, CallStarted, CallSuspended, Conflict, Output, Said};
pub use question::{OnDeadline, QuestionClosed, QuestionEnd, QuestionOpened};
pub use run::{Adoption, Control, ControlAction, Fork, ForkPoint, ForkedEffects, RunEnded, RunStarted, Waited};
pub use task::{Concern, FinalState, Holder, Master, SubtreeClosed, TaskCreated, TaskEnded, TaskKind, TaskReported};
pub use turn::{
    BudgetSettled, Bundle, CallAskedModel, CallRequest, Compacted, FellBack, InputChange, KeptResult, LimitsLeft, ModelAnswered,
    ModelRequested, Notice, ReminderReason, TurnKind,
};

use crate::call::CallStatus;
use crate::document::DocumentVersion;
use crate::id::{CallId, ContentHash, TaskId};
use crate::json::Json;
use crate::time::Timestamp;

/// An entry in its place: `seq` runs from 1 without gaps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Recorded {
    /// Its place in the run.
    pub seq: u64,
    /// The decision that appended it: all entries that answer one event share the number. Runs from 1 without gaps.
    ///
    /// Between two decisions a run is at rest, so a fork may begin there and nowhere else.
    pub decision: u64,
    /// When it was decided.
    pub at: Timestamp,
    /// The fact.
    pub entry: Entry,
}

/// One fact of a run. The large ones are boxed, so that the many small ones take little room.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// The run exists.
    RunStarted(Box<RunStarted>),
    /// A task exists; it is the root, a delegation or a question.
    TaskCreated(Box<TaskCreated>),
    /// A model is about to be asked; the worst case of the request is reserved.
    ModelRequested(ModelRequested),
    /// The model is not available, and another is asked in its place.
    FellBack(Box<FellBack>),
    /// The model answered.
    ModelAnswered(ModelAnswered),
    /// A call was refused before it touched anything: its one result is an error.
    CallRefused(CallRefused),
    /// A call that had to be approved was.
    CallApproved(CallApproved),
    /// A call was accepted and begins.
    CallStarted(CallStarted),
    /// The code of a running call asks a model.
    CallAskedModel(Box<CallAskedModel>),
    /// The code of a running call made another call.
    CallMade(CallMade),
    /// The code of a call has ended, and its result comes later.
    CallSuspended(Box<CallSuspended>),
    /// A call has its one result.
    CallFinished(CallFinished),
    /// A document has a new version.
    DocumentWritten(Arc<DocumentVersion>),
    /// A question waits for its answer.
    QuestionOpened(Box<QuestionOpened>),
    /// A question was answered, expired or was withdrawn.
    QuestionClosed(QuestionClosed),
    /// A result was sent to the user instead of the agent.
    Output(Output),
    /// The real usage of a model request replaces its reservation.
    BudgetSettled(BudgetSettled),
    /// Older turns of a task are replaced by a summary in later requests.
    Compacted(Compacted),
    /// Somebody outside the task graph acted on the run.
    Control(Control),
    /// All unfinished tasks below a task were closed at once, with their open calls and questions.
    SubtreeClosed(SubtreeClosed),
    /// A task has its one end.
    TaskEnded(TaskEnded),
    /// A background task has ended, and its caller learns the result.
    TaskReported(Box<TaskReported>),
    /// The run has its one end.
    RunEnded(RunEnded),
}

/// An output of a run for its user.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum UserOutput<'a> {
    /// The message of a turn.
    Message {
        /// The task whose turn it is.
        task: &'a TaskId,
        /// Which of its turns.
        turn: u32,
        /// The text.
        message: &'a str,
    },
    /// The result of a call.
    Result {
        /// The task whose call it is.
        task: &'a TaskId,
        /// The call.
        call: &'a CallId,
        /// Its status.
        status: CallStatus,
        /// Its output.
        output: Cow<'a, Json>,
    },
}

impl Entry {
    /// Returns the task that the entry belongs to; `None` for what concerns the whole run.
    pub fn task(&self) -> Option<&TaskId> {
        match self {
            Self::RunStarted(_) | Self::RunEnded(_) => None,
            Self::TaskCreated(entry) => Some(&entry.task),
            Self::ModelRequested(entry) => Some(&entry.task),
            Self::FellBack(entry) => Some(&entry.task),
            Self::ModelAnswered(entry) => Some(&entry.task),
            Self::CallRefused(entry) => Some(&entry.task),
            Self::CallApproved(entry) => Some(&entry.task),
            Self::CallStarted(entry) => Some(&entry.task),
            Self::CallAskedModel(entry) => Some(&entry.task),
            Self::CallMade(entry) => Some(&entry.task),
            Self::CallSuspended(entry) => Some(&entry.task),
            Self::CallFinished(entry) => Some(&entry.task),
            Self::DocumentWritten(entry) => entry.task.as_ref(),
            Self::QuestionOpened(entry) => Some(&entry.task),
            Self::QuestionClosed(entry) => Some(&entry.task),
            Self::Output(entry) => Some(&entry.task),
            Self::BudgetSettled(entry) => Some(&entry.task),
            Self::Compacted(entry) => Some(&entry.task),
            Self::Control(entry) => entry.task.as_ref(),
            Self::SubtreeClosed(entry) => Some(&entry.task),
            Self::TaskEnded(entry) => Some(&entry.task),
            Self::TaskReported(entry) => Some(&entry.task),
        }
    }

    /// Returns what the entry sends to the user: the message of a turn, or the result of a call with `"return_to_llm": false`.
    ///
    /// Each of these entries is one output, so a watcher that receives each entry once receives each output once.
    pub fn user_output(&self) -> Option<UserOutput<'_>> {
        match self {
            Self::ModelAnswered(answered) => {
                let message = answered.message()?;
                Some(UserOutput::Message { task: &answered.task, turn: answered.turn, message })
            }
            Self::Output(Output { task, call, status, output }) => {
                Some(UserOutput::Result { task, call, status: *status, output: output.shown() })
            }
            _ => None,
        }
    }

    /// Returns the configs with which the run continues from this entry on, if it changes them.
    pub fn adopts(&self) -> Option<&Adoption> {
        match self {
            Self::Control(Control { action: ControlAction::Adopted(adoption), .. }) => Some(adoption),
            _ => None,
        }
    }

    /// Returns the stored content that the entry names: it is durable with the entry, and kept as long as the entry is.
    pub fn content(&self) -> Option<ContentHash> {
        match self {
            Self::DocumentWritten(version) => Some(version.content.hash),
            Self::RunStarted(started) => Some(started.configs),
            entry => entry.adopts().map(|adoption| adoption.configs),
        }
    }
}

/// Declares the names of entries. An entry without a name does not compile.
macro_rules! names {
    ($($variant:ident: $name:literal,)*) => {
        impl Entry {
            /// The names of all entries.
            pub const NAMES: &[&str] = &[$($name),*];

            /// Returns the entry's name. Stored entries are tagged with it.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)*
                }
            }
        }
    };
}

names! {
    RunStarted: "run_started",
    TaskCreated: "task_created",
    ModelRequested: "model_requested",
    FellBack: "fell_back",
    ModelAnswered: "model_answered",
    CallRefused: "call_refused",
    CallApproved: "call_approved",
    CallStarted: "call_started",
    CallAskedModel: "call_asked_model",
    CallMade: "call_made",
    CallSuspended: "call_suspended",
    CallFinished: "call_finished",
    DocumentWritten: "document_written",
    QuestionOpened: "question_opened",
    QuestionClosed: "question_closed",
    Output: "output",
    BudgetSettled: "budget_settled",
    Compacted: "compacted",
    Control: "control",
    SubtreeClosed: "subtree_closed",
    TaskEnded: "task_ended",
    TaskReported: "task_reported",
    RunEnded: "run_ended",
}
