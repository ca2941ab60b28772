//! Configurations of tools.

use baton_schema::ENV_PATTERN;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use validator::Validate;

/// A configuration of a tool: other settings, or another key, for the calls that name it. Its id is the name of its file.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Baton tool configuration")]
pub struct ToolConfigurationForm {
    /// The JSON Schema of this file, for editors.
    #[serde(default, rename = "$schema")]
    pub schema: Option<String>,
    /// The id of the tool.
    #[validate(length(min = 1))]
    pub tool: String,
    /// Values of the tool's settings. The others keep the values that they have without this configuration.
    #[serde(default)]
    pub set: Option<Map<String, Value>>,
    /// Name of the environment variable with the key of the tool's requests to models, or with the tool's only secret.
    #[serde(default)]
    #[schemars(regex(pattern = ENV_PATTERN))]
    pub key: Option<String>,
}
