//! Providers that are away: the run stops, names the provider and the reason, and continues when the provider is back.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;

use serde_json::{Value, json};

use crate::models::{KEY, hello, holding};
use crate::support::Folder;

/// A server's reaction to a request.
#[derive(Clone, Debug)]
enum Does {
    /// Answers with a status line, headers and a body.
    Answers(&'static str, &'static str, String),
    /// Sends no answer and keeps the connection.
    Hangs,
    /// Answers with bytes that are neither HTTP nor TLS.
    Babbles,
}

fn well() -> Does {
    Does::Answers("200 OK", "content-type: application/json\r\n", hello())
}

/// Serves these reactions in turn on `listener`, and then repeats the last one. The server ends with its process.
fn serve(listener: TcpListener, does: Vec<Does>) -> mpsc::Receiver<()> {
    let (sender, asked) = mpsc::channel();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for (before, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let _first_bytes = stream.read(&mut [0; 16 << 10]);
            // The test may have dropped the receiver.
            let _enough = sender.send(());
            kept.extend(answer(stream, &does[before.min(does.len() - 1)]));
        }
    });
    asked
}

/// Returns the connection if it must stay open.
fn answer(mut stream: TcpStream, does: &Does) -> Option<TcpStream> {
    let sent = match does {
        Does::Hangs => return Some(stream),
        Does::Babbles => "\u{1}\u{2}\u{3} this is neither HTTP nor TLS".to_owned(),
        Does::Answers(status, headers, body) => {
            format!("HTTP/1.1 {status}\r\n{headers}connection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        }
    };
    // The client may have closed the connection.
    let _gone = stream.write_all(sent.as_bytes());
    None
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Returns a folder with a job whose provider `mine` is at `url`, and is retried for a second.
fn folder(url: &str, more: Value) -> Folder {
    let folder = Folder::new();
    folder.echo_job();
    let mut provider = json!({
        "like": "llamacpp", "base_url": url, "key": {"env": "MINE_KEY"}, "outage_seconds": 1,
        "timeouts": {"first_byte_seconds": 1, "connect_seconds": 2}
    });
    provider.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    folder.write("config/baton/models.json", json!({"providers": {"mine": provider}}).to_string());
    folder.write(".env", format!("MINE_KEY={KEY}\n"));
    folder.baton(&["doctor", "echoing", "--offline", "--trust"]).exits(0);
    folder
}

const RUN: [&str; 4] = ["run", "echoing", "--model", "mine:m"];

#[test]
fn whatever_keeps_a_provider_away_the_run_stops_and_goes_on_when_it_is_back() {
    let html = "<html><title>Log in</title></html>";
    let page = Does::Answers("200 OK", "content-type: text/html\r\n", html.to_owned());
    let refusal = || json!({"error": {"message": "no"}}).to_string();
    let answers = |status, headers| Does::Answers(status, headers, refusal());
    let is_page = |status, headers| Does::Answers(status, headers, html.to_owned());
    let streams = |events: &str| Does::Answers("200 OK", "content-type: text/event-stream\r\n", events.to_owned());
    let cut = "data: {\"choices\":[{\"delta\":{\"content\":\"he\"}}]}\n\n";
    let table = [
        ("401", answers("401 Unauthorized", ""), "mine refused the key in MINE_KEY: no"),
        ("402", answers("402 Payment Required", ""), "the account at mine has no credit: no"),
        ("403", answers("403 Forbidden", ""), "mine refused the key in MINE_KEY: no"),
        (
            "429 for a day",
            answers("429 Too Many Requests", "retry-after: 86400\r\n"),
            "mine reports a rate limit and asks to wait 86400 s",
        ),
        ("503", answers("503 Busy", ""), "mine failed with status 503: no"),
        ("a hang", Does::Hangs, "mine took too long: no answer began within 1 s"),
        ("babble", Does::Babbles, "the answer of mine is broken"),
        ("a cut stream", streams(cut), "the answer of mine is broken: the stream ended without"),
        ("junk events", streams("data: junk\n\ndata: more\n\n"), "the answer of mine is broken"),
        (
            "a gateway's page",
            is_page("404 Not Found", "content-type: text/html\r\n"),
            "the answer came from a proxy or another server, not from mine (status 404",
        ),
        (
            "a portal",
            is_page("302 Found", "location: http://127.0.0.1:9/\r\n"),
            "the answer came from a proxy or another server, not from mine (status 302",
        ),
        (
            "a page",
            page,
            "the answer came from a proxy or another server, not from mine (status 200, text/html): <html><title>Log in</title></html>",
        ),
    ];
    for (name, does, reason) in table {
        println!("{name}");
        let (listener, address) = listen();
        let folder = folder(&format!("http://{address}/v1"), json!({}));
        // The server reacts in the same way until it is cured, however many attempts are made within the second.
        let is_cured = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let cure = std::sync::Arc::clone(&is_cured);
        std::thread::spawn(move || {
            let mut kept = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _first_bytes = stream.read(&mut [0; 16 << 10]);
                let does = if cure.load(std::sync::atomic::Ordering::SeqCst) { well() } else { does.clone() };
                kept.extend(answer(stream, &does));
            }
        });
        let ran = folder.baton(&RUN).exits(5);
        ran.tells("waiting for mine").tells(reason).tells("baton resume");
        assert_eq!(folder.status(), "waiting for mine", "{name}");
        let shown = folder.baton(&["show", "@last", "--output", "json"]).json();
        assert_eq!((&shown["status"], &shown["result"]), (&json!("waiting_for_provider"), &Value::Null), "{name}");
        assert_eq!(shown["error"]["code"], "model_unavailable", "{name}");
        folder.baton(&["resume", "@last"]).exits(5);
        is_cured.store(true, std::sync::atomic::Ordering::SeqCst);
        folder.baton(&["resume", "@last"]).exits(0).says("hello");
        assert_eq!(folder.status(), "completed", "{name}");
        assert!(holding(folder.path(), KEY).is_empty(), "{name}");
    }
}

#[test]
fn a_provider_that_cannot_be_reached_is_named_with_the_reason() {
    let (listener, closed) = listen();
    drop(listener);
    let (listener, plain) = listen();
    let _asked = serve(listener, vec![Does::Babbles]);
    let table = [
        (format!("http://{closed}/v1"), "Connection refused"),
        (format!("https://{plain}/v1"), ""),
        ("http://nobody.invalid/v1".to_owned(), ""),
    ];
    for (url, reason) in table {
        let folder = folder(&url, json!({}));
        folder.baton(&RUN).exits(5).tells("mine cannot be reached at").tells(reason).tells("baton resume");
        assert_eq!(folder.status(), "waiting for mine", "{url}");
    }
}

#[test]
fn a_run_goes_on_when_a_closed_port_opens_again() {
    let (listener, address) = listen();
    drop(listener);
    let folder = folder(&format!("http://{address}/v1"), json!({}));
    folder.baton(&RUN).exits(5);
    let asked = serve(TcpListener::bind(address).unwrap(), vec![well()]);
    folder.baton(&["resume", "@last"]).exits(0).says("hello");
    assert_eq!(asked.try_iter().count(), 1);
}

#[test]
fn a_provider_that_comes_back_within_its_window_costs_the_run_nothing() {
    let (listener, address) = listen();
    let busy = Does::Answers("503 Busy", "", "{}".to_owned());
    let asked = serve(listener, vec![busy.clone(), busy, well()]);
    let folder = folder(&format!("http://{address}/v1"), json!({"outage_seconds": 600}));
    let ran = folder.baton(&RUN).exits(0).says("hello").tells("mine answers again after").tells("mine failed with status 503");
    assert_eq!(asked.try_iter().count(), 3);
    ran.tells("backing off · attempt 2 · next in ").tells("backing off · attempt 3 · next in ");
}

#[test]
fn a_fallback_is_asked_at_once_where_nothing_answers() {
    let (listener, closed) = listen();
    drop(listener);
    let (listener, open) = listen();
    let asked = serve(listener, vec![well()]);
    let folder = Folder::new();
    folder.echo_job();
    let provider = |address: SocketAddr| json!({"like": "llamacpp", "base_url": format!("http://{address}/v1")});
    let models = json!({
        "models": {"fast": {"model": "first:m", "fallbacks": ["second:m"]}},
        "providers": {"first": provider(closed), "second": provider(open)},
    });
    folder.write("config/baton/models.json", models.to_string());
    folder.baton(&["run", "echoing", "--model", "fast"]).exits(0).says("hello").tells("asks second:m instead of fast");
    assert_eq!(asked.try_iter().count(), 1);
}
