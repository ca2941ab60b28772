//! Models by name, and the connections of their providers.
//!
//! Nothing here knows a provider: their names come from the caller, and what they speak is the models' business.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::Job;
use super::reach::Origin;
use crate::document::may_be_text;
use crate::model::Invocation;
use crate::money::Price;

/// The default time for which a request is retried while its provider is away.
const DEFAULT_OUTAGE: Duration = Duration::from_hours(1);

/// The model behind a model name.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelSpec {
    /// A script.
    Scripted {
        /// The script's file, relative to the job's folder.
        file: String,
        /// The script, checked.
        text: Arc<str>,
        /// The price of its tokens, if the job sets one.
        price: Option<Price>,
    },
    /// A provider's model.
    Provided(ProvidedModel),
}

/// A model of a provider.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProvidedModel {
    /// The provider's name.
    pub provider: String,
    /// The model, as the provider calls it.
    pub model: String,
    /// Settings for all agents that use it; an agent's own win.
    pub settings: Map<String, Value>,
    /// The price of its tokens, if a config sets one.
    pub price: Option<Price>,
    /// The context window in tokens, if a config sets one.
    pub context_tokens: Option<u64>,
    /// The kinds of input besides text, if a config sets them.
    pub modalities: Modalities,
    /// The way to call tools of the agents that name it and have no own one, if a config sets it.
    pub invocation: Option<Invocation>,
    /// The names of the models that are asked in its place, one after the other, when it is not available.
    pub fallbacks: Vec<String>,
    /// The time for which a request is retried while its provider is away, if a config sets one.
    pub outage: Option<Duration>,
}

/// The model that makes vectors of texts, for searches by meaning; from a `models.json`.
#[derive(Clone, Debug, PartialEq)]
pub struct Embeddings {
    /// The model.
    pub model: ProvidedModel,
    /// The origin of the choice.
    pub origin: Origin,
}

impl Embeddings {
    /// Returns the model as `PROVIDER:MODEL`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.model.provider, self.model.model)
    }
}

/// The connection of a provider, from a `models.json`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProviderSettings {
    /// The provider of the program that it is, or is like.
    pub like: String,
    /// The address before the path of a request.
    pub base_url: Option<String>,
    /// The variable of the environment that holds the key.
    pub key_variable: Option<String>,
    /// Headers that go with every request.
    pub headers: BTreeMap<String, String>,
    /// The time limit of a connection.
    pub connect: Option<Duration>,
    /// The time limit of the first byte of an answer.
    pub first_byte: Option<Duration>,
    /// The time limit between two parts of an answer.
    pub between_bytes: Option<Duration>,
    /// The time limit of a whole answer.
    pub total: Option<Duration>,
    /// Its rate limits.
    pub limits: ProviderLimits,
    /// The time for which a request is retried while it is away.
    pub outage: Option<Duration>,
    /// The origin of these settings. An address that receives a key needs the trust of the person who runs the job.
    pub origin: Origin,
}

/// Rate limits of a key. Absent limits are left to the provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProviderLimits {
    /// Requests within any minute.
    pub requests_per_minute: Option<u32>,
    /// Tokens within any minute.
    pub tokens_per_minute: Option<u32>,
    /// Requests at the same time, at most.
    pub in_flight: Option<u32>,
}

/// Content that a model takes besides text (default: the usual one of its provider). If a model does not take a
/// document, it gets the document's record alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Modalities {
    /// Images (PNG, JPEG, GIF, WebP).
    #[serde(default)]
    pub images: Option<bool>,
    /// PDF documents.
    #[serde(default)]
    pub files: Option<bool>,
}

/// Documents that a model takes besides text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Media {
    /// Images of the types in [`IMAGES`].
    pub images: bool,
    /// PDF documents.
    pub files: bool,
}

/// The types of images that models take.
pub const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

impl Media {
    /// Everything that any model takes.
    pub const ALL: Self = Self { images: true, files: true };

    /// Returns the media of a model whose config declares its modalities.
    #[must_use]
    pub fn with(self, modalities: Modalities) -> Self {
        Self { images: modalities.images.unwrap_or(self.images), files: modalities.files.unwrap_or(self.files) }
    }

    /// Whether a document of this type can be shown.
    pub fn takes(self, mime_type: &str) -> bool {
        let essence = mime_type.split(';').next().unwrap_or_default().trim();
        if essence == "application/pdf" { self.files } else { may_be_text(essence) || (self.images && IMAGES.contains(&essence)) }
    }
}

/// Whether an address has more than a host, a port and a path: a user with a password, or a query. Addresses are shown.
pub fn may_hold_key(address: &str) -> bool {
    address.contains(['@', '?', '#'])
}

impl Job {
    /// Returns the model called `name`: from the job's or the person's files, or `PROVIDER:MODEL`.
    pub fn model(&self, name: &str) -> Option<ModelSpec> {
        self.models.get(name).cloned().or_else(|| provided(name, &self.provider_names).map(ModelSpec::Provided))
    }

    /// Whether a provider answers under `name`.
    pub fn is_provided(&self, name: &str) -> bool {
        match self.models.get(name) {
            Some(model) => matches!(model, ModelSpec::Provided(_)),
            None => name.split_once(':').is_some_and(|(provider, _)| self.provider_names.contains(provider)),
        }
    }

    /// Returns the documents that the model called `name` takes; all for a model that is not of a provider.
    pub fn media(&self, name: &str) -> Media {
        let (provider, modalities) = match self.models.get(name) {
            Some(ModelSpec::Provided(model)) => (model.provider.as_str(), model.modalities),
            Some(ModelSpec::Scripted { .. }) => return Media::ALL,
            None => (name.split_once(':').map_or(name, |(provider, _)| provider), Modalities::default()),
        };
        self.media.get(provider).copied().unwrap_or(Media::ALL).with(modalities)
    }

    /// Returns the context window of the model called `name` in tokens, if a config sets one.
    pub fn window(&self, name: &str) -> Option<u64> {
        match self.models.get(name) {
            Some(ModelSpec::Provided(provided)) => provided.context_tokens,
            Some(ModelSpec::Scripted { .. }) | None => None,
        }
    }

    /// Returns the way to call tools that a config sets for the model called `name`.
    pub fn invocation(&self, name: &str) -> Option<Invocation> {
        match self.models.get(name) {
            Some(ModelSpec::Provided(provided)) => provided.invocation,
            Some(ModelSpec::Scripted { .. }) | None => None,
        }
    }

    /// Returns the first model that needs universal invocation, of those that are asked when `name` is: itself and its fallbacks.
    pub fn needs_universal<'j>(&'j self, name: &'j str) -> Option<&'j str> {
        let asked = std::iter::once(name).chain(self.fallbacks(name).iter().map(String::as_str));
        asked.into_iter().find(|asked| self.invocation(asked) == Some(Invocation::Universal))
    }

    /// Returns the provider of the model called `name`. A model of the program itself has no provider: its name is returned.
    pub fn provider_of<'j>(&'j self, name: &'j str) -> &'j str {
        match self.models.get(name) {
            Some(ModelSpec::Provided(provided)) => &provided.provider,
            Some(ModelSpec::Scripted { .. }) => name,
            None => provider_and_model(name, &self.provider_names).map_or(name, |(provider, _)| provider),
        }
    }

    /// Returns the time for which a request to the model called `name` is retried while its provider is away.
    pub fn outage(&self, name: &str) -> Duration {
        let of_provider = |provider: &str| self.providers.get(provider).and_then(|settings| settings.outage);
        let of_model = match self.model(name) {
            Some(ModelSpec::Provided(provided)) => provided.outage.or_else(|| of_provider(&provided.provider)),
            Some(ModelSpec::Scripted { .. }) | None => None,
        };
        of_model.or(self.outage).unwrap_or(DEFAULT_OUTAGE)
    }

    /// Returns the names of the models that are asked, one after the other, when the one called `name` is not
    /// available.
    pub fn fallbacks(&self, name: &str) -> &[String] {
        match self.models.get(name) {
            Some(ModelSpec::Provided(provided)) => &provided.fallbacks,
            Some(ModelSpec::Scripted { .. }) | None => &[],
        }
    }
}

/// Returns the model that `PROVIDER:MODEL` names, if one of `providers` is its provider.
pub fn provided(name: &str, providers: &BTreeSet<String>) -> Option<ProvidedModel> {
    let (provider, model) = provider_and_model(name, providers)?;
    Some(ProvidedModel { provider: provider.to_owned(), model: model.to_owned(), ..ProvidedModel::default() })
}

/// Returns the two parts of `PROVIDER:MODEL`, if the first is one of `providers`.
fn provider_and_model<'n>(name: &'n str, providers: &BTreeSet<String>) -> Option<(&'n str, &'n str)> {
    name.split_once(':').filter(|(provider, model)| providers.contains(*provider) && !model.trim().is_empty())
}
