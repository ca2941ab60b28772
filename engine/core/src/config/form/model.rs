//! Models and what they cost.

use schemars::JsonSchema;
use serde::Deserialize;
use validator::Validate;

use super::{DAY_PATTERN, PAGE_PATTERN};

/// What answers for a model name.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Model")]
pub struct ModelForm {
    /// Who provides the model.
    pub provider: ProviderForm,
    /// The script that a `scripted` model follows, relative to the job's folder.
    #[schemars(length(min = 1))]
    pub script: String,
    /// What its tokens cost, in place of what the engine's table of prices says. A script costs nothing unless said.
    #[serde(default)]
    pub price: Option<PriceForm>,
}

/// Who provides a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Provider")]
pub enum ProviderForm {
    /// A script answers, from a file and without a network.
    Scripted,
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
    /// The page that says so, of whoever sells the model.
    #[schemars(regex(pattern = PAGE_PATTERN))]
    pub source: String,
    /// The day on which it was read.
    #[schemars(regex(pattern = DAY_PATTERN))]
    pub as_of: String,
}
