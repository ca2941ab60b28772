//! Models and what they cost.

use std::collections::BTreeMap;

use baton_schema::{DAY_PATTERN, ENV_PATTERN, PAGE_PATTERN};
use baton_types::config::Modalities;
use baton_types::model::Invocation;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use validator::Validate;

/// The model behind a model name: a script, or a provider's model.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Model")]
pub struct ModelForm {
    /// `scripted` for a model that follows a script.
    #[serde(default)]
    pub provider: Option<ProviderForm>,
    /// The script that a `scripted` model follows, relative to the job's folder.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub script: Option<String>,
    /// The model of a provider, as `PROVIDER:MODEL`.
    #[serde(default)]
    #[schemars(length(min = 3))]
    pub model: Option<String>,
    /// Settings for all agents that use a provider's model, such as `temperature`; an agent's own settings win.
    #[serde(default)]
    pub settings: Option<Map<String, Value>>,
    /// The price of its tokens, instead of the engine's table. A script costs nothing by default.
    #[serde(default)]
    pub price: Option<PriceForm>,
    /// The context window: tokens of a request and its answer together. Replaces the engine's table.
    #[serde(default)]
    #[schemars(range(min = 256, max = 1_000_000_000))]
    pub context_tokens: Option<u64>,
    /// The kinds of input besides text, if they differ from its provider's usual ones.
    #[serde(default)]
    pub modalities: Modalities,
    /// Its agents' way to call tools, unless they have their own key `invocation`. A fallback, or the model of `--model`, does
    /// not change it.
    #[serde(default)]
    pub invocation: Option<Invocation>,
    /// Models that are asked in its place, one after the other, when it is not available: names of models, or
    /// `PROVIDER:MODEL`. Their own fallbacks are not asked.
    #[serde(default)]
    #[schemars(length(max = 8), inner(length(min = 1, max = 128)))]
    pub fallbacks: Vec<String>,
    /// Seconds for which a request to it is retried while its provider is away (default: what the provider's settings say, or 3600). Then it waits: when nothing else can
    /// proceed, the run stops and can be resumed.
    #[serde(default)]
    #[schemars(range(min = 0, max = 2_592_000))]
    pub outage_seconds: Option<u32>,
}

/// The provider of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Provider")]
pub enum ProviderForm {
    /// A script answers, from a file and without a network.
    Scripted,
}

/// Models by name, and how providers are reached: `models.json` in a job's folder, or in the person's own configuration.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Baton models")]
pub struct ModelsForm {
    /// The JSON Schema of this file, for editors.
    #[serde(default, rename = "$schema")]
    pub schema: Option<String>,
    /// Models by the names that agents use.
    #[serde(default)]
    pub models: BTreeMap<String, AliasForm>,
    /// Connections of providers: known ones, and others that speak the same protocol.
    #[serde(default)]
    pub providers: BTreeMap<String, ProviderSettingsForm>,
    /// The model that makes vectors of breadcrumbs, for searches by meaning. The texts of the records are sent to its provider.
    #[serde(default)]
    pub embeddings: Option<EmbeddingsForm>,
}

/// The model that makes vectors of texts.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Embeddings")]
pub struct EmbeddingsForm {
    /// A model as `PROVIDER:MODEL`, or the name of a model of this file.
    #[schemars(length(min = 1))]
    pub model: String,
}

/// A name for a provider's model.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Alias")]
pub struct AliasForm {
    /// The model, as `PROVIDER:MODEL`.
    #[schemars(length(min = 3))]
    pub model: String,
    /// Settings for all agents that use it, such as `temperature`; an agent's own settings win.
    #[serde(default)]
    pub settings: Option<Map<String, Value>>,
    /// The price of its tokens, instead of the engine's table.
    #[serde(default)]
    pub price: Option<PriceForm>,
    /// The context window: tokens of a request and its answer together. Replaces the engine's table.
    #[serde(default)]
    #[schemars(range(min = 256, max = 1_000_000_000))]
    pub context_tokens: Option<u64>,
    /// The kinds of input besides text, if they differ from its provider's usual ones.
    #[serde(default)]
    pub modalities: Modalities,
    /// Its agents' way to call tools, unless they have their own key `invocation`. A fallback, or the model of `--model`, does
    /// not change it.
    #[serde(default)]
    pub invocation: Option<Invocation>,
    /// Models that are asked in its place, one after the other, when it is not available: names of models, or
    /// `PROVIDER:MODEL`. Their own fallbacks are not asked.
    #[serde(default)]
    #[schemars(length(max = 8), inner(length(min = 1, max = 128)))]
    pub fallbacks: Vec<String>,
    /// Seconds for which a request to it is retried while its provider is away (default: what the provider's settings say, or 3600). Then it waits: when nothing else can
    /// proceed, the run stops and can be resumed.
    #[serde(default)]
    #[schemars(range(min = 0, max = 2_592_000))]
    pub outage_seconds: Option<u32>,
}

/// The connection of a provider.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ProviderSettings")]
pub struct ProviderSettingsForm {
    /// The provider whose protocol it speaks (default: itself).
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub like: Option<String>,
    /// The address before the path of a request, such as `http://127.0.0.1:8000/v1`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub base_url: Option<String>,
    /// The source of its key; never the key itself.
    #[serde(default)]
    pub key: Option<KeyForm>,
    /// Headers that go with every request, such as `HTTP-Referer`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Time limits.
    #[serde(default)]
    pub timeouts: Option<TimeoutsForm>,
    /// Rate limits of its key. Requests beyond them wait in a queue.
    #[serde(default)]
    pub limits: Option<ProviderLimitsForm>,
    /// Seconds for which a request to it is retried while it is away (default: 3600). Then it waits: when nothing else can
    /// proceed, the run stops and can be resumed.
    #[serde(default)]
    #[schemars(range(min = 0, max = 2_592_000))]
    pub outage_seconds: Option<u32>,
}

/// The source of a key.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Key")]
pub struct KeyForm {
    /// The variable of the environment that holds it.
    #[schemars(regex(pattern = ENV_PATTERN))]
    pub env: String,
}

/// Time limits of a provider.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Timeouts")]
pub struct TimeoutsForm {
    /// For a connection (default: 10).
    #[serde(default)]
    #[schemars(range(min = 1, max = 86_400))]
    pub connect_seconds: Option<u32>,
    /// For the first byte of an answer (default: 300).
    #[serde(default)]
    #[schemars(range(min = 1, max = 86_400))]
    pub first_byte_seconds: Option<u32>,
    /// Between two parts of an answer (default: 120).
    #[serde(default)]
    #[schemars(range(min = 1, max = 86_400))]
    pub between_bytes_seconds: Option<u32>,
    /// For a whole answer (default: 1800).
    #[serde(default)]
    #[schemars(range(min = 1, max = 86_400))]
    pub total_seconds: Option<u32>,
}

/// Rate limits of a provider's key, for all runs of a process together.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ProviderLimits")]
pub struct ProviderLimitsForm {
    /// Requests per minute (default: as many as the provider accepts).
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub requests_per_minute: Option<u32>,
    /// Tokens of requests and answers per minute (default: as many as the provider accepts).
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub tokens_per_minute: Option<u32>,
    /// The maximum of concurrent requests (default: 256). The engine adapts below it to the provider's answers.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10_000))]
    pub in_flight: Option<u32>,
}

/// The price of a model, in US dollars per million tokens.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Price")]
pub struct PriceForm {
    /// Tokens of requests.
    #[schemars(range(min = 0.0, max = 1_000.0))]
    pub input: f64,
    /// Cached tokens of requests (default: the price of `input`).
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1_000.0))]
    pub cached_input: Option<f64>,
    /// Tokens of answers, reasoning included.
    #[schemars(range(min = 0.0, max = 1_000.0))]
    pub output: f64,
}

/// A table of prices: what models cost, and where that was read.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Baton table of prices")]
pub struct PriceTableForm {
    /// The JSON Schema of this file, for editors.
    #[serde(default, rename = "$schema")]
    pub schema: Option<String>,
    /// The date of the table.
    #[schemars(regex(pattern = DAY_PATTERN))]
    pub version: String,
    /// The prices.
    pub prices: Vec<PriceRowForm>,
}

/// Prices of models in US dollars per million tokens, with their sources.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PriceRow")]
pub struct PriceRowForm {
    /// The names of the models, without the date of a version.
    #[schemars(length(min = 1), inner(length(min = 1, max = 128)))]
    pub models: Vec<String>,
    /// Tokens of requests.
    #[schemars(range(min = 0.0, max = 1_000.0))]
    pub input: f64,
    /// Cached tokens of requests (default: the price of `input`).
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1_000.0))]
    pub cached_input: Option<f64>,
    /// Tokens of answers, reasoning included.
    #[schemars(range(min = 0.0, max = 1_000.0))]
    pub output: f64,
    /// Tokens that a request and its answer may have together: the context window.
    #[serde(default)]
    #[schemars(range(min = 256, max = 1_000_000_000))]
    pub context_tokens: Option<u64>,
    /// Tokens that an answer may have, reasoning included.
    #[serde(default)]
    #[schemars(range(min = 256, max = 1_000_000_000))]
    pub output_tokens: Option<u64>,
    /// The seller's page with the price.
    #[schemars(regex(pattern = PAGE_PATTERN))]
    pub source: String,
    /// The day on which it was read.
    #[schemars(regex(pattern = DAY_PATTERN))]
    pub as_of: String,
}
