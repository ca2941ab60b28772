//! A job that is ready to run, and what one run of it is given.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use baton_core::config::{Configs, Faults, Job, JobDocument, Sources, Unconfigured, load};
use baton_core::function::{Content, ToolFunction};
use baton_core::id::RunId;
use baton_core::path::DocumentPath;
use baton_models::check_script;
use serde_json::Value;

/// A job whose files were read and found without fault.
#[derive(Clone, Debug)]
pub struct LoadedJob {
    /// The checked configs.
    pub configs: Arc<Configs>,
    /// The texts they were read from: what a run is pinned to.
    pub sources: Arc<Sources>,
    /// The folder they were read from; `None` for a job that a program made.
    pub folder: Option<PathBuf>,
    /// The contents of the job's documents.
    pub documents: Vec<InitialDocument>,
}

/// A document that a run begins with.
#[derive(Clone, Debug)]
pub struct InitialDocument {
    /// Where it stands in the workspace.
    pub path: DocumentPath,
    /// What it holds.
    pub content: Content,
    /// What it is for.
    pub description: String,
    /// Words to find it by.
    pub tags: Vec<String>,
}

impl InitialDocument {
    /// A document of a person: path and content, nothing else.
    pub fn new(path: DocumentPath, content: impl Into<Content>) -> Self {
        Self { path, content: content.into(), description: String::new(), tags: Vec::new() }
    }

    /// The document that the job's config describes.
    pub fn of(document: &JobDocument, content: Content) -> Self {
        Self { path: document.path.clone(), content, description: document.description.clone(), tags: document.tags.clone() }
    }
}

impl LoadedJob {
    /// A job made by a program: its files as `sources`, without a folder and without documents. Each of `functions`
    /// must have its config.
    pub fn from_sources(sources: Sources, functions: &[&'static ToolFunction]) -> Result<Self, Faults> {
        let configs = Arc::new(load_configs(&sources, functions, Unconfigured::Refused)?);
        Ok(Self { configs, sources: Arc::new(sources), folder: None, documents: Vec::new() })
    }

    /// The same job with a document more.
    pub fn with_document(mut self, document: InitialDocument) -> Self {
        self.documents.push(document);
        self
    }
}

/// Loads the configs of a job; its scripts are checked by the models' own reader.
pub fn load_configs(
    sources: &Sources,
    functions: &[&'static ToolFunction],
    unconfigured: Unconfigured,
) -> Result<Configs, Faults> {
    load(sources, functions, unconfigured, &check_script)
}

/// What a person gives to one run.
#[derive(Clone, Debug, Default)]
pub struct StartOptions {
    /// The request of the root task, in place of the job's.
    pub request: Option<String>,
    /// The job's inputs.
    pub inputs: Vec<(String, InputValue)>,
    /// Documents besides the job's; one at the path of a job's document replaces it.
    pub documents: Vec<InitialDocument>,
    /// A model that stands in for every agent's own, by name.
    pub model: Option<String>,
    /// The run's id; made up when absent.
    pub run: Option<RunId>,
}

/// A value of an input.
#[derive(Clone, Debug, PartialEq)]
pub enum InputValue {
    /// A typed value.
    Json(Value),
    /// Text from a command line: a string where the job takes one, else JSON.
    Text(String),
}

/// What is wrong with an input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputFault {
    /// The job takes no such input.
    #[error("there is no input {name}; known: {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    Unknown {
        /// The name given.
        name: String,
        /// The names the job takes.
        known: Vec<String>,
    },
    /// The input has no default and was not given.
    #[error("input {name} is missing: {description}")]
    Missing {
        /// Its name.
        name: String,
        /// What it means.
        description: String,
    },
    /// The value does not meet the input's schema.
    #[error("input {name} does not fit: {reason}")]
    Invalid {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// The input was given twice.
    #[error("input {name} is given twice")]
    Twice {
        /// Its name.
        name: String,
    },
}

/// Checks `given` against what the job takes and fills in defaults; every fault is reported.
pub fn check_inputs(job: &Job, given: &[(String, InputValue)]) -> Result<BTreeMap<String, Value>, Vec<InputFault>> {
    let mut faults = Vec::new();
    let mut values = BTreeMap::new();
    for (name, value) in given {
        let Some(input) = job.inputs.get(name) else {
            faults.push(InputFault::Unknown { name: name.clone(), known: job.inputs.keys().cloned().collect() });
            continue;
        };
        let value = match value {
            InputValue::Json(value) => value.clone(),
            InputValue::Text(text) => typed(text, &input.schema.json().value()),
        };
        if let Err(broken) = input.schema.check(&value) {
            let reason =
                broken.iter().map(|fault| format!("{}{}", at(&fault.pointer), fault.message)).collect::<Vec<_>>().join("; ");
            faults.push(InputFault::Invalid { name: name.clone(), reason });
        }
        if values.insert(name.clone(), value).is_some() {
            faults.push(InputFault::Twice { name: name.clone() });
        }
    }
    for (name, input) in &job.inputs {
        if !values.contains_key(name) {
            match &input.default {
                Some(default) => {
                    values.insert(name.clone(), default.clone());
                }
                None if !given.iter().any(|(given, _)| given == name) => {
                    faults.push(InputFault::Missing { name: name.clone(), description: input.description.clone() });
                }
                None => {}
            }
        }
    }
    if faults.is_empty() { Ok(values) } else { Err(faults) }
}

/// What `text` means where `schema` is expected: itself where a string may stand and no JSON fits better.
fn typed(text: &str, schema: &Value) -> Value {
    let takes = |name: &str| match &schema["type"] {
        Value::String(only) => only == name,
        Value::Array(several) => several.iter().any(|one| one == name),
        _ => false,
    };
    if takes("string") {
        return Value::String(text.to_owned());
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

fn at(pointer: &str) -> String {
    if pointer.is_empty() { String::new() } else { format!("at {pointer}: ") }
}
