//! The names that the files of the machine share: those of the types, and the machine's own.

pub(crate) use std::sync::Arc;
pub(crate) use std::time::Duration;

pub(crate) use baton_render::{self as render, outcome};
pub(crate) use baton_types::call::{AfterExecution, CallError, CallResult, CallStatus, ErrorCode, ModelCall, Suspension};
pub(crate) use baton_types::config::{Agent, Approver, Configs, Tool};
pub(crate) use baton_types::document::{DocumentRef, DocumentVersion, Documents, Write};
pub(crate) use baton_types::entry::{
    CallFinished, CallMade, CallRefused, CallStarted, CallSuspended, Concern, Control, ControlAction, Entry, FinalState, Holder,
    Master, ModelAnswered, Notice, OnDeadline, QuestionClosed, QuestionEnd, Recorded, RunEnded, RunStarted, TaskCreated,
    TaskKind,
};
pub(crate) use baton_types::event::{Decision, Effect, Refusal};
pub(crate) use baton_types::id::{AgentId, CallId, ContentHash, TaskId, ToolId};
pub(crate) use baton_types::json::Json;
pub(crate) use baton_types::limits::{Amounts, LimitKind, Limits, Reached};
pub(crate) use baton_types::model::Usage;
pub(crate) use baton_types::money::{Cost, Money};
pub(crate) use baton_types::principal::Principal;
pub(crate) use baton_types::schema::Schema;
pub(crate) use baton_types::time::Timestamp;
pub(crate) use baton_types::tool_type::{Then, ToolType};
pub(crate) use serde_json::{Value, json};

pub(crate) use crate::Run;
pub(crate) use crate::calls::{CallStage, Finish, OpenAsk, OpenCall, OpenCalls};
pub(crate) use crate::draft::{CallAt, Draft};
pub(crate) use crate::graph::TaskIndex;
pub(crate) use crate::phase::{Next, Phase, Purpose};
pub(crate) use crate::reservation::{Counted, Reservation, Used};
pub(crate) use crate::room::Admission;
pub(crate) use crate::rules::{End, NeededApproval, Step};
pub(crate) use crate::task::{Budget, Context, Missed, Question, Task};
