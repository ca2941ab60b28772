//! The forms of the files that a person writes: one source for reading, for checking and for the published JSON Schemas.
//!
//! A form defines the content of one file. Rules that join files belong to the loader.

mod agent;
mod configuration;
mod job;
mod model;
mod tool;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use validator::Validate;

pub use self::agent::{AgentForm, FileForm, FullGrantForm, GrantForm, PromptForm, SelectorForm, WordingForm};
pub use self::configuration::ToolConfigurationForm;
pub use self::job::{DocumentForm, FullDocumentForm, InputForm, JobForm, RequestForm, RequestWithInputsForm, RunLimitsForm};
pub use self::model::{
    AliasForm, KeyForm, ModelForm, ModelsForm, PriceForm, PriceRowForm, PriceTableForm, ProviderForm, ProviderSettingsForm,
    TimeoutsForm,
};
pub use self::tool::{
    AcceptForm, ChangesForm, ExampleForm, ExecForm, ParameterForm, PartForm, ReturnForm, ReturnPartForm, ReturnTypeName,
    SettingForm, ToolForm, ToolTypeForm, TypeName,
};

/// A project: what the command line assumes in a folder and below.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Baton project")]
pub struct ProjectForm {
    /// The JSON Schema of this file, for editors.
    #[serde(default, rename = "$schema")]
    pub schema: Option<String>,
    /// Folder of the runs, relative to this file (default: `.baton`).
    #[serde(default)]
    #[validate(length(min = 1))]
    pub store: Option<String>,
    /// Folder in which jobs are found by name, relative to this file (default: this folder).
    #[serde(default)]
    #[validate(length(min = 1))]
    pub jobs: Option<String>,
    /// The owner of long-term memories: each job (`job`, the default), or the project, so that its jobs share them (`project`).
    /// An agent reads its own notes only, in both cases.
    #[serde(default)]
    pub memory: Option<MemoryForm>,
    /// Project of tool services on a bus: the third token of their subjects (default: `default`). A project is a tenant.
    #[serde(default)]
    #[validate(length(min = 1, max = 100))]
    pub project: Option<String>,
    /// Channel of tool services on a bus: the fourth token of their subjects (default: `main`).
    #[serde(default)]
    #[validate(length(min = 1, max = 100))]
    pub channel: Option<String>,
}

/// The owner of long-term memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Memory")]
pub enum MemoryForm {
    /// Each job has memories of its own.
    Job,
    /// The jobs of the project share their memories.
    Project,
}

/// Keeps a `null` that was written apart from a key that was not.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
