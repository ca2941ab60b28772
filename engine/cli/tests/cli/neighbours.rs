//! `baton breadcrumb search` by meaning, with the person's own embeddings endpoint.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use serde_json::{Value, json};

use crate::support::{Folder, Ran};

/// Returns the vector of a text: cars, and all else.
fn vector(text: &str) -> [u8; 2] {
    let is_car = ["car", "automobile"].iter().any(|word| text.to_lowercase().contains(word));
    [u8::from(is_car), u8::from(!is_car)]
}

/// Starts an embeddings endpoint, and sends the requests into the channel. It ends with its process.
fn endpoint() -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (sender, received) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let request = receive(&mut stream);
            let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
            let texts = body["input"].as_array().unwrap();
            let data: Vec<Value> = texts.iter().map(|text| json!({"embedding": vector(text.as_str().unwrap())})).collect();
            let body = json!({"data": data}).to_string();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n", body.len());
            write!(stream, "{head}connection: close\r\n\r\n{body}").unwrap();
            // The test may have dropped the receiver.
            let _enough = sender.send(request);
        }
    });
    (url, received)
}

fn receive(stream: &mut TcpStream) -> String {
    let (mut text, mut piece) = (String::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut piece).unwrap();
        text.push_str(&String::from_utf8_lossy(&piece[..read]));
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok()).unwrap_or(0);
        if read == 0 || text.split_once("\r\n\r\n").is_some_and(|(_, body)| body.len() >= length) {
            return text;
        }
    }
}

fn models(url: &str) -> String {
    json!({
        "models": {"near": {"model": "mine:concepts"}},
        "providers": {"mine": {"like": "llamacpp", "base_url": url, "key": {"env": "MINE_KEY"}}},
        "embeddings": {"model": "near"},
    })
    .to_string()
}

fn search(folder: &Folder, arguments: &[&str]) -> Ran {
    folder.baton(&[&["breadcrumb", "search"], arguments].concat())
}

fn found(folder: &Folder, arguments: &[&str]) -> Value {
    search(folder, &[arguments, &["--output", "json"]].concat()).exits(0).json()
}

fn titles(found: &Value) -> Vec<&str> {
    found["breadcrumbs"].as_array().unwrap().iter().map(|record| record["title"].as_str().unwrap()).collect()
}

fn filled() -> Folder {
    let folder = Folder::new();
    folder.write("baton.json", "{}");
    for title in ["An automobile", "Rice"] {
        folder.baton(&["breadcrumb", "create", "--title", title]).exits(0);
    }
    folder.baton(&["breadcrumb", "create", "--title", "A car of mine", "--sensitivity", "secret"]).exits(0);
    folder
}

#[test]
fn a_person_searches_by_meaning_with_an_endpoint_of_their_own() {
    let folder = filled();
    let (url, received) = endpoint();
    folder.write("config/baton/models.json", models(&url));
    folder.write(".env", "MINE_KEY=sk-own-key\n");
    let untrusted = found(&folder, &["automobile"]);
    assert_eq!((&untrusted["method"], titles(&untrusted)), (&json!("fulltext"), vec!["An automobile"]));
    assert!(untrusted["warning"].as_str().unwrap().contains(".env of the project"), "{untrusted}");
    assert!(received.try_recv().is_err(), "nothing was sent");
    folder.echo_job();
    folder.baton(&["doctor", "echoing", "--offline", "--trust"]).exits(0);
    let near = found(&folder, &["a car", "--nn", "1"]);
    assert_eq!(
        (&near["method"], titles(&near), near.get("warning")),
        (&json!("vector"), vec!["An automobile", "A car of mine"], None)
    );
    let requests: Vec<String> = received.try_iter().collect();
    assert!(requests.iter().all(|request| request.starts_with("POST /v1/embeddings") && request.contains("Bearer sk-own-key")));
    assert!(requests.iter().all(|request| !request.contains("of mine")), "a secret record is not sent: {requests:?}");
    assert_eq!(requests.len(), 2, "the words, and the records");
    search(&folder, &["a car", "--nn", "1"]).exits(0).says("An automobile");
    assert_eq!(received.try_iter().count(), 1, "the vectors are kept");
    assert_eq!(found(&folder, &["a car", "--nn", "0"])["method"], json!("fulltext"));
    assert_eq!(found(&folder, &["--limit", "1"])["method"], json!("filter"));
    assert_eq!(received.try_iter().count(), 0);
    folder.baton(&["verify"]).exits(0).says("3 breadcrumbs");
}

#[test]
fn a_search_by_words_names_the_reason() {
    let folder = filled();
    let plain = found(&folder, &["rice"]);
    assert_eq!((&plain["method"], plain.get("warning")), (&json!("fulltext"), None));
    search(&folder, &["rice", "--nn", "3"])
        .exits(0)
        .says("Rice")
        .tells("searched by words: models.json names no model for embeddings");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    folder.write("config/baton/models.json", models(&url).replace(r#","key":{"env":"MINE_KEY"}"#, ""));
    search(&folder, &["rice"]).exits(0).says("Rice").tells("searched by words: mine cannot be reached");
    folder.write("config/baton/models.json", r#"{"embeddings": {"model": "anthropic:m"}}"#);
    search(&folder, &["rice"]).exits(2).tells("has no models for embeddings");
    search(&folder, &["--tag", "x"]).exits(0);
}

#[test]
fn a_job_sends_records_to_an_address_of_its_own_only_with_trust() {
    let folder = filled();
    let (url, received) = endpoint();
    let script = json!({"lead": {"turns": [
        {"calls": [{"tool": "breadcrumb-search", "as": "near", "input": {"query": "a car", "nn": 1}}]},
        {"calls": [{"tool": "handoff", "input": {"result": {"found": "{{ results.near.method }} {{ results.near.count }}"}}}]},
    ]}});
    folder.job("finding", &[("lead", &["breadcrumb-search", "handoff"])], script, json!({}));
    folder.write("finding/models.json", models(&url));
    folder.write(".env", "MINE_KEY=sk-own-key\n");
    folder.baton(&["run", "finding"]).exits(2).tells("--trust").tells(&url).tells("MINE_KEY");
    assert!(received.try_recv().is_err(), "nothing was sent");
    folder.baton(&["run", "finding", "--trust"]).exits(0).says("vector 1");
    let requests: Vec<String> = received.try_iter().collect();
    assert_eq!(requests.len(), 2, "the words, and the records");
    assert!(requests.iter().all(|request| request.contains("Bearer sk-own-key") && !request.contains("of mine")), "{requests:?}");
    let entries = folder.baton(&["timeline", "@last", "--output", "json"]).exits(0).stdout;
    assert!(entries.contains("\"mine:concepts\"") && !entries.contains("sk-own-key"), "its requests are entries: {entries}");
    // A script that replaces all models needs no network.
    let replacing = ["run", "finding", "--script", "finding/the.script.json"];
    folder.baton(&replacing).exits(0).says("fulltext 0");
    folder.baton(&["run", "finding", "--record", "tapes"]).exits(0).says("fulltext 0");
    assert_eq!(received.try_iter().count(), 0);
}
