//! Addresses that only this machine can reach, in every spelling, asked for directly and by a page that sends on.
//!
//! A canary listens on the loopback. Its port is one that a person allowed, so that nothing but the judgement of the
//! address keeps a request away from it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::{Scene, Size, Tally};

/// Calls of one turn.
const CALLS: usize = 15;

/// Asks for every address, and looks at who was connected to.
pub fn attack(size: Size) -> anyhow::Result<Tally> {
    let canary = Canary::listen()?;
    let all = spellings(canary.port);
    let spellings: Vec<&String> = all.iter().step_by(if size == Size::Full { 1 } else { 7 }).collect();
    let redirector = TcpListener::bind("127.0.0.1:0")?;
    let sender = redirector.local_addr()?;
    let targets: Vec<String> = spellings.iter().map(|&spelling| spelling.clone()).collect();
    thread::spawn(move || redirector.incoming().flatten().for_each(|stream| send_on(stream, &targets)));

    let direct = spellings.iter().map(|&spelling| spelling.clone());
    let sent_on = (0..spellings.len()).map(|index| format!("http://{sender}/{index}"));
    let urls: Vec<String> = direct.chain(sent_on).collect();
    let results = fetch(&urls, canary.port, &format!("127.0.0.1:{}", sender.port()))?;
    let mut tally = Tally::default();
    for (url, result) in urls.iter().zip(&results) {
        let message = result["error"]["message"].as_str().unwrap_or_default();
        // The engine's messages when nothing was sent.
        let is_refused = ["not allowed", "is not a web address", "has no address", "not followed", "404"]
            .iter()
            .any(|words| message.contains(words));
        let meant = url.strip_prefix(&format!("http://{sender}/")).and_then(|index| spellings.get(index.parse::<usize>().ok()?));
        let meant = meant.map_or_else(|| url.clone(), |spelling| format!("a redirect to {spelling}"));
        tally.count((!is_refused).then(|| format!("{meant}: {result}")));
    }
    let connections = canary.connections.load(Ordering::SeqCst);
    tally.count((connections > 0).then(|| format!("{connections} connections reached the canary")));
    Ok(tally)
}

/// A server on the loopback that counts who connects to it.
struct Canary {
    port: u16,
    connections: Arc<AtomicUsize>,
}

impl Canary {
    fn listen() -> anyhow::Result<Self> {
        let first = TcpListener::bind("127.0.0.1:0")?;
        let port = first.local_addr()?.port();
        let others = ["127.0.0.2", "127.1.2.3", "[::1]"].map(|host| TcpListener::bind(format!("{host}:{port}")));
        let connections = Arc::new(AtomicUsize::new(0));
        for listener in std::iter::once(first).chain(others.into_iter().flatten()) {
            let connections = Arc::clone(&connections);
            thread::spawn(move || {
                for mut stream in listener.incoming().flatten() {
                    connections.fetch_add(1, Ordering::SeqCst);
                    let _gone = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nSECRET");
                }
            });
        }
        let canary = Self { port, connections };
        // The trap is sprung once, so that its silence means something.
        TcpStream::connect(("127.0.0.1", port))?.read_to_end(&mut Vec::new())?;
        ensure!(canary.connections.swap(0, Ordering::SeqCst) == 1, "the canary does not count");
        Ok(canary)
    }
}

/// Answers `GET /INDEX` with a redirect to that target.
fn send_on(mut stream: TcpStream, targets: &[String]) {
    let mut request = [0; 2_048];
    let read = stream.read(&mut request).unwrap_or(0);
    let line = String::from_utf8_lossy(&request[..read]).into_owned();
    let index = line.split(' ').nth(1).and_then(|path| path.trim_start_matches('/').parse::<usize>().ok());
    let Some(target) = index.and_then(|index| targets.get(index)) else {
        // A target without `//` is relative: it leads back here.
        let _gone = stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        return;
    };
    let target: String = target.chars().filter(|character| !matches!(character, '\r' | '\n' | '\t')).collect();
    let answer = format!("HTTP/1.1 302 Found\r\nlocation: {target}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let _gone = stream.write_all(answer.as_bytes());
}

/// Fetches each of `urls` in one run; their results, in order.
fn fetch(urls: &[String], port: u16, allowed: &str) -> anyhow::Result<Vec<Value>> {
    let scene = Scene::new()?;
    let mut turns: Vec<Value> = urls
        .chunks(CALLS)
        .map(|urls| {
            let calls: Vec<Value> = urls.iter().map(|url| json!({"tool": "fetch_page", "input": {"url": url}})).collect();
            json!({"calls": calls, "literal": true})
        })
        .collect();
    turns.push(json!({"text": "done"}));
    let limits = json!({"limits": {"turns": turns.len() + 2, "parallel_calls": CALLS + 1}});
    scene.write_job("fetching", &[("lead", &["fetch_page"])], json!({"lead": {"turns": turns}}), limits)?;
    let settings = json!({"tool_id": "fetch_page", "set": {"allow_hosts": [allowed], "allow_ports": [port]}});
    scene.write("fetching/tools/fetch_page.json", settings.to_string())?;
    let ran = scene.run(&["run", "fetching", "--trust", "--output", "ndjson"])?;
    ensure!(ran.code == Some(0), "the run failed: {}", ran.text());
    let text = String::from_utf8(ran.stdout)?;
    let mut results: Vec<(u32, u32, Value)> = Vec::new();
    for line in text.lines() {
        let entry: Value = serde_json::from_str(line)?;
        // `0/3.2`: task, turn and position.
        if entry["entry"] != "call_finished" && entry["entry"] != "call_refused" {
            continue;
        }
        let Some((turn, position)) = entry["call"].as_str().and_then(|call| call.rsplit('/').next()?.split_once('.')) else {
            continue;
        };
        if let (Ok(turn), Ok(position)) = (turn.parse(), position.parse()) {
            results.push((turn, position, entry["result"].clone()));
        }
    }
    results.sort_by_key(|(turn, position, _)| (*turn, *position));
    results.dedup_by_key(|(turn, position, _)| (*turn, *position));
    ensure!(results.len() == urls.len(), "{} results for {} calls: {text}", results.len(), urls.len());
    Ok(results.into_iter().map(|(_, _, result)| result).collect())
}

/// Addresses of this machine, its network and its cloud, as somebody could write them.
fn spellings(port: u16) -> Vec<String> {
    let hosts = "
        127.0.0.1 127.0.0.2 127.1.2.3 127.1 127.0.1 2130706433 0x7f000001 0x7F.0.0.1 0x7f.1 017700000001 0177.0.0.1 0177.1
        127.0.0.1. 127.0.0.01 00177.0.0.1 127.0.0.0x1 127.0x0.1 0 0.0.0.0 0.0.0.1 00 0x0
        [::1] [::] [0:0:0:0:0:0:0:1] [0000:0000:0000:0000:0000:0000:0000:0001] [::127.0.0.1] [::ffff:127.0.0.1] [::ffff:7f00:1]
        [::ffff:0:127.0.0.1] [64:ff9b::127.0.0.1] [64:ff9b::7f00:1] [64:ff9b:1::127.0.0.1] [2002:7f00:1::] [2002:7f00:0001::1]
        [2001:0:7f00:1::] [fe80::1] [fec0::1] [fc00::1] [fd00::1] [fd00:ec2::254] [ff02::1] [2001:db8::1] [3fff::1] [100::1]
        localhost LOCALHOST LocalHost localhost. localhost.localdomain a.localhost x.y.localhost ip6-localhost.localdomain
        ｌｏｃａｌｈｏｓｔ ⓛⓞⓒⓐⓛⓗⓞⓢⓣ loc%61lhost 127.0.0.1%2e 127。0。0。1 127．0．0．1 １２７.0.0.1 ①②⑦.⓪.⓪.① 127%2e0%2e0%2e1
        printer.local router.home.arpa host.internal metadata.google.internal metadata.google.internal. hidden.onion
        169.254.169.254 169.254.169.254. 2852039166 0xa9fea9fe 0251.0376.0251.0376 169.254.43518 169.16689662 [::ffff:169.254.169.254]
        [::ffff:a9fe:a9fe] [64:ff9b::a9fe:a9fe] 169.254.170.2 168.63.129.16 100.100.100.200 192.0.0.192
        10.0.0.1 10.1 0xa.0.0.1 167772161 012.0.0.1 172.16.0.1 172.31.255.255 192.168.0.1 192.168.1 3232235521 100.64.0.1 100.127.255.255
        192.0.2.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 4294967295 [::ffff:10.0.0.1]
        [::ffff:192.168.0.1] [64:ff9b::10.0.0.1] [2002:a00:1::] [2002:c0a8:1::] [::10.0.0.1] [fe80::a9fe:a9fe]";
    let mut spellings: Vec<String> = hosts.split_whitespace().map(|host| format!("http://{host}:{port}/")).collect();
    let more = [
        "http:127.0.0.1:PORT/",
        "http:/127.0.0.1:PORT/",
        "http:///127.0.0.1:PORT/",
        "http:\\\\127.0.0.1:PORT\\",
        "http://\\127.0.0.1:PORT/",
        "//127.0.0.1:PORT/",
        "HTTP://127.0.0.1:PORT/",
        " http://127.0.0.1:PORT/",
        "http://127.0.0.1:PORT",
        "http://user@127.0.0.1:PORT/",
        "http://example.com@127.0.0.1:PORT/",
        "http://127.0.0.1:PORT@example.com:PORT/",
        "http://example.com:80@127.0.0.1:PORT/",
        "http://127.0.0.1:PORT#@example.com/",
        "http://127.0.0.1:PORT?@example.com/",
        "http://127.0.0.1:PORT/..;/example.com",
        "http://127.0.0.1\\@example.com:PORT/",
        "http://exa\tmple.com@127.0.0.1:PORT/",
        "http://127.0.0.1\r\n:PORT/",
        "https://127.0.0.1:PORT/",
        "ws://127.0.0.1:PORT/",
        "ftp://127.0.0.1:PORT/",
        "file:///etc/passwd",
        "file://127.0.0.1/etc/passwd",
        "gopher://127.0.0.1:PORT/_GET",
        "data:text/html,SECRET",
        "javascript:alert(1)",
        "blob:http://127.0.0.1:PORT/x",
        "view-source:http://127.0.0.1:PORT/",
        "unix:/run/x.sock",
        "http://[::1%25lo]:PORT/",
        "http://[::1%lo]:PORT/",
        "http://127.0.0.1:22/",
        "http://localhost:6379/",
    ];
    spellings.extend(more.map(|spelling| spelling.replace("PORT", &port.to_string())));
    spellings
}

/// Returns the number of spellings, for the everyday tests.
pub fn count() -> anyhow::Result<usize> {
    let spellings = spellings(1);
    let distinct: std::collections::BTreeSet<_> = spellings.iter().collect();
    (distinct.len() == spellings.len()).then_some(spellings.len()).context("the list has an address twice")
}
