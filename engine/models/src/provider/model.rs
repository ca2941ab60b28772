//! A model of a provider. It encodes requests as bytes, sends them when the governor of its key permits, and repeats them
//! depending on the error.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use baton_schema::provider::{CompiledResult, CompiledTool, SchemaFault};
use baton_types::call::ModelCall;
use baton_types::config::{ProvidedModel, output_tokens};
use baton_types::json::Json;
use baton_types::message::{contents_of, request_tokens};
use baton_types::model::{ModelRequest, ModelTurn, ToolDefinition, Usage};
use reqwest::Request;
use serde_json::{Map, Value};

use super::client::{Client, Failure};
use super::conversations::Conversations;
use super::offers::{CALLS_IN_TEXT, Offers, STRICT_TOOLS, identify, restored, settings, strict_tools};
use super::text_call::with_text_call;
use super::{Endpoint, Retries};
use crate::cassette::{Cassettes, Heard, NoAnswer, Occasion, Takes};
use crate::error::ModelError;
use crate::governor::{Demand, Governor, Paused, Permit, Pushback, RunKey, Subtree};
use crate::model::{Attempt, ContentSource, Model, Pause, within};
use crate::wire::{Answer, Features, Grown, WireRequest};

/// A model of a provider.
#[derive(Debug)]
pub struct ProviderModel {
    client: Client,
    governor: Arc<Governor>,
    run: RunKey,
    model: String,
    vendor: String,
    features: Features,
    settings: Map<String, Value>,
    offers: Offers,
    conversations: Arc<Conversations>,
    retries: Retries,
    cassettes: Option<Arc<Cassettes>>,
}

/// The tools of a request in a provider's dialect.
type Offered = Vec<Arc<CompiledTool>>;

/// A request as it is sent.
struct Body {
    request: Request,
    /// Whether its answer is to come as a stream.
    stream: bool,
    demand: Demand,
    tools: Offered,
    /// Schema that its text must match.
    result: Option<Arc<CompiledResult>>,
    /// Whether a text that is exactly a call is read as that call.
    calls_in_text: bool,
}

impl Body {
    fn bytes(&self) -> &[u8] {
        self.request.body().and_then(reqwest::Body::as_bytes).unwrap_or_default()
    }
}

impl ProviderModel {
    /// Returns the model with this name at the provider of `client`, for one run.
    pub(super) fn new(
        client: Client,
        governor: Arc<Governor>,
        run: RunKey,
        model: &ProvidedModel,
        retries: Retries,
        conversations: Arc<Conversations>,
        cassettes: Option<Arc<Cassettes>>,
    ) -> Self {
        let profile = client.endpoint.profile;
        let vendor = profile.vendor(&client.endpoint.name, &model.model);
        let features = profile.features.of_model(model.modalities);
        Self {
            client,
            governor,
            run,
            model: model.model.clone(),
            vendor,
            features,
            settings: model.settings.clone(),
            offers: Offers::default(),
            conversations,
            retries,
            cassettes,
        }
    }

    /// Returns the settings of a request: the model's, and over them the agent's.
    fn settings(&self, own: &Json) -> Map<String, Value> {
        settings(&self.settings, own)
    }

    /// `tools` as this provider is offered them.
    fn offered(&self, tools: &[Arc<ToolDefinition>], settings: &Map<String, Value>) -> Result<Offered, Vec<SchemaFault>> {
        let profile = self.client.endpoint.profile;
        self.offers.of(tools, profile.schemas, strict_tools(settings), &profile.offers)
    }

    /// Returns the body of `request` with its tools as they are offered.
    async fn body(
        &self,
        request: &ModelRequest,
        tools: Offered,
        mut settings: Map<String, Value>,
        contents: &dyn ContentSource,
    ) -> Result<Body, ModelError> {
        let profile = self.client.endpoint.profile;
        let features = Features { frames: request.call.is_none(), ..self.features.of_settings(&settings) };
        let key = (self.run, request.task.clone());
        let conversation =
            self.conversations.take(&key).filter(|conversation| conversation.is_for(profile.dialect, features, &self.vendor));
        let mut conversation = conversation.unwrap_or_else(|| Grown::new(profile.dialect, features, &self.vendor));
        let mut resolved = HashMap::new();
        for hash in request.messages[conversation.known(&request.messages)..].iter().flat_map(|message| contents_of(message)) {
            if let Entry::Vacant(place) = resolved.entry(hash) {
                place.insert(contents.content(hash).await?);
            }
        }
        let worded = conversation.grow(&request.messages, &resolved);
        settings.shift_remove(STRICT_TOOLS);
        let calls_in_text = settings.shift_remove(CALLS_IN_TEXT).and_then(|calls| calls.as_bool());
        let stream = settings.remove("stream").and_then(|stream| stream.as_bool()).unwrap_or(true);
        let holds = profile.results.holds(&self.model, !tools.is_empty());
        let result = request.result_schema.as_ref().filter(|_| holds);
        let result = result.and_then(|schema| self.offers.result(schema, profile.schemas));
        let estimate = output_tokens(&settings);
        // A limit that is sent counts against a rate limit of tokens at some providers. So the model's own limit is sent only
        // where a request needs one.
        let own = request.own_output_tokens.filter(|_| !settings.contains_key("max_tokens"));
        let limit = own.map_or(Some(estimate), |own| profile.dialect.needs_output_limit().then_some(own));
        let head = WireRequest {
            model: &self.model,
            system: request.system.messages(),
            tools: &tools,
            result: result.as_ref().map(|result| &result.schema),
            settings: &settings,
            max_output_tokens: limit,
            stream,
            features,
        };
        let bytes = profile.dialect.encode(&head, conversation.bytes());
        tracing::debug!(task = %request.task, turn = request.turn, worded, bytes = bytes.len(), "encoded a request");
        self.conversations.keep(&key, conversation);
        Ok(Body {
            request: self.client.request(bytes),
            stream,
            demand: Demand { input: request_tokens(request), output: estimate },
            tools,
            result,
            calls_in_text: calls_in_text.unwrap_or(profile.calls_in_text),
        })
    }

    /// Makes one request, which takes at most `limit`. Returns the pushback after congestion. Records the answer in
    /// `heard`.
    async fn exchange(
        &self,
        body: &Body,
        permit: Permit,
        heard: Option<&mut Heard>,
        limit: Option<Duration>,
    ) -> Result<ModelTurn, (ModelError, Option<Pushback>)> {
        match within(limit, self.client.ask(&body.request, body.stream, &permit, heard)).await {
            Ok(answer) => {
                let turn = self.turn(answer, body);
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

    /// Returns `answer` to the request `body` as a turn, without the key.
    fn turn(&self, mut answer: Answer, body: &Body) -> ModelTurn {
        if self.client.secrets.scrub_answer(&mut answer) {
            tracing::warn!(provider = %self.client.endpoint.name, "an answer repeated the API key; the key was removed from it");
        }
        let restored = |turn: &ModelTurn| restored(turn, &body.tools, body.result.as_deref());
        let mut turn = answer.into_restored_turn(&self.client.endpoint.name, &self.vendor, &restored);
        identify(&mut turn.calls, &body.tools);
        turn
    }

    /// Asks the provider until it answers, or asking again is no use by `retries`.
    async fn asked(
        &self,
        request: &ModelRequest,
        body: &Body,
        retries: Retries,
        attempt: Attempt<'_>,
    ) -> Result<ModelTurn, ModelError> {
        let Endpoint { name: provider, profile, timeouts, .. } = &self.client.endpoint;
        let recorded = |cassettes| Cassettes::takes(cassettes, Occasion::of(request), provider, profile.path, body.bytes());
        let mut takes = self.cassettes.as_ref().map(recorded).transpose()?;
        // A provider that asks for a longer pause is away. The caller decides what follows.
        let patience = timeouts.total.min(retries.patience);
        let mut queued = self.governor.enqueue(Subtree::of(self.run, &request.task), body.demand, patience);
        let mut attempts = retries.attempts(timeouts.total, patience);
        let model = &self.model;
        let mut sent = 0;
        if let Some(length) = self.governor.pause() {
            (attempt.on_pause)(Pause { sent, length, reason: format!("other requests met the rate limit of {provider}") });
        }
        loop {
            let mut take = takes.as_mut().map(Takes::next);
            // Waiting here counts as time of the task. The provider's time limit begins with the request.
            let permit = match queued.admitted().await {
                Ok(permit) => permit,
                Err(Paused { left }) => {
                    let why = NoAnswer::left_alone(left);
                    let error = self.client.lost(&why);
                    if let Some(mut take) = take {
                        take.heard.no_answer = Some(why);
                        take.keep()?;
                    }
                    return Err(error);
                }
            };
            tracing::debug!(%provider, %model, task = %request.task, turn = request.turn, bytes = body.bytes().len(), "sending a request");
            let answered = self.exchange(body, permit, take.as_mut().map(|take| &mut take.heard), attempt.limit).await;
            sent += 1;
            // What takes too long for its turn is given up, and recorded so.
            if let Some(take) = take.filter(|_| !matches!(answered, Err((ModelError::TurnTimedOut { .. }, _)))) {
                take.keep()?;
            }
            let (error, pushback) = match answered {
                Ok(turn) => return Ok(turn),
                Err(failed) => failed,
            };
            let Some(pause) = attempts.pause(&error, pushback) else { return Err(error) };
            tracing::warn!(%provider, %model, task = %request.task, %error, ?pause, ?pushback, "the request failed and will be sent again");
            let length = pushback.map_or(pause, |pushback| pushback.pause.max(pause));
            (attempt.on_pause)(Pause { sent, length, reason: error.to_string() });
            tokio::time::sleep(pause).await;
        }
    }

    /// Returns the recorded answer of the provider. The recording also decides whether the request is repeated:
    /// nothing here depends on a clock.
    async fn played(&self, cassettes: &Arc<Cassettes>, request: &ModelRequest, body: &Body) -> Result<ModelTurn, ModelError> {
        let Endpoint { name: provider, profile, .. } = &self.client.endpoint;
        let mut playback = cassettes.playback(Occasion::of(request), provider, profile.path, body.bytes())?;
        loop {
            match self.client.hear(playback.next().await?, body.stream).await {
                Ok(answer) => return Ok(self.turn(answer, body)),
                Err(Failure { error, .. }) if error.is_retryable() && playback.goes_on()? => {
                    tracing::debug!(%provider, task = %request.task, %error, "played again");
                }
                Err(Failure { error, .. }) => return Err(error),
            }
        }
    }
}

#[async_trait]
impl Model for ProviderModel {
    fn check_tools(&self, tools: &[Arc<ToolDefinition>], settings: &Json) -> Result<(), Vec<SchemaFault>> {
        self.offered(tools, &self.settings(settings)).map(drop)
    }

    async fn answer(&self, request: &ModelRequest, contents: &dyn ContentSource) -> Result<ModelTurn, ModelError> {
        self.answered(request, contents, self.retries, Attempt::UNOBSERVED).await
    }

    async fn attempt(
        &self,
        request: &ModelRequest,
        contents: &dyn ContentSource,
        attempt: Attempt<'_>,
    ) -> Result<ModelTurn, ModelError> {
        self.answered(request, contents, self.retries.of_attempt(), attempt).await
    }
}

impl ProviderModel {
    async fn answered(
        &self,
        request: &ModelRequest,
        contents: &dyn ContentSource,
        retries: Retries,
        attempt: Attempt<'_>,
    ) -> Result<ModelTurn, ModelError> {
        let settings = self.settings(&request.settings);
        let tools = self.offered(&request.tools, &settings).map_err(|mut faults| ModelError::Tool(faults.swap_remove(0)))?;
        let body = self.body(request, tools, settings, contents).await?;
        let answered = match self.cassettes.as_ref().filter(|cassettes| cassettes.is_played()) {
            Some(cassettes) => within(attempt.limit, self.played(cassettes, request, &body)).await,
            None => self.asked(request, &body, retries, attempt).await,
        };
        match answered {
            Ok(turn) if body.calls_in_text => with_text_call(turn, &body.tools, request, contents).await,
            Err(ModelError::BadTurn { message, .. }) => Ok(unreadable_turn(message, &body.tools)),
            answered => answered,
        }
    }
}

/// Returns a turn for an answer that the provider could not parse. The turn has one call whose result is the provider's
/// `message`. So the agent gets the same kind of error as for any malformed arguments. Without `tools` the turn is empty.
fn unreadable_turn(message: String, tools: &[Arc<CompiledTool>]) -> ModelTurn {
    let named = tools.iter().find(|tool| message.contains(&tool.name)).or(tools.first());
    let call = |tool: &Arc<CompiledTool>| ModelCall {
        malformed: Some(message.as_str().into()),
        ..ModelCall::new(tool.id.as_str(), Json::null())
    };
    named.map_or_else(|| ModelTurn::text(""), |tool| ModelTurn::calls(vec![call(tool)]))
}
