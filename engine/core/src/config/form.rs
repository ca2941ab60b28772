//! The forms of the files that a person writes: one source for reading, for checking and for the published JSON Schemas.
//!
//! A form says what one file may hold. Rules that join files are the loader's.

mod agent;
mod job;
mod model;
mod tool;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use validator::Validate;

pub use self::agent::{AgentForm, FileForm, FullGrantForm, GrantForm, PromptForm};
pub use self::job::{DocumentForm, FullDocumentForm, InputForm, JobForm, RequestForm, RequestWithInputsForm, RunLimitsForm};
pub use self::model::{
    AliasForm, KeyForm, Modalities, ModelForm, ModelsForm, PriceForm, PriceRowForm, PriceTableForm, ProviderForm,
    ProviderSettingsForm, TimeoutsForm,
};
pub use self::tool::{
    ChangesForm, ExampleForm, ExecForm, ParameterForm, PartForm, ReturnForm, ReturnPartForm, ReturnTypeName, SettingForm,
    ToolForm, ToolTypeForm, TypeName,
};

/// A project: what the command line assumes in a folder and below.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Baton project")]
pub struct ProjectForm {
    /// The JSON Schema of this file, for editors.
    #[serde(default, rename = "$schema")]
    pub schema: Option<String>,
    /// Where runs are kept, relative to this file; `.baton` unless said.
    #[serde(default)]
    #[validate(length(min = 1))]
    pub store: Option<String>,
    /// The folder in which jobs are looked for by name, relative to this file; this folder unless said.
    #[serde(default)]
    #[validate(length(min = 1))]
    pub jobs: Option<String>,
}

/// What names of environment variables match.
pub(crate) const ENV_PATTERN: &str = "^[A-Za-z_][A-Za-z0-9_]{0,127}$";

/// What days match.
pub(crate) const DAY_PATTERN: &str = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$";

/// What names that templates use match.
pub const NAME_PATTERN: &str = "^[a-z][a-z0-9_]*$";

/// Whether `name` matches [`NAME_PATTERN`].
pub(crate) fn is_template_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|each| each.is_ascii_lowercase() || each.is_ascii_digit() || each == b'_')
}

/// Whether `name` matches [`ENV_PATTERN`].
pub(crate) fn is_environment_name(name: &str) -> bool {
    name.len() <= 128
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|each| each.is_ascii_alphanumeric() || each == b'_')
}

/// Whether `text` matches [`DAY_PATTERN`].
pub(crate) fn is_day(text: &str) -> bool {
    let fits = |(place, byte): (usize, u8)| if place == 4 || place == 7 { byte == b'-' } else { byte.is_ascii_digit() };
    text.len() == 10 && text.bytes().enumerate().all(fits)
}

/// The address of a page that says something.
pub(crate) const PAGE_PATTERN: &str = "^https://[^ ]+$";

/// Whether `text` matches [`PAGE_PATTERN`].
pub(crate) fn is_page(text: &str) -> bool {
    text.strip_prefix("https://").is_some_and(|rest| !rest.is_empty() && !rest.contains(' '))
}

/// Keeps a `null` that was written apart from a key that was not.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
