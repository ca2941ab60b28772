//! A job that is ready to run, and what one run of it is given.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_config::{Faults, ModelRules, Sources, Unconfigured, load};
use baton_models::{BOOLEAN_SETTINGS, OWN_SETTINGS, REFUSED_SETTINGS, check_script, embeds, media_of, provider_names};
use baton_tool::ToolFunction;
use baton_tool::measure::measure;
use baton_types::config::{Configs, Embeddings, Job, JobDocument, JobInput, Origin, ProviderSettings};
use baton_types::document::{Content, ContentFacts, Write};
use baton_types::id::{ContentHash, MemoryId, RunId};
use baton_types::json;
use baton_types::limits::Limits;
use baton_types::path::DocumentPath;
use serde_json::Value;

use crate::error::RunError;
use crate::folder::{FolderError, ToolConfig, read_job};

/// A job whose files were read and found without fault.
#[derive(Clone, Debug)]
pub struct LoadedJob {
    /// The checked configs.
    pub configs: Arc<Configs>,
    sources: Arc<Sources>,
    /// The texts as JSON: what a run is pinned to, stored under its hash.
    pub(crate) pinned: (ContentHash, Content),
    /// The folder they were read from; `None` for a job that a program made.
    pub folder: Option<PathBuf>,
    /// The contents of the job's documents.
    pub documents: Vec<InitialDocument>,
    /// The owner of the long-term memories of its agents (default: the job, by its id and its folder).
    pub memory: Option<MemoryId>,
}

/// A document that a run begins with, measured once however many runs it begins.
#[derive(Clone, Debug)]
pub struct InitialDocument {
    path: DocumentPath,
    content: Content,
    facts: ContentFacts,
    /// Purpose of the document.
    pub description: String,
    /// Words to find it by.
    pub tags: Vec<String>,
}

impl InitialDocument {
    /// Returns a document of a person: path and content, nothing else.
    pub fn new(path: DocumentPath, content: impl Into<Content>) -> Self {
        let content = content.into();
        let facts = measure(&path, &content, None);
        Self { path, content, facts, description: String::new(), tags: Vec::new() }
    }

    /// Returns the document that the job's config describes.
    pub fn of(document: &JobDocument, content: Content) -> Self {
        Self {
            description: document.description.clone(),
            tags: document.tags.clone(),
            ..Self::new(document.path.clone(), content)
        }
    }

    /// Returns its path in the workspace.
    pub fn path(&self) -> &DocumentPath {
        &self.path
    }

    /// Takes the content of `other`.
    pub(crate) fn replace_content(&mut self, other: Self) {
        (self.content, self.facts) = (other.content, other.facts);
    }

    /// Returns the first version, and its content.
    pub(crate) fn write(&self) -> (Write, (ContentHash, Content)) {
        let description = Some(self.description.clone()).filter(|text| !text.is_empty());
        let tags = Some(self.tags.clone()).filter(|tags| !tags.is_empty());
        let stored = (self.facts.hash, Arc::clone(&self.content));
        (Write { path: self.path.clone(), content: self.facts.clone(), description, tags }, stored)
    }
}

impl LoadedJob {
    /// Returns a job made by a program: its files as `sources`, without a folder and without documents. Each of `functions`
    /// must have its config.
    pub fn from_sources(sources: Sources, functions: &[&'static ToolFunction]) -> Result<Self, Faults> {
        Self::of(sources, functions, Unconfigured::Refused)
    }

    pub(crate) fn of(sources: Sources, functions: &[&'static ToolFunction], unconfigured: Unconfigured) -> Result<Self, Faults> {
        let configs = Arc::new(load_configs(&sources, functions, unconfigured)?);
        let (pinned, sources) = (pinned(&sources), Arc::new(sources));
        Ok(Self { configs, pinned, sources, folder: None, documents: Vec::new(), memory: None })
    }

    /// Returns the job in the folder at `path`, documents included. `builtin` are the tool configs that come with the program:
    /// path as messages show it, and text. Each of `functions` must have its config.
    pub fn read(path: &Path, builtin: &[(&str, &str)], functions: &[&'static ToolFunction]) -> Result<Self, LoadError> {
        let builtin: Vec<ToolConfig<'_>> = builtin.iter().map(|(path, text)| (Origin::BuiltIn, *path, *text)).collect();
        let (sources, folder) = read_job(path, &builtin, None)?;
        let mut job = Self { folder: Some(folder.path().to_owned()), ..Self::from_sources(sources, functions)? };
        let configs = Arc::clone(&job.configs);
        for document in &configs.job.documents {
            job = job.with_document(InitialDocument::of(document, folder.read(&document.file)?.into()));
        }
        Ok(job)
    }

    /// Returns the texts that the configs were read from.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Returns the same job with `limits` in place of the job's own, where they are set.
    pub(crate) fn limited(self, limits: &Limits, functions: &[&'static ToolFunction]) -> Result<Self, Faults> {
        let mut sources = Sources::clone(&self.sources);
        sources.limit_run(limits);
        let configs = Arc::new(load_configs(&sources, functions, Unconfigured::Allowed)?);
        Ok(Self { configs, pinned: pinned(&sources), sources: Arc::new(sources), ..self })
    }

    /// Returns the same job with a document more.
    pub fn with_document(mut self, document: InitialDocument) -> Self {
        self.documents.push(document);
        self
    }
}

/// Why the job in a folder cannot run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The folder cannot be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Its files have faults.
    #[error("{0}")]
    Faults(Faults),
}

impl From<Faults> for LoadError {
    fn from(faults: Faults) -> Self {
        Self::Faults(faults)
    }
}

/// Loads the configs of a job; its scripts are checked by the models' own reader.
pub fn load_configs(
    sources: &Sources,
    functions: &[&'static ToolFunction],
    unconfigured: Unconfigured,
) -> Result<Configs, Faults> {
    load(sources, functions, unconfigured, &rules(&provider_names()))
}

/// Loads the model that makes vectors of texts, and the settings of providers, for commands that need no job.
pub fn load_embeddings(sources: &Sources) -> Result<(Option<Embeddings>, BTreeMap<String, ProviderSettings>), Faults> {
    baton_config::load_embeddings(sources, &rules(&provider_names()))
}

/// Returns the knowledge about models that loaders of configs need.
fn rules<'a>(providers: &'a [&'a str]) -> ModelRules<'a> {
    ModelRules {
        check_script: &check_script,
        providers,
        media: media_of,
        embeds,
        own_settings: &OWN_SETTINGS,
        boolean_settings: &BOOLEAN_SETTINGS,
        refused_settings: &REFUSED_SETTINGS,
    }
}

/// Returns the texts as a run is pinned to them.
pub(crate) fn pinned(sources: &Sources) -> (ContentHash, Content) {
    let text: Content = serde_json::to_vec(sources).expect("texts always serialise").into();
    (ContentHash::of(&text), text)
}

/// Choices of a person for one run.
#[derive(Clone, Debug, Default)]
pub struct StartOptions {
    /// The request of the root task, in place of the job's.
    pub request: Option<String>,
    /// The job's inputs.
    pub inputs: Vec<(String, InputValue)>,
    /// Documents besides the job's; one at the path of a job's document replaces it.
    pub documents: Vec<InitialDocument>,
    /// Name of a model that replaces every agent's own.
    pub model: Option<String>,
    /// Limits of the run, in place of the job's own where they say something. They stay, whatever configs the run adopts.
    pub limits: Limits,
    /// The run's id; made up when absent.
    pub run: Option<RunId>,
    /// The trigger of a breadcrumb that the run handles.
    pub trigger: Option<u64>,
}

/// A value of an input.
#[derive(Clone, Debug, PartialEq)]
pub enum InputValue {
    /// A typed value.
    Json(Value),
    /// Text from a command line: a string where the job takes one, else JSON.
    Text(String),
}

/// Returns `given` as typed values: each text is read as its input's type. [`baton_config::check_inputs`] reports
/// texts that do not fit.
pub(crate) fn typed_inputs(job: &Job, given: Vec<(String, InputValue)>) -> Result<BTreeMap<String, Value>, RunError> {
    let mut values = BTreeMap::new();
    for (name, value) in given {
        let value = match (value, job.inputs.get(&name)) {
            (InputValue::Json(value), _) => value,
            (InputValue::Text(text), Some(input)) => typed(&text, input),
            (InputValue::Text(text), None) => Value::String(text),
        };
        if values.insert(name.clone(), value).is_some() {
            return Err(RunError::InputTwice { name });
        }
    }
    Ok(values)
}

/// Reads `text` as a value of `input`: the first reading that fits, beginning with a string where one is allowed.
fn typed(text: &str, input: &JobInput) -> Value {
    let takes_text = match &input.schema.json().value()["type"] {
        Value::String(only) => only == "string",
        Value::Array(several) => several.iter().any(|one| one == "string"),
        _ => false,
    };
    let as_text = Value::String(text.to_owned());
    let mut readings: Vec<Value> = json::read(text).into_iter().chain([as_text]).collect();
    if takes_text {
        readings.reverse();
    }
    let fitting = readings.iter().position(|reading| input.schema.check(reading).is_ok());
    readings.swap_remove(fitting.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_text_is_read_as_what_the_job_takes() {
        let read = |text, schema: Value| {
            let schema = baton_schema::compile(&schema).unwrap();
            typed(text, &JobInput { description: String::new(), schema, default: None })
        };
        assert_eq!(read("7", json!({"type": "integer"})), json!(7));
        assert_eq!(read("7", json!({"type": "string"})), json!("7"));
        assert_eq!(read("7", json!({"enum": ["7", "8"]})), json!("7"));
        assert_eq!(read("[1, 2]", json!({"type": ["string", "array"], "minItems": 1, "minLength": 9})), json!([1, 2]));
        assert_eq!(read("seven", json!({"type": "integer"})), json!("seven"));
    }
}
