//! Lengths of requests, counted again from their messages alone. The machine adds a length up entry by entry.

use std::collections::{BTreeMap, BTreeSet};

use baton_machine::Run;
use baton_types::call::{CallError, CallResult};
use baton_types::config::{Agent, CATALOG_BYTES, Catalog, Invocation, STANDARD_BYTES};
use baton_types::document::{DocumentRef, DocumentVersion};
use baton_types::entry::{ControlAction, Entry, Notice, Recorded, Said};
use baton_types::estimate::text_tokens;
use baton_types::id::{CallId, TaskId};
use baton_types::message::{FRAME_BYTES, Message, Part, Role};
use baton_types::model::{ModelRequest, ToolDefinition};
use baton_types::principal::Principal;

/// Tokens of the record of a document that the engine wrote for a request without room, and of a notice about limits.
const RECORD_TOKENS: u64 = 128;
const LIMITS_TOKENS: u64 = 64;

/// The facts that no message has.
#[derive(Default)]
pub(crate) struct Recount {
    refused: BTreeSet<CallId>,
    /// Results whose outputs were documents from the start.
    kept: BTreeSet<CallId>,
    /// Documents that hold several results and records of a task, for which a request of that task had no room.
    bundles: BTreeSet<(TaskId, DocumentRef)>,
    /// Tokens of the messages from people that no request of the task shows yet.
    unsent: BTreeMap<TaskId, u64>,
    requested: BTreeMap<TaskId, Requested>,
    /// Number and tokens of the messages of the newest request of each task.
    counted: BTreeMap<TaskId, (usize, u64)>,
    /// Tokens of the summary in the conversation of a task.
    summaries: BTreeMap<TaskId, u64>,
}

/// The newest request of a task.
#[derive(Clone, Copy)]
struct Requested {
    tokens: u64,
    tells_limits: bool,
    /// Tokens of the messages from people that it does not show.
    unsent: u64,
}

impl Recount {
    fn unsent(&self, task: &TaskId) -> u64 {
        self.unsent.get(task).copied().unwrap_or(0)
    }

    pub(crate) fn apply(&mut self, recorded: &Recorded) {
        match &recorded.entry {
            Entry::TaskCreated(created) => {
                if let Some(earlier) = created.earlier() {
                    // The messages count with the conversation that the task begins with, although it does not show them.
                    self.unsent.insert(created.task.clone(), self.unsent(earlier));
                    if let Some(summary) = self.summaries.get(earlier) {
                        self.summaries.insert(created.task.clone(), *summary);
                    }
                }
            }
            Entry::CallRefused(refused) => _ = self.refused.insert(refused.call.clone()),
            Entry::CallFinished(finished) if finished.result.output.kept().is_some() => {
                self.kept.insert(finished.call.clone());
            }
            Entry::TaskReported(reported) if reported.result.output.kept().is_some() => {
                self.kept.insert(reported.call.clone());
            }
            Entry::Control(control) => {
                if let (ControlAction::Steered { text }, Some(task), Principal::Person(_)) =
                    (&control.action, &control.task, &control.by)
                {
                    *self.unsent.entry(task.clone()).or_default() += framed(text.len());
                }
            }
            Entry::ModelRequested(requested) => {
                let bundle = requested.bundle.as_ref().map(|bundle| (requested.task.clone(), bundle.document.clone()));
                self.bundles.extend(bundle);
                let sent: u64 = requested.steers.iter().map(|text| framed(text.len())).sum();
                if let Some(unsent) = self.unsent.get_mut(&requested.task) {
                    *unsent -= sent;
                }
                let (tokens, tells_limits) = (requested.input_tokens, requested.limits_left.is_some());
                let requested_now = Requested { tokens, tells_limits, unsent: self.unsent(&requested.task) };
                self.requested.insert(requested.task.clone(), requested_now);
            }
            Entry::Compacted(compacted) => {
                self.counted.remove(&compacted.task);
                self.summaries.insert(compacted.task.clone(), compacted.summary_tokens);
            }
            _ => {}
        }
    }

    /// Asserts that the newest request of its task was counted to be as long as `request` is.
    pub(crate) fn check(&mut self, request: &ModelRequest, run: &Run) {
        let task = &request.task;
        let Requested { tokens: counted, tells_limits, unsent } = self.requested[task];
        let (known, before) = self.counted.get(task).copied().unwrap_or_default();
        let messages = before + request.messages[known..].iter().map(|message| self.message(task, message)).sum::<u64>();
        let agent = &run.configs().agents[&request.agent];
        // The prompt has room for the newest notice about limits.
        let spare = if tells_limits { LIMITS_TOKENS } else { 0 };
        let recounted = prompt(agent) + described(agent, request) + messages - spare + unsent;
        let turn = request.turn;
        assert_eq!(counted, recounted, "the length of the request of {task} in turn {turn}: {:#?}", request.messages);
        self.counted.insert(task.clone(), (request.messages.len(), messages));
    }

    fn message(&self, task: &TaskId, message: &Message) -> u64 {
        if message.role == Role::Assistant {
            return text_tokens(message.parts.iter().map(answered_bytes).sum());
        }
        let requested: Vec<usize> = message.parts.iter().filter_map(requested_bytes).collect();
        let requested = if requested.is_empty() { 0 } else { framed(requested.into_iter().sum()) };
        // The changes to a version are shown with each conflict about it, and counted once.
        let mut changes = BTreeSet::new();
        let parts = message.parts.iter().map(|part| match part {
            Part::Conflict { current, with_changes: true, .. } if changes.insert(current.reference()) => {
                framed(0) + current.content.token_count
            }
            part => self.part(task, part),
        });
        requested + parts.sum::<u64>()
    }

    fn part(&self, task: &TaskId, part: &Part) -> u64 {
        match part {
            Part::Result { call, result: Some(result), said, .. } if self.refused.contains(call) => {
                assert!(said.is_empty());
                // Where its error is left out, a refused call takes as much as a short result.
                result.error.as_ref().map_or(framed(0) + 17, error)
            }
            Part::Result { call, result: Some(result), said, .. } => framed(0) + self.outcome(call, result, said),
            Part::TaskResult(ended) => framed(FRAME_BYTES as usize) + self.outcome(&ended.call, &ended.result, &ended.said),
            Part::Instruction { text, .. } | Part::Notice(Notice::Steer { text }) => framed(text.len()),
            Part::Notice(notice @ (Notice::InputChanged(_) | Notice::NotAccepted { .. })) => framed(notice.text().len()),
            Part::Notice(Notice::LimitsLeft(_)) => LIMITS_TOKENS,
            Part::Document(version) => record(version) + version.content.token_count,
            Part::Pointer(version) if self.bundles.contains(&(task.clone(), version.reference())) => RECORD_TOKENS,
            Part::Pointer(version) | Part::Repeated(version) => record(version),
            Part::Conflict { .. } => framed(0),
            Part::Summary { .. } => self.summaries[task],
            Part::Result { result: None, .. }
            | Part::Notice(Notice::Reminder { .. } | Notice::LastTurn { .. } | Notice::Summarise { .. })
            | Part::Request(_)
            | Part::Question { .. }
            | Part::Attempt { .. } => 0,
            Part::Text(_) | Part::Items(_) | Part::Call { .. } => {
                panic!("no part of a new message: {part:?}")
            }
        }
    }

    fn outcome(&self, call: &CallId, result: &CallResult, said: &[Said]) -> u64 {
        let output = match result.output.kept() {
            Some(_) if !self.kept.contains(call) => RECORD_TOKENS,
            _ => text_tokens(result.output.text().len() as u64),
        };
        let said: usize = said.iter().map(|said| said.question.len() + said.answer.text().len()).sum();
        output + text_tokens(said as u64) + result.error.as_ref().map_or(0, error)
    }
}

/// Returns the tokens of a text with its frame.
fn framed(bytes: usize) -> u64 {
    text_tokens(bytes as u64 + FRAME_BYTES)
}

fn error(error: &CallError) -> u64 {
    framed(error.message.len() + error.detail.text().len())
}

fn record(version: &DocumentVersion) -> u64 {
    framed(version.path.as_str().len() + version.content.summary.len())
}

fn requested_bytes(part: &Part) -> Option<usize> {
    match part {
        Part::Request(text) | Part::Attempt { reason: text, .. } => Some(text.len()),
        Part::Question { question, answer_schema, .. } => {
            Some(question.len() + if answer_schema.is_null() { 0 } else { answer_schema.text().len() })
        }
        _ => None,
    }
}

fn answered_bytes(part: &Part) -> u64 {
    match part {
        Part::Text(text) => text.len() as u64,
        Part::Items(items) => items.text().len() as u64,
        Part::Call { asked, .. } => (asked.tool.len() + asked.input.text().len()) as u64 + FRAME_BYTES,
        part => panic!("no part of an answer: {part:?}"),
    }
}

fn definition_bytes(tool: &ToolDefinition) -> usize {
    tool.id.as_str().len() + tool.description.len() + tool.input_schema.text().len()
}

/// Returns the tokens of the prompt and of all tools that it describes.
fn prompt(agent: &Agent) -> u64 {
    let discovers = agent.catalog == Catalog::Discover;
    let tools = agent.tools.values().map(|tool| {
        if discovers && !tool.is_known_at_once() { tool.catalog_line().len() } else { definition_bytes(&tool.definition) }
    });
    let mut bytes = agent.system_prompt.len() + tools.sum::<usize>();
    if agent.invocation == Invocation::Universal {
        bytes += STANDARD_BYTES + CATALOG_BYTES + agent.configuration_lines().len();
    } else if agent.catalog != Catalog::Full {
        bytes += CATALOG_BYTES;
    }
    text_tokens(bytes as u64) + if agent.tell_limits { LIMITS_TOKENS } else { 0 }
}

/// Returns the tokens of the tools that the request offers because they were described.
fn described(agent: &Agent, request: &ModelRequest) -> u64 {
    if !agent.is_offered_described_tools() {
        return 0;
    }
    let described = request.tools.iter().filter(|tool| agent.tools.get(&tool.id).is_some_and(|tool| !tool.is_known_at_once()));
    described.map(|tool| text_tokens(definition_bytes(tool) as u64)).sum()
}
