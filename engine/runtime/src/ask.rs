//! A tool asks a model: by the names, keys, retries and scripts by which agents' models are asked.
//!
//! What it costs is told in the reply and is the tool's to report. It is *not* part of the run's budget: that is kept for
//! the requests of tasks, which the machine admits before they are made.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use baton_core::config::{ModelSpec, PriceTable};
use baton_core::estimate::text_tokens;
use baton_core::function::{ModelAsk, ModelReply, ToolError, ToolErrorKind};
use baton_core::id::{AgentId, ContentHash};
use baton_core::json::Json;
use baton_core::model::{FinishReason, ModelRequest, Usage};
use baton_core::money::Price;
use baton_core::render::Part;
use baton_models::{Model, ModelError, RunKey};
use futures_util::FutureExt;
use serde_json::Value;

use crate::execute::panic_message;
use crate::host::Host;

/// The answer to `ask`. A script answers the tool as it would an agent of the tool's name, at the turn that counts what the
/// call has asked.
pub(crate) async fn answer(host: &Host, ask: ModelAsk) -> Result<ModelReply, ToolError> {
    let model = model(host, &ask.model)?;
    let name = ask.model.clone();
    let request = request(host, ask);
    let answered = AssertUnwindSafe(model.answer(&request, &host.shared.contents)).catch_unwind().await;
    let turn = match answered {
        Ok(Err(error @ ModelError::Cassette(_))) => {
            let told = ToolError::new(error.to_string());
            let _the_first_counts = host.astray.set(error);
            return Err(told);
        }
        Ok(answered) => answered.map_err(|error| ToolError::new(error.to_string()))?,
        Err(panic) => return Err(ToolError::new(format!("the model's code panicked: {}", panic_message(&*panic)))),
    };
    match turn.finish {
        FinishReason::ContentFilter => return Err(ToolError::new(format!("{name} withheld its answer: its filter stopped it"))),
        FinishReason::Refusal => return Err(ToolError::new(format!("{name} declined to answer: {}", turn.text))),
        FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Length => {}
    }
    let usage = turn.usage.unwrap_or_else(|| estimated(&request, &turn.text));
    let said = turn.answered.as_ref().and_then(|answered| answered.cost);
    let cost = said.or_else(|| price(host, &name).map(|price| price.cost(&usage)));
    let model = turn.answered.and_then(|answered| answered.model).unwrap_or(name);
    Ok(ModelReply { text: turn.text, model, finish: turn.finish, usage, cost })
}

/// What the model called `name` costs.
fn price(host: &Host, name: &str) -> Option<Price> {
    let shared = &host.shared;
    let table = || shared.price_table.as_ref().unwrap_or_else(|| PriceTable::embedded());
    host.configs.prices(Some(name), |name| shared.models.contains_key(name), table).remove(name)
}

/// What answers under `name`.
fn model(host: &Host, name: &str) -> Result<Arc<dyn Model>, ToolError> {
    if let Some(model) = host.models.get(name) {
        return Ok(Arc::clone(model));
    }
    let job = &host.configs.job;
    match job.model(name) {
        Some(ModelSpec::Provided(provided)) => host
            .shared
            .providers
            .model(RunKey::of_tools(&host.caller.run), &provided, job.providers.get(&provided.provider), &*host.shared.variable)
            .map_err(|error| ToolError::new(error.to_string())),
        Some(ModelSpec::Scripted { .. }) | None => {
            let own: Vec<&str> = host.models.keys().map(String::as_str).collect();
            let providers: Vec<&str> = job.provider_names.iter().map(String::as_str).collect();
            let known = serde_json::json!({"models_of_the_job": own, "providers": providers});
            let message = format!("there is no model {name}: name one of the job's, or PROVIDER:MODEL");
            Err(ToolError::new(message).with_detail(known).of_kind(ToolErrorKind::InvalidInput))
        }
    }
}

fn request(host: &Host, ask: ModelAsk) -> ModelRequest {
    let messages: Vec<_> = ask.messages.into_iter().map(Arc::new).collect();
    let settings = Json::from(Value::Object(ask.settings));
    let said = serde_json::to_string(&messages).unwrap_or_default();
    let hash = ContentHash::of(format!("{}\n{}\n{said}\n{}", ask.model, ask.system, settings.text()).as_bytes());
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
        result_schema: None,
        hash,
    }
}

/// What a request and its answer use, where nobody counted.
fn estimated(request: &ModelRequest, answer: &str) -> Usage {
    let said = |part: &Part| if let Part::Request(text) | Part::Text(text) = part { text.len() } else { 0 };
    let asked: usize = request.messages.iter().flat_map(|message| &message.parts).map(said).sum();
    Usage {
        input_tokens: text_tokens((request.system.len() + asked) as u64),
        output_tokens: text_tokens(answer.len() as u64),
        estimated: true,
        ..Usage::default()
    }
}
