//! The meaning of a callback for the call that waits for it: one decision for each, in the order of the protocol.
//!
//! A callback that is malformed changes nothing: it goes to the dead-letter subject with the reason, and the call stays suspended until
//! its deadline. The original system ends the work there, so one bad message of a service could end the work of an agent.

use std::fmt;
use std::time::Duration;

use baton_types::call::{AfterExecution, CallStatus};
use baton_types::config::Configs;
use baton_types::entry::Entry;
use baton_types::id::{CallId, RunId};
use serde_json::{Map, Value};

use crate::MAX_PAYLOAD_BYTES;
use crate::callback::RESULT_IN_CARD;
use crate::card::Card;
use crate::control::Requested;
use crate::error_code::ErrorCode;
use crate::id::{AgentName, AgentTurnId, CardId, StepId, ToolCallId, turn_epoch};
use crate::read::{Fields, PayloadError, after_execution, object, shown};
use crate::result::{Given, ResultError, ToolResultContent};
use crate::status::Status;

/// Time after which a callback is looked at again whose work is not known yet.
pub const UNKNOWN_TURN_PAUSE: Duration = Duration::from_secs(2);
/// Time after which a callback is looked at again whose work still runs.
pub const RUNNING_PAUSE: Duration = Duration::from_secs(1);
/// Time after which a callback is looked at again whose card is not there yet.
pub const MISSING_CARD_PAUSE: Duration = Duration::from_millis(1_500);

/// A callback as it came: readable enough to find its call, and judged no further.
#[derive(Clone, Debug)]
pub struct Received {
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The work.
    pub agent_turn_id: AgentTurnId,
    /// The epoch of the work.
    pub turn_epoch: u64,
    /// The agent.
    pub agent_id: AgentName,
    /// The step, if it is named.
    pub step_id: Option<StepId>,
    /// The message, for the fields that later steps look at.
    fields: Map<String, Value>,
}

impl Received {
    /// Reads a callback as far as its call can be found: step 1.
    ///
    /// # Errors
    /// The dead letter of a message that cannot be read, or lacks a field that names the call.
    pub fn read(bytes: &[u8]) -> Result<Self, DeadReason> {
        let invalid = |error: PayloadError| {
            let is_missing = error.fields().iter().any(|fault| fault.field == "tool_call_id");
            let code = if is_missing { DeadCode::MissingToolCallId } else { DeadCode::InvalidPayload };
            DeadReason { code, reason: error.to_string() }
        };
        let fields = object(bytes, MAX_PAYLOAD_BYTES).map_err(invalid)?;
        let mut reader = Fields::of(&fields);
        let call = reader.name("tool_call_id");
        let turn = reader.name("agent_turn_id");
        let epoch = reader.epoch("turn_epoch");
        let agent = reader.name("agent_id");
        let step = reader.optional_name("step_id");
        let names = || Some((call?, turn?, epoch?, agent?, step?));
        let (tool_call_id, agent_turn_id, turn_epoch, agent_id, step_id) = reader.finish(names()).map_err(invalid)?;
        Ok(Self { tool_call_id, agent_turn_id, turn_epoch, agent_id, step_id, fields })
    }

    /// Returns the card that the callback names, if it names one.
    pub fn card_id(&self) -> Option<CardId> {
        self.fields.get("tool_result_card_id").and_then(Value::as_str).and_then(crate::id::Name::parse)
    }
}

/// State of the work that a callback names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnState {
    /// There is no such work, or not yet.
    Unknown,
    /// It runs: its calls are not suspended yet.
    Running,
    /// It waits for results.
    Suspended,
    /// It is over.
    Ended,
}

/// State of the call that a callback names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallState {
    /// The work has no such call.
    Unknown,
    /// It waits for its result.
    Waiting,
    /// The card of its result is known, and not applied yet.
    Received(CardId),
    /// It has its result.
    Applied,
    /// Its deadline has passed.
    Expired,
}

/// Facts of the worker about the work and the call.
#[derive(Clone, Debug)]
pub struct Known {
    /// State of the work.
    pub turn: TurnState,
    /// The work that the call belongs to. Of no meaning if it is unknown.
    pub agent_turn_id: AgentTurnId,
    /// Its epoch.
    pub turn_epoch: u64,
    /// State of the call.
    pub call: CallState,
    /// Next step by the command.
    pub command_after: AfterExecution,
    /// Whether the result may change it.
    pub controls_flow: bool,
}

impl Known {
    /// Returns the facts about `call` of `run` in `entries`, which are durable and in order; `None` if the call has not begun. Entries
    /// of other tasks may be left out.
    pub fn of<'a>(run: &RunId, call: &CallId, entries: impl IntoIterator<Item = &'a Entry>, configs: &Configs) -> Option<Self> {
        let task = call.task();
        let (mut tool, mut turn, mut state) = (None, TurnState::Running, CallState::Unknown);
        for entry in entries {
            match entry {
                Entry::CallStarted(started) if started.call == *call => tool = Some(&started.tool),
                Entry::CallSuspended(suspended) if suspended.call == *call => {
                    (turn, state) = (TurnState::Suspended, CallState::Waiting);
                }
                Entry::CallFinished(finished) if finished.call == *call => {
                    let is_late = finished.result.status == CallStatus::Timeout && finished.delivered_by.is_none();
                    (turn, state) = (TurnState::Suspended, if is_late { CallState::Expired } else { CallState::Applied });
                }
                Entry::TaskEnded(ended) if ended.task == task => turn = TurnState::Ended,
                Entry::SubtreeClosed(closed) if closed.tasks.contains(&task) => turn = TurnState::Ended,
                _ => {}
            }
        }
        let tool = configs.tools.get(tool?)?;
        Some(Self {
            turn,
            agent_turn_id: AgentTurnId::of(run, &task),
            turn_epoch: turn_epoch(call),
            call: state,
            command_after: tool.after_by_default(),
            controls_flow: tool.controls_flow,
        })
    }
}

/// The card that the callback names, as the store has it.
#[derive(Clone, Debug, PartialEq)]
pub enum CardLookup {
    /// There is no such card, or not yet.
    Missing,
    /// The card.
    Found(Box<Card>),
}

/// The outcome of a callback.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// The call gets this result, in the transaction that takes it out of the waiting ones.
    Apply(Box<Applied>),
    /// The callback is looked at again after this time.
    Defer(Duration),
    /// The callback is acknowledged and changes nothing.
    Ignore(IgnoreReason),
    /// The callback goes to the dead-letter subject. The call stays suspended.
    DeadLetter(DeadReason),
}

/// A result to be applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The card.
    pub card_id: CardId,
    /// The content of the card. Its status and error count, not those of the callback.
    pub content: ToolResultContent,
    /// The effective next step.
    pub after_execution: AfterExecution,
}

/// Why a callback changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IgnoreReason {
    /// It names other work.
    OtherTurn,
    /// It names an epoch that is not the present one.
    OtherEpoch,
    /// The work is over.
    TurnEnded,
    /// The work waits for no such call.
    NotWaiting,
    /// The call has its result.
    Applied,
    /// The deadline of the call has passed.
    Expired,
    /// Another card was the first result.
    NotFirst,
}

impl fmt::Display for IgnoreReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherTurn => "the callback belongs to other work",
            Self::OtherEpoch => "the callback has another turn_epoch than the work",
            Self::TurnEnded => "the work is over",
            Self::NotWaiting => "the work waits for no such call",
            Self::Applied => "the call has its result",
            Self::Expired => "the deadline of the call has passed",
            Self::NotFirst => "the call has an earlier result",
        })
    }
}

/// Why a callback goes to the dead-letter subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadReason {
    /// The stable code.
    pub code: DeadCode,
    /// The reason as a sentence.
    pub reason: String,
}

/// Codes of dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadCode {
    /// The message cannot be read, lacks a required field or holds a result.
    InvalidPayload,
    /// The message names no call.
    MissingToolCallId,
    /// The message names no card.
    MissingToolResultCard,
    /// The next step is neither `suspend` nor `terminate`.
    InvalidAfterExecution,
    /// The card is not the result of this call.
    WrongCard,
    /// The work, the call or the card was not there for a long time.
    NotFound,
}

impl DeadCode {
    /// Returns the spelling on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidPayload => "invalid_payload",
            Self::MissingToolCallId => "missing_tool_call_id",
            Self::MissingToolResultCard => "missing_tool_result_card",
            Self::InvalidAfterExecution => "invalid_after_execution",
            Self::WrongCard => "wrong_tool_result_card",
            Self::NotFound => "not_found",
        }
    }
}

/// Decides what happens with a callback that [`Received::read`] accepted (step 1). Nothing else has an effect on the decision.
///
/// The steps that follow on `Apply` are the caller's: the transaction (13), and the end of the turn, which the machine decides (14 and 15).
pub fn decide(received: &Received, known: &Known, card: &CardLookup) -> Decision {
    // 2 to 4: the work.
    if known.turn == TurnState::Unknown {
        return Decision::Defer(UNKNOWN_TURN_PAUSE);
    }
    if received.agent_turn_id != known.agent_turn_id {
        return Decision::Ignore(IgnoreReason::OtherTurn);
    }
    if received.turn_epoch != known.turn_epoch {
        return Decision::Ignore(IgnoreReason::OtherEpoch);
    }
    match known.turn {
        TurnState::Suspended => {}
        TurnState::Running => return Decision::Defer(RUNNING_PAUSE),
        TurnState::Ended | TurnState::Unknown => return Decision::Ignore(IgnoreReason::TurnEnded),
    }
    // 5 to 9: the message and its card.
    let judged = match judge(received, card) {
        Ok(judged) => judged,
        Err(reason) => return Decision::DeadLetter(reason),
    };
    // 10: the card may be slower than the callback.
    let Some(found) = judged.card else { return Decision::Defer(MISSING_CARD_PAUSE) };
    // 11 and 12: the first result of a call that waits.
    match &known.call {
        CallState::Waiting => {}
        CallState::Received(first) if *first == found.card_id => {}
        CallState::Received(_) => return Decision::Ignore(IgnoreReason::NotFirst),
        CallState::Unknown => return Decision::Ignore(IgnoreReason::NotWaiting),
        CallState::Applied => return Decision::Ignore(IgnoreReason::Applied),
        CallState::Expired => return Decision::Ignore(IgnoreReason::Expired),
    }
    let mut content = found.content;
    if let Err(status) = judged.status {
        content =
            Given { status, after_execution: content.after_execution, result: content.result, error: content.error }.content();
    }
    let requested =
        Requested { command: known.command_after, callback: Some(judged.after_execution), controls_flow: known.controls_flow };
    let after_execution = requested.effective(content.after_execution, &content.result);
    Decision::Apply(Box::new(Applied { card_id: found.card_id, content, after_execution }))
}

/// A message without faults.
struct Judged {
    /// Its status, or the text of an unknown one.
    status: Result<Status, String>,
    after_execution: AfterExecution,
    /// The card; `None` if it is missing.
    card: Option<FoundCard>,
}

struct FoundCard {
    card_id: CardId,
    content: ToolResultContent,
}

/// Steps 5 to 9: what is wrong with the message or its card.
fn judge(received: &Received, lookup: &CardLookup) -> Result<Judged, DeadReason> {
    let dead = |code, reason: String| DeadReason { code, reason };
    let mut fields = Fields::of(&received.fields);
    fields.refuse_inline(RESULT_IN_CARD);
    fields.finish(Some(())).map_err(|error| dead(DeadCode::InvalidPayload, error.to_string()))?;
    let mut fields = Fields::of(&received.fields);
    let card_id = fields.name::<CardId>("tool_result_card_id");
    let card_id = fields.finish(card_id).map_err(|error| dead(DeadCode::MissingToolResultCard, error.to_string()))?;
    let mut fields = Fields::of(&received.fields);
    // The seed knows five statuses. Another one is a failure with a name for it: the work has waited for this result.
    let status =
        fields.choice("status", crate::callback::STATUS_RULE, |text| Some(Status::parse(text).ok_or_else(|| text.to_owned())));
    let status = fields.finish(status).map_err(|error| dead(DeadCode::InvalidPayload, error.to_string()))?;
    let after = received.fields.get("after_execution");
    let after_execution = after.and_then(Value::as_str).and_then(after_execution).ok_or_else(|| {
        let found = after.map_or("is missing".to_owned(), |after| format!("is {}", shown(after)));
        dead(DeadCode::InvalidAfterExecution, format!("after_execution {found}; expected \"suspend\" or \"terminate\""))
    })?;
    let card = match lookup {
        CardLookup::Missing => None,
        CardLookup::Found(card) => {
            let mut faults = card.faults_as_result(&received.agent_turn_id, &received.tool_call_id);
            if card.card_id != card_id {
                faults.insert(
                    0,
                    crate::read::FieldFault {
                        field: "card_id".to_owned(),
                        reason: format!("is {:?}; expected {:?}", card.card_id.as_str(), card_id.as_str()),
                    },
                );
            }
            let faults: Vec<String> = faults.iter().map(|fault| format!("{fault} in the card")).collect();
            match card.result().filter(|_| faults.is_empty()) {
                Some(content) => Some(FoundCard { card_id, content: content.clone() }),
                None => return Err(dead(DeadCode::WrongCard, faults.join("; "))),
            }
        }
    };
    Ok(Judged { status, after_execution, card })
}

/// Returns the content of a result that no service gave: the deadline of the call has passed.
pub fn timed_out() -> ToolResultContent {
    let error = ResultError::new(ErrorCode::TOOL_TIMEOUT, "no result came in time");
    let status = Status::Timeout.as_str().to_owned();
    Given { status, after_execution: None, result: baton_types::json::Json::null(), error: Some(error) }.content()
}
