//! Requests of tools to models. They use the same names, keys, retries, scripts and limits as requests of agents. The
//! machine reserves the worst case before the request, and gets its usage afterwards.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use baton_config::{PriceTable, prices};
use baton_models::{Model, ModelError, RunKey};
use baton_tool::{ModelAsk, ModelReply, ToolError, ToolErrorKind};
use baton_types::config::{Invocation, ModelSpec, ProviderSettings, RUN_SCRIPT, output_tokens};
use baton_types::entry::CallRequest;
use baton_types::estimate::text_tokens;
use baton_types::event::{CallAsk, Event, Refusal};
use baton_types::id::{AgentId, ContentHash};
use baton_types::json::Json;
use baton_types::limits::LimitKind;
use baton_types::message::{Part, request_tokens};
use baton_types::model::{FinishReason, ModelRequest, Usage};
use baton_types::money::{Money, Price};
use futures_util::FutureExt;
use serde_json::Value;

use super::Host;
use crate::error::panic_message;
use crate::handle::Message;

/// Returns the answer to `ask`. A script that replaces the models of the run also answers in place of the model that the tool names.
///
/// A model reads the error. Configs name the variables of keys, and a key may be there by mistake, so the error has no such name.
pub(crate) async fn answer(host: &Host, mut ask: ModelAsk) -> Result<ModelReply, ToolError> {
    if host.models.contains_key(RUN_SCRIPT) {
        RUN_SCRIPT.clone_into(&mut ask.model);
    }
    let variable = key_variable(host, &ask.model).map(str::to_owned);
    asked(host, ask).await.map_err(|mut error| {
        if let Some(variable) = variable {
            error.message = without_word(&error.message, &variable);
        }
        error
    })
}

/// Returns the variable that a config names for the key of requests to the model called `name`.
fn key_variable<'h>(host: &'h Host, name: &str) -> Option<&'h str> {
    let of_call = || host.tool.configuration.as_ref()?.model_key.as_deref();
    let of_provider = || match host.configs.job.model(name)? {
        ModelSpec::Provided(model) => host.configs.job.providers.get(&model.provider)?.key_variable.as_deref(),
        ModelSpec::Scripted { .. } => None,
    };
    of_call().or_else(of_provider)
}

/// Returns `message` with other words in place of the variable `name`.
pub(super) fn without_word(message: &str, name: &str) -> String {
    let is_of_name = |each: char| each.is_ascii_alphanumeric() || each == '_';
    let mut hidden = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.find(name) {
        let (before, after) = (&rest[..at], &rest[at + name.len()..]);
        let is_word = !before.ends_with(is_of_name) && !after.starts_with(is_of_name);
        hidden.push_str(before);
        hidden.push_str(if is_word { "the variable that its config names" } else { name });
        rest = after;
    }
    hidden + rest
}

async fn asked(host: &Host, ask: ModelAsk) -> Result<ModelReply, ToolError> {
    let model = model(host, &ask.model)?;
    let name = ask.model.clone();
    let request = request(host, ask);
    let settings = request.settings.value().as_object().cloned().unwrap_or_default();
    let tokens = (request_tokens(&request), output_tokens(&settings));
    let asked = Asked::admitted(host, &request.model, request.turn, tokens, price(host, &request.model)).await?;
    let answered = AssertUnwindSafe(model.answer(&request, &host.shared.contents)).catch_unwind().await;
    let answered = answered.unwrap_or_else(|panic| Err(ModelError::Panicked { message: panic_message(&*panic) }));
    let turn = match answered {
        Ok(turn) => turn,
        Err(error) => {
            asked.used((!error.may_cost()).then_some((Usage::default(), Some(Money::ZERO))));
            let failed = ToolError::new(error.to_string());
            if matches!(error, ModelError::Cassette(_)) {
                let _the_first_counts = host.run_error.set(error);
            }
            return Err(failed);
        }
    };
    let usage = turn.usage.unwrap_or_else(|| estimated(&request, &turn.text));
    let written = turn.answered.as_ref().and_then(|answered| answered.cost);
    let cost = written.or_else(|| asked.price.as_ref().map(|price| price.cost(&usage)));
    asked.used(Some((usage, cost)));
    match turn.finish {
        FinishReason::ContentFilter => return Err(ToolError::new(format!("the content filter of {name} blocked the answer"))),
        FinishReason::Refusal => return Err(ToolError::new(format!("{name} declined to answer: {}", turn.text))),
        FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Length => {}
    }
    let model = turn.answered.and_then(|answered| answered.model).unwrap_or(name);
    Ok(ModelReply { text: turn.text, model, finish: turn.finish, usage, cost })
}

/// A request that the machine has admitted.
pub(super) struct Asked<'h> {
    host: &'h Host,
    by: CallRequest,
    pub(super) price: Option<Price>,
    /// Whether the machine knows what it came to.
    is_settled: bool,
}

impl<'h> Asked<'h> {
    /// Reserves the tokens of input and output for the call's request of this number to `model`. Waits while what others may spend leaves
    /// no room for it.
    pub(super) async fn admitted(
        host: &'h Host,
        model: &str,
        number: u32,
        (input_tokens, output_tokens): (u64, u64),
        price: Option<Price>,
    ) -> Result<Self, ToolError> {
        let by = CallRequest { call: host.caller.call.clone(), request: number };
        let asked = Self { host, by, price, is_settled: false };
        let worst_cost = asked.price.as_ref().map(|price| price.worst_case(input_tokens, output_tokens));
        let mut durable = host.durable.clone();
        loop {
            let before = *durable.borrow();
            let (by, named) = (asked.by.clone(), model.to_owned());
            let event = Event::CallAsksModel(CallAsk { by, model: named, input_tokens, output_tokens, worst_cost });
            match host.decided(event).await {
                Ok(()) => return Ok(asked),
                // Room is made by what others hear, which is an entry.
                Err(Refusal::NoRoom) => {
                    durable.wait_for(|durable| *durable > before).await.map_err(|_| run_is_over())?;
                }
                Err(Refusal::LimitReached { limit }) => return Err(too_much(model, limit, worst_cost)),
                Err(_) => return Err(run_is_over()),
            }
        }
    }

    /// Reports the usage of the request; `None` if it is unknown.
    pub(super) fn used(mut self, used: Option<(Usage, Option<Money>)>) {
        self.settle(used);
    }

    fn settle(&mut self, used: Option<(Usage, Option<Money>)>) {
        self.is_settled = true;
        let event = Event::CallHeardModel { by: self.by.clone(), used };
        // The run may be over.
        let _over = self.host.mailbox.send(Message::Event(event.into()));
    }
}

impl Drop for Asked<'_> {
    /// Settles a request that the tool no longer waits for, such as a summary that takes too long. It must not keep
    /// room that the tool's next request needs.
    fn drop(&mut self) {
        if !self.is_settled {
            self.settle(None);
        }
    }
}

fn too_much(model: &str, limit: LimitKind, worst_cost: Option<Money>) -> ToolError {
    let message = if worst_cost.is_none() && matches!(limit, LimitKind::Cost | LimitKind::CostAbove) {
        format!("{limit} applies, and the price of {model} is not known; add its price to models.json")
    } else {
        format!("{model} was not asked: {limit} leaves no room for it")
    };
    ToolError::new(message).with_detail(serde_json::json!({"limit": limit})).of_kind(ToolErrorKind::LimitReached)
}

fn run_is_over() -> ToolError {
    ToolError::new("the call was stopped before its model request").of_kind(ToolErrorKind::Cancelled)
}

/// Returns the price of the model called `name`.
pub(super) fn price(host: &Host, name: &str) -> Option<Price> {
    let shared = &host.shared;
    let table = || shared.price_table.as_ref().unwrap_or_else(|| PriceTable::embedded());
    prices(&host.configs, Some(name), |name| shared.models.contains_key(name), table)
        .remove(name)
        .filter(|price| !price.is_estimate)
}

/// Returns the model called `name`.
fn model(host: &Host, name: &str) -> Result<Arc<dyn Model>, ToolError> {
    let job = &host.configs.job;
    let spec = job.model(name);
    let is_provided = matches!(spec, Some(ModelSpec::Provided(_))) && !host.shared.models.contains_key(name);
    let key = host.tool.configuration.as_ref().and_then(|configuration| configuration.model_key.as_ref());
    if let Some(model) = host.models.get(name).filter(|_| key.is_none() || !is_provided) {
        return Ok(Arc::clone(model));
    }
    match spec {
        Some(ModelSpec::Provided(provided)) => {
            let of_job = job.providers.get(&provided.provider);
            let with_key = key.map(|key| with_key(host, &provided.provider, of_job, key)).transpose()?;
            let (run, settings) = (RunKey::of_tools(&host.caller.run), with_key.as_ref().or(of_job));
            let model = host.shared.providers.model(run, &provided, settings, &*host.shared.variable);
            model.map_err(|error| ToolError::new(error.to_string()))
        }
        Some(ModelSpec::Scripted { .. }) | None => {
            let own: Vec<&str> = host.models.keys().map(String::as_str).collect();
            let providers: Vec<&str> = job.provider_names.iter().map(String::as_str).collect();
            let known = serde_json::json!({"models_of_the_job": own, "providers": providers});
            let message = format!("there is no model {name}: name one of the job's, or PROVIDER:MODEL");
            Err(ToolError::new(message).with_detail(known).of_kind(ToolErrorKind::InvalidInput))
        }
    }
}

/// Returns the settings of `provider` with the key that the call's configuration names.
///
/// The key belongs to one provider. So where the configured tool names a model of a provider, a call that names another
/// provider's model gets an error: an agent must not choose the receiver of a key.
fn with_key(host: &Host, provider: &str, of_job: Option<&ProviderSettings>, key: &str) -> Result<ProviderSettings, ToolError> {
    let settings = host.tool.settings.value();
    if let Some(ModelSpec::Provided(own)) = settings["model"].as_str().and_then(|model| host.configs.job.model(model))
        && own.provider != provider
    {
        let message = format!("this configuration has a key of {}, so it asks no model of {provider}", own.provider);
        return Err(ToolError::new(message).of_kind(ToolErrorKind::InvalidInput));
    }
    let usual = || ProviderSettings { like: provider.to_owned(), ..ProviderSettings::default() };
    Ok(ProviderSettings { key_variable: Some(key.to_owned()), ..of_job.cloned().unwrap_or_else(usual) })
}

fn request(host: &Host, ask: ModelAsk) -> ModelRequest {
    let messages: Vec<_> = ask.messages.into_iter().map(Arc::new).collect();
    let settings = Json::from(Value::Object(ask.settings));
    let written = serde_json::to_string(&messages).unwrap_or_default();
    let hash = ContentHash::of(format!("{}\n{}\n{written}\n{}", ask.model, ask.system, settings.text()).as_bytes());
    ModelRequest {
        task: host.caller.task.clone(),
        agent: AgentId::new(host.tool.id.as_str()),
        call: Some(host.caller.call.clone()),
        turn: host.asked.fetch_add(1, Ordering::Relaxed) + 1,
        is_question: false,
        model: ask.model,
        system: ask.system.into(),
        messages: Arc::new(messages),
        tools: Arc::new([]),
        settings,
        own_output_tokens: None,
        invocation: Invocation::Native,
        result_schema: None,
        hash,
    }
}

/// Estimates the usage of a request and its answer, where none was reported.
fn estimated(request: &ModelRequest, answer: &str) -> Usage {
    let written = |part: &Part| if let Part::Request(text) | Part::Text(text) = part { text.len() } else { 0 };
    let asked: usize = request.messages.iter().flat_map(|message| &message.parts).map(written).sum();
    Usage {
        input_tokens: text_tokens((request.system.len() + asked) as u64),
        output_tokens: text_tokens(answer.len() as u64),
        estimated: true,
        ..Usage::default()
    }
}
