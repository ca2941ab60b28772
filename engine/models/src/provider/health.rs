//! Checks whether a provider answers and which models it offers, by one request that costs nothing.

use std::time::{Duration, Instant, SystemTime};

use baton_types::config::ProviderSettings;
use reqwest::header::DATE;
use serde_json::Value;

use super::client::Client;
use super::{Endpoint, Providers, SetupError, Variable};
use crate::error::ModelError;
use crate::wire::{Dialect, fault_of};

/// The most bytes of a list of models that are read; `OpenRouter`'s had 0.6 MB in 2026.
const MAX_LIST_BYTES: usize = 16 << 20;

/// Longest wait for the list of models.
const PATIENCE: Duration = Duration::from_secs(20);

/// A provider that answered.
#[derive(Clone, Debug)]
pub struct Health {
    /// Its address, without the path of a request.
    pub address: String,
    /// The names of its models; empty if it does not tell.
    pub models: Vec<String>,
    /// Time until the answer.
    pub took: Duration,
    /// Time on the provider's clock, if it sent one.
    pub date: Option<SystemTime>,
}

/// Why a provider cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HealthError {
    /// Its key is missing, or its settings cannot be used: nothing was sent.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// It did not answer, or not with a list.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl Providers {
    /// Asks `provider` what models it offers. `settings` say how it is reached, where a config does.
    pub async fn health(
        &self,
        provider: &str,
        settings: Option<&ProviderSettings>,
        variable: Variable<'_>,
    ) -> Result<Health, HealthError> {
        let Client { endpoint, http, .. } = self.client(Endpoint::of(provider, settings, variable)?)?;
        let address = endpoint.url.strip_suffix(endpoint.profile.path).unwrap_or(&endpoint.url).to_owned();
        let list = match endpoint.profile.dialect {
            Dialect::Ollama => "/api/tags",
            Dialect::Anthropic => "/models?limit=1000",
            Dialect::Chat | Dialect::Responses => "/models",
        };
        let began = Instant::now();
        let answered = tokio::time::timeout(PATIENCE, ask(&http, &endpoint, &format!("{address}{list}"))).await;
        let timed_out = || ModelError::TimedOut { provider: endpoint.name.clone(), what: "no list of models", limit: PATIENCE };
        let (models, date) = answered.unwrap_or_else(|_| Err(timed_out()))?;
        Ok(Health { address, models, took: began.elapsed(), date })
    }
}

async fn ask(http: &reqwest::Client, endpoint: &Endpoint, url: &str) -> Result<(Vec<String>, Option<SystemTime>), ModelError> {
    let unreachable = |error: &reqwest::Error| ModelError::Unreachable {
        provider: endpoint.name.clone(),
        url: endpoint.scrubbed(url),
        reason: endpoint.scrubbed(&super::incoming::innermost_cause(error)),
    };
    let mut response = http.get(url).send().await.map_err(|error| unreachable(&error))?;
    let status = response.status();
    let date = response.headers().get(DATE).and_then(|date| {
        let date = jiff::fmt::rfc2822::parse(date.to_str().ok()?).ok()?;
        Some(SystemTime::from(date.timestamp()))
    });
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(|error| unreachable(&error))? {
        if body.len() + bytes.len() > MAX_LIST_BYTES {
            return Err(ModelError::TooLong { provider: endpoint.name.clone(), most: MAX_LIST_BYTES });
        }
        body.extend_from_slice(&bytes);
    }
    if !status.is_success() {
        let fault = fault_of(&body).scrubbed(|text| endpoint.scrubbed(text));
        return Err(match ModelError::of_fault(&endpoint.name, Some(status.as_u16()), &fault, None) {
            ModelError::KeyRefused { provider, message, .. } => {
                ModelError::KeyRefused { provider, variable: Some(endpoint.key_variable.clone()), message }
            }
            error => error,
        });
    }
    Ok((names(&serde_json::from_slice(&body).unwrap_or_default()), date))
}

/// Returns the names in a list of models, in the form of `OpenAI` and Anthropic (`data`, `id`) or Ollama (`models`,
/// `name`). Names that no terminal should show are skipped.
fn names(list: &Value) -> Vec<String> {
    let entries = ["data", "models"].iter().filter_map(|key| list[*key].as_array()).flatten();
    let name = |entry: &Value| ["id", "name", "model"].iter().find_map(|key| entry[*key].as_str().map(str::to_owned));
    let is_name = |name: &String| name.len() <= 200 && !name.contains(char::is_control);
    entries.filter_map(name).filter(is_name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn models_are_found_in_any_list_and_nothing_else_is_expected_of_it() {
        assert_eq!(names(&json!({"data": [{"id": "a/b", "name": "A"}, {"object": "x"}, 3]})), ["a/b"]);
        assert_eq!(names(&json!({"models": [{"name": "qwen3:8b", "model": "qwen3:8b"}]})), ["qwen3:8b"]);
        assert_eq!(names(&json!({"data": [{"id": "\u{1b}[2J"}, {"id": "x".repeat(201)}, {"id": "good"}]})), ["good"]);
        for odd in [json!(null), json!([]), json!({"data": "no"}), json!("text")] {
            assert_eq!(names(&odd), Vec::<String>::new());
        }
    }
}
