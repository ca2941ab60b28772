//! Cards: immutable records with inputs, results, thoughts and deliverables. Messages name them by id.

use std::collections::{BTreeMap, HashMap};

use baton_types::json::Json;
use baton_types::time::Timestamp;
use schemars::JsonSchema;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::MAX_CARD_BYTES;
use crate::id::{AgentName, AgentTurnId, CardId, ProjectName, StepId, ToolCallId, ToolName};
use crate::read::{FieldFault, Fields, PayloadError, object};
use crate::result::{ResultError, ToolResultContent};
use crate::status::Status;

/// A card.
#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    /// Its id.
    pub card_id: CardId,
    /// The project that it belongs to.
    pub project_id: ProjectName,
    /// Its type and content.
    pub content: Content,
    /// Moment of its creation. Absent in a card that a service sends: the receiver sets it.
    pub created_at: Option<Timestamp>,
    /// Its author: an agent or a service.
    pub author_id: AgentName,
    /// The call or the work that it belongs to.
    pub metadata: Metadata,
}

/// The call or the work that a card belongs to.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Metadata {
    /// Role of the card in a conversation: `assistant` or `tool`.
    pub role: Role,
    /// The work.
    pub agent_turn_id: AgentTurnId,
    /// The step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_id: Option<StepId>,
    /// The call, of a `tool.call` or `tool.result` card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<ToolCallId>,
    /// The tool, of a `tool.call` or `tool.result` card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function_name: Option<ToolName>,
}

/// The role of a card in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Role {
    /// A model wrote it.
    Assistant,
    /// A tool wrote it.
    Tool,
}

/// The content of a card, by its type.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Content {
    /// `tool.call`: a call with its input.
    ToolCall(ToolCallContent),
    /// `tool.result`: the result of a call.
    ToolResult(ToolResultContent),
    /// `agent.thought`: the text of a turn.
    Thought(ThoughtContent),
    /// `task.deliverable`: the result of a task.
    Deliverable(DeliverableContent),
}

impl Content {
    /// Returns the type of the card.
    pub const fn card_type(&self) -> &'static str {
        match self {
            Self::ToolCall(_) => TOOL_CALL,
            Self::ToolResult(_) => TOOL_RESULT,
            Self::Thought(_) => "agent.thought",
            Self::Deliverable(_) => "task.deliverable",
        }
    }
}

/// Type of a card with a call.
pub const TOOL_CALL: &str = "tool.call";
/// Type of a card with a result.
pub const TOOL_RESULT: &str = "tool.result";

/// Content of a `tool.call` card.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "UTP card tool.call")]
pub struct ToolCallContent {
    /// The tool.
    pub tool_name: ToolName,
    /// The effective input: the model's, with the defaults and the fixed values of the tool's row.
    #[schemars(with = "Map<String, Value>")]
    pub arguments: Json,
    /// Always `called`.
    pub status: Called,
    /// The subject of the command. Absent for a call that is executed without a service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_subject: Option<String>,
    /// Parameters whose values the service reads from its environment: the name of the variable by the name of the parameter.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub envs: BTreeMap<String, String>,
}

/// The one status of a `tool.call` card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Called {
    /// The call was made.
    Called,
}

/// Content of an `agent.thought` card.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "UTP card agent.thought")]
pub struct ThoughtContent {
    /// The text of the turn.
    pub text: String,
}

/// Content of a `task.deliverable` card.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "UTP card task.deliverable")]
pub struct DeliverableContent {
    /// Status of the task.
    pub status: Status,
    /// Its result.
    pub result: Json,
    /// The error; `null` for a success.
    pub error: Option<ResultError>,
}

impl Card {
    /// Reads a `tool.result` card that a service wrote, from a text of at most [`MAX_CARD_BYTES`].
    ///
    /// Unknown fields are ignored and dropped. Numbers of the result keep all their digits.
    ///
    /// # Errors
    /// All faults. Cards of other types are refused: only workers write them.
    pub fn read_result(bytes: &[u8]) -> Result<Self, PayloadError> {
        let object = object(bytes, MAX_CARD_BYTES)?;
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        let mut fields = Fields::of(&object);
        let card = Self::result_of(&mut fields, |path| raw_at(text, path));
        fields.finish(card)
    }

    pub(crate) fn result_of(fields: &mut Fields<'_>, raw: impl Fn(&[&str]) -> Option<Json>) -> Option<Self> {
        let card_id = fields.name("card_id");
        let project_id = fields.name("project_id");
        let author_id = fields.name("author_id");
        let only_results = |text: &str| (text == TOOL_RESULT).then_some(());
        let is_result = fields.choice("type", "\"tool.result\"", only_results);
        let created_at = match fields.optional("created_at") {
            None => Some(None),
            Some(_) => fields
                .choice("created_at", "a moment such as \"2026-11-21T09:30:00Z\"", |text| Timestamp::parse(text).ok())
                .map(Some),
        };
        let metadata = fields.object("metadata", |fields| {
            let turn = fields.name("agent_turn_id");
            let step = fields.optional_name("step_id");
            let call = fields.name("tool_call_id");
            let function = fields.name("function_name");
            Some(Metadata {
                role: Role::Tool,
                agent_turn_id: turn?,
                step_id: step?,
                tool_call_id: Some(call?),
                function_name: Some(function?),
            })
        });
        let content = fields.object("content", |fields| ToolResultContent::read(fields, raw));
        is_result?;
        Some(Self {
            card_id: card_id?,
            project_id: project_id?,
            content: Content::ToolResult(content?),
            created_at: created_at?,
            author_id: author_id?,
            metadata: metadata?,
        })
    }

    /// Returns the result in the card, if it is a `tool.result` card.
    pub const fn result(&self) -> Option<&ToolResultContent> {
        match &self.content {
            Content::ToolResult(result) => Some(result),
            Content::ToolCall(_) | Content::Thought(_) | Content::Deliverable(_) => None,
        }
    }

    /// Returns the faults that the card would have as the result of `call` in the work `turn`.
    pub fn faults_as_result(&self, turn: &AgentTurnId, call: &ToolCallId) -> Vec<FieldFault> {
        let mut faults = Vec::new();
        let mut differs = |field: &str, found: &str, expected: &str| {
            if found != expected {
                faults.push(FieldFault { field: field.to_owned(), reason: format!("is {found:?}; expected {expected:?}") });
            }
        };
        differs("type", self.content.card_type(), TOOL_RESULT);
        differs("metadata.tool_call_id", self.metadata.tool_call_id.as_ref().map_or("", ToolCallId::as_str), call.as_str());
        differs("metadata.agent_turn_id", self.metadata.agent_turn_id.as_str(), turn.as_str());
        faults
    }
}

impl Serialize for Card {
    /// Writes `type` beside `content`. Derived code would copy the content, and lose digits of numbers.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { card_id, project_id, content, created_at, author_id, metadata } = self;
        let mut card = serializer.serialize_struct("Card", 7)?;
        card.serialize_field("card_id", card_id)?;
        card.serialize_field("project_id", project_id)?;
        card.serialize_field("type", content.card_type())?;
        card.serialize_field("content", content)?;
        match created_at {
            Some(at) => card.serialize_field("created_at", &at.to_string())?,
            None => card.skip_field("created_at")?,
        }
        card.serialize_field("author_id", author_id)?;
        card.serialize_field("metadata", metadata)?;
        card.end()
    }
}

/// Returns the text of the value at `path` within the object `text`.
pub(crate) fn raw_at(text: &str, path: &[&str]) -> Option<Json> {
    let Some((field, rest)) = path.split_first() else { return Json::stored(text).ok() };
    let object: HashMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    raw_at(object.get(*field)?.get(), rest)
}
