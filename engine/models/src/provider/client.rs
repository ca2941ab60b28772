//! One request at a time over HTTP: sent, waited for within bounds, read as it comes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use baton_core::config::DEFAULT_MAX_OUTPUT_TOKENS;
use baton_core::json::Json;
use baton_core::model::{ModelRequest, ModelTurn, ToolDefinition};
use baton_core::render::contents_of;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, redirect};
use secrecy::ExposeSecret;
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::offers::{Offers, STRICT_TOOLS, restore};
use super::profile::ANTHROPIC_VERSION;
use super::talks::Talks;
use super::{Endpoint, Retries, SetupError};
use crate::error::ModelError;
use crate::model::{ContentSource, Model};
use crate::schema::{CompiledTool, SchemaFault};
use crate::wire::{Answer, Dialect, Fault, Grown, MAX_ANSWER_BYTES, WireError, WireRequest, fault_of};

/// The most bytes of an error that are read.
const MAX_FAULT_BYTES: usize = 64 << 10;

/// The tools of a request in a provider's dialect.
type Offered = Vec<Arc<CompiledTool>>;

/// A model of a provider.
#[derive(Debug)]
pub struct ProviderModel {
    http: Client,
    endpoint: Endpoint,
    model: String,
    vendor: String,
    settings: Map<String, Value>,
    offers: Offers,
    talks: Talks,
    retries: Retries,
    most: usize,
}

/// The connections to a provider, with the headers that go with every request. Nothing is sent yet.
pub(super) fn connect(endpoint: &Endpoint) -> Result<Client, SetupError> {
    // A program that embeds the engine may have installed another provider of cryptography; then that one is used.
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let unusable =
        |what: String, reason: &str| SetupError::Unusable { what, provider: endpoint.name.clone(), reason: reason.to_owned() };
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if endpoint.profile.dialect == Dialect::Anthropic {
        headers.insert(ANTHROPIC_VERSION.0, HeaderValue::from_static(ANTHROPIC_VERSION.1));
    }
    for (name, value) in &endpoint.headers {
        let header = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
        let (name, value) = header.ok_or_else(|| unusable(format!("header {name:?}"), "HTTP does not allow it"))?;
        headers.insert(name, value);
    }
    if let Some((name, key)) = endpoint.key_header() {
        let mut value = HeaderValue::from_str(key.expose_secret())
            .map_err(|_| unusable(format!("the key in {}", endpoint.key_variable), "it has characters that no header takes"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    let url = reqwest::Url::parse(&endpoint.url).map_err(|error| unusable("the address".to_owned(), &error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(unusable("the address".to_owned(), "it begins with neither http:// nor https://"));
    }
    Client::builder()
        .default_headers(headers)
        .connect_timeout(endpoint.timeouts.connect)
        // A key goes where a config says, and nowhere else.
        .redirect(redirect::Policy::none())
        .user_agent(concat!("baton/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| unusable("the connection".to_owned(), &endpoint.scrubbed(&error.to_string())))
}

impl ProviderModel {
    /// The model that the provider at `endpoint` calls `model`.
    pub(super) fn new(http: Client, endpoint: Endpoint, model: String, settings: Map<String, Value>, retries: Retries) -> Self {
        let vendor = endpoint.profile.vendor(&endpoint.name, &model);
        Self {
            http,
            endpoint,
            model,
            vendor,
            settings,
            offers: Offers::default(),
            talks: Talks::default(),
            retries,
            most: MAX_ANSWER_BYTES,
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
        self.offers.of(tools, self.endpoint.profile.schemas, settings.get(STRICT_TOOLS).and_then(Value::as_bool))
    }

    /// The body of `request` with its tools as they are offered, and whether its answer is to come as a stream.
    async fn body(
        &self,
        request: &ModelRequest,
        tools: &[Arc<CompiledTool>],
        mut settings: Map<String, Value>,
        contents: &dyn ContentSource,
    ) -> Result<(Vec<u8>, bool), ModelError> {
        let profile = self.endpoint.profile;
        let talk = self.talks.take(&request.task);
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
        let body = profile.dialect.encode(&head, talk.bytes());
        tracing::debug!(task = %request.task, turn = request.turn, worded, bytes = body.len(), "worded");
        self.talks.keep(&request.task, talk);
        Ok((body, stream))
    }

    /// One request: asked, and its answer read to the end.
    async fn ask(&self, body: &[u8], stream: bool) -> Result<Answer, ModelError> {
        let limits = self.endpoint.timeouts;
        let asked = async {
            let request = self.http.post(&self.endpoint.url).body(body.to_vec());
            let response = match timeout(limits.first_byte, request.send()).await {
                Err(_) => return Err(self.timed_out("no answer began", limits.first_byte)),
                Ok(Err(error)) if error.is_connect() && error.is_timeout() => {
                    return Err(self.timed_out("no connection", limits.connect));
                }
                Ok(response) => response.map_err(|error| self.unreachable(&error))?,
            };
            if response.status().is_success() { self.read(response, stream).await } else { Err(self.refused(response).await) }
        };
        timeout(limits.total, asked).await.unwrap_or_else(|_| Err(self.timed_out("no whole answer", limits.total)))
    }

    /// The answer that comes with a good status.
    async fn read(&self, mut response: Response, asked_for_stream: bool) -> Result<Answer, ModelError> {
        let dialect = self.endpoint.profile.dialect;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_lowercase();
        // Servers that cannot stream answer whole, whatever was asked.
        let streams = kind.starts_with("text/event-stream")
            || kind.starts_with("application/x-ndjson")
            || (asked_for_stream && !kind.starts_with("application/json"));
        if !streams {
            let body = self.whole(&mut response, self.most).await?;
            return dialect.decode(&body).map_err(|error| self.broken(error));
        }
        let mut decoder = dialect.decoder(self.most);
        while !decoder.is_complete() {
            let Some(bytes) = self.next(&mut response).await? else { break };
            decoder.push(bytes.as_ref()).map_err(|error| self.broken(error))?;
        }
        decoder.finish().map_err(|error| self.broken(error))
    }

    /// The next bytes of an answer; `None` at its end.
    async fn next(&self, response: &mut Response) -> Result<Option<impl AsRef<[u8]> + use<>>, ModelError> {
        let limit = self.endpoint.timeouts.between_bytes;
        match timeout(limit, response.chunk()).await {
            Err(_) => Err(self.timed_out("the answer did not go on", limit)),
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(error)) => {
                let reason = self.endpoint.scrubbed(&format!("the connection broke: {}", told(&error)));
                Err(ModelError::Broken { provider: self.endpoint.name.clone(), reason })
            }
        }
    }

    /// A body of at most `most` bytes.
    async fn whole(&self, response: &mut Response, most: usize) -> Result<Vec<u8>, ModelError> {
        let mut body = Vec::new();
        while let Some(bytes) = self.next(response).await? {
            let bytes = bytes.as_ref();
            if body.len() + bytes.len() > most {
                return Err(ModelError::TooLong { provider: self.endpoint.name.clone(), most });
            }
            body.extend_from_slice(bytes);
        }
        Ok(body)
    }

    /// What an answer with another status means.
    async fn refused(&self, mut response: Response) -> ModelError {
        let status = response.status();
        let retry_after =
            response.headers().get(RETRY_AFTER).and_then(|value| retry_after(value.to_str().ok()?, SystemTime::now()));
        // What cannot be read is told by its status alone.
        let fault = match self.whole(&mut response, MAX_FAULT_BYTES).await {
            Ok(_) if status.is_redirection() => redirected(),
            Ok(body) => fault_of(&body),
            Err(_) => fault_of(b""),
        };
        self.fault(Some(status), fault, retry_after)
    }

    /// What a provider's words mean, without the key.
    fn fault(&self, status: Option<StatusCode>, fault: Fault, retry_after: Option<Duration>) -> ModelError {
        let message = self.endpoint.scrubbed(&fault.message);
        let code = fault.code.as_deref().map(|code| self.endpoint.scrubbed(code));
        let fault = Fault { code, message, ..fault };
        let status = status.map(|status| status.as_u16());
        match ModelError::of_fault(&self.endpoint.name, status, &fault, retry_after) {
            ModelError::KeyRefused { provider, message, .. } => {
                ModelError::KeyRefused { provider, variable: Some(self.endpoint.key_variable.clone()), message }
            }
            error => error,
        }
    }

    fn broken(&self, error: WireError) -> ModelError {
        let provider = self.endpoint.name.clone();
        match error {
            WireError::Fault(fault) => self.fault(None, fault, None),
            WireError::TooLong { most } => ModelError::TooLong { provider, most },
            error @ (WireError::Unreadable { .. } | WireError::Cut { .. }) => {
                ModelError::Broken { provider, reason: self.endpoint.scrubbed(&error.to_string()) }
            }
        }
    }

    fn timed_out(&self, what: &'static str, limit: Duration) -> ModelError {
        ModelError::TimedOut { provider: self.endpoint.name.clone(), what, limit }
    }

    fn unreachable(&self, error: &reqwest::Error) -> ModelError {
        let reason = format!("{} cannot be reached at {}: {}", self.endpoint.name, self.endpoint.url, told(error));
        ModelError::Unavailable { reason: self.endpoint.scrubbed(&reason) }
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
        let (body, stream) = self.body(request, &tools, settings, contents).await?;
        let mut pauses = self.retries.pauses();
        loop {
            let (provider, model) = (&self.endpoint.name, &self.model);
            tracing::debug!(%provider, %model, task = %request.task, turn = request.turn, bytes = body.len(), "asking");
            let error = match self.ask(&body, stream).await {
                Ok(answer) => {
                    let mut turn = answer.into_turn(provider, &self.vendor);
                    restore(&mut turn, &tools);
                    return Ok(turn);
                }
                Err(error) => error,
            };
            let Some(pause) = self.retries.pause(&error, pauses.next()) else { return Err(error) };
            tracing::warn!(%provider, %model, task = %request.task, %error, ?pause, "asking again");
            tokio::time::sleep(pause).await;
        }
    }
}

fn redirected() -> Fault {
    Fault {
        status: None,
        code: None,
        message: "it sends requests elsewhere, and a key is not sent along: correct base_url".to_owned(),
    }
}

/// The innermost reason of an error of HTTP, which says more than the outer ones. No address is in it.
pub(super) fn told(error: &reqwest::Error) -> String {
    let mut reason: &dyn std::error::Error = error;
    while let Some(inner) = reason.source() {
        reason = inner;
    }
    reason.to_string()
}

/// What a `Retry-After` header asks for at `now`: seconds or a date; `None` if it is neither.
fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::parse(value).ok()?;
    let until = SystemTime::from(date.timestamp());
    Some(until.duration_since(now).unwrap_or_default())
}

/// The spellings of a key that must not get out: as it is, as JSON, percent-encoded and in base64.
pub(super) fn spellings(key: &str) -> Vec<String> {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    use std::fmt::Write as _;
    let mut percent = String::new();
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            percent.push(char::from(byte));
        } else {
            let _ = write!(percent, "%{byte:02X}");
        }
    }
    let json = serde_json::to_string(key).unwrap_or_default();
    vec![key.to_owned(), json.trim_matches('"').to_owned(), percent, STANDARD.encode(key), URL_SAFE_NO_PAD.encode(key)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_a_date_or_nothing() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_445_412_480 - 20);
        let asked = |value| retry_after(value, now);
        assert_eq!(asked("0"), Some(Duration::ZERO));
        assert_eq!(asked("3600"), Some(Duration::from_hours(1)));
        assert_eq!(asked("1.5"), Some(Duration::from_millis(1_500)));
        assert_eq!(asked("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::from_secs(20)));
        assert_eq!(asked("Wed, 21 Oct 2009 07:28:00 GMT"), Some(Duration::ZERO));
        for garbage in ["", "soon", "-1", "NaN", "1e400"] {
            assert_eq!(asked(garbage), None, "{garbage}");
        }
    }
}
