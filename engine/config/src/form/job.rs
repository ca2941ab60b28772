//! Jobs: requests, inputs and documents.

use std::collections::BTreeMap;

use baton_types::id::ID_PATTERN;
use baton_types::limits::{Limits, SessionLimits};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use validator::Validate;

use super::{ModelForm, PartForm, TypeName, present};

/// A job: what is to be done, by which agent, with which documents and models.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Baton job")]
pub struct JobForm {
    /// The JSON Schema of this file, for editors.
    #[serde(default, rename = "$schema")]
    pub schema: Option<String>,
    /// The job's name.
    #[validate(length(min = 1, max = 64))]
    #[schemars(regex(pattern = ID_PATTERN))]
    pub job_id: String,
    /// Purpose of the job.
    #[validate(length(min = 1, max = 20_000))]
    pub description: String,
    /// The agent that the run begins with.
    #[validate(length(min = 1))]
    pub root: String,
    /// Request to the root agent, a template: the text, or the text with the inputs that it uses.
    pub request: RequestForm,
    /// The documents that the workspace begins with.
    #[serde(default)]
    pub documents: Vec<DocumentForm>,
    /// Models by the names that agents use, beside those of `models.json`, and `PROVIDER:MODEL`, which needs no name.
    #[serde(default)]
    #[schemars(extend("minProperties" = 1))]
    pub models: BTreeMap<String, ModelForm>,
    /// The model that summarises texts which tools write. Without one, a text's own first words are its summary; the shape of
    /// a table or of JSON always is.
    #[serde(default)]
    #[validate(length(min = 1))]
    pub summary_model: Option<String>,
    /// Seconds for which a request is retried while its provider is away, where `models.json` does not say so (default: 3600). Then
    /// it waits: when nothing else can proceed, the run stops and can be resumed.
    #[serde(default)]
    #[validate(range(max = 2_592_000))]
    pub outage_seconds: Option<u32>,
    /// Limits of the whole run.
    #[serde(default)]
    pub limits: Option<Limits>,
    /// Limits of a session: of a run and of all runs that it continues, together.
    #[serde(default)]
    pub session_limits: Option<SessionLimits>,
}

/// Limits that the start of a run asks for.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
pub struct RunLimitsForm {
    /// Limits that replace the job's own.
    pub limits: Limits,
}

/// A request: the text, or the text with the inputs that it uses.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Request")]
pub enum RequestForm {
    /// The text.
    Text(#[schemars(length(min = 1))] String),
    /// The text and its inputs.
    WithInputs(RequestWithInputsForm),
}

/// A request with inputs.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RequestWithInputs")]
pub struct RequestWithInputsForm {
    /// The text, a template.
    #[schemars(length(min = 1))]
    pub text: String,
    /// The inputs by name; the text and the prompts use them as `inputs.<name>`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, InputForm>")]
    pub inputs: Map<String, Value>,
}

/// An input of a job, given on the command line as `--input NAME=VALUE`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Input")]
pub struct InputForm {
    /// The JSON type of the value. Use `schema` instead where JSON Schema is needed.
    #[serde(default, rename = "type")]
    pub kind: Option<TypeName>,
    /// The value as a JSON Schema (2020-12); replaces `type` and its related keys.
    #[serde(default)]
    pub schema: Option<Map<String, Value>>,
    /// Meaning of the value.
    #[serde(default)]
    pub description: Option<String>,
    /// Default value; an input without a default is required.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Value")]
    pub default: Option<Value>,
    /// The values that are allowed.
    #[serde(default, rename = "enum")]
    #[schemars(length(min = 1))]
    pub allowed: Option<Vec<Value>>,
    /// Schema of the elements of an array.
    #[serde(default)]
    pub items: Option<Box<PartForm>>,
    /// Properties of an object; it has no others.
    #[serde(default)]
    pub properties: Option<BTreeMap<String, PartForm>>,
    /// The least number that is allowed.
    #[serde(default)]
    pub minimum: Option<f64>,
    /// The greatest number that is allowed.
    #[serde(default)]
    pub maximum: Option<f64>,
}

/// A document that the workspace begins with: its path, or its path and more.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Document")]
pub enum DocumentForm {
    /// Its path.
    Path(#[schemars(length(min = 1))] String),
    /// Its path and more.
    Full(FullDocumentForm),
}

/// A document with a description.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FullDocument")]
pub struct FullDocumentForm {
    /// Its path in the workspace.
    #[schemars(length(min = 1))]
    pub path: String,
    /// File of the document, relative to the job's folder (default: the file of that path in `documents/`, or else in
    /// the folder itself).
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub file: Option<String>,
    /// Purpose of the document.
    #[serde(default)]
    pub description: Option<String>,
    /// Words to find it by.
    #[serde(default)]
    pub tags: Vec<String>,
}
