//! Requests to models and their answers, independent of vendors.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::call::ModelCall;
use crate::id::{AgentId, CallId, ContentHash, TaskId, ToolId};
use crate::json::Json;
use crate::message::Message;
use crate::money::Money;
pub use crate::usage::Usage;

/// One request to a model: everything a provider's codec needs.
///
/// Built by [`baton_render::Transcript::request`]. Parts name document contents by hash; the shell resolves them.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The asking task; never part of the rendered text.
    pub task: TaskId,
    /// The agent for which the model answers.
    pub agent: AgentId,
    /// The call whose tool asks; `None` where the agent itself does.
    pub call: Option<CallId>,
    /// Which of the task's turns this is, or how often the call has asked, from 1.
    pub turn: u32,
    /// Whether the task is a question that the agent answers as a master.
    pub is_question: bool,
    /// The model's name in the job.
    pub model: String,
    /// The system prompt.
    pub system: SystemPrompt,
    /// The conversation so far, shared with its transcript. Later requests of the same task have this as their prefix.
    pub messages: Arc<Vec<Arc<Message>>>,
    /// The tools offered, ordered by id.
    pub tools: Arc<[Arc<ToolDefinition>]>,
    /// The agent's settings (temperature and the like), as written in its config.
    pub settings: Json,
    /// The model's way to call tools.
    pub invocation: Invocation,
    /// Schema that a text without calls must meet, if the request has one. A provider may enforce it.
    pub result_schema: Option<Json>,
    /// The hash of everything above that a provider sees.
    pub hash: ContentHash,
    /// The longest answer in tokens of the model, if that is the limit of this answer. Otherwise [`output_tokens`](crate::config::output_tokens)
    /// of the settings is.
    pub own_output_tokens: Option<u64>,
}

/// A system prompt: the agent's own, then the text about its tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemPrompt {
    text: Arc<str>,
    /// Length of the first message. The rest is a second system message, where the dialect has several.
    first: usize,
}

impl SystemPrompt {
    /// Returns a prompt of one message.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        Self { first: text.len(), text }
    }

    /// Returns a prompt of two messages.
    pub fn of_two(first: &str, second: &str) -> Self {
        Self { text: format!("{first}{second}").into(), first: first.len() }
    }

    /// Returns the two messages. The second one is empty if there is only one.
    pub fn messages(&self) -> (&str, &str) {
        self.text.split_at(self.first)
    }
}

impl Deref for SystemPrompt {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for SystemPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<T: Into<Arc<str>>> From<T> for SystemPrompt {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}

impl Serialize for SystemPrompt {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// The definition of a tool, as models receive it.
#[derive(Debug, PartialEq, Serialize)]
pub struct ToolDefinition {
    /// Its id.
    pub id: ToolId,
    /// The name that models see, if it is not the id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its purpose and when to use it.
    pub description: String,
    /// The JSON Schema (2020-12) of its input.
    pub input_schema: Json,
}

impl ToolDefinition {
    /// Returns the name that models see.
    pub fn shown_name(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| self.id.as_str())
    }

    /// Returns this definition with another schema of its input.
    pub fn with_input_schema(&self, input_schema: Json) -> Self {
        let Self { id, name, description, input_schema: _ } = self;
        Self { id: id.clone(), name: name.clone(), description: description.clone(), input_schema }
    }
}

/// The tools that requests of an agent offer. Their hash is made once, however many requests and runs have it.
#[derive(Debug, Default)]
pub struct Offer {
    tools: Arc<[Arc<ToolDefinition>]>,
    hash: OnceLock<ContentHash>,
}

impl Offer {
    /// Returns the definitions, shared.
    pub fn tools(&self) -> &Arc<[Arc<ToolDefinition>]> {
        &self.tools
    }

    /// Returns the hash of all that a provider sees of them.
    pub fn hash(&self) -> ContentHash {
        *self.hash.get_or_init(|| ContentHash::of(&serde_json::to_vec(&self.tools).expect("tool definitions always serialise")))
    }
}

impl FromIterator<Arc<ToolDefinition>> for Offer {
    fn from_iter<I: IntoIterator<Item = Arc<ToolDefinition>>>(tools: I) -> Self {
        Self { tools: tools.into_iter().collect(), hash: OnceLock::new() }
    }
}

impl Deref for Offer {
    type Target = [Arc<ToolDefinition>];

    fn deref(&self) -> &Self::Target {
        &self.tools
    }
}

/// One answer of a model: text and calls.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelTurn {
    /// The text, possibly empty.
    pub text: String,
    /// The calls, in the order the model gave them.
    pub calls: Vec<ModelCall>,
    /// Why the model stopped.
    pub finish: FinishReason,
    /// The used tokens; `None` if the provider does not report them.
    pub usage: Option<Usage>,
    /// The answer as its vendor's own list of items, which refer to the text and the calls; `null` if these are all of it.
    pub items: Json,
    /// The provider's description of its answer; `None` for models without a provider.
    pub answered: Option<Box<Answered>>,
}

impl ModelTurn {
    /// Returns a turn that makes `calls`.
    pub fn calls(calls: Vec<ModelCall>) -> Self {
        Self { calls, finish: FinishReason::ToolCalls, ..Self::text("") }
    }

    /// Returns a turn with a text and no calls.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            calls: Vec::new(),
            finish: FinishReason::Stop,
            usage: None,
            items: Json::null(),
            answered: None,
        }
    }
}

/// The provider's description of its answer, for people. No decision depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Answered {
    /// The provider, by the name that configs use.
    pub provider: String,
    /// The model that answered, as the provider calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The provider's id of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The provider's own word for why the model stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<String>,
    /// The cost as the provider reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
}

/// An agent's way to call tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Invocation {
    /// By the tool calls of its provider.
    #[default]
    Native,
    /// By JSON in its text. The model needs no tool calling.
    Universal,
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// It had no more to say.
    Stop,
    /// It wants its calls executed.
    ToolCalls,
    /// It ran out of output tokens: the turn is cut.
    Length,
    /// The provider withheld the answer.
    ContentFilter,
    /// The model declined.
    Refusal,
}
