//! Models and what they cost.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use validator::Validate;

use super::{DAY_PATTERN, ENV_PATTERN, PAGE_PATTERN};

/// What answers for a model name: a script, or a provider's model.
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
    /// What its tokens cost, in place of what the engine's table of prices says. A script costs nothing unless said.
    #[serde(default)]
    pub price: Option<PriceForm>,
    /// Tokens that a request and its answer may have together: its context window. In place of what the engine's table says.
    #[serde(default)]
    #[schemars(range(min = 256, max = 1_000_000_000))]
    pub context_tokens: Option<u64>,
    /// What it takes besides text, where that is not what its provider usually takes.
    #[serde(default)]
    pub modalities: Modalities,
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

/// What a model takes besides text; what is absent is as its provider usually has it. A document that a model does not take
/// is told by its record alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Modalities {
    /// Images (PNG, JPEG, GIF, WebP).
    #[serde(default)]
    pub images: Option<bool>,
    /// PDF documents.
    #[serde(default)]
    pub files: Option<bool>,
}

/// Who provides a model.
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
    /// How providers are reached: those that the program knows, and others that are like one of them.
    #[serde(default)]
    pub providers: BTreeMap<String, ProviderSettingsForm>,
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
    /// What its tokens cost, in place of what the engine's table of prices says.
    #[serde(default)]
    pub price: Option<PriceForm>,
    /// Tokens that a request and its answer may have together: its context window. In place of what the engine's table says.
    #[serde(default)]
    #[schemars(range(min = 256, max = 1_000_000_000))]
    pub context_tokens: Option<u64>,
    /// What it takes besides text, where that is not what its provider usually takes.
    #[serde(default)]
    pub modalities: Modalities,
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

/// How a provider is reached.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ProviderSettings")]
pub struct ProviderSettingsForm {
    /// The provider whose protocol it speaks; itself unless said.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub like: Option<String>,
    /// The address before the path of a request, such as `http://127.0.0.1:8000/v1`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub base_url: Option<String>,
    /// Where its key is; never the key itself.
    #[serde(default)]
    pub key: Option<KeyForm>,
    /// Headers that go with every request, such as `HTTP-Referer`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// How long things may take.
    #[serde(default)]
    pub timeouts: Option<TimeoutsForm>,
    /// How often its key may be used. Requests beyond that wait, in turn.
    #[serde(default)]
    pub limits: Option<ProviderLimitsForm>,
    /// Seconds for which a request to it is retried while it is away (default: 3600). Then it waits: when nothing else can
    /// proceed, the run stops and can be resumed.
    #[serde(default)]
    #[schemars(range(min = 0, max = 2_592_000))]
    pub outage_seconds: Option<u32>,
}

/// Where a key is.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Key")]
pub struct KeyForm {
    /// The variable of the environment that holds it.
    #[schemars(regex(pattern = ENV_PATTERN))]
    pub env: String,
}

/// How long a provider may take.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Timeouts")]
pub struct TimeoutsForm {
    /// To take a connection; 10 unless said.
    #[serde(default)]
    #[schemars(range(min = 1, max = 86_400))]
    pub connect_seconds: Option<u32>,
    /// To begin an answer; 300 unless said.
    #[serde(default)]
    #[schemars(range(min = 1, max = 86_400))]
    pub first_byte_seconds: Option<u32>,
    /// To go on with an answer; 120 unless said.
    #[serde(default)]
    #[schemars(range(min = 1, max = 86_400))]
    pub between_bytes_seconds: Option<u32>,
    /// For a whole answer; 1800 unless said.
    #[serde(default)]
    #[schemars(range(min = 1, max = 86_400))]
    pub total_seconds: Option<u32>,
}

/// How often a provider's key may be used, by all runs of a process together.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ProviderLimits")]
pub struct ProviderLimitsForm {
    /// Requests within any minute; as many as the provider takes unless said.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub requests_per_minute: Option<u32>,
    /// Tokens of requests and answers within any minute; as many as the provider takes unless said.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub tokens_per_minute: Option<u32>,
    /// Requests at the same time, at most; 256 unless said. How many it is at a time, the provider's answers teach.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10_000))]
    pub in_flight: Option<u32>,
}

/// What the tokens of a model cost, in US dollars for a million of them.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Price")]
pub struct PriceForm {
    /// Tokens of requests.
    #[schemars(range(min = 0.0, max = 1_000.0))]
    pub input: f64,
    /// Tokens of requests that the provider had cached; the same as `input` unless said.
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
    /// The day that the table is of.
    #[schemars(regex(pattern = DAY_PATTERN))]
    pub version: String,
    /// The prices.
    pub prices: Vec<PriceRowForm>,
}

/// What some models cost, in US dollars for a million tokens, and where that was read.
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
    /// Tokens of requests that the provider had cached; the same as `input` unless said.
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
    /// The page that says so, of whoever sells the model.
    #[schemars(regex(pattern = PAGE_PATTERN))]
    pub source: String,
    /// The day on which it was read.
    #[schemars(regex(pattern = DAY_PATTERN))]
    pub as_of: String,
}
