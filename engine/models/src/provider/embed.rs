//! Vectors of texts, from the endpoint `/embeddings` of OpenAI's interface
//! (<https://platform.openai.com/docs/api-reference/embeddings/create>). Most other providers and local servers have it too.
//!
//! What comes back is checked before anything is made of it: one vector for each text, all of one length, of finite numbers.

use std::sync::Arc;
use std::time::Duration;

use baton_types::breadcrumb::MAX_DIMENSIONS;
use baton_types::config::{ProvidedModel, ProviderSettings};
use baton_types::estimate::text_tokens;
use baton_types::id::TaskId;
use reqwest::Url;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::client::{Client, Failure};
use super::incoming::Incoming;
use super::profile::Profile;
use super::{Endpoint, Providers, Retries, SetupError, Variable};
use crate::cassette::NoAnswer;
use crate::error::ModelError;
use crate::governor::{Demand, Governor, Permit, Pushback, RunKey, Subtree};
use crate::wire::{Dialect, WireError};

/// The most bytes of an answer. 64 vectors of 3,072 numbers have about 4 MB.
const MAX_BYTES: usize = 16 << 20;

/// A model that makes vectors of texts.
#[derive(Debug)]
pub struct Embedder {
    client: Client,
    governor: Arc<Governor>,
    run: RunKey,
    url: Url,
    model: String,
    settings: Map<String, Value>,
    retries: Retries,
}

/// Vectors of texts.
#[derive(Clone, Debug, PartialEq)]
pub struct Vectors {
    /// One for each text, in the order of the texts. Each has the length 1.
    pub vectors: Vec<Vec<f32>>,
    /// Tokens of the texts, if the provider reported them.
    pub tokens: Option<u64>,
}

/// An answer, as the endpoint sends it.
#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
    #[serde(default)]
    usage: Option<Reported>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    index: Option<usize>,
    embedding: Vec<f64>,
}

#[derive(Deserialize)]
struct Reported {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    total_tokens: Option<u64>,
}

/// Whether the provider called `name` has models that make vectors of texts. Anthropic has none.
pub fn embeds(name: &str) -> bool {
    Profile::named(name).is_none_or(|profile| profile.dialect != Dialect::Anthropic)
}

impl Providers {
    /// Returns the model that `model` names, as a model that makes vectors. `settings` are those of its provider in a config, if any.
    pub fn embedder(
        &self,
        run: RunKey,
        model: &ProvidedModel,
        settings: Option<&ProviderSettings>,
        variable: Variable<'_>,
    ) -> Result<Embedder, SetupError> {
        let endpoint = Endpoint::of(&model.provider, settings, variable)?;
        let (governor, client) = (self.governor(&endpoint), self.client(endpoint)?);
        let Endpoint { url, profile, .. } = &client.endpoint;
        let base = url.strip_suffix(profile.path).unwrap_or(url);
        // Ollama's own interface has no version in its address.
        let path = if profile.dialect == Dialect::Ollama { "/v1/embeddings" } else { "/embeddings" };
        let url = Url::parse(&format!("{base}{path}")).expect("a client is only made for an address that can be read");
        let (model, settings) = (model.model.clone(), model.settings.clone());
        Ok(Embedder { client, governor, run, url, model, settings, retries: self.retries.of_attempt() })
    }
}

impl Embedder {
    /// Returns a text that is the same for two embedders only if their vectors can be compared.
    pub fn identity(&self) -> String {
        let settings = if self.settings.is_empty() { String::new() } else { format!(" {}", json!(self.settings)) };
        format!("{}:{} {}{settings}", self.client.endpoint.name, self.model, self.url)
    }

    /// Makes a vector of each text, in one request for `task`. The request takes at most `limit`, with all waiting. It is
    /// made again only after a rejection because of a rate limit.
    pub async fn embed(&self, texts: &[&str], task: &TaskId, limit: Duration) -> Result<Vectors, ModelError> {
        let provider = || self.client.endpoint.name.clone();
        let asked = timeout(limit, self.asked(texts, task, limit)).await;
        asked.unwrap_or_else(|_| Err(ModelError::TimedOut { provider: provider(), what: "no vectors came", limit }))
    }

    async fn asked(&self, texts: &[&str], task: &TaskId, limit: Duration) -> Result<Vectors, ModelError> {
        let mut settings = self.settings.clone();
        settings.insert("model".to_owned(), json!(self.model));
        settings.insert("input".to_owned(), json!(texts));
        let body = serde_json::to_vec(&settings).expect("a JSON tree always serialises");
        let demand = Demand { input: texts.iter().map(|text| text_tokens(text.len() as u64)).sum(), output: 0 };
        let mut queued = self.governor.enqueue(Subtree::of(self.run, task), demand, limit);
        let mut attempts = self.retries.attempts(limit, limit);
        loop {
            let permit = queued.admitted().await.map_err(|paused| self.client.lost(&NoAnswer::left_alone(paused.left)))?;
            let (error, pushback) = match self.exchange(&body, texts.len(), permit).await {
                Ok(vectors) => return Ok(vectors),
                Err(failed) => failed,
            };
            let Some(pause) = attempts.pause(&error, pushback) else { return Err(error) };
            tokio::time::sleep(pause).await;
        }
    }

    async fn exchange(&self, body: &[u8], texts: usize, permit: Permit) -> Result<Vectors, (ModelError, Option<Pushback>)> {
        let mut request = self.client.request(body.to_vec());
        *request.url_mut() = self.url.clone();
        let read = async {
            let response = self.client.send(&request).await?;
            let incoming = Incoming::of(response, self.client.endpoint.timeouts.between_bytes, None);
            permit.announce(&incoming.left);
            self.read(incoming, texts).await
        };
        match read.await.unwrap_or_else(|no_answer| Err(self.client.lost(&no_answer).into())) {
            Ok(vectors) => {
                permit.answered(vectors.tokens);
                Ok(vectors)
            }
            Err(Failure { error, congestion: None }) => Err((error, None)),
            Err(Failure { error, congestion: Some(congestion) }) => {
                let is_rate = matches!(error, ModelError::RateLimited { .. });
                Err((error, permit.congested(is_rate, congestion.retry_after)))
            }
        }
    }

    async fn read(&self, mut incoming: Incoming<'_>, texts: usize) -> Result<Result<Vectors, Failure>, NoAnswer> {
        if !(200..300).contains(&incoming.status) {
            return self.client.refused(incoming).await.map(Err);
        }
        let mut body = Vec::new();
        let is_whole = incoming.whole(MAX_BYTES, &mut body).await?;
        let read = if is_whole { decoded(&body, texts) } else { Err(WireError::TooLong { most: MAX_BYTES }) };
        body.truncate(super::client::MAX_FIRST_BYTES);
        Ok(read.map_err(|error| self.client.broken(error, &incoming, &body)))
    }
}

/// Returns the vectors of an answer to a request with so many texts.
fn decoded(body: &[u8], texts: usize) -> Result<Vectors, WireError> {
    let unreadable = |reason: String| WireError::Unreadable { reason };
    let Answer { data, usage } = serde_json::from_slice(body).map_err(|error| unreadable(error.to_string()))?;
    if data.len() != texts {
        return Err(unreadable(format!("it has {} vectors for {texts} texts", data.len())));
    }
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; texts];
    let mut dimensions = None;
    for (place, Item { index, embedding }) in data.into_iter().enumerate() {
        let expected = *dimensions.get_or_insert(embedding.len());
        if embedding.len() != expected || !(1..=MAX_DIMENSIONS).contains(&expected) {
            let found = embedding.len();
            return Err(unreadable(format!("a vector has {found} numbers; expected the same for all, 1 to {MAX_DIMENSIONS}")));
        }
        let unit = of_length_one(&embedding).ok_or_else(|| unreadable("a vector has no direction".to_owned()))?;
        match vectors.get_mut(index.unwrap_or(place)) {
            Some(empty @ None) => *empty = Some(unit),
            Some(Some(_)) | None => return Err(unreadable("the vectors have wrong numbers (index)".to_owned())),
        }
    }
    let tokens = usage.and_then(|usage| usage.prompt_tokens.or(usage.total_tokens)).map(|tokens| tokens.min(u32::MAX.into()));
    Ok(Vectors { vectors: vectors.into_iter().flatten().collect(), tokens })
}

/// Returns the vector of length 1 in the same direction; `None` if there is none.
fn of_length_one(vector: &[f64]) -> Option<Vec<f32>> {
    // Divided first, so that no square is infinite or zero.
    let largest = vector.iter().fold(0.0_f64, |largest, each| largest.max(each.abs()));
    let scaled = || vector.iter().map(|each| each / largest);
    let length = scaled().map(|each| each * each).sum::<f64>().sqrt();
    (largest.is_normal() && length.is_finite()).then(|| scaled().map(|each| (each / length) as f32).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_get_the_length_one_whatever_their_size() {
        for size in [1.0, 1e-300, 1e300] {
            assert_eq!(of_length_one(&[3.0 * size, -4.0 * size]), Some(vec![0.6, -0.8]), "{size}");
        }
        for none in [vec![], vec![0.0, 0.0], vec![f64::NAN, 1.0], vec![f64::INFINITY, 1.0]] {
            assert_eq!(of_length_one(&none), None, "{none:?}");
        }
    }

    #[test]
    fn vectors_are_read_by_their_index() {
        let body =
            br#"{"data": [{"index": 1, "embedding": [0, 2]}, {"index": 0, "embedding": [1, 0]}], "usage": {"prompt_tokens": 7}}"#;
        let read = decoded(body, 2).unwrap();
        assert_eq!(read, Vectors { vectors: vec![vec![1.0, 0.0], vec![0.0, 1.0]], tokens: Some(7) });
    }
}
