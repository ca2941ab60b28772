//! Callbacks: what a tool service sends once the result is in a `tool.result` card, and wake-ups, which follow.
//!
//! A callback only names the call and the card. The card holds status, result and error.

use schemars::JsonSchema;
use serde::Serialize;

use crate::MAX_PAYLOAD_BYTES;
use crate::command::Control;
use crate::id::{AgentName, AgentTurnId, CardId, StepId};
use crate::read::{Fields, PayloadError, object};
use crate::status::Status;

/// The rule for a status, as messages give it.
pub(crate) const STATUS_RULE: &str = "\"success\", \"failed\", \"canceled\", \"timeout\" or \"partial\"";

/// Place of a result, for the message that refuses an inline one.
pub(crate) const RESULT_IN_CARD: &str = "the card tool_result_card_id holds the result";

/// A callback, on `cmd.sys.report.tool_result`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(title = "UTP callback")]
pub struct Callback {
    /// The call, as the command named it. `after_execution` may differ from the command: the service then overrides it.
    #[serde(flatten)]
    pub control: Control,
    /// The step of the call, as the command named it. Recommended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_id: Option<StepId>,
    /// Status of the result, as in the card.
    pub status: Status,
    /// The `tool.result` card with the result.
    pub tool_result_card_id: CardId,
}

impl Callback {
    /// Reads a callback of at most [`MAX_PAYLOAD_BYTES`]. Unknown fields are ignored and dropped.
    ///
    /// Use it to check a message before it is sent. A receiver uses [`crate::resume::decide`], which looks at the fields in the order of
    /// the protocol, and accepts a status that it does not know as `failed`.
    ///
    /// # Errors
    /// All faults: required fields that are missing or of the wrong type, and inline results.
    pub fn read(bytes: &[u8]) -> Result<Self, PayloadError> {
        let object = object(bytes, MAX_PAYLOAD_BYTES)?;
        let mut fields = Fields::of(&object);
        fields.refuse_inline(RESULT_IN_CARD);
        let control = Control::read(&mut fields);
        let step = fields.optional_name("step_id");
        let status = fields.choice("status", STATUS_RULE, Status::parse);
        let card = fields.name("tool_result_card_id");
        let read = || Some(Self { control: control?, step_id: step?, status: status?, tool_result_card_id: card? });
        fields.finish(read())
    }
}

/// A wake-up of a worker, on `cmd.agent.TARGET.wakeup`.
///
/// It carries no news. Its receiver looks into the inbox, so a wake-up that is lost only delays, and one that comes twice does nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(title = "UTP wake-up")]
pub struct Wakeup {
    /// The agent with something in its inbox.
    pub agent_id: AgentName,
    /// The work that it is about, if one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_turn_id: Option<AgentTurnId>,
}

impl Wakeup {
    /// Reads a wake-up of at most [`MAX_PAYLOAD_BYTES`]. Unknown fields are ignored and dropped.
    ///
    /// # Errors
    /// All faults: fields that are missing or of the wrong type, and inline inputs or results.
    pub fn read(bytes: &[u8]) -> Result<Self, PayloadError> {
        let object = object(bytes, MAX_PAYLOAD_BYTES)?;
        let mut fields = Fields::of(&object);
        fields.refuse_inline("a wake-up has no news");
        let agent = fields.name("agent_id");
        let turn = fields.optional_name("agent_turn_id");
        let read = || Some(Self { agent_id: agent?, agent_turn_id: turn? });
        fields.finish(read())
    }
}
