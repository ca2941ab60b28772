//! A model of a provider: its requests as bytes, let through by the governor of its key, made again as errors say.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use baton_core::config::{DEFAULT_MAX_OUTPUT_TOKENS, ProvidedModel};
use baton_core::json::Json;
use baton_core::model::{ModelRequest, ModelTurn, ToolDefinition, Usage};
use baton_core::render::{contents_of, request_tokens};
use serde_json::{Map, Value};

use super::Retries;
use super::client::{Client, Failure};
use super::offers::{Offers, STRICT_TOOLS, restore};
use super::talks::Talks;
use crate::error::ModelError;
use crate::governor::{Closed, Governor, Permit, Pushback, RunKey, Subtree};
use crate::model::{ContentSource, Model};
use crate::schema::{CompiledTool, SchemaFault};
use crate::wire::{Grown, WireRequest};

/// A model of a provider.
#[derive(Debug)]
pub struct ProviderModel {
    client: Client,
    governor: Arc<Governor>,
    run: RunKey,
    model: String,
    vendor: String,
    settings: Map<String, Value>,
    offers: Offers,
    talks: Arc<Talks>,
    retries: Retries,
}

/// The tools of a request in a provider's dialect.
type Offered = Vec<Arc<CompiledTool>>;

/// A request as it is sent.
struct Body {
    bytes: Vec<u8>,
    /// Whether its answer is to come as a stream.
    stream: bool,
    /// What it and its answer may use (≈).
    tokens: u64,
}

impl ProviderModel {
    /// The model that the provider which `client` goes to calls by that name, for one run.
    pub(super) fn new(
        client: Client,
        governor: Arc<Governor>,
        run: RunKey,
        model: &ProvidedModel,
        retries: Retries,
        talks: Arc<Talks>,
    ) -> Self {
        let vendor = client.endpoint.profile.vendor(&client.endpoint.name, &model.model);
        Self {
            client,
            governor,
            run,
            model: model.model.clone(),
            vendor,
            settings: model.settings.clone(),
            offers: Offers::default(),
            talks,
            retries,
        }
    }

    /// The settings of a request: the model's, and over them the agent's.
    fn settings(&self, own: &Json) -> Map<String, Value> {
        let mut settings = self.settings.clone();
        settings.extend(own.value().as_object().cloned().unwrap_or_default());
        settings
    }

    /// `tools` as this provider is offered them.
    fn offered(&self, tools: &[Arc<ToolDefinition>], settings: &Map<String, Value>) -> Result<Offered, Vec<SchemaFault>> {
        let strict = settings.get(STRICT_TOOLS).and_then(Value::as_bool);
        self.offers.of(tools, self.client.endpoint.profile.schemas, strict)
    }

    /// The body of `request` with its tools as they are offered.
    async fn body(
        &self,
        request: &ModelRequest,
        tools: &[Arc<CompiledTool>],
        mut settings: Map<String, Value>,
        contents: &dyn ContentSource,
    ) -> Result<Body, ModelError> {
        let profile = self.client.endpoint.profile;
        let talker = (self.run, request.task.clone());
        let talk = self.talks.take(&talker).filter(|talk| talk.is_for(profile.dialect, profile.features, &self.vendor));
        let mut talk = talk.unwrap_or_else(|| Grown::new(profile.dialect, profile.features, &self.vendor));
        let mut resolved = HashMap::new();
        for hash in request.messages[talk.known(&request.messages)..].iter().flat_map(|message| contents_of(message)) {
            if let Entry::Vacant(place) = resolved.entry(hash) {
                place.insert(contents.content(hash).await?);
            }
        }
        let worded = talk.grow(&request.messages, &resolved);
        settings.shift_remove(STRICT_TOOLS);
        let stream = settings.remove("stream").and_then(|stream| stream.as_bool()).unwrap_or(true);
        let limit = settings.get("max_tokens").and_then(Value::as_u64).unwrap_or(DEFAULT_MAX_OUTPUT_TOKENS);
        let head = WireRequest {
            model: &self.model,
            system: &request.system,
            tools,
            settings: &settings,
            max_output_tokens: limit,
            stream,
            features: profile.features,
        };
        let bytes = profile.dialect.encode(&head, talk.bytes());
        tracing::debug!(task = %request.task, turn = request.turn, worded, bytes = bytes.len(), "worded");
        self.talks.keep(&talker, talk);
        Ok(Body { bytes, stream, tokens: request_tokens(request).saturating_add(limit) })
    }

    /// One attempt; where it met congestion, what that did.
    async fn attempt(&self, body: &Body, permit: Permit) -> Result<ModelTurn, (ModelError, Option<Pushback>)> {
        match self.client.ask(&body.bytes, body.stream).await {
            Ok(answer) => {
                let turn = answer.into_turn(&self.client.endpoint.name, &self.vendor);
                permit.answered(turn.usage.as_ref().filter(|usage| !usage.estimated).map(Usage::total));
                Ok(turn)
            }
            Err(Failure { error, congestion: None }) => Err((error, None)),
            Err(Failure { error, congestion: Some(congestion) }) => {
                let is_rate = matches!(error, ModelError::RateLimited { .. });
                Err((error, permit.congested(is_rate, congestion.retry_after)))
            }
        }
    }

    fn left_alone(&self, left: Duration) -> ModelError {
        let message = "it asked to be left alone for longer than a request may take".to_owned();
        ModelError::RateLimited { provider: self.client.endpoint.name.clone(), message, retry_after: Some(left) }
    }
}

#[async_trait]
impl Model for ProviderModel {
    fn check_tools(&self, tools: &[Arc<ToolDefinition>], settings: &Json) -> Result<(), Vec<SchemaFault>> {
        self.offered(tools, &self.settings(settings)).map(drop)
    }

    async fn answer(&self, request: &ModelRequest, contents: &dyn ContentSource) -> Result<ModelTurn, ModelError> {
        let settings = self.settings(&request.settings);
        let tools = self.offered(&request.tools, &settings).map_err(|mut faults| ModelError::Tool(faults.swap_remove(0)))?;
        let body = self.body(request, &tools, settings, contents).await?;
        let total = self.client.endpoint.timeouts.total;
        let mut place = self.governor.place(Subtree::of(self.run, &request.task), body.tokens, total);
        let mut attempts = self.retries.attempts(total);
        let (provider, model) = (&self.client.endpoint.name, &self.model);
        loop {
            // Time spent here is nobody's but the task's: what a provider may take is counted from when it is asked.
            let permit = place.admitted().await.map_err(|Closed { left }| self.left_alone(left))?;
            tracing::debug!(%provider, %model, task = %request.task, turn = request.turn, bytes = body.bytes.len(), "asking");
            let (error, pushback) = match self.attempt(&body, permit).await {
                Ok(mut turn) => {
                    restore(&mut turn, &tools);
                    return Ok(turn);
                }
                Err(failed) => failed,
            };
            let Some(pause) = attempts.pause(&error, pushback) else { return Err(error) };
            tracing::warn!(%provider, %model, task = %request.task, %error, ?pause, ?pushback, "asking again");
            tokio::time::sleep(pause).await;
        }
    }
}
