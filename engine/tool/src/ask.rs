//! A tool's request to a model: one request, one answer, no tools.

use std::sync::Arc;

use baton_types::document::DocumentVersion;
use baton_types::message::{Message, Part, Role};
use baton_types::model::{FinishReason, Usage};
use baton_types::money::Money;
use serde_json::{Map, Value};

/// A request of a tool to a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelAsk {
    /// The model's name: one of the job's, or `PROVIDER:MODEL`.
    pub model: String,
    /// System prompt.
    pub system: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// Temperature and the like, by the names that agents' settings have.
    pub settings: Map<String, Value>,
}

impl ModelAsk {
    /// Returns a request with nothing but a model's name.
    pub fn of(model: impl Into<String>) -> Self {
        Self { model: model.into(), ..Self::default() }
    }

    /// Returns the same request with a system prompt.
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.system = text.into();
        self
    }

    /// Returns the same request with a further user message.
    pub fn user(mut self, text: impl Into<String>) -> Self {
        self.messages.push(Message { role: Role::User, parts: vec![Part::Request(text.into())] });
        self
    }

    /// Returns the same request with a document in its last message. A model that does not accept its type is shown its record.
    pub fn document(mut self, version: Arc<DocumentVersion>) -> Self {
        let part = Part::Document(version);
        match self.messages.last_mut() {
            Some(last) => last.parts.push(part),
            None => self.messages.push(Message { role: Role::User, parts: vec![part] }),
        }
        self
    }

    /// Returns the same request with a further answer of the model.
    pub fn assistant(mut self, text: impl Into<String>) -> Self {
        self.messages.push(Message { role: Role::Assistant, parts: vec![Part::Text(text.into())] });
        self
    }

    /// Returns the same request with a setting, unless there is nothing to set.
    pub fn set(mut self, name: &str, value: Option<impl Into<Value>>) -> Self {
        if let Some(value) = value {
            self.settings.insert(name.to_owned(), value.into());
        }
        self
    }
}

/// A model's answer to a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelReply {
    /// The text.
    pub text: String,
    /// The model that answered: its name at the provider, or the name it was asked by.
    pub model: String,
    /// Why the model stopped.
    pub finish: FinishReason,
    /// Its usage; an estimate if the provider did not report it.
    pub usage: Usage,
    /// Its cost; `None` if no price is known.
    pub cost: Option<Money>,
}
