//! Models of providers: their names, and the settings of models and providers in `models.json`.
//!
//! Nothing here knows a provider: their names come from the caller, and what they speak is the models' business.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use baton_types::config::{
    Embeddings, Media, ModelSpec, Origin, PERSON_MODEL, ProvidedModel, ProviderLimits, ProviderSettings, may_hold_key, provided,
};
use baton_types::money::Price;
use serde_json::{Map, Value};

use crate::fault::{Fault, FaultKind};
use crate::form::{AliasForm, ModelForm, ModelsForm, ProviderSettingsForm};
use crate::loader::Loader;
use crate::reader::{Spot, Text, pointer};
use crate::shape::{MODELS, show};
use crate::source::Role;

/// Reads a model script that is valid JSON and reports its faults: a JSON pointer and a message each.
///
/// Passed in by the caller, since the form of scripts belongs to the models.
pub type ScriptCheck = dyn Fn(&str) -> Vec<(String, String)>;

/// Knowledge about models that the loader needs and the core does not have: the form of scripts, and the names of
/// providers.
pub struct ModelRules<'a> {
    /// Reports all faults of a script.
    pub check_script: &'a ScriptCheck,
    /// The providers that the program knows.
    pub providers: &'a [&'a str],
    /// The documents that the models of a known provider take.
    pub media: fn(&str) -> Media,
    /// Whether a known provider has models that make vectors of texts.
    pub embeds: fn(&str) -> bool,
    /// Keys of requests that are the engine's to say, and no setting's.
    pub own_settings: &'a [&'a str],
    /// Settings that must be `true`, `false` or `null`, because they are for the engine.
    pub boolean_settings: &'a [&'a str],
    /// Settings that cannot be used unless they are `false` or `null`, each with the reason.
    pub refused_settings: &'a [(&'a str, &'a str)],
}

/// The contents of all model files, joined.
#[derive(Debug, Default)]
pub(crate) struct ReadModels {
    pub(crate) models: BTreeMap<String, ModelSpec>,
    pub(crate) providers: BTreeMap<String, ProviderSettings>,
    pub(crate) provider_names: BTreeSet<String>,
    /// The documents that the models of each provider take.
    pub(crate) media: BTreeMap<String, Media>,
    /// Prices that the person sets, by `PROVIDER:MODEL`: no other name for the model changes them.
    pub(crate) own_prices: BTreeMap<String, Price>,
    pub(crate) embeddings: Option<Embeddings>,
    fallbacks: Vec<NotedFallback>,
}

/// A fallback as it was read.
#[derive(Debug)]
struct NotedFallback {
    /// The model that it replaces.
    of: String,
    name: String,
    /// Its place, for faults.
    place: Fault,
}

impl ReadModels {
    /// Adds the model `name`, which `text` describes at `place`, in place of one of that name. Whether its fallbacks are models
    /// is known once all are read.
    pub(crate) fn add(&mut self, name: &str, model: ModelSpec, place: &str, text: &Text<'_>) {
        self.fallbacks.retain(|fallback| fallback.of != name);
        if let ModelSpec::Provided(ProvidedModel { fallbacks, .. }) = &model {
            let noted = fallbacks.iter().enumerate().map(|(index, fallback)| NotedFallback {
                of: name.to_owned(),
                name: fallback.clone(),
                place: text.fault(FaultKind::UnknownModel, &format!("{place}/fallbacks/{index}"), Spot::Value, ""),
            });
            self.fallbacks.extend(noted);
        }
        self.models.insert(name.to_owned(), model);
    }

    /// Reports fallbacks that are no models, and those that would be asked a second time.
    pub(crate) fn check_fallbacks(&self, faults: &mut Vec<Fault>) {
        let who_answers = |name: &str| match self.models.get(name) {
            Some(ModelSpec::Provided(model)) => Some((model.provider.clone(), model.model.clone())),
            Some(ModelSpec::Scripted { file, .. }) => Some((String::new(), file.clone())),
            None => provided(name, &self.provider_names).map(|model| (model.provider, model.model)),
        };
        let mut asked: BTreeMap<&str, BTreeSet<_>> = BTreeMap::new();
        for NotedFallback { of, name, place } in &self.fallbacks {
            let asked = asked.entry(of).or_insert_with(|| who_answers(of).into_iter().collect());
            let Some(answers) = who_answers(name) else {
                let message = format!("\"{of}\" falls back to \"{name}\", which is not a known model");
                let fault = Fault { message, ..place.clone() }.near(name, self.models.keys().map(String::as_str));
                faults.push(fault.expected("the name of a model, or PROVIDER:MODEL"));
                continue;
            };
            if !asked.insert(answers) {
                let message = format!("the fallbacks of \"{of}\" contain \"{name}\", which is asked before");
                faults.push(Fault { kind: FaultKind::SameId, message, ..place.clone() });
            }
        }
    }
}

impl<'s> Loader<'s> {
    /// Keeps the rules for settings of models.
    pub(crate) fn follow(&mut self, rules: &ModelRules<'_>) {
        self.own_settings = rules.own_settings.iter().map(|&key| key.to_owned()).collect();
        self.boolean_settings = rules.boolean_settings.iter().map(|&key| key.to_owned()).collect();
        let refused = rules.refused_settings.iter();
        self.refused_settings = refused.map(|&(key, reason)| (key.to_owned(), reason.to_owned())).collect();
    }

    /// Reads the person's models and the job's. Of two models with a name the job's counts; of two ways to a provider the
    /// person's, since a job shall not send that person's key elsewhere.
    pub(crate) fn read_models(&mut self, rules: &ModelRules<'_>) -> ReadModels {
        let mut read = ReadModels {
            provider_names: rules.providers.iter().map(|&name| name.to_owned()).collect(),
            media: rules.providers.iter().map(|&name| (name.to_owned(), (rules.media)(name))).collect(),
            ..Default::default()
        };
        let mut files = Vec::new();
        for role in [Role::UserModels, Role::Models] {
            for source in self.sources.of(role) {
                let Some(file) = self.read(source) else { continue };
                let Some(form) = self.form::<ModelsForm>(&MODELS, &file.text, &file.value) else { continue };
                for (name, settings) in &form.providers {
                    let settings = self.provider(name, settings, source.origin, &file.text, rules);
                    read.provider_names.insert(name.clone());
                    if let Some(settings) = settings {
                        read.media.entry(name.clone()).or_insert_with(|| (rules.media)(&settings.like));
                        read.providers.entry(name.clone()).or_insert(settings);
                    }
                }
                files.push((form, file, source.origin));
            }
        }
        for (form, file, origin) in &files {
            for (name, alias) in &form.models {
                let place = pointer(&["models", name]);
                self.check_model_name(name, &place, &file.text);
                let model = self.alias(alias, *origin, &place, &file.text, &read.provider_names);
                if let Some(price) = model.price.as_ref().filter(|price| !price.is_estimate) {
                    read.own_prices.insert(format!("{}:{}", model.provider, model.model), price.clone());
                }
                read.add(name, ModelSpec::Provided(model), &place, &file.text);
            }
            let embeddings = self.embeddings(form, *origin, &file.text, &read, rules);
            // The person's choice counts: a job shall not send that person's records elsewhere.
            read.embeddings = read.embeddings.or(embeddings);
        }
        read
    }

    /// Reads the model that makes vectors of breadcrumbs. A name is one of the same file, so that no other file decides where the
    /// records are sent.
    fn embeddings(
        &mut self,
        form: &ModelsForm,
        origin: Origin,
        text: &Text<'s>,
        read: &ReadModels,
        rules: &ModelRules<'_>,
    ) -> Option<Embeddings> {
        let (name, place) = (&form.embeddings.as_ref()?.model, "/embeddings/model");
        let model = match form.models.contains_key(name).then(|| read.models.get(name)).flatten() {
            Some(ModelSpec::Provided(model)) => Some(model.clone()),
            Some(ModelSpec::Scripted { .. }) | None => provided(name, &read.provider_names),
        };
        let Some(model) = model else {
            let fault =
                unknown_provider(text, place, name, &read.provider_names).near(name, form.models.keys().map(String::as_str));
            self.faults.push(fault);
            return None;
        };
        let like = read.providers.get(&model.provider).map_or(model.provider.as_str(), |settings| settings.like.as_str());
        if !model.provider.is_empty() && !(rules.embeds)(like) {
            let message = format!("the provider \"{}\" has no models for embeddings", model.provider);
            let fault = text.fault(FaultKind::UnknownModel, place, Spot::Value, message);
            self.faults
                .push(fault.expected("a model of a provider with OpenAI's interface, such as \"ollama:nomic-embed-text\""));
            return None;
        }
        Some(Embeddings { model, origin })
    }

    /// Returns a model of a job's own: another name for a provider's.
    pub(crate) fn job_alias(
        &mut self,
        form: &ModelForm,
        place: &str,
        text: &Text<'s>,
        providers: &BTreeSet<String>,
    ) -> ModelSpec {
        let alias = AliasForm {
            model: form.model.clone().unwrap_or_default(),
            settings: form.settings.clone(),
            price: form.price.clone(),
            context_tokens: form.context_tokens,
            modalities: form.modalities,
            invocation: form.invocation,
            fallbacks: form.fallbacks.clone(),
            outage_seconds: form.outage_seconds,
        };
        ModelSpec::Provided(self.alias(&alias, Origin::Job, place, text, providers))
    }

    /// Reads another name for a provider's model. A broken one is kept, so that agents which use it are not reported
    /// as faulty.
    fn alias(
        &mut self,
        form: &AliasForm,
        origin: Origin,
        place: &str,
        text: &Text<'s>,
        providers: &BTreeSet<String>,
    ) -> ProvidedModel {
        let settings = form.settings.clone().unwrap_or_default();
        self.check_settings(&settings, &format!("{place}/settings"), text);
        if settings.contains_key("max_tokens") {
            let message = "\"max_tokens\" belongs into the settings of an agent, because limits are computed from it";
            self.faults.push(text.fault(FaultKind::MisplacedKey, &format!("{place}/settings/max_tokens"), Spot::Key, message));
        }
        let is_estimate = origin.needs_trust();
        let price = form.price.as_ref().map(|price| Price { is_estimate, ..price.price(text.file.clone()) });
        let model = provided(&form.model, providers).unwrap_or_else(|| {
            self.faults.push(unknown_provider(text, &format!("{place}/model"), &form.model, providers));
            ProvidedModel::default()
        });
        let AliasForm { context_tokens, modalities, invocation, .. } = *form;
        let fallbacks = form.fallbacks.clone();
        let outage = form.outage_seconds.map(|seconds| Duration::from_secs(seconds.into()));
        ProvidedModel { settings, price, context_tokens, modalities, invocation, fallbacks, outage, ..model }
    }

    /// Reports settings that the engine sets itself, since they would have no effect, settings that it cannot serve, and
    /// settings for the engine that are no booleans.
    pub(crate) fn check_settings(&mut self, settings: &Map<String, Value>, place: &str, text: &Text<'s>) {
        for key in settings.keys().filter(|key| self.own_settings.contains(*key)) {
            let message = format!("\"{key}\" is not a setting: the engine sets it in every request");
            self.faults.push(text.fault(FaultKind::MisplacedKey, &format!("{place}/{key}"), Spot::Key, message));
        }
        let booleans = settings.iter().filter(|(key, _)| self.boolean_settings.contains(*key));
        for (key, value) in booleans.filter(|(_, value)| !matches!(value, Value::Null | Value::Bool(_))) {
            let message = format!("\"{key}\" is of the wrong type");
            let fault = text.fault(FaultKind::WrongType, &format!("{place}/{key}"), Spot::Value, message);
            self.faults.push(fault.expected("true or false").found(show(value)));
        }
        for (key, value) in settings.iter().filter(|(_, value)| !matches!(value, Value::Null | Value::Bool(false))) {
            let Some(reason) = self.refused_settings.get(key) else { continue };
            let message = format!("\"{key}\": {} cannot be used: {reason}", show(value));
            self.faults.push(text.fault(FaultKind::MisplacedKey, &format!("{place}/{key}"), Spot::Key, message));
        }
    }

    /// Reports an invalid name.
    pub(crate) fn check_model_name(&mut self, name: &str, place: &str, text: &Text<'s>) {
        let is_allowed = name.len() <= 128
            && name.starts_with(|first: char| first.is_ascii_alphanumeric())
            && name.chars().all(|each| each.is_ascii_alphanumeric() || "_.:/-".contains(each));
        if !is_allowed {
            let message = format!("model {} has a name that is not allowed", show(&Value::from(name)));
            let fault = text.fault(FaultKind::OutOfRange, place, Spot::Key, message);
            self.faults.push(fault.expected("letters, digits and _ . : / -, at most 128"));
        }
        if name == PERSON_MODEL {
            let message = format!("the model name \"{name}\" is reserved: --model {name} lets a person answer");
            self.faults.push(text.fault(FaultKind::ReservedName, place, Spot::Key, message).expected("another name"));
        }
    }

    fn provider(
        &mut self,
        name: &str,
        form: &ProviderSettingsForm,
        origin: Origin,
        text: &Text<'s>,
        rules: &ModelRules<'_>,
    ) -> Option<ProviderSettings> {
        let place = pointer(&["providers", name]);
        let before = self.faults.len();
        if name.contains(':') {
            let message = format!("provider {} has a name that is not allowed", show(&Value::from(name)));
            self.faults.push(text.fault(FaultKind::OutOfRange, &place, Spot::Key, message).expected("a name without :"));
        }
        let like = form.like.as_deref().unwrap_or(name);
        if !rules.providers.contains(&like) {
            let (spot, at) = match form.like {
                Some(_) => (Spot::Value, format!("{place}/like")),
                None => (Spot::Key, place.clone()),
            };
            let message =
                format!("there is no provider \"{like}\", and the entry \"{name}\" has no \"like\" to name a known one");
            let fault = text.fault(FaultKind::UnknownModel, &at, spot, message);
            let known = rules.providers.join(", ");
            self.faults.push(fault.near(like, rules.providers.iter().copied()).expected(format!("\"like\" with one of {known}")));
        }
        if let Some(url) = &form.base_url
            && !has_host(url)
        {
            let fault = text.fault(FaultKind::OutOfRange, &format!("{place}/base_url"), Spot::Value, "this is not a web address");
            self.faults
                .push(fault.expected("an address that begins with https:// or http://").found(show(&Value::from(url.as_str()))));
        }
        if form.base_url.as_deref().is_some_and(may_hold_key) {
            let message = "the address has a part that may hold a key; a config must not contain keys";
            let fault = text.fault(FaultKind::MisplacedKey, &format!("{place}/base_url"), Spot::Value, message);
            self.faults.push(fault.expected("a host, a port and a path; and \"key\": {\"env\": \"…\"}").without_line());
        }
        for header in form.headers.keys().filter(|header| holds_key(header)) {
            let message = format!("header \"{header}\" would hold a key; a config must not contain keys");
            let at = format!("{place}/headers/{}", header.replace('~', "~0").replace('/', "~1"));
            let fault = text.fault(FaultKind::MisplacedKey, &at, Spot::Key, message).expected("\"key\": {\"env\": \"…\"}");
            self.faults.push(fault.without_line());
        }
        let seconds = |seconds: Option<u32>| seconds.map(|seconds| Duration::from_secs(seconds.into()));
        let timeouts = form.timeouts.clone().unwrap_or_default();
        let limits = form.limits.clone().unwrap_or_default();
        (self.faults.len() == before).then(|| ProviderSettings {
            like: like.to_owned(),
            base_url: form.base_url.clone(),
            key_variable: form.key.as_ref().map(|key| key.env.clone()),
            headers: form.headers.clone(),
            connect: seconds(timeouts.connect_seconds),
            first_byte: seconds(timeouts.first_byte_seconds),
            between_bytes: seconds(timeouts.between_bytes_seconds),
            total: seconds(timeouts.total_seconds),
            limits: ProviderLimits {
                requests_per_minute: limits.requests_per_minute,
                tokens_per_minute: limits.tokens_per_minute,
                in_flight: limits.in_flight,
            },
            outage: seconds(form.outage_seconds),
            origin,
        })
    }
}

/// Returns the fault of a model with an unknown provider, or without one.
pub(super) fn unknown_provider(text: &Text<'_>, place: &str, model: &str, providers: &BTreeSet<String>) -> Fault {
    let provider = model.split_once(':').map_or(model, |(provider, _)| provider);
    let message = format!("the model \"{model}\" does not name a known provider");
    let fault = text.fault(FaultKind::UnknownModel, place, Spot::Value, message);
    let known: Vec<&str> = providers.iter().map(String::as_str).collect();
    fault.near(provider, known.iter().copied()).expected(format!("PROVIDER:MODEL with a provider of {}", known.join(", ")))
}

/// Whether `url` is the address of a web server: `http://` or `https://`, and a host.
fn has_host(url: &str) -> bool {
    let after_scheme = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    after_scheme.is_some_and(|rest| rest.starts_with(|first: char| first.is_alphanumeric() || first == '['))
}

/// Whether headers of this name hold keys.
fn holds_key(header: &str) -> bool {
    let header = header.to_lowercase();
    ["authorization", "cookie", "token", "secret"].iter().any(|word| header.contains(word)) || header.ends_with("key")
}
