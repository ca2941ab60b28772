//! A provider on loopback: accepts requests, and sends the given answers byte for byte.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A server that runs until it is dropped.
pub(crate) struct Server {
    /// Its address, without a path.
    pub(crate) url: String,
    received: Arc<Mutex<Vec<Received>>>,
    accepting: JoinHandle<()>,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) path: String,
    /// By their names in lower case.
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Value,
}

/// An answer of the server.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    end: End,
}

/// End of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// As HTTP has it.
    Well,
    /// The connection breaks after the body.
    Broken,
    /// Nothing more comes, and the connection stays.
    Silent,
    /// Nothing comes at all.
    Mute,
    /// The body comes again and again.
    Endless,
}

impl Reply {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Self { status, headers, body: body.into(), end: End::Well }
    }

    pub(crate) fn stream(body: impl Into<Vec<u8>>) -> Self {
        Self::new(200, body).with("content-type", "text/event-stream")
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn ending(self, end: End) -> Self {
        Self { end, ..self }
    }
}

impl Server {
    /// Answers each request with the result of `answer`, which gets the number of earlier requests and the request.
    pub(crate) async fn start(answer: impl Fn(usize, &Received) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let url = format!("http://{}", listener.local_addr().expect("a bound port has an address"));
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let (log, answer) = (Arc::clone(&received), Arc::new(answer));
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                tokio::spawn(async move {
                    // The client may be gone before the answer is sent.
                    let _gone = serve(stream, &log, &*answer).await;
                });
            }
        });
        Self { url, received, accepting }
    }

    /// Returns the requests so far, in order.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().expect("nobody panics with it").clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(
    mut stream: TcpStream,
    log: &Mutex<Vec<Received>>,
    answer: &(dyn Fn(usize, &Received) -> Reply + Send + Sync),
) -> std::io::Result<()> {
    let request = receive(&mut stream).await?;
    let before = {
        let mut log = log.lock().expect("nobody panics with it");
        log.push(request.clone());
        log.len() - 1
    };
    let reply = answer(before, &request);
    if reply.end == End::Mute {
        return stay(stream).await;
    }
    let mut head = format!("HTTP/1.1 {} Told\r\ntransfer-encoding: chunked\r\nconnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).await?;
    loop {
        if !reply.body.is_empty() {
            stream.write_all(format!("{:x}\r\n", reply.body.len()).as_bytes()).await?;
            stream.write_all(&reply.body).await?;
            stream.write_all(b"\r\n").await?;
        }
        match reply.end {
            End::Endless => tokio::task::yield_now().await,
            End::Well => return stream.write_all(b"0\r\n\r\n").await,
            End::Broken => return Ok(()),
            End::Silent | End::Mute => return stay(stream).await,
        }
    }
}

/// Holds the connection until the other side leaves.
async fn stay(mut stream: TcpStream) -> std::io::Result<()> {
    while stream.read(&mut [0; 64]).await? > 0 {}
    Ok(())
}

/// Returns the next request on `stream`.
pub(crate) async fn receive(stream: &mut TcpStream) -> std::io::Result<Received> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        let read = stream.read(&mut piece).await?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&piece[..read]);
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let path = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
    let headers: HashMap<String, String> =
        lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    let length: usize = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or_default();
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        let read = stream.read(&mut piece).await?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        body.extend_from_slice(&piece[..read]);
    }
    Ok(Received { path, headers, body: serde_json::from_slice(&body).unwrap_or_default() })
}
