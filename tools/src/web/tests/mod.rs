//! The web against a server on loopback that counts, at its sockets, who connects to it.

mod addresses;
mod bombs;
mod redirects;

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_tool::BoxFuture;

use super::site::{Piece, Site};
use super::*;

/// Returns limits that are short enough for tests, and far longer than loopback needs.
fn quick() -> Bounds {
    Bounds { idle: Duration::from_secs(20), total: Duration::from_mins(1), ..Bounds::default() }
}

/// Names as a test has them: each look takes the next answer, the last one stays.
#[derive(Clone, Default)]
struct Names {
    answers: Arc<Mutex<HashMap<String, Vec<Vec<IpAddr>>>>>,
    looks: Arc<AtomicUsize>,
}

impl Names {
    fn with(self, host: &str, answers: &[&[&str]]) -> Self {
        let read = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
        self.answers.lock().unwrap().insert(host.to_owned(), answers.iter().map(read).collect());
        self
    }

    fn looks(&self) -> usize {
        self.looks.load(Ordering::SeqCst)
    }
}

impl Resolver for Names {
    fn addresses(&self, host: &str) -> BoxFuture<'_, io::Result<Vec<IpAddr>>> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().unwrap();
        let answer = match answers.get_mut(host) {
            Some(answers) if answers.len() > 1 => Ok(answers.remove(0)),
            Some(answers) => Ok(answers[0].clone()),
            None => Err(io::Error::other("no such name")),
        };
        Box::pin(std::future::ready(answer))
    }
}

/// Asks what `hosts` and `ports` allow.
fn fetcher(hosts: &[&str], ports: &[u16], bounds: Bounds, names: &Names) -> Fetcher {
    let allowed = Allowed::parse(hosts.iter().copied(), ports.to_vec()).unwrap();
    Fetcher::new(allowed, bounds, Arc::new(names.clone())).unwrap()
}

/// Returns the page at the root of `site`, which is allowed.
async fn page_of(site: &Site, bounds: Bounds) -> Result<Page, FetchError> {
    let host = format!("127.0.0.1:{}", site.port);
    fetcher(&[&host], &[], bounds, &Names::default()).page(&format!("http://{host}/")).await
}

#[tokio::test]
async fn a_page_of_an_allowed_host_is_read() {
    let site = Site::start(|_| vec![Piece::text("200 OK", "text/html; charset=UTF-8", "<p>hello")]).await;
    let page = page_of(&site, quick()).await.unwrap();
    assert_eq!((page.content_type.as_str(), page.body.as_slice()), ("text/html; charset=utf-8", &b"<p>hello"[..]));
    assert_eq!(site.connections(), 1);
    let head = site.requests().remove(0).to_lowercase();
    for private in ["cookie", "referer", "authorization"] {
        assert!(!head.contains(private), "{head}");
    }
}

#[tokio::test]
async fn only_text_that_was_found_is_a_page() {
    let site = Site::start(|request| {
        if request.starts_with("GET /zip") {
            vec![Piece::text("200 OK", "application/zip", "PK\x03\x04../x")]
        } else {
            vec![Piece::text("404 Not Found", "text/html", "no")]
        }
    })
    .await;
    let host = format!("127.0.0.1:{}", site.port);
    let mut fetcher = fetcher(&[&host], &[], quick(), &Names::default());
    let kind = fetcher.page(&format!("http://{host}/zip")).await.unwrap_err();
    assert_eq!(kind, FetchError::Type { host: "127.0.0.1".to_owned(), kind: "application/zip".to_owned() });
    let missing = fetcher.page(&format!("http://{host}/")).await.unwrap_err();
    assert_eq!(missing, FetchError::Status { host: "127.0.0.1".to_owned(), status: 404 });
}
