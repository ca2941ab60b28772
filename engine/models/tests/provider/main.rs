//! Models of providers against a server on loopback: what is sent, what is asked again, what is waited for, what never
//! gets out.

mod bombs;
mod cassettes;
mod embeddings;
mod loud;
mod results;
mod secrets;
mod server;
mod statuses;
mod text_calls;
mod timeouts;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use baton_models::provider::Retries;
use baton_models::{Model, ModelError, NoContents, Providers, RunKey};
use baton_types::config::{Invocation, ProvidedModel, ProviderSettings};
use baton_types::id::{AgentId, ContentHash, TaskId};
use baton_types::json::Json;
use baton_types::message::{Message, Part, Role};
use baton_types::model::{ModelRequest, ModelTurn};
use serde_json::json;

/// The key of every provider in these tests.
pub(crate) const KEY: &str = "sk-canary+/=\"4f9a\"-key";

/// Returns an answer in chat completions.
pub(crate) fn hello() -> String {
    json!({"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}], "usage": {}}).to_string()
}

/// Returns the settings of a provider at `url` in the dialect of `like`, with time-outs that no test comes near.
pub(crate) fn at(url: &str, like: &str) -> ProviderSettings {
    ProviderSettings {
        like: like.to_owned(),
        base_url: Some(url.to_owned()),
        key_variable: Some("TEST_KEY".to_owned()),
        total: Some(Duration::from_mins(1)),
        ..ProviderSettings::default()
    }
}

/// Returns retries with three requests at most and short pauses, which give up soon after a rate limit.
pub(crate) fn quick() -> Retries {
    let moment = Duration::from_millis(1);
    Retries { most: 2, first: moment, longest: moment, patience: Duration::from_millis(30) }
}

pub(crate) fn model(settings: &ProviderSettings) -> Arc<dyn Model> {
    let model = ProvidedModel { provider: "test".to_owned(), model: "maker/m".to_owned(), ..ProvidedModel::default() };
    let variable = |name: &str| (name == "TEST_KEY").then(|| KEY.to_owned());
    Providers::new(quick()).model(RunKey::unique(), &model, Some(settings), &variable).expect("the settings are fine")
}

pub(crate) async fn ask(settings: &ProviderSettings) -> Result<ModelTurn, ModelError> {
    model(settings).answer(&request(), &NoContents).await
}

/// Returns a first request.
pub(crate) fn request() -> ModelRequest {
    ModelRequest {
        task: TaskId::root(),
        agent: AgentId::new("one"),
        call: None,
        turn: 1,
        is_question: false,
        model: "m".to_owned(),
        system: "You are one.".into(),
        messages: Arc::new(vec![Arc::new(Message { role: Role::User, parts: vec![Part::Request("Begin.".to_owned())] })]),
        tools: Arc::new([]),
        settings: Json::null(),
        own_output_tokens: None,
        invocation: Invocation::Native,
        result_schema: None,
        hash: ContentHash::of(b""),
    }
}
