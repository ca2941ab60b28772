//! Asks the web: one connection at a time, to addresses that were looked at, for answers of bounded size and time.
//!
//! A host is resolved once for each hop, every resulting address is judged by [`guard`](super::guard), and the
//! connection goes to one of exactly these. There is no second resolution, which might return other addresses. Proxies
//! of the environment are not used. Nothing is kept from one hop to the next: no cookie, no header, no connection.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_tool::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Client, Method, Response, StatusCode, Url, redirect};
use tokio::time::timeout;

use super::body::{Body, Excess};
use super::guard::{self, Allowed, Refusal};

/// User agent of this program.
const USER_AGENT: &str = concat!("baton/", env!("CARGO_PKG_VERSION"));
/// The media types of pages that are read.
const READ_TYPES: [&str; 5] = ["text/", "application/json", "application/xml", "application/xhtml+xml", "application/rss+xml"];

/// Limits of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of an answer, packed or not.
    pub bytes: usize,
    /// Largest ratio of unpacked to packed size.
    pub ratio: usize,
    /// Largest number of redirects.
    pub redirects: usize,
    /// For a connection.
    pub connect: Duration,
    /// Between any two pieces of an answer.
    pub idle: Duration,
    /// For everything, all hops together.
    pub total: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { bytes: 5 << 20, ratio: 200, redirects: 5, connect: seconds(5), idle: seconds(10), total: seconds(30) }
    }
}

/// Why there is no answer. No header and no key is in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// An address that is not asked.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// An answer that is not taken.
    #[error("the answer of {host} was rejected: {excess}")]
    Excess {
        /// Host that answered.
        host: String,
        /// Why.
        excess: Excess,
    },
    /// It took too long.
    #[error("{host} took too long: {what} within {} s", .limit.as_secs_f64())]
    TimedOut {
        /// Host of the request.
        host: String,
        /// Step that did not happen in time.
        what: &'static str,
        /// In how much time.
        limit: Duration,
    },
    /// The host cannot be reached, or its answer is not HTTP.
    #[error("the request to {host} failed: {reason}")]
    Failed {
        /// Host of the request.
        host: String,
        /// Why.
        reason: String,
    },
    /// The answer has an error status.
    #[error("{host} answered with status {status}")]
    Status {
        /// Host of the request.
        host: String,
        /// The status.
        status: u16,
    },
    /// The page is of a kind that is not read.
    #[error("{host} answered with {kind}, but only text can be read")]
    Type {
        /// Host of the request.
        host: String,
        /// The media type.
        kind: String,
    },
    /// Too many pages send on.
    #[error("{host} redirects again, after {most} redirects")]
    Redirects {
        /// The last that was asked.
        host: String,
        /// Largest number of redirects.
        most: usize,
    },
    /// Nothing can be asked at all.
    #[error("web requests are not possible: {reason}")]
    Setup {
        /// Why.
        reason: String,
    },
}

/// Looks up the addresses of names.
pub trait Resolver: Send + Sync {
    /// Returns all addresses of `host`.
    fn addresses(&self, host: &str) -> BoxFuture<'_, io::Result<Vec<IpAddr>>>;
}

/// The resolver of the system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn addresses(&self, host: &str) -> BoxFuture<'_, io::Result<Vec<IpAddr>>> {
        let host = host.to_owned();
        Box::pin(async move { Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect()) })
    }
}

/// One request.
#[derive(Debug)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Address.
    pub url: Url,
    /// Headers beside those of every request; a key is marked as sensitive.
    pub headers: HeaderMap,
    /// Body.
    pub body: Option<Vec<u8>>,
}

/// One answer, unpacked.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its media type with parameters, in lower case.
    pub content_type: String,
    /// Target of a redirect.
    pub location: Option<String>,
    /// Its bytes; none of an answer that sends on.
    pub body: Vec<u8>,
}

/// A page that was read.
#[derive(Debug)]
pub struct Page {
    /// Final address, after redirects.
    pub url: Url,
    /// Its media type with parameters, in lower case.
    pub content_type: String,
    /// Its bytes, unpacked.
    pub body: Vec<u8>,
}

/// Asks the web, one request after the other.
pub struct Fetcher {
    client: Client,
    resolver: Arc<dyn Resolver>,
    allowed: Allowed,
    bounds: Bounds,
    vetted: Vetted,
}

/// The addresses of the hop that is under way: all that the client's connector gets to see.
#[derive(Clone, Default)]
struct Vetted(Arc<Mutex<HashMap<String, Vec<IpAddr>>>>);

impl Resolve for Vetted {
    fn resolve(&self, name: Name) -> Resolving {
        let vetted = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name.as_str()).cloned();
        Box::pin(async move {
            let addresses = vetted.ok_or_else(|| io::Error::other("its addresses were not checked"))?;
            // The port is the URL's.
            Ok(Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs)
        })
    }
}

impl Fetcher {
    /// Asks public hosts, and those that are `allowed`.
    pub fn new(allowed: Allowed, bounds: Bounds, resolver: Arc<dyn Resolver>) -> Result<Self, FetchError> {
        // A program that embeds the engine may have installed another provider of cryptography; then that one is used.
        let _installed_before = rustls::crypto::ring::default_provider().install_default();
        let vetted = Vetted::default();
        let client = Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .referer(false)
            .dns_resolver(Arc::new(vetted.clone()))
            // A connection that is kept would outlive the look at its address.
            .pool_max_idle_per_host(0)
            .connect_timeout(bounds.connect)
            .user_agent(USER_AGENT)
            .build()
            .map_err(|error| FetchError::Setup { reason: innermost_cause(&error) })?;
        Ok(Self { client, resolver, allowed, bounds, vetted })
    }

    /// Returns the page at `url`, after redirects within the limits.
    pub async fn page(&mut self, url: &str) -> Result<Page, FetchError> {
        let url = guard::parse(url)?;
        let (host, limit) = (host_of(&url), self.bounds.total);
        let late = FetchError::TimedOut { host, what: "no whole page", limit };
        timeout(limit, self.follow(url)).await.unwrap_or(Err(late))
    }

    async fn follow(&mut self, mut url: Url) -> Result<Page, FetchError> {
        for _ in 0..=self.bounds.redirects {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static("text/html, text/markdown, text/plain, application/json, */*;q=0.1"));
            let request = Request { method: Method::GET, url: url.clone(), headers, body: None };
            let answer = self.ask(request).await?;
            let host = host_of(&url);
            let Some(location) = answer.location else {
                let kind = answer.content_type.split(';').next().unwrap_or_default().trim();
                return if !answer.status.is_success() {
                    Err(FetchError::Status { host, status: answer.status.as_u16() })
                } else if !kind.is_empty() && !READ_TYPES.iter().any(|read| kind.starts_with(read)) && !kind.ends_with("+json") {
                    Err(FetchError::Type { host, kind: kind.chars().take(80).collect() })
                } else {
                    Ok(Page { url, content_type: answer.content_type, body: answer.body })
                };
            };
            url = next_hop(&url, &location)?;
        }
        Err(FetchError::Redirects { host: host_of(&url), most: self.bounds.redirects })
    }

    /// Returns the answer to one request, whatever its status; `total` bounds it as it does a page.
    pub async fn answer(&mut self, request: Request) -> Result<Answer, FetchError> {
        let (host, limit) = (host_of(&request.url), self.bounds.total);
        let late = FetchError::TimedOut { host, what: "no whole answer", limit };
        timeout(limit, self.ask(request)).await.unwrap_or(Err(late))
    }

    /// Makes one hop: judges the address, connects, and reads the answer.
    async fn ask(&mut self, request: Request) -> Result<Answer, FetchError> {
        let host = host_of(&request.url);
        self.look_at(&request.url).await?;
        let mut sent = self.client.request(request.method, request.url).headers(request.headers);
        sent = sent.header(ACCEPT_ENCODING, "gzip, br, deflate");
        if let Some(body) = request.body {
            sent = sent.body(body);
        }
        let failed = |error: &reqwest::Error| FetchError::Failed { host: host.clone(), reason: innermost_cause(error) };
        let idle = |what| FetchError::TimedOut { host: host.clone(), what, limit: self.bounds.idle };
        let response = match timeout(self.bounds.connect + self.bounds.idle, sent.send()).await {
            Err(_) => return Err(idle("no answer began")),
            Ok(response) => response.map_err(|error| failed(&error))?,
        };
        let (status, content_type) = (response.status(), header(&response, CONTENT_TYPE).to_lowercase());
        let location = response.headers().get(LOCATION).filter(|_| status.is_redirection());
        if let Some(location) = location {
            let location = String::from_utf8_lossy(location.as_bytes()).into_owned();
            return Ok(Answer { status, content_type, location: Some(location), body: Vec::new() });
        }
        let excess = |excess| FetchError::Excess { host: host.clone(), excess };
        let most = self.bounds.bytes;
        if response.content_length().is_some_and(|length| length > most as u64) {
            return Err(excess(Excess::Bytes { most }));
        }
        let mut body = Body::new(&header(&response, CONTENT_ENCODING), most, self.bounds.ratio).map_err(excess)?;
        let mut response = response;
        loop {
            let chunk =
                timeout(self.bounds.idle, response.chunk()).await.map_err(|_| idle("the answer stopped in the middle"))?;
            let Some(chunk) = chunk.map_err(|error| failed(&error))? else { break };
            body.push(&chunk).map_err(excess)?;
        }
        Ok(Answer { status, content_type, location: None, body: body.finish() })
    }

    /// Judges `url` and every address of its host, and lets the client see these and no others.
    async fn look_at(&mut self, url: &Url) -> Result<(), FetchError> {
        let addresses = vetted(url, &self.allowed, &*self.resolver, self.bounds.connect).await?;
        let mut vetted = self.vetted.0.lock().unwrap_or_else(PoisonError::into_inner);
        vetted.clear();
        vetted.insert(host_of(url), addresses);
        Ok(())
    }
}

/// Returns the addresses to which a connection for `url` may go: those of its host, each of them judged. `limit` is the time for the lookup.
pub(super) async fn vetted(
    url: &Url,
    allowed: &Allowed,
    resolver: &dyn Resolver,
    limit: Duration,
) -> Result<Vec<IpAddr>, Refusal> {
    guard::check(url, allowed)?;
    if let Some(address) = guard::literal(url) {
        return Ok(vec![address]);
    }
    let host = host_of(url);
    let addresses = match timeout(limit, resolver.addresses(&host)).await {
        Err(_) => Err("the name was not resolved in time".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Ok(Ok(addresses)) if addresses.is_empty() => Err("the lookup returned no address".to_owned()),
        Ok(Ok(addresses)) => Ok(addresses),
    };
    let addresses = addresses.map_err(|reason| Refusal::NoAddress { host: host.clone(), reason })?;
    if !allowed.names(url) {
        guard::vet(&host, &addresses)?;
    }
    Ok(addresses)
}

/// Returns the target of a redirect from `url`, if it may be followed.
fn next_hop(url: &Url, location: &str) -> Result<Url, Refusal> {
    let joined = url
        .join(location)
        .map_err(|error| Refusal::NoUrl { url: location.chars().take(100).collect(), reason: error.to_string() })?;
    // Parsed again, so that an address from a page obeys the same rules as one from a model.
    let next = guard::parse(joined.as_str())?;
    if url.scheme() == "https" && next.scheme() == "http" {
        return Err(Refusal::Downgrade);
    }
    Ok(next)
}

fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}

fn header(response: &Response, name: reqwest::header::HeaderName) -> String {
    // Several headers of one name are one list.
    let values = response.headers().get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.collect::<Vec<_>>().join(", ")
}

/// Returns the innermost cause of an HTTP error, which is the most specific. It contains no address.
fn innermost_cause(error: &reqwest::Error) -> String {
    let mut reason: &dyn std::error::Error = error;
    while let Some(inner) = reason.source() {
        reason = inner;
    }
    reason.to_string()
}

#[cfg(test)]
#[path = "tests/site.rs"]
pub(crate) mod site;

#[cfg(test)]
#[path = "tests/mod.rs"]
mod tests;
