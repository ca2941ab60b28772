//! The proxy through which a browser reaches the web: it judges every address that the browser connects to.
//!
//! A page can make its browser connect in many ways: by redirects, images, frames, `fetch`, web sockets and workers. Judging them one by
//! one inside the browser would be too late, because the browser resolves a name again when it connects, and then the name may have
//! another address. So the browser gets one way out: this proxy on loopback. It resolves the host of each request or tunnel, judges
//! all its addresses by [`guard`](super::super::guard), and connects to one of exactly these. The browser resolves no names and sends
//! no UDP, and its own services have another proxy, which does not exist (see [`launch`](super::launch)).
//!
//! One host is local: its pages are the documents of the run ([`DocumentServer`]).

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, HeaderMap, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, UPGRADE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use reqwest::Url;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use super::super::fetch::{Resolver, vetted};
use super::super::guard::Allowed;
use super::documents::DocumentServer;

/// Time for a lookup, and for a connection to one address.
const CONNECT: Duration = Duration::from_secs(5);
/// The most connections at a time.
const CONNECTIONS: usize = 256;
/// The most refusals that are kept.
const REFUSALS: usize = 64;
/// Headers that concern one connection alone (RFC 9110, section 7.6.1).
const HOP_HEADERS: [HeaderName; 8] = [
    CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

type Body = Either<Incoming, Full<Bytes>>;

/// A running proxy. Dropping it ends all its connections.
pub(super) struct Proxy {
    /// Its place on loopback.
    pub(super) address: SocketAddr,
    /// Documents of the run, for the calls in progress.
    pub(super) documents: DocumentServer,
    refusals: Arc<Mutex<Refusals>>,
    /// Its connections end when this is dropped.
    _open: watch::Sender<()>,
}

/// Refused requests, oldest first.
#[derive(Default)]
struct Refusals {
    count: u64,
    kept: VecDeque<String>,
}

/// State of all connections.
#[derive(Clone)]
struct Shared {
    allowed: Arc<Allowed>,
    resolver: Arc<dyn Resolver>,
    documents: DocumentServer,
    refusals: Arc<Mutex<Refusals>>,
    closed: watch::Receiver<()>,
}

impl Proxy {
    /// Starts a proxy on a free port of loopback. It connects to public hosts, and to those that are `allowed`.
    pub(super) async fn start(allowed: Allowed, resolver: Arc<dyn Resolver>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, (open, closed)) = (listener.local_addr()?, watch::channel(()));
        let (documents, refusals) = (DocumentServer::new(), Arc::<Mutex<Refusals>>::default());
        let shared = Shared {
            allowed: Arc::new(allowed),
            resolver,
            documents: documents.clone(),
            refusals: Arc::clone(&refusals),
            closed,
        };
        tokio::spawn(shared.accept(listener));
        Ok(Self { address, documents, refusals, _open: open })
    }

    /// Returns the number of requests that were refused so far.
    pub(super) fn refused(&self) -> u64 {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).count
    }

    /// Returns the reason for the newest refusal, if there is one after the first `earlier`.
    pub(super) fn refusal_after(&self, earlier: u64) -> Option<String> {
        let refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        (refusals.count > earlier).then(|| refusals.kept.back().cloned()).flatten()
    }
}

impl Shared {
    /// Does `work` until the proxy is dropped.
    async fn while_open(&self, work: impl Future) {
        let mut closed = self.closed.clone();
        tokio::select! {
            _ = work => {}
            // Nothing is ever sent.
            _ = closed.changed() => {}
        }
    }

    async fn accept(self, listener: TcpListener) {
        let connections = Arc::new(Semaphore::new(CONNECTIONS));
        let accepting = async {
            loop {
                let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
                // An error concerns one connection, or passes with others.
                let Ok((stream, _)) = listener.accept().await else {
                    tokio::task::yield_now().await;
                    continue;
                };
                let shared = self.clone();
                tokio::spawn(async move {
                    let service = service_fn(|request| shared.answer(request));
                    let mut server = hyper::server::conn::http1::Builder::new();
                    // The browser's headers are passed on as they are.
                    server.preserve_header_case(true).title_case_headers(true);
                    let connection = server.serve_connection(TokioIo::new(stream), service).with_upgrades();
                    shared.while_open(connection).await;
                    drop(permit);
                });
            }
        };
        self.while_open(accepting).await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let answer = if request.method() == Method::CONNECT { self.tunnel(request).await } else { self.pass(request).await };
        Ok(answer.unwrap_or_else(|refused| {
            self.note(&refused);
            empty(StatusCode::FORBIDDEN)
        }))
    }

    /// Opens a tunnel, for TLS or a web socket.
    async fn tunnel(&self, mut request: Request<Incoming>) -> Result<Response<Body>, String> {
        let authority = request.uri().authority().ok_or("a tunnel to no host")?;
        let url = Url::parse(&format!("https://{authority}/")).map_err(|error| format!("{authority}: {error}"))?;
        let mut server = self.connect(&url).await?;
        let shared = self.clone();
        tokio::spawn(async move {
            let tunnel = async {
                let Ok(browser) = hyper::upgrade::on(&mut request).await else { return };
                // Either side may end at any time.
                let _ended = copy_bidirectional(&mut TokioIo::new(browser), &mut server).await;
            };
            shared.while_open(tunnel).await;
        });
        Ok(empty(StatusCode::OK))
    }

    /// Passes on one request without TLS, and its answer.
    async fn pass(&self, mut request: Request<Incoming>) -> Result<Response<Body>, String> {
        let url = Url::parse(&request.uri().to_string()).map_err(|error| format!("{}: {error}", request.uri()))?;
        if self.documents.has(&url) {
            return Ok(self.documents.answer(&url).await.map(Either::Right));
        }
        if url.scheme() != "http" {
            return Err(format!("{}: addresses are not allowed without a tunnel", url.scheme()));
        }
        let server = self.connect(&url).await?;
        let failed = |error: hyper::Error| format!("the request to {} failed: {error}", url.host_str().unwrap_or_default());
        let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
            .preserve_header_case(true)
            .title_case_headers(true)
            .handshake(TokioIo::new(server))
            .await
            .map_err(failed)?;
        let shared = self.clone();
        tokio::spawn(async move { shared.while_open(connection).await });
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = path.parse::<Uri>().map_err(|error| error.to_string())?;
        strip(request.headers_mut());
        let mut answer = sender.send_request(request).await.map_err(failed)?;
        strip(answer.headers_mut());
        Ok(answer.map(Either::Left))
    }

    /// Connects to one of the addresses of `url`, all of which are judged before.
    async fn connect(&self, url: &Url) -> Result<TcpStream, String> {
        let port = url.port_or_known_default().unwrap_or_default();
        let addresses = vetted(url, &self.allowed, &*self.resolver, CONNECT).await.map_err(|refusal| refusal.to_string())?;
        let mut reason = "no address".to_owned();
        for address in addresses {
            match timeout(CONNECT, TcpStream::connect(SocketAddr::new(address, port))).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => reason = error.to_string(),
                Err(_) => "no connection in time".clone_into(&mut reason),
            }
        }
        Err(format!("the connection to {} failed: {reason}", url.host_str().unwrap_or_default()))
    }

    fn note(&self, refused: &str) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.count += 1;
        if refusals.kept.len() == REFUSALS {
            refusals.kept.pop_front();
        }
        refusals.kept.push_back(refused.to_owned());
    }
}

fn strip(headers: &mut HeaderMap) {
    // A header may be declared as one of this connection.
    let declared: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in declared.into_iter().chain(HOP_HEADERS) {
        headers.remove(name);
    }
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut answer = Response::new(Either::Right(Full::default()));
    *answer.status_mut() = status;
    answer
}

#[cfg(test)]
#[path = "tests/proxy.rs"]
mod tests;
