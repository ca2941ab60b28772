//! Documents of the run as pages: the proxy answers requests to one host of its own with them.
//!
//! A document can be read only during a call, so a page gets nothing while no call is in progress. Documents are untrusted like pages of
//! the web: each is sent with a policy that gives it an origin of its own, so its scripts cannot read other documents, and their requests
//! reach nothing else. Its images, styles and scripts may be documents. The name of the host is random, so pages of the web cannot even
//! show documents.

use std::convert::Infallible;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use baton_tool::ToolContext;
use baton_types::document::Content;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{Response, StatusCode};
use percent_encoding::percent_decode_str;
use reqwest::Url;
use tokio::sync::{mpsc, oneshot};

/// End of the host's name. Names below `localhost` belong to no network (RFC 6761), and the guard refuses them.
const HOST: &str = "document.localhost";
/// The scheme of the addresses of documents, as agents write them.
const SCHEME: &str = "document:";

/// Policy of a page that is a document: the requests and the forms that it may use.
const POLICY: &str = "sandbox allow-scripts allow-forms; default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; \
                      connect-src 'none'; form-action 'none'; frame-src 'none'; object-src 'none'; base-uri 'none'";

/// Returns the place of a document in `url`, if it names one: its path, perhaps with `#` and a place in the page.
pub(super) fn place_in(url: &str) -> Option<&str> {
    url.strip_prefix(SCHEME)
}

/// Gives documents of the calls in progress to the proxy.
#[derive(Clone)]
pub(super) struct DocumentServer {
    host: Arc<str>,
    calls: Arc<Mutex<Vec<mpsc::UnboundedSender<Wish>>>>,
}

/// A request for a document.
struct Wish {
    path: String,
    answer: oneshot::Sender<Option<(Content, String)>>,
}

impl DocumentServer {
    /// Returns a server whose host has a random name.
    pub(super) fn new() -> Self {
        // The keys of this hash are from the system's source of random bits.
        let random = || RandomState::new().build_hasher().finish();
        Self { host: format!("{:016x}{:016x}.{HOST}", random(), random()).into(), calls: Arc::default() }
    }

    /// Whether its pages are at this host.
    pub(super) fn has(&self, url: &Url) -> bool {
        url.host_str() == Some(&*self.host)
    }

    /// Returns the address by which the browser asks for a document.
    pub(super) fn page(&self, place: &str) -> String {
        let (path, fragment) = place.split_once('#').map_or((place, None), |(path, fragment)| (path, Some(fragment)));
        let mut page = Url::parse(&format!("http://{}/", self.host)).expect("its host is one");
        if let Ok(mut segments) = page.path_segments_mut() {
            segments.clear().extend(path.split('/'));
        }
        page.set_fragment(fragment);
        page.into()
    }

    /// Returns the address of a page as agents know it.
    pub(super) fn shown(&self, url: &str) -> String {
        match Url::parse(url) {
            Ok(page) if self.has(&page) => format!("{SCHEME}{}", path_in(&page)),
            _ => url.to_owned(),
        }
    }

    /// Answers requests for documents from the workspace of a call, for as long as the call runs. Never completes.
    pub(super) async fn serve(&self, context: &ToolContext) -> Infallible {
        let (sender, mut wishes) = mpsc::unbounded_channel();
        self.senders(|senders| senders.push(sender));
        while let Some(Wish { path, answer }) = wishes.recv().await {
            let kind = context.document(&path).ok().map(|document| document.content.mime_type.clone());
            let content = context.read(&path).await.ok();
            // The page may no longer wait.
            let _gone = answer.send(content.zip(kind));
        }
        std::future::pending().await
    }

    /// Answers a request of a page for the document at `url`.
    pub(super) async fn answer(&self, url: &Url) -> Response<Full<Bytes>> {
        let path = path_in(url);
        let (answer, answered) = oneshot::channel();
        let sender = self.senders(|senders| {
            senders.retain(|sender| !sender.is_closed());
            senders.last().cloned()
        });
        let is_sent = sender.is_some_and(|sender| sender.send(Wish { path: path.clone(), answer }).is_ok());
        if !is_sent {
            return empty(StatusCode::SERVICE_UNAVAILABLE);
        }
        let Ok(Some((content, kind))) = answered.await else {
            return empty(StatusCode::NOT_FOUND);
        };
        let mut answer = Response::new(Full::new(Bytes::from(content.to_vec())));
        let headers = answer.headers_mut();
        let kind = if kind.starts_with("text/") && !kind.contains("charset") { format!("{kind}; charset=utf-8") } else { kind };
        headers.insert(CONTENT_TYPE, kind.parse().unwrap_or(HeaderValue::from_static("application/octet-stream")));
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        // A document changes during a run.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        answer
    }

    fn senders<T>(&self, change: impl FnOnce(&mut Vec<mpsc::UnboundedSender<Wish>>) -> T) -> T {
        change(&mut self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the path of the document that is shown at `page`.
fn path_in(page: &Url) -> String {
    percent_decode_str(page.path().trim_start_matches('/')).decode_utf8_lossy().into_owned()
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = status;
    answer
}
