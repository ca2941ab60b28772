//! The job: its request and inputs, its documents, its models.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use baton_schema::{Others, part_schema};
use baton_types::config::{Job, JobDocument, JobInput, Modalities, ModelSpec, MoneyHolder, RUN_SCRIPT};
use baton_types::id::{AgentId, JobId};
use baton_types::limits::Limits;
use baton_types::path::DocumentPath;
use serde_json::{Map, Value};

use crate::fault::{Fault, FaultKind, Faults};
use crate::form::{DocumentForm, InputForm, JobForm, ModelForm, ProviderForm, RequestForm, RunLimitsForm};
use crate::loader::Loader;
use crate::models::{ModelRules, ReadModels};
use crate::price::money_limit;
use crate::reader::{Spot, Text, pointer};
use crate::shape::{JOB, RUN_LIMITS, show};
use crate::source::{Role, Source};
use crate::template::Scope;
use crate::tool_schema::{check_part, is_name};

impl<'s> Loader<'s> {
    /// Loads the job; `None` only with faults.
    pub(crate) fn load_job(&mut self, rules: &ModelRules<'_>) -> Option<Job> {
        let mut files = self.sources.of(Role::Job);
        let Some(source) = files.next() else {
            let file = self.sources.display_path(Role::Job, "job.json");
            self.faults.push(Fault::of_file(FaultKind::MissingFile, file, "the job has no job.json"));
            return None;
        };
        if let Some(second) = files.next() {
            let file = self.sources.display(second);
            self.faults.push(Fault::of_file(FaultKind::SameId, file, "a folder holds one job, and this file is a second one"));
        }
        let read = self.read(source)?;
        let form: JobForm = self.form(&JOB, &read.text, &read.value)?;
        let text = &read.text;
        if !self.has_agent(&form.root) {
            let message = format!("the root agent \"{}\" is unknown", form.root);
            let fault = text.fault(FaultKind::UnknownAgent, "/root", Spot::Value, message);
            self.faults.push(fault.near(&form.root, self.agents.keys().map(String::as_str)));
        }
        let (request, request_place, inputs) = match &form.request {
            RequestForm::Text(request) => (request.clone(), "/request", BTreeMap::new()),
            RequestForm::WithInputs(request) => (request.text.clone(), "/request/text", self.inputs(&request.inputs, text)),
        };
        let scope = Scope::of_request(inputs.keys().map(String::as_str));
        self.check_template(&request, &scope, text, Some(request_place));
        let of_run = self.run_limits();
        if of_run.cost_usd.is_none() && form.limits.as_ref().is_some_and(|limits| limits.cost_usd.is_some()) {
            self.money_limits.push(money_limit(text, MoneyHolder::Run));
        }
        let session_limits = form.session_limits.clone().unwrap_or_default();
        if session_limits.cost_usd.is_some() {
            self.money_limits.push(money_limit(text, MoneyHolder::Session));
        }
        let mut models = self.read_models(rules);
        self.models(&form, text, rules, &mut models);
        self.run_script(rules, &mut models);
        let job = Job {
            id: JobId::new(form.job_id.as_str()),
            description: form.description.clone(),
            root: AgentId::new(form.root.as_str()),
            request,
            inputs: inputs.into_iter().filter_map(|(name, input)| Some((name, input?))).collect(),
            documents: self.documents(&form, text),
            models: models.models,
            providers: models.providers,
            provider_names: models.provider_names,
            media: models.media,
            own_prices: models.own_prices,
            embeddings: models.embeddings,
            summary_model: form.summary_model.clone(),
            outage: form.outage_seconds.map(|seconds| std::time::Duration::from_secs(seconds.into())),
            limits: of_run.or(&form.limits.clone().unwrap_or_default()).or(&Limits::run_defaults()),
            session_limits,
        };
        if let Some(model) = form.summary_model.filter(|model| job.model(model).is_none()) {
            let message = format!("the job does not name the model \"{model}\"");
            let fault = text.fault(FaultKind::UnknownModel, "/summary_model", Spot::Value, message);
            self.faults.push(
                fault.near(&model, job.models.keys().map(String::as_str)).expected("one of the job's models, or PROVIDER:MODEL"),
            );
        }
        Some(job)
    }

    /// Reads the limits that the start of the run asked for.
    fn run_limits(&mut self) -> Limits {
        let Some(read) = self.sources.of(Role::RunLimits).next().and_then(|source| self.read(source)) else {
            return Limits::default();
        };
        let form: Option<RunLimitsForm> = self.form(&RUN_LIMITS, &read.text, &read.value);
        let limits = form.map(|form| form.limits).unwrap_or_default();
        if limits.cost_usd.is_some() {
            self.money_limits.push(money_limit(&read.text, MoneyHolder::Run));
        }
        limits
    }

    /// Reads the inputs. A broken one is kept without a value, so that templates which use it are not reported as
    /// faulty.
    fn inputs(&mut self, inputs: &Map<String, Value>, text: &Text<'s>) -> BTreeMap<String, Option<JobInput>> {
        let mut read = BTreeMap::new();
        for (name, value) in inputs {
            let place = pointer(&["request", "inputs", name]);
            if !is_name(name) || name.contains('-') {
                let message = format!("input {} has a name that a template cannot use", show(&Value::from(name.as_str())));
                let fault = text.fault(FaultKind::OutOfRange, &place, Spot::Key, message);
                self.faults.push(fault.expected("letters, digits and _, at most 64"));
            }
            read.insert(name.clone(), self.input(value, &place, text));
        }
        read
    }

    fn input(&mut self, value: &Value, place: &str, text: &Text<'s>) -> Option<JobInput> {
        let form: InputForm = serde_json::from_value(value.clone()).ok()?;
        let before = self.faults.len();
        let schema = match (&form.kind, &form.schema) {
            (Some(_), None) => {
                check_part(text, value, place, &mut self.faults);
                let mut part = part_schema(value, Others::Refused);
                if let Some(part) = part.as_object_mut() {
                    part.remove("default");
                }
                Some(baton_schema::derived(&part))
            }
            (None, Some(schema)) => {
                for key in ["enum", "items", "properties", "minimum", "maximum"] {
                    if value.get(key).is_some() {
                        let message = format!("\"{key}\" belongs into \"schema\", because the input has one");
                        self.faults.push(text.fault(FaultKind::MisplacedKey, &format!("{place}/{key}"), Spot::Key, message));
                    }
                }
                self.compile(&Value::Object(schema.clone()), &format!("{place}/schema"), text)
            }
            (Some(_), Some(_)) => {
                let message = "\"type\" and \"schema\" exclude each other";
                self.faults.push(text.fault(FaultKind::MisplacedKey, &format!("{place}/schema"), Spot::Key, message));
                None
            }
            (None, None) => {
                let fault = text.fault(FaultKind::MissingKey, &format!("{place}/type"), Spot::Key, "key \"type\" is missing");
                self.faults.push(fault.expected("\"type\" or \"schema\""));
                None
            }
        }?;
        if let (Some(default), true) = (&form.default, form.schema.is_some()) {
            for wrong in schema.check(default).err().into_iter().flatten() {
                let message = format!("the default does not match the input's schema: {}", wrong.message);
                let place = format!("{place}/default{}", wrong.pointer);
                self.faults.push(text.fault(FaultKind::BrokenExample, &place, Spot::Value, message));
            }
        }
        (self.faults.len() == before).then(|| JobInput {
            description: form.description.unwrap_or_default(),
            schema,
            default: form.default,
        })
    }

    fn documents(&mut self, form: &JobForm, text: &Text<'s>) -> Vec<JobDocument> {
        let mut documents = Vec::new();
        let mut seen: HashMap<String, usize> = HashMap::new();
        for (index, document) in form.documents.iter().enumerate() {
            let index_text = index.to_string();
            let (place, file_place, path, file, description, tags) = match document {
                DocumentForm::Path(path) => {
                    let place = pointer(&["documents", &index_text]);
                    (place.clone(), place, path, None, String::new(), Vec::new())
                }
                DocumentForm::Full(full) => {
                    let place = pointer(&["documents", &index_text, "path"]);
                    let file_place =
                        if full.file.is_some() { pointer(&["documents", &index_text, "file"]) } else { place.clone() };
                    let description = full.description.clone().unwrap_or_default();
                    (place, file_place, &full.path, full.file.as_deref(), description, full.tags.clone())
                }
            };
            let path = match DocumentPath::parse(path) {
                Ok(path) => path,
                Err(error) => {
                    self.faults.push(text.fault(FaultKind::BadPath, &place, Spot::Value, error.to_string()));
                    continue;
                }
            };
            if let Some(first) = seen.insert(path.skeleton(), index) {
                let message = format!("document \"{path}\" is or looks like element {first} of \"documents\"");
                self.faults.push(text.fault(FaultKind::SameId, &place, Spot::Value, message));
                continue;
            }
            if let Some(file) = self.document_file(&path, file, text, &file_place) {
                documents.push(JobDocument { path, file, description, tags });
            }
        }
        documents
    }

    /// Returns the file of a document: the one it names, else the one in `documents/`, else the one in the folder.
    fn document_file(&mut self, path: &DocumentPath, file: Option<&str>, text: &Text<'s>, place: &str) -> Option<String> {
        let candidates = match file {
            Some(file) => match DocumentPath::parse(file) {
                Ok(file) => vec![file.as_str().to_owned()],
                Err(error) => {
                    self.faults.push(text.fault(FaultKind::BadPath, place, Spot::Value, error.to_string()));
                    return None;
                }
            },
            None => vec![format!("documents/{path}"), path.as_str().to_owned()],
        };
        if let Some(found) = candidates.iter().find(|candidate| self.sources.exists(candidate)) {
            return Some(found.clone());
        }
        let message = format!("the document \"{path}\" does not exist");
        let fault = text.fault(FaultKind::MissingFile, place, Spot::Value, message);
        let known = self.sources.candidates().map(|known| known.strip_prefix("documents/").unwrap_or(known));
        let mut fault = fault.near(path.as_str(), known);
        let expected: Vec<String> = candidates.iter().map(|candidate| self.sources.display_path(Role::Job, candidate)).collect();
        fault.expected = Some(format!("a file {}", expected.join(" or ")));
        self.faults.push(fault);
        None
    }

    /// Adds the job's own models to those of the files of models.
    fn models(&mut self, form: &JobForm, text: &Text<'s>, rules: &ModelRules<'_>, read: &mut ReadModels) {
        for (name, model) in &form.models {
            let place = pointer(&["models", name]);
            self.check_model_name(name, &place, text);
            let spec = match (&model.provider, &model.script, &model.model) {
                (None, None, Some(_)) => self.job_alias(model, &place, text, &read.provider_names),
                (Some(ProviderForm::Scripted), Some(script), None)
                    if model.settings.is_none()
                        && model.fallbacks.is_empty()
                        && model.context_tokens.is_none()
                        && model.outage_seconds.is_none()
                        && model.invocation.is_none()
                        && model.modalities == Modalities::default() =>
                {
                    self.scripted(script, model, &place, text, rules)
                }
                (provider, script, given) => {
                    self.faults.push(unclear_model(text, &place, provider.is_some(), script.is_some(), given.is_some()));
                    // It keeps its name, so that agents which use it are not reported as faulty.
                    ModelSpec::Scripted { file: String::new(), text: Arc::from(""), price: None }
                }
            };
            read.add(name, spec, &place, text);
        }
        read.check_fallbacks(&mut self.faults);
    }

    /// Reads the script that replaces every model, if the start of the run names one.
    fn run_script(&mut self, rules: &ModelRules<'_>, read: &mut ReadModels) {
        let Some(source) = self.sources.of(Role::RunScript).next() else { return };
        self.check_script(source, rules);
        let spec = ModelSpec::Scripted { file: source.path.clone(), text: Arc::from(source.text.as_str()), price: None };
        read.models.insert(RUN_SCRIPT.to_owned(), spec);
    }

    fn check_script(&mut self, source: &'s Source, rules: &ModelRules<'_>) {
        let Some(read) = self.read(source) else { return };
        for (pointer, message) in (rules.check_script)(&source.text) {
            self.faults.push(read.text.fault(FaultKind::BadScript, &pointer, Spot::Value, message));
        }
    }

    /// Returns a model that follows a script. One whose script is faulty still has its name.
    fn scripted(&mut self, script: &str, model: &ModelForm, place: &str, text: &Text<'s>, rules: &ModelRules<'_>) -> ModelSpec {
        let source = self.find_file(Role::ModelScript, script, text, &format!("{place}/script"), "script");
        if let Some(source) = source {
            self.check_script(source, rules);
        }
        let price = model.price.as_ref().map(|price| price.price("job.json".to_owned()));
        ModelSpec::Scripted { file: script.to_owned(), text: Arc::from(source.map_or("", |source| &source.text)), price }
    }
}

/// Returns the fault of a model that is neither a script nor a provider's, or both.
fn unclear_model(text: &Text<'_>, place: &str, provider: bool, script: bool, model: bool) -> Fault {
    let missing = |key: &str| {
        let message = format!("key \"{key}\" is missing");
        text.fault(FaultKind::MissingKey, &format!("{place}/{key}"), Spot::Key, message)
    };
    match (provider, script, model) {
        (true, false, false) => missing("script"),
        (false, true, false) => missing("provider"),
        (false, false, _) => missing("model").expected("\"model\": \"PROVIDER:MODEL\", or \"provider\" with \"script\""),
        _ => {
            let message = "a model that follows a script cannot have the keys of a provider's model";
            text.fault(FaultKind::MisplacedKey, place, Spot::Key, message)
        }
    }
}

/// Checks the inputs of a run and fills in defaults; reports every fault. `given` are the inputs of the run's start.
pub fn check_inputs(job: &Job, given: &BTreeMap<String, Value>) -> Result<BTreeMap<String, Value>, Faults> {
    let declared = &job.inputs;
    let mut faults = Vec::new();
    let fault = |kind, name: &str, message: String| {
        let mut fault = Fault::of_file(kind, "inputs", message);
        fault.pointer = pointer(&[name]);
        fault
    };
    for name in given.keys().filter(|name| !declared.contains_key(*name)) {
        let unknown = fault(FaultKind::UnknownKey, name, format!("job \"{}\" has no input \"{name}\"", job.id));
        faults.push(unknown.near(name, declared.keys().map(String::as_str)));
    }
    let mut inputs = BTreeMap::new();
    for (name, input) in declared {
        let Some(value) = given.get(name).or(input.default.as_ref()) else {
            let missing = fault(FaultKind::MissingKey, name, format!("the input \"{name}\" is missing: {}", input.description));
            faults.push(missing.expected(format!("--input {name}=VALUE")));
            continue;
        };
        for wrong in input.schema.check(value).err().into_iter().flatten() {
            faults.push(fault(FaultKind::WrongType, name, format!("the input \"{name}\" does not fit: {}", wrong.message)));
        }
        inputs.insert(name.clone(), value.clone());
    }
    Faults::none_of(faults)?;
    Ok(inputs)
}
