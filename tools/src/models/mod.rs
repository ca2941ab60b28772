//! Tools that ask a model: a second opinion, a cheaper one, one on this machine.
//!
//! They ask through [`ToolContext::ask`](baton_tool::ToolContext::ask), with the same keys, retries and
//! scripts as agents' models. A parameter that a call leaves open is taken from, in this order: the configuration that
//! the call names, the tool's settings in the job, and the defaults in its own JSON. The engine applies the configurations
//! in `configs/`. The tools here apply those in their setting `configs`.

mod catalogue;
mod chat;
mod opinion;

use std::collections::BTreeMap;

use baton_tool::{ModelAsk, ModelReply, ToolContext, ToolError, ToolErrorKind};
use baton_types::model::{FinishReason, Usage};
use serde::{Deserialize, Serialize};

/// Optional choices: the model, and its parameters.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct Choice {
    pub(crate) model: Option<String>,
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
    pub(crate) max_tokens: Option<u32>,
}

impl Choice {
    /// Returns the same choice, completed from `other`.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            model: self.model.filter(|model| !model.trim().is_empty()).or(other.model),
            temperature: self.temperature.or(other.temperature),
            top_p: self.top_p.or(other.top_p),
            max_tokens: self.max_tokens.or(other.max_tokens),
        }
    }

    /// Returns a request to the chosen model, named as its provider names it. With an empty `provider`, models are
    /// named as agents name them.
    pub(crate) fn ask(&self, provider: &str) -> Result<ModelAsk, ToolError> {
        let invalid = |message: String| ToolError::new(message).of_kind(ToolErrorKind::InvalidInput);
        if let Some(temperature) = self.temperature.filter(|temperature| !(0.0..=2.0).contains(temperature)) {
            return Err(invalid(format!("temperature must be between 0 and 2, received {temperature}")));
        }
        if self.max_tokens == Some(0) {
            return Err(invalid("max_tokens must be at least 1, received 0".to_owned()));
        }
        let Some(model) = &self.model else {
            return Err(invalid("no model is named: give `model`, or set one in the job's file of this tool".to_owned()));
        };
        let is_full = provider.is_empty() || model.starts_with(&format!("{provider}:"));
        let model = if is_full { model.clone() } else { format!("{provider}:{model}") };
        Ok(ModelAsk::of(model).set("temperature", self.temperature).set("top_p", self.top_p).set("max_tokens", self.max_tokens))
    }
}

/// Settings of a tool that asks a model.
#[derive(Clone, Debug, Default, Deserialize)]
struct ModelSettings {
    /// The provider that models are named without; empty where they are named as agents name them.
    #[serde(default)]
    provider: String,
    /// Configurations that calls may name.
    #[serde(default)]
    configs: BTreeMap<String, Choice>,
}

impl ModelSettings {
    /// Returns the configuration called `id`.
    fn config(&self, id: Option<&str>) -> Result<Choice, ToolError> {
        let Some(id) = id else { return Ok(Choice::default()) };
        self.configs.get(id).cloned().ok_or_else(|| {
            let known: Vec<&String> = self.configs.keys().collect();
            ToolError::new(format!("there is no configuration {id}"))
                .with_detail(serde_json::json!({"known_configurations": known}))
                .of_kind(ToolErrorKind::InvalidInput)
        })
    }
}

/// Tokens, as chat completions count them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct UsageOutput {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    /// Whether the counts are estimates from bytes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    estimated: bool,
}

impl From<Usage> for UsageOutput {
    fn from(usage: Usage) -> Self {
        Self {
            prompt_tokens: usage.input_tokens,
            completion_tokens: usage.output_tokens,
            total_tokens: usage.total(),
            estimated: usage.estimated,
        }
    }
}

/// Returns the cost in US dollars; `None` (`null`) if no price is known, which is not zero.
pub(crate) fn cost_estimate(reply: &ModelReply) -> Option<f64> {
    reply.cost.map(baton_types::money::Money::as_usd)
}

/// Whether the answer was cut at `max_tokens`.
pub(crate) fn is_cut(reply: &ModelReply) -> bool {
    reply.finish == FinishReason::Length
}

/// Asks; an answer without a word is an error, since nothing can be made of it.
pub(crate) async fn asked(context: &ToolContext, ask: ModelAsk) -> Result<ModelReply, ToolError> {
    context.progress(&format!("asking {}", ask.model));
    let reply = context.ask(ask).await?;
    if reply.text.trim().is_empty() {
        let why =
            if is_cut(&reply) { "max_tokens were used up before the first word of the answer" } else { "its answer is empty" };
        return Err(ToolError::new(format!("{}: {why}", reply.model)));
    }
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_named_as_its_provider_names_it() {
        let named = |provider: &str, model: &str| {
            Choice { model: Some(model.to_owned()), ..Choice::default() }.ask(provider).map(|ask| ask.model)
        };
        assert_eq!(named("openrouter", "google/gemini").unwrap(), "openrouter:google/gemini");
        assert_eq!(named("openrouter", "openrouter:google/gemini").unwrap(), "openrouter:google/gemini");
        assert_eq!(named("ollama", "llama3.1:8b").unwrap(), "ollama:llama3.1:8b");
        assert_eq!(named("", "fast").unwrap(), "fast");
        assert!(Choice::default().ask("openai").unwrap_err().message.starts_with("no model is named"));
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        for choice in [
            Choice { temperature: Some(2.1), ..Choice::default() },
            Choice { temperature: Some(f64::NAN), ..Choice::default() },
            Choice { max_tokens: Some(0), ..Choice::default() },
        ] {
            assert_eq!(choice.ask("x").unwrap_err().kind, ToolErrorKind::InvalidInput, "{choice:?}");
        }
    }
}
