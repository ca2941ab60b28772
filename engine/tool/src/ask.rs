//! What a tool asks of a model: one request, one answer, no tools.

use baton_types::message::{Message, Part, Role};
use baton_types::model::{FinishReason, Usage};
use baton_types::money::Money;
use serde_json::{Map, Value};

/// A request of a tool to a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelAsk {
    /// The model's name: one of the job's, or `PROVIDER:MODEL`.
    pub model: String,
    /// What the model is told beforehand.
    pub system: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// Temperature and the like, by the names that agents' settings have.
    pub settings: Map<String, Value>,
}

impl ModelAsk {
    /// A request with nothing but a model's name.
    pub fn of(model: impl Into<String>) -> Self {
        Self { model: model.into(), ..Self::default() }
    }

    /// The same with what the model is told beforehand.
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.system = text.into();
        self
    }

    /// The same with what whoever asks says next.
    pub fn user(mut self, text: impl Into<String>) -> Self {
        self.messages.push(Message { role: Role::User, parts: vec![Part::Request(text.into())] });
        self
    }

    /// The same with what the model said next.
    pub fn assistant(mut self, text: impl Into<String>) -> Self {
        self.messages.push(Message { role: Role::Assistant, parts: vec![Part::Text(text.into())] });
        self
    }

    /// The same with a setting, unless there is nothing to set.
    pub fn set(mut self, name: &str, value: Option<impl Into<Value>>) -> Self {
        if let Some(value) = value {
            self.settings.insert(name.to_owned(), value.into());
        }
        self
    }
}

/// What a model answered to a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelReply {
    /// The text.
    pub text: String,
    /// Who answered: the model as its provider calls it, or by the name it was asked by.
    pub model: String,
    /// Why the model stopped.
    pub finish: FinishReason,
    /// What it used; an estimate where the provider did not say.
    pub usage: Usage,
    /// What it cost; `None` where no price is known.
    pub cost: Option<Money>,
}
