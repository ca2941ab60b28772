//! Commands: what a worker sends to have a tool executed.
//!
//! A command has no input. The service reads the input from the `tool.call` card.

use baton_types::call::AfterExecution;
use baton_types::id::{AgentId, CallId, RunId, ToolId};
use schemars::JsonSchema;
use serde::Serialize;

use crate::MAX_PAYLOAD_BYTES;
use crate::id::{AgentName, AgentTurnId, CardId, ContextBoxId, Derived, StepId, ToolCallId, ToolName};
use crate::read::{Fields, PayloadError, object};

/// The fields that name the call of a message. The receiver returns them unchanged (seed 004, section 4.3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Control {
    /// The agent whose call it is.
    pub agent_id: AgentName,
    /// The work that the call belongs to.
    pub agent_turn_id: AgentTurnId,
    /// Number of times that this work was dispatched, resumed or reaped. A message with another number is stale.
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807_u64))]
    pub turn_epoch: u64,
    /// The call.
    pub tool_call_id: ToolCallId,
    /// Next step of the work after the result: `suspend` asks the agent again, `terminate` ends the work.
    #[schemars(with = "AfterExecutionName")]
    pub after_execution: AfterExecution,
}

/// The two values of `after_execution`, for schemas.
#[derive(JsonSchema)]
#[schemars(inline, rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum AfterExecutionName {
    Suspend,
    Terminate,
}

impl Control {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let agent_id = fields.name("agent_id");
        let agent_turn_id = fields.name("agent_turn_id");
        let turn_epoch = fields.epoch("turn_epoch");
        let tool_call_id = fields.name("tool_call_id");
        let after_execution = fields.after("after_execution");
        Some(Self {
            agent_id: agent_id?,
            agent_turn_id: agent_turn_id?,
            turn_epoch: turn_epoch?,
            tool_call_id: tool_call_id?,
            after_execution: after_execution?,
        })
    }
}

/// A command for a tool service, on `cmd.tool.TARGET…`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(title = "UTP tool command")]
pub struct ToolCommand {
    /// The call.
    #[serde(flatten)]
    pub control: Control,
    /// The `tool.call` card with the input.
    pub tool_call_card_id: CardId,
    /// The step of the call, to be returned in the callback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_id: Option<StepId>,
    /// The tool, for logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<ToolName>,
    /// A box of cards that the tool may read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_box_id: Option<ContextBoxId>,
}

/// A command for a built-in tool, on `cmd.sys.pmo.internal.TOOL`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(title = "UTP built-in command")]
pub struct BuiltinCommand {
    /// The call.
    #[serde(flatten)]
    pub control: Control,
    /// The step of the call.
    pub step_id: StepId,
    /// The `tool.call` card with the input.
    pub tool_call_card_id: CardId,
    /// The tool.
    pub tool_name: ToolName,
    /// A box of cards that the tool may read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_box_id: Option<ContextBoxId>,
}

/// Place of an input, for the message that refuses an inline one.
const INPUT_IN_CARD: &str = "the card tool_call_card_id holds the input";

impl Control {
    /// Returns the fields for `call` of `run`.
    fn of(run: &RunId, call: &CallId, agent: &AgentId, turn_epoch: u64, after_execution: AfterExecution) -> Self {
        Self {
            agent_id: AgentName::of(agent),
            agent_turn_id: AgentTurnId::of(run, &call.task()),
            turn_epoch,
            tool_call_id: ToolCallId::of(call),
            after_execution,
        }
    }
}

impl ToolCommand {
    /// Returns the command for `call` of `run`. Repeated commands of a call name the same card.
    pub fn of(
        run: &RunId,
        call: &CallId,
        agent: &AgentId,
        tool: &ToolId,
        turn_epoch: u64,
        after_execution: AfterExecution,
    ) -> Self {
        Self {
            control: Control::of(run, call, agent, turn_epoch, after_execution),
            tool_call_card_id: CardId::of_call(run, call, Derived::Call),
            step_id: StepId::of_call(call),
            tool_name: Some(ToolName::of(tool)),
            context_box_id: None,
        }
    }

    /// Reads a command of at most [`MAX_PAYLOAD_BYTES`]. Unknown fields are ignored and dropped.
    ///
    /// # Errors
    /// All faults: required fields that are missing or of the wrong type, and inline inputs.
    pub fn read(bytes: &[u8]) -> Result<Self, PayloadError> {
        let object = object(bytes, MAX_PAYLOAD_BYTES)?;
        let mut fields = Fields::of(&object);
        fields.refuse_inline(INPUT_IN_CARD);
        let control = Control::read(&mut fields);
        let card = fields.name("tool_call_card_id");
        let step = fields.optional_name("step_id");
        let tool = fields.optional_name("tool_name");
        let context = fields.optional_name("context_box_id");
        let read = || {
            Some(Self { control: control?, tool_call_card_id: card?, step_id: step?, tool_name: tool?, context_box_id: context? })
        };
        fields.finish(read())
    }
}

impl BuiltinCommand {
    /// Reads a command of at most [`MAX_PAYLOAD_BYTES`]. Unknown fields are ignored and dropped.
    ///
    /// # Errors
    /// All faults: required fields that are missing or of the wrong type, and inline inputs.
    pub fn read(bytes: &[u8]) -> Result<Self, PayloadError> {
        let object = object(bytes, MAX_PAYLOAD_BYTES)?;
        let mut fields = Fields::of(&object);
        fields.refuse_inline(INPUT_IN_CARD);
        let control = Control::read(&mut fields);
        let step = fields.name("step_id");
        let card = fields.name("tool_call_card_id");
        let tool = fields.name("tool_name");
        let context = fields.optional_name("context_box_id");
        let read = || {
            Some(Self { control: control?, step_id: step?, tool_call_card_id: card?, tool_name: tool?, context_box_id: context? })
        };
        fields.finish(read())
    }
}
