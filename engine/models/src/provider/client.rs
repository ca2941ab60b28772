//! One request at a time over HTTP: sent, waited for within bounds, read as it comes.

use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Response, Url, redirect};
use secrecy::ExposeSecret;
use tokio::time::timeout;

use super::incoming::{Incoming, innermost_cause};
use super::profile::ANTHROPIC_VERSION;
use super::{Endpoint, SetupError};
use crate::cassette::{Heard, NoAnswer, Wait};
use crate::error::ModelError;
use crate::governor::Permit;
use crate::secret::Secrets;
use crate::wire::{Answer, Dialect, Fault, MAX_ANSWER_BYTES, WireError, fault_of};

/// The most bytes of an error that are read.
const MAX_FAULT_BYTES: usize = 64 << 10;

/// Number of bytes kept of a body, to be shown if it is no answer.
pub(super) const MAX_FIRST_BYTES: usize = 4 << 10;

/// Number of characters shown of something that is no answer.
const SHOWN_WORDS: usize = 160;

/// One way to a provider, and the connections that go it.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) endpoint: Endpoint,
    pub(super) http: reqwest::Client,
    /// Secrets that are removed from answers.
    pub(super) secrets: Secrets,
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
    /// Time that the provider asks to pause.
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
                unusable(format!("the key in {}", endpoint.key_variable), "it has characters that are not allowed in a header")
            })?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let url = Url::parse(&endpoint.url).map_err(|error| unusable("the address".to_owned(), &error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(unusable("the address".to_owned(), "it begins with neither http:// nor https://"));
        }
        let http = reqwest::Client::builder()
            .default_headers(headers)
            .connect_timeout(endpoint.timeouts.connect)
            // The key is sent to the configured address and nowhere else.
            .redirect(redirect::Policy::none())
            .user_agent(concat!("baton/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| unusable("the connection".to_owned(), &endpoint.scrubbed(&error.to_string())))?;
        let secrets = endpoint.secret().map(Secrets::in_answers).unwrap_or_default();
        Ok(Self { endpoint, http, secrets })
    }

    /// Returns a request with this `body`. Repeated requests share its bytes.
    pub(super) fn request(&self, body: Vec<u8>) -> Request {
        let url = Url::parse(&self.endpoint.url).expect("a client is only made for an address that can be read");
        let mut request = Request::new(Method::POST, url);
        *request.body_mut() = Some(body.into());
        request
    }

    /// Makes one request and reads its answer to the end. Records the answer in `heard`. Passes announced limits to
    /// the `permit` as soon as the head has come.
    pub(super) async fn ask(
        &self,
        request: &Request,
        stream: bool,
        permit: &Permit,
        mut heard: Option<&mut Heard>,
    ) -> Result<Answer, Failure> {
        let limits = self.endpoint.timeouts;
        let asked = async {
            let response = self.send(request).await?;
            let incoming = Incoming::of(response, limits.between_bytes, heard.as_deref_mut());
            permit.announce(&incoming.left);
            self.read(incoming, stream).await
        };
        let read = timeout(limits.total, asked).await.unwrap_or(Err(NoAnswer::TimedOut { waiting_for: Wait::WholeAnswer }));
        read.unwrap_or_else(|no_answer| {
            let error = self.lost(&no_answer);
            if let Some(heard) = heard {
                heard.no_answer = Some(no_answer);
            }
            Err(error.into())
        })
    }

    /// Returns the answer that was recorded in `heard` for the same request.
    pub(super) async fn hear(&self, heard: Heard, stream: bool) -> Result<Answer, Failure> {
        let read = match Incoming::played(heard) {
            Ok(incoming) => self.read(incoming, stream).await,
            Err(no_answer) => Err(no_answer.expect("a cassette holds an answer or a failure")),
        };
        read.unwrap_or_else(|no_answer| Err(self.lost(&no_answer).into()))
    }

    /// Makes `request`; returns when an answer begins.
    pub(super) async fn send(&self, request: &Request) -> Result<Response, NoAnswer> {
        let request = request.try_clone().expect("a body in memory can be sent again");
        match timeout(self.endpoint.timeouts.first_byte, self.http.execute(request)).await {
            Err(_) => Err(NoAnswer::TimedOut { waiting_for: Wait::FirstByte }),
            Ok(Err(error)) if error.is_connect() && error.is_timeout() => {
                Err(NoAnswer::TimedOut { waiting_for: Wait::Connection })
            }
            Ok(Err(error)) if error.is_connect() => Err(NoAnswer::Unreachable { reason: innermost_cause(&error) }),
            Ok(response) => response.map_err(|error| NoAnswer::Broke { reason: innermost_cause(&error) }),
        }
    }

    /// Reads and decodes `incoming` to its end.
    async fn read(&self, mut incoming: Incoming<'_>, asked_for_stream: bool) -> Result<Result<Answer, Failure>, NoAnswer> {
        if !(200..300).contains(&incoming.status) {
            return self.refused(incoming).await.map(Err);
        }
        let (dialect, kind) = (self.endpoint.profile.dialect, incoming.content_type.as_str());
        // Servers that cannot stream answer whole, whatever was asked.
        let streams = kind.starts_with("text/event-stream")
            || kind.starts_with("application/x-ndjson")
            || (asked_for_stream && !kind.starts_with("application/json"));
        let mut first = Vec::new();
        let read = if streams {
            let mut decoder = dialect.decoder(MAX_ANSWER_BYTES);
            let mut pushed = Ok(());
            while pushed.is_ok() && !decoder.is_complete() {
                let Some(bytes) = incoming.next().await? else { break };
                first.extend_from_slice(&bytes[..bytes.len().min(MAX_FIRST_BYTES - first.len())]);
                pushed = decoder.push(&bytes);
            }
            pushed.and_then(|()| decoder.finish())
        } else {
            let is_whole = incoming.whole(MAX_ANSWER_BYTES, &mut first).await?;
            let decoded = if is_whole { dialect.decode(&first) } else { Err(WireError::TooLong { most: MAX_ANSWER_BYTES }) };
            first.truncate(MAX_FIRST_BYTES);
            decoded
        };
        Ok(read.map_err(|error| self.broken(error, &incoming, &first)))
    }

    /// Returns the failure for an answer with another status.
    pub(super) async fn refused(&self, mut incoming: Incoming<'_>) -> Result<Failure, NoAnswer> {
        let (status, retry_after) = (incoming.status, incoming.retry_after);
        let mut body = Vec::new();
        let fault = match incoming.whole(MAX_FAULT_BYTES, &mut body).await {
            // Recorded where it came up: the time for all of it was over.
            Err(over @ NoAnswer::TimedOut { waiting_for: Wait::WholeAnswer }) => return Err(over),
            _ if (300..400).contains(&status) => {
                let words =
                    "it redirects the request, and a key is not sent elsewhere: correct base_url, or log in to the network";
                return Ok(self.not_an_answer(&incoming, words.to_owned()));
            }
            _ if !is_of_api(status, &body) => return Ok(self.not_an_answer(&incoming, self.first_words(&body))),
            Ok(true) => fault_of(&body),
            Ok(false) => own_fault(format!("in more than {MAX_FAULT_BYTES} bytes, which are not read")),
            // A body that cannot be read leaves the status alone.
            Err(_) => fault_of(b""),
        };
        Ok(self.fault(Some(status), &fault, retry_after))
    }

    /// Returns the failure for a provider's fault, without the key.
    fn fault(&self, status: Option<u16>, fault: &Fault, retry_after: Option<Duration>) -> Failure {
        let fault = fault.scrubbed(|text| self.endpoint.scrubbed(text));
        let retry_after = retry_after.or(fault.retry_after);
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

    /// Returns the failure of a request that something other than the provider answered, such as the page of a proxy.
    fn not_an_answer(&self, incoming: &Incoming<'_>, words: String) -> Failure {
        let (provider, content_type) = (self.endpoint.name.clone(), self.endpoint.scrubbed(&incoming.content_type));
        ModelError::NotAnAnswer { provider, status: incoming.status, content_type, words }.into()
    }

    /// Returns the first words of `body` in one line, without the key and without characters that control a terminal.
    fn first_words(&self, body: &[u8]) -> String {
        let text = self.endpoint.scrubbed(&String::from_utf8_lossy(&body[..body.len().min(MAX_FIRST_BYTES)]));
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let escaped = |character: char| {
            if character.is_control() { character.escape_default().to_string() } else { character.to_string() }
        };
        let words: String = words.chars().take(SHOWN_WORDS).map(escaped).collect();
        if words.is_empty() { "nothing".to_owned() } else { words }
    }

    /// Returns the failure of a request whose answer, which began with `first`, is broken by `error`.
    pub(super) fn broken(&self, error: WireError, incoming: &Incoming<'_>, first: &[u8]) -> Failure {
        let provider = self.endpoint.name.clone();
        match error {
            WireError::Fault(fault) => self.fault(None, &fault, None),
            WireError::TooLong { most } => ModelError::TooLong { provider, most }.into(),
            WireError::Unreadable { .. } | WireError::Cut { .. } if !may_be_answer(&incoming.content_type, first) => {
                self.not_an_answer(incoming, self.first_words(first))
            }
            error @ (WireError::Unreadable { .. } | WireError::Cut { .. }) => {
                let kind =
                    if incoming.content_type.is_empty() { "an answer without a content type" } else { &incoming.content_type };
                let reason = format!("{error}; received {kind}: {}", self.first_words(first));
                ModelError::Broken { provider, reason: self.endpoint.scrubbed(&reason) }.into()
            }
        }
    }

    /// Returns the error for an answer that did not come whole.
    pub(super) fn lost(&self, why: &NoAnswer) -> ModelError {
        let Endpoint { name, url, timeouts, .. } = &self.endpoint;
        let (provider, scrubbed) = (name.clone(), |reason: String| self.endpoint.scrubbed(&reason));
        match why {
            NoAnswer::Unreachable { reason } => {
                ModelError::Unreachable { provider, url: scrubbed(url.clone()), reason: scrubbed(reason.clone()) }
            }
            NoAnswer::Broke { reason } => ModelError::Interrupted { provider, reason: scrubbed(reason.clone()) },
            NoAnswer::TimedOut { waiting_for: Wait::Connection } => {
                let reason = format!("no connection within {} s", timeouts.connect.as_secs_f64());
                ModelError::Unreachable { provider, url: scrubbed(url.clone()), reason }
            }
            NoAnswer::TimedOut { waiting_for } => {
                let (what, limit) = match waiting_for {
                    Wait::Connection => ("no connection", timeouts.connect),
                    Wait::FirstByte => ("no answer began", timeouts.first_byte),
                    Wait::NextBytes => ("the answer stopped in the middle", timeouts.between_bytes),
                    Wait::WholeAnswer => ("no whole answer", timeouts.total),
                };
                ModelError::TimedOut { provider, what, limit }
            }
            NoAnswer::LeftAlone { milliseconds } => ModelError::RateLimited {
                provider,
                message: "it asked to be left alone for longer than a request may take".to_owned(),
                retry_after: Some(Duration::from_millis(*milliseconds)),
            },
        }
    }
}

/// Whether a successful answer that declares `content_type` and begins with `first` may be a part of a provider's answer.
fn may_be_answer(content_type: &str, first: &[u8]) -> bool {
    let starts = ["data:", "event:", "id:", "retry:", ":", "{", "["];
    let kinds = ["text/event-stream", "application/x-ndjson", "application/json"];
    let is_declared = content_type.is_empty() || kinds.iter().any(|kind| content_type.starts_with(kind));
    let first = first.trim_ascii_start();
    let may_start = if first.is_empty() { is_declared } else { starts.iter().any(|start| first.starts_with(start.as_bytes())) };
    may_start || (is_declared && !content_type.is_empty() && !is_page(first))
}

/// Whether the API itself may have answered with the error `status` and `body`, and not a gateway in its place.
///
/// Whether an error comes from the API. An HTML page never does. Statuses for temporary failures keep that meaning for
/// every sender. For an unknown address an API answers in JSON; a gateway without a route to it answers in text or not
/// at all.
fn is_of_api(status: u16, body: &[u8]) -> bool {
    let body = body.trim_ascii_start();
    match status {
        408 | 409 | 425 | 429 | 500 | 502.. => true,
        404 | 405 | 410 => {
            body.starts_with(b"{") || body.starts_with(b"[") || body.starts_with(b"data:") || body.starts_with(b"event:")
        }
        _ => !is_page(body),
    }
}

/// Whether `text` begins like HTML or XML.
fn is_page(text: &[u8]) -> bool {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start().starts_with(b"<")
}

/// Returns a fault with a message of our own.
fn own_fault(message: String) -> Fault {
    Fault { message, ..Fault::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_is_made_again_shares_its_bytes() {
        let endpoint = Endpoint::of("ollama", None, &|_| None).unwrap();
        let body = vec![b'x'; 1 << 20];
        let address = body.as_ptr();
        let request = Client::new(endpoint).unwrap().request(body);
        for again in [request.try_clone().unwrap(), request] {
            assert_eq!(again.body().and_then(reqwest::Body::as_bytes).map(<[u8]>::as_ptr), Some(address));
        }
    }
}
