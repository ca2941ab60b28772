//! One request at a time over HTTP: sent, waited for within bounds, read as it comes.

use std::time::{Duration, SystemTime};

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Response, StatusCode, redirect};
use secrecy::ExposeSecret;
use tokio::time::timeout;

use super::profile::ANTHROPIC_VERSION;
use super::{Endpoint, SetupError};
use crate::error::ModelError;
use crate::wire::{Answer, Dialect, Fault, MAX_ANSWER_BYTES, WireError, fault_of};

/// The most bytes of an error that are read.
const MAX_FAULT_BYTES: usize = 64 << 10;

/// One way to a provider, and the connections that go it.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) endpoint: Endpoint,
    pub(super) http: reqwest::Client,
}

/// Why a request has no answer, and what the provider wants of those that come.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: ModelError,
    pub(super) congestion: Option<Congestion>,
}

/// The provider has more to do than it can, or than it does for this key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Congestion {
    /// How long it wants to be left alone.
    pub(super) retry_after: Option<Duration>,
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self { error, congestion: None }
    }
}

impl Client {
    /// Gets ready to go the way of `endpoint`. Nothing is sent yet.
    pub(super) fn new(endpoint: Endpoint) -> Result<Self, SetupError> {
        // A program that embeds the engine may have installed another provider of cryptography; then that one is used.
        let _installed_before = rustls::crypto::ring::default_provider().install_default();
        let unusable = |what: String, reason: &str| SetupError::Unusable {
            what,
            provider: endpoint.name.clone(),
            reason: reason.to_owned(),
        };
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
            let mut value = HeaderValue::from_str(key.expose_secret()).map_err(|_| {
                unusable(format!("the key in {}", endpoint.key_variable), "it has characters that no header takes")
            })?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let url = reqwest::Url::parse(&endpoint.url).map_err(|error| unusable("the address".to_owned(), &error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(unusable("the address".to_owned(), "it begins with neither http:// nor https://"));
        }
        let http = reqwest::Client::builder()
            .default_headers(headers)
            .connect_timeout(endpoint.timeouts.connect)
            // A key goes where a config says, and nowhere else.
            .redirect(redirect::Policy::none())
            .user_agent(concat!("baton/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| unusable("the connection".to_owned(), &endpoint.scrubbed(&error.to_string())))?;
        Ok(Self { endpoint, http })
    }

    /// One request: asked, and its answer read to the end.
    pub(super) async fn ask(&self, body: &[u8], stream: bool) -> Result<Answer, Failure> {
        let limits = self.endpoint.timeouts;
        let asked = async {
            let request = self.http.post(&self.endpoint.url).body(body.to_vec());
            let response = match timeout(limits.first_byte, request.send()).await {
                Err(_) => return Err(self.timed_out("no answer began", limits.first_byte).into()),
                Ok(Err(error)) if error.is_connect() && error.is_timeout() => {
                    return Err(self.timed_out("no connection", limits.connect).into());
                }
                Ok(response) => response.map_err(|error| self.unreachable(&error))?,
            };
            if response.status().is_success() { self.read(response, stream).await } else { Err(self.refused(response).await) }
        };
        timeout(limits.total, asked).await.unwrap_or_else(|_| Err(self.timed_out("no whole answer", limits.total).into()))
    }

    /// The answer that comes with a good status.
    async fn read(&self, mut response: Response, asked_for_stream: bool) -> Result<Answer, Failure> {
        let dialect = self.endpoint.profile.dialect;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_lowercase();
        // Servers that cannot stream answer whole, whatever was asked.
        let streams = kind.starts_with("text/event-stream")
            || kind.starts_with("application/x-ndjson")
            || (asked_for_stream && !kind.starts_with("application/json"));
        if !streams {
            let body = self.whole(&mut response, MAX_ANSWER_BYTES).await?;
            return dialect.decode(&body).map_err(|error| self.broken(error));
        }
        let mut decoder = dialect.decoder(MAX_ANSWER_BYTES);
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
    async fn refused(&self, mut response: Response) -> Failure {
        let status = response.status();
        let retry_after =
            response.headers().get(RETRY_AFTER).and_then(|value| retry_after(value.to_str().ok()?, SystemTime::now()));
        // What cannot be read is told by its status alone.
        let fault = match self.whole(&mut response, MAX_FAULT_BYTES).await {
            Ok(_) if status.is_redirection() => redirected(),
            Ok(body) => fault_of(&body),
            Err(_) => fault_of(b""),
        };
        self.fault(Some(status), &fault, retry_after)
    }

    /// What a provider's words mean, without the key.
    fn fault(&self, status: Option<StatusCode>, fault: &Fault, retry_after: Option<Duration>) -> Failure {
        let message = self.endpoint.scrubbed(&fault.message);
        let code = fault.code.as_deref().map(|code| self.endpoint.scrubbed(code));
        let fault = Fault { code, message, ..*fault };
        let status = status.map(|status| status.as_u16());
        let error = match ModelError::of_fault(&self.endpoint.name, status, &fault, retry_after) {
            ModelError::KeyRefused { provider, message, .. } => {
                ModelError::KeyRefused { provider, variable: Some(self.endpoint.key_variable.clone()), message }
            }
            error => error,
        };
        let is_overloaded =
            matches!(status.or(fault.status), Some(503 | 529)) || fault.code.as_deref() == Some("overloaded_error");
        let is_congested = is_overloaded || matches!(error, ModelError::RateLimited { .. });
        Failure { error, congestion: is_congested.then_some(Congestion { retry_after }) }
    }

    fn broken(&self, error: WireError) -> Failure {
        let provider = self.endpoint.name.clone();
        match error {
            WireError::Fault(fault) => self.fault(None, &fault, None),
            WireError::TooLong { most } => ModelError::TooLong { provider, most }.into(),
            error @ (WireError::Unreadable { .. } | WireError::Cut { .. }) => {
                ModelError::Broken { provider, reason: self.endpoint.scrubbed(&error.to_string()) }.into()
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
